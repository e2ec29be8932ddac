/* See images.h. */
#include "apps/samples/images.h"

#include "agileml/base/hash.h"
#include "agileml/base/memory.h"
#include "agileml/base/text_fields.h"
#include "agileml/base/text_input.h"
#include "agileml/input/source_text.h"
#include "apps/samples/number.h"
#include "apps/samples/tar.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

enum { CLASS_BYTES_MAX = 64 /* of a .cls */, MAGIC_AT = 257 /* of a tar's magic */ };

/* USE_OTHER_IMAGE: an image in a format that can't be decoded here. */
enum entry_use { USE_NONE, USE_IMAGE, USE_OTHER_IMAGE, USE_CLASS };

/* The image that is being assembled from the entries of one key: an image, a .cls file, or both. */
struct pending {
    char key[IMAGES_NAME_MAX]; /* the name up to its first dot after the folders, and the image's extension */
    bool with_image, with_label;
    bool given;                 /* the image of this key has been passed on */
    char name[IMAGES_NAME_MAX]; /* name of the image, or of its .cls file */
    struct label label;
    size_t size; /* bytes of the image */
};

struct reading {
    const char *path;
    enum images_labels labels;
    bool label_optional;
    bool look; /* the images' bytes are not needed, except the first one's */
    images_sink *sink;
    void *context;
    struct error *error;
    struct tar *tar;
    struct pending pending;
    uint64_t number;      /* of the next image */
    unsigned char *bytes; /* [IMAGES_BYTES_MAX] */
};

static int refuse(const struct reading *r, const char *name, const char *text) {
    return error_set(r->error, AML_EINPUT, "%s: %s: %s", text_input_name(r->path), tar_shown(name), text);
}

/* ---- Names ---- */

static const char *base_of(const char *name) {
    const char *slash = strrchr(name, '/');
    return slash != NULL ? slash + 1 : name;
}

static bool ends_in(const char *name, const char *const *ends) {
    const char *dot = strrchr(name, '.');
    while (*ends != NULL && strcasecmp(dot, *ends) != 0) {
        ends++;
    }
    return *ends != NULL;
}

static enum entry_use use_of(const char *name) {
    static const char *const images[] = {".jpg", ".jpeg", ".jpe", ".jfif", ".png", NULL};
    static const char *const others[] = {".webp", ".gif", ".bmp", ".tif", ".tiff", ".avif",
                                         ".heic", ".jp2", ".j2k", ".jxl", ".ppm",  NULL};
    static const char *const classes[] = {".cls", NULL};
    const char *base = base_of(name);
    if (base[0] == '.' || strchr(base, '.') == NULL) {
        return USE_NONE;
    }
    return ends_in(base, images)    ? USE_IMAGE
           : ends_in(base, others)  ? USE_OTHER_IMAGE
           : ends_in(base, classes) ? USE_CLASS
                                    : USE_NONE;
}

/* Returns the length of the key of an entry that has a use: the name up to the first dot after the folders, as in
 * WebDataset. */
static size_t key_length(const char *name) {
    return (size_t)(strchr(base_of(name), '.') - name);
}

static bool has_key(const char *name, const char *key) {
    size_t length = key_length(name);
    return strncmp(name, key, length) == 0 && key[length] == '\0';
}

/* Makes a label of the name of the entry's folder. Returns false if there is none. */
static bool folder_label(const char *name, struct label *label) {
    const char *end = base_of(name);
    const char *begin;
    if (end == name) {
        return false;
    }
    for (begin = --end; begin > name && begin[-1] != '/'; begin--) {
    }
    size_t length = (size_t)(end - begin);
    bool place = (length == 1 && begin[0] == '.') || (length == 2 && memcmp(begin, "..", 2) == 0);
    return !place && label_make(label, begin, length);
}

/* ---- Images and their labels ---- */

static int give(struct reading *r) {
    struct pending *pending = &r->pending;
    const struct images_entry entry = {.name = pending->name,
                                       .number = r->number++,
                                       .labelled = pending->with_label,
                                       .label = pending->label,
                                       .bytes = r->bytes,
                                       .size = pending->size};
    struct error error = {0};
    int result = r->sink(r->context, &entry, &error);
    if (error.code != 0) {
        return error_set(r->error, result, "%s: %s: %s", text_input_name(r->path), tar_shown(pending->name),
                         error.text);
    }
    return result;
}

