/* The text of --help. See options.h. */
#include "agileml/base/memory.h"
#include "agileml/base/options.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

enum {
    HELP_INDENT = 2,
    HELP_GAP = 2,          /* least number of spaces between an option and its text */
    HELP_DEFAULT_MAX = 256 /* bytes of a default, which may be a long path */
};

/* An entry of a table that --help shows. */
struct help_entry {
    const struct aml_option *option;
    const char *topic; /* the topic that the entry belongs to or begins; NULL: before the first topic of its table */
};

struct help_list {
    struct help_entry *entries;
    size_t count;
};

static bool is_heading(const struct aml_option *option) {
    return option->name[0] == '\0';
}

static bool same_topic(const char *topic, const char *other) {
    return topic == other || (topic != NULL && other != NULL && strcmp(topic, other) == 0);
}

static bool list_has(const struct help_list *list, const struct aml_option *option) {
    bool found = false;
    for (size_t e = 0; e < list->count && !found; e++) {
        found = !is_heading(option) && strcmp(list->entries[e].option->name, option->name) == 0;
    }
    return found;
}

/* Lists the tables' entries. Of options with the same name only the first table's is listed. */
static struct help_list list_make(const struct aml_option *const tables[], size_t table_count) {
    size_t most = 1;
    for (size_t t = 0; t < table_count; t++) {
        for (const struct aml_option *option = tables[t]; option->name != NULL; option++) {
            most++;
        }
    }
    struct help_list list = {.entries = memory_zeroed(most, sizeof *list.entries)};
    for (size_t t = 0; t < table_count; t++) {
        const char *topic = NULL;
        for (const struct aml_option *option = tables[t]; option->name != NULL; option++) {
            topic = is_heading(option) && option->value != NULL ? option->value : topic;
            if (!list_has(&list, option)) {
                list.entries[list.count++] = (struct help_entry){option, topic};
            }
        }
    }
    return list;
}

/* Returns the heading of the list's next topic after `from`; NULL: there is no further topic. */
static const struct aml_option *next_topic(const struct help_list *list, size_t *from) {
    while (*from < list->count) {
        const struct help_entry *entry = &list->entries[(*from)++];
        bool known = !is_heading(entry->option) || entry->option->value == NULL;
        for (size_t e = 0; e + 1 < *from && !known; e++) {
            known = same_topic(list->entries[e].topic, entry->topic);
        }
        if (!known) {
            return entry->option;
        }
    }
    return NULL;
}

/* ---- Lines ---- */

/* Writes words from column `at` on, and further lines from column `indent` on. Returns the column after the last
 * word. */
static size_t write_words(FILE *stream, const char *text, size_t at, size_t indent) {
    while (*text != '\0') {
        size_t length = strcspn(text, " ");
        if (at > indent && at + 1 + length > OPTIONS_HELP_WIDTH) {
            fprintf(stream, "\n%*s", (int)indent, "");
            at = indent;
        } else if (at > indent) {
            fputc(' ', stream);
            at++;
        }
        fwrite(text, 1, length, stream);
        at += length;
        text += length;
        text += strspn(text, " ");
    }
    return at;
}

/* Returns the length of "--name VALUE". */
static size_t synopsis_length(const struct aml_option *option) {
    return 2 + strlen(option->name) + (option->value != NULL ? 1 + strlen(option->value) : 0);
}

static void describe_default(const struct aml_option *option, char text[HELP_DEFAULT_MAX]) {
    text[0] = '\0';
    if (option->target == NULL) {
        return;
    }
    const char *string;
    switch (option->type) {
    case AML_OPTION_INTEGER:
        snprintf(text, HELP_DEFAULT_MAX, "(default: %" PRId64 ")", *(const int64_t *)option->target);
        break;
    case AML_OPTION_REAL:
        snprintf(text, HELP_DEFAULT_MAX, "(default: %.10g)", *(const double *)option->target);
        break;
    case AML_OPTION_STRING:
    case AML_OPTION_WORD:
        string = *(const char *const *)option->target;
        if (string != NULL) {
            snprintf(text, HELP_DEFAULT_MAX, "(default: %s)", string);
        }
        break;
    case AML_OPTION_STRINGS:
    case AML_OPTION_FLAG:
        break;
    }
}

static void write_option(FILE *stream, const struct aml_option *option, size_t column) {
    char given[HELP_DEFAULT_MAX];
    fprintf(stream, "%*s--%s%s%s", HELP_INDENT, "", option->name, option->value != NULL ? " " : "",
            option->value != NULL ? option->value : "");
    size_t end = HELP_INDENT + synopsis_length(option);
    if (end + HELP_GAP > column) { /* the text begins on the next line */
        fputc('\n', stream);
        end = 0;
    }
    fprintf(stream, "%*s", (int)(column - end), "");
    describe_default(option, given);
    write_words(stream, given, write_words(stream, option->help, column, column), column);
    fputc('\n', stream);
}

