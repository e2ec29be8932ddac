/* Tests of agileml/net/zmq.h: two nets in this process stand for two machines. An echo actor runs in a thread and
 * returns each message; a probe runs in the test's thread and records messages. alarm() ends a wait without end. */
#include "agileml/net/zmq.h"
#include "tests/test.h"

#include "agileml/net/ends.h"
#include "agileml/net/mailbox.h"
#include "agileml/wire/rows.h"

#include <arpa/inet.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <semaphore.h>
#include <signal.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>
#include <zmq.h>

enum { WATCHDOG_S = 120, RECORDED_MAX = 64 };

static const actor_id ECHO = 0xEC000000;
static const actor_id PROBE = 0xAB000000;

/* ---- Keys ---- */

static struct net_key key_new(void) {
    struct net_key key;
    assert_int_equal(zmq_curve_keypair(key.public_text, key.secret_text), 0);
    net_key_complete(&key);
    return key;
}

static struct net *net_new_with(const struct net_options *options) {
    struct net *net;
    struct error error = {0};
    if (net_open(&net, options, &error) != 0) {
        fail_msg("%s", error.text);
    }
    return net;
}

static struct net *net_new(const struct net_key *key) {
    return net_new_with(&(struct net_options){.key = key});
}

/* A net that admits processes by tokens, as the controller's does. */
static struct net *net_new_listening(const struct net_key *key) {
    return net_new_with(&(struct net_options){.key = key, .controller = true});
}

static void net_closer(struct net **net) {
    net_close(*net);
}

/* ---- The echo ---- */

struct echo {
    struct net *net;
    struct net_io *io;
    pthread_t thread;
    int stop_fd;
    int warnings;
    int received;
    int received_elsewhere;       /* received in other threads; to be read after echo_stop */
    char warning[ERROR_TEXT_MAX]; /* the first warning; to be read after echo_stop */
    char endpoint[WIRE_ENDPOINT_MAX];
};

static void echo_receive(void *self, actor_id from, struct message *message) {
    struct echo *echo = self;
    struct message answer = *message;
    echo->received++;
    echo->received_elsewhere += pthread_equal(pthread_self(), echo->thread) ? 0 : 1;
    for (unsigned i = 0; i < answer.frame_count; i++) {
        buffer_hold(answer.frames[i]);
    }
    struct io *io = net_io_of(echo->io);
    io->send(io, from, &answer);
}

static void echo_warning(void *self, const char *text) {
    struct echo *echo = self;
    if (echo->warnings++ == 0) {
        snprintf(echo->warning, sizeof echo->warning, "%s", text);
    }
}

static void echo_stopped(void *context) {
    struct echo *echo = context;
    net_io_stop(echo->io);
}

static void *echo_run(void *context) {
    struct echo *echo = context;
    net_io_run(echo->io, NULL);
    return NULL;
}

static void echo_start_with(struct echo *echo, struct net *net, struct net_io_options options) {
    struct error error = {0};
    memset(echo, 0, sizeof *echo);
    echo->net = net;
    options.self = ECHO;
    options.actor = (struct actor){.receive = echo_receive, .self = echo};
    options.warning = echo_warning;
    if (net_io_open(&echo->io, net, &options, &error) != 0) {
        fail_msg("%s", error.text);
    }
    snprintf(echo->endpoint, sizeof echo->endpoint, "%s", net_io_endpoint(echo->io));
    echo->stop_fd = eventfd(0, 0);
    assert_int_equal(net_io_watch(echo->io, echo->stop_fd, echo_stopped, echo), 0);
    assert_int_equal(pthread_create(&echo->thread, NULL, echo_run, echo), 0);
}

static void echo_start(struct echo *echo, struct net *net, const char *bind) {
    echo_start_with(echo, net, (struct net_io_options){.bind = bind});
}

/* Closes the echo's net too. */
static void echo_stop(struct echo *echo) {
    eventfd_write(echo->stop_fd, 1);
    pthread_join(echo->thread, NULL);
    net_io_close(echo->io);
    close(echo->stop_fd);
    net_close(echo->net);
}

/* ---- The probe ---- */

struct probe {
    struct net_io *io;
    struct io *door;
    int wanted; /* stops after so many messages */
    int received;
    actor_id from[RECORDED_MAX];
    struct message messages[RECORDED_MAX];
    int timers;
    uint64_t timer_us; /* time of the last call */
    int timers_wanted;
    uint64_t repeat_us; /* interval at which the timer sends a HEARTBEAT to ECHO; 0: none */
    int refused;
    char why[ERROR_TEXT_MAX], endpoint[WIRE_ENDPOINT_MAX];
    int warnings, warnings_wanted;
    char warning[ERROR_TEXT_MAX]; /* the last warning */
};

static void probe_receive(void *self, actor_id from, struct message *message) {
    struct probe *probe = self;
    assert_true(probe->received < RECORDED_MAX);
    struct message *kept = &probe->messages[probe->received];
    *kept = *message;
    message->frame_count = 0; /* keeps the frames */
    probe->from[probe->received++] = from;
    if (probe->received == probe->wanted) {
        net_io_stop(probe->io);
    }
}

static void heartbeat(struct probe *probe, actor_id to, uint64_t clock) {
    struct message message = {.type = MESSAGE_HEARTBEAT, .epoch = 7, .heartbeat = {.clock = clock}};
    probe->door->send(probe->door, to, &message);
    assert_int_equal(message.frame_count, 0);
}

static void probe_timer(void *self) {
    struct probe *probe = self;
    probe->timer_us = probe->door->now_us(probe->door);
    if (++probe->timers == probe->timers_wanted) {
        net_io_stop(probe->io);
    }
    if (probe->repeat_us != 0) {
        heartbeat(probe, ECHO, 1);
        probe->door->set_timer(probe->door, probe->timer_us + probe->repeat_us);
    }
}

static void probe_refused(void *self, const char *endpoint, const char *why) {
    struct probe *probe = self;
    probe->refused++;
    snprintf(probe->why, sizeof probe->why, "%s", why);
    snprintf(probe->endpoint, sizeof probe->endpoint, "%s", endpoint);
    net_io_stop(probe->io);
}

static void probe_warning(void *self, const char *text) {
    struct probe *probe = self;
    snprintf(probe->warning, sizeof probe->warning, "%s", text);
    if (++probe->warnings == probe->warnings_wanted) {
        net_io_stop(probe->io);
    }
}

static void probe_open_with(struct probe *probe, struct net *net, actor_id self, const char *bind, int high_water) {
    struct error error = {0};
    memset(probe, 0, sizeof *probe);
    struct net_io_options options = {.self = self,
                                     .bind = bind,
                                     .actor = {.receive = probe_receive, .timer = probe_timer, .self = probe},
                                     .message_high_water = high_water,
                                     .refused = probe_refused,
                                     .warning = probe_warning};
    if (net_io_open(&probe->io, net, &options, &error) != 0) {
        fail_msg("%s", error.text);
    }
    probe->door = net_io_of(probe->io);
}

static void probe_open(struct probe *probe, struct net *net, actor_id self) {
    probe_open_with(probe, net, self, NULL, 0);
}

static void probe_run(struct probe *probe, int wanted) {
    probe->wanted = wanted;
    assert_int_equal(net_io_run(probe->io, NULL), 0);
}

static void probe_forget(struct probe *probe) {
    for (int i = 0; i < probe->received; i++) {
        message_close(&probe->messages[i]);
    }
    probe->received = 0;
}

static void probe_close(struct probe *probe) {
    probe_forget(probe);
    net_io_close(probe->io);
}

static uint64_t probe_dropped(const struct probe *probe) {
    uint64_t dropped;
    net_io_count(probe->io, NULL, NULL, &dropped);
    return dropped;
}

/* A message to the echo comes back. */
static void assert_echoes(struct probe *probe) {
    heartbeat(probe, ECHO, 42);
    probe_run(probe, 1);
    assert_int_equal(probe->from[0], ECHO);
    assert_int_equal(probe->messages[0].type, MESSAGE_HEARTBEAT);
    assert_int_equal(probe->messages[0].epoch, 7);
    assert_int_equal(probe->messages[0].heartbeat.clock, 42);
    probe_forget(probe);
}

/* ---- Set-up: a test must leave nothing behind ---- */

static int entries(const char *path) {
    DIR *directory = opendir(path);
    int count = 0;
    while (readdir(directory) != NULL) {
        count++;
    }
    closedir(directory);
    return count;
}

struct left {
    int descriptors, threads;
};

static int set_up(void **state) {
    struct left *left = malloc(sizeof *left);
    left->descriptors = entries("/proc/self/fd");
    left->threads = entries("/proc/self/task");
    *state = left;
    alarm(WATCHDOG_S);
    return 0;
}

static int tear_down(void **state) {
    struct left *left = *state;
    /* a joined thread may still be listed for a moment */
    for (int i = 0; i < 1000 && entries("/proc/self/task") > left->threads; i++) {
        usleep(1000);
    }
    bool clean = entries("/proc/self/task") == left->threads && entries("/proc/self/fd") == left->descriptors;
    int result = clean ? 0 : -1;
    alarm(0);
    free(left);
    return result;
}

/* ---- Messages ---- */

static struct buffer *pattern(size_t size, uint64_t seed) {
    struct buffer *buffer = buffer_new(size);
    for (size_t i = 0; i < size; i++) {
        seed = seed * 6364136223846793005U + 1442695040888963407U;
        buffer->data[i] = (unsigned char)(seed >> 56);
    }
    return buffer;
}

/* A FLUSH with the largest number of frames, of sizes around every threshold on their way. Only LOT_DONE may have one
 * more, its metrics. */
static struct message flush_of_all_sizes(void) {
    static const size_t sizes[2 * WIRE_TABLES_MAX] = {
        0,    1,    2,    7,    8,    9,     33,    34,    255,   256,   257,    511,    512,    513,     520,     1000,
        4096, 8183, 8191, 8192, 8193, 16384, 65535, 65536, 65537, 99999, 100000, 131072, 262145, 1000003, 5000000, 3};
    struct message message = {
        .type = MESSAGE_FLUSH, .epoch = 3, .flush = {.partition = 5, .origin = PROBE, .clock = 99}};
    message.frames[message.frame_count++] = pattern(WIRE_TABLES_MAX * sizeof(struct wire_directory_entry), 1);
    for (size_t i = 0; i < 2 * WIRE_TABLES_MAX; i++) {
        message.frames[message.frame_count++] = pattern(sizes[i], i);
    }
    assert_int_equal(message.frame_count, MESSAGE_FRAMES_MAX - 1);
    return message;
}

