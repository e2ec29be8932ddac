/* See model.h. */
#include "apps/samples/model.h"

#include "agileml/base/memory.h"
#include "apps/little_endian.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

enum { LABEL_SIZE = LABEL_MAX + 1, LENGTH_SIZE = 4 };

/* ---- Writing ---- */

static bool is_named(const struct samples_model *model) {
    return model->names.count > 0;
}

int samples_model_begin(struct model_file_writer **file, const char *path, const struct model_file_kind *kind,
                        const struct samples_model *model, struct error *error) {
    struct model_file_kind written = *kind;
    assert(model->scale.kind < SCALE_AUTO && model->labels.count >= 2);
    written.version += is_named(model) ? SAMPLES_MODEL_NAMED : 0;
    return model_file_begin(file, path, &written, 0, error);
}

void samples_model_write_labels(struct model_file_writer *file, const struct samples_model *model) {
    for (uint32_t k = 0; k < model->labels.count; k++) {
        memcpy(model_file_room(file, LABEL_SIZE), model->labels.items[k].text, LABEL_SIZE);
    }
}

void samples_model_write_scale(struct model_file_writer *file, const struct samples_model *model) {
    const struct scale *scale = &model->scale;
    if (scale->kind == SCALE_MAX) {
        model_file_floats(file, scale->maxima, scale->features);
    }
    if (scale->kind == SCALE_STANDARD) {
        put32(model_file_room(file, sizeof(uint32_t)), scale->centres != NULL);
        model_file_doubles(file, scale->factors, scale->features);
        model_file_doubles(file, scale->centres, scale->centres != NULL ? scale->features : 0);
    }
}

static size_t write_name(struct model_file_writer *file, const char *name) {
    size_t length = strlen(name);
    assert(length <= COLUMN_NAME_MAX);
    unsigned char *bytes = model_file_room(file, 1 + length);
    bytes[0] = (unsigned char)length;
    memcpy(bytes + 1, name, length);
    return 1 + length;
}

int samples_model_end(struct model_file_writer *file, int result, const struct samples_model *model,
                      struct error *error) {
    const struct column_names *names = &model->names;
    if (is_named(model) && result == 0) {
        size_t size = write_name(file, names->label != NULL ? names->label : "");
        for (uint32_t n = 0; n < names->count; n++) {
            size += write_name(file, names->features[n]);
        }
        put32(model_file_room(file, LENGTH_SIZE), (uint32_t)size);
    }
    return model_file_end(file, result, NULL, error);
}

/* ---- Loading ---- */

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

/* Takes the names from the end of a file that has them. Returns false when they are malformed. */
static bool take_names(struct model_file_reader *reader, struct column_names *names) {
    unsigned char *bytes = reader->bytes;
    size_t left = reader->size - MODEL_FILE_START;
    size_t length = left >= LENGTH_SIZE ? get32(bytes + reader->size - LENGTH_SIZE) : 0;
    if (length == 0 || length > left - LENGTH_SIZE) {
        return false;
    }
    const unsigned char *end = bytes + reader->size - LENGTH_SIZE;
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
    reader->size -= length + LENGTH_SIZE;
    put32(bytes + MODEL_FILE_MAGIC, get32(bytes + MODEL_FILE_MAGIC) - SAMPLES_MODEL_NAMED);
    return good;
}

int samples_model_load(const char *path, const struct model_file_kind *kind, struct model_file_reader *reader,
                       struct samples_model *model, struct error *error) {
    struct model_file_kind newest = *kind;
    newest.version += SAMPLES_MODEL_NAMED;
    *reader = (struct model_file_reader){.path = path, .error = error, .at = MODEL_FILE_START};
    int result = model_file_load(path, &newest, &reader->bytes, &reader->size, error);
    if (result != 0) {
        return result;
    }
    if (get32(reader->bytes + MODEL_FILE_MAGIC) > SAMPLES_MODEL_NAMED && !take_names(reader, &model->names)) {
        return model_file_refuse(reader, "has malformed names of columns");
    }
    uint32_t version = get32(reader->bytes + MODEL_FILE_MAGIC);
    if (version == 0 || version > kind->version || reader->size + MODEL_FILE_CHECKSUM < kind->smallest) {
        return error_set(error, AML_EINPUT, "%s: the model file has version %u, expected at most %u", path, version,
                         kind->version);
    }
    return 0;
}

int samples_model_take_labels(struct model_file_reader *reader, uint32_t classes, struct samples_model *model) {
    struct labels *labels = &model->labels;
    const unsigned char *bytes;
    int result = model_file_take(reader, classes * (size_t)LABEL_SIZE, &bytes);
    for (uint32_t k = 0; k < classes && result == 0; k++) {
        struct label label;
        const char *text = (const char *)bytes + k * (size_t)LABEL_SIZE;
        if (!label_make(&label, text, strnlen(text, LABEL_SIZE)) || memcmp(label.text, text, LABEL_SIZE) != 0) {
            return model_file_refuse(reader, "has a malformed label");
        }
        labels_add(labels, &label);
    }
    labels_sort(labels);
    for (uint32_t k = 0; k < labels->count; k++) {
        if (memcmp(labels->items[k].text, bytes + k * (size_t)LABEL_SIZE, LABEL_SIZE) != 0) {
            return model_file_refuse(reader, "has labels out of order");
        }
    }
    return result != 0 || labels->count == classes ? result : model_file_refuse(reader, "has a label twice");
}

static int take_maxima(struct model_file_reader *reader, struct samples_model *model) {
    static const char wrong[] = "has a feature's largest value that is negative or not finite";
    int result = model_file_take_floats(reader, model->scale.features, wrong, &model->maxima);
    for (uint32_t f = 0; f < model->scale.features && result == 0; f++) {
        result = model->maxima[f] < 0 ? model_file_refuse(reader, wrong) : 0;
    }
    return result;
}

static int take_standard(struct model_file_reader *reader, struct samples_model *model) {
    static const char wrong[] = "has a feature's centre or factor that is not finite";
    uint32_t features = model->scale.features;
    const unsigned char *flags;
    int result = model_file_take(reader, sizeof(uint32_t), &flags);
    uint32_t centred = result == 0 ? get32(flags) : 0;
    if (centred > 1) {
        return model_file_refuse(reader, "has unknown flags of its scale");
    }
    result = result == 0 ? model_file_take_doubles(reader, features, wrong, &model->factors) : result;
    return result == 0 && centred ? model_file_take_doubles(reader, features, wrong, &model->centres) : result;
}

int samples_model_take_scale(struct model_file_reader *reader, struct samples_model *model) {
    struct scale *scale = &model->scale;
    int result = scale->kind == SCALE_MAX        ? take_maxima(reader, model)
                 : scale->kind == SCALE_STANDARD ? take_standard(reader, model)
                                                 : 0;
    scale->maxima = model->maxima;
    scale->factors = model->factors;
    scale->centres = model->centres;
    return result == 0 && is_named(model) && model->names.count != scale->features
               ? model_file_refuse(reader, "has another number of names than features")
               : result;
}

void samples_model_close(struct samples_model *model) {
    labels_close(&model->labels);
    column_names_close(&model->names);
    numbering_close(&model->numbering);
    free(model->maxima);
    free(model->factors);
    free(model->centres);
    *model = (struct samples_model){0};
}
