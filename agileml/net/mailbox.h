/* A bounded queue of messages from the threads of a process to one of them, which waits on the mailbox's descriptor.
 * Frames pass by reference: nothing is encoded or copied. Knows no network. Putting a message and waking the receiver
 * are two calls: waking a thread costs more than most messages, so several messages share it. */
#ifndef AGILEML_NET_MAILBOX_H
#define AGILEML_NET_MAILBOX_H

#include "agileml/wire/message.h"

#include <pthread.h>

/* A limit on messages and not on bytes, as senders keep the shared frames anyway. Room for one message per partition of
 * the largest job. */
enum { MAILBOX_MESSAGES_MAX = WIRE_PARTITIONS_MAX };

struct mailbox {
    pthread_mutex_t lock; /* guards what follows */
    struct mailbox_entry *first, **last;
    size_t count;
    bool signalled; /* the receiver has been woken, or is about to be, since it last found no message */
    int event_fd;   /* waited on edge-triggered, and never read; constant after open */
};

/* 0 or AML_EFAIL. */
int mailbox_open(struct mailbox *mailbox, struct error *error);
void mailbox_close(struct mailbox *mailbox);

/* Any thread. Takes over the message's frames and returns true, or false when the mailbox is full. mailbox_wake must
 * follow. */
bool mailbox_put(struct mailbox *mailbox, actor_id from, const struct message *message);
/* Any thread. Raises event_fd if there are messages that the receiver may not know of. */
void mailbox_wake(struct mailbox *mailbox);
/* Any thread. Raises event_fd in any case. */
void mailbox_raise(const struct mailbox *mailbox);
/* Any thread. Returns the oldest message's type; 0: there is none, or the receiver has been woken for it. */
unsigned mailbox_unheard(struct mailbox *mailbox);
/* Takes the oldest message, which the caller has to close. Returns false when there is none; the next mailbox_wake then
 * raises event_fd. */
bool mailbox_take(struct mailbox *mailbox, actor_id *from, struct message *message);

#endif
