/* Hashes of ranges: they do not depend on how a range is read, and show where copies of a file differ. */
#include "workers/data/input_range.h"

#include "tests/files.h"
#include "tests/test.h"

#include "agileml/base/memory.h"
#include "workers/data/line_chunks.h"

#include <stdlib.h>
#include <string.h>

static const char path[] = "file";
enum { EXTENT = EXTENT_MIN, EXTENTS = 41, BYTES = EXTENT * (EXTENTS - 1) + 77 };

/* ---- hash_stream ---- */

TEST(a_stream_has_one_hash_however_it_is_cut) {
    enum { MOST = 400 };
    unsigned char bytes[MOST];
    uint64_t random = 1;
    for (size_t b = 0; b < MOST; b++) {
        bytes[b] = (unsigned char)hash_seeded(1, b);
    }
    uint64_t before = 0;
    for (size_t size = 0; size <= MOST; size++) {
        struct hash_stream whole = {0};
        hash_stream_add(&whole, bytes, size);
        uint64_t hash = hash_stream_end(&whole);
        assert_true(hash != before);
        before = hash;
        for (unsigned tries = 0; tries < 20; tries++) {
            struct hash_stream cut = {0};
            for (size_t at = 0; at < size;) {
                random = hash_mix(random);
                size_t more = (size_t)(random % (tries * 10 + 1)) + 1;
                more = more < size - at ? more : size - at;
                hash_stream_add(&cut, bytes + at, more);
                at += more;
            }
            assert_true(hash_stream_end(&cut) == hash);
        }
        for (size_t b = 0; b < size; b++) {
            struct hash_stream other = {0};
            bytes[b] ^= 1;
            hash_stream_add(&other, bytes, size);
            bytes[b] ^= 1;
            assert_true(hash_stream_end(&other) != hash);
        }
    }
}

/* ---- Ranges ---- */

static char *make_lines(void) {
    char *text = memory_resized(NULL, BYTES, 1);
    for (size_t b = 0; b < BYTES; b++) {
        text[b] = hash_seeded(2, b) % 50 == 0 ? '\n' : 'x';
    }
    return text;
}

static int ignore(void *context, unsigned thread, const struct line_chunk *chunk) {
    (void)context;
    (void)thread;
    (void)chunk;
    return 0;
}

struct hashes {
    uint64_t all, sample;
};

/* The hashes of a range, made while its lines are read. */
static struct hashes read_lines(const struct extents *extents, struct extent_range which) {
    struct error error;
    struct input_range range;
    input_range_begin(&range, extents, which);
    const struct extent_watch watch = {.bytes = input_range_add, .context = &range};
    struct extents watched = *extents;
    watched.watch = &watch;
    const struct line_reading reading = {
        .extents = &watched, .part = which, .threads = 2, .line_max = 100000, .sink = ignore};
    assert_int_equal(line_chunks_read(&reading, &error), 0);
    return (struct hashes){input_range_hash(&range), input_range_sample(&range)};
}

/* The hash of its sample, made without reading the rest. */
static uint64_t read_sample(const struct extents *extents, struct extent_range which) {
    struct input_range range;
    input_range_begin(&range, extents, which);
    input_range_read_sample(&range, path, &extents_file(extents)->identity);
    assert_true(input_range_hash(&range) == 0);
    return input_range_sample(&range);
}

static const struct extent_range some[] = {{0, EXTENTS}, {0, 1}, {EXTENTS - 1, EXTENTS}, {3, 29}};

TEST(a_sample_is_a_part_of_what_is_read) {
    struct error error;
    FREED char *text = make_lines();
    write_bytes(path, text, BYTES);
    CLOSED_BY(extents_close) struct extents extents;
    assert_int_equal(extents_make(&extents, path, 0, &error), 0);
    assert_int_equal(extents.count, EXTENTS);
    for (size_t r = 0; r < sizeof some / sizeof *some; r++) {
        struct hashes hashes = read_lines(&extents, some[r]);
        assert_true(hashes.all != 0 && hashes.sample != 0 && hashes.all != hashes.sample);
        assert_true(read_sample(&extents, some[r]) == hashes.sample);
    }
    assert_true(read_lines(&extents, (struct extent_range){3, 3}).all == 0);
    struct input_range range; /* bytes that are missing, repeated, or of other extents */
    input_range_begin(&range, &extents, some[3]);
    input_range_add(&range, 0, (const unsigned char *)text, 3 * EXTENT);
    input_range_add(&range, 4 * EXTENT, (const unsigned char *)text + 4 * EXTENT, 25 * EXTENT);
    assert_true(input_range_hash(&range) == 0);
    input_range_add(&range, 3 * EXTENT, (const unsigned char *)text + 3 * EXTENT, 26 * EXTENT);
    input_range_add(&range, 3 * EXTENT, (const unsigned char *)text + 3 * EXTENT, 26 * EXTENT);
    assert_true(input_range_hash(&range) == read_lines(&extents, some[3]).all);
}

