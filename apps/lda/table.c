/* Tables of documents and MALLET's lines (corpus.h), and how both are distinguished from plain text. */
#include "agileml/base/memory.h"
#include "agileml/base/text_columns.h"
#include "apps/lda/reader.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
    NAME_BYTES_MAX = 40,  /* bytes of a column's name, to recognize a header */
    NAME_BLANKS_MAX = 2,  /* blanks in such a name */
    MALLET_BYTES_MAX = 64 /* bytes of an id or a label, to recognize MALLET */
};

/* Names of columns with texts or ids, in order of preference; normalized as in text_columns.h. */
static const char *const text_names[] = {
    "text",        "body",   "content",     "contents", "document",    "article",     "fulltext",  "abstract",
    "reviewtext",  "review", "reviewbody",  "comment",  "commenttext", "commentbody", "message",   "tweet",
    "tweettext",   "post",   "description", "summary",  "selftext",    "sentence",    "paragraph", "story",
    "question",    "answer", "transcript",  "speech",   "lyrics",      "plot",        "rawtext",   "cleantext",
    "cleanedtext", "title",  "headline",    "subject",  NULL};
static const char *const id_names[] = {"id",      "docid",     "documentid", "docno",   "doc",      "key",
                                       "uid",     "uuid",      "textid",     "tweetid", "reviewid", "articleid",
                                       "paperid", "commentid", "messageid",  "postid",  "pmid",     "doi",
                                       "arxivid", "filename",  "file",       "url",     NULL};

/* The fields of a record, and which of them are used. */
struct table {
    struct lda_reader *reader;
    enum text_separator separator;
    size_t columns;
    int text, id;       /* columns, from 0; TEXT_COLUMN_NONE: none */
    bool header;        /* the first record is a header */
    const char *record; /* [length]: the current record, of one line or several */
    size_t length;
    char *joined; /* the joined lines of a record with several lines; `record` then points here */
    size_t joined_capacity;
    char *text_copy, *id_copy; /* the fields' texts, without quotes */
    size_t text_capacity, id_capacity;
    uint64_t records; /* records so far, without the header */
};

/* ---- Fields ---- */

/* Scans the fields of text[length], a record's next line, and returns how many begin there. *open: whether a quoted
 * field is open, before and after the line. */
static size_t scan_quotes(const char *text, size_t length, enum text_separator separator, bool *open) {
    const char *end = text + length;
    const char *p = text;
    struct text_field field;
    size_t count = 0;
    if (*open) {
        p = text_closing_quote(p, end);
        *open = p == NULL;
        p = p != NULL && text_field_take(p, end, separator, &field) ? field.next : NULL;
    }
    for (; p != NULL; p = field.next) {
        count++;
        if (!text_field_take(p, end, separator, &field)) {
            *open = text_closing_quote(field.text + 1, end) == NULL;
            break;
        }
    }
    return count;
}

/* Returns the number of fields of [line, end), up to an open quoted field. Sets *open to whether there is one. */
static size_t count_fields(const char *line, const char *end, enum text_separator separator, bool *open) {
    *open = false;
    return scan_quotes(line, (size_t)(end - line), separator, open);
}

static size_t count_blanks(const char *text, size_t length) {
    size_t count = 0;
    for (size_t i = 0; i < length; i++) {
        count += text_is_blank(text[i]) ? 1 : 0;
    }
    return count;
}

static bool is_number(const struct text_field *field) {
    return !field->quoted && lda_is_number(field->text, field->length);
}

/* Whether a field could be a column's name. `strict`: names have no blanks. */
static bool is_name(const struct text_field *field, bool strict) {
    unsigned char first = field->length > 0 ? (unsigned char)*field->text : ' ';
    bool letter = (first >= 'A' && first <= 'Z') || (first >= 'a' && first <= 'z') || first == '_' || first >= 0x80;
    return letter && field->length <= NAME_BYTES_MAX &&
           count_blanks(field->text, field->length) <= (strict ? 0 : NAME_BLANKS_MAX);
}

/* Whether all fields of a header could be names. The first may be empty, as pandas writes its index. */
static bool are_names(const char *line, const char *end, enum text_separator separator, bool strict) {
    struct text_field field;
    size_t column = 0;
    for (const char *p = line; p != NULL; p = field.next, column++) {
        bool fits = text_field_take(p, end, separator, &field) &&
                    (is_name(&field, strict) || text_column_is_index(&field, column));
        if (!fits) {
            return false;
        }
    }
    return true;
}

