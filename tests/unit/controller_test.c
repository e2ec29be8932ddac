/* The controller against nodes played by the test: single messages where their order matters, and whole small clusters
 * for what takes many (changes of plan, failures, a controller that is killed and goes on from its store). */
#include "agileml/control/controller.h"

#include "agileml/base/hash.h"
#include "agileml/control/controller_private.h"
#include "agileml/control/manifest.h"
#include "agileml/control/report.h"

#include <dirent.h>
#include <jansson.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

enum {
    SENT_MAX = 4096,
    SAVERS_MAX = 8,
    PLAYERS_MAX = 12,
    PARTITIONS = 4,
    SHARDS = 12,
    SHARD_ITEMS = 10,
    HEARTBEAT_MS = 100,
    TIMEOUT_MS = 3000,
    ANSWER_MS = 9000,
    ROUND_US = 20 * 1000,
    ROUNDS_MAX = 3000,
    ROOT_BYTES = 32,
    LINES_MAX = 1 << 14,
    OPERATOR = 40, /* numbers of nodes that are none */
    OBSERVER = 41,
    STRANGER = 42
};

static actor_id node(unsigned number) {
    return (actor_id)(number + 1) << ACTOR_PART_BITS;
}

/* ---- A store in memory, which also kills the controller ---- */

enum kill { KILL_NEVER, KILL_AFTER_CALL, KILL_BEFORE_WRITE, KILL_AFTER_WRITE };

struct memory_store {
    struct store store;
    struct memory_entry {
        char key[STORE_KEY_MAX];
        unsigned char *bytes;
        size_t size;
    } * entries; /* by key */
    unsigned count;
    unsigned writes;
    unsigned fail_at; /* this write fails, and those after it; 0: none */
    uint64_t slow_us; /* what a write takes */
    struct fake *fake;
};

static void entry_set(struct memory_store *store, const struct store_entry *entry) {
    unsigned at = 0;
    while (at < store->count && strcmp(store->entries[at].key, entry->key) < 0) {
        at++;
    }
    bool there = at < store->count && strcmp(store->entries[at].key, entry->key) == 0;
    if (there) {
        free(store->entries[at].bytes);
        memmove(store->entries + at, store->entries + at + 1, (--store->count - at) * sizeof *store->entries);
    }
    if (entry->bytes == NULL) {
        return;
    }
    store->entries = realloc(store->entries, (store->count + 1) * sizeof *store->entries);
    assert_non_null(store->entries);
    memmove(store->entries + at + 1, store->entries + at, (store->count++ - at) * sizeof *store->entries);
    struct memory_entry *new = &store->entries[at];
    snprintf(new->key, sizeof new->key, "%s", entry->key);
    new->size = entry->size;
    new->bytes = malloc(entry->size + 1);
    assert_non_null(new->bytes);
    memcpy(new->bytes, entry->bytes, entry->size);
}

/* ---- The cluster ---- */

/* A node as far as the controller can see it. Its cluster computes clock after clock, staleness 0. */
struct player {
    enum node_tier tier;
    bool there;             /* the process runs */
    bool stopped;           /* but does and hears nothing */
    enum message_type deaf; /* it goes on, but hears no messages of this type; of HEARTBEAT_ACK not the hold; 0: all */
    bool welcomed, fenced, done, rejoin;
    int aborted; /* the code of ABORT; text: */
    char text[ERROR_TEXT_MAX];
    enum node_state state;
    uint64_t epoch, clock, final;
    uint64_t barrier, barrier_clock;
    uint64_t lost_until; /* PROGRESS of clocks up to this does not reach the controller */
    bool caches;         /* its cache has what its server lacks, as of the newest clock ... */
    uint64_t behind;     /* ... or of one so much before */
    struct message plan;
    struct {
        actor_id origin;
        uint64_t clock, items;
    } reports[512]; /* not acknowledged */
    unsigned report_count;
    unsigned fences, plans;
    actor_id accuses;
    uint64_t feed_us;      /* of a feeder: how long it has made batches */
    unsigned feed_threads; /* as it was told; 0: not yet */
};

/* Where the controller's process is killed, and how often it was. */
struct fake_kill {
    enum kill where;
    unsigned at, calls, count;
    bool dead; /* what it still does is not seen */
};

/* What an observer and the operator got. */
struct fake_observed {
    char *lines[LINES_MAX];
    uint64_t read;
    struct message_outcome outcome; /* the last one */
};

/* How replicas are written to checkpoints. */
struct fake_checkpoints {
    enum written_state state;
    unsigned written, passed; /* replicas: written, and asked for a clock that was over */
    unsigned rounds;          /* until a replica is written */
    struct write {
        unsigned player;
        struct message_checkpoint checkpoint;
        uint32_t partition;
        unsigned rounds;
        bool over;
    } writes[512];
    unsigned write_count;
};

struct fake_saves {
    unsigned fail; /* so many attempts at saving the model, with this code */
    int code;
    unsigned savers[SAVERS_MAX], saver_count; /* who was asked */
};

/* Stages that take most of a clock, and feeders that are as busy with them as they can be; and a launcher that starts a
 * feeder for each `add-feeder`. */
struct fake_feed {
    double alone;      /* rounds that a clock takes without feeders; 0: there are no stages */
    double rest;       /* rounds of that for what feeders can't do */
    double done;       /* of the clock under way, in rounds of one node */
    bool due;          /* the clock ends in this round */
    uint64_t lines;    /* of the report that the launcher has read */
    unsigned launched; /* number of its next node */
    bool launches;
    unsigned round_trips; /* rounds until a feeder that was asked for joins */
    unsigned pending;     /* rounds until the next one joins; 0: none is to */
    unsigned threads_max; /* of each feeder, each as good as a feeder with one; 0: they have one */
};

/* How long each player takes for a clock, as its PROGRESS says; zeros: nothing is known. */
struct fake_times {
    uint64_t clock_us;
    uint64_t compute_us[PLAYERS_MAX];
    uint64_t evaluate_us; /* after an iteration */
    uint64_t lag;         /* so many clocks that are done are not committed */
};

struct fake_end {
    int ended;
    int code;
    char text[ERROR_TEXT_MAX];
};

struct fake {
    struct io io;
    uint64_t now_us;
    unsigned threadless; /* a set of nodes that come without worker threads */
    unsigned elsewhere;  /* a set of nodes whose pulses name another host than their servers */
    unsigned dials[PLAYERS_MAX];
    struct {
        actor_id to;
        struct message message;
    } sent[SENT_MAX];
    unsigned count;
    struct controller controller;
    struct controller_options options;
    struct job_terms terms;
    struct wire_option settings[4]; /* of nodes that join */
    unsigned setting_count;
    struct memory_store store;
    struct player players[PLAYERS_MAX];
    uint64_t clock; /* every partition is at it */
    struct message newest;
    struct {
        actor_id origin;
        uint64_t clock;
    } flushed[4096];
    unsigned flushed_count;
    unsigned speed; /* clocks in a round; 0: one */
    struct fake_end end;
    struct fake_kill kill;
    struct fake_observed observed;
    struct fake_checkpoints checkpoints;
    struct fake_saves saves;
    struct fake_feed feed;
    struct fake_times times;
};

static int memory_write(struct store *base, const struct store_entry *entries, unsigned count, struct error *error) {
    struct memory_store *store = (struct memory_store *)(void *)base;
    struct fake *fake = store->fake;
    if (fake->kill.dead) {
        return 0;
    }
    store->writes++;
    fake->now_us += store->slow_us;
    if (store->fail_at != 0 && store->writes >= store->fail_at) {
        return error_set(error, AML_EFAIL, "the store is full");
    }
    fake->kill.dead = fake->kill.where == KILL_BEFORE_WRITE && store->writes == fake->kill.at;
    for (unsigned e = 0; e < count && !fake->kill.dead; e++) {
        entry_set(store, &entries[e]);
    }
    fake->kill.dead = fake->kill.dead || (fake->kill.where == KILL_AFTER_WRITE && store->writes == fake->kill.at);
    return 0;
}

static int memory_read(struct store *base,
                       int (*each)(void *context, const char *key, const void *bytes, size_t size, struct error *error),
                       void *context, struct error *error) {
    struct memory_store *store = (struct memory_store *)(void *)base;
    int result = 0;
    for (unsigned e = 0; e < store->count && result == 0; e++) {
        result = each(context, store->entries[e].key, store->entries[e].bytes, store->entries[e].size, error);
    }
    return result;
}

static uint64_t fake_now(struct io *io) {
    return ((struct fake *)(void *)io)->now_us;
}

static void fake_send(struct io *io, actor_id to, struct message *message) {
    struct fake *fake = (struct fake *)(void *)io;
    if (fake->kill.dead) {
        message_close(message);
        return;
    }
    assert_true(fake->count < SENT_MAX);
    fake->sent[fake->count].to = to;
    fake->sent[fake->count++].message = *message;
}

static void fake_dial(struct io *io, actor_id actor, const char *endpoint) {
    struct fake *fake = (struct fake *)(void *)io;
    assert_string_equal(endpoint, "tcp://host:2");
    assert_true(actor_is_pulse(actor));
    for (unsigned n = 0; n < PLAYERS_MAX; n++) {
        fake->dials[n] += actor_node(actor) == node(n);
    }
}

static void fake_admit(struct io *io, const struct wire_node *nodes, size_t count) {
    (void)io;
    (void)nodes;
    (void)count;
}

/* A timer that is asked for a moment that has come would be called again and again. A store that is slow takes its
 * time in the middle of a call. */
static void fake_set_timer(struct io *io, uint64_t at_us) {
    const struct fake *fake = (const struct fake *)(const void *)io;
    assert_true(at_us == 0 || at_us > io->now_us(io) || fake->store.slow_us > 0);
}

static void fake_end(void *context, int code, const char *text) {
    struct fake *fake = context;
    fake->end.ended += fake->kill.dead ? 0 : 1;
    fake->end.code = code;
    snprintf(fake->end.text, sizeof fake->end.text, "%s", text);
}

/* One reliable and one transient node, stage 1; a test may change it before fake_start. */
static struct fake *fake_new(struct job_terms terms) {
    struct fake *fake = calloc(1, sizeof *fake);
    assert_non_null(fake);
    fake->io = (struct io){
        .now_us = fake_now, .send = fake_send, .set_timer = fake_set_timer, .admit = fake_admit, .dial = fake_dial};
    fake->now_us = 1000 * 1000;
    fake->terms = terms;
    memcpy(fake->terms.app, "app", sizeof "app");
    fake->store.store = (struct store){.write = memory_write, .read = memory_read};
    fake->store.fake = fake;
    fake->options =
        (struct controller_options){.reliable = 1,
                                    .transient = 1,
                                    .policy = {.stage = STAGE_1, .partitions = PARTITIONS, .shards = SHARDS},
                                    .thresholds = {PLAN_THRESHOLD_2, PLAN_THRESHOLD_3},
                                    .heartbeat_ms = HEARTBEAT_MS,
                                    .timeout_ms = TIMEOUT_MS,
                                    .answer_ms = ANSWER_MS,
                                    .start_timeout_ms = 10000,
                                    .end = fake_end,
                                    .context = fake};
    return fake;
}

static void fake_start(struct fake *fake) {
    struct error error = {0};
    assert_int_equal(controller_init(&fake->controller, &fake->io, &fake->options, &error), 0);
}

static struct fake *fake_open(struct job_terms terms) {
    struct fake *fake = fake_new(terms);
    fake_start(fake);
    return fake;
}

/* How many messages of a type were sent to an actor. */
static unsigned sent(struct fake *fake, actor_id to, enum message_type type, struct message *last) {
    unsigned found = 0;
    if (last != NULL) {
        *last = (struct message){0};
    }
    for (unsigned m = 0; m < fake->count; m++) {
        if (fake->sent[m].to == to && fake->sent[m].message.type == type) {
            found++;
            if (last != NULL) {
                *last = fake->sent[m].message;
            }
        }
    }
    return found;
}

static void forget(struct fake *fake) {
    for (unsigned m = 0; m < fake->count; m++) {
        message_close(&fake->sent[m].message);
    }
    fake->count = 0;
}

static void fake_close(struct fake *fake) {
    forget(fake);
    controller_close(&fake->controller);
    for (unsigned p = 0; p < PLAYERS_MAX; p++) {
        message_close(&fake->players[p].plan);
    }
    for (unsigned e = 0; e < fake->store.count; e++) {
        free(fake->store.entries[e].bytes);
    }
    for (uint64_t l = 0; l < fake->observed.read; l++) {
        free(fake->observed.lines[l]);
    }
    free(fake->store.entries);
    message_close(&fake->newest);
    free(fake);
}

/* After each call: kills the controller if its time has come; another one goes on with the store. */
static void called(struct fake *fake) {
    fake->kill.dead = fake->kill.dead || (fake->kill.where == KILL_AFTER_CALL && ++fake->kill.calls == fake->kill.at);
    if (fake->kill.dead) {
        fake->kill.where = KILL_NEVER;
        fake->kill.count++;
        controller_close(&fake->controller);
        fake->kill.dead = false;
        fake_start(fake);
    }
}

static void give_as(struct fake *fake, unsigned from, uint64_t epoch, struct message *message) {
    message->epoch = epoch;
    controller_receive(&fake->controller, node(from), message);
    message_close(message);
    called(fake);
}

static void give(struct fake *fake, unsigned from, struct message *message) {
    give_as(fake, from, fake->controller.plan.epoch, message);
}

static void tick(struct fake *fake, uint64_t us) {
    fake->now_us += us;
    controller_timer(&fake->controller);
    called(fake);
}

/* Lets the controller's timer run as often as it asks for; no message comes. */
static void tick_silently(struct fake *fake, uint64_t us) {
    for (uint64_t passed = 0; passed < us; passed += HEARTBEAT_MS * UINT64_C(500)) {
        tick(fake, HEARTBEAT_MS * UINT64_C(500));
    }
}

static void join(struct fake *fake, unsigned number, const char *name, enum node_tier tier,
                 const struct job_terms *terms) {
    struct message message;
    memset(&message, (int)number + 1, sizeof message); /* what lies between fields differs from node to node */
    message.type = MESSAGE_REGISTER;
    memset(message.registration.name, 0, sizeof message.registration.name);
    snprintf(message.registration.name, sizeof message.registration.name, "%s", name);
    memcpy(message.registration.host, "host", sizeof "host");
    message.registration.process_id = 1;
    message.registration.tier = (uint8_t)tier;
    message.registration.threads = number < PLAYERS_MAX && (fake->threadless >> number & 1) != 0 ? 0 : 1;
    message.registration.threads_max = fake->feed.threads_max; /* of feeders alone it counts */
    memcpy(message.registration.job.app, terms->app, sizeof terms->app);
    message.registration.job.digest = terms->digest;
    message.registration.job.staleness = terms->staleness;
    message.registration.job.clocks_per_iteration = terms->clocks_per_iteration;
    message.registration.job.local_steps = terms->local_steps > 0 ? terms->local_steps : 1;
    message.registration.job.strategy = terms->strategy;
    message.registration.job.iterations = terms->iterations;
    message.registration.job.seconds = terms->seconds;
    message.registration.job.tolerance = terms->tolerance;
    message.registration.job.tolerance_iterations = terms->tolerance_iterations;
    bool elsewhere = number < PLAYERS_MAX && (fake->elsewhere >> number & 1) != 0;
    struct wire_endpoint endpoints[2] = {{.actor = actor_of_part(node(number), 1), .endpoint = "tcp://host:1"},
                                         {.actor = actor_pulse(node(number)), .endpoint = "tcp://host:2"}};
    memcpy(endpoints[1].endpoint, elsewhere ? "tcp://else:2" : "tcp://host:2", sizeof "tcp://host:2");
    static const struct wire_metric metric = {.name = "loss", .kind = 0, .evaluated = 1};
    message.frame_count = 3;
    message.frames[0] = buffer_copy(endpoints, sizeof endpoints);
    message.frames[1] = buffer_copy(&metric, sizeof metric);
    message.frames[2] = buffer_copy(fake->settings, fake->setting_count * sizeof *fake->settings);
    give(fake, number, &message);
}

/* A node that goes by everything the controller has said. */
static void heartbeat(struct fake *fake, unsigned from, enum node_state state, uint64_t clock) {
    const struct controller *controller = &fake->controller;
    struct message message = {.type = MESSAGE_HEARTBEAT};
    message.heartbeat = (struct message_heartbeat){.state = (uint8_t)state,
                                                   .clock = clock,
                                                   .barrier = controller->barrier.number,
                                                   .version = controller->plan.version,
                                                   .ready = controller->plan.version,
                                                   .committed = fake->clock};
    give(fake, from, &message);
}

/* PROGRESS as `told` says, with the metric `loss`. */
static void progress_told(struct fake *fake, unsigned from, const struct message_progress *told, double loss) {
    struct message message = {.type = MESSAGE_PROGRESS, .frame_count = 1, .progress = *told};
    struct wire_metric_sum sum = {.sum = loss, .weight = 1};
    message.frames[0] = buffer_copy(&sum, sizeof sum);
    give(fake, from, &message);
}

static void progress_timed(struct fake *fake, unsigned from, actor_id origin, uint64_t clock, uint64_t items,
                           double loss, uint64_t clock_us) {
    const struct message_progress told = {
        .origin = origin, .clock = clock, .last = 1, .items = items, .clock_us = clock_us, .bytes_sent = 100 * clock};
    progress_told(fake, from, &told, loss);
}

static void progress_as(struct fake *fake, unsigned from, actor_id origin, uint64_t clock, uint64_t items,
                        double loss) {
    progress_timed(fake, from, origin, clock, items, loss, 0);
}

/* PROGRESS that answers EVALUATE. */
static void evaluation(struct fake *fake, unsigned from, actor_id origin, uint64_t clock, double loss) {
    const struct message_progress told = {.origin = origin, .clock = clock, .evaluation = 1, .last = 1};
    progress_told(fake, from, &told, loss);
}

static void progress(struct fake *fake, unsigned from, uint64_t clock) {
    progress_as(fake, from, node(from), clock, SHARDS / 2 * SHARD_ITEMS, 1);
}

static void loaded(struct fake *fake, unsigned from, uint64_t version, uint64_t items) {
    double totals[WIRE_TOTALS] = {0};
    struct message message = {.type = MESSAGE_LOADED, .frame_count = 1};
    message.loaded = (struct message_loaded){.version = version, .items = items};
    message.frames[0] = buffer_copy(totals, sizeof totals);
    give(fake, from, &message);
}

static void begin(struct fake *fake) {
    join(fake, 0, "", TIER_RELIABLE, &fake->terms);
    join(fake, 1, "two", TIER_TRANSIENT, &fake->terms);
    for (unsigned n = 0; n < 2; n++) {
        assert_int_equal(sent(fake, node(n), MESSAGE_PLAN, NULL), 1);
        heartbeat(fake, n, NODE_LOADED, 0);
        loaded(fake, n, fake->controller.plan.version, SHARDS / 2 * SHARD_ITEMS);
    }
    assert_int_equal(fake->controller.phase, PHASE_TRAIN);
    forget(fake);
}

/* EVICT or GONE from an operator, or from a node itself without names. */
static void ask(struct fake *fake, unsigned from, enum message_type type, const char *name) {
    char names[WIRE_NAME_MAX] = {0};
    snprintf(names, sizeof names, "%s", name != NULL ? name : "");
    struct message message = {.type = type, .frame_count = 1};
    message.evict.request = 17;
    message.frames[0] = buffer_copy(names, name != NULL ? sizeof names : 0);
    give(fake, from, &message);
}

static void expect_outcome(struct fake *fake, unsigned to, int code, const char *text) {
    struct message outcome = {0};
    assert_true(sent(fake, node(to), MESSAGE_OUTCOME, &outcome) > 0);
    assert_int_equal(outcome.outcome.request, 17);
    assert_int_equal(outcome.outcome.code, code);
    assert_non_null(strstr(outcome.outcome.text, text));
    forget(fake);
}

/* Whom an operator expects: names in one string, with spaces between them. */
static void allocate(struct fake *fake, const char *names) {
    struct message message = {.type = MESSAGE_ALLOCATION, .allocation = {.request = 17}, .frame_count = 1};
    struct wire_machine machines[PLAYERS_MAX] = {0};
    size_t count = 0;
    for (int used = 0; sscanf(names, " %31s%n", machines[count].name, &used) == 1; names += used) {
        machines[count++].tier = TIER_TRANSIENT;
    }
    message.frames[0] = buffer_copy(machines, count * sizeof *machines);
    give(fake, OPERATOR, &message);
    expect_outcome(fake, OPERATOR, 0, "");
}

/* How many lines of the report hold `text`. */
static unsigned lines_with(const struct fake *fake, const char *text) {
    unsigned found = 0;
    for (size_t l = fake->controller.report.first; l < fake->controller.report.count; l++) {
        found += strstr(controller_line(&fake->controller, l), text) != NULL ? 1 : 0;
    }
    return found;
}

/* ---- A cluster that plays itself ---- */

static const char *const player_names[PLAYERS_MAX] = {"n0", "n1", "n2", "n3", "n4",  "n5",
                                                      "n6", "n7", "n8", "n9", "n10", "n11"};

static bool flushed(const struct fake *fake, actor_id origin, uint64_t clock) {
    for (unsigned f = 0; f < fake->flushed_count; f++) {
        if (fake->flushed[f].origin == origin && fake->flushed[f].clock == clock) {
            return true;
        }
    }
    return false;
}

static unsigned assignment_count(const struct message *plan) {
    return plan->frame_count == 0 ? 0 : (unsigned)(plan->frames[2]->size / sizeof(struct wire_assignment));
}

static const struct wire_assignment *assignment_of(const struct message *plan, unsigned number) {
    return (const struct wire_assignment *)(const void *)plan->frames[2]->data + number;
}

static uint64_t assignment_items(const struct message *plan, actor_id origin, uint64_t clock) {
    uint64_t items = 0;
    for (unsigned d = 0; d < assignment_count(plan); d++) {
        const struct wire_assignment *assignment = assignment_of(plan, d);
        bool now = assignment->origin == origin && assignment->from_clock <= clock && clock <= assignment->until_clock;
        items += now ? assignment->count * (uint64_t)SHARD_ITEMS : 0;
    }
    return items;
}

/* The partitions advance with what all origins of the newest plan have delivered: every shard once, I6. */
static void advance(struct fake *fake) {
    for (bool whole = assignment_count(&fake->newest) > 0; whole;) {
        uint64_t next = fake->clock + 1;
        uint64_t items = 0;
        for (unsigned d = 0; d < assignment_count(&fake->newest); d++) {
            const struct wire_assignment *assignment = assignment_of(&fake->newest, d);
            if (assignment->from_clock <= next && next <= assignment->until_clock) {
                whole = whole && flushed(fake, assignment->origin, next);
                items += assignment->count * (uint64_t)SHARD_ITEMS;
            }
        }
        assert_true(!whole || items == SHARDS * SHARD_ITEMS);
        fake->clock += whole ? 1 : 0;
    }
}

static void work(struct fake *fake, unsigned number) {
    struct player *player = &fake->players[number];
    uint64_t clock = fake->clock + 1;
    bool may = player->state == NODE_STARTED && !player->fenced && clock <= player->barrier_clock &&
               (player->final == 0 || clock <= player->final) && (fake->feed.alone == 0 || fake->feed.due);
    for (unsigned d = 0; may && d < assignment_count(&player->plan); d++) {
        actor_id origin = assignment_of(&player->plan, d)->origin;
        uint64_t items = assignment_items(&player->plan, origin, clock);
        if (actor_node(origin) != node(number) || items == 0 || flushed(fake, origin, clock)) {
            continue;
        }
        assert_true(fake->flushed_count < 4096 && player->report_count < 512);
        fake->flushed[fake->flushed_count].origin = origin;
        fake->flushed[fake->flushed_count++].clock = clock;
        player->reports[player->report_count].origin = origin;
        player->reports[player->report_count].clock = clock;
        player->reports[player->report_count++].items = items;
        player->clock = clock > player->clock ? clock : player->clock;
    }
    if (player->final != 0 && fake->clock >= player->final && player->state == NODE_STARTED) {
        player->state = NODE_FINISHED;
    }
}

static void say_fenced(struct fake *fake, unsigned number) {
    struct player *player = &fake->players[number];
    struct wire_restore_point restore_points[2 * PARTITIONS];
    unsigned count = 0;
    struct message message = {.type = MESSAGE_FENCED, .frame_count = 1};
    message.fenced = (struct message_fenced){.begun = player->clock, .committed = fake->clock};
    for (uint32_t p = 0; player->plan.frame_count > 0 && p < PARTITIONS; p++) {
        const struct wire_placement *place = (const void *)player->plan.frames[1]->data;
        actor_id self = actor_of_part(node(number), 1);
        if (place[p].server == self || place[p].backup == self) {
            restore_points[count++] = (struct wire_restore_point){.server = self, .partition = p, .clock = fake->clock};
        } else if (player->caches) {
            restore_points[count++] = (struct wire_restore_point){
                .server = self, .partition = p, .cache = 1, .clock = fake->clock - player->behind};
        }
    }
    message.frames[0] = buffer_copy(restore_points, count * sizeof restore_points[0]);
    give_as(fake, number, player->epoch, &message);
}

static unsigned working_feeders(const struct fake *fake) {
    unsigned count = 0;
    for (unsigned n = 0; n < PLAYERS_MAX; n++) {
        const struct player *player = &fake->players[n];
        bool works = player->there && !player->stopped && player->plan.frame_count > 0;
        count += works && player->tier == TIER_FEEDER ? 1 : 0;
    }
    return count;
}

/* PROGRESS of a clock with what the player has measured; clocks without work take a hundredth of others. */
static void progress_measured(struct fake *fake, unsigned number, uint64_t clock, uint64_t items) {
    const struct fake_times *times = &fake->times;
    const struct strategy_clocks clocks = job_clocks(&fake->controller.job.terms);
    enum strategy strategy = plan_strategy_at(&fake->controller.plan.view, clock);
    unsigned parts = strategy_parts(strategy, &clocks, clock);
    uint64_t evaluate_us = clock % fake->terms.clocks_per_iteration == 0 ? times->evaluate_us : 0;
    uint64_t exchange_us = times->clock_us > times->compute_us[0] ? times->clock_us - times->compute_us[0] : 0;
    const struct message_progress told = {
        .origin = node(number),
        .clock = clock,
        .last = 1,
        .items = items,
        .clock_us = evaluate_us + (parts > 0 ? exchange_us + parts * times->compute_us[0] : times->clock_us / 100),
        .compute_us = parts * times->compute_us[number],
        .evaluate_us = evaluate_us};
    progress_told(fake, number, &told, 1.0 / (double)clock);
}

/* With which a feeder makes batches. */
static unsigned feed_threads(const struct player *player) {
    return player->tier != TIER_FEEDER ? 0 : player->feed_threads > 0 ? player->feed_threads : 1;
}

/* Of all feeders that work. */
static unsigned working_threads(const struct fake *fake) {
    unsigned count = 0;
    for (unsigned n = 0; n < PLAYERS_MAX; n++) {
        const struct player *player = &fake->players[n];
        bool works = player->there && !player->stopped && player->plan.frame_count > 0;
        count += works ? feed_threads(player) : 0;
    }
    return count;
}

static unsigned trainers(const struct fake *fake) {
    unsigned count = 0;
    for (unsigned n = 0; n < PLAYERS_MAX; n++) {
        count += fake->players[n].there && fake->players[n].tier != TIER_FEEDER ? 1 : 0;
    }
    return count;
}

/* How many nodes' work is done in a round: that of a trainer, and its part of the feeders'. */
static double feed_pace(const struct fake *fake) {
    double pace = 1 + (double)working_threads(fake) / trainers(fake);
    double most = fake->feed.alone / fake->feed.rest;
    return pace < most ? pace : most;
}

/* PROGRESS of a clock with stages. While the trainer does not do the rest, it makes what feeders don't. */
static void progress_fed(struct fake *fake, unsigned from, actor_id origin, uint64_t clock, uint64_t items) {
    double rounds = fake->feed.alone / feed_pace(fake);
    double starved = rounds - fake->feed.rest;
    double fed = working_feeders(fake) > 0 ? 1 - starved / (fake->feed.alone - fake->feed.rest) : 0;
    const struct message_progress told = {.origin = origin,
                                          .clock = clock,
                                          .last = 1,
                                          .items = items,
                                          .items_fed = (uint64_t)(fed * (double)items),
                                          .stages_us = (uint64_t)(starved * ROUND_US)};
    progress_told(fake, from, &told, 1.0 / (double)clock);
}

static void player_say(struct fake *fake, unsigned number) {
    struct player *player = &fake->players[number];
    if (!player->welcomed) {
        join(fake, number, player_names[number], player->tier, &fake->terms);
        return;
    }
    if (player->state < NODE_STARTED && player->plan.frame_count > 0) {
        loaded(fake, number, player->plan.plan.version,
               assignment_items(&player->plan, node(number), player->plan.plan.restore + 1));
    }
    for (unsigned r = 0; r < player->report_count; r++) {
        if (player->reports[r].clock > player->lost_until && fake->feed.alone > 0) {
            progress_fed(fake, number, player->reports[r].origin, player->reports[r].clock, player->reports[r].items);
        } else if (player->reports[r].clock > player->lost_until && fake->times.clock_us > 0) {
            progress_measured(fake, number, player->reports[r].clock, player->reports[r].items);
        } else if (player->reports[r].clock > player->lost_until) {
            progress_as(fake, number, player->reports[r].origin, player->reports[r].clock, player->reports[r].items,
                        1.0 / (double)player->reports[r].clock);
        }
    }
    if (player->fenced) {
        say_fenced(fake, number);
    }
    struct message message = {.type = MESSAGE_HEARTBEAT};
    message.heartbeat =
        (struct message_heartbeat){.state = (uint8_t)player->state,
                                   .clock = player->clock,
                                   .barrier = player->barrier,
                                   .version = player->plan.plan.version,
                                   .ready = player->plan.plan.version,
                                   .committed = fake->clock > fake->times.lag ? fake->clock - fake->times.lag : 0,
                                   .silent = player->accuses,
                                   .feed_us = player->feed_us,
                                   .feed_threads = feed_threads(player)};
    give_as(fake, number, player->epoch, &message);
}

static void player_take_plan(struct fake *fake, struct player *player, const struct message *message) {
    if (message->epoch < player->epoch || message->plan.version <= player->plan.plan.version) {
        return;
    }
    bool late = player->tier == TIER_FEEDER; /* a feeder may take the plan when clocks have been done since */
    if (player->plan.frame_count > 0 && player->plan.epoch < message->epoch && !late) {
        assert_int_equal(message->plan.restore, fake->clock);
    }
    message_close(&player->plan);
    player->plan = message_share(message);
    player->epoch = message->epoch;
    player->fenced = false;
    player->plans++;
    player->state = player->state == NODE_REGISTERING ? NODE_LOADED : player->state;
    if (message->plan.version > fake->newest.plan.version) {
        message_close(&fake->newest);
        fake->newest = message_share(message);
    }
}

static void player_take_ack(struct player *player, const struct message *message) {
    const struct message_heartbeat_ack *ack = &message->heartbeat_ack;
    player->final = ack->final;
    player->feed_threads = ack->feed_threads;
    if (ack->barrier > player->barrier && player->deaf != MESSAGE_HEARTBEAT_ACK) {
        player->barrier = ack->barrier;
        player->barrier_clock = ack->barrier_clock;
    }
    unsigned kept = 0;
    for (unsigned r = 0; r < player->report_count; r++) {
        actor_id origin = player->reports[r].origin;
        bool present = message->epoch == player->plan.epoch && origin == origin_catch_up(origin, message->epoch);
        if (player->reports[r].clock > (present ? ack->catch_up : ack->progress)) {
            player->reports[kept++] = player->reports[r];
        }
    }
    player->report_count = kept;
}

static void player_end(struct fake *fake, unsigned number) {
    struct message leave = {.type = MESSAGE_LEAVE};
    fake->players[number].there = false;
    give(fake, number, &leave);
}

static void say_written(struct fake *fake, const struct write *write, enum written_state state) {
    struct message written = {.type = MESSAGE_WRITTEN};
    written.written.number = write->checkpoint.number;
    written.written.clock = write->checkpoint.clock;
    written.written.partition = write->partition;
    written.written.bytes = 100;
    written.written.state = (uint8_t)state;
    snprintf(written.written.text, sizeof written.written.text, "the disk is full");
    give(fake, write->player, &written);
}

/* What a server does with a CHECKPOINT. */
static void player_write(struct fake *fake, unsigned number, const struct message *message) {
    for (size_t at = 0; at < message->frames[0]->size; at += sizeof(uint32_t)) {
        struct write new = {.player = number, .checkpoint = message->checkpoint, .rounds = fake->checkpoints.rounds};
        struct write *write = NULL;
        memcpy(&new.partition, message->frames[0]->data + at, sizeof(uint32_t));
        for (unsigned w = 0; w < fake->checkpoints.write_count; w++) {
            bool same = fake->checkpoints.writes[w].player == number &&
                        fake->checkpoints.writes[w].partition == new.partition &&
                        fake->checkpoints.writes[w].checkpoint.number == new.checkpoint.number;
            write = same ? &fake->checkpoints.writes[w] : write;
        }
        if (write == NULL && fake->clock > new.checkpoint.clock) {
            fake->checkpoints.passed++;
            say_written(fake, &new, WRITTEN_REFUSED);
        } else if (write == NULL) {
            assert_true(fake->checkpoints.write_count < 512);
            fake->checkpoints.writes[fake->checkpoints.write_count++] = new;
            say_written(fake, &new, WRITTEN_PROMISED);
        } else {
            say_written(fake, write, write->over ? fake->checkpoints.state : WRITTEN_PROMISED);
        }
    }
}

/* Writes what is to be written. A folder that is gone is no place to write to. */
static void write_files(struct fake *fake) {
    for (unsigned w = 0; w < fake->checkpoints.write_count; w++) {
        struct write *write = &fake->checkpoints.writes[w];
        if (write->over || !fake->players[write->player].there || fake->clock < write->checkpoint.clock ||
            write->rounds-- > 0) {
            continue;
        }
        char path[WIRE_PATH_MAX + 32] = {0};
        snprintf(path, sizeof path, "%s/partition-%u", write->checkpoint.path, write->partition);
        FILE *file = fopen(path, "wb");
        write->over = true;
        if (file == NULL) {
            say_written(fake, write, WRITTEN_FAILED);
            continue;
        }
        assert_int_equal(fwrite(path, 1, 100, file), 100);
        assert_int_equal(fclose(file), 0);
        fake->checkpoints.written++;
        say_written(fake, write, fake->checkpoints.state);
    }
}

/* The player drops the checkpoint files that it had promised to write: their epoch is over. */
static void forget_writes(struct fake *fake, unsigned number) {
    for (unsigned w = 0; w < fake->checkpoints.write_count; w++) {
        fake->checkpoints.writes[w].over =
            fake->checkpoints.writes[w].over || fake->checkpoints.writes[w].player == number;
    }
}

