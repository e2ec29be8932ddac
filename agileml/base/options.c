/* Parses command lines. See options.h. */
#include "agileml/base/options.h"

#include <assert.h>
#include <errno.h>
#include <math.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

enum {
    OPTIONS_QUOTE_MAX = 100, /* bytes of an argument that a message repeats */
    OPTIONS_RANGE_MAX = 96,  /* bytes of "a whole number from X to Y" */
};

/* Computes Levenshtein's distance, keeping one row of its table. */
size_t options_distance(const char *a, size_t a_length, const char *b, size_t b_length) {
    assert(a_length <= OPTIONS_NAME_MAX && b_length <= OPTIONS_NAME_MAX);
    size_t row[OPTIONS_NAME_MAX + 1];
    for (size_t j = 0; j <= b_length; j++) {
        row[j] = j;
    }
    for (size_t i = 1; i <= a_length; i++) {
        size_t diagonal = row[0];
        row[0] = i;
        for (size_t j = 1; j <= b_length; j++) {
            size_t best = diagonal + (a[i - 1] == b[j - 1] ? 0 : 1);
            size_t other = (row[j] < row[j - 1] ? row[j] : row[j - 1]) + 1;
            diagonal = row[j];
            row[j] = best < other ? best : other;
        }
    }
    return row[b_length];
}

static const struct aml_option *options_find(const struct aml_option *const tables[], size_t table_count,
                                             const char *name, size_t length) {
    for (size_t t = 0; t < table_count; t++) {
        for (const struct aml_option *option = tables[t]; option->name != NULL; option++) {
            bool named = strlen(option->name) == length && memcmp(option->name, name, length) == 0;
            if (named && option->target != NULL) {
                return option;
            }
        }
    }
    return NULL;
}

/* Returns the option name nearest to an unknown name, or NULL when none is near enough. */
static const char *options_suggestion(const struct aml_option *const tables[], size_t table_count, const char *name,
                                      size_t length) {
    const char *suggestion = NULL;
    /* Excludes names in which every byte would change. */
    size_t limit = length <= OPTIONS_SUGGESTION_DISTANCE ? length : OPTIONS_SUGGESTION_DISTANCE + 1;
    if (length > OPTIONS_NAME_MAX) {
        return NULL;
    }
    for (size_t t = 0; t < table_count; t++) {
        for (const struct aml_option *option = tables[t]; option->name != NULL; option++) {
            size_t option_length = strlen(option->name);
            if (option_length > OPTIONS_NAME_MAX || option->target == NULL) {
                continue;
            }
            size_t distance = options_distance(name, length, option->name, option_length);
            if (distance < limit) {
                limit = distance;
                suggestion = option->name;
            }
        }
    }
    return suggestion;
}

/* Writes what a number's option expects, such as "a whole number from 1 to 9". */
static void options_describe_range(const struct aml_option *option, char text[OPTIONS_RANGE_MAX]) {
    /* Limits of whole numbers are shown in full, others in the shortest form. */
    bool whole = option->type == AML_OPTION_INTEGER;
    const char *kind = whole ? "a whole number" : "a number";
    int digits = whole ? 17 : 10;
    bool bounded_below = isfinite(option->minimum) != 0;
    bool bounded_above = isfinite(option->maximum) != 0;
    if (bounded_below && bounded_above) {
        snprintf(text, OPTIONS_RANGE_MAX, "%s from %.*g to %.*g", kind, digits, option->minimum, digits,
                 option->maximum);
    } else if (bounded_below) {
        snprintf(text, OPTIONS_RANGE_MAX, "%s of at least %.*g", kind, digits, option->minimum);
    } else if (bounded_above) {
        snprintf(text, OPTIONS_RANGE_MAX, "%s of at most %.*g", kind, digits, option->maximum);
    } else {
        snprintf(text, OPTIONS_RANGE_MAX, "%s", kind);
    }
}

/* Writes what an option with a value expects. */
static void options_describe_values(const struct aml_option *option, char text[OPTIONS_RANGE_MAX]) {
    if (option->type == AML_OPTION_INTEGER || option->type == AML_OPTION_REAL) {
        options_describe_range(option, text);
    } else if (option->type == AML_OPTION_STRINGS &&
               ((const struct aml_strings *)option->target)->count == AML_STRINGS_MAX) {
        snprintf(text, OPTIONS_RANGE_MAX, "it at most %d times", AML_STRINGS_MAX);
    } else {
        snprintf(text, OPTIONS_RANGE_MAX, "a value");
    }
}

/* Reads a decimal number: an optional sign and digits. Returns false for anything else, or a number beyond int64_t. */
static bool options_read_integer(const char *text, int64_t *value) {
    size_t sign = text[0] == '-' || text[0] == '+' ? 1 : 0;
    size_t digits = strspn(text + sign, "0123456789");
    if (digits == 0 || text[sign + digits] != '\0') {
        return false;
    }
    errno = 0;
    long long read = strtoll(text, NULL, 10);
    *value = (int64_t)read;
    return errno == 0;
}

/* Reads a decimal number as strtod does. Returns false for spaces, hexadecimal numbers, infinities and NaN. */
static bool options_read_real(const char *text, double *value) {
    size_t length = strspn(text, "0123456789+-.eE");
    if (length == 0 || text[length] != '\0') {
        return false;
    }
    char *end;
    *value = strtod(text, &end);
    return *end == '\0' && isfinite(*value);
}

