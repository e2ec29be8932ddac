/* See cuda_runtime_api.h and emulation.h. Device memory is host memory between two fences of NaN bytes. Freed memory is
 * filled with such bytes and kept until all memory is freed, so that queued work which still uses it shows wrong
 * results. */
#include "emulation.h"
#include "cublas_v2.h"
#include "cuda_runtime.h"

#include <cblas.h>
#include <deque>
#include <map>
#include <memory>
#include <setjmp.h>
#include <stdio.h>
#include <stdlib.h>
#include <ucontext.h>
#include <utility>
#include <vector>

/* ---- Streams and events ---- */

/* An event's recordings are numbered. A waiter waits for the last recording at the time of its call. */
struct CUevent_st {
    cudaStream_t stream = nullptr; /* of the last recording */
    uint64_t recorded = 0, done = 0;
};

struct CUstream_st {
    std::deque<std::function<void()>> queue;
    bool running = false;
};

namespace {

bool eager;
unsigned calls, failing_call;
size_t free_memory = getenv("EMULATED_MEMORY") != nullptr ? strtoul(getenv("EMULATED_MEMORY"), nullptr, 10) : 1 << 30;
size_t objects;
cudaError_t last_error = cudaSuccess;
std::map<unsigned char *, size_t> device_memory, pinned_memory;
std::vector<std::unique_ptr<unsigned char[]>> allocations; /* kept until all memory is freed */
std::vector<cudaStream_t> streams;

/* Releases the memory once no stream or allocation is left that could use it. */
void forget_memory() {
    if (streams.empty() && device_memory.empty() && pinned_memory.empty()) {
        allocations.clear();
    }
}

[[noreturn]] void broken(const char *text) {
    fprintf(stderr, "emulated device: %s\n", text);
    abort();
}

cudaError_t failed(cudaError_t error) {
    last_error = error;
    return error;
}

/* Whether the present call is to fail. */
bool call_fails() {
    return ++calls == failing_call;
}

void run_one(cudaStream_t stream) {
    if (stream->running) {
        broken("streams wait for each other");
    }
    auto work = std::move(stream->queue.front());
    stream->queue.pop_front();
    stream->running = true;
    work();
    stream->running = false;
}

void run_all(cudaStream_t stream) {
    while (!stream->queue.empty()) {
        run_one(stream);
    }
}

void run_until(cudaEvent_t event, cudaStream_t stream, uint64_t recording) {
    while (event->done < recording) {
        if (stream->queue.empty()) {
            broken("an event was recorded and never comes");
        }
        run_one(stream);
    }
}

void queue(cudaStream_t stream, std::function<void()> work) {
    if (stream == nullptr) {
        broken("work on no stream");
    }
    stream->queue.push_back(std::move(work));
    if (eager) {
        run_all(stream);
    }
}

} // namespace

cudaError_t cudaStreamCreateWithFlags(cudaStream_t *stream, unsigned) {
    if (call_fails()) {
        return failed(cudaErrorMemoryAllocation);
    }
    *stream = new CUstream_st;
    streams.push_back(*stream);
    objects++;
    return cudaSuccess;
}

cudaError_t cudaStreamDestroy(cudaStream_t stream) {
    run_all(stream);
    for (auto &each : streams) {
        if (each == stream) {
            each = streams.back();
            streams.pop_back();
            break;
        }
    }
    objects--;
    delete stream;
    forget_memory();
    return cudaSuccess;
}

cudaError_t cudaStreamSynchronize(cudaStream_t stream) {
    if (call_fails()) {
        return failed(cudaErrorUnknown);
    }
    run_all(stream);
    return cudaSuccess;
}

cudaError_t cudaDeviceSynchronize() {
    if (call_fails()) {
        return failed(cudaErrorUnknown);
    }
    for (auto *stream : streams) {
        run_all(stream);
    }
    return cudaSuccess;
}