static void assert_frames_survive(const struct net_key *key) {
    CLOSED_BY(echo_stop) struct echo echo;
    CLOSED_BY(net_closer) struct net *net = net_new(key);
    CLOSED_BY(probe_close) struct probe probe;
    echo_start(&echo, net_new_listening(key), "tcp://127.0.0.1:0");
    probe_open(&probe, net, PROBE);
    probe.door->connect(probe.door, ECHO, echo.endpoint);
    struct message expected = flush_of_all_sizes();
    uint64_t payload = 0;
    for (unsigned i = 0; i < expected.frame_count; i++) {
        payload += expected.frames[i]->size;
    }
    enum { ROUNDS = 3 };
    for (int round = 0; round < ROUNDS; round++) {
        struct message message = expected;
        for (unsigned i = 0; i < message.frame_count; i++) {
            buffer_hold(message.frames[i]);
        }
        probe.door->send(probe.door, ECHO, &message);
    }
    probe_run(&probe, ROUNDS);
    for (int round = 0; round < ROUNDS; round++) {
        const struct message *got = &probe.messages[round];
        assert_int_equal(probe.from[round], ECHO);
        assert_int_equal(got->type, MESSAGE_FLUSH);
        assert_int_equal(got->flush.clock, 99);
        assert_int_equal(got->frame_count, expected.frame_count);
        for (unsigned i = 0; i < expected.frame_count; i++) {
            assert_int_equal(got->frames[i]->size, expected.frames[i]->size);
            assert_int_equal((uintptr_t)got->frames[i]->data % 8, 0);
            assert_memory_equal(got->frames[i]->data, expected.frames[i]->data, expected.frames[i]->size);
        }
    }
    uint64_t sent, received;
    net_io_count(probe.io, &sent, &received, NULL);
    assert_int_equal(sent, received);
    assert_in_range(sent, ROUNDS * payload, ROUNDS * (payload + WIRE_HEAD_MAX + 10 * MESSAGE_FRAMES_MAX));
    message_close(&expected);
}

TEST_WITH(frames_survive_a_round_trip, set_up, tear_down) {
    assert_frames_survive(NULL);
}

TEST_WITH(frames_survive_a_round_trip_with_a_key, set_up, tear_down) {
    struct net_key key = key_new();
    assert_frames_survive(&key);
}

TEST_WITH(many_peers_share_one_listener, set_up, tear_down) {
    enum { PEERS = 40 };
    struct echo echo;
    struct net_key key = key_new();
    struct net *net = net_new(&key);
    struct probe *probes = calloc(PEERS, sizeof *probes);
    echo_start(&echo, net_new_listening(&key), "tcp://127.0.0.1:0");
    for (unsigned i = 0; i < PEERS; i++) {
        probe_open(&probes[i], net, actor_of_part(PROBE + ((actor_id)i << ACTOR_PART_BITS), i));
        probes[i].door->connect(probes[i].door, ECHO, echo.endpoint);
        heartbeat(&probes[i], ECHO, i);
        heartbeat(&probes[i], ECHO, 1000 + i);
    }
    for (unsigned i = 0; i < PEERS; i++) {
        probe_run(&probes[i], 2);
        assert_int_equal(probes[i].messages[0].heartbeat.clock, i);
        assert_int_equal(probes[i].messages[1].heartbeat.clock, 1000 + i);
    }
    for (unsigned i = 0; i < PEERS; i++) {
        probe_close(&probes[i]);
    }
    free(probes);
    net_close(net);
    echo_stop(&echo);
}

/* A listener reaches peers through their connections, and prefers connections that it made itself. */
TEST_WITH(one_actor_restore_points_many, set_up, tear_down) {
    enum { PEERS = 12 };
    struct echo echoes[PEERS];
    struct probe probe;
    struct net *net = net_new(NULL);
    probe_open_with(&probe, net, PROBE, "tcp://127.0.0.1:0", 0);
    /* All echoes are called ECHO; the probe gives each a name of its own. */
    for (unsigned i = 0; i < PEERS; i++) {
        unsigned name = (i * 7) % PEERS;
        echo_start(&echoes[i], net_new_listening(NULL), "tcp://127.0.0.1:0");
        probe.door->connect(probe.door, ECHO + name, echoes[i].endpoint);
    }
    for (unsigned i = 0; i < PEERS; i++) {
        heartbeat(&probe, ECHO + i, i);
        heartbeat(&probe, ECHO + PEERS + i, i); /* no such peer */
    }
    probe_run(&probe, PEERS);
    for (int i = 0; i < PEERS; i++) {
        assert_int_equal(probe.from[i], ECHO + probe.messages[i].heartbeat.clock);
    }
    assert_int_equal(probe_dropped(&probe), PEERS);
    probe_close(&probe);
    net_close(net);
    for (unsigned i = 0; i < PEERS; i++) {
        echo_stop(&echoes[i]);
    }
}

/* ---- Inside a process ---- */

TEST_WITH(local_actors_share_frames, set_up, tear_down) {
    struct probe one, other;
    struct net *net = net_new(NULL);
    probe_open(&one, net, PROBE);
    probe_open(&other, net, PROBE + 1);
    struct message message = flush_of_all_sizes();
    struct message sent = message;
    one.door->connect(one.door, PROBE + 1, "tcp://127.0.0.1:1"); /* not needed, but harmless */
    one.door->send(one.door, PROBE + 1, &message);
    assert_int_equal(message.frame_count, 0);
    probe_run(&other, 1);
    assert_int_equal(other.from[0], PROBE);
    assert_int_equal(other.messages[0].flush.clock, 99);
    assert_int_equal(other.messages[0].frame_count, sent.frame_count);
    for (unsigned i = 0; i < sent.frame_count; i++) {
        assert_ptr_equal(other.messages[0].frames[i], sent.frames[i]);
        assert_int_equal(atomic_load(&sent.frames[i]->references), 1);
    }
    heartbeat(&one, PROBE, 5); /* to itself */
    probe_run(&one, 1);
    assert_int_equal(one.from[0], PROBE);
    uint64_t bytes_sent, bytes_received, dropped;
    net_io_count(one.io, &bytes_sent, &bytes_received, &dropped);
    assert_int_equal(bytes_sent + bytes_received + dropped, 0);
    probe_close(&other);
    heartbeat(&one, PROBE + 1, 5);
    assert_int_equal(probe_dropped(&one), 1);
    probe_close(&one);
    net_close(net);
}

/* Sends bursts of messages to ECHO, with pauses so that ECHO sleeps before each burst. Every second burst begins
 * with a message for which ECHO is not lent. All messages return in order. */
struct pinger {
    struct net_io *io;
    uint64_t sent, answered;
    unsigned bursts;
};
enum { BURSTS = 60, BURST = 5, BURST_PAUSE_US = 2000 };

static void pinger_timer(void *self) {
    struct pinger *pinger = self;
    struct io *io = net_io_of(pinger->io);
    for (unsigned i = 0; i < BURST; i++) {
        bool other = i == 0 && pinger->bursts % 2 == 1;
        struct message message = {.type = other ? MESSAGE_REPORT : MESSAGE_FLUSH, .epoch = ++pinger->sent};
        io->send(io, ECHO, &message);
    }
    pinger->bursts++;
}

static void pinger_receive(void *self, actor_id from, struct message *message) {
    struct pinger *pinger = self;
    struct io *io = net_io_of(pinger->io);
    assert_int_equal(from, ECHO);
    assert_int_equal(message->epoch, ++pinger->answered);
    if (pinger->answered == (uint64_t)BURSTS * BURST) {
        net_io_stop(pinger->io);
    } else if (pinger->answered == pinger->sent) {
        io->set_timer(io, io->now_us(io) + BURST_PAUSE_US);
    }
}

TEST_WITH(a_lent_actor_is_not_woken, set_up, tear_down) {
    struct echo echo;
    struct pinger pinger = {0};
    struct error error = {0};
    struct net *net = net_new(NULL);
    echo_start_with(&echo, net, (struct net_io_options){.bind = NULL, .lent_for = MESSAGE_FLUSH});
    struct net_io_options options = {.self = PROBE,
                                     .actor = {.receive = pinger_receive, .timer = pinger_timer, .self = &pinger}};
    assert_int_equal(net_io_open(&pinger.io, net, &options, &error), 0);
    net_io_of(pinger.io)->set_timer(net_io_of(pinger.io), 1);
    assert_int_equal(net_io_run(pinger.io, &error), 0);
    net_io_close(pinger.io);
    echo_stop(&echo);
    assert_int_equal(echo.received, BURSTS * BURST);
    assert_true(echo.received_elsewhere > 0);
    /* messages queued behind others wait for ECHO's thread */
    assert_true(echo.received_elsewhere <= BURSTS / 2 * BURST);
}

/* Another thread borrows a sleeping loop. Its messages to a lent actor are answered at once, in that thread. Other
 * messages, timers and the stop are left to the loop's thread. */
struct borrowing {
    struct net_io *io;
    pthread_t loop;
    const char *endpoint; /* endpoint of an echo on another machine */
    atomic_uint received, received_elsewhere, timers;
    unsigned sent, timers_set; /* owned by the other thread */
};
enum { BORROWINGS = 200, BORROWING_TIMER_US = 300 };

static void borrowing_receive(void *self, actor_id from, struct message *message) {
    struct borrowing *borrowing = self;
    assert_int_equal(from, ECHO);
    atomic_fetch_add(
        pthread_equal(pthread_self(), borrowing->loop) ? &borrowing->received : &borrowing->received_elsewhere, 1);
}

static void borrowing_timer(void *self) {
    struct borrowing *borrowing = self;
    atomic_fetch_add(&borrowing->timers, 1);
}

static void borrowing_ready(void *context) {
    struct borrowing *borrowing = context;
    struct io *io = net_io_of(borrowing->io);
    struct message message = {.type = borrowing->sent % 5 == 4 ? MESSAGE_REPORT : MESSAGE_FLUSH};
    if (++borrowing->sent == BORROWINGS) {
        net_io_stop(borrowing->io); /* only stops */
        return;
    }
    io->send(io, ECHO, &message);
    if (borrowing->sent % 10 == 3) { /* the answer comes at once, so only the timer wakes the loop */
        borrowing->timers_set++;
        io->set_timer(io, io->now_us(io) + BORROWING_TIMER_US);
    }
}

