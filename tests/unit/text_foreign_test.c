/* Tests of agileml/base/text_foreign, and of its use by text_input: the names of files in other formats, also within
 * compressed data, and texts that are not taken for them. */
#include "agileml/base/text_foreign.h"
#include "tests/files.h"
#include "tests/test.h"

#include "agileml/base/text_lines.h"

#include <sys/mman.h>
#include <unistd.h>
#include <zlib.h>
#include <zstd.h>

enum { ROOM = 4096 };

static const char path[] = "file";

struct text {
    const char *bytes;
    size_t size;
    const char *kind; /* part of the message; NULL: may be text */
};

#define TEXT(text, meaning)                                                                                            \
    { .bytes = (text), .size = sizeof(text) - 1, .kind = (meaning) }

static const struct text texts[] = {
    TEXT("version https://git-lfs.github.com/spec/v1\noid sha256:4d7a21\nsize 12345\n", "run 'git lfs pull'"),
    TEXT("/annex/objects/MD5E-s12--0a.csv\n", "git annex get"),
    TEXT("outs:\n- md5: a304afb96060aad90176268345e10355\n", "dvc pull"),
    TEXT("\xFD"
         "7zXZ\0\0\x04",
         "xz data"),
    TEXT("BZh91AY&SY\xD2", "bzip2 data"),
    TEXT("BZh9\x17\x72\x45\x38\x50\x90\0\0\0\0", "bzip2 data"),
    TEXT("PK\x03\x04\x14\0\0\0\x08\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\x05\0\0\0a.csv", "a zip archive"),
    TEXT("PK\x03\x04\x14\0\0\0\x08\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\x05\0\0\0a.npy", "an npz file"),
    TEXT("PK\x03\x04\x14\0\0\0\x08\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\x13\0\0\0[Content_Types].xml", "an Excel"),
    TEXT("PK\x03\x04", "a zip archive"),
    TEXT("7z\xBC\xAF\x27\x1C\0\x04", "a 7z archive"),
    TEXT("Rar!\x1A\x07\x01\0", "a rar archive"),
    TEXT("\x1F\x9D\x90", "Unix compress"),
    TEXT("\x04\x22\x4D\x18\x64", "lz4 data"),
    TEXT("\xFF\x06\0\0sNaPpY", "snappy data"),
    TEXT("\x78\x9C\x4B", "zlib data"),
    TEXT("PAR1\x15\x04\x15", "a Parquet file"),
    TEXT("\x93NUMPY\x01\0v\0{'descr': '<f8'", "an npy file"),
    TEXT("\x89HDF\r\n\x1A\n\0", "an HDF5 file"),
    TEXT("\x80\x02}q\x01", "a Python pickle"),
    TEXT("\x80\x05\x95\x10\0", "a Python pickle"),
    TEXT("(dp0\nS'a'\n", "a Python pickle"),
    TEXT("ARROW1\0\0", "an Arrow"),
    TEXT("FEA1\0\0\0\0", "a Feather file"),
    TEXT("ORC\x11\0\0", "an ORC file"),
    TEXT("Obj\x01\x04\x16", "an Avro file"),
    TEXT("SQLite format 3\0\x10", "an SQLite database"),
    TEXT("\xD0\xCF\x11\xE0\xA1\xB1\x1A\xE1", "an old Excel"),
    TEXT("MATLAB 5.0 MAT-file, Platform: GLNXA64", "a MATLAB file"),
    TEXT("RDX3\nX\n\0\0\0\x03", "an R data file"),
    TEXT("X\n\0\0\0\x03\0\x04\x02\x01", "an R data file"),
    TEXT("%PDF-1.7\n", "a PDF document"),
    TEXT("\xFF\xD8\xFF\xE0\0\x10JFIF", "a JPEG image"),
    TEXT("\x89PNG\r\n\x1A\n", "a PNG image"),
    TEXT("<!DOCTYPE html>\n<html>", "an HTML page"),
    TEXT("\xEF\xBB\xBF \r\n\t<HTML lang=en>", "an HTML page"),
    TEXT("<html>", "an HTML page"),
    TEXT("<?xml version=\"1.0\"?><Error><Code>AccessDenied</Code></Error>", "an XML document"),
    TEXT("\xFF\xFE"
         "1\0,\0",
         "UTF-16"),
    TEXT("\xFE\xFF\0"
         "1",
         "UTF-16"),
    TEXT("1\0,\0"
         "2\0,\0"
         "3\0\n\0",
         "UTF-16"),
    TEXT("\0"
         "1\0,\0"
         "2\0,\0"
         "3\0\n",
         "UTF-16"),
    TEXT("\xFF\xFE\0\0"
         "1\0\0\0",
         "UTF-32"),
    TEXT("1\0\0\0,\0\0\0"
         "2\0\0\0",
         "UTF-32"),
    TEXT("\0\0\0"
         "1\0\0\0,\0\0\0"
         "2",
         "UTF-32"),
    TEXT("1\x01"
         "2\x01"
         "3\n4\x01"
         "5\x01"
         "6\n",
         "the control character 1"),
    TEXT("1\0,\0\x30\x04\x31\x04,\0"
         "5\0\n\0",
         "UTF-16"), /* with Cyrillic letters */
    TEXT("x\x01\x4B\x02\x03\x04\x05\x06", "zlib data"),
    TEXT("x\x5E\x4B\x02\x03\x04\x05\x06", "zlib data"),
    TEXT("\x5D\0\0\x10\0\xFF\xFF", "lzma data"),
    TEXT("}q\0(X\x01", "a Python pickle"),
    TEXT("cnumpy.core.multiarray\n_reconstruct\n", "a Python pickle"),
    TEXT("404: Not Found", "a server's message"),
    TEXT("Entry not found\n", "a server's message"),
    TEXT("Access Denied.\r\n", "a server's message"),
    TEXT("Not Found in this text\n", NULL),
    TEXT("\x06\x1E\x02\x13\x7F\xA0\xB1\x04\x05", "binary data"),
    /* Text and idx files. */
    TEXT("", NULL),
    TEXT("1,2,3\n", NULL),
    TEXT("\xEF\xBB\xBFuser,item\n", NULL),
    TEXT("PAR1,PAR2,PAR3\n1,2,3\n", NULL),
    TEXT("ORCID,name\n", NULL),
    TEXT("ORC armies march\n", NULL),
    TEXT("BZh is how bzip2 begins\n", NULL),
    TEXT("FEA1 RIFF CDF\n", NULL),
    TEXT("version https://example.com/\n", NULL),
    TEXT("<DOC>\n<HEADLINE>", NULL),
    TEXT("<headline> of a text\n", NULL),
    TEXT("MATLAB is a language\n", NULL),
    TEXT("{\"Timestamp\": 1}\n", NULL), /* a form of prices */
    TEXT("caf\xE9,1\n", NULL),          /* Latin-1 */
    TEXT("\xE4\xB8\xAD\xE6\x96\x87\n", NULL),
    TEXT("a\x1B$B\x0C\n", NULL),
    TEXT("a\nb\0c\n", NULL), /* the line reader reports the zero byte */
    TEXT("\0\0\x08\x03\0\0\0\x02\0\0\0\x01\0\0\0\x02\x01\x02\x03\x04", NULL),
    TEXT("\0\0\x08\x01\0\0\0\x04\x01\x02\x03\x04", NULL),
};

