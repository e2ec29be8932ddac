/* See local_machine.h. */
#include "bidbrain/cloud/local_machine.h"

#include "agileml/base/clock.h"
#include "agileml/base/hash.h"
#include "agileml/base/memory.h"
#include "agileml/base/new_file.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <jansson.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

extern char **environ;

enum { LOCAL_STAT_MAX = 1024, LOCAL_VARIABLES = 4, LOCAL_CLAIM_WAITS = 100 };

static void machine_path(const struct local_machine *machine, const char *name, char path[PATH_MAX]) {
    snprintf(path, PATH_MAX, "%.4000s/%.64s", machine->folder, name);
}

void local_machine_id(const char *token, unsigned index, char id[PROVIDER_ID_TEXT]) {
    uint64_t hash = 0;
    for (const char *c = token; *c != '\0'; c++) {
        hash = hash_mix(hash ^ (unsigned char)*c);
    }
    snprintf(id, PROVIDER_ID_TEXT, "i-%017" PRIx64, hash_mix(hash + index) >> 4);
}

/* ---- Processes ---- */

/* The start time and state in the text of /proc/PID/stat; false if it is not such a text. Safe between fork and
 * exec. */
static bool stat_parse(const char *text, uint64_t *start_time, char *state) {
    const char *c = strrchr(text, ')'); /* the name before it may hold anything */
    if (c == NULL || c[1] != ' ') {
        return false;
    }
    *state = c[2];
    for (int field = 2; field < 22; c++) {
        if (*c == '\0') {
            return false;
        }
        field += *c == ' ';
    }
    *start_time = 0;
    for (; *c >= '0' && *c <= '9'; c++) {
        *start_time = *start_time * 10 + (uint64_t)(*c - '0');
    }
    return true;
}

static bool stat_read(const char *path, uint64_t *start_time, char *state) {
    char text[LOCAL_STAT_MAX];
    int file = open(path, O_RDONLY | O_CLOEXEC);
    ssize_t size = file >= 0 ? read(file, text, sizeof text - 1) : -1;
    if (file >= 0) {
        close(file);
    }
    if (size <= 0) {
        return false;
    }
    text[size] = '\0';
    return stat_parse(text, start_time, state);
}

/* Digits of a number, then a space; returns the end. Safe between fork and exec. */
static char *put_number(char *end, uint64_t number) {
    char digits[24];
    int count = 0;
    do {
        digits[count++] = (char)('0' + number % 10);
        number /= 10;
    } while (number > 0);
    while (count > 0) {
        *end++ = digits[--count];
    }
    *end++ = ' ';
    return end;
}

/* Writes `pid` if nobody has: whoever does is the machine. Safe between fork and exec. */
static bool claim(const char *path) {
    char text[64];
    uint64_t start_time;
    char state;
    if (!stat_read("/proc/self/stat", &start_time, &state)) {
        return false;
    }
    int file = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
    if (file < 0) {
        return false;
    }
    size_t size = (size_t)(put_number(put_number(text, (uint64_t)getpid()), start_time) - text);
    bool written = write(file, text, size) == (ssize_t)size;
    close(file);
    return written;
}

struct child {
    char folder[PATH_MAX], pid[PATH_MAX], script[PATH_MAX], console[PATH_MAX];
    char **environment;
};

/* The machine's process. Only what is safe in a signal handler: other threads of bidbrain may have held locks. */
_Noreturn static void child_run(const struct child *child) {
    sigset_t none;
    char *const arguments[] = {(char *)child->script, NULL};
    setsid();
    sigemptyset(&none);
    sigprocmask(SIG_SETMASK, &none, NULL);
    signal(SIGPIPE, SIG_DFL);
    int input = open("/dev/null", O_RDONLY);
    int output = open(child->console, O_WRONLY | O_CREAT | O_APPEND, 0600);
    if (input < 0 || output < 0 || dup2(input, STDIN_FILENO) < 0 || dup2(output, STDOUT_FILENO) < 0 ||
        dup2(output, STDERR_FILENO) < 0 || chdir(child->folder) != 0 || !claim(child->pid)) {
        _exit(127);
    }
    execve(child->script, arguments, child->environment);
    _exit(127);
}

