/* See peer.h. */
#include "bench/ps/peer.h"

#include "bench/ps/protocol.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

/* Sent by the process once it listens. */
struct peer_report {
    int code;
    char text[ERROR_TEXT_MAX];
    char protocol[WIRE_ENDPOINT_MAX];
    char bare[BARE_ENDPOINT_MAX];
};

static _Noreturn void peer_run(const struct shape *shape, int control) {
    struct protocol_server protocol;
    struct bare bare;
    struct error error = {0};
    struct peer_report report = {0};
    char byte;
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    report.code = protocol_server_open(&protocol, shape, &error);
    if (report.code == 0) {
        snprintf(report.protocol, sizeof report.protocol, "%s", net_io_endpoint(protocol.io));
        report.code = bare_server_open(&bare, shape, report.bare, &error);
    }
    memcpy(report.text, error.text, sizeof report.text);
    if (write(control, &report, sizeof report) != (ssize_t)sizeof report || report.code != 0) {
        _exit(1);
    }
    while (read(control, &byte, 1) < 0 && errno == EINTR) {
    }
    bare_server_close(&bare);
    protocol_server_close(&protocol);
    _exit(0);
}

int peer_open(struct peer *peer, const struct shape *shape, struct error *error) {
    int ends[2];
    struct peer_report report;
    *peer = (struct peer){.control = -1};
    if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) != 0) {
        return error_set(error, AML_EFAIL, "can't make a socket pair: %s", strerror(errno));
    }
    fflush(stdout);
    peer->process = fork();
    if (peer->process == 0) {
        close(ends[0]);
        peer_run(shape, ends[1]);
    }
    close(ends[1]);
    peer->control = ends[0];
    if (peer->process < 0) {
        return error_set(error, AML_EFAIL, "can't start a process: %s", strerror(errno));
    }
    if (recv(peer->control, &report, sizeof report, MSG_WAITALL) != (ssize_t)sizeof report) {
        return error_set(error, AML_EFAIL, "the server's process ended");
    }
    memcpy(peer->protocol, report.protocol, sizeof peer->protocol);
    memcpy(peer->bare, report.bare, sizeof peer->bare);
    return report.code == 0 ? 0 : error_set(error, report.code, "%s", report.text);
}

void peer_close(struct peer *peer) {
    if (peer->control >= 0) {
        close(peer->control);
    }
    while (peer->process > 0 && waitpid(peer->process, NULL, 0) < 0 && errno == EINTR) {
    }
}
