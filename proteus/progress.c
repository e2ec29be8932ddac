/* See progress.h. */
#include "proteus/progress.h"

#include "agileml/base/clock.h"
#include "agileml/base/log.h"
#include "agileml/base/printable.h"

#include <math.h>
#include <stdarg.h>
#include <stdint.h>
#include <string.h>

int progress_parse(const char *text, enum progress_mode *mode, struct error *error) {
    static const char *const names[] = {[PROGRESS_AUTO] = "auto",
                                        [PROGRESS_LINE] = "line",
                                        [PROGRESS_PLAIN] = "plain",
                                        [PROGRESS_JSON] = "json",
                                        [PROGRESS_NONE] = "none"};
    for (size_t n = 0; n < sizeof names / sizeof *names; n++) {
        if (strcmp(text, names[n]) == 0) {
            *mode = (enum progress_mode)n;
            return 0;
        }
    }
    return error_set(error, AML_EINPUT, "--progress: expected auto, line, plain, json or none, got '%.100s'", text);
}

void progress_begin(struct progress *progress, FILE *stream, enum progress_mode mode) {
    *progress = (struct progress){.stream = stream, .mode = mode};
    if (mode == PROGRESS_AUTO) {
        progress->mode = terminal_can_rewrite(stream) ? PROGRESS_LINE : PROGRESS_PLAIN;
    }
    if (progress->mode == PROGRESS_LINE) {
        terminal_open(&progress->terminal);
    }
    live_line_begin(&progress->live);
}

/* ---- The live line ---- */

/* Returns the seconds of training now. */
static double seconds_now(const struct progress *progress) {
    double since = progress->heard_ms != 0 ? (double)(monotonic_ms() - progress->heard_ms) / 1e3 : 0;
    return progress->live.forecast.at + since;
}

/* Writes the content of the live line; "": nothing. */
static void describe(const struct progress *progress, int columns, char shown[LIVE_LINE_TEXT]) {
    const struct progress_silence *silence = &progress->silence;
    char bytes[PROGRESS_LINE_TEXT] = "";
    struct progress_text text = {.bytes = bytes, .size = sizeof bytes};
    if (silence->line != NULL) {
        int64_t now = monotonic_ms();
        progress_add_silence(&text, &silence->line->nodes, (double)(now - silence->began_ms) / 1e3,
                             (double)(silence->ends_ms - now) / 1e3);
        text_make_printable(bytes);
    } else if (progress->started) {
        live_line_text(&progress->live, &progress->terminal, seconds_now(progress), columns, shown);
        return;
    } else if (progress->joined > 0) {
        progress_add(&text, "starting: %u node%s joined", progress->joined, progress->joined == 1 ? " has" : "s have");
    }
    terminal_fit(&progress->terminal, bytes, columns, shown, LIVE_LINE_TEXT);
}

static void draw(struct progress *progress) {
    char text[LIVE_LINE_TEXT] = "";
    if (progress->mode != PROGRESS_LINE || progress->over) {
        return;
    }
    int columns = terminal_size_of(progress->stream).columns - 1; /* a full line would wrap */
    describe(progress, columns < LIVE_LINE_COLUMNS_MAX ? columns : LIVE_LINE_COLUMNS_MAX, text);
    if (text[0] != '\0') {
        fprintf(progress->stream, "\r%s\033[K", text);
        fflush(progress->stream);
        progress->drawn = true;
        progress->drawn_ms = monotonic_ms();
    }
}

static void draw_in_time(struct progress *progress) {
    if (!progress->drawn || monotonic_ms() - progress->drawn_ms >= PROGRESS_LIVE_MS) {
        draw(progress);
    }
}

static void erase(struct progress *progress) {
    if (progress->drawn) {
        fputs("\r\033[K", progress->stream);
        progress->drawn = false;
    }
}

void progress_clear(struct progress *progress) {
    if (progress->drawn) {
        erase(progress);
        fflush(progress->stream);
    }
}

void progress_tick(struct progress *progress) {
    draw_in_time(progress);
}

/* ---- Lines that stay ---- */

void progress_note(struct progress *progress, const char *format, ...) {
    if (progress->mode == PROGRESS_NONE) {
        return;
    }
    char text[PROGRESS_LINE_TEXT];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(text, sizeof text, format, arguments);
    va_end(arguments);
    text_make_printable(text);
    bool drawn = progress->drawn;
    erase(progress);
    fprintf(progress->mode == PROGRESS_JSON ? stderr : progress->stream, "%s\n", text);
    if (drawn) {
        draw(progress);
    }
}

static void show_iteration(struct progress *progress, const struct report_line *line) {
    char text[PROGRESS_LINE_TEXT];
    progress_line_text(line, text);
    text_make_printable(text);
    fprintf(progress->stream, "%s\n", text);
}

static void drop_held(struct progress_plain *plain) {
    report_line_drop(plain->held);
    plain->held = NULL;
}

/* Shows the line now, or holds it back, since it may be the last. */
static void take_iteration(struct progress *progress, const struct report_line *line) {
    struct progress_plain *plain = &progress->plain;
    double seconds = line->seconds;
    bool measured = !isnan(line->objective);
    double pause = plain->measured && !measured ? 2 * PROGRESS_PLAIN_S : PROGRESS_PLAIN_S;
    bool early = plain->begun && seconds >= plain->seconds && seconds - plain->seconds < pause;
    plain->measured = plain->measured || measured;
    drop_held(plain);
    if (early) {
        plain->held = report_line_hold(line);
        return;
    }
    plain->begun = true;
    plain->seconds = seconds;
    show_iteration(progress, line);
}

