/* See machines.h. */
#include "spotmarket/machines.h"

#include "agileml/base/clock.h"
#include "agileml/base/log.h"
#include "agileml/base/memory.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

enum { SCRIPT_FAILED = 126, WAIT_MS_MAX = 50, MACHINE_PERIOD_MS = 100 };

/* ---- The supervisor: a forked process, whose functions never return ---- */

/* Returns the parent of a process; 0: the process has ended. */
static pid_t parent_of(const char *pid) {
    char path[NAME_MAX + 32];
    char text[512];
    snprintf(path, sizeof path, "/proc/%s/stat", pid);
    int file = open(path, O_RDONLY | O_CLOEXEC);
    ssize_t size = file >= 0 ? read(file, text, sizeof text - 1) : -1;
    if (file >= 0) {
        close(file);
    }
    if (size <= 0) {
        return 0;
    }
    text[size] = '\0';
    const char *name_end = strrchr(text, ')'); /* a process's name may hold anything */
    int parent = 0;
    return name_end != NULL && sscanf(name_end + 1, " %*c %d", &parent) == 1 ? parent : 0;
}

/* For kernels that do not list a process's children. */
static void kill_children_by_search(void) {
    DIR *proc = opendir("/proc");
    for (struct dirent *entry; proc != NULL && (entry = readdir(proc)) != NULL;) {
        if (entry->d_name[0] >= '1' && entry->d_name[0] <= '9' && parent_of(entry->d_name) == getpid()) {
            kill((pid_t)strtol(entry->d_name, NULL, 10), SIGKILL);
        }
    }
    if (proc != NULL) {
        closedir(proc);
    }
}

static void kill_children(void) {
    char path[64];
    int child;
    snprintf(path, sizeof path, "/proc/self/task/%d/children", (int)getpid());
    FILE *children = fopen(path, "re");
    if (children == NULL) {
        kill_children_by_search();
        return;
    }
    while (fscanf(children, "%d", &child) == 1) {
        kill((pid_t)child, SIGKILL);
    }
    fclose(children);
}

/* Kills all processes of the machine. We are its subreaper and get its orphans as children: when we have no child, no
 * process of the machine is left. A list of children may miss new ones, so we list them again until there are none. */
static void kill_all(pid_t script) {
    kill(-script, SIGKILL);
    for (unsigned wait_ms = 1;; wait_ms += wait_ms < WAIT_MS_MAX ? wait_ms : 0) {
        kill_children();
        clock_pause_ms(wait_ms);
        pid_t gone;
        do {
            gone = waitpid(-1, NULL, WNOHANG);
        } while (gone > 0);
        if (gone < 0) { /* ECHILD: WNOHANG is not interrupted */
            return;
        }
    }
}

_Noreturn static void script_run(const char *program, pid_t supervisor) {
    sigset_t none;
    setsid();
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (getppid() != supervisor) {
        _exit(SCRIPT_FAILED);
    }
    sigemptyset(&none);
    sigprocmask(SIG_SETMASK, &none, NULL);
    signal(SIGPIPE, SIG_DFL); /* the server ignores it, and children inherit that */
    execl(program, program, (char *)NULL);
    dprintf(STDERR_FILENO, "spotmarket: can't run the user data: %s\n", strerror(errno));
    _exit(SCRIPT_FAILED);
}

/* Waits for one of the signals. Meanwhile the script of a slow machine runs and stops in turns. */
static int await(const sigset_t *awaited, pid_t script, double speed) {
    if (speed >= 1) {
        return sigwaitinfo(awaited, NULL);
    }
    for (bool runs = true;; runs = !runs) {
        double part_ns = MACHINE_PERIOD_MS * 1e6 * (runs ? speed : 1 - speed);
        const struct timespec part = {.tv_nsec = (long)part_ns};
        kill(-script, runs ? SIGCONT : SIGSTOP); /* fails if the script does not run yet; the next turn catches it */
        int signal = sigtimedwait(awaited, NULL, &part);
        if (signal > 0) {
            return signal;
        }
    }
}

/* Waits until the script ends, or SIGTERM comes: from the market, or from the kernel when the market dies. */
_Noreturn static void supervise(const char *program, pid_t market, double speed) {
    const struct sigaction without_stops = {.sa_handler = SIG_DFL, .sa_flags = SA_NOCLDSTOP};
    sigset_t awaited;
    sigaction(SIGCHLD, &without_stops, NULL);
    setsid();
    prctl(PR_SET_CHILD_SUBREAPER, 1);
    prctl(PR_SET_PDEATHSIG, SIGTERM);
    sigemptyset(&awaited);
    sigaddset(&awaited, SIGTERM);
    sigaddset(&awaited, SIGCHLD);
    sigprocmask(SIG_BLOCK, &awaited, NULL);
    if (getppid() != market) {
        _exit(0);
    }
    pid_t self = getpid();
    pid_t script = fork();
    if (script == 0) {
        script_run(program, self);
    }
    for (bool running = script > 0; running;) {
        int signal = await(&awaited, script, speed);
        running = signal != SIGTERM;
        for (pid_t gone; running && (gone = waitpid(-1, NULL, WNOHANG)) > 0;) {
            running = gone != script;
        }
    }
    if (script > 0) {
        kill_all(script);
    }
    _exit(0);
}

