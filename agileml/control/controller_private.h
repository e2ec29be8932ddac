/* The functions that the elasticity controller's source files share: controller.c (membership, messages, the end),
 * change.c (plans and announced changes), expected.c (machines that are to join), input.c (fingerprints of the input),
 * silence.c (nodes that are silent), accusations.c (nodes accused of impossible messages by others), pulses.c (nodes
 * that others suspect), answers.c (nodes that are heard but do not answer), possible.c (nodes that send the controller
 * impossible reports), recover.c (recovery from lost nodes), crashes.c (apps that crash), save.c (the model),
 * app_notes.c (what the app says), progress.c, feeding.c (how many feeders there are), checkpoints.c, persist.c. */
#ifndef AGILEML_CONTROL_CONTROLLER_PRIVATE_H
#define AGILEML_CONTROL_CONTROLLER_PRIVATE_H

#include "agileml/control/controller.h"
#include "agileml/control/job_settings.h"
#include "agileml/control/report.h"
#include "agileml/wire/records.h"

enum {
    CONTROLLER_COMMIT_EVERY = 4,     /* clocks between commit points that the controller chooses at first, at most */
    CONTROLLER_COMMIT_LATE = 3,      /* late commits at iteration ends in a row before commit points become rarer */
    CONTROLLER_WINDOW_POINTS = 3,    /* commit points that workers may be ahead of the commit */
    CONTROLLER_HOLD_AHEAD_MS = 20,   /* a barrier is set about so far ahead that no origin has to wait at it */
    CONTROLLER_HOLD_AHEAD_MAX = 256, /* clocks */
    CONTROLLER_CHECKPOINTS_KEPT = 2,
    CONTROLLER_FOLDER_TASKS_MAX = 8,              /* that are not through */
    CONTROLLER_CHECKPOINT_NAME_US = 1000 * 1000,  /* the longest that a checkpoint's barrier lasts */
    CONTROLLER_CHECKPOINT_AGAIN_US = 250 * 1000,  /* wait after an attempt that was refused or not answered */
    CONTROLLER_CHECKPOINT_RETRY_US = 1000 * 1000, /* wait after an attempt that failed; doubles with each failure */
    CONTROLLER_CHECKPOINT_RETRIES_MAX = 8,        /* doublings of that wait */
    CONTROLLER_CHECKPOINT_REFUSALS_MAX = 40       /* refusals in a row that are not yet a failure */
};

uint64_t controller_now(const struct controller *controller);
/* Returns the member's tier; in stage transient no node is trusted more than another, so TIER_TRANSIENT for a reliable
 * one. */
enum node_tier controller_trusted_tier(const struct controller *controller, const struct member *member);
/* Returns how long training has lasted, including time without a controller as far as this is known. */
uint64_t controller_trained_us(const struct controller *controller);
double controller_seconds(const struct controller *controller);
struct member *controller_find_member(struct controller *controller, actor_id node);
/* Whether the member is a feeder. No plan has a part for it, and nobody waits for it. */
static inline bool controller_feeds(const struct member *member) {
    return member->node.tier == TIER_FEEDER;
}
/* Whether the member is only registered, that is, it has reported no plan, and no clock depends on it; or is a feeder.
 * Nobody waits for such a member, so a registration alone stops no job. */
bool controller_is_outside(const struct controller *controller, const struct member *member);
/* The store can't be written any more, for the reason in `error`: ends the job with it. That also becomes the end of a
 * job that ends well and whose members have not been told so yet. */
void controller_unstored(struct controller *controller, const struct error *error);
/* Counts the members that stay, by tier. */
void controller_count_members(const struct controller *controller, unsigned count[TIERS]);
/* Takes a member's report that the clocks up to `clock` are committed. It counts only up to the last completed clock,
 * that is, the last one of which all origins have reported PROGRESS. With 0, earlier reports are counted again, as a
 * further clock was completed. */
