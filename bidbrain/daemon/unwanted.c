/* See unwanted.h. */
#include "bidbrain/daemon/unwanted.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

static void names_add(struct unwanted_names *names, const char *name) {
    for (unsigned n = 0; n < names->count; n++) {
        if (strcmp(names->list[n], name) == 0) {
            return;
        }
    }
    if (names->count == UNWANTED_KEPT) {
        names->more = true;
        return;
    }
    snprintf(names->list[names->count++], MARKET_TEXT_MAX, "%s", name);
}

void unwanted_add(struct unwanted *unwanted, const char *type, const char *zone, const char *product) {
    names_add(&unwanted->products, product);
    names_add(&unwanted->zones, zone);
    names_add(&unwanted->types, type);
}

/* ---- As text ---- */

__attribute__((format(printf, 2, 3))) static void add(char text[UNWANTED_TEXT], const char *format, ...) {
    size_t used = strlen(text);
    va_list list;
    va_start(list, format);
    vsnprintf(text + used, UNWANTED_TEXT - used, format, list);
    va_end(list);
}

static void add_names(char text[UNWANTED_TEXT], const char *what, const struct unwanted_names *names) {
    add(text, "%s", what);
    for (unsigned n = 0; n < names->count; n++) {
        add(text, "%s%s", n > 0 ? ", " : " ", names->list[n]);
    }
    add(text, "%s", names->more ? ", ..." : "");
}

static void add_list(char text[UNWANTED_TEXT], const char *what, const char *const *list) {
    struct unwanted_names names = {0};
    for (size_t i = 0; list[i] != NULL; i++) {
        names_add(&names, list[i]);
    }
    add_names(text, what, &names);
    add(text, "%s", names.count == 0 ? " all" : "");
}

void unwanted_text(const struct unwanted *unwanted, const struct config_markets *wanted, char text[UNWANTED_TEXT]) {
    text[0] = '\0';
    add(text, "there is no price of a market that is wanted: asked for product \"%s\"", wanted->product);
    add_list(text, ", zones", wanted->zones);
    add_list(text, ", types", wanted->types);
    if (unwanted->products.count == 0) {
        add(text, "; no price came at all");
        return;
    }
    add_names(text, "; prices came for products", &unwanted->products);
    add_names(text, "; zones", &unwanted->zones);
    add_names(text, "; types", &unwanted->types);
    add(text,
        "; wanted types have %lld vCPUs and %g GiB or more, are not burstable, and the catalog knows them in the "
        "region",
        (long long)wanted->vcpus_min, wanted->memory_min);
}
