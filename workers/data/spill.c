/* See spill.h. */
#include "workers/data/spill.h"

#include "agileml/base/hash.h"
#include "agileml/base/log.h"
#include "agileml/base/memory.h"
#include "workers/data/crash.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/statvfs.h>
#include <unistd.h>

enum { SPILL_MODE = 0600 };

void spill_size_text(uint64_t bytes, char text[SPILL_NEEDED_TEXT_MAX]) {
    static const char *const units[] = {"bytes", "kB", "MB", "GB", "TB"};
    double size = (double)bytes;
    unsigned unit = 0;
    while (size >= 1000 && unit + 1 < sizeof units / sizeof *units) {
        size /= 1000;
        unit++;
    }
    snprintf(text, SPILL_NEEDED_TEXT_MAX, unit > 0 ? "%.1f %s" : "%.0f %s", size, units[unit]);
}

/* Says what could not be written, and what to do. */
static int write_failed(const struct spill *spill, uint64_t bytes, int reason, struct error *error) {
    char there[SPILL_NEEDED_TEXT_MAX];
    char more[SPILL_NEEDED_TEXT_MAX];
    spill_size_text(atomic_load(&spill->bytes), there);
    spill_size_text(bytes, more);
    return error_set(error, AML_EFAIL,
                     "%s: can't write %s more of the data that does not fit --memory (%s are there): %s; free space, "
                     "name another folder by --spill, or use more nodes or memory",
                     spill->folder, more, there, strerror(reason));
}

/* ---- Files without a name ---- */

/* Makes a file with a name, and removes the name: where the file system has no O_TMPFILE. */
static int open_unlinked(const char *folder) {
    char path[SPILL_FOLDER_MAX + 32];
    snprintf(path, sizeof path, "%s/agileml-spill.XXXXXX", folder);
    int descriptor = mkostemp(path, O_CLOEXEC);
    if (descriptor >= 0) {
        unlink(path);
    }
    return descriptor;
}

/* Returns the descriptor of a new file, or a negative code. */
static int open_new(const struct spill *spill, struct error *error) {
    int descriptor = open(spill->folder, O_TMPFILE | O_RDWR | O_CLOEXEC, SPILL_MODE);
    if (descriptor < 0 && (errno == EOPNOTSUPP || errno == EISDIR || errno == EINVAL)) {
        descriptor = open_unlinked(spill->folder);
    }
    return descriptor >= 0 ? descriptor
                           : error_set(error, AML_EFAIL,
                                       "%s: can't make a file for the data that does not fit --memory: %s; name a "
                                       "folder on a local disk by --spill",
                                       spill->folder, strerror(errno));
}

int spill_open(struct spill_file *file, struct spill *spill, struct error *error) {
    memset(file, 0, sizeof *file);
    file->descriptor = open_new(spill, error);
    file->spill = file->descriptor >= 0 ? spill : NULL;
    return file->descriptor >= 0 ? 0 : file->descriptor;
}

/* ---- Arenas (agileml/base/memory.h); any thread ---- */

static int open_for_arena(void *context) {
    struct error error = {0};
    int descriptor = open_new(context, &error);
    if (descriptor < 0) {
        log_error("%s", error.text);
    }
    return descriptor;
}

static void arena_refused(void *context, size_t bytes) {
    struct error error = {0};
    write_failed(context, bytes, ENOSPC, &error);
    log_error("%s", error.text);
}

void spill_arenas(struct spill *spill, struct arena_files *files, size_t memory) {
    files->open = open_for_arena;
    files->refused = arena_refused;
    files->context = spill;
    files->memory = memory;
}

void spill_close(struct spill_file *file) {
    if (file->spill == NULL) {
        return;
    }
    if (file->map != NULL) {
        crash_forget_mapping(file->map);
        munmap(file->map, file->mapped);
    }
    close(file->descriptor);
    atomic_fetch_sub(&file->spill->bytes, atomic_load(&file->counted));
    free(file->buffer);
    free(file->hashes);
    memset(file, 0, sizeof *file);
}

int spill_try(const struct spill *spill, struct error *error) {
    int descriptor = open_new(spill, error);
    if (descriptor < 0) {
        error->code = AML_EINPUT;
        return AML_EINPUT;
    }
    close(descriptor);
    return 0;
}

int spill_check_room(const struct spill *spill, uint64_t bytes, struct error *error) {
    struct statvfs status;
    if (statvfs(spill->folder, &status) != 0) {
        return 0; /* the writes will report the failure */
    }
    uint64_t room = (uint64_t)status.f_bavail * status.f_frsize;
    return room >= bytes ? 0 : write_failed(spill, bytes, ENOSPC, error);
}

