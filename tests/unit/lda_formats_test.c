/* The formats that apps/lda recognizes besides UCI's, Blei's and plain text: MatrixMarket, Vowpal Wabbit, tables and
 * lines of MALLET. Also: decimal counts, refused input that resembles text, documents without words, and the inputs
 * of ../shared/cases. */
#include "apps/lda/corpus.h"
#include "apps/lda/reader.h"
#include "tests/files.h"
#include "tests/test.h"

#include <inttypes.h>
#include <unistd.h>

/* Collects read documents as text, "id(word*count word*count) ...", and the reader's description of the file. */
struct read_text {
    char text[8192];
    size_t length;
    char notes[1024];
    struct lda_corpus_size size;
    const struct lda_vocabulary *names;
};

static void add_text(struct read_text *read, const char *format, ...) __attribute__((format(printf, 2, 3)));
static void add_text(struct read_text *read, const char *format, ...) {
    va_list arguments;
    va_start(arguments, format);
    read->length += (size_t)vsnprintf(read->text + read->length, sizeof read->text - read->length, format, arguments);
    va_end(arguments);
    assert_true(read->length < sizeof read->text);
}

static int add_bag(void *context, const struct lda_bag *bag) {
    struct read_text *read = context;
    if (bag->id != NULL) {
        add_text(read, "%.*s(", (int)bag->id_length, bag->id);
    } else {
        add_text(read, "#%" PRIu64 "(", bag->number);
    }
    for (uint32_t i = 0; i < bag->count; i++) {
        const char *name = lda_vocabulary_word(read->names, bag->words[i]);
        add_text(read, i > 0 ? " " : "");
        if (name != NULL) {
            add_text(read, "%s", name);
        } else {
            add_text(read, "%u", bag->words[i]);
        }
        if (bag->counts[i] != 1) {
            add_text(read, "*%u", bag->counts[i]);
        }
    }
    add_text(read, ") ");
    return 0;
}

static void add_note(void *context, const char *text) {
    struct read_text *read = context;
    strncat(read->notes, text, sizeof read->notes - strlen(read->notes) - 1);
}

/* Reads a file with `options`; words get their names in order of occurrence. */
static int read_file(const char *file, struct lda_corpus options, struct read_text *read, struct error *error) {
    CLOSED_BY(lda_vocabulary_close) struct lda_vocabulary words = {0};
    *read = (struct read_text){.names = &words};
    *error = (struct error){0};
    options.path = file;
    options.vocabulary = options.vocabulary != NULL ? options.vocabulary : &words;
    options.minimum_length = 3;
    options.note = add_note;
    options.note_context = read;
    int result = lda_corpus_read(&options, add_bag, read, &read->size, error);
    return result;
}

static int read_as(struct lda_corpus options, const char *text, struct read_text *read, struct error *error) {
    write_text("input", text);
    return read_file("input", options, read, error);
}

static void assert_reads(struct lda_corpus options, const char *text, const char *expected, const char *note) {
    struct read_text read;
    struct error error;
    if (read_as(options, text, &read, &error) != 0) {
        fail_msg("'%s': %s", text, error.text);
    }
    assert_string_equal(read.text, expected);
    if (strstr(read.notes, note) == NULL) {
        fail_msg("'%s': '%s', expected '%s'", text, read.notes, note);
    }
}

static void assert_refused(struct lda_corpus options, const char *text, const char *part) {
    struct read_text read;
    struct error error;
    if (read_as(options, text, &read, &error) != AML_EINPUT || strstr(error.text, part) == NULL ||
        strchr(error.text, '\n') != NULL) {
        fail_msg("'%s': '%s'; expected '%s'", text, error.text, part);
    }
}

static const struct lda_corpus any = {.format = LDA_FORMAT_AUTO};

/* ---- Tests ---- */

