/* Tests of which processes may connect to a process of a job with a key, and under which names
 * (agileml/net/zmq_callers.c and zmq_door.c). Every party has its own net, as a process would, and this thread runs
 * all loops in turn. */
#include "agileml/base/clock.h"
#include "agileml/net/zmq.h"
#include "tests/test.h"

#include <signal.h>
#include <time.h>
#include <unistd.h>
#include <zmq.h>

enum { WATCHDOG_S = 100, PARTIES_MAX = 6, TURN_US = 500 };

static const actor_id NODE_A = 0xA0000;
static const actor_id NODE_B = 0xB0000;
static const actor_id WATCHER = 0xC0000;

/* ---- Parties ---- */

struct party {
    struct net *net;
    struct net_io *io;
    struct io *door;
    int received[64];            /* number of messages received, by type */
    actor_id from;               /* sender of the last message */
    char refusal[WIRE_TEXT_MAX]; /* text of the last ABORT */
    int warnings;
    char warning[ERROR_TEXT_MAX]; /* the last warning */
    int broken;                   /* connections that have ended */
};

static struct party *parties[PARTIES_MAX];
static size_t party_count;

static void party_receive(void *self, actor_id from, struct message *message) {
    struct party *party = self;
    party->received[message->type]++;
    party->from = from;
    if (message->type == MESSAGE_ABORT) {
        snprintf(party->refusal, sizeof party->refusal, "%s", message->text.text);
    }
}

static void party_broken(void *self, actor_id peer) {
    struct party *party = self;
    party->broken++;
}

static void party_timer(void *self) {
    struct party *party = self;
    net_io_stop(party->io);
}

static void party_warning(void *self, const char *text) {
    struct party *party = self;
    party->warnings++;
    snprintf(party->warning, sizeof party->warning, "%s", text);
}

static void party_refused(void *self, const char *endpoint, const char *why) {
    party_warning(self, why);
}

static void party_open(struct party *party, const struct net_key *key, actor_id self, bool controller, bool listens) {
    struct error error = {0};
    memset(party, 0, sizeof *party);
    const struct net_options net_options = {.key = key, .controller = controller};
    if (net_open(&party->net, &net_options, &error) != 0) {
        fail_msg("%s", error.text);
    }
    const struct net_io_options options = {
        .self = self,
        .bind = listens ? "tcp://127.0.0.1:0" : NULL,
        .actor = {.receive = party_receive, .timer = party_timer, .self = party, .broken = party_broken},
        .refused = party_refused,
        .warning = party_warning};
    if (net_io_open(&party->io, party->net, &options, &error) != 0) {
        fail_msg("%s", error.text);
    }
    party->door = net_io_of(party->io);
    parties[party_count++] = party;
}

static void party_close(struct party *party) {
    net_io_close(party->io);
    net_close(party->net);
    for (size_t p = 0; p < party_count; p++) {
        if (parties[p] == party) {
            parties[p] = parties[--party_count];
        }
    }
}

/* Runs each party's loop for a turn. */
static void turn(void) {
    for (size_t p = 0; p < party_count; p++) {
        parties[p]->door->set_timer(parties[p]->door, parties[p]->door->now_us(parties[p]->door) + TURN_US);
        assert_int_equal(net_io_run(parties[p]->io, NULL), 0);
    }
}

/* Runs turns until `count` messages of this type have arrived; alarm() ends a wait without end. */
static void wait_for(const struct party *party, enum message_type type, int count) {
    while (party->received[type] < count) {
        turn();
    }
    assert_int_equal(party->received[type], count);
}

static void wait_for_warning(const struct party *party, const char *text) {
    while (strstr(party->warning, text) == NULL) {
        turn();
    }
}

static void turns(int count) {
    for (int t = 0; t < count; t++) {
        turn();
    }
}

