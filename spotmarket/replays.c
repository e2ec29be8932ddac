/* See replays.h. There are two hash tables. Signatures are added to the recent one. When it is full, it replaces the
 * older table, whose signatures are forgotten. */
#include "spotmarket/replays.h"

#include "agileml/base/memory.h"

#include <stdlib.h>
#include <string.h>

enum { PLACES = 2 * REPLAYS_MAX, KEY_BYTES = 32 };

struct replay {
    char key[KEY_BYTES]; /* from the signature's digits; all 0: the place is free */
    int64_t first_us;
};

/* Returns the signature's place, or the free place for it. NULL: there is no table. */
static struct replay *table_place(const struct replays_table *table, const char *signature) {
    if (table->places == NULL) {
        return NULL;
    }
    char beginning[9];
    memcpy(beginning, signature, 8);
    beginning[8] = '\0';
    size_t at = strtoul(beginning, NULL, 16) % PLACES;
    while (table->places[at].key[0] != '\0' && memcmp(table->places[at].key, signature, KEY_BYTES) != 0) {
        at = (at + 1) % PLACES;
    }
    return &table->places[at];
}

static const struct replay *table_find(const struct replays_table *table, const char *signature) {
    const struct replay *place = table_place(table, signature);
    return place != NULL && place->key[0] != '\0' ? place : NULL;
}

/* Turns the recent table into the older one, and starts a new one. */
static void replays_turn(struct replays *replays) {
    if (replays->older.newest > replays->forgotten) {
        replays->forgotten = replays->older.newest;
    }
    free(replays->older.places);
    replays->older = replays->recent;
    replays->recent = (struct replays_table){.places = memory_zeroed(PLACES, sizeof(struct replay))};
}

bool replays_take(struct replays *replays, const char signature[SIGV4_HEX], int64_t date, bool reading,
                  int64_t now_us) {
    const struct replay *before = table_find(&replays->recent, signature);
    before = before != NULL ? before : table_find(&replays->older, signature);
    if (before != NULL) {
        return reading && now_us - before->first_us <= REPLAYS_READ_US;
    }
    if (date <= replays->forgotten) {
        return false;
    }
    struct replays_table *recent = &replays->recent;
    if (recent->places == NULL || recent->count == REPLAYS_MAX) {
        replays_turn(replays);
    }
    struct replay *place = table_place(recent, signature);
    memcpy(place->key, signature, KEY_BYTES);
    place->first_us = now_us;
    recent->newest = date > recent->newest ? date : recent->newest;
    recent->count++;
    return true;
}

void replays_close(struct replays *replays) {
    free(replays->recent.places);
    free(replays->older.places);
    *replays = (struct replays){0};
}
