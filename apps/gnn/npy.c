/* See npy.h. The format is that of numpy's module numpy.lib.format: a magic string, a version, and a Python dictionary
 * {'descr': '<f4', 'fortran_order': False, 'shape': (3, 4), } padded by blanks, then the elements. */
#include "apps/gnn/npy.h"

#include "agileml/base/memory.h"
#include "agileml/base/text_fields.h"
#include "agileml/base/text_input.h"
#include "apps/little_endian.h"

#include <assert.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MAGIC_SIZE = 6, PREFIX_SIZE = 12, WORD_MAX = 32 };

static const char magic[MAGIC_SIZE] = {'\x93', 'N', 'U', 'M', 'P', 'Y'};

/* The parts of the dictionary. */
struct description {
    char type[WORD_MAX]; /* such as "<f4"; "[": a list, of a structured type */
    bool has_type, has_order, has_shape;
    bool fortran;
};

bool npy_begins(const void *bytes, size_t size) {
    return size >= sizeof magic && memcmp(bytes, magic, sizeof magic) == 0;
}

static const char *npy_name(const struct npy *npy) {
    return text_input_name(npy->path);
}

/* ---- The dictionary ---- */

static const char *skip_space(const char *p) {
    while (*p == ' ' || *p == '\t' || *p == '\n') {
        p++;
    }
    return p;
}

/* Takes a string in quotes into word[WORD_MAX]; one that is longer is cut. */
static const char *take_string(const char *p, char word[WORD_MAX]) {
    const char quote = *p;
    if (quote != '\'' && quote != '"') {
        return NULL;
    }
    const char *end = strchr(p + 1, quote);
    if (end == NULL) {
        return NULL;
    }
    size_t length = (size_t)(end - p - 1);
    length = length < WORD_MAX - 1 ? length : WORD_MAX - 1;
    memcpy(word, p + 1, length);
    word[length] = '\0';
    return end + 1;
}

/* Takes a whole number below 2^63. */
static const char *take_length(const char *p, uint64_t *length) {
    const char *start = p;
    *length = 0;
    while (*p >= '0' && *p <= '9') {
        const uint64_t digit = (uint64_t)(*p++ - '0');
        if (*length > (INT64_MAX - digit) / 10) {
            return NULL;
        }
        *length = *length * 10 + digit;
    }
    return p == start ? NULL : p + (*p == 'L'); /* as Python 2 wrote long numbers */
}

/* Takes a tuple of lengths. */
static const char *take_shape(const char *p, struct npy *npy) {
    if (*p != '(') {
        return NULL;
    }
    p = skip_space(p + 1);
    while (*p != ')') {
        if (npy->dimensions == NPY_DIMENSIONS_MAX) {
            return NULL;
        }
        p = take_length(p, &npy->shape[npy->dimensions]);
        if (p == NULL) {
            return NULL;
        }
        npy->dimensions++;
        p = skip_space(p);
        if (*p != ',' && *p != ')') {
            return NULL;
        }
        p = *p == ',' ? skip_space(p + 1) : p;
    }
    return p + 1;
}

static const char *take_bool(const char *p, bool *value) {
    *value = strncmp(p, "True", 4) == 0;
    return *value ? p + 4 : strncmp(p, "False", 5) == 0 ? p + 5 : NULL;
}

/* Takes the value of a key. A structured type is a list, whose end is not looked for. */
static const char *take_item(const char *p, const char *key, struct npy *npy, struct description *description) {
    if (strcmp(key, "descr") == 0 && !description->has_type) {
        description->has_type = true;
        return take_string(p, description->type);
    }
    if (strcmp(key, "fortran_order") == 0 && !description->has_order) {
        description->has_order = true;
        return take_bool(p, &description->fortran);
    }
    if (strcmp(key, "shape") == 0 && !description->has_shape) {
        description->has_shape = true;
        return take_shape(p, npy);
    }
    return NULL;
}