/* ---- Writing ---- */

static int write_all(const struct spill_file *file, uint64_t offset, const unsigned char *bytes, size_t size,
                     struct error *error) {
    size_t left = size;
    while (left > 0) {
        ssize_t written = pwrite(file->descriptor, bytes, left, (off_t)offset);
        if (written < 0 && errno != EINTR) {
            return write_failed(file->spill, left, errno, error);
        }
        size_t step = written > 0 ? (size_t)written : 0;
        bytes += step;
        offset += step;
        left -= step;
    }
    return 0;
}

/* The bytes of a block; the last one may be shorter. */
static size_t block_size(const struct spill_file *file, uint64_t block) {
    uint64_t first = block * SPILL_BLOCK;
    assert(first < file->size);
    return file->size - first < SPILL_BLOCK ? (size_t)(file->size - first) : SPILL_BLOCK;
}

static void hash_blocks(struct spill_file *file) {
    for (uint64_t at = file->written; at < file->size; at += SPILL_BLOCK) {
        uint64_t block = at / SPILL_BLOCK;
        if (block >= file->hash_room) {
            file->hash_room = file->hash_room > 0 ? 2 * file->hash_room : 64;
            file->hashes = memory_resized(file->hashes, file->hash_room, sizeof *file->hashes);
        }
        file->hashes[block] = hash_bytes(file->buffer + (at - file->written), block_size(file, block), block);
    }
}

/* Starts writing the last full buffer to the disk. Waits for the buffer before it, and drops that one from the page
 * cache. So there is little to wait for, and few pages are dirty. */
static int write_behind(const struct spill_file *file, struct error *error) {
    enum { WAIT = SYNC_FILE_RANGE_WAIT_BEFORE | SYNC_FILE_RANGE_WRITE | SYNC_FILE_RANGE_WAIT_AFTER };
    assert(file->written >= SPILL_BUFFER && file->written % SPILL_BUFFER == 0);
    off_t last = (off_t)(file->written - SPILL_BUFFER);
    sync_file_range(file->descriptor, last, SPILL_BUFFER, SYNC_FILE_RANGE_WRITE);
    if (last < SPILL_BUFFER) {
        return 0;
    }
    off_t before = last - SPILL_BUFFER;
    if (sync_file_range(file->descriptor, before, SPILL_BUFFER, WAIT) != 0 &&
        (errno == EIO || errno == ENOSPC || errno == EDQUOT)) {
        return write_failed(file->spill, SPILL_BUFFER, errno, error);
    }
    posix_fadvise(file->descriptor, before, SPILL_BUFFER, POSIX_FADV_DONTNEED);
    return 0;
}

static int write_buffer(struct spill_file *file, struct error *error) {
    hash_blocks(file);
    int result = write_all(file, file->written, file->buffer, SPILL_BUFFER, error);
    if (result == 0) {
        file->written += SPILL_BUFFER;
        result = write_behind(file, error);
    }
    return result;
}

int spill_append(struct spill_file *file, const void *bytes, size_t size, struct error *error) {
    const unsigned char *from = bytes;
    file->buffer = file->buffer != NULL ? file->buffer : memory_resized(NULL, SPILL_BUFFER, 1);
    while (size > 0) {
        size_t used = (size_t)(file->size - file->written);
        assert(file->size >= file->written && used < SPILL_BUFFER);
        size_t step = SPILL_BUFFER - used < size ? SPILL_BUFFER - used : size;
        memcpy(file->buffer + used, from, step);
        file->size += step;
        atomic_fetch_add(&file->counted, step);
        atomic_fetch_add(&file->spill->bytes, step);
        from += step;
        size -= step;
        if (used + step == SPILL_BUFFER) {
            int result = write_buffer(file, error);
            if (result != 0) {
                return result;
            }
        }
    }
    return 0;
}

int spill_append_padding(struct spill_file *file, struct error *error) {
    static const unsigned char zeros[4096];
    int result = 0;
    while (file->size % SPILL_BLOCK != 0 && result == 0) {
        size_t left = SPILL_BLOCK - (size_t)(file->size % SPILL_BLOCK);
        result = spill_append(file, zeros, left < sizeof zeros ? left : sizeof zeros, error);
    }
    return result;
}

/* The buffer keeps what is flushed, and is written again, whole, when it is full. */
int spill_flush(struct spill_file *file, struct error *error) {
    size_t used = (size_t)(file->size - file->written);
    if (used == 0) {
        return 0;
    }
    hash_blocks(file);
    return write_all(file, file->written, file->buffer, used, error);
}

