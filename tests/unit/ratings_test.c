/* Tests of workers/data/ratings on real files in a temporary folder, with one and with several parser threads: the
 * ratings that a reader sees, their order, and the message for a bad line. Benchmarks measure the speed. */
#include "tests/files.h"
#include "tests/test.h"
#include "workers/data/ratings.h"

#include "agileml/base/hash.h"
#include "workers/data/rating_ids.h"

#include <dirent.h>
#include <fcntl.h>
#include <inttypes.h>
#include <locale.h>
#include <math.h>
#include <pthread.h>
#include <unistd.h>
#include <zlib.h>

enum {
    TEST_CHUNKS_MAX = 64,
    TEST_MANY_LINES = 200000, /* about ten chunks */
    TEST_MANY_LINE_MAX = 40   /* longest of these lines in bytes */
};

/* Unchanged since text ids were introduced. */
#define TEXT_KEY_OF_A00028Z UINT64_C(0xD7F5F9498E7DF4B7)
#define TEXT_KEY_OF_A_TITLE UINT64_C(0xD3EF4C88A527FFAE)

/* ---- Files ---- */

/* Appends a gzip member to gz[*size], which must have room for it. */
static void gzip_member(unsigned char *gz, size_t capacity, size_t *size, const char *text, size_t text_size) {
    z_stream stream = {0};
    assert_int_equal(deflateInit2(&stream, 6, Z_DEFLATED, 15 + 16, 8, Z_DEFAULT_STRATEGY), Z_OK);
    stream.next_in = (Bytef *)(uintptr_t)text;
    stream.avail_in = (uInt)text_size;
    stream.next_out = gz + *size;
    stream.avail_out = (uInt)(capacity - *size);
    assert_int_equal(deflate(&stream, Z_FINISH), Z_STREAM_END);
    *size = capacity - stream.avail_out;
    deflateEnd(&stream);
}

/* ---- Reading ---- */

/* Collects every chunk's ratings; parser threads share it under the mutex. */
struct collection {
    pthread_mutex_t mutex;
    pthread_cond_t changed;
    unsigned threads;
    struct ratings_options options;
    char said[RATINGS_SAID_MAX]; /* description of the header */
    struct rating *ratings[TEST_CHUNKS_MAX];
    size_t count[TEST_CHUNKS_MAX];
    bool seen[TEST_CHUNKS_MAX];
    size_t chunk_count;
    bool bad_call;

    bool hold_first;     /* chunk 0 waits in the sink for a later chunk */
    uint64_t stop_at[2]; /* chunks at which the sink stops */
    int stop_code[2];    /* the codes with which it stops, if not 0 */
};

/* Assertions work only in cmocka's own thread, so errors are recorded here. */
static int collect(void *context, unsigned thread, const struct line_chunk *lines, const struct rating *ratings,
                   size_t count) {
    uint64_t chunk = lines->sequence;
    struct collection *all = context;
    int code = 0;
    pthread_mutex_lock(&all->mutex);
    if (chunk >= TEST_CHUNKS_MAX || thread >= all->threads || all->seen[chunk]) {
        all->bad_call = true;
    } else {
        all->seen[chunk] = true;
        all->chunk_count++;
        all->count[chunk] = count;
        all->ratings[chunk] = malloc(count * sizeof *ratings + 1);
        if (count > 0) {
            memcpy(all->ratings[chunk], ratings, count * sizeof *ratings);
        }
        pthread_cond_broadcast(&all->changed);
        while (all->hold_first && chunk == 0 && all->chunk_count < 2) {
            pthread_cond_wait(&all->changed, &all->mutex);
        }
        for (int i = 0; i < 2; i++) {
            code = all->stop_code[i] != 0 && all->stop_at[i] == chunk ? all->stop_code[i] : code;
        }
    }
    pthread_mutex_unlock(&all->mutex);
    return code;
}

static void keep_said(void *context, const char *text) {
    struct collection *all = context;
    snprintf(all->said, sizeof all->said, "%s", text);
}

static int read_with(struct collection *all, const char *path, unsigned threads, struct error *error) {
    *error = (struct error){0};
    all->threads = threads;
    pthread_mutex_init(&all->mutex, NULL);
    pthread_cond_init(&all->changed, NULL);
    const struct ratings_reader reader = {
        .options = all->options, .threads = threads, .sink = collect, .say = keep_said, .context = all};
    int code = ratings_read(&reader, path, error);
    pthread_mutex_destroy(&all->mutex);
    pthread_cond_destroy(&all->changed);
    assert_false(all->bad_call);
    return code;
}

/* Joins the chunks; the caller frees the result. */
static struct rating *join_chunks(struct collection *all, size_t *count) {
    *count = 0;
    for (size_t i = 0; i < all->chunk_count; i++) {
        assert_true(all->seen[i]);
        *count += all->count[i];
    }
    struct rating *ratings = malloc(*count * sizeof *ratings + 1);
    assert_non_null(ratings);
    size_t at = 0;
    for (size_t i = 0; i < all->chunk_count; i++) {
        memcpy(ratings + at, all->ratings[i], all->count[i] * sizeof *ratings);
        at += all->count[i];
    }
    return ratings;
}

static void free_chunks(struct collection *all) {
    for (size_t i = 0; i < TEST_CHUNKS_MAX; i++) {
        free(all->ratings[i]);
    }
}

static void assert_reads(const char *path, const struct rating *expected, size_t expected_count) {
    for (unsigned threads = 1; threads <= 4; threads += 3) {
        struct collection all = {0};
        struct error error;
        int code = read_with(&all, path, threads, &error);
        assert_string_equal(error.text, "");
        assert_int_equal(code, 0);
        size_t count;
        FREED struct rating *ratings = join_chunks(&all, &count);
        assert_int_equal(count, expected_count);
        for (size_t i = 0; i < count; i++) {
            assert_true(ratings[i].user == expected[i].user);
            assert_true(ratings[i].item == expected[i].item);
            assert_memory_equal(&ratings[i].value, &expected[i].value, sizeof expected[i].value);
        }
        free_chunks(&all);
    }
}

/* `expected` follows the path in the message. */
static void assert_refused(const char *path, const char *expected) {
    for (unsigned threads = 1; threads <= 4; threads += 3) {
        struct collection all = {0};
        struct error error;
        if (read_with(&all, path, threads, &error) != AML_EINPUT) {
            fail_msg("read, expected '%s'", expected);
        }
        assert_int_equal(error.code, AML_EINPUT);
        char message[ERROR_TEXT_MAX];
        snprintf(message, sizeof message, "%s:%s", path, expected);
        assert_string_equal(error.text, message);
        free_chunks(&all);
    }
}

static const struct rating three[] = {{1, 10, 3.0F}, {2, 20, 4.5F}, {3, 30, -0.01F}};

/* ---- Accepted files ---- */

TEST(each_separator_with_and_without_time) {
    assert_reads(write_text("tab", "1\t10\t3\n2\t20\t4.5\t978300760\n3\t30\t-1e-2\n"), three, 3);
    assert_reads(write_text("comma", "1,10,3,12.5\n2,20,4.5\n3,30,-1e-2,-7\n"), three, 3);
    assert_reads(write_text("space", "1 10 3 5\n2 20 4.5\n3 30 -1e-2\n"), three, 3);
    assert_reads(write_text("spaces", "  1   10 3   5  \n 2 20     4.5 \n3 30 -1e-2\n"), three, 3);
    assert_reads(write_text("colons", "1::10::3::978300760\n2::20::4.5\n3::30::-1e-2::1e3\n"), three, 3);
}

