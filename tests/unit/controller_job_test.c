/* The controller and one job, message by message: joining, progress, metrics, the end. */
#include "tests/unit/controller_fixture.h"

#include <jansson.h>

/* The first reliable node gets two tries, then the next node. */
TEST(a_model_that_is_not_saved_is_saved_again) {
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
    }
}

/* A node that joins during the saving is not in the plan; no server would let it read the tables. */
TEST(a_node_that_comes_at_the_end_does_not_save) {
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
}

/* An app's wrong input would fail again. */
TEST(a_refused_model_is_not_saved_again) {
    struct fake *fake = stored_cluster(STAGE_1, 3);
    fake->saves.fail = 1;
    fake->saves.code = AML_EINPUT;
    cluster_open(fake, 2, 2);
    play_to_end(fake);
    assert_int_equal(fake->end.code, AML_EINPUT);
    assert_int_equal(fake->saves.saver_count, 1);
}

TEST(a_job_runs_to_its_end) {
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
    tick(fake, (TIMEOUT_MS - 1) * UINT64_C(1000)); /* DONE was lost: no node is left before the timeout */
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
}

/* With phases an item counts in the last one only. */
TEST(an_item_counts_once_an_iteration) {
    struct fake *fake = fake_open((struct job_terms){.clocks_per_iteration = 6, .phases = 3, .iterations = 2});
    begin(fake);
    for (uint64_t c = 1; c <= 12; c++) {
        progress(fake, 0, c);
        progress(fake, 1, c);
        assert_int_equal(fake->controller.progress.items_processed, c / 3 * SHARDS * SHARD_ITEMS);
    }
    double items = 0;
    for (unsigned n = 0; n < 2; n++) {
        items += (double)fake->controller.members[n].usage.items;
    }
    assert_true(items == 4 * SHARDS * SHARD_ITEMS);
    assert_int_equal(lines_with(fake, "\"type\":\"iteration\""), 2);
}

TEST(who_may_join) {
    struct fake *fake = fake_open((struct job_terms){.clocks_per_iteration = 1, .iterations = 1});
    struct job_terms other = fake->terms;
    other.clocks_per_iteration = 0;
    join(fake, 2, "", TIER_RELIABLE, &other);
    expect_refused(fake, 2, "0 clocks");
    other.clocks_per_iteration = 4;
    other.phases = 3;
    join(fake, 2, "", TIER_RELIABLE, &other);
    expect_refused(fake, 2, "an iteration of 4 clocks in 3 phases: expected a multiple of the phases");
    other = fake->terms;
    other.clocks_per_iteration = 1 << 20;
    other.iterations = WIRE_CLOCK_MAX;
    join(fake, 2, "", TIER_RELIABLE, &other);
    expect_refused(fake, 2, "more than");
    join(fake, 0, "one", TIER_RELIABLE, &fake->terms);
    join(fake, 0, "one", TIER_RELIABLE, &fake->terms); /* a repeat is accepted */
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
    other = fake->terms;
    other.phases = 1;
    join(fake, 2, "", TIER_TRANSIENT, &other);
    expect_refused(fake, 2, "tables, metrics, items or phases differ");
    join(fake, 3, "", TIER_RELIABLE, &fake->terms); /* more nodes than expected */
    assert_int_equal(sent(fake, node(3), MESSAGE_WELCOME, NULL), 1);
    assert_int_equal(fake->controller.phase, PHASE_GATHER);
    join(fake, 1, "", TIER_TRANSIENT, &fake->terms); /* the message's padding does not matter */
    assert_int_equal(sent(fake, node(1), MESSAGE_WELCOME, NULL), 1);
    assert_int_equal(fake->controller.phase, PHASE_LOAD);
    forget(fake);
    join(fake, 4, "", TIER_TRANSIENT, &fake->terms);
    assert_int_equal(sent(fake, node(4), MESSAGE_WELCOME, NULL), 1);
    assert_int_equal(fake->controller.member_count, 4);
}

/* The launcher names its nodes node-1 and so on. A node without a name that joins earlier gets none of these names. */
TEST(a_guest_takes_no_name_of_the_launcher) {
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
}

/* An observed job's nodes all have the same command line. When its first node is refused the job ends, and the
 * reason is reported once. */
