/* k-means: the centers of groups of points. The centers follow from the sums over all points of the iteration
 * before. Each iteration's sums are in rows of their own, so a clock reads only rows that no clock changes any more.
 * So the result is the same on any number of nodes, even if nodes join, leave or fail (docs/api.md). The app also
 * reads a file format of its own. */
#include <agileml.h>

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
    COLUMNS_MAX = 4, /* each column takes two of the totals' 8 maxima */
    CENTERS_MAX = 256,
    LINE_MAX_BYTES = 1024,
    LOWEST = COLUMNS_MAX /* the maxima from here on are of negated values */
};

struct kmeans {
    const char *data, *out;
    int64_t columns, centers;
};

static int kmeans_configure(aml_worker *worker, struct aml_app *app) {
    const struct kmeans *kmeans = app->context;
    if (kmeans->data == NULL) {
        return aml_error(worker, AML_EINPUT, "--data FILE is missing");
    }
    if (aml_staleness(worker) > 0) { /* the sums of the iteration before would not be complete */
        return aml_error(worker, AML_EINPUT, "--staleness %u: expected 0", aml_staleness(worker));
    }
    app->item_bytes = (size_t)kmeans->columns * sizeof(float);
    app->tables[0].width = (uint32_t)kmeans->columns + 1; /* sums of the points, and the number of points */
    return 0;
}

/* ---- Reading ---- */

/* Returns whether a line holds `columns` numbers and nothing else. */
static int parse_point(const char *line, int64_t columns, float *point) {
    for (int64_t c = 0; c < columns; c++) {
        char *end;
        line += strspn(line, " \t,");
        point[c] = strtof(line, &end);
        if (end == line || !isfinite(point[c])) {
            return 0;
        }
        line = end;
    }
    return line[strspn(line, " \t\r\n")] == '\0';
}

static int emit_point(aml_worker *worker, const struct kmeans *kmeans, const float *point) {
    int kept = aml_emit(worker, AML_TRAIN, NULL, point);
    for (int64_t c = 0; c < kmeans->columns; c++) {
        aml_total_raise(worker, (unsigned)c, (double)point[c]);
        aml_total_raise(worker, LOWEST + (unsigned)c, (double)-point[c]);
    }
    return kept < 0 ? kept : 0;
}

static int kmeans_read(aml_worker *worker, void *context) {
    const struct kmeans *kmeans = context;
    float point[COLUMNS_MAX];
    char line[LINE_MAX_BYTES];
    int result = 0;
    FILE *file = fopen(kmeans->data, "r");
    if (file == NULL) {
        return aml_error(worker, AML_EINPUT, "--data %s: %s", kmeans->data, strerror(errno));
    }
    aml_input_file(worker, kmeans->data);
    for (unsigned long number = 1; result == 0 && fgets(line, sizeof line, file) != NULL; number++) {
        result = parse_point(line, kmeans->columns, point)
                     ? emit_point(worker, kmeans, point)
                     : aml_error(worker, AML_EINPUT, "%s:%lu: expected %d numbers, with spaces, tabs or commas between",
                                 kmeans->data, number, (int)kmeans->columns);
    }
    if (result == 0 && ferror(file)) {
        result = aml_error(worker, AML_EFAIL, "--data %s: can't read it", kmeans->data);
    }
    fclose(file);
    return result;
}

/* ---- Training ---- */

static uint64_t sums_key(const struct kmeans *kmeans, uint64_t iteration, int64_t center) {
    return iteration * (uint64_t)kmeans->centers + (uint64_t)center;
}

/* Returns a coordinate within the range of the points: the center's place before the first iteration, and while no
 * point is nearest to the center. */
static float start_of(aml_worker *worker, int64_t center, int64_t column) {
    double highest = aml_total_maximum(worker, (unsigned)column);
    double lowest = -aml_total_maximum(worker, LOWEST + (unsigned)column);
    uint64_t random = aml_mix(aml_seed(worker), (uint64_t)(center * COLUMNS_MAX + column));
    return (float)(lowest + (highest - lowest) * ((double)random / 18446744073709551616.0));
}

/* Computes the centers that the next iteration begins with. */
static int centers_after(aml_worker *worker, const struct kmeans *kmeans, uint64_t iteration,
                         float centers[CENTERS_MAX][COLUMNS_MAX]) {
    for (int64_t k = 0; k < kmeans->centers; k++) {
        double sums[COLUMNS_MAX + 1] = {0};
        int result = iteration == 0 ? 0 : aml_read_param(worker, 0, sums_key(kmeans, iteration, k), sums);
        if (result < 0) {
            return result;
        }
        double count = sums[kmeans->columns];
        for (int64_t c = 0; c < kmeans->columns; c++) {
            centers[k][c] = count > 0 ? (float)(sums[c] / count) : start_of(worker, k, c);
        }
    }
    return 0;
}

