/* See embedded.h. */
#include "bidbrain/cloud/embedded.h"

#include "agileml/base/clock.h"
#include "agileml/base/instant.h"
#include "agileml/base/memory.h"
#include "agileml/base/private_file.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

enum {
    ACCESS_KEY_BYTES = 8, /* random, of an access key's id */
    SECRET_BYTES = 20,
    NOTICE_S = 120,
    NOTICE_REAL_S = 3,
    NOTICE_MAX_S = 86400, /* what spotmarket takes */
    START_MS = 60 * 1000, /* within which a market must have read its prices */
    LOOK_MS = 20,
    SEED_BITS = 52,  /* what an option of a number holds */
    LOG_TEXT = 4096, /* of the log: its first line, or what a market that failed has said */
};

int64_t embedded_notice(double speed) {
    double real = speed * NOTICE_REAL_S;
    return real <= NOTICE_S ? NOTICE_S : real >= NOTICE_MAX_S ? NOTICE_MAX_S : (int64_t)real;
}

static void add_option(struct arguments *arguments, const char *name, const char *value) {
    if (value != NULL) {
        arguments_add(arguments, "--%s=%s", name, value);
    }
}

void embedded_arguments(struct arguments *arguments, const struct embedded *cloud, const char *credentials) {
    char start[INSTANT_TEXT_MAX];
    instant_format(cloud->start, start);
    arguments_add(arguments, "spotmarket");
    add_option(arguments, "prices", cloud->prices);
    add_option(arguments, "catalog", cloud->catalog);
    add_option(arguments, "start", start);
    arguments_add(arguments, "--speed=%.17g", cloud->speed);
    add_option(arguments, "model", cloud->model);
    add_option(arguments, "region", cloud->region);
    add_option(arguments, "product", cloud->product);
    add_option(arguments, "interruptions", cloud->interruptions);
    arguments_add(arguments, "--notice=%lld", (long long)cloud->notice);
    arguments_add(arguments, "--seed=%lld", (long long)cloud->seed);
    arguments_add(arguments, "--credentials=%s/credentials", credentials);
    add_option(arguments, "folder", cloud->folder);
    add_option(arguments, "owner", cloud->owner);
}

/* ---- Credentials ---- */

static int random_text(unsigned bytes, char *text) {
    unsigned char noise[SECRET_BYTES];
    if (getrandom(noise, bytes, 0) != (ssize_t)bytes) {
        return AML_EFAIL;
    }
    for (unsigned b = 0; b < bytes; b++) {
        snprintf(text + (size_t)2 * b, 3, "%02X", noise[b]);
    }
    return 0;
}

int embedded_write_credentials(const char *folder, struct error *error) {
    char id[2 * ACCESS_KEY_BYTES + 1];
    char secret[2 * SECRET_BYTES + 1];
    char path[PATH_MAX];
    if (random_text(ACCESS_KEY_BYTES, id) != 0 || random_text(SECRET_BYTES, secret) != 0) {
        return error_set(error, AML_EFAIL, "the system gives no random numbers");
    }
    int length = snprintf(path, sizeof path, "%s/credentials", folder);
    const char *reason = strerror(ENAMETOOLONG);
    int fd = length < (int)sizeof path ? private_file_open(path, O_WRONLY | O_TRUNC, &reason) : -1;
    int written =
        fd < 0 ? 0 : dprintf(fd, "[default]\naws_access_key_id = AKIA%s\naws_secret_access_key = %s\n", id, secret);
    if (fd >= 0 && (close(fd) != 0 || written < 0)) {
        fd = -1;
        reason = strerror(errno);
    }
    return fd >= 0 ? 0 : error_set(error, AML_EFAIL, "can't write %.300s/credentials: %s", folder, reason);
}

char **embedded_environment(const char *folder) {
    size_t count = 0;
    while (environ[count] != NULL) {
        count++;
    }
    char **list = memory_zeroed(count + 2, sizeof *list);
    size_t kept = 0;
    for (size_t e = 0; e < count; e++) {
        if (strncmp(environ[e], "AWS_", 4) != 0) {
            list[kept++] = memory_string(environ[e]);
        }
    }
    if (asprintf(&list[kept], "AWS_SHARED_CREDENTIALS_FILE=%s/credentials", folder) < 0) {
        memory_exhausted(PATH_MAX);
    }
    return list;
}

/* ---- The market of a folder ---- */

static bool log_path(const char *folder, char path[PATH_MAX]) {
    return snprintf(path, PATH_MAX, "%s/spotmarket.log", folder) < PATH_MAX;
}

/* Whether a market has the log as its output. The caller gets the lock, LOCK_SH or LOCK_EX, if none has. */
static bool log_is_taken(int log, int lock) {
    return flock(log, lock | LOCK_NB) != 0 && errno == EWOULDBLOCK;
}

static void read_log(int log, char text[LOG_TEXT]) {
    ssize_t size = pread(log, text, LOG_TEXT - 1, 0);
    text[size > 0 ? size : 0] = '\0';
}

