/* Handles a crash of the app: signals, exit, the backtrace. See crash.h. */
#include "workers/data/crash.h"

#include "agileml/base/crash_signals.h"
#include "agileml/base/log.h"

#include <assert.h>
#include <dlfcn.h>
#include <errno.h>
#include <execinfo.h>
#include <limits.h>
#include <link.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <ucontext.h>
#include <unistd.h>

enum {
    HANDLER_FRAMES_MAX = 8, /* frames of the handler in a backtrace */
    EXITS_MAX = 64,         /* threads that call exit at once */
    LINE_BYTES = 1280,      /* longer paths are cut; less than a pipe's atomic size, so that lines don't mix */
    BEHIND_MAX = 8          /* bytes after a line's text, with the newline */
};

/* Where a thread is in the app's code. */
struct place {
    const char *function; /* NULL: in none of the app's functions */
    uint64_t clock;
};

/* A mapped file. The handler reads it at any moment, so `base` is set last, and cleared first. */
struct mapping {
    _Atomic(const unsigned char *) base; /* NULL: none */
    _Atomic size_t size;
    _Atomic(const char *) folder;
};

/* The state of the process. The thread that crashes first sets `crashed`. It alone uses the fields after that, until it
 * has raised `wake`; then the loop uses them too. */
static struct {
    char before[LOG_FRAME_MAX], behind[LOG_FRAME_MAX]; /* what stands before and after a line's text */
    char program[PATH_MAX];
    pid_t process; /* the node's: a process that the app forks inherits this state, but is no node */
    atomic_bool listening;
    _Atomic(const char *) function; /* the app's function entered last, in any thread */
    atomic_uint_least64_t clock;
    int wake, told; /* eventfds */
    atomic_flag crashed;
    struct message_crashed facts;
    atomic_bool known; /* `facts` is set */
    struct mapping mappings[CRASH_MAPPINGS_MAX];
    pthread_mutex_t mapping_lock; /* taken to change `mappings` */
} crash = {.wake = -1, .told = -1, .crashed = ATOMIC_FLAG_INIT, .mapping_lock = PTHREAD_MUTEX_INITIALIZER};

static _Thread_local struct place here;
static _Thread_local bool ours; /* the library has started this thread, not the app */
static _Thread_local bool exits;
static _Thread_local void *handler_stack;

/* ---- Lines, written with functions that a signal handler may call ---- */

struct line {
    char bytes[LINE_BYTES];
    size_t used;
};

static void line_add(struct line *line, const char *text) {
    for (; *text != '\0' && line->used < sizeof line->bytes - BEHIND_MAX; text++) {
        line->bytes[line->used++] = *text == '"' || *text == '\\' ? '?' : *text; /* as log_frame wants it */
    }
}

static void line_add_number(struct line *line, uint64_t number, unsigned base) {
    char digits[24];
    size_t at = sizeof digits;
    digits[--at] = '\0';
    do {
        digits[--at] = "0123456789abcdef"[number % base];
        number /= base;
    } while (number > 0);
    line_add(line, base == 16 ? "0x" : "");
    line_add(line, digits + at);
}

static struct line line_begin(void) {
    struct line line = {.used = 0};
    for (const char *text = crash.before; *text != '\0'; text++) {
        line.bytes[line.used++] = *text;
    }
    return line;
}

static void line_end(struct line *line) {
    for (const char *text = crash.behind; *text != '\0'; text++) {
        line->bytes[line->used++] = *text;
    }
    line->bytes[line->used++] = '\n';
    while (write(STDERR_FILENO, line->bytes, line->used) < 0 && errno == EINTR) {
    }
}

/* ---- The facts of a crash ---- */

/* Returns where this thread is in the app's code. A thread that the app itself has started never calls crash_enter: for
 * it, returns the function that any thread entered last. */
static struct place find_place(void) {
    if (here.function != NULL) {
        return here;
    }
    return (struct place){.function = atomic_load(&crash.function), .clock = atomic_load(&crash.clock)};
}