static void send_type(struct party *party, actor_id to, enum message_type type) {
    struct message message = {.type = type};
    unsigned frames = type == MESSAGE_REGISTER ? 3 : type == MESSAGE_EVICT || type == MESSAGE_STATUS ? 1 : 0;
    for (unsigned f = 0; f < frames; f++) {
        message.frames[message.frame_count++] = buffer_new(type == MESSAGE_EVICT ? WIRE_NAME_MAX : 0);
    }
    for (unsigned f = 0; f < frames; f++) {
        memset(message.frames[f]->data, 0, message.frames[f]->size);
    }
    party->door->send(party->door, to, &message);
}

static struct wire_node node_of(actor_id actor, const struct party *party) {
    struct wire_node node = {.actor = actor};
    snprintf(node.key, sizeof node.key, "%s", net_public_key(party->net));
    return node;
}

/* ---- Keys and tokens ---- */

static struct net_key job_new(void) {
    struct net_key key = {0};
    assert_int_equal(zmq_curve_keypair(key.public_text, key.secret_text), 0);
    net_key_complete(&key);
    return key;
}

static struct net_key token_of(const struct net_key *job, struct net_token_terms terms) {
    char path[] = "/tmp/net_identity_test.XXXXXX";
    struct net_key token = {0};
    struct error error = {0};
    int fd = mkstemp(path);
    close(fd);
    unlink(path);
    if (net_token_issue(job, terms, path, &error) != 0 || net_key_load(path, &token, &error) != 0) {
        fail_msg("%s", error.text);
    }
    unlink(path);
    assert_string_equal(token.secret_text, "");
    return token;
}

static struct net_key token_new(const struct net_key *job, unsigned roles, uint32_t nodes, int64_t seconds) {
    return token_of(
        job, (struct net_token_terms){.roles = roles, .nodes = nodes, .expires = (uint64_t)(time(NULL) + seconds)});
}

struct job {
    struct net_key key;
    struct party controller;
    const char *endpoint;
};

static void job_open(struct job *job) {
    job->key = job_new();
    party_open(&job->controller, &job->key, ACTOR_CONTROLLER, true, true);
    job->endpoint = net_io_endpoint(job->controller.io);
}

/* A party that connects to the controller. */
static void job_join(struct job *job, struct party *party, const struct net_key *key, actor_id self) {
    party_open(party, key, self, false, true);
    party->door->connect(party->door, ACTOR_CONTROLLER, job->endpoint);
}

/* ---- Tests: the controller ---- */

TEST(a_token_of_another_job_is_refused) {
    struct job job;
    struct party stranger;
    struct net_key other = job_new();
    job_open(&job);
    struct net_key forged = token_new(&other, ROLE_NODE, 0, 60);
    memcpy(forged.public_text, job.key.public_text, NET_KEY_TEXT); /* else the handshake fails */
    job_join(&job, &stranger, &forged, NODE_A);
    send_type(&stranger, ACTOR_CONTROLLER, MESSAGE_REGISTER);
    wait_for(&stranger, MESSAGE_ABORT, 1);
    assert_non_null(strstr(stranger.refusal, "not of this job"));
    assert_int_equal(job.controller.received[MESSAGE_REGISTER], 0);
    assert_non_null(strstr(job.controller.warning, "not of this job"));
    party_close(&stranger);
    party_close(&job.controller);
}

