/* The controller and strategies: changes between them, and what `auto` chooses. */
#include "tests/unit/controller_fixture.h"

#include <math.h>

/* Three nodes, of which the first is the slowest; each iteration has `per` clocks. */
static struct fake *strategies_open(enum strategy strategy, uint32_t per, uint32_t steps, uint64_t iterations,
                                    const struct fake_times *times) {
    struct fake *fake = fake_new((struct job_terms){
        .clocks_per_iteration = per, .local_steps = steps, .strategy = (uint8_t)strategy, .iterations = iterations});
    fake->times = *times;
    return fake;
}

static unsigned strategy_changes_to(const struct fake *fake, const char *name) {
    char text[64];
    snprintf(text, sizeof text, "\"nodes\":[],\"reason\":\"%s\"", name); /* as in an event */
    return lines_with(fake, text);
}

/* For --strategy auto only the exchange counts, not the evaluation and not the wait for slower nodes. */
TEST(auto_sees_the_exchange_alone) {
    static const struct fake_times times[] = {
        {.clock_us = 1000, .compute_us = {300, 300, 300}}, /* computing takes 30 % */
        /* computing takes 10 % of the whole time */
        {.clock_us = 1000, .compute_us = {600, 600, 600}, .evaluate_us = 16000},
        /* computing takes 33 % of all nodes' time */
        {.clock_us = 1000, .compute_us = {900, 50, 50}},
    };
    for (unsigned t = 0; t < 3; t++) {
        struct fake *fake = strategies_open(STRATEGY_AUTO, 4, 4, 12, &times[t]);
        cluster_open(fake, 1, 2);
        play_to_end(fake);
        assert_int_equal(fake->end.code, 0);
        assert_int_equal(strategy_changes_to(fake, "sma"), t == 0 ? 1 : 0);
    }
}

/* S-MA makes an iteration faster by half, apart from an evaluation that takes 20 times as long. */
TEST(auto_compares_iterations_without_evaluations) {
    static const struct fake_times times = {.clock_us = 1000, .compute_us = {300, 300, 300}, .evaluate_us = 80 * 1000};
    struct fake *fake = strategies_open(STRATEGY_AUTO, 4, 4, 20, &times);
    cluster_open(fake, 1, 2);
    play_to_end(fake);
    assert_int_equal(strategy_changes_to(fake, "sma"), 1);
    assert_int_equal(strategy_changes_to(fake, "ssgd"), 0);
}

/* PROGRESS of clocks 1 to 40, four in an iteration, 2 ms each. In each clock one of two nodes computes for 1 ms and
 * the other for 0.2 ms, in turn. */
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

/* If nodes wait for each other after each clock, half of the time is exchange. With staleness 1 they need not wait:
 * without exchange a clock would take 0.6 ms. If others do most of a node's work, no clock takes as long as the node
 * alone would compute. */
TEST(auto_knows_of_staleness_and_help) {
    static const struct {
        uint32_t staleness;
        uint64_t helped;
        enum strategy wanted;
    } cases[] = {{0, 0, STRATEGY_SSGD}, {1, 0, STRATEGY_SMA}, {0, SHARDS / 4 * SHARD_ITEMS, STRATEGY_SMA}};
    for (unsigned c = 0; c < 3; c++) {
        struct fake *fake = uneven_open(cases[c].staleness, cases[c].helped);
        assert_int_equal(fake->controller.change.strategy, cases[c].wanted);
    }
}

/* Nodes report the clocks without work before a clock together with it, but not all cut a group at the same clock. */
TEST(clocks_without_work_are_reported_with_the_next) {
    static const struct {
        unsigned node;
        uint64_t clock;
        uint32_t idle;
        uint64_t completed;
    } reports[] = {{0, 4, 3, 0}, {0, 4, 3, 0}, {1, 4, 3, 4}, {1, 4, 3, 4}, {0, 6, 1, 4}, {1, 8, 3, 6}, {0, 8, 1, 8}};
    struct fake *fake =
        fake_open((struct job_terms){.clocks_per_iteration = 8, .local_steps = 4, .strategy = STRATEGY_SMA});
    begin(fake);
    for (unsigned r = 0; r < sizeof reports / sizeof *reports; r++) {
        const struct message_progress told = {.origin = node(reports[r].node),
                                              .clock = reports[r].clock,
                                              .idle = reports[r].idle,
                                              .items = reports[r].clock % 4 == 0 ? SHARDS / 2 * SHARD_ITEMS : 0};
        progress_told(fake, reports[r].node, &told, 1);
        assert_int_equal(fake->controller.progress.completed, reports[r].completed);
    }
    assert_int_equal(fake->controller.progress.items_processed, 2 * SHARDS * SHARD_ITEMS);
}

/* By S-MA most clocks have no work. Such a clock does not mean a busy network, which would need another stage. */
TEST(idle_clocks_are_no_busy_network) {
    static const struct fake_times times = {.clock_us = 1000, .compute_us = {990, 990, 990, 990}};
    struct fake *fake = strategies_open(STRATEGY_SMA, 4, 4, 2 * TUNER_STEADY, &times);
    fake->options.policy.stage = STAGE_AUTO;
    fake->options.thresholds = (struct plan_thresholds){0};
    cluster_open(fake, 2, 2);
    play_to_end(fake);
    assert_int_equal(fake->end.code, 0);
    assert_true(fake->controller.features.stages.iterations > TUNER_STEADY);
    assert_int_equal(fake->controller.features.stages.spent, 0);
    assert_int_equal(fake->controller.features.stages.tried, STAGE_AUTO);
}

