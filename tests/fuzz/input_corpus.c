/* Writes the seeds of input_fuzz into the folder that is its only argument: plain texts; gzip members with and without
 * sizes, and with an index; zstd frames with checksums, skippable frames and the seekable format's table; files of
 * other formats. */
#include "tests/fuzz/corpus.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <zlib.h>
#include <zstd.h>

enum { SEED_MAX = 4096 };

struct seed {
    size_t size;
    unsigned char bytes[SEED_MAX];
};

static const char *const texts[] = {"a\nb\r\n", "", "\xEF\xBB\xBFuser,item\r", "\n1,2\n3,", "4\r\rlast line"};
enum { TEXTS = sizeof texts / sizeof texts[0] };

static void add(struct seed *seed, const void *bytes, size_t size) {
    if (seed->size + size > SEED_MAX) {
        abort();
    }
    memcpy(seed->bytes + seed->size, bytes, size);
    seed->size += size;
}

static void add_number(struct seed *seed, uint64_t number, size_t size) {
    for (size_t i = 0; i < size; i++) {
        unsigned char byte = (unsigned char)(number >> (8 * i));
        add(seed, &byte, 1);
    }
}

static void add_gzip(struct seed *seed, const char *text, bool sized) {
    unsigned char extra[6] = {'B', 'C', 2, 0, 0, 0};
    unsigned char copy[128];
    gz_header header = {.os = 255, .extra = sized ? extra : NULL, .extra_len = sized ? sizeof extra : 0};
    z_stream stream = {0};
    memcpy(copy, text, strlen(text));
    if (deflateInit2(&stream, 9, Z_DEFLATED, 15 + 16, 8, Z_DEFAULT_STRATEGY) != Z_OK ||
        deflateSetHeader(&stream, &header) != Z_OK) {
        abort();
    }
    stream.next_in = copy;
    stream.avail_in = (uInt)strlen(text);
    stream.next_out = seed->bytes + seed->size;
    stream.avail_out = (uInt)(SEED_MAX - seed->size);
    if (deflate(&stream, Z_FINISH) != Z_STREAM_END) {
        abort();
    }
    if (sized) {
        seed->bytes[seed->size + 16] = (unsigned char)(stream.total_out - 1);
        seed->bytes[seed->size + 17] = 0;
    }
    seed->size += stream.total_out;
    deflateEnd(&stream);
}

static void add_zstd(struct seed *seed, const char *text, bool checksum) {
    ZSTD_CCtx *context = ZSTD_createCCtx();
    ZSTD_CCtx_setParameter(context, ZSTD_c_checksumFlag, checksum);
    size_t made = ZSTD_compress2(context, seed->bytes + seed->size, SEED_MAX - seed->size, text, strlen(text));
    if (ZSTD_isError(made)) {
        abort();
    }
    seed->size += made;
    ZSTD_freeCCtx(context);
}

enum kind { PLAIN, GZIP, BGZIP, GZIP_INDEX, ZSTD, ZSTD_SKIPPED, ZSTD_TABLE, KINDS };

static void make(struct seed *seed, enum kind kind, unsigned char split) {
    struct seed data = {0};
    struct seed index = {0};
    struct seed entries = {0};
    for (size_t t = 0; t < TEXTS; t++) {
        size_t before = data.size;
        if (kind == GZIP_INDEX && t > 0) {
            add_number(&entries, data.size, 8);
            add_number(&entries, t, 8);
        }
        if (kind == PLAIN) {
            add(&data, texts[t], strlen(texts[t]));
        } else if (kind < ZSTD) {
            add_gzip(&data, texts[t], kind == BGZIP);
        } else {
            add(&data, "\x51\x2A\x4D\x18\x01\0\0\0x", kind == ZSTD_SKIPPED ? 9 : 0);
            add_zstd(&data, texts[t], t % 2 == 0);
        }
        if (kind == ZSTD_TABLE) {
            add_number(&entries, data.size - before, 4);
            add_number(&entries, strlen(texts[t]), 4);
        }
    }
    if (kind == GZIP_INDEX) {
        add_number(&index, TEXTS - 1, 8);
        add(&index, entries.bytes, entries.size);
    }
    if (kind == ZSTD_TABLE) {
        add(&data, "\x5E\x2A\x4D\x18", 4);
        add_number(&data, entries.size + 9, 4);
        add(&data, entries.bytes, entries.size);
        add_number(&data, TEXTS, 4);
        add(&data, "\0\xB1\xEA\x92\x8F", 5);
    }
    seed->size = 0;
    add(seed, &split, 1);
    add_number(seed, index.size, 1);
    add(seed, index.bytes, index.size);
    add(seed, data.bytes, data.size);
}

/* Beginnings of files of other formats, and text lines of other formats. */
static const char *const foreign[] = {"version https://git-lfs.github.com/spec/v1\noid sha256:4d7a\n",
                                      " \r\n<!DOCTYPE html>\n<html>",
                                      "PAR1\x15\x04\x15",
                                      "ORC\x11\x01",
                                      "BZh91AY&SY\xD2",
                                      "\x93NUMPY\x01",
                                      "RDX3\nX\n\x01",
                                      "\x01\x02\x03\x04\x05\x06",
                                      "{\"a\": 1}\n",
                                      "[1, 2.5]\n",
                                      "1 2.0 tag|ns a:1 b |more c:.5\n",
                                      "| 1 | 2 |\n",
                                      "1|24|M|85711\n",
                                      "%%MatrixMarket matrix coordinate real general\n3 4 1\n1 2 3\n",
                                      "@RELATION iris\n",
                                      "-- MySQL dump\n"};
enum { FOREIGN = sizeof foreign / sizeof foreign[0] };

static void make_foreign(struct seed *seed, const char *text, bool gzip) {
    seed->size = 0;
    add(seed, "\0\0", 2);
    if (gzip) {
        add_gzip(seed, text, false);
    } else {
        add(seed, text, strlen(text));
    }
}

static bool write_seed(const char *folder, const char *name, const struct seed *seed) {
    if (corpus_write(folder, name, seed->bytes, seed->size)) {
        return true;
    }
    fprintf(stderr, "input_corpus: cannot write %s into %s\n", name, folder);
    return false;
}

int main(int argc, char **argv) {
    static struct seed seed;
    static const unsigned char splits[] = {0, 1, 2, 30};
    if (argc != 2) {
        fprintf(stderr, "usage: input_corpus FOLDER\n");
        return 2;
    }
    for (unsigned s = 0; s < sizeof splits; s++) {
        for (enum kind kind = PLAIN; kind < KINDS; kind++) {
            char name[32];
            make(&seed, kind, splits[s]);
            snprintf(name, sizeof name, "seed-%u-%u", (unsigned)kind, s);
            if (!write_seed(argv[1], name, &seed)) {
                return 1;
            }
        }
    }
    for (unsigned f = 0; f < 2 * FOREIGN; f++) {
        char name[32];
        make_foreign(&seed, foreign[f / 2], f % 2 == 1);
        snprintf(name, sizeof name, "foreign-%u", f);
        if (!write_seed(argv[1], name, &seed)) {
            return 1;
        }
    }
    return 0;
}
