/* The elasticity controller's recovery after nodes were lost without warning. Fences the other nodes, finds the latest
 * clock to which every partition can be restored, and makes a plan for the remaining members (docs/design.md, "Plans";
 * Proteus (EuroSys 2017), section 3.3). See controller_private.h. */
#include "agileml/control/state/controller_private.h"

#include "agileml/base/memory.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- Fencing ---- */

static void send_fence(struct controller *controller, const struct member *member) {
    struct message fence = {.type = MESSAGE_FENCE, .epoch = controller->plan.epoch};
    controller->io->send(controller->io, member->node.actor, &fence);
}

/* Whether no clock depends on the member and the member has no copy of a partition, so that it need not be fenced. A
 * restarted controller does not know this of a member that it has not heard yet: it may have copies from an earlier
 * plan. */
static bool is_not_asked(const struct controller *controller, const struct member *member) {
    bool unknown = member->silence.lively_us == 0 && !controller_feeds(member);
    return member->stay == MEMBER_DISMISSED || (controller_is_outside(controller, member) && !unknown);
}

void recover_ask(struct controller *controller, const struct member *member) {
    if (controller->change.state == CHANGE_RECOVER && !controller->verdicts.fence && !member->fence.answered) {
        send_fence(controller, member);
    }
}

void recover_repeat(struct controller *controller) {
    for (unsigned m = 0; m < controller->member_count; m++) {
        recover_ask(controller, &controller->members[m]);
    }
}

void recover_fence(struct controller *controller) {
    assert(controller->phase > PHASE_GATHER && controller->phase < PHASE_LEAVE);
    schedule_cancel(&controller->plan.schedule);
    checkpoints_put_off(controller);
    change_set(controller, CHANGE_RECOVER);
    controller->plan.epoch++;
    barrier_lift(controller);
    for (unsigned m = 0; m < controller->member_count; m++) {
        struct member *member = &controller->members[m];
        member->fence.answered = is_not_asked(controller, member);
        member->fence.begun = member->fence.committed = 0;
        buffer_drop(member->fence.restore_points);
        member->fence.restore_points = NULL;
    }
    if (persist_all(controller)) {
        recover_repeat(controller);
    }
}

/* ---- What can be restored ---- */

/* Orders restore points: highest clocks first, then by partition, then replicas before caches. */
static int reach_order(const void *a, const void *b) {
    const struct wire_restore_point *left = a;
    const struct wire_restore_point *right = b;
    if (left->clock != right->clock) {
        return left->clock > right->clock ? -1 : 1;
    }
    if (left->partition != right->partition) {
        return left->partition < right->partition ? -1 : 1;
    }
    return left->cache < right->cache ? -1 : left->cache > right->cache;
}

/* Returns the restore points of all members' servers in reach_order; with `caches`, also those of members' caches. The
 * caller frees the list. */
static struct wire_restore_point *all_restore_points(const struct controller *controller, bool caches, size_t *count) {
    struct wire_restore_point *all = memory_resized(NULL, 1, sizeof *all);
    *count = 0;
    for (unsigned m = 0; m < controller->member_count; m++) {
        const struct buffer *own = controller->members[m].fence.restore_points;
        size_t more = own != NULL ? own->size / sizeof *all : 0;
        assert(own == NULL || own->size == more * sizeof *all); /* records_restore_points has checked the frame */
        all = memory_resized(all, *count + more + 1, sizeof *all);
        for (size_t r = 0; r < more; r++) {
            const struct wire_restore_point *point = (const struct wire_restore_point *)(const void *)own->data + r;
            if (caches || point->cache == 0) {
                all[(*count)++] = *point;
            }
        }
    }
    qsort(all, *count, sizeof *all, reach_order);
    return all;
}

/* Finds the highest clock to which some replica of every partition can be restored. Returns false when there is none.
 * Then *missing is a partition without a replica, or the number of partitions if each has a replica. */
