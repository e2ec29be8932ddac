/* Replays recorded numbers of spot machines in stage transient. Machines that a trace loses at once, the job loses at
 * once. Each group of machines follows a part of a trace, with the job's clocks as its time. See cluster_private.h. */
#include "tests/sim/cluster_private.h"

#include "agileml/base/memory.h"

#include <dirent.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

enum {
    TRACE_BYTES_MAX = 1 << 20,
    TRACE_PEAK_MIN = 4,   /* traces with fewer machines show no losses at once */
    TRACE_GROUPS_MAX = 4, /* groups of a run, at least 2 */
    TRACE_MACHINES = 5,   /* usual upper limit of a group's machines */
    TRACE_CHANGES = 8,    /* changes of a group */
    TRACE_DEPTH_MAX = 6,  /* nested folders */
    TRACE_TOGETHER_S = 1, /* changes within so many seconds count as one */
    TRACE_SALT = 0x7124CE /* the salt of choices that use no random number of other faults */
};

struct point {
    double seconds;
    int machines;
};

struct trace {
    struct point *points;
    size_t count;
    int peak;
};

struct cluster_traces {
    struct trace *list;
    size_t count;
};

/* ---- Reading ---- */

/* Adds a point to the trace, unless the number of machines stays the same. */
static void add_point(struct trace *trace, double seconds, int machines) {
    struct point *last = trace->count > 0 ? &trace->points[trace->count - 1] : NULL;
    trace->peak = machines > trace->peak ? machines : trace->peak;
    if (last != NULL && last->machines == machines) {
        return;
    }
    if (last != NULL && trace->count > 1 && seconds - last->seconds < TRACE_TOGETHER_S) {
        last->machines = machines;
        return;
    }
    trace->points = memory_resized(trace->points, trace->count + 1, sizeof *trace->points);
    trace->points[trace->count++] = (struct point){seconds, machines};
}

/* Reads a trace like {"metadata": {"gap_seconds": 300}, "data": [0, 3, ...]}. */
static void read_counts(struct trace *trace, const char *text) {
    const char *gap = strstr(text, "\"gap_seconds\":");
    const char *at = strstr(text, "\"data\":");
    double each = gap != NULL ? strtod(strchr(gap, ':') + 1, NULL) : 1;
    at = at != NULL ? strchr(at, '[') : NULL;
    for (size_t i = 0; at != NULL && *at != ']'; i++) {
        char *end;
        long machines = strtol(at + 1, &end, 10);
        if (end == at + 1) {
            return;
        }
        add_point(trace, (double)i * each, (int)machines);
        at = end;
    }
}

/* Reads a trace of lines: "ms,add|remove,node"; "date, time, machines", one a minute; or "seconds,machines". */
static void read_lines(struct trace *trace, char *text) {
    char *rest = NULL;
    int there = 0;
    unsigned number = 0;
    for (char *line = strtok_r(text, "\r\n", &rest); line != NULL; line = strtok_r(NULL, "\r\n", &rest), number++) {
        char *comma = strchr(line, ',');
        char *last = strrchr(line, ',');
        if (comma == NULL) {
            continue;
        }
        if (strncmp(comma, ",add,", 5) == 0 || strncmp(comma, ",remove,", 8) == 0) {
            there += comma[1] == 'a' ? 1 : -1;
            add_point(trace, strtod(line, NULL) / 1e3, there);
        } else {
            add_point(trace, last != comma ? 60.0 * number : strtod(line, NULL), (int)strtol(last + 1, NULL, 10));
        }
    }
}

static void read_trace(struct cluster_traces *traces, const char *path) {
    struct trace trace = {0};
    const char *point = strrchr(path, '.');
    FILE *file = fopen(path, "r");
    char *text = memory_zeroed(TRACE_BYTES_MAX + 1, 1);
    size_t size = file != NULL ? fread(text, 1, TRACE_BYTES_MAX, file) : 0;
    if (file != NULL) {
        fclose(file);
    }
    if (size > 0 && point != NULL && strcmp(point, ".json") == 0) {
        read_counts(&trace, text);
    } else if (size > 0 && point != NULL && (strcmp(point, ".csv") == 0 || strcmp(point, ".txt") == 0)) {
        read_lines(&trace, text);
    }
    free(text);
    if (trace.peak < TRACE_PEAK_MIN || trace.count < 2) {
        free(trace.points);
        return;
    }
    traces->list = memory_resized(traces->list, traces->count + 1, sizeof *traces->list);
    traces->list[traces->count++] = trace;
}

static int no_dots(const struct dirent *entry) {
    return entry->d_name[0] != '.';
}

/* Reads files in the order of their names, so that a seed means the same everywhere. */
static void read_folder(struct cluster_traces *traces, const char *path, int depth) {
    struct dirent **entries;
    int count = depth < TRACE_DEPTH_MAX ? scandir(path, &entries, no_dots, alphasort) : -1;
    for (int e = 0; e < count; e++) {
        size_t size = strlen(path) + strlen(entries[e]->d_name) + 2;
        char *inner = memory_zeroed(size, 1);
        struct stat status;
        snprintf(inner, size, "%s/%s", path, entries[e]->d_name);
        if (stat(inner, &status) == 0 && S_ISDIR(status.st_mode)) {
            read_folder(traces, inner, depth + 1);
        } else {
            read_trace(traces, inner);
        }
        free(inner);
        free(entries[e]);
    }
    if (count >= 0) {
        free(entries);
    }
}

