/* What the elasticity controller does beside plans, recoveries and checkpoints: features, each with its state, its
 * files and one line in the table of features.c. The controller knows the table only, and calls each feature at these
 * moments, in the table's order. A feature may leave out any function. */
#ifndef AGILEML_CONTROL_FEATURE_H
#define AGILEML_CONTROL_FEATURE_H

#include "agileml/collective/strategy.h"
#include "agileml/control/decide/plan.h"
#include "agileml/wire/message.h"
#include "agileml/wire/report_line.h"

struct clock_window;
struct controller;
struct member;

/* What one iteration has taken. */
struct iteration_measure {
    bool comparable; /* by one plan, without a change under way */
    enum strategy strategy;
    double seconds;        /* evaluations included */
    double worked_seconds; /* without evaluations */
    double computed;       /* the part of worked_seconds that its clocks would have taken without exchange: 0 to 1 */
};

struct feature {
    /* The controller begins. If it continues a job of the store, it has the job's members already. */
    void (*open)(struct controller *controller);
    /* A member has joined. */
    void (*joined)(struct controller *controller, struct member *member);
    /* A message has come that is possible, before the controller itself takes it. `member` is the node that sent it;
     * NULL: another actor. Giving members up moves the others in memory, so the feature that does it here must be the
     * only one to receive messages of that type. */
    void (*receive)(struct controller *controller, actor_id from, struct member *member, const struct message *message);
    /* A clock was completed, of which these are the reports. */
    void (*clock)(struct controller *controller, const struct clock_window *clock);
    /* An iteration has ended. */
    void (*iteration)(struct controller *controller, const struct iteration_measure *measure);
    /* A plan is made for so many members of each tier: changes its stage if the feature chooses stages. */
    void (*plan)(const struct controller *controller, const unsigned count[TIERS], enum stage *stage);
    /* The timer has come. */
    void (*check)(struct controller *controller, uint64_t now_us);
    /* Returns when `check` is due next; UINT64_MAX: at no certain time. */
    uint64_t (*due_us)(const struct controller *controller, uint64_t now_us);
    /* The connection to an actor has broken. */
    void (*broke)(struct controller *controller, actor_id peer);
    /* Dialing an actor has ended. Returns whether there is something to settle. */
    bool (*dialed)(struct controller *controller, actor_id peer, uint64_t began_us, bool listens);
    /* A heartbeat is acknowledged: adds to the answer. */
    void (*acknowledge)(const struct controller *controller, struct message_heartbeat_ack *ack);
    /* Adds this feature's keys to a line: of the type ITERATION, of SUMMARY, or to the status. */
    void (*report)(const struct controller *controller, json_t *object, enum report_type type);
};

void features_open(struct controller *controller);
void features_joined(struct controller *controller, struct member *member);
void features_receive(struct controller *controller, actor_id from, struct member *member,
                      const struct message *message);
void features_clock(struct controller *controller, const struct clock_window *clock);
void features_iteration(struct controller *controller, const struct iteration_measure *measure);
void features_plan(const struct controller *controller, const unsigned count[TIERS], enum stage *stage);
void features_check(struct controller *controller, uint64_t now_us);
uint64_t features_due_us(const struct controller *controller, uint64_t now_us);
void features_broke(struct controller *controller, actor_id peer);
bool features_dialed(struct controller *controller, actor_id peer, uint64_t began_us, bool listens);
void features_acknowledge(const struct controller *controller, struct message_heartbeat_ack *ack);
void features_report(const struct controller *controller, json_t *object, enum report_type type);

#endif