TEST(header_mark_line_ends_and_empty_lines) {
    assert_reads(write_text("header", "userId,movieId,rating,timestamp\n1,10,3\n2,20,4.5\n3,30,-1e-2\n"), three, 3);
    assert_reads(write_text("other_header", "User_ID\tAnime_ID\tFeedback\n1\t10\t3\n2\t20\t4.5\n3\t30\t-1e-2\n"), three,
                 3);
    assert_reads(write_text("crlf", "user,item,rating\r\n1,10,3\r\n2,20,4.5\r\n\r\n3,30,-1e-2\r\n"), three, 3);
    assert_reads(write_text("no_last_newline", "1,10,3\n2,20,4.5\n3,30,-1e-2"), three, 3);
    assert_reads(write_text("last_cr", "1,10,3\r\n2,20,4.5\r\n3,30,-1e-2\r"), three, 3);
    assert_reads(write_text("mark", "\xEF\xBB\xBF"
                                    "1,10,3\n2,20,4.5\n3,30,-1e-2\n"),
                 three, 3);
    assert_reads(write_text("mark_header", "\xEF\xBB\xBFuser,item,rating\r\n1,10,3\r\n2,20,4.5\r\n3,30,-1e-2"), three,
                 3);
    assert_reads(write_text("empty_lines", "\n\n1,10,3\n   \n\r\n2,20,4.5\n\n3,30,-1e-2\n\n\n"), three, 3);
    assert_reads(write_text("header_then_empty", "u i r\n\n\n1 10 3\n2 20 4.5\n3 30 -1e-2\n"), three, 3);
}

/* Files as spreadsheets, other systems and people write them: MovieLens' ml-latest with blanks at line ends. */
TEST(trailing_spaces_and_mixed_line_ends) {
    const struct rating expected[] = {{1, 10, 4.0F}, {1, 20, 4.5F}, {2, 30, 0.5F}};
    assert_reads(write_text("trailing", "userId,movieId,rating,timestamp\r\n1,10,4.0,964982495 \r\n1,20,4.5,9 \t \n"
                                        "2,30,0.5 \r\n"),
                 expected, 3);
    assert_reads(write_text("mixed", "1,10,4.0\r\n1,20,4.5\n2,30,0.5\r"), expected, 3);
    assert_reads(write_text("old_mac", "user,item,rating\r1,10,4.0\r1,20,4.5\r\r2,30,0.5"), expected, 3);
    assert_reads(write_text("around", " 1 ,\t10, 4.0 ,5 \n1 , 20 , 4.5\n2,30, 0.5\n"), expected, 3);
    assert_reads(write_text("tabs", "1 \t10\t 4.0 \n1\t20\t4.5\t7 \n 2\t30\t0.5\n"), expected, 3);
    assert_reads(write_text("blanks", "1 \t 10   4.0\n\t1 20 4.5\t\n2 30 0.5 \t\n"), expected, 3);
    assert_reads(write_text("colons", "1::10::4.0 \n1 :: 20::4.5::3\n2::30::0.5\n"), expected, 3);
}

TEST(quoted_fields_and_semicolons) {
    const struct rating expected[] = {{1, 10, 4.0F}, {1, 20, 4.5F}, {2, 30, 0.5F}};
    assert_reads(
        write_text("quoted",
                   "\"userId\",\"movie Id\",\"rating\",\"of \"\"1, 2\"\"\"\n\"1\",\"10\",\"4.0\"\n1,\"20\",4.5\r\n"
                   " \"2\" , \"30\" ,0.5,\"12\" \r"),
        expected, 3);
    assert_reads(write_text("no_header", "\"1\",\"10\",\"4.0\"\n1,20,4.5\n2,30,0.5"), expected, 3);
    assert_reads(write_text("semicolons", "1;10;4.0;3\n1; 20; 4.5\n\"2\";\"30\";\"0.5\"\n"), expected, 3);
    assert_reads(
        write_text("quoted_header", "\"User-ID\";\"ISBN\";\"Book-Rating\"\r\n1;10;4.0\r\n1;20;4.5\r\n2;30;0.5"),
        expected, 3);
    assert_reads(write_text("quoted_blanks", "\"1\" \"10\" \"4.0\"\n1 20 \"4.5\" 7\n2 30 0.5\n"), expected, 3);
}

/* The line number is the same with any kind of line end. */
TEST(lines_are_counted_with_every_line_end) {
    static const char *const ends[] = {"\n", "\r\n", "\r"};
    for (size_t e = 0; e < sizeof ends / sizeof ends[0]; e++) {
        for (size_t other = 0; other < sizeof ends / sizeof ends[0]; other++) {
            char text[256];
            snprintf(text, sizeof text, "user,item,rating%s1,2,3%s%s1,2,3%s1,3,x%s", ends[e], ends[e], ends[e],
                     ends[other], ends[e]);
            assert_refused(write_text("counted", text),
                           "5: expected a finite decimal number (float32) as rating, got 'x'");
        }
    }
}

static void read_unrated(const char *path, size_t expected_count) {
    struct collection all = {.options = {.missing = RATINGS_TAKE_MISSING}};
    struct error error;
    size_t count;
    assert_int_equal(read_with(&all, path, 1, &error), 0);
    FREED struct rating *ratings = join_chunks(&all, &count);
    assert_int_equal(count, expected_count);
    for (size_t i = 0; i < count; i++) {
        assert_true(ratings[i].user == i + 1 && ratings[i].item == 10 * (i + 1) && isnan(ratings[i].value));
    }
    free_chunks(&all);
}

static void refuse_unrated(const char *path, const char *expected) {
    struct collection all = {.options = {.missing = RATINGS_TAKE_MISSING}};
    struct error error;
    assert_int_equal(read_with(&all, path, 1, &error), AML_EINPUT);
    assert_non_null(strstr(error.text, expected));
    free_chunks(&all);
}

TEST(files_without_ratings_where_they_are_allowed) {
    read_unrated(write_text("pairs", "1 10\n2 20\n3 30\n"), 3);
    read_unrated(write_text("pairs", "user,item\r\n1,10 \r\n\"2\",20\r\n\r\n3,30"), 3);
    read_unrated(write_text("pairs", "1\t10\r2\t20\r"), 2);
    refuse_unrated(write_text("pairs", "1 10\n2\n"),
                   ":2: expected 'user item [rating [time]]' separated by spaces, got '2'");
    refuse_unrated(write_text("pairs", "\n"), ": no ratings, expected lines of 'user item [rating [time]]'");
    assert_refused(write_text("pairs", "1 10\n2 20\n"),
                   "1: expected 'user item rating [time]' separated by spaces, got '1 10'");
}

/* A CR LF, and a lone CR, at every place around the end of the first chunk. */
TEST(line_ends_around_a_chunks_end) {
    static char text[LINE_CHUNK_BYTES + 64];
    static const char *const ends[] = {"\n", "\r\n", "\r"};
    for (int shift = -8; shift <= 8; shift++) {
        for (size_t e = 0; e < sizeof ends / sizeof ends[0]; e++) {
            size_t size = 0;
            size_t before = (size_t)(LINE_CHUNK_BYTES - 2 + shift) - strlen("1,2,3");
            size_t lines = 1;
            while (before - size > 2000) {
                size += (size_t)snprintf(text + size, sizeof text - size, "1,2,%-1000s", "3");
                size += (size_t)snprintf(text + size, sizeof text - size, "%s", ends[e]);
                lines++;
            }
            size += (size_t)snprintf(text + size, sizeof text - size, "%*s1,2,3%s4,5,6%s7,8,x%s", (int)(before - size),
                                     "", ends[e], ends[e], ends[e]);
            char expected[128];
            snprintf(expected, sizeof expected, "%zu: expected a finite decimal number (float32) as rating, got 'x'",
                     lines + 2);
            assert_refused(write_bytes("around.csv", text, size), expected);
        }
    }
}

