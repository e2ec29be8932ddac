/* Tests of agileml/input/extents, members and lines. Extents of any size together give each of the file's lines once,
 * for plain text, gzip members, bgzip and zstd frames. Files may be damaged, change, or have another file's index. */
#include "agileml/base/memory.h"
#include "agileml/base/text_lines.h"
#include "agileml/input/lines.h"
#include "tests/files.h"
#include "tests/test.h"

#include <fcntl.h>
#include <pthread.h>
#include <sys/stat.h>
#include <unistd.h>
#include <zlib.h>
#include <zstd.h>

enum { DATA_MAX = 1 << 16, LONGEST = 1 << 20, THREADS = 3 };

static const char path[] = "data";

/* A file's contents. */
struct data {
    size_t size;
    unsigned char bytes[DATA_MAX];
};

/* ---- Making files ---- */

static void add_bytes(struct data *data, const void *bytes, size_t size) {
    assert_true(data->size + size <= DATA_MAX);
    memcpy(data->bytes + data->size, bytes, size);
    data->size += size;
}

/* Adds a gzip member. `sized`: with its size in the header, as in bgzip. */
static void add_gzip(struct data *data, const char *text, size_t size, bool sized) {
    unsigned char extra[6] = {'B', 'C', 2, 0, 0, 0};
    gz_header header = {.os = 255, .extra = sized ? extra : NULL, .extra_len = sized ? sizeof extra : 0};
    z_stream stream = {0};
    assert_int_equal(deflateInit2(&stream, 9, Z_DEFLATED, 15 + 16, 8, Z_DEFAULT_STRATEGY), Z_OK);
    assert_int_equal(deflateSetHeader(&stream, &header), Z_OK);
    stream.next_in = (z_const Bytef *)text;
    stream.avail_in = (uInt)size;
    stream.next_out = data->bytes + data->size;
    stream.avail_out = (uInt)(DATA_MAX - data->size);
    assert_int_equal(deflate(&stream, Z_FINISH), Z_STREAM_END);
    if (sized) {
        data->bytes[data->size + 16] = (unsigned char)(stream.total_out - 1);
        data->bytes[data->size + 17] = (unsigned char)((stream.total_out - 1) >> 8);
    }
    data->size += stream.total_out;
    deflateEnd(&stream);
}

static void add_zstd(struct data *data, const char *text, size_t size, bool checksum) {
    ZSTD_CCtx *context = ZSTD_createCCtx();
    assert_non_null(context);
    ZSTD_CCtx_setParameter(context, ZSTD_c_checksumFlag, checksum);
    ZSTD_CCtx_setParameter(context, ZSTD_c_contentSizeFlag, !checksum);
    size_t made = ZSTD_compress2(context, data->bytes + data->size, DATA_MAX - data->size, size > 0 ? text : "", size);
    assert_false(ZSTD_isError(made));
    data->size += made;
    ZSTD_freeCCtx(context);
}

static void add_number(struct data *data, uint64_t number, size_t bytes) {
    for (size_t i = 0; i < bytes; i++) {
        unsigned char byte = (unsigned char)(number >> (8 * i));
        add_bytes(data, &byte, 1);
    }
}

enum kind { PLAIN, GZIP, BGZIP, GZIP_INDEX, ZSTD, ZSTD_SKIPPABLE, ZSTD_TABLE, KINDS };

/* Makes the file of a text, in members or frames of `piece` bytes. */
static void make_file(enum kind kind, const char *text, size_t size, size_t piece) {
    FREED struct data *data = memory_zeroed(1, sizeof *data);
    FREED struct data *index = memory_zeroed(1, sizeof *index);
    char index_path[80];
    uint64_t entries = 0;
    snprintf(index_path, sizeof index_path, "%s.gzi", path);
    unlink(index_path);
    if (kind == PLAIN) {
        add_bytes(data, text, size);
    }
    for (size_t at = 0; at < size && kind != PLAIN; at += piece, entries++) {
        size_t length = size - at < piece ? size - at : piece;
        size_t before = data->size;
        if (kind == GZIP_INDEX && at > 0) {
            add_number(index, data->size, 8);
            add_number(index, at, 8);
        }
        if (kind == ZSTD_SKIPPABLE) {
            add_bytes(data, "\x53\x2A\x4D\x18\x03\0\0\0abc", 11);
        }
        if (kind == ZSTD || kind == ZSTD_SKIPPABLE || kind == ZSTD_TABLE) {
            add_zstd(data, text + at, length, at % 2 == 1);
        } else {
            add_gzip(data, text + at, length, kind == BGZIP);
        }
        if (kind == ZSTD_TABLE) {
            add_number(index, data->size - before, 4);
            add_number(index, length, 4);
        }
    }
    if (kind == GZIP_INDEX && entries > 0) {
        FREED struct data *whole = memory_zeroed(1, sizeof *whole);
        add_number(whole, entries - 1, 8);
        add_bytes(whole, index->bytes, index->size);
        write_bytes(index_path, whole->bytes, whole->size);
    }
    if (kind == ZSTD_TABLE) {
        add_bytes(data, "\x5E\x2A\x4D\x18", 4);
        add_number(data, index->size + 9, 4);
        add_bytes(data, index->bytes, index->size);
        add_number(data, entries, 4);
        add_bytes(data, "\0\xB1\xEA\x92\x8F", 5);
    }
    write_bytes(path, data->bytes, data->size);
}