/* Returns the nearest center, and sets *distance to its squared distance. */
static int64_t nearest(const struct kmeans *kmeans, const float *point, float centers[CENTERS_MAX][COLUMNS_MAX],
                       double *distance) {
    int64_t found = 0;
    *distance = HUGE_VAL;
    for (int64_t k = 0; k < kmeans->centers; k++) {
        double sum = 0;
        for (int64_t c = 0; c < kmeans->columns; c++) {
            double difference = (double)point[c] - (double)centers[k][c];
            sum += difference * difference;
        }
        found = sum < *distance ? k : found;
        *distance = fmin(sum, *distance);
    }
    return found;
}

static int kmeans_clock(aml_worker *worker, const void *items, size_t count, void *context) {
    const struct kmeans *kmeans = context;
    const float *points = items;
    float centers[CENTERS_MAX][COLUMNS_MAX];
    double sums[CENTERS_MAX][COLUMNS_MAX + 1] = {{0}};
    double distances = 0;
    uint64_t iteration = aml_iteration(worker);
    int result = centers_after(worker, kmeans, iteration - 1, centers);
    for (size_t i = 0; i < count && result == 0; i++) {
        const float *point = points + i * (size_t)kmeans->columns;
        double distance;
        double *sum = sums[nearest(kmeans, point, centers, &distance)];
        for (int64_t c = 0; c < kmeans->columns; c++) {
            sum[c] += (double)point[c];
        }
        sum[kmeans->columns] += 1;
        distances += distance;
    }
    for (int64_t k = 0; k < kmeans->centers && result == 0; k++) {
        result = aml_update_param(worker, 0, sums_key(kmeans, iteration, k), sums[k]);
    }
    aml_metric_add(worker, 0, distances, (double)count);
    return result;
}

/* ---- Saving ---- */

static int kmeans_finish(aml_worker *worker, void *context) {
    const struct kmeans *kmeans = context;
    float centers[CENTERS_MAX][COLUMNS_MAX];
    int result = kmeans->out == NULL ? 0 : centers_after(worker, kmeans, aml_iteration(worker), centers);
    if (kmeans->out == NULL || result != 0) {
        return result;
    }
    FILE *file = fopen(kmeans->out, "w");
    if (file == NULL) {
        return aml_error(worker, AML_EINPUT, "--out %s: %s", kmeans->out, strerror(errno));
    }
    for (int64_t k = 0; k < kmeans->centers; k++) {
        for (int64_t c = 0; c < kmeans->columns; c++) {
            fprintf(file, "%.9g%c", (double)centers[k][c], c + 1 < kmeans->columns ? '\t' : '\n');
        }
    }
    int failed = ferror(file);
    failed |= fclose(file);
    return failed ? aml_error(worker, AML_EFAIL, "--out %s: can't write it", kmeans->out) : 0;
}

int main(int argc, char **argv) {
    struct kmeans kmeans = {.columns = 2, .centers = 8};
    const struct aml_option options[] = {
        {"data", "FILE", AML_OPTION_STRING, &kmeans.data, 0, 0, "points: lines of --columns numbers"},
        {"columns", "N", AML_OPTION_INTEGER, &kmeans.columns, 1, COLUMNS_MAX, "numbers in a point"},
        {"centers", "N", AML_OPTION_INTEGER, &kmeans.centers, 1, CENTERS_MAX, "centers to find"},
        {"out", "FILE", AML_OPTION_STRING, &kmeans.out, 0, 0, "write the centers there"},
        {0}};
    struct aml_table tables[] = {{.name = "sums", .type = AML_FLOAT64, .mode = AML_ADD}};
    const struct aml_metric metrics[] = {{.name = "squared_distance", .kind = AML_MEAN}};
    struct aml_app app = {.name = "kmeans",
                          .summary = "centers of groups of points",
                          .options = options,
                          .tables = tables,
                          .table_count = 1,
                          .metrics = metrics,
                          .metric_count = 1,
                          .configure = kmeans_configure,
                          .read_only_emits = 1,
                          .read = kmeans_read,
                          .clock = kmeans_clock,
                          .finish = kmeans_finish,
                          .context = &kmeans};
    return aml_main(&app, argc, argv);
}
