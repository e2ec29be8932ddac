/* See status_text.h. */
#include "proteus/status_text.h"

#include <math.h>
#include <string.h>

/* ---- About the job ---- */

/* Returns the text beside `word`; `other` if there is none. */
static const char *text_for(const char *const texts[][2], size_t count, const char *word, const char *other) {
    for (size_t t = 0; t < count; t++) {
        if (strcmp(word, texts[t][0]) == 0) {
            return texts[t][1];
        }
    }
    return other;
}

static const char *phase_text(const struct report_line *status) {
    static const char *const phases[][2] = {{"gather", "waiting for nodes"},
                                            {"load", "loading the data"},
                                            {"train", "training"},
                                            {"save", "saving the model"},
                                            {"leave", "ending"}};
    const char *phase = progress_word(status->phase);
    return text_for(phases, sizeof phases / sizeof *phases, phase, phase);
}

static const char *change_text(const struct report_line *status) {
    static const char *const changes[][2] = {{"prepare", ", preparing a change"},
                                             {"hold", ", about to change"},
                                             {"switch", ", changing"},
                                             {"recover", ", recovering"}};
    return text_for(changes, sizeof changes / sizeof *changes, progress_word(status->change), "");
}

void status_job_text(const struct report_line *status, char text[STATUS_JOB_TEXT]) {
    const char *app = progress_word(status->app); /* empty until the first node has joined */
    struct progress_text job = {.bytes = text, .size = STATUS_JOB_TEXT};
    progress_add(&job, "%s: %s%s", app[0] != '\0' ? app : "job", phase_text(status), change_text(status));
    if (status->stage.name[0] != '\0') {
        progress_add(&job, ", %s", status->stage.name);
    } else if (status->stage.number > 0) {
        progress_add(&job, ", stage %.0f", status->stage.number);
    }
}

/* Numbers that are not known are shown as 0. */
static void print_job(FILE *stream, const struct report_line *status) {
    char job[STATUS_JOB_TEXT];
    status_job_text(status, job);
    fprintf(stream, "%s, iteration %.0f, %.1f s", job, fmax(status->iteration, 0), fmax(status->seconds, 0));
    if (!isnan(status->objective)) {
        fprintf(stream, ", objective %.6g", status->objective);
    }
    if (!isnan(status->partial)) {
        fprintf(stream, " (of %.1f %% of the items)", progress_percent(status->partial));
    }
    fprintf(stream, "\nclock %.0f, committed %.0f", fmax(status->clock, 0), fmax(status->committed, 0));
    if (status->final > 0) {
        fprintf(stream, ", last %.0f", status->final);
    }
    fprintf(stream, "; epoch %.0f, plan %.0f; failures %.0f, evictions %.0f, items redone %.0f\n",
            fmax(status->epoch, 0), fmax(status->version, 0), fmax(status->failures, 0), fmax(status->evictions, 0),
            fmax(status->items_redone, 0));
    if (!isnan(status->threshold_2)) {
        fprintf(stream, "stage 2 above %.3g transient nodes per reliable one, stage 3 above %.3g\n",
                status->threshold_2, fmax(status->threshold_3, 0));
    }
    if (status->waiting_for != NULL) {
        fprintf(stream, "waiting for %.1f s, for %s\n", fmax(status->waiting_seconds, 0), status->waiting_for);
    }
    char feeders[STATUS_FEEDERS_TEXT];
    status_feeders_text(status, feeders);
    if (feeders[0] != '\0') {
        fprintf(stream, "%s\n", feeders);
    }
}

void status_feeders_text(const struct report_line *status, char text[STATUS_FEEDERS_TEXT]) {
    const char *reason = progress_word(status->feeders_reason);
    struct progress_text line = {.bytes = text, .size = STATUS_FEEDERS_TEXT};
    text[0] = '\0';
    if (!isnan(status->feeders_max)) {
        progress_add(&line, "feeders: %.0f", fmax(status->feeders_wanted, 0));
        if (status->feeder_threads > 0) {
            progress_add(&line, " of %.0f thread%s", status->feeder_threads, status->feeder_threads > 1 ? "s" : "");
        }
        progress_add(&line, " wanted of at most %.0f", status->feeders_max);
        progress_add(&line, "%s%s", reason[0] != '\0' ? "; " : "", reason);
    }
}

/* ---- A node ---- */