/* Finds the first of `names` that a column has. Returns the column's place, or TEXT_COLUMN_NONE. */
static int find_name(const char *line, const char *end, enum text_separator separator, const char *const *names) {
    for (; *names != NULL; names++) {
        const struct text_role role = {*names, *names};
        struct error error;
        size_t columns;
        int place;
        if (text_columns_find(line, end, separator, &role, 1, &place, &columns, &error) == 1) {
            return place;
        }
    }
    return TEXT_COLUMN_NONE;
}

/* Returns the column that is a row index, or TEXT_COLUMN_NONE. */
static int find_index(const char *line, const char *end, enum text_separator separator) {
    struct text_field field;
    int column = 0;
    for (const char *p = line; p != NULL; p = field.next, column++) {
        if (!text_field_take(p, end, separator, &field)) {
            return TEXT_COLUMN_NONE;
        }
        if (text_column_is_index(&field, (size_t)column)) {
            return column;
        }
    }
    return TEXT_COLUMN_NONE;
}

/* ---- Recognizing a table ---- */

/* Finds the file's second line, as far as it is in memory. Returns false when there is none. */
static bool peek_line(const struct lda_reader *reader, const char **line, const char **end) {
    const char *p = reader->lines.bytes;
    *line = p;
    *end = p + reader->lines.held;
    while (p < *end && !text_is_line_end(*p) && *p != '\0') {
        p++;
    }
    *end = p;
    return p > *line;
}

/* Returns the separator of a table's fields: a tab if the first line has one, as names may have blanks. Blanks do
 * not separate. */
static enum text_separator separator_of(const struct lda_reader *reader) {
    if (memchr(reader->line, '\t', reader->length) != NULL) {
        return TEXT_TAB;
    }
    enum text_separator separator = text_separator_of(reader->line, reader->line + reader->length);
    return separator == TEXT_BLANKS ? TEXT_UNKNOWN : separator;
}

/* Whether the second line has as many fields as the first. */
static bool second_line_fits(const struct lda_reader *reader, enum text_separator separator, size_t columns) {
    const char *line;
    const char *end;
    bool open;
    if (!peek_line(reader, &line, &end)) {
        return false;
    }
    size_t fields = count_fields(line, end, separator, &open);
    return fields == columns || (open && fields < columns);
}

/* Whether the first line is a header that names a column of text. */
static bool is_header(const struct lda_reader *reader, enum text_separator separator, size_t columns) {
    const char *end = reader->line + reader->length;
    if (find_name(reader->line, end, separator, text_names) == TEXT_COLUMN_NONE) {
        return false;
    }
    bool strict = count_blanks(reader->line, reader->length) == 0 && are_names(reader->line, end, separator, true);
    const char *second;
    return columns == 1 ? strict && peek_line(reader, &second, &end)
                        : strict || (are_names(reader->line, end, separator, false) &&
                                     second_line_fits(reader, separator, columns));
}

/* Whether the line looks like MALLET's: 2 or 3 fields separated by tabs, the last one with several words, the others
 * short and without blanks. */
static bool is_mallet(const char *line, const char *end) {
    unsigned fields = 0;
    for (;;) {
        const char *tab = memchr(line, '\t', (size_t)(end - line));
        size_t length = (size_t)((tab != NULL ? tab : end) - line);
        size_t blanks = count_blanks(line, length);
        fields++;
        if (tab == NULL) {
            return fields > 1 && fields <= 3 && blanks > 0;
        }
        if (length == 0 || length > MALLET_BYTES_MAX || blanks > 0) {
            return false;
        }
        line = tab + 1;
    }
}

/* Finds a field of a kind. Returns the first one's place; -1: there is none. */
static int find_field(const char *line, const char *end, enum text_separator separator,
                      bool (*is)(const struct text_field *field)) {
    struct text_field field;
    int column = 0;
    for (const char *p = line; p != NULL; p = field.next, column++) {
        bool whole = text_field_take(p, end, separator, &field);
        if (is(&field)) {
            return column;
        }
        if (!whole) {
            break;
        }
    }
    return -1;
}

static bool is_quoted(const struct text_field *field) {
    return field->quoted;
}

static bool is_no_number(const struct text_field *field) {
    return !is_number(field);
}

