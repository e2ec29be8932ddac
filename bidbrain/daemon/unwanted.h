/* Prices that came although the configuration wants others. Keeps a few names of their products, zones and types, for
 * the line that says why nothing is bought. No clock, no I/O. */
#ifndef BIDBRAIN_DAEMON_UNWANTED_H
#define BIDBRAIN_DAEMON_UNWANTED_H

#include "bidbrain/daemon/config.h"

enum { UNWANTED_KEPT = 6 /* names of each kind that are told */, UNWANTED_TEXT = 1024 };

struct unwanted_names {
    char list[UNWANTED_KEPT][MARKET_TEXT_MAX];
    unsigned count;
    bool more; /* others came that are not in the list */
};

struct unwanted {
    struct unwanted_names products, zones, types;
};

void unwanted_add(struct unwanted *unwanted, const char *type, const char *zone, const char *product);
/* One line: "no price is wanted: asked for product 'Linux/UNIX', zones us-east-1a, types c4.large; prices came for
 * product ..." */
void unwanted_text(const struct unwanted *unwanted, const struct config *config, char text[UNWANTED_TEXT]);

#endif