static bool highest_common(const struct controller *controller, const struct wire_restore_point *all, size_t count,
                           uint64_t *clock, uint32_t *missing) {
    uint32_t partitions = controller->options.policy.partitions;
    unsigned char *seen = memory_zeroed(partitions, 1);
    for (size_t r = 0; r < count; r++) {
        assert(all[r].partition < partitions); /* by possible_check */
        assert(r == 0 || reach_order(&all[r - 1], &all[r]) <= 0);
        seen[all[r].partition] = 1;
    }
    *missing = 0;
    while (*missing < partitions && seen[*missing] != 0) {
        (*missing)++;
    }
    free(seen);
    uint32_t different = 0;
    for (size_t r = 0; r < count; r++) {
        bool same_clock = r > 0 && all[r].clock == all[r - 1].clock;
        bool repeated = same_clock && all[r].partition == all[r - 1].partition;
        different = same_clock ? different + (repeated ? 0 : 1) : 1;
        if (different == partitions) {
            assert(*missing == partitions);
            *clock = all[r].clock;
            return true;
        }
    }
    return false;
}

/* Whether the server has a replica that can be restored at the clock. */
static bool can_be_put(const struct wire_restore_point *all, size_t count, actor_id server, uint32_t partition,
                       uint64_t clock) {
    size_t r = 0; /* becomes the first point of this clock and partition; if there is none, the next one */
    for (size_t end = count; r < end;) {
        size_t middle = r + (end - r) / 2;
        bool before = all[middle].clock != clock ? all[middle].clock > clock : all[middle].partition < partition;
        r = before ? middle + 1 : r;
        end = before ? end : middle;
    }
    for (; server != ACTOR_NONE && r < count && all[r].clock == clock && all[r].partition == partition; r++) {
        if (all[r].server == server && all[r].cache == 0) {
            return true;
        }
    }
    return false;
}

/* Returns a server whose replica can be restored at the clock, preferably a reliable one; ACTOR_NONE: there is none. */
static actor_id anyone(const struct controller *controller, const struct wire_restore_point *all, size_t count,
                       uint32_t partition, uint64_t clock) {
    actor_id found = ACTOR_NONE;
    for (size_t r = 0; r < count; r++) {
        if (all[r].clock == clock && all[r].partition == partition && all[r].cache == 0 &&
            (found == ACTOR_NONE || controller_actor_tier(controller, found) != TIER_RELIABLE)) {
            found = all[r].server;
        }
    }
    return found;
}

/* Whether the server's node has had no notice. */
static bool stays(const struct controller *controller, actor_id server) {
    const struct member *member = controller_find_member(controller, actor_node(server));
    return member != NULL && member->stay == MEMBER_STAYS;
}

/* Returns a server whose node's cache has the partition at the clock, if possible of a node that stays. ACTOR_NONE:
 * there is none. Spreads the partitions over several such servers. */
static actor_id cached(const struct controller *controller, const struct wire_restore_point *all, size_t count,
                       uint32_t partition, uint64_t clock) {
    unsigned found[2] = {0}; /* servers found; [1]: on nodes that stay */
    actor_id server = ACTOR_NONE;
    for (unsigned pass = 0; pass < 2; pass++) {
        const unsigned staying = found[1] > 0 ? 1 : 0;
        unsigned left = found[staying] > 0 ? partition % found[staying] : 0;
        for (size_t r = 0; r < count && server == ACTOR_NONE; r++) {
            if (all[r].clock != clock || all[r].partition != partition || all[r].cache == 0) {
                continue;
            }
            bool stay = stays(controller, all[r].server);
            if (pass == 0) {
                found[0]++;
                found[1] += stay ? 1 : 0;
            } else if ((staying == 0 || stay) && left-- == 0) {
                server = all[r].server;
            }
        }
    }
    assert((server != ACTOR_NONE) == (found[0] > 0));
    return server;
}

/* Returns the server with the partition's latest restore point up to the clock, on another node than `server`. Except
 * in stage transient, that node must be reliable; a server that has the committed clock is preferred, as another loss
 * may lead back there until the restored clock is durable. Of several at one clock, prefers a server whose node stays.
 * ACTOR_NONE: there is none. */
