/* Command lines by table (struct aml_option, agileml/types.h): parsing, and the text of --help. Does not print
 * errors, and keeps no state. The caller puts the defaults into the targets before. */
#ifndef AGILEML_BASE_OPTIONS_H
#define AGILEML_BASE_OPTIONS_H

#include <stddef.h>
#include <stdio.h>

#include "agileml/base/error.h"
#include "agileml/types.h"

enum {
    OPTIONS_NAME_MAX = 64,           /* bytes of a name that suggestions consider */
    OPTIONS_SUGGESTION_DISTANCE = 2, /* most edits between an unknown name and a suggestion */
    OPTIONS_HELP_COLUMN_MAX = 36,    /* last column at which the text of --help may begin */
    OPTIONS_HELP_WIDTH = 80,         /* columns of --help */
};

/* Entries of a table that are not options but headings of --help. OPTIONS_TOPIC begins a topic, which lasts up to
 * the next OPTIONS_TOPIC or the table's end; `about` describes it in a few words. OPTIONS_HEADING stands before
 * options that every --help shows: those before the first topic of their table. */
#define OPTIONS_TOPIC(name, about)                                                                                     \
    { "", name, AML_OPTION_FLAG, NULL, 0, 0, about }
#define OPTIONS_HEADING(text)                                                                                          \
    { "", NULL, AML_OPTION_FLAG, NULL, 0, 0, text }

/* Reads options from argv[1] on into the targets of the tables. Stops at the first operand (an argument that does not
 * begin with '-', or is just "-") or behind "--", and sets *first_operand to the index of the next argument, which is
 * argc if there is none.
 *
 * An option is written --name VALUE or --name=VALUE, with its exact name. -h stands for --help, which the caller
 * declares and handles as any flag. The last value of a repeated option counts, but AML_OPTION_STRINGS collects all.
 * If two tables have the same name, the first table's option counts. A separate VALUE may begin with '-', as numbers
 * do, but not with "--", as then the value was most likely forgotten. Write --name=--text for such a value. An entry
 * without a target is only text of --help.
 *
 * Whole numbers are decimal and fit int64_t. Their limits are doubles, so keep limits within 2^53, where doubles are
 * exact. Real numbers are decimal and finite; an infinite limit is no limit.
 *
 * Returns AML_EINPUT with one line in *error for a wrong command line; targets set before the error keep their new
 * values. String targets point into argv. */
int options_parse(const struct aml_option *const tables[], size_t table_count, int argc, char **argv,
                  int *first_operand, struct error *error);

/* Like options_parse, but also accepts options after and between operands, up to "--". Reorders argv so that the
 * operands are its last arguments, in their order. Not for commands whose operands are another program's command
 * line. */
int options_parse_mixed(const struct aml_option *const tables[], size_t table_count, int argc, char **argv,
                        int *first_operand, struct error *error);

/* Answers --help or -h, if it is among the arguments before "--": prints `about` (usage lines), a blank line, the
 * tables' options before their first topics, and the list of topics. '--help all' prints the topics' options too,
 * '--help TOPIC' only those of one topic, from all tables. If no table has topics, --help prints all options. It
 * shows the targets' present values as defaults, so call this before options_parse.
 *
 * Returns 0 if help is not requested, 1 after printing it, AML_EINPUT for an unknown topic. */
int options_help(const char *about, const struct aml_option *const tables[], size_t table_count, int argc, char **argv,
                 struct error *error);

/* Writes what --help prints about `topic`; NULL: no topic was given. Returns 0 or AML_EINPUT. */
int options_write_help(FILE *stream, const char *about, const struct aml_option *const tables[], size_t table_count,
                       const char *topic, struct error *error);

/* Returns the number of edits (insert, delete or replace a byte) that turn a into b. b_length < OPTIONS_NAME_MAX. */
size_t options_distance(const char *a, size_t a_length, const char *b, size_t b_length);

#endif
