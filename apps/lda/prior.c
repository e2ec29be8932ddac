/* See prior.h. */
#include "apps/lda/prior.h"

#include <math.h>

static const double UNIT = 65536;

double lda_digamma(double x) {
    double result = 0;
    for (; x < 8; x += 1) { /* digamma(x) = digamma(x + 1) - 1 / x */
        result -= 1 / x;
    }
    double y = 1 / (x * x); /* the asymptotic series */
    return result + log(x) - 0.5 / x - y * (1.0 / 12 - y * (1.0 / 120 - y * (1.0 / 252 - y * (1.0 / 240))));
}

/* Returns digamma(n + x) - digamma(x). */
static double difference(double x, uint32_t n) {
    double sum = 0;
    if (n > 16) {
        return lda_digamma(n + x) - lda_digamma(x);
    }
    for (uint32_t i = 0; i < n; i++) {
        sum += 1 / (x + i);
    }
    return sum;
}

void lda_spread_add(struct lda_spread *spread, double alpha, uint32_t topics, const uint32_t *counts, uint32_t count) {
    double sum = 0;
    uint32_t tokens = 0;
    for (uint32_t i = 0; i < count; i++) {
        sum += difference(alpha, counts[i]);
        tokens += counts[i];
    }
    spread->topics += (int64_t)(sum * UNIT);
    spread->tokens += (int64_t)(difference(alpha * topics, tokens) * UNIT);
}

double lda_alpha_next(double alpha, uint32_t topics, const struct lda_spread *spread) {
    if (spread->tokens <= 0 || spread->topics <= 0) {
        return alpha;
    }
    double next = alpha * (double)spread->topics / ((double)topics * (double)spread->tokens);
    return fmin(fmax(next, LDA_ALPHA_MIN), LDA_ALPHA_MAX);
}