TEST(whole_range_of_ids) {
    const struct rating expected[] = {{UINT64_MAX, 0, 1.0F}, {0, UINT64_MAX, 2.0F}, {7, UINT64_MAX - 5, 3.0F}};
    assert_reads(write_text("huge", "18446744073709551615 0 1\n0 18446744073709551615 2\n7 18446744073709551610 3\n"),
                 expected, 3);
}

TEST(ways_to_write_a_rating) {
    const struct rating expected[] = {
        {1, 1, 5.0F},    {1, 1, 0.5F},  {1, 1, 5.0F},         {1, 1, -0.0F},         {1, 1, 3.0F},
        {1, 1, 250.0F},  {1, 1, 0.0F},  {1, 1, 16777216.0F},  {1, 1, 4294967296.0F}, {1, 1, 429496736.0F},
        {1, 1, 3.4e38F}, {1, 1, 4.25F}, {1, 1, 0.333333343F},
    };
    assert_reads(write_text("numbers", "1,1,5\n1,1,.5\n1,1,5.\n1,1,-0\n1,1,+3\n"
                                       "1,1,2.5E+2\n1,1,1e-99\n1,1,16777217\n1,1,4294967297\n1,1,429496729.7\n"
                                       "1,1,3.4e38\n1,1,000000000000004.25\n1,1,0.33333333333333333333\n"),
                 expected, sizeof expected / sizeof expected[0]);
}

/* The fast and the exact conversion must both agree with strtof on pseudorandom digits. */
TEST(ratings_round_as_strtof_does) {
    uint64_t random = 42;
    for (int i = 0; i < 200000; i++) {
        random = random * 6364136223846793005U + 1442695040888963407U;
        unsigned whole_digits = (unsigned)(random >> 60) % 9;
        unsigned decimals = (unsigned)(random >> 56) % 12;
        char line[TEST_MANY_LINE_MAX];
        int at = snprintf(line, sizeof line, "1 1 %s%0*" PRIu64, random & 1 ? "-" : "", (int)whole_digits + 1,
                          (uint64_t)(pow(10, whole_digits) * (double)(random >> 40 & 0xFFFF) / 65536.0));
        if (decimals > 0) {
            at += snprintf(line + at, sizeof line - (size_t)at, ".%0*" PRIu64, (int)decimals,
                           (random >> 8) % (uint64_t)pow(10, decimals));
        }
        line[at] = '\n';
        const struct ratings_layout blanks = {.separator = TEXT_BLANKS, .places = {0, 1, 2}, .columns = 4};
        struct rating rating[TEST_MANY_LINE_MAX / RATINGS_LINE_MIN];
        struct ratings_parsed parsed;
        assert_int_equal(ratings_parse(line, (size_t)at + 1, &blanks, rating, NULL, &parsed), 0);
        float expected = strtof(line + 4, NULL);
        assert_int_equal(parsed.count, 1);
        assert_memory_equal(&rating[0].value, &expected, sizeof expected);
    }
}

TEST(numbers_do_not_depend_on_the_locale) {
    static const char *const with_comma[] = {"de_DE.UTF-8", "de_DE.utf8", "fr_FR.UTF-8", "fr_FR.utf8", "de_DE"};
    bool set = false;
    for (size_t i = 0; !set && i < sizeof with_comma / sizeof with_comma[0]; i++) {
        set = setlocale(LC_ALL, with_comma[i]) != NULL;
    }
    if (!set) {
        skip();
    }
    const struct rating expected[] = {{1, 2, 4.5F}, {1, 3, 0.100000001F}};
    assert_reads(write_text("locale", "1 2 4.5\n1 3 1.0000000000000000e-1\n"), expected, 2);
    setlocale(LC_ALL, "C");
}

/* ---- Headers and --columns ---- */

static void assert_ratings(const struct rating *ratings, const struct rating *expected, size_t count) {
    for (size_t i = 0; i < count; i++) {
        assert_int_equal(ratings[i].user, expected[i].user);
        assert_int_equal(ratings[i].item, expected[i].item);
        assert_true(ratings[i].value == expected[i].value);
    }
}

/* The three ratings are read, also by the parser that returns the ids' texts. The description ends with `said`. */
static void assert_three_by(const char *text, const char *columns, const char *said) {
    const char *path = write_text("table", text);
    struct collection all = {.options = {.columns = columns}};
    struct error error;
    size_t count;
    int code = read_with(&all, path, 2, &error);
    assert_string_equal(error.text, "");
    assert_int_equal(code, 0);
    FREED struct rating *ratings = join_chunks(&all, &count);
    assert_int_equal(count, 3);
    assert_ratings(ratings, three, sizeof three / sizeof three[0]);
    size_t length = strlen(all.said);
    assert_string_equal(all.said + (length > strlen(said) ? length - strlen(said) : 0), said);
    free_chunks(&all);
}

TEST(columns_by_the_names_of_a_header) {
    assert_three_by(",userId,movieId,rating\n0,1,10,3\n1,2,20,4.5\n2,3,30,-1e-2\n", NULL,
                    "line 1 is taken as a header: user \"userId\" (column 2), item \"movieId\" (column 3), rating "
                    "\"rating\" (column 4)");
    assert_three_by("timestamp,user_id,item_id,rating\n9,1,10,3\n,2,20,4.5\nx,3,30,-1e-2\n", NULL,
                    "\"rating\" (column 4)");
    assert_three_by("item-id\tUser ID\tStars\n10\t1\t3\n20\t2\t4.5\n30\t3\t-1e-2\n", NULL, "\"Stars\" (column 3)");
    assert_three_by("\"Book-Rating\";\"ISBN\";\"User-ID\"\n\"3\";\"10\";\"1\"\n4.5;20;2\n-.01;30;3\n", NULL,
                    "\"Book-Rating\" (column 1)");
    assert_three_by("reader id\tbook id\tmy rating\n1\t10\t3\n2\t20\t4.5\n3\t30\t-1e-2\n", NULL,
                    "\"my rating\" (column 3)");
    assert_three_by("user\titem\ttitle\trating\n1\t10\t\"a\" b\t3\n2\t20\t\"\t4.5\n3\t30\t19\" wide\t-1e-2\n", NULL,
                    "\"rating\" (column 4)");
    /* The more exact of two names is taken; further columns may have separators in quotes; names may follow a
     * comment mark. */
    assert_three_by("user_name,user,item_name,asin,overall,summary\nA,1,\"x, y\",10,3,\"a, b\"\n"
                    "B,2,y,20,4.5,\n,3,,30,-1e-2,c\n",
                    NULL, "user \"user\" (column 2), item \"asin\" (column 4), rating \"overall\" (column 5)");
    assert_three_by("# user item plays\n1 10 3\n2 20 4.5\n3 30 -1e-2\n", NULL, "\"plays\" (column 3)");
    /* An unknown name that ends in "id" is taken for the missing id. */
    assert_three_by("pub_id,user_id,score\n10,1,3\n20,2,4.5\n30,3,-1e-2\n", NULL,
                    "item \"pub_id\" (column 1), rating "
                    "\"score\" (column 3)");
    /* If all names are unknown, columns are taken in order; a column without a name is an index. */
    assert_three_by(
        ",a,b,c\n0,1,10,3\n1,2,20,4.5\n2,3,30,-1e-2\n", NULL,
        "with names that are unknown: user \"a\" (column 2), item \"b\" (column 3), rating \"c\" (column 4)");
    assert_three_by("% bip weighted\n% 3 3 3\n1 10 3\n2 20 4.5\n3 30 -1e-2\n", NULL, "");
    assert_three_by("1,10,3,2005-09-13 10:00,\n2,20,4.5\n,,,\n3,30,-1e-2,\n", NULL, "");
}

