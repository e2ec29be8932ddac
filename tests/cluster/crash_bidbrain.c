/* `bidbrain run` that is killed, as if by the kernel, at the step of a launch that BIDBRAIN_CRASH names. If
 * BIDBRAIN_CRASH_MARK names a file, only the process that creates it is killed; later processes go on. */
#include "agileml/base/log.h"
#include "bidbrain/daemon/command.h"

#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static void crash(enum daemon_launch_step step) {
    static const char *const names[] = {[DAEMON_LAUNCH_STORED] = "before-send",
                                        [DAEMON_LAUNCH_ANSWERED] = "before-store",
                                        [DAEMON_LAUNCH_ANSWER_STORED] = "after-store"};
    const char *wanted = getenv("BIDBRAIN_CRASH");
    const char *mark = getenv("BIDBRAIN_CRASH_MARK");
    if (wanted == NULL || strcmp(wanted, names[step]) != 0) {
        return;
    }
    if (mark == NULL || open(mark, O_WRONLY | O_CREAT | O_EXCL, 0600) >= 0) {
        kill(getpid(), SIGKILL);
    }
}

int main(int argc, char **argv) {
    log_set_name("bidbrain");
    if (argc < 2 || strcmp(argv[1], "run") != 0) {
        log_error("expected 'run'");
        return 2;
    }
    return command_run_watched(argc - 1, argv + 1, crash);
}
