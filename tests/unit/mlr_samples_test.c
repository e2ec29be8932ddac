/* mlr's readers: every format, plain and gzip, and the errors of wrong files; surveys, labels, numbers and scales. */
#include "apps/samples/number.h"
#include "apps/samples/samples.h"
#include "apps/samples/scale.h"
#include "tests/files.h"
#include "tests/test.h"

#include <math.h>
#include <sys/mman.h>
#include <unistd.h>
#include <zlib.h>

/* ---- Files ---- */

static const char *gzip_of(const char *text, size_t size, size_t cut) {
    unsigned char packed[4096];
    z_stream stream = {0};
    assert_int_equal(deflateInit2(&stream, 9, Z_DEFLATED, 15 + 16, 8, Z_DEFAULT_STRATEGY), Z_OK);
    stream.next_in = (unsigned char *)(uintptr_t)text;
    stream.avail_in = (unsigned)size;
    stream.next_out = packed;
    stream.avail_out = sizeof packed;
    assert_int_equal(deflate(&stream, Z_FINISH), Z_STREAM_END);
    size_t length = sizeof packed - stream.avail_out;
    deflateEnd(&stream);
    return write_bytes("samples.gz", packed, length - cut);
}

/* Collects read samples as text: `label f:v f:v;`, with features from 0. */
struct record {
    char text[8192];
    size_t used;
};

static int record_sample(void *context, const struct sample *sample, struct error *error) {
    struct record *record = context;
    char *to = record->text;
    size_t room = sizeof record->text;
    record->used +=
        (size_t)snprintf(to + record->used, room - record->used, "%s", sample->labelled ? sample->label.text : "");
    for (uint32_t i = 0; i < sample->count; i++) {
        record->used += (size_t)snprintf(to + record->used, room - record->used, " %u:%g",
                                         sample->features != NULL ? sample->features[i] : i, (double)sample->values[i]);
    }
    record->used += (size_t)snprintf(to + record->used, room - record->used, ";");
    assert_true(record->used < room);
    return 0;
}

static void expect_read(const struct samples_file *how, const char *text, const char *expected) {
    for (unsigned gzip = 0; gzip < 2; gzip++) {
        const char *made = gzip ? gzip_of(text, strlen(text), 0) : write_text("samples", text);
        struct samples_file file = *how;
        struct record record = {.used = 0};
        struct error error = {0};
        file.path = made;
        int result = samples_read(&file, record_sample, &record, &error);
        if (result != 0) {
            fail_msg("'%s': %s", text, error.text);
        }
        assert_string_equal(record.text, expected);
    }
}

/* The file is refused, with a line that begins with its path and contains `message`. */
static void expect_refused_bytes(const struct samples_file *how, const void *bytes, size_t size, const char *message) {
    const char *made = write_bytes("samples", bytes, size);
    struct samples_file file = *how;
    struct record record = {.used = 0};
    struct error error = {0};
    file.path = made;
    assert_int_equal(samples_read(&file, record_sample, &record, &error), AML_EINPUT);
    if (strstr(error.text, message) == NULL || strncmp(error.text, made, strlen(made)) != 0) {
        fail_msg("got '%s', expected '...%s...'", error.text, message);
    }
}

static void expect_refused(const struct samples_file *how, const char *text, const char *message) {
    expect_refused_bytes(how, text, strlen(text), message);
}

/* ---- Text ---- */

static int stop_silently(void *context, const struct sample *sample, struct error *error) {
    return sample->number == 1 ? 17 : 0;
}

static const struct samples_file ANY = {.index_base = 1};

TEST(libsvm) {
    expect_read(&ANY, "3 1:0.5 4:-2e1\n1 2:1\n", "3 0:0.5 3:-20;1 1:1;");
    expect_read(&ANY, "# comment\n\n+1 1:1 # and more\r\n-1 \t 2:3  3:4 \r\n7", "+1 0:1;-1 1:3 2:4;7;");
    const struct samples_file zero = {.format = SAMPLES_LIBSVM, .index_base = 0};
    expect_read(&zero, "spam 0:1 16777215:2\n", "spam 0:1 16777215:2;");
    expect_refused(&ANY, "1 1:1\n1 0:1\n", ":2: expected indexes from 1 on (see --index-base), got '0:1'");
    expect_read(&zero, "1 2147483647:1\n", "1 2147483647:1;");
    expect_refused(&zero, "1 2147483648:1\n",
                   ":1: expected index:value with an index up to 2147483647, got '2147483648:1'");
    expect_refused(&ANY, "1 1:1\n1 99999999999999999999:1\n",
                   ":2: expected index:value with an index up to 2147483647, got '99999999999999999999:1'");
    expect_refused(&ANY, "1 1:1 1:2\n", ":1: expected indexes in ascending order, got '1:2'");
    expect_refused(&ANY, "1 2:1 1:2\n", ":1: expected indexes in ascending order, got '1:2'");
    expect_refused(&ANY, "1 2:1 3\n", ":1: expected index:value with an index up to 2147483647, got '3'");
    expect_refused(&ANY, "1 2:1 -3:1\n", ":1: expected index:value with an index up to 2147483647, got '-3:1'");
    expect_refused(&ANY, "1 2:\n", ":1: expected a finite number behind the index, got '2:'");
    expect_refused(&ANY, "1 2:nan\n", ":1: expected a finite number behind the index, got '2:nan'");
    expect_refused(&ANY, "1 2:1e39\n", ":1: expected a finite number behind the index, got '2:1e39'");
    expect_refused(&ANY, "1 2:1x\n", ":1: expected a finite number behind the index, got '2:1x'");
    expect_refused(&ANY, "1 2:1\n1,2 2:1\n", ":2: expected one label, then index:value, got '1,2'");
    expect_refused(&ANY, "1 2:1\n2:1 3:1\n", ":2: expected one label, then index:value, got '2:1'");
    expect_read(&ANY, "1 qid:3 2:1\n2 qid:17\n", "1 1:1;2;");
    expect_refused(&ANY, "1 qid:x 2:1\n", ":1: expected index:value with an index up to 2147483647, got 'qid:x'");
    expect_refused(&ANY, "1 2:1 qid:3\n", ":1: expected index:value with an index up to 2147483647, got 'qid:3'");
    expect_refused(&ANY, "1:0.5 1:2\n",
                   ":1: expected one label, then index:value, got '1:0.5': the label is missing, or");
    expect_refused(&ANY, "1,3 1:2\n", ":1: expected one label, then index:value, got '1,3': of several labels");
}

/* Indexes without values are read as libsvm if that is requested, or if they can be nothing else. */
TEST(indexes_alone) {
    const struct samples_file libsvm = {.format = SAMPLES_LIBSVM, .index_base = 1};
    expect_read(&libsvm, "1 1 3\n2 2 # text\n3\n1 2:0.5\n", "1 0:1 2:1;2 1:1;3;1 1:0.5;");
    expect_refused(&libsvm, "1 1 3:2\n", ":1: expected index:value with an index up to 2147483647, got '3:2'");
    expect_refused(&libsvm, "1 3 1\n", ":1: expected indexes in ascending order, got '1'");
    expect_read(&ANY, "1 1 2 3\n2 2 5\n", "1 0:1 1:1 2:1;2 1:1 4:1;");
    expect_read(&ANY, "a 1 2 9\nb 2 5 7\na 1 3 4\nb 2 5 6\n",
                "a 0:1 1:1 8:1;b 1:1 4:1 6:1;a 0:1 2:1 3:1;b 1:1 4:1 5:1;");
    expect_read(&ANY, "1 5 1000 2147483647\n2 9 10 2000000000\n1 5 6 7\n2 8 9 10\n",
                "1 4:1 999:1 2147483646:1;2 8:1 9:1 1999999999:1;1 4:1 5:1 6:1;2 7:1 8:1 9:1;");
    expect_read(&ANY, "1 1990 1995 2010\n2 1991 1992 1993\n1 1980 1999 2001\n2 1970 1971 1999\n",
                "1 0:1990 1:1995 2:2010;2 0:1991 1:1992 2:1993;1 0:1980 1:1999 2:2001;2 0:1970 1:1971 2:1999;");
    expect_read(&ANY,
                "1 1500000000 1500000100 1500000200\n2 1500000000 1500000300 1500000400\n1 1500000000 1500000100 "
                "1600000000\n2 1500000000 1500000001 1500000002\n",
                "1 0:1.5e+09 1:1.5e+09 2:1.5e+09;2 0:1.5e+09 1:1.5e+09 2:1.5e+09;1 0:1.5e+09 1:1.5e+09 2:1.6e+09;2 "
                "0:1.5e+09 1:1.5e+09 2:1.5e+09;");
    expect_read(&ANY, "1 1 2\n2 2 5\n1 3 4\n", "1 0:1 1:2;2 0:2 1:5;1 0:3 1:4;");
    expect_refused(&ANY, "1 1 2 3\n2 2 1\n", ":2: expected 4 fields as in the first line, got 3: '2 2 1'");
}

