/* See validate.h. */
#include "apps/mlr/validate.h"

#include "agileml/base/memory.h"
#include "apps/mlr/kernel.h"
#include "apps/mlr/narrow.h"

#include <cblas.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

enum {
    STEPS_MAX = 15,     /* steps of L-BFGS for each C */
    HISTORY = 8,        /* pairs that L-BFGS stores */
    BACKTRACKS_MAX = 8, /* steps back in a line search */
    GRID_FIRST = -4,    /* C = 10^-4 to 10^3 */
    GRID_LAST = 3,
    WORSE_MAX = 2,         /* after this many worse C in a row, larger C are not tried */
    FACTORED_MAX = 2048,   /* most rows whose Gram matrix is factored */
    POWER_STEPS = 30,      /* steps of the power iteration */
    CURVATURE_ROWS = 2000, /* most rows in the power iteration */
};

/* Most products of a cross-validation; folds beyond are left out. */
static const double WORK_MAX = 1.5e10;
/* Most products of a single fold; if it needs more, there is no cross-validation. */
static const double FOLD_WORK_MAX = 2e11;

/* The samples as a matrix X: dense, or sparse as in the set. */
struct matrix {
    size_t rows;
    uint32_t columns, classes;
    const uint32_t *labels;
    float *dense;              /* [rows][columns]; NULL: sparse */
    struct mlr_sparse *sparse; /* [rows] */
    struct mlr_kernel kernel;
    bool with_narrow; /* dense, few classes */
    struct mlr_narrow narrow;
    float *scratch; /* narrow's */
};

/* Returns the number of weights: W [columns][classes], then the biases [classes]. */
static size_t weight_count(const struct matrix *x) {
    return ((size_t)x->columns + 1) * x->classes;
}

/* ---- The matrix ---- */

static void fill_dense(const struct validate_set *set, float *dense, size_t columns) {
    for (size_t r = 0; r < set->rows; r++) {
        for (size_t i = set->starts[r]; i < set->starts[r + 1]; i++) {
            dense[r * columns + set->places[i]] = set->values[i];
        }
    }
}

static bool is_filled(const struct validate_set *set) {
    return set->starts[set->rows] * 4 >= set->rows * (size_t)set->columns;
}

/* Sets the lower triangle of gram[rows][rows] to X X'. */
static void make_dense_gram(const struct validate_set *set, double *gram) {
    double *dense = memory_zeroed(set->rows * set->columns, sizeof *dense);
    for (size_t r = 0; r < set->rows; r++) {
        for (size_t i = set->starts[r]; i < set->starts[r + 1]; i++) {
            dense[r * set->columns + set->places[i]] = (double)set->values[i];
        }
    }
    cblas_dsyrk(CblasRowMajor, CblasLower, CblasNoTrans, (blasint)set->rows, (blasint)set->columns, 1, dense,
                (blasint)set->columns, 0, gram, (blasint)set->rows);
    free(dense);
}

/* Like make_dense_gram, for samples with mostly zeros. */
static void make_sparse_gram(const struct validate_set *set, double *gram) {
    float *row = memory_zeroed((size_t)set->columns + 1, sizeof *row);
    for (size_t r = 0; r < set->rows; r++) {
        for (size_t i = set->starts[r]; i < set->starts[r + 1]; i++) {
            row[set->places[i]] = set->values[i];
        }
        for (size_t other = 0; other <= r; other++) {
            double sum = 0;
            for (size_t i = set->starts[other]; i < set->starts[other + 1]; i++) {
                sum += (double)set->values[i] * (double)row[set->places[i]];
            }
            gram[r * set->rows + other] = sum;
        }
        for (size_t i = set->starts[r]; i < set->starts[r + 1]; i++) {
            row[set->places[i]] = 0;
        }
    }
    free(row);
}

/* Replaces the lower triangle of a symmetric matrix by its Cholesky factor. Linearly dependent rows get a small
 * diagonal element (`least`) instead of 0. */
static void factor(double *a, size_t n, double least) {
    for (size_t j = 0; j < n; j++) {
        double *row = a + j * n;
        for (size_t k = 0; k < j; k++) {
            row[k] = (row[k] - cblas_ddot((blasint)k, row, 1, a + k * n, 1)) / a[k * n + k];
        }
        double left = row[j] - cblas_ddot((blasint)j, row, 1, row, 1);
        row[j] = sqrt(left > least ? left : least);
    }
}

