/* Command lines by table (struct aml_option, agileml/types.h): parsing, and the text of --help.
 * Does not print errors, does not act on --help, keeps no state, and does not set defaults: the targets
 * hold them before. */
#ifndef AGILEML_BASE_OPTIONS_H
#define AGILEML_BASE_OPTIONS_H

#include <stddef.h>
#include <stdio.h>

#include "agileml/base/error.h"
#include "agileml/types.h"

enum {
    OPTIONS_NAME_MAX = 64,           /* bytes of a name that suggestions consider */
    OPTIONS_SUGGESTION_DISTANCE = 2, /* edits between what was written and what is suggested */
    OPTIONS_HELP_COLUMN_MAX = 36,    /* where the text of --help begins at the latest */
};

/* Reads options from argv[1] on into the targets of the tables, and stops at the first operand (an
 * argument that does not begin with '-', or is just "-") or behind "--". *first_operand is then the
 * index of what follows, argc if nothing does.
 *
 * Written as --name VALUE or --name=VALUE, with the exact name; -h stands for --help, which is a flag
 * like any other for the caller to declare and act on. When an option is repeated the last one counts;
 * when two tables have a name, the first table counts. A separate VALUE may begin with '-', as numbers
 * do, but not with "--", which is a forgotten value far more often; --name=--text says it is meant.
 *
 * Whole numbers are decimal and fit int64_t. Their limits are doubles, exact up to 2^53 in magnitude:
 * keep limits within that. Real numbers are decimal and finite; an infinite limit is no limit.
 *
 * AML_EINPUT with one line in *error on a wrong command line; targets read before it keep their new
 * values. String targets point into argv. */
int options_parse(const struct aml_option *const tables[], size_t table_count, int argc, char **argv,
                  int *first_operand, struct error *error);

/* Writes a table for --help, one option a line, texts aligned, with what the targets hold now as the
 * defaults: call it before options_parse, or exit status 0 right after. */
void options_help(FILE *stream, const struct aml_option *table);

/* Returns how many edits (insert, delete, replace a byte) turn a into b. b_length < OPTIONS_NAME_MAX. */
size_t options_distance(const char *a, size_t a_length, const char *b, size_t b_length);

#endif
