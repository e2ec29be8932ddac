/* The loops of kernel.h that are not matrix products. They are written once and compiled for each set of instructions;
 * the compiler vectorizes them. */
#include "apps/mlr/kernel.h"

#include "apps/vectors.h"

#include <math.h>
#include <string.h>

/* Returns a value of a sample. */
static inline float value_of(const struct mlr_sparse *sample, uint32_t i) {
    return sample->values != NULL ? sample->values[i] : 1;
}

static inline bool in_part(uint32_t feature, unsigned part, unsigned parts) {
    return feature / MLR_PART_ROWS % parts == part;
}

/* Returns the factor by which L2 shrinks a feature's weights. */
static inline float keep_of(const struct mlr_step *step, const struct mlr_pace *pace) {
    float decay = step->decay * pace->decay;
    return decay < 1 ? 1 - decay : 0;
}

void mlr_sparse_l2(const struct mlr_weights *weights, const struct mlr_weights *sums, const struct mlr_sparse *samples,
                   size_t count, const struct mlr_step *step, unsigned part, unsigned parts) {
    for (size_t s = 0; s < count; s++) {
        for (uint32_t i = 0; i < samples[s].count; i++) {
            uint32_t feature = samples[s].features[i];
            if (parts > 1 && !in_part(feature, part, parts)) {
                continue;
            }
            const float *w = weights->rows + feature * weights->stride;
            float *restrict sum = sums->rows + feature * sums->stride;
            float factor = step->l2 * step->paces[feature].decay;
            for (uint32_t k = 0; k < weights->classes; k++) {
                sum[k] += factor * w[k];
            }
        }
    }
}

/* exp(x) for x <= 0, to about 2 units in the last place; 0 below the smallest normal number. x = n log 2 + r with
 * |r| <= log(2) / 2; A polynomial, the Taylor series, gives exp(r); 2^n is added to the exponent's bits. */
VECTOR_INLINE float exp_body(float x) {
    const float round = 12582912.0F;         /* 1.5 * 2^23: adding it leaves a whole number in the low bits */
    float clipped = x < -87.0F ? -87.0F : x; /* NaN stays NaN */
    float shifted = clipped * 1.44269504F + round;
    float n = shifted - round;
    float r = clipped - n * 0.693359375F;
    r = r + n * 2.12194440e-4F; /* log 2 in two parts, so that n times the first is exact */
    float p = 1.0F / 5040;
    p = p * r + 1.0F / 720;
    p = p * r + 1.0F / 120;
    p = p * r + 1.0F / 24;
    p = p * r + 1.0F / 6;
    p = p * r + 0.5F;
    p = p * r + 1.0F;
    p = p * r + 1.0F;
    uint32_t bits;
    memcpy(&bits, &shifted, sizeof bits);
    bits = (bits + 127U) << 23; /* shifts out the higher bits of 1.5 * 2^23 */
    float power;
    memcpy(&power, &bits, sizeof power);
    return x < -87.0F ? 0 : p * power;
}

/* Subtracts the largest logit from a sample's logits. Counts the sample as correct if its label is the first class
 * with the largest logit. Returns the label's logit minus the largest. */
VECTOR_INLINE double center_body(float *z, uint32_t label, uint32_t classes, struct nn_loss *loss) {
    float largest = z[0];
    for (uint32_t k = 1; k < classes; k++) {
        largest = z[k] > largest ? z[k] : largest;
    }
    float of_label = z[label];
    bool earlier = false; /* a class before the label has the same logit */
    for (uint32_t k = 0; k < label && of_label == largest; k++) {
        earlier = earlier || z[k] == largest;
    }
    for (uint32_t k = 0; k < classes; k++) {
        z[k] -= largest;
    }
    loss->correct += of_label == largest && !earlier;
    return (double)of_label - (double)largest;
}

/* Computes the exponentials of several samples' logits in one loop, as few classes would leave vectors half empty. */
VECTOR_INLINE void softmax_body(float *logits, const uint32_t *labels, size_t count, uint32_t classes,
                                struct nn_loss *loss) {
    enum { TOGETHER = 64 };
    double of_label[TOGETHER]; /* the label's logits minus the largest */
    for (size_t first = 0; first < count; first += TOGETHER) {
        size_t samples = count - first < TOGETHER ? count - first : TOGETHER;
        float *block = logits + first * classes;
        for (size_t s = 0; s < samples; s++) {
            of_label[s] = center_body(block + s * classes, labels[first + s], classes, loss);
        }
        for (size_t i = 0; i < samples * classes; i++) {
            block[i] = exp_body(block[i]);
        }
        for (size_t s = 0; s < samples; s++) {
            float *z = block + s * classes;
            double sum = 0; /* in the order of the classes, so that all processors get the same */
            for (uint32_t k = 0; k < classes; k++) {
                sum += (double)z[k];
            }
            float scale = (float)(1 / sum);
            for (uint32_t k = 0; k < classes; k++) {
                z[k] *= scale;
            }
            z[labels[first + s]] -= 1;
            loss->loss += log(sum) - of_label[s];
        }
    }
}

/* Computes a sample's logits, four rows at a time, so that z is read and written once for four rows. `classes` and
 * `ones` (all values are 1) are constants where specialized code pays. */