/* Whether the line is not prose: no separator is followed by a blank. */
static bool is_dense(const char *line, const char *end, enum text_separator separator) {
    struct text_field field;
    for (const char *p = line; p != NULL; p = field.next) {
        if (p < end && text_is_blank(*p)) {
            return false;
        }
        if (!text_field_take(p, end, separator, &field)) {
            return true;
        }
    }
    return true;
}

/* Rejects tables without a known text column. Returns 0 for what may be text. */
static int refuse_table(const struct lda_reader *reader, enum text_separator separator, size_t columns) {
    const char *line = reader->line;
    const char *end = line + reader->length;
    const char *second;
    const char *second_end;
    bool named = are_names(line, end, separator, true);
    bool several = peek_line(reader, &second, &second_end) && second_line_fits(reader, separator, columns);
    if (named && several && find_field(line, end, separator, is_number) < 0 &&
        (find_field(second, second_end, separator, is_quoted) >= 0 ||
         find_field(second, second_end, separator, is_number) >= 0)) {
        return lda_line_error(reader,
                              "a table with the columns '%.*s'%s, none of them known to be text: --columns text=NAME "
                              "chooses one; --format text takes all lines as they are",
                              text_shown(reader->length), line, text_shown_end(reader->length));
    }
    int quoted = find_field(line, end, separator, is_quoted);
    if (quoted >= 0 && several && is_dense(line, end, separator) && is_dense(second, second_end, separator) &&
        find_field(second, second_end, separator, is_quoted) == quoted) {
        return lda_line_error(reader,
                              "a table without a header: --columns text=%d takes the documents from its column %d; "
                              "--format text takes all lines as they are",
                              quoted + 1, quoted + 1);
    }
    return 0;
}

/* Rejects a line of numbers, perhaps with one name. */
static int refuse_numbers(const struct lda_reader *reader, enum text_separator separator) {
    const char *end = reader->line + reader->length;
    struct text_field field;
    size_t numbers = 0;
    size_t others = 0;
    for (const char *p = reader->line; p != NULL && others < 2; p = field.next) {
        if (!text_field_take(p, end, separator, &field)) {
            return 0;
        }
        numbers += is_number(&field) ? 1 : 0;
        others += is_no_number(&field) ? 1 : 0;
    }
    return numbers < 3 || others > 1
               ? 0
               : lda_line_error(reader, "a table of numbers: expected documents (--format text takes it as text)");
}

int lda_recognize_table(struct lda_reader *reader) {
    enum text_separator separator = separator_of(reader);
    const char *end = reader->line + reader->length;
    const char *second;
    const char *second_end;
    bool open;
    size_t columns = count_fields(reader->line, end, separator, &open);
    if (separator != TEXT_COLONS && is_header(reader, separator, columns)) {
        return LDA_FORMAT_TABLE;
    }
    if (is_mallet(reader->line, end) && (!peek_line(reader, &second, &second_end) || is_mallet(second, second_end))) {
        return LDA_FORMAT_MALLET;
    }
    int result = refuse_numbers(reader, text_separator_of(reader->line, end));
    if (result == 0 && (separator == TEXT_TAB || separator == TEXT_COMMA || separator == TEXT_SEMICOLON)) {
        result = refuse_table(reader, separator, columns);
    }
    return result != 0 ? result : LDA_FORMAT_TEXT;
}

/* ---- --columns ---- */

enum { ROLE_TEXT = 0, ROLE_ID, ROLES };

static int read_choices(const char *columns, struct text_choice choices[ROLES], struct error *error) {
    static const char *const roles[ROLES] = {"text", "id"};
    return text_choices_parse(columns, roles, ROLES, choices, error);
}

int lda_columns_check(const char *columns, struct error *error) {
    struct text_choice choices[ROLES];
    return read_choices(columns, choices, error);
}

/* Finds the column of a choice in the first record; TEXT_COLUMN_NONE: none is chosen. Sets *named if it was found by
 * its name. */
static int find_chosen(const struct table *table, const struct text_choice *choice, int *column, bool *named) {
    struct error error = {0};
    *column = choice->place;
    if (choice->place != TEXT_COLUMN_NONE && (size_t)choice->place >= table->columns) {
        return lda_line_error(table->reader, "--columns: no column %s among %zu", choice->text, table->columns);
    }
    if (choice->name[0] == '\0') {
        return 0;
    }
    *named = true;
    const char *end = table->record + table->length;
    int result = text_choice_find(choice, table->record, end, table->separator, column, &error);
    return result == 0 ? 0 : lda_line_error(table->reader, "%s", error.text);
}