static actor_id closest_follower(const struct controller *controller, const struct wire_restore_point *all,
                                 size_t count, uint32_t partition, uint64_t clock, actor_id server) {
    actor_id found = ACTOR_NONE;
    uint64_t found_clock = 0;
    unsigned found_rank = 0;
    assert(server != ACTOR_NONE);
    for (size_t r = 0; r < count; r++) {
        if (all[r].clock > clock || all[r].partition != partition || all[r].cache != 0 ||
            actor_node(all[r].server) == actor_node(server) ||
            (controller->plan.stage != STAGE_TRANSIENT &&
             controller_actor_tier(controller, all[r].server) != TIER_RELIABLE)) {
            continue;
        }
        bool committed = controller->plan.stage != STAGE_TRANSIENT &&
                         can_be_put(all, count, all[r].server, partition, controller->commit.clock);
        bool latest = found == ACTOR_NONE || all[r].clock == found_clock;
        unsigned rank = (committed ? 2U : 0U) + (latest && stays(controller, all[r].server) ? 1U : 0U);
        if (found == ACTOR_NONE || rank > found_rank) {
            found = all[r].server;
            found_clock = all[r].clock;
            found_rank = rank;
        }
    }
    return found;
}

/* Whether the fenced member has reported a replica, and not only what its cache has. */
static bool has_replica(const struct member *member) {
    const struct buffer *own = member->fence.restore_points;
    const struct wire_restore_point *points = own != NULL ? (const void *)own->data : NULL;
    size_t count = own != NULL ? own->size / sizeof *points : 0;
    size_t r = 0;
    while (r < count && points[r].cache != 0) {
        r++;
    }
    return r < count;
}

/* Stage transient: chooses followers on other nodes. A node that has a copy keeps it, as there is no time to make
 * another copy before this one is dropped. The next change of plan evens out the load. */
static void place_followers(struct controller *controller, const struct wire_restore_point *all, size_t count,
                            uint64_t clock) {
    uint32_t partitions = controller->options.policy.partitions;
    struct plan_node *nodes = memory_zeroed(controller->member_count, sizeof *nodes);
    actor_id *servers = memory_zeroed(partitions, sizeof *servers);
    actor_id *closest = memory_zeroed(partitions, sizeof *closest);
    actor_id *backups = memory_zeroed(partitions, sizeof *backups);
    unsigned used = 0;
    for (unsigned m = 0; m < controller->member_count; m++) {
        const struct member *member = &controller->members[m];
        bool may = has_replica(member) || (member->settled && member->stay == MEMBER_STAYS);
        if (may && member->stay != MEMBER_DISMISSED && !controller_feeds(member)) {
            nodes[used++] = member->node;
        }
    }
    for (uint32_t p = 0; p < partitions; p++) {
        servers[p] = controller->plan.placement[p].server;
        closest[p] = closest_follower(controller, all, count, p, clock, servers[p]);
    }
    const struct plan_present present = {.backups = closest};
    plan_followers(nodes, used, partitions, &present, servers, backups);
    for (uint32_t p = 0; p < partitions; p++) {
        struct wire_placement *place = &controller->plan.placement[p];
        place->backup = place->next_backup = closest[p] != ACTOR_NONE ? closest[p] : backups[p];
        assert(actor_node(place->backup) != actor_node(place->server));
    }
    free(nodes);
    free(servers);
    free(closest);
    free(backups);
}

/* Places the partitions. A partition's server stays if its node is left; else the follower serves; else a server whose
 * node's cache has the partition. A partition that a transient node serves (ActivePS) gets a follower on a reliable
 * node (BackupPS). If no reliable node has a replica, the follower in `ordinary` makes a new copy. If no server can
 * restore the clock, the server in `ordinary` begins with new rows. */