/* Reads the dictionary. Returns false when it is none of an array; a structured type is then noted. */
static bool take_dictionary(const char *p, struct npy *npy, struct description *description) {
    p = skip_space(p);
    if (*p != '{') {
        return false;
    }
    p = skip_space(p + 1);
    while (*p != '}') {
        char key[WORD_MAX];
        p = take_string(p, key);
        p = p != NULL ? skip_space(p) : NULL;
        if (p == NULL || *p != ':') {
            return false;
        }
        p = skip_space(p + 1);
        if (strcmp(key, "descr") == 0 && (*p == '[' || *p == '(')) {
            memcpy(description->type, "[", 2);
            return false;
        }
        p = take_item(p, key, npy, description);
        p = p != NULL ? skip_space(p) : NULL;
        if (p == NULL || (*p != ',' && *p != '}')) {
            return false;
        }
        p = *p == ',' ? skip_space(p + 1) : p;
    }
    return *skip_space(p + 1) == '\0' && description->has_type && description->has_order && description->has_shape;
}

/* ---- Opening ---- */

static int refuse_type(const struct npy *npy, const char *type, struct error *error) {
    const char *name = npy_name(npy);
    if (*type == '[') {
        return error_set(error, AML_EINPUT,
                         "%s: an array of a structured type: expected numbers; numpy.save(\"new.npy\", "
                         "numpy.load(FILE)[\"NAME\"]) writes one of its fields",
                         name);
    }
    if (*type == '>') {
        return error_set(error, AML_EINPUT,
                         "%s: an array of type '%s', big-endian: expected little-endian; a = numpy.load(FILE); "
                         "numpy.save(\"new.npy\", a.astype(a.dtype.newbyteorder(\"<\"))) converts it",
                         name, type);
    }
    if (strchr(type, 'O') != NULL) {
        return error_set(error, AML_EINPUT,
                         "%s: an array of Python objects (a pickle inside): expected numbers; numpy.save(\"new.npy\", "
                         "numpy.load(FILE, allow_pickle=True).astype(\"float32\")) converts it, if they are numbers",
                         name);
    }
    return error_set(error, AML_EINPUT,
                     "%s: an array of type '%s': expected bool, int8 to int64, uint8 to uint64, or float16 to float64",
                     name, type);
}

/* Sets the elements' kind and size. */
static int set_type(struct npy *npy, const char *type, struct error *error) {
    static const struct {
        const char *type;
        enum npy_kind kind;
    } types[] = {{"b1", NPY_BOOL},     {"i1", NPY_SIGNED},   {"i2", NPY_SIGNED},   {"i4", NPY_SIGNED},
                 {"i8", NPY_SIGNED},   {"u1", NPY_UNSIGNED}, {"u2", NPY_UNSIGNED}, {"u4", NPY_UNSIGNED},
                 {"u8", NPY_UNSIGNED}, {"f2", NPY_FLOAT},    {"f4", NPY_FLOAT},    {"f8", NPY_FLOAT}};
    for (size_t t = 0; t < sizeof types / sizeof types[0]; t++) {
        const unsigned size = (unsigned)(types[t].type[1] - '0');
        if (strlen(type) == 3 && (*type == '<' || (size == 1 && (*type == '|' || *type == '>'))) &&
            strcmp(type + 1, types[t].type) == 0) {
            npy->kind = types[t].kind;
            npy->size = size;
            return 0;
        }
    }
    return refuse_type(npy, type, error);
}

/* Sets the number of elements. Returns false when it is not below 2^60. */
static bool set_count(struct npy *npy) {
    npy->count = 1;
    for (unsigned d = 0; d < npy->dimensions; d++) {
        if (npy->shape[d] > 0 && npy->count > (UINT64_C(1) << 60) / npy->shape[d]) {
            return false;
        }
        npy->count *= npy->shape[d];
    }
    return true;
}

static int check_size(const struct npy *npy, uint64_t begin, uint64_t bytes, struct error *error) {
    char shape[128];
    const uint64_t expected = begin + npy->count * npy->size;
    npy_print_shape(npy, shape, sizeof shape);
    if (bytes == expected) {
        return 0;
    }
    return error_set(error, AML_EINPUT, "%s: %s: expected %llu bytes for its shape %s, got %llu", npy_name(npy),
                     bytes < expected ? "truncated" : "too long", (unsigned long long)expected, shape,
                     (unsigned long long)bytes);
}

/* Reads exactly `size` bytes. */
static int read_exactly(struct npy *npy, void *bytes, size_t size, struct error *error) {
    size_t got = 0;
    int code = source_read(npy->source, bytes, size, &got, error);
    return code == 0 && got < size ? error_set(error, AML_EINPUT, "%s: truncated", npy_name(npy)) : code;
}