static void player_receive(struct fake *fake, unsigned number, const struct message *message) {
    struct player *player = &fake->players[number];
    struct message saved = {.type = MESSAGE_SAVED, .saved = {.attempt = message->save.attempt}};
    if (player->deaf == message->type && message->type != MESSAGE_HEARTBEAT_ACK) {
        return;
    }
    switch ((unsigned)message->type) {
    case MESSAGE_WELCOME:
        player->welcomed = true;
        break;
    case MESSAGE_PLAN:
        player_take_plan(fake, player, message);
        break;
    case MESSAGE_START:
        player->state = player->state < NODE_STARTED ? NODE_STARTED : player->state;
        break;
    case MESSAGE_HEARTBEAT_ACK:
        player_take_ack(player, message);
        break;
    case MESSAGE_FENCE:
        if (message->epoch > player->epoch) {
            player->fences++;
            player->epoch = message->epoch;
            player->fenced = true;
            forget_writes(fake, number);
            player->state = player->state == NODE_FINISHED ? NODE_STARTED : player->state;
        }
        break;
    case MESSAGE_SAVE:
        assert_int_equal(fake->clock, player->final);
        if (fake->saves.fail > 0) {
            fake->saves.fail--;
            saved.saved.code = fake->saves.code;
            strcpy(saved.saved.text, "Too many open files");
        }
        fake->saves.savers[fake->saves.saver_count++ % SAVERS_MAX] = number;
        give_as(fake, number, player->epoch, &saved);
        break;
    case MESSAGE_CHECKPOINT:
        player_write(fake, number, message);
        break;
    case MESSAGE_EVALUATE:
        evaluation(fake, number, message->evaluate.origin, message->evaluate.clock, 0.5);
        break;
    case MESSAGE_REJOIN:
        player->rejoin = true;
        player->there = false;
        break;
    case MESSAGE_DONE:
        player->done = true;
        player_end(fake, number);
        break;
    case MESSAGE_ABORT:
        player->aborted = message->text.code;
        snprintf(player->text, sizeof player->text, "%s", message->text.text);
        player_end(fake, number);
        break;
    default:
        break;
    }
}

/* Metrics stand beside the report's own keys, so no metric may have the name of such a key: report_key knows them
 * all. */
static void check_keys(const struct fake *fake, const char *line) {
    json_t *object = json_loads(line, 0, NULL);
    const char *key;
    json_t *value;
    const char *type = json_string_value(json_object_get(object, "type"));
    bool has_metrics = strcmp(type, "iteration") == 0 || strcmp(type, "clock") == 0 || strcmp(type, "summary") == 0;
    json_object_foreach(object, key, value) {
        bool known = !has_metrics || report_key(key);
        for (unsigned i = 0; i < fake->controller.job.metric_count; i++) {
            known = known || strcmp(key, fake->controller.job.metrics[i].name) == 0;
        }
        if (!known) {
            fail_msg("report_key does not know %s of %s", key, line);
        }
    }
    json_decref(object);
}

/* What an observer read stays as it is, and nothing is left out. */
static void observer_receive(struct fake *fake, const struct message *message) {
    const struct buffer *text = message->frames[0];
    uint64_t number = message->report.number;
    if (number == fake->observed.read) {
        assert_true(fake->observed.read < LINES_MAX);
        fake->observed.lines[fake->observed.read] = calloc(1, text->size + 1);
        assert_non_null(fake->observed.lines[fake->observed.read]);
        memcpy(fake->observed.lines[fake->observed.read], text->data, text->size);
        check_keys(fake, fake->observed.lines[fake->observed.read++]);
    } else if (number < fake->observed.read) {
        assert_int_equal(strlen(fake->observed.lines[number]), text->size);
        assert_memory_equal(fake->observed.lines[number], text->data, text->size);
    }
}

static void deliver(struct fake *fake) {
    for (unsigned m = 0; m < fake->count; m++) { /* more may be sent meanwhile */
        struct message message = message_share(&fake->sent[m].message);
        unsigned to = (unsigned)(fake->sent[m].to >> ACTOR_PART_BITS) - 1;
        if (to < PLAYERS_MAX && fake->players[to].there && !fake->players[to].stopped) {
            player_receive(fake, to, &message);
        } else if (to == OBSERVER && message.type == MESSAGE_REPORT) {
            observer_receive(fake, &message);
        } else if (to == OPERATOR && message.type == MESSAGE_OUTCOME) {
            fake->observed.outcome = message.outcome;
        }
        message_close(&message);
    }
    forget(fake);
}

static void enter(struct fake *fake, unsigned number, enum node_tier tier) {
    fake->players[number] = (struct player){.tier = tier, .there = true};
}

/* A round of feeders, and of the launcher. */
static void feed_round(struct fake *fake) {
    struct fake_feed *feed = &fake->feed;
    for (; feed->lines < fake->observed.read; feed->lines++) {
        bool asks = strstr(fake->observed.lines[feed->lines], "\"event\":\"add-feeder\"") != NULL;
        feed->pending = asks && feed->launches ? 1 + feed->round_trips : feed->pending;
    }
    if (feed->pending > 0 && --feed->pending == 0) {
        assert_true(feed->launched < PLAYERS_MAX);
        enter(fake, feed->launched++, TIER_FEEDER);
    }
    feed->due = feed->done >= feed->alone;
    feed->done += feed_pace(fake) - (feed->due ? feed->alone : 0);
    double most = trainers(fake) * (feed->alone / feed->rest - 1); /* threads that can be busy all the time */
    double busy = working_threads(fake) > most ? most / working_threads(fake) : 1;
    for (unsigned n = 0; n < PLAYERS_MAX; n++) {
        struct player *player = &fake->players[n];
        bool works = player->tier == TIER_FEEDER && player->plan.frame_count > 0;
        player->feed_us += works ? (uint64_t)(busy * ROUND_US) : 0;
    }
}

static void play(struct fake *fake) {
    if (fake->feed.alone > 0) {
        feed_round(fake);
    }
    tick(fake, ROUND_US);
    deliver(fake);
    write_files(fake);
    deliver(fake);
    for (unsigned c = 0; c + 1 < fake->speed; c++) {
        for (unsigned n = 0; n < PLAYERS_MAX; n++) {
            if (fake->players[n].there && !fake->players[n].stopped) {
                work(fake, n);
            }
        }
        advance(fake);
    }
    for (unsigned n = 0; n < PLAYERS_MAX; n++) {
        if (fake->players[n].there && !fake->players[n].stopped) {
            work(fake, n);
        }
        if (fake->players[n].there && !fake->players[n].stopped && fake->end.ended == 0) {
            player_say(fake, n);
            deliver(fake);
        }
    }
    struct message observe = {.type = MESSAGE_OBSERVE, .observe = {.from = fake->observed.read}};
    give(fake, OBSERVER, &observe);
    deliver(fake);
    advance(fake);
}

/* Plays until partitions have reached `clock`. */
static void play_to(struct fake *fake, uint64_t clock) {
    for (unsigned r = 0; fake->clock < clock; r++) {
        assert_true(r < ROUNDS_MAX && fake->end.ended == 0);
        play(fake);
    }
}

static void play_rounds(struct fake *fake, unsigned rounds) {
    for (unsigned r = 0; r < rounds && fake->end.ended == 0; r++) {
        play(fake);
    }
}

/* Plays until no recovery is under way. */
static void play_recovery(struct fake *fake) {
    for (unsigned r = 0; fake->controller.change.state == CHANGE_RECOVER; r++) {
        assert_true(r < ROUNDS_MAX);
        play(fake);
    }
}

static void play_to_end(struct fake *fake) {
    for (unsigned r = 0; fake->end.ended == 0; r++) {
        assert_true(r < ROUNDS_MAX);
        play(fake);
    }
}

/* A cluster in training. */
static void cluster_open(struct fake *fake, unsigned reliable, unsigned transient) {
    fake->options.reliable = reliable;
    fake->options.transient = transient;
    for (unsigned n = 0; n < reliable + transient; n++) {
        enter(fake, n, n < reliable ? TIER_RELIABLE : TIER_TRANSIENT);
    }
    fake_start(fake);
}

static struct fake *cluster_new(enum stage stage, uint64_t iterations) {
    struct fake *fake = fake_new((struct job_terms){.clocks_per_iteration = 2, .iterations = iterations});
    fake->options.policy.stage = stage;
    return fake;
}

static struct fake *stored_cluster(enum stage stage, uint64_t iterations) {
    struct fake *fake = cluster_new(stage, iterations);
    fake->options.store = &fake->store.store;
    return fake;
}

static double line_number(const char *line, const char *key) {
    json_t *object = json_loads(line, 0, NULL);
    assert_non_null(object);
    double value = json_number_value(json_object_get(object, key));
    json_decref(object);
    return value;
}

/* Every iteration has one line, with all its items; the summary is the last line and counts them. */
static void expect_report(const struct fake *fake, uint64_t iterations, bool exact) {
    double next = 1;
    for (uint64_t l = 0; l < fake->observed.read; l++) {
        if (strstr(fake->observed.lines[l], "\"type\":\"iteration\"") != NULL) {
            assert_true(line_number(fake->observed.lines[l], "iteration") == next);
            assert_true(!exact || line_number(fake->observed.lines[l], "items") == 2.0 * SHARDS * SHARD_ITEMS);
            next++;
        }
    }
    assert_true(next == (double)iterations + 1);
    assert_true(fake->observed.read > 0);
    const char *summary = fake->observed.lines[fake->observed.read - 1];
    assert_non_null(strstr(summary, "\"type\":\"summary\""));
    assert_true(line_number(summary, "iterations") == (double)iterations);
    assert_true(!exact || line_number(summary, "items_processed") == (double)iterations * 2.0 * SHARDS * SHARD_ITEMS);
}

static void expect_good_end(struct fake *fake, uint64_t iterations) {
    play_to_end(fake);
    assert_int_equal(fake->end.code, 0);
    assert_int_equal(fake->clock, 2 * iterations);
    expect_report(fake, iterations, true);
}

/* ---- One job, message by message ---- */

/* The first reliable node tries twice, then the next one. */
static void test_a_model_that_is_not_saved_is_saved_again(void **state) {
    (void)state;
    static const unsigned savers[] = {0, 0, 1, 1};
    for (unsigned failures = 0; failures <= 4; failures++) {
        struct fake *fake = stored_cluster(STAGE_1, 3);
        fake->saves.fail = failures;
        fake->saves.code = AML_EFAIL;
        cluster_open(fake, 2, 2);
        play_to_end(fake);
        unsigned attempts = failures < 4 ? failures + 1 : 4;
        assert_int_equal(fake->saves.saver_count, attempts);
        assert_memory_equal(fake->saves.savers, savers, attempts * sizeof *savers);
        assert_int_equal(fake->end.code, failures < 4 ? 0 : AML_EFAIL);
        assert_string_equal(fake->end.text, failures < 4 ? "" : "Too many open files");
        assert_int_equal(lines_with(fake, "\"event\":\"save-failed\""), failures < 4 ? failures : 3);
        fake_close(fake);
    }
}

/* A node that comes meanwhile is not in the plan: no server would let it read the tables. */
static void test_a_node_that_comes_at_the_end_does_not_save(void **state) {
    (void)state;
    static const unsigned savers[] = {0, 0, 0};
    struct fake *fake = stored_cluster(STAGE_1, 3);
    fake->saves.fail = 2;
    fake->saves.code = AML_EFAIL;
    cluster_open(fake, 1, 2);
    while (fake->controller.phase != PHASE_SAVE) {
        play(fake);
    }
    enter(fake, 3, TIER_RELIABLE);
    play_to_end(fake);
    assert_int_equal(fake->end.code, 0);
    assert_int_equal(fake->saves.saver_count, 3);
    assert_memory_equal(fake->saves.savers, savers, sizeof savers);
    fake_close(fake);
}

/* What the app was given wrong stays wrong. */
static void test_a_refused_model_is_not_saved_again(void **state) {
    (void)state;
    struct fake *fake = stored_cluster(STAGE_1, 3);
    fake->saves.fail = 1;
    fake->saves.code = AML_EINPUT;
    cluster_open(fake, 2, 2);
    play_to_end(fake);
    assert_int_equal(fake->end.code, AML_EINPUT);
    assert_int_equal(fake->saves.saver_count, 1);
    fake_close(fake);
}

static void test_a_job_runs_to_its_end(void **state) {
    (void)state;
    struct fake *fake = fake_open((struct job_terms){.clocks_per_iteration = 2, .iterations = 1});
    begin(fake);
    for (uint64_t c = 1; c <= 2; c++) {
        progress(fake, 0, c);
        progress(fake, 0, c); /* a repeat counts once */
        progress(fake, 1, c);
    }
    assert_int_equal(fake->controller.progress.completed, 2);
    assert_int_equal(sent(fake, node(0), MESSAGE_SAVE, NULL), 0);
    heartbeat(fake, 0, NODE_FINISHED, 2);
    assert_int_equal(sent(fake, node(0), MESSAGE_SAVE, NULL), 0); /* node 1 may still have to send flushes again */
    heartbeat(fake, 1, NODE_FINISHED, 2);
    assert_int_equal(sent(fake, node(0), MESSAGE_SAVE, NULL), 1);
    struct message saved = {.type = MESSAGE_SAVED, .saved = {.attempt = 1}};
    give(fake, 0, &saved);
    assert_int_equal(sent(fake, node(1), MESSAGE_DONE, NULL), 1);
    assert_int_equal(fake->end.ended, 0);
    tick(fake, (TIMEOUT_MS - 1) * UINT64_C(1000)); /* DONE was lost: nobody is left alone before the timeout */
    assert_int_equal(fake->end.ended, 0);
    heartbeat(fake, 1, NODE_FINISHED, 2);
    assert_int_equal(sent(fake, node(1), MESSAGE_DONE, NULL), 2);
    for (unsigned n = 0; n < 2; n++) {
        struct message leave = {.type = MESSAGE_LEAVE};
        give(fake, n, &leave);
    }
    assert_int_equal(fake->end.ended, 1);
    assert_int_equal(fake->end.code, 0);
    assert_int_equal(fake->controller.progress.items_processed, 2 * SHARDS * SHARD_ITEMS);
    const char *summary = controller_line(&fake->controller, fake->controller.report.count - 1);
    assert_non_null(strstr(summary, "\"ok\":true"));
    assert_true(line_number(summary, "items_processed") == 2 * SHARDS * SHARD_ITEMS);
    fake_close(fake);
}

static void expect_refused(struct fake *fake, unsigned number, const char *why) {
    struct message message;
    assert_int_equal(sent(fake, node(number), MESSAGE_ABORT, &message), 1);
    assert_non_null(strstr(message.text.text, why));
    forget(fake);
}

static void test_who_may_join(void **state) {
    (void)state;
    struct fake *fake = fake_open((struct job_terms){.clocks_per_iteration = 1, .iterations = 1});
    struct job_terms other = fake->terms;
    other.clocks_per_iteration = 0;
    join(fake, 2, "", TIER_RELIABLE, &other);
    expect_refused(fake, 2, "0 clocks");
    other = fake->terms;
    other.clocks_per_iteration = 1 << 20;
    other.iterations = WIRE_CLOCK_MAX;
    join(fake, 2, "", TIER_RELIABLE, &other);
    expect_refused(fake, 2, "more than");
    join(fake, 0, "one", TIER_RELIABLE, &fake->terms);
    join(fake, 0, "one", TIER_RELIABLE, &fake->terms); /* a repeat is welcome */
    assert_int_equal(sent(fake, node(0), MESSAGE_WELCOME, NULL), 2);
    assert_int_equal(fake->controller.member_count, 1);
    forget(fake);
    join(fake, 2, "one", TIER_TRANSIENT, &fake->terms);
    expect_refused(fake, 2, "called one");
    other = fake->terms;
    memcpy(other.app, "lda", sizeof "lda");
    join(fake, 2, "", TIER_TRANSIENT, &other);
    expect_refused(fake, 2, "not of lda");
    other = fake->terms;
    other.staleness = 1;
    join(fake, 2, "", TIER_TRANSIENT, &other);
    expect_refused(fake, 2, "other options");
    join(fake, 3, "", TIER_RELIABLE, &fake->terms); /* more than were expected */
    assert_int_equal(sent(fake, node(3), MESSAGE_WELCOME, NULL), 1);
    assert_int_equal(fake->controller.phase, PHASE_GATHER);
    join(fake, 1, "", TIER_TRANSIENT, &fake->terms); /* whatever lies between the fields of its message */
    assert_int_equal(sent(fake, node(1), MESSAGE_WELCOME, NULL), 1);
    assert_int_equal(fake->controller.phase, PHASE_LOAD);
    forget(fake);
    join(fake, 4, "", TIER_TRANSIENT, &fake->terms);
    assert_int_equal(sent(fake, node(4), MESSAGE_WELCOME, NULL), 1);
    assert_int_equal(fake->controller.member_count, 4);
    fake_close(fake);
}

/* The launcher calls its nodes node-1 and so on. Who comes before them without a name takes none of theirs. */
static void test_a_guest_takes_no_name_of_the_launcher(void **state) {
    (void)state;
    struct fake *fake = fake_new((struct job_terms){.clocks_per_iteration = 1, .iterations = 1});
    fake->options.observed = true;
    fake_start(fake);
    join(fake, 0, "", TIER_TRANSIENT, &fake->terms);
    assert_string_equal(fake->controller.members[0].name, "guest-1");
    join(fake, 1, "node-1", TIER_RELIABLE, &fake->terms);
    join(fake, 2, "", TIER_TRANSIENT, &fake->terms);
    assert_int_equal(fake->controller.member_count, 3);
    assert_string_equal(fake->controller.members[1].name, "node-1");
    assert_string_equal(fake->controller.members[2].name, "guest-3");
    fake_close(fake);
}

/* The nodes of a job that is observed were all started with the same command line: when its first one is refused, the
 * job ends, and the reason is given once for all of them. */
static void test_an_observed_job_ends_when_its_first_node_is_refused(void **state) {
    (void)state;
    struct fake *fake = fake_new((struct job_terms){.clocks_per_iteration = 0, .iterations = 1});
    fake->options.observed = true;
    fake_start(fake);
    for (unsigned n = 0; n < 2; n++) {
        join(fake, n, "", TIER_RELIABLE, &fake->terms);
        struct message message;
        assert_int_equal(sent(fake, node(n), MESSAGE_WELCOME, NULL), 1); /* the job's end is not its own to tell */
        assert_int_equal(sent(fake, node(n), MESSAGE_ABORT, &message), 1);
        assert_non_null(strstr(message.text.text, "0 clocks"));
        forget(fake);
    }
    assert_int_equal(fake->controller.phase, PHASE_LEAVE);
    assert_int_equal(fake->controller.end.code, AML_EINPUT);
    assert_non_null(strstr(fake->controller.end.text, "0 clocks"));
    fake_close(fake);
}

/* All nodes go again before there is a plan: the next ones may be of another job. */
static void test_terms_go_with_the_last_node(void **state) {
    (void)state;
    struct fake *fake = fake_open((struct job_terms){.staleness = 64, .clocks_per_iteration = 1, .iterations = 1});
    join(fake, 3, "two", TIER_TRANSIENT, &fake->terms);
    ask(fake, OPERATOR, MESSAGE_GONE, "two");
    assert_int_equal(fake->controller.member_count, 0);
    fake->terms = (struct job_terms){.app = "app", .clocks_per_iteration = 3, .iterations = 7};
    begin(fake);
    assert_int_equal(fake->controller.job.terms.clocks_per_iteration, 3);
    assert_int_equal(fake->controller.job.final, 21);
    fake_close(fake);
}

/* A repeated REGISTER must not bring back a node that was removed: its process may be gone. If the process runs, it
 * registers as a new node. */
static void test_a_removed_node_does_not_register_again(void **state) {
    (void)state;
    struct fake *fake = fake_open((struct job_terms){.clocks_per_iteration = 1, .iterations = 1000});
    begin(fake);
    join(fake, 3, "three", TIER_TRANSIENT, &fake->terms);
    assert_int_equal(fake->controller.member_count, 3);
    ask(fake, OPERATOR, MESSAGE_GONE, "three");
    assert_int_equal(fake->controller.member_count, 2);
    forget(fake);
    join(fake, 3, "three", TIER_TRANSIENT, &fake->terms);
    assert_int_equal(fake->controller.member_count, 2);
    assert_int_equal(sent(fake, node(3), MESSAGE_REJOIN, NULL), 1);
    assert_int_equal(sent(fake, node(3), MESSAGE_WELCOME, NULL), 0);
    join(fake, 4, "three", TIER_TRANSIENT, &fake->terms);
    assert_int_equal(fake->controller.member_count, 3);
    fake_close(fake);
}

/* A limit of iterations and another criterion: the hold takes the place of the final clock known before. */
static void test_the_hold_names_a_clock_nobody_has_passed(void **state) {
    (void)state;
    struct fake *fake = fake_open((struct job_terms){
        .staleness = 3, .clocks_per_iteration = 2, .iterations = 100, .tolerance = 0.5, .tolerance_iterations = 1});
    begin(fake);
    assert_int_equal(fake->controller.job.final, 200);
    for (uint64_t c = 1; c <= 4; c++) {
        progress(fake, 0, c);
        progress(fake, 1, c);
    }
    struct message ack;
    assert_true(sent(fake, node(1), MESSAGE_HEARTBEAT_ACK, &ack) > 0);
    uint64_t number = ack.heartbeat_ack.barrier;
    assert_int_equal(ack.heartbeat_ack.barrier_clock, 6); /* clock 4 is told of, not as the last one */
    assert_int_equal(ack.heartbeat_ack.final, 200);
    heartbeat(fake, 0, NODE_STARTED, 4);
    assert_int_equal(fake->controller.job.final, 200); /* not before everyone goes by it */
    heartbeat(fake, 1, NODE_STARTED, 7);               /* it had begun 7 before the hold came */
    assert_int_equal(fake->controller.job.final, 200);
    assert_int_equal(fake->controller.barrier.number, number + 1);
    assert_int_equal(fake->controller.barrier.clock, 8);
    struct message late = {.type = MESSAGE_HEARTBEAT,
                           .heartbeat = {.state = NODE_STARTED, .clock = 7, .barrier = number}};
    give(fake, 1, &late); /* goes by the old one only */
    heartbeat(fake, 0, NODE_STARTED, 5);
    assert_int_equal(fake->controller.job.final, 200);
    for (uint64_t c = 5; c <= 8; c++) { /* the last PROGRESS comes before the last word on the hold */
        progress(fake, 0, c);
        progress(fake, 1, c);
    }
    assert_int_equal(fake->controller.progress.completed, 7); /* clock 8 may yet be evaluated once more */
    heartbeat(fake, 1, NODE_STARTED, 8);
    assert_int_equal(fake->controller.job.final, 8);
    assert_int_equal(fake->controller.progress.completed, 8);
    assert_int_equal(fake->controller.barrier.clock, WIRE_CLOCK_NEVER);
    heartbeat(fake, 0, NODE_FINISHED, 8);
    heartbeat(fake, 1, NODE_FINISHED, 8);
    assert_int_equal(sent(fake, node(0), MESSAGE_SAVE, NULL), 1);
    fake_close(fake);
}

/* PROGRESS may come long before that of an origin whose way to the controller is slow. */
static void test_progress_far_ahead_is_kept(void **state) {
    (void)state;
    struct fake *fake = fake_open((struct job_terms){.clocks_per_iteration = 1, .iterations = 10000});
    enum { MOST = 2 + WIRE_WINDOW_MAX + CONTROLLER_AHEAD_MAX };
    begin(fake);
    for (uint64_t c = 1; c <= MOST + 100; c++) { /* but not without limit */
        progress(fake, 0, c);
    }
    struct message ack;
    heartbeat(fake, 0, NODE_STARTED, MOST + 100);
    assert_true(sent(fake, node(0), MESSAGE_HEARTBEAT_ACK, &ack) > 0);
    assert_int_equal(ack.heartbeat_ack.progress, 0); /* others are to come: it stays with its node */
    for (uint64_t c = 1; c <= MOST + 100; c++) {
        progress(fake, 1, c);
        forget(fake);
    }
    assert_int_equal(fake->controller.progress.completed, MOST);
    assert_int_equal(fake->controller.progress.items_processed, MOST * SHARDS * SHARD_ITEMS);
    progress(fake, 0, MOST + 1);
    assert_true(sent(fake, node(0), MESSAGE_HEARTBEAT_ACK, &ack) > 0);
    assert_int_equal(ack.heartbeat_ack.progress, MOST + 1);
    fake_close(fake);
}

/* The member has failed for what it sent, once; the job goes on. */
static void expect_impossible(struct fake *fake, const char *text) {
    assert_int_equal(lines_with(fake, text), 1);
    assert_int_equal(lines_with(fake, "\"event\":\"failure\""), 1);
    assert_int_equal(fake->controller.member_count, 1);
    assert_int_equal(fake->controller.change.state, CHANGE_RECOVER);
    assert_true(fake->controller.phase < PHASE_LEAVE);
}

static void test_progress_has_an_origin(void **state) {
    (void)state;
    struct fake *fake = fake_open((struct job_terms){.clocks_per_iteration = 1, .iterations = 10});
    begin(fake);
    progress(fake, 1, 1);
    progress_as(fake, 1, node(0), 1, 10, 1); /* another node's */
    assert_int_equal(fake->controller.progress.completed, 0);
    expect_impossible(fake, "two (host, pid 1) sent what can't be: PROGRESS of node-1");
    fake_close(fake);
}

/* What a node far behind gets for one OBSERVE: lines in a row from the oldest on, each with its number. */
static uint64_t observe(struct fake *fake, uint64_t from) {
    struct message message = {.type = MESSAGE_OBSERVE, .observe = {.from = from}};
    uint64_t next = from;
    forget(fake);
    give(fake, OBSERVER, &message);
    for (unsigned m = 0; m < fake->count; m++) {
        const struct message *report = &fake->sent[m].message;
        const char *line = controller_line(&fake->controller, (size_t)report->report.number);
        assert_int_equal(report->type, MESSAGE_REPORT);
        assert_int_equal(report->report.oldest, fake->controller.report.first);
        if (m == 0 && from < report->report.oldest) {
            next = report->report.oldest;
        }
        assert_int_equal(report->report.number, next++);
        assert_int_equal(report->frames[0]->size, strlen(line));
        assert_memory_equal(report->frames[0]->data, line, strlen(line));
    }
    assert_true(fake->count <= CONTROLLER_BURST_MAX);
    return next;
}

static unsigned lines_for_observer(struct fake *fake, unsigned number) {
    struct message message = {.type = MESSAGE_OBSERVE};
    forget(fake);
    give(fake, number, &message);
    return sent(fake, node(number), MESSAGE_REPORT, NULL);
}

/* One observer too many is told so, until another has gone. */
static void test_observers_have_a_limit(void **state) {
    (void)state;
    enum { FIRST = 100, OTHER = FIRST + CONTROLLER_OBSERVERS_MAX };
    struct fake *fake = fake_open((struct job_terms){.clocks_per_iteration = 1, .iterations = 10});
    begin(fake);
    for (unsigned o = FIRST; o < OTHER; o++) {
        assert_true(lines_for_observer(fake, o) > 0);
    }
    assert_int_equal(lines_for_observer(fake, OTHER), 0);
    struct message refusal;
    assert_int_equal(sent(fake, node(OTHER), MESSAGE_ABORT, &refusal), 1);
    assert_non_null(strstr(refusal.text.text, "64 observers read this job's report already"));
    fake->now_us += CONTROLLER_OBSERVER_GONE_US;
    for (unsigned o = FIRST; o < OTHER; o++) {
        assert_true(o == FIRST + 7 || lines_for_observer(fake, o) > 0);
    }
    assert_true(lines_for_observer(fake, OTHER) > 0); /* in the place of the silent one */
    assert_int_equal(lines_for_observer(fake, FIRST + 7), 0);
    assert_int_equal(fake->controller.report.observer_count, CONTROLLER_OBSERVERS_MAX);
    fake_close(fake);
}

static void test_a_long_report_loses_its_beginning(void **state) {
    (void)state;
    enum { CLOCKS = CONTROLLER_LINES_MAX + 100 };
    struct fake *fake = fake_open((struct job_terms){.clocks_per_iteration = 1, .iterations = 10 * CLOCKS});
    begin(fake);
    assert_int_equal(lines_with(fake, "\"event\":\"start\""), 1);
    for (uint64_t c = 1; c <= CLOCKS; c++) {
        progress(fake, 0, c);
        progress(fake, 1, c);
        forget(fake);
    }
    size_t first = fake->controller.report.first;
    assert_true(first > 0);
    size_t count = fake->controller.report.count;
    assert_true(count >= CLOCKS + 3); /* two joined, the start, and what the nodes do */
    assert_null(controller_line(&fake->controller, first - 1));
    assert_null(controller_line(&fake->controller, count));
    assert_true(line_number(controller_line(&fake->controller, count - 1), "iteration") == CLOCKS);
    uint64_t read = 0;
    for (unsigned bursts = 0; read < count; bursts++) {
        assert_true(bursts <= CONTROLLER_LINES_MAX / CONTROLLER_BURST_MAX);
        read = observe(fake, read);
    }
    assert_int_equal(observe(fake, read), read);
    assert_int_equal(fake->count, 0);
    fake_close(fake);
}

static void expect_failure(struct fake *fake, const char *text) {
    const struct controller *controller = &fake->controller;
    assert_int_equal(controller->phase, PHASE_LEAVE);
    assert_int_equal(controller->progress.failures, 1);
    assert_non_null(strstr(controller->end.text, text));
    assert_int_equal(lines_with(fake, "\"event\":\"failure\""), 1);
    assert_non_null(strstr(controller_line(controller, controller->report.count - 1), "\"failures\":1"));
}

/* What the lines `nodes` say of each node, and the last lines `usage`. */
struct told_node {
    char state[16];
    unsigned serves, follows, shards;
    double items;
};

static struct told_node *told_of(struct told_node *told, const json_t *name) {
    for (unsigned n = 0; n < PLAYERS_MAX; n++) {
        if (strcmp(json_string_value(name), player_names[n]) == 0) {
            return &told[n];
        }
    }
    fail_msg("a node '%s'", json_string_value(name));
    return told;
}

static unsigned told_count(const json_t *node, const char *key) {
    return (unsigned)json_array_size(json_object_get(node, key));
}

static void read_nodes(const struct fake *fake, struct told_node *told) {
    for (size_t l = fake->controller.report.first; l < fake->controller.report.count; l++) {
        json_t *line = json_loads(controller_line(&fake->controller, l), 0, NULL);
        const char *type = json_string_value(json_object_get(line, "type"));
        size_t n;
        json_t *node;
        json_array_foreach(json_object_get(line, "nodes"), n, node) {
            if (strcmp(type, "nodes") == 0) {
                struct told_node *of = told_of(told, json_object_get(node, "name"));
                snprintf(of->state, sizeof of->state, "%s", json_string_value(json_object_get(node, "state")));
                of->serves = told_count(node, "serves");
                of->follows = told_count(node, "follows");
                of->shards = (unsigned)json_integer_value(json_object_get(node, "shards"));
                of->items = json_number_value(json_object_get(node, "items")); /* of a node that is gone */
            } else if (strcmp(type, "usage") == 0) {
                assert_int_equal(json_array_size(node), 6); /* the slowness is last */
                told_of(told, json_array_get(node, 0))->items = json_number_value(json_array_get(node, 1));
            }
        }
        json_decref(line);
    }
}

/* The report alone says which roles each node has, and what became of it. */
static void test_the_report_says_what_nodes_do(void **state) {
    (void)state;
    struct told_node told[PLAYERS_MAX] = {0};
    struct fake *fake = cluster_new(STAGE_2, 40);
    cluster_open(fake, 1, 4);
    play_to(fake, 5);
    read_nodes(fake, told);
    unsigned serves = 0;
    unsigned shards = 0;
    for (unsigned n = 0; n < 5; n++) {
        assert_string_equal(told[n].state, "started");
        serves += told[n].serves;
        shards += told[n].shards;
    }
    assert_int_equal(told[0].serves, 0);
    assert_int_equal(told[0].follows, fake->options.policy.partitions);
    assert_int_equal(serves, fake->options.policy.partitions);
    assert_int_equal(shards, SHARDS);
    ask(fake, OPERATOR, MESSAGE_EVICT, "n1");
    fake->players[2].there = false;
    ask(fake, OPERATOR, MESSAGE_GONE, "n2");
    expect_good_end(fake, 40);
    memset(told, 0, sizeof told);
    read_nodes(fake, told);
    assert_string_equal(told[1].state, "left");
    assert_string_equal(told[2].state, "lost");
    assert_true(lines_with(fake, "\"state\":\"leaving\"") > 0);
    double items = 0;
    serves = shards = 0;
    for (unsigned n = 0; n < 5; n++) {
        assert_true(told[n].items > 0);
        items += told[n].items;
        serves += told[n].serves;
        shards += told[n].shards;
    }
    assert_int_equal(serves, fake->options.policy.partitions);
    assert_int_equal(shards, SHARDS);
    assert_true(items <= (double)(fake->controller.progress.items_processed + fake->controller.progress.items_redone));
    assert_int_equal(lines_with(fake, "\"recovery_seconds\":"), 1);
    fake_close(fake);
}

static void note(struct fake *fake, uint64_t request, const char *text) {
    struct message message = {.type = MESSAGE_NOTE, .note.request = request, .frame_count = 1};
    message.frames[0] = buffer_copy(text, strlen(text));
    give(fake, OPERATOR, &message);
}

/* What bidbrain says stands in the report, once. */
static void test_a_note_is_reported_once(void **state) {
    (void)state;
    static const char *const wrong[] = {"", "[]", "{\"type\":\"summary\"}", "{\"text\":\"x\"}", "{\"type\":\"money\""};
    struct message outcome;
    struct fake *fake = cluster_new(STAGE_1, 20);
    cluster_open(fake, 1, 1);
    play_to(fake, 4);
    for (unsigned n = 0; n < 2; n++) {
        note(fake, 17, "{\"type\":\"decision\",\"seconds\":-1,\"text\":\"2 x c4\"}");
        expect_outcome(fake, OPERATOR, 0, "");
    }
    assert_int_equal(lines_with(fake, "\"text\":\"2 x c4\""), 1);
    assert_int_equal(lines_with(fake, "\"seconds\":-1"), 0);
    for (size_t w = 0; w < sizeof wrong / sizeof *wrong; w++) {
        size_t lines = fake->controller.report.count;
        note(fake, 18, wrong[w]);
        assert_int_equal(sent(fake, node(OPERATOR), MESSAGE_OUTCOME, &outcome), 1);
        assert_int_equal(outcome.outcome.code, AML_EINPUT);
        assert_int_equal(fake->controller.report.count, lines);
        forget(fake);
    }
    expect_good_end(fake, 20);
    fake_close(fake);
}

static void test_metrics_of_another_number_end_the_job(void **state) {
    (void)state;
    struct fake *fake = fake_open((struct job_terms){.clocks_per_iteration = 1, .iterations = 1000});
    begin(fake);
    struct message message = {.type = MESSAGE_PROGRESS, .frame_count = 1};
    struct wire_metric_sum sums[2] = {{.sum = 1}, {.sum = 2}};
    message.progress = (struct message_progress){.origin = node(1), .clock = 1, .items = 10};
    message.frames[0] = buffer_copy(sums, sizeof sums);
    give(fake, 1, &message);
    assert_int_equal(fake->controller.phase, PHASE_LEAVE);
    assert_int_equal(fake->controller.end.code, AML_EPROTOCOL);
    assert_non_null(strstr(fake->controller.end.text, "two (host, pid 1) sent 2 metrics, expected 1"));
    fake_close(fake);
}

