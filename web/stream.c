/* Answers that take time: streams of events; the history and the report, which may be long; and the status, which the
 * feeding thread makes. */
#include "web/server_private.h"

#include "agileml/base/memory.h"

#include <stdlib.h>
#include <string.h>

enum { BLOCK_BYTES = 16 << 10 /* most bytes that MHD requests at once */ };

/* ---- Suspended connections ---- */

void streams_resume(struct web *web, bool keepalive) {
    for (struct stream *stream = web->streams; stream != NULL; stream = stream->next) {
        stream->keepalive = stream->keepalive || keepalive;
        bool any = web->closing || stream->keepalive || stream->number < history_next(web->feed.history);
        if (stream->suspended && any) {
            stream->suspended = false;
            MHD_resume_connection(stream->connection);
        }
    }
}

struct waiter *waiter_new(struct web *web, struct MHD_Connection *connection, uint64_t action) {
    struct waiter *waiter = memory_zeroed(1, sizeof *waiter);
    waiter->connection = connection;
    waiter->action = action;
    waiter->since_ms = web_now_ms();
    waiter->next = web->waiters;
    web->waiters = waiter;
    MHD_suspend_connection(connection);
    return waiter;
}

void waiters_resume(struct web *web, uint64_t action, int code, const char *text) {
    uint64_t now_ms = web_now_ms();
    for (struct waiter *waiter = web->waiters; waiter != NULL; waiter = waiter->next) {
        bool late = now_ms - waiter->since_ms >= WEB_ANSWER_S * UINT64_C(1000);
        bool answered = waiter->action == action;
        if (!waiter->done && (answered || late)) {
            waiter->done = true;
            waiter->code = answered ? code : AML_EFAIL;
            snprintf(waiter->text, sizeof waiter->text, "%s", answered ? text : "no answer in time");
            MHD_resume_connection(waiter->connection);
        }
    }
}

void waiter_free(struct web *web, struct waiter *waiter) {
    pthread_mutex_lock(&web->mutex);
    struct waiter **at = &web->waiters;
    while (*at != waiter) {
        at = &(*at)->next;
    }
    *at = waiter->next;
    pthread_mutex_unlock(&web->mutex);
    free(waiter);
}

/* ---- Events ---- */

/* Returns the kept line `number`; NULL if it is not kept. */
static struct history_line *recent_line(const struct web_feed *feed, uint64_t number) {
    uint64_t first = feed->recent_count > 0 ? feed->recent[0]->number : 0;
    return feed->recent_count > 0 && number >= first && number - first < feed->recent_count
               ? feed->recent[number - first]
               : NULL;
}

/* Chooses the stream's next output: the head of an event and perhaps its line. Returns false if there is none yet. */
static bool choose_event(struct stream *stream) {
    const struct web_feed *feed = &stream->web->feed;
    uint64_t next = history_next(feed->history);
    stream->sent = 0;
    stream->line = NULL;
    if (stream->reset || stream->number > next ||
        (stream->number < next && recent_line(feed, stream->number) == NULL)) {
        snprintf(stream->head, sizeof stream->head, "event: reset\ndata:\n\n");
        stream->ended = true;
    } else if (stream->number < next) {
        stream->line = history_line_hold(recent_line(feed, stream->number));
        snprintf(stream->head, sizeof stream->head, "id: %llu\ndata: ", (unsigned long long)stream->number++);
    } else if (feed->over) {
        snprintf(stream->head, sizeof stream->head, "event: end\ndata:\n\n");
        stream->ended = true;
    } else if (stream->keepalive) {
        snprintf(stream->head, sizeof stream->head, ":\n\n");
    } else {
        return false;
    }
    stream->keepalive = false;
    return true;
}

/* Copies the next bytes of the event: its head, its line, and the empty line after it. */
static size_t copy_event(struct stream *stream, char *buffer, size_t size) {
    const struct {
        const char *text;
        size_t size;
    } parts[] = {{stream->head, strlen(stream->head)},
                 {stream->line != NULL ? stream->line->text : "", stream->line != NULL ? stream->line->size : 0},
                 {"\n\n", stream->line != NULL ? 2 : 0}};
    size_t copied = 0;
    size_t begin = 0;
    for (size_t p = 0; p < sizeof parts / sizeof *parts; p++) {
        size_t end = begin + parts[p].size;
        if (stream->sent < end && copied < size) {
            size_t count = end - stream->sent < size - copied ? end - stream->sent : size - copied;
            memcpy(buffer + copied, parts[p].text + (stream->sent - begin), count);
            stream->sent += count;
            copied += count;
        }
        begin = end;
    }
    if (stream->sent == begin) {
        history_line_drop(stream->line);
        stream->line = NULL;
        stream->head[0] = '\0';
    }
    return copied;
}