static bool borrowing_enough(const void *context) {
    const struct borrowing *borrowing = context;
    return borrowing->sent % 7 == 0; /* the loop's thread must deliver the answer */
}

static void *borrowing_run(void *self) {
    struct borrowing *borrowing = self;
    net_io_run(borrowing->io, NULL);
    return NULL;
}

static bool borrowing_settled(struct borrowing *borrowing) {
    return atomic_load(&borrowing->received) + atomic_load(&borrowing->received_elsewhere) == borrowing->sent &&
           atomic_load(&borrowing->timers) == borrowing->timers_set;
}

TEST_WITH(another_thread_borrows_a_loop, set_up, tear_down) {
    struct echo echo;
    struct borrowing borrowing = {0};
    struct error error = {0};
    struct net *net = net_new(NULL);
    echo_start_with(&echo, net, (struct net_io_options){.bind = NULL, .lent_for = MESSAGE_FLUSH});
    struct net_io_options options = {
        .self = PROBE, .actor = {.receive = borrowing_receive, .timer = borrowing_timer, .self = &borrowing}};
    assert_int_equal(net_io_open(&borrowing.io, net, &options, &error), 0);
    assert_false(net_io_borrow(borrowing.io, borrowing_ready, borrowing_enough, &borrowing)); /* not running yet */
    assert_int_equal(pthread_create(&borrowing.loop, NULL, borrowing_run, &borrowing), 0);
    while (borrowing.sent < BORROWINGS) {
        unsigned sent = borrowing.sent;
        bool borrowed = net_io_borrow(borrowing.io, borrowing_ready, borrowing_enough, &borrowing);
        assert_int_equal(borrowing.sent, sent + (borrowed ? 1 : 0));
        while (borrowing.sent < BORROWINGS && !borrowing_settled(&borrowing)) {
            usleep(100);
        }
        usleep(sent % 3 == 0 ? 500 : 0); /* in some rounds the loop sleeps again before the next call */
    }
    pthread_join(borrowing.loop, NULL);
    assert_false(net_io_borrow(borrowing.io, borrowing_ready, borrowing_enough, &borrowing)); /* stopped */
    assert_int_equal(borrowing.sent, BORROWINGS);
    assert_true(atomic_load(&borrowing.received_elsewhere) > 0);
    assert_true(atomic_load(&borrowing.received) > 0);
    net_io_close(borrowing.io);
    echo_stop(&echo);
}

/* A borrower closes a connection while the loop's thread, already woken, holds an event of that connection. */
static void borrowing_connect(void *context) {
    struct borrowing *borrowing = context;
    struct io *io = net_io_of(borrowing->io);
    struct message message = {.type = MESSAGE_FLUSH};
    io->connect(io, ECHO, borrowing->endpoint);
    io->send(io, ECHO, &message);
}

static void borrowing_give_up(void *context) {
    struct borrowing *borrowing = context;
    struct io *io = net_io_of(borrowing->io);
    struct message message = {.type = MESSAGE_FLUSH};
    io->send(io, ECHO, &message);
    usleep(20 * 1000); /* the answer has probably arrived; the loop's thread waits for this one */
    io->connect(io, ECHO, NULL);
}

static void borrowing_stop(void *context) {
    struct borrowing *borrowing = context;
    net_io_stop(borrowing->io);
}

static bool borrowing_never(const void *context) {
    return false;
}

static void borrow(struct borrowing *borrowing, void (*ready)(void *context)) {
    while (!net_io_borrow(borrowing->io, ready, borrowing_never, borrowing)) {
        usleep(100);
    }
}

TEST_WITH(a_connection_is_given_up_by_another_thread, set_up, tear_down) {
    enum { ROUNDS = 10 };
    struct echo echo;
    struct borrowing borrowing = {0};
    struct error error = {0};
    struct net *net = net_new(NULL);
    echo_start(&echo, net_new_listening(NULL), "tcp://127.0.0.1:0");
    borrowing.endpoint = echo.endpoint;
    struct net_io_options options = {.self = PROBE, .actor = {.receive = borrowing_receive, .self = &borrowing}};
    assert_int_equal(net_io_open(&borrowing.io, net, &options, &error), 0);
    assert_int_equal(pthread_create(&borrowing.loop, NULL, borrowing_run, &borrowing), 0);
    for (unsigned round = 1; round <= ROUNDS; round++) {
        borrow(&borrowing, borrowing_connect);
        while (atomic_load(&borrowing.received) + atomic_load(&borrowing.received_elsewhere) < round) {
            usleep(100);
        }
        borrow(&borrowing, borrowing_give_up);
    }
    borrow(&borrowing, borrowing_stop);
    pthread_join(borrowing.loop, NULL);
    net_io_close(borrowing.io);
    net_close(net);
    echo_stop(&echo);
}

TEST_WITH(a_full_mailbox_drops, set_up, tear_down) {
    struct probe one, other;
    struct net *net = net_new(NULL);
    probe_open(&one, net, PROBE);
    probe_open(&other, net, PROBE + 1);
    for (uint64_t i = 0; i < MAILBOX_MESSAGES_MAX + 3; i++) {
        struct message message = {.type = MESSAGE_REPORT, .report = {.number = i}, .frame_count = 1};
        message.frames[0] = buffer_new(10);
        one.door->send(one.door, PROBE + 1, &message);
    }
    assert_int_equal(probe_dropped(&one), 3);
    probe_run(&other, 2);
    assert_int_equal(other.messages[1].report.number, 1);
    probe_close(&other); /* with messages in its mailbox */
    probe_close(&one);
    net_close(net);
}

TEST_WITH(local_threads_exchange_messages, set_up, tear_down) {
    struct echo echo;
    struct probe probe;
    struct net *net = net_new(NULL);
    echo_start(&echo, net, NULL);
    probe_open(&probe, net, PROBE);
    for (uint64_t i = 0; i < 50; i++) {
        struct message message = {.type = MESSAGE_REPORT, .report = {.number = i}, .frame_count = 1};
        message.frames[0] = pattern(1000, i);
        probe.door->send(probe.door, ECHO, &message);
    }
    probe_run(&probe, 50);
    for (uint64_t i = 0; i < 50; i++) {
        struct buffer *expected = pattern(1000, i);
        assert_int_equal(probe.messages[i].report.number, i);
        assert_memory_equal(probe.messages[i].frames[0]->data, expected->data, 1000);
        buffer_drop(expected);
    }
    probe_close(&probe);
    echo_stop(&echo);
}

/* ---- Who may connect ---- */

static void assert_mismatch(const struct net_key *listener, const struct net_key *connecter, const char *why,
                            const char *warning) {
    struct echo echo;
    struct probe probe;
    struct net *net = net_new(connecter);
    echo_start(&echo, net_new_listening(listener), "tcp://127.0.0.1:0");
    probe_open(&probe, net, PROBE);
    probe.door->connect(probe.door, ECHO, echo.endpoint);
    heartbeat(&probe, ECHO, 1);
    probe_run(&probe, 1);
    assert_int_equal(probe.refused, 1);
    assert_string_equal(probe.endpoint, echo.endpoint);
    assert_non_null(strstr(probe.why, why));
    assert_true(connecter != NULL || strstr(probe.why, "the same --key") == NULL);
    probe.timers_wanted = probe.timers + 1; /* several more tries make no second report */
    probe.door->set_timer(probe.door, probe.door->now_us(probe.door) + 1200000);
    probe_run(&probe, 1);
    assert_int_equal(probe.refused, 1);
    assert_int_equal(probe.received, 0);
    probe_close(&probe);
    net_close(net);
    echo_stop(&echo);
    assert_int_equal(echo.received, 0);
    if (warning == NULL) {
        return; /* the side that notices first closes the connection, so the echo may see only that */
    }
    assert_true(echo.warnings >= 1);
    assert_non_null(strstr(echo.warning, warning));
}

TEST_WITH(another_key_is_refused, set_up, tear_down) {
    struct net_key one = key_new(), other = key_new();
    assert_mismatch(&one, &other, "same --key", "unknown key");
}

/* Either of two messages may come, as either side may close the connection first; neither assumes that this side has
 * a key. */
TEST_WITH(no_key_is_refused, set_up, tear_down) {
    struct net_key key = key_new();
    assert_mismatch(&key, NULL, "--key", NULL);
    assert_mismatch(&key, NULL, "the peer refused the handshake", NULL);
}

TEST_WITH(a_key_is_refused_by_who_has_none, set_up, tear_down) {
    struct net_key key = key_new();
    assert_mismatch(NULL, &key, "--key", NULL);
}

TEST_WITH(a_refused_peer_connects_once_the_other_has_the_key, set_up, tear_down) {
    struct echo echo;
    struct probe probe;
    struct net_key key = key_new();
    struct net *net = net_new(&key);
    char endpoint[WIRE_ENDPOINT_MAX];
    echo_start(&echo, net_new_listening(NULL), "tcp://127.0.0.1:0");
    strcpy(endpoint, echo.endpoint);
    probe_open(&probe, net, PROBE);
    probe.door->connect(probe.door, ECHO, endpoint);
    heartbeat(&probe, ECHO, 1);
    probe_run(&probe, 1);
    assert_int_equal(probe.refused, 1);
    echo_stop(&echo);
    echo_start(&echo, net_new_listening(&key), endpoint);
    probe.repeat_us = 20000;
    probe.door->set_timer(probe.door, 1);
    probe_run(&probe, 1);
    assert_int_equal(probe.received, 1);
    probe_close(&probe);
    net_close(net);
    echo_stop(&echo);
}

/* Plays a peer that dies during handshakes, repeatedly. */
struct hanger_up {
    int listener;
    _Atomic int connections;
};

static void *hang_up(void *context) {
    struct hanger_up *hanger_up = context;
    for (int fd = accept(hanger_up->listener, NULL, NULL); fd >= 0; fd = accept(hanger_up->listener, NULL, NULL)) {
        close(fd);
        hanger_up->connections++;
    }
    return NULL;
}

