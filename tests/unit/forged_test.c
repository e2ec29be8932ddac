/* Messages of every type from senders without the right to send them: a stranger, and a member of the job. Whatever
 * they contain, they change nothing, and no node is removed for them. */
#include "tests/actors.h"
#include "tests/test.h"

enum { VARIANTS = 300 };

static const actor_id STRANGER = UINT64_C(0x770000);

/* A stranger is an operator or a node that registers; its connection shows which. */
static bool stranger_may(enum actors_kind to, const struct message *message) {
    return to == ACTORS_CONTROLLER && (message->type == MESSAGE_REGISTER || message->type == MESSAGE_EVICT ||
                                       (message_roles(message) & (ROLE_OPERATOR | ROLE_OBSERVER)) != 0);
}

/* The member is node 2, which has no work and no servers. */
static bool member_may(enum actors_kind to, const struct message *message) {
    switch ((unsigned)message->type) {
    case MESSAGE_EVICT: /* evicts itself */
        return to == ACTORS_CONTROLLER && message->frames[0]->size == 0;
    case MESSAGE_REGISTER:
    case MESSAGE_INPUT:
    case MESSAGE_LOADED:
    case MESSAGE_PROGRESS:
    case MESSAGE_HEARTBEAT:
    case MESSAGE_SAVED:
    case MESSAGE_LEAVE:
    case MESSAGE_FAIL:
    case MESSAGE_FENCED:
    case MESSAGE_WRITTEN:
    case MESSAGE_CRASHED:
    case MESSAGE_ACCUSE:
    case MESSAGE_WAITS:
    case MESSAGE_APP_NOTE:
        return to == ACTORS_CONTROLLER;
    case MESSAGE_SUBSCRIBE:
    case MESSAGE_PULL:
    case MESSAGE_SCAN:
        return to == ACTORS_SERVER;
    default:
        return false;
    }
}

/* Messages that node 1's server may send. It serves partition 1, which node 0's server follows, and partition 3. */
static bool server_may(enum actors_kind to, const struct message *message) {
    switch ((unsigned)message->type) {
    case MESSAGE_PUSH:
        return to == ACTORS_NODE && message->push.partition % 2 == 1;
    case MESSAGE_ROWS:
        return to == ACTORS_NODE && message->rows.partition % 2 == 1;
    case MESSAGE_UPDATE:
        return to == ACTORS_SERVER && message->update.partition == 1;
    case MESSAGE_FOLLOW:
        return to == ACTORS_SERVER && message->follow.partition == 0;
    case MESSAGE_SUBSCRIBE:
    case MESSAGE_PULL:
    case MESSAGE_SCAN:
        return to == ACTORS_SERVER; /* to its own node's worker only */
    case MESSAGE_FLUSH:
        return to == ACTORS_SERVER && actor_node(message->flush.origin) == actors_node(1);
    default:
        return false;
    }
}

/* A server keeps members' messages of an epoch whose plan has not arrived. */
static bool is_early(enum actors_kind to, const struct message *message) {
    return to == ACTORS_SERVER && message->epoch > ACTORS_EPOCH &&
           (message->type == MESSAGE_FLUSH || message->type == MESSAGE_PUSH || message->type == MESSAGE_FOLLOW ||
            message->type == MESSAGE_UPDATE);
}

static bool may(enum actors_kind to, actor_id from, const struct message *message) {
    return from == STRANGER         ? stranger_may(to, message)
           : is_early(to, message)  ? true
           : from == actors_node(2) ? member_may(to, message)
                                    : server_may(to, message);
}