TEST(an_observed_job_ends_when_its_first_node_is_refused) {
    struct fake *fake = fake_new((struct job_terms){.clocks_per_iteration = 0, .iterations = 1});
    fake->options.observed = true;
    fake_start(fake);
    for (unsigned n = 0; n < 2; n++) {
        join(fake, n, "", TIER_RELIABLE, &fake->terms);
        struct message message;
        assert_int_equal(sent(fake, node(n), MESSAGE_WELCOME, NULL), 1); /* the node need not report the job's end */
        assert_int_equal(sent(fake, node(n), MESSAGE_ABORT, &message), 1);
        assert_non_null(strstr(message.text.text, "0 clocks"));
        forget(fake);
    }
    assert_int_equal(fake->controller.phase, PHASE_LEAVE);
    assert_int_equal(fake->controller.end.code, AML_EINPUT);
    assert_non_null(strstr(fake->controller.end.text, "0 clocks"));
}

/* All nodes leave before there is a plan: the next nodes may bring other terms. */
TEST(terms_go_with_the_last_node) {
    struct fake *fake = fake_open((struct job_terms){.staleness = 64, .clocks_per_iteration = 1, .iterations = 1});
    join(fake, 3, "two", TIER_TRANSIENT, &fake->terms);
    ask(fake, OPERATOR, MESSAGE_GONE, "two");
    assert_int_equal(fake->controller.member_count, 0);
    fake->terms = (struct job_terms){.app = "app", .clocks_per_iteration = 3, .iterations = 7};
    begin(fake);
    assert_int_equal(fake->controller.job.terms.clocks_per_iteration, 3);
    assert_int_equal(fake->controller.job.final, 21);
}

/* A repeated REGISTER must not bring back a removed node, whose process may be gone. A process that still runs
 * registers as a new node. */
TEST(a_removed_node_does_not_register_again) {
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
}

/* A job with a limit of iterations and another criterion: the barrier replaces the final clock known before. */
TEST(the_hold_names_a_clock_nobody_has_passed) {
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
    assert_int_equal(ack.heartbeat_ack.barrier_clock, 6); /* clock 4 is announced, but not as the last */
    assert_int_equal(ack.heartbeat_ack.final, 200);
    heartbeat(fake, 0, NODE_STARTED, 4);
    assert_int_equal(fake->controller.job.final, 200); /* the final clock remains until all nodes know it */
    heartbeat(fake, 1, NODE_STARTED, 7);               /* it had begun clock 7 before the barrier came */
    assert_int_equal(fake->controller.job.final, 200);
    assert_int_equal(fake->controller.barrier.number, number + 1);
    assert_int_equal(fake->controller.barrier.clock, 8);
    struct message late = {.type = MESSAGE_HEARTBEAT,
                           .heartbeat = {.state = NODE_STARTED, .clock = 7, .barrier = number}};
    give(fake, 1, &late); /* knows the old barrier only */
    heartbeat(fake, 0, NODE_STARTED, 5);
    assert_int_equal(fake->controller.job.final, 200);
    for (uint64_t c = 5; c <= 8; c++) { /* the last PROGRESS comes before the last answer to the barrier */
        progress(fake, 0, c);
        progress(fake, 1, c);
    }
    assert_int_equal(fake->controller.progress.completed, 7); /* clock 8 may still be evaluated again */
    heartbeat(fake, 1, NODE_STARTED, 8);
    assert_int_equal(fake->controller.job.final, 8);
    assert_int_equal(fake->controller.progress.completed, 8);
    assert_int_equal(fake->controller.barrier.clock, WIRE_CLOCK_NEVER);
    heartbeat(fake, 0, NODE_FINISHED, 8);
    heartbeat(fake, 1, NODE_FINISHED, 8);
    assert_int_equal(sent(fake, node(0), MESSAGE_SAVE, NULL), 1);
}

/* An origin's PROGRESS may come long before that of an origin with a slow link to the controller. */
TEST(progress_far_ahead_is_kept) {
    struct fake *fake = fake_open((struct job_terms){.clocks_per_iteration = 1, .iterations = 10000});
    enum { MOST = 2 + WIRE_WINDOW_MAX + CONTROLLER_AHEAD_MAX };
    begin(fake);
    for (uint64_t c = 1; c <= MOST + 100; c++) { /* only up to a limit */
        progress(fake, 0, c);
    }
    struct message ack;
    heartbeat(fake, 0, NODE_STARTED, MOST + 100);
    assert_true(sent(fake, node(0), MESSAGE_HEARTBEAT_ACK, &ack) > 0);
    assert_int_equal(ack.heartbeat_ack.progress, 0); /* others are missing: the node keeps its report */
    for (uint64_t c = 1; c <= MOST + 100; c++) {
        progress(fake, 1, c);
        forget(fake);
    }
    assert_int_equal(fake->controller.progress.completed, MOST);
    assert_int_equal(fake->controller.progress.items_processed, MOST * SHARDS * SHARD_ITEMS);
    progress(fake, 0, MOST + 1);
    assert_true(sent(fake, node(0), MESSAGE_HEARTBEAT_ACK, &ack) > 0);
    assert_int_equal(ack.heartbeat_ack.progress, MOST + 1);
}

