/* Writes the seeds of samples_fuzz into the folder that is its only argument: each format, numbers at their limits,
 * near misses, gzip. No seed is stored in the repository. */
#include "tests/fuzz/corpus.h"

#include "apps/samples/samples.h"

#include <stdio.h>
#include <string.h>
#include <zlib.h>

enum {
    SEED_MAX = 1024,
    BASE_1 = 1,
    FIND_BASE = 2,
    COLUMN_1 = 5 * 4,
    COLUMN_LAST = 3 * 4,
    HALF = 8 + 4,
    LABEL_OPTIONAL = 132, /* a multiple of the number of formats */
    COLUMN_ANY = 4 * 4,
    FEATURES_3 = 2 * 32
};

#define TABS_13 "\t\t\t\t\t\t\t\t\t\t\t\t\t"
#define TABS_25 "\t\t\t\t\t\t\t\t\t\t\t\t\t\t\t\t\t\t\t\t\t\t\t\t\t"

#define SEED(format, options, cut, gzip, text)                                                                         \
    { format, options, cut, gzip, text, sizeof(text) - 1 }

static const struct {
    unsigned char format, options, cut;
    bool gzip;
    const char *text;
    size_t size;
} SEEDS[] = {
    SEED(SAMPLES_AUTO, BASE_1, 0, false, "3 1:0.5 4:-2e1 # text\n1 2:1\r\n\n-1\n"),
    SEED(SAMPLES_LIBSVM, FIND_BASE, 0, false, "+1 0:1 16777215:3.4e38\n"),
    SEED(SAMPLES_LIBSVM, BASE_1, 0, false, "1 2:1 1:1\n"),
    SEED(SAMPLES_LIBSVM, BASE_1, 0, false, "1 1:nan\n1,2 qid:3 0:1\n"),
    SEED(SAMPLES_AUTO, COLUMN_1, 0, false, "2 0.5 1\n1 2\t-3 \n"),
    SEED(SAMPLES_AUTO, COLUMN_LAST, 0, false, "w,h,kind\n1,2,Iris setosa\n3,4e-310,x\n"),
    SEED(SAMPLES_CSV, COLUMN_1, 0, false, "1,2,3\n1,2\n"),
    SEED(SAMPLES_TEXT, 0, 0, false, "a 1234567890123456789.5e-10 -.5 5.\n"),
    SEED(SAMPLES_AUTO, 0, HALF, false, "\0\0\x08\x01\0\0\0\x02\x07\x08\0\0\x08\x01\0\0\0\x02\x01\xff"),
    SEED(SAMPLES_IDX, 0, HALF, false,
         "\0\0\x08\x03\0\0\0\x01\0\0\0\x01\0\0\0\x01\x07\0\0\x0c\x01\0\0\0\x01\xff\xff\xff\xff"),
    SEED(SAMPLES_AUTO, COLUMN_1, 0, false, "\xEF\xBB\xBF\"kind\";\"w\"\r\n\"a; \"\"b\"\"\";\"0.5\" \r\nc;2\r"),
    SEED(SAMPLES_AUTO, COLUMN_LAST, 0, false, "1,\"2\",\"x\"\r3, 4 ,y\r5,6,\"z"),
    SEED(SAMPLES_TEXT, COLUMN_1, 0, false, "\"a b\" 1 \"2\"\rc 3\t4 \r"),
    SEED(SAMPLES_AUTO, BASE_1, 0, false, "3 1:0.5 \r\r1 2:1\r"),
    SEED(LABEL_OPTIONAL, BASE_1 + COLUMN_ANY + FEATURES_3, 0, false, "1:0.5 3:1\n2:1\n\n"),
    SEED(LABEL_OPTIONAL, COLUMN_ANY + FEATURES_3, 0, false, "a,b,c\r\n1,2,3\r\n"),
    SEED(LABEL_OPTIONAL, COLUMN_ANY + FEATURES_3, 0, false, "y;a;b;c\r7;1;2;3\r"),
    SEED(LABEL_OPTIONAL, 0, 0, false, "\0\0\x08\x01\0\0\0\x02\x07\x08"),
    SEED(SAMPLES_AUTO, 0, 0, false, "PK\x03\x04"),
    SEED(SAMPLES_CRITEO, 12, 0, false, "0\t1" TABS_13 "68fd1e64" TABS_25 "\n1\t-1" TABS_13 "80e26c9b" TABS_25 "a\r\n"),
    SEED(SAMPLES_AUTO, 12, 0, false, "1\t" TABS_13 "68fd1e64" TABS_25 "1f89b562\n"),
    SEED(SAMPLES_CRITEO, 0, 0, false, "0\t99999999999999999999.5e3" TABS_13 "\"a \"\"b\"" TABS_25 " c \n"),
    SEED(SAMPLES_CRITEO, 1, 0, false,
         "Id,Label,I1,I2,I3,I4,I5,I6,I7,I8,I9,I10,I11,I12,I13,C1,C2,C3,C4,C5,C6,C7,C8,C9,C10,C11,C12,C13,C14,C15,C16,"
         "C17,C18,C19,C20,C21,C22,C23,C24,C25,C26\n1,0,,1,5,0,1382,4,15,2,181,1,2,,2,68fd1e64,80e26c9b,fb936136,"
         "7b4723c4,25c83c98,7e0ccccf,de7995b8,1f89b562,a73ee510,a8cd5504,b2cb9c98,37c9c164,2824a5f6,1adce6ef,8ba8b39a,"
         "891b62e7,e5ba7672,f54016b9,21ddcdc9,b1252a9d,07b5194c,,3a171ecb,c5c50484,e8b83407,9727dd16\n"),
    SEED(LABEL_OPTIONAL + SAMPLES_CRITEO, 12, 0, false, "5" TABS_13 "68fd1e64" TABS_25 "\n-5" TABS_13 TABS_25 "\n"),
    SEED(SAMPLES_AUTO, BASE_1, 0, true, "3 1:0.5 4:-2e1\n1 2:1\n"),
};

