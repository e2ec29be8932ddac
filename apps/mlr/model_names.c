/* See model_names.h. */
#include "apps/mlr/model_names.h"

#include "agileml/base/memory.h"
#include "apps/little_endian.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

enum { LENGTH_SIZE = 4 };

static size_t write_name(struct model_file_writer *file, const char *name) {
    size_t length = strlen(name);
    assert(length <= COLUMN_NAME_MAX);
    unsigned char *bytes = model_file_room(file, 1 + length);
    bytes[0] = (unsigned char)length;
    memcpy(bytes + 1, name, length);
    return 1 + length;
}

void model_names_write(struct model_file_writer *file, const struct column_names *names) {
    size_t size = write_name(file, names->label != NULL ? names->label : "");
    for (uint32_t n = 0; n < names->count; n++) {
        size += write_name(file, names->features[n]);
    }
    put32(model_file_room(file, LENGTH_SIZE), (uint32_t)size);
}

/* Takes the name at *p. Returns NULL when it does not end before `end`, or has a zero byte. */
static char *take_name(const unsigned char **p, const unsigned char *end) {
    char name[COLUMN_NAME_MAX + 1];
    size_t length = **p;
    if ((size_t)(end - *p) < 1 + length || memchr(*p + 1, '\0', length) != NULL) {
        return NULL;
    }
    memcpy(name, *p + 1, length);
    name[length] = '\0';
    *p += 1 + length;
    return memory_string(name);
}

/* Removes the section from a file that has it. Returns false when the section is malformed. */
static bool take_names(unsigned char *bytes, size_t *size, struct column_names *names) {
    *names = (struct column_names){0};
    size_t length = *size >= MODEL_FILE_START + LENGTH_SIZE ? get32(bytes + *size - LENGTH_SIZE) : 0;
    if (length == 0 || length > *size - MODEL_FILE_START - LENGTH_SIZE) {
        return false;
    }
    const unsigned char *end = bytes + *size - LENGTH_SIZE;
    const unsigned char *p = end - length;
    uint32_t room = 0;
    bool good = (names->label = take_name(&p, end)) != NULL;
    while (good && p < end) {
        if (names->count == room) {
            room = 2 * room + 16;
            names->features = memory_resized(names->features, room, sizeof *names->features);
        }
        names->features[names->count] = take_name(&p, end);
        good = names->features[names->count] != NULL;
        names->count += good;
    }
    if (!good) {
        column_names_close(names);
        return false;
    }
    *size -= length + LENGTH_SIZE;
    put32(bytes + MODEL_FILE_MAGIC, get32(bytes + MODEL_FILE_MAGIC) - MODEL_NAMES_VERSION);
    return true;
}

int model_names_load(const char *path, uint32_t newest, size_t smallest, unsigned char *bytes, size_t *size,
                     struct column_names *names, struct error *error) {
    uint32_t version = get32(bytes + MODEL_FILE_MAGIC);
    *names = (struct column_names){0};
    if (version > MODEL_NAMES_VERSION && !take_names(bytes, size, names)) {
        return error_set(error, AML_EINPUT, "%s: the model file has malformed names of columns", path);
    }
    version = get32(bytes + MODEL_FILE_MAGIC);
    if (version == 0 || version > newest || *size < smallest) {
        return error_set(error, AML_EINPUT, "%s: the model file has version %u, expected at most %u", path, version,
                         newest);
    }
    return 0;
}
