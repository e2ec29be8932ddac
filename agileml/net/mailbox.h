/* A bounded queue of messages from the threads of a process to one of them, which waits on the
 * mailbox's descriptor. Frames pass by reference: nothing is encoded or copied. Knows no network. Putting a message
 * there and waking who waits are two calls: to wake a thread costs more than most messages, so several share it. */
#ifndef AGILEML_NET_MAILBOX_H
#define AGILEML_NET_MAILBOX_H

#include "agileml/wire/message.h"

#include <pthread.h>

/* Messages, not bytes: their frames are shared with whoever retains them anyway. Room for one message per
 * partition of the largest job. */
enum { MAILBOX_MESSAGES_MAX = WIRE_PARTITIONS_MAX };

struct mailbox {
    pthread_mutex_t lock; /* guards what follows */
    struct mailbox_entry *first, **last;
    size_t count;
    bool signalled; /* the taker has been woken, or is about to be, since it last found nothing */
    int event_fd;   /* to be waited on edge-triggered, and never read; constant after open */
};

/* 0 or AML_EFAIL. */
int mailbox_open(struct mailbox *mailbox, struct error *error);
void mailbox_close(struct mailbox *mailbox);

/* Any thread. Takes over the message's frames and returns true, or false when the mailbox is full. mailbox_wake must
 * follow. */
bool mailbox_put(struct mailbox *mailbox, actor_id from, const struct message *message);
/* Any thread. Raises event_fd if there are messages that the taker may not know of. */
void mailbox_wake(struct mailbox *mailbox);
/* Any thread. Raises event_fd, whatever there is. */
void mailbox_raise(const struct mailbox *mailbox);
/* Any thread. The type of the oldest message; 0: there is none, or the taker has been woken for it. */
unsigned mailbox_unheard(struct mailbox *mailbox);
/* The oldest message, now the caller's to close. False when there is none: event_fd is raised for the next one. */
bool mailbox_take(struct mailbox *mailbox, actor_id *from, struct message *message);

#endif
