/* Tests of agileml/control/state/observer.h with answers that are lost,
 * repeated or reordered. */
#include "agileml/control/state/observer.h"
#include "tests/fake_io.h"
#include "tests/test.h"

#include "agileml/wire/records.h"

struct fixture {
    struct fake_io io;
    struct observer observer;
};

static void forget(struct fixture *fixture) {
    for (unsigned m = 0; m < fixture->io.count; m++) {
        assert_true(fixture->io.sent[m].to == ACTOR_CONTROLLER);
    }
    fake_io_forget(&fixture->io);
}

static const struct message *sent(const struct fixture *fixture, unsigned number) {
    assert_true(number < fixture->io.count);
    return &fixture->io.sent[number].message;
}

static int set_up(void **state) {
    struct fixture *fixture = calloc(1, sizeof *fixture);
    fake_io_open(&fixture->io);
    observer_open(&fixture->observer, &fixture->io.io, 0);
    *state = fixture;
    return 0;
}

static int tear_down(void **state) {
    FREED struct fixture *fixture = *state;
    forget(fixture);
    observer_close(&fixture->observer);
    return 0;
}

static bool take_text(struct fixture *fixture, uint64_t number, uint64_t oldest, const char *text,
                      struct report_line **line) {
    CLOSED_BY(message_close)
    struct message report = {.type = MESSAGE_REPORT, .report = {.number = number, .oldest = oldest}};
    message_add_copy(&report, text, strlen(text));
    bool next = observer_take_line(&fixture->observer, &report, line);
    return next;
}

static bool take(struct fixture *fixture, uint64_t number, uint64_t oldest) {
    char text[64];
    struct report_line *line = NULL;
    snprintf(text, sizeof text, "{\"type\":\"clock\",\"clock\":%llu}", (unsigned long long)number);
    bool next = take_text(fixture, number, oldest, text, &line);
    assert_true(!next || line->clock == (double)number);
    report_line_drop(line);
    return next;
}

/* The observer requests lines from `from` on. */
static void check_asks(struct fixture *fixture, uint64_t from) {
    forget(fixture);
    observer_ask_lines(&fixture->observer);
    assert_int_equal(fixture->io.count, 1);
    assert_int_equal(sent(fixture, 0)->type, MESSAGE_OBSERVE);
    assert_int_equal(sent(fixture, 0)->observe.from, from);
}

TEST(lines_are_read_once_and_in_order) {
    struct fixture *fixture = *state;
    check_asks(fixture, 0);
    assert_true(take(fixture, 0, 0));
    assert_false(take(fixture, 0, 0)); /* a repeat */
    assert_true(take(fixture, 1, 0));
    assert_false(take(fixture, 3, 0)); /* line 2 is missing */
    check_asks(fixture, 2);
    assert_true(take(fixture, 2, 0));
    assert_false(take(fixture, 1, 0));
    assert_true(take(fixture, 3, 0));
    check_asks(fixture, 4);
}

TEST(lines_that_the_controller_has_no_more_are_passed_over) {
    struct fixture *fixture = *state;
    assert_true(take(fixture, 0, 0));
    assert_false(take(fixture, 101, 100)); /* line 100 is still available */
    assert_true(take(fixture, 100, 100));
    assert_true(take(fixture, 101, 100));
    assert_false(take(fixture, 100, 100));
    check_asks(fixture, 102);
}

TEST(a_restarted_controller_goes_on_behind_what_was_read) {
    struct fixture *fixture = *state;
    assert_true(take(fixture, 0, 0));
    assert_true(take(fixture, 1, 0));
    assert_false(take(fixture, 0, 0)); /* the controller sends its report from the start */
    check_asks(fixture, 2);
    assert_false(take(fixture, 1, 1));
    assert_true(take(fixture, 2, 1));
}

TEST(other_messages_are_no_lines) {
    struct fixture *fixture = *state;
    struct report_line *line = NULL;
    struct message message = {.type = MESSAGE_STATUS, .status.request = 0};
    message_add_copy(&message, "{}", 2);
    assert_false(observer_take_line(&fixture->observer, &message, &line));
    message_close(&message);
    check_asks(fixture, 0);
}

TEST(a_line_that_is_not_json_is_told_apart_and_left_behind) {
    struct fixture *fixture = *state;
    struct report_line *line = (struct report_line *)1;
    assert_true(take_text(fixture, 0, 0, "not JSON", &line));
    assert_null(line);
    assert_true(take(fixture, 1, 0));
}

TEST(more_lines_are_asked_for_behind_many) {
    struct fixture *fixture = *state;
    for (uint64_t l = 0; l + 1 < OBSERVER_BURST; l++) {
        assert_true(take(fixture, l, 0));
    }
    assert_int_equal(fixture->io.count, 0);
    assert_true(take(fixture, OBSERVER_BURST - 1, 0));
    assert_int_equal(fixture->io.count, 1);
    assert_int_equal(sent(fixture, 0)->type, MESSAGE_OBSERVE);
    assert_int_equal(sent(fixture, 0)->observe.from, OBSERVER_BURST);
    assert_true(take(fixture, OBSERVER_BURST, 0));
    assert_int_equal(fixture->io.count, 1);
}