static int raw_listen(const char *endpoint) {
    const int one = 1;
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    address.sin_port = htons((uint16_t)atoi(strrchr(endpoint, ':') + 1));
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    assert_int_equal(setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &one, sizeof one), 0);
    assert_int_equal(bind(fd, (struct sockaddr *)&address, sizeof address), 0);
    assert_int_equal(listen(fd, 16), 0);
    return fd;
}

/* Sets where a listener of raw_listen listens. */
static void raw_endpoint(int listener, char endpoint[WIRE_ENDPOINT_MAX]) {
    struct sockaddr_in address;
    socklen_t size = sizeof address;
    assert_int_equal(getsockname(listener, (struct sockaddr *)&address, &size), 0);
    snprintf(endpoint, WIRE_ENDPOINT_MAX, "tcp://127.0.0.1:%d", ntohs(address.sin_port));
}

/* A program that is not a peer closes each connection, as at a message that it does not understand. */
static void assert_hung_up(const struct net_key *key, const char *why) {
    CLOSED_BY(net_closer) struct net *net = net_new(key);
    CLOSED_BY(probe_close) struct probe probe;
    struct hanger_up hanger_up = {.listener = raw_listen("tcp://127.0.0.1:0")};
    char endpoint[WIRE_ENDPOINT_MAX];
    pthread_t thread;
    raw_endpoint(hanger_up.listener, endpoint);
    assert_int_equal(pthread_create(&thread, NULL, hang_up, &hanger_up), 0);
    probe_open(&probe, net, PROBE);
    probe.door->connect(probe.door, ECHO, endpoint);
    heartbeat(&probe, ECHO, 1);
    probe_run(&probe, 1);
    assert_int_equal(probe.refused, 1);
    assert_string_equal(probe.why, why);
    shutdown(hanger_up.listener, SHUT_RDWR);
    pthread_join(thread, NULL);
    close(hanger_up.listener);
}

TEST_WITH(who_hangs_up_is_asked_for_no_key_that_nobody_gave, set_up, tear_down) {
    struct net_key key = key_new();
    assert_hung_up(&key, "the peer refused the handshake: is it the same --key?");
    assert_hung_up(NULL, "the peer refused the handshake, or hung up: is the address right, and does the peer expect a "
                         "--key?");
}

TEST_WITH(a_peer_that_was_reached_and_then_hangs_up_has_the_key, set_up, tear_down) {
    enum { HANG_UPS = 8, STEP_US = 20000 };
    struct echo echo;
    struct probe probe;
    struct net *net = net_new(NULL);
    struct hanger_up hanger_up = {0};
    pthread_t thread;
    char endpoint[WIRE_ENDPOINT_MAX];
    echo_start(&echo, net_new(NULL), "tcp://127.0.0.1:0");
    strcpy(endpoint, echo.endpoint);
    probe_open(&probe, net, PROBE);
    probe.door->connect(probe.door, ECHO, endpoint);
    assert_echoes(&probe);
    echo_stop(&echo);
    hanger_up.listener = raw_listen(endpoint);
    assert_int_equal(pthread_create(&thread, NULL, hang_up, &hanger_up), 0);
    while (hanger_up.connections < HANG_UPS && probe.refused == 0) {
        probe.timers_wanted = probe.timers + 1;
        probe.door->set_timer(probe.door, probe.door->now_us(probe.door) + STEP_US);
        probe_run(&probe, 1);
    }
    shutdown(hanger_up.listener, SHUT_RDWR);
    pthread_join(thread, NULL);
    close(hanger_up.listener);
    assert_int_equal(probe.refused, 0);
    echo_start(&echo, net_new(NULL), endpoint);
    probe.timers_wanted = 0;
    probe.repeat_us = STEP_US;
    probe.door->set_timer(probe.door, 1);
    probe_run(&probe, 1);
    assert_int_equal(probe.refused, 0);
    probe_close(&probe);
    net_close(net);
    echo_stop(&echo);
}

/* An actor that is only named is not connected to. */
TEST_WITH(the_first_message_connects, set_up, tear_down) {
    struct probe probe;
    struct net *net = net_new(NULL);
    int listener = raw_listen("tcp://127.0.0.1:0");
    char endpoint[WIRE_ENDPOINT_MAX];
    raw_endpoint(listener, endpoint);
    assert_int_equal(fcntl(listener, F_SETFL, O_NONBLOCK), 0);
    probe_open(&probe, net, PROBE);
    probe.door->connect(probe.door, ECHO, endpoint);
    probe.timers_wanted = 1;
    probe.door->set_timer(probe.door, probe.door->now_us(probe.door) + 200 * 1000);
    probe_run(&probe, 1);
    assert_int_equal(accept(listener, NULL, NULL), -1);
    assert_int_equal(errno, EAGAIN);
    heartbeat(&probe, ECHO, 1);
    struct pollfd connected = {.fd = listener, .events = POLLIN};
    assert_int_equal(poll(&connected, 1, -1), 1);
    probe_close(&probe);
    net_close(net);
    close(listener);
}

/* A process is stopped or gets no processor for a while: the kernel accepts connections in its place. */
TEST_WITH(a_peer_that_does_not_answer_has_not_refused, set_up, tear_down) {
    enum { LONGER_THAN_THREE_HANDSHAKES_US = 7000000 };
    struct probe probe;
    struct net *net = net_new(NULL);
    int listener = raw_listen("tcp://127.0.0.1:0");
    char endpoint[WIRE_ENDPOINT_MAX];
    raw_endpoint(listener, endpoint);
    probe_open(&probe, net, PROBE);
    probe.door->connect(probe.door, ECHO, endpoint);
    heartbeat(&probe, ECHO, 1);
    probe.timers_wanted = 1;
    probe.door->set_timer(probe.door, probe.door->now_us(probe.door) + LONGER_THAN_THREE_HANDSHAKES_US);
    probe_run(&probe, 1);
    assert_int_equal(probe.refused, 0);
    probe_close(&probe);
    net_close(net);
    close(listener);
}

/* ---- Addresses ---- */

static void refuse_bind(struct net *net, const char *endpoint, const char *expected) {
    struct net_io *io;
    struct error error = {0};
    struct net_io_options options = {.self = PROBE, .bind = endpoint, .actor = {.receive = probe_receive}};
    assert_int_equal(net_io_open(&io, net, &options, &error), AML_EINPUT);
    assert_null(io);
    assert_non_null(strstr(error.text, endpoint));
    if (strstr(error.text, expected) == NULL) {
        fail_msg("'%s' does not say '%s'", error.text, expected);
    }
}

static void refuse_connect(struct probe *probe, const char *endpoint, const char *expected) {
    struct error error = {0};
    assert_int_equal(net_io_connect(probe->io, ECHO, endpoint, &error), AML_EINPUT);
    if (strstr(error.text, expected) == NULL) {
        fail_msg("'%s' does not say '%s'", error.text, expected);
    }
}

TEST_WITH(without_a_key_only_loopback_is_allowed, set_up, tear_down) {
    struct probe probe;
    struct net *net = net_new(NULL);
    const char *outside[] = {"tcp://192.0.2.1:7000", "tcp://[2001:db8::1]:7000", "tcp://0.0.0.0:7000",
                             "tcp://[::ffff:10.0.0.1]:7000"};
    probe_open(&probe, net, PROBE + 1);
    for (size_t i = 0; i < sizeof outside / sizeof outside[0]; i++) {
        refuse_bind(net, outside[i], "is not a loopback address: give --key FILE (see 'proteus keygen') or --insecure");
        refuse_connect(&probe, outside[i], "is not a loopback address: give --key FILE");
    }
    refuse_bind(net, "tcp://*:0", "is not a loopback address");
    const char *inside[] = {"tcp://127.0.0.1:7000", "tcp://127.9.9.9:7000", "tcp://[::1]:7000", "tcp://localhost:7000"};
    for (size_t i = 0; i < sizeof inside / sizeof inside[0]; i++) {
        assert_int_equal(net_io_connect(probe.io, ECHO, inside[i], NULL), 0);
    }
    probe.door->connect(probe.door, ECHO, outside[0]);
    assert_int_equal(probe.warnings, 1);
    probe_close(&probe);
    net_close(net);
    struct net_key key = key_new();
    struct net_options allowed[] = {{.insecure = true}, {.key = &key}};
    for (size_t i = 0; i < 2; i++) {
        assert_int_equal(net_open(&net, &allowed[i], NULL), 0);
        probe_open_with(&probe, net, PROBE, "tcp://*:0", 0);
        assert_int_equal(net_io_connect(probe.io, ECHO, outside[0], NULL), 0);
        probe_close(&probe);
        net_close(net);
    }
}

TEST_WITH(malformed_endpoints_are_refused, set_up, tear_down) {
    CLOSED_BY(net_closer) struct net *net = net_new(NULL);
    CLOSED_BY(probe_close) struct probe probe;
    char endless[1000];
    snprintf(endless, sizeof endless, "tcp://%0900d:7000", 1);
    probe_open(&probe, net, PROBE);
    const char *malformed[] = {"",
                               "127.0.0.1:7000",
                               "udp://127.0.0.1:7000",
                               "tcp://127.0.0.1",
                               "tcp://:7000",
                               "tcp://127.0.0.1:",
                               "tcp://127.0.0.1:0",
                               "tcp://127.0.0.1:70000",
                               "tcp://127.0.0.1:7000x",
                               "tcp://127.0.0.1:-1",
                               "tcp://::1:7000",
                               "tcp://[::1:7000",
                               "tcp://[]:7000",
                               "tcp://127.0.0.1:1;127.0.0.1:7000",
                               "inproc://zeromq.zap.01",
                               "ipc:///tmp/x"};
    for (size_t i = 0; i < sizeof malformed / sizeof malformed[0]; i++) {
        refuse_connect(&probe, malformed[i], "expected tcp://HOST:PORT");
    }
    struct error error = {0};
    assert_int_equal(net_io_connect(probe.io, ECHO, endless, &error), AML_EINPUT);
    refuse_connect(&probe, "tcp://*:7000", "expected a host");
    refuse_connect(&probe, "tcp://no-such-host.invalid:7000", "no-such-host.invalid");
}

