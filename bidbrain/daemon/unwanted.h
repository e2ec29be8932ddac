/* Prices that came but are not wanted by the configuration. Keeps a few names of their products, zones and types, for
 * the message about why nothing is bought. No clock, no I/O. */
#ifndef BIDBRAIN_DAEMON_UNWANTED_H
#define BIDBRAIN_DAEMON_UNWANTED_H

#include "bidbrain/daemon/config.h"

enum { UNWANTED_KEPT = 6 /* names of each kind in the message */, UNWANTED_TEXT = 1024 };

struct unwanted_names {
    char list[UNWANTED_KEPT][MARKET_TEXT_MAX];
    unsigned count;
    bool more; /* there were more names than are kept */
};

struct unwanted {
    struct unwanted_names products, zones, types;
};

void unwanted_add(struct unwanted *unwanted, const char *type, const char *zone, const char *product);
/* Writes a line such as "no price is wanted: asked for product 'Linux/UNIX', zones us-east-1a, types c4.large; prices
 * came for product ...". */
void unwanted_text(const struct unwanted *unwanted, const struct config_markets *wanted, char text[UNWANTED_TEXT]);

#endif
