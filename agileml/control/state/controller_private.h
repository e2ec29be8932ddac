/* The functions that the elasticity controller's source files share, in sections by file. Calls between files form no
 * circles. At the bottom are members.c, send.c and lines.c; above them persist.c, barrier.c and leaving.c; then one
 * file for each concern. controller.c is on top: it alone takes callbacks and settles them. Features have their own
 * headers, and are called through their table (feature.h). */
#ifndef AGILEML_CONTROL_CONTROLLER_PRIVATE_H
#define AGILEML_CONTROL_CONTROLLER_PRIVATE_H

#include "agileml/control/state/controller.h"
#include "agileml/control/state/feature.h"
#include "agileml/control/state/job_settings.h"
#include "agileml/control/state/report.h"
#include "agileml/wire/records.h"

#include <assert.h>

enum {
    CONTROLLER_COMMIT_EVERY = 4,     /* most clocks between commit points that the controller chooses at first */
    CONTROLLER_COMMIT_LATE = 3,      /* iterations in a row with a late commit before commit points become rarer */
    CONTROLLER_WINDOW_POINTS = 3,    /* commit points that workers may be ahead of the commit */
    CONTROLLER_HOLD_AHEAD_MS = 20,   /* how far ahead a barrier is set, so that no origin has to wait at it */
    CONTROLLER_HOLD_AHEAD_MAX = 256, /* the same in clocks, at most */
    CONTROLLER_CHECKPOINTS_KEPT = 2,
    CONTROLLER_FOLDER_TASKS_MAX = 8,              /* folder tasks that are not finished */
    CONTROLLER_CHECKPOINT_NAME_US = 1000 * 1000,  /* longest duration of a checkpoint's barrier */
    CONTROLLER_CHECKPOINT_AGAIN_US = 250 * 1000,  /* wait after an attempt that was refused or not answered */
    CONTROLLER_CHECKPOINT_RETRY_US = 1000 * 1000, /* wait after an attempt that failed; doubles with each failure */
    CONTROLLER_CHECKPOINT_RETRIES_MAX = 8,        /* doublings of that wait */
    CONTROLLER_CHECKPOINT_REFUSALS_MAX = 40       /* more refusals in a row count as a failure */
};

/* ---- Time ---- */

static inline uint64_t controller_now(const struct controller *controller) {
    return controller->io->now_us(controller->io);
}
/* Returns the time since `*last_us`, 0 if that is 0, and sets it to now. At most `most_us`: the time between two calls
 * that are not late, so that time in which this controller was stopped does not count. */
static inline uint64_t controller_passed_us(uint64_t *last_us, uint64_t now_us, uint64_t most_us) {
    uint64_t passed_us = *last_us == 0 ? 0 : now_us - *last_us;
    assert(now_us >= *last_us);
    *last_us = now_us;
    return passed_us < most_us ? passed_us : most_us;
}
/* Returns how long training has lasted, including time without a controller as far as this is known. */
static inline uint64_t controller_trained_us(const struct controller *controller) {
    uint64_t started_us = controller->times.started_us;
    return controller->progress.trained_us + (started_us == 0 ? 0 : controller_now(controller) - started_us);
}
static inline double controller_seconds(const struct controller *controller) {
    return (double)controller_trained_us(controller) / 1e6;
}

/* ---- members.c ---- */

struct member *controller_find_member(const struct controller *controller, actor_id node);
struct member *controller_member_named(const struct controller *controller, const char *name);
unsigned controller_members_of_tier(const struct controller *controller, unsigned tier);
/* Counts the members that stay, by tier. */
void controller_count_members(const struct controller *controller, unsigned count[TIERS]);
/* Changes the member's state to the next one: LEAVING or DISMISSED. */
void member_set_stay(struct member *member, enum member_stay stay);
/* Returns the member's tier. In stage transient no node is trusted more than another: there it returns TIER_TRANSIENT
 * also for a reliable member. */
