/* See market_read.h. Reads the lines or bytes of text_lines.h in one pass. An archive's member is such a stream,
 * too. */
#include "bidbrain/market/market_read.h"

#include "agileml/base/folder.h"
#include "agileml/base/instant.h"
#include "agileml/base/log.h"
#include "agileml/base/memory.h"
#include "agileml/base/text_lines.h"
#include "bidbrain/market/market_columns.h"

#include <inttypes.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

enum { TAR_BLOCK = 512, TAR_NAME = 100 };

/* The fields of a point that have been read so far, as a set of FIELD_ bits. */
enum { FIELD_TYPE = 1, FIELD_ZONE = 2, FIELD_PRODUCT = 4, FIELD_PRICE = 8, FIELD_TIME = 16 };
struct record {
    unsigned fields;
    char type[MARKET_TEXT_MAX], zone[MARKET_TEXT_MAX], product[MARKET_TEXT_MAX];
    char date[MARKET_TEXT_MAX]; /* date of the time, if it has its own field */
    bool priced;                /* it has a price, perhaps 0 */
    struct market_point point;
};

struct reader {
    struct markets *markets;
    const char *product; /* the only product to read; NULL: all */
    struct text_lines lines;
    uint64_t line;       /* line of the current record, for messages */
    struct record given; /* fields that come from the file's name */
    uint64_t records;
    struct error *error;
};

static int reader_fail(struct reader *reader, const char *what) {
    return error_set(reader->error, AML_EINPUT, "%s:%" PRIu64 ": %s", text_input_name(reader->lines.path), reader->line,
                     what);
}

/* ---- Records ---- */

static void record_text(struct record *record, unsigned field, char place[MARKET_TEXT_MAX], const char *text) {
    if (*text != '\0') {
        snprintf(place, MARKET_TEXT_MAX, "%.*s", MARKET_TEXT_MAX - 1, text);
        record->fields |= field;
    }
}

static int record_price(struct reader *reader, struct record *record, const char *text) {
    char message[200];
    record->priced = true;
    if (!price_parse(text, &record->point.price)) {
        snprintf(message, sizeof message, "price '%.60s': expected dollars per hour, such as 0.0187", text);
        return reader_fail(reader, message);
    }
    if (record->point.price < 0) {
        snprintf(message, sizeof message, "price '%.60s': expected no negative price", text);
        return reader_fail(reader, message);
    }
    if (record->point.price == 0) { /* EC2 has used 0.000000 for "no price" */
        record->fields &= ~(unsigned)FIELD_PRICE;
        return 0;
    }
    record->fields |= FIELD_PRICE;
    return 0;
}

/* Reads a time. A time of day is completed by the record's date. */
static int record_time(struct reader *reader, struct record *record, const char *text) {
    char message[240];
    char whole[2 * MARKET_TEXT_MAX + 2];
    bool good = instant_parse_any(text, &record->point.time);
    if (!good && record->date[0] != '\0') {
        snprintf(whole, sizeof whole, "%s %.40s", record->date, text);
        good = instant_parse_any(whole, &record->point.time);
    }
    if (!good) {
        snprintf(message, sizeof message,
                 "time '%.60s': expected such as 2016-04-25T12:00:32Z, or seconds to nanoseconds since 1970, from 2006 "
                 "to 2099",
                 text);
        return reader_fail(reader, message);
    }
    record->fields |= FIELD_TIME;
    return 0;
}

/* Adds a record that is complete with the fields from the file's name. Counts an incomplete record as skipped. */
static int record_end(struct reader *reader, const struct record *record) {
    const struct record *given = &reader->given;
    reader->records++;
    unsigned all = FIELD_TYPE | FIELD_ZONE | FIELD_PRODUCT | FIELD_PRICE | FIELD_TIME;
    if (((record->fields | given->fields) & all) != all) {
        reader->markets->skipped++;
        return 0;
    }
    const char *product = record->fields & FIELD_PRODUCT ? record->product : given->product;
    if (reader->product != NULL && strcmp(reader->product, product) != 0) {
        return 0;
    }
    return markets_add(reader->markets, record->fields & FIELD_TYPE ? record->type : given->type,
                       record->fields & FIELD_ZONE ? record->zone : given->zone, product, record->point, reader->error);
}

/* ---- Fields ---- */

