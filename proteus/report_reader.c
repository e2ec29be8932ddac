/* See report_reader.h. */
#include "proteus/report_reader.h"

#include "agileml/base/log.h"
#include "agileml/base/memory.h"
#include "agileml/base/text_input.h"

#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

struct reader {
    const char *name; /* name of the file, for messages */
    struct text_input *input;
    char *bytes; /* REPORT_LINE_MAX + 1 bytes */
    size_t held; /* bytes read, from the start of a line */
    bool ended;  /* the file has been read to its end */
    uint64_t number, taken;
    report_taker *take;
    void *context;
};

static int bad_line(const struct reader *reader, const char *what, struct error *error) {
    return error_set(error, AML_EINPUT, "%s:%llu: %s; expected a report's line, an object of JSON with a type",
                     reader->name, (unsigned long long)reader->number, what);
}

/* bidbrain's own report also has lines of JSON with a type, but none that the page shows. */
static bool is_of_bidbrain(const char *type) {
    return strcmp(type, "launch") == 0 || strcmp(type, "machine") == 0 || strcmp(type, "bill") == 0;
}

/* Takes a line of `size` bytes, followed by a 0. `whole`: its line end was read. */
static int take_line(struct reader *reader, const char *text, size_t size, bool whole, struct error *error) {
    struct error problem = {0};
    reader->number++;
    if (size > 0 && text[size - 1] == '\r') {
        size--;
    }
    struct report_line *line = report_line_read(text, size, &problem);
    if (line == NULL && !whole) {
        log_warn("%s:%llu: the last line is cut off; it is left out", reader->name, (unsigned long long)reader->number);
        return 0;
    }
    int result = 0;
    if (line == NULL) {
        result = bad_line(reader, size == 0 ? "an empty line" : problem.text, error);
    } else if (line->type == NULL) {
        result = bad_line(reader, "no type", error);
    } else if (is_of_bidbrain(line->type)) {
        result = error_set(error, AML_EINPUT,
                           "%s:%llu: a line of the report of 'bidbrain run'; expected a job's report, as --report of "
                           "'proteus run' and 'proteus controller' writes it",
                           reader->name, (unsigned long long)reader->number);
    } else {
        reader->taken++;
        reader->take(reader->context, line, text, size);
    }
    report_line_drop(line);
    return result;
}

/* Takes all complete lines, and moves the rest to the front. */
static int take_lines(struct reader *reader, struct error *error) {
    char *line = reader->bytes;
    char *limit = reader->bytes + reader->held;
    char *end;
    int result = 0;
    while (result == 0 && (end = memchr(line, '\n', (size_t)(limit - line))) != NULL) {
        *end = '\0';
        result = take_line(reader, line, (size_t)(end - line), true, error);
        line = end + 1;
    }
    reader->held = (size_t)(limit - line);
    memmove(reader->bytes, line, reader->held);
    if (result == 0 && reader->held == REPORT_LINE_MAX) {
        reader->number++;
        result = bad_line(reader, "a line of more than 1 MiB", error);
    }
    return result;
}

static int take_all(struct reader *reader, struct error *error) {
    int result = 0;
    while (result == 0 && !reader->ended) {
        size_t room = REPORT_LINE_MAX - reader->held;
        size_t got;
        result = text_input_read(reader->input, reader->bytes + reader->held, room, &got, error);
        if (result == 0) {
            reader->held += got;
            reader->ended = got < room;
            result = take_lines(reader, error);
        }
    }
    if (result == 0 && reader->held > 0) {
        reader->bytes[reader->held] = '\0';
        result = take_line(reader, reader->bytes, reader->held, false, error);
    }
    if (result == 0 && reader->taken == 0) {
        result =
            error_set(error, AML_EINPUT, "%s: no line; expected a job's report, as --report writes it", reader->name);
    }
    return result;
}

int report_read(const char *path, report_taker *take, void *context, struct error *error) {
    struct reader reader = {.name = text_input_name(path), .take = take, .context = context};
    int result = text_input_open(&reader.input, path, error);
    if (result != 0) {
        return result;
    }
    reader.bytes = memory_zeroed(1, REPORT_LINE_MAX + 1);
    result = take_all(&reader, error);
    free(reader.bytes);
    text_input_close(reader.input);
    return result;
}