/* Every changed byte changes the hash. About one in 64 changes the sample, in all of the range. */
TEST(other_bytes_give_other_hashes) {
    struct error error;
    enum { STEP = 4099 };
    FREED char *text = make_lines();
    write_bytes(path, text, BYTES);
    CLOSED_BY(extents_close) struct extents extents;
    assert_int_equal(extents_make(&extents, path, 0, &error), 0);
    struct input_range range;
    input_range_begin(&range, &extents, some[0]);
    input_range_add(&range, 0, (const unsigned char *)text, BYTES);
    uint64_t hash = input_range_hash(&range);
    uint64_t sample = input_range_sample(&range);
    size_t changes = 0;
    size_t sampled[2] = {0};
    for (size_t at = 0; at < BYTES; at += (BYTES - 1 - at < STEP && at < BYTES - 1 ? BYTES - 1 - at : STEP)) {
        text[at] ^= 1;
        input_range_begin(&range, &extents, some[0]);
        input_range_add(&range, 0, (const unsigned char *)text, BYTES);
        text[at] ^= 1;
        changes++;
        assert_true(input_range_hash(&range) != hash);
        sampled[at > BYTES / 2] += input_range_sample(&range) != sample;
    }
    assert_in_range(sampled[0], changes / 200, changes / 90);
    assert_in_range(sampled[1], changes / 200, changes / 90);
}

/* A file that has changed, or a range of few bytes, has no sample. */
TEST(what_has_no_sample) {
    struct error error;
    FREED char *text = make_lines();
    write_bytes(path, text, BYTES);
    CLOSED_BY(extents_close) struct extents extents;
    assert_int_equal(extents_make(&extents, path, 0, &error), 0);
    write_bytes(path, text, BYTES - 1);
    assert_true(read_sample(&extents, some[0]) == 0);
    CLOSED_BY(extents_close) struct extents small;
    write_bytes(path, text, INPUT_RANGE_SAMPLED - 1);
    assert_int_equal(extents_make(&small, path, 0, &error), 0);
    struct hashes hashes = read_lines(&small, extents_all(&small));
    assert_true(hashes.all != 0 && hashes.sample == 0);
}

/* ---- The list of what a process has read ---- */

/* Two processes: one reads part 1 and the sample of part 2, the other reads part 2. Files after the last record count
 * together. */
TEST(lists_of_two_processes_agree) {
    struct error error;
    FREED char *text = make_lines();
    write_bytes(path, text, BYTES);
    CLOSED_BY(extents_close) struct extents extents;
    assert_int_equal(extents_make(&extents, path, 0, &error), 0);
    const struct extent_range parts[] = {{0, 10}, {10, 25}, {25, EXTENTS}};
    struct input_ranges lists[2] = {{0}, {0}};
    for (unsigned reading = 0; reading < 2; reading++) { /* the second one replaces what the first has found */
        for (unsigned l = 0; l < 2; l++) {
            input_ranges_begin(&lists[l], l + 1);
            for (unsigned f = 0; f < 3; f++) {
                struct input_range range;
                input_range_begin(&range, &extents, parts[l + 1]);
                input_range_add(&range, range.first, (const unsigned char *)text + range.first,
                                (size_t)(range.end - range.first));
                unsigned file = f < 2 ? f : 1;
                input_ranges_add(&lists[l], &range, l + 1, file);
                if (l == 0 && reading == 0) {
                    input_ranges_note(&lists[0], &extents, parts[2], 2, file);
                }
            }
        }
        assert_true(input_ranges_news(&lists[0]) && !input_ranges_news(&lists[0]));
    }
    input_ranges_sample(&lists[0]);
    assert_true(input_ranges_news(&lists[0]));
    assert_int_equal(lists[0].count, 6);
    assert_int_equal(lists[1].count, 4);
    unsigned equal = 0;
    for (size_t a = 0; a < lists[0].count; a++) {
        for (size_t b = 0; b < lists[1].count; b++) {
            equal += memcmp(&lists[0].at[a], &lists[1].at[b], sizeof *lists[0].at) == 0;
        }
    }
    assert_int_equal(equal, 2); /* the samples of part 2 */
    input_ranges_close(&lists[0]);
    input_ranges_close(&lists[1]);
}

int main(void) {
    return tests_run(files_open, files_close_one);
}