/* Returns EC2's name of a product; some files have only the operating system. */
static const char *product_of(const char *text) {
    return strcasecmp(text, "linux") == 0 ? MARKET_PRODUCT : strcasecmp(text, "windows") == 0 ? "Windows" : text;
}

/* Reads a field of a line, or a member of a JSON object. An empty field counts as absent. */
static int record_field(struct reader *reader, struct record *record, enum market_column kind, const char *text) {
    if (*text == '\0') {
        return 0;
    }
    switch (kind) {
    case MARKET_COLUMN_TYPE:
        record_text(record, FIELD_TYPE, record->type, text);
        return 0;
    case MARKET_COLUMN_ZONE:
        record_text(record, FIELD_ZONE, record->zone, text);
        return 0;
    case MARKET_COLUMN_PRODUCT:
        record_text(record, FIELD_PRODUCT, record->product, product_of(text));
        return 0;
    case MARKET_COLUMN_PRICE:
        return record_price(reader, record, text + (*text == '$'));
    case MARKET_COLUMN_DATE:
        record_text(record, 0, record->date, text);
        return 0;
    case MARKET_COLUMN_TIME:
        return record_time(reader, record, text);
    case MARKET_COLUMN_EPOCH:
        return record->fields & FIELD_TIME ? 0 : record_time(reader, record, text);
    case MARKET_COLUMN_OTHER:
        break;
    }
    return 0;
}

/* ---- JSON ---- */

/* Writes a number as a field's text, without an exponent. Integers are exact: nanoseconds have 19 digits. */
static void json_number_text(const json_t *value, char text[MARKET_READ_FIELD_MAX + 1]) {
    if (json_is_integer(value)) {
        snprintf(text, MARKET_READ_FIELD_MAX + 1, "%" JSON_INTEGER_FORMAT, json_integer_value(value));
    } else {
        snprintf(text, MARKET_READ_FIELD_MAX + 1, "%.9f", json_number_value(value));
    }
}

/* Reads the members that are dates, or all others. Dates are read first, since a date may come before or after its
 * time. */
static int json_take(struct reader *reader, json_t *object, bool dates, struct record *record) {
    const char *key;
    json_t *value;
    json_object_foreach(object, key, value) {
        enum market_column kind = market_column_named(key);
        char number[MARKET_READ_FIELD_MAX + 1];
        const char *text = json_string_value(value);
        if (json_is_number(value)) {
            json_number_text(value, number);
            text = number;
        }
        bool wanted = text != NULL && (kind == MARKET_COLUMN_DATE) == dates;
        int code = wanted ? record_field(reader, record, kind, text) : 0;
        if (code != 0) {
            return code;
        }
    }
    return 0;
}

/* Whether an object has a member of this kind. */
static bool json_has(json_t *object, enum market_column kind) {
    const char *key;
    json_t *value;
    json_object_foreach(object, key, value) {
        if (market_column_named(key) == kind) {
            return true;
        }
    }
    return false;
}

/* Takes an object as a record if it has a price or two other members of a record. Objects around records have
 * neither. */
static int json_record(struct reader *reader, json_t *object) {
    struct record record = {0};
    int code = json_take(reader, object, true, &record);
    code = code != 0 ? code : json_take(reader, object, false, &record);
    if (code == 0 && record.date[0] != '\0' && !json_has(object, MARKET_COLUMN_TIME) &&
        !json_has(object, MARKET_COLUMN_EPOCH)) {
        code = record_time(reader, &record, record.date);
    }
    if (code != 0) {
        return code;
    }
    bool several = (record.fields & (record.fields - 1)) != 0;
    return several || record.fields == FIELD_PRICE || record.priced ? record_end(reader, &record) : 0;
}

/* The text of the objects and arrays that are still open. When the innermost value ends, jansson reads it, and `null`
 * replaces it in the value around it, so that the list of all records is never held in memory. */
struct json_text {
    char *bytes;
    size_t size, capacity;
    struct json_open {
        size_t start;  /* offset of its text in bytes */
        uint64_t line; /* where it begins */
        bool replaced; /* a value in it was replaced by `null`, and its line ends are lost */
    } open[MARKET_READ_DEPTH_MAX];
    unsigned depth;
    bool quoted, escaped; /* inside a string; after a backslash in it */
};