static void place(struct controller *controller, const struct wire_restore_point *all, size_t count, uint64_t clock,
                  const struct plan_result *ordinary) {
    bool switched = controller->plan.from_clock <= clock + 1;
    assert(count == 0 || all[0].clock >= clock);
    controller->recovery.cached = 0;
    for (uint32_t p = 0; p < controller->options.policy.partitions; p++) {
        struct wire_placement *old = &controller->plan.placement[p];
        const actor_id wanted[] = {switched ? old->next_server : old->server, switched ? old->server : old->next_server,
                                   switched ? old->next_backup : old->backup, old->backup, old->next_backup};
        actor_id server = ACTOR_NONE;
        for (unsigned w = 0; w < sizeof wanted / sizeof *wanted && server == ACTOR_NONE; w++) {
            server = can_be_put(all, count, wanted[w], p, clock) ? wanted[w] : ACTOR_NONE;
        }
        server = server != ACTOR_NONE ? server : anyone(controller, all, count, p, clock);
        if (server == ACTOR_NONE) {
            server = cached(controller, all, count, p, clock);
            controller->recovery.cached += server != ACTOR_NONE ? 1 : 0;
        }
        server = server != ACTOR_NONE ? server : ordinary->servers[p];
        actor_id backup = ACTOR_NONE;
        if (controller_actor_tier(controller, server) != TIER_RELIABLE && controller->plan.stage != STAGE_TRANSIENT) {
            backup = closest_follower(controller, all, count, p, clock, server);
            backup = backup != ACTOR_NONE ? backup : ordinary->backups[p];
        }
        *old =
            (struct wire_placement){.server = server, .backup = backup, .next_server = server, .next_backup = backup};
        assert(server != ACTOR_NONE && actor_node(backup) != actor_node(server));
    }
    if (controller->plan.stage == STAGE_TRANSIENT) {
        place_followers(controller, all, count, clock);
    }
}

/* ---- The plan afterwards ---- */

static bool node_is_dead(const void *context, actor_id node) {
    return controller_find_member(context, node) == NULL;
}

/* Makes an ordinary plan for the remaining members. It decides which member takes over each shard of dead nodes, and
 * which servers get partitions without a replica. The caller closes `ordinary`. */
static int plan_ordinary(const struct controller *controller, struct plan_result *ordinary, struct error *error) {
    struct plan_policy policy = controller->options.policy;
    *ordinary = (struct plan_result){.servers = memory_zeroed(policy.partitions, sizeof(actor_id)),
                                     .backups = memory_zeroed(policy.partitions, sizeof(actor_id)),
                                     .owners = memory_zeroed(policy.shards, sizeof(actor_id))};
    struct plan_node *nodes = memory_zeroed(controller->member_count, sizeof *nodes);
    struct plan_present present = {.owners = schedule_present(&controller->plan.schedule),
                                   .previous = controller->plan.previous};
    int code = AML_EINPUT;
    /* If the settled members that stay can't run the job, leaving members are added, then new ones. */
    for (int round = 0; round < 3 && code != 0; round++) {
        unsigned count[TIERS] = {0};
        unsigned used = 0;
        for (unsigned m = 0; m < controller->member_count; m++) {
            const struct member *member = &controller->members[m];
            if (member->stay != MEMBER_DISMISSED && (member->stay == MEMBER_STAYS || round > 0) &&
                (member->settled || round > 1) && !controller_feeds(member)) {
                nodes[used++] = member->node;
                count[member->node.tier]++;
            }
        }
        bool staged = count[TIER_RELIABLE] > 0 && count[TIER_TRANSIENT] > 0 && controller->plan.stage != STAGE_AUTO;
        policy.stage = staged || controller->plan.stage == STAGE_TRANSIENT ? controller->plan.stage
                       : count[TIER_RELIABLE] > 0                          ? STAGE_1
                                                                           : STAGE_TRADITIONAL;
        error->code = 0;
        code = plan(nodes, used, &policy, &present, ordinary, error);
    }
    free(nodes);
    return code;
}

static void ordinary_close(struct plan_result *ordinary) {
    free(ordinary->servers);
    free(ordinary->backups);
    free(ordinary->owners);
}

/* Ends the job with the reason `why`, or with a crash if that is the cause. For `lacking` see crashes_explain. */
static void give_up(struct controller *controller, uint32_t lacking, const char *why) {
    char text[ERROR_TEXT_MAX];
    char crash[ERROR_TEXT_MAX];
    why = crashes_explain(controller, lacking, crash, sizeof crash) ? crash : why;
    snprintf(text, sizeof text, "%.240s%s%.200s", why,
             controller->options.checkpoint != NULL ? "; go on from the last checkpoint with --resume " : "",
             controller->options.checkpoint != NULL ? controller->options.checkpoint : "");
    verdict_end(controller, AML_EFAIL, text);
}

