/* See history.h. */
#include "web/history.h"

#include "agileml/base/memory.h"
#include "web/history_fold.h"

#include <jansson.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

enum { STRIDE_MAX = 1 << 30 };

/* The kept lines of one type. */
struct kept {
    struct history_line **lines;
    uint64_t *places; /* for each line, its point's place among all points of this type, from 0 */
    size_t count, capacity;
    size_t bytes;
    uint64_t seen; /* points of this type so far */
    uint64_t stride;
};

enum kind {
    KIND_ITERATION,
    KIND_CLOCK,
    KIND_USAGE,
    KIND_MONEY,
    KIND_NODES,
    KIND_DECISION,
    KIND_NOTE,
    KIND_EVENT, /* and types without a kind */
    KINDS
};
#define THINNED KIND_NODES /* kinds before this one are thinned */

struct history {
    char run[HISTORY_RUN_TEXT];
    uint64_t next;
    bool whole;
    struct kept kept[KINDS];
};

/* ---- Lines ---- */

struct history_line *history_line_new(uint64_t number, const struct report_line *read, const char *text, size_t size) {
    struct history_line *line = memory_zeroed(1, sizeof *line + size + 1);
    line->references = 1;
    line->is = read != NULL ? read->is : REPORT_UNKNOWN;
    line->seconds = read != NULL ? read->seconds : NAN;
    line->number = number;
    line->size = size;
    memcpy(line->text, text, size);
    return line;
}

static struct history_line *line_of(uint64_t number, const char *text, size_t size) {
    struct report_line *read = report_line_read(text, size, NULL);
    struct history_line *line = history_line_new(number, read, text, size);
    report_line_drop(read);
    return line;
}

struct history_line *history_line_hold(struct history_line *line) {
    line->references++;
    return line;
}

void history_line_drop(struct history_line *line) {
    if (line != NULL && --line->references == 0) {
        free(line);
    }
}

static enum kind kind_of(const struct history_line *line) {
    static const enum kind kinds[REPORT_TYPES] = {
        [REPORT_CLOCK] = KIND_CLOCK, [REPORT_USAGE] = KIND_USAGE,       [REPORT_MONEY] = KIND_MONEY,
        [REPORT_NODES] = KIND_NODES, [REPORT_DECISION] = KIND_DECISION, [REPORT_NOTE] = KIND_NOTE};
    bool other = line->is != REPORT_ITERATION && kinds[line->is] == KIND_ITERATION;
    return other ? KIND_EVENT : kinds[line->is];
}

/* Whether a line belongs to the same point as the line before. The usage of many nodes takes several lines with the
 * same time. */
static bool is_same_point(enum kind kind, const struct history_line *line, const struct history_line *before) {
    return kind == KIND_USAGE && line->seconds == before->seconds;
}

/* ---- The kept lines of a type ---- */

static void kept_append(struct kept *kept, struct history_line *line, uint64_t place) {
    if (kept->count == kept->capacity) {
        kept->capacity = kept->capacity > 0 ? 2 * kept->capacity : 64;
        kept->lines = memory_resized(kept->lines, kept->capacity, sizeof *kept->lines);
        kept->places = memory_resized(kept->places, kept->capacity, sizeof *kept->places);
    }
    kept->lines[kept->count] = history_line_hold(line);
    kept->places[kept->count++] = place;
    kept->bytes += line->size;
}

/* Keeps the lines for which `stays` is true. */
static void kept_filter(struct kept *kept, bool (*stays)(const struct kept *kept, size_t index)) {
    size_t left = 0;
    for (size_t l = 0; l < kept->count; l++) {
        if (stays(kept, l)) {
            kept->lines[left] = kept->lines[l];
            kept->places[left++] = kept->places[l];
        } else {
            kept->bytes -= kept->lines[l]->size;
            history_line_drop(kept->lines[l]);
        }
    }
    kept->count = left;
}

static bool is_on_stride(const struct kept *kept, size_t index) {
    return kept->places[index] % kept->stride == 0 || kept->places[index] == kept->places[kept->count - 1];
}

/* Returns how many of the oldest lines are dropped at once. */
static size_t older_part(const struct kept *kept) {
    return kept->count / 8 > 2 ? kept->count / 8 : 2;
}

static bool is_in_newer_part(const struct kept *kept, size_t index) {
    return index >= older_part(kept);
}