enum node_tier controller_trusted_tier(const struct controller *controller, const struct member *member);
enum node_tier controller_actor_tier(const struct controller *controller, actor_id actor);
/* Whether the member is a feeder. Feeders have no part in any plan, and nobody waits for them. */
static inline bool controller_feeds(const struct member *member) {
    return member->node.tier == TIER_FEEDER;
}
/* Returns the member's worker threads; for a feeder, the threads with which it makes batches. */
static inline unsigned member_threads(const struct member *member) {
    return member->feeding.threads > 0 ? member->feeding.threads : member->node.threads;
}
/* Whether the plan names the node for a partition, for data or for a catch-up. With `coming`, the plan's `next_` half
 * also counts, even if it has no clock yet. */
bool controller_plan_names(const struct controller *controller, actor_id node, bool coming);
/* Whether the clock of the plan's `next_` half fits the state of the change. */
bool controller_change_fits(const struct controller *controller);
/* Whether the member serves, follows or works at any clock. A change that is only being prepared does not count, as
 * change_cancel can still give up that change. */
bool controller_has_part(const struct controller *controller, const struct member *member);
/* Whether the member is a feeder, or only registered: it has reported no plan and no clock depends on it. Nobody waits
 * for such a member, so a registration alone can't stop the job. */
bool controller_is_outside(const struct controller *controller, const struct member *member);
/* Whether the job could go on without the members that are leaving and those marked in `also`. If not, `why` receives
 * the reason. */
bool controller_enough_without_these(const struct controller *controller, const unsigned char *also, char *why,
                                     size_t size);
/* Whether the job could go on without this member and all members that are leaving. */
bool controller_enough_without(const struct controller *controller, const struct member *member);
/* Returns the members as a plan names them: struct wire_node each. With `dismissed`, includes dismissed members, which
 * no plan names. The caller drops the buffer. */
struct buffer *controller_plan_nodes(const struct controller *controller, bool dismissed);
/* Passes the list of the job's nodes to the io. */
void controller_admit_members(struct controller *controller);
/* Returns approximately when all members have received the last plan. The next plan waits until then. Otherwise, when
 * hundreds of members are evicted at once, one plan per eviction would fill the controller's link for many seconds. */
uint64_t controller_plan_sent_us(const struct controller *controller);
/* Returns when nodes that join or leave now get a plan if nothing hurries: a moment later, as more may come, and some
 * time after the last plan, the longer the more members there are. So nodes that come and go one by one share plans. */
uint64_t controller_replan_us(const struct controller *controller);
/* Returns how long the member has been silent, in microseconds. */
static inline uint64_t silence_of(const struct member *member, uint64_t now_us) {
    return now_us > member->silence.heard_us ? now_us - member->silence.heard_us : 0;
}
static inline void numbers_add(struct node_numbers *sum, const struct node_numbers *more) {
#define NUMBER(types, kind, name, field, most, label, meaning) sum->field += more->field;
#include "agileml/wire/report_keys.def"
}

/* ---- send.c ---- */

void controller_send(struct controller *controller, actor_id to, struct message *message);
void controller_send_ack(struct controller *controller, struct member *member);
void controller_send_acks(struct controller *controller);
void controller_send_welcome(struct controller *controller, actor_id to, const char *name);
/* Sends the plan: what has changed, if the member was sent the plan before as its last one, else the whole plan. */
void controller_send_plan(struct controller *controller, struct member *member);
void controller_send_start(struct controller *controller, const struct member *member);
void controller_send_empty(struct controller *controller, actor_id to, enum message_type type);
void controller_send_abort(struct controller *controller, actor_id to, int code, const char *text);
/* Sends a node how the job has ended: DONE, or ABORT with the reason. */
void controller_send_end(struct controller *controller, actor_id to);
void controller_send_outcome(struct controller *controller, actor_id to, uint64_t request, int code, const char *text);
/* Sets the timer to `at_us`. */
void controller_tick_at(struct controller *controller, uint64_t at_us);
/* Sets the timer to `at_us`, unless it is set to an earlier time. */
void controller_tick_before(struct controller *controller, uint64_t at_us);

/* ---- lines.c ---- */