static ssize_t read_events(void *self, uint64_t position, char *buffer, size_t size) {
    struct stream *stream = self;
    struct web *web = stream->web;
    ssize_t copied = 0;
    (void)position;
    pthread_mutex_lock(&web->mutex);
    while ((size_t)copied < size) {
        if (stream->head[0] == '\0' && (stream->ended || !choose_event(stream))) {
            break;
        }
        copied += (ssize_t)copy_event(stream, buffer + copied, size - (size_t)copied);
    }
    if (copied == 0 && (stream->ended || web->closing)) {
        copied = MHD_CONTENT_READER_END_OF_STREAM;
    } else if (copied == 0) {
        stream->suspended = true;
        MHD_suspend_connection(stream->connection);
    }
    pthread_mutex_unlock(&web->mutex);
    return copied;
}

static void close_stream(void *self) {
    struct stream *stream = self;
    struct web *web = stream->web;
    pthread_mutex_lock(&web->mutex);
    struct stream **at = &web->streams;
    while (*at != stream) {
        at = &(*at)->next;
    }
    *at = stream->next;
    history_line_drop(stream->line);
    pthread_mutex_unlock(&web->mutex);
    free(stream);
}

/* Reads a number from the query, or from the header in which a reconnecting browser names its last line. */
static bool number_of(struct MHD_Connection *connection, enum MHD_ValueKind kind, const char *name, uint64_t *number) {
    const char *text = MHD_lookup_connection_value(connection, kind, name);
    char *end = NULL;
    if (text == NULL || text[0] < '0' || text[0] > '9' || strlen(text) > 19) {
        return false;
    }
    *number = strtoull(text, &end, 10);
    return *end == '\0';
}

bool stream_has_place(struct MHD_Connection *connection) {
    uint64_t from;
    return MHD_lookup_connection_value(connection, MHD_GET_ARGUMENT_KIND, "from") == NULL ||
           number_of(connection, MHD_GET_ARGUMENT_KIND, "from", &from);
}

enum MHD_Result stream_begin(struct web *web, struct MHD_Connection *connection) {
    const char *run = MHD_lookup_connection_value(connection, MHD_GET_ARGUMENT_KIND, "run");
    struct stream *stream = memory_zeroed(1, sizeof *stream);
    uint64_t last;
    stream->web = web;
    stream->connection = connection;
    pthread_mutex_lock(&web->mutex);
    stream->reset = run != NULL && strcmp(run, history_run(web->feed.history)) != 0;
    if (number_of(connection, MHD_HEADER_KIND, "Last-Event-ID", &last)) {
        stream->number = last + 1;
    } else if (!number_of(connection, MHD_GET_ARGUMENT_KIND, "from", &stream->number)) {
        stream->number = history_next(web->feed.history);
    }
    stream->next = web->streams;
    web->streams = stream;
    pthread_mutex_unlock(&web->mutex);
    struct MHD_Response *response =
        MHD_create_response_from_callback(MHD_SIZE_UNKNOWN, BLOCK_BYTES, read_events, stream, close_stream);
    if (response == NULL) {
        close_stream(stream);
        return MHD_NO;
    }
    return answers_send(web, connection, MHD_HTTP_OK, "text/event-stream", response);
}

/* ---- The history, and the last lines ---- */

/* The lines of an answer: of a shared view, or its own lines. */
struct sending {
    struct web *web;
    struct web_view *view;
    struct history_line **lines;
    size_t count;
    size_t at, sent; /* index of the present line, and its bytes already sent */
};

static void view_drop(struct web_view *view) {
    if (view != NULL && --view->references == 0) {
        history_view_close(&view->view);
        free(view);
    }
}

