/* Plans as they cross the network, in PACKED_PLAN: compressed, and as what differs from an earlier plan that the
 * receiver has. In a cluster of a thousand nodes, the change of one costs each receiver some hundred bytes, where the
 * plan has some hundred thousand.
 *
 * A plan is laid out as an image: the PLAN's head, the number of records of each frame, and the frames. Assignments lie
 * there field by field, their `first` as the difference to where the assignment before ends, shards as differences to
 * the shard before: so a change of one owner changes few bytes. The image is compressed by zstd, after the image of the
 * earlier plan, if there is one, as a prefix. */
#ifndef AGILEML_WIRE_PLAN_PACK_H
#define AGILEML_WIRE_PLAN_PACK_H

#include "agileml/wire/plan.h"

/* Returns the plan as a PACKED_PLAN. With `base`, as the difference to this plan; NULL: whole. */
struct message plan_pack(const struct plan_view *plan, const struct plan_view *base);

/* Whether the receiver of `packed`, which has the plan `now` or none, can unpack it. */
bool plan_unpacks(const struct message *packed, const struct plan_view *now);

/* Unpacks a PACKED_PLAN into *plan, which the caller closes, after plan_unpacks. Everything in it is checked as in a
 * PLAN. Returns 0; or AML_EPROTOCOL if the bytes are damaged, or differ from another plan `now` of the same version. */
int plan_unpack(const struct message *packed, const struct plan_view *now, struct plan_view *plan, struct error *error);

#endif