TEST_WITH(a_port_in_use_is_told, set_up, tear_down) {
    CLOSED_BY(net_closer) struct net *net = net_new(NULL);
    CLOSED_BY(probe_close) struct probe probe;
    char expected[ERROR_TEXT_MAX];
    probe_open_with(&probe, net, PROBE + 1, "tcp://127.0.0.1:*", 0);
    snprintf(expected, sizeof expected, "%s: address already in use", net_io_endpoint(probe.io));
    refuse_bind(net, net_io_endpoint(probe.io), expected);
}

TEST_WITH(the_same_actor_twice_is_refused, set_up, tear_down) {
    CLOSED_BY(net_closer) struct net *net = net_new(NULL);
    CLOSED_BY(probe_close) struct probe probe;
    struct net_io *io;
    struct net_io_options options = {.self = PROBE, .actor = {.receive = probe_receive}};
    probe_open(&probe, net, PROBE);
    assert_int_equal(net_io_open(&io, net, &options, NULL), AML_EINPUT);
}

TEST_WITH(names_and_ipv6_work, set_up, tear_down) {
    const char *binds[] = {"tcp://localhost:0", "tcp://[::1]:0"};
    for (size_t i = 0; i < 2; i++) {
        int probe_socket = socket(AF_INET6, SOCK_STREAM, 0);
        struct sockaddr_in6 loopback = {.sin6_family = AF_INET6, .sin6_addr = IN6ADDR_LOOPBACK_INIT};
        bool has_ipv6 = probe_socket >= 0 && bind(probe_socket, (void *)&loopback, sizeof loopback) == 0;
        if (probe_socket >= 0) {
            close(probe_socket);
        }
        if (i == 1 && !has_ipv6) {
            print_message("IPv6 isn't there: not tested\n");
            continue;
        }
        CLOSED_BY(echo_stop) struct echo echo;
        CLOSED_BY(net_closer) struct net *net = net_new(NULL);
        CLOSED_BY(probe_close) struct probe probe;
        echo_start(&echo, net_new_listening(NULL), binds[i]);
        probe_open(&probe, net, PROBE);
        char endpoint[WIRE_ENDPOINT_MAX];
        snprintf(endpoint, sizeof endpoint, "tcp://%s%s", i == 0 ? "localhost" : "[::1]", strrchr(echo.endpoint, ':'));
        probe.door->connect(probe.door, ECHO, endpoint);
        assert_echoes(&probe);
    }
}

/* ---- Bad peers ---- */

static int raw_connect(const char *endpoint) {
    int port = atoi(strrchr(endpoint, ':') + 1);
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_port = htons((uint16_t)port)};
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    assert_int_equal(connect(fd, (void *)&address, sizeof address), 0);
    return fd;
}

static void send_garbage(const char *endpoint, const void *garbage, size_t size) {
    int fd = raw_connect(endpoint);
    assert_int_equal(send(fd, garbage, size, MSG_NOSIGNAL), size);
    shutdown(fd, SHUT_WR);
    char answer[512];
    while (recv(fd, answer, sizeof answer, 0) > 0) { /* until the peer closes the connection */
    }
    close(fd);
}

static void assert_survives_garbage(const struct net_key *key) {
    CLOSED_BY(echo_stop) struct echo echo;
    CLOSED_BY(net_closer) struct net *net = net_new(key);
    CLOSED_BY(probe_close) struct probe probe;
    echo_start(&echo, net_new_listening(key), "tcp://127.0.0.1:0");
    probe_open(&probe, net, PROBE);
    probe.door->connect(probe.door, ECHO, echo.endpoint);
    assert_echoes(&probe);
    struct buffer *noise = pattern(100000, 1);
    const char *request = "GET / HTTP/1.1\r\nHost: x\r\n\r\n";
    /* A ZMTP 3.0 greeting without security, a READY, then a frame with a stated size of 2^63 bytes. */
    unsigned char zmtp[64 + 27 + 9] = {0xFF, 0, 0, 0, 0, 0, 0, 0, 1, 0x7F, 3, 0, 'N', 'U', 'L', 'L'};
    memcpy(zmtp + 64, "\4\31\5READY\13Socket-Type\0\0\0\6DEALER", 27);
    zmtp[64 + 27] = 2;
    zmtp[64 + 27 + 1] = 0x80;
    send_garbage(echo.endpoint, noise->data, 100);
    send_garbage(echo.endpoint, request, strlen(request));
    send_garbage(echo.endpoint, zmtp, sizeof zmtp);
    send_garbage(echo.endpoint, zmtp, 70);
    send_garbage(echo.endpoint, "\0", 1);
    buffer_drop(noise);
    assert_echoes(&probe);
}

TEST_WITH(garbage_over_tcp_is_survived, set_up, tear_down) {
    assert_survives_garbage(NULL);
}

TEST_WITH(garbage_over_tcp_is_survived_with_a_key, set_up, tear_down) {
    struct net_key key = key_new();
    assert_survives_garbage(&key);
}

/* Whether the other side has closed the connection. */
static bool is_cut(int fd) {
    char answer[512];
    ssize_t size;
    while ((size = recv(fd, answer, sizeof answer, MSG_DONTWAIT)) > 0) { /* the other side's greeting */
    }
    return size == 0 || (errno != EAGAIN && errno != EWOULDBLOCK);
}

/* The resident memory of this process in bytes. */
static size_t resident_bytes(void) {
    FILE *file = fopen("/proc/self/statm", "r");
    unsigned long pages = 0;
    assert_int_equal(fscanf(file, "%*u %lu", &pages), 1);
    fclose(file);
    return pages * (size_t)sysconf(_SC_PAGESIZE);
}

/* ---- Messages without end ---- */

enum { MESSAGE_MOST = 1 << 20, PART_BYTES = 1 << 16, LOOKS_US = 2500 * 1000 };

/* Connects as a peer without a key, and waits until it is admitted. */
static int raw_enter(const char *endpoint) {
    enum { READY_BYTES = 64 + 30 };
    unsigned char zmtp[READY_BYTES] = {0xFF, 0, 0, 0, 0, 0, 0, 0, 1, 0x7F, 3, 0, 'N', 'U', 'L', 'L'};
    int fd = raw_connect(endpoint);
    memcpy(zmtp + 64, "\4\34\5READY\13Socket-Type\0\0\0\6DEALER", 30);
    assert_int_equal(send(fd, zmtp, sizeof zmtp, MSG_NOSIGNAL), sizeof zmtp);
    assert_int_equal(recv(fd, zmtp, sizeof zmtp, MSG_WAITALL), sizeof zmtp);
    usleep(100 * 1000);
    return fd;
}

/* Sends a part of a message. More parts follow. Returns false when the connection is cut off. */
static bool send_part(int fd) {
    static unsigned char bytes[9 + PART_BYTES] = {[0] = 3, [6] = 1}; /* a long frame, more follow: 2^16 bytes */
    size_t from = 0;
    while (from < sizeof bytes) {
        ssize_t sent = send(fd, bytes + from, sizeof bytes - from, MSG_NOSIGNAL);
        if (sent < 0) {
            return false;
        }
        from += (size_t)sent;
    }
    return true;
}

/* libzmq keeps what has come of a message until it is complete. */
TEST_WITH(a_message_without_end_is_cut_off, set_up, tear_down) {
    enum { MOST = 256 << 20 };
    struct echo echo;
    CLOSED_BY(net_closer) struct net *net = net_new(NULL);
    CLOSED_BY(probe_close) struct probe probe;
    echo_start_with(&echo, net_new_listening(NULL),
                    (struct net_io_options){.bind = "tcp://127.0.0.1:0", .message_bytes = MESSAGE_MOST});
    probe_open(&probe, net, PROBE);
    probe.door->connect(probe.door, ECHO, echo.endpoint);
    assert_echoes(&probe);
    int fd = raw_enter(echo.endpoint);
    unsigned parts = 0;
    for (; send_part(fd); parts++) {
        assert_true(parts < MOST / PART_BYTES);
        usleep(1000);
    }
    assert_true(parts * (uint64_t)PART_BYTES > MESSAGE_MOST);
    close(fd);
    assert_echoes(&probe);
    echo_stop(&echo);
    assert_int_equal(echo.warnings, 1);
    assert_memory_equal(echo.warning, "cut off the process at 127.0.0.1:", 33);
    assert_non_null(strstr(echo.warning, ": more than 1048576 bytes of one message have come from it"));
}

/* Whole messages wait while the receiver is busy; a message takes its time: neither is cut off. */
TEST_WITH(who_sends_no_more_than_he_may_stays, set_up, tear_down) {
    enum { MESSAGES = 60, BYTES = MESSAGE_MOST - 1000 };
    CLOSED_BY(net_closer) struct net *here = net_new_listening(NULL);
    CLOSED_BY(net_closer) struct net *there = net_new(NULL);
    CLOSED_BY(probe_close) struct probe sender;
    struct probe receiver = {.warnings_wanted = 1};
    struct net_io_options options = {.self = PROBE,
                                     .bind = "tcp://127.0.0.1:0",
                                     .actor = {.receive = probe_receive, .self = &receiver},
                                     .message_bytes = MESSAGE_MOST,
                                     .warning = probe_warning};
    assert_int_equal(net_io_open(&receiver.io, here, &options, NULL), 0);
    receiver.door = net_io_of(receiver.io);
    probe_open(&sender, there, PROBE + 1);
    sender.door->connect(sender.door, PROBE, net_io_endpoint(receiver.io));
    int fd = raw_enter(net_io_endpoint(receiver.io));
    assert_true(send_part(fd));
    for (unsigned m = 0; m < MESSAGES; m++) {
        struct message message = {.type = MESSAGE_STATUS, .frame_count = 1, .frames = {buffer_new(BYTES)}};
        memset(message.frames[0]->data, 0, BYTES);
        sender.door->send(sender.door, PROBE, &message);
    }
    usleep(LOOKS_US);
    probe_run(&receiver, MESSAGES);
    usleep(LOOKS_US);
    assert_true(send_part(fd));
    assert_false(is_cut(fd));
    assert_int_equal(receiver.received, MESSAGES);
    /* A whole message that is too large is dropped. */
    struct message large = {.type = MESSAGE_STATUS, .frame_count = 1, .frames = {buffer_new(MESSAGE_MOST + 1)}};
    memset(large.frames[0]->data, 0, MESSAGE_MOST + 1);
    sender.door->send(sender.door, PROBE, &large);
    probe_run(&receiver, 0);
    assert_non_null(strstr(receiver.warning, "a message of more than 1048576 bytes"));
    close(fd);
    probe_close(&receiver);
}

