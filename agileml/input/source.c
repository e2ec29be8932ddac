/* See source.h. */
#include "agileml/input/source.h"

#include "agileml/base/text_input.h"
#include "agileml/cloud/object_url.h"
#include "agileml/input/source_objects.h"

#include <string.h>
#include <strings.h>

/* The schemes of this program; files come last, as every path begins with their prefix. */
static const struct source_scheme *const schemes[] = {&source_s3, &source_https, &source_http, &source_files};

const struct source_scheme *source_scheme_of(const char *path) {
    for (size_t s = 0; s < sizeof schemes / sizeof schemes[0]; s++) {
        size_t length = strlen(schemes[s]->prefix);
        if (strncasecmp(path, schemes[s]->prefix, length) == 0 && (length > 0 || !object_url_is_foreign(path))) {
            return schemes[s];
        }
    }
    return NULL;
}

static int unknown_scheme(const char *path, struct error *error) {
    return error_set(
        error, AML_EINPUT,
        "%s: an address of a kind that is not known: expected a file's path, s3://BUCKET/KEY or https://HOST/PATH",
        text_input_name(path));
}

int source_identify(const char *path, struct source_identity *identity, struct error *error) {
    const struct source_scheme *scheme = source_scheme_of(path);
    return scheme != NULL ? scheme->identify(path, identity, error) : unknown_scheme(path, error);
}

int source_open(struct source **source, const char *path, const struct source_identity *identity, uint64_t offset,
                uint64_t length, struct error *error) {
    const struct source_scheme *scheme = source_scheme_of(path);
    *source = NULL;
    return scheme != NULL ? scheme->open(source, path, identity, offset, length, error) : unknown_scheme(path, error);
}

int source_read(void *context, void *bytes, size_t size, size_t *got, struct error *error) {
    struct source *source = context;
    return source->scheme->read(source, bytes, size, got, error);
}

void source_close(struct source *source) {
    if (source != NULL) {
        source->scheme->close(source);
    }
}

int source_read_at(const char *path, const struct source_identity *identity, uint64_t offset, void *bytes, size_t size,
                   size_t *got, struct error *error) {
    struct source *source;
    uint64_t rest = identity->bytes - offset;
    *got = 0;
    int code = source_open(&source, path, identity, offset, size < rest ? size : rest, error);
    code = code != 0 ? code : source_read(source, bytes, size, got, error);
    source_close(source);
    return code;
}

uint64_t source_bytes(const char *path) {
    struct source_identity identity;
    struct error none = {0};
    return source_identify(path, &identity, &none) == 0 && identity.bytes != SOURCE_TO_END ? identity.bytes : 0;
}

bool source_is_address(const char *path) {
    const struct source_scheme *scheme = source_scheme_of(path);
    return scheme != NULL && scheme != &source_files;
}

int source_changed(const char *path, struct error *error) {
    return error_set(error, AML_EINPUT, "%s: changed while it was read: expected an input that stays as it is",
                     text_input_name(path));
}
