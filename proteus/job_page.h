/* The HTTP server in the controller's process (web/server.h). Gives it the report and the status, and sends POST
 * requests to the controller as an operator's messages. Runs on the controller's thread. */
#ifndef PROTEUS_JOB_PAGE_H
#define PROTEUS_JOB_PAGE_H

#include "agileml/control/state/controller.h"
#include "agileml/net/zmq.h"
#include "web/server.h"

#include <limits.h>

struct job_page {
    struct web *web;  /* NULL: there is no page */
    struct io io;     /* the controller's io: the network's, except for answers to our own requests */
    struct io *inner; /* the network's io */
    actor_id self;
    int wake_fd; /* -1: none */
    struct controller *controller;
    size_t lines; /* lines of the report that the server has, or that are gone */
};

/* Prepares the io that the controller will use. `controller` may be opened afterwards. */
void job_page_begin(struct job_page *page, struct io *inner, struct controller *controller);
/* If options->listen is set, opens the server. The controller must be open. `store` is the file of the controller's
 * store; NULL: none. Returns 0 or an error of web_open. */
int job_page_open(struct job_page *page, struct net_io *io, struct web_options options, const char *store,
                  struct error *error);
/* Passes on new lines of the report, and shows that the controller is alive. Call it after each callback. */
void job_page_step(struct job_page *page);
void job_page_close(struct job_page *page, struct net_io *io);

#endif
