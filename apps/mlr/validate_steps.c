/* validate_by_steps of validate.h. All C are tried at once: a column has one weight for each C, contiguous. */
#include "agileml/base/memory.h"
#include "apps/mlr/validate.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum {
    GRID = 8,          /* C from 0.01 to 2, three to a power of ten */
    FOLDS = 3,         /* folds, unless there are few rows */
    FOLDS_OF_FEW = 10, /* folds when there are fewer than FEW_ROWS rows */
    FEW_ROWS = 500,
    ENOUGH_TESTED = 2000, /* rows left out in all folds together, after which further folds are not tried */
    STEPS_MIN = 16000,    /* steps of a fold, if PASSES_MAX allows it */
    PASSES_MIN = 5,
    PASSES_MAX = 30
};

/* A number for each C. Aligned like memory from memory_zeroed. */
typedef float lanes __attribute__((vector_size(GRID * sizeof(float)), aligned(16)));

/* The factors of a step in a column. */
struct column_pace {
    float rate;  /* factor of the error; 0: no kept row has the column */
    float decay; /* a step subtracts this times lambda times the weights from the weights */
};

/* A fold: leaves out every `folds`th row, from `number` on. Weights are those of the logit of class 1; the logit of
 * class 0 is 0. */
struct fold {
    const struct validate_set *set;
    size_t number, folds;
    size_t kept, ones;         /* rows that are not left out, and how many of these have class 1 */
    lanes lambdas;             /* factors of the regularization relative to the mean loss */
    lanes *weights;            /* [columns + 1], the biases last */
    struct column_pace *paces; /* [columns + 1], the biases last */
};

static bool left_out(const struct fold *fold, size_t row) {
    return row % fold->folds == fold->number;
}

static double grid_c(double place) {
    return 0.01 * pow(10, place / 3);
}

/* Sets `kept` and `ones`, and counts[columns] to the number of kept rows that have each column. */
static void count_rows(struct fold *fold, uint32_t *counts) {
    const struct validate_set *set = fold->set;
    fold->kept = fold->ones = 0;
    for (size_t r = 0; r < set->rows; r++) {
        if (left_out(fold, r)) {
            continue;
        }
        for (size_t i = set->starts[r]; i < set->starts[r + 1]; i++) {
            counts[set->places[i]]++;
        }
        fold->ones += set->labels[r];
        fold->kept++;
    }
}

static void set_paces(struct fold *fold, const struct validate_pace *pace, const uint32_t *counts) {
    double kept = (double)fold->kept;
    double *powers = memory_zeroed(fold->kept + 1, sizeof *powers);
    for (size_t n = 1; n <= fold->kept; n++) {
        powers[n] = pow((double)n / kept, -pace->rare);
    }
    for (uint32_t c = 0; c < fold->set->columns; c++) {
        double rate = pace->rate * powers[counts[c]];
        double decay = counts[c] > 0 ? rate * kept / counts[c] : 0;
        fold->paces[c] = (struct column_pace){.rate = (float)rate, .decay = (float)decay};
    }
    fold->paces[fold->set->columns] = (struct column_pace){.rate = (float)pace->rate};
    free(powers);
}

/* Returns the logit of class 1 for a model that knows only the classes' shares among the kept rows. */
static double constant_logit(const struct fold *fold) {
    return log(((double)fold->ones + 0.5) / ((double)(fold->kept - fold->ones) + 0.5));
}

/* Begins the fold `number`, with weights 0 and the bias of a constant model. */
static void begin(struct fold *fold, size_t number, const struct validate_pace *pace) {
    uint32_t columns = fold->set->columns;
    uint32_t *counts = memory_zeroed((size_t)columns + 1, sizeof *counts);
    fold->number = number;
    count_rows(fold, counts);
    set_paces(fold, pace, counts);
    free(counts);
    memset(fold->weights, 0, columns * sizeof *fold->weights);
    double logit = constant_logit(fold);
    for (unsigned g = 0; g < GRID; g++) {
        fold->weights[columns][g] = (float)logit;
        fold->lambdas[g] = (float)validate_lambda(grid_c(g), (double)fold->kept, 2) / 2; /* one weight, not two */
    }
}

#define STEPS_BODY static inline __attribute__((always_inline))

/* Sets z to a row's logits. */
STEPS_BODY void logits(const struct fold *fold, size_t row, lanes *z) {
    const struct validate_set *set = fold->set;
    lanes sum = fold->weights[set->columns];
    for (size_t i = set->starts[row]; i < set->starts[row + 1]; i++) {
        sum += set->values[i] * fold->weights[set->places[i]];
    }
    *z = sum;
}