/* Whether the first record is a header, when columns are chosen by number. It must have a known name; or it has only
 * names, and the next line has a number. */
static bool looks_like_header(const struct table *table) {
    const char *end = table->record + table->length;
    const char *second;
    const char *second_end;
    return find_name(table->record, end, table->separator, text_names) != TEXT_COLUMN_NONE ||
           find_name(table->record, end, table->separator, id_names) != TEXT_COLUMN_NONE ||
           (are_names(table->record, end, table->separator, true) && peek_line(table->reader, &second, &second_end) &&
            find_field(second, second_end, table->separator, is_number) >= 0);
}

/* Finds the columns in the first record. */
static int choose_columns(struct table *table) {
    struct lda_reader *reader = table->reader;
    struct text_choice choices[ROLES];
    const char *end = table->record + table->length;
    bool open;
    table->columns = count_fields(table->record, end, table->separator, &open);
    int result = read_choices(reader->corpus->columns, choices, reader->error);
    result = result == 0 ? find_chosen(table, &choices[ROLE_TEXT], &table->text, &table->header) : result;
    result = result == 0 ? find_chosen(table, &choices[ROLE_ID], &table->id, &table->header) : result;
    if (result != 0) {
        return result;
    }
    table->header = table->header || table->text == TEXT_COLUMN_NONE || looks_like_header(table);
    if (table->text == TEXT_COLUMN_NONE) {
        table->text = find_name(table->record, end, table->separator, text_names);
    }
    if (table->text == TEXT_COLUMN_NONE) {
        return lda_line_error(reader,
                              "no column of '%.*s'%s is known to be text: expected a header with text, body, "
                              "content, abstract, ..., or --columns text=NAME",
                              text_shown(table->length), table->record, text_shown_end(table->length));
    }
    if (table->id == TEXT_COLUMN_NONE && table->header) {
        table->id = find_name(table->record, end, table->separator, id_names);
        table->id = table->id != TEXT_COLUMN_NONE ? table->id : find_index(table->record, end, table->separator);
        table->id = table->id != table->text ? table->id : TEXT_COLUMN_NONE;
    }
    return 0;
}

/* ---- Records ---- */

/* Appends the reader's line to the record. */
static void join_line(struct table *table) {
    const struct lda_reader *reader = table->reader;
    size_t needed = table->length + reader->length + 2;
    if (needed > table->joined_capacity) {
        table->joined_capacity = 2 * needed;
        table->joined = memory_resized(table->joined, table->joined_capacity, 1);
    }
    memcpy(table->joined + table->length, reader->line, reader->length);
    table->length += reader->length;
    memcpy(table->joined + table->length, "\n", 2); /* a line feed before a further line */
    table->record = table->joined;
}

/* Takes the record that begins with the reader's line. Further lines belong to it while a quoted field is open.
 * Returns 0 or an error's code. */
static int take_record(struct table *table) {
    struct lda_reader *reader = table->reader;
    bool open = false;
    table->record = reader->line;
    table->length = reader->length;
    reader->record = reader->lines.number;
    if (memchr(reader->line, '"', reader->length) != NULL) {
        scan_quotes(reader->line, reader->length, table->separator, &open);
    }
    if (!open) {
        return 0;
    }
    table->length = 0;
    join_line(table);
    while (open) {
        int result = lda_next_line(reader);
        if (result < 0) {
            return result;
        }
        table->length++; /* includes the line feed */
        if (result == 0 || table->length + reader->length > LDA_LINE_MAX_BYTES) {
            return lda_line_error(
                reader, "a field begins with a quote that is not closed (--format mallet takes quotes in lines "
                        "of id and text as they are)");
        }
        scan_quotes(reader->line, reader->length, table->separator, &open);
        join_line(table);
    }
    return 0;
}

/* Copies a field to *copy, with a final 0. Returns its length. */
static size_t copy_field(const struct text_field *field, char **copy, size_t *capacity) {
    if (field->length + 1 > *capacity) {
        *capacity = 2 * (field->length + 1);
        *copy = memory_resized(*copy, *capacity, 1);
    }
    size_t length = text_field_copy(field, *copy, field->length);
    assert(length <= field->length);
    (*copy)[length] = '\0';
    return length;
}