/* Sends the greeting of a peer with a key (RFC 23), then the beginning of a frame of `size` bytes. */
static void knock(int fd, uint64_t size) {
    unsigned char bytes[64 + 9] = {[0] = 0xFF, [9] = 0x7F, [10] = 3, [12] = 'C', 'U', 'R', 'V', 'E', [64] = 6};
    for (unsigned b = 0; b < 8; b++) {
        bytes[65 + b] = (unsigned char)(size >> (56 - 8 * b));
    }
    assert_int_equal(send(fd, bytes, sizeof bytes, MSG_NOSIGNAL), sizeof bytes);
}

static void wait_cut(const int *fds, unsigned count) {
    for (unsigned k = 0; k < count; k++) {
        while (!is_cut(fds[k])) {
            usleep(1000);
        }
    }
}

/* A peer with the key that was connected before is still served, and a new peer is admitted. */
static void assert_goes_on(struct probe *before, const struct net_key *key, const char *endpoint) {
    CLOSED_BY(net_closer) struct net *net = net_new(key);
    CLOSED_BY(probe_close) struct probe newcomer;
    assert_echoes(before);
    probe_open(&newcomer, net, PROBE + 1);
    newcomer.door->connect(newcomer.door, ECHO, endpoint);
    assert_echoes(&newcomer);
}

/* Strangers each send the beginning of a frame of the largest size, and then its bytes. They may take no more memory
 * than handshakes need. */
TEST_WITH(a_handshake_takes_little_memory, set_up, tear_down) {
    enum { KNOCKS = 600, FRAME = 128 << 10, GROWTH_MAX = 64 << 20 };
    CLOSED_BY(echo_stop) struct echo echo;
    struct net_key key = key_new();
    CLOSED_BY(net_closer) struct net *net = net_new(&key);
    CLOSED_BY(probe_close) struct probe probe;
    int fds[KNOCKS];
    unsigned char *bytes = calloc(1, FRAME);
    echo_start(&echo, net_new_listening(&key), "tcp://127.0.0.1:0");
    probe_open(&probe, net, PROBE);
    probe.door->connect(probe.door, ECHO, echo.endpoint);
    assert_echoes(&probe);
    int huge = raw_connect(echo.endpoint);
    knock(huge, UINT64_C(1) << 30);
    wait_cut(&huge, 1);
    close(huge);
    size_t before = resident_bytes();
    size_t most = before;
    for (unsigned k = 0; k < KNOCKS; k++) {
        fds[k] = raw_connect(echo.endpoint);
        knock(fds[k], FRAME);
        send(fds[k], bytes, FRAME - 1, MSG_NOSIGNAL | MSG_DONTWAIT);
        size_t now = resident_bytes();
        most = now > most ? now : most;
    }
    assert_goes_on(&probe, &key, echo.endpoint);
    wait_cut(fds, KNOCKS);
    if (getenv("PROTEUS_SANITIZED") == NULL) {
        assert_in_range(most - before, 0, GROWTH_MAX);
    }
    for (unsigned k = 0; k < KNOCKS; k++) {
        close(fds[k]);
    }
    free(bytes);
}

/* Silent connections are cut, the oldest first when there are many, and take no other connection's place. */
TEST_WITH(half_open_connections_are_cut, set_up, tear_down) {
    enum { KNOCKS = 900 };
    const struct left *left = *state;
    struct net_key key = key_new();
    for (unsigned keyed = 0; keyed < 2; keyed++) {
        const struct net_key *used = keyed ? &key : NULL;
        struct echo echo;
        struct probe probe;
        struct net *net = net_new(used);
        int fds[KNOCKS];
        echo_start(&echo, net_new_listening(used), "tcp://127.0.0.1:0");
        probe_open(&probe, net, PROBE);
        probe.door->connect(probe.door, ECHO, echo.endpoint);
        assert_echoes(&probe);
        int descriptors = entries("/proc/self/fd");
        for (unsigned k = 0; k < KNOCKS; k++) {
            fds[k] = raw_connect(echo.endpoint);
        }
        assert_goes_on(&probe, used, echo.endpoint);
        wait_cut(fds, KNOCKS);
        assert_echoes(&probe);
        for (unsigned k = 0; k < KNOCKS; k++) {
            close(fds[k]);
        }
        while (entries("/proc/self/fd") > descriptors) { /* libzmq closes its ends soon */
            usleep(1000);
        }
        probe_close(&probe);
        net_close(net);
        echo_stop(&echo);
        assert_int_equal(entries("/proc/self/fd"), left->descriptors);
    }
}

static void send_parts(void *socket, unsigned parts, const void *head, size_t size) {
    for (unsigned i = 0; i < parts; i++) {
        assert_int_equal(zmq_send(socket, head, size, i + 1 < parts ? ZMQ_SNDMORE : 0), size);
    }
}

static void *raw_dealer(void *context, const char *endpoint, const void *name, size_t size) {
    void *socket = zmq_socket(context, ZMQ_DEALER);
    if (size > 0) {
        assert_int_equal(zmq_setsockopt(socket, ZMQ_ROUTING_ID, name, size), 0);
    }
    assert_int_equal(zmq_connect(socket, endpoint), 0);
    return socket;
}

TEST_WITH(malformed_messages_are_dropped, set_up, tear_down) {
    struct echo echo;
    unsigned char head[WIRE_HEAD_MAX], back[WIRE_HEAD_MAX];
    struct message flush = {.type = MESSAGE_FLUSH};
    struct message beat = {.type = MESSAGE_HEARTBEAT, .heartbeat = {.clock = 8}};
    echo_start(&echo, net_new_listening(NULL), "tcp://127.0.0.1:0");
    void *context = zmq_ctx_new();
    void *anonymous = raw_dealer(context, echo.endpoint, NULL, 0);
    void *nobody = raw_dealer(context, echo.endpoint, "A\0\0\0\0\0\0\0\0", 9);
    void *named = raw_dealer(context, echo.endpoint, "A\1\0\0\0\0\0\1\0", 9);
    size_t size = message_encode_head(&beat, head);
    send_parts(anonymous, 1, head, size);
    send_parts(nobody, 1, head, size);
    for (size_t cut = 0; cut < size; cut++) {
        send_parts(named, 1, head, cut);
    }
    send_parts(named, 1, head, sizeof head);
    send_parts(named, 2, head, size);
    send_parts(named, 3, "", 0);
    size = message_encode_head(&flush, head);
    send_parts(named, 1 + MESSAGE_FRAMES_MAX + 1, head, size);
    send_parts(named, 2000, head, size);
    struct buffer *noise = pattern(20000, 9);
    for (size_t i = 0; i < 500; i++) {
        send_parts(named, (unsigned)(1 + i % 5), noise->data + 20 * i, i);
    }
    buffer_drop(noise);
    size = message_encode_head(&beat, head);
    send_parts(named, 1, head, size);
    assert_int_equal(zmq_recv(named, back, sizeof back, 0), size); /* the first message to be answered */
    assert_memory_equal(back, head, size);
    int none = 0;
    zmq_setsockopt(anonymous, ZMQ_LINGER, &none, sizeof none);
    zmq_close(anonymous);
    zmq_close(nobody);
    zmq_close(named);
    zmq_ctx_term(context);
    echo_stop(&echo);
    assert_int_equal(echo.received, 1);
    assert_int_equal(echo.warnings, NET_WARNINGS_MAX);
    assert_non_null(strstr(echo.warning, "dropped a message from 127.0.0.1"));
}

/* ---- Peers that come and go ---- */

TEST_WITH(a_peer_that_comes_back_is_reached_again, set_up, tear_down) {
    struct echo echo;
    struct probe probe;
    struct net *net = net_new(NULL);
    char endpoint[WIRE_ENDPOINT_MAX];
    echo_start(&echo, net_new_listening(NULL), "tcp://127.0.0.1:0");
    strcpy(endpoint, echo.endpoint);
    probe_open(&probe, net, PROBE);
    probe.door->connect(probe.door, ECHO, endpoint);
    assert_echoes(&probe);
    for (int round = 0; round < 2; round++) {
        echo_stop(&echo);
        /* Until the end is noticed; from then on messages are dropped, not queued for a peer that may never return. */
        probe.repeat_us = 1000;
        probe.door->set_timer(probe.door, 1);
        uint64_t dropped = probe_dropped(&probe);
        while (probe_dropped(&probe) == dropped) {
            probe.timers_wanted = probe.timers + 10;
            probe_run(&probe, RECORDED_MAX);
        }
        probe_forget(&probe);
        echo_start(&echo, net_new_listening(NULL), endpoint);
        probe_run(&probe, 1);
        assert_int_equal(probe.received, 1);
        probe.repeat_us = 0;
        probe.door->set_timer(probe.door, 0);
        probe_forget(&probe);
    }
    probe_close(&probe);
    net_close(net);
    echo_stop(&echo);
}

TEST_WITH(a_peer_may_start_later, set_up, tear_down) {
    struct echo echo;
    struct probe probe;
    struct net *net = net_new(NULL);
    char endpoint[WIRE_ENDPOINT_MAX];
    echo_start(&echo, net_new_listening(NULL), "tcp://127.0.0.1:0");
    strcpy(endpoint, echo.endpoint);
    echo_stop(&echo);
    probe_open(&probe, net, PROBE);
    probe.door->connect(probe.door, ECHO, endpoint);
    heartbeat(&probe, ECHO, 11); /* sent once */
    echo_start(&echo, net_new_listening(NULL), endpoint);
    probe_run(&probe, 1);
    assert_int_equal(probe.messages[0].heartbeat.clock, 11);
    probe_close(&probe);
    net_close(net);
    echo_stop(&echo);
}