TEST(matrix_market) {
    assert_reads(any,
                 "%%MatrixMarket matrix coordinate real general\n%by gensim\n3 5 4                 \n"
                 "1 1 4\n1 5 1.0\n3 2 2.000e+00\n3 3 10e-1\n",
                 "#0(0*4 4) #2(1*2 2) ", "its 3 rows taken for documents and its 5 columns for words");
    assert_reads(any, "%%matrixmarket MATRIX Coordinate pattern General\r\n2 3 3\r\n1 1\r\n1 3\r\n2 2",
                 "#0(0 2) #1(1) ", "2 rows");
    /* A matrix by columns as scipy writes it, with explicit zeros and a repeated entry. */
    assert_reads(any, "%%MatrixMarket matrix coordinate integer general\n3 2 5\n1 1 2\n3 1 0\n3 1 4\n1 2 1\n1 2 1\n",
                 "#0(0*2 1*2) #2(0*4) ", "not in the order of rows");
    assert_refused(any, "%%MatrixMarket matrix coordinate real general\n2 2 3\n1 1 4\n2 2 1\n",
                   "ends after 2 counts: expected 3");
    assert_refused(any, "%%MatrixMarket matrix coordinate real general\n2 2 1\n1 1 4\n2 2 1\n", ":4: expected the end");
    assert_refused(any, "%%MatrixMarket matrix coordinate real general\n2 2 1\n1 3 4\n",
                   ":3: expected document 1 to 2, word 1 to 2");
    assert_refused(any, "%%MatrixMarket matrix coordinate real general\n2 2 1\n1 1 0.42\n",
                   ":3: count 0.42: expected a whole number");
    assert_refused(any, "%%MatrixMarket matrix coordinate real general\n2 2 1\n1 1 -4\n",
                   ":3: count -4: expected a whole number");
    assert_refused(any, "%%MatrixMarket matrix coordinate real general\n2 2 1\n1 1\n",
                   ":3: expected 'document word count'");
    assert_refused(any, "%%MatrixMarket matrix array real general\n2 2\n1\n", ":1: ");
    assert_refused(any, "%%MatrixMarket matrix coordinate real general\n% no size\n", "ends before");
    CLOSED_BY(lda_vocabulary_close) struct lda_vocabulary words = {0};
    lda_vocabulary_add(&words, "one", 3);
    lda_vocabulary_add(&words, "two", 3);
    assert_refused((struct lda_corpus){.vocabulary = &words},
                   "%%MatrixMarket matrix coordinate real general\n2 3 1\n1 1 4\n", "transpose it");
}

/* A number is recognized by its own bytes, whatever follows. */
TEST(the_form_of_numbers) {
    static const char *const numbers[] = {"0", "-1.5", "+.5", "1e-3", "12E6"};
    static const char *const others[] = {"", "e5", "E", "1x", "x1", "1 2", "0x1F", "1,5"};
    for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++) {
        assert_true(lda_is_number(numbers[i], strlen(numbers[i])));
    }
    for (size_t i = 0; i < sizeof others / sizeof *others; i++) {
        assert_false(lda_is_number(others[i], strlen(others[i])));
    }
    static const char run_on[] = {'1', '2', '3', '4'}; /* no end after the number */
    assert_true(lda_is_number(run_on, sizeof run_on));
    assert_true(lda_is_number("12x", 2));
    assert_false(lda_is_number("x12", 1));
}

/* No format reads more documents than the limit. */
TEST(the_limit_of_documents) {
    struct read_text read = {.text = ""};
    struct error error = {0};
    const struct lda_corpus corpus = {.path = "many"};
    struct lda_reader reader = {.corpus = &corpus, .each = add_bag, .context = &read, .error = &error};
    assert_int_equal(lda_end_document(&reader, LDA_DOCUMENTS_MAX - 1), 0);
    assert_int_equal(lda_end_document(&reader, LDA_DOCUMENTS_MAX), AML_ELIMIT);
    assert_string_equal(error.text, "many: more than 2000000000 documents");
}

