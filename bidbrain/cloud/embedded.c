/* See embedded.h. */
#include "bidbrain/cloud/embedded.h"

#include "agileml/base/instant.h"
#include "agileml/base/memory.h"
#include "agileml/base/new_file.h"
#include "agileml/base/private_file.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
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
    ACCESS_KEY_BYTES = 8, /* random bytes in an access key's id */
    SECRET_BYTES = 20,
    NOTICE_S = 120,
    NOTICE_REAL_S = 3,
    NOTICE_MAX_S = 86400, /* most that spotmarket accepts */
    START_MS = 60 * 1000, /* limit for a market to read its prices */
    LOOK_MS = 20,
    SEED_BITS = 52, /* what a numeric option can hold */
    TERMS_TEXT = 4096 + 8 * PATH_MAX,
    LOG_TEXT = 4096, /* bytes read from the log: its first line, or the messages of a market that failed */
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

/* ---- The terms of a market ---- */

/* Returns the options that the configuration determines, one per line, from malloc. */
static char *describe_terms(const struct embedded *cloud) {
    struct embedded terms = *cloud;
    struct arguments arguments = {0};
    char *text = NULL;
    size_t size = 0;
    terms.start = cloud->first;
    terms.seed = 0; /* random, so not part of the terms */
    embedded_arguments(&arguments, &terms, cloud->folder);
    FILE *stream = open_memstream(&text, &size);
    for (size_t a = 1; stream != NULL && a < arguments.count; a++) {
        fprintf(stream, "%s\n", arguments.list[a]);
    }
    if (stream == NULL || fclose(stream) != 0) {
        memory_exhausted(size);
    }
    arguments_close(&arguments);
    return text;
}

static int write_terms(const struct embedded *cloud, struct error *error) {
    struct new_file file;
    char path[PATH_MAX];
    char *terms = describe_terms(cloud);
    snprintf(path, sizeof path, "%s/spotmarket.terms", cloud->folder);
    int code = new_file_open(&file, path, error);
    if (code == 0 && (code = new_file_write(&file, terms, strlen(terms), error)) != 0) {
        new_file_discard(&file);
    } else if (code == 0) {
        code = new_file_commit(&file, error);
    }
    free(terms);
    return code;
}

/* Returns the first line of `terms` that is not in `others`, without its line end; NULL: none. */
static char *find_line_apart(const char *terms, const char *others) {
    for (const char *line = terms; *line != '\0'; line += strcspn(line, "\n") + 1) {
        size_t length = strcspn(line, "\n") + 1;
        const char *other = others;
        while (*other != '\0' && strncmp(other, line, length) != 0) {
            other += strcspn(other, "\n") + 1;
        }
        if (*other == '\0') {
            return strndup(line, length - 1);
        }
    }
    return NULL;
}

/* Compares this configuration with that of the running market. */
static int check_terms(const struct embedded *cloud, struct error *error) {
    char path[PATH_MAX];
    char running[TERMS_TEXT] = "";
    snprintf(path, sizeof path, "%s/spotmarket.terms", cloud->folder);
    int file = open(path, O_RDONLY | O_CLOEXEC);
    ssize_t size = file >= 0 ? read(file, running, sizeof running - 1) : 0;
    if (file >= 0) {
        close(file);
    }
    running[size > 0 ? size : 0] = '\0';
    char *terms = describe_terms(cloud);
    char *ours = find_line_apart(terms, running);
    char *theirs = find_line_apart(running, terms);
    int code = 0;
    if (size <= 0 || running[size - 1] != '\n') {
        code =
            error_set(error, AML_EINPUT, "folder: a market runs in %.200s, and %.300s can't be read: end its process",
                      cloud->folder, path);
    } else if (ours != NULL || theirs != NULL) {
        code = error_set(error, AML_EINPUT,
                         "folder: the market that still runs in %.80s was started %s%.100s, and this configuration "
                         "has %.100s: expected the same or another folder; 'bidbrain run' as before and Ctrl-C end it",
                         cloud->folder, theirs != NULL ? "with " : "without it", theirs != NULL ? theirs : "",
                         ours != NULL ? ours : "no such option");
    }
    free(theirs);
    free(ours);
    free(terms);
    return code;
}

/* ---- The market of a folder ---- */

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

/* Returns the failure of a market that ended right after its start, with the last line of its log. */
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

