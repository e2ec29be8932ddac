/* workers/data/input_deal.c and workers/data/line_chunks.c: the chunks of all extents give each of the file's lines
 * once and in order, whoever reads which part. Line ends of any kind may lie at the borders. The same for groups of
 * lines, and for samples of a file. */
#include "tests/files.h"
#include "tests/test.h"
#include "workers/data/line_chunks.h"

#include "agileml/base/hash.h"
#include "agileml/base/text_fields.h"

#include <unistd.h>

enum { TEXT_MAX = 5 << 18, CHUNKS_MAX = 256, THREADS = 3 };

static const char path[] = "file";

struct taken {
    struct line_chunk chunk;
    char *text;
};

struct collection {
    struct taken chunks[CHUNKS_MAX];
    size_t count, retired;
    uint64_t stop_at; /* number of the chunk at which the sink fails, with this number as its error; 0: none */
};

static int collect(void *context, unsigned thread, const struct line_chunk *chunk) {
    struct collection *all = context;
    struct taken *taken = &all->chunks[chunk->sequence];
    assert_true(thread < THREADS && chunk->sequence < CHUNKS_MAX && chunk->text[chunk->size] == '\0');
    *taken = (struct taken){.chunk = *chunk, .text = malloc(chunk->size + 1)};
    memcpy(taken->text, chunk->text, chunk->size + 1);
    return all->stop_at != 0 && chunk->sequence >= all->stop_at ? (int)chunk->sequence : 0;
}

static void retire(void *context, const struct line_chunk *chunk, int code) {
    struct collection *all = context;
    assert_true(chunk->sequence == all->retired++);
    assert_true((code != 0) == (all->stop_at != 0 && chunk->sequence >= all->stop_at));
}

/* The range of a part, if this file is the first to be divided into `count` parts. */
static struct extent_range part_of(const struct extents *extents, uint32_t index, uint32_t count) {
    CLOSED_BY(input_deal_close) struct input_deal deal;
    input_deal_open(&deal, count, 0);
    input_deal_file(&deal, extents);
    struct extent_range part = input_deal_part(&deal, index);
    return part;
}

static void read_part(struct collection *all, const struct extents *extents, uint32_t index, uint32_t count,
                      size_t line_max) {
    struct error error;
    const struct line_reading reading = {.extents = extents,
                                         .part = part_of(extents, index, count),
                                         .threads = THREADS,
                                         .line_max = line_max,
                                         .sink = collect,
                                         .retire = retire,
                                         .context = all};
    assert_int_equal(line_chunks_read(&reading, &error), (int)all->stop_at);
}

static void collection_close(struct collection *all) {
    for (size_t c = 0; c < CHUNKS_MAX; c++) {
        free(all->chunks[c].text);
    }
    free(all);
}

static struct collection *collection_open(void) {
    struct collection *all = calloc(1, sizeof *all);
    assert_non_null(all);
    return all;
}

/* Makes lines of 0 to `longest` bytes with line ends of all kinds. */
static size_t make_text(char *text, size_t size, size_t longest, uint64_t seed) {
    size_t at = 0;
    for (uint64_t line = 0; at < size - longest - 2; line++) {
        uint64_t random = hash_mix(seed + line);
        size_t length = (size_t)(random % (longest + 1));
        memset(text + at, 'a' + (int)(line % 26), length);
        at += length;
        memcpy(text + at, random >> 60 < 4 ? "\r\n" : random >> 60 < 7 ? "\r" : "\n", 2);
        at += random >> 60 < 4 ? 2 : 1;
    }
    return at;
}

/* Reads the file in `parts` parts, and compares the chunks with those of the whole reading and with the text. */
static void compare(const char *text, size_t size, const struct collection *whole, uint32_t parts) {
    struct error error;
    CLOSED_BY(extents_close) struct extents extents;
    size_t at = 0;
    size_t number = 0;
    assert_int_equal(extents_make(&extents, path, 0, &error), 0);
    uint64_t bytes = 0;
    for (uint32_t p = 0; p < parts; p++) {
        struct collection *part = collection_open();
        read_part(part, &extents, p, parts, TEXT_MAX);
        bytes += extents_bytes(&extents, part_of(&extents, p, parts));
        for (size_t c = 0; c < part->retired; c++, number++) {
            const struct taken *taken = &part->chunks[c];
            const struct taken *same = &whole->chunks[number];
            assert_true(taken->chunk.extent == same->chunk.extent && taken->chunk.part == same->chunk.part);
            assert_true(taken->chunk.offset == same->chunk.offset && taken->chunk.size == same->chunk.size);
            assert_true(at + taken->chunk.size <= size);
            assert_memory_equal(taken->text, text + at, taken->chunk.size);
            at += taken->chunk.size;
        }
        collection_close(part);
    }
    assert_true(number == whole->retired && at == size && bytes == size);
}