static void set_facts(int number, int status) {
    struct place place = find_place();
    crash.facts = (struct message_crashed){.signal = (uint32_t)number, .status = status, .clock = place.clock};
    for (size_t i = 0; place.function != NULL && i < WIRE_FUNCTION_MAX - 1 && place.function[i] != '\0'; i++) {
        crash.facts.function[i] = place.function[i];
    }
    atomic_store(&crash.known, true);
}

/* The folder of the mapped file at an address; NULL: there is none. */
static const char *folder_at(const void *address) {
    const unsigned char *at = address;
    for (unsigned m = 0; m < CRASH_MAPPINGS_MAX; m++) {
        const unsigned char *base = atomic_load(&crash.mappings[m].base);
        if (base != NULL && at >= base && at < base + atomic_load(&crash.mappings[m].size)) {
            return atomic_load(&crash.mappings[m].folder);
        }
    }
    return NULL;
}

/* Prints that the disk failed, if the crash is an access to a mapped file. */
static void say_disk(const siginfo_t *info) {
    const char *folder = info != NULL && info->si_signo == SIGBUS ? folder_at(info->si_addr) : NULL;
    if (folder != NULL) {
        struct line line = line_begin();
        line_add(&line, folder);
        line_add(&line, ": can't read data back that does not fit --memory; see this disk, or name another folder "
                        "by --spill");
        line_end(&line);
    }
}

/* Prints the crash, as "mf[node-2]: error: signal 11 (SIGSEGV) at address 0x10 in the app's function clock, clock
 * 7". */
static void say_what(const siginfo_t *info) {
    const struct message_crashed *facts = &crash.facts;
    struct line line = line_begin();
    if (facts->signal != 0) {
        const char *name = sigabbrev_np((int)facts->signal);
        line_add(&line, "signal ");
        line_add_number(&line, facts->signal, 10);
        line_add(&line, " (SIG");
        line_add(&line, name != NULL ? name : "?");
        line_add(&line, ")");
        if (info != NULL && info->si_code > 0 && facts->signal != SIGABRT) {
            line_add(&line, " at address ");
            line_add_number(&line, (uint64_t)(uintptr_t)info->si_addr, 16);
        }
    } else {
        line_add(&line, "the app called exit(");
        line_add_number(&line, (uint64_t)(facts->status & 0xFF), 10);
        line_add(&line, ")");
    }
    if (facts->function[0] == '\0') {
        line_add(&line, ", before any function of the app was entered");
    } else {
        line_add(&line, here.function != NULL ? " in the app's function " : "; the app's function entered last: ");
        line_add(&line, facts->function);
    }
    if (facts->clock > 0) {
        line_add(&line, ", clock ");
        line_add_number(&line, facts->clock, 10);
    }
    line_end(&line);
}

/* ---- The backtrace ---- */

static uintptr_t interrupted_at(const void *context) {
    const ucontext_t *interrupted = context;
#if defined(__x86_64__)
    return interrupted != NULL ? (uintptr_t)interrupted->uc_mcontext.gregs[REG_RIP] : 0;
#elif defined(__aarch64__)
    return interrupted != NULL ? (uintptr_t)interrupted->uc_mcontext.pc : 0;
#else
    (void)interrupted;
    return 0;
#endif
}

/* Prints a frame as a module and an address in it, for addr2line. */
static void say_frame(unsigned number, uintptr_t address) {
    struct dl_find_object object;
    struct line line = line_begin();
    line_add(&line, "  #");
    line_add_number(&line, number, 10);
    line_add(&line, " ");
    if (_dl_find_object((void *)address, &object) == 0) { /* takes no lock */
        const char *path = object.dlfo_link_map->l_name;
        line_add(&line, path[0] != '\0' ? path : crash.program);
        address -= object.dlfo_link_map->l_addr;
    } else {
        line_add(&line, "(no module)");
    }
    line_add(&line, " ");
    line_add_number(&line, address, 16);
    line_end(&line);
}