TEST(columns) {
    expect_read(&ANY, "2 0.5 1\n1 2\t-3 \n", "2 0:0.5 1:1;1 0:2 1:-3;");
    expect_read(&ANY, "2,0.5,1\r\n\r\n1, 2 ,-3", "2 0:0.5 1:1;1 0:2 1:-3;");
    expect_read(&ANY, "class,width,height\n2,0.5,1\n", "2 0:0.5 1:1;");
    const struct samples_file last = {.label_column = "-1"};
    expect_read(&last, "w,h,kind\n1,2,Iris setosa\n3,4,x\n", "Iris setosa 0:1 1:2;x 0:3 1:4;");
    const struct samples_file second = {.label_column = "2", .format = SAMPLES_TEXT};
    expect_read(&second, "1 b 2\n3 a 4\n", "b 0:1 1:2;a 0:3 1:4;");
    expect_refused(&ANY, "1,2,3\n1,2\n", ":2: expected 3 fields as in the first line, got 2: '1,2'");
    expect_refused(&ANY, "1,2,3\n1,2,3,4\n", ":2: expected 3 fields as in the first line, got 4: '1,2,3,4'");
    expect_refused(&ANY, "1 3 2\n1 2\n", ":2: expected 3 fields as in the first line, got 2: '1 2'");
    expect_refused(&ANY, "1,2,3\n1,,3\n", ":2: column 2: expected a finite number, got ''");
    /* no header, as 2 is a number */
    expect_refused(&ANY, "1,2,x\n", ":1: column 3: expected a finite number, got 'x'");
    expect_refused(&ANY, "1,2,3\n1,2,inf\n", ":2: column 3: expected a finite number, got 'inf'");
    expect_refused(&ANY, "1,2\n,2\n",
                   ":2: the label is missing, got '': fill it in, or leave such samples out by --missing-labels skip");
    const struct samples_file fourth = {.label_column = "4"};
    expect_refused(&fourth, "1,2,3\n", ":1: expected a label in --label-column and features, got 3 fields");
    const struct samples_file before = {.label_column = "-4"};
    expect_refused(&before, "1,2,3\n", ":1: expected a label in --label-column and features, got 3 fields");
    const struct samples_file csv = {.format = SAMPLES_CSV};
    expect_refused(&csv, "1 2 3\n", ":1: expected a label and features, got 1 fields");
}

TEST(quoted_fields_and_semicolons) {
    expect_read(&ANY, "\"class\",\"width\",\"height\"\r\n\"2\",\"0.5\",1\r\n1, \"2\" ,-3 \r\n",
                "2 0:0.5 1:1;1 0:2 1:-3;");
    expect_read(&ANY, "2;0.5;1\n1; 2 ;-3", "2 0:0.5 1:1;1 0:2 1:-3;");
    expect_read(&ANY, "\"kind; of\",width\n\"a, \"\"b\"\"\",1\n\" c \",2\n d e ,3\n", "a, \"b\" 0:1; c  0:2;d e 0:3;");
    expect_read(&ANY, "kind;\"w, h\"\n\"a:b c:d\";1\n", "a:b c:d 0:1;");
    expect_read(&ANY, "\"a b\" 1 \"2\"\nc 3\t4 \n", "a b 0:1 1:2;c 0:3 1:4;");
    expect_refused(&ANY, "1,2,3\n1,\"2,3\n",
                   ":2: expected a quoted field that ends on its line, then a separator, got '\"2,3'");
    expect_refused(&ANY, "1,2,3\n1,\"2\"x,3\n",
                   ":2: expected a quoted field that ends on its line, then a separator, got '\"2\"x,3'");
    expect_refused(&ANY, "1,2,3\n1,\"\",3\n", ":2: column 2: expected a finite number, got ''");
    expect_refused(&ANY, "1,2,3\n\"\",2,3\n",
                   ":2: the label is missing, got '': fill it in, or leave such samples out by --missing-labels skip");
    expect_refused(&ANY, "1;2;3\n1;2,5;3\n", ":2: column 2: expected a finite number, got '2,5': write decimal points");
}

/* Line ends, byte order marks and blanks as other systems write them. expect_read reads each file as gzip too. */
TEST(line_ends_marks_and_blanks) {
    static const char *const ends[] = {"\n", "\r\n", "\r"};
    expect_read(&ANY,
                "\xEF\xBB\xBF"
                "3 1:0.5 4:-2e1 \r1 2:1\t\r\r",
                "3 0:0.5 3:-20;1 1:1;");
    expect_read(&ANY,
                "\xEF\xBB\xBF"
                "class,width\r2,0.5\r\n1,2\n3,4",
                "2 0:0.5;1 0:2;3 0:4;");
    expect_read(&ANY, "2 0.5 1 \r1 2\t-3 ", "2 0:0.5 1:1;1 0:2 1:-3;");
    for (size_t e = 0; e < sizeof ends / sizeof ends[0]; e++) {
        char text[64];
        snprintf(text, sizeof text, "class,width%s1,2%s%s1,2%s1,x%s1,3", ends[e], ends[e], ends[e], ends[e], ends[e]);
        expect_refused(&ANY, text, ":5: column 2 ('width'): expected a finite number, got 'x'");
    }
    expect_refused(&ANY, "PK\x03\x04...", ": a zip archive: expected plain text, gzip or zstd ('unzip' unpacks it)");
    expect_refused(&ANY, "\xFE\xFF", ": text in UTF-16: expected UTF-8 (iconv -f UTF-16 -t UTF-8 converts it)");
}

TEST(samples_without_labels) {
    const struct samples_file how = {.index_base = 1, .label_optional = true, .features = 3};
    expect_read(&how, "1:0.5 4:-2e1\n2:1 # text\n# more\n1:0\n\n", " 0:0.5 3:-20; 1:1; 0:0;");
    expect_read(&how, "7 1:0.5\n8\n", "7 0:0.5;8;");
    expect_read(&how, "a,b,c\r\n1,2,3\r\n4,\"5\",6\r\n", " 0:1 1:2 2:3; 0:4 1:5 2:6;");
    expect_read(&how, "y;a;b;c\n7;1;2;3\n", "7 0:1 1:2 2:3;");
    expect_read(&how, "1 2 3\n4 5 6\n", " 0:1 1:2 2:3; 0:4 1:5 2:6;");
    expect_refused(&how, "1,2,3\n7,1,2,3\n", ":2: expected 3 fields as in the first line, got 4: '7,1,2,3'");
    expect_refused(&how, "1,2\n", ":1: expected 3 features, and perhaps a label, got 2 fields");
    expect_refused(&how, "1,2,3,4,5\n", ":1: expected 3 features, and perhaps a label, got 5 fields");
    expect_refused(&how, "1:2\n7 1:2\n", ":2: expected index:value without a label, as in the first line, got '7'");
    expect_refused(&how, "7 1:2\n1:2\n", ":2: expected one label, then index:value, got '1:2'");
    expect_refused(
        &how, "1:2\n\n \n1:3\n",
        ":2: an empty line between samples without labels: expected index:value (1:0 for a sample of zeros)");
    const struct samples_file third = {.label_optional = true, .features = 3, .label_column = "3"};
    expect_read(&third, "1,2,3\n", "3 0:1 1:2;");
    const struct samples_file one = {.label_optional = true, .features = 1};
    expect_read(&one, "5.5\n-1\n", " 0:5.5; 0:-1;");
    static const char images[] = "\0\0\x08\x03\0\0\0\x02\0\0\0\x01\0\0\0\x02\x01\x02\xff\0";
    const char *made = write_bytes("samples", images, sizeof images - 1);
    const struct samples_file idx = {.path = made, .label_optional = true, .features = 2};
    struct record record = {.used = 0};
    struct error error = {0};
    assert_int_equal(samples_read(&idx, record_sample, &record, &error), 0);
    assert_string_equal(record.text, " 0:1 1:2; 0:255 1:0;");
}

/* ---- Columns by name ---- */

/* A table is read as `samples`, and its columns are described by `said`. */
static void expect_columns(const struct samples_file *how, const char *text, const char *samples, const char *said) {
    expect_read(how, text, samples);
    const char *made = write_text("samples", text);
    struct samples_file file = *how;
    CLOSED_BY(samples_head_close) struct samples_head head;
    struct error error = {0};
    file.path = made;
    file.label_optional = false;
    assert_int_equal(samples_read_head(&file, &head, &error), 0);
    assert_string_equal(head.columns.said, said);
}

