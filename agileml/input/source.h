/* Where the bytes of an input come from: a range of a local file, or of an object with a scheme such as https://. A
 * source detects that a file has changed since it was listed. Several sources of one path may be open at once, each
 * in one thread at a time. */
#ifndef AGILEML_INPUT_SOURCE_H
#define AGILEML_INPUT_SOURCE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "agileml/base/error.h"

enum { SOURCE_VERSION_MAX = 128 /* bytes of a version, with its 0 */ };

/* As a number of bytes: not known before they are read, as for a pipe. As a length: up to the end. */
#define SOURCE_TO_END UINT64_MAX

/* Distinguishes one state of a file or object from another. */
struct source_identity {
    uint64_t bytes; /* SOURCE_TO_END: not known, and the source can be opened only once, at offset 0 */
    /* Differs when the bytes differ: a file's inode and time of change, or an object's ETag. Compared only within a
     * process, not between machines. Empty: not known. */
    char version[SOURCE_VERSION_MAX];
};

/* A source that is open: the first member of each scheme's own struct. */
struct source {
    const struct source_scheme *scheme;
};

/* How paths of one kind are read. Functions return 0, or an error's code with *error set. The error names the path
 * by text_input_name. AML_EINPUT: the user can fix it (no such file, no permission). AML_EFAIL: a retry may succeed.
 * Any thread may call them. */
struct source_scheme {
    const char *prefix; /* prefix of the paths, such as "https://"; "" for files */
    /* Finds the size and the version of what is at `path`, without reading it. */
    int (*identify)(const char *path, struct source_identity *identity, struct error *error);
    /* Opens bytes [offset, offset + length) of `path`, which lie within identity->bytes. Returns AML_EINPUT also
     * when `path` no longer matches `identity`. `path` stays valid while the source is open. */
    int (*open)(struct source **source, const char *path, const struct source_identity *identity, uint64_t offset,
                uint64_t length, struct error *error);
    /* A text_source: reads the next `size` bytes, or fewer only at the range's end. Returns AML_EINPUT also when the
     * path has changed since it was identified, at the latest with the range's last byte. */
    int (*read)(void *source, void *bytes, size_t size, size_t *got, struct error *error);
    /* Skips the next `bytes` bytes, which lie within the range. NULL: a skip costs as much as opening the source
     * again, so headers that lie far apart should not be read. */
    int (*skip)(struct source *source, uint64_t bytes, struct error *error);
    void (*close)(struct source *source);
    /* Calls `found` for each path that `pattern` names (a glob, or a folder's path with a final '/'), in the order
     * of bytes, until `found` returns other than 0. NULL: the scheme has no patterns; a path names only itself. */
    int (*list)(const char *pattern,
                int (*found)(void *context, const char *path, const struct source_identity *identity,
                             struct error *error),
                void *context, struct error *error);
};

/* Returns the scheme of a path; NULL: the path begins with an unknown scheme (letters and "://"). */
const struct source_scheme *source_scheme_of(const char *path);

/* Call the functions of the path's scheme. */
int source_identify(const char *path, struct source_identity *identity, struct error *error);
int source_open(struct source **source, const char *path, const struct source_identity *identity, uint64_t offset,
                uint64_t length, struct error *error);
/* A text_source (agileml/base/text_input.h). `context` is a struct source. */
int source_read(void *context, void *bytes, size_t size, size_t *got, struct error *error);
/* Closes a source; NULL is allowed. */
void source_close(struct source *source);

/* Reads bytes[size] at `offset`, or fewer where the path ends. */
int source_read_at(const char *path, const struct source_identity *identity, uint64_t offset, void *bytes, size_t size,
                   size_t *got, struct error *error);

/* Returns the size of what is at `path`; 0 when it is not known. */
uint64_t source_bytes(const char *path);
/* Whether the path is an address of a known scheme, and so not a local file. */
bool source_is_address(const char *path);

/* Reports that the path has changed, and returns AML_EINPUT. For schemes. */
int source_changed(const char *path, struct error *error);

/* Local files. Opens pipes and devices too, whose number of bytes is not known. */
extern const struct source_scheme source_files;

#endif
