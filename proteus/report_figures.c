/* See report_figures.h. */
#include "proteus/report_figures.h"

#include "agileml/base/memory.h"
#include "agileml/base/new_file.h"
#include "proteus/progress_text.h"
#include "proteus/report_reader.h"
#include "proteus/status_text.h"
#include "proteus/svg.h"

#include <ctype.h>
#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

enum {
    FIGURE_NAME_MAX = 96, /* bytes of a file's name */
    MARK_TEXT = 24,       /* bytes of a mark's text */
    WINDOWS = 250,        /* averages of a curve that would have more points */
    MARKS_MOST = 40,      /* in a chart; with more there are none, as they would hide the curves */
};

/* A curve that grows. */
struct curve {
    char *name;
    double *x, *y;
    size_t count, capacity;
    bool marked; /* comes first where there is no room for all: of a market that had machines */
    bool bid;    /* goes with the curve before it */
};

/* Curves of one report by name. */
struct curves {
    struct curve *list;
    size_t count;
};

/* A node's row. The last span lasts while `open`. */
struct node_row {
    char *name;
    struct svg_span *spans;
    size_t count;
    bool open;
};

/* What came or went in an iteration: "+8", "-8", "-2 lost". */
struct change {
    double iteration;
    const char *event, *colour;
    size_t nodes;
    char text[MARK_TEXT];
};

struct report_data {
    char *name;
    struct curves metrics;     /* the objective and the app's metrics */
    struct curve items, bytes; /* of each iteration, by the time of its end; rates when all is read */
    struct curve times;        /* seconds of each iteration, by its number; averages when all is read */
    struct change *changes;
    size_t change_count;
    struct curves money, prices;
    struct node_row *rows;
    size_t row_count;
    struct svg_mark *marks;
    size_t mark_count;
    double begun;   /* when training began: seconds */
    double seconds; /* of the last line */
};

struct report_figures {
    struct report_data *reports;
    size_t count;
};

/* What a node does, by its last line `nodes`; docs/proteus.md. */
static const struct svg_key ROLES[] = {
    {.colour = "#9279b5", .text = "loading"},   {.colour = "#4a90cf", .text = "working only"},
    {.colour = "#1f5fa8", .text = "ParamServ"}, {.colour = "#c75f10", .text = "ActivePS"},
    {.colour = "#2a8034", .text = "BackupPS"},  {.colour = "#866a00", .text = "leaving"},
    {.colour = "#98a2ad", .text = "idle"}};
enum role {
    ROLE_LOADING,
    ROLE_WORKING,
    ROLE_PARAMSERV,
    ROLE_ACTIVEPS,
    ROLE_BACKUPPS,
    ROLE_LEAVING,
    ROLE_IDLE,
    ROLES_COUNT
};
_Static_assert(sizeof ROLES / sizeof *ROLES == ROLES_COUNT, "a colour for each role");

/* The events that a timeline marks, by their names in the report and in the key. */
static const struct {
    const char *event;
    struct svg_key key;
} MARKS[] = {{"failure", {.colour = "#b3261e", .text = "node lost", .line = true}},
             {"evict", {.colour = "#866a00", .text = "notice of an eviction", .line = true}},
             {"recover", {.colour = "#bf4a9b", .text = "recovered", .line = true}},
             {"stage", {.colour = "#14808c", .text = "stage changed", .line = true}},
             {"balance", {.colour = "#7b7a12", .text = "shares or servers changed for slow nodes", .line = true}},
             {"replace", {.colour = "#8a5a44", .text = "straggler replaced", .line = true}},
             {"add-feeder", {.colour = "#4f6fd0", .text = "feeder added", .line = true}},
             {"feeder-threads", {.colour = "#7486d6", .text = "feeders' threads changed", .line = true}},
             {"remove-feeders", {.colour = "#9a6fb0", .text = "feeders given back", .line = true}},
             {"checkpoint", {.colour = "#5f6b78", .text = "checkpoint", .line = true}}};
enum { MARK_KINDS = sizeof MARKS / sizeof *MARKS };

/* ---- Reading ---- */