/* Takes the highest committed clock from the nodes' FENCED. Returns the highest begun clock. */
static uint64_t take_fenced_clocks(struct controller *controller) {
    uint64_t begun = 0;
    for (unsigned m = 0; m < controller->member_count; m++) {
        const struct member *member = &controller->members[m];
        assert(member->fence.answered);
        begun = member->fence.begun > begun ? member->fence.begun : begun;
        controller->commit.clock =
            member->fence.committed > controller->commit.clock ? member->fence.committed : controller->commit.clock;
    }
    return begun;
}

/* Finds the clock to restore with the help of caches. On success, replaces *all and *count by a list that includes the
 * caches' restore points. */
static bool find_in_caches(const struct controller *controller, struct wire_restore_point **all, size_t *count,
                           uint64_t *clock) {
    size_t more;
    uint32_t missing;
    struct wire_restore_point *with = all_restore_points(controller, true, &more);
    bool found = controller->plan.stage == STAGE_TRANSIENT && highest_common(controller, with, more, clock, &missing) &&
                 *clock >= controller->commit.clock && *clock > controller->progress.first;
    if (found) {
        free(*all);
        *all = with;
        *count = more;
    } else {
        free(with);
    }
    return found;
}

/* Writes why `partition`, which has no replica left, can't be restored; in stage transient also what caches lack. */
static void write_lost_copies(const struct controller *controller, uint32_t partition, char text[ERROR_TEXT_MAX]) {
    if (controller->plan.stage != STAGE_TRANSIENT) {
        snprintf(text, ERROR_TEXT_MAX, "the only copy of partition %u was lost with its node", partition);
        return;
    }
    size_t count;
    struct wire_restore_point *all = all_restore_points(controller, true, &count);
    size_t newest = 0; /* the list has the highest clocks first */
    while (newest < count && all[newest].partition != partition) {
        newest++;
    }
    int length =
        snprintf(text, ERROR_TEXT_MAX, "all copies of partition %u were lost with their nodes, and ", partition);
    char *rest = text + length;
    size_t room = ERROR_TEXT_MAX - (size_t)length;
    if (newest == count) {
        snprintf(rest, room, "no node's cache has it");
    } else if (all[newest].clock < controller->commit.clock) {
        snprintf(rest, room, "nodes' caches have it only up to clock %llu, where clock %llu was committed",
                 (unsigned long long)all[newest].clock, (unsigned long long)controller->commit.clock);
    } else {
        snprintf(rest, room, "from clock %llu on, which was committed, copies and caches have no clock in common",
                 (unsigned long long)controller->commit.clock);
    }
    free(all);
}

/* Finds the clock to restore, from the replicas alone or else with the help of caches. Sets *count to 0 if no clock of
 * this job is committed yet: then all servers begin anew. Ends the job and returns false if the committed clock can't
 * be restored. */
static bool find_clock(struct controller *controller, struct wire_restore_point **all, size_t *count, uint64_t *clock) {
    uint32_t missing;
    uint64_t highest;
    bool found = highest_common(controller, *all, *count, &highest, &missing);
    if (found && highest >= controller->commit.clock) {
        *clock = highest;
        return true;
    }
    if (find_in_caches(controller, all, count, clock)) {
        return true;
    }
    if (!found && controller->commit.clock == controller->progress.first && !controller->progress.reliable_lost) {
        *clock = controller->commit.clock;
        *count = 0;
        return true;
    }
    char text[ERROR_TEXT_MAX];
    bool partition = missing < controller->options.policy.partitions;
    if (partition) {
        write_lost_copies(controller, missing, text);
    } else {
        snprintf(text, sizeof text, "the state of clock %llu, which was committed, was lost with %s",
                 (unsigned long long)controller->commit.clock,
                 controller->plan.stage == STAGE_TRANSIENT ? "the nodes that had it" : "a reliable node");
    }
    give_up(controller, partition ? missing : CRASHES_LACKING_STATE, text);
    return false;
}