TEST(parts_of_a_file_are_the_file) {
    static char text[TEXT_MAX];
    const size_t longest[] = {0, 3, 60, 5000, 400000};
    for (size_t l = 0; l < sizeof longest / sizeof longest[0]; l++) {
        struct error error;
        struct extents extents;
        size_t size = make_text(text, sizeof text, longest[l], 17 + l);
        for (unsigned shift = 0; shift < 3; shift++) {
            /* Line ends before, across and after a border. */
            memcpy(text + EXTENT_MIN - 2 + shift, "\r\n", 2);
            text[EXTENT_MIN * 2 - 1 + (int)shift] = '\r';
            write_bytes(path, text, size);
            assert_int_equal(extents_make(&extents, path, 0, &error), 0);
            assert_true(extents.count > 2);
            struct collection *whole = collection_open();
            read_part(whole, &extents, 0, 1, TEXT_MAX);
            compare(text, size, whole, 1);
            compare(text, size, whole, 2);
            compare(text, size, whole, 7);
            collection_close(whole);
            extents_close(&extents);
        }
    }
}

/* ---- Groups ---- */

/* A line's first digit is its group; a line that begins otherwise belongs to the group before. */
static uint64_t group_of(const char *line) {
    return *line >= '0' && *line <= '9' ? (uint64_t)*line : LINE_GROUP_SAME;
}

/* Makes lines of 1 to 60 bytes in groups of up to `longest` lines, with line ends of all kinds and some empty lines. */
static size_t make_groups(char *text, size_t size, size_t longest, uint64_t seed) {
    size_t at = 0;
    uint64_t line = 0;
    for (uint64_t group = 0; at < size - 64; group++) {
        uint64_t count = 1 + hash_mix(seed ^ group) % longest;
        for (uint64_t l = 0; l < count && at < size - 64; l++, line++) {
            uint64_t random = hash_mix(seed + 1000003 * line);
            if (l == 0 || random % 8 > 0) {
                size_t length = 1 + (size_t)(random % 60);
                memset(text + at, 'a' + (int)(line % 26), length);
                text[at] = (char)('0' + group % 10);
                at += length;
            }
            memcpy(text + at, random >> 60 < 4 ? "\r\n" : random >> 60 < 7 ? "\r" : "\n", 2);
            at += random >> 60 < 4 ? 2 : 1;
        }
    }
    return at;
}

static void read_groups(struct collection *all, const struct extents *extents, uint32_t index, uint32_t count,
                        size_t max) {
    struct error error;
    const struct line_reading reading = {.extents = extents,
                                         .part = part_of(extents, index, count),
                                         .threads = THREADS,
                                         .line_max = max,
                                         .group = group_of,
                                         .sink = collect,
                                         .retire = retire,
                                         .context = all};
    assert_int_equal(line_chunks_read(&reading, &error), (int)all->stop_at);
}