static void refuse_table(const char *text, const char *columns, const char *message) {
    struct collection all = {.options = {.columns = columns, .has_options = true}};
    struct error error;
    assert_int_equal(read_with(&all, write_text("table", text), 1, &error), AML_EINPUT);
    if (strstr(error.text, message) == NULL) {
        fail_msg("\"%s\" does not say \"%s\"", error.text, message);
    }
    free_chunks(&all);
}

/* R's write.table gives no name to the first column, which has the names of rows. */
TEST(rows_with_names) {
    assert_three_by(
        "\"user\" \"item\" \"rating\"\n\"1\" 1 10 3\n\"2\" 2 20 4.5\n\"3\" 3 30 -0.01\n", NULL,
        "user \"user\" (column 1), item \"item\" (column 2), rating \"rating\" (column 3); each line begins "
        "with its row's name");
    assert_three_by("user item rating\n1 1 10 3\n2 2 20 4.5\n3 3 30 -0.01\n", NULL, "its row's name");
    assert_three_by("\"rating\",\"time\",\"item\",\"user\"\n\"17\",3,x,10,1\n\"4\",4.5,y,20,2\n\"9\",-0.01,,30,3\n",
                    NULL, "rating \"rating\" (column 1); each line begins with its row's name");
    assert_three_by("\"a\"\t\"b\"\t\"c\"\n\"1\"\t\"1\"\t\"10\"\t3\n\"2\"\t\"2\"\t20\t4.5\n\"3\"\t\"3\"\t30\t-0.01\n",
                    "user=a,item=b,rating=c", "its row's name");
    refuse_table("user item rating\n1 1 10 3\n2 2 20 4.5\n", "user=1",
                 "table:2: each line begins with a row's name, for which the header has none: --columns takes names");
    /* These files can't be told from files whose last column has no name. */
    refuse_table("user,item,rating\n1,10,3,964982703\n1,20,4.5,964982703\n", NULL, "table:2: expected 3 fields");
    refuse_table("user,item,rating\n1,10,3,964982703\n", NULL, "table:2: expected 3 fields");
    refuse_table("user,item,rating\n\"1\",\"10\",3,9\n\"3\",\"20\",4.5,9\n", NULL, "table:2: expected 3 fields");
}

TEST(columns_by_the_option) {
    assert_three_by("3;10;x;1\n4.5;20;y;2\n-.01;30;z;3\n", "user=4,item=2,rating=1", "");
    assert_three_by("10,1,3\n20,2,4.5\n30,3,-.01\n", "item=1,user=2", "");
    assert_three_by("user,item,rating,hours\n10,1,5,3\n20,2,5,4.5\n30,3,5,-.01\n", "user=item,item=1,rating=Hours",
                    "user \"item\" (column 2), item \"user\" (column 1), rating \"hours\" (column 4)");
    assert_three_by("x,a,b\n1,10,3\n2,20,4.5\n3,30,-.01\n", "rating=b,item=A,user=x", "\"b\" (column 3)");
    static const char *const bad[] = {"",         "user",          "user=",         "user=0",       "user=1,",
                                      "users=1",  "user=1,user=2", "user=1,item=1", "user=9999999", ",item=1",
                                      "user=_ _-"};
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        struct error error = {0};
        assert_int_equal(ratings_columns_check(bad[i], &error), AML_EINPUT);
        assert_non_null(strstr(error.text, "--columns"));
    }
    assert_int_equal(ratings_columns_check(NULL, NULL), 0);
}

TEST(headers_that_are_refused) {
    refuse_table(
        "user,rating,timestamp\n1,2,3\n", NULL,
        "table:1: the header names no item: it has \"user\", \"rating\", \"timestamp\", and expected is a name "
        "such as item, movieId, asin; --columns item=NAME says which column it is");
    refuse_table("user,item,enjoyment\n1,2,3\n", NULL, "table:1: the header names no rating");
    refuse_table("date,who,movie\n1,2,3\n", NULL, "table:1: the header names no user");
    refuse_table(
        "user_id,uid,item,rating\n1,2,3,4\n", NULL,
        "table:1: two columns name the user: 1 (user_id) and 2 (uid); --columns user=NAME says which one counts");
    refuse_table("user,item,rating,2005\n1,2,3,4\n", NULL,
                 "table:1: expected a finite decimal number (float32) as rating, got 'rating'; --columns");
    refuse_table("1,2,x\n1,2,3\n", NULL, "table:1: expected a finite decimal number (float32) as rating, got 'x'");
    refuse_table("a,b,\na,b,3\n", NULL, "table:1: expected a rating, got ''; --missing-ratings skip");
    refuse_table("a,b,c\n1,2,3\n", "user=d", "table:1: --columns: no column is named d: the first line has \"a\"");
    refuse_table("a,A,c\n1,2,3\n", "user=a", "table:1: --columns: columns 1 and 2 are both named a");
    refuse_table("a,b,c\n1,2,3\n", "user=1,item=A", "table:1: --columns: user and item are both column 1");
    refuse_table("a,b,c\n1,2,3\n", "user=5", "table:1: --columns: column 5 is the user, and the line has 3");
    refuse_table("userId movieId rating\n1 28 4 3\n", NULL, "table:2: expected 3 fields, as in the first line,");
    refuse_table("user,item,rating\n1,28,4,3\n", NULL, "table:2: expected 3 fields, as in the first line,");
    refuse_table("user,\"item,rating\n1,28,4\n", NULL, "table:1: expected a quoted field that ends on its line");
    refuse_table("[{\"user\": 1}]\n", NULL, "table:1: JSON");
    refuse_table("5 |user 28 |item 4\n", NULL, "table:1: Vowpal Wabbit");
}

/* A reader of any part of a file knows the file's header. */
TEST(parts_of_a_file_have_its_header) {
    enum { LINES = 600000 };
    FREED char *text = malloc((size_t)LINES * TEST_MANY_LINE_MAX);
    assert_non_null(text);
    int size = sprintf(text, "rating,item,title,user\n");
    for (int i = 0; i < LINES; i++) {
        size += sprintf(text + size, "%d,%d,\"a, %d\",u%d\n", i % 5, i % 100, i, i);
    }
    CLOSED_BY(extents_close) struct extents extents;
    struct error error = {0};
    assert_int_equal(extents_make(&extents, write_bytes("parts", text, (size_t)size), 0, &error), 0);
    assert_true(extents.count > 1);
    size_t found = 0;
    for (uint32_t extent = 0; extent < extents.count; extent++) {
        struct collection all = {.threads = 1};
        pthread_mutex_init(&all.mutex, NULL);
        pthread_cond_init(&all.changed, NULL);
        const struct ratings_reader reader = {.threads = 1, .sink = collect, .say = keep_said, .context = &all};
        assert_int_equal(
            ratings_read_part(&reader, &extents, (struct extent_range){.first = extent, .end = extent + 1}, &error), 0);
        assert_non_null(strstr(all.said, "user \"user\" (column 4)"));
        size_t count;
        FREED struct rating *ratings = join_chunks(&all, &count);
        for (size_t i = 0; i < count; i++, found++) {
            char id[16];
            uint64_t key;
            int length = snprintf(id, sizeof id, "u%zu", found);
            assert_true(rating_id_key(&(struct text_field){.text = id, .length = (size_t)length}, &key));
            assert_true(ratings[i].user == key && ratings[i].item == found % 100);
            assert_true(ratings[i].value == (float)(found % 5));
        }
        free_chunks(&all);
    }
    assert_int_equal(found, LINES);
}

