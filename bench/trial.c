/* See trial.h. */
#include "bench/trial.h"

#include "agileml/base/memory.h"
#include "agileml/wire/report_line.h"

#include <ctype.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <math.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

enum { REPORT_DESCRIPTOR = 100 }; /* a free descriptor in the started program */

/* Returns the parent of `process`; 0 when the process is gone. */
static pid_t parent_of(pid_t process) {
    char path[64];
    char line[512];
    int parent = 0;
    snprintf(path, sizeof path, "/proc/%d/stat", (int)process);
    FILE *file = fopen(path, "re");
    if (file != NULL && fgets(line, sizeof line, file) != NULL) {
        const char *end = strrchr(line, ')'); /* the program's name before it may hold anything */
        if (end == NULL || sscanf(end + 1, " %*c %d", &parent) != 1) {
            parent = 0;
        }
    }
    if (file != NULL) {
        fclose(file);
    }
    return parent;
}

/* Returns the CPU-seconds of `launcher` and its children so far. */
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

bool trial_find_programs(const char *app, char *folder, size_t size) {
    char program[PATH_MAX];
    const char *set = getenv("PROTEUS_BIN");
    if (set != NULL) {
        snprintf(folder, size, "%s", set);
    } else {
        ssize_t length = readlink("/proc/self/exe", program, sizeof program - 1);
        program[length > 0 ? length : 0] = '\0';
        char *slash = strrchr(program, '/');
        snprintf(folder, size, "%.*s/../bin", slash != NULL ? (int)(slash - program) : 0, program);
    }
    bool there = snprintf(program, sizeof program, "%s/proteus", folder) < PATH_MAX && access(program, X_OK) == 0;
    return there && snprintf(program, sizeof program, "%s/%s", folder, app) < PATH_MAX && access(program, X_OK) == 0;
}

unsigned trial_passes(int64_t asked, double work_of_pass, double enough) {
    double passes = ceil(enough / work_of_pass);
    return asked > 0 ? (unsigned)asked : passes < 6 ? 6 : passes > 200 ? 200 : (unsigned)passes;
}

void trial_argument(struct bench_trial *trial, const char *format, ...) {
    va_list values;
    size_t count = 0;
    while (trial->arguments[count] != NULL) {
        count++;
    }
    va_start(values, format);
    if (count == TRIAL_ARGUMENTS_MAX || vasprintf(&trial->arguments[count], format, values) < 0) {
        memory_exhausted(0);
    }
    va_end(values);
}

void trial_open(struct bench_trial *trial, const char *folder, unsigned threads, unsigned partitions, const char *app,
                unsigned passes) {
    *trial = (struct bench_trial){.passes = passes};
    trial_argument(trial, "%s/proteus", folder);
    trial_argument(trial, "run");
    trial_argument(trial, "--quiet");
    trial_argument(trial, "--reliable=1");
    trial_argument(trial, "--threads=%u", threads);
    trial_argument(trial, "--partitions=%u", partitions);
    trial_argument(trial, "--report=/proc/self/fd/%d", REPORT_DESCRIPTOR);
    trial_argument(trial, "--");
    trial_argument(trial, "%s", app);
    trial_argument(trial, "--iterations=%u", passes + 2);
}

void trial_close(struct bench_trial *trial) {
    for (size_t i = 0; trial->arguments[i] != NULL; i++) {
        free(trial->arguments[i]);
        trial->arguments[i] = NULL;
    }
}

static _Noreturn void trial_exec(const struct bench_trial *trial, int report) {
    prctl(PR_SET_PDEATHSIG, SIGTERM);
    /* unlike the original, the copy stays open after execv */
    if (dup2(report, REPORT_DESCRIPTOR) == REPORT_DESCRIPTOR) {
        execv(trial->arguments[0], trial->arguments);
    }
    fprintf(stderr, "%s: %s\n", trial->arguments[0], strerror(errno));
    _exit(1);
}

/* Reads the report up to its end. Returns the number of iterations. */
static unsigned read_report(FILE *report, pid_t launcher, const struct bench_trial *trial, struct series *wall,
                            struct series *cpu, double *objective) {
    char *line = NULL;
    size_t capacity = 0;
    unsigned iterations = 0;
    double seconds_before = 0;
    double cpu_before = 0;
    while (getline(&line, &capacity, report) >= 0) {
        struct report_line *read = report_line_read(line, strlen(line), NULL);
        if (read != NULL && read->is == REPORT_ITERATION) {
            double seconds = read->seconds;
            double used = job_cpu(launcher);
            if (iterations > 0 && iterations <= trial->passes) {
                series_add(wall, seconds - seconds_before);
                series_add(cpu, used - cpu_before);
                *objective = read->objective;
            }
            for (unsigned n = 0; n < trial->number_count; n++) {
                series_add(&trial->numbers[n].values, report_line_metric(read, trial->numbers[n].name));
            }
            seconds_before = seconds;
            cpu_before = used;
            iterations++;
        }
        report_line_drop(read);
    }
    free(line);
    return iterations;
}

int trial_run(const struct bench_trial *trial, struct series *wall, struct series *cpu, double *objective,
              struct error *error) {
    int ends[2];
    int status;
    if (pipe2(ends, O_CLOEXEC) != 0) {
        return error_set(error, AML_EFAIL, "can't make a pipe: %s", strerror(errno));
    }
    pid_t launcher = fork();
    if (launcher == 0) {
        trial_exec(trial, ends[1]);
    }
    close(ends[1]);
    if (launcher < 0) {
        close(ends[0]);
        return error_set(error, AML_EFAIL, "can't start a process: %s", strerror(errno));
    }
    FILE *report = fdopen(ends[0], "r");
    unsigned iterations = report != NULL ? read_report(report, launcher, trial, wall, cpu, objective) : 0;
    if (report != NULL) {
        fclose(report);
    }
    while (waitpid(launcher, &status, 0) < 0 && errno == EINTR) {
    }
    if (!WIFEXITED(status) || WEXITSTATUS(status) != 0 || iterations != trial->passes + 2) {
        return error_set(error, AML_EFAIL, "the job failed after %u of %u iterations", iterations, trial->passes + 2);
    }
    return 0;
}
