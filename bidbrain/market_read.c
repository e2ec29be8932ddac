/* See market_read.h. One pass over a buffered stream: gzip is undone by zlib, a tar archive bounds the stream to one
 * member, and the parsers see bytes and a line number. */
#include "bidbrain/market_read.h"

#include "agileml/base/instant.h"
#include "agileml/base/log.h"
#include "agileml/base/memory.h"

#include <assert.h>
#include <dirent.h>
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <zlib.h>

enum { SOURCE_BUFFER = 1 << 16, SOURCE_END = -1, TAR_BLOCK = 512 };

struct source {
    gzFile file;
    char name[600]; /* for messages: the path, and the member of an archive */
    uint64_t line;
    uint64_t left; /* bytes of the member still to come; UINT64_MAX outside an archive */
    unsigned char *buffer;
    size_t at, end;
    bool failed; /* an error was set: no byte comes any more */
    struct error *error;
};

/* What a file has said of a point so far. */
enum { FIELD_TYPE = 1, FIELD_ZONE = 2, FIELD_PRODUCT = 4, FIELD_PRICE = 8, FIELD_TIME = 16 };
struct record {
    unsigned fields;
    char type[MARKET_TEXT_MAX], zone[MARKET_TEXT_MAX], product[MARKET_TEXT_MAX];
    struct market_point point;
};

struct reader {
    struct markets *markets;
    const char *product; /* wanted; NULL: all */
    struct source source;
    struct record given; /* what the file's name says */
    uint64_t records;
};

/* ---- Bytes ---- */

static int source_fail(struct source *source, const char *what) {
    source->failed = true;
    return error_set(source->error, AML_EINPUT, "%s:%" PRIu64 ": %s", source->name, source->line, what);
}

static bool source_fill(struct source *source) {
    if (source->failed || source->left == 0) {
        return false;
    }
    size_t wanted = source->left < SOURCE_BUFFER ? (size_t)source->left : SOURCE_BUFFER;
    int got = gzread(source->file, source->buffer, (unsigned)wanted);
    int code = Z_OK;
    const char *reason = gzerror(source->file, &code);
    if (got < 0 || (code != Z_OK && code != Z_STREAM_END)) {
        source_fail(source, code == Z_BUF_ERROR ? "the compressed file is cut short" : reason);
        return false;
    }
    if (source->left != UINT64_MAX) {
        if (got == 0) {
            source_fail(source, "the archive is cut short");
            return false;
        }
        source->left -= (uint64_t)got;
    }
    source->at = 0;
    source->end = (size_t)got;
    return got > 0;
}

static inline int source_peek(struct source *source) {
    return source->at < source->end || source_fill(source) ? source->buffer[source->at] : SOURCE_END;
}

static inline int source_next(struct source *source) {
    int byte = source_peek(source);
    if (byte != SOURCE_END) {
        source->at++;
        source->line += byte == '\n';
    }
    return byte;
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
    if (!price_parse(text, &record->point.price)) {
        snprintf(message, sizeof message, "price '%.60s': expected dollars per hour, such as 0.0187", text);
        return source_fail(&reader->source, message);
    }
    if (record->point.price < 0) {
        snprintf(message, sizeof message, "price '%.60s': expected no negative price", text);
        return source_fail(&reader->source, message);
    }
    if (record->point.price == 0) { /* EC2 has written 0.000000 for "no price" */
        record->fields &= ~(unsigned)FIELD_PRICE;
        return 0;
    }
    record->fields |= FIELD_PRICE;
    return 0;
}

static int record_time(struct reader *reader, struct record *record, const char *text) {
    char message[200];
    if (!instant_parse(text, &record->point.time)) {
        snprintf(message, sizeof message, "time '%.60s': expected such as 2016-04-25T12:00:32Z, from 2006 to 2099",
                 text);
        return source_fail(&reader->source, message);
    }
    record->fields |= FIELD_TIME;
    return 0;
}