/* Reads the file in `parts` parts. Chunks are whole groups in order, with the same numbers as in a single part. */
static void compare_groups(const char *text, size_t size, const struct extents *extents, uint32_t parts) {
    struct collection *whole = collection_open();
    size_t at = 0;
    size_t number = 0;
    uint64_t before = LINE_GROUP_SAME;
    read_groups(whole, extents, 0, 1, TEXT_MAX);
    for (uint32_t p = 0; p < parts; p++) {
        struct collection *part = collection_open();
        read_groups(part, extents, p, parts, TEXT_MAX);
        for (size_t c = 0; c < part->retired; c++, number++) {
            const struct taken *taken = &part->chunks[c];
            const struct taken *same = &whole->chunks[number];
            assert_true(taken->chunk.extent == same->chunk.extent && taken->chunk.part == same->chunk.part);
            assert_true(taken->chunk.offset == same->chunk.offset && taken->chunk.size == same->chunk.size);
            assert_true(at + taken->chunk.size <= size && !taken->chunk.cut);
            assert_memory_equal(taken->text, text + at, taken->chunk.size);
            assert_true(group_of(taken->text) != LINE_GROUP_SAME && group_of(taken->text) != before);
            at += taken->chunk.size;
            for (const char *line = taken->text; *line != '\0'; line = text_next_line(line + strcspn(line, "\r\n"))) {
                before = group_of(line) != LINE_GROUP_SAME ? group_of(line) : before;
            }
        }
        collection_close(part);
    }
    assert_true(number == whole->retired && at == size);
    collection_close(whole);
}

TEST(groups_are_whole_whoever_reads_them) {
    static char text[TEXT_MAX];
    /* Lines in a group; the largest groups span several chunks and extents. */
    const size_t longest[] = {1, 4, 300, 20000, 40000};
    for (size_t l = 0; l < sizeof longest / sizeof longest[0]; l++) {
        for (uint64_t seed = 0; seed < 8; seed++) {
            struct error error;
            CLOSED_BY(extents_close) struct extents extents;
            size_t size = make_groups(text, sizeof text, longest[l], 17 * l + seed);
            /* A line end at the border, before or after it. */
            text[EXTENT_MIN - 2 + (int)seed % 4] = seed < 4 ? '\n' : '\r';
            write_bytes(path, text, size);
            assert_int_equal(extents_make(&extents, path, 0, &error), 0);
            assert_true(extents.count > 2);
            compare_groups(text, size, &extents, 1);
            compare_groups(text, size, &extents, 2);
            compare_groups(text, size, &extents, (uint32_t)extents.count);
        }
    }
}

/* Groups end where extents end, so the next extent begins with another group. */
TEST(groups_that_end_at_borders) {
    static char text[TEXT_MAX];
    const size_t lines[] = {2, 16, 1 << 10, EXTENT_MIN / 8};
    for (size_t l = 0; l < sizeof lines / sizeof lines[0]; l++) {
        struct error error;
        CLOSED_BY(extents_close) struct extents extents;
        for (size_t at = 0; at < sizeof text; at += 8) {
            memcpy(text + at, "1234567\n", 8);
            text[at] = (char)('0' + at / 8 / lines[l] % 10);
        }
        write_bytes(path, text, sizeof text);
        assert_int_equal(extents_make(&extents, path, 0, &error), 0);
        compare_groups(text, sizeof text, &extents, 1);
        compare_groups(text, sizeof text, &extents, (uint32_t)extents.count);
    }
}

TEST(a_group_that_is_too_long_reaches_the_sink) {
    static char text[TEXT_MAX];
    struct error error;
    CLOSED_BY(extents_close) struct extents extents;
    for (size_t at = 0; at < sizeof text; at += 4) {
        memcpy(text + at, at < 4000 ? "0..\n" : "1..\n", 4);
    }
    write_bytes(path, text, sizeof text);
    assert_int_equal(extents_make(&extents, path, 0, &error), 0);
    struct collection *all = collection_open();
    read_groups(all, &extents, 0, 1, 300000);
    assert_true(all->retired == 2 && all->chunks[0].chunk.size == 4000 && !all->chunks[0].chunk.cut);
    assert_true(all->chunks[1].chunk.cut);
    collection_close(all);
}

/* The number of lines before each chunk equals the lines in all earlier chunks. */
static void compare_numbers(const struct collection *whole, const struct extents *extents) {
    struct error error;
    uint64_t lines = 0;
    for (size_t c = 0; c < whole->retired; c++) {
        const struct line_chunk *chunk = &whole->chunks[c].chunk;
        uint64_t counted;
        assert_int_equal(line_chunks_count(extents, chunk->extent, chunk->offset, &counted, &error), 0);
        assert_true(counted == lines);
        for (size_t i = 0; i < chunk->size; i++) {
            const char *at = whole->chunks[c].text + i;
            lines += *at == '\n' || (*at == '\r' && at[1] != '\n') ? 1 : 0;
        }
    }
}