/* A job may end before the connection of the one who started it stands. */
static void test_an_observer_who_comes_late_hears_how_it_ended(void **state) {
    (void)state;
    for (unsigned comes = 0; comes < 2; comes++) {
        struct fake *fake = fake_new((struct job_terms){.clocks_per_iteration = 1, .iterations = 1000});
        fake->options.observed = true;
        fake_start(fake);
        struct message stop = {.type = MESSAGE_STOP, .text = {.code = AML_EFAIL, .text = "two was killed"}};
        give(fake, OPERATOR, &stop);
        tick(fake, 1000);
        assert_int_equal(fake->controller.phase, PHASE_LEAVE);
        assert_int_equal(fake->end.ended, 0);
        if (comes > 0) {
            uint64_t read = observe(fake, 0);
            assert_int_equal(read, fake->controller.report.count);
            assert_int_equal(fake->end.ended, 0);
            observe(fake, read);
        } else {
            tick(fake, 2 * CONTROLLER_END_WAIT_US); /* it stood still: nobody could have come meanwhile */
            assert_int_equal(fake->end.ended, 0);
            tick_silently(fake, CONTROLLER_END_WAIT_US);
        }
        assert_int_equal(fake->end.ended, 1);
        fake_close(fake);
    }
}

/* One far away reads a burst in half a second; the job's report is many bursts long, and its last line says how the job
 * ended. */
static void test_an_observer_that_reads_on_hears_how_it_ended(void **state) {
    (void)state;
    enum { CLOCKS = 6 * CONTROLLER_BURST_MAX };
    struct fake *fake = fake_open((struct job_terms){.clocks_per_iteration = 1, .iterations = 10 * CLOCKS});
    begin(fake);
    uint64_t read = observe(fake, 0);
    for (uint64_t c = 1; c <= CLOCKS; c++) {
        progress(fake, 0, c);
        progress(fake, 1, c);
        forget(fake);
    }
    struct message stop = {.type = MESSAGE_STOP, .text = {.code = AML_EFAIL, .text = "two was killed"}};
    give(fake, OPERATOR, &stop);
    while (read < fake->controller.report.count) {
        tick_silently(fake, CONTROLLER_END_WAIT_US / 4);
        assert_int_equal(fake->end.ended, 0);
        read = observe(fake, read);
    }
    tick_silently(fake, CONTROLLER_END_WAIT_US); /* it has them all, but has not said so */
    assert_int_equal(fake->end.ended, 1);
    fake_close(fake);
}

/* The launcher stops a job whose node has ended: that is a failure; a job that someone stops has none. */
static void test_a_stop_may_be_a_failure(void **state) {
    (void)state;
    static const int codes[] = {AML_EFAIL, AML_ESTOP};
    for (unsigned c = 0; c < 2; c++) {
        struct fake *fake = fake_open((struct job_terms){.clocks_per_iteration = 1, .iterations = 1000});
        begin(fake);
        for (unsigned repeat = 0; repeat < 2; repeat++) {
            struct message stop = {.type = MESSAGE_STOP, .text = {.code = codes[c], .text = "two was killed"}};
            give(fake, OPERATOR, &stop);
        }
        assert_int_equal(fake->controller.end.code, codes[c]);
        assert_int_equal(fake->controller.progress.failures, codes[c] == AML_EFAIL ? 1 : 0);
        if (codes[c] == AML_EFAIL) {
            expect_failure(fake, "two was killed");
        }
        fake_close(fake);
    }
}

/* STOP with code 0: the job ends well, where an iteration ends. */
static void test_a_stop_may_be_a_good_end(void **state) {
    (void)state;
    struct fake *fake = cluster_new(STAGE_1, 0);
    struct message stop = {.type = MESSAGE_STOP, .text = {.text = "enough"}};
    cluster_open(fake, 1, 2);
    play_to(fake, 5);
    give(fake, OPERATOR, &stop);
    play_to_end(fake);
    assert_int_equal(fake->end.code, 0);
    assert_int_equal(fake->clock % 2, 0);
    assert_in_range(fake->clock, 6, 12);
    expect_report(fake, fake->clock / 2, true);
    fake_close(fake);

    fake = cluster_new(STAGE_1, 0);
    cluster_open(fake, 1, 2);
    struct message early = {.type = MESSAGE_STOP, .text = {.text = "enough"}};
    give(fake, OPERATOR, &early);
    play_to_end(fake);
    assert_int_equal(fake->end.code, AML_ESTOP);
    fake_close(fake);
}

static void test_who_has_joined_in_time(void **state) {
    (void)state;
    struct fake *fake = fake_open((struct job_terms){.clocks_per_iteration = 1, .iterations = 1000});
    tick(fake, 0);
    tick(fake, 60 * UINT64_C(1000000)); /* we were stopped ourselves */
    join(fake, 1, "two", TIER_TRANSIENT, &fake->terms);
    assert_int_equal(fake->controller.phase, PHASE_GATHER);
    for (unsigned t = 0; t < 200 && fake->controller.phase == PHASE_GATHER; t++) {
        fake->now_us += HEARTBEAT_MS * UINT64_C(1000);
        heartbeat(fake, 1, NODE_REGISTERING, 0);
        tick(fake, 0);
    }
    assert_int_equal(fake->controller.phase, PHASE_LEAVE);
    assert_non_null(
        strstr(fake->controller.end.text, "0 of 1 reliable and 1 of 1 transient nodes have registered: two (host)"));
    fake_close(fake);
}

/* Only traditional training can't do without a node. */
static void test_silence_ends_a_traditional_job(void **state) {
    (void)state;
    struct fake *fake = fake_new((struct job_terms){.clocks_per_iteration = 1, .iterations = 1000});
    fake->options.policy.stage = STAGE_TRADITIONAL;
    fake_start(fake);
    begin(fake);
    for (unsigned t = 0; t < 2 * TIMEOUT_MS / HEARTBEAT_MS && fake->controller.phase == PHASE_TRAIN; t++) {
        fake->now_us += HEARTBEAT_MS * UINT64_C(1000);
        heartbeat(fake, 0, NODE_STARTED, 1);
        tick(fake, 0);
    }
    struct message message;
    assert_int_equal(sent(fake, node(0), MESSAGE_ABORT, &message), 1);
    assert_int_equal(sent(fake, node(0), MESSAGE_FENCE, NULL), 0);
    assert_non_null(strstr(message.text.text, "two (host, pid 1)"));
    expect_failure(fake, "no heartbeat for");
    assert_int_equal(fake->end.ended, 0); /* node 0 has not left */
    struct message leave = {.type = MESSAGE_LEAVE};
    give(fake, 0, &leave);
    assert_int_equal(fake->end.ended, 1); /* the silent one is not waited for */
    assert_int_equal(fake->end.code, AML_EFAIL);
    assert_non_null(strstr(fake->end.text, "two (host, pid 1)"));
    fake_close(fake);
}

static void test_a_pause_of_our_own_is_no_silence(void **state) {
    (void)state;
    struct fake *fake = fake_open((struct job_terms){.clocks_per_iteration = 1, .iterations = 1000});
    begin(fake);
    tick(fake, 0);
    tick(fake, 10 * TIMEOUT_MS * UINT64_C(1000));
    assert_int_equal(fake->controller.phase, PHASE_TRAIN);
    assert_int_equal(fake->controller.change.state, CHANGE_NONE);
    assert_int_equal(fake->controller.member_count, 2);
    fake_close(fake);
}

/* While the controller waits for its disk it hears nobody. That is a stop of its own too: a node that has been silent
 * for less than the timeout apart from it is not given up. */
static void test_a_slow_store_is_no_silence(void **state) {
    (void)state;
    struct fake *fake = cluster_new(STAGE_1, 20);
    fake->options.store = &fake->store.store;
    cluster_open(fake, 1, 2);
    play_to(fake, 5);
    fake->players[2].stopped = true;
    for (uint64_t end_us = fake->now_us + TIMEOUT_MS * UINT64_C(450); fake->now_us < end_us;) {
        play(fake);
    }
    unsigned writes = fake->store.writes;
    persist_soon(&fake->controller);
    fake->store.slow_us = TIMEOUT_MS * UINT64_C(700);
    tick(fake, CONTROLLER_STORE_US);
    assert_true(fake->store.writes > writes);
    fake->store.slow_us = 0;
    tick(fake, 0); /* comes at once: it is long due */
    assert_int_equal(fake->controller.progress.failures, 0);
    fake->players[2].stopped = false;
    expect_good_end(fake, 20);
    assert_int_equal(fake->controller.progress.failures, 0);
    fake_close(fake);
}

/* Another controller goes on with the store (options.store). */
static void restart(struct fake *fake) {
    fake->kill.dead = true;
    called(fake);
}

static void app_note(struct fake *fake, unsigned from, const char *text) {
    struct message message = {.type = MESSAGE_APP_NOTE, .app_note.request = 17};
    snprintf(message.app_note.text, sizeof message.app_note.text, "%s", text);
    give(fake, from, &message);
    expect_outcome(fake, from, 0, "");
}

/* What the app says stands in the report once, whoever says it how often; also when the controller is started anew. */
static void test_what_the_app_says_is_reported_once(void **state) {
    (void)state;
    struct message message = {.type = MESSAGE_APP_NOTE, .app_note = {.request = 17, .text = "of a stranger"}};
    struct fake *fake = stored_cluster(STAGE_1, 20);
    cluster_open(fake, 1, 1);
    play_to(fake, 4);
    app_note(fake, 0, "line 1 is a header");
    app_note(fake, 1, "line 1 is a header");
    assert_int_equal(lines_with(fake, "\"type\":\"note\""), 1);
    assert_int_equal(lines_with(fake, "\"node\":\"n0\",\"text\":\"line 1 is a header\""), 1);
    restart(fake);
    app_note(fake, 1, "line 1 is a header");
    app_note(fake, 1, "\x1b[2J\nno better");
    give(fake, STRANGER, &message);
    assert_int_equal(sent(fake, node(STRANGER), MESSAGE_OUTCOME, NULL), 0);
    assert_int_equal(lines_with(fake, "\"type\":\"note\""), 2);
    assert_int_equal(lines_with(fake, "\"text\":\"?[2J no better\""), 1);
    expect_good_end(fake, 20);
    fake_close(fake);
}

static void test_of_many_notes_some_are_left_out(void **state) {
    (void)state;
    struct fake *fake = stored_cluster(STAGE_1, 20);
    cluster_open(fake, 1, 1);
    play_to(fake, 4);
    for (unsigned n = 0; n < WIRE_APP_NOTES_MAX + 3; n++) {
        char text[32];
        snprintf(text, sizeof text, "note %u", n);
        app_note(fake, n % 2, text);
    }
    assert_int_equal(lines_with(fake, "\"type\":\"note\""), WIRE_APP_NOTES_MAX + 1);
    assert_int_equal(lines_with(fake, "has said 64 different lines"), 1);
    restart(fake);
    app_note(fake, 0, "another");
    assert_int_equal(lines_with(fake, "\"type\":\"note\""), WIRE_APP_NOTES_MAX + 1);
    expect_good_end(fake, 20);
    fake_close(fake);
}

/* A new controller hears of nobody until the nodes are connected to it again, which may take IO_RECONNECT_MS: silence
 * counts from then. */
static void test_a_restarted_controller_waits_for_reconnects(void **state) {
    (void)state;
    struct fake *fake = cluster_new(STAGE_1, 20);
    fake->options.store = &fake->store.store;
    cluster_open(fake, 2, 3);
    play_to(fake, 5);
    for (unsigned n = 0; n < 5; n++) {
        fake->players[n].stopped = true;
    }
    for (unsigned times = 0; times < 3; times++) { /* killed several times in a row */
        restart(fake);
        tick_silently(fake, (TIMEOUT_MS + IO_RECONNECT_MS - HEARTBEAT_MS) * UINT64_C(1000));
        assert_int_equal(fake->controller.progress.failures, 0);
        assert_int_equal(fake->controller.change.state, CHANGE_NONE);
    }
    for (unsigned n = 0; n < 5; n++) {
        fake->players[n].stopped = false;
    }
    expect_good_end(fake, 20);
    assert_int_equal(fake->controller.progress.failures, 0);
    fake_close(fake);
}

/* Three of four nodes are silent at once: the controller suspects itself and asks again. Nodes that answer stay, the
 * others are lost. */
static void test_a_silent_majority_is_asked_again(void **state) {
    (void)state;
    struct fake *fake = cluster_new(STAGE_1, 30);
    cluster_open(fake, 1, 3);
    play_to(fake, 5);
    for (unsigned n = 1; n < 4; n++) {
        fake->players[n].stopped = true;
    }
    for (unsigned r = 0; fake->controller.doubt_until_us == 0; r++) {
        assert_true(r < ROUNDS_MAX);
        play(fake);
    }
    assert_int_equal(fake->controller.progress.failures, 0);
    for (unsigned n = 1; n < 4; n++) {
        assert_true(silence_of(controller_find_member(&fake->controller, node(n)), fake->now_us) >
                    TIMEOUT_MS * UINT64_C(1000));
    }
    fake->players[1].stopped = fake->players[2].stopped = false;
    for (unsigned r = 0; fake->controller.progress.failures == 0; r++) {
        assert_true(r < ROUNDS_MAX);
        play(fake);
    }
    assert_int_equal(lines_with(fake, "no heartbeat for"), 1);
    assert_int_equal(lines_with(fake, "from n3"), 1);
    expect_good_end(fake, 30);
    assert_int_equal(fake->controller.progress.failures, 1);
    fake_close(fake);
}

/* A silent minority is given up after the timeout, no later. */
static void test_a_silent_minority_is_not_asked_again(void **state) {
    (void)state;
    struct fake *fake = cluster_new(STAGE_1, 30);
    cluster_open(fake, 1, 3);
    play_to(fake, 5);
    fake->players[3].stopped = true;
    uint64_t began_us = fake->now_us;
    for (unsigned r = 0; fake->controller.progress.failures == 0; r++) {
        assert_true(r < ROUNDS_MAX);
        play(fake);
        assert_int_equal(fake->controller.doubt_until_us, 0);
    }
    assert_true(fake->now_us <= began_us + TIMEOUT_MS * UINT64_C(1000) + 4 * HEARTBEAT_MS * UINT64_C(1000));
    expect_good_end(fake, 30);
    fake_close(fake);
}

/* A controller that falls behind by less than half a timeout each time does not count that as silence either. */
static void test_short_stops_of_our_own_add_up_to_no_silence(void **state) {
    (void)state;
    struct fake *fake = fake_open((struct job_terms){.clocks_per_iteration = 1, .iterations = 1000});
    begin(fake);
    tick(fake, 0);
    for (unsigned t = 0; t < 4; t++) {
        tick(fake, TIMEOUT_MS * UINT64_C(450));
        tick(fake, HEARTBEAT_MS * UINT64_C(500));
    }
    assert_int_equal(fake->controller.member_count, 2);
    assert_int_equal(fake->controller.progress.failures, 0);
    fake_close(fake);
}

static void expect_bad_options(const struct fake *fake, const struct controller_options *options) {
    struct controller controller;
    struct io io = fake->io;
    assert_int_equal(controller_init(&controller, &io, options, NULL), AML_EINPUT);
}

static void test_options_are_checked(void **state) {
    (void)state;
    struct fake *fake = fake_open((struct job_terms){.clocks_per_iteration = 1});
    struct controller_options options = fake->options;
    options.reliable = options.transient = 0;
    expect_bad_options(fake, &options);
    options = fake->options;
    options.policy.partitions = 0;
    expect_bad_options(fake, &options);
    options = fake->options;
    options.policy.shards = WIRE_SHARDS_MAX + 1;
    expect_bad_options(fake, &options);
    options = fake->options;
    options.timeout_ms = options.heartbeat_ms;
    expect_bad_options(fake, &options);
    options = fake->options;
    options.answer_ms = options.timeout_ms - 1;
    expect_bad_options(fake, &options);
    options = fake->options;
    options.commit_every = WIRE_COMMIT_EVERY_MAX + 1;
    expect_bad_options(fake, &options);
    fake_close(fake);
}

/* ---- Changes that are announced ---- */

/* Every partition's next server is on a node of that tier. */
static bool placed_on(const struct message *plan, enum node_tier tier, bool next) {
    const struct wire_placement *place = (const void *)plan->frames[1]->data;
    const struct wire_node *nodes = (const void *)plan->frames[0]->data;
    for (uint32_t p = 0; p < PARTITIONS; p++) {
        actor_id server = actor_node(next ? place[p].next_server : place[p].server);
        for (size_t n = 0; n < plan->frames[0]->size / sizeof *nodes; n++) {
            if (nodes[n].actor == server && nodes[n].tier != (uint32_t)tier) {
                return false;
            }
        }
    }
    return true;
}

/* Prepare, hold, raise the hold, switch, settle; with the third node stage 1 becomes stage 2. */
static void test_a_node_joins_while_training(void **state) {
    (void)state;
    struct fake *fake = fake_new((struct job_terms){.staleness = 1, .clocks_per_iteration = 2, .iterations = 100});
    struct message message;
    fake->options.policy.stage = STAGE_AUTO;
    fake_start(fake);
    begin(fake);
    assert_int_equal(fake->controller.plan.stage, STAGE_1);
    progress(fake, 0, 1);
    progress(fake, 1, 1);
    join(fake, 2, "three", TIER_TRANSIENT, &fake->terms);
    assert_int_equal(sent(fake, node(2), MESSAGE_WELCOME, NULL), 1);
    assert_int_equal(fake->controller.change.state, CHANGE_NONE); /* more may be coming */
    tick(fake, CONTROLLER_JOIN_WAIT_US + 1);
    assert_int_equal(fake->controller.change.state, CHANGE_PREPARE);
    for (unsigned n = 0; n < 3; n++) {
        assert_int_equal(sent(fake, node(n), MESSAGE_PLAN, &message), 1);
        assert_int_equal(message.plan.version, 2);
        assert_int_equal(message.plan.from_clock, WIRE_CLOCK_NEVER);
        assert_true(placed_on(&message, TIER_RELIABLE, false) && placed_on(&message, TIER_TRANSIENT, true));
        assert_int_equal(message.epoch, 1);
    }
    bool prepared = false; /* the new node has an assignment without a clock */
    for (unsigned d = 0; d < assignment_count(&message); d++) {
        const struct wire_assignment *assignment = assignment_of(&message, d);
        prepared = prepared || (assignment->origin == node(2) && assignment->from_clock == WIRE_CLOCK_NEVER);
        assert_true(assignment->origin != node(2) || assignment->from_clock == WIRE_CLOCK_NEVER);
    }
    assert_true(prepared);
    heartbeat(fake, 2, NODE_LOADED, 0);
    assert_int_equal(sent(fake, node(2), MESSAGE_START, &message), 1);
    assert_int_equal(message.start.items, SHARDS * SHARD_ITEMS);
    heartbeat(fake, 0, NODE_STARTED, 2);
    heartbeat(fake, 1, NODE_STARTED, 2);
    assert_int_equal(fake->controller.change.state, CHANGE_PREPARE); /* the new one is not ready */
    heartbeat(fake, 2, NODE_STARTED, 0);
    assert_int_equal(fake->controller.change.state, CHANGE_BARRIER);
    uint64_t held = fake->controller.barrier.clock;
    assert_true(held > 2 && held < 100);
    assert_true(sent(fake, node(0), MESSAGE_HEARTBEAT_ACK, &message) > 0);
    assert_int_equal(message.heartbeat_ack.barrier_clock, held);

    heartbeat(fake, 1, NODE_STARTED, held + 1); /* the hold came too late for it */
    heartbeat(fake, 2, NODE_STARTED, 0);
    heartbeat(fake, 0, NODE_STARTED, held);
    assert_int_equal(fake->controller.change.state, CHANGE_BARRIER);
    assert_true(fake->controller.barrier.clock > held);
    uint64_t last = fake->controller.barrier.clock;
    forget(fake);
    heartbeat(fake, 0, NODE_STARTED, last);
    heartbeat(fake, 1, NODE_STARTED, last);
    assert_int_equal(sent(fake, node(0), MESSAGE_PLAN, NULL), 0);
    heartbeat(fake, 2, NODE_STARTED, 0);
    assert_int_equal(fake->controller.change.state, CHANGE_SWITCH);
    assert_int_equal(sent(fake, node(0), MESSAGE_PLAN, &message), 1);
    assert_int_equal(message.plan.version, 3);
    assert_int_equal(message.plan.from_clock, last + 1);
    assert_int_equal(assignment_items(&message, node(2), last), 0);
    assert_true(assignment_items(&message, node(2), last + 1) > 0);

    uint64_t number = fake->controller.barrier.number;
    for (unsigned n = 0; n < 3; n++) { /* held until everyone goes by the boundary */
        assert_int_equal(fake->controller.barrier.number, number);
        heartbeat(fake, n, NODE_STARTED, n == 2 ? 0 : last);
    }
    assert_int_equal(fake->controller.barrier.number, number + 1);
    assert_int_equal(fake->controller.barrier.clock, WIRE_CLOCK_NEVER);
    fake->clock = last;
    heartbeat(fake, 0, NODE_STARTED, last + 1);
    assert_int_equal(fake->controller.plan.stage, STAGE_1);
    fake->clock = last + 1;
    heartbeat(fake, 0, NODE_STARTED, last + 2);
    assert_int_equal(fake->controller.plan.stage, STAGE_1); /* not before all have reported the clock */

    /* Who owned the shards before the boundary is still known. */
    for (uint64_t c = 2; c <= last + 1; c++) {
        for (unsigned n = 0; n < (c > last ? 3 : 2); n++) {
            assert_int_equal(fake->controller.progress.completed, c - 1);
            progress(fake, n, c);
        }
    }
    assert_int_equal(fake->controller.progress.completed, last + 1);
    assert_int_equal(fake->controller.plan.stage, STAGE_2);
    assert_int_equal(sent(fake, node(1), MESSAGE_PLAN, &message), 2);
    assert_true(placed_on(&message, TIER_TRANSIENT, false) && placed_on(&message, TIER_TRANSIENT, true));
    assert_int_equal(lines_with(fake, "\"event\":\"stage\""), 1);
    fake_close(fake);
}

static void test_many_nodes_join(void **state) {
    (void)state;
    struct fake *fake = cluster_new(STAGE_AUTO, 30);
    cluster_open(fake, 1, 1);
    play_to(fake, 5);
    enter(fake, 2, TIER_TRANSIENT);
    play_rounds(fake, 2); /* the next one comes while the change is prepared */
    enter(fake, 3, TIER_TRANSIENT);
    enter(fake, 4, TIER_RELIABLE);
    play_to(fake, 40);
    assert_int_equal(fake->controller.change.state, CHANGE_NONE);
    for (unsigned n = 0; n < 5; n++) {
        assert_true(assignment_items(&fake->newest, node(n), fake->clock + 1) > 0);
    }
    expect_good_end(fake, 30);
    assert_int_equal(fake->controller.progress.failures, 0);
    fake_close(fake);
}

static void test_an_operator_evicts(void **state) {
    (void)state;
    struct fake *fake = cluster_new(STAGE_2, 40);
    cluster_open(fake, 1, 3);
    play_to(fake, 5);
    ask(fake, OPERATOR, MESSAGE_EVICT, "nobody");
    expect_outcome(fake, OPERATOR, AML_EINPUT, "no node of the job is called 'nobody'");
    ask(fake, OPERATOR, MESSAGE_EVICT, NULL);
    assert_int_equal(sent(fake, node(OPERATOR), MESSAGE_DONE, NULL), 1); /* a node that is none of the job's may go */
    ask(fake, OPERATOR, MESSAGE_EVICT, "n0");
    expect_outcome(fake, OPERATOR, AML_EINPUT, "no reliable node would be left");
    ask(fake, OPERATOR, MESSAGE_EVICT, "n1");
    expect_outcome(fake, OPERATOR, 0, "");
    ask(fake, OPERATOR, MESSAGE_EVICT, "n1"); /* again: no harm */
    expect_outcome(fake, OPERATOR, 0, "");
    uint64_t asked = fake->clock;
    for (unsigned r = 0; !fake->players[1].done; r++) {
        assert_true(r < ROUNDS_MAX);
        assert_true(fake->players[1].there);
        play(fake);
    }
    assert_true(fake->clock > asked); /* it went on working until others had taken over */
    assert_int_equal(assignment_items(&fake->newest, node(1), fake->clock), 0);
    play_rounds(fake, 3);
    assert_int_equal(fake->controller.member_count, 3);
    assert_int_equal(fake->controller.progress.evictions, 1);
    assert_int_equal(lines_with(fake, "\"event\":\"evict\""), 1);
    assert_int_equal(lines_with(fake, "\"event\":\"evicted\""), 1);
    expect_good_end(fake, 40);
    assert_int_equal(fake->controller.progress.failures, 0);
    assert_int_equal(fake->controller.progress.items_redone, 0);
    fake_close(fake);
}

/* A market takes many at once, and each gives its own notice, of no length: not each has a plan for it alone. */
static void test_evictions_one_by_one_share_plans(void **state) {
    (void)state;
    struct fake *fake = cluster_new(STAGE_2, 40);
    cluster_open(fake, 2, 8);
    play_to(fake, 5);
    uint64_t before = fake->controller.plan.version;
    for (unsigned n = 2; n < 9; n++) {
        ask(fake, n, MESSAGE_EVICT, NULL);
        fake->now_us += 10;
    }
    assert_true(fake->controller.plan.version <= before + 1);
    play_to(fake, 20);
    for (unsigned n = 2; n < 9; n++) {
        assert_true(fake->players[n].done);
    }
    assert_true(fake->controller.plan.version <= before + 8); /* two changes, of four versions each at most */
    expect_good_end(fake, 40);
    assert_int_equal(fake->controller.progress.failures, 0);
    fake_close(fake);
}

/* Stage transient: a market may give all nodes notice at once. They work on until another one has taken over. */
static void test_all_transient_nodes_get_notice(void **state) {
    (void)state;
    struct fake *fake = cluster_new(STAGE_TRANSIENT, 40);
    cluster_open(fake, 0, 2);
    play_to(fake, 5);
    ask(fake, OPERATOR, MESSAGE_EVICT, "n0");
    expect_outcome(fake, OPERATOR, 0, "");
    ask(fake, OPERATOR, MESSAGE_EVICT, "n1"); /* an operator learns better */
    expect_outcome(fake, OPERATOR, AML_EINPUT, "no node would be left");
    ask(fake, 1, MESSAGE_EVICT, NULL);
    expect_outcome(fake, 1, 0, "");
    uint64_t asked = fake->clock;
    play_to(fake, asked + 4);
    enter(fake, 2, TIER_TRANSIENT);
    for (unsigned r = 0; !fake->players[0].done || !fake->players[1].done; r++) {
        assert_true(r < ROUNDS_MAX);
        play(fake);
    }
    assert_true(assignment_items(&fake->newest, node(2), fake->clock + 1) > 0);
    expect_good_end(fake, 40);
    assert_int_equal(fake->controller.progress.failures, 0);
    fake_close(fake);
}

/* Names may be of nodes that have gone since: the others are evicted. */
static void test_a_missing_node_does_not_cancel_an_eviction(void **state) {
    (void)state;
    struct fake *fake = cluster_new(STAGE_2, 40);
    cluster_open(fake, 1, 3);
    play_to(fake, 5);
    static const char names[][WIRE_NAME_MAX] = {"gone", "n1", "never", "n2"};
    struct message message = {.type = MESSAGE_EVICT, .frame_count = 1};
    message.evict.request = 17;
    message.evict.notice_ms = 60000;
    message.frames[0] = buffer_copy(names, sizeof names);
    give(fake, OPERATOR, &message);
    expect_outcome(fake, OPERATOR, 0, "no node of the job is called 'gone', 'never'");
    assert_int_equal(lines_with(fake, "\"event\":\"evict\""), 1);
    expect_good_end(fake, 40);
    assert_true(fake->players[1].done);
    assert_true(fake->players[2].done);
    assert_int_equal(fake->controller.progress.evictions, 2);
    assert_int_equal(fake->controller.progress.failures, 0);
    fake_close(fake);
}

/* The plan without it waits for other warnings no longer than the shortest notice allows. */
static void test_a_shorter_notice_counts(void **state) {
    (void)state;
    struct fake *fake = cluster_new(STAGE_1, 60);
    cluster_open(fake, 1, 2);
    play_to(fake, 5);
    const uint32_t notices_ms[] = {60000, 200, 60000};
    uint64_t waits_us[3];
    for (unsigned n = 0; n < 3; n++) {
        struct message message = {.type = MESSAGE_EVICT, .frame_count = 1};
        message.evict.request = 17;
        message.evict.notice_ms = notices_ms[n];
        message.frames[0] = buffer_copy("", 0);
        give(fake, 2, &message);
        expect_outcome(fake, 2, 0, "");
        assert_true(fake->controller.change.due);
        waits_us[n] = fake->controller.change.due_us;
    }
    assert_true(waits_us[1] < waits_us[0]);
    assert_true(waits_us[2] == waits_us[1]);
    expect_good_end(fake, 60);
    assert_int_equal(lines_with(fake, "\"event\":\"evict\""), 1);
    assert_int_equal(fake->controller.progress.evictions, 1);
    fake_close(fake);
}

static void test_a_node_asks_to_leave(void **state) {
    (void)state;
    struct fake *fake = cluster_new(STAGE_1, 60);
    cluster_open(fake, 1, 2);
    play_to(fake, 5);
    ask(fake, 2, MESSAGE_EVICT, NULL);
    expect_outcome(fake, 2, 0, "");
    expect_good_end(fake, 60);
    assert_true(fake->players[2].done);
    assert_int_equal(fake->controller.progress.evictions, 1);
    fake_close(fake);
}

/* Who has to go does not wait for who comes; then the new one has its turn. */
static void test_a_node_joins_while_another_leaves(void **state) {
    (void)state;
    struct fake *fake = cluster_new(STAGE_1, 40);
    cluster_open(fake, 1, 2);
    play_to(fake, 5);
    enter(fake, 3, TIER_TRANSIENT);
    ask(fake, OPERATOR, MESSAGE_EVICT, "n2");
    play_to(fake, 60);
    assert_true(fake->players[2].done);
    assert_true(assignment_items(&fake->newest, node(3), fake->clock + 1) > 0);
    expect_good_end(fake, 40);
    fake_close(fake);
}

/* ... but where only the new one could keep the parameters: then it is waited for. */
static void test_the_only_keeper_leaves_when_another_has_come(void **state) {
    (void)state;
    struct fake *fake = cluster_new(STAGE_2, 60);
    cluster_open(fake, 1, 2);
    play_to(fake, 5);
    enter(fake, 3, TIER_RELIABLE);
    play(fake);
    assert_true(fake->players[3].welcomed);
    assert_int_equal(fake->controller.change.state, CHANGE_NONE);
    ask(fake, OPERATOR, MESSAGE_EVICT, "n0");
    expect_outcome(fake, OPERATOR, 0, "");
    play_to(fake, 60);
    assert_true(fake->players[0].done);
    expect_good_end(fake, 60);
    assert_int_equal(lines_with(fake, "traditional"), 0); /* the state was never on transient machines alone */
    assert_int_equal(fake->controller.progress.failures, 0);
    assert_int_equal(fake->controller.progress.evictions, 1);
    fake_close(fake);
}

/* The one that was to take over is lost: who leaves keeps the parameters until another comes. */
static void test_the_only_keeper_stays_when_the_other_is_lost(void **state) {
    (void)state;
    struct fake *fake = cluster_new(STAGE_2, 60);
    cluster_open(fake, 1, 2);
    play_to(fake, 5);
    enter(fake, 3, TIER_RELIABLE);
    play(fake);
    ask(fake, OPERATOR, MESSAGE_EVICT, "n0");
    ask(fake, OPERATOR, MESSAGE_EVICT, "n1"); /* has nothing to wait for */
    fake->players[3].there = false;
    ask(fake, OPERATOR, MESSAGE_GONE, "n3");
    play_to(fake, 60);
    assert_true(fake->players[0].there && !fake->players[0].done);
    assert_true(fake->players[1].done);
    assert_true(placed_on(&fake->newest, TIER_TRANSIENT, false));
    assert_int_equal(fake->controller.change.state, CHANGE_NONE);
    enter(fake, 4, TIER_RELIABLE);
    play_to(fake, 100);
    assert_true(fake->players[0].done);
    expect_good_end(fake, 60);
    assert_int_equal(lines_with(fake, "traditional"), 0);
    fake_close(fake);
}

/* What an evicted node did is reported before it may go. */
static void test_late_progress_keeps_a_node(void **state) {
    (void)state;
    struct fake *fake = cluster_new(STAGE_1, 40);
    cluster_open(fake, 1, 2);
    play_to(fake, 5);
    fake->players[1].lost_until = WIRE_CLOCK_NEVER; /* no PROGRESS of n1 arrives */
    ask(fake, OPERATOR, MESSAGE_EVICT, "n2");
    enter(fake, 3, TIER_TRANSIENT);
    play_rounds(fake, 50);
    assert_int_equal(fake->controller.change.state,
                     CHANGE_SWITCH); /* what is not reported does not count as committed */
    assert_true(fake->players[2].there && !fake->players[2].done);
    fake->players[1].lost_until = 0;
    play_to(fake, 75);
    assert_true(assignment_items(&fake->newest, node(3), fake->clock) > 0); /* who came meanwhile has its turn */
    expect_good_end(fake, 40);
    assert_true(fake->players[2].done);
    fake_close(fake);
}

/* ---- Failures ---- */

static void test_a_transient_node_dies(void **state) {
    (void)state;
    static const enum stage stages[] = {STAGE_1, STAGE_2, STAGE_3};
    for (unsigned s = 0; s < 3; s++) {
        struct fake *fake = cluster_new(stages[s], 20);
        cluster_open(fake, 1, 3);
        play_to(fake, 11);
        fake->players[1].there = false; /* the first one serves in stages 2 and 3 */
        uint64_t before = fake->clock;
        play_to(fake, 30);
        assert_int_equal(fake->controller.progress.failures, 1);
        assert_int_equal(fake->controller.plan.epoch, 2);
        assert_true(fake->controller.plan.restore >= before);
        for (unsigned n = 0; n < 4; n++) {
            assert_int_equal(fake->players[n].fences, n == 1 ? 0 : 1);
        }
        assert_int_equal(lines_with(fake, "no heartbeat for"), 1);
        assert_int_equal(lines_with(fake, "\"event\":\"recover\""), 1);
        expect_good_end(fake, 20);
        fake_close(fake);
    }
}

/* One line when half of the timeout has passed, one when the node is heard again: for each silence. */
static void test_a_silent_node_is_reported_before_it_is_given_up(void **state) {
    (void)state;
    struct fake *fake = cluster_new(STAGE_1, 20);
    cluster_open(fake, 1, 3);
    play_to(fake, 5);
    assert_int_equal(lines_with(fake, "\"event\":\"silent\""), 0);
    for (unsigned silences = 1; silences <= 2; silences++) {
        fake->players[1].stopped = true;
        for (unsigned r = 0; lines_with(fake, "\"event\":\"silent\"") < silences; r++) {
            assert_true(r < ROUNDS_MAX);
            play(fake);
        }
        play_rounds(fake, 10);
        assert_int_equal(lines_with(fake, "\"event\":\"silent\""), silences);
        assert_int_equal(lines_with(fake, "\"nodes\":[\"n1\"],\"silent_seconds\":1."), silences);
        assert_int_equal(lines_with(fake, "\"left_seconds\":1."), silences);
        fake->players[1].stopped = false;
        for (unsigned r = 0; lines_with(fake, "\"event\":\"heard\"") < silences; r++) {
            assert_true(r < ROUNDS_MAX);
            play(fake);
        }
    }
    assert_int_equal(fake->controller.progress.failures, 0);
    fake->players[1].there = false;
    expect_good_end(fake, 20);
    assert_int_equal(fake->controller.progress.failures, 1);
    assert_int_equal(lines_with(fake, "\"event\":\"silent\""), 3);
    assert_int_equal(lines_with(fake, "\"event\":\"heard\""), 2);
    fake_close(fake);
}