/* Ends the pending key, whose image has no label, or whose label has no image. */
static int end_pending(struct reading *r) {
    struct pending *pending = &r->pending;
    int result = 0;
    if (pending->with_image && !pending->with_label && !r->label_optional) {
        result =
            refuse(r, pending->name,
                   r->labels == IMAGES_LABELS_CLASS ? "no label: expected an entry of this name with .cls next to it"
                                                    : "no label: expected a folder whose name is the class, of at "
                                                      "most 55 bytes, or a file .cls next to the image");
    } else if (pending->with_label && !pending->with_image) {
        result = refuse(r, pending->name, "a label without an image: expected .jpg, .jpeg or .png next to it");
    } else if (pending->with_image) {
        result = give(r);
    }
    pending->given = pending->given || pending->with_image;
    pending->with_image = pending->with_label = false;
    return result;
}

/* Ends the pending image and begins another, unless the entry has the pending image's key. */
static int begin_key(struct reading *r, const char *name) {
    struct pending *pending = &r->pending;
    size_t length = key_length(name);
    if (has_key(name, pending->key)) {
        return 0;
    }
    int result = end_pending(r);
    memcpy(pending->key, name, length);
    pending->key[length] = '\0';
    pending->given = false;
    return result;
}

static int take_class(struct reading *r, const struct tar_entry *entry) {
    struct pending *pending = &r->pending;
    char text[CLASS_BYTES_MAX + 1];
    int result = begin_key(r, entry->name);
    if (result != 0) {
        return result;
    }
    if (pending->with_label || pending->given) {
        return refuse(r, entry->name, "a second label of this key: expected one (a key ends at the name's first dot)");
    }
    if (entry->bytes > CLASS_BYTES_MAX) {
        return refuse(r, entry->name, "expected a number as text, in at most 64 bytes");
    }
    result = tar_read(r->tar, text, entry->bytes, r->error);
    if (result != 0) {
        return result;
    }
    text[entry->bytes] = '\0';
    const char *begin = text + strspn(text, " \t\r\n");
    double number;
    const char *end = number_take(begin, &number);
    size_t length = end != NULL ? (size_t)(end - begin) : 0;
    if (end == NULL || end[strspn(end, " \t\r\n")] != '\0' || strlen(text) != entry->bytes || !isfinite(number) ||
        !label_make(&pending->label, begin, length)) {
        return refuse(r, entry->name, "expected a number as text");
    }
    pending->with_label = true;
    if (!pending->with_image) {
        memcpy(pending->name, entry->name, strlen(entry->name) + 1);
    }
    return pending->with_image ? end_pending(r) : 0;
}

/* Rejects the second image of a key. */
static int refuse_second(const struct reading *r, const char *name) {
    const char *rest = strchr(base_of(name), '.');
    return error_set(r->error, AML_EINPUT,
                     "%s: %s: a second image of this key, beside %s: expected one (a key ends at the name's first "
                     "dot); tar --exclude='*%.60s' leaves this one out",
                     text_input_name(r->path), tar_shown(name), base_of(r->pending.name), rest);
}

static int take_image(struct reading *r, const struct tar_entry *entry) {
    struct pending *pending = &r->pending;
    int result = begin_key(r, entry->name);
    if (result != 0) {
        return result;
    }
    if (r->labels == IMAGES_LABELS_CLASS && (pending->with_image || pending->given)) {
        return refuse_second(r, entry->name);
    }
    if (entry->bytes == 0 || entry->bytes > IMAGES_BYTES_MAX) {
        return error_set(r->error, AML_EINPUT, "%s: %s: an image of %llu bytes: expected 1 to %d",
                         text_input_name(r->path), tar_shown(entry->name), (unsigned long long)entry->bytes,
                         IMAGES_BYTES_MAX);
    }
    pending->size = (size_t)entry->bytes;
    if (!r->look || r->number == 0) {
        result = tar_read(r->tar, r->bytes, pending->size, r->error);
    }
    memcpy(pending->name, entry->name, strlen(entry->name) + 1);
    pending->with_image = true;
    if (r->labels == IMAGES_LABELS_FOLDER) {
        pending->with_label = folder_label(entry->name, &pending->label);
    }
    bool whole = pending->with_label || r->labels == IMAGES_LABELS_FOLDER;
    return result == 0 && whole ? end_pending(r) : result;
}

