/* Tests of agileml/net/key.h: key files. */
#include "agileml/net/key.h"
#include "tests/files.h"
#include "tests/test.h"

#include "agileml/net/zmq.h"
#include "agileml/wire/message.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>
#include <zmq.h>

static const char path[] = "key";

static void write_key(const char *text, size_t size) {
    write_bytes(path, text, size);
    assert_int_equal(chmod(path, 0600), 0);
}

static void assert_refused(const char *expected) {
    struct net_key key;
    struct error error = {0};
    assert_int_equal(net_key_load(path, &key, &error), AML_EINPUT);
    assert_non_null(strstr(error.text, path));
    if (strstr(error.text, expected) == NULL) {
        fail_msg("'%s' does not say '%s'", error.text, expected);
    }
}

TEST_WITH(loads_what_it_wrote, files_open, files_close_one) {
    struct error error = {0};
    struct net_key one, again;
    struct stat file;
    mode_t mask = umask(0);
    assert_int_equal(net_key_generate(path, &error), 0);
    umask(mask);
    assert_int_equal(stat(path, &file), 0);
    assert_int_equal(file.st_mode & 07777, 0600);
    assert_int_equal(net_key_load(path, &one, &error), 0);
    assert_int_equal(net_key_load(path, &again, &error), 0);
    assert_int_equal(strlen(one.public_text), 40);
    assert_int_equal(strlen(one.secret_text), 40);
    assert_memory_equal(&one, &again, sizeof one);
    assert_int_equal(unlink(path), 0);
    assert_int_equal(net_key_generate(path, &error), 0);
    assert_int_equal(net_key_load(path, &again, &error), 0);
    assert_string_not_equal(one.secret_text, again.secret_text);
}

/* In a child process: 0 if loading (or making) a key forbids core dumps that were allowed before. */
static int dumps_of(bool load) {
    struct error error = {0};
    struct net_key key;
    struct rlimit limit;
    prctl(PR_SET_DUMPABLE, 1);
    getrlimit(RLIMIT_CORE, &limit);
    limit.rlim_cur = limit.rlim_max;
    if (setrlimit(RLIMIT_CORE, &limit) != 0 || prctl(PR_GET_DUMPABLE) != 1) {
        return 1;
    }
    int result = load ? net_key_load(path, &key, &error) : net_key_generate(path, &error);
    getrlimit(RLIMIT_CORE, &limit);
    return result != 0 ? 2 : prctl(PR_GET_DUMPABLE) != 0 ? 3 : limit.rlim_cur != 0 ? 4 : 0;
}

TEST_WITH(who_has_a_key_leaves_no_core_dump, files_open, files_close_one) {
    for (int load = 0; load < 2; load++) {
        int status;
        pid_t child = fork();
        if (child == 0) {
            _exit(dumps_of(load != 0));
        }
        assert_int_equal(waitpid(child, &status, 0), child);
        assert_int_equal(status, 0);
    }
}

TEST_WITH(never_overwrites, files_open, files_close_one) {
    struct error error = {0};
    write_key("precious", 8);
    assert_int_equal(net_key_generate(path, &error), AML_EINPUT);
    assert_non_null(strstr(error.text, "exists"));
    assert_file(path, "precious");
}

TEST_WITH(a_missing_directory_is_bad_input, files_open, files_close_one) {
    struct error error = {0};
    assert_int_equal(net_key_generate("/nonexistent/directory/key", &error), AML_EINPUT);
    assert_non_null(strstr(error.text, "/nonexistent/directory/key"));
}

TEST_WITH(a_full_disk_leaves_nothing, files_open, files_close_one) {
    struct error error = {0};
    struct rlimit before, none;
    assert_int_equal(getrlimit(RLIMIT_FSIZE, &before), 0);
    none = before;
    none.rlim_cur = 10;
    signal(SIGXFSZ, SIG_IGN);
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &none), 0);
    int result = net_key_generate(path, &error);
    setrlimit(RLIMIT_FSIZE, &before);
    signal(SIGXFSZ, SIG_DFL);
    assert_int_equal(result, AML_EFAIL);
    assert_int_equal(access(path, F_OK), -1); /* tear_down checks that no draft is left */
}

TEST_WITH(refuses_files_that_others_may_use, files_open, files_close_one) {
    struct error error = {0};
    assert_int_equal(net_key_generate(path, &error), 0);
    const mode_t modes[] = {0640, 0604, 0620, 0602, 0610, 0666};
    for (size_t i = 0; i < sizeof modes / sizeof modes[0]; i++) {
        assert_int_equal(chmod(path, modes[i]), 0);
        assert_refused("expected mode 0600");
    }
    struct net_key key;
    assert_int_equal(chmod(path, 0400), 0);
    assert_int_equal(net_key_load(path, &key, &error), 0);
}