/* `process` is the started process; zeroed if the market was already running. */
static int wait_for_url(int log, struct process *process, const struct embedded *cloud, int signals,
                        char url[EMBEDDED_URL_TEXT], struct error *error) {
    char text[LOG_TEXT];
    struct pollfd signalled = {.fd = signals, .events = POLLIN};
    for (int waited = 0; waited < START_MS; waited += LOOK_MS) {
        bool ended = process_ended(process);
        read_log(log, text);
        if (find_url(text, url)) {
            return 0;
        }
        if (ended) {
            return start_failure(process, cloud, text, error);
        }
        if (process->pid == 0 && !embedded_runs(cloud->folder)) {
            return error_set(error, AML_EFAIL, "the market in %.200s has just ended: see spotmarket.log there",
                             cloud->folder);
        }
        if (poll(&signalled, 1, LOOK_MS) > 0) {
            process_signal(process, SIGKILL);
            return error_set(error, AML_ESTOP, "stopped by a signal while the market in %.200s began", cloud->folder);
        }
    }
    /* no other program would find it; has no effect on a market that was already running */
    process_signal(process, SIGKILL);
    return error_set(error, AML_EFAIL,
                     "the market in %.200s does not say its address within %d s: see spotmarket.log there, and end its "
                     "process",
                     cloud->folder, START_MS / 1000);
}

/* `lock` is the folder's lock, which the market inherits. */
static int start_market(int log, int lock, const struct embedded *cloud, struct process *process, struct error *error) {
    struct embedded started = *cloud;
    struct arguments arguments = {0};
    struct process_setting setting = PROCESS_SETTING_OURS;
    char program[PATH_MAX];
    if (process_find("spotmarket", program, NULL) != 0) {
        return error_set(error, AML_EINPUT, "provider local: no program spotmarket beside bidbrain or in $PATH");
    }
    /* Ids are random: those of an earlier market in this folder must not come again. */
    if (ftruncate(log, 0) != 0 || getrandom(&started.seed, sizeof started.seed, 0) != sizeof started.seed) {
        return error_set(error, AML_EFAIL, "the market in %.200s: %s", cloud->folder, strerror(errno));
    }
    started.seed &= (INT64_C(1) << SEED_BITS) - 1;
    int code = embedded_write_credentials(cloud->folder, error);
    code = code != 0 ? code : write_terms(cloud, error);
    embedded_arguments(&arguments, &started, cloud->folder);
    setting.output_fd = log;
    setting.inherited_fd = lock;
    setting.detached = true;
    char **environment = embedded_environment(cloud->folder); /* machines must not get the keys of a real account */
    setting.environment = environment;
    code = code != 0 ? code : process_start(process, program, &arguments, setting, error);
    for (char **variable = environment; *variable != NULL; variable++) {
        free(*variable);
    }
    free(environment);
    arguments_close(&arguments);
    return code;
}

static int open_log(const char *folder, bool runs, struct error *error) {
    char path[PATH_MAX];
    const char *reason = strerror(ENAMETOOLONG);
    int log = -1;
    if (snprintf(path, sizeof path, "%s/spotmarket.log", folder) < (int)sizeof path) {
        log = runs ? open(path, O_RDONLY | O_CLOEXEC) : private_file_open(path, O_RDWR | O_APPEND, &reason);
        reason = runs ? strerror(errno) : reason;
    }
    if (log < 0) {
        error_set(error, AML_EINPUT, "folder: %s%.300s/spotmarket.log: %s", runs ? "a market runs there, but " : "",
                  folder, reason);
    }
    return log;
}

/* `lock` is the folder's lock; -1: a running market holds it. */
static int open_market(const struct embedded *cloud, int lock, int signals, char url[EMBEDDED_URL_TEXT],
                       struct error *error) {
    struct process process = {0};
    int code = lock < 0 ? check_terms(cloud, error) : 0;
    int log = code == 0 ? open_log(cloud->folder, lock < 0, error) : -1;
    if (log < 0) {
        return AML_EINPUT;
    }
    code = lock < 0 ? 0 : start_market(log, lock, cloud, &process, error);
    code = code != 0 ? code : wait_for_url(log, &process, cloud, signals, url, error);
    close(log);
    return code;
}

int embedded_open(const struct embedded *cloud, bool start, int signals, char url[EMBEDDED_URL_TEXT],
                  struct error *error) {
    url[0] = '\0';
    if (!start) {
        return embedded_runs(cloud->folder) ? open_market(cloud, -1, signals, url, error) : 0;
    }
    if (mkdir(cloud->folder, 0700) != 0 && errno != EEXIST) {
        return error_set(error, AML_EINPUT, "folder: can't make %.300s: %s", cloud->folder, strerror(errno));
    }
    int folder = open(cloud->folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    bool free = folder >= 0 && flock(folder, LOCK_EX | LOCK_NB) == 0;
    int code = folder < 0 || (!free && errno != EWOULDBLOCK)
                   ? error_set(error, AML_EINPUT, "folder: can't lock %.300s: %s", cloud->folder, strerror(errno))
                   : open_market(cloud, free ? folder : -1, signals, url, error);
    if (folder >= 0) {
        close(folder);
    }
    return code;
}

bool embedded_runs(const char *folder) {
    return private_file_is_locked(folder);
}
