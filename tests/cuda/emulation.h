/* For tests: how the emulated device behaves. */
#ifndef TESTS_CUDA_EMULATION_H
#define TESTS_CUDA_EMULATION_H

#include <stdbool.h>
#include <stddef.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Whether what is queued happens at once, or (at first) only when somebody waits for it. */
void emulation_set_eager(bool eager);
/* The call of the API with this number from now on, from 1, fails: of those that allocate memory for lack of it. 0:
 * none. */
void emulation_fail(unsigned call);
/* The device's free memory; at first that of the environment variable EMULATED_MEMORY. */
void emulation_set_memory(size_t bytes);
/* Objects, and memory of the device and pinned memory, that have not been given back. */
size_t emulation_left(void);

#ifdef __cplusplus
}
#endif

#endif