TEST_WITH(refuses_what_is_no_key_file, files_open, files_close_one) {
    struct error error = {0};
    char good[512], text[512];
    assert_refused("No such file");
    assert_int_equal(net_key_generate(path, &error), 0);
    size_t size = read_bytes(path, good, sizeof good);
    /* Neither a part of the file is a key file, nor, as both halves must match, one with a changed character. */
    for (size_t cut = 0; cut < size; cut++) {
        write_key(good, cut);
        assert_refused("not a key file");
    }
    for (size_t at = 0; at < size; at++) {
        memcpy(text, good, size);
        text[at] = text[at] == '0' ? '1' : '0';
        struct net_key key, whole;
        write_key(good, size);
        assert_int_equal(net_key_load(path, &whole, &error), 0);
        write_key(text, size);
        struct error refusal = {0};
        if (net_key_load(path, &key, &refusal) == 0) {
            /* X25519 ignores 5 bits of a secret: with one of them changed, the key is the same. */
            assert_string_equal(key.public_text, whole.public_text);
        } else {
            assert_non_null(strstr(refusal.text, "not a key file"));
        }
    }
    memcpy(text, good, size);
    text[size] = '\n';
    write_key(text, size + 1);
    assert_refused("not a key file");
    text[20] = '\0';
    write_key(text, size);
    assert_refused("not a key file");
    memset(text, 'x', sizeof text);
    write_key(text, sizeof text);
    assert_refused("not a key file");
    unlink(path);
    assert_int_equal(mkfifo(path, 0600), 0);
    assert_refused("not a file");
    unlink(path);
    assert_int_equal(mkdir(path, 0700), 0);
    assert_refused("not a file");
}

/* A token's file states its use and holds no secret key; no byte of it can be changed. */
TEST_WITH(a_token_is_what_its_file_says, files_open, files_close_one) {
    struct error error = {0};
    struct net_key job = {0}, token;
    char good[512], text[512];
    const struct net_token_terms terms = {.roles = ROLE_NODE, .nodes = 4, .expires = 2000000000};
    assert_int_equal(zmq_curve_keypair(job.public_text, job.secret_text), 0);
    net_key_complete(&job);
    assert_int_equal(net_token_issue(&job, terms, path, &error), 0);
    assert_int_equal(net_token_issue(&job, terms, path, &error), AML_EINPUT); /* never overwritten */
    size_t size = read_bytes(path, good, sizeof good);
    good[size] = '\0';
    assert_non_null(strstr(good, "\nfor a node until 2033-05-18T03:33:20Z, 4 at a time\n"));
    assert_null(strstr(good, job.secret_text));
    error.code = 0;
    assert_int_equal(net_key_load(path, &token, &error), 0);
    assert_true(net_token_genuine(token.token, &job));
    assert_string_equal(token.secret_text, "");
    for (size_t at = 0; at < size; at++) {
        memcpy(text, good, size);
        text[at] = text[at] == '0' ? '1' : '0';
        write_key(text, size);
        struct error refusal = {0};
        /* a token for another controller, or not a token of this job */
        if (net_key_load(path, &token, &refusal) == 0) {
            assert_true(strcmp(token.public_text, job.public_text) != 0 || !net_token_genuine(token.token, &job));
        } else {
            assert_non_null(strstr(refusal.text, "not a key file"));
        }
    }
    for (size_t cut = 0; cut < size; cut++) {
        write_key(good, cut);
        assert_refused("not a key file");
    }
}

TEST_WITH(every_term_is_signed, files_open, files_close_one) {
    struct error error = {0};
    struct net_key job = {0}, other = {0}, token;
    const struct net_token_terms terms = {.roles = ROLE_OBSERVER, .expires = 1};
    assert_int_equal(zmq_curve_keypair(job.public_text, job.secret_text), 0);
    assert_int_equal(zmq_curve_keypair(other.public_text, other.secret_text), 0);
    assert_int_equal(net_token_issue(&job, terms, path, &error), 0);
    assert_int_equal(net_key_load(path, &token, &error), 0);
    assert_true(net_token_genuine(token.token, &job));
    assert_false(net_token_genuine(token.token, &other));
    for (size_t bit = 0; bit < 8 * sizeof token.token; bit++) {
        token.token[bit / 8] ^= (unsigned char)(1U << bit % 8);
        assert_false(net_token_genuine(token.token, &job));
        token.token[bit / 8] ^= (unsigned char)(1U << bit % 8);
    }
}

TEST(observers_have_ids_of_their_own) {
    actor_id first = net_observer_id();
    assert_int_equal(actor_part(first), 0);
    assert_int_not_equal(actor_node(first), actor_node(ACTOR_CONTROLLER));
    assert_int_not_equal(net_observer_id(), first);
}
