/* Objects as storage (storage.h). */
#include "agileml/cloud/storage_kind.h"

#include "agileml/base/memory.h"
#include "agileml/cloud/object_read.h"
#include "agileml/cloud/object_write.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { REMOVED_AT_ONCE = 8 /* requests in parallel */ };

struct object_written {
    struct storage_file file;
    struct object_writer *writer;
};

struct object_opened {
    struct storage_reader reader;
    struct object_reader *object;
};

/* ---- Writing ---- */

static int objects_create(struct storage_file **file, const char *path, bool sweep, struct error *error) {
    struct object_writer *writer;
    int code = object_writer_open(&writer, path, sweep, NULL, error);
    if (code == 0) {
        struct object_written *written = memory_zeroed(1, sizeof *written);
        *written = (struct object_written){.file = {.kind = &storage_objects}, .writer = writer};
        *file = &written->file;
    }
    return code;
}

static int objects_write(struct storage_file *file, const void *bytes, size_t size, struct error *error) {
    return object_writer_write(((struct object_written *)file)->writer, bytes, size, error);
}

static int objects_rewrite(struct storage_file *file, const void *bytes, size_t size, struct error *error) {
    (void)error;
    object_writer_rewrite(((struct object_written *)file)->writer, bytes, size);
    return 0;
}

static int objects_commit(struct storage_file *file, struct error *error) {
    int code = object_writer_commit(((struct object_written *)file)->writer, error);
    free(file);
    return code;
}

static void objects_discard(struct storage_file *file) {
    object_writer_discard(((struct object_written *)file)->writer);
    free(file);
}

/* ---- Reading ---- */

static int objects_open_reader(struct storage_reader **reader, const char *path, uint64_t *bytes, struct error *error) {
    struct object_reader *object;
    int code = object_reader_open(&object, path, UINT64_MAX, "", 0, UINT64_MAX, NULL, error);
    if (code != 0) {
        return code;
    }
    code = object_reader_begin(object, error);
    if (code != 0) {
        object_reader_close(object);
        return code;
    }
    struct object_opened *opened = memory_zeroed(1, sizeof *opened);
    *opened = (struct object_opened){.reader = {.kind = &storage_objects}, .object = object};
    *bytes = object_reader_total(object);
    *reader = &opened->reader;
    return 0;
}

static int objects_read(struct storage_reader *reader, void *bytes, size_t size, size_t *got, struct error *error) {
    return object_reader_read(((struct object_opened *)reader)->object, bytes, size, got, error);
}

static void objects_close_reader(struct storage_reader *reader) {
    object_reader_close(((struct object_opened *)reader)->object);
    free(reader);
}

/* ---- Folders ---- */

/* Opens a client, and parses the address of the folder's contents. */
static int folder_open(const char *folder, struct objects **objects, struct object_url *url, struct error *error) {
    *objects = NULL;
    int code = object_url_parse(folder, url, error);
    size_t length = strlen(url->key);
    if (code == 0 && (!url->s3 || length + 2 > sizeof url->key)) {
        code = error_set(error, AML_EINPUT, "%.200s: expected s3://BUCKET/FOLDER", folder);
    }
    if (code == 0 && length > 0 && url->key[length - 1] != '/') {
        strcpy(url->key + length, "/");
    }
    return code != 0 ? code : objects_open(objects, NULL, error);
}

struct listing {
    const char *folder;
    size_t prefix; /* length of the folder's key */
    int (*each)(void *context, const char *folder, const struct storage_entry *entry, struct error *error);
    void *context;
};

static int listing_found(void *context, const struct object_item *item, struct error *error) {
    const struct listing *listing = context;
    char name[OBJECT_KEY_MAX];
    if (strlen(item->key) <= listing->prefix) {
        return 0; /* the object stands for the folder itself */
    }
    snprintf(name, sizeof name, "%s", item->key + listing->prefix);
    if (item->folder) {
        name[strlen(name) - 1] = '\0';
    }
    struct storage_entry entry = {.name = name, .folder = item->folder, .file = !item->folder, .bytes = item->bytes};
    return listing->each(listing->context, listing->folder, &entry, error);
}