TEST(headers) {
    expect_columns(&ANY, "label,0,1,2\n7,2.5,3.5,4.5\n8,1,2,3\n", "7 0:2.5 1:3.5 2:4.5;8 0:1 1:2 2:3;",
                   "line 1 is a header, the label is column 1 ('label')");
    expect_columns(&ANY, "width,height,Species\n1,2,a\n3,4,b\n", "a 0:1 1:2;b 0:3 1:4;",
                   "line 1 is a header, the label is column 3 ('Species')");
    expect_columns(&ANY, "x,y,Target Class\n1,2,a\n3,4,b\n", "a 0:1 1:2;b 0:3 1:4;",
                   "line 1 is a header, the label is column 3 ('Target Class')");
    expect_columns(&ANY, "kind,w,h\n1,2,3\n", "1 0:2 1:3;", "line 1 is a header, the label is column 1 ('kind')");
    expect_columns(&ANY, "# w,h,label\n1,2,3\n", "3 0:1 1:2;", "line 1 is a header, the label is column 3 ('label')");
    expect_columns(&ANY, "# made by hand\n1,2,3\n", "1 0:2 1:3;", "the label is column 1");
    expect_columns(&ANY, "sepal length\tpetal width\tclass\n1\t2\tb\n3\t4\tc\n", "b 0:1 1:2;c 0:3 1:4;",
                   "line 1 is a header, the label is column 3 ('class')");
    expect_columns(&ANY, "\"0\",\"1\",\"2\"\n7,8,9\n", "7 0:8 1:9;", "line 1 is a header, the label is column 1 ('0')");
    expect_columns(&ANY, "3,2,setosa,virginica\n1,2,0\n3,4,1\n5,6,0\n", "0 0:1 1:2;1 0:3 1:4;0 0:5 1:6;",
                   "line 1 counts samples and features and names the classes, the label is column 3");
    expect_columns(&ANY, "5.1,3.5,Iris-setosa\n7.0,3.2,Iris-versicolor\n",
                   "Iris-setosa 0:5.1 1:3.5;Iris-versicolor 0:7 1:3.2;", "the label is column 3");
    /* First lines that are samples, not headers. */
    expect_columns(&ANY, "setosa,5.1,3.5\nvirginica,1,2\n", "setosa 0:5.1 1:3.5;virginica 0:1 1:2;",
                   "the label is column 1");
    expect_columns(&ANY, "y,5.1,3.5\nn,1,2\n", "y 0:5.1 1:3.5;n 0:1 1:2;", "the label is column 1");
    expect_columns(&ANY, "0,1,2,3\n1,2,3,4\n", "0 0:1 1:2 2:3;1 0:2 1:3 2:4;", "the label is column 1");
    expect_refused(&ANY, "5,red,blue\n1,2,3\n", ":1: neither a header nor a sample: some fields are names ('blue')");
    expect_refused(
        &ANY, "1,2,red\n0,3,blue\n",
        ":1: column 3: expected a finite number, got 'red': mlr and net take numbers; if this column is the label");
    expect_refused(&ANY, "class,w,colour\n1,2,red\n", ":2: column 3 ('colour'): expected a finite number, got 'red'");
    expect_refused(&ANY, "class,w\n1,NA\n", ":2: column 2 ('w'): expected a finite number, got 'NA': a missing value");
    expect_refused(
        &ANY, "w,class,target\n1,2,3\n",
        ":1: columns 2 ('class') and 3 ('target') could both be the label: choose one by --label-column NAME");
    const struct samples_file target = {.label_column = "target"};
    expect_columns(&target, "w,class,target\n1,2,a\n", "a 0:1 1:2;",
                   "line 1 is a header, the label is column 3 ('target')");
    const struct samples_file missing = {.label_column = "goal"};
    expect_refused(&missing, "w,class,target\n1,2,3\n",
                   ":1: --label-column goal: no such name in the header: w, class, target");
    expect_refused(&missing, "1,2,3\n", ":1: --label-column goal: expected a header with that name");
    const struct samples_file second = {.label_column = "2"};
    expect_columns(&second, "w,h,label\n1,a,3\n", "a 0:1 1:3;", "line 1 is a header, the label is column 2 ('h')");
    expect_columns(&ANY, "label,a,b\n1,True,false\n", "1 0:1 1:0;",
                   "line 1 is a header, the label is column 1 ('label')");
}

/* Tables without names, in which the first or the last column is the label. */
TEST(labels_by_their_values) {
    static const struct {
        /* formats of the first and last column, for the line's number and for 3 different numbers */
        const char *first, *last;
        const char *label; /* label of line 4; NULL: the table is refused */
    } tables[] = {{"%u.5", "%u", "1"}, {"%u", "%u.5", "4"},    {"%u", "%u", NULL}, {"%u.25", "class %u", "class 1"},
                  {"c%u", "%u", "c4"}, {"%u.5", "%u.5", "4.5"}};
    for (size_t t = 0; t < sizeof tables / sizeof tables[0]; t++) {
        char text[4096] = "";
        for (unsigned l = 0; l < 60; l++) {
            size_t used = strlen(text);
            used += (size_t)snprintf(text + used, sizeof text - used, tables[t].first, l);
            used += (size_t)snprintf(text + used, sizeof text - used, ",7.5,");
            used += (size_t)snprintf(text + used, sizeof text - used, tables[t].last, l % 3);
            snprintf(text + used, sizeof text - used, "\n");
        }
        if (tables[t].label == NULL) {
            expect_refused(&ANY, text, ":1: columns 1 and 3 could both be the label");
            continue;
        }
        const char *made = write_text("samples", text);
        struct samples_file file = {.path = made};
        struct record record = {.used = 0};
        struct error error = {0};
        assert_int_equal(samples_read(&file, record_sample, &record, &error), 0);
        char *line = record.text;
        for (unsigned l = 0; l < 4; l++) {
            line = strchr(line, ';') + 1;
        }
        *strstr(line, " 0:") = '\0';
        assert_string_equal(line, tables[t].label);
    }
}

/* If both the first and the last column have few different whole numbers, either column may be the label. */
TEST(labels_by_few_values) {
    static const struct {
        unsigned first, last; /* number of different values in the column: 0, 1, 2 ... */
        const char *first_form, *last_form;
        int label; /* the label's column; 0: the table is refused */
    } tables[] = {{2, 2, "%u", "%u", 0},   {5, 2, "%u", "%u", 0},      {2, 5, "%u", "%u", 0},
                  {1, 4, "%u", "%u", 0},   {4, 1, "%u", "%u", 1},      {4, 30, "%u", "%u", 1},
                  {4, 5, "%u", "%u0", 1},  {6, 2, "%u.5", "%u", 3},    {6, 2, "%u.5", "%u0", 3},
                  {2, 6, "%u", "%u.5", 1}, {3, 2, "class%u", "%u", 1}, {3, 59, "%u", "%u", 1}};
    for (size_t t = 0; t < sizeof tables / sizeof tables[0]; t++) {
        char text[4096] = "";
        size_t used = 0;
        for (unsigned l = 0; l < 60; l++) {
            used += (size_t)snprintf(text + used, sizeof text - used, tables[t].first_form, l % tables[t].first);
            used += (size_t)snprintf(text + used, sizeof text - used, ",7.5,");
            used += (size_t)snprintf(text + used, sizeof text - used, tables[t].last_form, l % tables[t].last);
            used += (size_t)snprintf(text + used, sizeof text - used, "\n");
        }
        if (tables[t].label == 0) {
            expect_refused(&ANY, text, ":1: columns 1 and 3 could both be the label");
            const struct samples_file predicted = {.label_optional = true, .features = 2};
            expect_refused(&predicted, text, ":1: columns 1 and 3 could both be the label");
            struct samples_file chosen = {.label_column = "-1"};
            const char *made = write_bytes("samples", text, used);
            struct error error = {0};
            chosen.path = made;
            assert_int_equal(samples_read(&chosen, stop_silently, NULL, &error), 17);
            continue;
        }
        const char *made = write_bytes("samples", text, used);
        struct samples_file file = {.path = made};
        CLOSED_BY(samples_survey_close) struct samples_survey survey;
        struct error error = {0};
        assert_int_equal(samples_survey(&file, &(struct samples_wanted){0}, &survey, &error), 0);
        assert_int_equal(survey.columns.label + 1, tables[t].label);
    }
}

