/* The implementation of storage.h for one kind of path: local files (storage_files.c) or objects
 * (storage_objects.c). */
#ifndef AGILEML_CLOUD_STORAGE_KIND_H
#define AGILEML_CLOUD_STORAGE_KIND_H

#include "agileml/cloud/storage.h"

/* The first member of each kind's own structs. */
struct storage_file {
    const struct storage_kind *kind;
};
struct storage_reader {
    const struct storage_kind *kind;
};

/* The functions of storage.h, without the prefix. */
struct storage_kind {
    int (*check)(const char *path, struct error *error);
    int (*create)(struct storage_file **file, const char *path, bool sweep, struct error *error);
    int (*write)(struct storage_file *file, const void *bytes, size_t size, struct error *error);
    int (*rewrite)(struct storage_file *file, const void *bytes, size_t size, struct error *error);
    int (*commit)(struct storage_file *file, struct error *error);
    void (*discard)(struct storage_file *file);
    int (*open)(struct storage_reader **reader, const char *path, uint64_t *bytes, struct error *error);
    int (*read)(struct storage_reader *reader, void *bytes, size_t size, size_t *got, struct error *error);
    void (*close)(struct storage_reader *reader);
    int (*list)(const char *folder, int unreadable,
                int (*each)(void *context, const char *folder, const struct storage_entry *entry, struct error *error),
                void *context, struct error *error);
    int (*has)(const char *path, struct error *error);
    int (*make_folder)(const char *path, struct error *error);
    int (*remove_folder)(const char *folder, const char *first, bool (*wanted)(const char *name), struct error *error);
    int (*sync_folder)(const char *folder, struct error *error);
    int (*sweep)(const char *prefix, struct error *error);
};

extern const struct storage_kind storage_files, storage_objects;

#endif