/* Reports that a field's quotes are wrong. */
static int bad_quotes(const struct table *table, size_t column) {
    return lda_line_error(table->reader,
                          "column %zu: expected a separator behind the closing quote, and \"\" for a quote within "
                          "(--format mallet takes quotes in lines of id and text as they are)",
                          column + 1);
}

/* Passes on the record as a document. */
static int take_document(struct table *table) {
    struct lda_reader *reader = table->reader;
    const char *end = table->record + table->length;
    struct text_field field;
    struct text_field text = {.text = NULL};
    size_t column = 0;
    size_t id_length = 0;
    for (const char *p = table->record; p != NULL; p = field.next, column++) {
        if (!text_field_take(p, end, table->separator, &field)) {
            if (table->columns > 1) {
                return bad_quotes(table, column);
            }
            field = (struct text_field){.text = p, .length = (size_t)(end - p)};
        }
        text = (int)column == table->text ? field : text;
        if ((int)column == table->id) {
            id_length = copy_field(&field, &table->id_copy, &table->id_capacity);
        }
    }
    if (column != table->columns) {
        return lda_line_error(reader,
                              "%zu fields, expected %zu, as %s has (a text with separators must stand in quotes)",
                              column, table->columns, table->header ? "the header" : "the first line");
    }
    size_t length = copy_field(&text, &table->text_copy, &table->text_capacity);
    int result = lda_add_text(reader, table->text_copy, length);
    if (result != 0) {
        return result;
    }
    reader->id = id_length > 0 ? table->id_copy : NULL;
    reader->id_length = id_length;
    return lda_end_document(reader, table->records++);
}

/* Notes which columns are read. */
static void note_columns(const struct table *table) {
    char id[32] = "none";
    if (table->id != TEXT_COLUMN_NONE) {
        snprintf(id, sizeof id, "in column %d", table->id + 1);
    }
    lda_note(table->reader->corpus,
             "a table of %zu columns, %s; the text is in column %d, ids %s (--columns names others)", table->columns,
             table->header ? "line 1 taken as its header" : "without a header", table->text + 1, id);
}

static int read_records(struct table *table) {
    int result = take_record(table);
    result = result != 0 ? result : choose_columns(table);
    if (result != 0) {
        return result;
    }
    note_columns(table);
    result = table->header ? 0 : take_document(table);
    while (result == 0 && (result = lda_next_line(table->reader)) > 0) {
        result = lda_blank_line(table->reader) ? 0 : take_record(table);
        if (result == 0 && !lda_blank_line(table->reader)) {
            result = take_document(table);
        }
    }
    return result;
}

int lda_read_table(struct lda_reader *reader) {
    struct table table = {.reader = reader, .separator = separator_of(reader)};
    int result = read_records(&table);
    reader->record = 0;
    free(table.joined);
    free(table.text_copy);
    free(table.id_copy);
    return result;
}

/* ---- MALLET ---- */

/* Returns the end of the field at p: the next tab, or with blanks as separators the next blank or comma. */
static const char *field_end(const char *p, const char *end, bool tabs) {
    while (p < end && *p != '\t' && (tabs || (*p != ' ' && *p != ','))) {
        p++;
    }
    return p;
}

static const char *skip_separators(const char *p, const char *end, bool tabs) {
    if (tabs) {
        return p < end ? p + 1 : p;
    }
    while (p < end && (text_is_blank(*p) || *p == ',')) {
        p++;
    }
    return p;
}

int lda_read_mallet(struct lda_reader *reader) {
    const char *tab = memchr(reader->line, '\t', reader->length);
    bool tabs = tab != NULL;
    bool label = !tabs || memchr(tab + 1, '\t', (size_t)(reader->line + reader->length - tab - 1)) != NULL;
    lda_note(reader->corpus, "lines of id%s and text, separated by %s", label ? ", label" : "",
             tabs ? "tabs" : "blanks");
    int result = 1;
    while (result > 0) {
        const char *end = reader->line + reader->length;
        const char *id = tabs ? reader->line : text_skip_blanks(reader->line);
        const char *id_end = field_end(id, end, tabs);
        const char *text = skip_separators(id_end, end, tabs);
        text = label ? skip_separators(field_end(text, end, tabs), end, tabs) : text;
        result = lda_add_text(reader, text, (size_t)(end - text));
        reader->id = id_end > id ? id : NULL;
        reader->id_length = (size_t)(id_end - id);
        result = result != 0 ? result : lda_end_document(reader, reader->lines.number - 1);
        result = result != 0 ? result : lda_next_line(reader);
    }
    return result;
}
