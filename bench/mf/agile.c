/* See agile.h. */
#include "bench/mf/agile.h"

#include "agileml/base/memory.h"

#include <ctype.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <jansson.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

enum { AGILE_ARGUMENTS_MAX = 32, AGILE_PROCESSES_MAX = 16 };

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

static _Noreturn void job_exec(const struct agile_options *options, int report) {
    char program[512];
    char texts[6][64];
    char data[512];
    snprintf(program, sizeof program, "%s/proteus", options->folder);
    snprintf(texts[0], sizeof texts[0], "--threads=%u", options->threads);
    snprintf(texts[1], sizeof texts[1], "--report=/proc/self/fd/%d", report);
    snprintf(texts[2], sizeof texts[2], "--partitions=%u", options->partitions);
    snprintf(texts[3], sizeof texts[3], "--rank=%u", options->rank);
    snprintf(texts[4], sizeof texts[4], "--iterations=%u", options->passes + 1);
    snprintf(data, sizeof data, "--data=%s", options->data);
    char *arguments[] = {program, "run",  "--quiet", "--reliable=1", texts[0],
                         texts[1], texts[2], "--",     "mf",           data,
                         texts[3], texts[4], options->biases ? NULL : "--no-biases", NULL};
    fcntl(report, F_SETFD, 0);
    prctl(PR_SET_PDEATHSIG, SIGTERM);
    execv(program, arguments);
    fprintf(stderr, "%s: %s\n", program, strerror(errno));
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