static void add_role(char text[STATUS_ROLE_TEXT], double count, const char *role) {
    size_t used = strlen(text);
    if (count > 0) {
        snprintf(text + used, STATUS_ROLE_TEXT - used, "%s%.0f %s", used > 0 ? ", " : "", count, role);
    }
}

void status_role_text(const struct report_node *node, const char *stage, char role[STATUS_ROLE_TEXT]) {
    bool transient = strcmp(progress_word(node->tier), "transient") == 0;
    bool active = transient && strcmp(stage, "traditional") != 0;
    bool copied = transient && strcmp(stage, "transient") != 0; /* transient nodes hold copies for the next plan */
    role[0] = '\0';
    add_role(role, node->serves, active ? "ActivePS" : "ParamServ");
    add_role(role, node->follows, copied ? "copied" : "BackupPS");
    if (strcmp(progress_word(node->tier), "feeder") == 0) {
        snprintf(role, STATUS_ROLE_TEXT, "feeds");
    }
}

const char *status_state_text(const struct report_node *node) {
    return node->leaving ? "leaving" : progress_word(node->state);
}

void status_slowness_text(double slowness, char text[PROGRESS_NUMBER_TEXT]) {
    snprintf(text, PROGRESS_NUMBER_TEXT, "%.*f", slowness < 9.995 ? 2 : slowness < 99.95 ? 1 : 0, slowness);
}

/* Prints those of the node's numbers that are not 0 and have a label in the table, as a line if there are any. */
static void print_numbers(FILE *stream, const struct report_node *node) {
    static const struct {
        size_t at; /* offset of the node's number */
        const char *kind, *label;
    } numbers[] = {
#define NUMBER(types, kind, name, field, most, label, meaning) {offsetof(struct report_node, name), #kind, label},
#include "agileml/wire/report_keys.def"
    };
    const char *before = "          ";
    for (size_t n = 0; n < sizeof numbers / sizeof *numbers; n++) {
        double value = *(const double *)(const void *)((const char *)node + numbers[n].at);
        char text[PROGRESS_NUMBER_TEXT];
        if (numbers[n].label[0] == '\0' || !(value > 0)) {
            continue;
        }
        if (strcmp(numbers[n].kind, "BYTES") == 0) {
            progress_bytes_text(value, text);
        } else {
            bool seconds = strcmp(numbers[n].kind, "SECONDS") == 0;
            snprintf(text, sizeof text, seconds ? "%.1f s" : "%.0f", value);
        }
        fprintf(stream, "%s%s %s", before, text, numbers[n].label);
        before = ", ";
    }
    fputs(before[0] == ',' ? "\n" : "", stream);
}

static void print_node(FILE *stream, const struct report_node *node, const char *stage) {
    char role[STATUS_ROLE_TEXT];
    char network[PROGRESS_NUMBER_TEXT];
    char memory[PROGRESS_NUMBER_TEXT];
    char slow[PROGRESS_NUMBER_TEXT] = "-";
    if (!isnan(node->slowness_short)) {
        status_slowness_text(node->slowness_short, slow);
    }
    status_role_text(node, stage, role);
    progress_bytes_text(fmax(node->bytes_sent, 0) + fmax(node->bytes_received, 0), network);
    progress_bytes_text(node->memory_bytes, memory);
    fprintf(stream, "%-9.20s %-9.9s %-9s %-11s %6.0f %6.0f %4s %7s %7s %s\n", progress_word(node->name),
            progress_word(node->host), progress_word(node->tier), status_state_text(node), fmax(node->clock, 0),
            fmax(node->shards, 0), slow, network, memory, role);
    print_numbers(stream, node);
}

void status_print(FILE *stream, const struct report_line *answer) {
    struct report_line *status = report_line_printable(answer);
    print_job(stream, status);
    fprintf(stream, "%-9s %-9s %-9s %-11s %6s %6s %4s %7s %7s %s\n", "node", "host", "tier", "state", "clock", "shards",
            "slow", "network", "memory", "partitions");
    for (size_t n = 0; n < status->nodes.count; n++) {
        print_node(stream, &status->nodes.list[n], status->stage.name);
    }
    for (size_t e = 0; e < status->expected.count; e++) {
        const struct report_node *machine = &status->expected.list[e];
        fprintf(stream, "%-9.20s %-9s %-9s expected\n", progress_word(machine->name), "-",
                progress_word(machine->tier));
    }
    report_line_drop(status);
}