static int check_kind(const struct reading *r, const struct tar_entry *entry) {
    return entry->kind == TAR_FILE     ? 0
           : entry->kind == TAR_LINK   ? refuse(r, entry->name,
                                                "a link: expected a file (tar --dereference "
                                                  "--hard-dereference)")
           : entry->kind == TAR_SPARSE ? refuse(r, entry->name, "a file with holes: expected a plain file")
                                       : refuse(r, entry->name, "expected a file, not a folder or device");
}

static int take_entry(struct reading *r, const struct tar_entry *entry) {
    enum entry_use use = use_of(entry->name);
    if (use == USE_NONE) {
        return 0;
    }
    if (use == USE_CLASS && r->labels != IMAGES_LABELS_CLASS) {
        return refuse(r, entry->name, "a label of one image, but the first image has none: expected one for each");
    }
    if (strlen(entry->name) >= IMAGES_NAME_MAX) {
        return error_set(r->error, AML_EINPUT, "%s: an entry with a name of %zu bytes: expected less than %d",
                         text_input_name(r->path), strlen(entry->name), IMAGES_NAME_MAX);
    }
    if (use == USE_OTHER_IMAGE) {
        return refuse(r, entry->name, "expected a JPEG or PNG image (ImageMagick's mogrify -format png converts it)");
    }
    int result = check_kind(r, entry);
    return result != 0 ? result : use == USE_IMAGE ? take_image(r, entry) : take_class(r, entry);
}

/* Reads one file. */
static int read_file(struct reading *r) {
    struct tar_entry entry;
    bool found = true;
    int result = tar_open(&r->tar, r->path, r->error);
    r->bytes = result == 0 ? memory_resized(NULL, IMAGES_BYTES_MAX, 1) : NULL;
    while (result == 0 && found) {
        result = tar_next(r->tar, &entry, &found, r->error);
        if (result == 0) {
            result = found ? take_entry(r, &entry) : end_pending(r);
        }
    }
    tar_close(r->tar);
    free(r->bytes);
    return result;
}

int images_read(const char *path, enum images_labels labels, bool label_optional, images_sink *sink, void *context,
                struct error *error) {
    struct reading *r = memory_zeroed(1, sizeof *r);
    *r = (struct reading){.path = path,
                          .labels = labels,
                          .label_optional = label_optional,
                          .sink = sink,
                          .context = context,
                          .error = error};
    int result = read_file(r);
    free(r);
    return result;
}

/* ---- The format ---- */

static bool named_tar(const char *path) {
    static const char *const ends[] = {".tar", ".tar.gz", ".tgz", ".tar.zst"};
    for (size_t e = 0; e < sizeof ends / sizeof *ends; e++) {
        size_t length = strlen(ends[e]);
        if (strlen(path) > length && strcasecmp(path + strlen(path) - length, ends[e]) == 0) {
            return true;
        }
    }
    return false;
}

int images_are_tar(const struct samples_file *file, bool *tar, struct error *error) {
    struct text_lines lines;
    *tar = file->format == SAMPLES_TAR || (file->format == SAMPLES_AUTO && named_tar(file->path));
    if (*tar || file->format != SAMPLES_AUTO) {
        return 0;
    }
    int result = source_lines_open(&lines, file->path, SAMPLES_LINE_MAX, error);
    if (result == 0) {
        result = text_lines_fill(&lines, MAGIC_AT + 5, error);
        *tar = result == 0 && lines.held >= MAGIC_AT + 5 && memcmp(lines.bytes + MAGIC_AT, "ustar", 5) == 0;
        text_lines_close(&lines);
    }
    return result;
}

/* ---- Surveys ---- */

static size_t file_count(const struct samples_file *file) {
    return file->files != NULL ? file->files->count : 1;
}

static const char *file_path(const struct samples_file *file, size_t f) {
    return file->files != NULL ? file->files->names[f].path : file->path;
}