/* Adds what is complete, together with what the file's name says; counts what is not. */
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
    int code = markets_add(reader->markets, record->fields & FIELD_TYPE ? record->type : given->type,
                           record->fields & FIELD_ZONE ? record->zone : given->zone, product, record->point,
                           reader->source.error);
    reader->source.failed = code != 0;
    return code;
}

/* ---- JSON ---- */

static int json_space(struct source *source) {
    int byte = source_peek(source);
    while (byte == ' ' || byte == '\n' || byte == '\t' || byte == '\r') {
        source_next(source);
        byte = source_peek(source);
    }
    return byte;
}

static int json_wrong(struct source *source, const char *expected) {
    char message[160];
    int byte = source_peek(source);
    if (source->failed) {
        return AML_EINPUT;
    }
    if (byte == SOURCE_END) {
        snprintf(message, sizeof message, "broken JSON: expected %s, got the end of the file", expected);
    } else if (byte > ' ' && byte < 127) {
        snprintf(message, sizeof message, "broken JSON: expected %s, got '%c'", expected, byte);
    } else {
        snprintf(message, sizeof message, "broken JSON: expected %s, got byte 0x%02X", expected, (unsigned)byte);
    }
    return source_fail(source, message);
}

/* The escape behind a backslash as one byte; characters beyond ASCII are '?', since no name here has any. */
static int json_escape(struct source *source, char *byte) {
    static const char names[] = "\"\\/bfnrt";
    static const char values[] = "\"\\/\b\f\n\r\t";
    int escape = source_next(source);
    const char *found = escape > 0 ? strchr(names, escape) : NULL;
    if (found != NULL) {
        *byte = values[found - names];
        return 0;
    }
    if (escape != 'u') {
        return source_fail(source, "broken JSON: unknown escape in a string");
    }
    unsigned value = 0;
    for (int i = 0; i < 4; i++) {
        int digit = source_next(source);
        if (digit >= '0' && digit <= '9') {
            value = value * 16 + (unsigned)(digit - '0');
        } else if ((digit | 32) >= 'a' && (digit | 32) <= 'f') {
            value = value * 16 + (unsigned)((digit | 32) - 'a' + 10);
        } else {
            return source_fail(source, "broken JSON: expected four hexadecimal digits behind \\u");
        }
    }
    *byte = value > 0 && value < 128 ? (char)value : '?';
    return 0;
}

/* The opening quote is next. What does not fit is cut: only long texts that nobody wants are. */
static int json_string(struct source *source, char *text, size_t size) {
    size_t length = 0;
    source_next(source);
    for (;;) {
        int byte = source_next(source);
        char letter = (char)byte;
        if (byte == '"') {
            break;
        }
        if (byte == SOURCE_END || byte < ' ') {
            return source->failed ? AML_EINPUT : source_fail(source, "broken JSON: a string that does not end");
        }
        if (byte == '\\' && json_escape(source, &letter) != 0) {
            return AML_EINPUT;
        }
        if (length + 1 < size) {
            text[length++] = letter;
        }
    }
    text[length] = '\0';
    return 0;
}

/* A number, true, false or null, as it is written. */
static int json_scalar(struct source *source, char *text, size_t size) {
    size_t length = 0;
    for (int byte = source_peek(source); (byte >= '0' && byte <= '9') || (byte >= 'a' && byte <= 'z') || byte == '-' ||
                                         byte == '+' || byte == '.' || byte == 'E';
         byte = source_peek(source)) {
        source_next(source);
        if (length + 1 < size) {
            text[length++] = (char)byte;
        }
    }
    text[length] = '\0';
    if (length == 0) {
        return json_wrong(source, "a value");
    }
    if ((text[0] >= '0' && text[0] <= '9') || text[0] == '-') {
        char *end;
        strtod(text, &end);
        if (*end == '\0' && text[strspn(text, "0123456789+-.eE")] == '\0') {
            return 0;
        }
    } else if (strcmp(text, "true") == 0 || strcmp(text, "false") == 0 || strcmp(text, "null") == 0) {
        return 0;
    }
    char message[120];
    snprintf(message, sizeof message, "broken JSON: '%.40s' is no value", text);
    return source_fail(source, message);
}