/* ---- Ids ---- */

static uint64_t key_of(const char *text, bool quoted) {
    uint64_t key = 0;
    const struct text_field field = {.text = text, .length = strlen(text), .quoted = quoted};
    assert_true(rating_id_key(&field, &key));
    return key;
}

TEST(ids_that_are_numbers) {
    static const struct {
        const char *text;
        uint64_t key;
    } numbers[] = {{"0", 0},
                   {"12", 12},
                   {"12.0", 12},
                   {"12.", 12},
                   {"0.00", 0},
                   {"1e+05", 100000},
                   {"1.25e+02", 125},
                   {"9e+15", 9000000000000000},
                   {"18446744073709551615", UINT64_MAX}};
    for (size_t i = 0; i < sizeof numbers / sizeof numbers[0]; i++) {
        assert_true(key_of(numbers[i].text, false) == numbers[i].key);
        assert_true(key_of(numbers[i].text, true) == numbers[i].key);
    }
}

/* Model files depend on these keys. */
TEST(ids_that_are_texts) {
    static const char *const texts[] = {"007",
                                        "00",
                                        "12.5",
                                        "-1",
                                        "+5",
                                        "1e5",
                                        "1e+99",
                                        "1.25e+01",
                                        "0e+05",
                                        "12e+01",
                                        "18446744073709551616",
                                        "0345104502",
                                        "080410751X",
                                        "A00028Z",
                                        "Smith, J",
                                        "Gr\xC3\xB6\xC3\x9F\x65",
                                        "B00000004",
                                        "none of these",
                                        "--"};
    enum { COUNT = sizeof texts / sizeof texts[0] };
    uint64_t keys[COUNT];
    for (size_t i = 0; i < COUNT; i++) {
        keys[i] = key_of(texts[i], false);
        assert_true((keys[i] & RATING_ID_TEXT) != 0);
        assert_true(key_of(texts[i], true) == keys[i]);
        for (size_t other = 0; other < i; other++) {
            assert_true(keys[other] != keys[i]);
        }
    }
    assert_true(key_of("the \"\"X\"\"", true) == key_of("the \"X\"", false));
    assert_true(key_of("NA", true) != 0);
    assert_true(key_of("A00028Z", false) == TEXT_KEY_OF_A00028Z);
    assert_true(key_of("The Elder Scrolls V: Skyrim, Special Edition of 2016", false) == TEXT_KEY_OF_A_TITLE);
}

TEST(ids_that_are_missing_or_no_text) {
    static const char *const missing[] = {"",     "nan",  "NaN",  "NA",  "N/A", "<NA>",
                                          "null", "NULL", "None", "\\N", "?",   "-"};
    uint64_t key;
    for (size_t i = 0; i < sizeof missing / sizeof missing[0]; i++) {
        assert_false(rating_id_key(&(struct text_field){.text = missing[i], .length = strlen(missing[i])}, &key));
    }
    static char text[RATING_ID_MAX + 2];
    memset(text, 'x', sizeof text);
    assert_true(rating_id_key(&(struct text_field){.text = text, .length = RATING_ID_MAX}, &key));
    assert_false(rating_id_key(&(struct text_field){.text = text, .length = RATING_ID_MAX + 1}, &key));
    memset(text, '"', sizeof text);
    assert_true(rating_id_key(&(struct text_field){.text = text, .length = sizeof text, .quoted = true}, &key));
    memset(text, '1', sizeof text);
    assert_false(rating_id_key(&(struct text_field){.text = text, .length = RATING_ID_MAX + 1}, &key));
    assert_false(rating_id_key(&(struct text_field){.text = "a\0b", .length = 3}, &key));
    assert_false(rating_id_key(&(struct text_field){.text = "", .length = 0, .quoted = true}, &key));
}

TEST(no_two_of_a_million_texts_have_one_key) {
    enum { TEXTS = 1000000 };
    assert_true(key_of("A154494", false) != key_of("A15494", false));
    CLOSED_BY(index_map_close) struct index_map seen = {0};
    for (uint32_t i = 0; i < TEXTS; i++) {
        char text[24];
        snprintf(text, sizeof text, i % 3 == 0 ? "B%09u" : i % 3 == 1 ? "%010uX" : "A%u", i);
        uint64_t key = key_of(text, false);
        assert_int_equal(index_map_find(&seen, key), INDEX_NONE);
        index_map_add(&seen, key, i);
    }
}

/* ---- Missing ratings ---- */

TEST(ratings_that_are_missing) {
    static const char text[] = "user,item,rating,date\n1,10,3,x\n8,80,,x\n2,20,4.5,x\n8,80,NaN,x\n9,90\n3,30,-1e-2,x\n";
    struct error error;
    size_t count;
    struct collection skipped = {.options = {.missing = RATINGS_SKIP_MISSING}};
    assert_int_equal(read_with(&skipped, write_text("gaps", text), 1, &error), 0);
    struct rating *ratings = join_chunks(&skipped, &count);
    assert_int_equal(count, 3);
    assert_ratings(ratings, three, sizeof three / sizeof three[0]);
    free(ratings);
    free_chunks(&skipped);

    struct collection taken = {.options = {.missing = RATINGS_TAKE_MISSING}};
    assert_int_equal(read_with(&taken, write_text("gaps", text), 1, &error), 0);
    ratings = join_chunks(&taken, &count);
    assert_int_equal(count, 6);
    assert_true(isnan(ratings[1].value) && isnan(ratings[3].value) && isnan(ratings[4].value));
    assert_true(ratings[4].user == 9 && ratings[4].item == 90);
    free(ratings);
    free_chunks(&taken);
    assert_refused(write_text("gaps", text), "3: expected a rating, got ''");
}

/* Pairs of texts are no header, but a line of words before pairs of numbers is a header. */
TEST(pairs_of_texts) {
    static const struct {
        const char *text;
        size_t count;
    } cases[] = {{"alice,dune\nbob,emma\n", 2},       {"alice,dune\n", 1},        {"user,item\nalice,dune\n", 1},
                 {"usuario,pelicula\n1,2\n3,4\n", 2}, {"alice,dune\n007,7\n", 2}, {"alice,dune\nbob,7\n8,9\n", 3},
                 {"alice,dune,NA\n1,2,3\n", 2}};
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct collection all = {.options = {.missing = RATINGS_TAKE_MISSING}};
        struct error error;
        size_t count;
        assert_int_equal(read_with(&all, write_text("pairs", cases[i].text), 1, &error), 0);
        free(join_chunks(&all, &count));
        assert_int_equal(count, cases[i].count);
        free_chunks(&all);
    }
}

/* ---- MatrixMarket ---- */