static int objects_list(const char *folder, int unreadable,
                        int (*each)(void *context, const char *folder, const struct storage_entry *entry,
                                    struct error *error),
                        void *context, struct error *error) {
    struct objects *objects;
    struct object_url url;
    (void)unreadable;
    int code = folder_open(folder, &objects, &url, error);
    struct listing listing = {.folder = folder, .prefix = strlen(url.key), .each = each, .context = context};
    code = code != 0 ? code : object_list(objects, &url, true, listing_found, &listing, error);
    objects_close(objects);
    return code;
}

static int objects_has(const char *path, struct error *error) {
    struct objects *objects;
    struct object_url url;
    int code = object_url_parse(path, &url, error);
    code = code != 0 ? code : objects_open(&objects, NULL, error);
    if (code == 0) {
        code = object_exists(objects, &url, error);
        objects_close(objects);
    }
    return code;
}

static int objects_make_folder(const char *path, struct error *error) {
    (void)path;
    (void)error;
    return 0;
}

/* ---- Removing ---- */

struct removal {
    struct objects *objects;
    const struct object_url *folder;
    bool (*wanted)(const char *name);
    struct object_url urls[REMOVED_AT_ONCE];
    struct object_call *calls[REMOVED_AT_ONCE];
    unsigned next; /* place of the next request in the ring `calls` */
    struct error error;
};

/* Waits for the request at `place`, and keeps the first failure. */
static void removal_wait(struct removal *removal, unsigned place) {
    struct object_call *call = removal->calls[place];
    if (call != NULL) {
        const struct error *error = &object_wait(call)->error;
        if (error->code != 0) {
            (void)error_set(&removal->error, AML_EFAIL, "%s", error->text);
        }
        object_call_free(call);
        removal->calls[place] = NULL;
    }
}

static int removal_found(void *context, const struct object_item *item, struct error *error) {
    struct removal *removal = context;
    size_t prefix = strlen(removal->folder->key);
    if (item->folder || strlen(item->key) <= prefix || !removal->wanted(item->key + prefix)) {
        return 0;
    }
    unsigned place = removal->next++ % REMOVED_AT_ONCE;
    removal_wait(removal, place);
    removal->urls[place] = *removal->folder;
    strcpy(removal->urls[place].key, item->key);
    removal->calls[place] =
        object_start(removal->objects, &(struct object_request){.action = OBJECT_DELETE, .url = &removal->urls[place]});
    return removal->error.code == 0 ? 0 : error_set(error, removal->error.code, "%s", removal->error.text);
}

static int objects_remove_folder(const char *folder, const char *first, bool (*wanted)(const char *name),
                                 struct error *error) {
    struct removal *removal = memory_zeroed(1, sizeof *removal);
    struct object_url url;
    int code = folder_open(folder, &removal->objects, &url, error);
    removal->folder = &url;
    removal->wanted = wanted;
    if (code == 0) {
        struct object_url before = url;
        size_t length = strlen(before.key);
        snprintf(before.key + length, sizeof before.key - length, "%s", first);
        code = object_delete(removal->objects, &before, error);
    }
    code = code != 0 ? code : object_list(removal->objects, &url, true, removal_found, removal, error);
    for (unsigned p = 0; p < REMOVED_AT_ONCE; p++) {
        removal_wait(removal, p);
    }
    if (code == 0 && removal->error.code != 0) {
        code = error_set(error, removal->error.code, "%s", removal->error.text);
    }
    objects_close(removal->objects);
    free(removal);
    return code;
}

static int objects_sweep(const char *prefix, struct error *error) {
    struct objects *objects;
    struct object_url url;
    unsigned count;
    int code = object_url_parse(prefix, &url, error);
    code = code != 0 ? code : objects_open(&objects, NULL, error);
    if (code == 0) {
        code = object_uploads_sweep(objects, &url, true, &count, error);
        objects_close(objects);
    }
    return code;
}

const struct storage_kind storage_objects = {
    .check = object_write_check,
    .create = objects_create,
    .write = objects_write,
    .rewrite = objects_rewrite,
    .commit = objects_commit,
    .discard = objects_discard,
    .open = objects_open_reader,
    .read = objects_read,
    .close = objects_close_reader,
    .list = objects_list,
    .has = objects_has,
    .make_folder = objects_make_folder,
    .remove_folder = objects_remove_folder,
    .sync_folder = objects_make_folder,
    .sweep = objects_sweep,
};