/* Makes a gzip member. Returns its size; 0 when it does not fit. */
static size_t pack(const char *text, size_t size, unsigned char *packed, size_t room) {
    z_stream stream = {0};
    unsigned char copy[SEED_MAX];
    if (deflateInit2(&stream, 9, Z_DEFLATED, 15 + 16, 8, Z_DEFAULT_STRATEGY) != Z_OK) {
        return 0;
    }
    memcpy(copy, text, size);
    stream.next_in = copy;
    stream.avail_in = (uInt)size;
    stream.next_out = packed;
    stream.avail_out = (uInt)room;
    bool complete = deflate(&stream, Z_FINISH) == Z_STREAM_END;
    deflateEnd(&stream);
    return complete ? room - stream.avail_out : 0;
}

static bool write_seed(const char *folder, size_t number) {
    unsigned char seed[SEED_MAX] = {SEEDS[number].format, SEEDS[number].options, SEEDS[number].cut};
    size_t size = SEEDS[number].size;
    if (SEEDS[number].gzip) {
        size = pack(SEEDS[number].text, size, seed + 3, sizeof seed - 3);
    } else {
        memcpy(seed + 3, SEEDS[number].text, size);
    }
    char name[32];
    snprintf(name, sizeof name, "seed-%02zu", number);
    return size > 0 && corpus_write(folder, name, seed, size + 3);
}

int main(int argc, char **argv) {
    if (argc != 2) {
        fprintf(stderr, "usage: samples_corpus FOLDER\n");
        return 2;
    }
    for (size_t i = 0; i < sizeof SEEDS / sizeof SEEDS[0]; i++) {
        if (!write_seed(argv[1], i)) {
            fprintf(stderr, "samples_corpus: cannot write seed %zu into %s\n", i, argv[1]);
            return 1;
        }
    }
    return 0;
}