/* The machine is nobody's child, so that it doesn't matter whether bidbrain is there when it ends. */
static int child_start(const struct child *child, struct error *error) {
    int status;
    pid_t pid = fork();
    if (pid == 0) {
        pid_t machine = fork();
        if (machine == 0) {
            child_run(child);
        }
        _exit(machine < 0);
    }
    if (pid < 0) {
        return error_set(error, AML_EFAIL, "can't start a process: %s", strerror(errno));
    }
    while (waitpid(pid, &status, 0) < 0) {
        if (errno != EINTR) {
            return 0; /* reaped by others: whether it runs is seen by its `pid` */
        }
    }
    return WIFEXITED(status) && WEXITSTATUS(status) == 0 ? 0 : error_set(error, AML_EFAIL, "can't start a process");
}

/* ---- Files ---- */

static int write_new(const char *path, const char *text, struct error *error) {
    struct new_file file;
    int code = new_file_open(&file, path, error);
    if (code != 0) {
        return code;
    }
    code = new_file_write(&file, text, strlen(text), error);
    if (code != 0) {
        new_file_discard(&file);
        return code;
    }
    return new_file_commit(&file, error);
}

static int write_json(const struct local_machine *machine, const char *name, json_t *value, struct error *error) {
    char path[PATH_MAX];
    machine_path(machine, name, path);
    char *text = json_dumps(value, JSON_COMPACT);
    json_decref(value);
    if (text == NULL) {
        memory_exhausted(0);
    }
    int code = write_new(path, text, error);
    free(text);
    return code;
}

static int write_machine(const struct local_machine *machine, struct error *error) {
    const struct provider_machine *told = &machine->told;
    return write_json(machine, "machine",
                      json_pack("{s:s,s:s,s:i,s:s,s:s,s:I,s:I}", "id", told->id, "token", told->token, "kind",
                                (int)told->kind, "type", told->type, "zone", told->zone, "launched",
                                (json_int_t)told->launched, "bid", (json_int_t)machine->bid),
                      error);
}

/* The environment of bidbrain, but for `names`, and what the machine is told. */
static char **make_environment(char *variables[LOCAL_VARIABLES]) {
    size_t count = 0;
    while (environ[count] != NULL) {
        count++;
    }
    char **environment = memory_zeroed(count + LOCAL_VARIABLES + 1, sizeof *environment);
    size_t kept = 0;
    for (size_t v = 0; v < LOCAL_VARIABLES; v++) {
        environment[kept++] = variables[v];
    }
    for (size_t e = 0; e < count; e++) {
        bool ours = false;
        for (size_t v = 0; v < LOCAL_VARIABLES; v++) {
            ours = ours || strncmp(environ[e], variables[v], strcspn(variables[v], "=") + 1) == 0;
        }
        if (!ours) {
            environment[kept++] = environ[e];
        }
    }
    return environment;
}

static int machine_run(const struct local_machine *machine, const char *user_data, double notice_s,
                       struct error *error) {
    struct child *child = memory_zeroed(1, sizeof *child);
    char name[64];
    char notice[64];
    snprintf(name, sizeof name, "PROTEUS_MACHINE=%s", machine->told.id);
    snprintf(notice, sizeof notice, "PROTEUS_NOTICE=%.3f", notice_s);
    char off[] = "AWS_EC2_METADATA_DISABLED=true"; /* there is no metadata service */
    char shutdown[] = "PROTEUS_SHUTDOWN=true";
    char *variables[LOCAL_VARIABLES] = {name, notice, off, shutdown};
    snprintf(child->folder, sizeof child->folder, "%s", machine->folder);
    machine_path(machine, "pid", child->pid);
    machine_path(machine, "user-data", child->script);
    machine_path(machine, "console.log", child->console);
    child->environment = make_environment(variables);
    int code = write_new(child->script, user_data, error);
    if (code == 0 && chmod(child->script, 0700) != 0) {
        code = error_set(error, AML_EFAIL, "%.300s: %s", child->script, strerror(errno));
    }
    code = code != 0 ? code : child_start(child, error);
    free(child->environment);
    free(child);
    return code;
}

int local_machine_start(struct local_machine *machine, const char *folder, const char *user_data, double notice_s,
                        struct error *error) {
    char path[PATH_MAX];
    snprintf(machine->folder, sizeof machine->folder, "%.4000s/%s", folder, machine->told.id);
    if (mkdir(machine->folder, 0700) != 0 && errno != EEXIST) {
        return error_set(error, AML_EFAIL, "can't make %.300s: %s", machine->folder, strerror(errno));
    }
    int code = 0;
    machine_path(machine, "machine", path);
    if (access(path, F_OK) != 0) {
        code = write_machine(machine, error);
    } else if (!local_machine_read(machine, folder, machine->told.id)) {
        code = error_set(error, AML_EFAIL, "%.300s: damaged", path);
    }
    machine_path(machine, "pid", path);
    if (code == 0 && machine->told.state != MACHINE_GONE && access(path, F_OK) != 0) {
        code = machine_run(machine, user_data, notice_s, error);
    }
    return code;
}