static int json_field(struct reader *reader, struct record *record, const char *key, const char *text) {
    if (strcasecmp(key, "InstanceType") == 0) {
        record_text(record, FIELD_TYPE, record->type, text);
    } else if (strcasecmp(key, "AvailabilityZone") == 0) {
        record_text(record, FIELD_ZONE, record->zone, text);
    } else if (strcasecmp(key, "ProductDescription") == 0) {
        record_text(record, FIELD_PRODUCT, record->product, text);
    } else if (strcasecmp(key, "SpotPrice") == 0) {
        return record_price(reader, record, text);
    } else if (strcasecmp(key, "Timestamp") == 0) {
        return record_time(reader, record, text);
    }
    return 0;
}

static int json_value(struct reader *reader, struct record *record, const char *key, int depth);

/* An object whose members are a record's is one; those around it have none of these members. */
static int json_object(struct reader *reader, int depth) {
    struct source *source = &reader->source;
    struct record record = {0};
    source_next(source);
    int byte = json_space(source);
    for (bool first = true; byte != '}'; first = false) {
        char key[64];
        if (!first) {
            if (byte != ',') {
                return json_wrong(source, "',' or '}'");
            }
            source_next(source);
            byte = json_space(source);
        }
        if (byte != '"') {
            return json_wrong(source, "a name in quotes");
        }
        if (json_string(source, key, sizeof key) != 0) {
            return AML_EINPUT;
        }
        if (json_space(source) != ':') {
            return json_wrong(source, "':'");
        }
        source_next(source);
        if (json_value(reader, &record, key, depth + 1) != 0) {
            return AML_EINPUT;
        }
        byte = json_space(source);
    }
    source_next(source);
    return record.fields != 0 ? record_end(reader, &record) : 0;
}

static int json_array(struct reader *reader, int depth) {
    struct source *source = &reader->source;
    struct record none = {0};
    source_next(source);
    int byte = json_space(source);
    for (bool first = true; byte != ']'; first = false) {
        if (!first) {
            if (byte != ',') {
                return json_wrong(source, "',' or ']'");
            }
            source_next(source);
        }
        if (json_value(reader, &none, "", depth + 1) != 0) {
            return AML_EINPUT;
        }
        byte = json_space(source);
    }
    source_next(source);
    return 0;
}

static int json_value(struct reader *reader, struct record *record, const char *key, int depth) {
    struct source *source = &reader->source;
    char text[MARKET_READ_LINE_MAX];
    int byte = json_space(source);
    if (depth > MARKET_READ_DEPTH_MAX) {
        return source_fail(source, "broken JSON: values nested too deeply");
    }
    switch (byte) {
    case '{':
        return json_object(reader, depth);
    case '[':
        return json_array(reader, depth);
    case '"':
        return json_string(source, text, sizeof text) != 0 ? AML_EINPUT : json_field(reader, record, key, text);
    default:
        if (json_scalar(source, text, sizeof text) != 0) {
            return AML_EINPUT;
        }
        return strcmp(text, "null") == 0 ? 0 : json_field(reader, record, key, text);
    }
}

/* One value, or one after the other. */
static int json_file(struct reader *reader) {
    struct source *source = &reader->source;
    struct record none = {0};
    while (json_space(source) != SOURCE_END) {
        if (json_value(reader, &none, "", 0) != 0) {
            return AML_EINPUT;
        }
    }
    return source->failed ? AML_EINPUT : 0;
}

/* ---- CSV and TSV ---- */