static void curve_add(struct curve *curve, double x, double y) {
    if (curve->count == curve->capacity) {
        curve->capacity = curve->capacity > 0 ? 2 * curve->capacity : 256;
        curve->x = memory_resized(curve->x, curve->capacity, sizeof *curve->x);
        curve->y = memory_resized(curve->y, curve->capacity, sizeof *curve->y);
    }
    curve->x[curve->count] = x;
    curve->y[curve->count++] = y;
}

static struct curve *curve_of(struct curves *curves, const char *name) {
    for (size_t c = 0; c < curves->count; c++) {
        if (strcmp(curves->list[c].name, name) == 0) {
            return &curves->list[c];
        }
    }
    curves->list = memory_resized(curves->list, curves->count + 1, sizeof *curves->list);
    curves->list[curves->count] = (struct curve){.name = memory_string(name)};
    return &curves->list[curves->count++];
}

static const char *text_of(const json_t *object, const char *key) {
    const char *text = json_string_value(json_object_get(object, key));
    return text != NULL ? text : "";
}

static void add_metric(void *context, const char *name, double value) {
    struct report_data *data = context;
    curve_add(curve_of(&data->metrics, name), data->seconds, value);
}

static void read_iteration(struct report_data *data, const json_t *line) {
    const struct curve *items = &data->items;
    double before = items->count > 0 ? items->x[items->count - 1] : data->begun;
    progress_visit_metrics(line, add_metric, data);
    curve_add(&data->items, data->seconds, progress_number(line, "items"));
    curve_add(&data->bytes, data->seconds, progress_number(line, "bytes_sent"));
    curve_add(&data->times, progress_number(line, "iteration"), data->seconds - before);
}

/* Makes of amounts, each since the point before it, their averages a unit of x, over windows of the least width that
 * leaves WINDOWS of them. Points that come at once stay together: they are lines of short iterations. */
static void make_rates(struct curve *curve, double begin) {
    double width = curve->count > 0 ? (curve->x[curve->count - 1] - begin) / WINDOWS : 0;
    double sum = 0;
    size_t made = 0;
    for (size_t p = 0; p < curve->count; p++) {
        sum += isfinite(curve->y[p]) ? curve->y[p] : 0;
        bool more_at_once = p + 1 < curve->count && curve->x[p + 1] - curve->x[p] < width / 100;
        if (curve->x[p] > begin && curve->x[p] - begin >= width && !more_at_once) {
            curve->y[made] = sum / (curve->x[p] - begin);
            begin = curve->x[made++] = curve->x[p];
            sum = 0;
        }
    }
    curve->count = made;
}

static void read_money(struct report_data *data, const json_t *line) {
    static const char *const kinds[][2] = {{"dollars", "spent"}, {"all_on_demand_dollars", "the same on demand"}};
    size_t m;
    json_t *market;
    for (size_t k = 0; k < sizeof kinds / sizeof *kinds; k++) {
        curve_add(curve_of(&data->money, kinds[k][1]), data->seconds, progress_number(line, kinds[k][0]));
    }
    json_array_foreach(json_object_get(line, "markets"), m, market) {
        struct curve *price = curve_of(&data->prices, text_of(market, "market"));
        curve_add(price, data->seconds, progress_number(market, "price"));
        price->marked = price->marked || progress_number(market, "machines") > 0;
        char name[FIGURE_NAME_MAX];
        snprintf(name, sizeof name, "%.60s bid", text_of(market, "market"));
        struct curve *bid = curve_of(&data->prices, name);
        bid->bid = true;
        curve_add(bid, data->seconds, progress_number(market, "bid"));
    }
}