cudaError_t cudaEventCreateWithFlags(cudaEvent_t *event, unsigned) {
    if (call_fails()) {
        return failed(cudaErrorMemoryAllocation);
    }
    *event = new CUevent_st;
    objects++;
    return cudaSuccess;
}

cudaError_t cudaEventDestroy(cudaEvent_t event) {
    objects--;
    delete event;
    return cudaSuccess;
}

cudaError_t cudaEventRecord(cudaEvent_t event, cudaStream_t stream) {
    if (call_fails()) {
        return failed(cudaErrorUnknown);
    }
    uint64_t recording = ++event->recorded;
    event->stream = stream;
    queue(stream, [=]() { event->done = recording; });
    return cudaSuccess;
}

cudaError_t cudaEventSynchronize(cudaEvent_t event) {
    if (call_fails()) {
        return failed(cudaErrorUnknown);
    }
    if (event->recorded > 0) {
        run_until(event, event->stream, event->recorded);
    }
    return cudaSuccess;
}

cudaError_t cudaStreamWaitEvent(cudaStream_t stream, cudaEvent_t event, unsigned) {
    if (call_fails()) {
        return failed(cudaErrorUnknown);
    }
    const auto recording = event->recorded;
    const auto recorder = event->stream;
    if (recording > 0) {
        queue(stream, [=]() { run_until(event, recorder, recording); });
    }
    return cudaSuccess;
}

/* ---- Memory ---- */

namespace {

enum { FENCE = 64 };
const int NO_NUMBER = 0xFF; /* float bytes that make a NaN */

void *memory_new(std::map<unsigned char *, size_t> &of, size_t size) {
    allocations.emplace_back(new unsigned char[size + 2 * FENCE]);
    unsigned char *memory = allocations.back().get() + FENCE;
    memset(memory - FENCE, NO_NUMBER, size + 2 * FENCE);
    of[memory] = size;
    return memory;
}

void memory_give_back(std::map<unsigned char *, size_t> &of, void *memory) {
    auto found = of.find(static_cast<unsigned char *>(memory));
    if (found == of.end()) {
        broken("memory is given back that is none, or twice");
    }
    for (int i = 0; i < FENCE; i++) {
        if (found->first[-1 - i] != NO_NUMBER || found->first[found->second + static_cast<size_t>(i)] != NO_NUMBER) {
            broken("something was written beside memory of the device, or beside pinned memory");
        }
    }
    memset(found->first, NO_NUMBER, found->second);
    of.erase(found);
    forget_memory();
}

bool memory_holds(const std::map<unsigned char *, size_t> &of, const void *bytes, size_t size) {
    const auto *from = static_cast<const unsigned char *>(bytes);
    for (const auto &each : of) {
        if (from >= each.first && from + size <= each.first + each.second) {
            return true;
        }
    }
    return false;
}

} // namespace

cudaError_t cudaMalloc(void **memory, size_t size) {
    if (call_fails() || size > free_memory) {
        return failed(cudaErrorMemoryAllocation);
    }
    *memory = memory_new(device_memory, size);
    return cudaSuccess;
}

cudaError_t cudaMallocHost(void **memory, size_t size) {
    if (call_fails()) {
        return failed(cudaErrorMemoryAllocation);
    }
    *memory = memory_new(pinned_memory, size);
    return cudaSuccess;
}

cudaError_t cudaFree(void *memory) {
    if (memory != nullptr) {
        memory_give_back(device_memory, memory);
    }
    return cudaSuccess;
}

cudaError_t cudaFreeHost(void *memory) {
    if (memory != nullptr) {
        memory_give_back(pinned_memory, memory);
    }
    return cudaSuccess;
}

cudaError_t cudaMemGetInfo(size_t *available, size_t *total) {
    if (call_fails()) {
        return failed(cudaErrorUnknown);
    }
    *available = *total = free_memory;
    return cudaSuccess;
}