TEST(the_summary_ends_it) {
    struct fixture *fixture = *state;
    struct report_line *line = NULL;
    struct message now = {.type = MESSAGE_CHECKPOINT_NOW};
    observer_request(&fixture->observer, &now);
    forget(fixture);
    assert_true(take_text(fixture, 0, 0, "{\"type\":\"summary\",\"ok\":true}", &line));
    assert_true(line->ok);
    report_line_drop(line);
    assert_true(fixture->observer.ended);
    assert_int_equal(fixture->io.count, 1); /* confirms the summary, for which the controller waits */
    assert_int_equal(sent(fixture, 0)->observe.from, 1);
    assert_false(take(fixture, 1, 0));
    forget(fixture);
    observer_repeat_requests(&fixture->observer);
    now = (struct message){.type = MESSAGE_CHECKPOINT_NOW};
    assert_int_equal(observer_request(&fixture->observer, &now), 0);
    assert_int_equal(fixture->io.count, 0);
    check_asks(fixture, 1); /* the confirmation may have been lost */
}

TEST(at_the_end_any_line_is_the_first) {
    struct fixture *fixture = *state;
    observer_close(&fixture->observer);
    observer_open(&fixture->observer, &fixture->io.io, OBSERVER_AT_END);
    check_asks(fixture, OBSERVER_AT_END);
    forget(fixture);
    assert_true(take(fixture, 1000, 0));
    assert_int_equal(fixture->io.count, 0);
    assert_false(take(fixture, 999, 0));
    assert_false(take(fixture, 1002, 0));
    assert_true(take(fixture, 1001, 0));
    check_asks(fixture, 1002);
}

static bool take_outcome(struct fixture *fixture, uint64_t number, struct message *request) {
    struct message outcome = {.type = MESSAGE_OUTCOME, .outcome.request = number};
    return observer_take_outcome(&fixture->observer, &outcome, request);
}

TEST(requests_are_repeated_until_their_outcomes_come) {
    struct fixture *fixture = *state;
    static const char *const nodes[] = {"node-1", "node-22"};
    struct message evict = {.type = MESSAGE_EVICT, .evict.notice_ms = 7000};
    struct message now = {.type = MESSAGE_CHECKPOINT_NOW}, request;
    uint64_t first = observer_request_nodes(&fixture->observer, evict, nodes, 2);
    uint64_t second = observer_request_nodes(&fixture->observer, (struct message){.type = MESSAGE_GONE}, nodes, 1);
    uint64_t third = observer_request(&fixture->observer, &now);
    assert_true(first != 0 && second != 0 && third != 0);
    assert_true(first != second && second != third && first != third);
    assert_int_equal(fixture->io.count, 3);
    forget(fixture);
    observer_repeat_requests(&fixture->observer);
    assert_int_equal(fixture->io.count, 3);
    assert_int_equal(sent(fixture, 0)->type, MESSAGE_EVICT);
    assert_int_equal(sent(fixture, 0)->evict.request, first);
    assert_int_equal(sent(fixture, 0)->evict.notice_ms, 7000);
    assert_int_equal(sent(fixture, 0)->frames[0]->size, 2 * WIRE_NAME_MAX);
    assert_string_equal((char *)sent(fixture, 0)->frames[0]->data + WIRE_NAME_MAX, "node-22");
    assert_int_equal(sent(fixture, 1)->gone.request, second);
    assert_int_equal(sent(fixture, 2)->checkpoint_now.request, third);

    assert_true(take_outcome(fixture, second, &request)); /* before the first request's */
    assert_int_equal(request.type, MESSAGE_GONE);
    assert_string_equal((char *)request.frames[0]->data, "node-1");
    message_close(&request);
    assert_false(take_outcome(fixture, second, &request)); /* the request was repeated */
    assert_false(take_outcome(fixture, 0, &request));
    assert_false(take_outcome(fixture, third + 1, &request));
    forget(fixture);
    observer_repeat_requests(&fixture->observer);
    assert_int_equal(fixture->io.count, 2);
    assert_true(take_outcome(fixture, first, NULL));
    assert_true(take_outcome(fixture, third, NULL));
    forget(fixture);
    observer_repeat_requests(&fixture->observer);
    assert_int_equal(fixture->io.count, 0);
}

TEST(a_request_that_was_withdrawn_is_not_repeated) {
    struct fixture *fixture = *state;
    struct message allocation = {.type = MESSAGE_ALLOCATION};
    message_add_copy(&allocation, NULL, 0);
    observer_withdraw(&fixture->observer, 0);
    uint64_t number = observer_request(&fixture->observer, &allocation);
    forget(fixture);
    observer_withdraw(&fixture->observer, number);
    observer_repeat_requests(&fixture->observer);
    assert_int_equal(fixture->io.count, 0);
    assert_false(take_outcome(fixture, number, NULL)); /* late */
}

TEST(requests_have_a_limit) {
    struct fixture *fixture = *state;
    for (unsigned r = 0; r < OBSERVER_REQUESTS_MAX; r++) {
        struct message now = {.type = MESSAGE_CHECKPOINT_NOW};
        assert_int_equal(observer_request(&fixture->observer, &now), r + 1);
        forget(fixture);
    }
    struct message allocation = {.type = MESSAGE_ALLOCATION};
    message_add_copy(&allocation, NULL, 0);
    assert_int_equal(observer_request(&fixture->observer, &allocation), 0);
    assert_int_equal(fixture->io.count, 0);
}

TEST(status_has_its_number) {
    struct fixture *fixture = *state;
    observer_ask_status(&fixture->observer, 9);
    assert_int_equal(fixture->io.count, 1);
    assert_int_equal(sent(fixture, 0)->type, MESSAGE_STATUS);
    assert_int_equal(sent(fixture, 0)->status.request, 9);
    assert_int_equal(sent(fixture, 0)->frame_count, 1);
}

int main(void) {
    return tests_run_each(set_up, tear_down);
}