/* Reads the entries of a file up to the first one after the first image's key. Sets *image to whether the file has
 * an image. */
static int find_labels(const char *path, enum images_labels *labels, bool *image, struct error *error) {
    struct tar *tar;
    struct tar_entry entry;
    char key[IMAGES_NAME_MAX]; /* key of the first image */
    bool found = true;
    bool end = false;
    int result = tar_open(&tar, path, error);
    while (result == 0 && found && !end) {
        result = tar_next(tar, &entry, &found, error);
        enum entry_use use = result == 0 && found ? use_of(entry.name) : USE_NONE;
        if (use == USE_NONE) {
            continue;
        }
        end = *image && (use == USE_CLASS || !has_key(entry.name, key));
        if (use == USE_CLASS) {
            *labels = IMAGES_LABELS_CLASS;
        } else if (!*image) {
            snprintf(key, sizeof key, "%.*s", (int)key_length(entry.name), entry.name);
            *image = true;
            end = *labels == IMAGES_LABELS_CLASS;
        }
    }
    tar_close(tar);
    return result;
}

int images_find_labels(const struct samples_file *file, enum images_labels *labels, struct error *error) {
    bool image = false;
    int result = 0;
    *labels = IMAGES_LABELS_FOLDER;
    for (size_t f = 0; f < file_count(file) && result == 0 && !image; f++) {
        result = find_labels(file_path(file, f), labels, &image, error);
    }
    return result;
}

struct surveyor {
    struct images_form *form;
    struct samples_survey *survey;
};

/* Sets the parts of the shape that were not given. */
static int choose_shape(struct image_shape *shape, const struct images_entry *entry, struct error *error) {
    struct image_shape first;
    int result = image_look(entry->bytes, entry->size, &first, error);
    if (result == 0 && shape->width == 0) {
        shape->width = first.width;
        shape->height = first.height;
    }
    shape->channels = result == 0 && shape->channels == 0 ? first.channels : shape->channels;
    return result;
}

static int survey_image(void *context, const struct images_entry *entry, struct error *error) {
    struct surveyor *surveyor = context;
    struct samples_survey *survey = surveyor->survey;
    const unsigned char *name = (const unsigned char *)entry->name;
    int result = survey->samples == 0 ? choose_shape(&surveyor->form->shape, entry, error) : 0;
    if (result == 0 && !labels_add(&survey->labels, &entry->label)) {
        return error_set(error, AML_EINPUT, "expected at most %d different labels", LABELS_MAX);
    }
    survey->samples++;
    survey->text = hash_bytes(name, strlen(entry->name), hash_pair(survey->text, entry->size));
    return result;
}

int images_survey(const struct samples_file *file, struct images_form *form, struct samples_survey *survey,
                  struct error *error) {
    struct surveyor surveyor = {.form = form, .survey = survey};
    struct samples_places *places = &survey->places;
    *survey = (struct samples_survey){.format = SAMPLES_TAR, .dense = true};
    int result = images_find_labels(file, &form->labels, error);
    places->chunks = memory_zeroed(file_count(file), sizeof *places->chunks);
    places->capacity = file_count(file);
    for (size_t f = 0; f < file_count(file) && result == 0; f++) {
        struct reading *r = memory_zeroed(1, sizeof *r);
        places->chunks[places->count++] =
            (struct samples_chunk){.file = (uint32_t)f, .place = survey->samples, .number = survey->samples};
        *r = (struct reading){.path = file_path(file, f),
                              .labels = form->labels,
                              .look = true,
                              .sink = survey_image,
                              .context = &surveyor,
                              .error = error};
        result = read_file(r);
        free(r);
    }
    places->end = survey->samples;
    if (result == 0 && survey->samples == 0) {
        result =
            error_set(error, AML_EINPUT, "%s: no images: expected .jpg, .jpeg or .png (tables are not read from a tar)",
                      text_input_name(file->path));
    }
    if (result != 0) {
        samples_survey_close(survey);
        return result;
    }
    survey->features = (uint32_t)image_values(&form->shape);
    survey->values = survey->samples * survey->features;
    labels_sort(&survey->labels);
    return 0;
}