TEST(progress_has_an_origin) {
    struct fake *fake = fake_open((struct job_terms){.clocks_per_iteration = 1, .iterations = 10});
    begin(fake);
    progress(fake, 1, 1);
    progress_as(fake, 1, node(0), 1, 10, 1); /* for another node's origin */
    assert_int_equal(fake->controller.progress.completed, 0);
    expect_impossible(fake, "two (host, pid 1) sent what can't be: PROGRESS of node-1");
}

/* A late node's OBSERVE is answered by consecutive numbered lines, from the oldest on. Returns the next number. */
static uint64_t observe(struct fake *fake, uint64_t from) {
    struct message message = {.type = MESSAGE_OBSERVE, .observe = {.from = from}};
    uint64_t next = from;
    forget(fake);
    give(fake, OBSERVER, &message);
    for (unsigned m = 0; m < fake->io.count; m++) {
        const struct message *report = &fake->io.sent[m].message;
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
    assert_true(fake->io.count <= CONTROLLER_BURST_MAX);
    return next;
}

static unsigned lines_for_observer(struct fake *fake, unsigned number) {
    struct message message = {.type = MESSAGE_OBSERVE};
    forget(fake);
    give(fake, number, &message);
    return sent(fake, node(number), MESSAGE_REPORT, NULL);
}

/* An observer beyond the limit is refused until another has gone. */
TEST(observers_have_a_limit) {
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
    fake->io.now_us += CONTROLLER_OBSERVER_GONE_US;
    for (unsigned o = FIRST; o < OTHER; o++) {
        assert_true(o == FIRST + 7 || lines_for_observer(fake, o) > 0);
    }
    assert_true(lines_for_observer(fake, OTHER) > 0); /* replaces the silent observer */
    assert_int_equal(lines_for_observer(fake, FIRST + 7), 0);
    assert_int_equal(fake->controller.report.observer_count, CONTROLLER_OBSERVERS_MAX);
}

/* An observer whose connection breaks has time to connect again; then its place is free. */
TEST(observers_that_are_gone_are_forgotten) {
    struct fake *fake = fake_open((struct job_terms){.clocks_per_iteration = 1, .iterations = 10});
    begin(fake);
    const struct controller_report *report = &fake->controller.report;
    assert_true(lines_for_observer(fake, 100) > 0);
    assert_true(lines_for_observer(fake, 101) > 0);
    assert_true(lines_for_observer(fake, 102) > 0);
    controller_broken(&fake->controller, node(100));
    controller_broken(&fake->controller, node(101));
    controller_broken(&fake->controller, node(103));
    assert_true(lines_for_observer(fake, 101) > 0); /* has connected again */
    tick(fake, IO_RECONNECT_US - 1000);
    assert_int_equal(report->observer_count, 3);
    tick(fake, 2000);
    assert_int_equal(report->observer_count, 2);
    tick(fake, CONTROLLER_OBSERVER_GONE_US / 2);
    assert_true(lines_for_observer(fake, 102) > 0);
    tick(fake, CONTROLLER_OBSERVER_GONE_US / 2);
    assert_int_equal(report->observer_count, 1);
    assert_int_equal(report->observers[0].actor, node(102));
    assert_true(lines_for_observer(fake, 100) > 0); /* reads on */
    assert_int_equal(report->observer_count, 2);
}

TEST(a_long_report_loses_its_beginning) {
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
    assert_true(count >= CLOCKS + 3); /* two nodes joined, the start, and the roles of nodes */
    assert_null(controller_line(&fake->controller, first - 1));
    assert_null(controller_line(&fake->controller, count));
    assert_true(line_number(controller_line(&fake->controller, count - 1), "iteration") == CLOCKS);
    uint64_t read = 0;
    for (unsigned bursts = 0; read < count; bursts++) {
        assert_true(bursts <= CONTROLLER_LINES_MAX / CONTROLLER_BURST_MAX);
        read = observe(fake, read);
    }
    assert_int_equal(observe(fake, read), read);
    assert_int_equal(fake->io.count, 0);
}

/* A node's values in the lines `nodes`, and in the last `usage` lines. */
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
        json_auto_t *line = json_loads(controller_line(&fake->controller, l), 0, NULL);
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
                of->items = json_number_value(json_object_get(node, "items")); /* items of a node that has gone */
            } else if (strcmp(type, "usage") == 0) {
                assert_int_equal(json_array_size(node), 6); /* the slowness is last */
                told_of(told, json_array_get(node, 0))->items = json_number_value(json_array_get(node, 1));
            }
        }
    }
}

