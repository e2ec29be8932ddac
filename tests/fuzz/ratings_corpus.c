/* Writes the seeds of ratings_fuzz into the folder that is its only argument: each separator, beginnings and ends of
 * files, numbers at their limits, gzip of one and two members. No seed is stored in the repository. */
#include "tests/fuzz/corpus.h"

#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <zlib.h>

#include "workers/data/ratings.h"

enum {
    CORPUS_SEED_MAX = 1024,
    CORPUS_UNRATED = 6,
    CORPUS_HEAD = 12,
    CORPUS_FILE = 13 /* as in ratings_fuzz.c; lower values are the separator for the parser alone */
};

static const struct {
    unsigned char first;
    unsigned char second; /* chooses options, or the order of columns */
    bool gzip;
    const char *text;
} corpus_seeds[] = {
    {TEXT_TAB, 0, false, "196\t242\t3\t881250949\n186\t302\t3.5\n"},
    {TEXT_COMMA, 0, false, "1,2,3.5,1112486027\r\n1,29,-4e-1\r\n\r\n"},
    {TEXT_BLANKS, 0, false, "  1   2 3  \n1 2 3 4\n"},
    {TEXT_COLONS, 0, false, "1::1193::5::978300760\n1::661::3\n"},
    {TEXT_UNKNOWN, 0, false, "\n  \n1;2;3\n"},
    {TEXT_COMMA, 0, false, "18446744073709551615,0,16777217\n18446744073709551616,0,1\n"},
    {TEXT_COMMA, 0, false, "1,1,3.40282356e38\n1,1,1e-46,1e999\n1,1,0.333333333333333333\n1,1,+.5\n1,1,5.\n"},
    {TEXT_COMMA, 0, false, "1,1,inf\n"},
    {TEXT_COMMA, 0, false, "1,1,0x1p3\n"},
    {TEXT_BLANKS, 0, false, "1 1 1 1 1\n"},
    {CORPUS_FILE, 0, false, "userId,movieId,rating,timestamp\n1,2,3.5,1112486027\n"},
    {CORPUS_FILE, 0, false,
     "\xEF\xBB\xBF"
     "1\t2\t3\n\n4\t5\t6"},
    {CORPUS_FILE, 0, false, "1::2::3\n1:2:3\n"},
    {TEXT_COMMA, 0, false, "1,10,4.0,964982495 \r\n\"1\" , \"20\",\"4.5\"\r\"2\",\"3\"\"0\",5\n"},
    {TEXT_SEMICOLON, 0, false, "\"276725\";\"034545104\";\"0\"\n1; 2 ;3,5\n"},
    {TEXT_BLANKS, 0, false, "1 \t 2\t3\r\r\"1\" \"2\" \"3\" \r"},
    {TEXT_COMMA + CORPUS_UNRATED, 0, false, "1,2\r\n\"3\",4 \n1,2,3\n"},
    {TEXT_BLANKS + CORPUS_UNRATED, 0, false, "1 2\r 3 4 \r"},
    {CORPUS_FILE, 2, false, "user,item\r1,2\r\r3,4"},
    {CORPUS_FILE, 2, true, "1;2\r\n3;4\r\n"},
    {CORPUS_FILE, 0, false, "\"User-ID\";\"ISBN\";\"Book-Rating\"\r\n\"1\";\"2\";\"3\"\r\n4;5;\"6"},
    {CORPUS_FILE, 0, false, "\x28\xB5\x2F\xFD"},
    {CORPUS_FILE, 0, true, "User_ID\tAnime_ID\tFeedback\n1\t1\t8\n1\t3\t5\n"},
    {CORPUS_FILE, 0, true, "1 2 3\n4 5 abc\n"},
    {CORPUS_HEAD, 0, false, ",userId,movieId,rating\n0,28,4,3.0\n1,6,20,2\n"},
    {CORPUS_HEAD, 0, false, "timestamp,user_id,item_id,rating\n964980000,28,4,3.0\n"},
    {CORPUS_HEAD, 0, false, "reviewerID,asin,overall,reviewText\nA00028Z,B00000004,3.0,\"good, \"\"very\"\"\"\n"},
    {CORPUS_HEAD, 0, false, "%%MatrixMarket matrix coordinate real general\n% made\n30 40 2\n28 4 3.0\n6 20 2\n"},
    {CORPUS_HEAD, 2, false, "# user item\n% x\nalice bob\n7 12.0\n007 1e+05\n"},
    {CORPUS_HEAD, 6, false, "a,b,c\n1,2,3\n4,5,NA\n"},
    {CORPUS_HEAD, 9, false, "user,game,hours,rating\n1,2,3,4\n"},
    {CORPUS_HEAD, 12, false, "user,title,x,y\nu1,\"T, the\",2005-09-13,4\n"},
    {CORPUS_HEAD, 12, false, "a,b,c,title\nu,v,3,4\n"},
    {CORPUS_HEAD, 0, false, "movie_id,user,stars,date\n1,u,5,2005-09-13,\n,,,\n"},
    {CORPUS_FILE, 0, false, "%%MatrixMarket matrix coordinate integer general\n3 3 1\n1 4 3\n"},
    {CORPUS_FILE, 1, false, "user,item,rating\nx,y,\nx,y,1\n"},
    {CORPUS_FILE, 0, false, "{\"user\": 1}\n"},
    {TEXT_COMMA, 2, false, "3.5,u 1,i,2005\nNA,b,c\n"},
    {TEXT_COMMA + CORPUS_UNRATED, 3, false, "a,b,c\n1,2\n"},
};

/* Appends a gzip member to seed[*size]. Returns false when it does not fit. */
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
    unsigned char seed[CORPUS_SEED_MAX] = {corpus_seeds[number].first, corpus_seeds[number].second};
    size_t size = 2;
    if (corpus_seeds[number].gzip) {
        if (!corpus_gzip(seed, &size, text, length / 2) ||
            !corpus_gzip(seed, &size, text + length / 2, length - length / 2)) {
            return false;
        }
    } else {
        memcpy(seed + size, text, length);
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