/* ---- Reading ---- */

/* Appends the lines of an input to *text, each in brackets. */
static void collect(struct text_input *input, struct data *text) {
    struct text_lines lines;
    struct error error = {0};
    char *line;
    size_t length;
    text_lines_take(&lines, path, input, LONGEST);
    for (;;) {
        assert_int_equal(text_lines_next(&lines, &line, &length, &error), 0);
        if (line == NULL) {
            break;
        }
        add_bytes(text, "[", 1);
        add_bytes(text, line, length);
        add_bytes(text, "]", 1);
    }
    text_lines_close(&lines);
}

/* The bytes that were watched, which must come in the file's order (extent_watch.bytes). */
static void take_watched(void *context, uint64_t offset, const unsigned char *bytes, size_t size) {
    struct data *watched = context;
    assert_int_equal(offset, watched->size);
    add_bytes(watched, bytes, size);
}

/* Checks that the watched bytes are the file. */
static void compare_watched(const struct data *watched) {
    FILE *stream = fopen(path, "re");
    assert_non_null(stream);
    assert_int_equal(fseek(stream, 0, SEEK_END), 0);
    assert_int_equal(ftell(stream), watched->size);
    rewind(stream);
    for (size_t b = 0; b < watched->size; b++) {
        assert_int_equal(fgetc(stream), ((const unsigned char *)watched->bytes)[b]);
    }
    fclose(stream);
}

/* Reads the file as a whole and by extents of `size`, and compares the lines. Returns the number of extents. */
static size_t compare(uint64_t size) {
    FREED struct data *watched = memory_zeroed(1, sizeof *watched);
    const struct extent_watch watch = {.bytes = take_watched, .context = watched};
    FREED struct data *whole = memory_zeroed(1, sizeof *whole);
    FREED struct data *parts = memory_zeroed(1, sizeof *parts);
    struct text_input *input;
    CLOSED_BY(extents_close) struct extents extents;
    struct error error = {0};
    assert_int_equal(text_input_open(&input, path, &error), 0);
    collect(input, whole);
    assert_int_equal(extents_make(&extents, path, size, &error), 0);
    extents.watch = &watch;
    uint64_t covered = 0;
    for (uint32_t s = 0; s < extents.count; s++) {
        assert_int_equal(extents.at[s].offset, covered);
        covered += extents.at[s].length;
        assert_int_equal(input_lines_open(&input, &extents, s, &error), 0);
        collect(input, parts);
        assert_int_equal(watched->size, covered);
    }
    compare_watched(watched);
    assert_int_equal(covered, extents_file(&extents)->identity.bytes);
    if (whole->size != parts->size || memcmp(whole->bytes, parts->bytes, whole->size) != 0) {
        fail_msg("extents of %llu bytes: expected %.*s, got %.*s", (unsigned long long)size, (int)whole->size,
                 (const char *)whole->bytes, (int)parts->size, (const char *)parts->bytes);
    }
    size_t count = extents.count;
    return count;
}

static const char *const texts[] = {
    "",
    "a",
    "\n",
    "\r",
    "\r\n",
    "a\nb\nc",
    "a\r\nb\r\nccc\r\n",
    "a\rb\r\rc\r",
    "\r\r\n\n\r\n\r",
    "first line\nsecond, which is longer than an extent\n\n\nx\n",
    "user,item\r\n1,2\r\n\r\n3,4",
    "\xEF\xBB\xBFuser\titem\n1\t2\n",
    "\xEF\xBB\xBF",
    "\xEF\xBB\xBF\r\n\xEF\xBB\xBF",
    "BZh is no bzip2\n\x1f\x8b\nBZh\n\xFF\xFE\n",
};

