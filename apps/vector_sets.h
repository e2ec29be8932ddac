/* Includes the loops in the file VECTOR_LOOPS once for each set of vectors.h; with VECTOR_WIDE_ALONE not for
 * `portable`. The loops define functions called SET(name). No include guard: a template over VECTOR_LOOPS. */
#include "apps/vectors.h"

#define SET_JOIN_(a, b) a##_##b
#define SET_JOIN(a, b)  SET_JOIN_(a, b)
#define SET(name)       SET_JOIN(VECTOR_SET, name)

#if !defined(VECTOR_WIDE_ALONE)
#define VECTOR_SET   portable
#define VECTOR_LANES 4
#define VECTOR_TARGET
#include VECTOR_LOOPS
#undef VECTOR_SET
#undef VECTOR_LANES
#undef VECTOR_TARGET
#endif

#if defined(__x86_64__)
#define VECTOR_SET    avx2
#define VECTOR_LANES  8
#define VECTOR_TARGET VECTOR_AVX2
#include VECTOR_LOOPS
#undef VECTOR_SET
#undef VECTOR_LANES
#undef VECTOR_TARGET
#define VECTOR_SET    avx512
#define VECTOR_LANES  16
#define VECTOR_TARGET VECTOR_AVX512
#include VECTOR_LOOPS
#undef VECTOR_SET
#undef VECTOR_LANES
#undef VECTOR_TARGET
#endif