/* Counts nodes that came or went while the job trained. Events of one kind in one iteration are one change. */
static void read_change(struct report_data *data, const char *event, const json_t *line) {
    static const struct {
        const char *event, *form, *colour;
    } kinds[] = {{"join", "+%zu", "#2a8034"}, {"evict", "-%zu", "#866a00"}, {"failure", "-%zu lost", "#b3261e"}};
    double iteration = progress_number(line, "iteration");
    size_t nodes = json_array_size(json_object_get(line, "nodes"));
    for (size_t k = 0; k < sizeof kinds / sizeof *kinds && iteration > 0 && nodes > 0; k++) {
        if (strcmp(event, kinds[k].event) != 0) {
            continue;
        }
        struct change *last = data->change_count > 0 ? &data->changes[data->change_count - 1] : NULL;
        if (last == NULL || last->event != kinds[k].event || last->iteration < iteration) {
            data->changes = memory_resized(data->changes, data->change_count + 1, sizeof *data->changes);
            last = &data->changes[data->change_count++];
            *last = (struct change){.iteration = iteration, .event = kinds[k].event, .colour = kinds[k].colour};
        }
        last->nodes += nodes;
        snprintf(last->text, sizeof last->text, kinds[k].form, last->nodes);
    }
}

static void read_event(struct report_data *data, const json_t *line) {
    const char *event = text_of(line, "event");
    data->begun = strcmp(event, "start") == 0 && data->times.count == 0 ? data->seconds : data->begun;
    read_change(data, event, line);
    for (size_t m = 0; m < MARK_KINDS; m++) {
        if (strcmp(event, MARKS[m].event) == 0) {
            data->marks = memory_resized(data->marks, data->mark_count + 1, sizeof *data->marks);
            data->marks[data->mark_count++] =
                (struct svg_mark){.x = data->seconds, .colour = MARKS[m].key.colour, .text = MARKS[m].key.text};
        }
    }
}

static enum role role_of(const json_t *node, bool traditional) {
    const char *state = text_of(node, "state");
    bool reliable = strcmp(text_of(node, "tier"), "reliable") == 0;
    if (strcmp(state, "leaving") == 0) {
        return ROLE_LEAVING;
    }
    if (strcmp(state, "started") != 0 && strcmp(state, "finished") != 0) {
        return ROLE_LOADING;
    }
    if (json_array_size(json_object_get(node, "serves")) > 0) {
        return reliable || traditional ? ROLE_PARAMSERV : ROLE_ACTIVEPS;
    }
    if (json_array_size(json_object_get(node, "follows")) > 0) {
        return ROLE_BACKUPPS;
    }
    return progress_number(node, "shards") > 0 ? ROLE_WORKING : ROLE_IDLE;
}

static struct node_row *row_of(struct report_data *data, const char *name) {
    for (size_t r = data->row_count; r-- > 0;) {
        if (strcmp(data->rows[r].name, name) == 0) {
            return &data->rows[r];
        }
    }
    data->rows = memory_resized(data->rows, data->row_count + 1, sizeof *data->rows);
    data->rows[data->row_count] = (struct node_row){.name = memory_string(name)};
    return &data->rows[data->row_count++];
}

static void row_end(struct node_row *row, double seconds) {
    if (row->open) {
        row->spans[row->count - 1].until = seconds;
        row->open = false;
    }
}

static void read_nodes(struct report_data *data, const json_t *line) {
    bool traditional = strcmp(status_stage_name(line), "traditional") == 0;
    size_t n;
    json_t *node;
    json_array_foreach(json_object_get(line, "nodes"), n, node) {
        struct node_row *row = row_of(data, text_of(node, "name"));
        const char *state = text_of(node, "state");
        bool gone = strcmp(state, "left") == 0 || strcmp(state, "lost") == 0;
        const char *colour = gone ? NULL : ROLES[role_of(node, traditional)].colour;
        if (row->open && colour == row->spans[row->count - 1].colour) {
            continue;
        }
        row_end(row, data->seconds);
        if (!gone) {
            row->spans = memory_resized(row->spans, row->count + 1, sizeof *row->spans);
            row->spans[row->count++] =
                (struct svg_span){.from = data->seconds, .until = data->seconds, .colour = colour};
            row->open = true;
        }
    }
}

static int take_line(void *context, const json_t *line, const char *text, size_t size, struct error *error) {
    struct report_data *data = context;
    const char *type = text_of(line, "type");
    double seconds = progress_number(line, "seconds");
    (void)text;
    (void)size;
    (void)error;
    data->seconds = seconds > data->seconds ? seconds : data->seconds;
    if (strcmp(type, "iteration") == 0) {
        read_iteration(data, line);
    } else if (strcmp(type, "event") == 0) {
        read_event(data, line);
    } else if (strcmp(type, "nodes") == 0) {
        read_nodes(data, line);
    } else if (strcmp(type, "money") == 0) {
        read_money(data, line);
    }
    return 0;
}