TEST(plain_text_by_every_size) {
    for (size_t t = 0; t < sizeof texts / sizeof texts[0]; t++) {
        size_t size = strlen(texts[t]);
        if (strncmp(texts[t], "BZh", 3) == 0) {
            continue; /* refused at a file's beginning; allowed within, as below */
        }
        make_file(PLAIN, texts[t], size, 0);
        for (uint64_t extent = 1; extent <= size + 1; extent++) {
            size_t count = compare(extent);
            assert_int_equal(count, size == 0 ? 1 : (size + extent - 1) / extent);
        }
    }
    const char *inside = "x\nBZh\n\x1f\x8b\n\xFF\xFE\nPK\x03\x04\n";
    make_file(PLAIN, inside, strlen(inside), 0);
    for (uint64_t extent = 1; extent <= strlen(inside); extent++) {
        compare(extent);
    }
}

/* All texts, cut into members of every size, which are joined to extents of several sizes. */
TEST(members_by_every_size) {
    for (size_t t = 0; t < sizeof texts / sizeof texts[0]; t++) {
        size_t size = strlen(texts[t]);
        for (enum kind kind = GZIP; kind < KINDS; kind++) {
            for (size_t piece = 1; piece <= size; piece += 1 + piece / 8) {
                make_file(kind, texts[t], size, piece);
                size_t members = (size + piece - 1) / piece;
                size_t count = compare(1);
                assert_true(kind != GZIP || count == 1);
                assert_true((kind != BGZIP && kind != GZIP_INDEX && kind != ZSTD) || count == members);
                assert_true(kind != ZSTD_TABLE || count >= members);
                compare(60);
                assert_int_equal(compare(0), 1);
            }
        }
    }
}

TEST(empty_members) {
    FREED struct data *data = memory_zeroed(1, sizeof *data);
    static const char *const pieces[] = {"", "", "a\r", "", "\n", "b\n", "", "c", "", "d\r\n", ""};
    for (unsigned form = 0; form < 2; form++) {
        data->size = 0;
        for (size_t p = 0; p < sizeof pieces / sizeof pieces[0]; p++) {
            if (form == 0) {
                add_gzip(data, pieces[p], strlen(pieces[p]), true);
            } else {
                add_zstd(data, pieces[p], strlen(pieces[p]), p % 2 == 0);
            }
        }
        write_bytes(path, data->bytes, data->size);
        assert_int_equal(compare(1), 11);
        compare(50);
        compare(100);
    }
}

/* Members without their sizes follow members with sizes: the rest is one extent. */
TEST(members_without_sizes_behind_others) {
    FREED struct data *data = memory_zeroed(1, sizeof *data);
    add_gzip(data, "a\nb", 3, true);
    add_gzip(data, "c\nd", 3, false);
    add_gzip(data, "e\nf", 3, true);
    write_bytes(path, data->bytes, data->size);
    assert_int_equal(compare(1), 2);
}

/* The number of lines of extent s; 0 if they can't be read. For any thread. */
static uint64_t count_lines(const struct extents *extents, uint32_t s) {
    struct error error = {0};
    struct text_input *input;
    struct text_lines lines;
    char *line;
    size_t length;
    uint64_t count = 0;
    if (input_lines_open(&input, extents, s, &error) != 0) {
        return 0;
    }
    text_lines_take(&lines, path, input, LONGEST);
    while (text_lines_next(&lines, &line, &length, &error) == 0 && line != NULL) {
        count++;
    }
    text_lines_close(&lines);
    return count;
}

/* Frames of several blocks of all types, and a text that the decoder returns in several pieces. */
TEST(large_frames) {
    enum { SIZE = 400000 };
    FREED char *text = memory_zeroed(SIZE, 1);
    ZSTD_CCtx *context = ZSTD_createCCtx();
    size_t room = ZSTD_compressBound(SIZE);
    unsigned char *made = memory_zeroed(3 * room, 1);
    size_t used = 0;
    uint32_t random = 1;
    for (size_t i = 0; i < SIZE; i++) {
        random = random * 1664525 + 1013904223;
        uint32_t any = '0' + (random >> 24) % (i < 300000 ? 70 : 10);
        text[i] = (char)(i < 150000 ? 'x' : i % 90 == 0 ? '\n' : any);
    }
    for (int level = 1; level <= 3; level++) {
        ZSTD_CCtx_setParameter(context, ZSTD_c_checksumFlag, level % 2);
        ZSTD_CCtx_setParameter(context, ZSTD_c_compressionLevel, 5 * level);
        size_t size = ZSTD_compress2(context, made + used, room, text, SIZE);
        assert_false(ZSTD_isError(size));
        used += size;
    }
    write_bytes(path, made, used);
    struct extents extents;
    struct error error = {0};
    assert_int_equal(extents_make(&extents, path, 1, &error), 0);
    assert_int_equal(extents.count, 3);
    uint64_t lines = count_lines(&extents, 0) + count_lines(&extents, 1);
    uint64_t expected = 0;
    for (size_t i = 0; i < SIZE; i++) {
        expected += text[i] == '\n';
    }
    /* The third extent's first line begins after its first LF. */
    assert_int_equal(lines, 2 * expected + 1);
    extents_close(&extents);
    ZSTD_freeCCtx(context);
    free(made);
}