struct cluster_traces *cluster_traces_read(const char *folder) {
    static const char *const names[] = {"traces-bamboo", "traces-skypilot", "traces-spothedge-a100"};
    struct cluster_traces *traces = memory_zeroed(1, sizeof *traces);
    for (size_t n = 0; n < sizeof names / sizeof *names; n++) {
        size_t size = strlen(folder) + strlen(names[n]) + 2;
        char *path = memory_zeroed(size, 1);
        snprintf(path, size, "%s/%s", folder, names[n]);
        read_folder(traces, path, 0);
        free(path);
    }
    if (traces->count == 0) {
        cluster_traces_close(traces);
        return NULL;
    }
    return traces;
}

void cluster_traces_close(struct cluster_traces *traces) {
    for (size_t t = 0; traces != NULL && t < traces->count; t++) {
        free(traces->list[t].points);
    }
    free(traces != NULL ? traces->list : NULL);
    free(traces);
}

/* ---- A run ---- */

/* The part of a trace that a group replays: `count` points from `first`, where the trace has machines. */
struct part {
    const struct trace *trace;
    size_t first, count; /* indexes of points */
    double scale;        /* nodes for each machine of the trace */
};

static struct part part_of(const struct cluster *cluster, unsigned group) {
    const struct cluster_traces *traces = cluster->options.traces;
    uint64_t seed = hash_mix(cluster->options.seed ^ TRACE_SALT) + cluster->run.jobs * UINT64_C(16) + group;
    const struct trace *trace = &traces->list[hash_mix(seed) % traces->count];
    struct part part = {.trace = trace, .first = hash_mix(hash_mix(seed) + 1) % (trace->count - 1)};
    while (trace->points[part.first].machines < 1) {
        part.first = (part.first + 1) % trace->count;
    }
    int peak = 1;
    for (size_t p = part.first; p < trace->count && p <= part.first + TRACE_CHANGES; p++) {
        peak = trace->points[p].machines > peak ? trace->points[p].machines : peak;
        part.count++;
    }
    part.scale = peak > TRACE_MACHINES ? (double)TRACE_MACHINES / peak : 1;
    return part;
}

/* Returns the number of nodes at a point: at least one if there is a machine. */
static unsigned nodes_at(const struct part *part, size_t point) {
    int machines = part->trace->points[part->first + point].machines;
    double nodes = part->scale * machines + 0.5;
    return machines == 0 ? 0 : nodes < 1 ? 1 : (unsigned)nodes;
}

void cluster_trace_shape(struct cluster *cluster) {
    uint64_t drawn = hash_mix(cluster->options.seed ^ TRACE_SALT);
    if (cluster->options.traces == NULL) {
        return;
    }
    cluster->groups.count = 2 + (unsigned)(drawn % (TRACE_GROUPS_MAX - 1));
    cluster->drawn.checkpoint_every = 1 + (uint32_t)(drawn / 4 % 3);
    cluster->drawn.initial_reliable = cluster->drawn.initial_transient = 0;
    for (unsigned g = 0; g < cluster->groups.count; g++) {
        struct part part = part_of(cluster, g);
        cluster->drawn.initial_transient += nodes_at(&part, 0);
    }
}

void cluster_trace_initial(struct cluster *cluster, unsigned number) {
    for (unsigned g = 0; cluster->options.traces != NULL && g < cluster->groups.count; g++) {
        struct part part = part_of(cluster, g);
        unsigned nodes = nodes_at(&part, 0);
        cluster->groups.joins = 1 + g;
        if (number < nodes) {
            return;
        }
        number -= nodes;
    }
    cluster->groups.joins = 0;
}

/* Draws a group's joins and losses. The job's clocks cover the part from its first change to shortly after its last. */
static void draw_group(struct cluster *cluster, unsigned group) {
    struct part part = part_of(cluster, group);
    uint64_t clocks = cluster->terms.iterations * cluster->terms.clocks_per_iteration;
    const struct point *points = &part.trace->points[part.first];
    double span = (points[part.count - 1].seconds - points[0].seconds) * 1.1;
    clocks = clocks > 0 ? clocks : 8;
    for (size_t p = 1; p < part.count; p++) {
        unsigned before = nodes_at(&part, p - 1);
        unsigned after = nodes_at(&part, p);
        double at = span > 0 ? (points[p].seconds - points[0].seconds) / span : 0;
        if (before != after) {
            cluster_add_change(cluster, cluster->drawn.resume_clock + 1 + (uint64_t)(at * (double)clocks), group,
                               (int)after - (int)before);
        }
    }
}

void cluster_trace_draw(struct cluster *cluster) {
    for (unsigned g = 0; g < cluster->groups.count; g++) {
        draw_group(cluster, g);
    }
}