int report_figures_add(struct report_figures *figures, const char *path, const char *name, struct error *error) {
    figures->reports = memory_resized(figures->reports, figures->count + 1, sizeof *figures->reports);
    struct report_data *data = &figures->reports[figures->count++];
    *data = (struct report_data){.name = memory_string(name)};
    int result = report_read(path, take_line, data, error);
    for (size_t r = 0; r < data->row_count; r++) {
        row_end(&data->rows[r], data->seconds);
    }
    make_rates(&data->items, data->begun);
    make_rates(&data->bytes, data->begun);
    make_rates(&data->times, 0);
    return result;
}

/* ---- Writing ---- */

/* Where figures go. */
struct output {
    const char *folder;
    unsigned count;
    struct error *error;
};

/* Writes the stream's text, which it closes and frees, into a file of the folder. */
static int write_file(struct output *output, const char *name, FILE *stream, char **text, const size_t *size) {
    char path[NEW_FILE_PATH_MAX];
    struct new_file file;
    if (fclose(stream) != 0) {
        memory_exhausted(*size);
    }
    int length = snprintf(path, sizeof path, "%s/%s", output->folder, name);
    int result = length < (int)sizeof path
                     ? new_file_open(&file, path, output->error)
                     : error_set(output->error, AML_EINPUT, "--svg %.200s: the path is too long", output->folder);
    if (result == 0) {
        result = new_file_write(&file, *text, *size, output->error);
        if (result != 0) {
            new_file_discard(&file);
        } else {
            result = new_file_commit(&file, output->error);
        }
    }
    output->count += result == 0;
    free(*text);
    return result;
}

static FILE *open_text(char **text, size_t *size) {
    FILE *stream = open_memstream(text, size);
    if (stream == NULL) {
        memory_exhausted(1);
    }
    return stream;
}

static int write_chart(struct output *output, const char *name, const struct svg_chart *chart) {
    char *text;
    size_t size;
    bool any = false;
    for (size_t c = 0; c < chart->curve_count; c++) {
        for (size_t p = 0; p < chart->curves[c].count; p++) {
            any = any || isfinite(chart->curves[c].y[p]);
        }
    }
    if (!any) {
        return 0;
    }
    FILE *stream = open_text(&text, &size);
    svg_write_chart(stream, chart);
    return write_file(output, name, stream, &text, &size);
}

static struct svg_curve curve_view(const struct curve *curve, const char *name) {
    return (struct svg_curve){.name = name, .x = curve->x, .y = curve->y, .count = curve->count};
}

/* Writes a chart with one curve of each report. `pick` returns it; NULL: the report has none. */
static int write_over(struct output *output, const struct report_figures *figures, const char *file,
                      struct svg_chart chart,
                      const struct curve *(*pick)(const struct report_data *data, const char *name), const char *name) {
    struct svg_curve *curves = memory_zeroed(figures->count, sizeof *curves);
    chart.curves = curves;
    for (size_t r = 0; r < figures->count; r++) {
        const struct curve *curve = pick(&figures->reports[r], name);
        if (curve != NULL && curve->count > 0) {
            curves[chart.curve_count] = curve_view(curve, figures->reports[r].name);
            curves[chart.curve_count++].form = chart.form;
        }
    }
    int result = write_chart(output, file, &chart);
    free(curves);
    return result;
}

static const struct curve *pick_metric(const struct report_data *data, const char *name) {
    for (size_t c = 0; c < data->metrics.count; c++) {
        if (strcmp(data->metrics.list[c].name, name) == 0) {
            return &data->metrics.list[c];
        }
    }
    return NULL;
}

static const struct curve *pick_items(const struct report_data *data, const char *name) {
    (void)name;
    return &data->items;
}

static const struct curve *pick_bytes(const struct report_data *data, const char *name) {
    (void)name;
    return &data->bytes;
}