TEST(columns_that_are_no_features) {
    expect_columns(
        &ANY, ",w,h,label\n0,1,2,a\n1,3,4,b\n", "a 0:1 1:2;b 0:3 1:4;",
        "line 1 is a header, column 1 ('') numbers the rows and is left out, the label is column 4 ('label')");
    expect_columns(
        &ANY, "Unnamed: 0,kind,w\n0,1,2\n1,3,4\n", "1 0:2;3 0:4;",
        "line 1 is a header, column 1 ('Unnamed: 0') numbers the rows and is left out, the label is column 2 "
        "('kind')");
    expect_columns(
        &ANY, "Id,w,h,Species\n1,1,2,a\n2,3,4,b\n", "a 0:1 1:2;b 0:3 1:4;",
        "line 1 is a header, column 1 ('Id') numbers the rows and is left out, the label is column 4 ('Species')");
    expect_columns(
        &ANY, "PersonId,class,w\n7,a,1\n8,b,1\n9,a,2\n10,b,1\n11,a,1\n", "a 0:1;b 0:1;a 0:2;b 0:1;a 0:1;",
        "line 1 is a header, column 1 ('PersonId') numbers the rows and is left out, the label is column 2 ('class')");
    expect_columns(&ANY, "id,w,class\n5,1,2\n5,3,4\n", "2 0:5 1:1;4 0:5 1:3;",
                   "line 1 is a header, the label is column 3 ('class')"); /* the ids repeat, so they are a feature */
    expect_columns(&ANY, "\"w\" \"h\" \"class\"\n\"1\" 1 2 \"a\"\n\"2\" 3 4 \"b\"\n", "a 0:1 1:2;b 0:3 1:4;",
                   "line 1 is a header, column 1 numbers the rows and is left out, the label is column 4 ('class')");
    expect_columns(&ANY, "w,h,class\n7,1,2,a\n3,3,4,b\n12,5,6,a\n", "a 0:1 1:2;b 0:3 1:4;a 0:5 1:6;",
                   "line 1 is a header, column 1 numbers the rows and is left out, the label is column 4 ('class')");
    expect_columns(&ANY, "w h class\nMazda 1 2 a\nDatsun 3 4 b\n", "a 0:1 1:2;b 0:3 1:4;",
                   "line 1 is a header, column 1 numbers the rows and is left out, the label is column 4 ('class')");
    /* The last column may be the one without a name: a first column with repeated or fractional values holds no row
     * names. */
    expect_refused(&ANY, "class,w,h\n1,2,3,4\n0,2,3,4\n1,2,3,4\n", ":2: expected 3 fields as in the first line, got 4");
    expect_refused(&ANY, "w,h,class\n1.5,2,0,4\n0.5,2,1,4\n", ":2: expected 3 fields as in the first line, got 4");
    expect_refused(&ANY, "kind,w,h\na,2,3,4\nb,2,3,4\na,5,6,7\n", ":2: expected 3 fields as in the first line, got 4");
    expect_columns(&ANY, ",0,1,2\n0,1,2,3\n1,5,6,7\n", "1 0:2 1:3;5 0:6 1:7;",
                   "line 1 is a header, column 1 ('') numbers the rows and is left out, the label is column 2 ('0')");
    /* A separator after the last value. */
    expect_columns(&ANY, "label,a,b,\n0,1,2,\n1,3,4,\n", "0 0:1 1:2;1 0:3 1:4;",
                   "line 1 is a header, the last column is empty, the label is column 1 ('label')");
    expect_columns(&ANY, "label,a,b\n0,1,2,\n1,3,4,\n", "0 0:1 1:2;1 0:3 1:4;",
                   "line 1 is a header, the last column is empty, the label is column 1 ('label')");
    expect_columns(&ANY, "0;1;2;\n1;3;4;\n", "0 0:1 1:2;1 0:3 1:4;", "the last column is empty, the label is column 1");
    const struct samples_file last = {.label_column = "-1"};
    expect_refused(&last, "0,1,2,\n1,3,4,\n", ":1: --label-column -1: that column is empty");
    expect_refused(&ANY, "0,1,2,\n1,3,4,5\n", ":1: column 4: expected a finite number, got ''");
    expect_refused(&ANY, "label,a,b\n0,1,\n1,3,\n", ":2: column 3 ('b'): expected a finite number, got ''");
}

/* Test data, and data to predict for, take the training data's features by name. */
TEST(columns_by_the_training_data) {
    const char *made = write_bytes("samples", "id,b,kind,a\n1,1,x,2\n2,3,y,4\n", 28);
    const struct samples_file train = {.path = made, .label_column = "kind"};
    CLOSED_BY(samples_head_close) struct samples_head head;
    struct error error = {0};
    assert_int_equal(samples_read_head(&train, &head, &error), 0);
    assert_int_equal(head.columns.names.count, 2);
    struct samples_file test = {.like = &head.columns};
    expect_read(&test, "kind,a,b\nx,2,1\n", "x 0:1 1:2;");
    expect_read(&test, "1,1,x,2\n2,3,y,4\n", "x 0:1 1:2;y 0:3 1:4;"); /* without a header, by position */
    expect_columns(
        &test, "a,kind,more,b\n2,x,word,1\n", "x 0:1 1:2;",
        "line 1 is a header, columns are put into the order of the training data, column 3 ('more') is not in the "
        "training data and is left out, the label is column 2 ('kind')");
    expect_refused(&test, "kind,a,c\nx,2,1\n",
                   ":1: no column 'b', a feature of the training data; the header has: kind, a, c");
    expect_refused(&test, "a,b\n2,1\n", ":1: no column 'kind', the label of the training data; the header has: a, b");
    expect_refused(&test, "kind,a,b,b\nx,2,1,1\n", ":1: two columns named 'b'");
    struct columns names = {.names = head.columns.names};
    const struct samples_file predict = {.like = &names, .label_optional = true, .features = 2};
    expect_read(&predict, "a,b\n2,1\n", " 0:1 1:2;");
    expect_read(&predict, "a,b,kind\n2,1,x\n", "x 0:1 1:2;");
    expect_read(&predict, "1,2\n", " 0:1 1:2;");
}

/* ---- Any text ---- */

TEST(any_text) {
    expect_refused(&ANY, "", ": no samples, expected libsvm, text or csv data");
    expect_refused(&ANY, "\n \n# 1 2:3\n", ": no samples, expected libsvm, text or csv data");
    expect_refused(&ANY, "a,b,c\n", ": no samples, expected libsvm, text or csv data");
    expect_refused_bytes(&ANY, "1 2:3\n1 \0 2:3\n", 15, ":2: expected text, got a zero byte");
    struct error error = {0};
    struct samples_file file = {.path = "/nowhere/at/all"};
    assert_int_equal(samples_read(&file, record_sample, NULL, &error), AML_EINPUT);
    assert_string_equal(error.text, "/nowhere/at/all: cannot open: No such file or directory");
    error = (struct error){0};
    file.path = "/tmp";
    assert_int_equal(samples_read(&file, record_sample, NULL, &error), AML_EINPUT);
    assert_string_equal(error.text, "/tmp: cannot read: Is a directory");
    const struct samples_file labels = {.labels_path = "/tmp/x"};
    expect_refused(&labels, "1 2:3\n", ": expected idx data, as its labels are in another file; this is text");
}

TEST(damaged_gzip) {
    const char *text = "1 1:1 2:2 3:3\n2 1:4 2:5 3:6\n";
    for (size_t cut = 1; cut < 30; cut += 7) {
        const char *made = gzip_of(text, strlen(text), cut);
        struct samples_file file = {.path = made};
        struct record record = {.used = 0};
        struct error error = {0};
        assert_int_equal(samples_read(&file, record_sample, &record, &error), AML_EINPUT);
        assert_non_null(strstr(error.text, "gzip data"));
    }
}

TEST(a_long_line_is_read_or_refused) {
    size_t size = (size_t)SAMPLES_LINE_MAX + 2;
    FREED char *text = malloc(size);
    assert_non_null(text);
    memset(text, ' ', size);
    memcpy(text, "1 2:3", 5);
    text[size - 2] = '4';
    text[size - 1] = '\n';
    expect_refused_bytes(&ANY, text, size, ":1: expected a line of at most 16777216 bytes");
    text[size - 3] = '\n';
    const char *made = write_bytes("samples", text, size - 2);
    struct samples_file file = {.path = made, .index_base = 1};
    struct record record = {.used = 0};
    struct error error = {0};
    assert_int_equal(samples_read(&file, record_sample, &record, &error), 0);
    assert_string_equal(record.text, "1 1:3;");
}

