/* See process.h. */
#include "agileml/base/process.h"

#include "agileml/base/memory.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { PROCESS_EXEC_FAILED = 127 };

void arguments_add(struct arguments *arguments, const char *format, ...) {
    va_list values;
    char *text;
    va_start(values, format);
    int length = vasprintf(&text, format, values);
    va_end(values);
    if (length < 0) {
        memory_exhausted(strlen(format));
    }
    arguments->list = memory_resized(arguments->list, arguments->count + 2, sizeof *arguments->list);
    arguments->list[arguments->count++] = text;
    arguments->list[arguments->count] = NULL;
}

void arguments_close(struct arguments *arguments) {
    for (size_t a = 0; a < arguments->count; a++) {
        free(arguments->list[a]);
    }
    free(arguments->list);
    *arguments = (struct arguments){0};
}

/* Returns 0, or an errno that says why the file can't be run as a program. */
static int program_refusal(const char *path) {
    struct stat file;
    if (stat(path, &file) != 0) {
        return errno;
    }
    if (!S_ISREG(file.st_mode)) {
        return EACCES;
    }
    return access(path, X_OK) == 0 ? 0 : errno;
}

int process_self(char path[PATH_MAX], struct error *error) {
    ssize_t length = readlink("/proc/self/exe", path, PATH_MAX - 1);
    if (length < 0) {
        return error_set(error, AML_EFAIL, "can't read /proc/self/exe: %s", strerror(errno));
    }
    path[length] = '\0';
    return 0;
}

/* Writes "FOLDER/NAME" to `path`. Returns false when it is too long, or not a program that may be run. */
static bool program_in(const char *folder, size_t folder_length, const char *name, char path[PATH_MAX]) {
    int length = folder_length == 0 ? snprintf(path, PATH_MAX, "./%s", name)
                                    : snprintf(path, PATH_MAX, "%.*s/%s", (int)folder_length, folder, name);
    return length > 0 && length < PATH_MAX && program_refusal(path) == 0;
}

int process_find(const char *name, char path[PATH_MAX], struct error *error) {
    if (strlen(name) >= PATH_MAX || name[0] == '\0') {
        return error_set(error, AML_EINPUT, "app '%.100s': expected the name or path of a program", name);
    }
    if (strchr(name, '/') != NULL) {
        int refusal = program_refusal(name);
        strcpy(path, name);
        return refusal == 0 ? 0
                            : error_set(error, AML_EINPUT, "app '%.200s': %s", name,
                                        refusal == EACCES ? "not a program that may be run" : strerror(refusal));
    }
    char self[PATH_MAX];
    if (process_self(self, NULL) == 0 && program_in(self, (size_t)(strrchr(self, '/') - self), name, path)) {
        return 0;
    }
    const char *folder = getenv("PATH");
    while (folder != NULL) {
        size_t length = strcspn(folder, ":");
        if (program_in(folder, length, name, path)) {
            return 0;
        }
        folder = folder[length] == ':' ? folder + length + 1 : NULL;
    }
    return error_set(error, AML_EINPUT, "app '%.200s': no such program beside proteus or in $PATH", name);
}

/* Runs in the child, and may call only functions that are safe in a signal handler, as other threads of the parent
 * may have held locks. Reports a failure's errno through `failure_fd`, which a successful exec closes. */
_Noreturn static void child_run(const char *path, char *const arguments[], struct process_setting setting,
                                int failure_fd, pid_t parent) {
    sigset_t none;
    if (setting.detached) {
        setsid();
    } else {
        setpgid(0, 0);
        prctl(PR_SET_PDEATHSIG, SIGKILL);
    }
    if (!setting.detached && getppid() != parent) {
        _exit(PROCESS_EXEC_FAILED); /* the parent ended before prctl took effect */
    }
    sigemptyset(&none);
    sigprocmask(SIG_SETMASK, &none, NULL);
    int null = open("/dev/null", O_RDONLY);
    if (null > STDIN_FILENO) {
        dup2(null, STDIN_FILENO);
        close(null);
    }
    if (setting.detached) {
        close_range(STDERR_FILENO + 1, ~0U, CLOSE_RANGE_CLOEXEC); /* no inherited descriptors */
    }
    if (setting.inherited_fd >= 0) {
        fcntl(setting.inherited_fd, F_SETFD, 0);
    }
    if (setting.output_fd >= 0) {
        dup2(setting.output_fd, STDOUT_FILENO);
        dup2(setting.output_fd, STDERR_FILENO);
    }
    execve(path, arguments, setting.environment != NULL ? setting.environment : environ);
    int failure = errno;
    ssize_t written = write(failure_fd, &failure, sizeof failure);
    (void)written;
    _exit(PROCESS_EXEC_FAILED);
}

