/* The HTTP server in the controller's process (web/server.h): feeds it with the report and the status, and carries out
 * what is asked for by POST as an operator's messages. Runs on the controller's thread. */
#ifndef PROTEUS_JOB_PAGE_H
#define PROTEUS_JOB_PAGE_H

#include "agileml/control/controller.h"
#include "agileml/net/zmq.h"
#include "web/server.h"

#include <limits.h>

struct job_page {
    struct web *web;  /* NULL: there is no page */
    struct io io;     /* the controller's: the network's, but for answers to our own requests */
    struct io *inner; /* the network's */
    actor_id self;
    int wake_fd; /* -1: none */
    struct controller *controller;
    size_t lines; /* of the report that the server has, or that are gone */
};

/* Prepares the io, which the controller is to be given. `controller` may be opened afterwards. */
void job_page_begin(struct job_page *page, struct io *inner, struct controller *controller);
/* Opens the server, once the controller is open, if options->listen is set. `store` is the controller's store's file;
 * NULL: none. Returns 0 or what web_open returns. */
int job_page_open(struct job_page *page, struct net_io *io, struct web_options options, const char *store,
                  struct error *error);
/* Hands over new lines of the report, and shows that the controller is alive. To be called after each callback. */
void job_page_step(struct job_page *page);
void job_page_close(struct job_page *page, struct net_io *io);

#endif