/* A table with too many columns is refused by its first line. */
TEST(there_is_a_limit_to_columns) {
    for (int beyond = 0; beyond < 2; beyond++) {
        size_t columns = (size_t)COLUMNS_FEATURES_MAX + 1 + 2 * (size_t)beyond;
        FREED char *text = malloc(2 * columns);
        assert_non_null(text);
        for (size_t c = 0; c < columns; c++) {
            memcpy(text + 2 * c, c + 1 < columns ? "1," : "1\n", 2);
        }
        if (beyond == 1) {
            expect_refused_bytes(&ANY, text, 2 * columns, ":1: expected at most 262002 columns, got 262003");
        } else {
            const char *made = write_bytes("samples", text, 2 * columns);
            struct samples_file file = {.path = made, .index_base = 1};
            struct error error = {0};
            assert_int_equal(samples_read(&file, stop_silently, NULL, &error), 0);
        }
    }
}

static int refuse_second(void *context, const struct sample *sample, struct error *error) {
    return sample->number == 1 ? error_set(error, AML_ELIMIT, "enough") : 0;
}

TEST(the_sink_may_stop) {
    const char *made = write_bytes("samples", "1 1:1\n\n2 1:1\n3 1:1\n", 20);
    struct samples_file file = {.path = made};
    struct error error = {0};
    assert_int_equal(samples_read(&file, refuse_second, NULL, &error), AML_ELIMIT);
    assert_non_null(strstr(error.text, ":3: enough"));
    error = (struct error){0};
    assert_int_equal(samples_read(&file, stop_silently, NULL, &error), 17);
    assert_int_equal(error.code, 0);
}

/* ---- idx ---- */

static void expect_idx(const void *images, size_t image_size, const void *labels, size_t label_size,
                       const char *expected) {
    const char *image_file = write_bytes("images", images, image_size);
    const char *label_file = write_bytes("labels", labels, label_size);
    const struct samples_file file = {.path = image_file, .labels_path = label_file};
    struct record record = {.used = 0};
    struct error error = {0};
    int result = samples_read(&file, record_sample, &record, &error);
    assert_true(result == 0 || result == AML_EINPUT);
    const char *got = result == 0 ? record.text : error.text;
    if (strstr(got, expected) == NULL) {
        fail_msg("got '%s', expected '%s'", got, expected);
    }
}

TEST(idx) {
    static const char images[] = "\0\0\x08\x03\0\0\0\x02\0\0\0\x01\0\0\0\x02\x01\x02\xff\0";
    static const char labels[] = "\0\0\x08\x01\0\0\0\x02\x07\xc8";
    size_t is = sizeof images - 1;
    size_t ls = sizeof labels - 1;
    expect_idx(images, is, labels, ls, "7 0:1 1:2;200 0:255 1:0;");
    expect_idx(images, is, "\0\0\x0c\x01\0\0\0\x02\xff\xff\xff\xff\0\0\x03\xe7", 16, "-1 0:1 1:2;999 0:255 1:0;");
    expect_idx(images, is, "\0\0\x0c\x01\0\0\0\x02\xff\xff\xff\xff\0\0\x03", 15, "ends before its last label");
    expect_idx(images, is - 1, labels, ls, "the file ends before its last sample");
    expect_idx(images, is + 1, labels, ls, "the file is longer than its header says");
    expect_idx(images, is, labels, ls - 1, "the file ends before its last label");
    expect_idx(images, is, labels, ls + 1, "the file is longer than its header says");
    expect_idx(images, 10, labels, ls, "the file ends in its header");
    expect_idx(images, is, images, is, "expected one number for each label, got 2");
    expect_idx(images, is, "\0\0\x08\x01\0\0\0\x03\x07\x08\x09", 11, "expected 2 labels, as there are samples in");
    expect_idx(images, is, "1\n2\n", 4, "expected idx data of unsigned bytes");
    expect_idx("\0\0\x0d\x03\0\0\0\x02\0\0\0\x01\0\0\0\x02", 16, labels, ls, "expected idx data of unsigned bytes");
    expect_idx("\0\0\x08\x02\0\0\0\x02\x7f\0\0\0", 12, labels, ls, "expected 1 to 262000 values in each sample");
    expect_idx("\0\0\x08\x02\0\0\0\x02\0\0\0\0", 12, labels, ls, "expected 1 to 262000 values in each sample");
    expect_idx("\0\0\x08\x02\0\0\0\0\0\0\0\x01", 12, "\0\0\x08\x01\0\0\0\0", 8, "no samples, expected idx data");
    expect_refused_bytes(&ANY, images, is,
                         ": the labels of idx data are in another file: expected --labels (for a test set, "
                         "--test-labels)");
}

/* ---- Surveys, labels, numbers, scales ---- */

static void expect_survey(const char *text, bool find_base, struct samples_survey *survey) {
    const char *made = write_text("samples", text);
    const struct samples_file file = {.path = made, .index_base = 1};
    struct error error = {0};
    assert_int_equal(samples_survey(&file, &(struct samples_wanted){.base = find_base, .maxima = true}, survey, &error),
                     0);
}

TEST(survey) {
    struct samples_survey survey;
    expect_survey("10 1:1 5:-2\n9 2:3 5:1\n+9.0 1:-4\n", true, &survey);
    assert_int_equal(survey.format, SAMPLES_LIBSVM);
    assert_int_equal(survey.samples, 3);
    assert_int_equal(survey.values, 5);
    assert_int_equal(survey.features, 5);
    assert_int_equal(survey.index_base, 1);
    assert_int_equal(survey.labels.count, 2);
    assert_string_equal(survey.labels.items[0].text, "9");
    assert_string_equal(survey.labels.items[1].text, "10");
    assert_false(survey.dense);
    const float maxima[] = {4, 3, 0, 0, 2};
    assert_memory_equal(survey.maxima, maxima, sizeof maxima);
    samples_survey_close(&survey);
    expect_survey("1 0:1 5:-2\n0 2:3 5:1\n", true, &survey);
    assert_int_equal(survey.index_base, 0);
    assert_int_equal(survey.features, 6);
    samples_survey_close(&survey);
    expect_survey("1\n2\n", true, &survey);
    assert_int_equal(survey.features, 1);
    assert_true(survey.maxima[0] == 0);
    samples_survey_close(&survey);
    expect_survey("b 1 2\na 3 -4\n1 0 0\n", false, &survey);
    assert_int_equal(survey.format, SAMPLES_TEXT);
    assert_int_equal(survey.features, 2);
    assert_true(survey.dense);
    assert_string_equal(survey.labels.items[0].text, "1");
    assert_string_equal(survey.labels.items[1].text, "a");
    assert_true(survey.maxima[1] == 4);
    samples_survey_close(&survey);
}

/* ---- Sparse indexes ---- */

struct numbered {
    const char *text;
    uint32_t index_base, count;
    uint64_t features[4]; /* `count` of them; with 0 the features are not numbered */
    uint32_t all;         /* number of features in the survey */
    float maxima[4];
    const char *read; /* expected samples with the numbering */
};

static const struct numbered NUMBERED[] = {
    {"1 5:2 2147483647:1\n2 7:-3\n", 1, 3, {4, 6, 2147483646}, 3, {2, 3, 1}, "1 0:2 2:1;2 1:-3;"},
    {"1 2147483647:1\n2 \n", 1, 1, {2147483646}, 1, {1}, "1 0:1;2;"},
    {"1 0:5 2147483647:1\n2 1048576:2\n", 0, 3, {0, 1048576, 2147483647}, 3, {5, 2, 1}, "1 0:5 2:1;2 1:2;"},
    {"2 1048575 99999999\n1 2000000000 2000000001\n1 1048575\n",
     1,
     4,
     {1048574, 99999998, 1999999999, 2000000000},
     4,
     {1, 1, 1, 1},
     "2 0:1 1:1;1 2:1 3:1;1 0:1;"},
    {"1 1048575:1\n2 1:0\n", 1, 0, {0}, 1048575, {0}, "1 1048574:1;2 0:0;"},
};

TEST(indexes_that_are_far_apart_are_numbered) {
    for (size_t n = 0; n < sizeof NUMBERED / sizeof NUMBERED[0]; n++) {
        const struct numbered *expected = &NUMBERED[n];
        for (unsigned full = 0; full < 2; full++) {
            const char *made = write_text("samples", expected->text);
            struct samples_file file = {.path = made};
            const struct samples_wanted wanted = {.base = true, .numbered = true, .maxima = full == 1};
            CLOSED_BY(samples_survey_close) struct samples_survey survey;
            struct record record = {.used = 0};
            struct error error = {0};
            assert_int_equal(samples_survey(&file, &wanted, &survey, &error), 0);
            assert_int_equal(survey.index_base, expected->index_base);
            assert_int_equal(survey.features, expected->all);
            assert_int_equal(survey.numbering.places.count, expected->count);
            assert_true(numbering_is_used(&survey.numbering) == (expected->count > 0));
            assert_memory_equal(survey.numbering.features, expected->features, expected->count * sizeof(uint64_t));
            if (full == 1) {
                assert_memory_equal(survey.maxima, expected->maxima, expected->count * sizeof(float));
            }
            file.index_base = survey.index_base;
            file.numbering = &survey.numbering;
            assert_int_equal(samples_read(&file, record_sample, &record, &error), 0);
            assert_string_equal(record.text, expected->read);
        }
    }
}

