/* See signals.h. */
#include "agileml/base/signals.h"

#include <errno.h>
#include <signal.h>
#include <stdbool.h>
#include <stddef.h>
#include <string.h>
#include <sys/signalfd.h>
#include <unistd.h>

static bool stays_ignored(int number) {
    struct sigaction action;
    return (number == SIGHUP || number == SIGTSTP) && sigaction(number, NULL, &action) == 0 &&
           action.sa_handler == SIG_IGN;
}

int signals_open(int *fd, const int *numbers, struct error *error) {
    sigset_t set;
    sigemptyset(&set);
    for (; *numbers != 0; numbers++) {
        if (!stays_ignored(*numbers)) {
            sigaddset(&set, *numbers);
        }
    }
    sigprocmask(SIG_BLOCK, &set, NULL);
    *fd = signalfd(-1, &set, SFD_NONBLOCK | SFD_CLOEXEC);
    return *fd >= 0 ? 0 : error_set(error, AML_EFAIL, "can't wait for signals: %s", strerror(errno));
}

int signals_next(int fd) {
    struct signalfd_siginfo signal_info;
    ssize_t size;
    do {
        size = read(fd, &signal_info, sizeof signal_info);
    } while (size < 0 && errno == EINTR);
    return size == (ssize_t)sizeof signal_info ? (int)signal_info.ssi_signo : 0;
}