static bool get_text(const json_t *object, const char *key, char *text, size_t size) {
    const char *value = json_string_value(json_object_get(object, key));
    return value != NULL && snprintf(text, size, "%s", value) < (int)size;
}

bool local_machine_read(struct local_machine *machine, const char *folder, const char *id) {
    char path[PATH_MAX];
    *machine = (struct local_machine){.evicted_at = MARKET_NEVER};
    snprintf(machine->folder, sizeof machine->folder, "%.4000s/%.40s", folder, id);
    machine_path(machine, "machine", path);
    json_t *object = json_load_file(path, 0, NULL);
    struct provider_machine *told = &machine->told;
    bool whole = get_text(object, "id", told->id, sizeof told->id) && strcmp(told->id, id) == 0 &&
                 get_text(object, "token", told->token, sizeof told->token) &&
                 get_text(object, "type", told->type, sizeof told->type) &&
                 get_text(object, "zone", told->zone, sizeof told->zone);
    told->kind =
        json_integer_value(json_object_get(object, "kind")) == PROVIDER_SPOT ? PROVIDER_SPOT : PROVIDER_ON_DEMAND;
    told->launched = json_integer_value(json_object_get(object, "launched"));
    machine->bid = json_integer_value(json_object_get(object, "bid"));
    told->state = MACHINE_RUNNING;
    json_decref(object);
    machine_path(machine, "ended", path);
    json_t *ended = json_load_file(path, 0, NULL);
    if (ended != NULL) {
        told->state = MACHINE_GONE;
        told->evicted = json_is_true(json_object_get(ended, "evicted"));
        (void)get_text(ended, "reason", told->reason, sizeof told->reason);
        json_decref(ended);
    }
    return whole;
}

/* Its process may be a moment from writing `pid`. */
static bool machine_find_process(struct local_machine *machine) {
    char path[PATH_MAX];
    if (machine->pid == 0) {
        machine_path(machine, "pid", path);
        FILE *file = fopen(path, "re");
        int pid = 0;
        if (file != NULL && fscanf(file, "%d %" SCNu64, &pid, &machine->start_time) == 2 && pid > 1) {
            machine->pid = pid;
        }
        if (file != NULL) {
            fclose(file);
        }
    }
    return machine->pid != 0;
}

/* 1: it is there; 0: nobody has that number; -1: somebody else. */
static int machine_process(struct local_machine *machine) {
    char path[64];
    uint64_t start_time;
    char state;
    snprintf(path, sizeof path, "/proc/%d/stat", (int)machine->pid);
    if (!stat_read(path, &start_time, &state)) {
        return 0;
    }
    return start_time != machine->start_time ? -1 : state != 'Z' && state != 'X';
}

bool local_machine_alive(struct local_machine *machine) {
    return !machine_find_process(machine) || machine_process(machine) == 1;
}

void local_machine_signal(const struct local_machine *machine, int number) {
    if (machine->pid > 1) {
        kill(-machine->pid, number);
    }
}

/* A process that has not written `pid` yet never will: we have. */
static void machine_forbid(struct local_machine *machine) {
    char path[PATH_MAX];
    machine_path(machine, "pid", path);
    for (int attempt = 0; attempt < LOCAL_CLAIM_WAITS && !machine_find_process(machine); attempt++) {
        int file = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
        if (file >= 0) {
            close(file);
            return;
        }
        clock_pause_ms(1); /* it is about to be written */
    }
}

void local_machine_end(struct local_machine *machine, int64_t time) {
    struct error error = {0};
    machine_forbid(machine);
    if (machine_find_process(machine) && machine_process(machine) >= 0) {
        local_machine_signal(machine, SIGKILL);
    }
    machine->told.state = MACHINE_GONE;
    (void)write_json(machine, "ended",
                     json_pack("{s:I,s:b,s:s}", "time", (json_int_t)time, "evicted", (int)machine->told.evicted,
                               "reason", machine->told.reason),
                     &error);
}
