/* The controller against nodes played by the test: who may join, how the last clock is named, when the model is
 * saved, and how a job ends. */
#include "agileml/control/controller.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

enum { NODES = 2, SENT_MAX = 4096, HEARTBEAT_MS = 100, TIMEOUT_MS = 3000 };

static actor_id node(unsigned number) {
    return (actor_id)(number + 1) << ACTOR_PART_BITS;
}

/* An io that keeps what is sent. */
struct fake {
    struct io io;
    uint64_t now_us;
    struct {
        actor_id to;
        struct message message;
    } sent[SENT_MAX];
    unsigned count;
    struct controller controller;
    struct job_terms terms;
    int ended;
    int code;
    char text[ERROR_TEXT_MAX];
};

static uint64_t fake_now(struct io *io) {
    return ((struct fake *)(void *)io)->now_us;
}

static void fake_send(struct io *io, actor_id to, struct message *message) {
    struct fake *fake = (struct fake *)(void *)io;
    assert_true(fake->count < SENT_MAX);
    fake->sent[fake->count].to = to;
    fake->sent[fake->count++].message = *message;
}

static void fake_set_timer(struct io *io, uint64_t at_us) {
    (void)io;
    (void)at_us;
}

static void fake_end(void *context, int code, const char *text) {
    struct fake *fake = context;
    fake->ended++;
    fake->code = code;
    snprintf(fake->text, sizeof fake->text, "%s", text);
}

static struct controller_options fake_options(struct fake *fake) {
    return (struct controller_options){.reliable = 1,
                                       .transient = 1,
                                       .policy = {.stage = STAGE_1, .partitions = 2, .shards = 4},
                                       .heartbeat_ms = HEARTBEAT_MS,
                                       .timeout_ms = TIMEOUT_MS,
                                       .start_timeout_ms = 10000,
                                       .end = fake_end,
                                       .context = fake};
}

static struct fake *fake_open(struct job_terms terms) {
    struct fake *fake = calloc(1, sizeof *fake);
    assert_non_null(fake);
    fake->io = (struct io){.now_us = fake_now, .send = fake_send, .set_timer = fake_set_timer};
    fake->now_us = 1000 * 1000;
    fake->terms = terms;
    memcpy(fake->terms.app, "app", sizeof "app");
    struct controller_options options = fake_options(fake);
    assert_int_equal(controller_init(&fake->controller, &fake->io, &options, NULL), 0);
    return fake;
}

/* How many messages of a type were sent to a node; forgets everything sent when `to` is ACTOR_NONE. */
static unsigned sent(struct fake *fake, actor_id to, enum message_type type, struct message *last) {
    unsigned found = 0;
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
    free(fake);
}

static void give(struct fake *fake, unsigned from, struct message *message) {
    message->epoch = fake->controller.plan.epoch;
    controller_receive(&fake->controller, node(from), message);
    message_close(message);
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
    message.registration.threads = 1;
    memcpy(message.registration.job.app, terms->app, sizeof terms->app);
    message.registration.job.digest = terms->digest;
    message.registration.job.staleness = terms->staleness;
    message.registration.job.clocks_per_iteration = terms->clocks_per_iteration;
    message.registration.job.iterations = terms->iterations;
    message.registration.job.seconds = terms->seconds;
    message.registration.job.tolerance = terms->tolerance;
    message.registration.job.tolerance_iterations = terms->tolerance_iterations;
    struct wire_endpoint endpoint = {.actor = actor_of_part(node(number), 1), .endpoint = "tcp://host:1"};
    static const struct wire_metric metric = {.name = "loss", .kind = 0, .evaluated = 1};
    message.frame_count = 2;
    message.frames[0] = buffer_copy(&endpoint, sizeof endpoint);
    message.frames[1] = buffer_copy(&metric, sizeof metric);
    give(fake, number, &message);
}

static void heartbeat(struct fake *fake, unsigned from, enum node_state state, uint64_t clock, uint64_t held) {
    struct message message = {.type = MESSAGE_HEARTBEAT};
    message.heartbeat = (struct message_heartbeat){.state = (uint8_t)state, .clock = clock, .held = held};
    give(fake, from, &message);
}

static void progress(struct fake *fake, unsigned from, uint64_t clock, double loss) {
    struct message message = {.type = MESSAGE_PROGRESS, .frame_count = 1};
    struct wire_metric_sum sum = {.sum = loss, .weight = 1};
    message.progress = (struct message_progress){.clock = clock, .items = 10};
    message.frames[0] = buffer_copy(&sum, sizeof sum);
    give(fake, from, &message);
}

