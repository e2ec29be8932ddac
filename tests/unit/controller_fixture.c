#include "tests/unit/controller_fixture.h"

#include <dirent.h>
#include <jansson.h>
#include <math.h>
#include <unistd.h>

actor_id node(unsigned number) {
    return (actor_id)(number + 1) << ACTOR_PART_BITS;
}

/* ---- A store in memory, which also kills the controller ---- */

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

static int memory_write(struct store *base, const struct store_entry *entries, unsigned count, struct error *error) {
    struct memory_store *store = (struct memory_store *)(void *)base;
    struct fake *fake = store->fake;
    if (fake->io.mute) {
        return 0;
    }
    store->writes++;
    fake->io.now_us += store->slow_us;
    if (store->fail_at != 0 && store->writes >= store->fail_at) {
        return error_set(error, AML_EFAIL, "the store is full");
    }
    fake->io.mute = fake->kill.where == KILL_BEFORE_WRITE && store->writes == fake->kill.at;
    for (unsigned e = 0; e < count && !fake->io.mute; e++) {
        entry_set(store, &entries[e]);
    }
    fake->io.mute = fake->io.mute || (fake->kill.where == KILL_AFTER_WRITE && store->writes == fake->kill.at);
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

static void fake_dial(struct io *io, actor_id actor, const char *endpoint) {
    struct fake *fake = (struct fake *)(void *)io;
    assert_string_equal(endpoint, "tcp://host:2");
    assert_true(actor_is_pulse(actor));
    for (unsigned n = 0; n < PLAYERS_MAX; n++) {
        fake->dials[n] += actor_node(actor) == node(n);
    }
}

/* Unpacks plans as their receiver would. */
static void fake_unpack(struct io *io, actor_id to, struct message *message) {
    struct fake *fake = (struct fake *)(void *)io;
    unsigned number = (unsigned)(to >> ACTOR_PART_BITS) - 1;
    if (message->type == MESSAGE_PACKED_PLAN && number < PLAYERS_MAX && !fake->io.mute) {
        struct plan_view *has = &fake->carried[number];
        struct plan_view plan;
        struct error error = {0};
        assert_true(plan_unpacks(message, has));
        int result = plan_unpack(message, has, &plan, &error);
        assert_string_equal(error.text, "");
        assert_int_equal(result, 0);
        message_close(message);
        *message = plan_message(&plan);
        plan_close(has);
        *has = plan;
    }
    fake->send(io, to, message);
}

/* A timer set to a past moment would run in an endless loop. Only a slow store may let a moment pass within a call. */
static void fake_set_timer(struct io *io, uint64_t at_us) {
    struct fake *fake = (struct fake *)(void *)io;
    fake->io.timer_us = at_us;
    assert_true(at_us == 0 || at_us > io->now_us(io) || fake->store.slow_us > 0);
}

static void fake_end(void *context, int code, const char *text) {
    struct fake *fake = context;
    fake->end.ended += fake->io.mute ? 0 : 1;
    fake->end.code = code;
    snprintf(fake->end.text, sizeof fake->end.text, "%s", text);
}

static void fake_close(void *context) {
    FREED struct fake *fake = context;
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
    for (unsigned n = 0; n < PLAYERS_MAX; n++) {
        plan_close(&fake->carried[n]);
    }
}

struct fake *fake_new(struct job_terms terms) {
    struct fake *fake = calloc(1, sizeof *fake);
    assert_non_null(fake);
    at_end(fake_close, fake);
    fake_io_open(&fake->io);
    fake->send = fake->io.io.send;
    fake->io.io.send = fake_unpack;
    fake->io.io.set_timer = fake_set_timer;
    fake->io.io.dial = fake_dial;
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

void fake_start(struct fake *fake) {
    struct error error = {0};
    assert_int_equal(controller_init(&fake->controller, &fake->io.io, &fake->options, &error), 0);
}

struct fake *fake_open(struct job_terms terms) {
    struct fake *fake = fake_new(terms);
    fake_start(fake);
    return fake;
}

unsigned sent(struct fake *fake, actor_id to, enum message_type type, struct message *last) {
    if (last != NULL) {
        *last = (struct message){0};
    }
    return fake_io_sent(&fake->io, to, type, last);
}

void forget(struct fake *fake) {
    fake_io_forget(&fake->io);
}

void called(struct fake *fake) {
    fake->io.mute = fake->io.mute || (fake->kill.where == KILL_AFTER_CALL && ++fake->kill.calls == fake->kill.at);
    if (fake->io.mute) {
        fake->kill.where = KILL_NEVER;
        fake->kill.count++;
        controller_close(&fake->controller);
        fake->io.mute = false;
        fake_start(fake);
    }
}

void give_as(struct fake *fake, unsigned from, uint64_t epoch, struct message *message) {
    message->epoch = epoch;
    controller_receive(&fake->controller, node(from), message);
    message_close(message);
    called(fake);
}

void give(struct fake *fake, unsigned from, struct message *message) {
    give_as(fake, from, fake->controller.plan.epoch, message);
}

void tick(struct fake *fake, uint64_t us) {
    fake->io.now_us += us;
    controller_timer(&fake->controller);
    called(fake);
}

void tick_silently(struct fake *fake, uint64_t us) {
    for (uint64_t passed = 0; passed < us; passed += HEARTBEAT_MS * UINT64_C(500)) {
        tick(fake, HEARTBEAT_MS * UINT64_C(500));
    }
}

void join(struct fake *fake, unsigned number, const char *name, enum node_tier tier, const struct job_terms *terms) {
    struct message message;
    memset(&message, (int)number + 1, sizeof message); /* the padding between fields differs from node to node */
    message.type = MESSAGE_REGISTER;
    memset(message.registration.name, 0, sizeof message.registration.name);
    memset(message.registration.key, 0, sizeof message.registration.key);
    snprintf(message.registration.name, sizeof message.registration.name, "%s", name);
    memcpy(message.registration.host, "host", sizeof "host");
    message.registration.process_id = 1;
    message.registration.tier = (uint8_t)tier;
    message.registration.threads = number < PLAYERS_MAX && (fake->joining.threadless >> number & 1) != 0 ? 0 : 1;
    message.registration.threads_max = fake->feed.threads_max; /* counts for feeders only */
    memcpy(message.registration.job.app, terms->app, sizeof terms->app);
    message.registration.job.digest = terms->digest;
    message.registration.job.staleness = terms->staleness;
    message.registration.job.clocks_per_iteration = terms->clocks_per_iteration;
    message.registration.job.phases = terms->phases;
    message.registration.job.local_steps = terms->local_steps > 0 ? terms->local_steps : 1;
    message.registration.job.strategy = terms->strategy;
    message.registration.job.ssgd_iterations = terms->ssgd_iterations;
    message.registration.job.iterations = terms->iterations;
    message.registration.job.seconds = terms->seconds;
    message.registration.job.tolerance = terms->tolerance;
    message.registration.job.tolerance_iterations = terms->tolerance_iterations;
    bool elsewhere = number < PLAYERS_MAX && (fake->joining.elsewhere >> number & 1) != 0;
    struct wire_endpoint endpoints[2] = {{.actor = actor_of_part(node(number), 1), .endpoint = "tcp://host:1"},
                                         {.actor = actor_pulse(node(number)), .endpoint = "tcp://host:2"}};
    memcpy(endpoints[1].endpoint, elsewhere ? "tcp://else:2" : "tcp://host:2", sizeof "tcp://host:2");
    static const struct wire_metric metric = {.name = "loss", .kind = 0, .evaluated = 1};
    message.frame_count = 3;
    message.frames[0] = buffer_copy(endpoints, sizeof endpoints);
    message.frames[1] = buffer_copy(&metric, sizeof metric);
    message.frames[2] =
        buffer_copy(fake->joining.settings, fake->joining.setting_count * sizeof *fake->joining.settings);
    give(fake, number, &message);
}

void heartbeat(struct fake *fake, unsigned from, enum node_state state, uint64_t clock) {
    const struct controller *controller = &fake->controller;
    struct message message = {.type = MESSAGE_HEARTBEAT};
    message.heartbeat = (struct message_heartbeat){.state = (uint8_t)state,
                                                   .clock = clock,
                                                   .barrier = controller->barrier.number,
                                                   .version = controller->plan.version,
                                                   .ready = controller->plan.version,
                                                   .committed = fake->clock,
                                                   .numbers = fake->players[from].numbers};
    give(fake, from, &message);
}

void progress_told(struct fake *fake, unsigned from, const struct message_progress *told, double loss) {
    struct message message = {.type = MESSAGE_PROGRESS, .frame_count = 1, .progress = *told};
    struct wire_metric_sum sum = {.sum = loss, .weight = 1};
    message.frames[0] = buffer_copy(&sum, sizeof sum);
    give(fake, from, &message);
}

void progress_timed(struct fake *fake, unsigned from, actor_id origin, uint64_t clock, uint64_t items, double loss,
                    uint64_t clock_us) {
    const struct message_progress told = {.origin = origin,
                                          .clock = clock,
                                          .last = 1,
                                          .items = items,
                                          .clock_us = clock_us,
                                          .numbers.bytes_sent = 100 * clock};
    fake->players[from].numbers.bytes_sent = told.numbers.bytes_sent;
    progress_told(fake, from, &told, loss);
}

void progress_as(struct fake *fake, unsigned from, actor_id origin, uint64_t clock, uint64_t items, double loss) {
    progress_timed(fake, from, origin, clock, items, loss, 0);
}

void evaluation(struct fake *fake, unsigned from, actor_id origin, uint64_t clock, double loss) {
    const struct message_progress told = {.origin = origin, .clock = clock, .evaluation = 1, .last = 1};
    progress_told(fake, from, &told, loss);
}

void progress(struct fake *fake, unsigned from, uint64_t clock) {
    progress_as(fake, from, node(from), clock, SHARDS / 2 * SHARD_ITEMS, 1);
}

void loaded(struct fake *fake, unsigned from, uint64_t version, uint64_t items) {
    double totals[WIRE_TOTALS] = {0};
    struct message message = {.type = MESSAGE_LOADED, .frame_count = 1};
    message.loaded = (struct message_loaded){.version = version, .items = items};
    message.frames[0] = buffer_copy(totals, sizeof totals);
    give(fake, from, &message);
}

void begin(struct fake *fake) {
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

void ask(struct fake *fake, unsigned from, enum message_type type, const char *name) {
    char names[WIRE_NAME_MAX] = {0};
    snprintf(names, sizeof names, "%s", name != NULL ? name : "");
    struct message message = {.type = type, .frame_count = 1};
    message.evict.request = 17;
    message.frames[0] = buffer_copy(names, name != NULL ? sizeof names : 0);
    give(fake, from, &message);
}

void expect_outcome(struct fake *fake, unsigned to, int code, const char *text) {
    struct message outcome = {0};
    assert_true(sent(fake, node(to), MESSAGE_OUTCOME, &outcome) > 0);
    assert_int_equal(outcome.outcome.request, 17);
    assert_int_equal(outcome.outcome.code, code);
    assert_non_null(strstr(outcome.outcome.text, text));
    forget(fake);
}

void allocate(struct fake *fake, const char *names) {
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

unsigned lines_with(const struct fake *fake, const char *text) {
    unsigned found = 0;
    for (size_t l = fake->controller.report.first; l < fake->controller.report.count; l++) {
        found += strstr(controller_line(&fake->controller, l), text) != NULL ? 1 : 0;
    }
    return found;
}

/* ---- A cluster that plays itself ---- */

const char *const player_names[PLAYERS_MAX] = {"n0", "n1", "n2", "n3", "n4",  "n5",
                                               "n6", "n7", "n8", "n9", "n10", "n11"};

bool flushed(const struct fake *fake, actor_id origin, uint64_t clock) {
    for (unsigned f = 0; f < fake->flushed_count; f++) {
        if (fake->flushed[f].origin == origin && fake->flushed[f].clock == clock) {
            return true;
        }
    }
    return false;
}

unsigned assignment_count(const struct message *plan) {
    return plan->frame_count == 0 ? 0 : (unsigned)(plan->frames[2]->size / sizeof(struct wire_assignment));
}

const struct wire_assignment *assignment_of(const struct message *plan, unsigned number) {
    return (const struct wire_assignment *)(const void *)plan->frames[2]->data + number;
}

uint64_t assignment_items(const struct message *plan, actor_id origin, uint64_t clock) {
    uint64_t items = 0;
    for (unsigned d = 0; d < assignment_count(plan); d++) {
        const struct wire_assignment *assignment = assignment_of(plan, d);
        bool now = assignment->origin == origin && assignment->from_clock <= clock && clock <= assignment->until_clock;
        items += now ? assignment->count * (uint64_t)SHARD_ITEMS : 0;
    }
    return items;
}

/* Advances the partitions over all clocks that every origin of the newest plan has flushed; checks that each shard
 * is covered once, I6. */
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

void work(struct fake *fake, unsigned number) {
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

unsigned working_feeders(const struct fake *fake) {
    unsigned count = 0;
    for (unsigned n = 0; n < PLAYERS_MAX; n++) {
        const struct player *player = &fake->players[n];
        bool works = player->there && !player->stopped && player->plan.frame_count > 0;
        count += works && player->tier == TIER_FEEDER ? 1 : 0;
    }
    return count;
}

/* PROGRESS of a clock with the player's times; a clock without work takes a hundredth of the time. */
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

/* The number of threads with which a feeder makes batches. */
static unsigned feed_threads(const struct player *player) {
    return player->tier != TIER_FEEDER ? 0 : player->feed_threads > 0 ? player->feed_threads : 1;
}

unsigned working_threads(const struct fake *fake) {
    unsigned count = 0;
    for (unsigned n = 0; n < PLAYERS_MAX; n++) {
        const struct player *player = &fake->players[n];
        bool works = player->there && !player->stopped && player->plan.frame_count > 0;
        count += works ? feed_threads(player) : 0;
    }
    return count;
}

unsigned trainers(const struct fake *fake) {
    unsigned count = 0;
    for (unsigned n = 0; n < PLAYERS_MAX; n++) {
        count += fake->players[n].there && fake->players[n].tier != TIER_FEEDER ? 1 : 0;
    }
    return count;
}

/* The work of a round, in rounds of a node alone: a trainer's, and its part of the feeders'. */
static double feed_pace(const struct fake *fake) {
    double pace = 1 + (double)working_threads(fake) / trainers(fake);
    double most = fake->feed.alone / fake->feed.rest;
    return pace < most ? pace : most;
}

/* PROGRESS of a clock with transforms. While the trainer waits for batches, it makes those that feeders don't. */
static void progress_fed(struct fake *fake, unsigned from, actor_id origin, uint64_t clock, uint64_t items) {
    double rounds = fake->feed.alone / feed_pace(fake);
    double starved = rounds - fake->feed.rest;
    double fed = working_feeders(fake) > 0 ? 1 - starved / (fake->feed.alone - fake->feed.rest) : 0;
    const struct message_progress told = {.origin = origin,
                                          .clock = clock,
                                          .last = 1,
                                          .items = items,
                                          .items_fed = (uint64_t)(fed * (double)items),
                                          .transforms_us = (uint64_t)(starved * ROUND_US)};
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
                                   .numbers = player->numbers};
    message.heartbeat.numbers.feed_threads = feed_threads(player);
    give_as(fake, number, player->epoch, &message);
}

static void player_take_plan(struct fake *fake, struct player *player, const struct message *message) {
    if (message->epoch < player->epoch || message->plan.version <= player->plan.plan.version) {
        return;
    }
    bool late = player->tier == TIER_FEEDER; /* a feeder may take a plan some clocks late */
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

/* Handles a CHECKPOINT as a server does. */
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

/* Writes the files that are due; a missing folder makes a write fail. */
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

/* Drops the checkpoint files that the player has promised to write, as their epoch is over. */
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

/* A metric's name may not equal one of the report's own keys, beside which it appears. report_line_owns must know
 * all of these. */
static void check_keys(const struct fake *fake, const char *line) {
    json_auto_t *object = json_loads(line, 0, NULL);
    const char *key;
    json_t *value;
    const char *type = json_string_value(json_object_get(object, "type"));
    bool has_metrics = strcmp(type, "iteration") == 0 || strcmp(type, "clock") == 0 || strcmp(type, "summary") == 0;
    json_object_foreach(object, key, value) {
        bool known = !has_metrics || report_line_owns(key);
        for (unsigned i = 0; i < fake->controller.job.metric_count; i++) {
            known = known || strcmp(key, fake->controller.job.metrics[i].name) == 0;
        }
        if (!known) {
            fail_msg("report_line_owns does not know %s of %s", key, line);
        }
    }
}

/* Checks that an observer's lines do not change and have no gaps. */
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

void deliver(struct fake *fake) {
    for (unsigned m = 0; m < fake->io.count; m++) { /* more may be sent meanwhile */
        CLOSED_BY(message_close) struct message message = message_share(&fake->io.sent[m].message);
        unsigned to = (unsigned)(fake->io.sent[m].to >> ACTOR_PART_BITS) - 1;
        if (to < PLAYERS_MAX && fake->players[to].there && !fake->players[to].stopped) {
            player_receive(fake, to, &message);
        } else if (to == OBSERVER && message.type == MESSAGE_REPORT) {
            observer_receive(fake, &message);
        } else if (to == OPERATOR && message.type == MESSAGE_OUTCOME) {
            fake->observed.outcome = message.outcome;
        }
    }
    forget(fake);
}

void enter(struct fake *fake, unsigned number, enum node_tier tier) {
    fake->players[number] = (struct player){.tier = tier, .there = true};
}

/* A round of the feeders and the launcher. */
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
    double most = trainers(fake) * (feed->alone / feed->rest - 1); /* as many threads as can be busy all the time */
    double busy = working_threads(fake) > most ? most / working_threads(fake) : 1;
    for (unsigned n = 0; n < PLAYERS_MAX; n++) {
        struct player *player = &fake->players[n];
        bool works = player->tier == TIER_FEEDER && player->plan.frame_count > 0;
        player->numbers.feed_us += works ? (uint64_t)(busy * ROUND_US) : 0;
    }
}

void play(struct fake *fake) {
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

void play_to(struct fake *fake, uint64_t clock) {
    for (unsigned r = 0; fake->clock < clock; r++) {
        assert_true(r < ROUNDS_MAX && fake->end.ended == 0);
        play(fake);
    }
}

void play_rounds(struct fake *fake, unsigned rounds) {
    for (unsigned r = 0; r < rounds && fake->end.ended == 0; r++) {
        play(fake);
    }
}

void play_recovery(struct fake *fake) {
    for (unsigned r = 0; fake->controller.change.state == CHANGE_RECOVER; r++) {
        assert_true(r < ROUNDS_MAX);
        play(fake);
    }
}

void play_to_end(struct fake *fake) {
    for (unsigned r = 0; fake->end.ended == 0; r++) {
        assert_true(r < ROUNDS_MAX);
        play(fake);
    }
}

void cluster_open(struct fake *fake, unsigned reliable, unsigned transient) {
    fake->options.reliable = reliable;
    fake->options.transient = transient;
    for (unsigned n = 0; n < reliable + transient; n++) {
        enter(fake, n, n < reliable ? TIER_RELIABLE : TIER_TRANSIENT);
    }
    fake_start(fake);
}

struct fake *cluster_new(enum stage stage, uint64_t iterations) {
    struct fake *fake = fake_new((struct job_terms){.clocks_per_iteration = 2, .iterations = iterations});
    fake->options.policy.stage = stage;
    return fake;
}

struct fake *cluster_at(enum stage stage, uint64_t iterations, unsigned reliable, unsigned transient, uint64_t clock) {
    struct fake *fake = cluster_new(stage, iterations);
    cluster_open(fake, reliable, transient);
    play_to(fake, clock);
    return fake;
}

struct fake *stored_cluster(enum stage stage, uint64_t iterations) {
    struct fake *fake = cluster_new(stage, iterations);
    fake->options.store = &fake->store.store;
    return fake;
}

double line_number(const char *line, const char *key) {
    json_auto_t *object = json_loads(line, 0, NULL);
    assert_non_null(object);
    double value = json_number_value(json_object_get(object, key));
    return value;
}

void expect_report(const struct fake *fake, uint64_t iterations, bool exact) {
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

void expect_good_end(struct fake *fake, uint64_t iterations) {
    play_to_end(fake);
    assert_int_equal(fake->end.code, 0);
    assert_int_equal(fake->clock, 2 * iterations);
    expect_report(fake, iterations, true);
}

/* ---- Common to several modules' tests ---- */

void expect_refused(struct fake *fake, unsigned number, const char *why) {
    struct message message;
    assert_int_equal(sent(fake, node(number), MESSAGE_ABORT, &message), 1);
    assert_non_null(strstr(message.text.text, why));
    forget(fake);
}

void expect_impossible(struct fake *fake, const char *text) {
    assert_int_equal(lines_with(fake, text), 1);
    assert_int_equal(lines_with(fake, "\"event\":\"failure\""), 1);
    assert_int_equal(fake->controller.member_count, 1);
    assert_int_equal(fake->controller.change.state, CHANGE_RECOVER);
    assert_true(fake->controller.phase < PHASE_LEAVE);
}

void expect_failure(struct fake *fake, const char *text) {
    const struct controller *controller = &fake->controller;
    assert_int_equal(controller->phase, PHASE_LEAVE);
    assert_int_equal(controller->progress.failures, 1);
    assert_non_null(strstr(controller->end.text, text));
    assert_int_equal(lines_with(fake, "\"event\":\"failure\""), 1);
    assert_non_null(strstr(controller_line(controller, controller->report.count - 1), "\"failures\":1"));
}

void restart(struct fake *fake) {
    fake->io.mute = true;
    called(fake);
}

void pulse(struct fake *fake, unsigned from, enum pulse_kind kind, uint64_t number, unsigned suspect) {
    struct message message = {.type = MESSAGE_PULSE,
                              .pulse = {.kind = (uint8_t)kind,
                                        .number = number,
                                        .suspect = kind == PULSE_SUSPECT ? node(suspect) : ACTOR_NONE}};
    controller_receive(&fake->controller, actor_pulse(node(from)), &message);
}

uint64_t asked(struct fake *fake, unsigned number) {
    struct message question;
    return sent(fake, actor_pulse(node(number)), MESSAGE_PULSE, &question) > 0 ? question.pulse.number : 0;
}

void refuse(struct fake *fake, unsigned number) {
    controller_dialed(&fake->controller, actor_pulse(node(number)), fake->io.now_us, false);
    tick(fake, SUSPECT_REFUSED_US);
    controller_dialed(&fake->controller, actor_pulse(node(number)), fake->io.now_us, false);
}

void begin_with_three(struct fake *fake, uint64_t clock) {
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

void answer_fence(struct fake *fake, unsigned number, uint64_t begun, uint64_t clock) {
    struct wire_restore_point restore_points[PARTITIONS];
    for (uint32_t p = 0; p < PARTITIONS; p++) {
        restore_points[p] =
            (struct wire_restore_point){.server = actor_of_part(node(number), 1), .partition = p, .clock = clock};
    }
    struct message fenced = {.type = MESSAGE_FENCED, .frame_count = 1, .fenced = {.begun = begun}};
    fenced.frames[0] = buffer_copy(restore_points, clock > 0 ? sizeof restore_points : 0);
    give(fake, number, &fenced);
}

struct fake *lose_the_third(struct job_terms terms, bool reported, bool stored) {
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

void accuse(struct fake *fake, unsigned accuser, unsigned accused, uint64_t epoch) {
    struct message message = {.type = MESSAGE_ACCUSE, .accuse = {.accused = node(accused), .text = "FLUSH: bad rows"}};
    give_as(fake, accuser, epoch, &message);
}

void die(struct fake *fake, unsigned number, unsigned signal) {
    char name[WIRE_NAME_MAX] = {0};
    struct message gone = {.type = MESSAGE_GONE, .gone = {.request = 17, .signal = signal}, .frame_count = 1};
    snprintf(name, sizeof name, "%s", player_names[number]);
    gone.frames[0] = buffer_copy(name, sizeof name);
    fake->players[number].there = false;
    give(fake, OPERATOR, &gone);
}

void remove_tree(const char *path) {
    char command[300];
    snprintf(command, sizeof command, "rm -rf '%s'", path);
    assert_int_equal(system(command), 0);
}

struct fake *checkpointed(enum stage stage, uint64_t iterations, char root[ROOT_BYTES]) {
    struct fake *fake = stored_cluster(stage, iterations);
    /* In memory where it can be: the disk would have to sync every file of every checkpoint. */
    const char *parent = access("/dev/shm", W_OK) == 0 ? "/dev/shm" : "/tmp";
    snprintf(root, ROOT_BYTES, "%s/controller_test_XXXXXX", parent);
    assert_non_null(mkdtemp(root));
    fake->options.checkpoint = root;
    fake->options.checkpoint_every = 5;
    fake->options.checkpoint_at_end = true;
    return fake;
}

uint64_t newest_checkpoint(const char *root) {
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

void ask_now(struct fake *fake, uint64_t request) {
    struct message message = {.type = MESSAGE_CHECKPOINT_NOW, .checkpoint_now = {.request = request}};
    give(fake, OPERATOR, &message);
}

void set_option(struct fake *fake, unsigned number, const char *name, const char *value, bool steers) {
    struct wire_option *option = &fake->joining.settings[number];
    *option = (struct wire_option){.steers = steers};
    snprintf(option->name, sizeof option->name, "%s", name);
    snprintf(option->value, sizeof option->value, "%s", value);
    fake->joining.setting_count = fake->joining.setting_count > number ? fake->joining.setting_count : number + 1;
}

void set_mark(struct fake *fake, unsigned number, const char *what, const char *hash) {
    set_option(fake, number, what, hash, false);
    fake->joining.settings[number].found = 1;
}

void crash(struct fake *fake, unsigned number, unsigned signal, const char *function, uint64_t clock) {
    struct message message = {.type = MESSAGE_CRASHED, .crashed = {.signal = signal, .clock = clock}};
    snprintf(message.crashed.function, sizeof message.crashed.function, "%s", function);
    fake->players[number].there = false;
    give(fake, number, &message);
}

void kill_controller(struct fake *fake) {
    fake->io.mute = true;
    called(fake);
}