TEST(each_role_may_send_what_is_its_own) {
    static const struct {
        unsigned role;
        enum message_type may[2], may_not[2];
    } cases[] = {
        {ROLE_OBSERVER, {MESSAGE_STATUS, MESSAGE_OBSERVE}, {MESSAGE_STOP, MESSAGE_REGISTER}},
        {ROLE_OPERATOR, {MESSAGE_STATUS, MESSAGE_EVICT}, {MESSAGE_REGISTER, MESSAGE_FAIL}},
        {ROLE_OPERATOR, {MESSAGE_STOP, MESSAGE_OBSERVE}, {MESSAGE_REVOKE, MESSAGE_LEAVE}},
        {ROLE_NODE, {MESSAGE_REGISTER, MESSAGE_LEAVE}, {MESSAGE_EVICT, MESSAGE_STOP}},
        {ROLE_NODE, {MESSAGE_REGISTER, MESSAGE_LEAVE}, {MESSAGE_ABORT, MESSAGE_STATUS}},
    };
    struct job job;
    job_open(&job);
    for (size_t c = 0; c < sizeof cases / sizeof cases[0]; c++) {
        CLOSED_BY(party_close) struct party party;
        struct net_key token = token_new(&job.key, cases[c].role, 0, 60);
        job_join(&job, &party, &token, NODE_A + (c << ACTOR_PART_BITS));
        memset(job.controller.received, 0, sizeof job.controller.received);
        for (int m = 0; m < 2; m++) {
            send_type(&party, ACTOR_CONTROLLER, cases[c].may_not[m]);
            wait_for(&party, MESSAGE_ABORT, m + 1);
            assert_non_null(strstr(party.refusal, message_name(cases[c].may_not[m])));
            assert_int_equal(job.controller.received[cases[c].may_not[m]], 0);
        }
        for (int m = 0; m < 2; m++) {
            send_type(&party, ACTOR_CONTROLLER, cases[c].may[m]);
            wait_for(&job.controller, cases[c].may[m], 1);
        }
        assert_int_equal(party.received[MESSAGE_ABORT], 2);
    }
    party_close(&job.controller);
}

TEST(the_jobs_key_may_do_everything) {
    struct job job;
    struct party party;
    job_open(&job);
    job_join(&job, &party, &job.key, NODE_A);
    static const enum message_type types[] = {MESSAGE_REGISTER, MESSAGE_STATUS, MESSAGE_STOP, MESSAGE_EVICT,
                                              MESSAGE_REVOKE};
    for (size_t t = 0; t < sizeof types / sizeof types[0]; t++) {
        send_type(&party, ACTOR_CONTROLLER, types[t]);
        wait_for(&job.controller, types[t], 1);
    }
    party_close(&party);
    party_close(&job.controller);
}

TEST(an_expired_token_lets_nobody_new_in) {
    struct job job;
    struct party early, late;
    job_open(&job);
    struct net_key token = token_new(&job.key, ROLE_NODE, 0, 3);
    job_join(&job, &early, &token, NODE_A);
    send_type(&early, ACTOR_CONTROLLER, MESSAGE_REGISTER);
    wait_for(&job.controller, MESSAGE_REGISTER, 1);
    while ((uint64_t)time(NULL) < net_token_terms(token.token).expires) {
        usleep(10000);
    }
    job_join(&job, &late, &token, NODE_B);
    send_type(&late, ACTOR_CONTROLLER, MESSAGE_REGISTER);
    wait_for(&late, MESSAGE_ABORT, 1);
    assert_non_null(strstr(late.refusal, "expired"));
    /* An admitted process was removed, and joins again under a new id. */
    const struct net_io_options again = {.self = NODE_A + (UINT64_C(7) << ACTOR_PART_BITS),
                                         .actor = {.receive = party_receive, .timer = party_timer, .self = &early},
                                         .warning = party_warning};
    net_io_close(early.io);
    assert_int_equal(net_io_open(&early.io, early.net, &again, NULL), 0);
    early.door = net_io_of(early.io);
    early.door->connect(early.door, ACTOR_CONTROLLER, job.endpoint);
    send_type(&early, ACTOR_CONTROLLER, MESSAGE_REGISTER);
    wait_for(&job.controller, MESSAGE_REGISTER, 2);
    assert_int_equal(job.controller.from, again.self);
    party_close(&early);
    party_close(&late);
    party_close(&job.controller);
}