enum { COLUMNS_MAX = 32 };
enum column { COLUMN_OTHER, COLUMN_TYPE, COLUMN_ZONE, COLUMN_PRODUCT, COLUMN_PRICE, COLUMN_TIME, COLUMN_EPOCH };

struct columns {
    char separator;
    size_t count;
    enum column kinds[COLUMNS_MAX];
};

static enum column column_kind(const char *name) {
    static const struct {
        const char *name;
        enum column kind;
    } names[] = {{"timestamp", COLUMN_TIME},
                 {"timestamp_utc", COLUMN_TIME},
                 {"time", COLUMN_TIME},
                 {"epoch_ms", COLUMN_EPOCH},
                 {"price", COLUMN_PRICE},
                 {"price_usd", COLUMN_PRICE},
                 {"SpotPrice", COLUMN_PRICE},
                 {"type", COLUMN_TYPE},
                 {"instance_type", COLUMN_TYPE},
                 {"InstanceType", COLUMN_TYPE},
                 {"zone", COLUMN_ZONE},
                 {"availability_zone", COLUMN_ZONE},
                 {"AvailabilityZone", COLUMN_ZONE},
                 {"product", COLUMN_PRODUCT},
                 {"product_description", COLUMN_PRODUCT},
                 {"ProductDescription", COLUMN_PRODUCT}};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        if (strcasecmp(name, names[i].name) == 0) {
            return names[i].kind;
        }
    }
    return COLUMN_OTHER;
}

/* Reads a line without its end. False at the end of the file, or when it is too long (source->failed). */
static bool text_line(struct source *source, char line[MARKET_READ_LINE_MAX], uint64_t *number) {
    size_t length = 0;
    *number = source->line;
    if (source_peek(source) == SOURCE_END) {
        return false;
    }
    for (int byte = source_next(source); byte != '\n' && byte != SOURCE_END; byte = source_next(source)) {
        if (length + 1 == MARKET_READ_LINE_MAX || byte == '\0') {
            source_fail(source, byte == '\0' ? "a NUL byte in text" : "a line that is too long for prices");
            return false;
        }
        line[length++] = (char)byte;
    }
    while (length > 0 && line[length - 1] == '\r') {
        length--;
    }
    line[length] = '\0';
    return !source->failed;
}

/* Cuts a line into at most COLUMNS_MAX cells in place. */
static size_t text_cells(char *line, char separator, char *cells[COLUMNS_MAX]) {
    size_t count = 0;
    for (char *cell = line; cell != NULL && count < COLUMNS_MAX;) {
        cells[count++] = cell;
        cell = strchr(cell, separator);
        if (cell != NULL) {
            *cell++ = '\0';
        }
    }
    return count;
}

static int text_cell(struct reader *reader, struct record *record, enum column kind, const char *text) {
    switch (kind) {
    case COLUMN_TYPE:
        record_text(record, FIELD_TYPE, record->type, text);
        return 0;
    case COLUMN_ZONE:
        record_text(record, FIELD_ZONE, record->zone, text);
        return 0;
    case COLUMN_PRODUCT:
        record_text(record, FIELD_PRODUCT, record->product, text);
        return 0;
    case COLUMN_PRICE:
        return *text == '\0' ? 0 : record_price(reader, record, text);
    case COLUMN_TIME:
        return *text == '\0' ? 0 : record_time(reader, record, text);
    case COLUMN_EPOCH:
    case COLUMN_OTHER:
        break;
    }
    if (kind == COLUMN_EPOCH && *text != '\0' && !(record->fields & FIELD_TIME)) {
        char *end;
        errno = 0;
        long long milliseconds = strtoll(text, &end, 10);
        if (errno != 0 || *end != '\0' || milliseconds < INSTANT_MIN * 1000 || milliseconds >= INSTANT_MAX * 1000) {
            char message[160];
            snprintf(message, sizeof message, "time '%.60s': expected milliseconds since 1970, from 2006 to 2099",
                     text);
            return source_fail(&reader->source, message);
        }
        record->point.time = milliseconds / 1000;
        record->fields |= FIELD_TIME;
    }
    return 0;
}

