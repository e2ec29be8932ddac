/* The controller compares what nodes have read with the job's input. */
#include "tests/unit/controller_fixture.h"

/* INPUT with `items` in the first shard, read from a file of 10 bytes an item. */
static void read_items(struct fake *fake, unsigned from, uint64_t items) {
    struct wire_input_shard shards[SHARDS] = {{.items = items, .hash = hash_mix(items)}, {.items = 5, .hash = 5}};
    const struct wire_input_file file = {.path = "ratings.csv", .bytes = 10 * items};
    struct message message = {.type = MESSAGE_INPUT, .input.reading = 1, .frame_count = 3};
    message.frames[INPUT_SHARDS] = buffer_copy(shards, sizeof shards);
    message.frames[INPUT_FILES] = buffer_copy(&file, sizeof file);
    message.frames[INPUT_RANGES] = buffer_new(0);
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

/* Before START the controller can't know which input is right: the job ends. */
TEST(different_input_at_the_start_ends_the_job) {
    struct fake *fake = fake_open((struct job_terms){.iterations = 3, .clocks_per_iteration = 1});
    join(fake, 0, "", TIER_RELIABLE, &fake->terms);
    read_items(fake, 0, 100); /* without a plan: ignored */
    assert_false(is_compared(fake, 0));
    join(fake, 1, "two", TIER_TRANSIENT, &fake->terms);
    read_items(fake, 0, 100);
    assert_true(is_compared(fake, 0));
    read_items(fake, 1, 60);
    assert_false(is_compared(fake, 1));
    refused_by(fake, 0, ITEMS_DIFFER);
    refused_by(fake, 1, ITEMS_DIFFER);
    assert_int_equal(fake->controller.phase, PHASE_LEAVE);
}

/* Only the joining node is refused, also by a controller restarted from its store. */
TEST(who_joins_with_different_input_is_refused_alone) {
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
        unsigned settings = fake->joining.setting_count;
        forget(fake);
        set_mark(fake, settings, "lines", "00000000000000b1"); /* found before the node registers */
        join(fake, 3, "unlike", TIER_TRANSIENT, &fake->terms);
        expect_refused(fake, 3, "the input differs: app unlike on host has found other lines than node-1 on host");
        line = controller_line(&fake->controller, fake->controller.report.count - 1);
        assert_true(strstr(line, "\"refused\"") != NULL && strstr(line, "\"unlike\"") != NULL);
        fake->joining.setting_count = settings;
        join(fake, 3, "later", TIER_RELIABLE, &fake->terms); /* a node with the same input is taken in */
        tick(fake, 100 * 1000);
        read_items(fake, 3, 100);
        assert_true(is_compared(fake, 3));
        assert_int_equal(fake->controller.change.state, CHANGE_PREPARE);
    }
}

/* A joining node is to work from the next clocks on. It reads its input again and finds it changed: others take its
 * place. */
TEST(who_is_about_to_work_and_reads_different_input_is_lost) {
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
}