/* Reads the prefix: magic, version, and the length of the dictionary. */
static int read_prefix(struct npy *npy, size_t *length, uint64_t *begin, struct error *error) {
    unsigned char prefix[PREFIX_SIZE];
    int code = read_exactly(npy, prefix, PREFIX_SIZE - 2, error);
    if (code != 0) {
        return code;
    }
    const unsigned version = prefix[MAGIC_SIZE];
    if (!npy_begins(prefix, MAGIC_SIZE) || version < 1 || version > 3) {
        return error_set(error, AML_EINPUT, "%s: expected an .npy file of version 1 to 3", npy_name(npy));
    }
    *length = (size_t)prefix[8] | (size_t)prefix[9] << 8;
    *begin = PREFIX_SIZE - 2 + *length;
    if (version > 1) {
        code = read_exactly(npy, prefix + PREFIX_SIZE - 2, 2, error);
        *length = get32(prefix + 8);
        *begin = PREFIX_SIZE + (uint64_t)*length;
    }
    return code;
}

static int read_header(struct npy *npy, uint64_t bytes, struct error *error) {
    struct description description = {.type = ""};
    char text[NPY_HEADER_MAX + 1];
    size_t length = 0;
    uint64_t begin = 0;
    int code = read_prefix(npy, &length, &begin, error);
    if (code == 0 && length > NPY_HEADER_MAX) {
        code = error_set(error, AML_EINPUT, "%s: a header of %zu bytes: expected at most %d", npy_name(npy), length,
                         NPY_HEADER_MAX);
    }
    code = code != 0 ? code : read_exactly(npy, text, length, error);
    if (code != 0) {
        return code;
    }
    while (length > 0 && (text[length - 1] == ' ' || text[length - 1] == '\n')) {
        length--;
    }
    text[length] = '\0';
    if (memchr(text, '\0', length) != NULL || !take_dictionary(text, npy, &description) || !set_count(npy)) {
        return *description.type == '['
                   ? refuse_type(npy, description.type, error)
                   : error_set(error, AML_EINPUT, "%s: a header that numpy does not write: '%.*s'%s", npy_name(npy),
                               text_shown(strlen(text)), text, text_shown_end(strlen(text)));
    }
    code = set_type(npy, description.type, error);
    if (code == 0 && description.fortran && npy->dimensions > 1) {
        return error_set(error, AML_EINPUT,
                         "%s: an array in Fortran order: expected C order; numpy.save(\"new.npy\", "
                         "numpy.ascontiguousarray(numpy.load(FILE))) converts it",
                         npy_name(npy));
    }
    return code != 0 ? code : check_size(npy, begin, bytes, error);
}

int npy_open(struct npy *npy, const char *path, struct error *error) {
    struct source_identity identity;
    *npy = (struct npy){.path = path};
    int code = source_identify(path, &identity, error);
    code = code != 0 ? code : source_open(&npy->source, path, &identity, 0, identity.bytes, error);
    if (code != 0) {
        *npy = (struct npy){0};
        return code;
    }
    code = read_header(npy, identity.bytes, error);
    if (code != 0) {
        npy_close(npy);
        return code;
    }
    npy->buffer = memory_zeroed(NPY_BUFFER, 1);
    return 0;
}

void npy_close(struct npy *npy) {
    source_close(npy->source);
    free(npy->buffer);
    *npy = (struct npy){0};
}

void npy_print_shape(const struct npy *npy, char *to, size_t room) {
    size_t used = (size_t)snprintf(to, room, "(");
    for (unsigned d = 0; d < npy->dimensions && used < room; d++) {
        used +=
            (size_t)snprintf(to + used, room - used, "%s%llu", d > 0 ? ", " : "", (unsigned long long)npy->shape[d]);
    }
    if (used < room) {
        snprintf(to + used, room - used, npy->dimensions == 1 ? ",)" : ")");
    }
}

/* ---- Elements ---- */

static double half_value(unsigned bits) {
    const unsigned exponent = bits >> 10 & 31;
    const double fraction = bits & 1023;
    const double sign = (bits & 0x8000) != 0 ? -1 : 1;
    if (exponent == 31) {
        return fraction > 0 ? (double)NAN : sign * (double)INFINITY;
    }
    return sign * (exponent > 0 ? ldexp(1024 + fraction, (int)exponent - 25) : ldexp(fraction, -24));
}

