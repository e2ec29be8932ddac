/* The controller with nodes played by the test, for tests of its modules. Single messages are used where their order
 * matters. Whole small clusters are played for plan changes, failures, and controllers that are killed and restarted
 * from their store. Names are this program's own. */
#ifndef TESTS_UNIT_CONTROLLER_FIXTURE_H
#define TESTS_UNIT_CONTROLLER_FIXTURE_H

#include "agileml/base/hash.h"
#include "agileml/control/state/controller.h"
#include "agileml/control/state/controller_private.h"
#include "agileml/control/state/manifest.h"
#include "agileml/control/state/report.h"
#include "agileml/wire/plan_pack.h"
#include "agileml/wire/report_line.h"
#include "tests/fake_io.h"
#include "tests/test.h"

enum {
    SAVERS_MAX = 8,
    PLAYERS_MAX = 12,
    PARTITIONS = 4,
    SHARDS = 12,
    SHARD_ITEMS = 10,
    HEARTBEAT_MS = 100,
    TIMEOUT_MS = 3000,
    ANSWER_MS = 9000,
    ROUND_US = 20 * 1000,
    ROUNDS_MAX = 3000,
    ROOT_BYTES = 32,
    LINES_MAX = 1 << 14,
    OPERATOR = 40, /* numbers of actors that are no nodes of the job */
    OBSERVER = 41,
    STRANGER = 42
};

enum { THIRD_ITEMS = SHARDS / 3 * SHARD_ITEMS };

enum kill { KILL_NEVER, KILL_AFTER_CALL, KILL_BEFORE_WRITE, KILL_AFTER_WRITE };

struct memory_store {
    struct store store;
    struct memory_entry {
        char key[STORE_KEY_MAX];
        unsigned char *bytes;
        size_t size;
    } * entries; /* sorted by key */
    unsigned count;
    unsigned writes;
    unsigned fail_at; /* number of the first write that fails, as do all later ones; 0: none */
    uint64_t slow_us; /* time that a write takes */
    struct fake *fake;
};

/* A node as the controller sees it. The cluster computes clock after clock with staleness 0. */
struct player {
    enum node_tier tier;
    bool there;   /* the process runs */
    bool stopped; /* the process runs but neither sends nor receives */
    /* type of messages that are not received; of HEARTBEAT_ACK only the barrier is ignored; 0: all are received */
    enum message_type deaf;
    bool welcomed, fenced, done, rejoin;
    int aborted; /* code of the ABORT received; `text` has its text */
    char text[ERROR_TEXT_MAX];
    enum node_state state;
    uint64_t epoch, clock, final;
    uint64_t barrier, barrier_clock;
    uint64_t lost_until; /* clocks up to which PROGRESS does not reach the controller */
    bool caches;         /* its cache can restore what its server lacks */
    uint64_t behind;     /* the cache's state is so many clocks before the newest */
    struct message plan;
    struct {
        actor_id origin;
        uint64_t clock, items;
    } reports[512]; /* not acknowledged yet */
    unsigned report_count;
    unsigned fences, plans;
    actor_id accuses;
    struct node_numbers numbers; /* that it reports; feed_threads is not kept here */
    unsigned feed_threads;       /* feeder: number of threads set by the controller; 0: not set */
};

/* Where the controller's process is killed, and how often that has happened. */
struct fake_kill {
    enum kill where;
    unsigned at, calls, count;
};

/* Messages to an observer and to the operator. */
struct fake_observed {
    char *lines[LINES_MAX];
    uint64_t read;
    struct message_outcome outcome; /* the last one */
};

/* How replicas are written to checkpoints. */
struct fake_checkpoints {
    enum written_state state;
    unsigned written, passed; /* replicas written; replicas requested for a clock that was over */
    unsigned rounds;          /* rounds that the writing of a replica takes */
    struct write {
        unsigned player;
        struct message_checkpoint checkpoint;
        uint32_t partition;
        unsigned rounds;
        bool over;
    } writes[512];
    unsigned write_count;
};
struct fake_saves {
    unsigned fail; /* number of attempts at saving the model that fail with `code` */
    int code;
    unsigned savers[SAVERS_MAX], saver_count; /* nodes that were asked to save */
};

/* Transforms that take most of a clock, feeders that are fully busy with them, and a launcher that starts a feeder for
 * each `add-feeder`. */
