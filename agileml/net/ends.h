/* Finds the actor whose connection to a listener has ended. The end of a connection is reported by the number of its
 * descriptor, so this notes which actor speaks over which descriptor. Only the thread that runs the listener's loop
 * uses it. */
#ifndef AGILEML_NET_ENDS_H
#define AGILEML_NET_ENDS_H

#include "agileml/wire/message.h"

struct ends {
    actor_id *actors; /* by descriptor: the sender of the last message over the connection; ACTOR_NONE: none */
    size_t count;
};

void ends_close(struct ends *ends);

/* Notes that the actor has sent a message over the connection with this descriptor; -1: the descriptor is not known.
 * If another actor's connection had the descriptor before, that connection has ended, even if its end was not
 * reported yet: returns that actor, or else ACTOR_NONE. */
actor_id ends_note(struct ends *ends, int descriptor, actor_id actor);
/* Call it when the end of the connection with this descriptor is reported. Returns the connection's actor;
 * ACTOR_NONE: no actor has spoken over it. The report may come after a new connection got the descriptor: then this
 * returns the new connection's actor, so the caller must ask that actor before it believes that the connection has
 * ended. */
actor_id ends_take(struct ends *ends, int descriptor);

#endif