/* Prints the frames. All but the interrupted one are return addresses, so the address of the call is one byte lower. */
static void say_frames(void *const *frames, unsigned count, bool interrupted) {
    struct line line = line_begin();
    line_add(&line, "backtrace; 'addr2line -Cfpie MODULE ADDRESS' prints function and line of a frame:");
    line_end(&line);
    for (unsigned f = 0; f < count && f < CRASH_FRAMES_MAX; f++) {
        say_frame(f, (uintptr_t)frames[f] - (f > 0 || !interrupted ? 1 : 0));
    }
}

static void say_where(const void *context) {
    void *frames[CRASH_FRAMES_MAX + HANDLER_FRAMES_MAX];
    uintptr_t at = interrupted_at(context);
    unsigned count = (unsigned)backtrace(frames, CRASH_FRAMES_MAX + HANDLER_FRAMES_MAX);
    for (unsigned f = 0; f < count && at != 0; f++) {
        if ((uintptr_t)frames[f] == at) {
            say_frames(frames + f, count - f, true);
            return;
        }
    }
    say_frames(frames, count, false);
}

/* ---- Dying ---- */

static void event_raise(int event) {
    uint64_t one = 1;
    while (write(event, &one, sizeof one) < 0 && errno == EINTR) {
    }
}

static void wait_for_answer(int milliseconds) {
    struct pollfd answer = {.fd = crash.told, .events = POLLIN};
    while (poll(&answer, 1, milliseconds) < 0 && errno == EINTR) {
    }
}

/* Has the loop report the crash, and waits for the answer. Comes before the backtrace, since the backtrace may fail in
 * a process whose memory is damaged. */
static void tell(void) {
    if (atomic_load(&crash.listening)) {
        event_raise(crash.wake);
        wait_for_answer(ours && here.function == NULL ? CRASH_WAIT_OURS_MS : CRASH_WAIT_MS);
    }
}

/* Waits while another thread, which has crashed before, ends the process. */
static void wait_for_other(void) {
    wait_for_answer(CRASH_GIVE_UP_S * 1000);
    poll(NULL, 0, CRASH_GIVE_UP_S * 1000);
}

/* Ends the process when the crash handler hangs (SIGALRM). Runs in another thread if the crashed one blocks signals. */
static void give_up(int number) {
    sigset_t set;
    int crashed = (int)crash.facts.signal;
    (void)number;
    signal(crashed, SIG_DFL);
    sigemptyset(&set);
    sigaddset(&set, crashed);
    pthread_sigmask(SIG_UNBLOCK, &set, NULL);
    raise(crashed);
}

/* The signal handler. It returns to the place of the crash with the signal pending and at its default action, so that
 * the process dies there as it would have without the handler. */
static void crash_signalled(int number, siginfo_t *info, void *context) {
    if (getpid() != crash.process) {
        /* a process that the app has forked */
    } else if (atomic_flag_test_and_set(&crash.crashed)) {
        wait_for_other();
    } else {
        set_facts(number, 0);
        signal(SIGALRM, give_up);
        alarm(CRASH_GIVE_UP_S);
        say_disk(info);
        say_what(info);
        tell();
        say_where(context);
    }
    signal(number, SIG_DFL);
    raise(number);
}

/* Handles a call of exit by the app; nothing else calls exit while the node takes part. Each thread in exit runs the
 * next of the registered handlers, and a thread that finds none left ends the process. So all threads but the first
 * wait here; else one of them could end the process before the first has reported to the controller. */
static void crash_exited(int status, void *argument) {
    (void)argument;
    if (getpid() != crash.process || !atomic_load(&crash.listening) || exits) {
        return;
    }
    exits = true;
    if (atomic_flag_test_and_set(&crash.crashed)) {
        wait_for_other();
        return;
    }
    set_facts(0, status);
    say_what(NULL);
    tell();
    say_where(NULL);
}

/* ---- Installing ---- */