TEST(size_of_extents) {
    assert_int_equal(extent_size(0), 1 << 18);
    assert_int_equal(extent_size(1 << 26), 1 << 18);
    assert_int_equal(extent_size((1 << 26) + 1000), 1 << 19);
    assert_int_equal(extent_size(1ULL << 34), 1 << 26);
    assert_int_equal(extent_size(UINT64_MAX - 1), 1 << 26);
}

/* ---- Threads ---- */

struct reading {
    const struct extents *extents;
    uint32_t first;
    uint64_t lines;
};

static void *read_extents(void *context) {
    struct reading *reading = context;
    for (uint32_t s = reading->first; s < reading->extents->count; s += THREADS) {
        reading->lines += count_lines(reading->extents, s);
    }
    return NULL;
}

TEST(threads_on_different_extents) {
    char text[4000];
    for (size_t i = 0; i < sizeof text; i++) {
        text[i] = i % 10 == 9 ? '\n' : 'x';
    }
    for (enum kind kind = PLAIN; kind < KINDS; kind++) {
        make_file(kind, text, sizeof text, 95);
        CLOSED_BY(extents_close) struct extents extents;
        struct error error = {0};
        struct reading readings[THREADS];
        pthread_t threads[THREADS];
        uint64_t lines = 0;
        assert_int_equal(extents_make(&extents, path, 90, &error), 0);
        for (uint32_t t = 0; t < THREADS; t++) {
            readings[t] = (struct reading){.extents = &extents, .first = t};
            assert_int_equal(pthread_create(&threads[t], NULL, read_extents, &readings[t]), 0);
        }
        for (uint32_t t = 0; t < THREADS; t++) {
            pthread_join(threads[t], NULL);
            lines += readings[t].lines;
        }
        assert_int_equal(lines, sizeof text / 10);
    }
}

/* ---- Refused files ---- */

/* Reads all extents, and returns the first error's code. */
static int read_all(uint64_t size, struct error *error) {
    CLOSED_BY(extents_close) struct extents extents;
    int code = extents_make(&extents, path, size, error);
    for (uint32_t s = 0; code == 0 && s < extents.count; s++) {
        struct text_input *input;
        char bytes[100];
        size_t got = sizeof bytes;
        code = input_lines_open(&input, &extents, s, error);
        while (code == 0 && got == sizeof bytes) {
            code = text_input_read(input, bytes, sizeof bytes, &got, error);
        }
        text_input_close(input);
    }
    return code;
}

static void assert_refused(uint64_t size, const char *message) {
    struct error error = {0};
    assert_int_equal(read_all(size, &error), AML_EINPUT);
    assert_memory_equal(error.text, path, strlen(path));
    if (strncmp(error.text + strlen(path), message, strlen(message)) != 0) {
        fail_msg("expected FILE%s, got %s", message, error.text);
    }
}

/* Files cut at every byte, and files with one changed byte, give an error or the same lines, never other lines. */
TEST(files_that_are_cut_or_damaged) {
    static const char text[] = "one line\nand another\r\nthe third, without end";
    for (enum kind kind = GZIP; kind < KINDS; kind++) {
        make_file(kind, text, sizeof text - 1, 20);
        FREED struct data *data = memory_zeroed(1, sizeof *data);
        FILE *file = fopen(path, "rb");
        data->size = fread(data->bytes, 1, DATA_MAX, file);
        fclose(file);
        bool zstd = kind >= ZSTD;
        for (size_t size = zstd ? 5 : 2; size < data->size; size++) {
            struct error error = {0};
            write_bytes(path, data->bytes, size);
            int code = read_all(1, &error);
            assert_true(code == 0 || code == AML_EINPUT);
            if (code == 0) {
                compare(1); /* cut between members */
            } else if (kind != GZIP_INDEX && kind != BGZIP) {
                assert_non_null(strstr(error.text, zstd ? ": truncated zstd data" : ": truncated gzip data"));
            }
        }
        for (size_t at = 4; at < data->size; at++) {
            struct error error = {0};
            data->bytes[at] ^= 0x10;
            write_bytes(path, data->bytes, data->size);
            data->bytes[at] ^= 0x10;
            int code = read_all(1, &error);
            assert_true(code == 0 || code == AML_EINPUT);
            if (code == 0) {
                compare(1);
            }
        }
    }
}