void controller_committed(struct controller *controller, uint64_t clock);
void controller_send(struct controller *controller, actor_id to, struct message *message);
void controller_send_ack(struct controller *controller, struct member *member);
void controller_send_acks(struct controller *controller);
void controller_send_plan(struct controller *controller, struct member *member);
void controller_send_empty(struct controller *controller, actor_id to, enum message_type type);
/* Ends the job with this outcome, and sends it to nodes and observers. */
void controller_finish(struct controller *controller, int code, const char *text);
void controller_send_abort(struct controller *controller, actor_id to, int code, const char *text);
/* Whether the job could go on without this member and all members that are leaving. */
bool controller_enough_without(const struct controller *controller, const struct member *member);
/* Evicts the member, as the job can do without it, with CONTROLLER_REPLACE_NOTICE_MS. */
void controller_evict(struct controller *controller, struct member *member);
/* Adds a line to the report. Takes over `line`, which is from malloc. */
void controller_report(struct controller *controller, char *line);
/* Sends observers the stored lines from number `first` on. */
void controller_tell_observers(struct controller *controller, size_t first);
void controller_send_outcome(struct controller *controller, actor_id to, uint64_t request, int code, const char *text);
/* Sets the timer to `at_us`. */
void controller_tick_at(struct controller *controller, uint64_t at_us);
/* Sets the timer to `at_us`, unless it is set to an earlier time. */
void controller_tick_before(struct controller *controller, uint64_t at_us);
/* Ends the job because a node has failed, for the reason `text`. `name` may be NULL. */
void controller_fail(struct controller *controller, const char *name, int code, const char *text);
/* Removes the member without sending it a message. Invalidates members' addresses. */
void traffic_add(struct member_traffic *sum, const struct member_traffic *more);
void controller_remove_member(struct controller *controller, struct member *member);

/* Takes every step that has become possible. Called at the end of each callback. */
void controller_settle(struct controller *controller);

/* ---- change.c ---- */

/* Makes the first plan. Every expected node has registered. */
void change_first(struct controller *controller);
/* Takes the next step of a change towards the desired plan, if one is possible now. Called after every event that could
 * make a step possible. */
void change_step(struct controller *controller);
/* Returns the members as a plan names them: struct wire_node each. With `dismissed` also dismissed members, which no
 * plan names. The caller drops the buffer. */
struct buffer *change_plan_nodes(const struct controller *controller, bool dismissed);
/* Builds the PLAN message from the controller's state. */
void change_build(struct controller *controller);
/* Builds PLAN under a new version, stores it, and sends it to every member. */
void change_publish(struct controller *controller);
/* Returns about when all members have the last version. Hundreds of members that are evicted at once each give their
 * own notice: one plan for each notice, sent to all members, would fill the controller's link for many seconds. */
uint64_t change_sent_us(const struct controller *controller);
/* Lifts the barrier, and sends nothing. */
void change_barrier_lift(struct controller *controller);
/* Lifts the barrier, and sends that to every member. The members have to acknowledge it. */
void change_barrier_none(struct controller *controller);
/* Sets a barrier: asks members not to pass the clock. */
void change_barrier_at(struct controller *controller, uint64_t clock, enum barrier_purpose purpose);
/* Whether every member has acknowledged the barrier, except members that are outside, which begin no clock.
 * *passed: a member had begun a clock beyond the barrier. */
bool change_all_held(const struct controller *controller, bool *passed);
/* Returns the highest clock that any node is known to have begun, or that is named for a change. */
uint64_t change_clock_reached(const struct controller *controller);
/* Returns a clock for a barrier: so far ahead that no member reaches the clock before all know it, but not so far that
 * workers which wait for the commit would never reach it. */
uint64_t change_clock_ahead(const struct controller *controller);
/* Returns the interval between commit points, in clocks, for the present placement or, with `next`, for the next. */
uint32_t change_commit_every(const struct controller *controller, bool next);
/* Makes commit points rarer when followers can't keep up with them. Called after each iteration. */
void change_check_commit(struct controller *controller);
/* Has a plan made when the tuner wants another stage than the plan's. Called after each iteration. */
void change_check_stage(struct controller *controller);
/* Gives up a change that has no clock yet. */
void change_cancel(struct controller *controller);
/* Whether the member serves, follows or works at any clock. A change that is only being prepared does not count, as
 * change_cancel can still give it up. */
bool change_has_part(const struct controller *controller, const struct member *member);
enum node_tier change_actor_tier(const struct controller *controller, actor_id actor);

