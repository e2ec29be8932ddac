/* The lines of the report (docs/proteus.md): JSON objects as text, built from the elasticity controller's state. */
#ifndef AGILEML_CONTROL_REPORT_H
#define AGILEML_CONTROL_REPORT_H

#include "agileml/control/controller.h"

#include <jansson.h>

/* How a metric's value follows from its sum and weight; the values of wire_metric.kind. */
enum metric_kind {
    METRIC_SUM = 0,       /* sum */
    METRIC_MEAN = 1,      /* sum / weight */
    METRIC_ROOT_MEAN = 2, /* sqrt(sum / weight): RMSE from squared errors */
    METRIC_EXP_MEAN = 3   /* exp(sum / weight): perplexity from negated log-likelihoods */
};

/* Returns the metric's value; NaN when the weight is 0. */
double report_metric(const struct wire_metric *metric, const struct wire_metric_sum *sum);

/* Whether `key` is one of the report's own keys, which no metric may have. */
bool report_key(const char *key);

/* The phases, in seconds, in which nodes that have joined come to take part. */
struct report_phases {
    double gather;  /* from the first one's registration until the first plan that has a part for one of them */
    double prepare; /* until all nodes were ready to switch to the plan */
    double change;  /* until all knew the clock of the switch, and so could begin the next one */
};

/* Returns `text` as a JSON string; "(not text)" if it is not UTF-8, as names and reasons of other processes may be. */
json_t *report_text(const char *text);

/* Each function returns one line without a newline, from malloc. `seconds` is the time since training began. */
char *report_clock(const struct controller *controller, const struct clock_sums *sums, double seconds);
char *report_iteration(struct controller *controller, uint64_t iteration, double seconds);
/* `node` and `reason` may be NULL. */
char *report_event(const struct controller *controller, const char *event, const char *node, const char *reason);
char *report_event_nodes(const struct controller *controller, const char *event, const char *const *nodes,
                         unsigned count);
/* Reports that training begins, and what will end it. */
char *report_start(const struct controller *controller);
/* `event` is add-feeder, remove-feeders, feeder-threads or keep-feeders. The line has the reason, and how many feeders
 * are wanted from now on; and with how many threads, if the controller chooses that. */
char *report_feeders(const struct controller *controller, const char *event, const char *const *nodes, unsigned count);
/* Reports nodes that have sent nothing for `silent` seconds and are given up `left` seconds from now. */
char *report_silence(const struct controller *controller, const char *const *nodes, unsigned count, double silent,
                     double left);
/* Reports that these nodes, which had joined, take part from the clock `first` on, and how long the phases took. */
char *report_take_part(const struct controller *controller, const char *const *nodes, unsigned count, uint64_t first,
                       const struct report_phases *phases);
/* Reports what these members do: their states, partitions and data shards. */
char *report_nodes(const struct controller *controller, struct member *const *members, size_t count);
/* Reports that these members are gone, and how much they did. */
char *report_gone_nodes(const struct controller *controller, const struct node_gone *gone, size_t count);
/* Reports how much `count` members have done so far, from index `first` on. */
char *report_usage(const struct controller *controller, unsigned first, unsigned count);
/* Reports that others have taken over from lost nodes: `clock` was restored, `seconds` after the first was lost. */
char *report_recovery(const struct controller *controller, uint64_t clock, double seconds);
/* Returns the line of a NOTE with the moment added; NULL if the text is no object of type money or decision. */
char *report_note(const struct controller *controller, const char *text, size_t size);
/* Returns the line of what the app says; `node` may be NULL. */
char *report_app_note(const struct controller *controller, const char *node, const char *text);
char *report_summary(const struct controller *controller, double seconds);

/* Returns the answer to STATUS (docs/proteus.md), from malloc. */
char *report_status(struct controller *controller);

#endif