cudaError_t cudaMemcpyAsync(void *to, const void *from, size_t size, enum cudaMemcpyKind kind, cudaStream_t stream) {
    const bool up = kind == cudaMemcpyHostToDevice;
    if (call_fails() || !memory_holds(device_memory, up ? to : from, size)) {
        return failed(cudaErrorInvalidValue);
    }
    if (kind == cudaMemcpyDeviceToDevice && !memory_holds(device_memory, to, size)) {
        return failed(cudaErrorInvalidValue);
    }
    if (kind != cudaMemcpyDeviceToDevice && !memory_holds(pinned_memory, up ? from : to, size)) {
        broken("a copy from or to memory that is not pinned waits for the device");
    }
    queue(stream, [=]() { memcpy(to, from, size); });
    return cudaSuccess;
}

cudaError_t cudaMemsetAsync(void *memory, int value, size_t size, cudaStream_t stream) {
    if (call_fails() || !memory_holds(device_memory, memory, size)) {
        return failed(cudaErrorInvalidValue);
    }
    queue(stream, [=]() { memset(memory, value, size); });
    return cudaSuccess;
}

cudaError_t cudaGetDeviceCount(int *count) {
    *count = 1;
    return cudaSuccess;
}

cudaError_t cudaGetLastError() {
    cudaError_t error = last_error;
    last_error = cudaSuccess;
    return error;
}

const char *cudaGetErrorString(cudaError_t error) {
    return error == cudaSuccess                 ? "no error"
           : error == cudaErrorMemoryAllocation ? "out of memory"
           : error == cudaErrorInvalidValue     ? "invalid argument"
                                                : "unknown error";
}

/* ---- Kernels ---- */

dim3 threadIdx, blockIdx, blockDim, gridDim;

namespace {

enum { FIBERS_MAX = 1024, FIBER_STACK = 64 << 10 };

struct fiber {
    ucontext_t context;
    jmp_buf place;
    std::unique_ptr<unsigned char[]> stack;
    bool begun = false, through = false;
    const char *reason = nullptr; /* what the fiber waits for */
    uint64_t lane = 0;
};
fiber fibers[FIBERS_MAX];
jmp_buf scheduler;
unsigned current;
const std::function<void()> *thread_of_kernel;
uint64_t rounds;

void leave_fiber() {
    if (_setjmp(fibers[current].place) == 0) {
        _longjmp(scheduler, 1);
    }
}

/* Runs block after block, so that a fiber's stack is reused. */
void fiber_main() {
    for (;;) {
        (*thread_of_kernel)();
        fibers[current].through = true;
        leave_fiber();
    }
}

void enter_fiber(unsigned number) {
    current = number;
    threadIdx = dim3(number);
    if (_setjmp(scheduler) != 0) {
        return;
    }
    fiber &entered = fibers[number];
    if (!entered.begun) {
        entered.begun = true;
        entered.stack.reset(new unsigned char[FIBER_STACK]);
        getcontext(&entered.context);
        entered.context.uc_stack.ss_sp = entered.stack.get();
        entered.context.uc_stack.ss_size = FIBER_STACK;
        makecontext(&entered.context, fiber_main, 0);
        setcontext(&entered.context);
    }
    _longjmp(entered.place, 1);
}

/* Runs all threads from one meeting to the next: in ascending order, in every third round in descending order. */
void run_block() {
    const unsigned count = blockDim.x;
    for (unsigned t = 0; t < count; t++) {
        fibers[t].through = false;
    }
    while (!fibers[0].through) {
        const bool backwards = rounds++ % 3 == 1;
        for (unsigned i = 0; i < count; i++) {
            enter_fiber(backwards ? count - 1 - i : i);
        }
        for (unsigned t = 1; t < count; t++) {
            if (fibers[t].through != fibers[0].through ||
                (!fibers[0].through && fibers[t].reason != fibers[0].reason)) {
                broken("the threads of a block wait for each other in different places");
            }
        }
    }
}

void run_kernel(dim3 blocks, dim3 threads, const std::function<void()> &thread) {
    thread_of_kernel = &thread;
    gridDim = blocks;
    blockDim = threads;
    for (unsigned y = 0; y < blocks.y; y++) {
        for (unsigned x = 0; x < blocks.x; x++) {
            blockIdx = dim3(x, y);
            run_block();
        }
    }
}

} // namespace

