/* See status_text.h. */
#include "proteus/status_text.h"

#include "agileml/base/memory.h"
#include "agileml/base/printable.h"
#include "proteus/progress_text.h"

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

void status_make_printable(json_t *value) {
    const char *key;
    size_t index;
    json_t *inner;
    if (json_is_string(value)) {
        char *text = memory_string(json_string_value(value));
        text_make_printable(text);
        json_string_set(value, text);
        free(text);
    }
    json_object_foreach(value, key, inner) {
        status_make_printable(inner);
    }
    json_array_foreach(value, index, inner) {
        status_make_printable(inner);
    }
}

static double number_of(const json_t *object, const char *key) {
    return json_number_value(json_object_get(object, key));
}

/* ---- About the job ---- */

static const char *phase_text(const json_t *status) {
    static const char *const phases[][2] = {{"gather", "waiting for nodes"},
                                            {"load", "loading the data"},
                                            {"train", "training"},
                                            {"save", "saving the model"},
                                            {"leave", "ending"}};
    const char *phase = progress_word(status, "phase");
    for (size_t p = 0; p < sizeof phases / sizeof *phases; p++) {
        if (strcmp(phase, phases[p][0]) == 0) {
            return phases[p][1];
        }
    }
    return phase;
}

static const char *change_text(const json_t *status) {
    static const char *const changes[][2] = {{"prepare", ", preparing a change"},
                                             {"hold", ", about to change"},
                                             {"switch", ", changing"},
                                             {"recover", ", recovering"}};
    const char *change = progress_word(status, "change");
    for (size_t c = 0; c < sizeof changes / sizeof *changes; c++) {
        if (strcmp(change, changes[c][0]) == 0) {
            return changes[c][1];
        }
    }
    return "";
}

void status_job_text(const json_t *status, char text[STATUS_JOB_TEXT]) {
    const json_t *stage = json_object_get(status, "stage");
    const char *app = progress_word(status, "app"); /* empty until the first node has joined */
    struct progress_text job = {.bytes = text, .size = STATUS_JOB_TEXT};
    progress_add(&job, "%s: %s%s", app[0] != '\0' ? app : "job", phase_text(status), change_text(status));
    if (json_is_string(stage)) {
        progress_add(&job, ", %s", json_string_value(stage));
    } else if (json_number_value(stage) > 0) {
        progress_add(&job, ", stage %.0f", json_number_value(stage));
    }
}

static void print_job(FILE *stream, const json_t *status) {
    const json_t *objective = json_object_get(status, "objective");
    char job[STATUS_JOB_TEXT];
    status_job_text(status, job);
    fprintf(stream, "%s, iteration %.0f, %.1f s", job, number_of(status, "iteration"), number_of(status, "seconds"));
    if (json_is_number(objective)) {
        fprintf(stream, ", objective %.6g", json_number_value(objective));
    }
    if (json_is_number(json_object_get(status, "partial"))) {
        fprintf(stream, " (of %.1f %% of the items)", progress_percent(number_of(status, "partial")));
    }
    fprintf(stream, "\nclock %.0f, committed %.0f", number_of(status, "clock"), number_of(status, "committed"));
    if (number_of(status, "final") > 0) {
        fprintf(stream, ", last %.0f", number_of(status, "final"));
    }
    fprintf(stream, "; epoch %.0f, plan %.0f; failures %.0f, evictions %.0f, items redone %.0f\n",
            number_of(status, "epoch"), number_of(status, "version"), number_of(status, "failures"),
            number_of(status, "evictions"), number_of(status, "items_redone"));
    if (json_is_number(json_object_get(status, "threshold_2"))) {
        fprintf(stream, "stage 2 above %.3g transient nodes per reliable one, stage 3 above %.3g\n",
                number_of(status, "threshold_2"), number_of(status, "threshold_3"));
    }
    char feeders[STATUS_FEEDERS_TEXT];
    status_feeders_text(status, feeders);
    if (feeders[0] != '\0') {
        fprintf(stream, "%s\n", feeders);
    }
}