struct fake_feed {
    double alone;      /* rounds that a clock takes without feeders; 0: the app has no transforms */
    double rest;       /* rounds of these that feeders can't take over */
    double done;       /* work done on the present clock, in rounds of one node */
    bool due;          /* the clock ends in this round */
    uint64_t lines;    /* number of report lines that the launcher has read */
    unsigned launched; /* number of the launcher's next node */
    bool launches;
    unsigned round_trips; /* rounds from the request for a feeder until it joins */
    unsigned pending;     /* rounds until the next feeder joins; 0: none is to join */
    unsigned threads_max; /* most threads of a feeder, each worth a feeder with one thread; 0: one thread */
};

/* Each player's times in its PROGRESS; zeros: unknown. */
struct fake_times {
    uint64_t clock_us;
    uint64_t compute_us[PLAYERS_MAX];
    uint64_t evaluate_us; /* after an iteration */
    uint64_t lag;         /* number of clocks that are done but not committed */
};
struct fake_end {
    int ended;
    int code;
    char text[ERROR_TEXT_MAX];
};
/* What joining nodes report. */
struct fake_joining {
    struct wire_option settings[4];
    unsigned setting_count;
    unsigned threadless; /* bit n: node n has no worker threads */
    unsigned elsewhere;  /* bit n: node n's pulse has another host than its server */
};

struct fake {
    struct fake_io io; /* must be first; mute: the process is killed */
    void (*send)(struct io *io, actor_id to, struct message *message);
    unsigned dials[PLAYERS_MAX];
    struct controller controller;
    struct controller_options options;
    struct job_terms terms;
    struct fake_joining joining;
    struct memory_store store;
    struct player players[PLAYERS_MAX];
    struct plan_view carried[PLAYERS_MAX]; /* the last plan that was sent to each player */
    uint64_t clock; /* the clock that all partitions have */
    struct message newest;
    struct {
        actor_id origin;
        uint64_t clock;
    } flushed[4096];
    unsigned flushed_count;
    unsigned speed; /* clocks in a round; 0: one */
    struct fake_end end;
    struct fake_kill kill;
    struct fake_observed observed;
    struct fake_checkpoints checkpoints;
    struct fake_saves saves;
    struct fake_feed feed;
    struct fake_times times;
};
actor_id node(unsigned number);

/* ---- The cluster ---- */

/* One reliable and one transient node, stage 1; a test may change `fake` before fake_start. */
struct fake *fake_new(struct job_terms terms);
void fake_start(struct fake *fake);
struct fake *fake_open(struct job_terms terms);

/* The number of messages of a type sent to an actor; `last` gets the last. */
unsigned sent(struct fake *fake, actor_id to, enum message_type type, struct message *last);
void forget(struct fake *fake);

/* To be called after each call of the controller: kills the controller when its time has come, and starts another
 * with the same store. */
void called(struct fake *fake);
void give_as(struct fake *fake, unsigned from, uint64_t epoch, struct message *message);
void give(struct fake *fake, unsigned from, struct message *message);
void tick(struct fake *fake, uint64_t us);

/* Runs the controller's timer as often as it requests for `us`; no message arrives. */
void tick_silently(struct fake *fake, uint64_t us);
void join(struct fake *fake, unsigned number, const char *name, enum node_tier tier, const struct job_terms *terms);

/* HEARTBEAT of a node that has followed all messages of the controller. */
void heartbeat(struct fake *fake, unsigned from, enum node_state state, uint64_t clock);

/* PROGRESS with the fields of `told`, and the metric `loss`. */
void progress_told(struct fake *fake, unsigned from, const struct message_progress *told, double loss);
void progress_timed(struct fake *fake, unsigned from, actor_id origin, uint64_t clock, uint64_t items, double loss,
                    uint64_t clock_us);
void progress_as(struct fake *fake, unsigned from, actor_id origin, uint64_t clock, uint64_t items, double loss);

/* PROGRESS that answers EVALUATE. */
void evaluation(struct fake *fake, unsigned from, actor_id origin, uint64_t clock, double loss);
void progress(struct fake *fake, unsigned from, uint64_t clock);
void loaded(struct fake *fake, unsigned from, uint64_t version, uint64_t items);
void begin(struct fake *fake);

/* EVICT or GONE from an operator, or without `name` from a node itself. */
void ask(struct fake *fake, unsigned from, enum message_type type, const char *name);
void expect_outcome(struct fake *fake, unsigned to, int code, const char *text);