void emulation_meet(const char *reason) {
    fibers[current].reason = reason;
    leave_fiber();
}

uint64_t *emulation_lane(unsigned thread) {
    return &fibers[thread].lane;
}

void emulation_launch(cudaStream_t stream, dim3 blocks, dim3 threads, std::function<void()> thread) {
    if (call_fails() || blocks.x == 0 || blocks.y == 0 || blocks.y > 65535 || threads.x == 0 ||
        threads.x > FIBERS_MAX) {
        failed(cudaErrorInvalidValue);
        return;
    }
    queue(stream, [=]() { run_kernel(blocks, threads, thread); });
}

/* ---- cuBLAS ---- */

struct cublasContext {
    cudaStream_t stream = nullptr;
};

cublasStatus_t cublasCreate_v2(cublasHandle_t *handle) {
    if (call_fails()) {
        return CUBLAS_STATUS_ALLOC_FAILED;
    }
    *handle = new cublasContext;
    objects++;
    return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasDestroy_v2(cublasHandle_t handle) {
    objects--;
    delete handle;
    return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasSetStream_v2(cublasHandle_t handle, cudaStream_t stream) {
    handle->stream = stream;
    return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasSgemm_v2(cublasHandle_t handle, cublasOperation_t a_operation, cublasOperation_t b_operation,
                              int m, int n, int k, const float *alpha, const float *a, int a_stride, const float *b,
                              int b_stride, const float *beta, float *c, int c_stride) {
    if (call_fails()) {
        return CUBLAS_STATUS_ALLOC_FAILED;
    }
    const auto transposed = [](cublasOperation_t operation) {
        return operation == CUBLAS_OP_T ? CblasTrans : CblasNoTrans;
    };
    const float scale = *alpha;
    const float keep = *beta;
    queue(handle->stream, [=]() {
        cblas_sgemm(CblasColMajor, transposed(a_operation), transposed(b_operation), m, n, k, scale, a, a_stride, b,
                    b_stride, keep, c, c_stride);
    });
    return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasSgemv_v2(cublasHandle_t handle, cublasOperation_t operation, int m, int n, const float *alpha,
                              const float *a, int a_stride, const float *x, int x_step, const float *beta, float *y,
                              int y_step) {
    if (call_fails()) {
        return CUBLAS_STATUS_ALLOC_FAILED;
    }
    const auto transposed = operation == CUBLAS_OP_T ? CblasTrans : CblasNoTrans;
    const float scale = *alpha;
    const float keep = *beta;
    queue(handle->stream,
          [=]() { cblas_sgemv(CblasColMajor, transposed, m, n, scale, a, a_stride, x, x_step, keep, y, y_step); });
    return CUBLAS_STATUS_SUCCESS;
}

const char *cublasGetStatusString(cublasStatus_t status) {
    return status == CUBLAS_STATUS_SUCCESS ? "CUBLAS_STATUS_SUCCESS" : "CUBLAS_STATUS_ALLOC_FAILED";
}

/* ---- For tests ---- */

void emulation_set_eager(bool at_once) {
    eager = at_once;
}

void emulation_fail(unsigned call) {
    calls = 0;
    failing_call = call;
    last_error = cudaSuccess;
}

void emulation_set_memory(size_t bytes) {
    free_memory = bytes;
}

size_t emulation_left() {
    return objects + device_memory.size() + pinned_memory.size();
}