int process_start(struct process *process, const char *path, const struct arguments *arguments,
                  struct process_setting setting, struct error *error) {
    int failure_pipe[2];
    int failure = 0;
    *process = (struct process){0};
    if (pipe2(failure_pipe, O_CLOEXEC) != 0) {
        return error_set(error, AML_EFAIL, "can't start '%.200s': %s", path, strerror(errno));
    }
    pid_t parent = getpid();
    pid_t pid = fork();
    if (pid == 0) {
        child_run(path, arguments->list, setting, failure_pipe[1], parent);
    }
    int fork_failure = errno;
    close(failure_pipe[1]);
    if (pid > 0) {
        if (!setting.detached) {
            setpgid(pid, pid); /* parent and child both set the group, as either may run first */
        }
        ssize_t size;
        do {
            size = read(failure_pipe[0], &failure, sizeof failure);
        } while (size < 0 && errno == EINTR);
    }
    close(failure_pipe[0]);
    if (pid < 0) {
        return error_set(error, AML_EFAIL, "can't start '%.200s': %s", path, strerror(fork_failure));
    }
    if (failure != 0) {
        while (waitpid(pid, NULL, 0) < 0 && errno == EINTR) {
        }
        return error_set(error, AML_EINPUT, "can't run '%.200s': %s", path, strerror(failure));
    }
    *process = (struct process){.pid = pid, .running = true};
    return 0;
}

void process_signal(const struct process *process, int number) {
    if (process->running) {
        kill(-process->pid, number);
    }
}

bool process_ended(struct process *process) {
    if (!process->running) {
        return false;
    }
    siginfo_t end = {0};
    if (waitid(P_PID, (id_t)process->pid, &end, WEXITED | WNOHANG | WNOWAIT) != 0 || end.si_pid == 0) {
        return false;
    }
    /* Until the process is reaped its number isn't reused, so the rest of its process group can be killed. */
    kill(-process->pid, SIGKILL);
    while (waitpid(process->pid, &process->status, 0) < 0 && errno == EINTR) {
    }
    process->running = false;
    return true;
}

bool process_dumps_core(const struct process *process) {
    char path[64];
    char line[128];
    bool dumps = false;
    snprintf(path, sizeof path, "/proc/%ld/status", (long)process->pid);
    FILE *status = process->running ? fopen(path, "re") : NULL;
    while (status != NULL && !dumps && fgets(line, sizeof line, status) != NULL) {
        int dumping = 0;
        dumps = sscanf(line, "CoreDumping: %d", &dumping) == 1 && dumping != 0;
    }
    if (status != NULL) {
        fclose(status);
    }
    return dumps;
}

uint64_t process_cpu_us(const struct process *process) {
    clockid_t clock;
    struct timespec time;
    if (!process->running || clock_getcpuclockid(process->pid, &clock) != 0 || clock_gettime(clock, &time) != 0) {
        return 0;
    }
    return (uint64_t)time.tv_sec * 1000000 + (uint64_t)time.tv_nsec / 1000;
}

bool process_succeeded(const struct process *process) {
    return process->pid != 0 && !process->running && WIFEXITED(process->status) && WEXITSTATUS(process->status) == 0;
}

void process_describe_end(const struct process *process, char text[PROCESS_END_TEXT]) {
    if (WIFSIGNALED(process->status)) {
        int number = WTERMSIG(process->status);
        snprintf(text, PROCESS_END_TEXT, "was killed by signal %d (%s)", number, strsignal(number));
    } else {
        snprintf(text, PROCESS_END_TEXT, "ended with exit status %d", WEXITSTATUS(process->status));
    }
}
