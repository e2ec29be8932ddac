/* See agile.h. */
#include "bench/mf/agile.h"

#include "agileml/base/memory.h"
#include "bench/mf/plain.h"

#include <ctype.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <jansson.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

enum { AGILE_ARGUMENTS_MAX = 32 };

/* The process that `process` is a child of; 0 when it is gone. */
static pid_t parent_of(pid_t process) {
    char path[64];
    char line[512];
    int parent = 0;
    snprintf(path, sizeof path, "/proc/%d/stat", (int)process);
    FILE *file = fopen(path, "re");
    if (file != NULL && fgets(line, sizeof line, file) != NULL) {
        const char *end = strrchr(line, ')'); /* behind the program's name, which may hold anything */
        if (end == NULL || sscanf(end + 1, " %*c %d", &parent) != 1) {
            parent = 0;
        }
    }
    if (file != NULL) {
        fclose(file);
    }
    return parent;
}

/* CPU-seconds of `launcher` and its children so far. */
static double job_cpu(pid_t launcher) {
    double seconds = measure_process_cpu(launcher);
    DIR *folder = opendir("/proc");
    struct dirent *entry;
    while (folder != NULL && (entry = readdir(folder)) != NULL) {
        if (!isdigit((unsigned char)entry->d_name[0])) {
            continue;
        }
        pid_t process = (pid_t)atoi(entry->d_name);
        double used = parent_of(process) == launcher ? measure_process_cpu(process) : 0;
        seconds += used > 0 ? used : 0;
    }
    if (folder != NULL) {
        closedir(folder);
    }
    return seconds;
}

__attribute__((format(printf, 2, 3))) static void job_argument(char *arguments[AGILE_ARGUMENTS_MAX], const char *format,
                                                               ...) {
    va_list values;
    size_t count = 0;
    while (arguments[count] != NULL) {
        count++;
    }
    va_start(values, format);
    if (count + 1 == AGILE_ARGUMENTS_MAX || vasprintf(&arguments[count], format, values) < 0) {
        memory_exhausted(0);
    }
    va_end(values);
}

static _Noreturn void job_exec(const struct agile_options *options, int report) {
    char *arguments[AGILE_ARGUMENTS_MAX] = {NULL}; /* the program that we become frees nothing */
    job_argument(arguments, "%s/proteus", options->folder);
    job_argument(arguments, "run");
    job_argument(arguments, "--quiet");
    job_argument(arguments, "--reliable=1");
    job_argument(arguments, "--threads=%u", options->threads);
    job_argument(arguments, "--partitions=%u", options->partitions);
    job_argument(arguments, "--report=/proc/self/fd/%d", report);
    job_argument(arguments, "--");
    job_argument(arguments, "mf");
    job_argument(arguments, "--data=%s", options->data);
    job_argument(arguments, "--rank=%u", options->rank);
    job_argument(arguments, "--iterations=%u", options->passes + 1);
    job_argument(arguments, "--seed=%d", PLAIN_SEED);
    job_argument(arguments, "--rate=%.17g", PLAIN_RATE);
    job_argument(arguments, "--decay=%.17g", PLAIN_DECAY);
    job_argument(arguments, "--lambda=%.17g", PLAIN_LAMBDA);
    job_argument(arguments, "--lambda-bias=%.17g", PLAIN_LAMBDA_BIAS);
    job_argument(arguments, "--clocks-per-iteration=%u", options->clocks);
    if (!options->biases) {
        job_argument(arguments, "--no-biases");
    }
    fcntl(report, F_SETFD, 0);
    prctl(PR_SET_PDEATHSIG, SIGTERM);
    execv(arguments[0], arguments);
    fprintf(stderr, "%s: %s\n", arguments[0], strerror(errno));
    _exit(1);
}

/* Reads the report up to its end. Returns how many iterations there were. */
static unsigned read_report(FILE *report, pid_t launcher, struct series *wall, struct series *cpu, double *objective) {
    char *line = NULL;
    size_t capacity = 0;
    unsigned iterations = 0;
    double seconds_before = 0;
    double cpu_before = 0;
    while (getline(&line, &capacity, report) >= 0) {
        json_t *object = json_loads(line, 0, NULL);
        const char *type = json_string_value(json_object_get(object, "type"));
        if (type != NULL && strcmp(type, "iteration") == 0) {
            double seconds = json_number_value(json_object_get(object, "seconds"));
            double used = job_cpu(launcher);
            if (iterations > 0) {
                series_add(wall, seconds - seconds_before);
                series_add(cpu, used - cpu_before);
            }
            *objective = json_number_value(json_object_get(object, "objective"));
            seconds_before = seconds;
            cpu_before = used;
            iterations++;
        }
        json_decref(object);
    }
    free(line);
    return iterations;
}

int agile_run(const struct agile_options *options, struct series *wall, struct series *cpu, double *objective,
              struct error *error) {
    int ends[2];
    int status;
    if (pipe2(ends, O_CLOEXEC) != 0) {
        return error_set(error, AML_EFAIL, "can't make a pipe: %s", strerror(errno));
    }
    pid_t launcher = fork();
    if (launcher == 0) {
        job_exec(options, ends[1]);
    }
    close(ends[1]);
    if (launcher < 0) {
        close(ends[0]);
        return error_set(error, AML_EFAIL, "can't start a process: %s", strerror(errno));
    }
    FILE *report = fdopen(ends[0], "r");
    unsigned iterations = report != NULL ? read_report(report, launcher, wall, cpu, objective) : 0;
    if (report != NULL) {
        fclose(report);
    }
    while (waitpid(launcher, &status, 0) < 0 && errno == EINTR) {
    }
    if (!WIFEXITED(status) || WEXITSTATUS(status) != 0 || iterations != options->passes + 1) {
        return error_set(error, AML_EFAIL, "the job failed after %u of %u iterations", iterations, options->passes + 1);
    }
    return 0;
}