static void begin(struct fake *fake) {
    join(fake, 0, "", TIER_RELIABLE, &fake->terms);
    join(fake, 1, "two", TIER_TRANSIENT, &fake->terms);
    for (unsigned n = 0; n < NODES; n++) {
        double totals[WIRE_TOTALS] = {0};
        struct message loaded = {.type = MESSAGE_LOADED, .frame_count = 1};
        loaded.loaded.items = 10;
        loaded.frames[0] = buffer_copy(totals, sizeof totals);
        assert_int_equal(sent(fake, node(n), MESSAGE_PLAN, NULL), 1);
        heartbeat(fake, n, NODE_LOADED, 0, 0);
        give(fake, n, &loaded);
    }
    assert_int_equal(fake->controller.phase, PHASE_TRAIN);
    forget(fake);
}

static void test_a_job_runs_to_its_end(void **state) {
    (void)state;
    struct fake *fake = fake_open((struct job_terms){.clocks_per_iteration = 2, .iterations = 1});
    begin(fake);
    for (uint64_t c = 1; c <= 2; c++) {
        progress(fake, 0, c, 1);
        progress(fake, 0, c, 1); /* a repeat counts once */
        progress(fake, 1, c, 1);
    }
    assert_int_equal(fake->controller.completed, 2);
    assert_int_equal(sent(fake, node(0), MESSAGE_SAVE, NULL), 0);
    heartbeat(fake, 0, NODE_FINISHED, 2, 0);
    assert_int_equal(sent(fake, node(0), MESSAGE_SAVE, NULL), 0); /* node 1 may still have to send flushes again */
    heartbeat(fake, 1, NODE_FINISHED, 2, 0);
    assert_int_equal(sent(fake, node(0), MESSAGE_SAVE, NULL), 1);
    struct message saved = {.type = MESSAGE_SAVED};
    give(fake, 0, &saved);
    assert_int_equal(sent(fake, node(1), MESSAGE_DONE, NULL), 1);
    assert_int_equal(fake->ended, 0);
    fake->now_us += (TIMEOUT_MS - 1) * UINT64_C(1000); /* DONE was lost: nobody is left alone before the timeout */
    controller_timer(&fake->controller);
    assert_int_equal(fake->ended, 0);
    heartbeat(fake, 1, NODE_FINISHED, 2, 0);
    assert_int_equal(sent(fake, node(1), MESSAGE_DONE, NULL), 2);
    for (unsigned n = 0; n < NODES; n++) {
        struct message leave = {.type = MESSAGE_LEAVE};
        give(fake, n, &leave);
    }
    assert_int_equal(fake->ended, 1);
    assert_int_equal(fake->code, 0);
    assert_int_equal(fake->controller.items_processed, 40);
    const char *summary = fake->controller.lines[fake->controller.line_count - 1];
    assert_non_null(strstr(summary, "\"ok\":true"));
    assert_non_null(strstr(summary, "\"items_processed\":40"));
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
    join(fake, 2, "", TIER_RELIABLE, &fake->terms);
    expect_refused(fake, 2, "all of its 1 reliable");
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
    join(fake, 1, "", TIER_TRANSIENT, &fake->terms); /* whatever lies between the fields of its message */
    assert_int_equal(sent(fake, node(1), MESSAGE_WELCOME, NULL), 1);
    assert_int_equal(fake->controller.phase, PHASE_LOAD);
    fake_close(fake);
}

/* A limit of iterations and another criterion: the hold takes the place of the final clock known before. */
static void test_the_hold_names_a_clock_nobody_has_passed(void **state) {
    (void)state;
    struct fake *fake = fake_open((struct job_terms){
        .staleness = 3, .clocks_per_iteration = 2, .iterations = 100, .tolerance = 0.5, .tolerance_iterations = 1});
    begin(fake);
    assert_int_equal(fake->controller.final, 200);
    for (uint64_t c = 1; c <= 4; c++) {
        progress(fake, 0, c, 1);
        progress(fake, 1, c, 1);
    }
    struct message ack;
    assert_true(sent(fake, node(1), MESSAGE_HEARTBEAT_ACK, &ack) > 0);
    assert_int_equal(ack.heartbeat_ack.hold, 4);
    assert_int_equal(ack.heartbeat_ack.final, 0);
    heartbeat(fake, 0, NODE_STARTED, 4, 4);
    heartbeat(fake, 1, NODE_STARTED, 7, 4); /* it had begun 7 before the hold came */
    assert_int_equal(fake->controller.final, 0);
    assert_int_equal(fake->controller.hold, 8);
    heartbeat(fake, 0, NODE_STARTED, 5, 8);
    assert_int_equal(fake->controller.final, 0);
    for (uint64_t c = 5; c <= 8; c++) { /* the last PROGRESS comes before the last word on the hold */
        progress(fake, 0, c, 1);
        progress(fake, 1, c, 1);
    }
    heartbeat(fake, 1, NODE_STARTED, 8, 8);
    assert_int_equal(fake->controller.final, 8);
    heartbeat(fake, 0, NODE_FINISHED, 8, 8);
    heartbeat(fake, 1, NODE_FINISHED, 8, 8);
    assert_int_equal(sent(fake, node(0), MESSAGE_SAVE, NULL), 1);
    fake_close(fake);
}