/* The report alone shows each node's roles and its end. */
TEST(the_report_says_what_nodes_do) {
    struct told_node told[PLAYERS_MAX] = {0};
    struct fake *fake = cluster_at(STAGE_2, 40, 1, 4, 5);
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
}

static void note(struct fake *fake, uint64_t request, const char *text) {
    struct message message = {.type = MESSAGE_NOTE, .note.request = request, .frame_count = 1};
    message.frames[0] = buffer_copy(text, strlen(text));
    give(fake, OPERATOR, &message);
}

/* A note from bidbrain is reported once. */
TEST(a_note_is_reported_once) {
    static const char *const wrong[] = {"", "[]", "{\"type\":\"summary\"}", "{\"text\":\"x\"}", "{\"type\":\"money\""};
    struct message outcome;
    struct fake *fake = cluster_at(STAGE_1, 20, 1, 1, 4);
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
}

TEST(metrics_of_another_number_end_the_job) {
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
}

/* A job may end before its launcher is connected as an observer. */
TEST(an_observer_who_comes_late_hears_how_it_ended) {
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
            /* the process stood still: no observer could have connected meanwhile */
            tick(fake, 2 * CONTROLLER_END_WAIT_US);
            assert_int_equal(fake->end.ended, 0);
            tick_silently(fake, CONTROLLER_END_WAIT_US);
        }
        assert_int_equal(fake->end.ended, 1);
    }
}

/* A distant observer takes half a second for a burst. The report has many bursts, and its last line says how the job
 * ended. */
TEST(an_observer_that_reads_on_hears_how_it_ended) {
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
    tick_silently(fake, CONTROLLER_END_WAIT_US); /* the observer has all lines but has not confirmed them */
    assert_int_equal(fake->end.ended, 1);
}

/* A stop by the launcher, after one of its nodes has ended, is a failure; a stop by a user is none. */
TEST(a_stop_may_be_a_failure) {
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
    }
}

/* STOP with code 0 ends the job as a success, at the end of an iteration. */
TEST(a_stop_may_be_a_good_end) {
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

    fake = cluster_new(STAGE_1, 0);
    cluster_open(fake, 1, 2);
    struct message early = {.type = MESSAGE_STOP, .text = {.text = "enough"}};
    give(fake, OPERATOR, &early);
    play_to_end(fake);
    assert_int_equal(fake->end.code, AML_ESTOP);
}

TEST(who_has_joined_in_time) {
    struct fake *fake = fake_open((struct job_terms){.clocks_per_iteration = 1, .iterations = 1000});
    tick(fake, 0);
    tick(fake, 60 * UINT64_C(1000000)); /* our own process was stopped */
    join(fake, 1, "two", TIER_TRANSIENT, &fake->terms);
    assert_int_equal(fake->controller.phase, PHASE_GATHER);
    for (unsigned t = 0; t < 200 && fake->controller.phase == PHASE_GATHER; t++) {
        fake->io.now_us += HEARTBEAT_MS * UINT64_C(1000);
        heartbeat(fake, 1, NODE_REGISTERING, 0);
        tick(fake, 0);
    }
    assert_int_equal(fake->controller.phase, PHASE_LEAVE);
    assert_non_null(
        strstr(fake->controller.end.text, "0 of 1 reliable and 1 of 1 transient nodes have registered: two (host)"));
}

