/* Where the bytes of an input come from: a range of a local file, or of an object that a scheme such as https:// names.
 * A source notices when the bytes are not those that were there when the input was listed. Several sources of one path
 * may be open at once, each in one thread at a time. */
#ifndef AGILEML_INPUT_SOURCE_H
#define AGILEML_INPUT_SOURCE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "agileml/base/error.h"

enum { SOURCE_VERSION_MAX = 128 /* bytes of a version, with its 0 */ };

/* The number of bytes that is not known before they are read, as of a pipe; as a length: up to the end. */
#define SOURCE_TO_END UINT64_MAX

/* What tells one state of a file or object from another. */
struct source_identity {
    uint64_t bytes; /* SOURCE_TO_END: not known; the source can then be opened at 0 alone, and once */
    /* Differs when the bytes do: a file's number and time of change, an object's ETag. Compared within a process, not
     * between machines. Empty: not known. */
    char version[SOURCE_VERSION_MAX];
};

/* A source that is open: the first member of each scheme's own struct. */
struct source {
    const struct source_scheme *scheme;
};

/* How paths of one kind are read. Functions return 0, or an error's code with *error set, which names the path by
 * text_input_name: AML_EINPUT for what the user can mend (nothing there, no permission), AML_EFAIL for what may go
 * better another time. Any thread may call them. */
struct source_scheme {
    const char *prefix; /* of the paths, such as "https://"; "" for files */
    /* Finds out the bytes and the version of what is at `path`, without reading it. */
    int (*identify)(const char *path, struct source_identity *identity, struct error *error);
    /* Opens bytes [offset, offset + length) of `path`, which lie within identity->bytes. AML_EINPUT also when `path` is
     * no longer as `identity` says. `path` stays valid while the source is open. */
    int (*open)(struct source **source, const char *path, const struct source_identity *identity, uint64_t offset,
                uint64_t length, struct error *error);
    /* A text_source: reads the next `size` bytes, or fewer at the end of the range alone. AML_EINPUT also when the path
     * has changed since it was identified; at the latest when the range's last byte is read. */
    int (*read)(void *source, void *bytes, size_t size, size_t *got, struct error *error);
    /* Skips the next `bytes` bytes, which lie within the range. NULL: to skip costs as much as a new open, so that
     * nobody should read headers that lie far apart. */
    int (*skip)(struct source *source, uint64_t bytes, struct error *error);
    void (*close)(struct source *source);
    /* Calls `found` for each path that `pattern` names (a glob, or a folder's path with a '/' at its end), in the order
     * of bytes, until it returns other than 0. NULL: a path names itself. */
    int (*list)(const char *pattern,
                int (*found)(void *context, const char *path, const struct source_identity *identity,
                             struct error *error),
                void *context, struct error *error);
};

/* Returns the scheme of a path; NULL: the path begins with a scheme (letters and "://") that is not known. */
const struct source_scheme *source_scheme_of(const char *path);

/* The functions of a path's scheme. */
int source_identify(const char *path, struct source_identity *identity, struct error *error);
int source_open(struct source **source, const char *path, const struct source_identity *identity, uint64_t offset,
                uint64_t length, struct error *error);
/* A text_source (agileml/base/text_input.h) of `context`, a struct source. */
int source_read(void *context, void *bytes, size_t size, size_t *got, struct error *error);
/* NULL is allowed. */
void source_close(struct source *source);

/* Reads bytes[size] at `offset`, or fewer where the path ends. */
int source_read_at(const char *path, const struct source_identity *identity, uint64_t offset, void *bytes, size_t size,
                   size_t *got, struct error *error);

/* Returns the bytes of what is at `path`; 0 when that is not known. */
uint64_t source_bytes(const char *path);
/* Whether the path is an address of a known scheme, so that there is no local file. */
bool source_is_address(const char *path);

/* Reports that the path is not what it was, and returns AML_EINPUT. For schemes. */
int source_changed(const char *path, struct error *error);

/* Local files. Opens pipes and devices too, whose number of bytes is not known. */
extern const struct source_scheme source_files;

#endif