TEST_WITH(a_peer_that_connects_anew_takes_its_name_along, set_up, tear_down) {
    CLOSED_BY(echo_stop) struct echo echo;
    echo_start(&echo, net_new_listening(NULL), "tcp://127.0.0.1:0");
    struct net *nets[3];
    struct probe before[3];
    for (int i = 0; i < 3; i++) { /* the older connections are still open */
        nets[i] = net_new(NULL);
        probe_open(&before[i], nets[i], PROBE);
        before[i].door->connect(before[i].door, ECHO, echo.endpoint);
        assert_echoes(&before[i]);
    }
    for (int i = 0; i < 3; i++) {
        probe_close(&before[i]);
        net_close(nets[i]);
    }
    CLOSED_BY(net_closer) struct net *net = net_new(NULL);
    CLOSED_BY(probe_close) struct probe probe;
    probe_open(&probe, net, PROBE);
    probe.door->connect(probe.door, ECHO, echo.endpoint);
    assert_echoes(&probe);
}

TEST_WITH(peers_are_replaced_and_forgotten, set_up, tear_down) {
    struct echo first, second;
    struct probe probe;
    struct net *net = net_new(NULL);
    echo_start(&first, net_new_listening(NULL), "tcp://127.0.0.1:0");
    echo_start(&second, net_new_listening(NULL), "tcp://127.0.0.1:0");
    probe_open(&probe, net, PROBE);
    probe.door->connect(probe.door, ECHO, first.endpoint);
    probe.door->connect(probe.door, ECHO, first.endpoint);
    assert_echoes(&probe);
    probe.door->connect(probe.door, ECHO, second.endpoint);
    assert_echoes(&probe);
    probe.door->connect(probe.door, ECHO, NULL);
    heartbeat(&probe, ECHO, 1);
    assert_int_equal(probe_dropped(&probe), 1);
    probe.door->connect(probe.door, ECHO, second.endpoint);
    assert_echoes(&probe);
    probe_close(&probe);
    net_close(net);
    echo_stop(&first);
    echo_stop(&second);
    assert_int_equal(first.received, 1);
    assert_int_equal(second.received, 2);
}

struct turncoat {
    struct probe *probe;
    const char *endpoint;
};

static void turncoat_receive(void *self, actor_id from, struct message *message) {
    struct turncoat *turncoat = self;
    struct probe *probe = turncoat->probe;
    probe->received++;
    probe->door->connect(probe->door, from, turncoat->endpoint); /* closes the socket whose message is being handled */
    heartbeat(probe, from, 2);
    if (probe->received == 2) {
        probe->received = 0;
        net_io_stop(probe->io);
    }
}

TEST_WITH(a_peer_may_be_replaced_while_it_is_heard, set_up, tear_down) {
    struct echo first, second;
    struct probe probe = {0};
    struct net *net = net_new(NULL);
    echo_start(&first, net_new_listening(NULL), "tcp://127.0.0.1:0");
    echo_start(&second, net_new_listening(NULL), "tcp://127.0.0.1:0");
    struct turncoat turncoat = {&probe, second.endpoint};
    struct net_io_options options = {.self = PROBE, .actor = {.receive = turncoat_receive, .self = &turncoat}};
    assert_int_equal(net_io_open(&probe.io, net, &options, NULL), 0);
    probe.door = net_io_of(probe.io);
    probe.door->connect(probe.door, ECHO, first.endpoint);
    heartbeat(&probe, ECHO, 1);
    probe_run(&probe, 0);
    probe_close(&probe);
    net_close(net);
    echo_stop(&first);
    echo_stop(&second);
}

TEST_WITH(a_full_queue_drops_and_never_blocks, set_up, tear_down) {
    struct probe deaf, probe;
    struct net *far = net_new(NULL), *net = net_new(NULL);
    probe_open_with(&deaf, far, ECHO, "tcp://127.0.0.1:0", 4);
    probe_open_with(&probe, net, PROBE, NULL, 4);
    probe.door->connect(probe.door, ECHO, net_io_endpoint(deaf.io));
    enum { SENT = 2000 };
    struct buffer *shared = pattern(100000, 3);
    for (uint64_t i = 0; i < SENT; i++) {
        struct message message = {.type = MESSAGE_REPORT, .report = {.number = i}, .frame_count = 1};
        message.frames[0] = buffer_hold(shared);
        probe.door->send(probe.door, ECHO, &message);
    }
    uint64_t dropped = probe_dropped(&probe);
    assert_in_range(dropped, 1, SENT - 4);
    probe_run(&deaf, 4); /* the first messages arrive */
    for (uint64_t i = 0; i < 4; i++) {
        assert_int_equal(deaf.messages[i].report.number, i);
        assert_memory_equal(deaf.messages[i].frames[0]->data, shared->data, shared->size);
    }
    probe_close(&probe);
    probe_close(&deaf);
    net_close(net);
    net_close(far);
    assert_int_equal(atomic_load(&shared->references), 1); /* messages that were never sent have released the buffer */
    buffer_drop(shared);
}

TEST_WITH(last_messages_leave_before_the_close, set_up, tear_down) {
    struct net_key key = key_new();
    struct probe server, client;
    struct net *far = net_new_listening(&key);
    probe_open_with(&server, far, ECHO, "tcp://127.0.0.1:0", 0);
    struct net *net = net_new(&key);
    probe_open(&client, net, PROBE);
    client.door->connect(client.door, ECHO, net_io_endpoint(server.io));
    struct message leave = {.type = MESSAGE_LEAVE};
    client.door->send(client.door, ECHO, &leave);
    probe_close(&client);
    net_close(net);
    probe_run(&server, 1);
    assert_int_equal(server.messages[0].type, MESSAGE_LEAVE);
    assert_int_equal(server.from[0], PROBE);
    probe_close(&server);
    net_close(far);
}

/* ---- The loop ---- */

TEST_WITH(the_timer_is_never_early, set_up, tear_down) {
    CLOSED_BY(net_closer) struct net *net = net_new(NULL);
    CLOSED_BY(probe_close) struct probe probe;
    probe_open(&probe, net, PROBE);
    const uint64_t waits_us[] = {1, 300, 999, 1000, 1001, 2500, 20000};
    for (size_t i = 0; i < sizeof waits_us / sizeof waits_us[0]; i++) {
        uint64_t at_us = probe.door->now_us(probe.door) + waits_us[i];
        probe.door->set_timer(probe.door, at_us);
        probe.timers_wanted = probe.timers + 1;
        probe_run(&probe, 1);
        assert_true(probe.timer_us >= at_us);
    }
}

TEST_WITH(the_timer_is_replaced_and_cancelled, set_up, tear_down) {
    CLOSED_BY(net_closer) struct net *net = net_new(NULL);
    CLOSED_BY(probe_close) struct probe probe;
    probe_open(&probe, net, PROBE);
    uint64_t now_us = probe.door->now_us(probe.door);
    probe.door->set_timer(probe.door, now_us + 1000);
    probe.door->set_timer(probe.door, now_us + 30000);
    probe.timers_wanted = 1;
    probe_run(&probe, 1);
    assert_true(probe.timer_us >= now_us + 30000);
    probe.door->set_timer(probe.door, now_us); /* a past moment: calls at once */
    probe.timers_wanted = 2;
    probe_run(&probe, 1);
    assert_int_equal(probe.timers, 2);
    /* A cancelled timer is not called, although a later event shows that its time has passed. */
    probe.door->set_timer(probe.door, probe.door->now_us(probe.door) + 1000);
    probe.door->set_timer(probe.door, 0);
    usleep(2000);
    heartbeat(&probe, PROBE, 1);
    probe_run(&probe, 1);
    assert_int_equal(probe.timers, 2);
}

struct watched {
    struct probe *probe;
    int fd, calls;
};

static void watched_ready(void *context) {
    struct watched *watched = context;
    eventfd_t value;
    watched->calls++;
    assert_int_equal(eventfd_read(watched->fd, &value), 0);
    net_io_watch(watched->probe->io, watched->fd, NULL, NULL);
    net_io_stop(watched->probe->io);
}

TEST_WITH(descriptors_are_watched, set_up, tear_down) {
    CLOSED_BY(net_closer) struct net *net = net_new(NULL);
    CLOSED_BY(probe_close) struct probe probe;
    probe_open(&probe, net, PROBE);
    struct watched watched = {&probe, eventfd(0, EFD_NONBLOCK), 0};
    for (int i = 1; i <= 2; i++) {
        assert_int_equal(net_io_watch(probe.io, watched.fd, watched_ready, &watched), 0);
        eventfd_write(watched.fd, 1);
        probe_run(&probe, 1);
        assert_int_equal(watched.calls, i);
    }
    eventfd_write(watched.fd, 1); /* no longer watched */
    heartbeat(&probe, PROBE, 1);
    probe_run(&probe, 1);
    assert_int_equal(watched.calls, 2);
    int many[NET_WATCHES_MAX + 1];
    for (int i = 0; i <= NET_WATCHES_MAX; i++) {
        many[i] = eventfd(0, 0);
        assert_int_equal(net_io_watch(probe.io, many[i], watched_ready, &watched),
                         i < NET_WATCHES_MAX ? 0 : AML_ELIMIT);
    }
    for (int i = 0; i <= NET_WATCHES_MAX; i++) {
        close(many[i]);
    }
    close(watched.fd);
}

TEST_WITH(random_numbers_differ, set_up, tear_down) {
    struct probe one, other;
    struct net *net = net_new(NULL);
    probe_open(&one, net, PROBE);
    probe_open(&other, net, PROBE + 1);
    uint64_t first = one.door->random(one.door);
    assert_true(first != one.door->random(one.door));
    assert_true(first != other.door->random(other.door));
    probe_close(&other);
    probe_close(&one);
    net_close(net);
}

/* Counts the threads that block all signals, and the others. */
static void count_threads(int *blocked, int *open) {
    DIR *tasks = opendir("/proc/self/task");
    *blocked = *open = 0;
    for (struct dirent *task; (task = readdir(tasks)) != NULL;) {
        char path[300], line[256];
        snprintf(path, sizeof path, "/proc/self/task/%s/status", task->d_name);
        FILE *status = task->d_name[0] != '.' ? fopen(path, "r") : NULL;
        while (status != NULL && fgets(line, sizeof line, status) != NULL) {
            unsigned long long mask;
            if (sscanf(line, "SigBlk: %llx", &mask) == 1) {
                unsigned long long wanted = 1ULL << (SIGTERM - 1) | 1ULL << (SIGINT - 1) | 1ULL << (SIGPIPE - 1);
                *((mask & wanted) == wanted ? blocked : open) += 1;
            }
        }
        if (status != NULL) {
            fclose(status);
        }
    }
    closedir(tasks);
}