/* In a job whose stage the user has chosen no other stage is tried, however busy its network is: for the feeders'
 * policy and that for uneven machines, such a trial would never end. */
TEST(a_chosen_stage_has_no_trial) {
    static const struct fake_times times = {.clock_us = 1000, .compute_us = {100, 100, 100, 100}};
    struct fake *fake = strategies_open(STRATEGY_SSGD, 4, 1, 2 * TUNER_STEADY, &times);
    fake->options.policy.stage = STAGE_1;
    cluster_open(fake, 2, 2);
    play_to_end(fake);
    assert_int_equal(fake->end.code, 0);
    assert_int_equal(fake->controller.features.stages.tried, STAGE_AUTO);
    assert_int_equal(fake->controller.features.stages.iterations, 0);
}

/* The monitor of speeds measures only clocks with work. */
TEST(idle_clocks_are_no_measure) {
    static const struct fake_times times = {.clock_us = 1000, .compute_us = {800, 800, 800}};
    struct fake *fake = strategies_open(STRATEGY_SMA, 8, 8, 10, &times);
    cluster_open(fake, 1, 2);
    play_to(fake, 64);
    struct monitor_speed speed =
        monitor_speed(&fake->controller.clocks.monitor, node(1), MONITOR_LONG, fake->io.now_us);
    assert_true(speed.clocks > 0 && speed.clocks <= 8);
    assert_true(fabs(speed.clock_seconds - 8 * 800e-6) < 1e-9);
}

/* The job changes to S-MA once, at the begin of a group of clocks, and ends well. */
static void expect_change_at_group(struct fake *fake) {
    play_to(fake, 66);
    assert_int_equal(strategy_changes_to(fake, "sma"), 1);
    assert_int_equal(fake->newest.plan.strategy_from, 65);
    play_to_end(fake);
    assert_int_equal(fake->end.code, 0);
}

/* A change for a leaving node is made at once, although another strategy is wanted. The strategy changes at the next
 * group of clocks. */
static void check_who_leaves(bool later) {
    struct fake *fake = strategies_open(STRATEGY_AUTO, 64, 64, 4, &(struct fake_times){0});
    cluster_open(fake, 1, 2);
    play_to(fake, 5);
    controller_want_strategy(&fake->controller, STRATEGY_SMA);
    if (later) { /* the change of the strategy is being prepared */
        play_to(fake, 10);
        assert_int_equal(fake->controller.change.state, CHANGE_PREPARE);
    }
    ask(fake, OPERATOR, MESSAGE_EVICT, "n2");
    play_to(fake, 40);
    assert_true(fake->players[2].done);
    expect_change_at_group(fake);
}

TEST(who_leaves_does_not_wait_for_a_strategy) {
    check_who_leaves(false);
    check_who_leaves(true);
}

/* A leaving node without an assignment is dismissed at once, without a change of the plan. */
TEST(who_leaves_without_a_part_begins_no_change) {
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

/* S-SGD and S-MA jobs resume from each other's checkpoints. A checkpoint within a group of local steps needs the
 * same groups. */
TEST(strategies_follow_each_other) {
    char root[ROOT_BYTES];
    struct fake *fake = checkpointed(STAGE_1, 7, root);
    fake->terms.local_steps = 2;
    fake->terms.strategy = STRATEGY_SMA;
    cluster_open(fake, 1, 1);
    play_to_end(fake);
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
                         n == 0 ? STRATEGY_SSGD : STRATEGY_SMA); /* auto resumes with the strategy of the checkpoint */
        play_to_end(fake);
        assert_int_equal(fake->end.code, 0);
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
    remove_tree(root);
}

TEST(checkpoints) {
    char root[ROOT_BYTES];
    struct fake *fake = checkpointed(STAGE_2, 70, root);
    cluster_open(fake, 1, 3);
    fake->checkpoints.state = WRITTEN_FAILED; /* the first checkpoint fails, and training goes on */
    play_to(fake, 12);
    assert_int_equal(lines_with(fake, "\"event\":\"checkpoint-failed\""), 1);
    assert_int_equal(lines_with(fake, "the disk is full"), 1);
    fake->checkpoints.state = WRITTEN_DONE;
    fake->checkpoints.written = 0;
    play_to(fake, 79); /* the next try follows some time later */
    assert_int_equal(fake->checkpoints.written, PARTITIONS * lines_with(fake, "\"event\":\"checkpoint\""));
    expect_good_end(fake, 70);
    assert_int_equal(newest_checkpoint(root), 140);

    char path[WIRE_PATH_MAX];
    struct manifest manifest;
    assert_int_equal(manifest_find(root, path, NULL), 0);
    assert_int_equal(manifest_read(path, &manifest, NULL), 0);
    uint64_t clock = manifest.clock;
    assert_int_equal(manifest.partitions, PARTITIONS);
    manifest_close(&manifest);
    fake = cluster_new(STAGE_2, 90); /* resumes, with more iterations */
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

    fake = cluster_new(STAGE_2, 30);
    fake->options.resume = root;
    fake_start(fake);
    fake->terms.staleness = 7; /* options that change results must be the same */
    join(fake, 0, "", TIER_RELIABLE, &fake->terms);
    expect_refused(fake, 0, "the job of the checkpoint in");
    remove_tree(root);
}