/* Adds a line to the report without storing it; only controller_report calls this. Takes over `line`, from malloc. */
void lines_add(struct controller_report *report, char *line);
/* Sends the observer the stored lines that it has not read. */
void lines_send(struct controller *controller, const struct report_reader *observer);
/* Removes the last line, which must not be stored yet. */
void lines_drop_last(struct controller_report *report);
/* Sends observers the stored lines from number `first` on. */
void lines_tell_observers(struct controller *controller, size_t first);
/* Returns the place of this observer; observer_count: it has none. */
unsigned lines_observer(const struct controller_report *report, actor_id actor);
void lines_forget_observer(struct controller_report *report, unsigned observer);

/* ---- barrier.c ---- */

/* Lifts the barrier, and sends nothing. */
void barrier_lift(struct controller *controller);
/* Stores the barrier, then sends it to every member. Storing comes first, so that its number is never used again. */
void barrier_tell(struct controller *controller);
/* Lifts the barrier and informs every member. The members have to acknowledge that. */
void barrier_none(struct controller *controller);
/* Sets a barrier: asks members not to pass the clock. */
void barrier_at(struct controller *controller, uint64_t clock, enum barrier_purpose purpose);
/* Whether every member has acknowledged the barrier, except members that are outside and so begin no clock. Sets
 * *passed to whether a member had begun a clock beyond the barrier. */
bool barrier_is_held(const struct controller *controller, bool *passed);
/* Returns the highest clock that any node is known to have begun, or that precedes the clock of a named change. */
uint64_t barrier_clock_reached(const struct controller *controller);
/* Returns a clock for a barrier. All members must know the barrier before any member reaches the clock. But workers
 * that wait for the commit must be able to reach it. */
uint64_t barrier_clock_ahead(const struct controller *controller);

/* ---- verdicts.c ---- */

/* Changes the phase as drawn in controller.h. */
void controller_set_phase(struct controller *controller, enum controller_phase to);
/* Has the job end with this outcome, unless it has ended already. A failure replaces a success that no process was
 * informed of yet. */
void verdict_end(struct controller *controller, int code, const char *text);

/* ---- leaving.c ---- */

/* Removes the member without sending it a message. Invalidates members' addresses. */
void controller_remove_member(struct controller *controller, struct member *member);
/* Counts and reports the member's eviction if the member was dismissed. */
void controller_count_eviction(struct controller *controller, const struct member *member);
/* Removes a member that has failed. Has the job recover without the member, or end with `text`. Invalidates members'
 * addresses. */
void controller_lose(struct controller *controller, struct member *member, const char *text);
/* Has the job end because a node has failed, for the reason `text`. `name` may be NULL. */
void controller_fail(struct controller *controller, const char *name, int code, const char *text);
/* Has the chosen members leave. */
void controller_give_notice(struct controller *controller, const unsigned char *chosen, uint64_t notice_us);
/* Evicts a member that the job can do without, with a notice of CONTROLLER_REPLACE_NOTICE_MS. */
void controller_evict(struct controller *controller, struct member *member);

/* ---- end.c ---- */

/* Stores the job's outcome and sends it to nodes and observers. */
void end_announce(struct controller *controller);
/* Ends the controller when it waits for no node and no observer any more. */
void end_try(struct controller *controller);

/* ---- change.c ---- */

/* Makes the first plan, once every expected node has registered. */
void change_first(struct controller *controller);
/* Takes the next step of a change towards the desired plan, if one is possible now. Called after every event that could
 * make a step possible. */
void change_step(struct controller *controller);
/* Sets the state of the change of plan. */
void change_set(struct controller *controller, enum change to);
/* Returns when the next step may be possible without a further message; UINT64_MAX: never. */
uint64_t change_due_us(const struct controller *controller, uint64_t now_us);
/* Builds the PLAN message from the controller's state. */
void change_build(struct controller *controller);
/* Builds PLAN under a new version, stores it, and sends it to every member. */
void change_publish(struct controller *controller);
/* Returns the interval between commit points, in clocks, for the present placement or, with `next`, for the next
 * placement. */
uint32_t change_commit_every(const struct controller *controller, bool next);
/* Makes commit points rarer when followers can't keep up with them. Called after each iteration. */
void change_check_commit(struct controller *controller);
/* Has a plan made when another stage than the plan's is wanted, or another strategy. Called after each iteration. */
void change_check_stage(struct controller *controller);
/* Gives up a change that has no clock yet. For `carry_out` (controller.c) and change.c alone. */
void change_cancel(struct controller *controller);