TEST(matrix_market) {
    assert_three_by("%%MatrixMarket matrix coordinate real general\n% made\n\n3 30 3\n1 10 3\n2 20 4.5\n3 30 -1e-2\n",
                    NULL, "a MatrixMarket matrix: rows are users, columns are items");
    assert_three_by(
        "%%MatrixMarket MATRIX Coordinate Real General\r\n9 99 3\r\n1\t10\t3\r\n2 20 4.5\r\n\r\n3 30 -1e-2 ", NULL,
        "columns are items");
    refuse_table("%%MatrixMarket matrix coordinate integer general\n3 3 3\n1 1 3\n2 2 4\n", NULL,
                 "table: the MatrixMarket file is truncated: it has 2 entries, and its size line says 3");
    refuse_table("%%MatrixMarket matrix coordinate integer general\n3 3 1\n1 1 3\n2 2 4\n", NULL,
                 "is too long: it has 2");
    refuse_table("%%MatrixMarket matrix coordinate integer general\n3 3 2\n1 1 3\n4 2 4\n", NULL,
                 "table:4: expected a row from 1 to 3, got '4'");
    refuse_table("%%MatrixMarket matrix coordinate integer general\n3 3 2\n1 0 3\n2 2 4\n", NULL,
                 "table:3: expected a column from 1 to 3, got '0'");
    refuse_table("%%MatrixMarket matrix coordinate integer general\n0 9 2\n1 1 3\n2 2 4\n", NULL,
                 "table:2: MatrixMarket's size line '0 9 2': a matrix without rows has no entries");
    refuse_table("%%MatrixMarket matrix coordinate integer general\n0 9 0\n1 1 3\n", NULL,
                 "table:3: expected a row from 1 to 0, got '1'");
    refuse_table("%%MatrixMarket matrix coordinate integer general\n9 0 0\n0 0 3\n", NULL,
                 "table:3: expected a row from 1 to 9, got '0'");
    refuse_table("%%MatrixMarket matrix coordinate integer general\n3 3 2\n1 a 3\n2 2 4\n", NULL,
                 "table:3: expected a column");
    refuse_table("%%MatrixMarket matrix coordinate integer general\n3 3 2\n1 1 3 4\n2 2 4\n", NULL,
                 "table:3: expected 3 fields, as in the MatrixMarket format,");
    refuse_table("%%MatrixMarket matrix coordinate pattern general\n3 3 2\n1 1\n2 2\n", NULL, "pattern has no values");
    refuse_table("%MatrixMarket matrix coordinate real general\n3 3 1\n1 1 3\n", NULL,
                 "table:1: a comment that names MatrixMarket: expected its banner '%%MatrixMarket matrix");
    refuse_table("%%MatrixMarket matrix array real general\n3 3\n1\n", NULL, "table:1: a dense MatrixMarket matrix");
    refuse_table("%%MatrixMarket matrix coordinate real general\n% 1 2 3\n", NULL,
                 "size line 'rows columns entries' is missing");
}

/* ---- gzip and other inputs ---- */

TEST(gzip_of_one_and_of_more_members) {
    static const char text[] = "user,item,rating\n1,10,3\n2,20,4.5\n3,30,-1e-2\n";
    unsigned char gz[1024];
    size_t size = 0;
    gzip_member(gz, sizeof gz, &size, text, sizeof text - 1);
    assert_reads(write_bytes("one.txt", gz, size), three, 3); /* recognized by its bytes, not its name */

    size = 0; /* cut within a line, with an empty member between */
    gzip_member(gz, sizeof gz, &size, text, 20);
    gzip_member(gz, sizeof gz, &size, "", 0);
    gzip_member(gz, sizeof gz, &size, text + 20, sizeof text - 1 - 20);
    assert_reads(write_bytes("three.gz", gz, size), three, 3);
}

TEST(damaged_gzip_is_refused) {
    static const char text[] = "1,10,3\n2,20,4.5\n3,30,-1e-2\n";
    unsigned char gz[1024];
    size_t size = 0;
    gzip_member(gz, sizeof gz, &size, text, sizeof text - 1);
    size_t first = size;
    gzip_member(gz, sizeof gz, &size, text, sizeof text - 1);
    for (size_t cut = 2; cut < size; cut++) {
        if (cut != first) {
            assert_refused(write_bytes("cut.gz", gz, cut), " truncated gzip data: the file ends too early");
        }
    }
    gz[first - 8] ^= 1; /* the checksum */
    assert_refused(write_bytes("checksum.gz", gz, first), " damaged gzip data: incorrect data check");
    gz[first - 8] ^= 1;
    gz[first] = 'x';
    assert_refused(write_bytes("garbage.gz", gz, size), " damaged gzip data: incorrect header check");
    gz[2] = 9;
    assert_refused(write_bytes("method.gz", gz, size), " damaged gzip data: unknown compression method");
}

TEST(files_that_cannot_be_read) {
    assert_refused("missing", " cannot open: No such file or directory");
    assert_refused(".", " cannot read: Is a directory");
    write_text("file", "1 1 1\n");
    assert_refused("file/below", " cannot open: Not a directory");
    /* The file reports a size of 0. */
    assert_refused("/proc/self/mem", " no ratings, expected lines of 'user item rating [time]'");
}

TEST(files_without_ratings) {
    static const char *const texts[] = {"", "\n\r\n  \n", "user,item,rating\n", "user,item,rating", "\xEF\xBB\xBF"};
    for (size_t i = 0; i < sizeof texts / sizeof texts[0]; i++) {
        assert_refused(write_text("empty", texts[i]), " no ratings, expected lines of 'user item rating [time]'");
    }
    unsigned char gz[128];
    size_t size = 0;
    gzip_member(gz, sizeof gz, &size, "", 0);
    assert_refused(write_bytes("empty.gz", gz, size), " no ratings, expected lines of 'user item rating [time]'");
}

TEST(a_pipe) {
    static const char text[] = "1 10 3\n2 20 4.5\n3 30 -1e-2\n";
    int ends[2];
    assert_int_equal(pipe(ends), 0);
    assert_int_equal(write(ends[1], text, sizeof text - 1), sizeof text - 1);
    close(ends[1]);
    char path[64];
    snprintf(path, sizeof path, "/dev/fd/%d", ends[0]);
    struct collection all = {0};
    struct error error;
    assert_int_equal(read_with(&all, path, 2, &error), 0);
    assert_int_equal(all.count[0], 3);
    free_chunks(&all);
    close(ends[0]);
}

/* ---- Refused files and their messages ---- */