VECTOR_INLINE void sample_logits(const struct mlr_weights *weights, const struct mlr_sparse *x, uint32_t classes,
                                 bool ones, float *restrict z) {
    size_t stride = weights->stride;
    memcpy(z, weights->rows + weights->bias * stride, classes * sizeof *z);
    uint32_t i = 0;
    for (; i + 4 <= x->count; i += 4) {
        const float *w0 = weights->rows + x->features[i] * stride;
        const float *w1 = weights->rows + x->features[i + 1] * stride;
        const float *w2 = weights->rows + x->features[i + 2] * stride;
        const float *w3 = weights->rows + x->features[i + 3] * stride;
        const float *v = ones ? NULL : x->values + i;
        for (uint32_t k = 0; k < classes; k++) {
            z[k] += ones ? (w0[k] + w1[k]) + (w2[k] + w3[k])
                         : (v[0] * w0[k] + v[1] * w1[k]) + (v[2] * w2[k] + v[3] * w3[k]);
        }
    }
    for (; i < x->count; i++) {
        const float *w = weights->rows + x->features[i] * stride;
        float v = ones ? 1 : x->values[i];
        for (uint32_t k = 0; k < classes; k++) {
            z[k] += v * w[k];
        }
    }
}

VECTOR_INLINE void sparse_logits_body(const struct mlr_weights *weights, const struct mlr_sparse *samples, size_t count,
                                      float *logits) {
    uint32_t classes = weights->classes;
    for (size_t s = 0; s < count; s++) {
        const struct mlr_sparse *x = &samples[s];
        bool ones = x->values == NULL;
        if (classes == 2 && ones) {
            sample_logits(weights, x, 2, true, logits + s * 2);
        } else if (classes == 2) {
            sample_logits(weights, x, 2, false, logits + s * 2);
        } else {
            sample_logits(weights, x, classes, ones, logits + s * classes);
        }
    }
}

/* Takes the step of a sample with errors e, for its features in `part`. With one part, that is all features. */
VECTOR_INLINE void sample_update(const struct mlr_weights *weights, const struct mlr_sparse *x, const float *restrict e,
                                 uint32_t classes, const struct mlr_step *step, unsigned part, unsigned parts,
                                 unsigned char *restrict touched) {
    for (uint32_t i = 0; i < x->count; i++) {
        uint32_t feature = x->features[i];
        if (parts > 1 && !in_part(feature, part, parts)) {
            continue;
        }
        float *restrict w = weights->rows + feature * weights->stride;
        const struct mlr_pace *pace = &step->paces[feature];
        float v = step->scale * pace->rate * value_of(x, i);
        float keep = keep_of(step, pace);
        for (uint32_t k = 0; k < classes; k++) {
            w[k] = keep * w[k] - v * e[k];
        }
        touched[feature] = 1;
    }
}

VECTOR_INLINE void sparse_update_body(const struct mlr_weights *weights, const struct mlr_sparse *samples,
                                      const float *errors, size_t count, const struct mlr_step *step, unsigned part,
                                      unsigned parts, unsigned char *touched) {
    uint32_t classes = weights->classes;
    float *restrict bias = weights->rows + weights->bias * weights->stride;
    bool with_bias = in_part(weights->bias, part, parts);
    float scale = step->scale * step->paces[weights->bias].rate;
    for (size_t s = 0; s < count; s++) {
        const float *e = errors + s * classes;
        if (classes == 2 && parts == 1) {
            sample_update(weights, &samples[s], e, 2, step, 0, 1, touched);
        } else {
            sample_update(weights, &samples[s], e, classes, step, part, parts, touched);
        }
        for (uint32_t k = 0; k < classes && with_bias; k++) {
            bias[k] -= scale * e[k];
        }
    }
    if (with_bias && count > 0) {
        touched[weights->bias] = 1;
    }
}

#define MLR_VARIANT(name, target)                                                                                      \
    target static void name##_softmax(float *logits, const uint32_t *labels, size_t count, uint32_t classes,           \
                                      struct nn_loss *loss) {                                                          \
        softmax_body(logits, labels, count, classes, loss);                                                            \
    }                                                                                                                  \
    target static void name##_sparse_logits(const struct mlr_weights *weights, const struct mlr_sparse *samples,       \
                                            size_t count, float *logits) {                                             \
        sparse_logits_body(weights, samples, count, logits);                                                           \
    }                                                                                                                  \
    target static void name##_sparse_update(const struct mlr_weights *weights, const struct mlr_sparse *samples,       \
                                            const float *errors, size_t count, const struct mlr_step *step,            \
                                            unsigned part, unsigned parts, unsigned char *touched) {                   \
        sparse_update_body(weights, samples, errors, count, step, part, parts, touched);                               \
    }

MLR_VARIANT(portable, )
#if defined(__x86_64__)
MLR_VARIANT(avx2, VECTOR_AVX2)
#endif

const struct mlr_kernel mlr_kernels[MLR_KERNELS] = {
    {"portable", portable_softmax, portable_sparse_logits, portable_sparse_update},
#if defined(__x86_64__)
    {"avx2", avx2_softmax, avx2_sparse_logits, avx2_sparse_update},
#endif
};
