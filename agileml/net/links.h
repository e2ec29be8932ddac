/* The connections that a plan ends. An actor that connects to servers forgets those that left the job: otherwise each
 * node that comes and goes would cost it a descriptor. */
#ifndef AGILEML_NET_LINKS_H
#define AGILEML_NET_LINKS_H

#include "agileml/net/io.h"

/* Sets *endpoints to the server threads of all nodes in a PLAN. Returns their number; 0 for a message without
 * frames. */
size_t links_endpoints(const struct message *plan, const struct wire_endpoint **endpoints);

/* Has the io forget the server threads that the PLAN `old` names and the PLAN `new` does not, except those in the
 * process of `self`. */
void links_forget_absent(struct io *io, actor_id self, const struct message *old, const struct message *new);

#endif
