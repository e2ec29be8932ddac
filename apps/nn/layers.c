/* See layers.h: the layers without matrix products. The loops over channels and values are plain, so that compilers
 * vectorize them. */
#include "apps/nn/layers.h"

#include "agileml/base/hash.h"

#include <assert.h>
#include <math.h>
#include <string.h>

/* ---- Max-pool ---- */

/* Finds the maxima of the window whose upper left pixel is x[channels]. */
static void pool_window(const struct nn_pool *pool, const float *x, float *restrict y, unsigned char *restrict at) {
    size_t channels = pool->channels;
    memcpy(y, x, channels * sizeof *y);
    memset(at, 0, channels);
    for (size_t place = 1; place < pool->size * pool->size; place++) {
        const float *from = x + (place / pool->size * pool->width + place % pool->size) * channels;
        for (size_t c = 0; c < channels; c++) {
            at[c] = from[c] > y[c] ? (unsigned char)place : at[c];
        }
        for (size_t c = 0; c < channels; c++) {
            y[c] = from[c] > y[c] ? from[c] : y[c];
        }
    }
}

void nn_pool_forward(const struct nn_pool *pool, const float *x, size_t n, float *y, unsigned char *at) {
    size_t height = pool->height / pool->size;
    size_t width = pool->width / pool->size;
    size_t channels = pool->channels;
    assert(pool->size <= NN_POOL_MAX);
    for (size_t r = 0; r < n * height; r++) {
        const float *row = x + (r / height * pool->height + r % height * pool->size) * pool->width * channels;
        for (size_t q = 0; q < width; q++) {
            size_t to = (r * width + q) * channels;
            pool_window(pool, row + q * pool->size * channels, y + to, at + to);
        }
    }
}

static void unpool_window(const struct nn_pool *pool, const float *restrict dy, const unsigned char *restrict at,
                          float *restrict dx) {
    size_t channels = pool->channels;
    for (size_t place = 0; place < pool->size * pool->size; place++) {
        float *to = dx + (place / pool->size * pool->width + place % pool->size) * channels;
        for (size_t c = 0; c < channels; c++) {
            to[c] = at[c] == place ? dy[c] : 0;
        }
    }
}

void nn_pool_backward(const struct nn_pool *pool, const float *dy, const unsigned char *at, size_t n, float *dx) {
    size_t height = pool->height / pool->size;
    size_t width = pool->width / pool->size;
    size_t channels = pool->channels;
    if (pool->height % pool->size != 0 || pool->width % pool->size != 0) {
        memset(dx, 0, n * pool->height * pool->width * channels * sizeof *dx);
    }
    for (size_t r = 0; r < n * height; r++) {
        float *row = dx + (r / height * pool->height + r % height * pool->size) * pool->width * channels;
        for (size_t q = 0; q < width; q++) {
            size_t from = (r * width + q) * channels;
            unpool_window(pool, dy + from, at + from, row + q * pool->size * channels);
        }
    }
}

/* ---- Functions of single values ---- */

void nn_biases_forward(const struct nn_dense *dense, const float *w, size_t n, float *y) {
    for (size_t s = 0; s < n; s++) {
        memcpy(y + s * dense->out, w + dense->in * dense->out, dense->out * sizeof *y);
    }
}

void nn_biases_backward(const struct nn_dense *dense, const float *dy, size_t n, float scale, float *dw) {
    float *db = dw + dense->in * dense->out;
    for (size_t s = 0; s < n; s++) {
        for (size_t o = 0; o < dense->out; o++) {
            db[o] += scale * dy[s * dense->out + o];
        }
    }
}

void nn_relu_forward(float *values, size_t count) {
    for (size_t i = 0; i < count; i++) {
        values[i] = values[i] < 0 ? 0 : values[i]; /* NaN stays NaN */
    }
}