/* ---- expected.c ---- */

/* Sets the time until which the next plan waits, after a node has joined, for other nodes that are expected. Nodes that
 * join within a short time get one plan together, so the data moves once. While a member is leaving the plan does not
 * wait for expected nodes. */
void expected_replan(struct controller *controller);
/* A node of this name has joined: it is not expected any more. */
void expected_joined(struct controller *controller, const char *name);
void expected_receive(struct controller *controller, actor_id from, const struct message *message);

/* ---- input.c ---- */

/* Receives INPUT: compares the member's input with the job's. Invalidates members' addresses. */
void input_receive(struct controller *controller, struct member *member, const struct message *message);

/* ---- save.c ---- */

/* Begins to save the model once the last clock is completed and its checkpoint is written. */
void save_step(struct controller *controller);
/* Sends SAVE to the member if this member is to save the model. Repeated with each heartbeat. */
void save_send(struct controller *controller, const struct member *member);
void save_receive(struct controller *controller, const struct member *member, const struct message *message);

/* ---- app_notes.c ---- */

/* Receives APP_NOTE: adds the text to the report if it is new. */
void app_notes_receive(struct controller *controller, const struct member *member, const struct message *message);

/* ---- silence.c ---- */

/* Gives every member a whole timeout, counted from when its connection must stand again. Called after this controller
 * has started, or was stopped for long, as connections may be broken. */
void silence_begin_anew(struct controller *controller, uint64_t now_us);
/* A message has arrived from the member. */
void silence_heard(const struct controller *controller, struct member *member);
/* Discounts time in which this controller itself was stopped: from each member's silence, and from the time that nodes
 * and observers have at the job's end. Called first in each timer call. */
void silence_discount(struct controller *controller, uint64_t now_us);
/* Reports members that have become silent. Recovers from the loss of members that were silent for longer than the
 * timeout, or that others can't reach. */
void silence_check(struct controller *controller, uint64_t now_us);
/* Takes a heartbeat's accusation: the member can't reach the node `accused`; ACTOR_NONE: the member reaches every node
 * that it needs. Accusations of earlier epochs are settled: the caller passes ACTOR_NONE for them. */
void silence_accuse(struct controller *controller, struct member *member, actor_id accused);
/* Returns how long the member has been silent, in microseconds. */
uint64_t silence_of(const struct member *member, uint64_t now_us);
/* Whether the member was heard since silence_begin_anew, and not long ago. */
bool silence_is_lively(const struct controller *controller, const struct member *member, uint64_t now_us);

/* ---- accusations.c ---- */

/* Receives ACCUSE: either the accused or the accuser has failed, and is given up. Invalidates members' addresses. */
void accusations_receive(struct controller *controller, struct member *accuser, const struct message *message);

/* ---- pulses.c ---- */

void pulses_receive(struct controller *controller, actor_id from, const struct message *message);
/* Gives up the members that leave questions unanswered. Called in each timer call. */
void pulses_check(struct controller *controller, uint64_t now_us);
/* When pulses_check is due next; UINT64_MAX: no question is open. */
uint64_t pulses_due_us(const struct controller *controller);

/* ---- nodes.c ---- */

/* Adds lines `nodes` and `usage` to the report if they are due. Called at the end of each callback. */
void nodes_step(struct controller *controller);
/* Adds these lines for the last time, before the summary. */
void nodes_finish(struct controller *controller);
/* The member is about to be removed. */
void nodes_removed(struct controller *controller, const struct member *member);
void nodes_close(struct controller *controller);

/* ---- answers.c ---- */

/* Gives up members that have owed an answer for longer than options.answer_ms. Only time counts in which the member was
 * heard and this controller was not stopped. Called in each timer call. */
void answers_check(struct controller *controller, uint64_t now_us);
/* The member has answered a request of this kind, perhaps not the latest one. */
void answers_came(struct member *member, enum answer answer);

/* ---- possible.c ---- */

/* Returns the highest clock that can have been begun. Every origin must have flushed the clock that is staleness + 1
 * before. No origin is further ahead of its stored PROGRESS than WIRE_PROGRESS_MAX clocks. The job may have a last
 * clock. */