TEST(a_token_is_for_so_many_nodes) {
    struct job job;
    struct party one, other;
    job_open(&job);
    struct net_key token = token_new(&job.key, ROLE_NODE, 1, 60);
    job_join(&job, &one, &token, NODE_A);
    job_join(&job, &other, &token, NODE_B);
    send_type(&one, ACTOR_CONTROLLER, MESSAGE_REGISTER);
    wait_for(&job.controller, MESSAGE_REGISTER, 1);
    struct wire_node member = node_of(NODE_A, &one);
    job.controller.door->admit(job.controller.door, &member, 1);
    send_type(&other, ACTOR_CONTROLLER, MESSAGE_REGISTER);
    wait_for_warning(&job.controller, "all 1 places of this node's token are taken");
    send_type(&one, ACTOR_CONTROLLER, MESSAGE_REGISTER); /* a repeat of the same message */
    wait_for(&job.controller, MESSAGE_REGISTER, 2);
    assert_int_equal(job.controller.from, NODE_A);
    assert_int_equal(other.received[MESSAGE_ABORT], 0); /* the other node may wait for a place */
    party_close(&one);
    party_close(&other);
    party_close(&job.controller);
}

TEST(nobody_takes_a_nodes_name_at_the_controller) {
    struct job job;
    struct party victim, thief;
    job_open(&job);
    struct net_key token = token_new(&job.key, ROLE_NODE, 0, 60);
    job_join(&job, &victim, &token, NODE_A);
    send_type(&victim, ACTOR_CONTROLLER, MESSAGE_REGISTER);
    wait_for(&job.controller, MESSAGE_REGISTER, 1);
    for (int member = 0; member < 2; member++) { /* before the node is in the plan, and afterwards */
        struct wire_node node = node_of(NODE_A, &victim);
        job.controller.door->admit(job.controller.door, &node, (size_t)member);
        job_join(&job, &thief, &token, NODE_A);
        send_type(&thief, ACTOR_CONTROLLER, MESSAGE_FAIL);
        wait_for(&thief, MESSAGE_ABORT, 1);
        assert_non_null(strstr(thief.refusal, "of a process with another key"));
        assert_int_equal(job.controller.received[MESSAGE_FAIL], 0);
        send_type(&job.controller, NODE_A, MESSAGE_FENCE); /* the victim's connection is still its own */
        wait_for(&victim, MESSAGE_FENCE, member + 1);
        assert_int_equal(thief.received[MESSAGE_FENCE], 0);
        party_close(&thief);
    }
    party_close(&victim);
    party_close(&job.controller);
}

TEST(a_listed_node_needs_no_token) {
    struct job job;
    struct party node;
    job_open(&job);
    struct net_key token = token_new(&job.key, ROLE_NODE, 1, -1); /* expired, as after a restart of the controller */
    job_join(&job, &node, &token, NODE_A);
    struct wire_node member = node_of(NODE_A, &node);
    job.controller.door->admit(job.controller.door, &member, 1);
    send_type(&node, ACTOR_CONTROLLER, MESSAGE_LEAVE);
    wait_for(&job.controller, MESSAGE_LEAVE, 1);
    party_close(&node);
    party_close(&job.controller);
}

TEST(many_who_come_and_go_are_forgotten) {
    enum { CALLERS = 1100 };
    struct job job;
    struct party party;
    job_open(&job);
    struct net_key token = token_new(&job.key, ROLE_OBSERVER, 0, 60);
    job_join(&job, &party, &token, WATCHER);
    for (int c = 0; c < CALLERS; c++) {
        const struct net_io_options again = {.self = WATCHER + ((actor_id)(c + 1) << ACTOR_PART_BITS),
                                             .actor = {.receive = party_receive, .timer = party_timer, .self = &party}};
        net_io_close(party.io);
        assert_int_equal(net_io_open(&party.io, party.net, &again, NULL), 0);
        party.door = net_io_of(party.io);
        party.door->connect(party.door, ACTOR_CONTROLLER, job.endpoint);
        send_type(&party, ACTOR_CONTROLLER, MESSAGE_STATUS);
        wait_for(&job.controller, MESSAGE_STATUS, c + 1);
        send_type(&job.controller, again.self, MESSAGE_FENCE);
        wait_for(&party, MESSAGE_FENCE, c + 1);
    }
    uint64_t before, after;
    net_io_count(job.controller.io, NULL, NULL, &before);
    send_type(&job.controller, WATCHER + (UINT64_C(1) << ACTOR_PART_BITS), MESSAGE_FENCE);
    net_io_count(job.controller.io, NULL, NULL, &after);
    assert_int_equal(after, before + 1);
    party_close(&party);
    party_close(&job.controller);
}