/* Features that are not in the training data are left out. */
TEST(unknown_indexes_are_left_out) {
    CLOSED_BY(samples_survey_close) struct samples_survey survey;
    struct error error = {0};
    const char *made = write_bytes("samples", NUMBERED[0].text, strlen(NUMBERED[0].text));
    const struct samples_file file = {.path = made};
    const struct samples_wanted wanted = {.base = true, .numbered = true};
    assert_int_equal(samples_survey(&file, &wanted, &survey, &error), 0);
    const struct samples_file test = {.index_base = 1, .numbering = &survey.numbering};
    expect_read(&test, "1 1:1 5:2 6:3 7:4 1048577:5 2147483646:6\n2 4 5\n1 2147483646:1\n", "1 0:2 1:4;2 0:1;1;");
    expect_refused(&test, "1 5:1 5:2\n", ":1: expected indexes in ascending order, got '5:2'");
    expect_refused(&test, "1 6:1 4:2\n", ":1: expected indexes in ascending order, got '4:2'");
}

/* A reader that does not number features has all of them up to the largest, within a limit. */
TEST(dense_samples_have_a_limit_to_indexes) {
    for (unsigned full = 0; full < 2; full++) {
        static const char text[] = "1 1:1\n2 67108864:1\n1 67108865:2\n";
        const char *made = write_text("samples", text);
        const struct samples_file file = {.path = made, .index_base = 1};
        struct samples_survey survey;
        struct error error = {0};
        assert_int_equal(samples_survey(&file, &(struct samples_wanted){.values = full == 1}, &survey, &error),
                         AML_EINPUT);
        assert_non_null(strstr(error.text, ":3: expected indexes up to 67108864, as samples are dense"));
    }
}

/* ---- Quick surveys and runs of lines, against the full reading of a file ---- */

static void same_surveys(const struct samples_survey *quick, const struct samples_survey *full, const char *text) {
    bool same = quick->format == full->format && quick->samples == full->samples && quick->values == full->values &&
                quick->features == full->features && quick->index_base == full->index_base &&
                quick->dense == full->dense && quick->labels.count == full->labels.count &&
                quick->places.count == full->places.count && quick->places.end == full->places.end;
    for (uint32_t k = 0; same && k < full->labels.count; k++) {
        same = strcmp(quick->labels.items[k].text, full->labels.items[k].text) == 0;
    }
    if (!same) {
        fail_msg("'%s': %llu samples, %llu values, %u features, expected %llu, %llu, %u", text,
                 (unsigned long long)quick->samples, (unsigned long long)quick->values, quick->features,
                 (unsigned long long)full->samples, (unsigned long long)full->values, full->features);
    }
}

/* Collects the numbers, places and values of samples. */
static int record_place(void *context, const struct sample *sample, struct error *error) {
    struct record *record = context;
    record->used += (size_t)snprintf(record->text + record->used, sizeof record->text - record->used, "%llu@%llu ",
                                     (unsigned long long)sample->number, (unsigned long long)sample->place);
    return record_sample(context, sample, error);
}

/* Reads the text as a run, which must end in a line end. */
static void expect_run(const struct samples_file *file, const char *text, const struct samples_survey *survey,
                       const char *expected) {
    struct samples_file known = *file;
    CLOSED_BY(samples_head_close) struct samples_head head;
    struct record record = {.used = 0};
    struct error error = {0};
    const char *at;
    known.index_base = survey->index_base;
    assert_int_equal(samples_read_head(&known, &head, &error), 0);
    assert_int_equal(head.format, survey->format);
    const struct samples_run run = {.text = text, .size = strlen(text), .skip = (size_t)head.begin};
    int result = samples_read_run(&known, &head, &run, record_place, &record, &at, &error);
    if (result != 0) {
        fail_msg("'%s': %s", text, error.text);
    }
    assert_string_equal(record.text, expected);
}

/* If the full reading succeeds, a quick survey finds the same, and a run has the same samples. Returns whether it
 * succeeded. */
static bool same_as_full_reading(const char *text, int label_column) {
    char column[16];
    snprintf(column, sizeof column, "%d", label_column);
    const char *made = write_text("samples", text);
    struct samples_file file = {.path = made, .label_column = column};
    struct samples_survey full;
    struct samples_survey quick;
    struct error error = {0};
    bool good = samples_survey(&file, &(struct samples_wanted){.base = true, .maxima = true}, &full, &error) == 0;
    if (good) {
        int result = samples_survey(&file, &(struct samples_wanted){.base = true}, &quick, &error);
        if (result != 0) {
            fail_msg("'%s': %s", text, error.text);
        }
        same_surveys(&quick, &full, text);
        const struct samples_chunk *chunk = samples_find_chunk(&quick.places, 0, 0, 0);
        assert_true(chunk != NULL && chunk->place == 0 && chunk->number == 0);
        assert_null(samples_find_chunk(&quick.places, 0, 0, 1));
        assert_null(samples_find_chunk(&quick.places, 1, 0, 0));
        struct record record = {.used = 0};
        file.index_base = quick.index_base;
        assert_int_equal(samples_read(&file, record_place, &record, &error), 0);
        expect_run(&file, text, &quick, record.text);
        samples_survey_close(&quick);
        samples_survey_close(&full);
    }
    return good;
}

TEST(quick_surveys_and_runs) {
    static const char *const texts[] = {
        "1 1:2 3:4\n-1 2:3\n",         "1\n2 5:1\r\n\n3 0:1  \n",    "# one\n+1 1:1 # two 7:8\n0 2:1\r",
        " a\t3:1 9:1e3 \nb 1:1\n",     "1 16777215:1\n2 0:1\n",      "label,x,y\n\n 1 ,2,3\n2,3,4\n",
        "1;2;3\n\"2\";3;4\n1.0;0;0\n", "x y z\na 1 2\n  b  3 4  \n", "1,2\n1e0,3\n+01,4\n",
    };
    for (size_t t = 0; t < sizeof texts / sizeof texts[0]; t++) {
        if (!same_as_full_reading(texts[t], 0)) {
            fail_msg("'%s' is refused", texts[t]);
        }
    }
    assert_true(same_as_full_reading("1,2,a\n3,4, b \n", -1));
    assert_true(same_as_full_reading("1 a 2\n3 b 4\n", 2));
    assert_true(same_as_full_reading("1;a;2;3\n3; b ;4;5\n", 2));
    /* Random texts from pieces, some of which form lines. */
    static const char *const pieces[] = {"1", "0", "2:", "3:1",     "0:",          "17",      ".5",     ",",
                                         ";", " ", "\t", "\n",      "\r\n",        "\r",      "#",      "\"",
                                         "a", "-", "e3", "1 1:2\n", "2 1:1 4:3\n", "1,2,3\n", "1 2 3\n"};
    enum { PIECES = sizeof pieces / sizeof pieces[0] };
    unsigned random = 1;
    unsigned good = 0;
    for (unsigned n = 0; n < 6000; n++) {
        char text[512] = "";
        for (unsigned p = 0; p < 2 + n % 24; p++) {
            random = random * 1664525U + 1013904223U;
            unsigned piece = (random >> 12) % PIECES;
            strcat(text, pieces[n % 3 == 0 || p == 0 ? piece : (random >> 8) % 4 > 0 ? PIECES - 4 + n % 4 : piece]);
        }
        strcat(text, "\n");
        good += same_as_full_reading(text, (int)(n % 5) - 2);
    }
    assert_true(good > 600);
}

/* A run's errors give the line without the file's path. */
TEST(wrong_lines_of_a_run) {
    static const char text[] = "1 1:2\n2 1:x\n";
    const struct samples_head head = {.format = SAMPLES_LIBSVM};
    const struct samples_file file = {.path = "samples", .index_base = 1};
    const struct samples_run run = {.text = text, .size = strlen(text)};
    const struct samples_run zero = {.text = "1 1:1\0\n", .size = 7};
    struct record record = {.used = 0};
    struct error error = {0};
    const char *at;
    assert_int_equal(samples_read_run(&file, &head, &run, record_sample, &record, &at, &error), AML_EINPUT);
    assert_string_equal(error.text, "expected a finite number behind the index, got '1:x'");
    assert_ptr_equal(at, text + 6);
    assert_string_equal(record.text, "1 0:2;");
    error = (struct error){0};
    assert_int_equal(samples_read_run(&file, &head, &zero, record_sample, &record, &at, &error), AML_EINPUT);
    assert_string_equal(error.text, "expected text, got a zero byte");
}

