/* For tests: controls the emulated device. */
#ifndef TESTS_CUDA_EMULATION_H
#define TESTS_CUDA_EMULATION_H

#include <stdbool.h>
#include <stddef.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Whether queued work runs at once or, as at first, only when someone waits for it. */
void emulation_set_eager(bool eager);
/* Makes one call of the API fail: the next call has number 1; 0: none. A call that allocates fails for lack of
 * memory. */
void emulation_fail(unsigned call);
/* Sets the device's free memory. Its first value is that of the environment variable EMULATED_MEMORY. */
void emulation_set_memory(size_t bytes);
/* Returns how many objects, device allocations and pinned allocations are not freed. */
size_t emulation_left(void);

#ifdef __cplusplus
}
#endif

#endif