static const struct curve *pick_times(const struct report_data *data, const char *name) {
    (void)name;
    return &data->times;
}

/* Makes "PREFIX-NAME.svg" of a name that others chose: letters, digits and dashes. */
static void file_name(char file[FIGURE_NAME_MAX], const char *prefix, const char *name) {
    size_t used = (size_t)snprintf(file, FIGURE_NAME_MAX, "%s-", prefix);
    for (; *name != '\0' && used < FIGURE_NAME_MAX - sizeof ".svg"; name++) {
        file[used++] = (char)(isalnum((unsigned char)*name) ? tolower((unsigned char)*name) : '-');
    }
    memcpy(file + used, ".svg", sizeof ".svg");
}

/* Whether an earlier report has the metric, so that its figure is written already. */
static bool metric_is_known(const struct report_figures *figures, size_t report, const char *name) {
    for (size_t r = 0; r < report; r++) {
        if (pick_metric(&figures->reports[r], name) != NULL) {
            return true;
        }
    }
    return false;
}

static int write_metrics(struct output *output, const struct report_figures *figures) {
    int result = 0;
    for (size_t r = 0; r < figures->count; r++) {
        const struct curves *metrics = &figures->reports[r].metrics;
        for (size_t m = 0; result == 0 && m < metrics->count; m++) {
            const char *name = metrics->list[m].name;
            char file[FIGURE_NAME_MAX];
            file_name(file, "metric", name);
            const struct svg_chart chart = {.title = name, .x_label = "seconds", .y_label = name};
            if (!metric_is_known(figures, r, name)) {
                result = write_over(output, figures, file, chart, pick_metric, name);
            }
        }
    }
    return result;
}

/* Writes how long iterations took. Of one report alone it shows what came and went, too. */
static int write_times(struct output *output, const struct report_figures *figures) {
    struct svg_mark marks[MARKS_MOST];
    struct svg_chart chart = {.title = "Seconds of an iteration",
                              .x_label = "iteration",
                              .y_label = "seconds",
                              .form = SVG_STEPS_BACK,
                              .from_zero = true,
                              .marks = marks};
    const struct report_data *data = figures->reports;
    if (figures->count == 1 && data->change_count <= MARKS_MOST) {
        for (size_t c = 0; c < data->change_count; c++) {
            const struct change *change = &data->changes[c];
            marks[chart.mark_count++] = (struct svg_mark){change->iteration, change->colour, change->text};
        }
    }
    return write_over(output, figures, "iterations.svg", chart, pick_times, NULL);
}

/* Writes the curves of one report into one chart, as many as there are colours, marked ones first. The file is
 * NAME.svg, or NAME-2.svg for the second report. */
static int write_own(struct output *output, const char *name, size_t report, struct svg_chart chart,
                     const struct curves *from) {
    char file[FIGURE_NAME_MAX];
    struct svg_curve curves[2 * SVG_COLOURS];
    size_t colours = 0;
    chart.curves = curves;
    for (size_t c = 0; c < 2 * from->count && colours < SVG_COLOURS; c++) { /* twice: marked ones, others */
        size_t at = c % from->count;
        const struct curve *curve = &from->list[at];
        if (curve->bid || curve->marked != (c < from->count)) {
            continue;
        }
        colours++;
        curves[chart.curve_count] = curve_view(curve, curve->name);
        curves[chart.curve_count++].form = SVG_STEPS;
        if (at + 1 < from->count && from->list[at + 1].bid) {
            curves[chart.curve_count] = curve_view(&from->list[at + 1], NULL);
            curves[chart.curve_count++].form = SVG_STEPS;
        }
    }
    snprintf(file, sizeof file, report == 0 ? "%s.svg" : "%s-%zu.svg", name, report + 1);
    return write_chart(output, file, &chart);
}