static bool json_is_blank(char byte) {
    return byte == ' ' || byte == '\n' || byte == '\t' || byte == '\r';
}

static size_t json_skip_back(const struct json_text *text, size_t at) {
    while (at > 0 && json_is_blank(text->bytes[at - 1])) {
        at--;
    }
    return at;
}

/* Where to write the `null` that replaces the value that began at `start`. If the array around it holds only an earlier
 * `null,`, the new `null` overwrites that. */
static size_t json_place(const struct json_text *text, size_t start) {
    size_t list = text->open[text->depth - 1].start;
    size_t comma = json_skip_back(text, start);
    if (text->bytes[list] != '[' || text->bytes[comma - 1] != ',') {
        return start;
    }
    size_t null = json_skip_back(text, comma - 1);
    bool found = null > list + 4 && memcmp(text->bytes + null - 4, "null", 4) == 0;
    return found && json_skip_back(text, null - 4) == list + 1 ? list + 1 : start;
}

static int json_append(struct reader *reader, struct json_text *text, char byte) {
    if (text->size == text->capacity) {
        if (text->capacity == MARKET_READ_TEXT_MAX) {
            return reader_fail(reader, "broken JSON: an object or array of more than 1 MiB, too long for prices");
        }
        text->capacity = text->capacity == 0 ? 1 << 12 : 2 * text->capacity;
        text->bytes = memory_resized(text->bytes, text->capacity, 1);
    }
    text->bytes[text->size++] = byte;
    return 0;
}

/* Parses the text of the innermost open value. */
static int json_read(struct reader *reader, struct json_text *text) {
    const struct json_open *open = &text->open[text->depth - 1];
    uint64_t end = reader->line;
    json_error_t wrong;
    json_t *value = json_loadb(text->bytes + open->start, text->size - open->start, 0, &wrong);
    if (value == NULL) {
        char message[sizeof wrong.text + 16];
        snprintf(message, sizeof message, "broken JSON: %s", wrong.text);
        reader->line = open->replaced || wrong.line < 1 ? end : open->line + (uint64_t)wrong.line - 1;
        return reader_fail(reader, message);
    }
    reader->line = open->line;
    int code = json_is_object(value) ? json_record(reader, value) : 0;
    reader->line = code == 0 ? end : open->line;
    json_decref(value);
    return code;
}

/* Parses the innermost value, which has ended, and replaces its text by `null`. */
static int json_close(struct reader *reader, struct json_text *text) {
    int code = json_read(reader, text);
    size_t start = text->open[--text->depth].start;
    if (text->depth == 0) {
        text->size = 0;
        return code;
    }
    text->open[text->depth - 1].replaced = true;
    text->size = json_place(text, start);
    for (const char *byte = "null"; code == 0 && *byte != '\0'; byte++) {
        code = json_append(reader, text, *byte);
    }
    return code;
}

static int json_byte(struct reader *reader, struct json_text *text, char byte) {
    bool closes = false;
    reader->line += byte == '\n';
    if (text->quoted) {
        text->quoted = text->escaped || byte != '"';
        text->escaped = !text->escaped && byte == '\\';
    } else if (byte == '{' || byte == '[') {
        if (text->depth == MARKET_READ_DEPTH_MAX) {
            return reader_fail(reader, "broken JSON: values nested too deeply");
        }
        text->open[text->depth++] = (struct json_open){.start = text->size, .line = reader->line};
    } else if (text->depth == 0) {
        return json_is_blank(byte) ? 0 : reader_fail(reader, "broken JSON: expected an object or an array");
    } else {
        text->quoted = byte == '"';
        closes = byte == '}' || byte == ']';
    }
    int code = json_append(reader, text, byte);
    return code == 0 && closes ? json_close(reader, text) : code;
}

/* Reads one JSON value or several in a row. */
static int json_file(struct reader *reader) {
    struct text_lines *lines = &reader->lines;
    struct json_text text = {0};
    int code = text_lines_fill(lines, 1, reader->error);
    while (code == 0 && lines->held > 0) {
        for (size_t i = 0; i < lines->held && code == 0; i++) {
            code = json_byte(reader, &text, lines->bytes[i]);
        }
        text_lines_skip(lines, lines->held);
        code = code != 0 ? code : text_lines_fill(lines, 1, reader->error);
    }
    if (code == 0 && text.depth > 0) {
        text.depth = 1; /* a value is still open: jansson's error says why */
        code = json_read(reader, &text);
    }
    free(text.bytes);
    return code;
}

