/* Writes the seeds of ratings_fuzz into the folder that is its only argument: each separator, what a file can start
 * and end with, numbers at their limits, gzip of one and two members. No seed is stored in the repository. */
#include "tests/fuzz/corpus.h"

#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <zlib.h>

#include "workers/ratings.h"

enum {
    CORPUS_SEED_MAX = 1024,
    CORPUS_UNRATED = 6,
    CORPUS_FILE = 12 /* as in ratings_fuzz.c: below, the separator for the parser alone */
};

static const struct {
    unsigned char first;
    bool gzip;
    const char *text;
} corpus_seeds[] = {
    {TEXT_TAB, false, "196\t242\t3\t881250949\n186\t302\t3.5\n"},
    {TEXT_COMMA, false, "1,2,3.5,1112486027\r\n1,29,-4e-1\r\n\r\n"},
    {TEXT_BLANKS, false, "  1   2 3  \n1 2 3 4\n"},
    {TEXT_COLONS, false, "1::1193::5::978300760\n1::661::3\n"},
    {TEXT_UNKNOWN, false, "\n  \n1;2;3\n"},
    {TEXT_COMMA, false, "18446744073709551615,0,16777217\n18446744073709551616,0,1\n"},
    {TEXT_COMMA, false, "1,1,3.40282356e38\n1,1,1e-46,1e999\n1,1,0.333333333333333333\n1,1,+.5\n1,1,5.\n"},
    {TEXT_COMMA, false, "1,1,inf\n"},
    {TEXT_COMMA, false, "1,1,0x1p3\n"},
    {TEXT_BLANKS, false, "1 1 1 1 1\n"},
    {CORPUS_FILE, false, "userId,movieId,rating,timestamp\n1,2,3.5,1112486027\n"},
    {CORPUS_FILE, false,
     "\xEF\xBB\xBF"
     "1\t2\t3\n\n4\t5\t6"},
    {CORPUS_FILE, false, "1::2::3\n1:2:3\n"},
    {TEXT_COMMA, false, "1,10,4.0,964982495 \r\n\"1\" , \"20\",\"4.5\"\r\"2\",\"3\"\"0\",5\n"},
    {TEXT_SEMICOLON, false, "\"276725\";\"034545104\";\"0\"\n1; 2 ;3,5\n"},
    {TEXT_BLANKS, false, "1 \t 2\t3\r\r\"1\" \"2\" \"3\" \r"},
    {TEXT_COMMA + CORPUS_UNRATED, false, "1,2\r\n\"3\",4 \n1,2,3\n"},
    {TEXT_BLANKS + CORPUS_UNRATED, false, "1 2\r 3 4 \r"},
    {CORPUS_FILE + 1, false, "user,item\r1,2\r\r3,4"},
    {CORPUS_FILE + 1, true, "1;2\r\n3;4\r\n"},
    {CORPUS_FILE, false, "\"User-ID\";\"ISBN\";\"Book-Rating\"\r\n\"1\";\"2\";\"3\"\r\n4;5;\"6"},
    {CORPUS_FILE, false, "\x28\xB5\x2F\xFD"},
    {CORPUS_FILE, true, "User_ID\tAnime_ID\tFeedback\n1\t1\t8\n1\t3\t5\n"},
    {CORPUS_FILE, true, "1 2 3\n4 5 abc\n"},
};

/* Appends one gzip member to seed[*size]; false when it does not fit. */
static bool corpus_gzip(unsigned char *seed, size_t *size, const char *text, size_t text_size) {
    z_stream stream = {0};
    if (deflateInit2(&stream, 9, Z_DEFLATED, 15 + 16, 8, Z_DEFAULT_STRATEGY) != Z_OK) {
        return false;
    }
    unsigned char copy[CORPUS_SEED_MAX];
    memcpy(copy, text, text_size);
    stream.next_in = copy;
    stream.avail_in = (uInt)text_size;
    stream.next_out = seed + *size;
    stream.avail_out = (uInt)(CORPUS_SEED_MAX - *size);
    bool complete = deflate(&stream, Z_FINISH) == Z_STREAM_END;
    *size = CORPUS_SEED_MAX - stream.avail_out;
    deflateEnd(&stream);
    return complete;
}

static bool corpus_seed(const char *folder, size_t number) {
    const char *text = corpus_seeds[number].text;
    size_t length = strlen(text);
    unsigned char seed[CORPUS_SEED_MAX] = {corpus_seeds[number].first};
    size_t size = 1;
    if (corpus_seeds[number].gzip) {
        if (!corpus_gzip(seed, &size, text, length / 2) ||
            !corpus_gzip(seed, &size, text + length / 2, length - length / 2)) {
            return false;
        }
    } else {
        memcpy(seed + 1, text, length);
        size += length;
    }
    char name[32];
    snprintf(name, sizeof name, "seed-%02zu", number);
    return corpus_write(folder, name, seed, size);
}

int main(int argc, char **argv) {
    if (argc != 2) {
        fprintf(stderr, "usage: ratings_corpus FOLDER\n");
        return 2;
    }
    for (size_t i = 0; i < sizeof corpus_seeds / sizeof corpus_seeds[0]; i++) {
        if (!corpus_seed(argv[1], i)) {
            fprintf(stderr, "ratings_corpus: cannot write seed %zu into %s\n", i, argv[1]);
            return 1;
        }
    }
    return 0;
}
