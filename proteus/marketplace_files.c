/* See marketplace.h: the files. */
#include "proteus/marketplace.h"

#include "agileml/base/memory.h"
#include "agileml/base/private_file.h"

#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum {
    REAL_LIST_MS = 250, /* real time between two lists of machines, at least: market time is fast, machines are not */
    REAL_PRICE_MS = 1000,
    REAL_DECISION_MS = 1000,
    LEAST_LIST_S = 15, /* market time: bidbrain's defaults */
    LEAST_PRICE_S = 60,
    LEAST_DECISION_S = 120,
};

int marketplace_write(const char *folder, const char *name, const char *text, size_t size, struct error *error) {
    char path[PATH_MAX];
    int length = snprintf(path, sizeof path, "%s/%s", folder, name);
    const char *reason = strerror(ENAMETOOLONG);
    int fd = length < (int)sizeof path ? private_file_open(path, O_WRONLY | O_TRUNC, &reason) : -1;
    if (fd < 0) {
        return error_set(error, AML_EFAIL, "can't write %.300s/%s: %s", folder, name, reason);
    }
    bool whole = true;
    while (whole && size > 0) {
        ssize_t written = write(fd, text, size);
        whole = written > 0 || (written < 0 && errno == EINTR);
        text += written > 0 ? written : 0;
        size -= written > 0 ? (size_t)written : 0;
    }
    int why = errno;
    if (close(fd) != 0) {
        whole = false;
        why = errno;
    }
    return whole ? 0 : error_set(error, AML_EFAIL, "can't write %.300s/%s: %s", folder, name, strerror(why));
}

/* ---- The script of a machine ---- */

struct script {
    char *bytes;
    size_t size;
};

static void script_add(struct script *script, const char *text) {
    size_t length = strlen(text);
    script->bytes = memory_resized(script->bytes, script->size + length + 1, 1);
    memcpy(script->bytes + script->size, text, length + 1);
    script->size += length;
}

/* Adds one word for the shell. "${" in it must not look like a name of the template. */
static void script_quote(struct script *script, const char *word) {
    script_add(script, "'");
    for (; *word != '\0'; word++) {
        char one[2] = {*word, '\0'};
        script_add(script, *word == '\'' ? "'\\''" : *word == '$' ? "$''" : one);
    }
    script_add(script, "'");
}

static void script_option(struct script *script, const char *name, const char *value) {
    script_add(script, " ");
    script_add(script, name);
    script_add(script, " ");
    script_quote(script, value);
}

/* A machine is a folder with its id as name. The node runs in our present folder, since its arguments may name
 * files. */
int marketplace_write_script(const char *folder, const struct marketplace_job *job, struct error *error) {
    struct script script = {0};
    char here[PATH_MAX];
    char key[PATH_MAX];
    if (getcwd(here, sizeof here) == NULL) {
        return error_set(error, AML_EFAIL, "can't find out the present folder: %s", strerror(errno));
    }
    if (job->job->key != NULL && realpath(job->job->key, key) == NULL) {
        return error_set(error, AML_EINPUT, "--key %.200s: %s", job->job->key, strerror(errno));
    }
    script_add(&script, "#!/bin/sh\nmachine=${PWD##*/}\ncd -- ");
    script_quote(&script, here);
    script_add(&script, " || exit 1\nexec ${binary} ${arguments} --controller ${controller} --tier ${tier} "
                        "--name \"$machine\" --group ${group} --threads ${threads} --poll-notice 0.5");
    script_option(&script, "--listen", job->host);
    if (job->job->key != NULL) {
        script_option(&script, "--key", key);
    }
    script_add(&script, job->job->insecure ? " --insecure\n" : "\n");
    int result = marketplace_write(folder, "node.sh", script.bytes, script.size, error);
    free(script.bytes);
    return result;
}

/* ---- bidbrain's configuration ---- */

static json_t *list_of_types(const struct marketplace *place) {
    json_t *list = json_array();
    for (size_t t = 0; t < place->type_count; t++) {
        json_array_append_new(list, json_string(place->types[t]));
    }
    return list;
}