/* ---- CSV, TSV and the AWS CLI's text ---- */

/* Cuts the line into fields. Returns their number, which may exceed MARKET_COLUMNS_MAX; 0: a quote is not closed. */
static size_t text_cut(const char *line, const char *end, enum text_separator separator,
                       struct text_field fields[MARKET_COLUMNS_MAX]) {
    size_t count = 0;
    for (const char *next = line; next != NULL; count++) {
        struct text_field field;
        if (!text_field_take(next, end, separator, &field)) {
            return 0;
        }
        next = field.next;
        if (count < MARKET_COLUMNS_MAX) {
            fields[count] = field;
        }
    }
    return count;
}

/* Reads the fields that are dates, or all others. Dates are read first, since a date may come before or after its
 * time. */
static int text_take(struct reader *reader, const struct market_columns *columns, const struct text_field *fields,
                     bool dates, struct record *record) {
    int code = 0;
    for (size_t c = 0; c < columns->count && code == 0; c++) {
        enum market_column kind = columns->kinds[c];
        char text[MARKET_READ_FIELD_MAX + 1];
        if (kind == MARKET_COLUMN_OTHER || (kind == MARKET_COLUMN_DATE) != dates) {
            continue;
        }
        size_t length = fields[c].length;
        if (fields[c].quoted || length > MARKET_READ_FIELD_MAX) {
            length = text_field_copy(&fields[c], text, MARKET_READ_FIELD_MAX);
        } else {
            memcpy(text, fields[c].text, length);
        }
        if (length > MARKET_READ_FIELD_MAX) {
            return reader_fail(reader, "a field is too long");
        }
        text[length] = '\0';
        code = record_field(reader, record, kind, text);
    }
    return code;
}

static int text_record(struct reader *reader, const struct market_columns *columns, const char *line, const char *end) {
    struct text_field fields[MARKET_COLUMNS_MAX];
    struct record record = {0};
    size_t count = text_cut(line, end, columns->separator, fields);
    if (count != columns->count) {
        char message[120];
        snprintf(message, sizeof message, "%zu columns: expected %zu", count, columns->count);
        return reader_fail(reader, count == 0 ? "a '\"' that is not closed before the next separator" : message);
    }
    int code = text_take(reader, columns, fields, true, &record);
    code = code != 0 ? code : text_take(reader, columns, fields, false, &record);
    return code != 0 ? code : record_end(reader, &record);
}

/* Finds the columns from the first line. */
static int text_columns(struct reader *reader, const char *line, const char *end, struct market_columns *columns,
                        bool *header) {
    struct error reason = {0};
    return market_columns_choose(columns, line, end, header, &reason) == 0 ? 0 : reader_fail(reader, reason.text);
}

static int text_file(struct reader *reader) {
    struct market_columns columns = {0};
    uint64_t token = 0; /* line that may be the CLI's token for the next page, before all records; 0: none */
    char *line;
    size_t length;
    int code;
    while ((code = text_lines_next(&reader->lines, &line, &length, reader->error)) == 0 && line != NULL) {
        const char *end = line + length;
        bool header = false;
        reader->line = reader->lines.number;
        if (length == 0 || (columns.cli && market_line_is_token(line, end))) {
            continue;
        }
        if (columns.count == 0 && token == 0 && market_line_is_token(line, end)) {
            token = reader->line;
            continue;
        }
        if (columns.count == 0) {
            code = text_columns(reader, line, end, &columns, &header);
            if (code == 0 && token != 0 && !columns.cli) {
                reader->line = token;
                code = reader_fail(reader, "expected several columns: a time, a price, perhaps zone, type and product");
            }
        }
        if (code == 0 && !header) {
            code = text_record(reader, &columns, line, end);
        }
        if (code != 0) {
            break;
        }
    }
    return code;
}

/* ---- Files ---- */

/* Takes fields from a file's name. "c3.xlarge-us-east-1a.csv.gz" has type and zone. "ec2-spot-market-VA.json.gz" has
 * the letters that EC2's console used for its first regions. */
