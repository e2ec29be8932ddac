/* What the parts of the controller share: controller.c (membership, messages, the end), change.c (plans and
 * announced changes), expected.c (machines that are to join), input.c (what nodes have read), silence.c (who has
 * failed), accusations.c (who has sent another node what can't be), answers.c (who is heard and does not answer),
 * possible.c (who says what can't be), recover.c (what follows), crashes.c (apps that crash), save.c (the model),
 * progress.c, checkpoints.c, persist.c. */
#ifndef AGILEML_CONTROL_CONTROLLER_PRIVATE_H
#define AGILEML_CONTROL_CONTROLLER_PRIVATE_H

#include "agileml/control/controller.h"
#include "agileml/control/job_settings.h"
#include "agileml/control/report.h"
#include "agileml/wire/records.h"

enum {
    CONTROLLER_COMMIT_EVERY = 4, /* clocks at most, when it is chosen, to begin with */
    CONTROLLER_COMMIT_LATE = 3, /* iterations in a row at whose end the commit is far behind, before it is made rarer */
    CONTROLLER_WINDOW_POINTS = 3,    /* commit points that workers may be ahead of the commit */
    CONTROLLER_HOLD_AHEAD_MS = 20,   /* a clock is named about so far ahead, so that nobody waits for it */
    CONTROLLER_HOLD_AHEAD_MAX = 256, /* clocks */
    CONTROLLER_CHECKPOINTS_KEPT = 2,
    CONTROLLER_CHECKPOINT_NAME_US = 1000 * 1000,  /* the longest that clocks are held for a checkpoint */
    CONTROLLER_CHECKPOINT_AGAIN_US = 250 * 1000,  /* wait after an attempt that was refused or not answered */
    CONTROLLER_CHECKPOINT_RETRY_US = 1000 * 1000, /* wait after an attempt that failed; doubles with each failure */
    CONTROLLER_CHECKPOINT_RETRIES_MAX = 8,        /* doublings of that wait */
    CONTROLLER_CHECKPOINT_REFUSALS_MAX = 40       /* of the last clock's checkpoint, until it counts as failed */
};

uint64_t controller_now(const struct controller *controller);
/* How long training has lasted, with the time in which there was no controller as far as it is known. */
uint64_t controller_trained_us(const struct controller *controller);
double controller_seconds(const struct controller *controller);
struct member *member_find(struct controller *controller, actor_id node);
/* Whether the member has registered and, as far as is known, done nothing since: it has reported no plan, and no clock
 * depends on it. Nobody waits for such a member, so registrations alone stop no job. */
bool member_is_outside(const struct controller *controller, const struct member *member);
/* Reliable and transient members that are not leaving. */
void members_count(const struct controller *controller, unsigned count[2]);
/* A member reports that the clocks up to `clock` are committed. Only clocks that all origins have reported count. */
void controller_committed(struct controller *controller, uint64_t clock);
void controller_send(struct controller *controller, actor_id to, struct message *message);
void send_ack(struct controller *controller, struct member *member);
void send_acks(struct controller *controller);
void send_plan(struct controller *controller, struct member *member);
void send_empty(struct controller *controller, actor_id to, enum message_type type);
/* The job is over, with this outcome; nodes and observers are told. */
void controller_finish(struct controller *controller, int code, const char *text);
void send_abort(struct controller *controller, actor_id to, int code, const char *text);
/* Whether the job could go on without those who are leaving and this member. */
bool enough_without_member(const struct controller *controller, const struct member *member);
/* Takes over `line`, from malloc. */
void controller_report(struct controller *controller, char *line);
/* Sends observers the lines from number `first` on; they are stored. */
void observers_tell(struct controller *controller, size_t first);
void send_outcome(struct controller *controller, actor_id to, uint64_t request, int code, const char *text);
/* Asks for the timer. */
void controller_tick_at(struct controller *controller, uint64_t at_us);
/* A node's failure ends the job. `name` may be NULL: `text` tells. */
void controller_fail(struct controller *controller, const char *name, int code, const char *text);
/* Takes the member out; it is told nothing. */
void member_remove(struct controller *controller, struct member *member);

/* ---- change.c ---- */

/* The first plan: every expected node is there. */
void change_first(struct controller *controller);
/* One step towards what should be, if there is one to take now. Called after everything that could make one
 * possible. */
void change_step(struct controller *controller);
/* The members, as a plan names them: struct wire_node each. `dismissed`: also those that no plan names any more. The
 * caller drops it. */
