/* An observer of the elasticity controller: reads the job's report in order, and sends requests until they are
 * answered. A state machine over struct io. Its owner has the connection, passes it each message of ACTOR_CONTROLLER,
 * and calls the functions "to be repeated" about twice a second. So lost messages are requested again, from the same
 * controller or its successor. The observer interprets only the report's last line. One thread. */
#ifndef AGILEML_CONTROL_OBSERVER_H
#define AGILEML_CONTROL_OBSERVER_H

#include "agileml/net/io.h"
#include "agileml/wire/report_line.h"

enum {
    OBSERVER_BURST = 256, /* lines after which more are requested at once: half of CONTROLLER_BURST_MAX */
    OBSERVER_REQUESTS_MAX = WIRE_NODES_MAX,
};

/* For observer_open: read from the line on that the controller writes next. */
#define OBSERVER_AT_END UINT64_MAX

struct observer {
    struct io *io;
    uint64_t lines_read;      /* the number of the next line */
    uint64_t lines_asked;     /* lines_read when OBSERVE was last sent */
    bool ended;               /* the report's last line, the summary, was read */
    struct message *requests; /* requests that are not answered */
    size_t request_count;
    uint64_t requests_made;
};

/* Reads the report from line `from` on. `io` must live until observer_close. */
void observer_open(struct observer *observer, struct io *io, uint64_t from);
void observer_close(struct observer *observer); /* may be zeroed */

/* Requests the lines after those that were read. To be repeated. */
void observer_ask_lines(struct observer *observer);
/* Requests STATUS. The controller always answers, after the lines that were requested before. */
void observer_ask_status(struct observer *observer, uint64_t request);

/* Takes over a request (ALLOCATION, CHECKPOINT_NOW, EVICT, GONE, NOTE or REVOKE), gives it a number and sends it.
 * Returns the number; 0: the job has ended, or OBSERVER_REQUESTS_MAX requests wait for their answers. */
uint64_t observer_request(struct observer *observer, struct message *request);
/* Does the same for EVICT or GONE, and adds the frame with the nodes' names. */
uint64_t observer_request_nodes(struct observer *observer, struct message request, const char *const *nodes,
                                size_t count);
/* Stops repeating the request. Does nothing for an unknown number. */
void observer_withdraw(struct observer *observer, uint64_t number);
/* Sends all unanswered requests again, unless the job has ended. To be repeated. */
void observer_repeat_requests(struct observer *observer);

/* Returns whether the message is the report's next line. If so, the caller owns *line; NULL: the line is not JSON. A
 * line that was read before does not count, nor does a line after a gap, unless the controller has no older line. */
bool observer_take_line(struct observer *observer, const struct message *message, struct report_line **line);
/* Returns the status in a STATUS message, owned by the caller; NULL: it is not JSON. */
struct report_line *observer_status(const struct message *message);
/* Returns whether the message is the OUTCOME of a waiting request. If so, sets *request to that request, owned by the
 * caller; `request` may be NULL. */
bool observer_take_outcome(struct observer *observer, const struct message *message, struct message *request);

#endif
