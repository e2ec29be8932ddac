/* Writes the seeds of lda_corpus_fuzz into the folder that is its only argument: each format, numbers at their limits,
 * letters of several alphabets, quotes, gzip. No seed is stored in the repository. */
#include "tests/fuzz/corpus.h"

#include <stdbool.h>
#include <string.h>
#include <zlib.h>

enum { SEED_MAX = 1024, NAMES = 8, EMPTY = 16, COLUMNS = 32 /* as in lda_corpus_fuzz.c */ };
enum { AUTO, UCI, LDA_C, MATRIX_MARKET, TEXT, VW, TABLE, MALLET };

static const struct {
    unsigned char first; /* as in lda_corpus_fuzz.c */
    bool gzip;
    const char *text;
} seeds[] = {
    {AUTO, false, "2\n3\n3\n1 1 2\n1 3 1\n2 2 5\n"},
    {UCI, false, " 1 \r\n9\r\n1\r\n1\t2 33554432\r\n\r\n"},
    {UCI, false, "1\n3\n2\n1 1 4294967296\n1 1 18446744073709551616\n"},
    {AUTO + EMPTY, false, "4 3 2\n2 1 4.0\n3 2 0.5e1\n"},
    {AUTO, false, "2 0:1 5:2\n0\n1 268435455:1\n"},
    {LDA_C, false, "2  3:1\t3:2.0 \r\n"},
    {LDA_C, false, "1 1:0\n"},
    {AUTO, false, "%%MatrixMarket matrix coordinate real general\n% c\n3 4 3\n1 1 2.0\n1 4 1e0\n3 2 1\n"},
    {AUTO + EMPTY, false, "%%MatrixMarket matrix coordinate integer general\n3 4 4\n3 1 2\n1 4 1\n3 2 0\n2 2 1\n"},
    {MATRIX_MARKET, true, "%%MatrixMarket matrix coordinate pattern general\r\n2 2 2\r\n1 1\r\n2 2\r\n"},
    {TEXT + NAMES, false,
     "The cat's dog, na\xC3\xAFve \xD0\x9F\xD0\xA0\xD0\x98 l\xE2\x80\x99"
     "eau 42 x2\n\nagain the cat\n"},
    {TEXT + NAMES + EMPTY, false, "cut \xE2\x80"},
    {AUTO + NAMES, false, "\xF0\x9D\x92\xB3 \xF4\x90\x80\x80"},
    {AUTO, false,
     "\xEF\xBB\xBF"
     "2 \r3\r3\r1 1 2 \r1 3 1\r\n2 2 5\r\r"},
    {LDA_C, false, "2 0:1 5:2 \r0\r\n1 3:1\r"},
    {TEXT + NAMES, false, "the cat\rthe dog \r\n\r"},
    {AUTO, false, "one \r\ttwo\rthree\r \r\r"},
    {AUTO, false,
     "\xFF\xFE"
     "1"},
    {AUTO + NAMES, true, "some text\nmore text\n"},
    {AUTO, true, "2\n3\n1\n1 1 2\n"},
    {AUTO + NAMES, false, "| cat:2 dog |@author smith\n\ndoc2|text:2 dog:1.0\n"},
    {AUTO + NAMES + EMPTY, false, "1 2.0 'tag|text cat:2 |author smith jones\nid cat dog:3 |text\n"},
    {VW + NAMES, false, "d1 one:2 two\nd2 a:b:3 c:-1\n"},
    {AUTO + NAMES, false, "id,text\n1,\"one\ntwo \"\"three\"\" four\"\n2,five\n"},
    {AUTO + NAMES + EMPTY, false, ",Title;Review Text\n0,abc,\"first\n"},
    {AUTO + NAMES + EMPTY, false, "text\tlabel\tdoc_id\nthe \"cat\"\tx\ta1\n\"the \"\"dog\"\"\"\ty\ta2\n"},
    {TABLE + NAMES + COLUMNS, false, "5;\"one\"\n6;two\n"},
    {AUTO + NAMES + EMPTY, false, "d1\ten\tThe cat\nd2\ten\tThe dog\n"},
    {MALLET + NAMES, false, "d1, en  The cat\n d2 en dog\n"},
    {AUTO + NAMES, false, "docno,narrative\n1,abc\n"},
    {AUTO + NAMES, false, "{\"text\": \"a\"}\n"},
    {AUTO + NAMES, false, "1 qid:3 2:0.5\n"},
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
        if (seeds[i].gzip) {
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