/* ---- Suspected nodes ---- */

enum { PROBE_MS = 25, PROBE_US = PROBE_MS * 1000 };

static void pulse(struct fake *fake, unsigned from, enum pulse_kind kind, uint64_t number, unsigned suspect) {
    struct message message = {.type = MESSAGE_PULSE,
                              .pulse = {.kind = (uint8_t)kind,
                                        .number = number,
                                        .suspect = kind == PULSE_SUSPECT ? node(suspect) : ACTOR_NONE}};
    controller_receive(&fake->controller, actor_pulse(node(from)), &message);
}

/* The number of the last question to the node's pulse; 0: there was none. */
static uint64_t asked(struct fake *fake, unsigned number) {
    struct message question;
    return sent(fake, actor_pulse(node(number)), MESSAGE_PULSE, &question) > 0 ? question.pulse.number : 0;
}

/* Four nodes, one of them reliable, with pulses that were heard, in training. */
static struct fake *with_pulses(void) {
    struct fake *fake = cluster_new(STAGE_1, 30);
    fake->options.probe_ms = PROBE_MS;
    cluster_open(fake, 1, 3);
    play_to(fake, 5);
    for (unsigned n = 0; n < 4; n++) {
        pulse(fake, n, PULSE_ANSWER, 0, 0);
        controller_dialed(&fake->controller, actor_pulse(node(n)), fake->now_us, true);
    }
    forget(fake);
    memset(fake->dials, 0, sizeof fake->dials);
    return fake;
}

/* The first `nodes` nodes answer what their pulses were asked last, but those whose bits are set in `silent`. */
static void pulses_answer(struct fake *fake, unsigned nodes, unsigned silent) {
    for (unsigned n = 0; n < nodes; n++) {
        uint64_t number = (silent >> n & 1) == 0 ? asked(fake, n) : 0;
        if (number != 0) {
            pulse(fake, n, PULSE_ANSWER, number, 0);
        }
    }
}

/* So many intervals, in which node 1 repeats its suspicion and the others answer. */
static void suspect_on(struct fake *fake, unsigned ticks, unsigned suspect) {
    for (unsigned t = 0; t < ticks; t++) {
        pulse(fake, 1, PULSE_SUSPECT, 2, suspect);
        pulses_answer(fake, 4, 1U << suspect);
        tick(fake, PROBE_US);
    }
}

static void test_a_suspected_node_that_answers_stays(void **state) {
    (void)state;
    struct fake *fake = with_pulses();
    for (unsigned round = 0; round < 10; round++) {
        suspect_on(fake, SUSPECT_TICKS - 1, 2);
        uint64_t number = asked(fake, 2);
        assert_true(number > 0);
        pulse(fake, 2, PULSE_ANSWER, number, 0);
        forget(fake);
    }
    assert_int_equal(fake->controller.progress.failures, 0);
    expect_good_end(fake, 30);
    assert_int_equal(fake->controller.progress.failures, 0);
    fake_close(fake);
}

static void test_a_suspected_node_that_does_not_answer_is_lost(void **state) {
    (void)state;
    struct fake *fake = with_pulses();
    suspect_on(fake, SUSPECT_TICKS + 1, 2);
    assert_int_equal(fake->controller.progress.failures, 1);
    assert_int_equal(lines_with(fake, "does not answer other nodes"), 1);
    assert_null(controller_find_member(&fake->controller, node(2)));
    fake->players[2].there = false;
    expect_good_end(fake, 30);
    assert_int_equal(fake->controller.progress.failures, 1);
    fake_close(fake);
}

/* Of nodes that are lost at once some may have watched the others: all are asked with the first suspicion. */
static void test_nodes_that_are_lost_with_those_who_watched_them(void **state) {
    (void)state;
    struct fake *fake = cluster_new(STAGE_1, 30);
    fake->options.probe_ms = PROBE_MS;
    cluster_open(fake, 2, 4);
    play_to(fake, 5);
    for (unsigned n = 0; n < 6; n++) {
        pulse(fake, n, PULSE_ANSWER, 0, 0);
    }
    for (unsigned t = 0; t < SUSPECT_UNACCUSED_TICKS; t++) {
        assert_int_equal(fake->controller.progress.failures, t < SUSPECT_TICKS ? 0 : 1);
        pulse(fake, 1, PULSE_SUSPECT, 2, 2);
        pulses_answer(fake, 6, 1U << 2 | 1U << 3);
        tick(fake, PROBE_US);
    }
    assert_int_equal(fake->controller.progress.failures, 2);
    fake_close(fake);
}

/* Others answer after two intervals: the suspected node gets six. */
static void test_a_slow_answer_of_another_gives_a_suspected_node_time(void **state) {
    (void)state;
    struct fake *fake = with_pulses();
    pulse(fake, 1, PULSE_SUSPECT, 2, 2);
    uint64_t late = asked(fake, 3);
    assert_true(late > 0);
    pulse(fake, 1, PULSE_ANSWER, asked(fake, 1), 0);
    pulse(fake, 0, PULSE_ANSWER, asked(fake, 0), 0);
    tick(fake, PROBE_US);
    tick(fake, PROBE_US);
    pulse(fake, 3, PULSE_ANSWER, late, 0);
    suspect_on(fake, 3, 2);
    assert_int_equal(fake->controller.progress.failures, 0);
    suspect_on(fake, 3, 2);
    assert_int_equal(fake->controller.progress.failures, 1);
    fake_close(fake);
}

/* What the suspected node has answered may lie in the controller's socket behind what others have sent. So it is judged
 * only while others' answers to later questions arrive. */
static void test_a_controller_that_is_busy_gives_up_nobody(void **state) {
    (void)state;
    struct fake *fake = with_pulses();
    for (unsigned t = 0; t < 10 * SUSPECT_TICKS; t++) {
        pulse(fake, 1, PULSE_SUSPECT, 2, 2);
        tick(fake, PROBE_US + t % 4 * PROBE_US / 2);
    }
    assert_int_equal(fake->controller.progress.failures, 0);
    pulses_answer(fake, 4, 1U << 2);
    suspect_on(fake, SUSPECT_TICKS + 1, 2);
    assert_int_equal(fake->controller.progress.failures, 1);
    fake_close(fake);
}

/* Neither the controller's own stop, nor questions that none of most nodes answers, tell of lost nodes. */
static void test_a_controller_that_hears_nobody_gives_up_nobody(void **state) {
    (void)state;
    struct fake *fake = with_pulses();
    pulse(fake, 1, PULSE_SUSPECT, 2, 2);
    tick(fake, 20 * PROBE_US);
    tick(fake, 2 * PROBE_US + 1);
    tick(fake, PROBE_US);
    assert_int_equal(fake->controller.progress.failures, 0);
    pulse(fake, 2, PULSE_ANSWER, asked(fake, 2), 0);
    for (unsigned t = 0; t < 2 * SUSPECT_TICKS; t++) {
        for (unsigned n = 1; n < 4; n++) {
            pulse(fake, 0, PULSE_SUSPECT, 2, n);
        }
        tick(fake, PROBE_US);
    }
    assert_int_equal(fake->controller.progress.failures, 0);
    fake_close(fake);
}

/* The node's machine refuses two connections, SUSPECT_REFUSED_US apart. */
static void refuse(struct fake *fake, unsigned number) {
    controller_dialed(&fake->controller, actor_pulse(node(number)), fake->now_us, false);
    tick(fake, SUSPECT_REFUSED_US);
    controller_dialed(&fake->controller, actor_pulse(node(number)), fake->now_us, false);
}

static void test_a_process_that_ends_is_lost_soon(void **state) {
    (void)state;
    struct fake *fake = with_pulses();
    controller_broken(&fake->controller, actor_pulse(node(2)));
    controller_dialed(&fake->controller, actor_pulse(node(2)), fake->now_us, true); /* its listener is closed last */
    controller_dialed(&fake->controller, actor_pulse(node(2)), fake->now_us, false);
    assert_int_equal(fake->controller.progress.failures, 0);
    refuse(fake, 2);
    assert_int_equal(fake->controller.progress.failures, 1);
    assert_int_equal(lines_with(fake, "the process of n2 "), 1);
    fake->players[2].there = false;
    expect_good_end(fake, 30);
    fake_close(fake);
}

/* The controller has not noticed that the connection ended. */
static void test_a_suspected_process_is_dialed(void **state) {
    (void)state;
    struct fake *fake = with_pulses();
    pulse(fake, 1, PULSE_SUSPECT, 0, 2);
    pulses_answer(fake, 4, 1U << 2);
    tick(fake, PROBE_US);
    assert_int_equal(fake->dials[2], 1);
    assert_int_equal(fake->dials[1] + fake->dials[3], 0);
    refuse(fake, 2); /* its machine may refuse new connections alone: it has time to answer over the old one */
    assert_int_equal(fake->controller.progress.failures, 0);
    tick(fake, SUSPECT_TICKS * PROBE_US - SUSPECT_REFUSED_US);
    controller_dialed(&fake->controller, actor_pulse(node(2)), fake->now_us, false);
    assert_int_equal(fake->controller.progress.failures, 1);
    assert_int_equal(lines_with(fake, "the process of n2 "), 1);
    fake->players[2].there = false;
    expect_good_end(fake, 30);
    fake_close(fake);
}

/* A firewall that is being reloaded refuses connections to nodes that are well. */
static void test_a_refusal_costs_no_node_that_answers(void **state) {
    (void)state;
    struct fake *fake = with_pulses();
    for (unsigned round = 0; round < 5; round++) {
        controller_broken(&fake->controller, actor_pulse(node(2)));
        controller_dialed(&fake->controller, actor_pulse(node(2)), fake->now_us, false);
        pulse(fake, 2, PULSE_ANSWER, asked(fake, 2), 0);
        refuse(fake, 2);
    }
    assert_int_equal(fake->controller.progress.failures, 0);
    fake_close(fake);
}

/* A pulse that the controller can't reach is dialed rarer and rarer, and the report tells of it once. */
static void test_a_pulse_that_cannot_be_reached(void **state) {
    (void)state;
    struct fake *fake = cluster_new(STAGE_1, 30);
    cluster_open(fake, 1, 3);
    play_to(fake, 5);
    for (unsigned second = 0; second < 100; second++) {
        fake->now_us += 1000 * 1000;
        pulse(fake, 2, PULSE_ANSWER, 0, 0);
        controller_dialed(&fake->controller, actor_pulse(node(2)), fake->now_us, false);
    }
    assert_int_equal(fake->dials[2], 7); /* after 0, 1, 3, 7, 15, 31 and 63 seconds */
    assert_int_equal(lines_with(fake, "\"event\":\"unreachable\""), 1);
    assert_int_equal(fake->controller.progress.failures, 0);
    fake_close(fake);
}

static void test_a_broken_connection_costs_no_node(void **state) {
    (void)state;
    struct fake *fake = with_pulses();
    for (unsigned n = 0; n < 4; n++) {
        controller_broken(&fake->controller, actor_pulse(node(n)));
        controller_dialed(&fake->controller, actor_pulse(node(n)), fake->now_us, true);
    }
    for (unsigned t = 0; t < 10; t++) {
        tick(fake, PROBE_US);
    }
    for (unsigned n = 0; n < 4; n++) {
        pulse(fake, n, PULSE_ANSWER, 0, 0); /* over the new connection: it is asked again */
        pulse(fake, n, PULSE_ANSWER, asked(fake, n), 0);
    }
    expect_good_end(fake, 30);
    assert_int_equal(fake->controller.progress.failures, 0);
    fake_close(fake);
}

/* A launcher may say later that the process has died of a crash signal: a second node with the same crash ends the
 * job. */
static void test_a_crash_that_is_told_late(void **state) {
    (void)state;
    struct fake *fake = with_pulses();
    for (unsigned n = 2; n < 4; n++) {
        assert_int_equal(fake->end.ended, 0);
        controller_broken(&fake->controller, actor_pulse(node(n)));
        refuse(fake, n);
        fake->players[n].there = false;
        char name[8];
        snprintf(name, sizeof name, "n%u", n);
        struct message gone = {.type = MESSAGE_GONE, .gone = {.request = n, .signal = 11}, .frame_count = 1};
        char frame[WIRE_NAME_MAX] = {0};
        snprintf(frame, sizeof frame, "%s", name);
        gone.frames[0] = buffer_copy(frame, sizeof frame);
        controller_receive(&fake->controller, OPERATOR, &gone);
        message_close(&gone);
    }
    assert_true(lines_with(fake, " and then n3 ") > 0);
    assert_true(fake->controller.phase >= PHASE_LEAVE);
    fake_close(fake);
}

/* A node can't have the controller connect to any machine: only to that of its servers. */
static void test_a_pulse_on_another_host_is_not_dialed(void **state) {
    (void)state;
    struct fake *fake = cluster_new(STAGE_1, 30);
    fake->elsewhere = 1U << 2;
    cluster_open(fake, 1, 3);
    play_to(fake, 5);
    for (unsigned second = 0; second < 10; second++) {
        fake->now_us += 1000 * 1000;
        pulse(fake, 2, PULSE_ANSWER, 0, 0);
    }
    controller_broken(&fake->controller, actor_pulse(node(2)));
    assert_int_equal(fake->dials[2], 0);
    assert_int_equal(lines_with(fake, "so the controller does not connect to it"), 1);
    fake_close(fake);
}

enum { THIRD_ITEMS = SHARDS / 3 * SHARD_ITEMS };

/* One reliable and two transient nodes, which have reported clocks up to `clock`. */
static void begin_with_three(struct fake *fake, uint64_t clock) {
    fake->options.transient = 2;
    fake_start(fake);
    join(fake, 0, "one", TIER_RELIABLE, &fake->terms);
    join(fake, 1, "two", TIER_TRANSIENT, &fake->terms);
    join(fake, 2, "three", TIER_TRANSIENT, &fake->terms);
    for (unsigned n = 0; n < 3; n++) {
        heartbeat(fake, n, NODE_LOADED, 0);
        loaded(fake, n, 1, THIRD_ITEMS);
    }
    for (uint64_t c = 1; c <= clock; c++) {
        for (unsigned n = 0; n < 3; n++) {
            progress_as(fake, n, node(n), c, THIRD_ITEMS, 1);
        }
    }
    assert_int_equal(fake->controller.progress.completed, clock);
}

/* FENCED of a node whose only server can put every partition at `clock`. */
static void answer_fence(struct fake *fake, unsigned number, uint64_t begun, uint64_t clock) {
    struct wire_restore_point restore_points[PARTITIONS];
    for (uint32_t p = 0; p < PARTITIONS; p++) {
        restore_points[p] =
            (struct wire_restore_point){.server = actor_of_part(node(number), 1), .partition = p, .clock = clock};
    }
    struct message fenced = {.type = MESSAGE_FENCED, .frame_count = 1, .fenced = {.begun = begun}};
    fenced.frames[0] = buffer_copy(restore_points, clock > 0 ? sizeof restore_points : 0);
    give(fake, number, &fenced);
}

/* ---- Metrics after a failure ---- */

/* Three nodes are at clock 5, which node 1 reports late. Then the third node dies, and the others restore clock 5.
 * `reported`: the third had reported clock 5. */
static struct fake *lose_the_third(struct job_terms terms, bool reported, bool stored) {
    struct fake *fake = fake_new(terms);
    fake->options.store = stored ? &fake->store.store : NULL;
    begin_with_three(fake, 4);
    progress_as(fake, 0, node(0), 5, THIRD_ITEMS, 1);
    if (reported) {
        progress_as(fake, 2, node(2), 5, THIRD_ITEMS, 1);
    }
    ask(fake, OPERATOR, MESSAGE_GONE, "three");
    expect_outcome(fake, OPERATOR, 0, "");
    answer_fence(fake, 1, 5, 0);
    answer_fence(fake, 0, 5, 5);
    assert_int_equal(fake->controller.plan.restore, 5);
    assert_int_equal(fake->controller.progress.completed, 4);
    return fake;
}

/* How many data shards the node is asked to evaluate for clock 5 since the last failure. */
static unsigned asked_to_evaluate(const struct fake *fake, unsigned number) {
    unsigned shards = 0;
    for (unsigned m = 0; m < fake->count; m++) {
        const struct message *message = &fake->sent[m].message;
        if (fake->sent[m].to == node(number) && message->type == MESSAGE_EVALUATE &&
            message->evaluate.origin == origin_catch_up(node(number), fake->controller.plan.epoch)) {
            assert_int_equal(message->evaluate.clock, 5);
            shards = (unsigned)(message->frames[0]->size / sizeof(uint32_t));
        }
    }
    return shards;
}

static void evaluate_all(struct fake *fake, double loss) {
    for (unsigned n = 0; n < 2; n++) {
        if (asked_to_evaluate(fake, n) > 0) {
            evaluation(fake, n, origin_catch_up(node(n), fake->controller.plan.epoch), 5, loss);
        }
    }
}

static void test_what_a_lost_node_had_reported_counts(void **state) {
    (void)state;
    for (int stored = 0; stored < 2; stored++) {
        struct fake *fake =
            lose_the_third((struct job_terms){.clocks_per_iteration = 1, .iterations = 100}, true, stored != 0);
        assert_int_equal(asked_to_evaluate(fake, 0) + asked_to_evaluate(fake, 1), 0);
        if (stored != 0) { /* another controller knows what the third had reported, and hears the others again */
            restart(fake);
            progress_as(fake, 0, node(0), 5, THIRD_ITEMS, 1);
        }
        progress_as(fake, 1, node(1), 5, THIRD_ITEMS, 1);
        assert_int_equal(fake->controller.progress.completed, 5);
        assert_int_equal(lines_with(fake, "\"iteration\":5,"), 1);
        assert_true(fake->controller.progress.objective == 3);
        assert_int_equal(lines_with(fake, "\"partial\""), 0);
        assert_int_equal(fake->controller.progress.items_processed, 5 * SHARDS * SHARD_ITEMS);
        assert_int_equal(fake->controller.progress.items_redone, 0);
        fake_close(fake);
    }
}

/* Nobody knows what the lost node's sums were: the line says of which part the others are. What is evaluated does not
 * depend on it: those who take over are asked until they have done so. */
static void test_what_a_lost_node_had_not_reported_is_said(void **state) {
    (void)state;
    for (int stored = 0; stored < 2; stored++) {
        struct fake *fake =
            lose_the_third((struct job_terms){.clocks_per_iteration = 1, .iterations = 100}, false, stored != 0);
        assert_int_equal(asked_to_evaluate(fake, 0) + asked_to_evaluate(fake, 1), SHARDS / 3);
        if (stored != 0) {
            restart(fake);
            progress_as(fake, 0, node(0), 5, THIRD_ITEMS, 1);
        }
        progress_as(fake, 1, node(1), 5, THIRD_ITEMS, 1);
        assert_int_equal(fake->controller.progress.completed, 4);
        forget(fake);
        heartbeat(fake, 0, NODE_STARTED, 5);
        heartbeat(fake, 1, NODE_STARTED, 5);
        assert_int_equal(asked_to_evaluate(fake, 0) + asked_to_evaluate(fake, 1), SHARDS / 3); /* again */
        evaluation(fake, 0, origin_catch_up(node(0), 7), 5, 100); /* nobody asked for this one */
        assert_int_equal(fake->controller.progress.completed, 4);
        double takers = (asked_to_evaluate(fake, 0) > 0 ? 1 : 0) + (asked_to_evaluate(fake, 1) > 0 ? 1 : 0);
        evaluate_all(fake, 0.25);
        assert_int_equal(fake->controller.progress.completed, 5);
        assert_true(fake->controller.progress.objective == 2 + 0.25 * takers);
        assert_int_equal(lines_with(fake, "\"items\":80,"), 1);
        assert_int_equal(lines_with(fake, "\"partial\":0.66666666"), 1);
        assert_int_equal(fake->controller.progress.items_processed, 5 * SHARDS * SHARD_ITEMS); /* all were worked on */
        for (unsigned n = 0; n < 2; n++) {
            progress_as(fake, n, node(n), 6, SHARDS / 2 * SHARD_ITEMS, 1);
        }
        assert_int_equal(lines_with(fake, "\"iteration\":6,"), 1);
        assert_int_equal(lines_with(fake, "\"partial\""), 1);
        fake_close(fake);
    }
}

/* The node that was to evaluate in a lost node's place is lost too: before it did, afterwards, or so that clock 5 is
 * done again. */
static void test_an_evaluation_in_place_of_another_is_lost_too(void **state) {
    (void)state;
    enum { BEFORE, AFTER, UNDONE, CASES };
    for (int c = 0; c < CASES; c++) {
        struct fake *fake =
            lose_the_third((struct job_terms){.clocks_per_iteration = 1, .iterations = 100}, false, false);
        unsigned shards = asked_to_evaluate(fake, 1);
        assert_true(shards > 0);
        progress_as(fake, 1, node(1), 5, THIRD_ITEMS, 1);
        if (c != BEFORE) {
            evaluation(fake, 1, origin_catch_up(node(1), 2), 5, 0.25);
        }
        assert_int_equal(fake->controller.progress.completed, 4);
        forget(fake);
        ask(fake, OPERATOR, MESSAGE_GONE, "two");
        expect_outcome(fake, OPERATOR, 0, "");
        answer_fence(fake, 0, 5, c == UNDONE ? 4 : 5);
        struct message plan = {0};
        if (c == UNDONE) { /* with all that the lost ones did in it */
            assert_int_equal(asked_to_evaluate(fake, 0), 0);
            assert_true(sent(fake, node(0), MESSAGE_PLAN, &plan) > 0);
            uint64_t items = assignment_items(&plan, origin_catch_up(node(0), 3), 5);
            assert_int_equal(items, 2 * THIRD_ITEMS);
            progress_as(fake, 0, origin_catch_up(node(0), 3), 5, items, 0.5);
            assert_int_equal(fake->controller.progress.completed, 5);
            assert_true(fake->controller.progress.objective == 1 + 0.5);
            assert_int_equal(lines_with(fake, "\"partial\""), 0);
        } else {
            unsigned mine = asked_to_evaluate(fake, 0);
            assert_int_equal(mine, c == BEFORE ? shards : 0);
            if (mine > 0) {
                evaluation(fake, 0, origin_catch_up(node(0), 3), 5, 0.75);
            }
            evaluation(fake, 0, origin_catch_up(node(0), 2), 5, 0.5); /* of the first failure */
            assert_int_equal(fake->controller.progress.completed, 5);
            double first = shards < SHARDS / 3 ? 0.5 : 0;
            assert_true(fake->controller.progress.objective == 2 + first + (c == BEFORE ? 0.75 : 0.25));
            assert_int_equal(lines_with(fake, "\"partial\":0.66666666"), 1);
        }
        assert_int_equal(fake->controller.progress.items_processed, 5 * SHARDS * SHARD_ITEMS);
        fake_close(fake);
    }
}

/* Metrics of a part of the items do not count for --tolerance. */
static void test_partial_objectives_are_not_compared(void **state) {
    (void)state;
    struct fake *fake = lose_the_third(
        (struct job_terms){.clocks_per_iteration = 1, .iterations = 100, .tolerance = 0.4, .tolerance_iterations = 4},
        false, false);
    assert_int_equal(fake->controller.progress.calm, 3); /* iterations 2 to 4 */
    progress_as(fake, 1, node(1), 5, THIRD_ITEMS, 1);
    evaluate_all(fake, 0.5);
    assert_int_equal(fake->controller.progress.completed, 5); /* objective 3 or 2.5, after 3 */
    assert_int_equal(fake->controller.progress.calm, 3);
    assert_false(fake->controller.job.stopping);
    progress_as(fake, 0, node(0), 6, SHARDS / 2 * SHARD_ITEMS, 1.5);
    progress_as(fake, 1, node(1), 6, SHARDS / 2 * SHARD_ITEMS, 1.5);
    assert_int_equal(fake->controller.progress.calm, 4);
    assert_int_equal(fake->controller.job.final, 100);
    assert_true(fake->controller.barrier.purpose == BARRIER_STOP);
    fake_close(fake);
}

/* Evaluations from before the clock was known to be the last one do not complete it. */
static void test_the_last_clock_is_evaluated_as_the_last(void **state) {
    (void)state;
    struct fake *fake = fake_open((struct job_terms){.clocks_per_iteration = 1, .iterations = 2});
    begin(fake);
    progress(fake, 0, 1);
    progress(fake, 1, 1);
    struct message_progress told = {.origin = node(0), .clock = 2, .items = SHARDS / 2 * SHARD_ITEMS};
    struct message_progress again = {.origin = node(0), .clock = 2, .evaluation = 1, .last = 1};
    progress_told(fake, 0, &again, 7); /* overtakes the PROGRESS that was sent before it */
    progress_told(fake, 0, &told, 5);
    progress(fake, 1, 2);
    assert_int_equal(fake->controller.progress.completed, 1);
    progress_told(fake, 0, &again, 7);
    assert_int_equal(fake->controller.progress.completed, 2);
    assert_true(fake->controller.progress.objective == 7 + 1);
    assert_int_equal(fake->controller.progress.items_processed, 2 * SHARDS * SHARD_ITEMS);
    fake_close(fake);
}

/* Two of three nodes are at clock 7 when the third dies, which had reported 6 and begun 7. */
static void test_recovery_step_by_step(void **state) {
    (void)state;
    struct fake *fake = fake_new((struct job_terms){.staleness = 2, .clocks_per_iteration = 1, .iterations = 100});
    struct message message;
    begin_with_three(fake, 4);
    for (uint64_t c = 5; c <= 6; c++) {
        progress_as(fake, 0, node(0), c, THIRD_ITEMS, 1);
        progress_as(fake, 2, node(2), c, THIRD_ITEMS, 1);
    }
    progress_as(fake, 1, node(1), 6, THIRD_ITEMS, 1); /* 5 is late */
    assert_int_equal(fake->controller.progress.completed, 4);
    heartbeat(fake, 2, NODE_STARTED, 7);
    forget(fake);
    ask(fake, OPERATOR, MESSAGE_GONE, "three");
    expect_outcome(fake, OPERATOR, 0, "");
    assert_int_equal(fake->controller.change.state, CHANGE_RECOVER);
    assert_int_equal(fake->controller.plan.epoch, 2);
    tick(fake, HEARTBEAT_MS * UINT64_C(1000)); /* again, until they answer */
    for (unsigned n = 0; n < 2; n++) {
        assert_true(sent(fake, node(n), MESSAGE_FENCE, &message) > 0);
        assert_int_equal(message.epoch, 2);
    }
    /* All of partition 0 can be put at 5 and 6, but partition 3 only at 5. */
    struct wire_restore_point restore_points[2 * PARTITIONS];
    unsigned count = 0;
    for (uint32_t p = 0; p < PARTITIONS; p++) {
        actor_id server = actor_of_part(node(0), 1);
        restore_points[count++] = (struct wire_restore_point){.server = server, .partition = p, .clock = 5};
        if (p < 3) {
            restore_points[count++] = (struct wire_restore_point){.server = server, .partition = p, .clock = 6};
        }
    }
    struct message fenced = {.type = MESSAGE_FENCED, .frame_count = 1, .fenced = {.begun = 8, .committed = 4}};
    fenced.frames[0] = buffer_copy(restore_points, 0);
    give(fake, 1, &fenced);
    assert_int_equal(sent(fake, node(0), MESSAGE_PLAN, NULL), 0);
    struct message old = {.type = MESSAGE_FENCED, .frame_count = 1, .fenced = {.begun = 7, .committed = 4}};
    old.frames[0] = buffer_copy(restore_points, count * sizeof restore_points[0]);
    give_as(fake, 0, 1, &old); /* of another epoch */
    assert_int_equal(sent(fake, node(0), MESSAGE_PLAN, NULL), 0);
    struct message last = {.type = MESSAGE_FENCED, .frame_count = 1, .fenced = {.begun = 7, .committed = 4}};
    last.frames[0] = buffer_copy(restore_points, count * sizeof restore_points[0]);
    give(fake, 0, &last);
    assert_true(sent(fake, node(0), MESSAGE_PLAN, &message) > 0);
    assert_int_equal(message.epoch, 2);
    assert_int_equal(message.plan.restore, 5);
    assert_true(fake->controller.change.state == CHANGE_NONE || fake->controller.change.state == CHANGE_PREPARE);
    for (uint64_t c = 6; c <= 9; c++) { /* the dead node's shards in 6, 7, 8 are catch-up, from 9 on the others' own */
        uint64_t late = assignment_items(&message, origin_catch_up(node(0), 2), c) +
                        assignment_items(&message, origin_catch_up(node(1), 2), c);
        uint64_t own = assignment_items(&message, node(0), c) + assignment_items(&message, node(1), c);
        assert_int_equal(late, c <= 8 ? SHARDS / 3 * SHARD_ITEMS : 0);
        assert_int_equal(late + own, SHARDS * SHARD_ITEMS);
    }
    /* Clock 5 was restored with what the dead node had flushed, and reported; 6 is done again. */
    progress_as(fake, 1, node(1), 5, THIRD_ITEMS, 1);
    assert_int_equal(fake->controller.progress.completed, 5);
    assert_int_equal(fake->controller.progress.items_processed, 5 * SHARDS * SHARD_ITEMS);
    for (uint64_t c = 6; c <= 8; c++) {
        for (unsigned n = 0; n < 2; n++) {
            actor_id late = origin_catch_up(node(n), 2);
            if (assignment_items(&message, late, c) > 0) {
                progress_as(fake, n, late, c, assignment_items(&message, late, c), 1);
                progress_as(fake, n, late, c, assignment_items(&message, late, c), 1); /* a repeat */
            }
            if (c > 6) {
                progress_as(fake, n, node(n), c, SHARDS / 3 * SHARD_ITEMS, 1);
            }
        }
    }
    assert_int_equal(fake->controller.progress.completed, 8);
    assert_int_equal(lines_with(fake, "\"items\":120,"), 8);
    assert_int_equal(fake->controller.progress.items_redone, 2 * SHARDS / 3 * SHARD_ITEMS); /* 6 and 7 */
    forget(fake);
    join(fake, 3, "four", TIER_TRANSIENT, &fake->terms); /* what START tells has not changed */
    heartbeat(fake, 3, NODE_LOADED, 0);
    assert_int_equal(sent(fake, node(3), MESSAGE_START, &message), 1);
    assert_int_equal(message.start.items, SHARDS * SHARD_ITEMS);
    fake_close(fake);
}

static void test_a_second_failure_while_fenced(void **state) {
    (void)state;
    struct fake *fake = cluster_new(STAGE_2, 20);
    cluster_open(fake, 1, 4);
    play_to(fake, 11);
    fake->players[1].there = false;
    ask(fake, OPERATOR, MESSAGE_GONE, "n1");
    assert_int_equal(fake->controller.plan.epoch, 2);
    fake->players[3].there = false; /* before it has answered */
    play_rounds(fake, 10);
    assert_int_equal(fake->controller.change.state, CHANGE_RECOVER);
    play_to(fake, 30);
    assert_int_equal(fake->controller.plan.epoch, 3);
    assert_int_equal(fake->controller.progress.failures, 2);
    assert_int_equal(fake->players[2].fences, 2);
    expect_good_end(fake, 20);
    fake_close(fake);
}

/* A node that gets ready for its first part may have copies already. A controller that is started again knows of no
 * plan that the node has, but asks it: in stage transient the recovery keeps what copies there are. */
static void test_a_new_node_is_fenced_by_a_restarted_controller(void **state) {
    (void)state;
    struct fake *fake = stored_cluster(STAGE_TRANSIENT, 40);
    cluster_open(fake, 0, 3);
    play_to(fake, 5);
    enter(fake, 3, TIER_TRANSIENT);
    fake->players[2].stopped = true; /* so the change takes no effect yet */
    for (unsigned r = 0; fake->controller.change.state != CHANGE_PREPARE; r++) {
        assert_true(r < ROUNDS_MAX);
        play(fake);
    }
    fake->players[2].stopped = false;
    restart(fake);
    forget(fake);
    fake->players[1].there = false;
    ask(fake, OPERATOR, MESSAGE_GONE, "n1");
    assert_int_equal(fake->controller.change.state, CHANGE_RECOVER);
    assert_true(sent(fake, node(3), MESSAGE_FENCE, NULL) > 0);
    expect_good_end(fake, 40);
    fake_close(fake);
}

/* Loses players first..last at once. */
static void lose(struct fake *fake, unsigned first, unsigned last) {
    for (unsigned n = first; n <= last; n++) {
        fake->players[n].there = false;
    }
    for (unsigned n = first; n <= last; n++) {
        ask(fake, OPERATOR, MESSAGE_GONE, player_names[n]);
    }
}

/* Stage transient: both copies of partitions are lost, and those that are left have them in their caches. */
static void test_lost_partitions_come_from_caches(void **state) {
    (void)state;
    struct fake *fake = stored_cluster(STAGE_TRANSIENT, 40);
    cluster_open(fake, 0, 5);
    play_to(fake, 9);
    fake->players[3].caches = fake->players[4].caches = true;
    uint64_t clock = fake->clock;
    lose(fake, 0, 2);
    play_recovery(fake);
    assert_int_equal(fake->controller.plan.restore, clock);
    assert_true(fake->controller.recovery.cached > 0);
    assert_int_equal(lines_with(fake, "\"partitions_from_caches\""), 1);
    assert_int_equal(lines_with(fake, "out of workers' caches, as all copies were lost"), 1);
    unsigned served[2] = {0};
    for (uint32_t p = 0; p < PARTITIONS; p++) {
        const struct wire_placement *place = &fake->controller.plan.placement[p];
        served[0] += actor_node(place->server) == node(3) ? 1 : 0;
        served[1] += actor_node(place->server) == node(4) ? 1 : 0;
        assert_true(actor_node(place->backup) != actor_node(place->server));
    }
    assert_int_equal(served[0] + served[1], PARTITIONS);
    assert_true(served[0] > 0 && served[1] > 0);
    expect_good_end(fake, 40);
    fake_close(fake);
}

/* One is left, and has no copy of some partitions: it goes on with what its cache has. */
static void test_one_is_left_with_a_cache(void **state) {
    (void)state;
    struct fake *fake = cluster_new(STAGE_TRANSIENT, 40);
    cluster_open(fake, 0, 6);
    play_to(fake, 9);
    fake->players[5].caches = true;
    lose(fake, 0, 4);
    expect_good_end(fake, 40);
    assert_int_equal(lines_with(fake, "\"partitions_from_caches\""), 1);
    fake_close(fake);
}

/* What caches have is of no use where it is older than what was committed; and where the job has reliable machines,
 * nobody has been asked to keep it. */
static void test_what_caches_can_not_replace(void **state) {
    (void)state;
    const struct {
        enum stage stage;
        bool caches;
        uint64_t behind;
        const char *error;
    } cases[] = {{STAGE_TRANSIENT, false, 0, "were lost with their nodes, and no node's cache has it"},
                 {STAGE_TRANSIENT, true, 1, "were lost with their nodes, and nodes' caches have it only up to clock"},
                 {STAGE_2, true, 0, "the only copy of partition"}};
    for (unsigned c = 0; c < sizeof cases / sizeof *cases; c++) {
        struct fake *fake = cluster_new(cases[c].stage, 40);
        cluster_open(fake, cases[c].stage == STAGE_2 ? 1 : 0, cases[c].stage == STAGE_2 ? 4 : 5);
        play_to(fake, 9);
        fake->controller.commit.clock = fake->clock;
        fake->players[4].caches = cases[c].caches;
        fake->players[4].behind = cases[c].behind;
        lose(fake, 0, 3);
        play_to_end(fake);
        assert_int_equal(fake->end.code, AML_EFAIL);
        assert_non_null(strstr(fake->end.text, cases[c].error));
        fake_close(fake);
    }
}