/* ALLOCATION by an operator; `names` are separated by spaces. */
void allocate(struct fake *fake, const char *names);

/* The number of report lines that contain `text`. */
unsigned lines_with(const struct fake *fake, const char *text);

/* ---- A cluster that plays itself ---- */

extern const char *const player_names[PLAYERS_MAX];
bool flushed(const struct fake *fake, actor_id origin, uint64_t clock);
unsigned assignment_count(const struct message *plan);
const struct wire_assignment *assignment_of(const struct message *plan, unsigned number);
uint64_t assignment_items(const struct message *plan, actor_id origin, uint64_t clock);
void work(struct fake *fake, unsigned number);
unsigned working_feeders(const struct fake *fake);

/* The number of threads of all working feeders. */
unsigned working_threads(const struct fake *fake);
unsigned trainers(const struct fake *fake);
void deliver(struct fake *fake);
void enter(struct fake *fake, unsigned number, enum node_tier tier);
void play(struct fake *fake);

/* Plays until all partitions have reached `clock`. */
void play_to(struct fake *fake, uint64_t clock);
void play_rounds(struct fake *fake, unsigned rounds);

/* Plays until no recovery is under way. */
void play_recovery(struct fake *fake);
void play_to_end(struct fake *fake);

/* A cluster in training. */
void cluster_open(struct fake *fake, unsigned reliable, unsigned transient);
struct fake *cluster_new(enum stage stage, uint64_t iterations);
/* A cluster in training, played to `clock`. */
struct fake *cluster_at(enum stage stage, uint64_t iterations, unsigned reliable, unsigned transient, uint64_t clock);
struct fake *stored_cluster(enum stage stage, uint64_t iterations);
double line_number(const char *line, const char *key);

/* Every iteration has one line, with all its items; the summary is the last line and counts all iterations. */
void expect_report(const struct fake *fake, uint64_t iterations, bool exact);
void expect_good_end(struct fake *fake, uint64_t iterations);

/* ---- Common to several modules' tests ---- */

void expect_refused(struct fake *fake, unsigned number, const char *why);

/* The member was removed once for an impossible message; the job goes on. */
void expect_impossible(struct fake *fake, const char *text);
void expect_failure(struct fake *fake, const char *text);

/* Starts another controller with the same store (options.store). */
void restart(struct fake *fake);
void pulse(struct fake *fake, unsigned from, enum pulse_kind kind, uint64_t number, unsigned suspect);

/* The number of the last request to the node's pulse; 0: none was sent. */
uint64_t asked(struct fake *fake, unsigned number);

/* The node's machine refuses two connections, SUSPECT_REFUSED_US apart. */
void refuse(struct fake *fake, unsigned number);

/* One reliable and two transient nodes, which have reported clocks up to `clock`. */
void begin_with_three(struct fake *fake, uint64_t clock);

/* FENCED of a node whose only server can restore every partition to `clock`. */
void answer_fence(struct fake *fake, unsigned number, uint64_t begun, uint64_t clock);

/* Three nodes are at clock 5, which node 1 reports late. Then the third node dies, and the others restore clock 5.
 * `reported`: the third node had reported clock 5. */
struct fake *lose_the_third(struct job_terms terms, bool reported, bool stored);
void accuse(struct fake *fake, unsigned accuser, unsigned accused, uint64_t epoch);

/* The node's process is ended by a signal. CRASHED was not sent; only GONE has the signal. */
void die(struct fake *fake, unsigned number, unsigned signal);
void remove_tree(const char *path);

/* A job that writes checkpoints into a new folder; `root` gets its path. */
struct fake *checkpointed(enum stage stage, uint64_t iterations, char root[ROOT_BYTES]);

/* The clock of the newest checkpoint; 0: none. Checks that the folder holds at most one older checkpoint and nothing
 * else. */
uint64_t newest_checkpoint(const char *root);
void ask_now(struct fake *fake, uint64_t request);
void set_option(struct fake *fake, unsigned number, const char *name, const char *value, bool steers);
void set_mark(struct fake *fake, unsigned number, const char *what, const char *hash);

/* The app of a node crashes: the node reports the crash and dies. */
void crash(struct fake *fake, unsigned number, unsigned signal, const char *function, uint64_t clock);
void kill_controller(struct fake *fake);

#endif
