/* The elasticity controller, with fixed membership so far: takes nodes in until the expected ones are there, hands
 * out the plan, starts the job, sums up progress, decides the last clock, has the model saved, and ends the job;
 * a node that goes silent ends it with an error that names the node. A state machine behind struct io. */
#ifndef AGILEML_CONTROL_CONTROLLER_H
#define AGILEML_CONTROL_CONTROLLER_H

#include "agileml/control/plan.h"
#include "agileml/net/io.h"

enum {
    CONTROLLER_OBSERVERS_MAX = 64,
    CONTROLLER_LINES_MAX = 1 << 15,           /* of the report kept for observers that fall behind or come late */
    CONTROLLER_BURST_MAX = 512,               /* lines sent for one OBSERVE: who has read them asks for more */
    CONTROLLER_END_WAIT_US = 2 * 1000 * 1000, /* for nodes to leave and observers to read the last line */
    CONTROLLER_SHARDS_DEFAULT = 1024,
    CONTROLLER_SHARDS_PER_NODE = 16, /* at least, as far as WIRE_SHARDS_MAX allows */
    CONTROLLER_AHEAD_MAX = 256, /* PROGRESS is taken up to so many clocks ahead of the slowest origin's, beyond what
                                   staleness allows: its flushes may arrive while its PROGRESS is late */
};

struct controller_options {
    unsigned reliable, transient; /* nodes to wait for */
    struct plan_policy policy;
    uint32_t heartbeat_ms;
    uint32_t timeout_ms;                                    /* silence of a node longer than this is a failure */
    uint32_t start_timeout_ms;                              /* how long to wait for all nodes to register */
    void (*end)(void *context, int code, const char *text); /* the job is over and everyone was told; once */
    void *context;
};

enum controller_phase { PHASE_GATHER, PHASE_LOAD, PHASE_TRAIN, PHASE_SAVE, PHASE_LEAVE, PHASE_ENDED };

struct member {
    struct plan_node node;
    char name[WIRE_NAME_MAX];
    char host[WIRE_HOST_MAX];
    uint64_t process_id;
    struct buffer *endpoints; /* struct wire_endpoint each */
    uint64_t epoch;           /* the plan it goes by */
    enum node_state state;
    bool origin; /* owns data shards */
    bool loaded;
    bool left;
    uint64_t clock; /* the highest begun */
    uint64_t held;
    uint64_t progress; /* PROGRESS has come for every clock up to this */
    uint64_t heard_us;
    uint64_t bytes_sent, bytes_received;
    uint64_t memory_bytes;
};

/* What the origins reported of one clock, summed. */
struct clock_sums {
    unsigned reported;
    uint64_t items;
    struct wire_metric_sum metrics[WIRE_METRICS_MAX];
};

struct controller {
    struct io *io;
    struct controller_options options;
    enum controller_phase phase;
    struct member *members;
    unsigned member_count;
    struct job_terms job; /* of the first node; all must agree */
    struct wire_metric metrics[WIRE_METRICS_MAX];
    unsigned metric_count;
    struct message plan; /* as sent, frames held */
    unsigned origin_count;
    uint64_t items; /* of the data, all nodes */
    double totals[WIRE_TOTALS];

    uint64_t completed;          /* every origin reported clocks up to this */
    struct clock_sums *window;   /* staleness + 2 + CONTROLLER_AHEAD_MAX entries; clock c at c % entries */
    struct clock_sums iteration; /* of the iteration under way */
    uint64_t iteration_bytes_sent, iteration_bytes_received; /* at its start */
    double objective;                                        /* of the last iteration */
    double *values;                                          /* every metric's, of the last iteration */
    uint32_t calm;                                           /* iterations in a row below the tolerance */
    uint64_t hold, final;
    uint64_t items_processed;
    unsigned failures;

    char **lines; /* the report's last lines, from number `first_line` on */
    size_t first_line;
    size_t line_count; /* of the whole report so far */
    struct observer {
        actor_id actor;
        size_t read; /* lines it has */
    } observers[CONTROLLER_OBSERVERS_MAX];
    unsigned observer_count;

    int code; /* how the job ended */
    char text[ERROR_TEXT_MAX];
    uint64_t began_us, started_us, iteration_us, tick_us;
    uint64_t end_us, leave_us; /* until when observers may read, members may leave */
};

/* AML_EINPUT when the options make no sense. */
int controller_init(struct controller *controller, struct io *io, const struct controller_options *options,
                    struct error *error);
void controller_close(struct controller *controller);

/* Ends the job: every process gets the one line. */
void controller_abort(struct controller *controller, int code, const char *text);

/* A line of the report by its number, from 0; NULL when it is not there any more, or not yet. */
const char *controller_line(const struct controller *controller, size_t number);

/* The actor's functions, `self` a struct controller. */
void controller_receive(void *self, actor_id from, struct message *message);
void controller_timer(void *self);

#endif