/* Copies are used before caches, and nobody takes part who has none of both. */
static void test_copies_go_before_caches(void **state) {
    (void)state;
    struct fake *fake = cluster_new(STAGE_TRANSIENT, 40);
    cluster_open(fake, 0, 4);
    play_to(fake, 9);
    for (unsigned n = 1; n < 4; n++) {
        fake->players[n].caches = true;
    }
    lose(fake, 0, 0);
    expect_good_end(fake, 40);
    assert_int_equal(lines_with(fake, "\"event\":\"recover\""), 1);
    assert_int_equal(lines_with(fake, "\"partitions_from_caches\""), 0);
    fake_close(fake);
}

/* Whether the node serves or follows a partition. */
static bool has_partitions(const struct fake *fake, unsigned number) {
    for (uint32_t p = 0; p < PARTITIONS; p++) {
        const struct wire_placement *place = &fake->controller.plan.placement[p];
        if (actor_node(place->server) == node(number) || actor_node(place->backup) == node(number)) {
            return true;
        }
    }
    return false;
}

/* A node that has to go gets no copies by a recovery, whatever its cache has, and even if it is the only one of another
 * group. */
static void test_a_cache_makes_nobody_a_follower(void **state) {
    (void)state;
    enum { NODES = 2 * PARTITIONS + 1 }; /* so one at least has nothing */
    struct fake *fake = cluster_new(STAGE_TRANSIENT, 40);
    cluster_open(fake, 0, NODES);
    play_to(fake, 9);
    unsigned idle = 0;
    while (idle < NODES && has_partitions(fake, idle)) {
        idle++;
    }
    assert_true(idle < NODES);
    unsigned lost = 0;
    while (lost < NODES && !has_partitions(fake, lost)) {
        lost++;
    }
    assert_true(lost < NODES);
    fake->players[idle].caches = true;
    fake->controller.members[idle].node.group = fake->controller.members[lost].node.group + 1;
    ask(fake, OPERATOR, MESSAGE_EVICT, player_names[idle]);
    expect_outcome(fake, OPERATOR, 0, "");
    lose(fake, lost, lost);
    play_recovery(fake);
    assert_false(has_partitions(fake, idle));
    expect_good_end(fake, 40);
    fake_close(fake);
}

/* One failure after another, each recovered from before the next. */
static void test_catch_ups_are_taken_over(void **state) {
    (void)state;
    struct fake *fake = cluster_new(STAGE_1, 20);
    cluster_open(fake, 1, 4);
    play_to(fake, 11);
    for (unsigned n = 4; n > 1; n--) {
        fake->players[n].there = false;
        ask(fake, OPERATOR, MESSAGE_GONE, player_names[n]);
        deliver(fake);
        play_recovery(fake);
    }
    assert_int_equal(fake->controller.plan.epoch, 4);
    expect_good_end(fake, 20);
    fake_close(fake);
}

/* Stage 3: all workers at once, before some of what they did was reported. The reliable node goes on alone. */
static void test_all_transient_nodes_die(void **state) {
    (void)state;
    static const uint64_t lost[] = {0, WIRE_CLOCK_NEVER};
    for (unsigned l = 0; l < 2; l++) {
        struct fake *fake = cluster_new(STAGE_3, 20);
        cluster_open(fake, 1, 3);
        play_to(fake, 11);
        for (unsigned n = 1; n <= 3; n++) {
            fake->players[n].lost_until = lost[l];
        }
        play_to(fake, 13);
        for (unsigned n = 1; n <= 3; n++) {
            fake->players[n].there = false;
        }
        play_to_end(fake);
        assert_int_equal(fake->end.code, 0);
        assert_int_equal(fake->clock, 40);
        assert_int_equal(fake->controller.progress.failures, 3);
        expect_report(fake, 20, l == 0);
        fake_close(fake);
    }
}

static void test_the_only_replica_is_lost(void **state) {
    (void)state;
    static const char *const checkpoints[] = {NULL, "/nowhere/checkpoints"};
    for (unsigned c = 0; c < 2; c++) {
        struct fake *fake = cluster_new(STAGE_1, 20);
        fake->options.checkpoint = checkpoints[c];
        fake->options.checkpoint_every = 1000;
        cluster_open(fake, 1, 2);
        play_to(fake, 5);
        fake->players[0].there = false;
        play_to_end(fake);
        assert_int_equal(fake->end.code, AML_EFAIL);
        assert_non_null(strstr(fake->end.text, "the only copy of partition 0 was lost"));
        assert_true((strstr(fake->end.text, "--resume /nowhere/checkpoints") != NULL) == (c == 1));
        assert_int_equal(fake->players[1].aborted, AML_EFAIL);
        fake_close(fake);
    }
}

/* Those that are left can serve and not work; one that has come and has no part yet can. */
static void test_a_newcomer_works_when_all_workers_are_lost(void **state) {
    (void)state;
    struct fake *fake = cluster_new(STAGE_1, 20);
    fake->threadless = 1 << 0;
    cluster_open(fake, 1, 1);
    play_to(fake, 5);
    enter(fake, 2, TIER_RELIABLE);
    play(fake);
    assert_int_equal(fake->controller.member_count, 3);
    assert_false(fake->controller.members[2].settled);
    fake->players[1].there = false;
    ask(fake, OPERATOR, MESSAGE_GONE, "n1");
    expect_good_end(fake, 20);
    assert_int_equal(fake->controller.progress.failures, 1);
    fake_close(fake);
}

static void test_all_nodes_are_lost(void **state) {
    (void)state;
    struct fake *fake = cluster_new(STAGE_1, 20);
    cluster_open(fake, 1, 2);
    play_to(fake, 5);
    for (unsigned n = 0; n < 3; n++) {
        fake->players[n].there = false;
    }
    play_to_end(fake);
    assert_int_equal(fake->end.code, AML_EFAIL);
    assert_non_null(strstr(fake->end.text, "the only copy of partition 0 was lost"));
    fake_close(fake);
}

/* A node that was declared dead and wakes up is void; it may come again as another. */
static void test_the_dead_rejoin(void **state) {
    (void)state;
    struct fake *fake = cluster_new(STAGE_1, 40);
    cluster_open(fake, 1, 2);
    play_to(fake, 5);
    fake->players[2].stopped = true;
    play_to(fake, 9);
    assert_int_equal(fake->controller.progress.failures, 1);
    fake->players[2].stopped = false;
    play(fake);
    assert_true(fake->players[2].rejoin);
    enter(fake, 5, TIER_TRANSIENT);
    play_to(fake, 60);
    assert_true(assignment_items(&fake->newest, node(5), fake->clock + 1) > 0);
    expect_good_end(fake, 40);
    fake_close(fake);
}

/* Where a plan has one node nobody can go back, but where caches may have copies. */
static void test_a_node_alone_keeps_nothing_to_go_back(void **state) {
    (void)state;
    static const struct {
        enum stage stage;
        unsigned reliable;
        bool alone, both; /* whether the job is recoverable */
    } cases[] = {{STAGE_1, 1, false, true},
                 {STAGE_AUTO, 1, false, true},
                 {STAGE_TRADITIONAL, 1, false, false},
                 {STAGE_TRANSIENT, 0, true, true}};
    for (unsigned c = 0; c < sizeof cases / sizeof cases[0]; c++) {
        struct fake *fake = cluster_new(cases[c].stage, 60);
        cluster_open(fake, cases[c].reliable, 1 - cases[c].reliable);
        play_to(fake, 5);
        assert_int_equal(fake->newest.plan.recoverable, cases[c].alone);
        enter(fake, 1, TIER_TRANSIENT);
        play_to(fake, 30);
        assert_true(assignment_items(&fake->newest, node(1), fake->clock + 1) > 0);
        assert_int_equal(fake->newest.plan.recoverable, cases[c].both);
        fake->players[1].stopped = cases[c].both;
        play_to(fake, 40);
        assert_int_equal(fake->controller.progress.failures, cases[c].both);
        assert_int_equal(fake->newest.plan.recoverable, cases[c].both && cases[c].alone);
        expect_good_end(fake, 60);
        fake_close(fake);
    }
}

/* A server that others can't reach, though the controller can. */
static void test_accusations(void **state) {
    (void)state;
    static const struct {
        unsigned accusers, accused, victim;
    } cases[] = {{1 << 3 | 1 << 0, 1, 1}, {1 << 0, 1, 1}, {1 << 3, 0, 3}, {1 << 3, 1, 3}};
    for (unsigned c = 0; c < sizeof cases / sizeof cases[0]; c++) {
        struct fake *fake = cluster_new(STAGE_2, 200);
        cluster_open(fake, 1, 3);
        play_to(fake, 5);
        for (unsigned n = 0; n < 4; n++) {
            fake->players[n].accuses = (cases[c].accusers >> n & 1) != 0 ? node(cases[c].accused) : ACTOR_NONE;
        }
        play_rounds(fake, 1);
        for (unsigned r = 0; !fake->players[cases[c].victim].rejoin; r++) {
            assert_true(r < ROUNDS_MAX);
            play(fake);
            for (unsigned n = 0; n < 4; n++) { /* whoever is fenced starts its waiting anew */
                fake->players[n].accuses = fake->players[n].fences > 0 ? ACTOR_NONE : fake->players[n].accuses;
            }
        }
        assert_int_equal(fake->controller.progress.failures, 1);
        assert_int_equal(lines_with(fake, "can't reach"), 1);
        expect_good_end(fake, 200);
        fake_close(fake);
    }
}

/* A reliable node may have the only copy of something: it has as long to answer others as to answer the controller. */
static void test_a_reliable_node_is_given_up_late(void **state) {
    enum { LATE_MS = TIMEOUT_MS + TIMEOUT_MS / 4 };
    (void)state;
    struct fake *fake = cluster_new(STAGE_2, 350);
    fake->options.answer_ms = LATE_MS;
    cluster_open(fake, 2, 2);
    play_to(fake, 5);
    fake->players[0].accuses = node(1);
    play_rounds(fake, LATE_MS * 1000 / ROUND_US - 2);
    assert_int_equal(fake->controller.progress.failures, 0);
    fake->players[0].accuses = ACTOR_NONE;
    play_rounds(fake, 2); /* it has answered */
    fake->players[0].accuses = node(1);
    for (unsigned r = 0; !fake->players[1].rejoin; r++) {
        assert_true(r < ROUNDS_MAX);
        play(fake);
        fake->players[0].accuses = fake->players[0].fences > 0 ? ACTOR_NONE : fake->players[0].accuses;
    }
    assert_int_equal(fake->controller.progress.failures, 1);
    expect_good_end(fake, 350);
    fake_close(fake);
}

/* An accused node that the controller does not hear either is given up for its silence; its accuser stays. */
static void test_who_accuses_a_dead_node_is_well(void **state) {
    (void)state;
    struct fake *fake = cluster_new(STAGE_2, 200);
    cluster_open(fake, 1, 3);
    play_to(fake, 5);
    fake->players[1].stopped = true;
    fake->players[3].accuses = node(1);
    for (unsigned r = 0; fake->controller.progress.failures == 0; r++) {
        assert_true(r < ROUNDS_MAX);
        play(fake);
    }
    fake->players[3].accuses = ACTOR_NONE;
    assert_int_equal(lines_with(fake, "no heartbeat for"), 1);
    assert_int_equal(lines_with(fake, "can't reach"), 0);
    assert_false(fake->players[3].rejoin);
    expect_good_end(fake, 200);
    fake_close(fake);
}

/* What a node said of another before both were fenced is settled. */
static void test_old_accusations_are_void(void **state) {
    (void)state;
    struct fake *fake = cluster_new(STAGE_1, 20);
    cluster_open(fake, 1, 3);
    play_to(fake, 5);
    fake->players[3].there = false;
    ask(fake, OPERATOR, MESSAGE_GONE, "n3");
    play_to(fake, 9);
    struct message beat = {.type = MESSAGE_HEARTBEAT, .heartbeat = {.state = NODE_STARTED, .silent = node(2)}};
    give_as(fake, 1, 1, &beat);
    tick(fake, ROUND_US);
    assert_int_equal(fake->controller.progress.failures, 1);
    expect_good_end(fake, 20);
    fake_close(fake);
}

/* Nor is it a failure when who was dismissed is not there, or has nobody left to talk to. */
static void test_who_was_dismissed_is_not_accused(void **state) {
    (void)state;
    struct fake *fake = cluster_new(STAGE_2, 60);
    cluster_open(fake, 1, 3);
    play_to(fake, 5);
    ask(fake, OPERATOR, MESSAGE_EVICT, "n1");
    for (unsigned r = 0; fake->controller.change.state != CHANGE_SWITCH; r++) {
        assert_true(r < ROUNDS_MAX);
        play(fake);
    }
    play_to(fake, fake->controller.plan.from_clock - 1);
    fake->players[1].stopped = true; /* DONE does not arrive */
    play_rounds(fake, 4);
    assert_int_equal(fake->controller.member_count, 4);
    assert_int_equal(fake->controller.members[1].stay, MEMBER_DISMISSED);
    fake->players[3].accuses = node(1);
    struct message beat = {.type = MESSAGE_HEARTBEAT, .heartbeat = {.state = NODE_STARTED, .silent = node(0)}};
    give_as(fake, 1, 1, &beat);
    play_rounds(fake, TIMEOUT_MS * 1000 / ROUND_US);
    fake->players[3].accuses = ACTOR_NONE;
    expect_good_end(fake, 60);
    assert_int_equal(fake->controller.progress.failures, 0);
    assert_int_equal(fake->controller.progress.evictions, 1);
    fake_close(fake);
}

/* Whether the PLAN that all nodes go by names this one or its servers. */
static bool plan_has(const struct fake *fake, unsigned number) {
    const struct plan_view *plan = &fake->controller.plan.view;
    actor_id other = node(number);
    bool named = false;
    for (unsigned m = 0; m < fake->controller.member_count; m++) {
        assert_int_equal(fake->controller.members[m].goes_by.version, plan->terms.version);
    }
    for (size_t n = 0; n < plan->node_count; n++) {
        named = named || plan->nodes[n].actor == other;
    }
    for (size_t e = 0; e < plan->endpoint_count; e++) {
        named = named || actor_node(plan->endpoints[e].actor) == other;
    }
    return named;
}

/* Else the others would try for ever to connect to it. */
static void test_no_plan_names_who_has_left(void **state) {
    (void)state;
    struct fake *fake = cluster_new(STAGE_2, 60);
    cluster_open(fake, 1, 3);
    play_to(fake, 5);
    assert_true(plan_has(fake, 1));
    ask(fake, OPERATOR, MESSAGE_EVICT, "n1");
    for (unsigned r = 0; fake->controller.progress.evictions == 0; r++) {
        assert_true(r < ROUNDS_MAX);
        play(fake);
    }
    play_rounds(fake, 2);
    assert_false(plan_has(fake, 1));
    assert_true(plan_has(fake, 2));
    expect_good_end(fake, 60);
    fake_close(fake);
}

/* ---- What operators ask for ---- */

/* ---- Feeders ---- */

static void accuse(struct fake *fake, unsigned accuser, unsigned accused, uint64_t epoch) {
    struct message message = {.type = MESSAGE_ACCUSE, .accuse = {.accused = node(accused), .text = "FLUSH: bad rows"}};
    give_as(fake, accuser, epoch, &message);
}

/* The node's process has ended by a signal, without CRASHED: only GONE has the signal. */
static void die(struct fake *fake, unsigned number, unsigned signal) {
    char name[WIRE_NAME_MAX] = {0};
    struct message gone = {.type = MESSAGE_GONE, .gone = {.request = 17, .signal = signal}, .frame_count = 1};
    snprintf(name, sizeof name, "%s", player_names[number]);
    gone.frames[0] = buffer_copy(name, sizeof name);
    fake->players[number].there = false;
    give(fake, OPERATOR, &gone);
}

/* Whether the newest plan names the node, with the endpoint of its server. */
static bool is_named(const struct fake *fake, unsigned number) {
    struct plan_view plan = plan_open(&fake->newest);
    bool named = false;
    for (size_t n = 0; n < plan.node_count; n++) {
        named = named || plan.nodes[n].actor == node(number);
    }
    assert_true((plan_endpoint(&plan, actor_of_part(node(number), 1)) != NULL) == named);
    plan_close(&plan);
    return named;
}

/* The newest plan names the feeder, and has nothing for it to do. */
static void expect_feeder(const struct fake *fake, unsigned number) {
    struct plan_view plan = plan_open(&fake->newest);
    assert_true(is_named(fake, number));
    for (size_t n = 0; n < plan.node_count; n++) {
        assert_true(plan.nodes[n].actor != node(number) || plan.nodes[n].tier == TIER_FEEDER);
    }
    for (uint32_t p = 0; p < PARTITIONS; p++) {
        assert_false(placement_names_node(&plan.placement[p], node(number)));
    }
    for (size_t a = 0; a < plan.assignment_count; a++) {
        assert_true(actor_node(plan.assignments[a].origin) != node(number));
    }
    plan_close(&plan);
}

/* The job begins without its feeders, and no clock waits for one that comes: it is named by a plan that is otherwise
 * the same. */
static void test_feeders_are_not_waited_for(void **state) {
    (void)state;
    static const enum stage stages[] = {STAGE_1, STAGE_2, STAGE_3, STAGE_TRADITIONAL};
    for (unsigned s = 0; s < 4; s++) {
        struct fake *fake = cluster_new(stages[s], 40);
        enter(fake, 3, TIER_FEEDER);
        cluster_open(fake, 1, 2);
        play_to(fake, 5);
        expect_feeder(fake, 3);
        uint64_t version = fake->newest.plan.version;
        uint64_t barrier = fake->controller.barrier.number;
        enter(fake, 4, TIER_FEEDER);
        play_rounds(fake, 10);
        expect_feeder(fake, 4);
        assert_int_equal(fake->newest.plan.version, version + 1);
        assert_int_equal(fake->controller.barrier.number, barrier);
        assert_int_equal(fake->newest.plan.from_clock, 0);
        assert_int_equal(lines_with(fake, "\"tier\":\"feeder\""), 2);
        play_rounds(fake, 10);
        assert_int_equal(fake->newest.plan.version, version + 1); /* once */
        expect_good_end(fake, 40);
        assert_true(lines_with(fake, "\"feeders\":2") > 0);
        assert_int_equal(fake->saves.saver_count, 1);
        assert_int_equal(fake->saves.savers[0], 0);
        fake_close(fake);
    }
}

/* Feeders die, all at once, and one is evicted: no epoch ends, and nothing is done again. */
static void test_the_loss_of_feeders_needs_no_recovery(void **state) {
    (void)state;
    static const enum stage stages[] = {STAGE_1, STAGE_3, STAGE_TRADITIONAL};
    for (unsigned s = 0; s < 3; s++) {
        struct fake *fake = cluster_new(stages[s], 400);
        enter(fake, 3, TIER_FEEDER);
        enter(fake, 4, TIER_FEEDER);
        enter(fake, 5, TIER_FEEDER);
        cluster_open(fake, 1, 2);
        play_to(fake, 5);
        ask(fake, OPERATOR, MESSAGE_EVICT, "n5");
        expect_outcome(fake, OPERATOR, 0, "");
        play_rounds(fake, 5);
        assert_true(fake->players[5].done);
        assert_int_equal(fake->controller.progress.evictions, 1);
        fake->players[3].there = fake->players[4].there = false;
        for (unsigned r = 0; fake->controller.member_count > 3; r++) {
            assert_true(r < ROUNDS_MAX);
            play(fake);
        }
        play_rounds(fake, 5);
        assert_false(is_named(fake, 3) || is_named(fake, 4) || is_named(fake, 5));
        assert_int_equal(fake->controller.progress.failures, 2);
        assert_int_equal(fake->controller.plan.epoch, 1);
        assert_int_equal(fake->players[0].fences, 0);
        expect_good_end(fake, 400);
        assert_int_equal(fake->controller.progress.items_redone, 0);
        fake_close(fake);
    }
}

/* A feeder that hangs holds up neither a change of plan nor a recovery. */
static void test_a_feeder_that_hangs_holds_up_nothing(void **state) {
    (void)state;
    struct fake *fake = cluster_new(STAGE_1, 400);
    enter(fake, 3, TIER_FEEDER);
    cluster_open(fake, 1, 2);
    play_to(fake, 5);
    fake->players[3].stopped = true;
    uint64_t stopped_us = fake->now_us;
    enter(fake, 4, TIER_TRANSIENT);
    for (unsigned r = 0; assignment_items(&fake->newest, node(4), fake->clock) == 0; r++) {
        assert_true(r < ROUNDS_MAX);
        play(fake);
    }
    die(fake, 2, 0);
    for (unsigned r = 0; fake->controller.plan.restore == 0; r++) {
        assert_true(r < ROUNDS_MAX);
        play(fake);
    }
    assert_true(fake->now_us < stopped_us + TIMEOUT_MS * UINT64_C(1000)); /* it is still taken for a member */
    assert_int_equal(fake->controller.member_count, 4);
    fake->players[3].stopped = false;
    play_rounds(fake, 20);
    assert_int_equal(fake->players[3].fences, 0);
    assert_int_equal(fake->players[3].epoch, 2); /* it has learned of the epoch by its plan */
    expect_feeder(fake, 3);
    expect_good_end(fake, 400);
    fake_close(fake);
}

/* A feeder that says what only a node with clocks can know is given up. Its accusations count for nothing, and whoever
 * accuses a feeder is believed. */
static void test_feeders_are_not_believed(void **state) {
    (void)state;
    struct fake *fake = cluster_new(STAGE_2, 400);
    enter(fake, 3, TIER_FEEDER);
    enter(fake, 4, TIER_FEEDER);
    cluster_open(fake, 1, 2);
    play_to(fake, 5);
    fake->players[3].accuses = node(1);
    accuse(fake, 3, 1, 1);
    play_rounds(fake, 3 * TIMEOUT_MS / 20);
    assert_int_equal(fake->controller.progress.failures, 0);
    fake->players[3].clock = 1;
    play_rounds(fake, 5);
    assert_int_equal(lines_with(fake, "HEARTBEAT with clock 1, at most 0 is possible"), 1);
    accuse(fake, 2, 4, 1);
    play_rounds(fake, 5);
    assert_int_equal(fake->controller.progress.failures, 2);
    assert_int_equal(fake->controller.plan.epoch, 1);
    assert_false(is_named(fake, 3) || is_named(fake, 4));
    expect_good_end(fake, 400);
    fake_close(fake);
}

/* A feeder that fails, as one whose app has no stages does: before training begins the job ends, later the feeder goes
 * alone. */
static void test_a_feeder_that_fails(void **state) {
    (void)state;
    for (unsigned late = 0; late < 2; late++) {
        struct message failure = {.type = MESSAGE_FAIL, .text = {.code = AML_ELIMIT, .text = "no stages"}};
        struct fake *fake = cluster_new(STAGE_TRADITIONAL, 40);
        enter(fake, 2, TIER_FEEDER);
        cluster_open(fake, 1, 1);
        while (late ? fake->clock < 5 : !fake->players[2].welcomed) {
            play(fake);
        }
        give(fake, 2, &failure);
        fake->players[2].there = false;
        if (late) {
            expect_good_end(fake, 40);
        } else {
            play_to_end(fake);
            assert_int_equal(fake->end.code, AML_ELIMIT);
            assert_string_equal(fake->end.text, "no stages");
        }
        fake_close(fake);
    }
}

/* A stage that fails at a feeder ends the job, with the stage's line. */
static void test_a_stage_fails_at_a_feeder(void **state) {
    (void)state;
    struct message failure = {.type = MESSAGE_FAIL, .text = {.code = AML_EINPUT, .text = "damaged image"}};
    struct fake *fake = cluster_new(STAGE_TRADITIONAL, 40);
    enter(fake, 2, TIER_FEEDER);
    cluster_open(fake, 1, 1);
    while (fake->clock < 5) {
        play(fake);
    }
    give(fake, 2, &failure);
    fake->players[2].there = false;
    play_to_end(fake);
    assert_int_equal(fake->end.code, AML_EINPUT);
    assert_string_equal(fake->end.text, "damaged image");
    fake_close(fake);
}

/* A job that chooses its feeders: one trainer, a clock of 10 rounds, 2 of them without feeders' help. So 4 feeders are
 * the most that it can use. */
static struct fake *fed_cluster(unsigned feeders_max) {
    struct fake *fake = stored_cluster(STAGE_1, 100000);
    fake->options.feeders_max = feeders_max;
    fake->feed = (struct fake_feed){.alone = 10, .rest = 2, .launched = 1, .launches = true, .round_trips = 5};
    cluster_open(fake, 1, 0);
    return fake;
}

static unsigned events(const struct fake *fake, const char *event) {
    char text[64];
    snprintf(text, sizeof text, "\"event\":\"%s\"", event);
    return lines_with(fake, text);
}

/* Plays until so many feeders are there and the policy has nothing more to try. */
static void play_to_feeders(struct fake *fake, unsigned feeders) {
    unsigned kept = events(fake, "keep-feeders");
    for (unsigned r = 0; working_feeders(fake) != feeders || events(fake, "keep-feeders") == kept; r++) {
        assert_true(r < ROUNDS_MAX && fake->end.ended == 0);
        play(fake);
    }
    assert_int_equal(fake->controller.progress.feeding.policy.state, FEEDERS_HOLD);
    assert_int_equal(fake->controller.progress.feeding.policy.wanted, feeders);
}

static void test_feeders_are_added_while_they_help(void **state) {
    (void)state;
    for (unsigned most = 2; most <= 8; most += 6) {
        unsigned best = most < 4 ? most : 4;
        struct fake *fake = fed_cluster(most);
        play_to_feeders(fake, best);
        assert_int_equal(events(fake, "add-feeder"), best);
        play_rounds(fake, 1000);
        assert_int_equal(working_feeders(fake), best);
        assert_int_equal(events(fake, "add-feeder"), best);
        assert_int_equal(events(fake, "remove-feeders"), 0);
        assert_int_equal(fake->controller.plan.epoch, 1);
        char *status = report_status(&fake->controller);
        assert_int_equal(line_number(status, "feeders_wanted"), best);
        assert_int_equal(line_number(status, "feeders_max"), most);
        assert_int_equal(line_number(status, "feeders_coming"), 0);
        assert_non_null(strstr(status, "\"feeders_reason\":\"trainers wait for "));
        assert_true((strstr(status, "2 feeders are kept, as many as there may be\"") != NULL) == (most == best));
        free(status);
        fake_close(fake);
    }
}

/* Feeders are no use where the stages take little, or were not asked for. */
static void test_no_feeder_is_added_where_none_helps(void **state) {
    (void)state;
    for (unsigned asked = 0; asked < 2; asked++) {
        struct fake *fake = fed_cluster(asked == 0 ? 0 : 8);
        fake->feed.rest = asked == 0 ? 2 : 9.5;
        play_rounds(fake, 1000);
        assert_int_equal(events(fake, "add-feeder"), 0);
        assert_int_equal(events(fake, "keep-feeders"), asked);
        assert_int_equal(lines_with(fake, "input takes 5 % of trainers' time: no feeder is needed"), asked);
        char *status = report_status(&fake->controller);
        assert_int_equal(strstr(status, "feeders_wanted") != NULL, asked);
        free(status);
        fake_close(fake);
    }
}

/* A launcher that never delivers is asked again, more and more rarely, and the job goes on. */
static void test_feeders_that_never_come(void **state) {
    (void)state;
    struct fake *fake = fed_cluster(8);
    fake->feed.launches = false;
    fake->feed.alone = 50; /* fewer lines */
    while (events(fake, "keep-feeders") == 0) {
        assert_true(fake->now_us < UINT64_C(3600) * 1000 * 1000);
        play_rounds(fake, 100);
    }
    assert_int_equal(events(fake, "add-feeder"), FEEDERS_REQUESTS);
    assert_int_equal(lines_with(fake, "10 requests brought no feeder that stayed: the job goes on with 0"), 1);
    assert_int_equal(feeding_coming(&fake->controller), 0);
    fake_close(fake);
}

/* Feeders that die are asked for again, one at a time; no epoch ends. */
static void test_feeders_that_die_come_again(void **state) {
    (void)state;
    struct fake *fake = fed_cluster(8);
    play_to_feeders(fake, 4);
    die(fake, 1, 0);
    die(fake, 3, 0);
    for (unsigned r = 0; working_feeders(fake) < 4; r++) {
        assert_true(r < ROUNDS_MAX);
        assert_true(feeding_coming(&fake->controller) <= 1);
        play(fake);
    }
    play_rounds(fake, 500);
    assert_int_equal(working_feeders(fake), 4);
    assert_int_equal(events(fake, "add-feeder"), 6);
    assert_int_equal(fake->controller.plan.epoch, 1);
    assert_int_equal(fake->controller.progress.items_redone, 0);
    fake_close(fake);
}

/* The controller is killed again and again, also while a feeder is coming: none is asked for twice. */
static void test_a_restarted_controller_goes_on_with_its_feeders(void **state) {
    (void)state;
    struct fake *fake = fed_cluster(8);
    unsigned kills = 0;
    for (unsigned r = 0; events(fake, "keep-feeders") == 0; r++) {
        assert_true(r < 3 * ROUNDS_MAX);
        play(fake);
        if (r % 600 == 599 || (fake->feed.pending == 3 && kills < 3)) {
            fake->kill.dead = true;
            called(fake);
            kills++;
        }
    }
    assert_true(kills >= 4);
    play_rounds(fake, 200);
    assert_int_equal(working_feeders(fake), 4);
    assert_int_equal(events(fake, "add-feeder"), 4);
    assert_int_equal(events(fake, "remove-feeders"), 0);
    fake_close(fake);
}

/* A job that chooses its feeders' threads, too: these are raised before another feeder is asked for. */
static struct fake *fed_cluster_with_threads(unsigned feeders_max, unsigned threads_max, unsigned all) {
    struct fake *fake = fed_cluster(feeders_max);
    fake->options.feeder_threads = all;
    fake->controller.options.feeder_threads = all;
    fake->feed.threads_max = threads_max;
    return fake;
}

/* Four threads are the most that the job can use: one feeder of four, or two of two. */
static void test_threads_are_raised_before_feeders_are_added(void **state) {
    (void)state;
    for (unsigned threads = 1; threads <= 8; threads *= 2) {
        unsigned best = threads < 4 ? 4 / threads : 1;
        struct fake *fake = fed_cluster_with_threads(8, threads, 8);
        play_to_feeders(fake, best);
        play_rounds(fake, 500);
        assert_int_equal(events(fake, "add-feeder"), best);
        assert_int_equal(events(fake, "feeder-threads"), threads >= 4 ? 2 : threads / 2);
        assert_int_equal(working_threads(fake), 4);
        char *status = report_status(&fake->controller);
        assert_int_equal(line_number(status, "feeder_threads"), threads < 4 ? threads : 4);
        assert_int_equal(line_number(status, "feeder_threads_max"), threads < 8 / best ? threads : 8 / best);
        free(status);
        fake_close(fake);
    }
}

/* Feeders have no more threads together than the job may use, whatever each could have. */
static void test_feeders_share_threads(void **state) {
    (void)state;
    struct fake *fake = fed_cluster_with_threads(8, 16, 3);
    play_to_feeders(fake, 1);
    assert_int_equal(working_threads(fake), 3);
    enter(fake, 11, TIER_FEEDER); /* somebody else's */
    for (unsigned r = 0; fake->controller.progress.feeding.policy.wanted < 2; r++) {
        assert_true(r < ROUNDS_MAX);
        play(fake);
        assert_in_range(working_threads(fake), 1, 4); /* 3 and a new one */
    }
    assert_int_equal(working_threads(fake), 2);
    assert_int_equal(fake->controller.progress.feeding.policy.threads, 1);
    fake_close(fake);
}

/* A controller that is started again, and feeders that come in place of lost ones, go on with as many threads. */
static void test_threads_outlive_controllers_and_feeders(void **state) {
    (void)state;
    struct fake *fake = fed_cluster_with_threads(8, 2, 8);
    unsigned kills = 0;
    for (unsigned r = 0; events(fake, "keep-feeders") == 0; r++) {
        assert_true(r < 3 * ROUNDS_MAX);
        play(fake);
        if (r % 600 == 599 || (kills == 0 && events(fake, "feeder-threads") == 1)) {
            fake->kill.dead = true;
            called(fake);
            kills++;
        }
    }
    assert_true(kills >= 2);
    assert_int_equal(working_feeders(fake), 2);
    assert_int_equal(working_threads(fake), 4);
    assert_int_equal(events(fake, "feeder-threads"), 1);
    die(fake, 1, 0);
    for (unsigned r = 0; working_threads(fake) < 4; r++) {
        assert_true(r < ROUNDS_MAX);
        play(fake);
    }
    assert_int_equal(working_feeders(fake), 2);
    assert_int_equal(events(fake, "feeder-threads"), 1);
    fake_close(fake);
}

/* Windows with a change of plan are no measure. With another trainer the number is found anew, from those there are. */
static void test_other_trainers_need_other_feeders(void **state) {
    (void)state;
    struct fake *fake = fed_cluster(10);
    play_to_feeders(fake, 4);
    enter(fake, 11, TIER_TRANSIENT);
    play_to_feeders(fake, 7); /* then they wait for 10 % of their time */
    assert_int_equal(fake->controller.progress.feeding.trainers, 2);
    assert_int_equal(events(fake, "add-feeder"), 7);
    ask(fake, OPERATOR, MESSAGE_EVICT, "n11"); /* half of them are too many now */
    for (unsigned r = 0; working_feeders(fake) > 6; r++) {
        assert_true(r < 2 * ROUNDS_MAX);
        play(fake);
    }
    assert_int_equal(fake->controller.progress.feeding.trainers, 1);
    assert_int_equal(lines_with(fake, "% of their time: 6 are enough"), 1);
    assert_int_equal(events(fake, "remove-feeders"), 1);
    assert_int_equal(fake->controller.progress.failures, 0);
    fake_close(fake);
}