static int text_record(struct reader *reader, const struct columns *columns, char *line, uint64_t number) {
    char *cells[COLUMNS_MAX];
    struct record record = {0};
    size_t count = text_cells(line, columns->separator, cells);
    uint64_t after = reader->source.line;
    reader->source.line = number; /* for messages */
    if (count != columns->count) {
        char message[120];
        snprintf(message, sizeof message, "%zu columns: expected %zu", count, columns->count);
        return source_fail(&reader->source, message);
    }
    int code = 0;
    for (size_t c = 0; c < count && code == 0; c++) {
        code = text_cell(reader, &record, columns->kinds[c], cells[c]);
    }
    code = code != 0 ? code : record_end(reader, &record);
    reader->source.line = code != 0 ? number : after;
    return code;
}

/* The first line tells the columns, or is data of the form that has no header. */
static int text_columns(struct reader *reader, char line[MARKET_READ_LINE_MAX], struct columns *columns, bool *header) {
    static const enum column plain[5] = {COLUMN_ZONE, COLUMN_TYPE, COLUMN_PRODUCT, COLUMN_PRICE, COLUMN_TIME};
    static const enum column pair[2] = {COLUMN_TIME, COLUMN_PRICE}; /* type and zone are in the file's name */
    char copy[MARKET_READ_LINE_MAX];
    char *cells[COLUMNS_MAX];
    unsigned seen = 0;
    memcpy(copy, line, strlen(line) + 1);
    columns->separator = strchr(line, '\t') != NULL ? '\t' : ',';
    columns->count = text_cells(copy, columns->separator, cells);
    for (size_t c = 0; c < columns->count; c++) {
        columns->kinds[c] = column_kind(cells[c]);
        seen |= 1U << columns->kinds[c];
    }
    *header = (seen & (1U << COLUMN_PRICE)) && (seen & (1U << COLUMN_TIME | 1U << COLUMN_EPOCH));
    if (!*header) {
        int64_t time;
        bool is_pair = columns->count == 2 && instant_parse(cells[0], &time);
        if (columns->count != 5 && !is_pair) {
            reader->source.line = 1;
            return source_fail(&reader->source, "neither a header with a time and a price column nor the five columns "
                                                "zone, type, product, price, time nor the two columns time, price");
        }
        memcpy(columns->kinds, is_pair ? pair : plain, is_pair ? sizeof pair : sizeof plain);
    }
    return 0;
}

static int text_file(struct reader *reader) {
    struct source *source = &reader->source;
    char line[MARKET_READ_LINE_MAX];
    struct columns columns = {0};
    uint64_t number;
    while (text_line(source, line, &number)) {
        bool header = false;
        if (line[0] == '\0') {
            continue;
        }
        if (columns.count == 0 && text_columns(reader, line, &columns, &header) != 0) {
            return AML_EINPUT;
        }
        if (!header && text_record(reader, &columns, line, number) != 0) {
            return AML_EINPUT;
        }
    }
    return source->failed ? AML_EINPUT : 0;
}

/* ---- Files ---- */

/* "c3.xlarge-us-east-1a.csv.gz" tells type and zone. "ec2-spot-market-VA.json.gz" has the letters that EC2's console
 * gave its first regions. */
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

