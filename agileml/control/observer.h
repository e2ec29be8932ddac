/* An observer of the elasticity controller: it reads the job's report in order, and asks for things until they are
 * answered. A state machine over struct io: its owner has the connection, hands it each message of ACTOR_CONTROLLER and
 * calls it every half a second or so. What is lost is asked for again, from the same controller or from one that was
 * started after it. It does not interpret the report, but for its last line. One thread. */
#ifndef AGILEML_CONTROL_OBSERVER_H
#define AGILEML_CONTROL_OBSERVER_H

#include "agileml/net/io.h"

#include <jansson.h>
#include <stdbool.h>

enum {
    OBSERVER_BURST = 256, /* lines after which more are asked for at once: half of CONTROLLER_BURST_MAX */
    OBSERVER_REQUESTS_MAX = WIRE_NODES_MAX,
};

/* As the number of the first line: the one that is written next. */
#define OBSERVER_AT_END UINT64_MAX

struct observer {
    struct io *io;
    uint64_t lines_read;      /* the number of the next line */
    uint64_t lines_asked;     /* lines_read when OBSERVE was last sent */
    bool ended;               /* the report's last line, the summary, was read */
    struct message *requests; /* those that are not answered */
    size_t request_count;
    uint64_t requests_made;
};

/* Reads the report from line `from` on. `io` must live until observer_close. */
void observer_open(struct observer *observer, struct io *io, uint64_t from);
void observer_close(struct observer *observer); /* a zeroed one is allowed */

/* Asks for the lines that follow those that were read. To be repeated. */
void observer_ask_lines(struct observer *observer);
/* Asks for STATUS, which the controller always answers: after the lines that it was asked for before. */
void observer_ask_status(struct observer *observer, uint64_t request);

/* Takes over a request (ALLOCATION, CHECKPOINT_NOW, EVICT, GONE or NOTE), gives it a number and sends it. Returns the
 * number; 0: the job has ended, or OBSERVER_REQUESTS_MAX requests wait for their answers. */
uint64_t observer_request(struct observer *observer, struct message *request);
/* The same with these nodes' names as the frame of EVICT or GONE. */
uint64_t observer_request_nodes(struct observer *observer, struct message request, const char *const *nodes,
                                size_t count);
/* Does not repeat the request any more. An unknown number does no harm. */
void observer_withdraw(struct observer *observer, uint64_t number);
/* Sends all requests again that are not answered, unless the job has ended. To be repeated. */
void observer_repeat_requests(struct observer *observer);

/* Returns whether the message is the report's next line; *line is then the caller's, NULL: the line is not JSON.
 * A line that was read before is no next line, nor is one behind a gap, unless the controller has no older one. */
bool observer_take_line(struct observer *observer, const struct message *message, json_t **line);
/* Returns whether the message is the OUTCOME of a request that waits for it; *request is then the caller's;
 * NULL: it is not wanted. */
bool observer_take_outcome(struct observer *observer, const struct message *message, struct message *request);

#endif