/* Returns the history of at most a second ago, with a reference. The mutex must be held. */
static struct web_view *view_hold(struct web_feed *feed) {
    uint64_t now_ms = web_now_ms();
    bool old = feed->view == NULL ||
               (feed->view_next != history_next(feed->history) && now_ms - feed->view_ms >= WEB_STATUS_MS);
    if (old) {
        view_drop(feed->view);
        feed->view = memory_zeroed(1, sizeof *feed->view);
        *feed->view = (struct web_view){.references = 1, .view = history_view_open(feed->history)};
        feed->view_ms = now_ms;
        feed->view_next = history_next(feed->history);
    }
    feed->view->references++;
    return feed->view;
}

static ssize_t read_lines(void *self, uint64_t position, char *buffer, size_t size) {
    struct sending *sending = self;
    size_t copied = 0;
    (void)position;
    while (sending->at < sending->count && copied < size) {
        const struct history_line *line = sending->lines[sending->at];
        size_t left = line->size - sending->sent;
        size_t count = left < size - copied ? left : size - copied;
        memcpy(buffer + copied, line->text + sending->sent, count);
        copied += count;
        sending->sent += count;
        if (sending->sent == line->size && copied < size) {
            buffer[copied++] = '\n';
            sending->at++;
            sending->sent = 0;
        }
    }
    return copied > 0 ? (ssize_t)copied : MHD_CONTENT_READER_END_OF_STREAM;
}

static void close_lines(void *self) {
    struct sending *sending = self;
    pthread_mutex_lock(&sending->web->mutex);
    if (sending->view != NULL) {
        view_drop(sending->view);
    } else {
        for (size_t l = 0; l < sending->count; l++) {
            history_line_drop(sending->lines[l]);
        }
        free(sending->lines);
    }
    pthread_mutex_unlock(&sending->web->mutex);
    free(sending);
}

static enum MHD_Result send_lines(struct web *web, struct MHD_Connection *connection, struct sending *sending) {
    struct MHD_Response *response =
        MHD_create_response_from_callback(MHD_SIZE_UNKNOWN, BLOCK_BYTES, read_lines, sending, close_lines);
    if (response == NULL) {
        close_lines(sending);
        return MHD_NO;
    }
    return answers_send(web, connection, MHD_HTTP_OK, "application/x-ndjson", response);
}

enum MHD_Result stream_send_history(struct web *web, struct MHD_Connection *connection) {
    struct sending *sending = memory_zeroed(1, sizeof *sending);
    sending->web = web;
    pthread_mutex_lock(&web->mutex);
    sending->view = view_hold(&web->feed);
    pthread_mutex_unlock(&web->mutex);
    sending->lines = sending->view->view.lines;
    sending->count = sending->view->view.count;
    return send_lines(web, connection, sending);
}

enum MHD_Result stream_send_report(struct web *web, struct MHD_Connection *connection) {
    struct sending *sending = memory_zeroed(1, sizeof *sending);
    uint64_t from = 0;
    (void)number_of(connection, MHD_GET_ARGUMENT_KIND, "from", &from);
    sending->web = web;
    pthread_mutex_lock(&web->mutex);
    const struct web_feed *feed = &web->feed;
    uint64_t first = feed->recent_count > 0 ? feed->recent[0]->number : history_next(feed->history);
    uint64_t begin = from > first ? from : first;
    uint64_t next = history_next(feed->history);
    char head[128];
    int size = snprintf(head, sizeof head, "{\"type\":\"report\",\"run\":\"%s\",\"from\":%llu,\"next\":%llu}",
                        history_run(feed->history), (unsigned long long)(begin < next ? begin : next),
                        (unsigned long long)next);
    sending->lines = memory_zeroed(feed->recent_count + 1, sizeof(struct history_line *));
    sending->lines[sending->count++] = history_line_new(0, NULL, head, (size_t)size);
    for (uint64_t number = begin; recent_line(feed, number) != NULL; number++) {
        sending->lines[sending->count++] = history_line_hold(recent_line(feed, number));
    }
    pthread_mutex_unlock(&web->mutex);
    return send_lines(web, connection, sending);
}

/* ---- The status ---- */

static ssize_t read_status(void *self, uint64_t position, char *buffer, size_t size) {
    const struct web_text *text = *(struct web_text *const *)self;
    size_t left = text->size - (size_t)position;
    size_t count = left < size ? left : size;
    memcpy(buffer, text->bytes + position, count);
    return (ssize_t)count;
}

