/* A feeder's part in batches: keeps the questions of working nodes, gets the data shards that it lacks, has its process
 * make batches, and answers. See node_feed.h and node_private.h. */
#include "workers/node/feed/node_feed.h"

#include "agileml/base/hash.h"
#include "agileml/base/memory.h"
#include "agileml/wire/records.h"
#include "workers/node/node_private.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static bool is_feeder(const struct node *node) {
    return node->options.registration.tier == TIER_FEEDER;
}

unsigned node_feeding_transforms(const struct node *node) {
    const struct node_hooks *hooks = &node->options.hooks;
    return hooks->feeds != NULL ? hooks->feeds(hooks->context) : 0;
}

/* One thread makes one batch at a time. Several threads each make as many as take NODE_FEED_MAKE_US, at least one, so
 * that all have about as much to do. */
unsigned node_feeding_at_once(unsigned threads, uint64_t batch_us) {
    uint64_t each = batch_us > 0 ? NODE_FEED_MAKE_US / batch_us : 1;
    uint64_t count = threads > 1 ? threads * (each > 1 ? each : 1) : 1;
    return count < WIRE_FEED_SHARDS_MAX ? (unsigned)count : WIRE_FEED_SHARDS_MAX;
}

/* Checks that the batches that wait for their answer are the last ones that were made. */
static void check_question(const struct feed_question *question) {
    assert(question->made <= question->next && question->next <= question->count);
    assert(question->count > 0 && question->count <= WIRE_FEED_SHARDS_MAX);
}

static void question_drop_bytes(struct feed_question *question) {
    for (unsigned b = 0; b < question->made; b++) {
        buffer_drop(question->bytes[b]);
    }
    question->made = 0;
}

static void question_remove(struct node_feeding *feeding, unsigned index) {
    question_drop_bytes(&feeding->questions[index]);
    feeding->questions[index] = feeding->questions[--feeding->count];
}

void node_feeding_drop(struct node *node) {
    while (node_feed(node)->feeding.count > 0) {
        question_remove(&node_feed(node)->feeding, node_feed(node)->feeding.count - 1);
    }
}

void node_feeding_close(struct node *node) {
    node_feeding_drop(node);
    free(node_feed(node)->feeding.questions);
    free(node_feed(node)->feeding.wanted);
}

/* ---- Answers ---- */

static void answer(struct node *node, const struct feed_question *question, enum feed_kind kind, struct buffer *records,
                   struct buffer *bytes) {
    struct message message = {.type = MESSAGE_PEER, .peer = {.service = SERVICE_FEED, .kind = (uint8_t)kind}};
    message.peer.feed = (struct peer_feed){.clock = question->clock, .claim = question->claim};
    message_add(&message, records);
    message_add(&message, bytes);
    node_send_by(node, question->server, question->asker, &message);
}

/* Answers that the batches of these shards will not come. */
static void answer_gone(struct node *node, const struct feed_question *question, const uint32_t *shards,
                        unsigned count) {
    struct wire_batch gone[WIRE_FEED_SHARDS_MAX] = {0};
    for (unsigned s = 0; s < count; s++) {
        gone[s].shard = shards[s];
    }
    if (count > 0) {
        answer(node, question, FEED_GONE, buffer_copy(gone, count * sizeof *gone), buffer_new(0));
    }
}

static size_t made_bytes(const struct feed_question *question) {
    size_t bytes = 0;
    for (unsigned b = 0; b < question->made; b++) {
        bytes += question->bytes[b]->size;
    }
    return bytes;
}

static void answer_made(struct node *node, struct feed_question *question) {
    struct buffer *bytes = buffer_new(made_bytes(question));
    size_t at = 0;
    for (unsigned b = 0; b < question->made; b++) {
        memcpy(bytes->data + at, question->bytes[b]->data, question->bytes[b]->size);
        at += question->bytes[b]->size;
    }
    answer(node, question, FEED_DONE, buffer_copy(question->batches, question->made * sizeof *question->batches),
           bytes);
    question_drop_bytes(question);
}

/* ---- Data ---- */

static bool set_has(const struct node_set *set, uint32_t shard) {
    return set != NULL && bsearch(&shard, set->shards, set->count, sizeof shard, node_compare_shards) != NULL;
}

/* Makes the next set: the shards that are kept, and those that were requested since. */
static void want_set(struct node *node) {
    struct node_feeding *feeding = &node_feed(node)->feeding;
    const struct node_set *kept = node_set_find(node, feeding->kept);
    uint32_t *shards = memory_resized(NULL, node->plan.terms.shards, sizeof *shards);
    uint32_t count = 0;
    for (uint32_t s = 0; s < node->plan.terms.shards; s++) {
        if (feeding->wanted[s] != 0 || set_has(kept, s)) {
            shards[count++] = s;
        }
    }
    free(feeding->wanted);
    feeding->wanted = NULL;
    unsigned set = node_set_of_shards(node, shards, count);
    feeding->coming = node->work.sets[set].number;
}