TEST(indexes_of_other_files) {
    char index[80];
    FREED struct data *data = memory_zeroed(1, sizeof *data);
    snprintf(index, sizeof index, "%s.gzi", path);
    make_file(GZIP_INDEX, "a\nb\nc\n", 6, 2);
    write_bytes(index, "12345", 5);
    struct error error = {0};
    assert_int_equal(read_all(1, &error), AML_EINPUT);
    assert_non_null(strstr(error.text, ".gzi: its size is not that of an index: expected"));
    static const uint64_t wrong[][2] = {{30, 0}, {30, 20}, {1000000, 0}, {0, 0}};
    for (size_t w = 0; w < sizeof wrong / sizeof wrong[0]; w++) {
        data->size = 0;
        add_number(data, 2, 8);
        for (size_t e = 0; e < 2; e++) {
            add_number(data, wrong[w][e], 8);
            add_number(data, e, 8);
        }
        write_bytes(index, data->bytes, data->size);
        error = (struct error){0};
        assert_int_equal(read_all(1, &error), AML_EINPUT);
    }
    data->size = 0;
    add_number(data, 1, 8);
    add_number(data, 25, 8);
    add_number(data, 1, 8);
    write_bytes(index, data->bytes, data->size);
    assert_refused(1, ": no gzip member begins at byte 25: expected one by the index beside the file (.gzi)");
    unlink(index);
}

TEST(other_formats_are_refused) {
    write_bytes(path, "BZh91AY&SY", 10);
    assert_refused(0, ": bzip2 data: expected plain text, gzip or zstd");
    write_bytes(path, "PK\x03\x04.", 5);
    assert_refused(1, ": a zip archive: expected plain text, gzip or zstd");
}

/* Files that are not read as text, such as numpy's, and files that do not have the format of their first bytes. */
TEST(whole_files_of_any_format) {
    static const char *const contents[] = {"\x93NUMPY\x01",       "PK\x03\x04.", "\x89HDF\r\n\x1a\n",
                                           "\x1f\x8b is no gzip", "BZh91AY&SY",  "<!DOCTYPE html>\n"};
    for (size_t c = 0; c < sizeof contents / sizeof contents[0]; c++) {
        struct error error = {0};
        CLOSED_BY(extents_close) struct extents extents;
        write_bytes(path, contents[c], strlen(contents[c]));
        assert_int_equal(extents_make(&extents, path, EXTENT_WHOLE, &error), 0);
        assert_int_equal(extents.count, 1);
        assert_true(extents.at[0].offset == 0 && extents.at[0].length == strlen(contents[c]));
    }
}

/* A file changes after it was listed, in its size or only in its time. */
TEST(files_that_change) {
    for (unsigned way = 0; way < 3; way++) {
        CLOSED_BY(extents_close) struct extents extents;
        struct error error = {0};
        struct text_input *input;
        char bytes[100];
        size_t got;
        write_bytes(path, "a\nb\nc\n", 6);
        assert_int_equal(extents_make(&extents, path, 3, &error), 0);
        if (way == 0) {
            /* opened before the change, read after it */
            assert_int_equal(input_lines_open(&input, &extents, 0, &error), 0);
        }
        const struct timespec times[2] = {{.tv_sec = 1}, {.tv_sec = 1}};
        if (way == 1) {
            write_bytes(path, "a\nb\nc\nd\n", 8);
        }
        assert_int_equal(utimensat(AT_FDCWD, path, times, 0), 0);
        if (way != 0) {
            assert_int_equal(input_lines_open(&input, &extents, 0, &error), 0);
        }
        assert_int_equal(text_input_read(input, bytes, sizeof bytes, &got, &error), AML_EINPUT);
        assert_string_equal(error.text + strlen(path),
                            ": changed while it was read: expected an input that stays as it is");
        text_input_close(input);
    }
}

int main(void) {
    return tests_run(files_open, files_close_one);
}