/* Keeps only the last of the oldest lines, which then combines what all of them say about the nodes. */
static bool is_last_of_older_part(const struct kept *kept, size_t index) {
    return index + 1 >= older_part(kept);
}

static void kept_fold(struct kept *kept) {
    size_t last = older_part(kept) - 1;
    char *text = history_fold(kept->lines, last + 1);
    struct history_line *folded =
        text != NULL ? line_of(kept->lines[last]->number, text, strlen(text)) : history_line_hold(kept->lines[last]);
    free(text);
    kept->bytes += folded->size;
    kept->bytes -= kept->lines[last]->size;
    history_line_drop(kept->lines[last]);
    kept->lines[last] = folded;
    kept_filter(kept, is_last_of_older_part);
}

static void kept_add_point(struct kept *kept, enum kind kind, struct history_line *line) {
    if (kept->count > 0 && is_same_point(kind, line, kept->lines[kept->count - 1])) {
        kept_append(kept, line, kept->places[kept->count - 1]);
        return; /* its bytes count when the next point comes */
    }
    uint64_t newest = kept->count > 0 ? kept->places[kept->count - 1] : 0;
    while (kept->count > 0 && newest % kept->stride != 0 && kept->places[kept->count - 1] == newest) {
        kept->count--; /* it was there only as the newest */
        kept->bytes -= kept->lines[kept->count]->size;
        history_line_drop(kept->lines[kept->count]);
    }
    kept_append(kept, line, kept->seen++);
    while (kept->bytes > HISTORY_CURVE_BYTES && kept->count > 2 && kept->stride < STRIDE_MAX) {
        kept->stride *= 2;
        kept_filter(kept, is_on_stride);
    }
}

/* Returns whether all lines so far are still there. */
static bool kept_add_item(struct kept *kept, enum kind kind, struct history_line *line) {
    bool whole = true;
    kept_append(kept, line, kept->seen++);
    while (kept->bytes > HISTORY_LIST_BYTES && kept->count > 8) {
        if (kind == KIND_NODES) {
            kept_fold(kept);
        } else {
            kept_filter(kept, is_in_newer_part);
        }
        whole = false;
    }
    return whole;
}

/* ---- The history ---- */

struct history *history_new(void) {
    struct history *history = memory_zeroed(1, sizeof *history);
    uint64_t random = 0;
    if (getrandom(&random, sizeof random, 0) != (ssize_t)sizeof random) {
        abort(); /* impossible: a running kernel always has random bytes */
    }
    snprintf(history->run, sizeof history->run, "%016llx", (unsigned long long)random);
    history->whole = true;
    for (unsigned k = 0; k < KINDS; k++) {
        history->kept[k].stride = 1;
    }
    return history;
}

void history_free(struct history *history) {
    for (unsigned k = 0; history != NULL && k < KINDS; k++) {
        for (size_t l = 0; l < history->kept[k].count; l++) {
            history_line_drop(history->kept[k].lines[l]);
        }
        free(history->kept[k].lines);
        free(history->kept[k].places);
    }
    free(history);
}

void history_add(struct history *history, struct history_line *line) {
    if (line->number < history->next) {
        return;
    }
    enum kind kind = kind_of(line);
    history->whole = history->whole && line->number == history->next;
    history->next = line->number + 1;
    if (kind < THINNED) {
        kept_add_point(&history->kept[kind], kind, line);
    } else {
        history->whole = kept_add_item(&history->kept[kind], kind, line) && history->whole;
    }
}

uint64_t history_next(const struct history *history) {
    return history->next;
}

const char *history_run(const struct history *history) {
    return history->run;
}

/* ---- As text ---- */

static struct history_line *head_line(const struct history *history) {
    char text[256];
    int size =
        snprintf(text, sizeof text, "{\"type\":\"history\",\"run\":\"%s\",\"next\":%llu,\"whole\":%s,\"strides\":[",
                 history->run, (unsigned long long)history->next, history->whole ? "true" : "false");
    for (unsigned k = 0; k < THINNED; k++) {
        size += snprintf(text + size, sizeof text - (size_t)size, "%s%llu", k > 0 ? "," : "",
                         (unsigned long long)history->kept[k].stride);
    }
    size += snprintf(text + size, sizeof text - (size_t)size, "]}");
    return history_line_new(0, NULL, text, (size_t)size);
}