static json_t *list_of_arguments(const struct app *app) {
    json_t *list = json_array();
    for (int a = 1; a < app->count; a++) {
        json_array_append_new(list, json_string(app->arguments[a]));
    }
    return list;
}

/* Returns a period of market time that is not too short in real time. */
static json_int_t period(const struct marketplace *place, int least_s, int real_ms, int most_s) {
    double seconds = fmax(least_s, ceil(place->options.speed * real_ms / 1e3));
    return (json_int_t)fmin(seconds, most_s);
}

static json_t *limits(const struct marketplace_job *job) {
    int64_t most = job->job->joining;
    return json_pack("{s:I, s:I}", "most_machines", (json_int_t)most, "most_vcpus",
                     (json_int_t)(most * MARKETPLACE_VCPUS_EACH));
}

/* All machines share the processors of this computer, so that measurements would say nothing about a cluster. Therefore
 * phi, sigma and lambda are given. */
static json_t *application(void) {
    return json_pack("{s:f, s:i, s:i, s:b}", "phi", 0.95, "sigma_seconds", 30, "lambda_seconds", 60, "measure", 0);
}

int marketplace_write_config(const struct marketplace *place, const char *folder, const struct marketplace_job *job,
                             struct error *error) {
    char binary[PATH_MAX];
    char clock[PATH_MAX];
    const char *name = strrchr(job->app->path, '/');
    if (realpath(job->app->path, binary) == NULL) {
        return error_set(error, AML_EINPUT, "app '%.200s': %s", job->app->path, strerror(errno));
    }
    snprintf(clock, sizeof clock, "%s/clock", job->cloud);
    const char *call = place->rules->bids ? "request-spot-instances" : "run-instances";
    json_t *config = json_pack(
        "{s:s, s:s, s:s, s:s, s:s, s:s, s:s, s:o, s:{s:s, s:s, s:s}, s:{s:s, s:s, s:o, s:I}, s:s, s:b, s:{s:s, s:s, "
        "s:I}, "
        "s:o, s:o, s:I, s:I, s:I, s:I}",
        "job", "proteus-run", "provider", "ec2", "state", "bidbrain.db", "region", place->region, "endpoint",
        job->cloud, "clock", clock, "model", place->rules->name, "markets",
        json_pack("{s:o}", "types", list_of_types(place)), "launch", "call", call, "image", "ami-00000000", "user_data",
        "node.sh", "node", "app", name != NULL ? name + 1 : job->app->path, "binary", binary, "arguments",
        list_of_arguments(job->app), "threads", (json_int_t)job->threads, "controller", job->controller, "insecure",
        job->job->insecure ? 1 : 0, "on_demand", "type", place->reliable_type, "zone", place->reliable_zone, "count",
        (json_int_t)job->job->reliable, "limits", limits(job), "application", application(), "decision_seconds",
        period(place, LEAST_DECISION_S, REAL_DECISION_MS, HOUR / 2), "list_seconds",
        period(place, LEAST_LIST_S, REAL_LIST_MS, HOUR), "price_seconds",
        period(place, LEAST_PRICE_S, REAL_PRICE_MS, HOUR), "notice_seconds", (json_int_t)place->notice);
    if (config == NULL) { /* a text is not UTF-8 */
        return error_set(error, AML_EINPUT, "the app's path and arguments must be UTF-8 text for --market");
    }
    if (place->options.interruptions != NULL) {
        json_object_set_new(config, "interruptions", json_string(place->options.interruptions));
    }
    if (job->job->key != NULL) {
        char key[PATH_MAX];
        json_object_set_new(config, "key", json_string(realpath(job->job->key, key) != NULL ? key : job->job->key));
    }
    char *text = json_dumps(config, JSON_INDENT(2));
    json_decref(config);
    if (text == NULL) {
        memory_exhausted(0);
    }
    int result = marketplace_write(folder, "bidbrain.json", text, strlen(text), error);
    free(text);
    return result;
}