/* ---- expected.c ---- */

/* After a node has joined, sets how long the next plan waits for other expected nodes. Nodes that join within a short
 * time get one plan together, so that data moves only once. While a member is leaving, the plan does not wait for
 * expected nodes. */
void expected_replan(struct controller *controller);
/* To be called when a node has joined: a node of its name is not expected any more. */
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
/* Whether this member is to save the model in the present attempt. */
bool save_is_asked_of(const struct controller *controller, const struct member *member);

/* ---- nodes.c ---- */

/* Adds the lines `nodes` and `usage` to the report if they are due. Called at the end of each callback. */
void nodes_step(struct controller *controller);
/* Adds these lines for the last time, before the summary. */
void nodes_finish(struct controller *controller);
/* To be called before a member is removed. */
void nodes_removed(struct controller *controller, const struct member *member);
void nodes_close(struct controller *controller);

/* ---- possible.c ---- */

/* Returns the highest clock that any origin can have begun. Before an origin begins a clock, every origin must have
 * flushed the clock that is staleness + 1 earlier. No origin is more than WIRE_PROGRESS_MAX clocks ahead of its stored
 * PROGRESS, or beyond the job's last clock. */
uint64_t possible_clock(const struct controller *controller);
/* Whether the message's content is possible. If not, gives the member up, which invalidates members' addresses. */
bool possible_check(struct controller *controller, struct member *member, const struct message *message);
/* Whether all members' FENCED are possible together: no replica may have the state of a clock that one of the clock's
 * origins has not begun. If not, gives members up, which invalidates members' addresses. */
bool possible_check_fenced(struct controller *controller);

/* ---- recover.c ---- */

/* Whether members were lost, and the remaining members are being fenced or will be. Earlier reports may then be
 * void. */
static inline bool controller_recovers(const struct controller *controller) {
    return controller->change.state == CHANGE_RECOVER || controller->verdicts.fence;
}
void recover_receive_fenced(struct controller *controller, struct member *member, const struct message *message);
/* Begins a new epoch: the remaining members stop working and report their restore points. For `carry_out`
 * alone. */
void recover_fence(struct controller *controller);
/* Makes the plan of a recovery once all members have answered. For `carry_out` alone. */
void recover_step(struct controller *controller);
/* Sends FENCE again to all members that have not answered. */
void recover_repeat(struct controller *controller);
/* Sends FENCE to this member if it has not answered. */
void recover_ask(struct controller *controller, const struct member *member);

/* ---- crashes.c ---- */

/* Receives CRASHED. The caller answers once the loss is stored. */
void crashes_receive(struct controller *controller, actor_id from, const struct message *message);
/* Handles the crash of a member whose process has died of a crash signal without sending CRASHED. Invalidates members'
 * addresses. */
void crashes_died(struct controller *controller, struct member *member, unsigned signal);
/* To be called before a member is given up because its process has ended or does not answer. How the process ended may
 * be reported later. */
void crashes_ended(struct controller *controller, const struct member *member);
/* Handles the launcher's report that a node of this name, which was given up before, has died of a crash signal. */
void crashes_told_late(struct controller *controller, const char *name, unsigned signal);
/* To be called after a recovery: the job goes on without the nodes that have crashed so far. */
void crashes_recovered(struct controller *controller);
/* If the job can't go on because of a crash, writes the reason into `text` and returns true. `lacking` is what the
 * crashed node had and the others lack: a partition, or CRASHES_LACKING_STATE or CRASHES_LACKING_NODES. */
bool crashes_explain(const struct controller *controller, uint32_t lacking, char *text, size_t size);
enum { CRASHES_LACKING_STATE = WIRE_PARTITIONS_MAX, CRASHES_LACKING_NODES };

/* ---- progress.c ---- */

/* Takes a member's report that the clocks up to `clock` are committed. The report counts only up to the last completed
 * clock: the last clock of which all origins have reported PROGRESS. With 0, counts earlier reports again, as a further
 * clock was completed. */