struct buffer *plan_nodes(const struct controller *controller, bool dismissed);
/* Makes the PLAN message of what the controller holds. */
void change_build(struct controller *controller);
/* ... under a new version, stores that, and sends it to everyone. */
void change_publish(struct controller *controller);
/* Nothing is held any more. */
void hold_lift(struct controller *controller);
/* Nothing is held any more, which every member is told and answers. */
void hold_none(struct controller *controller);
/* Asks members not to pass the clock. */
void hold_at(struct controller *controller, uint64_t clock, enum hold_purpose purpose);
/* Whether every member that could pass the hold's clock keeps to the hold. Members that are outside could not.
 * *passed: the hold came too late for a member. */
bool all_held(const struct controller *controller, bool *passed);
/* The highest clock that anyone is known to have begun, or that is named for a change. */
uint64_t clock_reached(const struct controller *controller);
/* A clock so far ahead that no member reaches it before all know it, but not so far that workers which wait for the
 * commit would never reach it. */
uint64_t clock_ahead(const struct controller *controller);
/* Sets commit_every or next_commit_every by where a placement's servers are. */
uint32_t change_commit_every(const struct controller *controller, bool next);
/* After an iteration: commit points become rarer when followers can't keep up with them. */
void change_check_commit(struct controller *controller);
/* Gives up a change that has no clock yet. */
void change_cancel(struct controller *controller);
/* Whether the member serves, follows or works in some clock. A plan that is only prepared does not count:
 * change_cancel gives it up. */
bool change_has_part(const struct controller *controller, const struct member *member);
enum node_tier actor_tier(const struct controller *controller, actor_id actor);

/* ---- expected.c ---- */

/* Nodes that come within a short time have one plan, which moves the data once: sets until when the plan that takes in
 * one that has just come waits for others. Whoever has to go does not wait for those who come. */
void expected_replan(struct controller *controller);
/* A node of this name has come. */
void expected_joined(struct controller *controller, const char *name);
void expected_receive(struct controller *controller, actor_id from, const struct message *message);

/* ---- input.c ---- */

/* INPUT: compares what the member has read with the job's input. Invalidates members' addresses. */
void input_receive(struct controller *controller, struct member *member, const struct message *message);

/* ---- save.c ---- */

/* Goes on to saving the model once the last clock is done and its checkpoint is there. */
void save_step(struct controller *controller);
/* Asks the member for the model if it is the one to save it. Repeated. */
void save_send(struct controller *controller, const struct member *member);
void save_receive(struct controller *controller, const struct member *member, const struct message *message);

/* ---- silence.c ---- */

/* This controller has just started, or was stopped for long: connections may be broken. Every member gets a whole
 * timeout, counted from when its connection must be back. */
void silence_begin_anew(struct controller *controller, uint64_t now_us);
/* Something has come from the member. */
void silence_heard(const struct controller *controller, struct member *member);
/* Called first in each timer call: time in which this controller itself stood still counts as nobody's silence, and not
 * as time that nodes and observers had at the end. */
void silence_discount(struct controller *controller, uint64_t now_us);
/* Reports members that have become silent, and recovers from those that were silent for longer than the timeout or that
 * others can't reach. */
void silence_check(struct controller *controller, uint64_t now_us);
/* A heartbeat of the member says that it can't reach the node `accused`; ACTOR_NONE: it reaches everyone it needs.
 * Accusations of earlier epochs are settled and not to be passed. */
void silence_accuse(struct controller *controller, struct member *member, actor_id accused);
/* How long the member has been silent, in microseconds. */
uint64_t silence_of(const struct member *member, uint64_t now_us);
/* Whether the member was heard since silence_begin_anew, and not long ago. */
bool silence_is_lively(const struct controller *controller, const struct member *member, uint64_t now_us);

/* ---- accusations.c ---- */

/* ACCUSE: one of the two members has failed. Invalidates members' addresses. */
void accusations_receive(struct controller *controller, struct member *accuser, const struct message *message);

/* ---- answers.c ---- */

/* Called in each timer call: recovers from the failure of members that have owed an answer for longer than
 * options.answer_ms. Only time counts in which they were heard, and this controller did not stand still. */
void answers_check(struct controller *controller, uint64_t now_us);
/* The member has answered, if perhaps not to what was asked last. */
void answers_came(struct member *member, enum answer answer);

/* ---- possible.c ---- */

/* No clock above this can have been begun: every origin must have flushed the clock that is staleness + 1 before, no
 * origin is further ahead of its stored PROGRESS than WIRE_PROGRESS_MAX clocks, and the job may have a last clock. */
uint64_t possible_clock(const struct controller *controller);
/* Whether a member may have said this. If not, the member has failed; that invalidates members' addresses. */
bool possible_check(struct controller *controller, struct member *member, const struct message *message);
/* The same for all members' FENCED together: nobody has the state of a clock that one of its origins has not begun. */
bool possible_check_fenced(struct controller *controller);

/* ---- recover.c ---- */