TEST(labels) {
    CLOSED_BY(labels_close) struct labels labels = {0};
    struct label label;
    char text[80];
    for (int i = 0; i < 2000; i++) {
        snprintf(text, sizeof text, i % 2 == 0 ? "%d" : "word %d", (i * 7919) % 2000 - 500);
        assert_true(label_make(&label, text, strlen(text)));
        assert_true(labels_add(&labels, &label) && labels_add(&labels, &label));
    }
    assert_int_equal(labels.count, 2000);
    labels_sort(&labels);
    for (uint32_t i = 0; i < labels.count; i++) {
        assert_int_equal(labels_find(&labels, &labels.items[i]), i);
        bool word = strncmp(labels.items[i].text, "word", 4) == 0;
        assert_int_equal(word, i >= 1000);
        if (i > 0 && i != 1000) {
            assert_true(word ? strcmp(labels.items[i - 1].text, labels.items[i].text) < 0
                             : labels.items[i - 1].number < labels.items[i].number);
        }
    }
    assert_true(label_make(&label, "9999", 4));
    assert_int_equal(labels_find(&labels, &label), INDEX_NONE);
    assert_true(label_make(&label, "-0", 2));
    assert_string_equal(label.text, "-0");
    assert_true(label.number == 0 && !signbit(label.number));
    memset(text, 'x', sizeof text);
    assert_true(label_make(&label, text, LABEL_MAX));
    assert_false(label_make(&label, text, LABEL_MAX + 1));
    assert_false(label_make(&label, "", 0));
    assert_false(label_make(&label, "a\tb", 3));
}

/* Makes a set of the texts up to NULL. */
static struct labels labels_of(const char *const texts[]) {
    struct labels labels = {0};
    for (size_t t = 0; texts[t] != NULL; t++) {
        struct label label;
        assert_true(label_make(&label, texts[t], strlen(texts[t])));
        assert_true(labels_add(&labels, &label));
    }
    labels_sort(&labels);
    return labels;
}

static void expect_labels(const char *const texts[], const char *expected) {
    CLOSED_BY(labels_close) struct labels labels = labels_of(texts);
    char text[512] = "";
    for (uint32_t k = 0; k < labels.count; k++) {
        snprintf(text + strlen(text), sizeof text - strlen(text), "%s*%llu ", labels.items[k].text,
                 (unsigned long long)labels.items[k].count);
    }
    assert_string_equal(text, expected);
}

/* Equal numbers are one class, however written. The class is written like its first number. */
TEST(labels_are_compared_exactly) {
    static const char *const spelled[] = {"1.0", "2", "+1", "1", "2.00", "02", "-0", "0", NULL};
    expect_labels(spelled, "-0*2 1.0*3 2*3 ");
    static const char *const large[] = {"9007199254740993", "9007199254740992", "5", "9007199254740993", NULL};
    expect_labels(large, "5*1 9007199254740992*1 9007199254740993*2 ");
    static const char *const negative[] = {"-9007199254740993", "-9007199254740992", "-09007199254740993.0", NULL};
    expect_labels(negative, "-9007199254740993*2 -9007199254740992*1 ");
    static const char *const longest[] = {"1000000000000000000000000000000000001",
                                          "1000000000000000000000000000000000000",
                                          "+1000000000000000000000000000000000001", NULL};
    expect_labels(longest, "1000000000000000000000000000000000000*1 1000000000000000000000000000000000001*2 ");
    static const char *const powers[] = {"1e16", "10000000000000000", "1.0e16", "10000000000000001", NULL};
    expect_labels(powers, "1e16*3 10000000000000001*1 ");
}

TEST(missing_labels) {
    static const char *const missing[] = {"",          "nan",      "NaN",    "-nan",   "NA",     "n/a",  "N/A",
                                          "<NA>",      "#N/A",     "?",      "null",   "NULL",   "None", "none",
                                          "\\N",       "Infinity", "+inf",   "-INF",   ".",      "--",   "missing",
                                          "-nan(ind)", "1e400",    "-1E999", ".5e400", "+1.e309"};
    static const char *const present[] = {"0",    "-1", "1.5",  "+",  "-",     "nano",   "Nana", "no",     "nil",
                                          "info", "N",  "1.#x", "??", "1e308", "1e-400", "e400", "1e400x", "1e"};
    for (size_t i = 0; i < sizeof missing / sizeof missing[0]; i++) {
        assert_true(label_is_missing(missing[i], strlen(missing[i])));
    }
    for (size_t i = 0; i < sizeof present / sizeof present[0]; i++) {
        assert_false(label_is_missing(present[i], strlen(present[i])));
    }
    const struct samples_file skip = {.missing = SAMPLES_MISSING_SKIP, .index_base = 1};
    const struct samples_file keep = {.missing = SAMPLES_MISSING_KEEP, .index_base = 1};
    expect_read(&skip, "nan 1:1\n2 1:2\nNA 1:3\n3 1:4\n", "2 0:2;3 0:4;");
    expect_read(&keep, "nan 1:1\n2 1:2\n", "nan 0:1;2 0:2;");
    expect_read(&skip, "y,a\n?,1\n2,3\n,4\n", "2 0:3;");
    expect_refused(&keep, "y,a\n?,1\n,3\n",
                   ":3: the label is missing, got '': fill it in, or leave such samples out by --missing-labels skip");
    expect_refused(&ANY, "1 1:1\ninf 1:2\n",
                   ":2: the label is missing, got 'inf': fill it in, or leave such samples out by --missing-labels "
                   "skip (keep takes the word for a class)");
    expect_refused(&ANY, "1 1:1\n1e400 1:2\n", ":2: the label is missing, got '1e400'");
    expect_refused(&ANY, "y,a\n1,1\n-1e400,2\n", ":3: the label is missing, got '-1e400'");
    expect_read(&skip, "1e400 1:1\n2 1:2\n", "2 0:2;");
    expect_refused(&skip, "?,1\nnan,2\n",
                   ": the labels of all 2 samples are missing, so that --missing-labels skip leaves none");
    const struct samples_file optional = {.label_optional = true, .features = 2, .index_base = 1};
    expect_read(&optional, "?,1,2\n,3,4\nx,5,6\n", "? 0:1 1:2; 0:3 1:4;x 0:5 1:6;");
    expect_read(&optional, "nan 1:1\n1 2:1\n", "nan 0:1;1 1:1;");
}

static enum labels_doubt doubt_of(unsigned different, unsigned each, const char *format) {
    CLOSED_BY(labels_close) struct labels labels = {0};
    for (unsigned i = 0; i < different * each; i++) {
        struct label label;
        char text[32];
        int length = snprintf(text, sizeof text, format, i % different);
        assert_true(label_make(&label, text, (size_t)length) && labels_add(&labels, &label));
    }
    enum labels_doubt doubt = labels_check(&labels);
    return doubt;
}

/* Many fractional numbers are a quantity, and many labels that do not repeat are ids: both are no classes. */
TEST(labels_that_are_no_classes) {
    assert_int_equal(doubt_of(20, 1, "%u.5"), LABELS_FINE);
    assert_int_equal(doubt_of(21, 100, "%u.5"), LABELS_REAL);
    assert_int_equal(doubt_of(21, 100, "%u.0"), LABELS_FINE);
    assert_int_equal(doubt_of(20, 1, "%u"), LABELS_FINE);
    assert_int_equal(doubt_of(21, 1, "%u"), LABELS_UNIQUE);
    assert_int_equal(doubt_of(2000, 2, "%u"), LABELS_UNIQUE);
    assert_int_equal(doubt_of(2000, 4, "%u"), LABELS_FINE);
    assert_int_equal(doubt_of(2000, 1, "name %u"), LABELS_UNIQUE);
    assert_int_equal(doubt_of(2000, 2, "name %u"), LABELS_FINE);
}

TEST(there_is_a_limit_to_labels) {
    CLOSED_BY(labels_close) struct labels labels = {0};
    struct label label;
    char text[16];
    for (int i = 0; i <= LABELS_MAX; i++) {
        snprintf(text, sizeof text, "%d", i);
        assert_true(label_make(&label, text, strlen(text)));
        assert_int_equal(labels_add(&labels, &label), i < LABELS_MAX);
    }
}