/* The source stands at the start of a file, or of an archive's member, of this name. */
static int read_content(struct reader *reader, const char *name) {
    struct source *source = &reader->source;
    reader_given(reader, name);
    reader->records = 0;
    source->line = 1;
    int byte = json_space(source);
    uint64_t skipped = reader->markets->skipped;
    int code = byte == '{' || byte == '[' ? json_file(reader) : text_file(reader);
    code = source->failed ? AML_EINPUT : code;
    if (code == 0 && reader->records == 0) {
        return source_fail(source, "no spot prices in this file");
    }
    if (code == 0 && reader->records == reader->markets->skipped - skipped) {
        return source_fail(source,
                           "no record has a type, a zone, a price and a time, and the file's name is not TYPE-ZONE");
    }
    reader->markets->files++;
    return code;
}

static bool tar_number(const unsigned char *digits, size_t length, uint64_t *number) {
    *number = 0;
    for (size_t i = 0; i < length && digits[i] != ' ' && digits[i] != '\0'; i++) {
        if (digits[i] < '0' || digits[i] > '7') {
            return false;
        }
        *number = *number * 8 + (uint64_t)(digits[i] - '0');
    }
    return true;
}

/* Reads one header; false at the archive's end or on an error (source->failed). */
static bool tar_header(struct source *source, unsigned char header[TAR_BLOCK]) {
    bool empty = true;
    for (size_t i = 0; i < TAR_BLOCK; i++) {
        int byte = source_next(source);
        if (byte == SOURCE_END) {
            if (i > 0 && !source->failed) {
                source_fail(source, "the archive is cut short");
            }
            return false;
        }
        header[i] = (unsigned char)byte;
        empty = empty && byte == 0;
    }
    return !empty;
}

/* Members that are files are read as files are; what else an archive holds is passed over. */
static int read_archive(struct reader *reader, const char *path) {
    struct source *source = &reader->source;
    unsigned char header[TAR_BLOCK];
    while (tar_header(source, header)) {
        char member[101];
        uint64_t size;
        snprintf(member, sizeof member, "%.100s", (const char *)header);
        if (memcmp(header + 257, "ustar", 5) != 0 || !tar_number(header + 124, 12, &size)) {
            source->line = 1;
            return source_fail(source, "not a tar archive, or a broken one");
        }
        /* Only the bytes of the member are seen: what the buffer has more is set aside by reading byte by byte. */
        uint64_t rest = size % TAR_BLOCK == 0 ? 0 : TAR_BLOCK - size % TAR_BLOCK;
        size_t buffered = source->end - source->at;
        struct source outer = *source;
        if (size < buffered) {
            source->end = source->at + (size_t)size;
            source->left = 0;
        } else {
            source->left = size - buffered;
        }
        int code = 0;
        if ((header[156] == '0' || header[156] == '\0') && size > 0) {
            snprintf(source->name, sizeof source->name, "%.400s(%s)", path, member);
            code = read_content(reader, member);
        } else {
            while (source_next(source) != SOURCE_END) {
            }
        }
        if (code != 0 || source->failed) {
            return AML_EINPUT;
        }
        if (size < buffered) {
            source->at = source->end;
            source->end = outer.end;
        }
        source->left = UINT64_MAX;
        snprintf(source->name, sizeof source->name, "%.500s", path);
        for (uint64_t i = 0; i < rest; i++) {
            if (source_next(source) == SOURCE_END) {
                return source->failed ? AML_EINPUT : source_fail(source, "the archive is cut short");
            }
        }
    }
    return source->failed ? AML_EINPUT : 0;
}

static bool name_ends(const char *name, const char *end) {
    size_t length = strlen(name);
    size_t end_length = strlen(end);
    return length >= end_length && strcmp(name + length - end_length, end) == 0;
}

static bool name_is_archive(const char *name) {
    return name_ends(name, ".tar") || name_ends(name, ".tar.gz") || name_ends(name, ".tgz");
}

static bool name_is_prices(const char *name) {
    static const char *const ends[] = {".json", ".json.gz", ".csv", ".csv.gz", ".tsv", ".tsv.gz"};
    for (size_t i = 0; i < sizeof ends / sizeof *ends; i++) {
        if (name_ends(name, ends[i])) {
            return true;
        }
    }
    return name_is_archive(name);
}