static void show_held(struct progress *progress) {
    if (progress->plain.held != NULL) {
        show_iteration(progress, progress->plain.held);
        drop_held(&progress->plain);
    }
}

/* ---- Nodes that are silent ---- */

static void silence_end(struct progress_silence *silence) {
    report_line_drop(silence->line);
    silence->line = NULL;
}

static void silence_begin(struct progress_silence *silence, const struct report_line *line) {
    silence_end(silence);
    silence->line = report_line_hold(line);
    silence->began_ms = monotonic_ms() - (int64_t)(fmax(line->silent_seconds, 0) * 1e3);
    silence->ends_ms = monotonic_ms() + (int64_t)(fmax(line->left_seconds, 0) * 1e3);
}

void progress_end(struct progress *progress) {
    show_held(progress);
    progress_clear(progress);
    silence_end(&progress->silence);
    terminal_close(&progress->terminal);
}

/* ---- The report's lines ---- */

void progress_warn(struct progress *progress, const struct report_line *line) {
    if (line->checkpoint_failed != NULL) {
        progress_clear(progress);
        log_warn("the last checkpoint failed: %s", line->checkpoint_failed);
    }
}

void progress_recall(struct progress *progress, const struct report_line *line) {
    bool heard = line->happened == HAPPENED_START || line->is == REPORT_ITERATION;
    live_line_take(&progress->live, line);
    progress->heard_ms = heard ? monotonic_ms() : progress->heard_ms;
    progress->started = progress->started || heard || line->is == REPORT_CLOCK;
}

/* Shows an event of the cluster. Until training begins, shows only the number of joined nodes. */
static void report_event_line(struct progress *progress, const struct report_line *line, const char *text) {
    bool silent = line->happened == HAPPENED_SILENT;
    bool heard = line->happened == HAPPENED_HEARD;
    if (silent) {
        silence_begin(&progress->silence, line);
    } else if (heard || line->happened == HAPPENED_FAILURE) {
        silence_end(&progress->silence);
    }
    if (line->happened == HAPPENED_START || heard || (silent && progress->mode == PROGRESS_LINE)) {
        draw(progress); /* the live line shows a silence while it lasts */
    } else if (line->happened == HAPPENED_JOIN && !progress->started) {
        progress->joined += (unsigned)line->nodes.count;
        draw(progress);
    } else {
        progress_note(progress, "%s", text);
    }
}

static void report_summary(struct progress *progress, const struct report_line *line) {
    char text[PROGRESS_LINE_TEXT];
    show_held(progress);
    progress_clear(progress);
    progress->over = true;
    if (line->ok) {
        progress_summary_text(line, text);
        fputs(text, progress->stream);
    }
}

/* Writes the text of a line that stays in all modes. Returns false if the line has none. */
static bool lasting_text(const struct progress *progress, const struct report_line *line,
                         char text[PROGRESS_LINE_TEXT]) {
    if (line->is == REPORT_EVENT) {
        progress_event_text(line, text);
    } else if (line->is == REPORT_DECISION && progress->decisions) {
        progress_decision_text(line, text);
    } else if (line->is == REPORT_NOTE) {
        snprintf(text, PROGRESS_LINE_TEXT, "note: %s", line->text != NULL ? line->text : "");
    } else {
        return false;
    }
    return true;
}

void progress_report(struct progress *progress, const struct report_line *line) {
    char text[PROGRESS_LINE_TEXT];
    bool lasts = lasting_text(progress, line, text);
    if (lasts) {
        log_info("%s", text);
    } else if (line->is == REPORT_SUMMARY && line->ok) {
        log_info("iteration %.0f  %.2f s  the job has ended", line->iterations, line->seconds);
    }
    if (progress->mode == PROGRESS_NONE || progress->mode == PROGRESS_JSON || line->type == NULL) {
        return;
    }
    progress_recall(progress, line);
    if (line->is == REPORT_ITERATION || line->is == REPORT_CLOCK || line->is == REPORT_SUMMARY) {
        silence_end(&progress->silence);
    }
    if (line->is == REPORT_SUMMARY) {
        report_summary(progress, line);
    } else if (line->is == REPORT_ITERATION && progress->mode != PROGRESS_LINE) {
        take_iteration(progress, line);
    } else if (line->is == REPORT_ITERATION || line->is == REPORT_CLOCK) {
        draw_in_time(progress);
    } else if (line->is == REPORT_EVENT && line->event != NULL) {
        report_event_line(progress, line, text);
    } else if (lasts) {
        progress_note(progress, "%s", text);
    }
}

/* Writes control characters U+0080 to U+009F as JSON escapes. JSON allows them in its strings, but a terminal would
 * obey them. */
void progress_write(struct progress *progress, const char *text, size_t size) {
    if (progress->mode != PROGRESS_JSON) {
        return;
    }
    size_t written = 0;
    for (size_t c = 0; c + 1 < size; c++) {
        unsigned char second = (unsigned char)text[c + 1];
        if ((unsigned char)text[c] == 0xC2 && second >= 0x80 && second < 0xA0) {
            fwrite(text + written, 1, c - written, progress->stream);
            fprintf(progress->stream, "\\u%04x", (unsigned)second);
            written = c + 2;
        }
    }
    fwrite(text + written, 1, size - written, progress->stream);
    putc('\n', progress->stream);
}
