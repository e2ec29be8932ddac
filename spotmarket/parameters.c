/* See parameters.h. */
#include "spotmarket/parameters.h"

#include "agileml/base/instant.h"
#include "agileml/base/memory.h"
#include "bidbrain/market/money.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

void api_error_set(struct api_error *error, int status, const char *code, const char *format, ...) {
    if (error->status != 0) {
        return;
    }
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(error->message, sizeof error->message, format, arguments);
    va_end(arguments);
    snprintf(error->code, sizeof error->code, "%s", code);
    error->status = status;
}

static int hex_digit(char c) {
    return c >= '0' && c <= '9'   ? c - '0'
           : c >= 'a' && c <= 'f' ? c - 'a' + 10
           : c >= 'A' && c <= 'F' ? c - 'A' + 10
                                  : -1;
}

/* Decodes `size` bytes at `text` in place and appends a 0. Returns false when they are malformed or contain a 0
 * byte. */
static bool form_decode(char *text, size_t size) {
    char *out = text;
    for (size_t i = 0; i < size; i++, out++) {
        *out = text[i] == '+' ? ' ' : text[i];
        if (text[i] == '%') {
            int high = size - i > 2 ? hex_digit(text[i + 1]) : -1;
            int low = size - i > 2 ? hex_digit(text[i + 2]) : -1;
            if (high < 0 || low < 0) {
                return false;
            }
            *out = (char)(high * 16 + low);
            i += 2;
        }
        if (*out == '\0') {
            return false;
        }
    }
    *out = '\0';
    return true;
}

static int parameter_compare(const void *a, const void *b) {
    return strcmp(((const struct parameter *)a)->name, ((const struct parameter *)b)->name);
}

/* Adds "name=value", the `size` bytes at `pair`. */
static bool parameters_add(struct parameters *parameters, char *pair, size_t size) {
    char *equals = memchr(pair, '=', size);
    size_t name_size = equals != NULL ? (size_t)(equals - pair) : size;
    char *value = equals != NULL ? equals + 1 : pair + size;
    size_t value_size = equals != NULL ? size - name_size - 1 : 0;
    if (name_size == 0 || name_size >= PARAMETERS_NAME_MAX || parameters->count == PARAMETERS_MAX) {
        return false;
    }
    if (!form_decode(value, value_size) || !form_decode(pair, name_size)) {
        return false;
    }
    parameters->list[parameters->count++] = (struct parameter){.name = pair, .value = value};
    return true;
}

void parameters_open(struct parameters *parameters, const char *body, size_t size, struct api_error *error) {
    *parameters = (struct parameters){.error = error};
    parameters->buffer = memory_zeroed(size + 2, 1);
    memcpy(parameters->buffer, body, size);
    size_t pairs = 1;
    for (size_t i = 0; i < size; i++) {
        pairs += body[i] == '&';
    }
    parameters->list = memory_zeroed(pairs < PARAMETERS_MAX ? pairs : PARAMETERS_MAX, sizeof *parameters->list);
    char *end = parameters->buffer + size;
    for (char *pair = parameters->buffer; pair < end;) {
        char *next = memchr(pair, '&', (size_t)(end - pair));
        next = next != NULL ? next : end;
        if (next > pair && !parameters_add(parameters, pair, (size_t)(next - pair))) {
            api_error_set(error, 400, "MalformedQueryString",
                          "The request's body is not a list of parameters, or has "
                          "more than %d",
                          PARAMETERS_MAX);
            return;
        }
        pair = next + 1;
    }
    qsort(parameters->list, parameters->count, sizeof *parameters->list, parameter_compare);
    for (size_t i = 1; i < parameters->count; i++) {
        if (strcmp(parameters->list[i - 1].name, parameters->list[i].name) == 0) {
            api_error_set(error, 400, "InvalidParameterCombination", "The parameter %.100s is given twice",
                          parameters->list[i].name);
        }
    }
}

void parameters_close(struct parameters *parameters) {
    free(parameters->list);
    free(parameters->buffer);
    *parameters = (struct parameters){0};
}

static const char *parameters_take(struct parameters *parameters, const char *name) {
    struct parameter key = {.name = name};
    struct parameter *found = parameters->count == 0
                                  ? NULL
                                  : bsearch(&key, parameters->list, parameters->count, sizeof key, parameter_compare);
    if (found == NULL) {
        return NULL;
    }
    found->used = true;
    return found->value;
}

