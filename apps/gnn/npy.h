/* Reads arrays of numbers in numpy's .npy format, versions 1 to 3, little-endian and in C order, as a stream. All other
 * arrays are refused, with the line of numpy that converts them. One thread at a time. */
#ifndef APPS_GNN_NPY_H
#define APPS_GNN_NPY_H

#include "agileml/base/error.h"
#include "agileml/input/source.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
    NPY_DIMENSIONS_MAX = 8,
    NPY_HEADER_MAX = 1 << 16, /* bytes of the text that describes the array */
    NPY_BUFFER = 1 << 16
};

enum npy_kind { NPY_BOOL, NPY_SIGNED, NPY_UNSIGNED, NPY_FLOAT };

struct npy {
    const char *path; /* belongs to the caller */
    enum npy_kind kind;
    unsigned size; /* bytes of an element: 1, 2, 4 or 8 */
    unsigned dimensions;
    uint64_t shape[NPY_DIMENSIONS_MAX];
    uint64_t count; /* elements */
    uint64_t taken; /* elements read so far */
    struct source *source;
    unsigned char *buffer; /* [NPY_BUFFER] */
};

/* Whether bytes[size] begin an .npy file. */
bool npy_begins(const void *bytes, size_t size);

/* Opens an array, and checks that the file's size fits its shape. Returns 0, and npy_close must follow; else AML_EINPUT
 * or AML_EFAIL, and nothing is open. */
int npy_open(struct npy *npy, const char *path, struct error *error);
void npy_close(struct npy *npy);

/* Read the next `count` elements, of those that are left. Integers: refuses elements that are not whole numbers of 64
 * bits. Return 0, AML_EINPUT or AML_EFAIL. */
int npy_read_integers(struct npy *npy, int64_t *to, uint64_t count, struct error *error);
int npy_read_doubles(struct npy *npy, double *to, uint64_t count, struct error *error);

/* Writes the array's shape to to[room], such as "(2708, 1433)". */
void npy_print_shape(const struct npy *npy, char *to, size_t room);

#endif