void status_feeders_text(const json_t *status, char text[STATUS_FEEDERS_TEXT]) {
    const char *reason = progress_word(status, "feeders_reason");
    struct progress_text line = {.bytes = text, .size = STATUS_FEEDERS_TEXT};
    text[0] = '\0';
    if (json_object_get(status, "feeders_max") != NULL) {
        double threads = number_of(status, "feeder_threads");
        progress_add(&line, "feeders: %.0f", number_of(status, "feeders_wanted"));
        if (threads > 0) {
            progress_add(&line, " of %.0f thread%s", threads, threads > 1 ? "s" : "");
        }
        progress_add(&line, " wanted of at most %.0f", number_of(status, "feeders_max"));
        progress_add(&line, "%s%s", reason[0] != '\0' ? "; " : "", reason);
    }
}

/* ---- A node ---- */

static void add_role(char text[STATUS_ROLE_TEXT], json_int_t count, const char *role) {
    size_t used = strlen(text);
    if (count > 0) {
        snprintf(text + used, STATUS_ROLE_TEXT - used, "%s%lld %s", used > 0 ? ", " : "", (long long)count, role);
    }
}

const char *status_stage_name(const json_t *object) {
    const json_t *stage = json_object_get(object, "stage");
    return json_is_string(stage) ? json_string_value(stage) : "";
}

void status_role_text(const json_t *node, const char *stage, char role[STATUS_ROLE_TEXT]) {
    bool transient = strcmp(progress_word(node, "tier"), "transient") == 0;
    bool active = transient && strcmp(stage, "traditional") != 0;
    bool copied = transient && strcmp(stage, "transient") != 0; /* transient nodes hold copies for the next plan */
    role[0] = '\0';
    add_role(role, json_integer_value(json_object_get(node, "serves")), active ? "ActivePS" : "ParamServ");
    add_role(role, json_integer_value(json_object_get(node, "follows")), copied ? "copied" : "BackupPS");
    if (strcmp(progress_word(node, "tier"), "feeder") == 0) {
        snprintf(role, STATUS_ROLE_TEXT, "feeds");
    }
}

void status_slowness_text(double slowness, char text[PROGRESS_NUMBER_TEXT]) {
    snprintf(text, PROGRESS_NUMBER_TEXT, "%.*f", slowness < 9.995 ? 2 : slowness < 99.95 ? 1 : 0, slowness);
}

static void print_node(FILE *stream, const json_t *node, const char *stage) {
    char role[STATUS_ROLE_TEXT];
    char network[PROGRESS_NUMBER_TEXT];
    char memory[PROGRESS_NUMBER_TEXT];
    char slow[PROGRESS_NUMBER_TEXT] = "-";
    const json_t *slowness = json_object_get(node, "slowness_short");
    if (json_is_number(slowness)) {
        status_slowness_text(json_number_value(slowness), slow);
    }
    status_role_text(node, stage, role);
    progress_bytes_text(number_of(node, "bytes_sent") + number_of(node, "bytes_received"), network);
    progress_bytes_text(number_of(node, "memory_bytes"), memory);
    fprintf(stream, "%-9.20s %-9.9s %-9s %-11s %6.0f %6.0f %4s %7s %7s %s\n", progress_word(node, "name"),
            progress_word(node, "host"), progress_word(node, "tier"),
            json_is_true(json_object_get(node, "leaving")) ? "leaving" : progress_word(node, "state"),
            number_of(node, "clock"), number_of(node, "shards"), slow, network, memory, role);
}

static void print_expected(FILE *stream, const json_t *machine) {
    fprintf(stream, "%-9.20s %-9s %-9s expected\n", progress_word(machine, "name"), "-",
            progress_word(machine, "tier"));
}

void status_print(FILE *stream, const json_t *answer) {
    json_t *status = json_deep_copy(answer);
    status_make_printable(status);
    const json_t *nodes = json_object_get(status, "nodes");
    const json_t *expected = json_object_get(status, "expected");
    print_job(stream, status);
    fprintf(stream, "%-9s %-9s %-9s %-11s %6s %6s %4s %7s %7s %s\n", "node", "host", "tier", "state", "clock", "shards",
            "slow", "network", "memory", "partitions");
    for (size_t n = 0; n < json_array_size(nodes); n++) {
        print_node(stream, json_array_get(nodes, n), status_stage_name(status));
    }
    for (size_t e = 0; e < json_array_size(expected); e++) {
        print_expected(stream, json_array_get(expected, e));
    }
    json_decref(status);
}