/* What an answer needs to drop its reference. */
struct held_text {
    struct web_text *text; /* first member, as read_status expects */
    struct web *web;
};

static void close_status(void *self) {
    struct held_text *held = self;
    pthread_mutex_lock(&held->web->mutex);
    if (--held->text->references == 0) {
        free(held->text);
    }
    pthread_mutex_unlock(&held->web->mutex);
    free(held);
}

/* Returns the present status with a reference. NULL: the request waits for a status (*waits), or cannot get one. */
static struct held_text *hold_status(struct web *web, struct MHD_Connection *connection, struct request *request,
                                     bool *waits) {
    struct held_text *held = NULL;
    pthread_mutex_lock(&web->mutex);
    struct web_feed *feed = &web->feed;
    uint64_t now_ms = web_now_ms();
    uint64_t most_ms = WEB_STATUS_MS + WEB_STATUS_NODE_MS * feed->status_nodes;
    bool fresh = feed->status != NULL && now_ms - feed->status_ms < most_ms;
    bool alive = now_ms - feed->alive_ms < WEB_ALIVE_S * UINT64_C(1000);
    *waits = !fresh && request->waiter == NULL && !web->closing && alive;
    if (*waits) {
        feed->status_wanted = true;
        request->waiter = waiter_new(web, connection, 0);
    } else if (fresh) {
        held = memory_zeroed(1, sizeof *held);
        *held = (struct held_text){feed->status, web};
        feed->status->references++;
    }
    pthread_mutex_unlock(&web->mutex);
    if (*waits) {
        web->wake(web->context);
    }
    return held;
}

static enum MHD_Result say_no_answer(const struct web *web, struct MHD_Connection *connection) {
    return answers_say(web, connection, MHD_HTTP_SERVICE_UNAVAILABLE, "text/plain", "the controller does not answer\n");
}

enum MHD_Result stream_send_status(struct web *web, struct MHD_Connection *connection, struct request *request) {
    bool waits;
    struct held_text *held = hold_status(web, connection, request, &waits);
    if (held == NULL) {
        return waits ? MHD_YES : say_no_answer(web, connection);
    }
    struct MHD_Response *response =
        MHD_create_response_from_callback(held->text->size, BLOCK_BYTES, read_status, held, close_status);
    if (response == NULL) {
        close_status(held);
        return MHD_NO;
    }
    return answers_send(web, connection, MHD_HTTP_OK, "application/json", response);
}

/* ---- Metrics ---- */

static char *metrics_text(struct web *web, const struct held_text *held, bool open, size_t *size) {
    char *text = NULL;
    struct report_line *status = report_line_read(held->text->bytes, held->text->size, NULL);
    FILE *stream = open_memstream(&text, size);
    if (stream == NULL) {
        memory_exhausted(1);
    }
    pthread_mutex_lock(&web->mutex);
    const struct metrics_moment moment = {.status = status,
                                          .lines = history_next(web->feed.history),
                                          .controller_began = web->feed.began,
                                          .open = open,
                                          .money = web->subject == WEB_MONEY};
    metrics_write(&web->feed.metrics, &moment, stream);
    pthread_mutex_unlock(&web->mutex);
    if (fclose(stream) != 0) {
        memory_exhausted(*size);
    }
    report_line_drop(status);
    return text;
}

enum MHD_Result stream_send_metrics(struct web *web, struct MHD_Connection *connection, struct request *request) {
    bool waits;
    size_t size;
    struct held_text *held = hold_status(web, connection, request, &waits);
    if (held == NULL) {
        return waits ? MHD_YES : say_no_answer(web, connection);
    }
    const char *accept = MHD_lookup_connection_value(connection, MHD_HEADER_KIND, MHD_HTTP_HEADER_ACCEPT);
    bool open = accept != NULL && strstr(accept, "application/openmetrics-text") != NULL;
    char *text = metrics_text(web, held, open, &size);
    close_status(held);
    struct MHD_Response *response = MHD_create_response_from_buffer(size, text, MHD_RESPMEM_MUST_FREE);
    if (response == NULL) {
        free(text);
        return MHD_NO;
    }
    return answers_send(web, connection, MHD_HTTP_OK, open ? METRICS_OPEN_TYPE : METRICS_TEXT_TYPE, response);
}