TEST(counts_as_decimals) {
    assert_reads(any, "2\n3\n3\n1 1 4.0\n1 3 1e1\n2 2 2.50e1\n", "#0(0*4 2*10) #1(1*25) ", "");
    assert_reads(any, "2 3 2\n1 1 4\n2 3 1.\n", "#0(0*4) #1(2) ", "");
    assert_reads(any, "2 0:4.0 7:0.1e1\n1 3:2\n", "#0(0*4 7) #1(3*2) ", "");
    static const char *const bad[] = {"0.5", "4.01", "1e-1", "-1", "-2.0", "33554433.0", "1e300"};
    for (size_t b = 0; b < sizeof bad / sizeof *bad; b++) {
        char text[64];
        char part[64];
        snprintf(part, sizeof part, "count %s: expected a whole number", bad[b]);
        snprintf(text, sizeof text, "1\n2\n1\n1 1 %s\n", bad[b]);
        assert_refused(any, text, part);
        snprintf(text, sizeof text, "1 1:%s\n", bad[b]);
        assert_refused(any, text, part);
        snprintf(text, sizeof text, "| one:%s\n", bad[b]);
        assert_refused(any, text, part);
    }
    static const char *const no_number[] = {"x", "1.0.0", "1e", "1e+", ".", "0x10", "nan", "1-1"};
    for (size_t b = 0; b < sizeof no_number / sizeof *no_number; b++) {
        char text[64];
        snprintf(text, sizeof text, "1\n2\n1\n1 1 %s\n", no_number[b]);
        assert_refused(any, text, ":4: expected 'document word count'");
    }
    assert_refused(any, "1 2 1\n1 1 1\n1 2 1\n", ":3: expected the end of the file");
    assert_refused(any, "2 2 2\n1 1 1\n", "ends after 1 counts: expected 2, as its header says");
}

TEST(vowpal_wabbit) {
    assert_reads(any, "| cat:2 dog\n|\n| dog:3 a:1.0 b:0\n", "#0(cat*2 dog) #2(dog*3 a) ", "");
    assert_reads(any, "doc1 |text cat:2 dog |author smith jones\ndoc2 |author smith |text dog\n",
                 "doc1(cat*2 dog) doc2(dog) ", "words of the namespace text; those of author are left out");
    assert_reads(any, "1 2.0 'tag|body:2 cat:2 dog |meta x:1\n-1 second|body:1 dog\n", "tag(cat*4 dog*2) second(dog) ",
                 "those of meta");
    assert_reads(any, "doc1 cat:2 dog:1 |@author Smith\ndoc2 dog cat:1 mouse\n", "doc1(cat*2 dog) doc2(cat dog mouse) ",
                 "those of author");
    assert_reads(any, "doc1 cat:2 dog:1\ndoc2 dog:4\n", "doc1(cat*2 dog) doc2(dog*4) ", "");
    assert_reads((struct lda_corpus){.name_space = "author"}, "d |text cat:2 |author smith\n", "d(smith) ",
                 "those of text");
    assert_reads((struct lda_corpus){.format = LDA_FORMAT_VW}, "d one two\n", "d(one two) ", "");
    assert_refused(any, "| cat:2\n| dog:x:2.5\n", ":2: count 2.5");
    /* These are not lines of Vowpal Wabbit. */
    assert_reads(any, "| name | size |\n", "#0(name size) ", "");
    assert_reads(any, "Breaking news | The Times\n", "#0(breaking news the times) ", "");
    assert_reads(any, "at 10:30 | room 5\n", "#0(room) ", "");
}