TEST(kinds_of_bytes) {
    for (size_t t = 0; t < sizeof texts / sizeof texts[0]; t++) {
        const char *kind = text_foreign_bytes(texts[t].bytes, texts[t].size);
        if (texts[t].kind == NULL) {
            assert_null(kind);
        } else {
            if (kind == NULL || strstr(kind, texts[t].kind) == NULL) {
                fail_msg("expected %s, got %s", texts[t].kind, kind != NULL ? kind : "nothing");
            }
        }
    }
}

/* A tar may begin with any name, followed by zeros. */
TEST(tar_is_none_of_them) {
    char block[512] = "ORC/0000.jpg";
    assert_non_null(text_foreign_bytes(block, sizeof block));
    memcpy(block + 257, "ustar", 5);
    assert_null(text_foreign_bytes(block, sizeof block));
    memset(block, 0, sizeof block); /* a tar without entries */
    assert_null(text_foreign_bytes(block, sizeof block));
}

/* Bytes after the deciding bytes change nothing. */
TEST(only_the_beginning_decides) {
    char bytes[2 * TEXT_FOREIGN_BYTES];
    memset(bytes, 'x', TEXT_FOREIGN_BYTES);
    memset(bytes + TEXT_FOREIGN_BYTES, 1, TEXT_FOREIGN_BYTES);
    assert_null(text_foreign_bytes(bytes, sizeof bytes));
}