TEST(a_line_has_its_number_in_the_file) {
    static char text[TEXT_MAX];
    for (unsigned grouped = 0; grouped < 4; grouped++) {
        struct error error;
        CLOSED_BY(extents_close) struct extents extents;
        size_t size = grouped == 0 ? make_text(text, sizeof text, 60, 5)
                                   : make_groups(text, sizeof text, grouped < 3 ? 300 : 20000, grouped);
        write_bytes(path, text, size);
        assert_int_equal(extents_make(&extents, path, 0, &error), 0);
        struct collection *whole = collection_open();
        if (grouped > 0) {
            read_groups(whole, &extents, 0, 1, TEXT_MAX);
        } else {
            read_part(whole, &extents, 0, 1, TEXT_MAX);
        }
        assert_true(whole->retired > 1);
        compare_numbers(whole, &extents);
        collection_close(whole);
    }
}

TEST(a_failure_ends_the_reading) {
    static char text[TEXT_MAX];
    struct error error;
    CLOSED_BY(extents_close) struct extents extents;
    write_bytes(path, text, make_text(text, sizeof text, 60, 5));
    assert_int_equal(extents_make(&extents, path, 0, &error), 0);
    struct collection *all = collection_open();
    all->stop_at = 2;
    read_part(all, &extents, 0, 1, TEXT_MAX);
    assert_int_equal(all->retired, 3);
    collection_close(all);
}

TEST(a_line_that_is_too_long_reaches_the_sink) {
    static char text[TEXT_MAX];
    struct error error;
    CLOSED_BY(extents_close) struct extents extents;
    memset(text, 'x', sizeof text);
    memcpy(text, "1\n", 2);
    write_bytes(path, text, sizeof text);
    assert_int_equal(extents_make(&extents, path, 0, &error), 0);
    struct collection *all = collection_open();
    read_part(all, &extents, 0, 1, 1000);
    assert_int_equal(all->retired, 1);
    assert_true(all->chunks[0].chunk.size > 1000);
    collection_close(all);
}

TEST(a_mark_and_a_lacking_end) {
    struct error error;
    CLOSED_BY(extents_close) struct extents extents;
    write_bytes(path,
                "\xEF\xBB\xBF"
                "1 2\n3 4",
                10);
    assert_int_equal(extents_make(&extents, path, 0, &error), 0);
    struct collection *all = collection_open();
    read_part(all, &extents, 0, 1, 1000);
    assert_int_equal(all->retired, 1);
    assert_string_equal(all->chunks[0].text, "1 2\n3 4\n");
    collection_close(all);
}

static struct input_sample sample(const char *text, size_t size, uint32_t parts) {
    struct error error;
    CLOSED_BY(extents_close) struct extents extents;
    write_bytes(path, text, size);
    assert_int_equal(extents_make(&extents, path, 0, &error), 0);
    CLOSED_BY(input_deal_close) struct input_deal deal;
    input_deal_open(&deal, parts, 0);
    input_deal_file(&deal, &extents);
    struct input_sample sample = input_sample(&extents, &deal);
    return sample;
}

/* Files of any sizes, also of a single extent, are divided into contiguous parts of equal size in bytes. */
TEST(parts_of_many_files_are_even) {
    static const struct {
        size_t files;
        uint64_t least, most; /* sizes of files in bytes */
    } cases[] = {{1000, 1, 1},
                 {1000, 1, 1000},
                 {300, EXTENT_MIN - 1, EXTENT_MIN + 1},
                 {300, 5 * EXTENT_MIN, 5 * EXTENT_MIN},
                 {300, 1, 12 * EXTENT_MIN}};
    for (size_t c = 0; c < sizeof cases / sizeof cases[0]; c++) {
        for (uint32_t parts = 1; parts <= 9; parts++) {
            CLOSED_BY(input_deal_close) struct input_deal deal;
            uint64_t total = 0;
            input_deal_open(&deal, parts, 0);
            for (size_t f = 0; f < cases[c].files; f++) {
                uint64_t size = cases[c].least + hash_mix(f) % (cases[c].most - cases[c].least + 1);
                struct extent cut[64];
                struct input_name file = {.identity = {.bytes = size}};
                struct extents extents = {.list = {.names = &file, .count = 1}, .at = cut};
                for (uint64_t at = 0; at < size; at += EXTENT_MIN) {
                    uint64_t left = size - at;
                    cut[extents.count++] =
                        (struct extent){.offset = at, .length = left < EXTENT_MIN ? left : EXTENT_MIN};
                }
                input_deal_file(&deal, &extents);
                total += size;
                for (uint32_t p = 0; p < parts; p++) {
                    struct extent_range part = input_deal_part(&deal, p);
                    assert_true(part.first == (p == 0 ? 0 : input_deal_part(&deal, p - 1).end) &&
                                part.first <= part.end);
                }
                assert_int_equal(input_deal_part(&deal, parts - 1).end, extents.count);
            }
            uint64_t largest = cases[c].most < EXTENT_MIN ? cases[c].most : EXTENT_MIN;
            for (uint32_t p = 0; p < parts; p++) {
                assert_true(deal.bytes[p] <= total / parts + 2 * largest &&
                            deal.bytes[p] + 2 * largest >= total / parts);
            }
        }
    }
}