static void test_status_is_json(void **state) {
    (void)state;
    static const char *const keys[] = {"app",      "phase",     "change",      "stage",       "epoch",
                                       "version",  "iteration", "clock",       "committed",   "final",
                                       "seconds",  "objective", "threshold_2", "threshold_3", "items_redone",
                                       "failures", "evictions", "nodes",       "partitions"};
    static const char *const node_keys[] = {
        "name",   "host",   "pid",     "tier",       "threads",        "state",        "leaving",  "clock",
        "shards", "serves", "follows", "bytes_sent", "bytes_received", "memory_bytes", "silent_ms"};
    struct fake *fake = cluster_new(STAGE_2, 20);
    struct message ask_status = {.type = MESSAGE_STATUS, .frame_count = 1, .status = {.request = 3}};
    struct message status;
    cluster_open(fake, 1, 3);
    for (unsigned round = 0; round < 2; round++) { /* before there is anything, and while training */
        ask_status.frame_count = 1;
        ask_status.frames[0] = buffer_copy("", 0);
        give(fake, OPERATOR, &ask_status);
        assert_int_equal(sent(fake, node(OPERATOR), MESSAGE_STATUS, &status), 1);
        assert_int_equal(status.status.request, 3);
        json_t *object = json_loadb((const char *)status.frames[0]->data, status.frames[0]->size, 0, NULL);
        assert_non_null(object);
        for (unsigned k = 0; k < sizeof keys / sizeof keys[0]; k++) {
            assert_non_null(json_object_get(object, keys[k]));
        }
        assert_int_equal(json_array_size(json_object_get(object, "nodes")), round == 0 ? 0 : 4);
        assert_int_equal(json_integer_value(json_object_get(object, "lines")), fake->controller.report.stored);
        assert_true(round == 0 || fake->controller.report.stored > 0);
        assert_int_equal(json_array_size(json_object_get(object, "partitions")), round == 0 ? 0 : PARTITIONS);
        for (size_t n = 0; n < json_array_size(json_object_get(object, "nodes")); n++) {
            for (unsigned k = 0; k < sizeof node_keys / sizeof node_keys[0]; k++) {
                assert_non_null(json_object_get(json_array_get(json_object_get(object, "nodes"), n), node_keys[k]));
            }
        }
        json_decref(object);
        forget(fake);
        play_to(fake, 5);
    }
    fake_close(fake);
}

static void test_gone_nodes_are_not_waited_for(void **state) {
    (void)state;
    struct fake *fake = fake_open((struct job_terms){.clocks_per_iteration = 1, .iterations = 100});
    struct message fail = {.type = MESSAGE_FAIL, .text = {.code = AML_EINPUT, .text = "two: no such file"}};
    begin(fake);
    give(fake, 1, &fail);
    expect_failure(fake, "no such file");
    assert_int_equal(fake->end.ended, 0);
    ask(fake, OPERATOR, MESSAGE_GONE, "node-1");
    assert_int_equal(fake->end.ended, 1);
    assert_int_equal(fake->end.code, AML_EINPUT);
    fake_close(fake);
}

/* ---- Checkpoints ---- */

static void remove_tree(const char *path) {
    char command[300];
    snprintf(command, sizeof command, "rm -rf '%s'", path);
    assert_int_equal(system(command), 0);
}

/* A job that writes checkpoints into a new folder, which `root` names. */
static struct fake *checkpointed(enum stage stage, uint64_t iterations, char root[ROOT_BYTES]) {
    struct fake *fake = stored_cluster(stage, iterations);
    snprintf(root, ROOT_BYTES, "/tmp/controller_test_XXXXXX");
    assert_non_null(mkdtemp(root));
    fake->options.checkpoint = root;
    fake->options.checkpoint_every = 5;
    fake->options.checkpoint_at_end = true;
    return fake;
}

/* The clock of the newest checkpoint; 0: none. Nothing else is in the folder but the one before it. */
static uint64_t newest_checkpoint(const char *root) {
    char path[WIRE_PATH_MAX];
    struct manifest manifest;
    struct error error = {0};
    unsigned entries = 0;
    DIR *folder = opendir(root);
    assert_non_null(folder);
    for (const struct dirent *entry; (entry = readdir(folder)) != NULL;) {
        entries += entry->d_name[0] != '.' ? 1 : 0;
        assert_true(entry->d_name[0] == '.' || strncmp(entry->d_name, "clock-", 6) == 0);
    }
    closedir(folder);
    assert_true(entries <= 2);
    if (manifest_find(root, path, &error) != 0 || manifest_read(path, &manifest, &error) != 0) {
        assert_int_equal(entries, 0);
        return 0;
    }
    uint64_t clock = manifest.clock;
    manifest_close(&manifest);
    return clock;
}

/* "A checkpoint names a clock that all can still give", however short clocks are. */
static void test_checkpoints_always_succeed(void **state) {
    (void)state;
    static const enum stage stages[] = {STAGE_TRADITIONAL, STAGE_1, STAGE_2, STAGE_3};
    static const unsigned speeds[] = {1, 3, 40};
    static const uint64_t iterations[] = {30, 90, 400};
    for (unsigned run = 0; run < 12; run++) {
        char root[ROOT_BYTES];
        struct fake *fake = checkpointed(stages[run % 4], iterations[run / 4], root);
        fake->speed = speeds[run / 4];
        cluster_open(fake, stages[run % 4] == STAGE_3 ? 1 : 2, stages[run % 4] == STAGE_TRADITIONAL ? 0 : 2);
        play_to_end(fake);
        assert_int_equal(fake->end.code, 0);
        assert_int_equal(fake->checkpoints.passed, 0);
        assert_int_equal(lines_with(fake, "\"event\":\"checkpoint-failed\""), 0);
        assert_true(lines_with(fake, "\"event\":\"checkpoint\"") >= 3);
        assert_int_equal(newest_checkpoint(root), fake->clock); /* --checkpoint-at-end */
        fake_close(fake);
        remove_tree(root);
    }
}

/* Where nothing is in the way a checkpoint is of exactly the iterations that were asked for. */
static void test_checkpoints_are_of_whole_iterations(void **state) {
    (void)state;
    char root[ROOT_BYTES];
    struct fake *fake = checkpointed(STAGE_1, 22, root);
    cluster_open(fake, 2, 0);
    play_to_end(fake);
    static const char *const expected[] = {"iteration 5, clock 10,", "iteration 10, clock 20,",
                                           "iteration 15, clock 30,", "iteration 20, clock 40,",
                                           "iteration 22, clock 44,"};
    assert_int_equal(lines_with(fake, "\"event\":\"checkpoint\""), 5);
    for (unsigned e = 0; e < 5; e++) {
        assert_int_equal(lines_with(fake, expected[e]), 1);
    }
    fake_close(fake);
    remove_tree(root);
}

static void test_a_slow_disk_makes_checkpoints_rarer(void **state) {
    (void)state;
    char root[ROOT_BYTES];
    struct fake *fake = checkpointed(STAGE_2, 60, root);
    fake->options.checkpoint_every = 1;
    fake->checkpoints.rounds = 9;
    cluster_open(fake, 1, 2);
    play_to_end(fake);
    assert_int_equal(fake->end.code, 0);
    assert_int_equal(lines_with(fake, "\"event\":\"checkpoint-slow\""), 1);
    assert_int_equal(lines_with(fake, "takes longer than 1 iterations"), 1);
    assert_int_equal(lines_with(fake, "\"event\":\"checkpoint-failed\""), 0);
    assert_in_range(lines_with(fake, "\"event\":\"checkpoint\""), 5, 30);
    assert_int_equal(newest_checkpoint(root), 120);
    fake_close(fake);
    remove_tree(root);
}

/* "Failed ones leave nothing; a job asked for checkpoints that could write none ends with status 1" */
static void test_a_job_that_could_write_no_checkpoint_fails(void **state) {
    (void)state;
    char root[ROOT_BYTES];
    struct fake *fake = checkpointed(STAGE_2, 20, root);
    cluster_open(fake, 1, 2);
    fake->checkpoints.state = WRITTEN_FAILED;
    play_to(fake, 15);
    assert_int_equal(lines_with(fake, "\"event\":\"checkpoint-failed\""), 1);
    assert_int_equal(newest_checkpoint(root), 0);
    play_to_end(fake);
    assert_int_equal(fake->end.code, AML_EFAIL);
    assert_non_null(strstr(fake->end.text, "no checkpoint could be written into"));
    assert_non_null(strstr(fake->end.text, root));
    assert_non_null(strstr(fake->end.text, "the disk is full"));
    assert_int_equal(fake->clock, 40);
    assert_int_equal(newest_checkpoint(root), 0);
    fake_close(fake);
    remove_tree(root);

    fake = checkpointed(STAGE_2, 20, root); /* the first is written, the last fails: done, with a warning */
    cluster_open(fake, 1, 2);
    play_to(fake, 15);
    assert_true(newest_checkpoint(root) > 0);
    fake->checkpoints.state = WRITTEN_FAILED;
    play_to_end(fake);
    assert_int_equal(fake->end.code, 0);
    assert_int_equal(lines_with(fake, "\"checkpoint_failed\":\"clock 40: "), 1);
    assert_int_equal(lines_with(fake, "; the newest checkpoint is of clock "), 1);
    fake_close(fake);
    remove_tree(root);

    fake = checkpointed(STAGE_2, 3, root); /* none was due, and none is wanted at the end */
    fake->options.checkpoint_at_end = false;
    cluster_open(fake, 1, 2);
    expect_good_end(fake, 3);
    assert_int_equal(newest_checkpoint(root), 0);
    fake_close(fake);
    remove_tree(root);
}

static void ask_now(struct fake *fake, uint64_t request) {
    struct message message = {.type = MESSAGE_CHECKPOINT_NOW, .checkpoint_now = {.request = request}};
    give(fake, OPERATOR, &message);
}

/* Plays until the operator has an answer. */
static struct message_outcome play_to_outcome(struct fake *fake) {
    fake->observed.outcome = (struct message_outcome){0};
    for (unsigned r = 0; r < 100 && fake->observed.outcome.request == 0; r++) {
        play(fake);
    }
    return fake->observed.outcome;
}

/* "`proteus checkpoint` asks for one now" */
static void test_an_operator_asks_for_a_checkpoint(void **state) {
    (void)state;
    struct message message;
    struct fake *fake = cluster_new(STAGE_2, 20);
    cluster_open(fake, 1, 2);
    play_to(fake, 3);
    ask_now(fake, 1);
    assert_int_equal(sent(fake, node(OPERATOR), MESSAGE_OUTCOME, &message), 1);
    assert_int_equal(message.outcome.code, AML_EINPUT);
    assert_non_null(strstr(message.outcome.text, "without --checkpoint"));
    fake_close(fake);

    char root[ROOT_BYTES];
    fake = checkpointed(STAGE_2, 100, root);
    fake->options.checkpoint_every = 1000;
    cluster_open(fake, 1, 2);
    ask_now(fake, 1);
    assert_int_equal(sent(fake, node(OPERATOR), MESSAGE_OUTCOME, &message), 1);
    assert_int_equal(message.outcome.code, AML_EINPUT);
    assert_non_null(strstr(message.outcome.text, "training has not begun"));
    forget(fake);
    play_to(fake, 9);
    ask_now(fake, 2);
    ask_now(fake, 2); /* a repeat asks for no second one */
    struct message_outcome outcome = play_to_outcome(fake);
    assert_int_equal(outcome.request, 2);
    assert_int_equal(outcome.code, 0);
    uint64_t clock = newest_checkpoint(root);
    char text[64];
    snprintf(text, sizeof text, "clock %llu: %s", (unsigned long long)clock, root);
    assert_true(clock >= 9);
    assert_non_null(strstr(outcome.text, text));
    ask_now(fake, 2); /* the answer was lost */
    assert_int_equal(sent(fake, node(OPERATOR), MESSAGE_OUTCOME, &message), 1);
    assert_string_equal(message.outcome.text, outcome.text);
    forget(fake);
    fake->checkpoints.state = WRITTEN_FAILED;
    ask_now(fake, 3);
    outcome = play_to_outcome(fake);
    assert_int_equal(outcome.request, 3);
    assert_int_equal(outcome.code, AML_EFAIL);
    assert_non_null(strstr(outcome.text, "the disk is full"));
    fake->checkpoints.state = WRITTEN_DONE;
    assert_int_equal(lines_with(fake, "\"event\":\"checkpoint\""), 1);
    play_to_end(fake);
    assert_int_equal(fake->end.code, 0);
    assert_int_equal(newest_checkpoint(root), 200);
    fake_close(fake);
    remove_tree(root);
}

/* While a checkpoint is under way, a node is lost, the job is to stop, or a node that writes it is to leave. */
static void test_checkpoints_under_way_when_things_go_wrong(void **state) {
    (void)state;
    enum { LOST, STOPPED, EVICTED, CASES };
    for (unsigned run = 0; run < CASES * 16; run++) {
        char root[ROOT_BYTES];
        struct fake *fake = checkpointed(STAGE_2, 60, root);
        fake->options.checkpoint_every = 2;
        fake->checkpoints.rounds = run % 16 < 8 ? 0 : 5;
        cluster_open(fake, 2, 2);
        play_to(fake, 8 + run % 8);
        struct message stop = {.type = MESSAGE_STOP};
        switch (run / 16) {
        case LOST:
            fake->players[3].there = false;
            ask(fake, OPERATOR, MESSAGE_GONE, "n3");
            break;
        case STOPPED:
            give(fake, OPERATOR, &stop);
            break;
        default:
            ask(fake, OPERATOR, MESSAGE_EVICT, "n0");
            break;
        }
        deliver(fake);
        play_to_end(fake);
        assert_int_equal(fake->end.code, 0);
        assert_int_equal(fake->checkpoints.passed, 0);
        assert_int_equal(lines_with(fake, "\"event\":\"checkpoint-failed\""), 0);
        assert_int_equal(newest_checkpoint(root), fake->clock);
        fake_close(fake);
        remove_tree(root);
    }
}

/* The controller is killed at every moment of a checkpoint; the job has its checkpoints all the same. */
static void test_a_controller_is_killed_while_a_checkpoint_is_under_way(void **state) {
    (void)state;
    static const enum kill kills[] = {KILL_AFTER_CALL, KILL_BEFORE_WRITE, KILL_AFTER_WRITE};
    for (unsigned run = 0; run < 3; run++) {
        bool killed = true;
        for (unsigned at = 1; killed; at += 1 + at / 40) {
            char root[ROOT_BYTES];
            struct fake *fake = checkpointed(STAGE_2, 12, root);
            fake->options.checkpoint_every = 3;
            fake->kill.where = kills[run];
            fake->kill.at = at;
            cluster_open(fake, 1, 2);
            expect_good_end(fake, 12);
            assert_int_equal(fake->checkpoints.passed, 0);
            assert_int_equal(lines_with(fake, "\"event\":\"checkpoint-failed\""), 0);
            assert_int_equal(newest_checkpoint(root), 24);
            killed = fake->kill.count > 0;
            fake_close(fake);
            remove_tree(root);
        }
    }
}

/* A node that does not answer holds the others back for no longer than a second. */
static void test_a_checkpoint_waits_for_nobody_who_is_silent(void **state) {
    (void)state;
    char root[ROOT_BYTES];
    struct fake *fake = checkpointed(STAGE_1, 40, root);
    cluster_open(fake, 2, 0);
    play_to(fake, 3);
    fake->players[1].deaf = MESSAGE_HEARTBEAT_ACK;
    ask_now(fake, 1);
    play_rounds(fake, 3);
    assert_true(fake->controller.barrier.clock != WIRE_CLOCK_NEVER);
    play_rounds(fake, 1000 * 1000 / ROUND_US + 1);
    assert_int_equal(fake->controller.barrier.clock, WIRE_CLOCK_NEVER);
    fake->players[1].deaf = 0;
    expect_good_end(fake, 40);
    assert_int_equal(newest_checkpoint(root), 80);
    fake_close(fake);
    remove_tree(root);
}

static void set_option(struct fake *fake, unsigned number, const char *name, const char *value, bool steers) {
    struct wire_option *option = &fake->settings[number];
    *option = (struct wire_option){.steers = steers};
    snprintf(option->name, sizeof option->name, "%s", name);
    snprintf(option->value, sizeof option->value, "%s", value);
    fake->setting_count = fake->setting_count > number ? fake->setting_count : number + 1;
}

/* "--rank 64, was 16": of nodes too. */
static void test_the_option_that_differs_is_named(void **state) {
    (void)state;
    struct fake *fake = fake_open((struct job_terms){.clocks_per_iteration = 1, .iterations = 1});
    set_option(fake, 0, "rank", "16", false);
    set_option(fake, 1, "rate", "0.5", true);
    join(fake, 0, "one", TIER_RELIABLE, &fake->terms);
    forget(fake);
    set_option(fake, 0, "rank", "64", false);
    join(fake, 1, "two", TIER_TRANSIENT, &fake->terms);
    expect_refused(fake, 1, "app on host was started with other options than one on host: --rank 64, one has 16:");
    set_option(fake, 0, "rank", "16", false);
    set_option(fake, 1, "rate", "0.25", true); /* in one job all must be the same */
    join(fake, 1, "two", TIER_TRANSIENT, &fake->terms);
    expect_refused(fake, 1, "--rate 0.25, one has 0.5");
    fake->setting_count = 1;
    join(fake, 1, "two", TIER_TRANSIENT, &fake->terms);
    expect_refused(fake, 1, "--rate not there, one has 0.5");
    set_option(fake, 1, "rate", "0.5", true);
    set_option(fake, 2, "decay", "1", true);
    join(fake, 1, "two", TIER_TRANSIENT, &fake->terms);
    expect_refused(fake, 1, "--decay 1, one has not there");
    fake->setting_count = 2;
    struct job_terms other = fake->terms;
    other.digest++;
    join(fake, 1, "two", TIER_TRANSIENT, &other);
    expect_refused(fake, 1, "tables, metrics or items differ, as between versions of the app");
    join(fake, 1, "two", TIER_TRANSIENT, &fake->terms);
    assert_int_equal(sent(fake, node(1), MESSAGE_WELCOME, NULL), 1);
    fake_close(fake);
}

static void set_mark(struct fake *fake, unsigned number, const char *what, const char *hash) {
    set_option(fake, number, what, hash, false);
    fake->settings[number].found = 1;
}

/* A node that has found something else in its copy of the input, before it reads, is refused, with what differs; a
 * checkpoint does not keep it. */
static void test_what_was_found_in_the_input_is_compared(void **state) {
    (void)state;
    struct fake *fake = fake_open((struct job_terms){.clocks_per_iteration = 1, .iterations = 1});
    set_option(fake, 0, "labels", "16", false); /* an option of this name is something else */
    set_mark(fake, 1, "labels", "00000000000000a1");
    set_mark(fake, 2, "lines", "00000000000000b1");
    join(fake, 0, "one", TIER_RELIABLE, &fake->terms);
    forget(fake);
    set_mark(fake, 1, "labels", "00000000000000a2");
    join(fake, 1, "two", TIER_TRANSIENT, &fake->terms);
    expect_refused(fake, 1, "the input differs: app two on host has found other labels than one on host: give all");
    set_mark(fake, 2, "lines", "00000000000000b2");
    join(fake, 1, "", TIER_TRANSIENT, &fake->terms);
    expect_refused(fake, 1, "the input differs: app on host has found other labels, lines than one on host");
    set_mark(fake, 1, "labels", "00000000000000a1");
    fake->setting_count = 2;
    join(fake, 1, "two", TIER_TRANSIENT, &fake->terms);
    expect_refused(fake, 1, "app two on host has found other lines than one on host");
    set_mark(fake, 2, "lines", "00000000000000b1");
    set_mark(fake, 3, "maxima", "0000000000000000");
    join(fake, 1, "two", TIER_TRANSIENT, &fake->terms);
    expect_refused(fake, 1, "app two on host has found other maxima than one on host");
    fake->setting_count = 3;
    join(fake, 1, "two", TIER_TRANSIENT, &fake->terms);
    assert_int_equal(sent(fake, node(1), MESSAGE_WELCOME, NULL), 1);
    fake_close(fake);
}

/* A resumed job reports iteration and clock, and its summary counts what was done before. Options that only steer may
 * change; others that differ are named. */
static void test_what_a_resumed_job_says(void **state) {
    (void)state;
    char root[ROOT_BYTES];
    struct fake *fake = checkpointed(STAGE_1, 7, root);
    set_option(fake, 0, "rank", "16", false);
    set_option(fake, 1, "rate", "0.5", true);
    set_mark(fake, 2, "lines", "00000000000000a1");
    cluster_open(fake, 1, 1);
    expect_good_end(fake, 7);
    fake_close(fake);

    fake = stored_cluster(STAGE_1, 10);
    fake->options.resume = root;
    set_option(fake, 0, "rank", "64", false);
    set_option(fake, 1, "rate", "0.25", true);
    fake_start(fake);
    join(fake, 0, "", TIER_RELIABLE, &fake->terms);
    expect_refused(fake, 0, ": --rank 64, was 16");
    set_option(fake, 0, "rank", "16", false);
    fake->clock = 14;
    for (unsigned n = 0; n < 2; n++) {
        enter(fake, n, n == 0 ? TIER_RELIABLE : TIER_TRANSIENT);
    }
    play_to_end(fake);
    assert_int_equal(fake->end.code, 0);
    char text[128];
    snprintf(text, sizeof text, "from iteration 7, clock 14: %s/clock-14; --rate 0.25, was 0.5", root);
    assert_int_equal(lines_with(fake, "\"event\":\"resume\""), 1);
    assert_int_equal(lines_with(fake, text), 1);
    const char *summary = fake->observed.lines[fake->observed.read - 1];
    assert_true(line_number(summary, "iterations") == 10);
    assert_true(line_number(summary, "resumed_iteration") == 7);
    assert_true(line_number(summary, "resumed_clock") == 14);
    assert_true(line_number(summary, "items_before") == 14.0 * SHARDS * SHARD_ITEMS);
    assert_true(line_number(summary, "items_processed") == 6.0 * SHARDS * SHARD_ITEMS);
    assert_true(line_number(summary, "seconds_before") > 0);
    fake_close(fake);

    fake = stored_cluster(STAGE_1, 7); /* nothing is left to do, and the checkpoint is there */
    fake->options.resume = fake->options.checkpoint = root;
    fake->options.checkpoint_at_end = true;
    fake->clock = 14;
    set_option(fake, 0, "rank", "16", false);
    set_option(fake, 1, "rate", "0.5", true);
    cluster_open(fake, 1, 1);
    play_to_end(fake);
    assert_int_equal(fake->end.code, 0);
    assert_int_equal(lines_with(fake, "\"event\":\"checkpoint\""), 0);
    assert_int_equal(newest_checkpoint(root), 14);
    fake_close(fake);
    remove_tree(root);
}

/* ---- Strategies ---- */

/* Three nodes of which the first one is the slowest; each iteration has `per` clocks. */
static struct fake *strategies_open(enum strategy strategy, uint32_t per, uint32_t steps, uint64_t iterations,
                                    const struct fake_times *times) {
    struct fake *fake = fake_new((struct job_terms){
        .clocks_per_iteration = per, .local_steps = steps, .strategy = (uint8_t)strategy, .iterations = iterations});
    fake->times = *times;
    return fake;
}

static unsigned strategy_changes_to(const struct fake *fake, const char *name) {
    char text[64];
    snprintf(text, sizeof text, "\"nodes\":[],\"reason\":\"%s\"", name); /* of an event */
    return lines_with(fake, text);
}

/* Only the exchange counts for --strategy auto: neither the evaluation nor what nodes wait for slower ones. */
static void test_auto_sees_the_exchange_alone(void **state) {
    (void)state;
    static const struct fake_times times[] = {
        {.clock_us = 1000, .compute_us = {300, 300, 300}},                       /* 30 % computes */
        {.clock_us = 1000, .compute_us = {600, 600, 600}, .evaluate_us = 16000}, /* of all, 10 % computes */
        {.clock_us = 1000, .compute_us = {900, 50, 50}},                         /* of all, 33 % computes */
    };
    for (unsigned t = 0; t < 3; t++) {
        struct fake *fake = strategies_open(STRATEGY_AUTO, 4, 4, 12, &times[t]);
        cluster_open(fake, 1, 2);
        play_to_end(fake);
        assert_int_equal(fake->end.code, 0);
        assert_int_equal(strategy_changes_to(fake, "sma"), t == 0 ? 1 : 0);
        fake_close(fake);
    }
}

/* By S-MA an iteration is faster by half, but for an evaluation that takes 20 times as long. */
static void test_auto_compares_iterations_without_evaluations(void **state) {
    (void)state;
    static const struct fake_times times = {.clock_us = 1000, .compute_us = {300, 300, 300}, .evaluate_us = 80 * 1000};
    struct fake *fake = strategies_open(STRATEGY_AUTO, 4, 4, 20, &times);
    cluster_open(fake, 1, 2);
    play_to_end(fake);
    assert_int_equal(strategy_changes_to(fake, "sma"), 1);
    assert_int_equal(strategy_changes_to(fake, "ssgd"), 0);
    fake_close(fake);
}

/* PROGRESS of clocks 1 to 40, four in an iteration, of a clock of 2 ms: in each clock one of two nodes computes for
 * 1 ms and the other for 0.2 ms, in turn. */
static struct fake *uneven_open(uint32_t staleness, uint64_t helped) {
    struct fake *fake = fake_open((struct job_terms){
        .clocks_per_iteration = 4, .local_steps = 4, .staleness = staleness, .strategy = STRATEGY_AUTO});
    begin(fake);
    for (uint64_t clock = 1; clock <= 40; clock++) {
        for (unsigned n = 0; n < 2; n++) {
            const struct message_progress told = {.origin = node(n),
                                                  .clock = clock,
                                                  .last = 1,
                                                  .items = SHARDS / 2 * SHARD_ITEMS,
                                                  .helped = helped,
                                                  .clock_us = 2000,
                                                  .compute_us = clock % 2 == n ? 1000 : 200};
            progress_told(fake, n, &told, 1);
        }
    }
    assert_int_equal(fake->controller.progress.completed, 40);
    return fake;
}

/* Half of the time is the exchange's, if nodes wait for each other after each clock. With staleness 1 they need not:
 * without exchange a clock would take 0.6 ms. And if others do most of a node's work, no clock takes as long as the
 * node would have computed alone. */
static void test_auto_knows_of_staleness_and_help(void **state) {
    (void)state;
    static const struct {
        uint32_t staleness;
        uint64_t helped;
        enum strategy wanted;
    } cases[] = {{0, 0, STRATEGY_SSGD}, {1, 0, STRATEGY_SMA}, {0, SHARDS / 4 * SHARD_ITEMS, STRATEGY_SMA}};
    for (unsigned c = 0; c < 3; c++) {
        struct fake *fake = uneven_open(cases[c].staleness, cases[c].helped);
        assert_int_equal(fake->controller.change.strategy, cases[c].wanted);
        fake_close(fake);
    }
}

/* By S-MA the last clock of an iteration may have no work; that is no busy network, which would want another stage. */
static void test_idle_clocks_are_no_busy_network(void **state) {
    (void)state;
    static const struct fake_times times = {.clock_us = 1000, .compute_us = {990, 990, 990, 990}};
    struct fake *fake = strategies_open(STRATEGY_SMA, 4, 4, 2 * TUNER_STEADY, &times);
    fake->options.policy.stage = STAGE_AUTO;
    fake->options.thresholds = (struct plan_thresholds){0};
    cluster_open(fake, 2, 2);
    play_to_end(fake);
    assert_int_equal(fake->end.code, 0);
    assert_true(fake->controller.tuner.iterations > TUNER_STEADY);
    assert_int_equal(fake->controller.tuner.spent, 0);
    assert_int_equal(fake->controller.tuner.trial, STAGE_AUTO);
    fake_close(fake);
}

/* The monitor of speeds measures clocks with work. */
static void test_idle_clocks_are_no_measure(void **state) {
    (void)state;
    static const struct fake_times times = {.clock_us = 1000, .compute_us = {800, 800, 800}};
    struct fake *fake = strategies_open(STRATEGY_SMA, 8, 8, 10, &times);
    cluster_open(fake, 1, 2);
    play_to(fake, 64);
    struct monitor_speed speed = monitor_speed(&fake->controller.clocks.monitor, node(1), MONITOR_LONG, fake->now_us);
    assert_true(speed.clocks > 0 && speed.clocks <= 8);
    assert_true(fabs(speed.clock_seconds - 8 * 800e-6) < 1e-9);
    fake_close(fake);
}

/* The job goes over to S-MA once, where a group of clocks begins, and ends well. */
static void expect_change_at_group(struct fake *fake) {
    play_to(fake, 66);
    assert_int_equal(strategy_changes_to(fake, "sma"), 1);
    assert_int_equal(fake->newest.plan.strategy_from, 65);
    play_to_end(fake);
    assert_int_equal(fake->end.code, 0);
    fake_close(fake);
}

/* A change for which a node waits to leave comes as soon as any, though another strategy is wanted; the strategy
 * changes where the next group of clocks begins. */
static void check_who_leaves(bool later) {
    struct fake *fake = strategies_open(STRATEGY_AUTO, 64, 64, 4, &(struct fake_times){0});
    cluster_open(fake, 1, 2);
    play_to(fake, 5);
    controller_want_strategy(&fake->controller, STRATEGY_SMA);
    if (later) { /* the change to the other strategy is prepared */
        play_to(fake, 10);
        assert_int_equal(fake->controller.change.state, CHANGE_PREPARE);
    }
    ask(fake, OPERATOR, MESSAGE_EVICT, "n2");
    play_to(fake, 40);
    assert_true(fake->players[2].done);
    expect_change_at_group(fake);
}

static void test_who_leaves_does_not_wait_for_a_strategy(void **state) {
    (void)state;
    check_who_leaves(false);
    check_who_leaves(true);
}

/* A node that has no part yet is dismissed at once: no change is made for it that changes nothing. */
static void test_who_leaves_without_a_part_begins_no_change(void **state) {
    (void)state;
    struct fake *fake = strategies_open(STRATEGY_AUTO, 64, 64, 4, &(struct fake_times){0});
    cluster_open(fake, 1, 2);
    play_to(fake, 5);
    controller_want_strategy(&fake->controller, STRATEGY_SMA);
    play_to(fake, 10);
    assert_int_equal(fake->controller.change.state, CHANGE_PREPARE);
    join(fake, 3, "n3", TIER_TRANSIENT, &fake->terms);
    ask(fake, OPERATOR, MESSAGE_EVICT, "n3");
    tick(fake, CONTROLLER_JOIN_WAIT_US);
    assert_true(sent(fake, node(3), MESSAGE_DONE, NULL) > 0);
    expect_change_at_group(fake);
}

/* Jobs by S-SGD and by S-MA go on from each other's checkpoints. One of a clock within a group of local steps needs the
 * same groups. */
static void test_strategies_follow_each_other(void **state) {
    (void)state;
    char root[ROOT_BYTES];
    struct fake *fake = checkpointed(STAGE_1, 7, root);
    fake->terms.local_steps = 2;
    fake->terms.strategy = STRATEGY_SMA;
    cluster_open(fake, 1, 1);
    play_to_end(fake);
    fake_close(fake);
    static const struct job_terms next[] = {{.local_steps = 1, .strategy = STRATEGY_SSGD},
                                            {.local_steps = 7, .strategy = STRATEGY_SMA},
                                            {.local_steps = 2, .strategy = STRATEGY_AUTO}};
    for (unsigned n = 0; n < 3; n++) {
        fake = cluster_new(STAGE_1, 10);
        fake->terms.local_steps = next[n].local_steps;
        fake->terms.strategy = next[n].strategy;
        fake->options.resume = root;
        fake->clock = 14;
        cluster_open(fake, 1, 1);
        play(fake);
        assert_int_equal(plan_strategy_at(&fake->controller.plan.view, 15),
                         n == 0 ? STRATEGY_SSGD : STRATEGY_SMA); /* auto: as before */
        play_to_end(fake);
        assert_int_equal(fake->end.code, 0);
        fake_close(fake);
    }
    char command[2 * ROOT_BYTES + 128];
    snprintf(command, sizeof command, "sed -i 's/\"clock\": 14/\"clock\": 13/' %s/clock-14/manifest.json", root);
    assert_int_equal(system(command), 0);
    fake = cluster_new(STAGE_1, 10);
    fake->options.resume = root;
    fake_start(fake);
    join(fake, 0, "", TIER_RELIABLE, &fake->terms);
    expect_refused(fake, 0,
                   "clock-14 is of clock 13, within a group of 2 local steps: expected --strategy sma or auto with "
                   "--local-steps 2, got 1");
    fake->terms.local_steps = 2;
    fake->terms.strategy = STRATEGY_SMA;
    join(fake, 0, "", TIER_RELIABLE, &fake->terms);
    assert_int_equal(sent(fake, node(0), MESSAGE_WELCOME, NULL), 1);
    fake_close(fake);
    remove_tree(root);
}

static void test_checkpoints(void **state) {
    (void)state;
    char root[ROOT_BYTES];
    struct fake *fake = checkpointed(STAGE_2, 70, root);
    cluster_open(fake, 1, 3);
    fake->checkpoints.state = WRITTEN_FAILED; /* the first one fails: training goes on */
    play_to(fake, 12);
    assert_int_equal(lines_with(fake, "\"event\":\"checkpoint-failed\""), 1);
    assert_int_equal(lines_with(fake, "the disk is full"), 1);
    fake->checkpoints.state = WRITTEN_DONE;
    fake->checkpoints.written = 0;
    play_to(fake, 79); /* it is tried again some time after */
    assert_int_equal(fake->checkpoints.written, PARTITIONS * lines_with(fake, "\"event\":\"checkpoint\""));
    expect_good_end(fake, 70);
    assert_int_equal(newest_checkpoint(root), 140);
    fake_close(fake);

    char path[WIRE_PATH_MAX];
    struct manifest manifest;
    assert_int_equal(manifest_find(root, path, NULL), 0);
    assert_int_equal(manifest_read(path, &manifest, NULL), 0);
    uint64_t clock = manifest.clock;
    assert_int_equal(manifest.partitions, PARTITIONS);
    manifest_close(&manifest);
    fake = cluster_new(STAGE_2, 90); /* goes on from there, for longer */
    fake->options.resume = root;
    fake->clock = clock;
    cluster_open(fake, 1, 2);
    play(fake);
    assert_int_equal(fake->newest.plan.restore, clock);
    assert_string_equal(fake->newest.plan.resume, path);
    play_to_end(fake);
    assert_int_equal(fake->end.code, 0);
    assert_int_equal(fake->clock, 180);
    assert_true(line_number(fake->observed.lines[fake->observed.read - 1], "items_processed") ==
                (double)(180 - clock) * SHARDS * SHARD_ITEMS);
    fake_close(fake);

    fake = cluster_new(STAGE_2, 30);
    fake->options.resume = root;
    fake_start(fake);
    fake->terms.staleness = 7; /* what changes results must be the same */
    join(fake, 0, "", TIER_RELIABLE, &fake->terms);
    expect_refused(fake, 0, "the job of the checkpoint in");
    fake_close(fake);
    remove_tree(root);
}

/* ---- The controller is killed ---- */

/* A run with everything in it; how it ends must not depend on a controller that is killed on the way. */
static void eventful_run(struct fake *fake, bool failure) {
    cluster_open(fake, 1, 2);
    play_to(fake, 3);
    enter(fake, 3, TIER_TRANSIENT);
    play_to(fake, 9);
    for (unsigned a = 0; a < 3 && fake->players[2].there; a++) { /* a killed controller may not have heard it */
        ask(fake, OPERATOR, MESSAGE_EVICT, "n2");
    }
    deliver(fake);
    play_to(fake, 14);
    if (failure) {
        fake->players[3].there = false;
        ask(fake, OPERATOR, MESSAGE_GONE, "n3");
        deliver(fake);
    }
    play_to_end(fake);
    assert_int_equal(fake->end.ended, 1);
    assert_int_equal(fake->end.code, 0);
    assert_int_equal(fake->clock, 24);
    expect_report(fake, 12, !failure);
    const char *summary = fake->observed.lines[fake->observed.read - 1];
    assert_true(line_number(summary, "evictions") == 1);
    assert_true(line_number(summary, "failures") == (failure ? 1 : 0));
}

static void test_a_killed_controller_goes_on(void **state) {
    (void)state;
    static const enum kill kills[] = {KILL_AFTER_CALL, KILL_BEFORE_WRITE, KILL_AFTER_WRITE};
    for (unsigned run = 0; run < 6; run++) {
        bool killed = true;
        for (unsigned at = 1; killed; at++) {
            struct fake *fake = stored_cluster(STAGE_2, 12);
            fake->kill.where = kills[run % 3];
            fake->kill.at = at;
            eventful_run(fake, run >= 3);
            killed = fake->kill.count > 0;
            fake_close(fake);
        }
    }
}