static void reader_given(struct reader *reader, const char *path) {
    static const char *const first_regions[][2] = {{"VA", "us-east-1"}, {"CA", "us-west-1"}, {"EU", "eu-west-1"}};
    const char *base = strrchr(path, '/');
    base = base == NULL ? path : base + 1;
    memset(&reader->given, 0, sizeof reader->given);
    record_text(&reader->given, FIELD_PRODUCT, reader->given.product, MARKET_PRODUCT);
    const char *dash = strchr(base, '-');
    const char *point = strchr(base, '.');
    if (dash != NULL && point != NULL && point < dash && (size_t)(dash - base) < MARKET_TEXT_MAX) {
        char text[MARKET_TEXT_MAX];
        snprintf(text, sizeof text, "%.*s", (int)(dash - base), base);
        record_text(&reader->given, FIELD_TYPE, reader->given.type, text);
        snprintf(text, sizeof text, "%.*s", (int)strcspn(dash + 1, "."), dash + 1);
        record_text(&reader->given, FIELD_ZONE, reader->given.zone, text);
    }
    for (size_t i = 0; i < sizeof first_regions / sizeof *first_regions; i++) {
        dash = strrchr(base, '-');
        if (point != NULL && dash != NULL && point - dash == 3 && strncmp(dash + 1, first_regions[i][0], 2) == 0) {
            record_text(&reader->given, FIELD_ZONE, reader->given.zone, first_regions[i][1]);
        }
    }
}

/* Reads the input of a file, or of an archive's member, and closes it; `path` is for messages. */
static int read_content(struct reader *reader, struct text_input *input, const char *path, const char *name) {
    struct text_lines *lines = &reader->lines;
    uint64_t skipped = reader->markets->skipped;
    reader_given(reader, name);
    reader->records = 0;
    reader->line = 1;
    text_lines_take(lines, path, input, MARKET_READ_LINE_MAX);
    int code = text_lines_fill(lines, MARKET_READ_LINE_MAX, reader->error);
    size_t first = 0;
    while (first < lines->held && json_is_blank(lines->bytes[first])) {
        first++;
    }
    if (code == 0) {
        bool json = first < lines->held && (lines->bytes[first] == '{' || lines->bytes[first] == '[');
        code = json ? json_file(reader) : text_file(reader);
    }
    if (code == 0 && reader->records == 0) {
        code = reader_fail(reader, "no spot prices in this file");
    } else if (code == 0 && reader->records == reader->markets->skipped - skipped) {
        code = reader_fail(reader,
                           "no record has a type, a zone, a price and a time, and the file's name is not TYPE-ZONE");
    }
    reader->markets->files++;
    text_lines_close(lines);
    return code;
}

/* ---- Archives ---- */

struct archive {
    const char *path;
    struct text_input *input;
    uint64_t left; /* unread bytes of the member */
    unsigned char block[TAR_BLOCK];
};

static int archive_fail(const struct archive *archive, const char *what, struct error *error) {
    return error_set(error, AML_EINPUT, "%s:1: %s", text_input_name(archive->path), what);
}

/* Reads bytes of the current member: a text_source. */
static int archive_member(void *context, void *bytes, size_t size, size_t *got, struct error *error) {
    struct archive *archive = context;
    size_t wanted = archive->left < size ? (size_t)archive->left : size;
    int code = text_input_read(archive->input, bytes, wanted, got, error);
    archive->left -= *got;
    return code == 0 && *got < wanted ? archive_fail(archive, "the archive is cut short", error) : code;
}

/* Skips the rest of the member, then `padding` bytes. */
static int archive_skip(struct archive *archive, uint64_t padding, struct error *error) {
    size_t got;
    int code = 0;
    archive->left += padding;
    while (code == 0 && archive->left > 0) {
        code = archive_member(archive, archive->block, sizeof archive->block, &got, error);
    }
    return code;
}

/* Reads the next member's header; *more is false at the archive's end. */
static int archive_next(struct archive *archive, bool *more, struct error *error) {
    size_t got;
    char size[13];
    int code = text_input_read(archive->input, (char *)archive->block, TAR_BLOCK, &got, error);
    const char *header = (const char *)archive->block;
    *more = code == 0 && got > 0 && header[0] != '\0';
    if (!*more) {
        return code;
    }
    if (got < TAR_BLOCK) {
        return archive_fail(archive, "the archive is cut short", error);
    }
    snprintf(size, sizeof size, "%.12s", header + 124);
    size[strcspn(size, " ")] = '\0';
    if (memcmp(header + 257, "ustar", 5) != 0 || size[strspn(size, "01234567")] != '\0') {
        return archive_fail(archive, "not a tar archive, or a broken one", error);
    }
    archive->left = strtoull(size, NULL, 8);
    return 0;
}

