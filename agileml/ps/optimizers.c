/* The ready functions for aml_table.apply. See agileml/optimizers.h. */
#include "agileml/optimizers.h"

#include <assert.h>
#include <float.h>
#include <math.h>
#include <stdbool.h>

/* Plain loops over restrict pointers, once for each type, which the compiler vectorises. This file is compiled with
 * -fno-math-errno, as a sqrt that sets errno prevents vectorising. All numbers have the table's type, so that floats
 * are not converted to doubles.
 *
 * A mean that only decays is set to 0 where it would become subnormal. Otherwise it would stay subnormal for ever, as
 * 0.9 times the smallest number is rounded to that number. Arithmetic with subnormal numbers is many times slower. */
#define OPTIMIZERS(name, type, smallest, root, absolute, sign_of)                                                      \
    static void momentum_##name(const struct aml_step *step, const struct aml_momentum *parameters) {                  \
        type *restrict w = step->row;                                                                                  \
        type *restrict v = step->state;                                                                                \
        const type *restrict g = step->sum;                                                                            \
        const type rate = (type)parameters->rate;                                                                      \
        const type momentum = (type)parameters->momentum;                                                              \
        const type l2 = (type)parameters->l2;                                                                          \
        const type now = parameters->nesterov ? (type)1 : (type)0;                                                     \
        const type kept = parameters->nesterov ? momentum : (type)1;                                                   \
        for (uint32_t i = 0; i < step->width; i++) {                                                                   \
            type gradient = g[i] + l2 * w[i];                                                                          \
            type next = momentum * v[i] + gradient;                                                                    \
            v[i] = absolute(next) < smallest ? 0 : next;                                                               \
            w[i] -= rate * (now * gradient + kept * v[i]);                                                             \
        }                                                                                                              \
    }                                                                                                                  \
    static void adagrad_##name(const struct aml_step *step, const struct aml_adagrad *parameters) {                    \
        type *restrict w = step->row;                                                                                  \
        type *restrict n = step->state;                                                                                \
        const type *restrict g = step->sum;                                                                            \
        const type rate = (type)parameters->rate;                                                                      \
        const type l2 = (type)parameters->l2;                                                                          \
        const type initial = (type)parameters->initial;                                                                \
        const type epsilon = (type)parameters->epsilon;                                                                \
        for (uint32_t i = 0; i < step->width; i++) {                                                                   \
            type gradient = g[i] + l2 * w[i];                                                                          \
            n[i] += gradient * gradient;                                                                               \
            w[i] -= rate * gradient / (root(n[i] + initial) + epsilon);                                                \
        }                                                                                                              \
    }                                                                                                                  \
    static void adam_##name(const struct aml_step *step, const struct aml_adam *parameters) {                          \
        type *restrict w = step->row;                                                                                  \
        type *restrict m = step->state;                                                                                \
        type *restrict v = m + step->width;                                                                            \
        type *restrict corrections = v + step->width;                                                                  \
        const type *restrict g = step->sum;                                                                            \
        const type beta1 = (type)parameters->beta1;                                                                    \
        const type beta2 = (type)parameters->beta2;                                                                    \
        const type rest1 = (type)(1 - parameters->beta1);                                                              \
        const type rest2 = (type)(1 - parameters->beta2);                                                              \
        const type epsilon = (type)parameters->epsilon;                                                                \
        const type l2 = (type)parameters->l2;                                                                          \
        /* 1 - beta^t from 1 - beta^(t - 1): begins with 0, like all state, and needs no power. */                     \
        corrections[0] += (1 - corrections[0]) * rest1;                                                                \
        corrections[1] += (1 - corrections[1]) * rest2;                                                                \
        const type rate1 = (type)(parameters->rate / (double)corrections[0]);                                          \
        const type scale2 = (type)(1 / (double)corrections[1]);                                                        \
        for (uint32_t i = 0; i < step->width; i++) {                                                                   \
            type gradient = g[i] + l2 * w[i];                                                                          \
            type mean = beta1 * m[i] + rest1 * gradient;                                                               \
            type square = beta2 * v[i] + rest2 * gradient * gradient;                                                  \
            bool ends = absolute(mean) < smallest;                                                                     \
            m[i] = ends ? 0 : mean;                                                                                    \
            v[i] = ends && square < smallest ? 0 : square; /* m is divided by its root */                              \
            w[i] -= rate1 * m[i] / (root(v[i] * scale2) + epsilon);                                                    \
        }                                                                                                              \
    }                                                                                                                  \
    static void ftrl_##name(const struct aml_step *step, const struct aml_ftrl *parameters) {                          \
        type *restrict w = step->row;                                                                                  \
        type *restrict z = step->state;                                                                                \
        type *restrict n = z + step->width;                                                                            \
        const type *restrict g = step->sum;                                                                            \
        const type inverse = (type)(1 / parameters->alpha);                                                            \
        const type beta = (type)parameters->beta;                                                                      \
        const type l1 = (type)parameters->l1;                                                                          \
        const type l2 = (type)parameters->l2;                                                                          \
        for (uint32_t i = 0; i < step->width; i++) {                                                                   \
            type before = root(n[i]);                                                                                  \
            n[i] += g[i] * g[i];                                                                                       \
            type after = root(n[i]);                                                                                   \
            z[i] += g[i] - (after - before) * inverse * w[i];                                                          \
            type size = absolute(z[i]) - l1;                                                                           \
            size = size > 0 ? size : 0;                                                                                \
            w[i] = -sign_of(size / ((beta + after) * inverse + l2), z[i]);                                             \
        }                                                                                                              \
    }
OPTIMIZERS(float32, float, FLT_MIN, sqrtf, fabsf, copysignf)
OPTIMIZERS(float64, double, DBL_MIN, sqrt, fabs, copysign)

#define OPTIMIZER(name, elements)                                                                                      \
    void aml_apply_##name(const struct aml_step *step, const void *parameters) {                                       \
        assert(step->type == AML_FLOAT32 || step->type == AML_FLOAT64);                                                \
        assert(step->state != NULL && step->state_width == (elements)(step->width));                                   \
        (step->type == AML_FLOAT32 ? name##_float32 : name##_float64)(step, parameters);                               \
    }
OPTIMIZER(momentum, aml_momentum_state)
OPTIMIZER(adagrad, aml_adagrad_state)
OPTIMIZER(adam, aml_adam_state)
OPTIMIZER(ftrl, aml_ftrl_state)