static double float_value(const struct npy *npy, const unsigned char *bytes) {
    return npy->size == 8   ? get_double(bytes)
           : npy->size == 4 ? (double)get_float(bytes)
                            : half_value((unsigned)bytes[0] | (unsigned)bytes[1] << 8);
}

static uint64_t unsigned_value(const struct npy *npy, const unsigned char *bytes) {
    return npy->size == 8   ? get64(bytes)
           : npy->size == 4 ? get32(bytes)
           : npy->size == 2 ? (uint64_t)bytes[0] | (uint64_t)bytes[1] << 8
                            : bytes[0];
}

static int64_t signed_value(const struct npy *npy, const unsigned char *bytes) {
    const uint64_t value = unsigned_value(npy, bytes);
    const unsigned unused = 64 - 8 * npy->size;
    const uint64_t sign = UINT64_C(1) << (63 - unused);
    const uint64_t extended = (value ^ sign) - sign;
    int64_t result;
    memcpy(&result, &extended, sizeof result);
    return result;
}

/* Refuses element number `at` of the array. */
static int refuse_element(const struct npy *npy, uint64_t at, const char *got, struct error *error) {
    char place[128] = "";
    size_t used = 0;
    uint64_t below = npy->count;
    for (unsigned d = 0; d < npy->dimensions && used < sizeof place; d++) {
        below /= npy->shape[d];
        used += (size_t)snprintf(place + used, sizeof place - used, "[%llu]",
                                 (unsigned long long)(at / below % npy->shape[d]));
    }
    return error_set(error, AML_EINPUT, "%s: element %s: expected a whole number of at most 63 bits, got %s",
                     npy_name(npy), place, got);
}

static int take_integer(const struct npy *npy, const unsigned char *bytes, uint64_t at, int64_t *value,
                        struct error *error) {
    char got[WORD_MAX];
    if (npy->kind == NPY_SIGNED) {
        *value = signed_value(npy, bytes);
        return 0;
    }
    if (npy->kind == NPY_FLOAT) {
        const double number = float_value(npy, bytes);
        if (number == trunc(number) && fabs(number) < 0x1p63) { /* false for NaN */
            *value = (int64_t)number;
            return 0;
        }
        snprintf(got, sizeof got, "%g", number);
        return refuse_element(npy, at, got, error);
    }
    const uint64_t number = unsigned_value(npy, bytes);
    if (number > INT64_MAX) {
        snprintf(got, sizeof got, "%llu", (unsigned long long)number);
        return refuse_element(npy, at, got, error);
    }
    *value = npy->kind == NPY_BOOL ? number != 0 : (int64_t)number;
    return 0;
}

static double take_double(const struct npy *npy, const unsigned char *bytes) {
    return npy->kind == NPY_FLOAT    ? float_value(npy, bytes)
           : npy->kind == NPY_SIGNED ? (double)signed_value(npy, bytes)
           : npy->kind == NPY_BOOL   ? (double)(*bytes != 0)
                                     : (double)unsigned_value(npy, bytes);
}

/* Reads the next elements, as many as fit into the buffer. */
static int read_some(struct npy *npy, uint64_t count, uint64_t *some, struct error *error) {
    const uint64_t most = NPY_BUFFER / npy->size;
    assert(count <= npy->count - npy->taken);
    *some = count < most ? count : most;
    return read_exactly(npy, npy->buffer, (size_t)*some * npy->size, error);
}

int npy_read_integers(struct npy *npy, int64_t *to, uint64_t count, struct error *error) {
    uint64_t some = 0;
    for (uint64_t done = 0; done < count; done += some) {
        int code = read_some(npy, count - done, &some, error);
        for (uint64_t i = 0; i < some && code == 0; i++) {
            code = take_integer(npy, npy->buffer + i * npy->size, npy->taken + i, &to[done + i], error);
        }
        if (code != 0) {
            return code;
        }
        npy->taken += some;
    }
    return 0;
}

int npy_read_doubles(struct npy *npy, double *to, uint64_t count, struct error *error) {
    uint64_t some = 0;
    for (uint64_t done = 0; done < count; done += some) {
        int code = read_some(npy, count - done, &some, error);
        if (code != 0) {
            return code;
        }
        for (uint64_t i = 0; i < some; i++) {
            to[done + i] = take_double(npy, npy->buffer + i * npy->size);
        }
        npy->taken += some;
    }
    return 0;
}
