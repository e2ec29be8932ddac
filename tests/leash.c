/* leash PROGRAM [ARGUMENT...]: runs a test and ends with its exit status. When the test has ended, or is ended, by its
 * timeout for one, every process that it left behind is killed: jobs of a failed test would go on for ever, take the
 * machine from the next tests, and hold the pipe at whose end the test's runner waits.
 *
 * Orphans come to a subreaper (prctl(2)), which this process is. A runner that kills it kills its children before. */
#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

enum { GRACE_LOOKS = 20, GRACE_LOOK_MS = 100 }; /* what a test that went well has ended may still be ending */

/* Returns how many children there are; kills and names them if `end` is set. */
static int find_children(bool end) {
    char path[64], name[64];
    int count = 0;
    long pid;
    snprintf(path, sizeof path, "/proc/self/task/%ld/children", (long)getpid());
    FILE *children = fopen(path, "re");
    for (; children != NULL && fscanf(children, "%ld", &pid) == 1; count++) {
        snprintf(path, sizeof path, "/proc/%ld/comm", pid);
        FILE *comm = end ? fopen(path, "re") : NULL;
        if (comm != NULL && fgets(name, sizeof name, comm) != NULL) {
            name[strcspn(name, "\n")] = '\0';
            fprintf(stderr, "leash: killed %s (process %ld), which the test left behind\n", name, pid);
        }
        if (comm != NULL) {
            fclose(comm);
        }
        if (end) {
            kill((pid_t)pid, SIGKILL);
        }
    }
    if (children != NULL) {
        fclose(children);
    }
    return count;
}

/* Children of a killed one come to us, to be killed next. */
static void kill_all(int looks) {
    for (; looks > 0 && find_children(false) > 0; looks--) {
        while (waitpid(-1, NULL, WNOHANG) > 0) {
        }
        poll(NULL, 0, GRACE_LOOK_MS);
    }
    while (find_children(true) > 0) {
        while (waitpid(-1, NULL, 0) < 0 && errno == EINTR) {
        }
        while (waitpid(-1, NULL, WNOHANG) > 0) {
        }
    }
}

/* Returns true when the test has ended, with its status; false when a signal asks us to end. */
static bool wait_for(pid_t test, const sigset_t *signals, int *status) {
    for (;;) {
        int number = sigwaitinfo(signals, NULL);
        pid_t ended;
        while ((ended = waitpid(-1, status, WNOHANG)) > 0) {
            if (ended == test) {
                return true;
            }
        }
        if (number == SIGTERM || number == SIGINT) {
            return false;
        }
    }
}

int main(int argc, char **argv) {
    int status = 0;
    sigset_t signals;
    if (argc < 2) {
        fprintf(stderr, "usage: leash PROGRAM [ARGUMENT...]\n");
        return 2;
    }
    prctl(PR_SET_CHILD_SUBREAPER, 1);
    sigemptyset(&signals);
    sigaddset(&signals, SIGTERM);
    sigaddset(&signals, SIGINT);
    sigaddset(&signals, SIGCHLD);
    sigprocmask(SIG_BLOCK, &signals, NULL);
    pid_t test = fork();
    if (test == 0) {
        sigprocmask(SIG_UNBLOCK, &signals, NULL);
        execvp(argv[1], argv + 1);
        fprintf(stderr, "leash: %s: %s\n", argv[1], strerror(errno));
        _exit(127);
    }
    bool ended = test > 0 && wait_for(test, &signals, &status);
    bool exited = ended && WIFEXITED(status);
    if (ended && !exited) {
        fprintf(stderr, "leash: %s was killed by signal %d\n", argv[1], WTERMSIG(status));
    }
    kill_all(exited && WEXITSTATUS(status) == 0 ? GRACE_LOOKS : 0);
    return exited ? WEXITSTATUS(status) : 1;
}