TEST(tables) {
    assert_reads(any, "id,text\n7,\"one, two\"\n8,three\n", "7(one two) 8(three) ",
                 "the text is in column 2, ids in column 1");
    assert_reads(any, "text\tlabel\tdoc_id\nthe \"cat\"\tx\ta1\n\"the \"\"dog\"\"\"\ty\ta2\n",
                 "a1(the cat) a2(the dog) ", "line 1 taken as its header");
    assert_reads(any, ",Title,Review Text\n0,abc,\"first\nsecond line\"\n\n1,def,third\n",
                 "0(first second line) 1(third) ", "text is in column 3, ids in column 1");
    assert_reads(any, "abstract\r\n\"one, \"\"two\"\"\"\r\nthree four\r\n", "#0(one two) #1(three four) ", "ids none");
    assert_reads((struct lda_corpus){.columns = "id=2,text=story part"}, "Story_Part;number\none two;n1\n",
                 "n1(one two) ", "");
    assert_reads((struct lda_corpus){.columns = "text=2,id=1"}, "5,\"one\"\n6,two\n", "5(one) 6(two) ",
                 "without a header");
    assert_reads((struct lda_corpus){.columns = "text=2"}, "number,words\n6,two\n", "#0(two) ",
                 "line 1 taken as its header");
    assert_refused(any, "id,text\n1,one\n2,two, three\n", ":3: 3 fields, expected 2, as the header has");
    assert_refused(any, "id,text\n1,one\n2,\"two\n3,three\n", ":3: a field begins with a quote that is not closed");
    assert_refused(any, "id,text\n1,\"one\" two\n", ":2: column 2: expected a separator");
    assert_refused(any, "id,text\n1,\"a\n\xFF\"\n", ":2: byte 3 (0xFF)");
    assert_refused((struct lda_corpus){.columns = "text=body"}, "id,text\n1,a\n",
                   "--columns: no column is named body: the first line has \"id\", \"text\"");
    assert_refused((struct lda_corpus){.columns = "text=3"}, "id,text\n1,a\n", "--columns: no column 3 among 2");
    assert_refused((struct lda_corpus){.columns = "words=3"}, "id,text\n1,a\n",
                   "--columns words=3: expected text=COLUMN,id=COLUMN");
    assert_refused((struct lda_corpus){.columns = "text=2,id=2"}, "id,text\n1,a\n", "text and id are one column");
    assert_refused((struct lda_corpus){.columns = "text=a"}, "a,A\n1,a\n", "columns 1 and 2 are both named a");
    static const char *const bad[] = {"", "text", "text=", "text=0", "text=1,", "text=1,text=2"};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        struct error error = {0};
        assert_int_equal(lda_columns_check(bad[i], &error), AML_EINPUT);
        assert_non_null(strstr(error.text, "--columns"));
    }
    assert_int_equal(lda_columns_check(NULL, NULL), 0);
    assert_refused((struct lda_corpus){.format = LDA_FORMAT_TABLE}, "x,y\n1,a\n",
                   "no column of 'x,y' is known to be text");
}

TEST(mallet) {
    assert_reads(any, "d1\ten\tThe cat\nd2\ten\tThe \"dog\n\nd3\ten\t\n", "d1(the cat) d2(the dog) ",
                 "id, label and text, separated by tabs");
    assert_reads(any, "d1\tThe cat sat\nd2\tThe dog\n", "d1(the cat sat) d2(the dog) ", "id and text");
    assert_reads((struct lda_corpus){.format = LDA_FORMAT_MALLET}, "d1, en  The cat\n d2 en dog\n",
                 "d1(the cat) d2(dog) ", "separated by blanks");
    assert_reads(any, "Chapter one\tThe cat\n", "#0(chapter one the cat) ", "");
}

TEST(what_is_no_text_is_refused) {
    assert_refused(any, "{\"id\": 1, \"text\": \"a cat\"}\n", ":1: JSON: ");
    assert_refused(any, "[{\"text\": \"a cat\"}]\n", ":1: JSON: ");
    assert_refused(any, "@RELATION news\n", ":1: ARFF");
    assert_refused(any, "+1 3:0.5 7:1\n", ":1: libsvm");
    assert_refused(any, "0.5 3:1 7:1\n", ":1: libsvm");
    assert_refused(any, "2 qid:1 3:1\n", ":1: libsvm");
    assert_refused(any, "3 1:1 2:1\n", "as libsvm has it");
    assert_refused(any, "5.1,3.5,1.4,0.2,setosa\n", "a table of numbers");
    assert_refused(any, "1 2 3 4.5\n", "a table of numbers");
    assert_refused(any, "docno,narrative\n1,abc\n", "a table with the columns 'docno,narrative'");
    assert_refused(any, "a,narrative\nx,\"abc, def\"\n", "--columns text=NAME");
    assert_refused(any, "0,\"the cat\"\n1,\"the dog\"\n", "a table without a header: --columns text=2");
    assert_reads((struct lda_corpus){.format = LDA_FORMAT_TEXT}, "docno,narrative\n1,abc\n",
                 "#0(docno narrative) #1(abc) ", "");
    /* Prose and lists of words. */
    assert_reads(any, "Hello, world\nYes, sir\n", "#0(hello world) #1(yes sir) ", "");
    assert_reads(any, "apple,banana\ncherry,date\n", "#0(apple banana) #1(cherry date) ", "");
    assert_reads(any, "\"Well\", he said, \"no\"\n\"Well\", she said, \"yes\"\n",
                 "#0(well said) #1(well said she yes) ", "");
    assert_reads(any, "A text, and more.\n", "#0(text and more) ", "");
    assert_reads(any, "[see] the note {here}\n", "#0(see the note here) ", "");
}

