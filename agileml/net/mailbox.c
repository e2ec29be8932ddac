/* See mailbox.h. */
#include "agileml/net/mailbox.h"

#include "agileml/base/memory.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

struct mailbox_entry {
    struct mailbox_entry *next;
    actor_id from;
    struct message message;
};

int mailbox_open(struct mailbox *mailbox, struct error *error) {
    memset(mailbox, 0, sizeof *mailbox);
    mailbox->event_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    if (mailbox->event_fd < 0) {
        return error_set(error, AML_EFAIL, "can't make an eventfd: %s", strerror(errno));
    }
    mailbox->last = &mailbox->first;
    pthread_mutex_init(&mailbox->lock, NULL);
    return 0;
}

void mailbox_close(struct mailbox *mailbox) {
    struct message message;
    actor_id from;
    while (mailbox_take(mailbox, &from, &message)) {
        message_close(&message);
    }
    pthread_mutex_destroy(&mailbox->lock);
    close(mailbox->event_fd);
}

bool mailbox_put(struct mailbox *mailbox, actor_id from, const struct message *message) {
    struct mailbox_entry *entry = memory_resized(NULL, 1, sizeof *entry);
    entry->next = NULL;
    entry->from = from;
    entry->message = *message;
    pthread_mutex_lock(&mailbox->lock);
    bool room = mailbox->count < MAILBOX_MESSAGES_MAX;
    if (room) {
        *mailbox->last = entry;
        mailbox->last = &entry->next;
        mailbox->count++;
    }
    pthread_mutex_unlock(&mailbox->lock);
    if (!room) {
        free(entry);
    }
    return room;
}

void mailbox_raise(const struct mailbox *mailbox) {
    eventfd_write(mailbox->event_fd, 1);
}

/* Raises event_fd outside the lock, which the woken receiver takes at once. A receiver that has found the messages by
 * itself meanwhile wakes once for nothing. */
void mailbox_wake(struct mailbox *mailbox) {
    pthread_mutex_lock(&mailbox->lock);
    bool wake = mailbox->first != NULL && !mailbox->signalled;
    mailbox->signalled = mailbox->signalled || wake;
    pthread_mutex_unlock(&mailbox->lock);
    if (wake) {
        mailbox_raise(mailbox);
    }
}

unsigned mailbox_unheard(struct mailbox *mailbox) {
    pthread_mutex_lock(&mailbox->lock);
    unsigned type = mailbox->first != NULL && !mailbox->signalled ? (unsigned)mailbox->first->message.type : 0;
    pthread_mutex_unlock(&mailbox->lock);
    return type;
}

bool mailbox_take(struct mailbox *mailbox, actor_id *from, struct message *message) {
    pthread_mutex_lock(&mailbox->lock);
    struct mailbox_entry *entry = mailbox->first;
    if (entry != NULL) {
        mailbox->first = entry->next;
        mailbox->count--;
        if (mailbox->first == NULL) {
            mailbox->last = &mailbox->first;
        }
    } else {
        mailbox->signalled = false;
    }
    pthread_mutex_unlock(&mailbox->lock);
    if (entry == NULL) {
        return false;
    }
    *from = entry->from;
    *message = entry->message;
    free(entry);
    return true;
}