static bool find_url(const char *text, char url[EMBEDDED_URL_TEXT]) {
    static const char words[] = "spotmarket at ";
    const char *at = strstr(text, words);
    size_t length = at != NULL ? strcspn(at += sizeof words - 1, "\n") : 0;
    if (at == NULL || at[length] != '\n' || length >= EMBEDDED_URL_TEXT) {
        return false;
    }
    memcpy(url, at, length);
    url[length] = '\0';
    return true;
}

/* The market that was just started has ended: its last line says why. */
static int start_failure(const struct process *process, const struct embedded *cloud, char text[LOG_TEXT],
                         struct error *error) {
    char end[PROCESS_END_TEXT];
    bool refused = WIFEXITED(process->status) && WEXITSTATUS(process->status) == 2;
    size_t length = strlen(text);
    if (length > 0 && text[length - 1] == '\n') {
        text[length - 1] = '\0';
    }
    const char *line = strrchr(text, '\n');
    process_describe_end(process, end);
    return error_set(error, refused ? AML_EINPUT : AML_EFAIL, "the market in %.200s: spotmarket %s: %.500s",
                     cloud->folder, end, line != NULL ? line + 1 : text);
}

/* `process`: what was started, zeroed if it was found. */
static int wait_for_url(int log, struct process *process, const struct embedded *cloud, char url[EMBEDDED_URL_TEXT],
                        struct error *error) {
    char text[LOG_TEXT];
    for (int waited = 0; waited < START_MS; waited += LOOK_MS) {
        bool ended = process_ended(process);
        read_log(log, text);
        if (find_url(text, url)) {
            return 0;
        }
        if (ended) {
            return start_failure(process, cloud, text, error);
        }
        if (process->pid == 0 && !log_is_taken(log, LOCK_SH)) {
            return error_set(error, AML_EFAIL, "the market in %.200s has just ended: see spotmarket.log there",
                             cloud->folder);
        }
        clock_pause_ms(LOOK_MS);
    }
    process_signal(process, SIGKILL); /* nobody would ever find it; does nothing to a market that was found */
    return error_set(error, AML_EFAIL,
                     "the market in %.200s does not say its address within %d s: see spotmarket.log there, and end its "
                     "process",
                     cloud->folder, START_MS / 1000);
}

static int start_market(int log, const struct embedded *cloud, struct process *process, struct error *error) {
    struct embedded started = *cloud;
    struct arguments arguments = {0};
    struct process_setting setting = PROCESS_SETTING_OURS;
    char program[PATH_MAX];
    if (process_find("spotmarket", program, NULL) != 0) {
        return error_set(error, AML_EINPUT, "provider local: no program spotmarket beside bidbrain or in $PATH");
    }
    /* Ids are drawn: those of an earlier market in this folder must not come again. */
    if (ftruncate(log, 0) != 0 || getrandom(&started.seed, sizeof started.seed, 0) != sizeof started.seed) {
        return error_set(error, AML_EFAIL, "the market in %.200s: %s", cloud->folder, strerror(errno));
    }
    started.seed &= (INT64_C(1) << SEED_BITS) - 1;
    int code = embedded_write_credentials(cloud->folder, error);
    embedded_arguments(&arguments, &started, cloud->folder);
    setting.output_fd = log;
    setting.detached = true;
    char **environment = embedded_environment(cloud->folder); /* no machine gets the keys of a real account */
    setting.environment = environment;
    code = code != 0 ? code : process_start(process, program, &arguments, setting, error);
    for (char **variable = environment; *variable != NULL; variable++) {
        free(*variable);
    }
    free(environment);
    arguments_close(&arguments);
    return code;
}

int embedded_open(const struct embedded *cloud, bool start, char url[EMBEDDED_URL_TEXT], struct error *error) {
    char path[PATH_MAX];
    struct process process = {0};
    const char *reason = NULL;
    url[0] = '\0';
    if (!start && !embedded_runs(cloud->folder)) {
        return 0;
    }
    if (mkdir(cloud->folder, 0700) != 0 && errno != EEXIST) {
        return error_set(error, AML_EINPUT, "folder: can't make %.300s: %s", cloud->folder, strerror(errno));
    }
    int log = log_path(cloud->folder, path) ? private_file_open(path, O_RDWR | O_APPEND, &reason) : -1;
    if (log < 0) {
        return error_set(error, AML_EINPUT, "folder: %.300s/spotmarket.log: %s", cloud->folder,
                         reason != NULL ? reason : strerror(ENAMETOOLONG));
    }
    bool taken = log_is_taken(log, LOCK_EX);
    int code = taken || !start ? 0 : start_market(log, cloud, &process, error);
    if (code == 0 && (taken || start)) {
        code = wait_for_url(log, &process, cloud, url, error);
    }
    close(log);
    return code;
}

bool embedded_runs(const char *folder) {
    char path[PATH_MAX];
    int log = log_path(folder, path) ? open(path, O_RDONLY | O_CLOEXEC) : -1;
    bool runs = log >= 0 ? log_is_taken(log, LOCK_SH) : errno != ENOENT; /* one that can't be seen may run */
    if (log >= 0) {
        close(log);
    }
    return runs;
}
