/* See tuning.h. */
#include "apps/mlr/tuning.h"

#include "agileml/base/memory.h"

#include <stdlib.h>
#include <string.h>

/* ---- Drawn samples as a set ---- */

/* Drawn samples, scaled. Their columns are only the features that occur in them. */
struct drawn_set {
    struct validate_set set;
    uint32_t *labels, *places;
    size_t *starts;
    float *values;
    double squares;
};

/* Sets columns[feature] to the column of each feature that occurs in some drawn sample, in the order of the
 * features; for others, to UINT32_MAX. Returns the number of columns. */
static uint32_t find_columns(const struct tuning *tuning, const struct statistics *statistics, bool all,
                             uint32_t *columns) {
    uint32_t features = tuning->scale.features;
    uint32_t count = 0;
    memset(columns, all ? 0 : 0xff, features * sizeof *columns);
    for (size_t i = 0; i < statistics->drawn_count && !all; i++) {
        for (uint32_t f = 0; f < statistics->drawn[i].count; f++) {
            columns[statistics->drawn[i].features[f]] = 0;
        }
    }
    for (uint32_t f = 0; f < features; f++) {
        bool kept = columns[f] == 0 && (tuning->factors == NULL || tuning->factors[f] != 0);
        columns[f] = kept ? count++ : UINT32_MAX;
    }
    return count;
}

/* Writes a drawn sample's row after the `used` values of the set. Returns the new number of values. */
static size_t add_row(struct drawn_set *drawn, const struct scale *scale, const struct drawn *from, bool all,
                      const uint32_t *columns, float *scaled, size_t used) {
    const struct sample sample = {.features = from->features, .values = from->values, .count = from->count};
    float *room = scaled + scale->features;
    uint32_t count = scale->features;
    if (all) {
        scale_all(scale, &sample, room, scaled);
    } else {
        count = scale_sample(scale, &sample, scaled);
    }
    for (uint32_t i = 0; i < count; i++) {
        uint32_t column = columns[all ? i : from->features[i]];
        float value = scaled[i];
        if (column != UINT32_MAX && value != 0) {
            drawn->places[used] = column;
            drawn->values[used++] = value;
            drawn->squares += (double)value * (double)value;
        }
    }
    return used;
}

/* Makes the set. With centres a sample's zeros become values too (`all`), as they are not 0 after scaling. */
static void drawn_make(struct drawn_set *drawn, const struct tuning *tuning, const struct statistics *statistics,
                       uint32_t classes) {
    size_t rows = statistics->drawn_count;
    uint32_t features = tuning->scale.features;
    bool all = tuning->scale.kind == SCALE_STANDARD && tuning->scale.centres != NULL;
    uint32_t *columns = memory_zeroed((size_t)features + 1, sizeof *columns);
    float *scaled = memory_zeroed(2 * ((size_t)features + 1), sizeof *scaled);
    size_t values = all ? rows * (size_t)features : statistics->drawn_values;
    *drawn = (struct drawn_set){.labels = memory_zeroed(rows + 1, sizeof *drawn->labels),
                                .starts = memory_zeroed(rows + 1, sizeof *drawn->starts),
                                .places = memory_zeroed(values + 1, sizeof *drawn->places),
                                .values = memory_zeroed(values + 1, sizeof *drawn->values)};
    drawn->set = (struct validate_set){.rows = rows,
                                       .columns = find_columns(tuning, statistics, all, columns),
                                       .classes = classes,
                                       .labels = drawn->labels,
                                       .starts = drawn->starts,
                                       .places = drawn->places,
                                       .values = drawn->values};
    for (size_t r = 0; r < rows; r++) {
        const struct drawn *from = &statistics->drawn[r];
        drawn->labels[r] = from->label;
        drawn->starts[r + 1] = add_row(drawn, &tuning->scale, from, all, columns, scaled, drawn->starts[r]);
    }
    free(columns);
    free(scaled);
}

static void drawn_close(struct drawn_set *drawn) {
    free(drawn->labels);
    free(drawn->starts);
    free(drawn->places);
    free(drawn->values);
}

/* ---- Choices ---- */

static double mean_length(const struct drawn_set *drawn, const struct statistics *statistics) {
    return drawn->squares / (double)(statistics->drawn_count > 0 ? statistics->drawn_count : 1);
}

/* Measures the drawn samples by the tuning's scale. */
static void measure(struct tuning *tuning, const struct statistics *statistics, uint32_t classes, bool choose_c) {
    struct drawn_set drawn;
    drawn_make(&drawn, tuning, statistics, classes);
    tuning->length = mean_length(&drawn, statistics);
    tuning->curvature = validate_curvature(&drawn.set);
    tuning->validated = choose_c && validate(&drawn.set, &tuning->validation);
    drawn_close(&drawn);
}

void tuning_make(struct tuning *tuning, const struct statistics *statistics, const struct scale *given, bool dense,
                 uint32_t classes, bool choose_c) {
    bool chosen = given->kind == SCALE_AUTO;
    *tuning = (struct tuning){.scale = *given};
    tuning->scale.kind = chosen ? SCALE_STANDARD : given->kind;
    if (tuning->scale.kind == SCALE_STANDARD) {
        uint32_t constant =
            statistics_standardize(statistics, given->features, dense, &tuning->centres, &tuning->factors);
        tuning->dropped = dense ? constant : 0;
        tuning->scale.centres = tuning->centres;
        tuning->scale.factors = tuning->factors;
    }
    measure(tuning, statistics, classes, choose_c);
    if (chosen && !dense && tuning->validated) {
        struct tuning unit = {.scale = {.kind = SCALE_UNIT, .features = given->features}};
        measure(&unit, statistics, classes, true);
        if (unit.validation.loss < tuning->validation.loss) {
            tuning_close(tuning);
            *tuning = unit;
        }
    }
}

void tuning_make_by_steps(struct tuning *tuning, const struct statistics *statistics, const struct scale *given,
                          const struct validate_pace *pace, bool choose_c) {
    struct drawn_set drawn;
    *tuning = (struct tuning){.scale = *given};
    drawn_make(&drawn, tuning, statistics, 2);
    tuning->length = mean_length(&drawn, statistics);
    const struct validate_pace scaled = {.rate = pace->rate / (1 + tuning->length), .rare = pace->rare};
    tuning->validated = choose_c && validate_by_steps(&drawn.set, &scaled, &tuning->validation);
    drawn_close(&drawn);
}

void tuning_close(struct tuning *tuning) {
    free(tuning->centres);
    free(tuning->factors);
    *tuning = (struct tuning){0};
}