static int read_file(struct reader *reader, const char *path, const char *name) {
    struct source *source = &reader->source;
    source->file = gzopen(path, "rbe");
    if (source->file == NULL) {
        return error_set(source->error, AML_EINPUT, "%s: %s", path, errno != 0 ? strerror(errno) : "can't open it");
    }
    gzbuffer(source->file, 2 * SOURCE_BUFFER);
    snprintf(source->name, sizeof source->name, "%.500s", path);
    source->left = UINT64_MAX;
    source->at = source->end = 0;
    source->line = 1;
    source->failed = false;
    int code = name_is_archive(name) ? read_archive(reader, path) : read_content(reader, name);
    gzclose_r(source->file);
    return code;
}

static int name_compare(const void *a, const void *b) {
    return strcmp(*(char *const *)a, *(char *const *)b);
}

static int read_path(struct reader *reader, const char *path, int depth);

/* In the order of names, so that results do not depend on the file system. */
static int read_folder(struct reader *reader, const char *path, int depth) {
    DIR *folder = opendir(path);
    if (folder == NULL) {
        return error_set(reader->source.error, AML_EINPUT, "%s: %s", path, strerror(errno));
    }
    char **names = NULL;
    size_t count = 0;
    for (struct dirent *entry = readdir(folder); entry != NULL; entry = readdir(folder)) {
        if (entry->d_name[0] != '.') {
            names = memory_resized(names, count + 1, sizeof *names);
            names[count++] = memory_string(entry->d_name);
        }
    }
    closedir(folder);
    if (count > 1) {
        qsort(names, count, sizeof *names, name_compare);
    }
    int code = 0;
    for (size_t i = 0; i < count; i++) {
        char inner[512];
        struct stat status;
        if (code == 0 && snprintf(inner, sizeof inner, "%s/%s", path, names[i]) < (int)sizeof inner &&
            stat(inner, &status) == 0 && (S_ISDIR(status.st_mode) || name_is_prices(names[i]))) {
            code = read_path(reader, inner, depth + 1);
        }
        free(names[i]);
    }
    free(names);
    return code;
}

static int read_path(struct reader *reader, const char *path, int depth) {
    struct stat status;
    if (stat(path, &status) != 0) {
        return error_set(reader->source.error, AML_EINPUT, "%s: %s", path, strerror(errno));
    }
    if (!S_ISDIR(status.st_mode)) {
        return read_file(reader, path, path);
    }
    if (depth > MARKET_READ_FOLDERS_MAX) {
        return error_set(reader->source.error, AML_EINPUT, "%s: folders nested more than %d deep", path,
                         MARKET_READ_FOLDERS_MAX);
    }
    return read_folder(reader, path, depth);
}

/* `name` is NULL for what may be a folder. */
static int read_all(struct markets *markets, const char *path, const char *name, const char *product,
                    struct error *error) {
    uint64_t files = markets->files;
    struct reader reader = {.markets = markets, .product = product};
    struct error first = {0}; /* error may be NULL or hold an earlier failure */
    reader.source.error = &first;
    reader.source.buffer = memory_zeroed(SOURCE_BUFFER, 1);
    int code = name == NULL ? read_path(&reader, path, 0) : read_file(&reader, path, name);
    free(reader.source.buffer);
    if (code == 0 && markets->files == files) {
        code = error_set(&first, AML_EINPUT, "%s: no files of prices (.json, .csv, .tsv, .tar, with or without .gz)",
                         path);
    }
    return code == 0 ? 0 : error_set(error, code, "%s", first.text);
}

int market_read(struct markets *markets, const char *path, const char *product, struct error *error) {
    return read_all(markets, path, NULL, product, error);
}

int market_read_named(struct markets *markets, const char *path, const char *name, const char *product,
                      struct error *error) {
    return read_all(markets, path, name, product, error);
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