/* Writes the options and headings of a topic, or those before the first topic. */
static void write_options(FILE *stream, const struct help_list *list, const char *topic) {
    size_t column = 0;
    for (size_t e = 0; e < list->count; e++) {
        const struct aml_option *option = list->entries[e].option;
        size_t end = HELP_INDENT + synopsis_length(option) + HELP_GAP;
        bool counts = !is_heading(option) && same_topic(list->entries[e].topic, topic);
        if (counts && end > column && end <= OPTIONS_HELP_COLUMN_MAX) {
            column = end;
        }
    }
    column = column == 0 ? OPTIONS_HELP_COLUMN_MAX : column;
    for (size_t e = 0; e < list->count; e++) {
        const struct aml_option *option = list->entries[e].option;
        if (!same_topic(list->entries[e].topic, topic)) {
            continue;
        }
        if (!is_heading(option)) {
            write_option(stream, option, column);
        } else if (option->value == NULL) {
            fprintf(stream, "%s%s:\n", e > 0 ? "\n" : "", option->help);
        }
    }
}

static void write_topic(FILE *stream, const struct help_list *list, const struct aml_option *heading) {
    fprintf(stream, "%s (%s):\n", heading->value, heading->help);
    write_options(stream, list, heading->value);
}

/* Writes the list of topics, if there are any. */
static void write_topics(FILE *stream, const struct help_list *list) {
    size_t from = 0, at = 0;
    const struct aml_option *heading = next_topic(list, &from);
    if (heading == NULL) {
        return;
    }
    fputc('\n', stream);
    at = write_words(stream, "more by --help TOPIC:", 0, 0);
    for (; heading != NULL; heading = next_topic(list, &from)) {
        char text[HELP_DEFAULT_MAX];
        snprintf(text, sizeof text, "%s (%s),", heading->value, heading->help);
        at = write_words(stream, text, at, 0);
    }
    write_words(stream, "or all", at, 0);
    fputc('\n', stream);
}

/* ---- The requested help ---- */

static int unknown_topic(const struct help_list *list, const char *topic, struct error *error) {
    char names[HELP_DEFAULT_MAX] = "";
    size_t from = 0;
    for (const struct aml_option *next = next_topic(list, &from); next != NULL; next = next_topic(list, &from)) {
        size_t used = strlen(names);
        snprintf(names + used, sizeof names - used, "%s%s", used > 0 ? ", " : "", next->value);
    }
    return error_set(error, AML_EINPUT, "--help: expected %s or all, got '%.100s'", names, topic);
}

static int write_help(FILE *stream, const char *about, const struct help_list *list, const char *topic,
                      struct error *error) {
    size_t from = 0;
    const struct aml_option *heading = next_topic(list, &from);
    bool all = topic != NULL && strcmp(topic, "all") == 0;
    bool whole = heading == NULL || topic == NULL || all;
    while (!whole && heading != NULL && strcmp(heading->value, topic) != 0) {
        heading = next_topic(list, &from);
    }
    if (!whole && heading == NULL) {
        return unknown_topic(list, topic, error);
    }
    if (!whole) {
        write_topic(stream, list, heading);
        return 0;
    }
    fprintf(stream, "%s\n\n", about);
    write_options(stream, list, NULL);
    if (!all) {
        write_topics(stream, list);
    }
    for (; all && heading != NULL; heading = next_topic(list, &from)) {
        fputc('\n', stream);
        write_topic(stream, list, heading);
    }
    return 0;
}

int options_write_help(FILE *stream, const char *about, const struct aml_option *const tables[], size_t table_count,
                       const char *topic, struct error *error) {
    struct help_list list = list_make(tables, table_count);
    int result = write_help(stream, about, &list, topic, error);
    free(list.entries);
    return result;
}

int options_help(const char *about, const struct aml_option *const tables[], size_t table_count, int argc, char **argv,
                 struct error *error) {
    for (int a = 1; a < argc && strcmp(argv[a], "--") != 0; a++) {
        if (strcmp(argv[a], "--help") == 0 || strcmp(argv[a], "-h") == 0) {
            const char *next = a + 1 < argc && argv[a + 1][0] != '-' ? argv[a + 1] : NULL;
            int result = options_write_help(stdout, about, tables, table_count, next, error);
            return result == 0 ? 1 : result;
        }
    }
    return 0;
}