const char *parameters_text(struct parameters *parameters, const char *name, ...) {
    char full[PARAMETERS_NAME_MAX];
    va_list arguments;
    va_start(arguments, name);
    int length = vsnprintf(full, sizeof full, name, arguments);
    va_end(arguments);
    return length >= 0 && length < (int)sizeof full ? parameters_take(parameters, full) : NULL;
}

const char *parameters_required(struct parameters *parameters, const char *name) {
    const char *value = parameters_take(parameters, name);
    if (value == NULL || value[0] == '\0') {
        api_error_set(parameters->error, 400, "MissingParameter", "The request must contain the parameter %s", name);
        return "";
    }
    return value;
}

static void parameters_wrong(struct parameters *parameters, const char *name, const char *value, const char *expected) {
    api_error_set(parameters->error, 400, "InvalidParameterValue",
                  "Value (%.60s) for parameter %s is invalid: expected %s", value, name, expected);
}

int64_t parameters_integer(struct parameters *parameters, const char *name, int64_t lowest, int64_t highest,
                           int64_t absent) {
    const char *value = parameters_take(parameters, name);
    if (value == NULL) {
        return absent;
    }
    int64_t number = 0;
    size_t digits = strspn(value, "0123456789");
    if (digits > 0 && digits < 16 && value[digits] == '\0') {
        number = strtoll(value, NULL, 10);
        if (number >= lowest && number <= highest) {
            return number;
        }
    }
    char expected[80];
    snprintf(expected, sizeof expected, "a whole number from %" PRId64 " to %" PRId64, lowest, highest);
    parameters_wrong(parameters, name, value, expected);
    return absent;
}

bool parameters_flag(struct parameters *parameters, const char *name) {
    const char *value = parameters_take(parameters, name);
    if (value != NULL && strcmp(value, "true") != 0 && strcmp(value, "false") != 0) {
        parameters_wrong(parameters, name, value, "true or false");
    }
    return value != NULL && strcmp(value, "true") == 0;
}

int64_t parameters_time(struct parameters *parameters, const char *name, int64_t absent) {
    const char *value = parameters_take(parameters, name);
    int64_t time = absent;
    if (value != NULL && !instant_parse(value, &time)) {
        parameters_wrong(parameters, name, value, "a time such as 2016-03-01T00:00:00Z");
        return absent;
    }
    return time;
}

int64_t parameters_price(struct parameters *parameters, const char *name) {
    const char *value = parameters_take(parameters, name);
    int64_t price = PRICE_UNKNOWN;
    if (value != NULL && (!price_parse(value, &price) || price <= 0)) {
        parameters_wrong(parameters, name, value, "dollars per hour above 0");
        return PRICE_UNKNOWN;
    }
    return price;
}

size_t parameters_list(struct parameters *parameters, const char *name, const char **values) {
    size_t count = 0;
    const char *value;
    while ((value = parameters_text(parameters, "%s.%zu", name, count + 1)) != NULL) {
        if (count == PARAMETERS_LIST_MAX) {
            api_error_set(parameters->error, 400, "InvalidParameterValue", "%s has more than %d values", name,
                          PARAMETERS_LIST_MAX);
            break;
        }
        values[count++] = value;
    }
    return count;
}

bool parameters_has(const struct parameters *parameters, const char *prefix) {
    for (size_t i = 0; i < parameters->count; i++) {
        if (strncmp(parameters->list[i].name, prefix, strlen(prefix)) == 0) {
            return true;
        }
    }
    return false;
}

void parameters_ignore(struct parameters *parameters, const char *prefix) {
    for (size_t i = 0; i < parameters->count; i++) {
        if (strncmp(parameters->list[i].name, prefix, strlen(prefix)) == 0) {
            parameters->list[i].used = true;
        }
    }
}

bool parameters_end(struct parameters *parameters) {
    for (size_t i = 0; i < parameters->count; i++) {
        if (!parameters->list[i].used) {
            api_error_set(parameters->error, 400, "UnknownParameter", "The parameter %.100s is not recognized",
                          parameters->list[i].name);
            break;
        }
    }
    return parameters->error->status == 0;
}
