/* Signals as a descriptor that an event loop reads. What they mean is the reader's business. */
#ifndef PROTEUS_SIGNALS_H
#define PROTEUS_SIGNALS_H

#include "agileml/base/error.h"

/* Blocks the signals (a list that ends with 0) in this thread, and in those it starts, and opens a descriptor for them.
 * Those of SIGHUP and SIGTSTP that are ignored stay so: that is what nohup asks for. 0 or AML_EFAIL. */
int signals_open(int *fd, const int *numbers, struct error *error);
/* The next signal that has come, or 0. Doesn't wait. */
int signals_next(int fd);

#endif
