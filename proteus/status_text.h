/* The controller's answer to STATUS as a table for people: about the job, then a line a node. */
#ifndef PROTEUS_STATUS_TEXT_H
#define PROTEUS_STATUS_TEXT_H

#include <jansson.h>
#include <stdio.h>

enum { STATUS_ROLE_TEXT = 64 };

/* Texts in the answer come from nodes and apps: control characters in them, which a terminal would obey, are printed as
 * '?'. */
void status_print(FILE *stream, const json_t *answer);

#endif