/* Sets values that pass more checks: an actor of the job, and the next clock. */
static void aim(struct message *message, uint64_t random) {
    const actor_id actors[] = {actors_node(0), actors_node(1), actors_server(0), actors_server(1)};
    actor_id actor = actors[random % 4];
    switch ((unsigned)message->type) {
    case MESSAGE_FLUSH:
        message->flush.origin = actor;
        message->flush.clock = 4 + random / 4 % 2;
        break;
    case MESSAGE_PROGRESS:
        message->progress.origin = actor;
        message->progress.clock = 4;
        break;
    case MESSAGE_EVALUATE:
        message->evaluate.origin = actor;
        break;
    case MESSAGE_PUSH:
        message->push.clock = message->push.durable = 1;
        break;
    case MESSAGE_UPDATE:
        message->update.clock = 2;
        break;
    case MESSAGE_ACCUSE:
        message->accuse.accused = actor;
        break;
    default:
        break;
    }
}

static void test_forged_messages(enum actors_kind to, actor_id from) {
    CLOSED_BY(actors_close) struct actors actors;
    uint64_t random = 1;
    unsigned sent = 0;
    actors_open(&actors, to);
    uint64_t before = actors_digest(&actors);
    for (unsigned type = 1; type < FORGE_TYPES; type++) {
        struct message message;
        for (unsigned v = 0; v < VARIANTS && forge_message(type, &message); v++) {
            message.epoch = ACTORS_EPOCH;
            if (v > 0) {
                forge_change(&message, &random);
            }
            if (v % 2 == 1) {
                aim(&message, v / 2);
            }
            if (!may(to, from, &message)) {
                actors_receive(&actors, from, &message);
                sent++;
            }
            if (actors_digest(&actors) != before) {
                fail_msg("%s from %llx has changed actor %d, variant %u", message_name(type), (unsigned long long)from,
                         to, v);
            }
            message_close(&message);
        }
    }
    assert_true(sent > VARIANTS * 20);
    assert_int_equal(actors.ended, 0);
}

TEST(strangers) {
    for (enum actors_kind to = 0; to < ACTORS_KINDS; to++) {
        test_forged_messages(to, STRANGER);
    }
}

TEST(members_without_the_right) {
    for (enum actors_kind to = 0; to < ACTORS_KINDS; to++) {
        test_forged_messages(to, actors_node(2));
        test_forged_messages(to, actors_server(1));
    }
}

/* The digests detect changes: the same messages from senders with the right change them. */
TEST(the_digest_tells_changes) {
    static const struct {
        enum actors_kind to;
        struct message message;
        bool controller; /* sent by the controller, else by node 1 or its server */
    } cases[] = {
        {ACTORS_CONTROLLER, {.type = MESSAGE_HEARTBEAT, .heartbeat = {.state = NODE_STARTED, .clock = 9}}, false},
        {ACTORS_CONTROLLER, {.type = MESSAGE_LEAVE}, false},
        {ACTORS_SERVER, {.type = MESSAGE_SUBSCRIBE, .subscribe = {.partition = 0, .request = 2}}, false},
        {ACTORS_SERVER, {.type = MESSAGE_FLUSH, .flush = {.partition = 0, .clock = 4}}, false},
        {ACTORS_SERVER, {.type = MESSAGE_SCAN, .scan = {.partition = 0, .min_clock = 9}}, false},
        {ACTORS_NODE, {.type = MESSAGE_HEARTBEAT_ACK, .heartbeat_ack = {.barrier = 1, .barrier_clock = 9}}, true},
        {ACTORS_NODE, {.type = MESSAGE_FENCE}, true},
        {ACTORS_NODE, {.type = MESSAGE_DONE}, true},
    };
    for (unsigned c = 0; c < sizeof cases / sizeof *cases; c++) {
        CLOSED_BY(actors_close) struct actors actors;
        struct message message = cases[c].message;
        actors_open(&actors, cases[c].to);
        uint64_t before = actors_digest(&actors);
        message.epoch = message.type == MESSAGE_FENCE ? ACTORS_EPOCH + 1 : ACTORS_EPOCH;
        if (message.type == MESSAGE_FLUSH) {
            message.flush.origin = actors_node(1);
        }
        actors_receive(&actors, cases[c].controller ? ACTOR_CONTROLLER : actors_node(1), &message);
        assert_int_not_equal(actors_digest(&actors), before);
    }
}
