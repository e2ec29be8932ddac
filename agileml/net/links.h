/* Closes connections that a new plan makes useless. An actor that connects to servers forgets servers that have left
 * the job: otherwise each node that joins and leaves would cost the actor a descriptor. */
#ifndef AGILEML_NET_LINKS_H
#define AGILEML_NET_LINKS_H

#include "agileml/net/io.h"
#include "agileml/wire/plan.h"

/* Has the io forget the server threads that the plan `old` names and the plan `new` does not, except those in the
 * process of `self`. `old` may be empty, when there was no plan yet. */
void links_forget_absent(struct io *io, actor_id self, const struct plan_view *old, const struct plan_view *new);

#endif
