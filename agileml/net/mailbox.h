/* A bounded queue of messages from the threads of a process to one of them, which waits on the
 * mailbox's descriptor. Frames pass by reference: nothing is encoded or copied. Knows no network. */
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
    bool signalled; /* event_fd is readable */
    int event_fd;   /* readable while there may be messages; constant after open */
};

/* 0 or AML_EFAIL. */
int mailbox_open(struct mailbox *mailbox, struct error *error);
void mailbox_close(struct mailbox *mailbox);

/* Any thread. Takes over the message's frames and returns true, or false when the mailbox is full. */
bool mailbox_put(struct mailbox *mailbox, actor_id from, const struct message *message);
/* The oldest message, now the caller's to close. False when there is none; event_fd is quiet then. */
bool mailbox_take(struct mailbox *mailbox, actor_id *from, struct message *message);

#endif