void nn_relu_backward(const float *restrict y, float *restrict dy, size_t count) {
    for (size_t i = 0; i < count; i++) {
        dy[i] = y[i] <= 0 ? 0 : dy[i];
    }
}

void nn_dropout(float *values, size_t count, uint64_t key, float drop) {
    uint64_t start = hash_mix(key);
    uint32_t limit = (uint32_t)((double)drop * 0x1p32);
    float factor = 1 / (1 - drop);
    assert(drop >= 0 && drop < 1);
    for (size_t i = 0; i < count; i += 2) {
        uint64_t bits = hash_mix(start + i); /* random bits for two values */
        values[i] = (uint32_t)bits < limit ? 0 : values[i] * factor;
        if (i + 1 < count) {
            values[i + 1] = (uint32_t)(bits >> 32) < limit ? 0 : values[i + 1] * factor;
        }
    }
}

/* ---- Layer norm ---- */

struct moments {
    float mean, scale; /* scale: 1 / standard deviation */
};

static struct moments moments_of(const float *x, size_t size) {
    float mean = 0;
    float variance = 0;
    for (size_t i = 0; i < size; i++) {
        mean += x[i];
    }
    mean /= (float)size;
    for (size_t i = 0; i < size; i++) {
        variance += (x[i] - mean) * (x[i] - mean);
    }
    return (struct moments){.mean = mean, .scale = 1 / sqrtf(variance / (float)size + NN_NORM_EPSILON)};
}

void nn_norm_forward(const float *x, const float *scales, size_t n, size_t size, float *y) {
    const float *gain = scales;
    const float *bias = scales + size;
    for (size_t s = 0; s < n; s++, x += size, y += size) {
        struct moments m = moments_of(x, size);
        for (size_t i = 0; i < size; i++) {
            y[i] = (x[i] - m.mean) * m.scale * gain[i] + bias[i];
        }
    }
}

/* With the normalized values h = (x - mean) scale and e = gain dy:  dx = scale (e - mean(e) - h mean(e h)). */
void nn_norm_backward(const float *x, const float *scales, const float *dy, size_t n, size_t size, float *dscales,
                      float *dx) {
    const float *gain = scales;
    float *dgain = dscales;
    float *dbias = dscales + size;
    for (size_t s = 0; s < n; s++, x += size, dy += size, dx += size) {
        struct moments m = moments_of(x, size);
        float e_mean = 0;
        float eh_mean = 0;
        for (size_t i = 0; i < size; i++) {
            float h = (x[i] - m.mean) * m.scale;
            dgain[i] += dy[i] * h;
            dbias[i] += dy[i];
            e_mean += gain[i] * dy[i];
            eh_mean += gain[i] * dy[i] * h;
        }
        e_mean /= (float)size;
        eh_mean /= (float)size;
        for (size_t i = 0; i < size; i++) {
            float h = (x[i] - m.mean) * m.scale;
            dx[i] = m.scale * (gain[i] * dy[i] - e_mean - h * eh_mean);
        }
    }
}

/* ---- Softmax and cross-entropy ---- */

void nn_softmax_forward(float *z, const uint32_t *labels, size_t n, size_t classes, struct nn_loss *loss) {
    for (size_t s = 0; s < n; s++, z += classes) {
        size_t best = 0;
        float sum = 0;
        for (size_t k = 1; k < classes; k++) {
            best = z[k] > z[best] ? k : best;
        }
        float largest = z[best];
        float of_label = z[labels[s]];
        for (size_t k = 0; k < classes; k++) {
            z[k] = expf(z[k] - largest);
            sum += z[k];
        }
        for (size_t k = 0; k < classes; k++) {
            z[k] /= sum;
        }
        loss->loss += (double)(logf(sum) + (largest - of_label));
        loss->correct += best == labels[s];
    }
}

void nn_softmax_backward(float *p, const uint32_t *labels, size_t n, size_t classes) {
    for (size_t s = 0; s < n; s++) {
        p[s * classes + labels[s]] -= 1;
    }
}