uint64_t possible_clock(const struct controller *controller);
/* Whether what the message reports is possible. If not, gives the member up, which invalidates members' addresses. */
bool possible_check(struct controller *controller, struct member *member, const struct message *message);
/* Whether all members' FENCED are possible together: no replica has the state of a clock that one of the clock's
 * origins has not begun. If not, gives members up, which invalidates members' addresses. */
bool possible_check_fenced(struct controller *controller);

/* ---- recover.c ---- */

/* Whether members were lost and the remaining members are being fenced, or are to be. Earlier reports may be void
 * then. */
static inline bool controller_recovers(const struct controller *controller) {
    return controller->change.state == CHANGE_RECOVER || controller->recovery.due;
}
/* Removes a member that has failed. Recovers without the member, or ends the job with `text`. Invalidates members'
 * addresses. */
void recover_lost(struct controller *controller, struct member *member, const char *text);
void recover_receive_fenced(struct controller *controller, struct member *member, const struct message *message);
/* Sends FENCE again to all members that have not answered. */
void recover_repeat(struct controller *controller);
/* Sends FENCE to this member if it has not answered. */
void recover_ask(struct controller *controller, const struct member *member);

/* ---- crashes.c ---- */

void crashes_receive(struct controller *controller, actor_id from, const struct message *message);
/* Takes the crash of a member whose process has died of a crash signal without sending CRASHED. Invalidates members'
 * addresses. */
void crashes_died(struct controller *controller, struct member *member, unsigned signal);
/* The member is about to be given up as its process has ended, or does not answer: how it ended may be told later. */
void crashes_ended(struct controller *controller, const struct member *member);
/* The launcher tells that a node of this name, which was given up before, has died of a crash signal. */
void crashes_told_late(struct controller *controller, const char *name, unsigned signal);
/* The recovery is done: the job goes on without the nodes that have crashed so far. */
void crashes_recovered(struct controller *controller);
/* Writes why the job can't go on, if a crashed node had what the others lack. `lacking` is the partition without a
 * replica, or one of CRASHES_LACKING_... Returns false if no crash is the reason. */
bool crashes_explain(const struct controller *controller, uint32_t lacking, char *text, size_t size);
enum { CRASHES_LACKING_STATE = WIRE_PARTITIONS_MAX, CRASHES_LACKING_NODES };

/* ---- progress.c ---- */

unsigned progress_window(const struct controller *controller); /* entries */
void progress_open(struct controller *controller);
void progress_close(struct controller *controller);
void progress_receive(struct controller *controller, struct member *member, const struct message *message);
/* Prepares for the restoration of clock `restore` after nodes were lost; the schedule is still the old one. Forgets
 * what the lost nodes reported of clocks beyond `restore`, as these clocks are done again. Keeps what the lost nodes
 * reported of earlier clocks. Data shards of earlier clocks that the lost nodes did not evaluate are evaluated by the
 * origins that take them over: takeover[shard]. */
void progress_recover(struct controller *controller, uint64_t restore, const actor_id *takeover);
/* Sends EVALUATE to the member for all evaluations that it has not reported. */
void progress_ask(struct controller *controller, const struct member *member);
/* Returns how many items the iteration that has just ended worked on, including items that nobody reported. */
uint64_t progress_processed(const struct controller *controller);
/* Returns the share of the data that the metrics in `sums`, which are of `clocks` clocks, cover; 1: all. */
double progress_covered(const struct controller *controller, const struct clock_sums *sums, uint64_t clocks);
/* Completes the clocks that can be completed. */
void progress_step(struct controller *controller);

/* ---- rebalance.c ---- */

#define REBALANCE_PENDING_S 30.0 /* how long a replacement takes, before the first one */

/* Whether a policy may change something now: no other change is under way, the tuner tries nothing. */
bool rebalance_may(const struct controller *controller);
/* Asks the policy for uneven machines, and carries out its answer. To be called after each iteration. */
void rebalance_step(struct controller *controller);
/* A member has told how long it waited for each server. */
void rebalance_waits(struct controller *controller, const struct message *message);
/* A node has joined: the one in a straggler's place. */
void rebalance_joined(struct controller *controller);
/* A machine has joined so long after it was allocated to the job. */
void rebalance_pending(struct controller *controller, double seconds);