/* Readers of lines refuse tar and idx files, too. */
TEST(containers_for_readers_of_lines) {
    static const char idx[] = "\0\0\x08\x01\0\0\0\x04\x01\x02\n\x04";
    char tar[1024] = "ratings.csv";
    memcpy(tar + 257, "ustar", 5);
    assert_non_null(strstr(text_foreign_container(tar, sizeof tar), "a tar archive: expected a text file"));
    assert_non_null(strstr(text_foreign_container(idx, sizeof idx), "idx data (as MNIST's): expected text"));
    assert_null(text_foreign_container("1,2,3\n", 6));
    for (unsigned t = 0; t < 2; t++) {
        CLOSED_BY(text_lines_close) struct text_lines lines;
        struct error error = {0};
        char *line;
        size_t length;
        write_bytes(path, t == 0 ? tar : idx, t == 0 ? sizeof tar : sizeof idx);
        assert_int_equal(text_lines_open(&lines, path, 1, &error), 0);
        assert_int_equal(text_lines_next(&lines, &line, &length, &error), AML_EINPUT);
        assert_non_null(strstr(error.text, t == 0 ? ": a tar archive" : ": idx data"));
    }
}

static void assert_foreign(const void *bytes, size_t size, const char *kind) {
    struct text_input *input;
    struct error error = {0};
    char text[TEXT_FORM_BYTES];
    size_t got;
    write_bytes(path, bytes, size);
    int code = text_input_open(&input, path, &error);
    code = code == 0 ? text_input_read(input, text, sizeof text, &got, &error) : code;
    assert_int_equal(code, kind != NULL ? AML_EINPUT : 0);
    if (kind != NULL) {
        assert_memory_equal(error.text, path, strlen(path));
        assert_non_null(strstr(error.text, kind));
    }
    text_input_close(input);
}

static size_t in_gzip(char made[ROOM], const char *bytes, size_t size) {
    z_stream stream = {0};
    assert_int_equal(deflateInit2(&stream, 9, Z_DEFLATED, 15 + 16, 8, Z_DEFAULT_STRATEGY), Z_OK);
    stream.next_in = (z_const Bytef *)bytes;
    stream.avail_in = (uInt)size;
    stream.next_out = (Bytef *)made;
    stream.avail_out = ROOM;
    assert_int_equal(deflate(&stream, Z_FINISH), Z_STREAM_END);
    size_t total = stream.total_out;
    deflateEnd(&stream);
    return total;
}

static size_t in_zstd(char made[ROOM], const char *bytes, size_t size) {
    size_t total = ZSTD_compress(made, ROOM, bytes, size, 1);
    assert_false(ZSTD_isError(total));
    return total;
}

/* Each kind as a plain file and as a compressed file. */
TEST(files) {
    char made[ROOM];
    for (size_t t = 0; t < sizeof texts / sizeof texts[0]; t++) {
        const struct text *text = &texts[t];
        assert_foreign(text->bytes, text->size, text->kind);
        assert_foreign(made, in_gzip(made, text->bytes, text->size), text->kind);
        assert_foreign(made, in_zstd(made, text->bytes, text->size), text->kind);
    }
}

TEST(compressed_twice) {
    char once[ROOM];
    char twice[ROOM];
    size_t size = in_gzip(once, "1,2,3\n", 6);
    assert_foreign(twice, in_gzip(twice, once, size), "compressed twice");
    assert_foreign(twice, in_zstd(twice, once, size), "compressed twice");
}

