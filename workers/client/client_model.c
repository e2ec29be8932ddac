/* This process's copy of the model, which consists of the averaged tables. Nodes exchange copies between the local
 * steps of a clock (AD-PSGD). Here are the copy's rows in a message, the average with another node's copy, and the
 * resulting moves. See client.h. */
#include "workers/client/client_private.h"

#include <assert.h>
#include <string.h>

/* Returns the keys of all rows of a table in the order of their slots: those of an earlier copy of the model, if it has
 * them. Averaged tables are replicated, so their keys never change. */
static struct buffer *keys_of(const struct cache_table *table, unsigned number, const struct message *before) {
    struct rows_view view;
    if (rows_find(before, number, &view) && view.count == table->count) {
        return buffer_hold(view.key_frame);
    }
    return buffer_copy(cache_keys(table), table->count * sizeof(uint64_t));
}

struct message client_model(const struct client *client, const struct message *before) {
    struct message model = {.type = MESSAGE_PEER};
    for (unsigned t = 0; t < client->job->table_count; t++) {
        const struct cache_table *table = &client->cache->tables[t];
        size_t bytes = table->shape->row_bytes;
        if (!table->spec->averaged || table->count == 0) {
            continue;
        }
        struct buffer *values = buffer_new(table->count * bytes);
        for (uint32_t slot = 0; slot < table->count; slot++) {
            memcpy(values->data + slot * bytes, cache_row(table, slot), bytes);
        }
        rows_append(&model, t, WIRE_FULL, keys_of(table, t, before), values);
    }
    return model;
}

struct message client_no_moves(const struct client *client, const struct message *model) {
    struct message moves = {.type = MESSAGE_PEER};
    for (unsigned t = 0; t < client->job->table_count; t++) {
        struct rows_view view;
        if (rows_find(model, t, &view)) {
            struct buffer *values = buffer_new(view.value_frame->size);
            memset(values->data, 0, values->size);
            rows_append(&moves, t, WIRE_FULL, buffer_hold(view.key_frame), values);
        }
    }
    return moves;
}

int client_model_check(const struct client *client, const struct message *message, bool *fits, struct error *error) {
    struct rows_view views[WIRE_TABLES_MAX];
    int count = rows_check(message, client->job->shapes, client->job->table_count, views, error);
    *fits = count > 0;
    for (unsigned t = 0; t < client->job->table_count && *fits; t++) {
        const struct cache_table *table = &client->cache->tables[t];
        struct rows_view view;
        bool wanted = table->spec->averaged && table->count > 0;
        bool there = rows_find(message, t, &view);
        *fits =
            there == wanted && (!wanted || (view.count == table->count && view.encoding == WIRE_FULL &&
                                            memcmp(view.keys, cache_keys(table), view.count * sizeof *view.keys) == 0 &&
                                            rows_not_finite(table->shape, &view) == view.count));
    }
    return count < 0 ? count : 0;
}

#define AVERAGE(type)                                                                                                  \
    do {                                                                                                               \
        const type *mine = (const void *)ours;                                                                         \
        const type *other = (const void *)theirs;                                                                      \
        type *move = (void *)moves;                                                                                    \
        type *answer = (void *)answers;                                                                                \
        for (size_t e = 0; e < count; e++) {                                                                           \
            type apart = other[e] - (mine[e] + move[e]);                                                               \
            move[e] += (type)weight * apart;                                                                           \
            answer[e] = (type)(weight - 1) * apart;                                                                    \
        }                                                                                                              \
    } while (0)

/* Moves both copies of the model to their mean, in which theirs has this weight. All arrays have `count` elements. Adds
 * to `moves` how our copy moves, and writes to `answers` how theirs is to move. */
static void average_elements(enum aml_type element, size_t count, const unsigned char *ours,
                             const unsigned char *theirs, double weight, unsigned char *moves, unsigned char *answers) {
    if (element == AML_FLOAT32) {
        AVERAGE(float);
    } else {
        AVERAGE(double);
    }
}

struct message client_average(const struct client *client, const struct message *ours, const struct message *theirs,
                              double weight, struct message *moves) {
    struct message answer = {.type = MESSAGE_PEER};
    assert(weight >= 0 && weight <= 1);
    for (unsigned t = 0; t < client->job->table_count; t++) {
        struct rows_view mine;
        struct rows_view other;
        struct rows_view moved;
        if (!rows_find(ours, t, &mine) || !rows_find(theirs, t, &other) || !rows_find(moves, t, &moved)) {
            continue;
        }
        const struct row_shape *shape = &client->job->shapes[t];
        assert(mine.count == other.count && mine.count == moved.count);
        struct buffer *values = buffer_new(mine.count * (size_t)shape->row_bytes);
        average_elements(shape->type, mine.count * (size_t)shape->width, mine.values, other.values, weight,
                         moved.value_frame->data, values->data);
        rows_append(&answer, t, WIRE_FULL, buffer_hold(mine.key_frame), values);
    }
    return answer;
}

void client_add_moves(const struct client *client, struct message *moves, const struct message *more) {
    for (unsigned t = 0; t < client->job->table_count; t++) {
        struct rows_view sum;
        struct rows_view view;
        if (rows_find(moves, t, &sum) && rows_find(more, t, &view)) {
            assert(sum.count == view.count);
            rows_codec(WIRE_FULL)->add(&client->job->shapes[t], sum.value_frame->data, view.values, view.count);
        }
    }
}

void client_move(struct client *client, const struct message *moves) {
    assert(client->working && !client->frozen);
    for (unsigned t = 0; t < client->job->table_count; t++) {
        const struct cache_table *table = &client->cache->tables[t];
        struct rows_view view;
        if (!rows_find(moves, t, &view)) {
            continue;
        }
        assert(view.count == table->count && view.encoding == WIRE_FULL);
        for (uint32_t slot = 0; slot < view.count; slot++) {
            rows_codec(WIRE_FULL)->add(table->shape, cache_row(table, slot),
                                       view.values + (size_t)slot * table->shape->row_bytes, 1);
            table->touched.base[slot] = 1;
        }
    }
}