/* For more columns than rows: replaces X by R with R R' = X X'. A model's weights are sums of rows, so the possible
 * losses and lengths of the weights stay the same. */
static void make_factored(const struct validate_set *set, struct matrix *x) {
    size_t n = set->rows;
    double *gram = memory_zeroed(n * n, sizeof *gram);
    double trace = 0;
    (is_filled(set) ? make_dense_gram : make_sparse_gram)(set, gram);
    for (size_t r = 0; r < n; r++) {
        trace += gram[r * n + r];
    }
    factor(gram, n, 1e-9 * trace / (double)n + 1e-30);
    x->columns = (uint32_t)n;
    x->dense = memory_zeroed(n * n, sizeof *x->dense);
    for (size_t r = 0; r < n; r++) {
        for (size_t c = 0; c <= r; c++) {
            x->dense[r * n + c] = (float)gram[r * n + c];
        }
    }
    free(gram);
}

/* Whether a step takes less work with R than with X. R costs products with its triangle, forward and backward, as it
 * has no zeros to skip. X costs products with its values, and its steps have vectors as long as there are columns. */
static bool is_factored(const struct validate_set *set) {
    enum { VALUE_WORK = 2, COLUMN_WORK = 12 }; /* relative to the work for a value of R */
    size_t work = VALUE_WORK * set->starts[set->rows] + COLUMN_WORK * (size_t)set->columns;
    return set->columns > set->rows && set->rows <= FACTORED_MAX && set->rows * set->rows < work;
}

static void matrix_make(const struct validate_set *set, struct matrix *x) {
    *x = (struct matrix){.rows = set->rows,
                         .columns = set->columns,
                         .classes = set->classes,
                         .labels = set->labels,
                         .kernel = mlr_kernel_choose()};
    if (is_factored(set)) {
        make_factored(set, x);
    } else if (is_filled(set)) {
        x->dense = memory_zeroed(set->rows * set->columns + 1, sizeof *x->dense);
        fill_dense(set, x->dense, set->columns);
    } else {
        x->sparse = memory_zeroed(set->rows, sizeof *x->sparse);
        for (size_t r = 0; r < set->rows; r++) {
            x->sparse[r] = (struct mlr_sparse){.features = set->places + set->starts[r],
                                               .values = set->values + set->starts[r],
                                               .count = (uint32_t)(set->starts[r + 1] - set->starts[r])};
        }
    }
    x->with_narrow = x->dense != NULL && mlr_narrow_choose(x->columns, x->classes, &x->narrow);
    if (x->with_narrow) {
        x->scratch = memory_zeroed(mlr_narrow_scratch(x->columns, x->classes) + 16, sizeof *x->scratch);
    }
}

static void matrix_close(struct matrix *x) {
    free(x->dense);
    free(x->sparse);
    free(x->scratch);
}

static struct mlr_dense dense_of(const struct matrix *x) {
    return (struct mlr_dense){.samples = x->dense, .stride = x->columns, .count = x->rows, .features = x->columns};
}

/* Computes logits = X W + b. */
static void forward(const struct matrix *x, const float *weights, float *logits) {
    const struct mlr_weights w = {
        .rows = (float *)(uintptr_t)weights, .stride = x->classes, .bias = x->columns, .classes = x->classes};
    const struct mlr_dense dense = dense_of(x);
    if (x->dense == NULL) {
        x->kernel.sparse_logits(&w, x->sparse, x->rows, logits);
    } else if (x->with_narrow) {
        x->narrow.logits(&w, &dense, 0, x->rows, x->scratch, logits);
    } else {
        mlr_dense_logits(&w, &dense, 0, x->rows, logits);
    }
}