/* Takes the step of a row. Its rates are the first rates multiplied by `part`. */
STEPS_BODY void step(struct fold *fold, size_t row, float part) {
    const struct validate_set *set = fold->set;
    const lanes zeros = {0};
    lanes errors;
    logits(fold, row, &errors);
    for (unsigned g = 0; g < GRID; g++) {
        errors[g] = part * (1 / (1 + expf(-errors[g])) - (float)set->labels[row]);
    }
    lanes shrinking = part * fold->lambdas;
    for (size_t i = set->starts[row]; i < set->starts[row + 1]; i++) {
        lanes *w = &fold->weights[set->places[i]];
        struct column_pace pace = fold->paces[set->places[i]];
        lanes kept = 1 - pace.decay * shrinking;
        kept = (lanes)((__typeof__(kept > zeros))kept & (kept > zeros)); /* at least 0 */
        *w = kept * *w - pace.rate * set->values[i] * errors;
    }
    fold->weights[set->columns] -= fold->paces[set->columns].rate * errors;
}

/* Passes over the kept rows, while the rates fall linearly to 0. */
STEPS_BODY void train_body(struct fold *fold) {
    size_t passes = (STEPS_MIN + fold->kept - 1) / fold->kept;
    passes = passes > PASSES_MIN ? passes : PASSES_MIN;
    passes = passes < PASSES_MAX ? passes : PASSES_MAX;
    double steps = (double)passes * (double)fold->kept;
    double done = 0;
    for (size_t p = 0; p < passes; p++) {
        for (size_t r = 0; r < fold->set->rows; r++) {
            if (!left_out(fold, r)) {
                step(fold, r, (float)(1 - done / steps));
                done++;
            }
        }
    }
}

static void train_portable(struct fold *fold) {
    train_body(fold);
}

#if defined(__x86_64__)
/* Without FMA, so the result is the same as elsewhere. */
__attribute__((target("avx2"))) static void train_avx2(struct fold *fold) {
    train_body(fold);
}
#endif

static void train(struct fold *fold) {
#if defined(__x86_64__)
    __builtin_cpu_init();
    if (__builtin_cpu_supports("avx2")) {
        train_avx2(fold);
        return;
    }
#endif
    train_portable(fold);
}

/* ---- Losses ---- */

static double loss_of(double logit, uint32_t label) {
    double z = label == 1 ? -logit : logit;
    return z > 0 ? z + log1p(exp(-z)) : log1p(exp(z));
}

/* Adds the losses on the left-out rows: those of each C to losses[], that of the constant model to *constant. */
static void add_losses(const struct fold *fold, double losses[GRID], double *constant) {
    const struct validate_set *set = fold->set;
    double logit = constant_logit(fold);
    for (size_t r = fold->number; r < set->rows; r += fold->folds) {
        lanes z;
        logits(fold, r, &z);
        for (unsigned g = 0; g < GRID; g++) {
            losses[g] += loss_of((double)z[g], set->labels[r]);
        }
        *constant += loss_of(logit, set->labels[r]);
    }
}

/* Returns the place of the least loss in the grid, between grid points by a parabola. */
static double least_at(const double losses[GRID]) {
    unsigned best = 0;
    for (unsigned g = 1; g < GRID; g++) {
        best = losses[g] < losses[best] ? g : best;
    }
    if (best == 0 || best == GRID - 1) {
        return best;
    }
    double before = losses[best - 1] - losses[best];
    double after = losses[best + 1] - losses[best];
    return before + after > 0 ? best + (before - after) / (before + after) / 2 : best;
}

bool validate_by_steps(const struct validate_set *set, const struct validate_pace *pace, struct validated *result) {
    double losses[GRID] = {0};
    double constant = 0;
    size_t tested = 0;
    if (set->rows < 2 || set->classes != 2) {
        return false;
    }
    size_t most = set->rows < FEW_ROWS ? FOLDS_OF_FEW : FOLDS;
    struct fold fold = {.set = set,
                        .folds = most < set->rows ? most : set->rows,
                        .weights = memory_zeroed((size_t)set->columns + 1, sizeof *fold.weights),
                        .paces = memory_zeroed((size_t)set->columns + 1, sizeof *fold.paces)};
    for (size_t number = 0; number < fold.folds && tested < ENOUGH_TESTED; number++) {
        begin(&fold, number, pace);
        train(&fold);
        add_losses(&fold, losses, &constant);
        tested += set->rows - fold.kept;
    }
    free(fold.weights);
    free(fold.paces);
    double at = least_at(losses);
    *result = (struct validated){
        .c = grid_c(at), .loss = losses[(size_t)round(at)] / (double)tested, .constant = constant / (double)tested};
    return true;
}