TEST(a_token_names_the_tier) {
    struct job job;
    struct party node;
    job_open(&job);
    struct net_token_terms terms = {.roles = ROLE_NODE, .tiers = 1U << TIER_TRANSIENT};
    struct net_key token = token_of(&job.key, terms);
    job_join(&job, &node, &token, NODE_A);
    send_type(&node, ACTOR_CONTROLLER, MESSAGE_REGISTER); /* registers as a reliable node */
    wait_for(&node, MESSAGE_ABORT, 1);
    assert_non_null(strstr(node.refusal, "a token for a transient node, does not allow joining as a reliable node"));
    assert_int_equal(job.controller.received[MESSAGE_REGISTER], 0);
    struct message message = {.type = MESSAGE_REGISTER, .registration.tier = TIER_TRANSIENT, .frame_count = 3};
    for (unsigned f = 0; f < 3; f++) {
        message.frames[f] = buffer_new(0);
    }
    node.door->send(node.door, ACTOR_CONTROLLER, &message);
    wait_for(&job.controller, MESSAGE_REGISTER, 1);
    /* admission as a transient node does not extend to a reliable node */
    send_type(&node, ACTOR_CONTROLLER, MESSAGE_REGISTER);
    wait_for(&node, MESSAGE_ABORT, 2);
    assert_int_equal(job.controller.received[MESSAGE_REGISTER], 1);
    party_close(&node);
    party_close(&job.controller);
}

TEST(the_next_program_takes_the_key_pair) {
    struct net_key job = job_new();
    char key[NET_KEY_TEXT];
    struct party before, after, third;
    party_open(&before, &job, NODE_A, false, false);
    snprintf(key, sizeof key, "%s", net_public_key(before.net));
    net_leave_key(before.net);
    party_close(&before);
    party_open(&after, &job, NODE_A, false, false);
    party_open(&third, &job, NODE_B, false, false);
    assert_string_equal(net_public_key(after.net), key);
    assert_string_not_equal(net_public_key(third.net), key);
    party_close(&after);
    party_close(&third);
}

TEST(the_controller_needs_the_jobs_key) {
    struct error error = {0};
    struct net *net;
    struct net_key job = job_new();
    struct net_key token = token_new(&job, ROLES_ALL, 0, 60);
    assert_int_equal(net_open(&net, &(struct net_options){.key = &token, .controller = true}, &error), AML_EINPUT);
    assert_non_null(strstr(error.text, "a token was given"));
    char text[NET_TOKEN_FILE_MAX];
    error.code = 0;
    assert_int_equal(net_token_text(&token, (struct net_token_terms){.roles = ROLE_NODE}, text, &error), AML_EINPUT);
}

