/* Writes the seeds of lda_corpus_fuzz into the folder that is its only argument: each format, numbers at their limits,
 * letters of several alphabets, gzip. No seed is stored in the repository. */
#include "tests/fuzz/corpus.h"

#include <string.h>
#include <zlib.h>

enum { SEED_MAX = 1024, GZIP = 8 /* not of the fuzzer's: for this program */ };

static const struct {
    unsigned char first; /* as in lda_corpus_fuzz.c, and GZIP */
    const char *text;
} seeds[] = {
    {0, "2\n3\n3\n1 1 2\n1 3 1\n2 2 5\n"},
    {1, " 1 \r\n9\r\n1\r\n1\t2 33554432\r\n\r\n"},
    {1, "1\n3\n2\n1 1 4294967296\n1 1 18446744073709551616\n"},
    {0, "2 0:1 5:2\n0\n1 268435455:1\n"},
    {2, "2  3:1\t3:2 \r\n"},
    {2, "1 1:0\n"},
    {4, "The cat's dog, na\xC3\xAFve \xD0\x9F\xD0\xA0\xD0\x98 l\xE2\x80\x99"
        "eau 42 x2\n\nagain the cat\n"},
    {7, "cut \xE2\x80"},
    {7, "\xF0\x9D\x92\xB3 \xF4\x90\x80\x80"},
    {0, "\xEF\xBB\xBF"
        "2 \r3\r3\r1 1 2 \r1 3 1\r\n2 2 5\r\r"},
    {2, "2 0:1 5:2 \r0\r\n1 3:1\r"},
    {7, "the cat\rthe dog \r\n\r"},
    {0, "one \r\ttwo\rthree\r \r\r"},
    {0, "\xFF\xFE"
        "1"},
    {4 + GZIP, "some text\nmore text\n"},
    {GZIP, "2\n3\n1\n1 1 2\n"},
};

int main(int argc, char **argv) {
    if (argc != 2) {
        fprintf(stderr, "usage: lda_corpus_corpus FOLDER\n");
        return 2;
    }
    for (size_t i = 0; i < sizeof seeds / sizeof seeds[0]; i++) {
        unsigned char seed[SEED_MAX] = {seeds[i].first};
        unsigned char text[SEED_MAX];
        char name[32];
        size_t size = strlen(seeds[i].text);
        memcpy(text, seeds[i].text, size);
        if ((seeds[i].first & GZIP) != 0) {
            z_stream stream = {
                .next_in = text, .avail_in = (uInt)size, .next_out = seed + 1, .avail_out = SEED_MAX - 1};
            if (deflateInit2(&stream, 9, Z_DEFLATED, 15 + 16, 8, Z_DEFAULT_STRATEGY) != Z_OK ||
                deflate(&stream, Z_FINISH) != Z_STREAM_END) {
                return 1;
            }
            size = SEED_MAX - 1 - stream.avail_out;
            deflateEnd(&stream);
        } else {
            memcpy(seed + 1, text, size);
        }
        snprintf(name, sizeof name, "seed-%02zu", i);
        if (!corpus_write(argv[1], name, seed, size + 1)) {
            fprintf(stderr, "lda_corpus_corpus: cannot write seed %zu into %s\n", i, argv[1]);
            return 1;
        }
    }
    return 0;
}