TEST(documents_without_words_are_told) {
    assert_reads(any, "the cat\n\n12 13\nwell\n7\n", "#0(the cat) #3(well) ",
                 "input: 2 of 4 documents are left out, as they have no word; the first is document 3");
    assert_reads(any, "id,text\na,\nb,the cat\nc,12\n", "b(the cat) ",
                 "2 of 3 documents are left out, as they have no word");
    assert_reads(any, "0\n1 2:1\n0\n", "#1(2) ", ""); /* lda-c says by itself that there is none */
    struct read_text read;
    struct error error;
    write_text("texts/1", "the cat\n");
    write_text("texts/2", "2 7 1\n3 9 1\n");
    assert_int_equal(read_file("texts", any, &read, &error), 0);
    assert_string_equal(read.text, "#0(the cat) ");
    assert_string_equal(read.notes, "texts: 1 of 2 files are left out, as they have no word; the first is 2");
}

TEST(documents_without_words_are_passed_on) {
    const struct lda_corpus all = {.empty = true};
    assert_reads(all, "5\n3\n2\n2 1 1\n4 2 1\n", "#0() #1(0) #2() #3(1) #4() ", "");
    assert_reads(all, "0\n1 2:1\n0\n", "#0() #1(2) #2() ", "");
    assert_reads(all, "\nthe cat\n\n12\n", "#0() #1(the cat) #2() #3() ", "");
    assert_reads(all, "%%MatrixMarket matrix coordinate real general\n3 2 2\n2 2 1\n1 1 0\n", "#0() #1(1) #2() ", "");
    assert_reads(all, "id,text\na,\nb,the cat\nc,12\n", "a() b(the cat) c() ", "");
    assert_reads(all, "a |t cat:1\nb |t\nc |u dog\n", "a(cat) b() c() ", "");
    CLOSED_BY(lda_vocabulary_close) struct lda_vocabulary words = {0};
    lda_vocabulary_add(&words, "cat", 3);
    assert_reads((struct lda_corpus){.empty = true, .closed = true, .vocabulary = &words}, "dog\ncat\n", "#0() #1(0) ",
                 "");
}

TEST(cases) {
    static const struct {
        const char *name;
        uint64_t documents, tokens; /* 0: refused */
        uint32_t words;
    } cases[] = {{"F1.mm", 40, 1600, 30}, {"F4.vw", 40, 1600, 30},   {"F5.vw", 40, 1600, 30},
                 {"F7.csv", 40, 493, 30}, {"N18.uci", 40, 1600, 30}, {"F8.csv", 0, 0, 0}};
    const char *source = getenv("PROTEUS_SOURCE");
    for (size_t c = 0; c < sizeof cases / sizeof *cases; c++) {
        char file[256];
        struct read_text read;
        struct error error;
        snprintf(file, sizeof file, "%s/../shared/cases/files/%s", source, cases[c].name);
        if (access(file, R_OK) != 0) {
            print_message("skipped: %s is missing\n", file);
            continue;
        }
        int result = read_file(file, any, &read, &error);
        if (cases[c].documents == 0) {
            assert_int_equal(result, AML_EINPUT);
            assert_non_null(strstr(error.text, "Git LFS"));
            continue;
        }
        if (result != 0) {
            fail_msg("%s", error.text);
        }
        assert_int_equal(read.size.documents, cases[c].documents);
        assert_int_equal(read.size.tokens, cases[c].tokens);
        assert_int_equal(read.size.words, cases[c].words);
    }
}

int main(void) {
    return tests_run(files_open, files_close_one);
}