/* A file goes to at most as many parts as it has times the least bytes of a part: to those with the fewest so far. */
TEST(small_files_go_to_few_parts) {
    enum { PARTS = 9, EXTENTS = 8 };
    for (uint32_t wanted = 0; wanted <= EXTENTS; wanted++) {
        CLOSED_BY(input_deal_close) struct input_deal deal;
        const uint64_t total = (uint64_t)EXTENTS * EXTENT_MIN;
        struct extent cut[EXTENTS];
        struct input_name file = {.identity = {.bytes = total}};
        struct extents extents = {.list = {.names = &file, .count = 1}, .at = cut};
        for (; extents.count < EXTENTS; extents.count++) {
            cut[extents.count] = (struct extent){.offset = extents.count * EXTENT_MIN, .length = EXTENT_MIN};
        }
        input_deal_open(&deal, PARTS, wanted > 0 ? total / wanted : total + 1);
        for (uint32_t files = 1; files <= PARTS; files++) {
            uint32_t parts = 0;
            input_deal_file(&deal, &extents);
            for (uint32_t p = 0; p < PARTS; p++) {
                struct extent_range part = input_deal_part(&deal, p);
                parts += part.end > part.first ? 1 : 0;
            }
            assert_int_equal(input_deal_part(&deal, PARTS - 1).end, EXTENTS);
            assert_in_range(parts, 1, wanted > 0 ? wanted : 1);
            assert_true(files > 1 || parts == (wanted > 0 ? wanted : 1));
        }
        for (uint32_t p = 0; p < PARTS; p++) {
            assert_true(deal.bytes[p] > 0);
        }
    }
}

TEST(samples_find_other_bytes_where_they_look) {
    enum { SMALL = INPUT_SAMPLES * INPUT_SAMPLE_BYTES, BIG = SMALL * 2 };
    FREED char *text = malloc(BIG);
    assert_non_null(text);
    memset(text, '\n', BIG);
    const size_t sizes[] = {1, 70000, SMALL, BIG};
    for (size_t s = 0; s < sizeof sizes / sizeof sizes[0]; s++) {
        const struct input_sample before = sample(text, sizes[s], 3);
        assert_true(before.blocks != 0 && before.borders != 0 && sample(text, sizes[s], 1).borders == 0);
        assert_true(sample(text, sizes[s], 3).blocks == before.blocks);
        for (unsigned p = 0; p < 3; p++) {
            /* The last place is the middle of a small file. In a large file it lies between sampled blocks. */
            bool looked_at = p < 2 || sizes[s] < BIG;
            size_t place = p == 0 ? 0 : p == 1 ? sizes[s] - 1 : looked_at ? sizes[s] / 2 : INPUT_SAMPLE_BYTES + 10;
            text[place] = 'x';
            assert_true((sample(text, sizes[s], 3).blocks != before.blocks) == looked_at);
            text[place] = '\n';
        }
    }
    const struct input_sample before = sample(text, BIG, 3);
    text[(BIG / EXTENT_MIN + 1) / 3 * EXTENT_MIN - 1] = 'x'; /* last byte of the first part */
    assert_true(sample(text, BIG, 3).borders != before.borders);
}

int main(void) {
    return tests_run(files_open, files_close_one);
}
