/* See storage.h. Passes each call to the implementation for the kind of path. */
#include "agileml/cloud/storage.h"

#include "agileml/cloud/object_url.h"
#include "agileml/cloud/storage_kind.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

static const struct storage_kind *kind_of(const char *path) {
    return storage_is_object(path) ? &storage_objects : &storage_files;
}

/* Rejects addresses with an unknown scheme: "gs://bucket/key" is not a local file in a folder "gs:". */
static int check_address(const char *path, struct error *error) {
    return object_url_is_foreign(path)
               ? error_set(error, AML_EINPUT,
                           "%.300s: an address of a kind that is not known: expected a path or s3://BUCKET/KEY", path)
               : 0;
}

bool storage_is_object(const char *path) {
    return object_url_is(path);
}

int storage_check(const char *path, struct error *error) {
    int code = check_address(path, error);
    return code != 0 ? code : kind_of(path)->check(path, error);
}

int storage_create(struct storage_file **file, const char *path, bool sweep, struct error *error) {
    *file = NULL;
    int code = check_address(path, error);
    return code != 0 ? code : kind_of(path)->create(file, path, sweep, error);
}

int storage_write(struct storage_file *file, const void *bytes, size_t size, struct error *error) {
    return file->kind->write(file, bytes, size, error);
}

int storage_rewrite(struct storage_file *file, const void *bytes, size_t size, struct error *error) {
    return file->kind->rewrite(file, bytes, size, error);
}

int storage_commit(struct storage_file *file, struct error *error) {
    return file->kind->commit(file, error);
}

void storage_discard(struct storage_file *file) {
    file->kind->discard(file);
}

int storage_open(struct storage_reader **reader, const char *path, uint64_t *bytes, struct error *error) {
    *reader = NULL;
    int code = check_address(path, error);
    return code != 0 ? code : kind_of(path)->open(reader, path, bytes, error);
}

int storage_read(struct storage_reader *reader, void *bytes, size_t size, size_t *got, struct error *error) {
    return reader->kind->read(reader, bytes, size, got, error);
}

void storage_close(struct storage_reader *reader) {
    if (reader != NULL) {
        reader->kind->close(reader);
    }
}

int storage_list(const char *folder, int unreadable,
                 int (*each)(void *context, const char *folder, const struct storage_entry *entry, struct error *error),
                 void *context, struct error *error) {
    return kind_of(folder)->list(folder, unreadable, each, context, error);
}

int storage_has(const char *path, struct error *error) {
    return kind_of(path)->has(path, error);
}

int storage_make_folder(const char *path, struct error *error) {
    return kind_of(path)->make_folder(path, error);
}

int storage_remove_folder(const char *folder, const char *first, bool (*wanted)(const char *name),
                          struct error *error) {
    return kind_of(folder)->remove_folder(folder, first, wanted, error);
}

int storage_rename_folder(const char *from, const char *to, struct error *error) {
    return rename(from, to) == 0 ? 0 : error_set(error, AML_EFAIL, "%s: can't make it: %s", to, strerror(errno));
}

int storage_sync_folder(const char *folder, struct error *error) {
    return kind_of(folder)->sync_folder(folder, error);
}

int storage_sweep(const char *prefix, struct error *error) {
    return kind_of(prefix)->sweep(prefix, error);
}