static void test_progress_is_acknowledged_when_it_is_stored(void **state) {
    (void)state;
    struct fake *fake = fake_new((struct job_terms){.clocks_per_iteration = 1, .iterations = 100});
    struct message ack;
    fake->options.store = &fake->store.store;
    fake_start(fake);
    begin(fake);
    forget(fake);
    progress(fake, 0, 1);
    progress(fake, 1, 1);
    assert_int_equal(fake->controller.progress.completed, 1);
    assert_int_equal(sent(fake, node(1), MESSAGE_HEARTBEAT_ACK, NULL), 0);
    tick(fake, CONTROLLER_STORE_US);
    assert_true(sent(fake, node(1), MESSAGE_HEARTBEAT_ACK, &ack) > 0);
    assert_int_equal(ack.heartbeat_ack.progress, 1);
    forget(fake);
    progress(fake, 1, 1); /* the answer was lost */
    assert_int_equal(sent(fake, node(1), MESSAGE_HEARTBEAT_ACK, &ack), 1);
    assert_int_equal(ack.heartbeat_ack.progress, 1);
    fake_close(fake);
}

static double last_line_number(const struct fake *fake, const char *key) {
    return line_number(controller_line(&fake->controller, fake->controller.report.count - 1), key);
}

/* A clock of 2 s, reported by both nodes. */
static void report_clock_of_2_s(struct fake *fake, uint64_t clock) {
    for (unsigned n = 0; n < 2; n++) { /* one is a little behind, and catches up */
        uint64_t clock_us = clock % 2 == 0 ? 2100 * 1000 : 1900 * 1000;
        progress_timed(fake, n, node(n), clock, SHARDS / 2 * SHARD_ITEMS, 1, n == 0 ? 2000 * 1000 : clock_us);
    }
}

/* Training went on while there was no controller: what comes all at once when there is one again did not take no
 * time. */
static void test_time_without_a_controller(void **state) {
    (void)state;
    struct fake *fake = fake_new((struct job_terms){.clocks_per_iteration = 2, .iterations = 100});
    fake->options.store = &fake->store.store;
    fake_start(fake);
    begin(fake);
    for (uint64_t c = 1; c <= 4; c++) {
        tick(fake, 2000 * 1000);
        report_clock_of_2_s(fake, c);
        tick(fake, CONTROLLER_STORE_US);
        fake->now_us -= CONTROLLER_STORE_US;
    }
    assert_true(last_line_number(fake, "iteration") == 2);
    assert_true(fabs(last_line_number(fake, "seconds") - 8) < 0.01);
    assert_true(fabs(last_line_number(fake, "items_per_second") - SHARDS * SHARD_ITEMS / 2.0) < 1);
    controller_close(&fake->controller);
    fake->now_us += 13 * 1000 * 1000; /* six clocks, and half of the next */
    fake_start(fake);
    fake->now_us += 1000;
    for (uint64_t c = 5; c <= 10; c++) {
        report_clock_of_2_s(fake, c);
        assert_int_equal(fake->controller.progress.completed, c);
        assert_true(fabs(last_line_number(fake, "seconds") - 2.0 * (double)c) < 0.2);
    }
    assert_true(last_line_number(fake, "iteration") == 5);
    assert_int_equal(lines_with(fake, "\"bytes_sent\":400,"), 5); /* 2 nodes, 2 clocks, 100 bytes each */
    assert_true(fabs(last_line_number(fake, "items_per_second") - SHARDS * SHARD_ITEMS / 2.0) < 1);
    fake->now_us += 999 * 1000;
    report_clock_of_2_s(fake, 11);
    fake->now_us += 2000 * 1000;
    report_clock_of_2_s(fake, 12);
    assert_true(fabs(last_line_number(fake, "seconds") - 24) < 0.2);
    assert_true(fabs(last_line_number(fake, "items_per_second") - SHARDS * SHARD_ITEMS / 2.0) < 1);
    fake_close(fake);
}

/* ... that of a catch-up too: counted once, whatever becomes of the controller. */
static void test_catch_ups_are_acknowledged_when_they_are_stored(void **state) {
    (void)state;
    struct fake *fake = fake_new((struct job_terms){.staleness = 2, .clocks_per_iteration = 1, .iterations = 100});
    struct message message;
    fake->options.store = &fake->store.store;
    begin_with_three(fake, 6);
    ask(fake, OPERATOR, MESSAGE_GONE, "three");
    forget(fake);
    answer_fence(fake, 0, 6, 5);
    answer_fence(fake, 1, 6, 0);
    assert_int_equal(sent(fake, node(0), MESSAGE_PLAN, &message), 1);
    assert_int_equal(message.plan.restore, 5);
    unsigned late = assignment_items(&message, origin_catch_up(node(0), 2), 6) > 0 ? 0 : 1;
    uint64_t items = assignment_items(&message, origin_catch_up(node(late), 2), 6);
    assert_true(items > 0);
    for (unsigned round = 0; round < 3; round++) { /* the last time to a controller that has started again */
        forget(fake);
        progress_as(fake, late, origin_catch_up(node(late), 2), 6, items, 1);
        assert_true(sent(fake, node(late), MESSAGE_HEARTBEAT_ACK, &message) > 0);
        assert_int_equal(message.heartbeat_ack.progress, 6);
        assert_int_equal(message.heartbeat_ack.catch_up, round == 0 ? 5 : 6);
        tick(fake, CONTROLLER_STORE_US);
        assert_int_equal(fake->controller.progress.items_redone, items);
        if (round == 1) {
            controller_close(&fake->controller);
            fake_start(fake);
        }
    }
    fake_close(fake);
}

/* Its number stands for that clock, also when nodes have it from the controller before. */
static void test_a_hold_outlives_the_controller(void **state) {
    (void)state;
    struct fake *fake = fake_new((struct job_terms){.clocks_per_iteration = 1, .iterations = 100});
    fake->options.store = &fake->store.store;
    fake_start(fake);
    begin(fake);
    join(fake, 2, "three", TIER_TRANSIENT, &fake->terms);
    tick(fake, CONTROLLER_JOIN_WAIT_US + 1);
    for (unsigned n = 0; n < 3; n++) {
        heartbeat(fake, n, NODE_STARTED, 0);
    }
    assert_int_equal(fake->controller.change.state, CHANGE_BARRIER);
    struct barrier barrier = fake->controller.barrier;
    controller_close(&fake->controller);
    fake_start(fake);
    assert_int_equal(fake->controller.change.state, CHANGE_BARRIER);
    assert_int_equal(fake->controller.barrier.number, barrier.number);
    assert_int_equal(fake->controller.barrier.clock, barrier.clock);
    for (unsigned n = 0; n < 3; n++) {
        assert_int_equal(fake->controller.change.state, CHANGE_BARRIER);
        heartbeat(fake, n, NODE_STARTED, barrier.clock);
    }
    assert_int_equal(fake->controller.change.state, CHANGE_SWITCH);
    assert_int_equal(fake->controller.plan.from_clock, barrier.clock + 1);
    fake_close(fake);
}

/* The report says from which clock on nodes that have joined take part, and how long each phase took. */
static void test_nodes_that_take_part_are_reported(void **state) {
    (void)state;
    struct fake *fake = fake_open((struct job_terms){.clocks_per_iteration = 1, .iterations = 100});
    begin(fake);
    join(fake, 2, "three", TIER_TRANSIENT, &fake->terms);
    tick(fake, CONTROLLER_JOIN_WAIT_US);
    assert_int_equal(fake->controller.change.state, CHANGE_PREPARE);
    for (unsigned round = 0; round < 3; round++) { /* ready, at the barrier, with the plan that names the switch */
        fake->now_us += 100 * 1000;
        for (unsigned n = 0; n < 3; n++) {
            heartbeat(fake, n, NODE_STARTED, 0);
        }
    }
    assert_int_equal(fake->controller.change.state, CHANGE_SWITCH);
    assert_int_equal(fake->controller.plan.from_clock, 2);
    assert_int_equal(lines_with(fake, "\"event\":\"take-part\""), 0);
    for (uint64_t clock = 1; clock <= 2; clock++) {
        fake->clock = clock;
        for (unsigned n = 0; n < 3; n++) {
            if (clock == 2 || n < 2) {
                progress(fake, n, clock);
            }
            heartbeat(fake, n, NODE_STARTED, clock == 2 || n < 2 ? clock : 0);
        }
    }
    assert_int_equal(fake->controller.change.state, CHANGE_NONE);
    assert_int_equal(lines_with(fake, "\"event\":\"take-part\""), 1);
    assert_int_equal(lines_with(fake,
                                "\"nodes\":[\"three\"],\"reason\":\"from clock 2 on; gathered in 50 ms, prepared in "
                                "100 ms, switched in 200 ms\",\"first_clock\":2"),
                     1);
    fake_close(fake);
}

/* Nothing comes after the last registration, so only the timer can make the plan. */
static void test_a_plan_is_made_when_it_is_due(void **state) {
    (void)state;
    struct fake *fake = fake_new((struct job_terms){.clocks_per_iteration = 1, .iterations = 100});
    fake->options.heartbeat_ms = 1000;
    fake_start(fake);
    begin(fake);
    join(fake, 2, "three", TIER_TRANSIENT, &fake->terms);
    uint64_t due_us = fake->controller.change.due_us;
    assert_int_equal(due_us, fake->now_us + CONTROLLER_JOIN_WAIT_US);
    while (fake->now_us < due_us) {
        assert_int_equal(fake->controller.change.state, CHANGE_NONE);
        tick(fake, fake->controller.times.tick_us - fake->now_us);
    }
    assert_int_equal(fake->now_us, due_us);
    assert_int_equal(fake->controller.change.state, CHANGE_PREPARE);
    fake_close(fake);
}

/* The clock under way is the last of the old plan, unless it is about to end or an origin is beyond it. */
static void test_a_plan_changes_after_the_clock_under_way(void **state) {
    (void)state;
    static const struct {
        uint64_t clock_us; /* how long the clock before took */
        uint64_t begun;    /* the latest clock that a node has begun */
        uint64_t last;     /* the last clock of the old plan */
    } cases[] = {{1000 * 1000, 2, 2},
                 {1000 * 1000, 1, 2},
                 {CONTROLLER_JOIN_WAIT_US + 10 * 1000, 2, 3},
                 {10 * 1000, 2, 3},
                 {1000 * 1000, 3, 4}};
    for (unsigned c = 0; c < sizeof cases / sizeof *cases; c++) {
        struct fake *fake = fake_open((struct job_terms){.clocks_per_iteration = 1, .iterations = 100, .staleness = 1});
        begin(fake);
        fake->now_us += cases[c].clock_us;
        for (unsigned n = 0; n < 2; n++) {
            progress_timed(fake, n, node(n), 1, SHARDS / 2 * SHARD_ITEMS, 1, cases[c].clock_us);
        }
        assert_int_equal(fake->controller.progress.completed, 1);
        join(fake, 2, "three", TIER_TRANSIENT, &fake->terms);
        tick(fake, CONTROLLER_JOIN_WAIT_US);
        assert_int_equal(fake->controller.change.state, CHANGE_PREPARE);
        heartbeat(fake, 0, NODE_STARTED, 1);
        heartbeat(fake, 1, NODE_STARTED, cases[c].begun);
        heartbeat(fake, 2, NODE_STARTED, 0);
        assert_int_equal(fake->controller.change.state, CHANGE_BARRIER);
        assert_int_equal(fake->controller.barrier.clock, cases[c].last);
        fake_close(fake);
    }
}

/* A cluster of two in training, and these machines on their way. */
static struct fake *expecting(const char *names) {
    struct fake *fake = fake_new((struct job_terms){.clocks_per_iteration = 1, .iterations = 100});
    fake_start(fake);
    begin(fake);
    tick(fake, CONTROLLER_JOIN_WAIT_US + 1);
    allocate(fake, names);
    return fake;
}

/* Observers show how far the job is by what will end it. */
static void test_the_stop_criteria_are_known(void **state) {
    (void)state;
    struct fake *fake = fake_new((struct job_terms){
        .clocks_per_iteration = 2, .iterations = 100, .seconds = 90.5, .tolerance = 1e-4, .tolerance_iterations = 3});
    fake_start(fake);
    begin(fake);
    assert_int_equal(lines_with(fake, "\"event\":\"start\",\"iteration\":0,"), 1);
    assert_int_equal(lines_with(fake, "\"nodes\":[],\"iterations\":100,\"until_seconds\":90.5,\"tolerance\":0.0001,"
                                      "\"tolerance_iterations\":3}"),
                     1);
    char *text = report_status(&fake->controller);
    json_t *status = json_loads(text, 0, NULL);
    assert_int_equal(json_integer_value(json_object_get(status, "iterations")), 100);
    assert_true(json_number_value(json_object_get(status, "until_seconds")) == 90.5);
    assert_true(json_number_value(json_object_get(status, "tolerance")) == 1e-4);
    assert_int_equal(json_integer_value(json_object_get(status, "tolerance_iterations")), 3);
    json_decref(status);
    free(text);
    fake_close(fake);
    fake = fake_new((struct job_terms){.clocks_per_iteration = 1, .iterations = 7});
    fake_start(fake);
    begin(fake);
    text = report_status(&fake->controller);
    assert_non_null(strstr(text, "\"iterations\":7"));
    assert_null(strstr(text, "until_seconds"));
    assert_null(strstr(text, "tolerance"));
    free(text);
    fake_close(fake);
}

static bool is_expected(struct fake *fake, const char *name) {
    char *text = report_status(&fake->controller);
    json_t *status = json_loads(text, 0, NULL);
    json_t *expected = json_object_get(status, "expected");
    bool found = false;
    for (size_t e = 0; e < json_array_size(expected); e++) {
        json_t *machine = json_array_get(expected, e);
        assert_string_equal(json_string_value(json_object_get(machine, "tier")), "transient");
        found = found || strcmp(json_string_value(json_object_get(machine, "name")), name) == 0;
    }
    json_decref(status);
    free(text);
    return found;
}

static void test_allocated_machines_are_expected_until_they_join(void **state) {
    (void)state;
    struct fake *fake = expecting("c a b a two");
    assert_int_equal(fake->controller.expected.count, 3); /* each once; 'two' is here already */
    assert_true(is_expected(fake, "a") && is_expected(fake, "b") && is_expected(fake, "c"));
    assert_int_equal(lines_with(fake, "\"event\":\"allocation\""), 1);
    assert_int_equal(lines_with(fake, "\"nodes\":[\"a\",\"b\",\"c\"]"), 1);
    tick(fake, 7 * 1000 * 1000);
    join(fake, 2, "b", TIER_TRANSIENT, &fake->terms);
    assert_true(is_expected(fake, "a") && !is_expected(fake, "b") && is_expected(fake, "c"));
    assert_true(fabs(fake->controller.clocks.balance.pending_seconds - 7) < 0.1);
    allocate(fake, "b c d"); /* the whole list; 'b' joined while it was on its way */
    assert_true(!is_expected(fake, "a") && !is_expected(fake, "b") && is_expected(fake, "c") && is_expected(fake, "d"));
    assert_true(fabs(fake->controller.clocks.balance.pending_seconds - 7) < 0.1); /* of one that joined anew alone */
    assert_int_equal(lines_with(fake, "\"event\":\"allocation\""), 2);            /* only what is new */
    assert_int_equal(lines_with(fake, "\"nodes\":[\"d\"]"), 1);
    allocate(fake, "c d");
    assert_int_equal(lines_with(fake, "\"event\":\"allocation\""), 2);
    allocate(fake, "");
    assert_int_equal(fake->controller.expected.count, 0);
    fake_close(fake);
}

static void test_one_plan_takes_in_all_that_are_expected(void **state) {
    (void)state;
    struct fake *fake = expecting("a b");
    uint64_t version = fake->controller.plan.version;
    join(fake, 2, "a", TIER_TRANSIENT, &fake->terms);
    tick(fake, CONTROLLER_EXPECTED_WAIT_US / 2);
    assert_int_equal(fake->controller.plan.version, version); /* it waits for b */
    join(fake, 3, "b", TIER_TRANSIENT, &fake->terms);
    tick(fake, CONTROLLER_JOIN_WAIT_US + 1); /* ... and for nobody else */
    assert_int_equal(fake->controller.plan.version, version + 1);
    assert_int_equal(fake->controller.change.state, CHANGE_PREPARE);
    for (unsigned m = 0; m < 4; m++) {
        assert_true(fake->controller.members[m].planned);
    }
    fake_close(fake);
}

static void test_a_machine_that_never_comes_is_not_waited_for_long(void **state) {
    (void)state;
    struct fake *fake = expecting("a b c");
    uint64_t version = fake->controller.plan.version;
    join(fake, 2, "a", TIER_TRANSIENT, &fake->terms);
    tick(fake, CONTROLLER_EXPECTED_WAIT_US - CONTROLLER_JOIN_WAIT_US);
    join(fake, 3, "b", TIER_TRANSIENT, &fake->terms); /* the wait counts from the first */
    tick(fake, CONTROLLER_JOIN_WAIT_US + 1);
    assert_int_equal(fake->controller.plan.version, version + 1);
    fake_close(fake);
    fake = expecting("a b"); /* or not at all once it is known that it won't */
    version = fake->controller.plan.version;
    join(fake, 2, "a", TIER_TRANSIENT, &fake->terms);
    allocate(fake, "");
    tick(fake, CONTROLLER_JOIN_WAIT_US + 1);
    assert_int_equal(fake->controller.plan.version, version + 1);
    fake_close(fake);
}

static void test_who_leaves_does_not_wait_for_who_is_expected(void **state) {
    (void)state;
    for (unsigned order = 0; order < 2; order++) { /* the notice comes before or after the first has joined */
        struct fake *fake = expecting("a b");
        uint64_t version = fake->controller.plan.version;
        if (order == 0) {
            ask(fake, OPERATOR, MESSAGE_EVICT, "two");
        }
        join(fake, 2, "a", TIER_TRANSIENT, &fake->terms);
        if (order == 1) {
            ask(fake, OPERATOR, MESSAGE_EVICT, "two");
        }
        tick(fake, CONTROLLER_JOIN_WAIT_US + 1);
        assert_true(fake->controller.plan.version > version);
        fake_close(fake);
    }
}

/* Finds a run of numbers in the stored cluster. */
static unsigned char *find_stored(const struct fake *fake, const uint64_t *numbers, unsigned count) {
    for (unsigned e = 0; e < fake->store.count; e++) {
        const struct memory_entry *entry = &fake->store.entries[e];
        for (size_t at = 0; strcmp(entry->key, "cluster") == 0 && at + count * sizeof *numbers <= entry->size; at++) {
            if (memcmp(entry->bytes + at, numbers, count * sizeof *numbers) == 0) {
                return entry->bytes + at;
            }
        }
    }
    fail_msg("the stored cluster does not hold these numbers");
    return NULL;
}

static void expect_store_refused(struct fake *fake, const char *why) {
    struct controller other;
    struct error error = {0};
    assert_int_equal(controller_init(&other, &fake->io, &fake->options, &error), AML_EINPUT);
    assert_non_null(strstr(error.text, why));
}

/* Writes `wrong` over a stored number: a controller that starts with this store must refuse it. */
static void expect_checked(struct fake *fake, unsigned char *stored, uint32_t wrong, const char *why) {
    uint32_t right;
    memcpy(&right, stored, sizeof right);
    memcpy(stored, &wrong, sizeof wrong);
    expect_store_refused(fake, why);
    memcpy(stored, &right, sizeof right);
}

static void test_a_damaged_store_is_refused(void **state) {
    (void)state;
    struct fake *fake = lose_the_third((struct job_terms){.clocks_per_iteration = 1, .iterations = 100}, false, true);
    assert_true(fake->controller.lost.evaluation_count > 0);
    const struct lost_evaluation *evaluation = &fake->controller.lost.evaluations[0];
    const uint64_t evaluates[] = {evaluation->origin, evaluation->clock, evaluation->count};
    unsigned char *stored = find_stored(fake, evaluates, 3);
    expect_checked(fake, stored + sizeof evaluates, SHARDS, "the store is damaged: ");
    expect_checked(fake, stored + sizeof evaluates, UINT32_MAX, "the store is damaged: ");
    expect_checked(fake, stored + sizeof evaluates, evaluation->shards[1], "the store is damaged: "); /* twice */
    expect_checked(fake, stored + 2 * sizeof(uint64_t), SHARDS + 1, "the store is damaged: ");        /* their number */
    assert_true(fake->controller.plan.schedule.catch_up_count > 0);
    const struct schedule_catch_up *late = &fake->controller.plan.schedule.catch_ups[0];
    const uint64_t catches_up[] = {late->origin, late->from_clock, late->until_clock, late->count};
    stored = find_stored(fake, catches_up, 4);
    expect_checked(fake, stored + sizeof catches_up, SHARDS, "the store is damaged: ");
    restart(fake); /* the undamaged store is taken up */
    fake_close(fake);
}

/* A build whose structs have other fields reads no store of this one. */
static void test_a_store_of_another_build_is_refused(void **state) {
    (void)state;
    struct fake *fake = cluster_new(STAGE_1, 20);
    fake->options.store = &fake->store.store;
    cluster_open(fake, 1, 1);
    play_to(fake, 5);
    const uint64_t sizes[] = {sizeof fake->controller.phase, sizeof fake->controller.plan.stage};
    unsigned char *stored = find_stored(fake, sizes, 2);
    expect_checked(fake, stored, sizeof fake->controller.phase + 1, "another version of this program");
    expect_checked(fake, stored - sizeof(uint64_t), 0, "another version of this program");
    restart(fake);
    expect_good_end(fake, 20);
    fake_close(fake);
}

static void test_a_store_that_fails_ends_the_job(void **state) {
    (void)state;
    bool failed = true;
    for (unsigned at = 1; failed; at++) {
        struct fake *fake = stored_cluster(STAGE_1, 3);
        fake->store.fail_at = at;
        cluster_open(fake, 1, 2);
        play_to_end(fake);
        assert_int_equal(fake->end.ended, 1);
        failed = fake->end.code != 0;
        if (failed) {
            assert_int_equal(fake->end.code, AML_EFAIL);
            assert_string_equal(fake->end.text, "the store is full");
            assert_int_equal(lines_with(fake, "\"type\":\"summary\""), 1);
            assert_int_equal(lines_with(fake, "the store is full"), 1);
            assert_int_equal(fake->store.writes, at); /* what is there stays whole */
        }
        for (unsigned n = 0; n < 3; n++) { /* nodes end as the job does */
            assert_true(!failed || !fake->players[n].done);
        }
        assert_true(at > 1 || failed);
        fake_close(fake);
    }
}

/* ---- Apps that crash ---- */

/* The app of a node crashes, which says so and dies. */
static void crash(struct fake *fake, unsigned number, unsigned signal, const char *function, uint64_t clock) {
    struct message message = {.type = MESSAGE_CRASHED, .crashed = {.signal = signal, .clock = clock}};
    snprintf(message.crashed.function, sizeof message.crashed.function, "%s", function);
    fake->players[number].there = false;
    give(fake, number, &message);
}

/* The nodes tell of a loss, and all recover from it. */
static void recover_all(struct fake *fake) {
    play(fake);
    play_recovery(fake);
}

static void kill_controller(struct fake *fake) {
    fake->kill.dead = true;
    called(fake);
}

static void expect_crash_end(struct fake *fake, const char *text) {
    assert_true(fake->controller.phase >= PHASE_LEAVE);
    play_to_end(fake);
    assert_int_equal(fake->end.code, AML_EFAIL);
    if (strstr(fake->end.text, text) == NULL || strstr(fake->end.text, "the only copy") != NULL) {
        fail_msg("'%s', expected '%s'", fake->end.text, text);
    }
    fake_close(fake);
}

/* The app crashes at clock 12 on one node, then on the node that does that clock again; the controller is killed
 * between. */
static void test_the_second_crash_at_the_same_clock_ends_the_job(void **state) {
    (void)state;
    for (unsigned killed = 0; killed < 2; killed++) {
        struct fake *fake = stored_cluster(STAGE_1, 20);
        cluster_open(fake, 1, 4);
        play_to(fake, 11);
        crash(fake, 2, 11, "clock", 12);
        assert_true(sent(fake, node(2), MESSAGE_DONE, NULL) > 0); /* it may die */
        recover_all(fake);
        assert_int_equal(lines_with(fake,
                                    "n2 (host, pid 1) died of signal 11 (Segmentation fault) in the app's function "
                                    "clock, at clock 12"),
                         1);
        if (killed > 0) {
            kill_controller(fake);
        }
        crash(fake, 3, 11, "clock", 12);
        expect_crash_end(fake,
                         "n2 (host, pid 1) and then n3 (host, pid 1) died of signal 11 (Segmentation fault) in the "
                         "app's function clock, at clock 12");
    }
}

/* Whatever is stored of a crash when the controller is killed, the next one recovers from it. */
static void test_a_controller_that_is_killed_when_it_hears_of_a_crash(void **state) {
    (void)state;
    static const enum kill kills[] = {KILL_BEFORE_WRITE, KILL_AFTER_WRITE, KILL_AFTER_CALL};
    for (unsigned run = 0; run < 9; run++) {
        struct fake *fake = stored_cluster(STAGE_1, 20);
        cluster_open(fake, 1, 3);
        play_to(fake, 11);
        fake->kill.where = kills[run % 3];
        fake->kill.at = (run % 3 < 2 ? fake->store.writes : fake->kill.calls) + 1 + run / 3;
        crash(fake, 2, 11, "clock", 12);
        recover_all(fake);
        play_to_end(fake);
        assert_int_equal(fake->kill.count, 1);
        assert_int_equal(fake->end.code, 0);
        assert_int_equal(fake->clock, 2 * 20);
        expect_report(fake, 20, false); /* what was not stored of progress is not in it */
        fake_close(fake);
    }
}

static void test_other_crashes_are_failures_like_any(void **state) {
    (void)state;
    struct fake *fake = cluster_new(STAGE_1, 20);
    cluster_open(fake, 1, 5);
    play_to(fake, 11);
    crash(fake, 5, 11, "clock", 12);
    recover_all(fake);
    crash(fake, 4, 6, "clock", 12); /* another signal */
    recover_all(fake);
    play_to(fake, 20);
    crash(fake, 3, 11, "clock", 21); /* another clock */
    recover_all(fake);
    crash(fake, 2, 11, "read", 0); /* of no clock */
    expect_good_end(fake, 20);
    assert_int_equal(fake->controller.progress.failures, 4);
    fake_close(fake);
}

static void test_which_crashes_are_the_same(void **state) {
    (void)state;
    static const struct {
        const char *function;
        uint64_t clocks[2];
    } cases[] = {{"clock", {12, 12}},    {"begin", {12, 12}}, {"evaluate", {11, 12}},
                 {"evaluate", {10, 12}}, {"read", {0, 0}},    {"", {12, 12}}};
    for (size_t c = 0; c < sizeof cases / sizeof cases[0]; c++) {
        struct fake *fake = cluster_new(STAGE_1, 20);
        cluster_open(fake, 1, 3);
        play_to(fake, 11);
        crash(fake, 1, 6, cases[c].function, cases[c].clocks[0]);
        recover_all(fake);
        crash(fake, 2, 6, cases[c].function, cases[c].clocks[1]);
        expect_crash_end(fake, "n1 (host, pid 1) and then n2 (host, pid 1) died of signal 6 (Aborted)");
    }
}

/* Only the signals of two processes' ends are known; or they are known first, and CRASHED comes later. */
static void test_crashes_known_by_the_signal_alone(void **state) {
    (void)state;
    for (unsigned late = 0; late < 2; late++) {
        struct fake *fake = cluster_new(STAGE_1, 20);
        cluster_open(fake, 1, 3);
        play_to(fake, 11);
        die(fake, 1, 8);
        if (late > 0) {
            crash(fake, 1, 8, "clock", 13);
            assert_true(sent(fake, node(1), MESSAGE_DONE, NULL) > 0);
        }
        recover_all(fake);
        if (late > 0) {
            crash(fake, 2, 8, "clock", 13);
        } else {
            die(fake, 2, 8);
        }
        expect_crash_end(fake,
                         "n1 (host, pid 1) and then n2 (host, pid 1) died of signal 8 (Floating point exception)");
    }
    struct fake *fake = cluster_new(STAGE_1, 20);
    cluster_open(fake, 1, 3);
    play_to(fake, 11);
    die(fake, 1, 9); /* others' doing */
    recover_all(fake);
    die(fake, 2, 9);
    expect_good_end(fake, 20);
    fake_close(fake);
}

/* The job's error names the crash, not what follows from it. */
static void test_a_crash_that_the_job_does_not_survive(void **state) {
    (void)state;
    static const enum stage stages[] = {STAGE_1, STAGE_TRADITIONAL};
    for (unsigned s = 0; s < 2; s++) {
        struct fake *fake = cluster_new(stages[s], 20);
        cluster_open(fake, 2, 1);
        play_to(fake, 11);
        crash(fake, 0, 6, "clock", 12);
        for (unsigned r = 0; r < 10 && fake->controller.phase < PHASE_LEAVE; r++) {
            play(fake);
        }
        expect_crash_end(fake, "n0 (host, pid 1) died of signal 6 (Aborted) in the app's function clock, at clock 12");
    }
}

/* What was lost with a reliable node that was killed is not blamed on a transient one that crashed. */
static void test_a_crash_is_not_blamed_for_what_others_had(void **state) {
    (void)state;
    struct fake *fake = cluster_new(STAGE_1, 20);
    cluster_open(fake, 2, 2);
    play_to(fake, 11);
    crash(fake, 2, 6, "clock", 12);
    die(fake, 0, 9);
    for (unsigned r = 0; r < 10 && fake->controller.phase < PHASE_LEAVE; r++) {
        play(fake);
    }
    play_to_end(fake);
    assert_int_equal(fake->end.code, AML_EFAIL);
    assert_non_null(strstr(fake->end.text, "the only copy of partition"));
    fake_close(fake);
}

static void test_nodes_that_crash_before_they_take_part(void **state) {
    (void)state;
    struct fake *fake = cluster_new(STAGE_1, 20);
    cluster_open(fake, 1, 2);
    play_to(fake, 5);
    for (unsigned n = 3; n < 5; n++) {
        enter(fake, n, TIER_TRANSIENT);
        play_rounds(fake, 1);
        assert_int_equal(fake->controller.member_count, 4);
        crash(fake, n, 11, "read", 0);
        recover_all(fake);
    }
    expect_good_end(fake, 20);
    fake_close(fake);
}

/* ---- What nodes have read ---- */

/* INPUT of `items` in the first shard, read from a file of 10 bytes an item. */
static void read_items(struct fake *fake, unsigned from, uint64_t items) {
    struct wire_input_shard shards[SHARDS] = {{.items = items, .hash = hash_mix(items)}, {.items = 5, .hash = 5}};
    const struct wire_input_file file = {.path = "ratings.csv", .bytes = 10 * items};
    struct message message = {.type = MESSAGE_INPUT, .input.reading = 1, .frame_count = 2};
    message.frames[0] = buffer_copy(shards, sizeof shards);
    message.frames[1] = buffer_copy(&file, sizeof file);
    give(fake, from, &message);
}

static bool is_compared(struct fake *fake, unsigned number) {
    struct message ack;
    return sent(fake, node(number), MESSAGE_HEARTBEAT_ACK, &ack) > 0 && ack.heartbeat_ack.input == 1;
}

static void refused_by(struct fake *fake, unsigned number, const char *expected) {
    struct message message;
    assert_int_equal(sent(fake, node(number), MESSAGE_ABORT, &message), 1);
    assert_int_equal(message.text.code, AML_EINPUT);
    assert_string_equal(message.text.text, expected);
}

static const char ITEMS_DIFFER[] = "the input differs: node-1 (host) read 105 items from ratings.csv (1000 bytes), two "
                                   "(host) 65 items from ratings.csv (600 bytes); 1 of 12 data shards differ";

/* Before START nobody knows which input is right: the job ends. */
static void test_different_input_at_the_start_ends_the_job(void **state) {
    (void)state;
    struct fake *fake = fake_open((struct job_terms){.iterations = 3, .clocks_per_iteration = 1});
    join(fake, 0, "", TIER_RELIABLE, &fake->terms);
    read_items(fake, 0, 100); /* of no plan: passed over */
    assert_false(is_compared(fake, 0));
    join(fake, 1, "two", TIER_TRANSIENT, &fake->terms);
    read_items(fake, 0, 100);
    assert_true(is_compared(fake, 0));
    read_items(fake, 1, 60);
    assert_false(is_compared(fake, 1));
    refused_by(fake, 0, ITEMS_DIFFER);
    refused_by(fake, 1, ITEMS_DIFFER);
    assert_int_equal(fake->controller.phase, PHASE_LEAVE);
    fake_close(fake);
}

/* The node that joins is sent away, the others go on; also under a controller that was started again with its store. */
static void test_who_joins_with_different_input_is_refused_alone(void **state) {
    (void)state;
    for (unsigned killed = 0; killed < 2; killed++) {
        struct fake *fake = fake_new((struct job_terms){.iterations = 30, .clocks_per_iteration = 1});
        fake->options.store = &fake->store.store;
        fake_start(fake);
        join(fake, 0, "", TIER_RELIABLE, &fake->terms);
        join(fake, 1, "two", TIER_TRANSIENT, &fake->terms);
        for (unsigned n = 0; n < 2; n++) {
            read_items(fake, n, 100);
            assert_true(is_compared(fake, n));
            heartbeat(fake, n, NODE_LOADED, 0);
            loaded(fake, n, fake->controller.plan.version, SHARDS / 2 * SHARD_ITEMS);
        }
        assert_int_equal(fake->controller.phase, PHASE_TRAIN);
        if (killed > 0) {
            fake->kill.where = KILL_AFTER_CALL;
            fake->kill.at = 1;
            tick(fake, 1000);
            assert_int_equal(fake->kill.count, 1);
        }
        join(fake, 2, "late", TIER_RELIABLE, &fake->terms);
        tick(fake, 100 * 1000);
        assert_int_equal(fake->controller.change.state, CHANGE_PREPARE);
        forget(fake);
        read_items(fake, 2, 100 + 1);
        refused_by(
            fake, 2,
            "the input differs: node-1 (host) read 105 items from ratings.csv (1000 bytes), late (host) 106 items "
            "from ratings.csv (1010 bytes); 1 of 12 data shards differ");
        assert_int_equal(sent(fake, node(0), MESSAGE_ABORT, NULL), 0);
        assert_int_equal(fake->controller.phase, PHASE_TRAIN);
        assert_int_equal(fake->controller.change.state, CHANGE_NONE);
        assert_int_equal(fake->controller.member_count, 2);
        assert_int_equal(fake->controller.plan.epoch, 1);
        for (uint32_t p = 0; p < PARTITIONS; p++) {
            assert_true(actor_node(fake->controller.plan.placement[p].next_server) != node(2));
        }
        const char *line = controller_line(&fake->controller, fake->controller.report.count - 1);
        assert_non_null(strstr(line, "\"refused\""));
        assert_non_null(strstr(line, "\"late\""));
        unsigned settings = fake->setting_count;
        forget(fake);
        set_mark(fake, settings, "lines", "00000000000000b1"); /* found before it registers */
        join(fake, 3, "unlike", TIER_TRANSIENT, &fake->terms);
        expect_refused(fake, 3, "the input differs: app unlike on host has found other lines than node-1 on host");
        line = controller_line(&fake->controller, fake->controller.report.count - 1);
        assert_true(strstr(line, "\"refused\"") != NULL && strstr(line, "\"unlike\"") != NULL);
        fake->setting_count = settings;
        join(fake, 3, "later", TIER_RELIABLE, &fake->terms); /* with the same input: it has its part */
        tick(fake, 100 * 1000);
        read_items(fake, 3, 100);
        assert_true(is_compared(fake, 3));
        assert_int_equal(fake->controller.change.state, CHANGE_PREPARE);
        fake_close(fake);
    }
}