/* Reads the members that are files as if they were files on disk. Skips all others. */
static int read_members(struct reader *reader, struct archive *archive) {
    bool more = false;
    int code;
    while ((code = archive_next(archive, &more, reader->error)) == 0 && more) {
        char member[TAR_NAME + 1];
        char path[TEXT_INPUT_NAME_MAX + sizeof member + 2];
        struct text_input *input;
        uint64_t padding = (TAR_BLOCK - archive->left % TAR_BLOCK) % TAR_BLOCK;
        char kind = (char)archive->block[156];
        snprintf(member, sizeof member, "%.*s", TAR_NAME, (const char *)archive->block);
        snprintf(path, sizeof path, "%s(%s)", text_input_name(archive->path), member);
        if ((kind == '0' || kind == '\0') && archive->left > 0) {
            code = text_input_open_source(&input, path, archive_member, archive, reader->error);
            code = code != 0 ? code : read_content(reader, input, path, member);
        }
        code = code != 0 ? code : archive_skip(archive, padding, reader->error);
        if (code != 0) {
            break;
        }
    }
    return code;
}

/* ---- Files ---- */

static bool name_ends(const char *name, const char *end) {
    size_t length = strlen(name);
    size_t end_length = strlen(end);
    return length >= end_length && strcmp(name + length - end_length, end) == 0;
}

static bool name_is_archive(const char *name) {
    return name_ends(name, ".tar") || name_ends(name, ".tar.gz") || name_ends(name, ".tgz");
}

static bool name_is_prices(const char *name) {
    static const char *const ends[] = {".json", ".json.gz", ".jsonl", ".jsonl.gz",
                                       ".csv",  ".csv.gz",  ".tsv",   ".tsv.gz"};
    for (size_t i = 0; i < sizeof ends / sizeof *ends; i++) {
        if (name_ends(name, ends[i])) {
            return true;
        }
    }
    return name_is_archive(name);
}

static int read_file(struct reader *reader, const char *path, const char *name) {
    struct archive archive = {.path = path};
    int code = text_input_open(&archive.input, path, reader->error);
    if (code != 0 || !name_is_archive(name)) {
        return code != 0 ? code : read_content(reader, archive.input, path, name);
    }
    code = read_members(reader, &archive);
    text_input_close(archive.input);
    return code;
}

static int visit_file(void *context, const char *path, struct error *error) {
    (void)error; /* the reader has its own */
    return read_file(context, path, path);
}

int market_read_named(struct markets *markets, const char *path, const char *name, const char *product,
                      struct error *error) {
    uint64_t files = markets->files;
    struct error first = {0}; /* error may be NULL or hold an earlier failure */
    struct reader reader = {.markets = markets, .product = product, .error = &first};
    int code =
        name == NULL ? folder_walk(path, name_is_prices, visit_file, &reader, &first) : read_file(&reader, path, name);
    if (code == 0 && markets->files == files) {
        code = error_set(&first, AML_EINPUT, "%s: no files of prices (.json, .csv, .tsv, .tar, with or without .gz)",
                         path);
    }
    return code == 0 ? 0 : error_set(error, code, "%s", first.text);
}

int market_read(struct markets *markets, const char *path, const char *product, struct error *error) {
    return market_read_named(markets, path, NULL, product, error);
}

void market_read_warn(const struct markets *markets) {
    if (markets->skipped > 0) {
        log_warn("%" PRIu64 " price records miss a field or a price and were skipped", markets->skipped);
    }
    if (markets->unordered > 0) {
        log_warn("%" PRIu64 " prices were out of order and were sorted", markets->unordered);
    }
    if (markets->duplicates > 0) {
        log_warn("%" PRIu64 " prices appeared more than once and were taken once", markets->duplicates);
    }
    if (markets->conflicts > 0) {
        log_warn("%" PRIu64 " moments have several prices; the highest was taken", markets->conflicts);
    }
}
