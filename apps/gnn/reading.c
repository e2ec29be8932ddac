/* See reading.h. */
#include "apps/gnn/reading.h"

#include "agileml/base/memory.h"
#include "agileml/base/text_fields.h"
#include "agileml/base/text_input.h"
#include "agileml/input/source.h"
#include "apps/gnn/npy.h"
#include "apps/samples/number.h"

#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>

void reading_note(const struct graph_reading *reading, const char *format, ...) {
    char text[ERROR_TEXT_MAX];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(text, sizeof text, format, arguments);
    va_end(arguments);
    if (reading->note != NULL) {
        reading->note(reading->context, text);
    }
}

static bool name_ends(const char *path, const char *ending) {
    const size_t length = strlen(path);
    const size_t end = strlen(ending);
    return length >= end && strcasecmp(path + length - end, ending) == 0;
}

/* Names a file that only Python reads, and says how to convert it; NULL: it is none. */
static const char *python_kind(const char *path, const unsigned char *bytes, size_t size) {
    const bool zip = size >= 4 && memcmp(bytes, "PK\x03\x04", 4) == 0;
    const bool pickle = size >= 2 && bytes[0] == 0x80 && bytes[1] >= 2 && bytes[1] <= 5;
    if (name_ends(path, ".pt") || name_ends(path, ".pth")) {
        return "a PyTorch file: expected text or .npy; in Python: d = torch.load(FILE); numpy.save(\"edges.npy\", "
               "d.edge_index.numpy()), and so for d.x, d.y and the masks";
    }
    if (name_ends(path, ".npz")) {
        return "an archive of numpy: expected text or .npy; in Python: a = numpy.load(FILE); print(a.files); "
               "numpy.save(\"new.npy\", a[NAME]) for each array (a sparse matrix: scipy.io.mmwrite for edges, "
               ".toarray() for features)";
    }
    if (pickle || (!zip && (name_ends(path, ".pkl") || name_ends(path, ".pickle")))) {
        return "a Python pickle: expected text or .npy; in Python: d = pickle.load(open(FILE, \"rb\")); "
               "numpy.save(\"new.npy\", numpy.asarray(d))";
    }
    return NULL;
}

int reading_kind(const struct graph_reading *reading, const char *path, enum graph_file *kind) {
    unsigned char bytes[TEXT_FOREIGN_BYTES];
    struct source_identity identity;
    size_t got = 0;
    *kind = GRAPH_FILE_TEXT;
    int code = source_identify(path, &identity, reading->error);
    if (code == 0 && identity.bytes == SOURCE_TO_END) {
        return error_set(reading->error, AML_EINPUT, "%s: expected a file, not a pipe: each process of a job reads it",
                         text_input_name(path));
    }
    code = code != 0 ? code : source_read_at(path, &identity, 0, bytes, sizeof bytes, &got, reading->error);
    if (code != 0) {
        return code;
    }
    const char *python = python_kind(path, bytes, got);
    if (python != NULL) {
        return error_set(reading->error, AML_EINPUT, "%s: %s", text_input_name(path), python);
    }
    *kind = npy_begins(bytes, got) ? GRAPH_FILE_NPY : GRAPH_FILE_TEXT;
    return 0;
}

const char *reading_take_number(const char *p, int64_t *number) {
    double value;
    const char *end = number_take(p, &value);
    if (end == NULL || value != trunc(value) || fabs(value) >= 0x1p53) {
        return NULL;
    }
    *number = (int64_t)value;
    return end;
}