struct history_view history_view_open(const struct history *history) {
    size_t at[KINDS] = {0};
    size_t count = 1;
    for (unsigned k = 0; k < KINDS; k++) {
        count += history->kept[k].count;
    }
    struct history_view view = {.lines = memory_zeroed(count, sizeof(struct history_line *)), .count = count};
    view.lines[0] = head_line(history);
    for (size_t l = 1; l < count; l++) {
        unsigned first = KINDS;
        for (unsigned k = 0; k < KINDS; k++) {
            const struct kept *kept = &history->kept[k];
            if (at[k] < kept->count &&
                (first == KINDS || kept->lines[at[k]]->number < history->kept[first].lines[at[first]]->number)) {
                first = k;
            }
        }
        view.lines[l] = history_line_hold(history->kept[first].lines[at[first]++]);
    }
    return view;
}

void history_view_close(struct history_view *view) {
    for (size_t l = 0; l < view->count; l++) {
        history_line_drop(view->lines[l]);
    }
    free(view->lines);
    *view = (struct history_view){0};
}

void history_view_write(const struct history_view *view, FILE *stream) {
    for (size_t l = 0; l < view->count; l++) {
        fwrite(view->lines[l]->text, 1, view->lines[l]->size, stream);
        putc('\n', stream);
    }
}

/* Reads the first line. Returns false if it is no head line. */
static bool read_head(struct history *history, const char *text, uint64_t *next, bool *whole) {
    json_t *head = json_loads(text, 0, NULL);
    const char *run = json_string_value(json_object_get(head, "run"));
    const json_t *number = json_object_get(head, "next");
    const json_t *strides = json_object_get(head, "strides");
    bool good = run != NULL && strlen(run) == HISTORY_RUN_TEXT - 1 &&
                strspn(run, "0123456789abcdef") == HISTORY_RUN_TEXT - 1 && json_is_integer(number) &&
                json_integer_value(number) >= 0 && json_array_size(strides) == THINNED;
    for (unsigned k = 0; good && k < THINNED; k++) {
        json_int_t stride = json_integer_value(json_array_get(strides, k));
        good = stride >= 1 && stride <= STRIDE_MAX && (stride & (stride - 1)) == 0;
        history->kept[k].stride = good ? (uint64_t)stride : 1;
    }
    if (good) {
        memcpy(history->run, run, HISTORY_RUN_TEXT);
        *next = (uint64_t)json_integer_value(number);
        *whole = json_is_true(json_object_get(head, "whole"));
    }
    json_decref(head);
    return good;
}

/* Restores a line that was kept. Its original number and place are unknown; only their order matters. */
static void restore_line(struct history *history, uint64_t number, const char *text, size_t size) {
    struct history_line *line = line_of(number, text, size);
    enum kind kind = kind_of(line);
    struct kept *kept = &history->kept[kind];
    bool continues = kept->count > 0 && is_same_point(kind, line, kept->lines[kept->count - 1]);
    kept_append(kept, line, continues ? kept->places[kept->count - 1] : kept->seen);
    kept->seen += continues ? 0 : kept->stride;
    history_line_drop(line);
}

int history_read(struct history *history, FILE *stream, struct error *error) {
    char *text = NULL;
    size_t capacity = 0;
    uint64_t next = 0;
    bool whole = true;
    uint64_t count = 0;
    int result = 0;
    ssize_t size;
    while (result == 0 && (size = getline(&text, &capacity, stream)) > 0) {
        bool ends = text[size - 1] == '\n';
        text[size - 1] = ends ? '\0' : text[size - 1];
        bool good = ends && strlen(text) == (size_t)size - 1 &&
                    (count > 0 ? text[0] == '{' && count <= next : read_head(history, text, &next, &whole));
        if (!good) {
            result = error_set(error, AML_EINPUT, "line %llu is not one of a history", (unsigned long long)count + 1);
        } else if (count++ > 0) {
            restore_line(history, count - 2, text, (size_t)size - 1); /* below `next`: no more lines than there were */
        }
    }
    if (result == 0 && count == 0) {
        result = error_set(error, AML_EINPUT, "it is empty");
    }
    history->next = result == 0 ? next : 0;
    history->whole = whole;
    free(text);
    return result;
}
