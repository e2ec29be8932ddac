/* Command lines by table (struct aml_option, agileml/types.h): parsing, and the text of --help. Does not print errors,
 * does not act on --help, and keeps no state. Sets no defaults: the caller has put them into the targets. */
#ifndef AGILEML_BASE_OPTIONS_H
#define AGILEML_BASE_OPTIONS_H

#include <stddef.h>
#include <stdio.h>

#include "agileml/base/error.h"
#include "agileml/types.h"

enum {
    OPTIONS_NAME_MAX = 64,           /* bytes of a name that suggestions consider */
    OPTIONS_SUGGESTION_DISTANCE = 2, /* at most so many edits between an unknown name and a suggestion */
    OPTIONS_HELP_COLUMN_MAX = 36,    /* where the text of --help begins at the latest */
};

/* Reads options from argv[1] on into the targets of the tables. Stops at the first operand (an argument that does not
 * begin with '-', or is just "-") or behind "--", and sets *first_operand to the index of the next argument, which is
 * argc if there is none.
 *
 * An option is written --name VALUE or --name=VALUE, with its exact name. -h stands for --help, which the caller
 * declares and handles as any flag. Of a repeated option the last value counts, but AML_OPTION_STRINGS takes all; of a
 * name in two tables the first table's option. A separate VALUE may begin with '-', as numbers do, but not with "--":
 * then the value was most likely forgotten. --name=--text gives such a value.
 *
 * Whole numbers are decimal and fit int64_t. Their limits are doubles, so keep limits within 2^53, where doubles are
 * exact. Real numbers are decimal and finite; an infinite limit is no limit.
 *
 * Returns AML_EINPUT with one line in *error for a wrong command line; targets set before the error keep their new
 * values. String targets point into argv. */
int options_parse(const struct aml_option *const tables[], size_t table_count, int argc, char **argv,
                  int *first_operand, struct error *error);

/* As options_parse, but takes options behind and between operands too, up to "--". Reorders argv: the operands are its
 * last arguments, in their order. For commands whose operands are no command line of another program. */
int options_parse_mixed(const struct aml_option *const tables[], size_t table_count, int argc, char **argv,
                        int *first_operand, struct error *error);

/* Writes a table for --help: one option a line, texts aligned. Shows the targets' present values as the defaults, so
 * call it before options_parse changes them. */
void options_help(FILE *stream, const struct aml_option *table);

/* Returns how many edits (insert, delete, replace a byte) turn a into b. b_length < OPTIONS_NAME_MAX. */
size_t options_distance(const char *a, size_t a_length, const char *b, size_t b_length);

#endif