/* A revoked token lets nobody in, not even a node of the list, and the connections of who came by it are cut off. */
TEST(a_revoked_token_lets_nobody_in) {
    struct job job;
    struct party holder, other, late;
    job_open(&job);
    struct net_key token = token_new(&job.key, ROLE_NODE, 0, 60);
    struct net_key own = token_new(&job.key, ROLE_NODE, 0, 60);
    uint64_t serial = net_token_terms(token.token).serial;
    job_join(&job, &holder, &token, NODE_A);
    job_join(&job, &other, &own, NODE_B);
    send_type(&holder, ACTOR_CONTROLLER, MESSAGE_REGISTER);
    send_type(&other, ACTOR_CONTROLLER, MESSAGE_REGISTER);
    wait_for(&job.controller, MESSAGE_REGISTER, 2);
    struct io *door = job.controller.door;
    assert_int_equal(door->token_of(door, NODE_A), serial);
    assert_int_equal(door->token_of(door, NODE_B), net_token_terms(own.token).serial);
    assert_int_equal(door->token_of(door, WATCHER), 0);
    struct wire_node members[] = {node_of(NODE_A, &holder), node_of(NODE_B, &other)};
    door->admit(door, members, 2);
    door->revoke(door, &serial, 1);
    assert_int_equal(door->token_of(door, NODE_A), 0);
    send_type(&holder, ACTOR_CONTROLLER, MESSAGE_LEAVE);
    wait_for(&holder, MESSAGE_ABORT, 1);
    assert_non_null(strstr(holder.refusal, "its --key, a token for a node until "));
    assert_non_null(strstr(holder.refusal, ", was revoked"));
    while (holder.broken == 0) {
        turn();
    }
    job_join(&job, &late, &token, WATCHER);
    send_type(&late, ACTOR_CONTROLLER, MESSAGE_REGISTER);
    wait_for(&late, MESSAGE_ABORT, 1);
    assert_non_null(strstr(late.refusal, ", was revoked"));
    send_type(&other, ACTOR_CONTROLLER, MESSAGE_LEAVE);
    wait_for(&job.controller, MESSAGE_LEAVE, 1);
    assert_int_equal(job.controller.from, NODE_B);
    assert_int_equal(other.broken, 0);
    door->revoke(door, NULL, 0);
    send_type(&late, ACTOR_CONTROLLER, MESSAGE_REGISTER);
    wait_for(&job.controller, MESSAGE_REGISTER, 3);
    party_close(&late);
    party_close(&other);
    party_close(&holder);
    party_close(&job.controller);
}

/* A node can't fill the table of callers by parts that no process has. */
TEST(a_process_has_few_parts) {
    struct job job;
    struct party node;
    job_open(&job);
    struct net_key token = token_new(&job.key, ROLE_NODE, 0, 60);
    job_join(&job, &node, &token, actor_of_part(NODE_A, WIRE_SERVERS_MAX + 1));
    struct wire_node member = node_of(NODE_A, &node);
    job.controller.door->admit(job.controller.door, &member, 1);
    send_type(&node, ACTOR_CONTROLLER, MESSAGE_LEAVE);
    wait_for(&node, MESSAGE_ABORT, 1);
    assert_non_null(strstr(node.refusal, "no process has a part 65"));
    assert_int_equal(job.controller.received[MESSAGE_LEAVE], 0);
    party_close(&node);
    party_close(&job.controller);
}

/* ---- Tests: nodes ---- */

/* Two nodes of a job: each has a token, and A connects to B. */
struct pair {
    struct net_key job, token;
    struct party a, b;
};

static void pair_open(struct pair *pair) {
    pair->job = job_new();
    pair->token = token_new(&pair->job, ROLE_NODE, 0, 60);
    party_open(&pair->a, &pair->token, NODE_A, false, true);
    party_open(&pair->b, &pair->token, NODE_B, false, true);
    struct wire_node nodes[] = {node_of(NODE_A, &pair->a), node_of(NODE_B, &pair->b)};
    pair->a.door->admit(pair->a.door, nodes, 2);
    pair->a.door->connect(pair->a.door, NODE_B, net_io_endpoint(pair->b.io));
    send_type(&pair->a, NODE_B, MESSAGE_FAIL);
}

static void pair_admit(struct pair *pair) {
    struct wire_node nodes[] = {node_of(NODE_A, &pair->a), node_of(NODE_B, &pair->b)};
    pair->b.door->admit(pair->b.door, nodes, 2);
}

static void pair_close(struct pair *pair) {
    party_close(&pair->a);
    party_close(&pair->b);
}

TEST(a_node_waits_until_the_other_has_the_plan) {
    CLOSED_BY(pair_close) struct pair pair;
    pair_open(&pair);
    turns(200);
    assert_int_equal(pair.b.received[MESSAGE_FAIL], 0);
    pair_admit(&pair);
    wait_for(&pair.b, MESSAGE_FAIL, 1);
    assert_int_equal(pair.b.from, NODE_A);
}