/* Only traditional training can't lose a node. */
TEST(silence_ends_a_traditional_job) {
    struct fake *fake = fake_new((struct job_terms){.clocks_per_iteration = 1, .iterations = 1000});
    fake->options.policy.stage = STAGE_TRADITIONAL;
    fake_start(fake);
    begin(fake);
    for (unsigned t = 0; t < 2 * TIMEOUT_MS / HEARTBEAT_MS && fake->controller.phase == PHASE_TRAIN; t++) {
        fake->io.now_us += HEARTBEAT_MS * UINT64_C(1000);
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
    assert_int_equal(fake->end.ended, 1); /* the silent node is not waited for */
    assert_int_equal(fake->end.code, AML_EFAIL);
    assert_non_null(strstr(fake->end.text, "two (host, pid 1)"));
}

TEST(a_pause_of_our_own_is_no_silence) {
    struct fake *fake = fake_open((struct job_terms){.clocks_per_iteration = 1, .iterations = 1000});
    begin(fake);
    tick(fake, 0);
    tick(fake, 10 * TIMEOUT_MS * UINT64_C(1000));
    assert_int_equal(fake->controller.phase, PHASE_TRAIN);
    assert_int_equal(fake->controller.change.state, CHANGE_NONE);
    assert_int_equal(fake->controller.member_count, 2);
}

/* While the controller waits for its disk it receives nothing, so that time does not count as a node's silence. A
 * node is removed only after a silence of the timeout beside it. */
TEST(a_slow_store_is_no_silence) {
    struct fake *fake = cluster_new(STAGE_1, 20);
    fake->options.store = &fake->store.store;
    cluster_open(fake, 1, 2);
    play_to(fake, 5);
    fake->players[2].stopped = true;
    for (uint64_t end_us = fake->io.now_us + TIMEOUT_MS * UINT64_C(450); fake->io.now_us < end_us;) {
        play(fake);
    }
    unsigned writes = fake->store.writes;
    persist_soon(&fake->controller);
    fake->store.slow_us = TIMEOUT_MS * UINT64_C(700);
    tick(fake, CONTROLLER_STORE_US);
    assert_true(fake->store.writes > writes);
    fake->store.slow_us = 0;
    tick(fake, 0); /* overdue, so it comes at once */
    assert_int_equal(fake->controller.progress.failures, 0);
    fake->players[2].stopped = false;
    expect_good_end(fake, 20);
    assert_int_equal(fake->controller.progress.failures, 0);
}

static void app_note(struct fake *fake, unsigned from, const char *text) {
    struct message message = {.type = MESSAGE_APP_NOTE, .app_note.request = 17};
    snprintf(message.app_note.text, sizeof message.app_note.text, "%s", text);
    give(fake, from, &message);
    expect_outcome(fake, from, 0, "");
}

/* A note of the app is reported once, however many nodes send it how often, and across a restart of the controller. */
TEST(what_the_app_says_is_reported_once) {
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
}

TEST(of_many_notes_some_are_left_out) {
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
}

/* A restarted controller receives no messages until nodes reconnect, which may take IO_RECONNECT_MS. Silence is
 * counted from then. */
TEST(a_restarted_controller_waits_for_reconnects) {
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
}

/* Three of four nodes are silent at once: the controller suspects its own link and asks again. Nodes that answer
 * stay; the others are lost. */
TEST(a_silent_majority_is_asked_again) {
    struct fake *fake = cluster_at(STAGE_1, 30, 1, 3, 5);
    for (unsigned n = 1; n < 4; n++) {
        fake->players[n].stopped = true;
    }
    for (unsigned r = 0; fake->controller.features.silence.doubt_until_us == 0; r++) {
        assert_true(r < ROUNDS_MAX);
        play(fake);
    }
    assert_int_equal(fake->controller.progress.failures, 0);
    for (unsigned n = 1; n < 4; n++) {
        assert_true(silence_of(controller_find_member(&fake->controller, node(n)), fake->io.now_us) >
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
}

/* A silent minority is removed after the timeout, no later. */
TEST(a_silent_minority_is_not_asked_again) {
    struct fake *fake = cluster_at(STAGE_1, 30, 1, 3, 5);
    fake->players[3].stopped = true;
    uint64_t began_us = fake->io.now_us;
    for (unsigned r = 0; fake->controller.progress.failures == 0; r++) {
        assert_true(r < ROUNDS_MAX);
        play(fake);
        assert_int_equal(fake->controller.features.silence.doubt_until_us, 0);
    }
    assert_true(fake->io.now_us <= began_us + TIMEOUT_MS * UINT64_C(1000) + 4 * HEARTBEAT_MS * UINT64_C(1000));
    expect_good_end(fake, 30);
}

/* A controller that repeatedly falls behind by less than half a timeout does not count that time as silence. */
TEST(short_stops_of_our_own_add_up_to_no_silence) {
    struct fake *fake = fake_open((struct job_terms){.clocks_per_iteration = 1, .iterations = 1000});
    begin(fake);
    tick(fake, 0);
    for (unsigned t = 0; t < 4; t++) {
        tick(fake, TIMEOUT_MS * UINT64_C(450));
        tick(fake, HEARTBEAT_MS * UINT64_C(500));
    }
    assert_int_equal(fake->controller.member_count, 2);
    assert_int_equal(fake->controller.progress.failures, 0);
}

static void expect_bad_options(const struct fake *fake, const struct controller_options *options) {
    struct controller controller;
    struct io io = fake->io.io;
    assert_int_equal(controller_init(&controller, &io, options, NULL), AML_EINPUT);
}

TEST(options_are_checked) {
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
}