/* Computes the gradient: X' E, and the sums of E. */
static void backward(const struct matrix *x, const float *errors, float *gradient) {
    size_t classes = x->classes;
    const struct mlr_weights sums = {.rows = gradient, .stride = classes, .bias = x->columns, .classes = x->classes};
    const struct mlr_step step = {.scale = -1};
    memset(gradient, 0, weight_count(x) * sizeof *gradient);
    if (x->dense != NULL) {
        const struct mlr_dense dense = dense_of(x);
        (x->with_narrow ? x->narrow.update : mlr_dense_update)(&sums, &dense, errors, &step, 0, x->columns);
    }
    for (size_t r = 0; r < x->rows && x->sparse != NULL; r++) {
        for (uint32_t i = 0; i < x->sparse[r].count; i++) {
            float *g = gradient + x->sparse[r].features[i] * classes;
            for (size_t k = 0; k < classes; k++) {
                g[k] += x->sparse[r].values[i] * errors[r * classes + k];
            }
        }
    }
    mlr_bias_update(&sums, errors, x->rows, &step);
}

/* ---- The loss of a fold ---- */

/* A fold: leaves out every `folds`th row, from `number` on. */
struct fold {
    const struct matrix *x;
    size_t number, folds;
    size_t kept;   /* number of rows that are not left out */
    double lambda; /* factor of the regularization relative to the mean loss */
    float *logits; /* [rows][classes] */
};

static bool left_out(const struct fold *fold, size_t row) {
    return row % fold->folds == fold->number;
}

/* Turns the logits of rows first..end-1 into errors, and returns the sum of their losses. */
static double losses(const struct fold *fold, size_t first, size_t end) {
    struct nn_loss loss = {0};
    fold->x->kernel.softmax(fold->logits + first * fold->x->classes, fold->x->labels + first, end - first,
                            fold->x->classes, &loss);
    return loss.loss;
}

/* Returns the objective at `weights`, and computes its gradient. */
static double objective(const struct fold *fold, const float *weights, float *gradient) {
    const struct matrix *x = fold->x;
    size_t regularized = (size_t)x->columns * x->classes;
    double sum = 0;
    forward(x, weights, fold->logits);
    for (size_t r = 0; r < x->rows; r++) {
        if (left_out(fold, r)) {
            memset(fold->logits + r * x->classes, 0, x->classes * sizeof *fold->logits);
        }
    }
    for (size_t first = 0; first < x->rows;) { /* a range of rows between two that are left out */
        size_t end = first;
        while (end < x->rows && !left_out(fold, end)) {
            end++;
        }
        sum += first < end ? losses(fold, first, end) : 0;
        first = end + 1;
    }
    backward(x, fold->logits, gradient);
    double squares = cblas_dsdot((blasint)regularized, weights, 1, weights, 1);
    float scale = (float)(1 / (double)fold->kept);
    for (size_t i = 0; i < weight_count(x); i++) {
        gradient[i] = gradient[i] * scale + (i < regularized ? (float)fold->lambda * weights[i] : 0);
    }
    return sum / (double)fold->kept + fold->lambda / 2 * squares;
}

/* Returns the sum of the losses of the left-out rows. */
static double loss_left_out(const struct fold *fold, const float *weights) {
    double sum = 0;
    forward(fold->x, weights, fold->logits);
    for (size_t r = fold->number; r < fold->x->rows; r += fold->folds) {
        sum += losses(fold, r, r + 1);
    }
    return sum;
}

/* ---- L-BFGS ---- */

struct lbfgs {
    size_t size;
    float *weights, *gradient, *next, *next_gradient, *direction; /* [size] */
    float *moves[HISTORY], *changes[HISTORY];                     /* [size] of weights, and of gradients */
    double products[HISTORY];                                     /* move . change, above 0 */
    unsigned count, newest;
};

static void lbfgs_open(struct lbfgs *l, size_t size) {
    float **all[] = {&l->weights, &l->gradient, &l->next, &l->next_gradient, &l->direction};
    *l = (struct lbfgs){.size = size};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) {
        *all[i] = memory_zeroed(size, sizeof(float));
    }
    for (unsigned h = 0; h < HISTORY; h++) {
        l->moves[h] = memory_zeroed(size, sizeof(float));
        l->changes[h] = memory_zeroed(size, sizeof(float));
    }
}

static void lbfgs_close(struct lbfgs *l) {
    float *all[] = {l->weights, l->gradient, l->next, l->next_gradient, l->direction};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) {
        free(all[i]);
    }
    for (unsigned h = 0; h < HISTORY; h++) {
        free(l->moves[h]);
        free(l->changes[h]);
    }
}

static double dot(const struct lbfgs *l, const float *a, const float *b) {
    return cblas_dsdot((blasint)l->size, a, 1, b, 1);
}

