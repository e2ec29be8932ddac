/* The lines of the report (docs/proteus.md): JSON objects as text, built from the elasticity controller's state. */
#ifndef AGILEML_CONTROL_REPORT_H
#define AGILEML_CONTROL_REPORT_H

#include "agileml/control/state/controller.h"
#include "agileml/wire/report_line.h"

/* How a metric's value is computed from its sum and weight; the values of wire_metric.kind. */
enum metric_kind {
    METRIC_SUM = 0,       /* sum */
    METRIC_MEAN = 1,      /* sum / weight */
    METRIC_ROOT_MEAN = 2, /* sqrt(sum / weight): RMSE from squared errors */
    METRIC_EXP_MEAN = 3   /* exp(sum / weight): perplexity from negated log-likelihoods */
};

/* Returns the metric's value; NaN when the weight is 0. */
double report_metric(const struct wire_metric *metric, const struct wire_metric_sum *sum);

/* Whether this job did all clocks of the iteration that has just ended, so that they cover all items. Not so when the
 * job resumed from a checkpoint within that iteration. */
bool report_iteration_is_whole(const struct controller *controller);
/* Returns how many items the iteration that has just ended worked on, including items that no node reported. */
uint64_t report_processed(const struct controller *controller);
/* Returns the share of the data that the metrics in `sums`, sums over `clocks` clocks, cover; 1: all. */
double report_covered(const struct controller *controller, const struct clock_sums *sums, uint64_t clocks);

/* The phases, in seconds, between a node's joining and its taking part. */
struct report_phases {
    double gather;  /* from the first node's registration until the first plan with a part for a new node */
    double prepare; /* then, until all nodes were ready to switch to the plan */
    double change;  /* then, until all nodes knew the clock of the switch, and so could begin the clock after it */
};

/* Sets a number; null if it is not finite, as JSON has no such numbers. */
void report_set_real(json_t *object, const char *key, double value);
void report_set_whole(json_t *object, const char *key, uint64_t value);
/* Returns the line of an event as far as all events are alike; the caller may add keys. */
json_t *report_new_event(const struct controller *controller, const char *event, const char *const *nodes,
                         unsigned count);

/* Each of the following functions returns one line without a newline, from malloc. `seconds` is the time since training
 * began. */
char *report_clock(const struct controller *controller, const struct clock_sums *sums, double seconds);
char *report_iteration(struct controller *controller, uint64_t iteration, double seconds);
/* `node` and `reason` may be NULL. */
char *report_event(const struct controller *controller, const char *event, const char *node, const char *reason);
char *report_event_nodes(const struct controller *controller, const char *event, const char *const *nodes,
                         unsigned count);
/* Reports that training begins, and what will end it. */
char *report_start(const struct controller *controller);
/* Reports that these new nodes take part from the clock `first` on, and how long the phases took. */
char *report_take_part(const struct controller *controller, const char *const *nodes, unsigned count, uint64_t first,
                       const struct report_phases *phases);
/* Reports what these members do: their states, partitions and data shards. */
char *report_nodes(const struct controller *controller, struct member *const *members, size_t count);
/* Reports that these members are gone, and how much they did. */
char *report_gone_nodes(const struct controller *controller, const struct node_gone *gone, size_t count);
/* Reports how much `count` members have done so far, from index `first` on. */
char *report_usage(const struct controller *controller, unsigned first, unsigned count);
/* Reports a recovery: `clock` was restored, `seconds` after the first node was lost. */
char *report_recovery(const struct controller *controller, uint64_t clock, double seconds);
/* Returns the line of a NOTE with the present iteration and time added; NULL: the text is no object of type money or
 * decision. */
char *report_note(const struct controller *controller, const char *text, size_t size);
/* Returns the line of an app's note; `node` may be NULL. */
char *report_app_note(const struct controller *controller, const char *node, const char *text);
char *report_summary(const struct controller *controller, double seconds);

/* Returns the answer to STATUS (docs/proteus.md), from malloc. */
char *report_status(struct controller *controller);

#endif