/* A working node reads its input again and finds it changed: others take over where they can. */
TEST(who_works_on_and_reads_different_input_is_lost) {
    for (unsigned reliable = 0; reliable < 2; reliable++) {
        struct fake *fake = fake_open((struct job_terms){.iterations = 30, .clocks_per_iteration = 1});
        begin(fake);
        read_items(fake, 0, 100);
        read_items(fake, 1, 100);
        read_items(fake, reliable == 1 ? 0 : 1, 60);
        if (reliable == 1) { /* no other node has the parameters */
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
    }
}

/* INPUT of a node that knows no shard yet, and has read a range of 100 bytes of a file with these samples. */
static void read_range_of(struct fake *fake, unsigned from, uint64_t blocks, uint32_t part, uint16_t sampled,
                          uint64_t hash) {
    struct wire_input_shard shards[SHARDS];
    for (unsigned s = 0; s < SHARDS; s++) {
        shards[s] = (struct wire_input_shard){.items = WIRE_ITEMS_UNKNOWN};
    }
    const struct wire_input_file file = {.path = "ratings.csv", .bytes = 1000, .blocks = blocks};
    const struct wire_input_range range = {
        .first = 100 * part, .end = 100 * part + 100, .hash = hash, .part = part, .sampled = sampled};
    struct message message = {.type = MESSAGE_INPUT, .input.reading = 1};
    message.input.own.items = WIRE_ITEMS_UNKNOWN;
    message_add_copy(&message, shards, sizeof shards);
    message_add_copy(&message, &file, sizeof file);
    message_add_copy(&message, &range, sizeof range);
    give(fake, from, &message);
}

static void read_range(struct fake *fake, unsigned from, uint32_t part, uint16_t sampled, uint64_t hash) {
    read_range_of(fake, from, 5, part, sampled, hash);
}

static const char RANGES_DIFFER[] = "the input differs: two (host) read other bytes than node-1 (host) from "
                                    "ratings.csv (1000 bytes), between byte 300 and 400: give all nodes the same files";

/* Two nodes read the same range, or the blocks that are its sample, before training. */
TEST(ranges_that_differ_end_the_job) {
    for (uint16_t sampled = 0; sampled < 2; sampled++) {
        struct fake *fake = fake_open((struct job_terms){.iterations = 3, .clocks_per_iteration = 1});
        join(fake, 0, "", TIER_RELIABLE, &fake->terms);
        join(fake, 1, "two", TIER_TRANSIENT, &fake->terms);
        read_range(fake, 0, 3, sampled, 77);
        assert_true(is_compared(fake, 0));
        read_range(fake, 1, 2, sampled, 78);  /* another range, */
        read_range(fake, 1, 3, !sampled, 79); /* another hash of the same range, */
        read_range(fake, 1, 3, sampled, 77);  /* an equal one */
        assert_true(is_compared(fake, 1));
        assert_int_equal(fake->controller.input.ranges.count, 3);
        read_range(fake, 1, 3, sampled, 78);
        refused_by(fake, 0, RANGES_DIFFER);
        refused_by(fake, 1, RANGES_DIFFER);
        assert_int_equal(fake->controller.phase, PHASE_LEAVE);
    }
}

/* If the samples of the files differ, ranges of the same number need not be the same place. */
TEST(files_that_differ_are_named_before_their_ranges) {
    struct fake *fake = fake_open((struct job_terms){.iterations = 3, .clocks_per_iteration = 1});
    join(fake, 0, "", TIER_RELIABLE, &fake->terms);
    join(fake, 1, "two", TIER_TRANSIENT, &fake->terms);
    read_range(fake, 0, 3, 0, 77);
    read_range_of(fake, 1, 6, 3, 0, 78);
    refused_by(fake, 1,
               "the input differs: node-1 (host) reads from ratings.csv (1000 bytes), two (host) from ratings.csv "
               "(1000 bytes); their bytes differ where they were compared");
}

/* A node that takes shards over reads a range again, with another controller than at first; the first reader may be
 * gone. */
TEST(a_range_that_is_read_again_is_compared_by_a_restarted_controller) {
    struct fake *fake = fake_new((struct job_terms){.iterations = 30, .clocks_per_iteration = 1});
    fake->options.store = &fake->store.store;
    fake_start(fake);
    join(fake, 0, "", TIER_RELIABLE, &fake->terms);
    join(fake, 1, "two", TIER_TRANSIENT, &fake->terms);
    read_range(fake, 0, 3, 0, 77);
    read_range(fake, 1, 4, 0, 78);
    for (unsigned n = 0; n < 2; n++) {
        heartbeat(fake, n, NODE_LOADED, 0);
        loaded(fake, n, fake->controller.plan.version, SHARDS / 2 * SHARD_ITEMS);
    }
    assert_int_equal(fake->controller.phase, PHASE_TRAIN);
    fake->kill.where = KILL_AFTER_CALL;
    fake->kill.at = 1;
    tick(fake, 1000);
    assert_int_equal(fake->kill.count, 1);
    forget(fake);
    read_range(fake, 1, 3, 0, 77);
    assert_true(is_compared(fake, 1));
    forget(fake);
    read_range(fake, 1, 3, 0, 78);
    refused_by(fake, 1, RANGES_DIFFER);
    assert_int_equal(fake->controller.member_count, 1);
    read_range(fake, 0, 3, 0, 79); /* its own file has changed; no other node is left */
    assert_int_equal(fake->controller.phase, PHASE_LEAVE);
    assert_string_equal(fake->controller.end.text,
                        "the input differs: node-1 (host) read other bytes than before from "
                        "ratings.csv (1000 bytes), between byte 300 and 400: give all nodes the same files");
}

TEST(input_of_other_shards_is_no_input) {
    struct fake *fake = fake_open((struct job_terms){.iterations = 3, .clocks_per_iteration = 1});
    join(fake, 0, "", TIER_RELIABLE, &fake->terms);
    join(fake, 1, "two", TIER_TRANSIENT, &fake->terms);
    struct message message = {.type = MESSAGE_INPUT, .input.reading = 1, .frame_count = 3};
    for (unsigned f = 0; f < message.frame_count; f++) {
        message.frames[f] = buffer_new(0);
    }
    give(fake, 1, &message);
    assert_int_equal(fake->controller.end.code, AML_EPROTOCOL);
    assert_string_equal(fake->controller.end.text, "two (host) reported the input of 0 data shards, expected 12");
}

/* Hundreds of nodes register and do nothing more. No barrier or recovery waits for them, and their silence causes no
 * recovery. */
TEST(registrations_alone_stop_nothing) {
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
}