static int write_timeline(struct output *output, const struct report_data *data, size_t report) {
    char file[FIGURE_NAME_MAX];
    char *text;
    size_t size;
    if (data->row_count == 0) {
        return 0;
    }
    struct svg_row *rows = memory_zeroed(data->row_count, sizeof *rows);
    for (size_t r = 0; r < data->row_count; r++) {
        rows[r] = (struct svg_row){data->rows[r].name, data->rows[r].spans, data->rows[r].count};
    }
    struct svg_key keys[ROLES_COUNT + MARK_KINDS];
    size_t key_count = ROLES_COUNT;
    memcpy(keys, ROLES, sizeof ROLES);
    for (size_t k = 0; k < MARK_KINDS; k++) {
        for (size_t m = 0; m < data->mark_count; m++) {
            if (data->marks[m].text == MARKS[k].key.text) {
                keys[key_count++] = MARKS[k].key;
                break;
            }
        }
    }
    const struct svg_timeline timeline = {.title = "Nodes and what they do",
                                          .x_label = "seconds",
                                          .rows = rows,
                                          .row_count = data->row_count,
                                          .marks = data->marks,
                                          .mark_count = data->mark_count,
                                          .keys = keys,
                                          .key_count = key_count};
    snprintf(file, sizeof file, report == 0 ? "nodes.svg" : "nodes-%zu.svg", report + 1);
    FILE *stream = open_text(&text, &size);
    svg_write_timeline(stream, &timeline);
    free(rows);
    return write_file(output, file, stream, &text, &size);
}

int report_figures_write(const struct report_figures *figures, const char *folder, unsigned *count,
                         struct error *error) {
    static const struct svg_chart items = {"Items per second", "seconds", "items/s", .from_zero = true};
    static const struct svg_chart bytes = {"Bytes sent per second", "seconds", "bytes/s", .from_zero = true};
    static const struct svg_chart money = {"Dollars", "seconds", "dollars", .from_zero = true};
    static const struct svg_chart prices = {"Prices, and bids (dashed)", "seconds", "dollars an hour",
                                            .from_zero = true};
    struct output output = {.folder = folder, .error = error};
    struct stat status;
    if (mkdir(folder, 0777) != 0 && errno != EEXIST) {
        return error_set(error, AML_EINPUT, "--svg %.200s: can't make the folder: %s", folder, strerror(errno));
    }
    if (stat(folder, &status) != 0 || !S_ISDIR(status.st_mode)) {
        return error_set(error, AML_EINPUT, "--svg %.200s: not a folder", folder);
    }
    int result = write_metrics(&output, figures);
    result = result == 0 ? write_times(&output, figures) : result;
    result = result == 0 ? write_over(&output, figures, "items.svg", items, pick_items, NULL) : result;
    result = result == 0 ? write_over(&output, figures, "bytes.svg", bytes, pick_bytes, NULL) : result;
    for (size_t r = 0; result == 0 && r < figures->count; r++) {
        const struct report_data *data = &figures->reports[r];
        result = write_timeline(&output, data, r);
        result = result == 0 ? write_own(&output, "dollars", r, money, &data->money) : result;
        result = result == 0 ? write_own(&output, "prices", r, prices, &data->prices) : result;
    }
    *count = output.count;
    return result;
}

/* ---- Life cycle ---- */

struct report_figures *report_figures_new(void) {
    return memory_zeroed(1, sizeof(struct report_figures));
}

static void curve_close(struct curve *curve) {
    free(curve->name);
    free(curve->x);
    free(curve->y);
}

static void curves_close(struct curves *curves) {
    for (size_t c = 0; c < curves->count; c++) {
        curve_close(&curves->list[c]);
    }
    free(curves->list);
}

static void data_close(struct report_data *data) {
    for (size_t r = 0; r < data->row_count; r++) {
        free(data->rows[r].name);
        free(data->rows[r].spans);
    }
    curve_close(&data->items);
    curve_close(&data->bytes);
    curve_close(&data->times);
    curves_close(&data->metrics);
    curves_close(&data->money);
    curves_close(&data->prices);
    free(data->rows);
    free(data->marks);
    free(data->changes);
    free(data->name);
}

void report_figures_free(struct report_figures *figures) {
    for (size_t r = 0; r < figures->count; r++) {
        data_close(&figures->reports[r]);
    }
    free(figures->reports);
    free(figures);
}