static void add(const struct lbfgs *l, double factor_of_a, const float *a, float *to) {
    cblas_saxpy((blasint)l->size, (float)factor_of_a, a, 1, to, 1);
}

/* The two loops of L-BFGS: direction = -H gradient. `first` is the factor of the gradient when no pairs are stored. */
static void find_direction(struct lbfgs *l, double first) {
    double alphas[HISTORY];
    for (size_t i = 0; i < l->size; i++) {
        l->direction[i] = -l->gradient[i];
    }
    for (unsigned n = 0; n < l->count; n++) {
        unsigned h = (l->newest + HISTORY - n) % HISTORY;
        alphas[h] = dot(l, l->moves[h], l->direction) / l->products[h];
        add(l, -alphas[h], l->changes[h], l->direction);
    }
    double scale = first;
    if (l->count > 0) {
        scale = l->products[l->newest] / dot(l, l->changes[l->newest], l->changes[l->newest]);
    }
    cblas_sscal((blasint)l->size, (float)scale, l->direction, 1);
    for (unsigned n = l->count; n-- > 0;) {
        unsigned h = (l->newest + HISTORY - n) % HISTORY;
        double beta = dot(l, l->changes[h], l->direction) / l->products[h];
        add(l, alphas[h] - beta, l->moves[h], l->direction);
    }
}

/* Stores the step from `weights` to `next`. */
static void remember(struct lbfgs *l) {
    unsigned h = l->count > 0 ? (l->newest + 1) % HISTORY : 0;
    for (size_t i = 0; i < l->size; i++) {
        l->moves[h][i] = l->next[i] - l->weights[i];
        l->changes[h][i] = l->next_gradient[i] - l->gradient[i];
    }
    double product = dot(l, l->moves[h], l->changes[h]);
    if (product > 1e-30) {
        l->products[h] = product;
        l->newest = h;
        l->count += l->count < HISTORY;
    }
}

static void swap(float **a, float **b) {
    float *kept = *a;
    *a = *b;
    *b = kept;
}

/* Minimizes the fold's objective, starting at l->weights. */
static void minimize(struct lbfgs *l, const struct fold *fold, double first) {
    double now = objective(fold, l->weights, l->gradient);
    l->count = 0;
    for (unsigned step = 0; step < STEPS_MAX; step++) {
        find_direction(l, first);
        double slope = dot(l, l->gradient, l->direction);
        if (!(slope < -1e-9 * fabs(now))) {
            return;
        }
        double length = 1;
        double then = now;
        unsigned tries = 0;
        for (; tries < BACKTRACKS_MAX; tries++, length /= 3) {
            memcpy(l->next, l->weights, l->size * sizeof *l->next);
            add(l, length, l->direction, l->next);
            then = objective(fold, l->next, l->next_gradient);
            if (then <= now + 1e-4 * length * slope) {
                break;
            }
        }
        if (tries == BACKTRACKS_MAX) {
            return;
        }
        remember(l);
        swap(&l->weights, &l->next);
        swap(&l->gradient, &l->next_gradient);
        bool little = now - then < 1e-6 * fabs(now);
        now = then;
        if (little) {
            return;
        }
    }
}

/* ---- Cross-validation ---- */

double validate_lambda(double c, double samples, uint32_t classes) {
    return (classes == 2 ? 2 : 1) / (c * samples);
}

/* Sets biases[classes] to the logarithms of the classes' shares among the kept rows. */
static void share_biases(const struct fold *fold, float *biases) {
    const struct matrix *x = fold->x;
    double *counts = memory_zeroed(x->classes, sizeof *counts);
    for (size_t r = 0; r < x->rows; r++) {
        counts[x->labels[r]] += left_out(fold, r) ? 0 : 1;
    }
    for (uint32_t k = 0; k < x->classes; k++) {
        biases[k] = (float)log((counts[k] + 0.5) / ((double)fold->kept + 0.5 * x->classes));
    }
    free(counts);
}

static double mean_square(const struct validate_set *set) {
    double squares = 0;
    for (size_t i = 0; i < set->starts[set->rows]; i++) {
        squares += (double)set->values[i] * (double)set->values[i];
    }
    return squares / (double)set->rows;
}