TEST_WITH(its_threads_take_no_signals, set_up, tear_down) {
    int blocked_before, open_before, blocked, open;
    count_threads(&blocked_before, &open_before);
    struct net_key key = key_new();
    CLOSED_BY(net_closer) struct net *net = net_new(&key);
    CLOSED_BY(probe_close) struct probe probe;
    probe_open_with(&probe, net, PROBE, "tcp://127.0.0.1:0", 0);
    count_threads(&blocked, &open);
    assert_int_equal(open, open_before);
    assert_int_equal(blocked, blocked_before + 4); /* libzmq's reaper and its two I/O threads, and the door's thread */
}

TEST_WITH(bad_options_are_refused, set_up, tear_down) {
    struct net *net;
    struct net_key key = key_new();
    memset(key.public_text, 'x', 20);
    key.public_text[20] = '\0';
    assert_int_equal(net_open(&net, &(struct net_options){.key = &key}, NULL), AML_EINPUT);
    assert_int_equal(net_open(&net, &(struct net_options){.io_threads = 1000}, NULL), AML_EINPUT);
    assert_null(net);
}

/* Creates what libraries and sanitizers allocate once and keep, so that no test seems to leave it. */
static int warm_up(void **state) {
    net_close(net_new(NULL));
    return 0;
}

/* ---- Ends of connections ---- */

enum { DIALS = 200 /* at once */ };

/* A listener or a dialer, and its actor's calls. */
struct told_ends {
    struct net_io *io;
    unsigned received, broken, dialed;
    actor_id peer; /* peer in the last call */
    bool listens;
};

static void ends_receive(void *self, actor_id from, struct message *message) {
    struct told_ends *ends = self;
    ends->received++;
    net_io_stop(ends->io);
}

static void ends_broken(void *self, actor_id peer) {
    struct told_ends *ends = self;
    ends->broken++;
    ends->peer = peer;
    net_io_stop(ends->io);
}

static void ends_dialed(void *self, actor_id actor, uint64_t began_us, bool listens) {
    struct told_ends *ends = self;
    assert_true(began_us != 0);
    ends->dialed++;
    ends->peer = actor;
    ends->listens = listens;
    net_io_stop(ends->io);
}

static void ends_open(struct told_ends *ends, struct net *net, actor_id self, const char *bind) {
    struct error error = {0};
    *ends = (struct told_ends){0};
    const struct net_io_options options = {
        .self = self,
        .bind = bind,
        .actor = {.receive = ends_receive, .self = ends, .broken = ends_broken, .dialed = ends_dialed}};
    if (net_io_open(&ends->io, net, &options, &error) != 0) {
        fail_msg("%s", error.text);
    }
}

static void assert_end_is_told(const struct net_key *key) {
    struct told_ends listener;
    struct probe probe;
    struct net *here = net_new_listening(key);
    struct net *there = net_new(key);
    ends_open(&listener, here, ECHO, "tcp://127.0.0.1:0");
    probe_open(&probe, there, PROBE);
    probe.door->connect(probe.door, ECHO, net_io_endpoint(listener.io));
    heartbeat(&probe, ECHO, 1);
    assert_int_equal(net_io_run(listener.io, NULL), 0);
    assert_int_equal(listener.received, 1);
    assert_int_equal(listener.broken, 0);
    probe_close(&probe);
    net_close(there);
    assert_int_equal(net_io_run(listener.io, NULL), 0);
    assert_int_equal(listener.broken, 1);
    assert_int_equal(listener.peer, PROBE);
    net_io_close(listener.io);
    net_close(here);
}

TEST_WITH(a_listener_is_told_whose_connection_has_ended, set_up, tear_down) {
    struct net_key key = key_new();
    assert_end_is_told(NULL);
    assert_end_is_told(&key);
}

TEST_WITH(an_actor_is_told_that_its_connection_has_ended, set_up, tear_down) {
    struct told_ends connecter;
    struct echo echo;
    struct net *net = net_new(NULL);
    echo_start(&echo, net_new_listening(NULL), "tcp://127.0.0.1:0");
    ends_open(&connecter, net, PROBE, NULL);
    struct io *io = net_io_of(connecter.io);
    io->connect(io, ECHO, echo.endpoint);
    struct message message = {.type = MESSAGE_HEARTBEAT};
    io->send(io, ECHO, &message);
    assert_int_equal(net_io_run(connecter.io, NULL), 0);
    assert_int_equal(connecter.broken, 0);
    echo_stop(&echo);
    assert_int_equal(net_io_run(connecter.io, NULL), 0);
    assert_int_equal(connecter.broken, 1);
    assert_int_equal(connecter.peer, ECHO);
    net_io_close(connecter.io);
    net_close(net);
}

TEST_WITH(who_dials_is_told_whether_somebody_listens, set_up, tear_down) {
    struct told_ends caller;
    struct echo echo;
    struct net *net = net_new(NULL);
    char endpoint[WIRE_ENDPOINT_MAX];
    echo_start(&echo, net_new_listening(NULL), "tcp://127.0.0.1:0");
    ends_open(&caller, net, PROBE, NULL);
    struct io *io = net_io_of(caller.io);
    memcpy(endpoint, echo.endpoint, sizeof endpoint);
    io->dial(io, ECHO, endpoint);
    assert_int_equal(net_io_run(caller.io, NULL), 0);
    assert_int_equal(caller.dialed, 1);
    assert_true(caller.listens && caller.peer == ECHO);
    echo_stop(&echo);
    io->dial(io, ECHO, endpoint);
    assert_int_equal(caller.dialed, 1); /* never within dial itself */
    assert_int_equal(net_io_run(caller.io, NULL), 0);
    assert_int_equal(caller.dialed, 2);
    assert_false(caller.listens);
    for (unsigned d = 0; d < 2 * DIALS; d++) { /* two dials for each actor count once */
        io->dial(io, ECHO + 1 + d % DIALS, endpoint);
    }
    for (unsigned d = 0; d < DIALS; d++) {
        assert_int_equal(net_io_run(caller.io, NULL), 0);
    }
    assert_int_equal(caller.dialed, 2 + DIALS);
    assert_false(caller.listens);
    io->dial(io, ECHO, endpoint);
    assert_int_equal(net_io_run(caller.io, NULL), 0);
    assert_int_equal(caller.dialed, 3 + DIALS);
    assert_int_equal(caller.peer, ECHO);
    for (unsigned d = 0; d < 200; d++) {
        io->dial(io, ECHO, d % 2 == 0 ? "tcp://name.invalid:7000" : "tcp://127.0.0.1"); /* nothing can be dialed */
    }
    net_io_close(caller.io);
    net_close(net);
}

/* A buffer whose release blocks in libzmq's I/O thread until the test allows it to go on. */
struct stuck {
    struct buffer buffer;
    sem_t waits, go;
    pthread_t owner;
    bool by_owner;
    unsigned char bytes[4096];
};

static void stuck_release(struct buffer *buffer) {
    struct stuck *stuck = (struct stuck *)(void *)buffer;
    stuck->by_owner = pthread_equal(pthread_self(), stuck->owner) != 0;
    sem_post(&stuck->waits);
    if (!stuck->by_owner) {
        sem_wait(&stuck->go);
    }
}

/* Sends frames until libzmq's I/O thread waits in stuck_release. */
static void stuck_send(struct stuck *stuck, struct probe *probe, actor_id to) {
    memset(stuck, 0, sizeof *stuck);
    sem_init(&stuck->waits, 0, 0);
    sem_init(&stuck->go, 0, 0);
    stuck->owner = pthread_self();
    do {
        struct message message = {.type = MESSAGE_STATUS, .frame_count = 1};
        stuck->buffer.size = sizeof stuck->bytes;
        stuck->buffer.data = stuck->bytes;
        stuck->buffer.release = stuck_release;
        atomic_init(&stuck->buffer.references, 1);
        message.frames[0] = &stuck->buffer;
        probe->door->send(probe->door, to, &message);
        sem_wait(&stuck->waits);
    } while (stuck->by_owner);
}

/* An actor with its own I/O thread answers while the servers' connections keep theirs busy, as a pulse must. */
TEST_WITH(an_io_that_is_apart_does_not_wait_for_the_others, set_up, tear_down) {
    struct echo echo;
    struct probe busy;
    struct probe sink;
    struct probe probe;
    struct stuck stuck;
    struct net *here = net_new_listening(NULL);
    struct net *there = net_new(NULL);
    echo_start_with(&echo, here, (struct net_io_options){.bind = "tcp://127.0.0.1:0", .apart = true});
    probe_open_with(&sink, there, PROBE + 1, "tcp://127.0.0.1:0", 0);
    probe_open(&busy, here, PROBE + 2);
    busy.door->connect(busy.door, PROBE + 1, net_io_endpoint(sink.io));
    stuck_send(&stuck, &busy, PROBE + 1);
    probe_open(&probe, there, PROBE);
    probe.door->connect(probe.door, ECHO, echo.endpoint);
    assert_echoes(&probe);
    sem_post(&stuck.go);
    probe_close(&probe);
    probe_close(&busy);
    probe_close(&sink);
    echo_stop(&echo);
    net_close(there);
    sem_destroy(&stuck.waits);
    sem_destroy(&stuck.go);
}

/* A closed connection's descriptor number may be reused before the end is reported. */
TEST_WITH(who_had_a_descriptor_that_is_used_again_is_told_of, set_up, tear_down) {
    struct ends ends = {0};
    assert_int_equal(ends_note(&ends, -1, PROBE), ACTOR_NONE);
    assert_int_equal(ends_take(&ends, 7), ACTOR_NONE);
    assert_int_equal(ends_note(&ends, 7, PROBE), ACTOR_NONE);
    assert_int_equal(ends_note(&ends, 700, ECHO), ACTOR_NONE);
    assert_int_equal(ends_note(&ends, 7, PROBE), ACTOR_NONE);
    assert_int_equal(ends_note(&ends, 7, PROBE + 1), PROBE);
    assert_int_equal(ends_take(&ends, 7), PROBE + 1);
    assert_int_equal(ends_take(&ends, 7), ACTOR_NONE);
    assert_int_equal(ends_take(&ends, 700), ECHO);
    assert_int_equal(ends_take(&ends, -1), ACTOR_NONE);
    ends_close(&ends);
}

int main(void) {
    return tests_run(warm_up, NULL);
}
