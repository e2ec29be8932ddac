/* The controller's answer to STATUS as a table for people: the job, then a line for each node. */
#ifndef PROTEUS_STATUS_TEXT_H
#define PROTEUS_STATUS_TEXT_H

#include <jansson.h>
#include <stdio.h>

enum { STATUS_ROLE_TEXT = 64 };

/* Prints control characters of texts as '?': texts come from nodes and apps, and must not control the terminal. */
void status_print(FILE *stream, const json_t *answer);

#endif