void progress_committed(struct controller *controller, uint64_t clock);
void progress_open(struct controller *controller);
void progress_close(struct controller *controller);
void progress_receive(struct controller *controller, struct member *member, const struct message *message);
/* Prepares for the restoration of clock `restore` after nodes were lost. The schedule must still be the old one. Drops
 * the lost nodes' reports of clocks beyond `restore`, as these clocks are done again. Keeps their reports of earlier
 * clocks. Data shards of earlier clocks that the lost nodes did not evaluate are evaluated by the origins that take
 * these shards over, takeover[shard]. */
void progress_recover(struct controller *controller, uint64_t restore, const actor_id *takeover);
/* Sends EVALUATE to the member for all evaluations that it has not reported. */
void progress_ask(struct controller *controller, const struct member *member);
/* Lists the origins whose reports the next clock lacks, and returns how many they are. The caller frees the list. */
unsigned progress_missing(const struct controller *controller, actor_id **origins);
/* Completes the clocks that can be completed. */
void progress_step(struct controller *controller);

/* ---- checkpoints.c ---- */

/* Begins a new job; with options.resume, the job takes its state from the checkpoint there. */
int checkpoints_open(struct controller *controller, struct error *error);
/* Reports the checkpoint from which the job resumes. Called when the first node has registered; `settings` are that
 * node's options, struct wire_option each. */
void checkpoints_resumed(struct controller *controller, const struct buffer *settings);
/* Prepares a controller that continues the job in the store: no checkpoint is under way. */
void checkpoints_take_up(struct controller *controller);
/* Takes the next step of the checkpoint under way, or begins a checkpoint that is due, if possible now. Called after
 * every event that could make a step possible. */
void checkpoints_step(struct controller *controller);
/* Returns when the next attempt may begin; UINT64_MAX: it need not wait. */
uint64_t checkpoints_due_us(const struct controller *controller, uint64_t now_us);
/* Takes the result of a finished folder task, and frees the task. */
void checkpoints_take_task(struct controller *controller, struct folder_task *task);
/* Whether a checkpoint's barrier is set, so that no other barrier can be set. */
bool checkpoints_hold(const struct controller *controller);
/* Gives up the attempt under way. The next attempt begins as soon as one can. */
void checkpoints_put_off(struct controller *controller);
/* Gives up the attempt under way if the checkpoint's clock is beyond `clock`. */
void checkpoints_put_off_beyond(struct controller *controller, uint64_t clock);
/* Gives up the attempt under way if a node that still has to write a file has no part in the plan any more. */
void checkpoints_check_writers(struct controller *controller);
/* To be called when a clock was completed: every origin has reported it. */
void checkpoints_completed(struct controller *controller);
/* Has the last clock's checkpoint written, after every origin has reported this clock. Returns true when the checkpoint
 * is written, is not wanted, or can't be written. */
bool checkpoints_end(struct controller *controller);
/* Returns an error with the reason if the job should have written checkpoints and has written none, else 0. */
int checkpoints_check(const struct controller *controller, struct error *error);
/* Removes unfinished folders and answers all waiting requests, as the job is over. */
void checkpoints_stop(struct controller *controller);
void checkpoints_receive_written(struct controller *controller, const struct member *member,
                                 const struct message *message);
void checkpoints_receive_now(struct controller *controller, actor_id from, const struct message *message);
/* Sends CHECKPOINT to a member that still has to write files. */
void checkpoints_send(struct controller *controller, const struct member *member);
void checkpoints_close(struct controller *controller);

/* ---- persist.c ---- */

/* Adds a line to the report. Takes over `line`, which is from malloc. */
void controller_report(struct controller *controller, char *line);
/* Stores the whole state now. Returns false after a failure, which ends the job. */
bool persist_all(struct controller *controller);
/* Returns when the progress is to be stored; UINT64_MAX: it is stored. */
uint64_t persist_due_us(const struct controller *controller, uint64_t now_us);
/* Has the progress stored after at most CONTROLLER_STORE_US. */
void persist_soon(struct controller *controller);
/* Stores the progress now. Returns false after a failure, which ends the job. */
bool persist_progress(struct controller *controller);
/* Reads the state from the store. Returns 1; 0 when the store is empty; or a negative error. */
int persist_load(struct controller *controller, struct error *error);

#endif