/* ---- The market's side ---- */

static bool write_file(const char *path, const char *data, size_t size) {
    int file = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0700);
    if (file < 0) {
        return false;
    }
    bool written = write(file, data, size) == (ssize_t)size;
    return close(file) == 0 && written;
}

/* In the child: sets the machine's folder, output and environment. */
static bool machine_enter(const char *metadata, const char *folder) {
    char text[PATH_MAX + 64];
    int null = open("/dev/null", O_RDONLY);
    int console = chdir(folder) == 0 ? open("console.log", O_WRONLY | O_CREAT | O_APPEND, 0600) : -1;
    if (null < 0 || console < 0 || dup2(null, STDIN_FILENO) < 0 || dup2(console, STDOUT_FILENO) < 0 ||
        dup2(console, STDERR_FILENO) < 0) {
        return false;
    }
    close_range(STDERR_FILENO + 1, UINT_MAX, 0); /* most importantly the server's socket */
    setenv("AWS_EC2_METADATA_SERVICE_ENDPOINT", metadata, 1);
    unsetenv("AWS_EC2_METADATA_DISABLED"); /* concerns our host; the script would see no notice with it */
    setenv("PROTEUS_SHUTDOWN", "true", 1);
    ssize_t length = readlink("/proc/self/exe", text, PATH_MAX - 1);
    text[length > 0 ? length : 0] = '\0';
    char *slash = strrchr(text, '/');
    const char *path = getenv("PATH");
    if (slash != NULL) {
        *slash = '\0';
        size_t size = strlen(text) + 2 + (path != NULL ? strlen(path) : 0);
        char *joined = memory_zeroed(size, 1);
        snprintf(joined, size, "%s%s%s", text, path != NULL ? ":" : "", path != NULL ? path : "");
        setenv("PATH", joined, 1);
        free(joined);
    }
    return true;
}

static void machine_fork(struct machines *machines, const struct instance *instance, const char *metadata,
                         const char *folder, const char *program) {
    pid_t market = getpid();
    double speed = 1;
    for (size_t s = 0; s < machines->speed_count; s++) {
        speed = strcmp(machines->speeds[s].type, instance->spec->type->type) == 0 ? machines->speeds[s].speed : speed;
    }
    pid_t pid = fork();
    if (pid == 0) {
        if (!machine_enter(metadata, folder)) {
            _exit(SCRIPT_FAILED);
        }
        supervise(program, market, speed);
    }
    if (pid < 0) {
        log_error("%s: can't start a process: %s", instance->id, strerror(errno));
        return;
    }
    machines->list = memory_extended(machines->list, machines->count, &machines->capacity, sizeof *machines->list);
    machines->list[machines->count++] = (struct machine){instance->number, pid};
}

void machines_start(struct machines *machines, const struct instance *instance, const char *metadata) {
    const struct launch_spec *spec = instance->spec;
    char folder[PATH_MAX];
    char program[PATH_MAX + 16];
    snprintf(folder, sizeof folder, "%s/%s", machines->folder, instance->id);
    snprintf(program, sizeof program, "%s/user-data", folder);
    if (mkdir(folder, 0700) != 0 && errno != EEXIST) {
        log_error("%s: %s", folder, strerror(errno));
        return;
    }
    if (spec->user_data == NULL) {
        return;
    }
    if (!write_file(program, spec->user_data, spec->user_data_size)) {
        log_error("can't write %s: %s", program, strerror(errno));
    } else if (strncmp(spec->user_data, "#!", 2) == 0) {
        machine_fork(machines, instance, metadata, folder, program);
    } else {
        log_warn("%s: the user data does not begin with #!, so it is no script: the machine runs without a process",
                 instance->id);
    }
}

void machines_stop(struct machines *machines, size_t number) {
    for (size_t i = 0; i < machines->count; i++) {
        if (machines->list[i].number == number) {
            kill(machines->list[i].supervisor, SIGTERM);
        }
    }
}

/* Removes the machine whose supervisor has ended. Returns its number; MARKET_NONE if there is none. */
static size_t machine_forget(struct machines *machines, pid_t supervisor) {
    for (size_t i = 0; i < machines->count; i++) {
        if (machines->list[i].supervisor == supervisor) {
            size_t number = machines->list[i].number;
            machines->list[i] = machines->list[--machines->count];
            return number;
        }
    }
    return MARKET_NONE;
}

void machines_reap(struct machines *machines, void (*ended)(void *context, size_t number), void *context) {
    for (pid_t pid; (pid = waitpid(-1, NULL, WNOHANG)) > 0;) {
        size_t number = machine_forget(machines, pid);
        if (number != MARKET_NONE) {
            ended(context, number);
        }
    }
}

void machines_close(struct machines *machines) {
    for (size_t i = 0; i < machines->count; i++) {
        kill(machines->list[i].supervisor, SIGTERM);
    }
    while (machines->count > 0) {
        pid_t pid = waitpid(-1, NULL, 0);
        if (pid < 0 && errno != EINTR) {
            break;
        }
        (void)machine_forget(machines, pid);
    }
    free(machines->list);
    *machines = (struct machines){0};
}