static size_t folds_of(size_t rows) {
    return rows < 20 ? rows : rows < 500 ? 10 : rows < 2000 ? 5 : 3;
}

/* A fold's state along the grid: each C starts at the weights of the C before. */
struct way {
    struct fold fold;
    struct lbfgs lbfgs;
};

bool validate(const struct validate_set *set, struct validated *result) {
    struct matrix x;
    *result = (struct validated){.c = 1, .loss = INFINITY};
    if (set->rows < 2 || set->classes < 2) {
        return false;
    }
    nn_blas_begin();
    matrix_make(set, &x);
    double stored = x.dense != NULL ? (double)x.rows * x.columns : (double)set->starts[set->rows];
    size_t folds = folds_of(x.rows);
    double each = 2.0 * stored * x.classes * STEPS_MAX * (GRID_LAST - GRID_FIRST + 1);
    if (each > FOLD_WORK_MAX) {
        matrix_close(&x);
        return false;
    }
    size_t rounds = (size_t)fmin(fmax(WORK_MAX / each, 1), (double)folds);
    float *logits = memory_zeroed(x.rows * x.classes, sizeof *logits);
    struct way *ways = memory_zeroed(rounds, sizeof *ways);
    size_t tested = 0;
    double first = 1 / (0.25 * (1 + mean_square(set)));
    for (size_t f = 0; f < rounds; f++) {
        size_t out = (x.rows - f + folds - 1) / folds;
        ways[f].fold = (struct fold){.x = &x, .number = f, .folds = folds, .kept = x.rows - out, .logits = logits};
        lbfgs_open(&ways[f].lbfgs, weight_count(&x));
        share_biases(&ways[f].fold, ways[f].lbfgs.weights + (size_t)x.columns * x.classes);
        result->constant += loss_left_out(&ways[f].fold, ways[f].lbfgs.weights);
        tested += out;
    }
    result->constant /= (double)tested;
    unsigned worse = 0;
    for (int power = GRID_FIRST; power <= GRID_LAST && worse < WORSE_MAX; power++) {
        double c = pow(10, power);
        double loss = 0;
        for (size_t f = 0; f < rounds; f++) {
            struct way *way = &ways[f];
            way->fold.lambda = validate_lambda(c, (double)way->fold.kept, x.classes);
            minimize(&way->lbfgs, &way->fold, fmin(first, 1 / way->fold.lambda));
            loss += loss_left_out(&way->fold, way->lbfgs.weights);
        }
        loss /= (double)tested;
        bool useful = result->loss < result->constant; /* otherwise even the least C is no better than the constant */
        worse = loss < result->loss || !useful ? 0 : worse + 1;
        if (loss < result->loss) {
            result->loss = loss;
            result->c = c;
        }
    }
    for (size_t f = 0; f < rounds; f++) {
        lbfgs_close(&ways[f].lbfgs);
    }
    free(ways);
    free(logits);
    matrix_close(&x);
    return true;
}

double validate_curvature(const struct validate_set *set) {
    size_t rows = set->rows < CURVATURE_ROWS ? set->rows : CURVATURE_ROWS;
    double *vector = memory_zeroed((size_t)set->columns + 1, sizeof *vector);
    double *next = memory_zeroed((size_t)set->columns + 1, sizeof *next);
    double value = 0;
    for (uint32_t c = 0; c <= set->columns; c++) {
        vector[c] = 1 / sqrt((double)set->columns + 1);
    }
    for (unsigned step = 0; step < POWER_STEPS && rows > 0; step++) {
        memset(next, 0, ((size_t)set->columns + 1) * sizeof *next);
        for (size_t r = 0; r < rows; r++) {
            double product = vector[set->columns];
            for (size_t i = set->starts[r]; i < set->starts[r + 1]; i++) {
                product += (double)set->values[i] * vector[set->places[i]];
            }
            for (size_t i = set->starts[r]; i < set->starts[r + 1]; i++) {
                next[set->places[i]] += product * (double)set->values[i] / (double)rows;
            }
            next[set->columns] += product / (double)rows;
        }
        value = cblas_dnrm2((blasint)(set->columns + 1), next, 1);
        for (uint32_t c = 0; c <= set->columns && value > 0; c++) {
            vector[c] = next[c] / value;
        }
    }
    free(vector);
    free(next);
    return value;
}