/* Sets the state of the new epoch, which begins at the restored `clock`. */
static void begin_epoch(struct controller *controller, uint64_t clock) {
    assert(controller->plan.epoch > 1 && controller->barrier.clock == WIRE_CLOCK_NEVER);
    change_set(controller, CHANGE_NONE);
    controller->plan.restore = clock;
    /* Reports of later committed clocks are void: if all nodes that had such a state are lost, the job begins anew. */
    controller->commit.claimed = controller->commit.claimed < clock ? controller->commit.claimed : clock;
    controller->plan.from_clock = 0;
    controller->change.next_stage = controller->plan.stage;
    controller->plan.commit_every = controller->change.next_commit_every = change_commit_every(controller, false);
    controller->change.due = true;
    controller->change.due_us = 0;
    for (unsigned m = 0; m < controller->member_count; m++) {
        struct member *member = &controller->members[m];
        member->reported.catch_up = member->reported.catch_up_stored = clock;
        member->silence.accuses = ACTOR_NONE;
        member->loaded = false;
    }
    controller->job.items = controller->phase == PHASE_LOAD ? 0 : controller->job.items; /* all send LOADED again */
    if (controller->phase == PHASE_SAVE) {
        controller_set_phase(controller, PHASE_TRAIN);
    }
    crashes_recovered(controller);
    assert(controller_change_fits(controller) && !schedule_is_prepared(&controller->plan.schedule));
}

/* Plans the epoch after a recovery, from the highest clock to which every partition can be restored. */
static bool plan_recovery(struct controller *controller, uint64_t *clock) {
    size_t count;
    struct wire_restore_point *all = all_restore_points(controller, false, &count);
    struct plan_result ordinary;
    struct error error = {0};
    uint64_t begun = take_fenced_clocks(controller);
    bool found = find_clock(controller, &all, &count, clock);
    bool planned = found && plan_ordinary(controller, &ordinary, &error) == 0;
    if (planned) {
        assert(controller->progress.first <= *clock);
        place(controller, all, count, *clock, &ordinary);
        controller->recovery.mixed_until =
            begun > controller->recovery.mixed_until ? begun : controller->recovery.mixed_until;
        progress_recover(controller, *clock, ordinary.owners);
        schedule_recover(&controller->plan.schedule, node_is_dead, controller, ordinary.owners,
                         &(struct schedule_restore){.committed = controller->commit.clock,
                                                    .clock = *clock,
                                                    .begun = begun,
                                                    .epoch = controller->plan.epoch});
    }
    if (found) {
        ordinary_close(&ordinary);
    }
    if (found && !planned) {
        give_up(controller, CRASHES_LACKING_NODES, error.text);
    }
    free(all);
    return planned;
}

static void recover(struct controller *controller) {
    uint64_t clock = 0;
    if (!plan_recovery(controller, &clock)) {
        return;
    }
    assert(clock >= controller->commit.clock); /* no recovery restores an earlier clock */
    begin_epoch(controller, clock);
    double seconds = (double)(controller_now(controller) - controller->recovery.lost_us) / 1e6;
    controller_report(controller, report_recovery(controller, clock, seconds));
    change_publish(controller);
    for (unsigned m = 0; m < controller->member_count && controller->phase < PHASE_LEAVE; m++) {
        progress_ask(controller, &controller->members[m]);
    }
    progress_step(controller);
}

void recover_step(struct controller *controller) {
    if (controller->phase >= PHASE_LEAVE || controller->change.state != CHANGE_RECOVER) {
        return;
    }
    for (unsigned m = 0; m < controller->member_count; m++) {
        if (!controller->members[m].fence.answered) {
            return;
        }
    }
    if (possible_check_fenced(controller)) {
        recover(controller);
    }
}

void recover_receive_fenced(struct controller *controller, struct member *member, const struct message *message) {
    if (controller->phase >= PHASE_LEAVE || controller->change.state != CHANGE_RECOVER ||
        message->epoch != controller->plan.epoch || member->fence.answered) {
        return;
    }
    assert(member->fence.restore_points == NULL);
    member->fence.answered = true;
    member->fence.begun = message->fenced.begun;
    member->reported.clock =
        message->fenced.begun > member->reported.clock ? message->fenced.begun : member->reported.clock;
    member->fence.committed = message->fenced.committed;
    member->fence.restore_points = buffer_hold(message->frames[RECORDS_FRAME]);
}