static void want_shard(struct node *node, uint32_t shard) {
    struct node_feeding *feeding = &node_feed(node)->feeding;
    if (set_has(node_set_find(node, feeding->coming), shard)) {
        return;
    }
    if (feeding->wanted == NULL) {
        feeding->wanted = memory_zeroed(node->plan.terms.shards, 1);
    }
    feeding->wanted[shard] = 1;
}

/* ---- Questions ---- */

/* Makes room for a question about this clock. False: all questions are about earlier clocks, or about this one. */
static bool make_room(struct node *node, uint64_t clock) {
    struct node_feeding *feeding = &node_feed(node)->feeding;
    if (feeding->questions == NULL) {
        feeding->questions = memory_zeroed(NODE_FEED_QUESTIONS_MAX, sizeof *feeding->questions);
    }
    if (feeding->count < NODE_FEED_QUESTIONS_MAX) {
        return true;
    }
    unsigned newest = 0;
    for (unsigned q = 1; q < feeding->count; q++) {
        newest = feeding->questions[q].clock > feeding->questions[newest].clock ? q : newest;
    }
    const struct feed_question *question = &feeding->questions[newest];
    check_question(question);
    if (question->clock <= clock) {
        return false;
    }
    answer_gone(node, question, question->shards + question->next - question->made,
                question->count - question->next + question->made);
    question_remove(feeding, newest);
    return true;
}

static bool is_known(const struct node_feeding *feeding, actor_id asker, uint64_t claim) {
    for (unsigned q = 0; q < feeding->count; q++) {
        if (feeding->questions[q].asker == asker && feeding->questions[q].claim == claim) {
            return true;
        }
    }
    return false;
}

/* Drops the questions about clocks that the asking node has begun. */
static void drop_begun(struct node_feeding *feeding, actor_id asker, uint64_t begun) {
    for (unsigned q = feeding->count; q > 0; q--) {
        if (feeding->questions[q - 1].asker == asker && feeding->questions[q - 1].clock <= begun) {
            question_remove(feeding, q - 1);
        }
    }
}

void node_feeding_receive(struct node *node, actor_id server, const struct message *message) {
    struct node_feeding *feeding = &node_feed(node)->feeding;
    size_t count;
    const uint32_t *asked = peer_shards(message, &count);
    struct feed_question question = {.asker = message->peer.sender,
                                     .server = server,
                                     .clock = message->peer.feed.clock,
                                     .transforms = message->peer.feed.transforms,
                                     .claim = message->peer.feed.claim};
    uint32_t lacking[WIRE_FEED_SHARDS_MAX] = {0};
    unsigned lacking_count = 0;
    if (!is_feeder(node) || is_known(feeding, question.asker, question.claim) ||
        (count > 0 && asked[count - 1] >= node->plan.terms.shards)) {
        return;
    }
    drop_begun(feeding, question.asker, message->peer.feed.begun);
    for (size_t s = 0; s < count; s++) {
        if (question.transforms == 0 || question.transforms > node_feeding_transforms(node)) {
            lacking[lacking_count++] = asked[s]; /* no batch that this app can make */
        } else if (set_has(node_set_find(node, feeding->kept), asked[s])) {
            question.shards[question.count++] = asked[s];
        } else {
            lacking[lacking_count++] = asked[s];
            want_shard(node, asked[s]);
        }
    }
    assert(question.count + lacking_count == count);
    answer_gone(node, &question, lacking, lacking_count);
    question.number = ++feeding->arrived;
    if (question.count > 0 && make_room(node, question.clock)) {
        feeding->questions[feeding->count++] = question;
    } else {
        answer_gone(node, &question, question.shards, question.count);
    }
}

/* ---- Work ---- */

/* The question with the earliest clock; of several, the first that has come. */
static struct feed_question *first_question(const struct node_feeding *feeding) {
    struct feed_question *first = &feeding->questions[0];
    for (unsigned q = 1; q < feeding->count; q++) {
        struct feed_question *question = &feeding->questions[q];
        bool earlier =
            question->clock < first->clock || (question->clock == first->clock && question->number < first->number);
        first = earlier ? question : first;
    }
    return first;
}

unsigned node_feeding_threads(const struct node *node) {
    const struct message_register *own = &node->options.registration;
    unsigned told = node_feed(node)->threads < own->threads_max ? node_feed(node)->threads : own->threads_max;
    return told > 0 ? told : own->threads;
}