/* A node that joins is to have a part from the next clocks on. It reads its input again and finds it changed: others
 * serve what it was to serve. */
static void test_who_is_about_to_work_and_reads_different_input_is_lost(void **state) {
    (void)state;
    struct fake *fake = fake_open((struct job_terms){.iterations = 30, .clocks_per_iteration = 1});
    begin(fake);
    read_items(fake, 0, 100);
    join(fake, 2, "late", TIER_RELIABLE, &fake->terms);
    tick(fake, CONTROLLER_JOIN_WAIT_US + 1);
    read_items(fake, 2, 100);
    heartbeat(fake, 2, NODE_LOADED, 0);
    heartbeat(fake, 0, NODE_STARTED, 2);
    heartbeat(fake, 1, NODE_STARTED, 2);
    heartbeat(fake, 2, NODE_STARTED, 0);
    assert_int_equal(fake->controller.change.state, CHANGE_BARRIER);
    read_items(fake, 2, 60);
    assert_int_equal(fake->controller.member_count, 2);
    assert_int_equal(fake->controller.change.state, CHANGE_RECOVER);
    fake_close(fake);
}

/* A node that works reads its input again and finds it changed: the others take over, where they can. */
static void test_who_works_on_and_reads_different_input_is_lost(void **state) {
    (void)state;
    for (unsigned reliable = 0; reliable < 2; reliable++) {
        struct fake *fake = fake_open((struct job_terms){.iterations = 30, .clocks_per_iteration = 1});
        begin(fake);
        read_items(fake, 0, 100);
        read_items(fake, 1, 100);
        read_items(fake, reliable == 1 ? 0 : 1, 60);
        if (reliable == 1) { /* nobody else has the parameters */
            assert_int_equal(fake->controller.phase, PHASE_LEAVE);
            assert_string_equal(
                fake->controller.end.text,
                "the input differs: node-1 (host) read 105 items from ratings.csv (1000 bytes), then 65 "
                "items from ratings.csv (600 bytes); 1 of 12 data shards differ");
        } else {
            refused_by(fake, 1, ITEMS_DIFFER);
            assert_int_equal(fake->controller.member_count, 1);
            assert_int_equal(fake->controller.change.state, CHANGE_RECOVER);
        }
        fake_close(fake);
    }
}

static void test_input_of_other_shards_is_no_input(void **state) {
    (void)state;
    struct fake *fake = fake_open((struct job_terms){.iterations = 3, .clocks_per_iteration = 1});
    join(fake, 0, "", TIER_RELIABLE, &fake->terms);
    join(fake, 1, "two", TIER_TRANSIENT, &fake->terms);
    struct message message = {.type = MESSAGE_INPUT, .input.reading = 1, .frame_count = 2};
    message.frames[0] = buffer_new(0);
    message.frames[1] = buffer_new(0);
    give(fake, 1, &message);
    assert_int_equal(fake->controller.end.code, AML_EPROTOCOL);
    assert_string_equal(fake->controller.end.text, "two (host) reported the input of 0 data shards, expected 12");
    fake_close(fake);
}

/* Hundreds register and do nothing more: neither a barrier nor a recovery waits for them, and their silence is no
 * failure of a node that others would have to recover from. */
static void test_registrations_alone_stop_nothing(void **state) {
    (void)state;
    enum { STRANGERS = 400 };
    struct fake *fake = stored_cluster(STAGE_2, 1000);
    cluster_open(fake, 1, 3);
    play_to(fake, 5);
    unsigned writes = fake->store.writes;
    for (unsigned s = 0; s < STRANGERS; s++) {
        join(fake, 100 + s, "", TIER_TRANSIENT, &fake->terms);
        forget(fake);
    }
    assert_true(fake->store.writes - writes < STRANGERS / 10);
    assert_int_equal(fake->controller.member_count, 4 + STRANGERS);
    uint64_t clock = fake->clock;
    fake->players[3].there = false;
    ask(fake, OPERATOR, MESSAGE_GONE, "n3");
    play_rounds(fake, 40);
    assert_true(fake->clock > clock + 20);
    assert_int_equal(fake->controller.plan.epoch, 2);
    struct message stop = {.type = MESSAGE_STOP};
    give(fake, OPERATOR, &stop);
    play_rounds(fake, 10);
    assert_true(fake->controller.phase >= PHASE_SAVE);
    fake_close(fake);
}

/* ---- Members that are heard ---- */

/* Plays until the controller gives a member up for `text`. */
static void play_to_failure(struct fake *fake, const char *text) {
    for (unsigned r = 0; lines_with(fake, text) == 0; r++) {
        assert_true(r < ROUNDS_MAX && fake->end.ended == 0);
        play(fake);
    }
    assert_int_equal(lines_with(fake, "\"event\":\"failure\""), 1);
}

static struct fake *deaf_cluster(enum message_type deaf) {
    struct fake *fake = cluster_new(STAGE_2, 1000);
    cluster_open(fake, 1, 3);
    play_to(fake, 5);
    fake->players[2].deaf = deaf;
    return fake;
}

/* A node that answers everything but its fence, a barrier, a plan: the others go on without it. */
static void test_who_is_heard_has_to_answer(void **state) {
    (void)state;
    static const struct {
        enum message_type deaf;
        const char *text;
    } cases[] = {{MESSAGE_HEARTBEAT_ACK, "has not answered a barrier"},
                 {MESSAGE_PLAN, "has not answered a plan"},
                 {MESSAGE_FENCE, "has not answered a fence"}};
    for (unsigned c = 0; c < sizeof cases / sizeof *cases; c++) {
        struct fake *fake = deaf_cluster(cases[c].deaf);
        if (cases[c].deaf == MESSAGE_FENCE) {
            fake->players[3].there = false;
            ask(fake, OPERATOR, MESSAGE_GONE, "n3");
            fake->controller.progress.failures = 0;
            play_rounds(fake, 2);
            for (unsigned r = 0; lines_with(fake, cases[c].text) == 0; r++) {
                assert_true(r < ROUNDS_MAX);
                play(fake);
            }
        } else {
            enter(fake, 4, TIER_TRANSIENT);
            play_to_failure(fake, cases[c].text);
        }
        assert_int_equal(lines_with(fake, "n2 (host, pid 1) sends heartbeats, but for 9."), 1);
        play_to(fake, fake->clock + 20);
        assert_true(fake->players[2].rejoin);
        fake_close(fake);
    }
}

/* A node that ignores plans may be the reason why others are lost: each loss begins a new plan, not a new wait. */
static void test_a_plan_is_owed_through_recoveries(void **state) {
    (void)state;
    struct fake *fake = deaf_cluster(MESSAGE_PLAN);
    enter(fake, 4, TIER_TRANSIENT);
    play_rounds(fake, ANSWER_MS * 2 / 3 * UINT64_C(1000) / ROUND_US);
    fake->players[4].there = false;
    ask(fake, OPERATOR, MESSAGE_GONE, "n4");
    play_rounds(fake, ANSWER_MS / 2 * UINT64_C(1000) / ROUND_US);
    assert_int_equal(lines_with(fake, "has not answered a plan"), 1);
    fake_close(fake);
}

/* All wait for the work of a node that may be computing a long clock. A barrier without a clock shows that it hears
 * nothing; one that answers may compute for as long as it likes. */
static void test_a_long_clock_is_no_failure(void **state) {
    (void)state;
    for (unsigned deaf = 0; deaf < 2; deaf++) {
        struct fake *fake = fake_new((struct job_terms){.clocks_per_iteration = 1, .iterations = 1000});
        fake_start(fake);
        begin(fake);
        uint64_t number = fake->controller.barrier.number;
        for (unsigned r = 0; r < 40 * TIMEOUT_MS / HEARTBEAT_MS && fake->controller.member_count == 2; r++) {
            tick(fake, HEARTBEAT_MS * UINT64_C(500));
            tick(fake, HEARTBEAT_MS * UINT64_C(500));
            heartbeat(fake, 0, NODE_STARTED, 1);
            struct message message = {.type = MESSAGE_HEARTBEAT};
            message.heartbeat = (struct message_heartbeat){.state = NODE_STARTED,
                                                           .clock = 1,
                                                           .barrier = deaf ? number : fake->controller.barrier.number,
                                                           .version = fake->controller.plan.version,
                                                           .ready = fake->controller.plan.version};
            give(fake, 1, &message);
            forget(fake);
        }
        assert_true(fake->controller.barrier.number > number);
        assert_int_equal(fake->controller.member_count, deaf ? 1 : 2);
        assert_int_equal(lines_with(fake, "has not answered a barrier"), deaf);
        fake_close(fake);
    }
}

/* A replica's server that does not promise its part of a checkpoint: each attempt is put off, the wait goes on. */
static void test_a_checkpoint_has_to_be_promised(void **state) {
    (void)state;
    char root[ROOT_BYTES];
    struct fake *fake = checkpointed(STAGE_1, 1000, root);
    cluster_open(fake, 2, 1);
    play_to(fake, 3);
    fake->players[1].deaf = MESSAGE_CHECKPOINT;
    ask_now(fake, 1);
    play_to_failure(fake, "n1 (host, pid 1) sends heartbeats, but for 9.");
    assert_int_equal(lines_with(fake, "has not answered the request for a checkpoint"), 1);
    fake_close(fake);
    remove_tree(root);
}

/* Time in which the controller was busy, stopped, or not there is not the members' delay. */
static void test_own_delays_are_no_missing_answers(void **state) {
    (void)state;
    struct fake *fake = stored_cluster(STAGE_2, 1000);
    cluster_open(fake, 1, 3);
    play_to(fake, 5);
    fake->players[2].deaf = MESSAGE_HEARTBEAT_ACK;
    enter(fake, 4, TIER_TRANSIENT);
    for (unsigned r = 0; r < 100; r++) { /* each tick comes late, by less than is a stop; 100 of them are 100 s */
        fake->now_us += 950 * 1000;
        play(fake);
    }
    assert_int_equal(lines_with(fake, "has not answered"), 0);
    for (unsigned r = 0; r < 3; r++) {
        play_rounds(fake, 100);
        restart(fake);
        fake->now_us += 20 * TIMEOUT_MS * UINT64_C(1000);
    }
    play_rounds(fake, 100);
    assert_int_equal(lines_with(fake, "has not answered"), 0);
    play_to_failure(fake, "n2 (host, pid 1) sends heartbeats, but for 9.");
    fake_close(fake);
}

/* What a member says must be possible. */
static void test_impossible_heartbeats(void **state) {
    (void)state;
    static const struct {
        struct message_heartbeat beat;
        const char *text;
    } cases[] = {
        {{.clock = WIRE_CLOCK_MAX}, "HEARTBEAT with clock 4294967280, at most 10 is possible"},
        {{.committed = WIRE_CLOCK_MAX}, "HEARTBEAT with committed clock 4294967280, at most 10 is possible"},
        {{.version = 2}, "HEARTBEAT with plan 2, at most 1 is possible"},
        {{.version = 1, .ready = 2}, "HEARTBEAT with ready for plan 2, at most 1 is possible"},
        {{.barrier = 1000}, "HEARTBEAT with barrier 1000, at most 1 is possible"},
    };
    for (unsigned c = 0; c < sizeof cases / sizeof *cases; c++) {
        struct fake *fake = fake_open((struct job_terms){.clocks_per_iteration = 1, .iterations = 10});
        begin(fake);
        struct message message = {.type = MESSAGE_HEARTBEAT, .heartbeat = cases[c].beat};
        message.heartbeat.state = NODE_STARTED;
        give(fake, 1, &message);
        expect_impossible(fake, cases[c].text);
        give(fake, 1, &message); /* it goes on: logged once */
        expect_impossible(fake, cases[c].text);
        assert_true(sent(fake, node(1), MESSAGE_REJOIN, NULL) > 0);
        assert_int_equal(fake->controller.commit.clock, 0);
        fake_close(fake);
    }
}

static void test_impossible_progress(void **state) {
    (void)state;
    static const struct {
        struct message_progress told;
        const char *text;
    } cases[] = {
        {{.clock = WIRE_CLOCK_MAX}, "PROGRESS with clock 4294967280, at most 4098 is possible"},
        {{.clock = 1, .committed = 5000}, "PROGRESS with committed clock 5000, at most 4098 is possible"},
    };
    for (unsigned c = 0; c < sizeof cases / sizeof *cases; c++) {
        struct fake *fake = fake_open((struct job_terms){.clocks_per_iteration = 1, .iterations = 10000});
        begin(fake);
        struct message_progress told = cases[c].told;
        told.origin = node(1);
        progress_told(fake, 1, &told, 1);
        expect_impossible(fake, cases[c].text);
        fake_close(fake);
    }
}

/* A commit that could be, but is not, moves nothing before the clocks are reported; and the next failure finds out. */
static void test_a_commit_counts_when_its_clocks_are_reported(void **state) {
    (void)state;
    struct fake *fake = fake_new((struct job_terms){.clocks_per_iteration = 1, .iterations = 100});
    begin_with_three(fake, 4);
    fake->clock = 50;
    heartbeat(fake, 1, NODE_STARTED, 5);
    assert_int_equal(fake->controller.commit.clock, 4);
    for (unsigned n = 0; n < 3; n++) {
        progress_as(fake, n, node(n), 5, THIRD_ITEMS, 1);
    }
    assert_int_equal(fake->controller.commit.clock, 5);
    fake_close(fake);
}

/* FENCED, of restore points that are not the sender's, or of clocks that cannot have been begun. */
static void test_impossible_restore_points(void **state) {
    (void)state;
    static const struct {
        struct message_fenced fenced;
        struct wire_restore_point reach;
        const char *text;
    } cases[] = {
        {{.begun = 5}, {.server = 7, .partition = 0, .clock = 5}, "a restore point of a server that is not"},
        {{.begun = 5}, {.partition = PARTITIONS, .clock = 5}, "FENCED with partition 4, at most 3 is possible"},
        {{.begun = 5}, {.clock = 101}, "FENCED with restore point 101, at most 100 is possible"},
        {{.begun = 5000}, {.clock = 5}, "FENCED with begun clock 5000, at most 100 is possible"},
        {{.begun = 5, .committed = 5000}, {.clock = 5}, "FENCED with committed clock 5000, at most 100 is possible"},
        {{.begun = 3}, {.clock = 3}, "FENCED with begun clock 3, but the node reported clock 4 before"},
        {{.begun = 5, .committed = 6}, {.clock = 5}, "FENCED with the state of clock 6, but one has not begun clock 6"},
        {{.begun = 9}, {.clock = 9}, "FENCED with the state of clock 9, but one has not begun clock 6"},
    };
    for (unsigned c = 0; c < sizeof cases / sizeof *cases; c++) {
        struct fake *fake = fake_new((struct job_terms){.clocks_per_iteration = 1, .iterations = 100});
        begin_with_three(fake, 4);
        ask(fake, OPERATOR, MESSAGE_GONE, "three");
        struct wire_restore_point reach = cases[c].reach;
        reach.server = reach.server != 0 ? reach.server : actor_of_part(node(1), 1);
        struct message fenced = {.type = MESSAGE_FENCED, .frame_count = 1, .fenced = cases[c].fenced};
        fenced.frames[0] = buffer_copy(&reach, sizeof reach);
        give(fake, 1, &fenced);
        answer_fence(fake, 0, 5, 5);
        assert_int_equal(lines_with(fake, cases[c].text), 1);
        assert_int_equal(fake->controller.member_count, 1);
        answer_fence(fake, 0, 5, 5); /* of the next epoch */
        assert_int_equal(fake->controller.plan.restore, 5);
        assert_true(fake->controller.phase == PHASE_TRAIN && fake->controller.change.state != CHANGE_RECOVER);
        fake_close(fake);
    }
}

/* One that denies to have begun what others have the state of does not have them given up. */
static void test_who_denies_what_others_have_is_given_up(void **state) {
    (void)state;
    struct fake *fake = fake_new((struct job_terms){.clocks_per_iteration = 1, .iterations = 100});
    begin_with_three(fake, 4);
    ask(fake, OPERATOR, MESSAGE_GONE, "three");
    /* as a controller that has just started knows it */
    controller_find_member(&fake->controller, node(1))->reported.clock = 0;
    answer_fence(fake, 1, 0, 0);
    answer_fence(fake, 0, 5, 5);
    assert_int_equal(lines_with(fake, "FENCED with clock 1 not begun, but one has the state of clock 5"), 1);
    assert_int_equal(fake->controller.member_count, 1);
    assert_non_null(controller_find_member(&fake->controller, node(0)));
    answer_fence(fake, 0, 5, 5); /* of the next epoch */
    assert_int_equal(fake->controller.plan.restore, 5);
    fake_close(fake);
}

/* ---- Accusations ---- */

/* Four nodes in training at clock 4: one is reliable, the others are not. Each is a process of its own. */
static struct fake *begin_with_four(void) {
    static const char *const names[] = {"one", "two", "three", "four"};
    struct fake *fake = fake_new((struct job_terms){.clocks_per_iteration = 1, .iterations = 100});
    fake->options.transient = 3;
    fake_start(fake);
    for (unsigned n = 0; n < 4; n++) {
        join(fake, n, names[n], n == 0 ? TIER_RELIABLE : TIER_TRANSIENT, &fake->terms);
        fake->controller.members[n].process_id = 11 + n;
    }
    for (unsigned n = 0; n < 4; n++) {
        heartbeat(fake, n, NODE_LOADED, 0);
        loaded(fake, n, 1, SHARDS / 4 * SHARD_ITEMS);
    }
    assert_int_equal(fake->controller.phase, PHASE_TRAIN);
    return fake;
}

/* Those who are left answer the fence, and the job goes on. */
static void recover_from_clock_0(struct fake *fake) {
    assert_int_equal(fake->controller.change.state, CHANGE_RECOVER);
    for (unsigned n = 0; n < 4; n++) {
        if (controller_find_member(&fake->controller, node(n)) != NULL) {
            answer_fence(fake, n, 0, 0);
        }
    }
    assert_true(fake->controller.change.state != CHANGE_RECOVER);
}

static bool takes_part(struct fake *fake, unsigned number) {
    return controller_find_member(&fake->controller, node(number)) != NULL;
}

/* Whoever sends what can't be is given up, once; an accusation of an epoch that is over says nothing. */
static void test_who_sends_what_can_not_be_is_given_up(void **state) {
    (void)state;
    struct fake *fake = begin_with_four();
    uint64_t epoch = fake->controller.plan.epoch;
    accuse(fake, 2, 1, epoch - 1);
    accuse(fake, 2, 5, epoch); /* no node of the job */
    accuse(fake, 5, 1, epoch); /* by a stranger */
    assert_int_equal(fake->controller.member_count, 4);
    accuse(fake, 2, 1, epoch);
    accuse(fake, 2, 1, epoch);
    assert_int_equal(
        lines_with(
            fake,
            "three (host) says that two (host, pid 12) sent it what can't be: FLUSH: bad rows: two is given up\""),
        1);
    assert_false(takes_part(fake, 1));
    recover_from_clock_0(fake);
    accuse(fake, 3, 2, epoch); /* came late */
    assert_int_equal(fake->controller.member_count, 3);
    accuse(fake, 2, 2, fake->controller.plan.epoch); /* its worker and its server disagree */
    assert_false(takes_part(fake, 2));
    fake_close(fake);
}

/* Who accuses one after the other costs one node beside itself. */
static void test_a_false_accuser_costs_one_other_node(void **state) {
    (void)state;
    struct fake *fake = begin_with_four();
    accuse(fake, 2, 1, fake->controller.plan.epoch);
    assert_false(takes_part(fake, 1));
    recover_from_clock_0(fake);
    accuse(fake, 2, 3, fake->controller.plan.epoch);
    assert_true(takes_part(fake, 3));
    assert_false(takes_part(fake, 2));
    assert_int_equal(lines_with(fake, "FLUSH: bad rows: not believed, three is given up"), 1);
    fake_close(fake);
}

/* A process that starts anew and sends again what can't be does not make its accuser less credible. */
static void test_a_process_that_starts_anew_is_the_same(void **state) {
    (void)state;
    for (unsigned keyed = 0; keyed < 2; keyed++) {
        struct fake *fake = begin_with_four();
        struct member *two = controller_find_member(&fake->controller, node(1));
        struct member *four = controller_find_member(&fake->controller, node(3));
        memset(two->key, keyed > 0 ? 'k' : 0, sizeof two->key);
        memset(four->key, keyed > 0 ? 'k' : 0, sizeof four->key);
        four->process_id = keyed > 0 ? 99 : two->process_id; /* beside a key nobody's word counts */
        accuse(fake, 2, 1, fake->controller.plan.epoch);
        recover_from_clock_0(fake);
        accuse(fake, 2, 3, fake->controller.plan.epoch);
        assert_true(takes_part(fake, 2));
        assert_false(takes_part(fake, 3));
        fake_close(fake);
    }
}

/* Against a reliable node one transient node is not enough. */
static void test_a_reliable_node_is_believed(void **state) {
    (void)state;
    struct fake *fake = begin_with_four();
    accuse(fake, 1, 0, fake->controller.plan.epoch);
    assert_true(takes_part(fake, 0));
    assert_false(takes_part(fake, 1));
    recover_from_clock_0(fake);
    accuse(fake, 2, 0, fake->controller.plan.epoch);
    assert_false(takes_part(fake, 0));
    assert_true(takes_part(fake, 2));
    fake_close(fake);
    fake = begin_with_four();
    for (unsigned n = 1; n < 4; n++) {
        accuse(fake, 0, n, fake->controller.plan.epoch);
        assert_false(takes_part(fake, n));
        recover_from_clock_0(fake);
    }
    fake_close(fake);
}

/* Followers that can't keep up make commit points rarer: twice as rare each time, up to what a plan can have. They stay
 * as rare when followers keep up again. */
static void test_late_commits_make_commit_points_rarer(void **state) {
    (void)state;
    static const struct {
        uint64_t lag;
        uint32_t every;
    } cases[] = {{9, 6}, {150, WIRE_COMMIT_EVERY_MAX}}; /* 9 clocks are less than two distances of 6 */
    for (unsigned c = 0; c < sizeof cases / sizeof *cases; c++) {
        struct fake *fake = stored_cluster(STAGE_3, 100000);
        fake->terms.clocks_per_iteration = 3;
        cluster_open(fake, 1, 3);
        play_to(fake, 2);
        assert_int_equal(fake->controller.plan.commit_every, 3);
        fake->times.lag = cases[c].lag;
        play_rounds(fake, 950);
        fake->times.lag = 0;
        play_rounds(fake, 100);
        assert_int_equal(fake->controller.plan.commit_every, cases[c].every);
        assert_int_equal(fake->controller.plan.view.terms.commit_every, cases[c].every);
        kill_controller(fake);
        play_rounds(fake, 50);
        assert_int_equal(fake->controller.plan.commit_every, cases[c].every);
        fake_close(fake);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_job_runs_to_its_end),
        cmocka_unit_test(test_a_model_that_is_not_saved_is_saved_again),
        cmocka_unit_test(test_a_node_that_comes_at_the_end_does_not_save),
        cmocka_unit_test(test_a_refused_model_is_not_saved_again),
        cmocka_unit_test(test_who_may_join),
        cmocka_unit_test(test_a_guest_takes_no_name_of_the_launcher),
        cmocka_unit_test(test_an_observed_job_ends_when_its_first_node_is_refused),
        cmocka_unit_test(test_terms_go_with_the_last_node),
        cmocka_unit_test(test_a_removed_node_does_not_register_again),
        cmocka_unit_test(test_the_hold_names_a_clock_nobody_has_passed),
        cmocka_unit_test(test_progress_far_ahead_is_kept),
        cmocka_unit_test(test_progress_has_an_origin),
        cmocka_unit_test(test_observers_have_a_limit),
        cmocka_unit_test(test_a_long_report_loses_its_beginning),
        cmocka_unit_test(test_the_report_says_what_nodes_do),
        cmocka_unit_test(test_a_note_is_reported_once),
        cmocka_unit_test(test_what_the_app_says_is_reported_once),
        cmocka_unit_test(test_of_many_notes_some_are_left_out),
        cmocka_unit_test(test_metrics_of_another_number_end_the_job),
        cmocka_unit_test(test_an_observer_who_comes_late_hears_how_it_ended),
        cmocka_unit_test(test_an_observer_that_reads_on_hears_how_it_ended),
        cmocka_unit_test(test_a_stop_may_be_a_failure),
        cmocka_unit_test(test_a_stop_may_be_a_good_end),
        cmocka_unit_test(test_who_has_joined_in_time),
        cmocka_unit_test(test_silence_ends_a_traditional_job),
        cmocka_unit_test(test_a_pause_of_our_own_is_no_silence),
        cmocka_unit_test(test_a_slow_store_is_no_silence),
        cmocka_unit_test(test_a_restarted_controller_waits_for_reconnects),
        cmocka_unit_test(test_a_silent_majority_is_asked_again),
        cmocka_unit_test(test_a_silent_minority_is_not_asked_again),
        cmocka_unit_test(test_short_stops_of_our_own_add_up_to_no_silence),
        cmocka_unit_test(test_options_are_checked),
        cmocka_unit_test(test_feeders_are_not_waited_for),
        cmocka_unit_test(test_the_loss_of_feeders_needs_no_recovery),
        cmocka_unit_test(test_a_feeder_that_hangs_holds_up_nothing),
        cmocka_unit_test(test_feeders_are_not_believed),
        cmocka_unit_test(test_a_feeder_that_fails),
        cmocka_unit_test(test_a_stage_fails_at_a_feeder),
        cmocka_unit_test(test_feeders_are_added_while_they_help),
        cmocka_unit_test(test_no_feeder_is_added_where_none_helps),
        cmocka_unit_test(test_feeders_that_never_come),
        cmocka_unit_test(test_feeders_that_die_come_again),
        cmocka_unit_test(test_a_restarted_controller_goes_on_with_its_feeders),
        cmocka_unit_test(test_threads_are_raised_before_feeders_are_added),
        cmocka_unit_test(test_feeders_share_threads),
        cmocka_unit_test(test_threads_outlive_controllers_and_feeders),
        cmocka_unit_test(test_other_trainers_need_other_feeders),
        cmocka_unit_test(test_a_node_joins_while_training),
        cmocka_unit_test(test_many_nodes_join),
        cmocka_unit_test(test_an_operator_evicts),
        cmocka_unit_test(test_evictions_one_by_one_share_plans),
        cmocka_unit_test(test_all_transient_nodes_get_notice),
        cmocka_unit_test(test_a_missing_node_does_not_cancel_an_eviction),
        cmocka_unit_test(test_a_shorter_notice_counts),
        cmocka_unit_test(test_a_node_asks_to_leave),
        cmocka_unit_test(test_a_node_joins_while_another_leaves),
        cmocka_unit_test(test_the_only_keeper_leaves_when_another_has_come),
        cmocka_unit_test(test_the_only_keeper_stays_when_the_other_is_lost),
        cmocka_unit_test(test_late_progress_keeps_a_node),
        cmocka_unit_test(test_a_transient_node_dies),
        cmocka_unit_test(test_a_silent_node_is_reported_before_it_is_given_up),
        cmocka_unit_test(test_a_suspected_node_that_answers_stays),
        cmocka_unit_test(test_a_suspected_node_that_does_not_answer_is_lost),
        cmocka_unit_test(test_a_controller_that_hears_nobody_gives_up_nobody),
        cmocka_unit_test(test_a_process_that_ends_is_lost_soon),
        cmocka_unit_test(test_a_controller_that_is_busy_gives_up_nobody),
        cmocka_unit_test(test_nodes_that_are_lost_with_those_who_watched_them),
        cmocka_unit_test(test_a_slow_answer_of_another_gives_a_suspected_node_time),
        cmocka_unit_test(test_a_suspected_process_is_dialed),
        cmocka_unit_test(test_a_refusal_costs_no_node_that_answers),
        cmocka_unit_test(test_a_pulse_that_cannot_be_reached),
        cmocka_unit_test(test_a_pulse_on_another_host_is_not_dialed),
        cmocka_unit_test(test_a_broken_connection_costs_no_node),
        cmocka_unit_test(test_a_crash_that_is_told_late),
        cmocka_unit_test(test_recovery_step_by_step),
        cmocka_unit_test(test_what_a_lost_node_had_reported_counts),
        cmocka_unit_test(test_what_a_lost_node_had_not_reported_is_said),
        cmocka_unit_test(test_an_evaluation_in_place_of_another_is_lost_too),
        cmocka_unit_test(test_partial_objectives_are_not_compared),
        cmocka_unit_test(test_the_last_clock_is_evaluated_as_the_last),
        cmocka_unit_test(test_a_second_failure_while_fenced),
        cmocka_unit_test(test_a_new_node_is_fenced_by_a_restarted_controller),
        cmocka_unit_test(test_lost_partitions_come_from_caches),
        cmocka_unit_test(test_one_is_left_with_a_cache),
        cmocka_unit_test(test_what_caches_can_not_replace),
        cmocka_unit_test(test_copies_go_before_caches),
        cmocka_unit_test(test_a_cache_makes_nobody_a_follower),
        cmocka_unit_test(test_catch_ups_are_taken_over),
        cmocka_unit_test(test_all_transient_nodes_die),
        cmocka_unit_test(test_the_only_replica_is_lost),
        cmocka_unit_test(test_a_newcomer_works_when_all_workers_are_lost),
        cmocka_unit_test(test_all_nodes_are_lost),
        cmocka_unit_test(test_the_dead_rejoin),
        cmocka_unit_test(test_a_node_alone_keeps_nothing_to_go_back),
        cmocka_unit_test(test_accusations),
        cmocka_unit_test(test_a_reliable_node_is_given_up_late),
        cmocka_unit_test(test_who_accuses_a_dead_node_is_well),
        cmocka_unit_test(test_old_accusations_are_void),
        cmocka_unit_test(test_who_was_dismissed_is_not_accused),
        cmocka_unit_test(test_no_plan_names_who_has_left),
        cmocka_unit_test(test_status_is_json),
        cmocka_unit_test(test_the_stop_criteria_are_known),
        cmocka_unit_test(test_gone_nodes_are_not_waited_for),
        cmocka_unit_test(test_checkpoints_always_succeed),
        cmocka_unit_test(test_checkpoints_are_of_whole_iterations),
        cmocka_unit_test(test_a_slow_disk_makes_checkpoints_rarer),
        cmocka_unit_test(test_a_job_that_could_write_no_checkpoint_fails),
        cmocka_unit_test(test_an_operator_asks_for_a_checkpoint),
        cmocka_unit_test(test_checkpoints_under_way_when_things_go_wrong),
        cmocka_unit_test(test_a_controller_is_killed_while_a_checkpoint_is_under_way),
        cmocka_unit_test(test_a_checkpoint_waits_for_nobody_who_is_silent),
        cmocka_unit_test(test_checkpoints),
        cmocka_unit_test(test_the_option_that_differs_is_named),
        cmocka_unit_test(test_what_was_found_in_the_input_is_compared),
        cmocka_unit_test(test_what_a_resumed_job_says),
        cmocka_unit_test(test_auto_sees_the_exchange_alone),
        cmocka_unit_test(test_auto_compares_iterations_without_evaluations),
        cmocka_unit_test(test_auto_knows_of_staleness_and_help),
        cmocka_unit_test(test_idle_clocks_are_no_busy_network),
        cmocka_unit_test(test_idle_clocks_are_no_measure),
        cmocka_unit_test(test_who_leaves_does_not_wait_for_a_strategy),
        cmocka_unit_test(test_who_leaves_without_a_part_begins_no_change),
        cmocka_unit_test(test_strategies_follow_each_other),
        cmocka_unit_test(test_a_killed_controller_goes_on),
        cmocka_unit_test(test_progress_is_acknowledged_when_it_is_stored),
        cmocka_unit_test(test_time_without_a_controller),
        cmocka_unit_test(test_catch_ups_are_acknowledged_when_they_are_stored),
        cmocka_unit_test(test_a_hold_outlives_the_controller),
        cmocka_unit_test(test_nodes_that_take_part_are_reported),
        cmocka_unit_test(test_a_plan_is_made_when_it_is_due),
        cmocka_unit_test(test_a_plan_changes_after_the_clock_under_way),
        cmocka_unit_test(test_allocated_machines_are_expected_until_they_join),
        cmocka_unit_test(test_one_plan_takes_in_all_that_are_expected),
        cmocka_unit_test(test_a_machine_that_never_comes_is_not_waited_for_long),
        cmocka_unit_test(test_who_leaves_does_not_wait_for_who_is_expected),
        cmocka_unit_test(test_a_damaged_store_is_refused),
        cmocka_unit_test(test_a_store_of_another_build_is_refused),
        cmocka_unit_test(test_a_store_that_fails_ends_the_job),
        cmocka_unit_test(test_the_second_crash_at_the_same_clock_ends_the_job),
        cmocka_unit_test(test_a_controller_that_is_killed_when_it_hears_of_a_crash),
        cmocka_unit_test(test_other_crashes_are_failures_like_any),
        cmocka_unit_test(test_which_crashes_are_the_same),
        cmocka_unit_test(test_crashes_known_by_the_signal_alone),
        cmocka_unit_test(test_a_crash_that_the_job_does_not_survive),
        cmocka_unit_test(test_a_crash_is_not_blamed_for_what_others_had),
        cmocka_unit_test(test_nodes_that_crash_before_they_take_part),
        cmocka_unit_test(test_different_input_at_the_start_ends_the_job),
        cmocka_unit_test(test_who_joins_with_different_input_is_refused_alone),
        cmocka_unit_test(test_who_is_about_to_work_and_reads_different_input_is_lost),
        cmocka_unit_test(test_who_works_on_and_reads_different_input_is_lost),
        cmocka_unit_test(test_input_of_other_shards_is_no_input),
        cmocka_unit_test(test_registrations_alone_stop_nothing),
        cmocka_unit_test(test_who_is_heard_has_to_answer),
        cmocka_unit_test(test_a_plan_is_owed_through_recoveries),
        cmocka_unit_test(test_a_long_clock_is_no_failure),
        cmocka_unit_test(test_a_checkpoint_has_to_be_promised),
        cmocka_unit_test(test_own_delays_are_no_missing_answers),
        cmocka_unit_test(test_impossible_heartbeats),
        cmocka_unit_test(test_impossible_progress),
        cmocka_unit_test(test_a_commit_counts_when_its_clocks_are_reported),
        cmocka_unit_test(test_impossible_restore_points),
        cmocka_unit_test(test_who_denies_what_others_have_is_given_up),
        cmocka_unit_test(test_who_sends_what_can_not_be_is_given_up),
        cmocka_unit_test(test_a_false_accuser_costs_one_other_node),
        cmocka_unit_test(test_a_process_that_starts_anew_is_the_same),
        cmocka_unit_test(test_a_reliable_node_is_believed),
        cmocka_unit_test(test_late_commits_make_commit_points_rarer),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