TEST(kinds_of_lines) {
    static const struct {
        const char *line, *kind; /* NULL: no known kind */
    } lines[] = {
        {"%%MatrixMarket matrix coordinate real general", "a MatrixMarket matrix"},
        {"%%matrixmarket MATRIX array", "a MatrixMarket matrix"},
        {"1 |ns a:1 b:2", "Vowpal Wabbit"},
        {"5 |user 28 |item 4", "Vowpal Wabbit"},
        {"| price:.23 sqft:.25", "Vowpal Wabbit"},
        {"|a waax:4 wabx:3", "Vowpal Wabbit"},
        {"-1 2.0 0.5 'tag|ns a b c:3 |other d", "Vowpal Wabbit"},
        {"doc0 |text waax:4 wabx:3 |author smith jones", "Vowpal Wabbit"},
        {"1 | a b c", "Vowpal Wabbit"},
        {"| user | item | rating |", "a table drawn with bars"},
        {"1|24|M|technician|85711", "fields separated by '|'"},
        {"196|242|3", "fields separated by '|'"},
        {"1|Toy Story (1995)|01-Jan-1995||http://us.imdb.com/M/title-exact?Toy%20Story", "fields separated by '|'"},
        {" user_id | item_id ", "a table drawn with bars"},
        {"+---------+---------+", "a table drawn with lines"},
        {"__label__pos a text", "fastText"},
        {"1 0:5:1 1:7:0.5", "libffm"},
        {"-1 0:0:1 3:12:-1e-3 4:1:1", "libffm"},
        {"sep=;", "a line for Excel"},
        {"1 12:30:45 a time", NULL},
        {"user|item|rating", "fields separated by '|'"},
        {"{\"user\": 1, \"item\": 2}", "JSON"},
        {" {", "JSON"},
        {"[", "JSON"},
        {"[[1, 2, 3],", "JSON"},
        {"[1, 2.5, -3e4]", "JSON"},
        {"[{\"a\":1}]", "JSON"},
        {"@RELATION iris", "ARFF"},
        {"% 1. Title: Iris Plants Database", "a comment that begins with '%'"},
        {"%", "a comment that begins with '%'"},
        {"-- MySQL dump 10.13  Distrib 8.0", "an SQL dump"},
        {"--", "an SQL dump"},
        {"INSERT INTO ratings VALUES (1,2,3);", "an SQL dump"},
        {"create table t (a int);", "an SQL dump"},
        {"<ratings>", "HTML or XML"},
        {"", NULL},
        {"1,2,3", NULL},
        {"196\t242\t3\t881250949", NULL},
        {"1 3:1 5:0.5", NULL},
        {"1::1193::5::978300760", NULL},
        {"[1] Smith, J. A text that begins with a bracket", NULL},
        {"{curly} words", NULL},
        {"the number of words |x| is small, as of others |y|", NULL},
        {"the words (one|two|three)", NULL},
        {"1,a|b,c|d", NULL},
        {"movieId,title,genres", NULL},
        {"Apple | pie", NULL},
        {"5 % of all", NULL},
        {"%5 of all", NULL},
        {"-- she said", NULL},
        {"< 5", NULL},
        {"a b", NULL},
    };
    for (size_t l = 0; l < sizeof lines / sizeof lines[0]; l++) {
        const char *kind = text_foreign_line(lines[l].line, lines[l].line + strlen(lines[l].line));
        if (lines[l].kind == NULL) {
            assert_null(kind);
        } else {
            assert_non_null(kind);
            assert_non_null(strstr(kind, lines[l].kind));
        }
    }
}

TEST(lines_of_documents) {
    static const char *const taken[] = {"%%MatrixMarket matrix coordinate real general", "|a b:2", "1|24|M", "a b"};
    static const char *const refused[] = {"{\"text\": \"a b\"}", "<DOC>", "__label__x a b", "-- MySQL dump"};
    for (size_t l = 0; l < 4; l++) {
        assert_null(text_foreign_document(taken[l], taken[l] + strlen(taken[l])));
        assert_non_null(text_foreign_document(refused[l], refused[l] + strlen(refused[l])));
    }
}

int main(void) {
    return tests_run(files_open, files_close);
}