/* Has the process make the next batches of a question. */
static bool make_next(struct node *node) {
    struct node_feeding *feeding = &node_feed(node)->feeding;
    const struct node_hooks *hooks = &node->options.hooks;
    if (feeding->making || feeding->count == 0) {
        return false;
    }
    struct feed_question *first = first_question(feeding);
    check_question(first);
    assert(first->next < first->count);
    first->since_us = first->made == 0 ? node_now(node) : first->since_us;
    feeding->making = true;
    feeding->since_us = node_now(node);
    feeding->asker = first->asker;
    feeding->claim = first->claim;
    feeding->threads = node_feeding_threads(node);
    unsigned left = first->count - first->next;
    unsigned most = node_feeding_at_once(feeding->threads, feeding->batch_us);
    if (!hooks->feed_make(hooks->context, feeding->kept, first->clock, first->transforms, &first->shards[first->next],
                          most < left ? most : left)) {
        node_fail(node, AML_ELIMIT,
                  "the data that this feeder is asked for is more than --memory allows: use more feeders, "
                  "or more memory");
    }
    return !node->ended;
}

bool node_feeding_advance(struct node *node) {
    struct node_feeding *feeding = &node_feed(node)->feeding;
    if (!is_feeder(node) || !plan_is_there(&node->plan)) {
        return false;
    }
    const struct node_set *coming = node_set_find(node, feeding->coming);
    if (coming != NULL && coming->state == SET_READY && !feeding->making) {
        feeding->kept = feeding->coming; /* the next set has all shards of the set before */
        feeding->coming = 0;
        return true;
    }
    if (coming == NULL && feeding->wanted != NULL) {
        want_set(node);
        return true;
    }
    return make_next(node);
}

uint64_t node_feeding_us(const struct node *node) {
    const struct node_feeding *feeding = &node_feed(node)->feeding;
    return feeding->made_us + (feeding->making ? node_now(node) - feeding->since_us : 0);
}

/* Takes the question's next batch. `last`: the last of the batches that were made at once. */
static void take_made(struct node *node, struct feed_question *question, struct buffer *bytes, bool last) {
    question->batches[question->made] = (struct wire_batch){.shard = question->shards[question->next],
                                                            .bytes = (uint32_t)bytes->size,
                                                            .hash = hash_bytes(bytes->data, bytes->size, 0)};
    question->bytes[question->made++] = buffer_hold(bytes);
    question->next++;
    check_question(question);
    if (question->next == question->count || made_bytes(question) >= NODE_FEED_SEND_BYTES ||
        (last && node_now(node) >= question->since_us + NODE_FEED_FUSED_US)) {
        answer_made(node, question);
    }
}

/* Fails the node if a batch is larger than a message may be. */
static void check_sizes(struct node *node, const struct feed_made *made) {
    for (unsigned b = 0; b < made->count && !node->ended; b++) {
        if (made->bytes[b]->size > WIRE_BATCH_BYTES_MAX) {
            char text[ERROR_TEXT_MAX];
            snprintf(text, sizeof text,
                     "a batch of data shard %u has %zu bytes, at most %d are possible: use more nodes, "
                     "and so more shards, or smaller items",
                     made->shards[b], made->bytes[b]->size, WIRE_BATCH_BYTES_MAX);
            node_fail(node, AML_ELIMIT, text);
        }
    }
}

/* Takes what was made for the question, unless the question was dropped meanwhile. */
static void take_all(struct node *node, const struct feed_made *made) {
    struct node_feeding *feeding = &node_feed(node)->feeding;
    for (unsigned q = 0; q < feeding->count; q++) {
        struct feed_question *question = &feeding->questions[q];
        if (question->asker == feeding->asker && question->claim == feeding->claim && question->clock == made->clock) {
            for (unsigned b = 0; b < made->count; b++) {
                take_made(node, question, made->bytes[b], b + 1 == made->count);
            }
            if (question->next == question->count) {
                question_remove(feeding, q);
            }
            return;
        }
    }
}

void node_feeding_made(struct node *node, const struct feed_made *made) {
    struct node_feeding *feeding = &node_feed(node)->feeding;
    assert(feeding->making && made->count > 0);
    feeding->making = false;
    feeding->made_us += node_now(node) - feeding->since_us;
    feeding->batches += made->count;
    uint64_t each_us = made->us * feeding->threads / made->count;
    feeding->batch_us = feeding->batch_us > 0 ? (7 * feeding->batch_us + each_us) / 8 : each_us;
    check_sizes(node, made);
    if (!node->ended) {
        take_all(node, made);
    }
    for (unsigned b = 0; b < made->count; b++) {
        buffer_drop(made->bytes[b]);
    }
}