void spill_end(struct spill_file *file) {
    free(file->buffer);
    file->buffer = NULL;
}

/* ---- Reading ---- */

int spill_read(const struct spill_file *file, uint64_t offset, void *bytes, size_t size, struct error *error) {
    unsigned char *to = bytes;
    assert(offset + size <= file->size);
    while (size > 0) {
        ssize_t got = pread(file->descriptor, to, size, (off_t)offset);
        if (got == 0 || (got < 0 && errno != EINTR)) {
            return error_set(error, AML_EFAIL, "%s: can't read data back that does not fit --memory: %s; see this disk",
                             file->spill->folder, got == 0 ? "the file was cut" : strerror(errno));
        }
        size_t step = got > 0 ? (size_t)got : 0;
        to += step;
        offset += step;
        size -= step;
    }
    return 0;
}

int spill_damaged(const struct spill_file *file, uint64_t offset, struct error *error) {
    return error_set(error, AML_EFAIL,
                     "%s: data read back at byte %llu is not what was written there: this disk or memory is damaged; "
                     "name another folder by --spill",
                     file->spill->folder, (unsigned long long)offset);
}

int spill_check(const struct spill_file *file, uint64_t block, unsigned char *scratch, struct error *error) {
    size_t size = block_size(file, block);
    int result = spill_read(file, block * SPILL_BLOCK, scratch, size, error);
    if (result == 0 && hash_bytes(scratch, size, block) != file->hashes[block]) {
        result = spill_damaged(file, block * SPILL_BLOCK, error);
    }
    return result;
}

int spill_map(struct spill_file *file, struct error *error) {
    if (file->size <= file->mapped) {
        return 0;
    }
    size_t size = (size_t)((file->size + SPILL_BUFFER - 1) / SPILL_BUFFER * SPILL_BUFFER);
    if (file->map != NULL) {
        crash_forget_mapping(file->map);
    }
    void *map = file->map == NULL ? mmap(NULL, size, PROT_READ, MAP_SHARED, file->descriptor, 0)
                                  : memory_remap(file->map, file->mapped, size);
    if (map == MAP_FAILED) {
        return error_set(error, AML_ENOMEM, "%s: can't map %zu bytes of data that does not fit --memory: %s",
                         file->spill->folder, size, strerror(errno));
    }
    file->map = map;
    file->mapped = size;
    crash_watch_mapping(map, size, file->spill->folder);
    return 0;
}

void spill_populate(const struct spill_file *file, uint64_t block) {
    const unsigned char *at = file->map + block * SPILL_BLOCK;
    size_t size = block_size(file, block);
#ifdef MADV_POPULATE_READ
    if (madvise((void *)(uintptr_t)at, size, MADV_POPULATE_READ) == 0) {
        return;
    }
#endif
    long page = sysconf(_SC_PAGESIZE);
    for (size_t i = 0; i < size; i += (size_t)page) {
        (void)*(const volatile unsigned char *)(at + i);
    }
}

/* Narrows a range to whole pages. False when there are none. */
static bool whole_pages(uint64_t *from, uint64_t *until) {
    uint64_t page = (uint64_t)sysconf(_SC_PAGESIZE);
    *from = (*from + page - 1) / page * page;
    *until = *until / page * page;
    return *from < *until;
}

void spill_forget_unmapped(const struct spill_file *file, uint64_t from, uint64_t until) {
    if (whole_pages(&from, &until)) {
        posix_fadvise(file->descriptor, (off_t)from, (off_t)(until - from), POSIX_FADV_DONTNEED);
    }
}

void spill_forget(const struct spill_file *file, uint64_t from, uint64_t until) {
    if (file->map != NULL && until <= file->mapped && whole_pages(&from, &until)) {
        madvise(file->map + from, (size_t)(until - from), MADV_DONTNEED); /* mapped pages would stay in the cache */
    }
    spill_forget_unmapped(file, from, until);
}

void spill_punch(struct spill_file *file, uint64_t from, uint64_t until) {
    uint64_t written = file->written;
    assert(from <= until && until <= file->size);
    until = until < written ? until : written; /* the buffer will be written again */
    if (!whole_pages(&from, &until) || fallocate(file->descriptor, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE,
                                                 (off_t)from, (off_t)(until - from)) != 0) {
        return;
    }
    atomic_fetch_sub(&file->counted, until - from);
    atomic_fetch_sub(&file->spill->bytes, until - from);
}
