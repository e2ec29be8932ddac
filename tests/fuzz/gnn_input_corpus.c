/* Writes the seeds of gnn_input_fuzz into the folder that is its only argument: graphs of each format. No seed is
 * stored in the repository. */
#include "tests/fuzz/corpus.h"
#include "tests/fuzz/gnn_seeds.h"

#include <stdio.h>
#include <string.h>

enum { PARTS = 6, SEED_MAX = 4096 };

/* A part: text, and its size when it has zero bytes. */
struct part {
    const char *text;
    size_t size;
};

#define TEXT(text)                                                                                                     \
    { text, sizeof(text) - 1 }

/* An .npy file: 54 or more bytes of a dictionary, then elements. */
#define NPY(dictionary, elements) TEXT("\x93NUMPY\x01\0\x47\0" dictionary elements)
#define INTS_2_2                  "{'descr': '<i2', 'fortran_order': False, 'shape': (2, 2), }           \n"
#define FLOATS_3_2                "{'descr': '<f2', 'fortran_order': False, 'shape': (3, 2), }           \n"
#define BYTES_3                   "{'descr': '|u1', 'fortran_order': False, 'shape': (3,), }             \n"
#define BOOLS_3                   "{'descr': '|b1', 'fortran_order': False, 'shape': (3,), }             \n"

static const struct seed {
    unsigned char options;
    struct part parts[PARTS];
} SEEDS[] = {
    {0, {TEXT("0 1\n1 2\n"), TEXT("0 1:1\n1 2:1\n0 3:.5\n"), TEXT(""), TEXT("0 1\n\n2\n")}},
    {GNN_SEED_DIRECTED, {TEXT("# c\n0\t1\r\n2\t1\n"), TEXT("1,2\n3,4\n5,6\n"), TEXT("a\nb\na\n"), TEXT("0 1\n2\n\n")}},
    {GNN_SEED_CHOICE, {TEXT("u,v,w\n0,1,.5\n"), TEXT("a b\n1 0\n0 0\n0 0\n"), TEXT("0\n1\n-1\n")}},
    {GNN_SEED_THREE,
     {TEXT("%%MatrixMarket matrix coordinate pattern symmetric\n3 3 2\n2 1\n3 1\n"), TEXT("1;2\n3;4\n5;6\n"),
      TEXT("x\n0\n1\n\n"), TEXT("0\n1\n"), TEXT("2\n"), TEXT("# none\n")}},
    {GNN_SEED_THREE,
     {NPY(INTS_2_2, "\0\0\x01\0\x01\0\x02\0"), NPY(FLOATS_3_2, "\0\x3C\0\x40\0\0\0\0\0\0\0\x3C"),
      NPY(BYTES_3, "\x01\0\x01"), NPY(BOOLS_3, "\x01\x01\0"), NPY(BOOLS_3, "\0\0\x01"), NPY(BYTES_3, "\0\0\0")}},
    {GNN_SEED_PREDICT, {TEXT("id,source,target\n0,0,1\n"), TEXT("id,0,1,2\n0,1,2,3\n1,4,5,6\n")}},
    {GNN_SEED_PREDICT, {TEXT("\"0\";\"1\"\n"), TEXT("1:1 7:2\n2:3\n")}},
};

static bool write_seed(const char *folder, size_t number) {
    const struct seed *seed = &SEEDS[number];
    unsigned char bytes[SEED_MAX] = {seed->options};
    size_t size = 1;
    for (size_t p = 0; p < PARTS; p++) {
        const struct part *part = &seed->parts[p];
        bytes[size] = (unsigned char)part->size;
        bytes[size + 1] = (unsigned char)(part->size >> 8);
        size += 2;
        if (part->size > 0) {
            memcpy(bytes + size, part->text, part->size);
        }
        size += part->size;
    }
    char name[32];
    snprintf(name, sizeof name, "seed-%02zu", number);
    return corpus_write(folder, name, bytes, size);
}

int main(int argc, char **argv) {
    if (argc != 2) {
        fprintf(stderr, "usage: gnn_input_corpus FOLDER\n");
        return 2;
    }
    for (size_t i = 0; i < sizeof SEEDS / sizeof SEEDS[0]; i++) {
        if (!write_seed(argv[1], i)) {
            fprintf(stderr, "gnn_input_corpus: cannot write seed %zu into %s\n", i, argv[1]);
            return 1;
        }
    }
    return 0;
}