static bool options_in_range(const struct aml_option *option, double value) {
    return value >= option->minimum && value <= option->maximum;
}

/* Stores the value of an option that is no flag. Returns false when the text is not what the option expects. */
static bool options_store(const struct aml_option *option, const char *text) {
    int64_t integer;
    double real;
    struct aml_strings *strings;
    assert(option->type != AML_OPTION_FLAG);
    switch (option->type) {
    case AML_OPTION_INTEGER:
        if (!options_read_integer(text, &integer) || !options_in_range(option, (double)integer)) {
            return false;
        }
        *(int64_t *)option->target = integer;
        return true;
    case AML_OPTION_REAL:
        if (!options_read_real(text, &real) || !options_in_range(option, real)) {
            return false;
        }
        *(double *)option->target = real;
        return true;
    case AML_OPTION_STRING:
    case AML_OPTION_WORD:
        *(const char **)option->target = text;
        return true;
    case AML_OPTION_STRINGS:
        strings = option->target;
        if (strings->count == AML_STRINGS_MAX) {
            return false;
        }
        strings->values[strings->count++] = text;
        return true;
    case AML_OPTION_FLAG:
        break;
    }
    return false;
}

static int options_unknown(const struct aml_option *const tables[], size_t table_count, const char *argument,
                           const char *name, size_t name_length, struct error *error) {
    size_t length = (size_t)(name - argument) + name_length;
    int shown = length < OPTIONS_QUOTE_MAX ? (int)length : OPTIONS_QUOTE_MAX;
    const char *suggestion = options_suggestion(tables, table_count, name, name_length);
    if (suggestion != NULL) {
        return error_set(error, AML_EINPUT, "unknown option '%.*s'; did you mean '--%s'? See --help", shown, argument,
                         suggestion);
    }
    return error_set(error, AML_EINPUT, "unknown option '%.*s'; see --help", shown, argument);
}

/* Reads the option at argv[*index], and moves *index behind the option and its value. */
static int options_parse_one(const struct aml_option *const tables[], size_t table_count, int argc, char **argv,
                             int *index, struct error *error) {
    const char *argument = argv[(*index)++];
    bool is_long = argument[1] == '-';
    const char *name = argument + (is_long ? 2 : 1);
    size_t name_length = is_long ? strcspn(name, "=") : strlen(name);
    const char *value = name[name_length] == '=' ? name + name_length + 1 : NULL;

    const struct aml_option *option = NULL;
    if (is_long) {
        option = options_find(tables, table_count, name, name_length);
    } else if (strcmp(name, "h") == 0) {
        option = options_find(tables, table_count, "help", strlen("help"));
    }
    if (option == NULL) {
        return options_unknown(tables, table_count, argument, name, name_length, error);
    }

    if (option->type == AML_OPTION_FLAG) {
        if (value != NULL) {
            return error_set(error, AML_EINPUT, "--%s: takes no value, got '%.*s'", option->name, OPTIONS_QUOTE_MAX,
                             value);
        }
        *(bool *)option->target = true;
        return AML_OK;
    }

    char expected[OPTIONS_RANGE_MAX];
    options_describe_values(option, expected);
    if (value == NULL) {
        if (*index >= argc) {
            return error_set(error, AML_EINPUT, "--%s: expected %s, got nothing", option->name, expected);
        }
        value = argv[(*index)++];
        if (strncmp(value, "--", 2) == 0) {
            return error_set(error, AML_EINPUT, "--%s: expected %s, got '%.*s'; write --%s=%.*s if that is meant",
                             option->name, expected, OPTIONS_QUOTE_MAX, value, option->name, OPTIONS_QUOTE_MAX, value);
        }
    }
    if (!options_store(option, value)) {
        return error_set(error, AML_EINPUT, "--%s: expected %s, got '%.*s'", option->name, expected, OPTIONS_QUOTE_MAX,
                         value);
    }
    return AML_OK;
}

static bool options_is_operand(const char *argument) {
    return argument[0] != '-' || argument[1] == '\0';
}

int options_parse(const struct aml_option *const tables[], size_t table_count, int argc, char **argv,
                  int *first_operand, struct error *error) {
    int index = 1;
    while (index < argc && !options_is_operand(argv[index])) {
        if (strcmp(argv[index], "--") == 0) {
            index++;
            break;
        }
        int code = options_parse_one(tables, table_count, argc, argv, &index, error);
        if (code != AML_OK) {
            return code;
        }
    }
    *first_operand = index < argc ? index : argc;
    return AML_OK;
}

int options_parse_mixed(const struct aml_option *const tables[], size_t table_count, int argc, char **argv,
                        int *first_operand, struct error *error) {
    int index = 1;
    int operands = 0; /* operands are moved to argv[1] and on, over options already read */
    while (index < argc && strcmp(argv[index], "--") != 0) {
        if (options_is_operand(argv[index])) {
            argv[1 + operands++] = argv[index++];
            continue;
        }
        int code = options_parse_one(tables, table_count, argc, argv, &index, error);
        if (code != AML_OK) {
            return code;
        }
    }
    index = index < argc ? index + 1 : argc;
    memmove(argv + index - operands, argv + 1, (size_t)operands * sizeof *argv);
    *first_operand = index - operands;
    return AML_OK;
}