/* The wait exceeds a handshake's limit, after which the handshake is repeated. */
TEST(a_node_waits_longer_than_a_handshake) {
    CLOSED_BY(pair_close) struct pair pair;
    pair_open(&pair);
    uint64_t until_us = monotonic_us() + 3000000;
    while (monotonic_us() < until_us) {
        turn();
    }
    assert_int_equal(pair.b.received[MESSAGE_FAIL], 0);
    pair_admit(&pair);
    wait_for(&pair.b, MESSAGE_FAIL, 1);
}

TEST(a_node_that_left_is_not_heard) {
    CLOSED_BY(pair_close) struct pair pair;
    pair_open(&pair);
    pair_admit(&pair);
    wait_for(&pair.b, MESSAGE_FAIL, 1);
    struct wire_node alone = node_of(NODE_B, &pair.b);
    pair.b.door->admit(pair.b.door, &alone, 1);
    send_type(&pair.a, NODE_B, MESSAGE_FAIL);
    wait_for_warning(&pair.b, "not in the job's plan");
    assert_int_equal(pair.b.received[MESSAGE_FAIL], 1);
}

TEST(nobody_takes_a_nodes_name_at_a_node) {
    CLOSED_BY(pair_close) struct pair pair;
    CLOSED_BY(party_close) struct party thief;
    pair_open(&pair);
    pair_admit(&pair);
    wait_for(&pair.b, MESSAGE_FAIL, 1);
    party_open(&thief, &pair.token, NODE_A, false, false); /* a node of the job with another node's id */
    struct wire_node nodes[] = {node_of(NODE_A, &pair.a), node_of(NODE_B, &pair.b), node_of(WATCHER, &thief)};
    pair.a.door->admit(pair.a.door, nodes, 3);
    pair.b.door->admit(pair.b.door, nodes, 3);
    thief.door->admit(thief.door, nodes, 3);
    thief.door->connect(thief.door, NODE_B, net_io_endpoint(pair.b.io));
    send_type(&thief, NODE_B, MESSAGE_FAIL);
    wait_for_warning(&pair.b, "of a process with another key");
    assert_int_equal(pair.b.received[MESSAGE_FAIL], 1);
    send_type(&pair.b, NODE_A, MESSAGE_FAIL); /* over the connection that A made */
    wait_for(&pair.a, MESSAGE_FAIL, 1);
    assert_int_equal(thief.received[MESSAGE_FAIL], 0);
}

TEST(a_node_does_not_speak_for_the_controller) {
    CLOSED_BY(pair_close) struct pair pair;
    CLOSED_BY(party_close) struct party liar;
    pair_open(&pair);
    pair_admit(&pair);
    wait_for(&pair.b, MESSAGE_FAIL, 1);
    send_type(&pair.b, NODE_A, MESSAGE_ABORT); /* an answer over A's own connection */
    wait_for_warning(&pair.a, "ABORT from a node");
    assert_int_equal(pair.a.received[MESSAGE_ABORT], 0);
    send_type(&pair.a, NODE_B, MESSAGE_ABORT);
    wait_for_warning(&pair.b, "a node may not send ABORT");
    assert_int_equal(pair.b.received[MESSAGE_ABORT], 0);
    party_open(&liar, &pair.token, ACTOR_CONTROLLER, false, false);
    struct wire_node nodes[] = {node_of(NODE_A, &pair.a), node_of(NODE_B, &pair.b), node_of(WATCHER, &liar)};
    pair.b.door->admit(pair.b.door, nodes, 3);
    liar.door->admit(liar.door, nodes, 3);
    liar.door->connect(liar.door, NODE_B, net_io_endpoint(pair.b.io));
    send_type(&liar, NODE_B, MESSAGE_ABORT);
    wait_for_warning(&pair.b, "not in the job's plan");
    assert_int_equal(pair.b.received[MESSAGE_ABORT], 0);
}

/* ---- */

static int set_up(void **state) {
    party_count = 0;
    alarm(WATCHDOG_S);
    return 0;
}

static int tear_down(void **state) {
    alarm(0);
    return 0;
}

int main(void) {
    return tests_run_each(set_up, tear_down);
}
