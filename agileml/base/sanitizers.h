/* Which sanitizers the build has, whether gcc or clang makes it: WITH_TSAN and WITH_ASAN are 1 or 0. */
#ifndef AGILEML_BASE_SANITIZERS_H
#define AGILEML_BASE_SANITIZERS_H

#if defined(__has_feature)
#if __has_feature(thread_sanitizer)
#define WITH_TSAN 1
#endif
#if __has_feature(address_sanitizer)
#define WITH_ASAN 1
#endif
#endif

#if !defined(WITH_TSAN) && defined(__SANITIZE_THREAD__)
#define WITH_TSAN 1
#elif !defined(WITH_TSAN)
#define WITH_TSAN 0
#endif
#if !defined(WITH_ASAN) && defined(__SANITIZE_ADDRESS__)
#define WITH_ASAN 1
#elif !defined(WITH_ASAN)
#define WITH_ASAN 0
#endif

#endif