TEST(each_kind_of_bad_line) {
    static const struct {
        const char *text;
        const char *message;
    } cases[] = {
        {"1\t1\t1\nabc\n", "2: expected 'user item rating [time]' separated by tab, got 'abc'"},
        {"1\t1\t1\n1\t2\n", "2: expected 'user item rating [time]' separated by tab, got '1?2'"},
        {"1\t1\t1\n\t\t1\n", "2: expected a user, which is a number or a text, got ''"},
        {"1\t1\t1\n1 2 3\n", "2: expected 'user item rating [time]' separated by tab, got '1 2 3'"},
        {"1,1,1\n1,2,3,4,5\n", "2: expected 'user item rating [time]' separated by comma, got '1,2,3,4,5'"},
        {"1,1,1\n1,2,3,4,,\n", "2: expected 'user item rating [time]' separated by comma, got '1,2,3,4,,'"},
        {"1,1,1\n1\t2\t3\n", "2: expected 'user item rating [time]' separated by comma, got '1?2?3'"},
        {"1 1 1\n1 2 3 4 5\n", "2: expected 'user item rating [time]' separated by spaces, got '1 2 3 4 5'"},
        {"1::1::1\n1:2:3\n", "2: expected 'user item rating [time]' separated by '::', got '1:2:3'"},
        {"\x1f", "1: expected 'user item rating [time]' separated by tab, comma, semicolon, '::' or spaces, got '?'"},
        {"u i r\n1|2|3\n",
         "2: expected 3 fields, as in the first line, separated by tab, comma, semicolon, '::' or spaces, got '1|2|3'"},
        {"\n\na,b,c\n1,2,3\nd,e,f\n",
         "5: expected a finite decimal number (float32) as rating, got 'f'"}, /* line 5 is not a header */
        {"u,i,r\n\n1,1,1\r\n\r\n1,2,x\r\n", "5: expected a finite decimal number (float32) as rating, got 'x'"},
        {"1,,3\n", "1: expected an item, which is a number or a text, got ''"},
        {"1,NaN,3\n", "1: expected an item, which is a number or a text, got 'NaN'"},
        {"\\N,2,3\n", "1: expected a user, which is a number or a text, got '\\N'"},
        {"1,2,\n", "1: expected a rating, got ''"},
        {"1,2,?\n", "1: expected a rating, got '?'"},
        {"1,2,nan\n", "1: expected a rating, got 'nan'"},
        {"1,2,None,7\n", "1: expected a rating, got 'None'"},
        {"1,2,\"1,000\"\n", "1: expected a finite decimal number (float32) as rating, got '1,000'"},
        {"1,2,5 stars\n", "1: expected a finite decimal number (float32) as rating, got '5 stars'"},
        {"1,2,inf\n", "1: expected a finite decimal number (float32) as rating, got 'inf'"},
        {"1,2,-nan\n", "1: expected a finite decimal number (float32) as rating, got '-nan'"},
        {"1,2,0x1p3\n", "1: expected a finite decimal number (float32) as rating, got '0x1p3'"},
        {"1,2,1e39,4\n", "1: expected a finite decimal number (float32) as rating, got '1e39'"},
        {"1,2,-3.5e38\n", "1: expected a finite decimal number (float32) as rating, got '-3.5e38'"},
        {"1,2,1e\n", "1: expected a finite decimal number (float32) as rating, got '1e'"},
        {"1,2,.\n", "1: expected a finite decimal number (float32) as rating, got '.'"},
        {"1,2,--1\n", "1: expected a finite decimal number (float32) as rating, got '--1'"},
        {"1,2,3.5.1\n", "1: expected a finite decimal number (float32) as rating, got '3.5.1'"},
        {"1,2,4 5\n", "1: expected a finite decimal number (float32) as rating, got '4 5'"},
        {"1,2,\" 3\"\n", "1: expected a finite decimal number (float32) as rating, got ' 3'"},
        {"1,2,\"3\n", "1: expected a quoted field that ends on its line, then a separator, got '\"3'"},
        {"1,2,\"3\" 4\n", "1: expected a quoted field that ends on its line, then a separator, got '\"3\" 4'"},
        {"1,2,\"\"\"3\"\n", "1: expected a finite decimal number (float32) as rating, got '\"\"3'"},
        {"1,2,3\rx\n", "2: expected 'user item rating [time]' separated by comma, got 'x'"},
        {"1,2,3\n\x01\x7f\xc3\xa9\n", "2: expected 'user item rating [time]' separated by comma, got '???"
                                      "?'"},                  /* no trigraph */
        {"1,2,3\n1234567890123456789012345678901234567890\n", /* just as long as the text that messages show */
         "2: expected 'user item rating [time]' separated by comma, got '1234567890123456789012345678901234567890'"},
        {"1,2,3\n12345678901234567890123456789012345678901\n",
         "2: expected 'user item rating [time]' separated by comma, got '1234567890123456789012345678901234567890...'"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        assert_refused(write_text("ratings.csv", cases[i].text), cases[i].message);
    }
    assert_refused(write_bytes("nul.csv", "1,2,3\n1,2\0,3\n", 13),
                   "2: expected an item, which is a number or a text, got '2?'");
}

TEST(the_limit_of_a_line) {
    static char text[RATINGS_LINE_MAX * 2];
    static const char message[] =
        "2: expected a line of at most 1048576 bytes, got '5,1,2,0000000000000000000000000000000000...'";
    const struct rating expected[] = {{1, 10, 3.0F}, {5, 1, 2.0F}};
    memset(text, '0', sizeof text);
    memcpy(text, "1,10,3\n", 7);
    char *line = text + 7;
    memcpy(line, "5,1,2,", 6);
    memcpy(line + RATINGS_LINE_MAX, "\r\n", 2);
    assert_reads(write_bytes("longest.csv", text, 7 + RATINGS_LINE_MAX), expected, 2);
    assert_reads(write_bytes("longest_crlf.csv", text, 7 + RATINGS_LINE_MAX + 2), expected, 2);
    memcpy(line + RATINGS_LINE_MAX, "0\n", 2);
    assert_refused(write_bytes("longer.csv", text, 7 + RATINGS_LINE_MAX + 1), message);
    assert_refused(write_bytes("longer_ended.csv", text, 7 + RATINGS_LINE_MAX + 2), message);
    memset(line + 6, '0', sizeof text - 13); /* longer than a chunk, without a line end */
    assert_refused(write_bytes("endless.csv", text, sizeof text), message);
    memset(text, 'x', sizeof text); /* also longer than any header */
    assert_refused(write_bytes("header.csv", text, sizeof text),
                   "1: expected a line of at most 1048576 bytes, got 'xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx...'");
    memset(text, ' ', sizeof text);
    memcpy(text + RATINGS_LINE_MAX + 1, "\n1 1 1\n", 7);
    assert_refused(write_bytes("blank.csv", text, RATINGS_LINE_MAX + 8),
                   "1: expected a line of at most 1048576 bytes, got '                                        ...'");
}

/* The longest line, whose CR is the last byte read for the first chunk. */
TEST(the_longest_line_cut_before_its_last_byte) {
    enum { SHORT = 6, LONG = 4096, LINE_AT = LINE_CHUNK_BYTES - 2 - (LONG + 1), LINES = LINE_AT / SHORT };
    static char text[LINE_AT + LONG + 2 + SHORT];
    static struct rating expected[LINES + 2];
    memset(text, '0', sizeof text);
    for (int i = 0; i < LINES; i++) {
        memcpy(text + LINE_AT - SHORT * (LINES - i), "1,1,1\n", SHORT);
        expected[i] = (struct rating){1, 1, 1.0F};
    }
    memset(text, ' ', (size_t)(LINE_AT - SHORT * LINES));
    memcpy(text + LINE_AT, "5,1,2,", 6);
    memcpy(text + LINE_AT + LONG, "\r\n3,3,3\n", 8);
    expected[LINES] = (struct rating){5, 1, 2.0F};
    expected[LINES + 1] = (struct rating){3, 3, 3.0F};
    assert_reads(write_bytes("cut.csv", text, sizeof text), expected, LINES + 2);
}

TEST(a_long_path_leaves_room_for_the_reason) {
    char path[1000];
    memset(path, 'p', sizeof path - 1);
    path[sizeof path - 1] = '\0';
    struct collection all = {0};
    struct error error;
    assert_int_equal(read_with(&all, path, 1, &error), AML_EINPUT);
    assert_non_null(strstr(error.text, "ppp: cannot open: File name too long"));
}

TEST(the_number_of_threads_has_limits) {
    const char *path = write_text("threads", "1 1 1\n");
    struct collection all = {0};
    struct error error;
    assert_int_equal(read_with(&all, path, 0, &error), AML_ELIMIT);
    assert_int_equal(read_with(&all, path, LINE_THREADS_MAX + 1, &error), AML_ELIMIT);
    assert_int_equal(read_with(&all, path, LINE_THREADS_MAX, &error), 0);
    assert_int_equal(all.count[0], 1);
    free_chunks(&all);
}

/* ---- Many chunks ---- */

/* A text of TEST_MANY_LINES different ratings; start[i] is the offset of line i. The caller frees both. */
struct many {
    char *text;
    size_t size;
    size_t *start;
    struct rating *ratings;
};

static struct many make_many(void) {
    struct many many = {.text = malloc((size_t)TEST_MANY_LINES * TEST_MANY_LINE_MAX),
                        .start = malloc(TEST_MANY_LINES * sizeof *many.start),
                        .ratings = malloc(TEST_MANY_LINES * sizeof *many.ratings)};
    assert_true(many.text != NULL && many.start != NULL && many.ratings != NULL);
    for (uint64_t i = 0; i < TEST_MANY_LINES; i++) {
        many.start[i] = many.size;
        many.ratings[i] = (struct rating){i, i * 31 % 1000, (float)(i % 10) / 2.0F};
        many.size += (size_t)snprintf(many.text + many.size, TEST_MANY_LINE_MAX, "%" PRIu64 ",%" PRIu64 ",%u.%u\n", i,
                                      i * 31 % 1000, (unsigned)(i % 10) / 2, (unsigned)(i % 2) * 5);
    }
    assert_true(many.size > (size_t)LINE_CHUNK_BYTES * 8);
    return many;
}

static void free_many(struct many *many) {
    free(many->text);
    free(many->start);
    free(many->ratings);
}

static const char *write_many_gzip(const struct many *many, size_t keep_percent) {
    size_t size = 0;
    unsigned char *gz = malloc(many->size);
    assert_non_null(gz);
    gzip_member(gz, many->size, &size, many->text, many->size / 3);
    gzip_member(gz, many->size, &size, many->text + many->size / 3, many->size - many->size / 3);
    const char *path = write_bytes("many.gz", gz, size * keep_percent / 100);
    free(gz);
    return path;
}

TEST(chunks_joined_in_order_are_the_file) {
    struct many many = make_many();
    assert_reads(write_bytes("many.csv", many.text, many.size), many.ratings, TEST_MANY_LINES);
    assert_reads(write_many_gzip(&many, 100), many.ratings, TEST_MANY_LINES);
    free_many(&many);
}

TEST(chunks_may_finish_in_another_order) {
    struct many many = make_many();
    const char *path = write_bytes("many.csv", many.text, many.size);
    struct collection all = {.hold_first = true};
    struct error error;
    assert_int_equal(read_with(&all, path, 2, &error), 0);
    size_t count;
    FREED struct rating *ratings = join_chunks(&all, &count);
    assert_int_equal(count, TEST_MANY_LINES);
    for (size_t i = 0; i < count; i++) {
        assert_true(ratings[i].user == i);
    }
    free_chunks(&all);
    free_many(&many);
}

TEST(the_first_bad_line_of_the_file_is_reported) {
    struct many many = make_many();
    many.text[many.start[150000 - 1]] = '\x01';
    many.text[many.start[150001 - 1]] = '\x02';
    many.text[many.start[199999 - 1]] = '\x03';
    for (int repeat = 0; repeat < 10; repeat++) {
        assert_refused(write_bytes("late.csv", many.text, many.size),
                       "150000: expected a user, which is a number or a text, got '?49999'");
    }
    many.text[many.start[140000 - 1]] = '\x04'; /* in the chunk before */
    for (int repeat = 0; repeat < 10; repeat++) {
        assert_refused(write_bytes("earlier.csv", many.text, many.size),
                       "140000: expected a user, which is a number or a text, got '?39999'");
    }
    assert_refused(write_many_gzip(&many, 100), "140000: expected a user, which is a number or a text, got '?39999'");
    /* The bad line precedes the cut and is reported; lines after the cut do not count. */
    assert_refused(write_many_gzip(&many, 95), "140000: expected a user, which is a number or a text, got '?39999'");
    assert_refused(write_many_gzip(&many, 30), " truncated gzip data: the file ends too early");
    free_many(&many);
}

TEST(the_sink_stops_the_reading) {
    struct many many = make_many();
    const char *path = write_bytes("many.csv", many.text, many.size);
    for (unsigned threads = 1; threads <= 4; threads += 3) {
        struct collection all = {.stop_at = {1}, .stop_code = {7}};
        struct error error;
        assert_int_equal(read_with(&all, path, threads, &error), 7);
        assert_int_equal(error.code, 0);
        assert_true(all.seen[0] && all.seen[1]);
        /* At most the ring's chunks can have reached the sink. */
        assert_true(all.chunk_count <= 2 + threads * LINE_CHUNKS_PER_THREAD + 1);
        free_chunks(&all);
    }
    free_many(&many);
}

TEST(the_first_chunk_that_stops_decides) {
    struct many many = make_many();
    const char *path = write_bytes("many.csv", many.text, many.size);
    struct collection all = {.hold_first = true, .stop_at = {0, 1}, .stop_code = {AML_ESTOP, 7}};
    struct error error;
    assert_int_equal(read_with(&all, path, 2, &error), AML_ESTOP); /* although chunk 1 arrived before chunk 0 ended */
    assert_int_equal(error.code, 0);
    free_chunks(&all);

    many.text[many.start[199999 - 1]] = '\x01'; /* a bad line after the stop is not reported */
    path = write_bytes("many.csv", many.text, many.size);
    struct collection stopped = {.stop_at = {2}, .stop_code = {AML_EINPUT}};
    assert_int_equal(read_with(&stopped, path, 4, &error), AML_EINPUT);
    assert_int_equal(error.code, 0); /* the sink reports its own reason itself */
    free_chunks(&stopped);
    free_many(&many);
}

/* ---- The pure parts ---- */

static void assert_separator(const char *text, enum text_separator separator) {
    struct ratings_head head = {.options = {.missing = RATINGS_TAKE_MISSING}};
    size_t taken = ratings_head_take(&head, text, strlen(text));
    assert_int_equal(head.phase, text[taken] != '\0' ? RATINGS_KNOWN : RATINGS_BEGIN);
    assert_int_equal(head.layout.separator, separator);
}

TEST(separators) {
    assert_separator("", TEXT_UNKNOWN);
    assert_separator("\n  \n", TEXT_UNKNOWN);
    assert_separator("\n 12 3\n", TEXT_BLANKS);
    assert_separator("\r\r12 3 4\r", TEXT_BLANKS);
    assert_separator("1\t2\t3,\n", TEXT_TAB);
    assert_separator("1\t\t3\n", TEXT_TAB);
    assert_separator("1\t2 3\n", TEXT_BLANKS);
    assert_separator("1 \t 2 \t 3\n", TEXT_TAB);
    assert_separator("1,2\t3\n", TEXT_COMMA);
    assert_separator("1 , 2 , 3\n", TEXT_COMMA);
    assert_separator("1;2;3,5\n", TEXT_SEMICOLON);
    assert_separator("\"1;2\",3;4\n", TEXT_COMMA);
    assert_separator("1::2\n", TEXT_COLONS);
    assert_separator("1::2::3::4\n", TEXT_COLONS);
    assert_separator("1:2\n", TEXT_UNKNOWN);
    assert_separator("12\n1,2\n", TEXT_UNKNOWN);
    assert_separator("u1\tHobbit 2\t5\n", TEXT_TAB);
    assert_separator("u1\tHobbit, The\n", TEXT_TAB);
    assert_separator("\tu1 Hobbit 5 \t\n", TEXT_BLANKS);
}

TEST(parse_counts_and_points_at_the_fault) {
    static const char text[] = "1 1 1\n\n2 2 2\n3 3 x\n4 4 4\n";
    const struct ratings_layout spaces = {.separator = TEXT_BLANKS, .places = {0, 1, 2}, .columns = 4};
    struct rating ratings[sizeof text / RATINGS_LINE_MIN];
    struct ratings_parsed parsed;
    assert_int_equal(ratings_parse(text, sizeof text - 1, &spaces, ratings, NULL, &parsed), AML_EINPUT);
    assert_int_equal(parsed.count, 2);
    assert_int_equal(parsed.lines, 4);
    assert_int_equal(parsed.fault.reason, RATINGS_BAD_RATING);
    assert_ptr_equal(parsed.fault.text, strchr(text, 'x'));
    assert_int_equal(parsed.fault.length, 1);
    assert_int_equal(ratings_parse(text, 0, &spaces, ratings, NULL, &parsed), 0);
    assert_int_equal(parsed.count + parsed.lines, 0);
}

int main(void) {
    return tests_run(files_open, files_close);
}