/* PROGRESS may come long before that of an origin whose way to the controller is slow. */
static void test_progress_far_ahead_is_kept(void **state) {
    (void)state;
    struct fake *fake = fake_open((struct job_terms){.clocks_per_iteration = 1, .iterations = 1000});
    begin(fake);
    for (uint64_t c = 1; c <= 200; c++) {
        progress(fake, 0, c, 1);
    }
    assert_int_equal(fake->controller.members[0].progress, 200);
    for (uint64_t c = 1; c <= 200; c++) {
        progress(fake, 1, c, 1);
    }
    assert_int_equal(fake->controller.completed, 200);
    assert_int_equal(fake->controller.items_processed, 4000);
    for (uint64_t c = 201; c <= 1000; c++) { /* but not without limit */
        progress(fake, 0, c, 1);
    }
    assert_int_equal(fake->controller.members[0].progress, 200 + 2 + CONTROLLER_AHEAD_MAX);
    fake_close(fake);
}

/* What a node far behind gets for one OBSERVE: lines in a row from the oldest on, each with its number. */
static uint64_t observe(struct fake *fake, uint64_t from) {
    struct message message = {.type = MESSAGE_OBSERVE, .observe = {.from = from}};
    uint64_t next = from;
    forget(fake);
    give(fake, 7, &message);
    for (unsigned m = 0; m < fake->count; m++) {
        const struct message *report = &fake->sent[m].message;
        const char *line = controller_line(&fake->controller, (size_t)report->report.number);
        assert_int_equal(report->type, MESSAGE_REPORT);
        assert_int_equal(report->report.oldest, fake->controller.first_line);
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

static void test_a_long_report_loses_its_beginning(void **state) {
    (void)state;
    enum { CLOCKS = CONTROLLER_LINES_MAX + 100 };
    struct fake *fake = fake_open((struct job_terms){.clocks_per_iteration = 1, .iterations = 10 * CLOCKS});
    begin(fake);
    assert_non_null(strstr(controller_line(&fake->controller, 2), "\"event\":\"start\""));
    for (uint64_t c = 1; c <= CLOCKS; c++) {
        progress(fake, 0, c, 1);
        progress(fake, 1, c, 1);
        forget(fake);
    }
    size_t first = fake->controller.first_line;
    assert_true(first > 0);
    assert_int_equal(fake->controller.line_count, CLOCKS + 3); /* two joined, and the start */
    assert_null(controller_line(&fake->controller, first - 1));
    assert_null(controller_line(&fake->controller, CLOCKS + 3));
    assert_non_null(strstr(controller_line(&fake->controller, CLOCKS + 2), "\"iteration\":32868,"));
    uint64_t read = 0;
    for (unsigned bursts = 0; read < CLOCKS + 3; bursts++) {
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
    assert_int_equal(controller->failures, 1);
    assert_non_null(strstr(controller->text, text));
    assert_non_null(strstr(controller_line(controller, controller->line_count - 2), "\"event\":\"failure\""));
    assert_non_null(strstr(controller_line(controller, controller->line_count - 1), "\"failures\":1"));
}

static void test_metrics_of_another_number_end_the_job(void **state) {
    (void)state;
    struct fake *fake = fake_open((struct job_terms){.clocks_per_iteration = 1, .iterations = 1000});
    begin(fake);
    struct message message = {.type = MESSAGE_PROGRESS, .frame_count = 1};
    struct wire_metric_sum sums[2] = {{.sum = 1}, {.sum = 2}};
    message.progress = (struct message_progress){.clock = 1, .items = 10};
    message.frames[0] = buffer_copy(sums, sizeof sums);
    give(fake, 1, &message);
    expect_failure(fake, "two (host, pid 1) sent 2 metrics, expected 1");
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
            give(fake, 7, &stop);
        }
        assert_int_equal(fake->controller.code, codes[c]);
        assert_int_equal(fake->controller.failures, codes[c] == AML_EFAIL ? 1 : 0);
        if (codes[c] == AML_EFAIL) {
            expect_failure(fake, "two was killed");
        }
        fake_close(fake);
    }
}

static void test_who_has_joined_in_time(void **state) {
    (void)state;
    struct fake *fake = fake_open((struct job_terms){.clocks_per_iteration = 1, .iterations = 1000});
    controller_timer(&fake->controller);
    fake->now_us += 60 * UINT64_C(1000000); /* we were stopped ourselves */
    controller_timer(&fake->controller);
    join(fake, 1, "two", TIER_TRANSIENT, &fake->terms);
    assert_int_equal(fake->controller.phase, PHASE_GATHER);
    for (unsigned t = 0; t < 200 && fake->controller.phase == PHASE_GATHER; t++) {
        fake->now_us += HEARTBEAT_MS * UINT64_C(1000);
        heartbeat(fake, 1, NODE_LOADING, 0, 0);
        controller_timer(&fake->controller);
    }
    assert_int_equal(fake->controller.phase, PHASE_LEAVE);
    assert_non_null(
        strstr(fake->controller.text, "0 of 1 reliable and 1 of 1 transient nodes have registered: two (host)"));
    fake_close(fake);
}

static void test_silence_ends_the_job(void **state) {
    (void)state;
    struct fake *fake = fake_open((struct job_terms){.clocks_per_iteration = 1, .iterations = 1000});
    begin(fake);
    for (unsigned t = 0; t < 2 * TIMEOUT_MS / HEARTBEAT_MS && fake->controller.phase == PHASE_TRAIN; t++) {
        fake->now_us += HEARTBEAT_MS * UINT64_C(1000);
        heartbeat(fake, 0, NODE_STARTED, 1, 0);
        controller_timer(&fake->controller);
    }
    struct message message;
    assert_int_equal(sent(fake, node(0), MESSAGE_ABORT, &message), 1);
    assert_non_null(strstr(message.text.text, "two (host, pid 1)"));
    assert_int_equal(fake->ended, 0); /* node 0 has not left */
    struct message leave = {.type = MESSAGE_LEAVE};
    give(fake, 0, &leave);
    assert_int_equal(fake->ended, 1); /* the silent one is not waited for */
    assert_int_equal(fake->code, AML_EFAIL);
    assert_non_null(strstr(fake->text, "two (host, pid 1)"));
    fake_close(fake);
}

static void test_a_pause_of_our_own_is_no_silence(void **state) {
    (void)state;
    struct fake *fake = fake_open((struct job_terms){.clocks_per_iteration = 1, .iterations = 1000});
    begin(fake);
    controller_timer(&fake->controller);
    fake->now_us += 10 * TIMEOUT_MS * UINT64_C(1000);
    controller_timer(&fake->controller);
    assert_int_equal(fake->controller.phase, PHASE_TRAIN);
    fake_close(fake);
}

static void test_options_are_checked(void **state) {
    (void)state;
    struct fake *fake = fake_open((struct job_terms){.clocks_per_iteration = 1});
    struct controller controller;
    struct controller_options options = fake_options(fake);
    options.reliable = options.transient = 0;
    assert_int_equal(controller_init(&controller, &fake->io, &options, NULL), AML_EINPUT);
    options = fake_options(fake);
    options.policy.partitions = 0;
    assert_int_equal(controller_init(&controller, &fake->io, &options, NULL), AML_EINPUT);
    options = fake_options(fake);
    options.policy.shards = WIRE_SHARDS_MAX + 1;
    assert_int_equal(controller_init(&controller, &fake->io, &options, NULL), AML_EINPUT);
    options = fake_options(fake);
    options.timeout_ms = options.heartbeat_ms;
    assert_int_equal(controller_init(&controller, &fake->io, &options, NULL), AML_EINPUT);
    fake_close(fake);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_job_runs_to_its_end),
        cmocka_unit_test(test_who_may_join),
        cmocka_unit_test(test_the_hold_names_a_clock_nobody_has_passed),
        cmocka_unit_test(test_progress_far_ahead_is_kept),
        cmocka_unit_test(test_a_long_report_loses_its_beginning),
        cmocka_unit_test(test_metrics_of_another_number_end_the_job),
        cmocka_unit_test(test_a_stop_may_be_a_failure),
        cmocka_unit_test(test_who_has_joined_in_time),
        cmocka_unit_test(test_silence_ends_the_job),
        cmocka_unit_test(test_a_pause_of_our_own_is_no_silence),
        cmocka_unit_test(test_options_are_checked),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