/* ---- feeding.c ---- */

/* Adds the completed clock to the window. */
void feeding_count(struct controller *controller, const struct clock_window *clock);
/* Ends the window if it is long enough: decides, and asks for a feeder or evicts some. Called after each clock. */
void feeding_step(struct controller *controller);
/* A feeder has joined. */
void feeding_joined(struct controller *controller);
/* A feeder's heartbeat has come. */
void feeding_heard(const struct controller *controller, struct member *member, const struct message_heartbeat *beat);
/* Returns with how many threads each feeder is to make batches, if it may have so many; 0: the controller does not
 * choose. */
unsigned feeding_threads(const struct controller *controller);
/* Returns the member's worker threads; of a feeder those with which it makes batches. */
unsigned feeding_member_threads(const struct member *member);
/* Returns the most that feeding_threads may be with the present feeders. */
unsigned feeding_threads_max(const struct controller *controller);
/* Returns how many feeders were asked for, or have joined and make nothing yet. */
unsigned feeding_coming(const struct controller *controller);

/* ---- checkpoints.c ---- */

/* Begins a new job; with options.resume, the job takes its state from the checkpoint there. */
int checkpoints_open(struct controller *controller, struct error *error);
/* Reports the checkpoint that a resumed job goes on from. Called when the first node has registered; `settings` are
 * its options, struct wire_option each. */
void checkpoints_resumed(struct controller *controller, const struct buffer *settings);
/* Prepares a controller that goes on with the job in the store: no checkpoint is under way. */
void checkpoints_take_up(struct controller *controller);
/* Takes the next step of the checkpoint under way, or begins a checkpoint that is due, if possible now. Called after
 * every event that could make a step possible. */
void checkpoints_step(struct controller *controller);
/* Takes a folder task that is through, and frees it. */
void checkpoints_take_task(struct controller *controller, struct folder_task *task);
/* Whether there is a barrier for a checkpoint, so that no other barrier can be set. */
bool checkpoints_hold(const struct controller *controller);
/* Gives up the attempt under way. The next attempt begins as soon as one can. */
void checkpoints_put_off(struct controller *controller);
/* Gives up the attempt under way if the checkpoint's clock is beyond `clock`. */
void checkpoints_put_off_beyond(struct controller *controller, uint64_t clock);
/* Gives up the attempt under way if a node that has still to write a file has no part in the plan any more. */
void checkpoints_check_writers(struct controller *controller);
/* Every origin has reported the clock that was completed last. */
void checkpoints_completed(struct controller *controller);
/* Has the last clock's checkpoint written; every origin has reported this clock. Returns true when the checkpoint is
 * written, is not wanted, or can't be written. */
bool checkpoints_end(struct controller *controller);
/* Returns an error with the reason if the job was asked for checkpoints and has written none, else 0. */
int checkpoints_check(const struct controller *controller, struct error *error);
/* Whether the last clock's checkpoint failed although earlier checkpoints were written; `text` receives the reason. */
bool checkpoints_last_failed(const struct controller *controller, char *text, size_t size);
/* Removes unfinished folders and answers all waiting requests, as the job is over. */
void checkpoints_stop(struct controller *controller);
void checkpoints_receive_written(struct controller *controller, const struct member *member,
                                 const struct message *message);
void checkpoints_receive_now(struct controller *controller, actor_id from, const struct message *message);
/* Sends CHECKPOINT to a member that has still to write files. */
void checkpoints_send(struct controller *controller, const struct member *member);
void checkpoints_close(struct controller *controller);

/* ---- persist.c ---- */

/* Stores the whole state, now. Returns false after a failure, which ends the job. */
bool persist_all(struct controller *controller);
/* Has the progress stored after at most CONTROLLER_STORE_US. */
void persist_soon(struct controller *controller);
/* Stores the progress, now. Returns false after a failure, which ends the job. */
bool persist_progress(struct controller *controller);
/* Reads the state from the store. Returns 1 when there is one, 0 when the store is empty, or a negative error. */
int persist_load(struct controller *controller, struct error *error);

#endif
