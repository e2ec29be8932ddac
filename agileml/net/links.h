/* The connections that a plan ends. An actor that connects to servers forgets those that left the job: otherwise each
 * node that comes and goes would cost it a descriptor. */
#ifndef AGILEML_NET_LINKS_H
#define AGILEML_NET_LINKS_H

#include "agileml/net/io.h"
#include "agileml/wire/plan.h"

/* Has the io forget the server threads that the plan `old` names and the plan `new` does not, except those in the
 * process of `self`. `old` may be a plan that is not there yet. */
void links_forget_absent(struct io *io, actor_id self, const struct plan_view *old, const struct plan_view *new);

#endif