static int catch_signals(struct error *error) {
    struct sigaction action = {.sa_flags = SA_SIGINFO | SA_ONSTACK};
    action.sa_sigaction = crash_signalled;
    sigemptyset(&action.sa_mask);
    for (size_t s = 0; s < CRASH_SIGNAL_COUNT; s++) {
        sigaddset(&action.sa_mask, CRASH_SIGNALS[s]);
    }
    for (size_t s = 0; s < CRASH_SIGNAL_COUNT; s++) {
        struct sigaction theirs;
        if (sigaction(CRASH_SIGNALS[s], NULL, &theirs) != 0) {
            return error_set(error, AML_EFAIL, "sigaction: %s", strerror(errno));
        }
        if ((theirs.sa_flags & SA_SIGINFO) == 0 && theirs.sa_handler == SIG_DFL) {
            sigaction(CRASH_SIGNALS[s], &action, NULL);
        }
    }
    return 0;
}

int crash_open(struct error *error) {
    void *frame;
    crash.process = getpid();
    crash_take_frame();
    ssize_t length = readlink("/proc/self/exe", crash.program, sizeof crash.program - 1);
    crash.program[length > 0 ? length : 0] = '\0';
    crash.wake = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    crash.told = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    if (crash.wake < 0 || crash.told < 0) {
        return error_set(error, AML_EFAIL, "eventfd: %s", strerror(errno));
    }
    backtrace(&frame, 1); /* the first call loads a library, which a handler must not do */
    crash_thread_begin();
    for (unsigned e = 0; e < EXITS_MAX; e++) {
        if (on_exit(crash_exited, NULL) != 0) {
            return error_set(error, AML_EFAIL, "on_exit: no memory");
        }
    }
    return catch_signals(error);
}

void crash_take_frame(void) {
    log_frame(crash.before, crash.behind);
}

/* Gives this thread a stack for the signal handler, unless it has one, as under a sanitizer. */
void crash_thread_begin(void) {
    stack_t present;
    ours = true;
    if (sigaltstack(NULL, &present) != 0 || (present.ss_flags & SS_DISABLE) == 0) {
        return;
    }
    void *memory = mmap(NULL, CRASH_STACK_BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (memory == MAP_FAILED) {
        return; /* an overflow of this thread's stack will end the process without a line */
    }
    handler_stack = memory;
    sigaltstack(&(stack_t){.ss_sp = memory, .ss_size = CRASH_STACK_BYTES}, NULL);
}

void crash_thread_end(void) {
    if (handler_stack != NULL) {
        sigaltstack(&(stack_t){.ss_flags = SS_DISABLE}, NULL);
        munmap(handler_stack, CRASH_STACK_BYTES);
        handler_stack = NULL;
    }
}

void crash_enter(const char *function, uint64_t clock) {
    here = (struct place){.function = function, .clock = clock};
    atomic_store_explicit(&crash.function, function, memory_order_relaxed);
    atomic_store_explicit(&crash.clock, clock, memory_order_relaxed);
}

void crash_leave(void) {
    here.function = NULL;
}

/* ---- Mapped files ---- */

void crash_watch_mapping(const void *base, size_t size, const char *folder) {
    pthread_mutex_lock(&crash.mapping_lock);
    for (unsigned m = 0; m < CRASH_MAPPINGS_MAX; m++) {
        struct mapping *mapping = &crash.mappings[m];
        if (atomic_load(&mapping->base) == NULL) {
            atomic_store(&mapping->size, size);
            atomic_store(&mapping->folder, folder);
            atomic_store(&mapping->base, base);
            break;
        }
    }
    pthread_mutex_unlock(&crash.mapping_lock);
}

void crash_forget_mapping(const void *base) {
    pthread_mutex_lock(&crash.mapping_lock);
    for (unsigned m = 0; m < CRASH_MAPPINGS_MAX; m++) {
        if (atomic_load(&crash.mappings[m].base) == base) {
            atomic_store(&crash.mappings[m].base, NULL);
        }
    }
    pthread_mutex_unlock(&crash.mapping_lock);
}

/* ---- The loop's side ---- */

int crash_descriptor(void) {
    return crash.wake;
}

void crash_listen(bool listening) {
    atomic_store(&crash.listening, listening);
}

struct message_crashed crash_facts(void) {
    assert(atomic_load(&crash.known));
    return crash.facts;
}

void crash_told(void) {
    event_raise(crash.told);
}
