/* leash PROGRAM [ARGUMENT...]: runs a test and ends with its exit status. When the test ends or is ended, for example
 * by its timeout, leash kills every process that the test left behind. Jobs of a failed test would otherwise go on for
 * ever, slow down the next tests, and keep open the pipe that the test's runner reads to its end.
 *
 * A second process, the guard, is the test's parent. As a subreaper (prctl(2)) it also becomes the parent of orphans.
 * The guard has a session of its own, so that it outlives a kill of leash's process group and then kills the test's
 * processes, too. leash ends when its runner ends. */
#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

enum { GRACE_LOOKS = 20, GRACE_LOOK_MS = 100 }; /* processes of a successful test may take so long to end */

/* Returns the number of children. With `end`, kills and names them. */
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

/* Kills all children, after up to `looks` waits for them to end. Children of a killed process become ours and are
 * killed next. */
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

/* Returns true when the child has ended, with its status; false when a signal asks leash to end. */
static bool wait_for(pid_t child, const sigset_t *signals, int *status) {
    for (;;) {
        int number = sigwaitinfo(signals, NULL);
        pid_t ended;
        while ((ended = waitpid(-1, status, WNOHANG)) > 0) {
            if (ended == child) {
                return true;
            }
        }
        if (number == SIGTERM || number == SIGINT) {
            return false;
        }
    }
}

/* Runs the test, kills what it left behind and returns leash's exit status. */
static int guard(char **command, const sigset_t *signals) {
    int status = 0;
    pid_t test = fork();
    if (test == 0) {
        sigprocmask(SIG_UNBLOCK, signals, NULL);
        execvp(command[0], command);
        fprintf(stderr, "leash: %s: %s\n", command[0], strerror(errno));
        _exit(127);
    }
    bool ended = test > 0 && wait_for(test, signals, &status);
    bool exited = ended && WIFEXITED(status);
    if (ended && !exited) {
        fprintf(stderr, "leash: %s was killed by signal %d\n", command[0], WTERMSIG(status));
    }
    kill_all(exited && WEXITSTATUS(status) == 0 ? GRACE_LOOKS : 0);
    return exited ? WEXITSTATUS(status) : 1;
}

int main(int argc, char **argv) {
    int status = 0;
    sigset_t signals;
    pid_t leash = getpid();
    if (argc < 2) {
        fprintf(stderr, "usage: leash PROGRAM [ARGUMENT...]\n");
        return 2;
    }
    sigemptyset(&signals);
    sigaddset(&signals, SIGTERM);
    sigaddset(&signals, SIGINT);
    sigaddset(&signals, SIGCHLD);
    sigprocmask(SIG_BLOCK, &signals, NULL);
    prctl(PR_SET_PDEATHSIG, SIGTERM);
    pid_t child = fork();
    if (child == 0) {
        setsid();
        prctl(PR_SET_CHILD_SUBREAPER, 1);
        prctl(PR_SET_PDEATHSIG, SIGTERM);
        return getppid() == leash ? guard(argv + 1, &signals) : 1;
    }
    if (child > 0 && !wait_for(child, &signals, &status)) {
        kill(child, SIGTERM);
        waitpid(child, &status, 0);
    }
    return child > 0 && WIFEXITED(status) ? WEXITSTATUS(status) : 1;
}
