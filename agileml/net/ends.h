/* Who speaks over which of a listener's connections, so that the end of a connection, which is reported by the number
 * of its descriptor, can be told as the end of an actor's connection. Used by the one thread that runs the listener's
 * loop. */
#ifndef AGILEML_NET_ENDS_H
#define AGILEML_NET_ENDS_H

#include "agileml/wire/message.h"

struct ends {
    actor_id *actors; /* by descriptor: who has sent the last message over the connection; ACTOR_NONE: nobody */
    size_t count;
};

void ends_close(struct ends *ends);

/* Notes that the actor has sent a message over the connection with this descriptor; -1: unknown. Returns the actor
 * whose connection had the descriptor until then, and so has ended, though its end may not be reported yet; ACTOR_NONE:
 * there is no such actor. */
actor_id ends_note(struct ends *ends, int descriptor, actor_id actor);
/* The end of the connection with this descriptor is reported. Returns whose connection it was; ACTOR_NONE: nobody has
 * spoken over it. If another connection already has the descriptor, returns the actor of that one, who must be looked
 * at to find out that it is well. */
actor_id ends_take(struct ends *ends, int descriptor);

#endif