/* Members were lost: those who are left are being fenced or are to be, and what was said before may be void. */
static inline bool controller_recovers(const struct controller *controller) {
    return controller->change.state == CHANGE_RECOVER || controller->recovery.due;
}
/* The member has failed: recovers without it, or ends the job with `text`. Invalidates members' addresses. */
void recover_lost(struct controller *controller, struct member *member, const char *text);
void recover_receive_fenced(struct controller *controller, struct member *member, const struct message *message);
/* FENCE again to those who have not answered. */
void recover_repeat(struct controller *controller);
/* To this one only. */
void recover_ask(struct controller *controller, const struct member *member);

/* ---- crashes.c ---- */

void crashes_receive(struct controller *controller, actor_id from, const struct message *message);
/* The member's process has died of a crash signal and has not sent CRASHED. Invalidates members' addresses. */
void crashes_died(struct controller *controller, struct member *member, unsigned signal);
/* The others go on without those that have crashed so far. */
void crashes_recovered(struct controller *controller);
/* Writes why the others can't go on, if a crashed node had what they lack: a replica of partition `lacking`, or one of
 * CRASHES_LACKING_... Returns false if no crash is the reason. */
bool crashes_explain(const struct controller *controller, uint32_t lacking, char *text, size_t size);
enum { CRASHES_LACKING_STATE = WIRE_PARTITIONS_MAX, CRASHES_LACKING_NODES };

/* ---- progress.c ---- */

unsigned progress_window(const struct controller *controller); /* entries */
void progress_open(struct controller *controller);
void progress_close(struct controller *controller);
void progress_receive(struct controller *controller, struct member *member, const struct message *message);
/* Nodes were lost, and clock `restore` will be restored; the schedule is still the old one. Forgets what the lost nodes
 * reported of clocks beyond `restore`, which are done again; keeps what they reported of the others. What they did not
 * evaluate of these is evaluated by the origins that take over: takeover[shard]. */
void progress_recover(struct controller *controller, uint64_t restore, const actor_id *takeover);
/* Sends EVALUATE to the member for all evaluations that it has not reported. */
void progress_ask(struct controller *controller, const struct member *member);
/* Items that the iteration which has just ended worked on, those too of which nobody reported. */
uint64_t progress_processed(const struct controller *controller);
/* The share of the data that the metrics in these sums, of so many clocks, are of; 1: all. */
double progress_covered(const struct controller *controller, const struct clock_sums *sums, uint64_t clocks);
/* Completes what can be completed. */
void progress_step(struct controller *controller);

/* ---- checkpoints.c ---- */

int checkpoints_open(struct controller *controller, struct error *error); /* with options.resume: takes it up */
/* The first node has come, with these options (struct wire_option each): reports from where the job goes on, if it
 * does. */
void checkpoints_resumed(struct controller *controller, const struct buffer *settings);
/* This controller goes on with what the store held: no checkpoint is under way. */
void checkpoints_take_up(struct controller *controller);
/* One step towards the next checkpoint, or with the one under way. Called after everything that could make one
 * possible. */
void checkpoints_step(struct controller *controller);
/* Whether members are held for a checkpoint: no clock can be named for anything else meanwhile. */
bool checkpoints_hold(const struct controller *controller);
/* Puts the checkpoint under way off: it begins anew as soon as it can. */
void checkpoints_put_off(struct controller *controller);
/* The same if the checkpoint is of a clock beyond `clock`. */
void checkpoints_put_off_beyond(struct controller *controller, uint64_t clock);
/* The same if a node that has still to write a file of it has no part in the plan any more. */
void checkpoints_check_writers(struct controller *controller);
/* Every origin has reported the completed clock. */
void checkpoints_completed(struct controller *controller);
/* All origins are through with the last clock. True when its checkpoint is there, is not wanted, or can't be
 * written. */
bool checkpoints_end(struct controller *controller);
/* The job was asked for checkpoints and has not written one: 0, or an error that says why. */
int checkpoints_check(const struct controller *controller, struct error *error);
/* The job's last checkpoint failed, though earlier ones are there: then `text` says why. */
bool checkpoints_last_failed(const struct controller *controller, char *text, size_t size);
/* The job is over: removes what is unfinished, and answers who waits. */
void checkpoints_stop(struct controller *controller);
void checkpoints_receive_written(struct controller *controller, const struct member *member,
                                 const struct message *message);
void checkpoints_receive_now(struct controller *controller, actor_id from, const struct message *message);
/* Sends a member again what it is to write. */
void checkpoints_send(struct controller *controller, const struct member *member);
void checkpoints_close(struct controller *controller);

/* ---- persist.c ---- */

/* Writes everything that is not in the store yet; a failure ends the job. False then. */
bool persist_all(struct controller *controller);
/* Progress only: later, and now. */
void persist_soon(struct controller *controller);
bool persist_progress(struct controller *controller);
/* 1: there was something; 0: the store is empty; negative: an error. */
int persist_load(struct controller *controller, struct error *error);

#endif