TEST(numbers) {
    static const char *const numbers[] = {"0",
                                          "-0",
                                          "1",
                                          "+1",
                                          "007",
                                          ".5",
                                          "5.",
                                          "-1.25e-3",
                                          "1e22",
                                          "1e23",
                                          "1E+5",
                                          "123456789012345678901234567890",
                                          "0.1",
                                          "3.3",
                                          "9007199254740993",
                                          "1e-400",
                                          "1e308",
                                          "2.2250738585072011e-308",
                                          "0.000000000000000000000000000000000000001",
                                          "1234567.8901234567890123456789",
                                          "4.9e-324",
                                          "1e-2147483649",
                                          "0e99999999999999999999"};
    for (size_t i = 0; i < sizeof numbers / sizeof numbers[0]; i++) {
        double value = -7;
        const char *end = number_take(numbers[i], &value);
        assert_ptr_equal(end, numbers[i] + strlen(numbers[i]));
        double expected = strtod(numbers[i], NULL);
        assert_memory_equal(&value, &expected, sizeof value);
    }
    static const char *const others[] = {"",    "-",   "+",   ".",     "-.", "e5", "1e",
                                         "1e+", "nan", "inf", "1e400", " 1", "--1"};
    for (size_t i = 0; i < sizeof others / sizeof others[0]; i++) {
        double value;
        assert_null(number_take(others[i], &value));
    }
    double value;
    const char *hexadecimal = "0x10";
    assert_ptr_equal(number_take(hexadecimal, &value), hexadecimal + 1);
}

TEST(scales) {
    const uint32_t features[] = {1, 2, 7};
    const double values[] = {3, -4, 100};
    const float maxima[] = {1, 6, 0, 1};
    float scaled[3];
    struct scale scale = {.kind = SCALE_UNIT, .features = 4, .maxima = maxima};
    const struct sample sample = {.features = features, .values = values, .count = 3};
    assert_int_equal(scale_sample(&scale, &sample, scaled), 2); /* feature 7 is unknown */
    assert_true(scaled[0] == 0.6F && scaled[1] == -0.8F);
    scale.kind = SCALE_MAX;
    assert_int_equal(scale_sample(&scale, &sample, scaled), 2);
    assert_true(scaled[0] == 0.5F && scaled[1] == 0);
    const struct sample dense = {.values = values, .count = 3};
    scale.kind = SCALE_BYTE;
    assert_int_equal(scale_sample(&scale, &dense, scaled), 3);
    assert_true(fabsf(scaled[2] - 100.0F / 255) < 1e-7F);
    const double zeros[3] = {0};
    const struct sample nothing = {.values = zeros, .count = 3};
    scale.kind = SCALE_UNIT;
    assert_int_equal(scale_sample(&scale, &nothing, scaled), 3);
    assert_true(scaled[0] == 0 && scaled[1] == 0 && scaled[2] == 0);
}

/* Differences from a centre far from 0 are computed in double, so they keep their digits. */
TEST(standard_scales) {
    const double values[] = {1e9 + 0.25, 7, -3e38};
    const double centres[] = {1e9, 7, 0};
    const double factors[] = {4, 0, 1};
    struct scale scale = {.kind = SCALE_STANDARD, .features = 3, .centres = centres, .factors = factors};
    const struct sample sample = {.values = values, .count = 3};
    float scaled[3];
    assert_int_equal(scale_sample(&scale, &sample, scaled), 3);
    assert_true(scaled[0] == 1 && scaled[1] == 0 && scaled[2] == -5);
    scale_zeros(&scale, scaled);
    assert_true(scaled[0] == -5 && scaled[1] == 0 && scaled[2] == 0);
    scale.centres = NULL;
    const uint32_t features[] = {2};
    const double value[] = {4};
    const struct sample sparse = {.features = features, .values = value, .count = 1};
    assert_int_equal(scale_sample(&scale, &sparse, scaled), 1);
    assert_true(scaled[0] == 4);
    scale_zeros(&scale, scaled);
    assert_true(scaled[0] == 0 && scaled[2] == 0);
}

/* ---- Criteo ---- */

/* A line of 39 fields after `start`, all missing except I2 and C1. */
static const char *criteo_line(char *text, size_t room, const char *start, const char *i2, const char *end) {
    snprintf(text, room, "%s\t%s\t\t\t\t\t\t\t\t\t\t\t\t68fd1e64\t\t\t\t\t\t\t\t\t\t\t\t\t\t\t\t\t\t\t\t\t\t\t\t\t%s",
             start, i2, end);
    return text;
}

static int count_sample(void *context, const struct sample *sample, struct error *error) {
    struct record *record = context;
    assert_int_equal(sample->count, CRITEO_FIELDS);
    assert_true(sample->ones);
    record->used += (size_t)snprintf(record->text + record->used, sizeof record->text - record->used, "%s@%llu ",
                                     sample->labelled ? sample->label.text : "-", (unsigned long long)sample->place);
    return 0;
}

/* Reads lines with each kind of line end, plain and gzip, and compares labels and places. */
TEST(criteo) {
    static const char *const ends[] = {"\n", "\r\n", "\r"};
    for (size_t e = 0; e < 3; e++) {
        for (unsigned gzip = 0; gzip < 2; gzip++) {
            char one[128];
            char text[512];
            size_t used = 0;
            for (int i = 0; i < 3; i++) {
                const char *line =
                    criteo_line(one, sizeof one, i == 1 ? "1\t" : "0\t5", i == 2 ? "-1" : "17", i < 2 ? ends[e] : "");
                used += (size_t)snprintf(text + used, sizeof text - used, "%s%s", line, i == 0 ? ends[e] : "");
            }
            const char *made = gzip ? gzip_of(text, used, 0) : write_bytes("samples", text, used);
            struct samples_file file = {.path = made, .format = SAMPLES_CRITEO, .hash = {.bits = 24}};
            struct record record = {.used = 0};
            struct error error = {0};
            char expected[128];
            size_t end = strlen(ends[e]);
            size_t first = 1 + 1 + 1 + 1 + 2 + 11 + 1 + 8 + 25 + end; /* an empty line follows */
            snprintf(expected, sizeof expected, "0@0 1@%zu 0@%zu ", first + end, 2 * first + end - 1);
            if (samples_read(&file, count_sample, &record, &error) != 0) {
                fail_msg("%s", error.text);
            }
            assert_string_equal(record.text, expected);
            enum samples_format format;
            file.format = SAMPLES_AUTO;
            assert_int_equal(samples_find_format(&file, &format, &error), 0);
            assert_int_equal(format, SAMPLES_CRITEO);
            CLOSED_BY(samples_survey_close) struct samples_survey survey;
            assert_int_equal(samples_survey_criteo(&file, &survey, &error), 0);
            assert_int_equal(survey.features, 1 << 24);
            assert_int_equal(survey.labels.count, 2);
        }
    }
}

TEST(wrong_criteo_lines) {
    const struct samples_file criteo = {.format = SAMPLES_CRITEO, .hash = {.bits = 20}};
    char good[128];
    char text[512];
    criteo_line(good, sizeof good, "1\t", "2", "\n");
    snprintf(text, sizeof text, "%s1\t2\n", good);
    expect_refused(&criteo, text, ":2: expected 40 fields (a label, 13 integers and 26 categories), got 2");
    char bad[128];
    snprintf(text, sizeof text, "%s\n%s", good, criteo_line(bad, sizeof bad, "1\t", "two", "\n"));
    expect_refused(&criteo, text, ":3: expected a whole number in I2, got 'two'");
    snprintf(text, sizeof text, "%s%s", good, criteo_line(bad, sizeof bad, "7\t", "2", "\n"));
    expect_refused(&criteo, text, ":2: expected a label 0 or 1, got '7'");
    expect_refused(&criteo, "\n\n", ": no samples, expected criteo data");
    expect_refused(&criteo, good + 2, ":1: expected 40 fields (a label, 13 integers and 26 categories), got 39");
}

/* A line may be as long as in all other formats. */
TEST(long_criteo_lines) {
    const struct samples_file criteo = {.format = SAMPLES_CRITEO, .hash = {.bits = 20}};
    for (int over = 0; over < 2; over++) {
        size_t size = SAMPLES_LINE_MAX + (size_t)over;
        FREED char *text = malloc(size + 2);
        char start[128];
        assert_non_null(text);
        criteo_line(start, sizeof start, "1\t", "2", "");
        memset(text, 'x', size);
        memcpy(text, start, strlen(start)); /* the last category is long */
        text[size] = '\n';
        const char *made = write_bytes("samples", text, size + 1);
        struct samples_file file = criteo;
        struct record record = {.used = 0};
        struct error error = {0};
        file.path = made;
        assert_int_equal(samples_read(&file, count_sample, &record, &error), over ? AML_EINPUT : 0);
        assert_string_equal(record.text, over ? "" : "1@0 ");
    }
}

int main(void) {
    return tests_run(files_open, files_close);
}
