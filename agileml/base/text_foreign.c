/* See text_foreign.h. */
#include "agileml/base/text_foreign.h"

#include "agileml/base/matrix_market.h"
#include "agileml/base/text_fields.h"

#include <stdbool.h>
#include <stdint.h>
#include <string.h>
#include <strings.h>

/* A text may contain by mistake fewer control characters than CONTROLS_MIN, or than 1 / CONTROLS_PART of its bytes. */
enum { CONTROLS_MIN = 4, CONTROLS_PART = 20 };
enum { TAR_MAGIC_AT = 257, UTF_BYTES = 64 /* bytes examined for UTF-16 and UTF-32 */, UTF_MIN = 8 };

static const char other_coding[] = "text in UTF-16: expected UTF-8 (iconv -f UTF-16 -t UTF-8 converts it)";
static const char other_wide_coding[] = "text in UTF-32: expected UTF-8 (iconv -f UTF-32 -t UTF-8 converts it)";

/* The first bytes of a format's files. */
struct magic {
    const char *bytes;
    uint8_t size;
    bool words; /* a text can begin with the same letters, so control characters must follow */
    const char *kind;
};

#define MAGIC(text, meaning)                                                                                           \
    { .bytes = (text), .size = sizeof(text) - 1, .kind = (meaning) }
#define MAGIC_WORD(text, meaning)                                                                                      \
    { .bytes = (text), .size = sizeof(text) - 1, .words = true, .kind = (meaning) }

/* In the order of search: a longer beginning stands before a shorter one that is its prefix. */
static const struct magic magics[] = {
    /* Pointers to data stored elsewhere */
    MAGIC("version https://git-lfs.github.com/spec/", "a Git LFS pointer, not the data itself: run 'git lfs pull'"),
    MAGIC("version https://hawser.github.com/spec/", "a Git LFS pointer, not the data itself: run 'git lfs pull'"),
    MAGIC("/annex/objects/", "a git-annex pointer, not the data itself: run 'git annex get'"),
    MAGIC("outs:\n- md5:", "a DVC file, not the data itself: run 'dvc pull'"),
    /* Compressed files and archives */
    MAGIC("\xFD"
          "7zXZ\0",
          "xz data: expected plain text, gzip or zstd ('xz -d' unpacks it)"),
    MAGIC("BZh", "bzip2 data: expected plain text, gzip or zstd ('bzip2 -d' unpacks it)"),
    MAGIC("PK\x03\x04", "a zip archive: expected plain text, gzip or zstd ('unzip' unpacks it)"),
    MAGIC("PK\x05\x06", "a zip archive without files: expected plain text, gzip or zstd"),
    MAGIC("PK\x07\x08", "a zip archive: expected plain text, gzip or zstd ('unzip' unpacks it)"),
    MAGIC("7z\xBC\xAF\x27\x1C", "a 7z archive: expected plain text, gzip or zstd ('7z x' unpacks it)"),
    MAGIC("Rar!\x1A\x07", "a rar archive: expected plain text, gzip or zstd ('unrar x' unpacks it)"),
    MAGIC("\x1F\x9D", "data of Unix compress (.Z): expected plain text, gzip or zstd ('uncompress' unpacks it)"),
    MAGIC("\x1F\xA0", "data of Unix compress (.Z): expected plain text, gzip or zstd ('uncompress' unpacks it)"),
    MAGIC("\x1F\x1E", "data of Unix pack (.z): expected plain text, gzip or zstd ('gzip -d' unpacks it)"),
    MAGIC("\x04\x22\x4D\x18", "lz4 data: expected plain text, gzip or zstd ('lz4 -d' unpacks it)"),
    MAGIC("\x02\x21\x4C\x18", "lz4 data: expected plain text, gzip or zstd ('lz4 -d' unpacks it)"),
    MAGIC("\xFF\x06\0\0sNaPpY", "snappy data: expected plain text, gzip or zstd ('snzip -d' unpacks it)"),
    MAGIC("\x89LZO\0\r\n\x1A\n", "lzop data: expected plain text, gzip or zstd ('lzop -d' unpacks it)"),
    MAGIC("LZIP\x01", "lzip data: expected plain text, gzip or zstd ('lzip -d' unpacks it)"),
    MAGIC("\x5D\0\0", "lzma data: expected plain text, gzip or zstd ('xz -d' unpacks it)"),
    MAGIC("\x78\x9C", "zlib data without a gzip header: expected plain text, gzip or zstd"),
    MAGIC("\x78\xDA", "zlib data without a gzip header: expected plain text, gzip or zstd"),
    MAGIC("\0\x05\x16\x07", "an AppleDouble file (._NAME), which macOS writes beside the data: delete it"),
    MAGIC("\0\0\0\x01"
          "Bud1",
          "macOS's .DS_Store, not data: delete it"),
    /* Tables and arrays */
    MAGIC_WORD("PAR1", "a Parquet file: expected text (pandas.read_parquet(FILE).to_csv(...) writes it)"),
    MAGIC_WORD("PARE", "an encrypted Parquet file: expected text"),
    MAGIC("\x93NUMPY", "an npy file of numpy: expected text (numpy.savetxt(..., numpy.load(FILE)) writes it)"),
    MAGIC("\x89HDF\r\n\x1A\n", "an HDF5 file: expected text (h5dump, h5py or pandas.read_hdf read it)"),
    MAGIC("\x80\x02", "a Python pickle: expected text (pickle.load reads it)"),
    MAGIC("\x80\x03", "a Python pickle: expected text (pickle.load reads it)"),
    MAGIC("\x80\x04", "a Python pickle: expected text (pickle.load reads it)"),
    MAGIC("\x80\x05", "a Python pickle: expected text (pickle.load reads it)"),
    MAGIC("(dp0\n", "a Python pickle: expected text (pickle.load reads it)"),
    MAGIC("(dp1\n", "a Python pickle: expected text (pickle.load reads it)"),
    MAGIC("(lp0\n", "a Python pickle: expected text (pickle.load reads it)"),
    MAGIC("(lp1\n", "a Python pickle: expected text (pickle.load reads it)"),
    MAGIC("]q\0", "a Python pickle: expected text (pickle.load reads it)"),
    MAGIC("}q\0", "a Python pickle: expected text (pickle.load reads it)"),
    MAGIC("cnumpy.", "a Python pickle: expected text (pickle.load reads it)"),
    MAGIC("ccopy_reg\n", "a Python pickle: expected text (pickle.load reads it)"),
    MAGIC("ARROW1\0\0", "an Arrow (Feather) file: expected text (pandas.read_feather(FILE).to_csv(...) writes it)"),
    MAGIC_WORD("FEA1", "a Feather file: expected text (pandas.read_feather(FILE).to_csv(...) writes it)"),
    MAGIC("\xFF\xFF\xFF\xFF", "an Arrow stream: expected text (pyarrow.ipc.open_stream reads it)"),
    MAGIC_WORD("ORC", "an ORC file: expected text (pandas.read_orc(FILE).to_csv(...) writes it)"),
    MAGIC("Obj\x01", "an Avro file: expected text ('avro-tools tojson' reads it)"),
    MAGIC("SEQ\x06", "a Hadoop sequence file: expected text ('hadoop fs -text' reads it)"),
    MAGIC("SQLite format 3\0", "an SQLite database: expected text (sqlite3 -csv FILE 'select ...' writes it)"),
    MAGIC("\xD0\xCF\x11\xE0\xA1\xB1\x1A\xE1", "an old Excel or Word file: expected text (save it as CSV)"),
    MAGIC("MATLAB 5.0 MAT-file", "a MATLAB file: expected text (scipy.io.loadmat reads it)"),
    MAGIC("MATLAB 7.3 MAT-file", "a MATLAB file: expected text (h5py reads it)"),
    MAGIC("RDX2\nX\n", "an R data file: expected text (write.csv in R writes it)"),
    MAGIC("RDX3\nX\n", "an R data file: expected text (write.csv in R writes it)"),
    MAGIC("RDA2\nA\n", "an R data file: expected text (write.csv in R writes it)"),
    MAGIC("RDA3\nA\n", "an R data file: expected text (write.csv in R writes it)"),
    MAGIC("X\n\0\0\0", "an R data file (RDS): expected text (write.csv in R writes it)"),
    MAGIC("<stata_dta>", "a Stata file: expected text (pandas.read_stata(FILE).to_csv(...) writes it)"),
    MAGIC("$FL2@(#)", "an SPSS file: expected text (pandas.read_spss(FILE).to_csv(...) writes it)"),
    MAGIC("$FL3@(#)", "an SPSS file: expected text (pandas.read_spss(FILE).to_csv(...) writes it)"),
    MAGIC("\0\0\0\0\0\0\0\0\0\0\0\0\xC2\xEA\x81\x60",
          "an SAS file: expected text (pandas.read_sas(FILE).to_csv(...) writes it)"),
    MAGIC("HEADER RECORD*******", "an SAS transport file: expected text (pandas.read_sas(FILE).to_csv(...) writes it)"),
    MAGIC("CDF\x01", "a NetCDF file: expected text (ncdump reads it)"),
    MAGIC("CDF\x02", "a NetCDF file: expected text (ncdump reads it)"),
    MAGIC("\xAC\xED\0\x05", "a serialized Java object: expected text"),
    /* Documents, images, programs */
    MAGIC("%PDF-", "a PDF document: expected text (pdftotext writes it)"),
    MAGIC("%!PS", "a PostScript document: expected text (ps2ascii writes it)"),
    MAGIC("{\\rtf", "an RTF document: expected text (save it as plain text)"),
    MAGIC("\xFF\xD8\xFF", "a JPEG image: expected text (images are read from a tar file)"),
    MAGIC("\x89PNG\r\n\x1A\n", "a PNG image: expected text (images are read from a tar file)"),
    MAGIC("GIF87a", "a GIF image: expected text"),
    MAGIC("GIF89a", "a GIF image: expected text"),
    MAGIC("II*\0", "a TIFF image: expected text"),
    MAGIC("MM\0*", "a TIFF image: expected text"),
    MAGIC_WORD("RIFF", "a WebP image, or sound or video: expected text"),
    MAGIC("\x7F"
          "ELF",
          "a program (ELF): expected text"),
    /* Encodings of text. UTF-32 stands before UTF-16, as their byte order marks begin alike. */
    {"\xFF\xFE\0\0", 4, false, other_wide_coding},
    {"\0\0\xFE\xFF", 4, false, other_wide_coding},
    {"\xFF\xFE", 2, false, other_coding},
    {"\xFE\xFF", 2, false, other_coding},
};

/* ---- Bytes ---- */

static bool is_control(unsigned char c) {
    return (c < ' ' && (c < '\b' || c > '\r') && c != 0x1A && c != 0x1B) || c == 0x7F;
}

static size_t count_controls(const unsigned char *bytes, size_t size) {
    size_t count = 0;
    for (size_t i = 0; i < size; i++) {
        count += is_control(bytes[i]);
    }
    return count;
}

static bool begins(const unsigned char *bytes, size_t size, const char *magic, size_t length) {
    return size >= length && memcmp(bytes, magic, length) == 0;
}

/* After bzip2's BZh come the block size and then the digits of pi, or of sqrt(pi) when the file is empty. */
static bool is_bzip2(const unsigned char *bytes, size_t size) {
    return size >= 10 && bytes[3] >= '1' && bytes[3] <= '9' &&
           (memcmp(bytes + 4, "1AY&SY", 6) == 0 || memcmp(bytes + 4, "\x17\x72\x45\x38\x50\x90", 6) == 0);
}

static const struct magic *find_magic(const unsigned char *bytes, size_t size) {
    for (size_t m = 0; m < sizeof magics / sizeof magics[0]; m++) {
        const struct magic *magic = &magics[m];
        if (begins(bytes, size, magic->bytes, magic->size) && (!magic->words || count_controls(bytes, size) > 0) &&
            (memcmp(magic->bytes, "BZh", 3) != 0 || is_bzip2(bytes, size))) {
            return magic;
        }
    }
    return NULL;
}

/* Names a zip archive by its first member. The member's name is at byte 30, the name's length in bytes 26 and 27. */
static const char *zip_kind(const unsigned char *bytes, size_t size) {
    size_t length = size >= 30 ? bytes[26] + 256U * bytes[27] : 0;
    const unsigned char *name = bytes + 30;
    size_t held = length <= size - (size >= 30 ? 30 : size) ? length : 0;
    if (held > 4 && memcmp(name + held - 4, ".npy", 4) == 0) {
        return "an npz file of numpy: expected text (numpy.savetxt(..., numpy.load(FILE)[...]) writes it)";
    }
    if (size >= 30 + 8 + 21 && held == 8 && memcmp(name, "mimetypeapplication/vnd.oasis", 29) == 0) {
        return "an OpenDocument file: expected text (save it as CSV)";
    }
    if ((held == 19 && memcmp(name, "[Content_Types].xml", 19) == 0) || (held > 3 && memcmp(name, "xl/", 3) == 0)) {
        return "an Excel or Word file: expected text (save it as CSV)";
    }
    if (held >= 8 && memcmp(name + held - 8, "data.pkl", 8) == 0) {
        return "a PyTorch file: expected text (torch.load reads it)";
    }
    return NULL;
}

/* Whether bytes[size] are text in units of two or four bytes. No unit may be a control character or outside of
 * Unicode. At least half of the units must be ASCII, as digits, separators and line ends are. */
static bool is_wide_text(const unsigned char *bytes, size_t size, size_t unit, bool big_endian) {
    size_t units = (size < UTF_BYTES ? size : UTF_BYTES) / unit;
    size_t ascii = 0;
    for (size_t u = 0; u < units; u++) {
        uint32_t code = 0;
        for (size_t i = 0; i < unit; i++) {
            code = code << 8 | bytes[u * unit + (big_endian ? i : unit - 1 - i)];
        }
        bool control = code < 0x80 ? is_control((unsigned char)code) : code < 0xA0;
        if (control || code > 0x10FFFF || (code & 0xFFFE) == 0xFFFE) {
            return false;
        }
        ascii += code < 0x80;
    }
    return units * unit >= UTF_MIN && 2 * ascii >= units;
}

static bool begins_as_tar(const unsigned char *bytes, size_t size) {
    return size >= TAR_MAGIC_AT + 5 && memcmp(bytes + TAR_MAGIC_AT, "ustar", 5) == 0;
}

static bool begins_as_idx(const unsigned char *bytes, size_t size) {
    return size >= 4 && bytes[0] == 0 && bytes[1] == 0 && bytes[2] >= 8 && bytes[2] <= 14 && bytes[3] >= 1;
}

static size_t count_byte(const unsigned char *bytes, size_t size, unsigned char byte) {
    size_t count = 0;
    for (size_t i = 0; i < size; i++) {
        count += bytes[i] == byte;
    }
    return count;
}

/* Names data with too many control characters for a text. Data of zeros alone may be a tar without entries. */
static const char *binary_kind(const unsigned char *bytes, size_t size) {
    size_t controls = count_controls(bytes, size);
    if (controls < CONTROLS_MIN || controls < size / CONTROLS_PART || count_byte(bytes, size, 0) == size) {
        return NULL;
    }
    if (bytes[0] == 'x' && (bytes[1] == 0x01 || bytes[1] == 0x5E)) {
        return "zlib data without a gzip header: expected plain text, gzip or zstd";
    }
    return count_byte(bytes, size, 1) == controls
               ? "fields separated by the control character 1, as Hive writes them: expected tabs or "
                 "commas (tr '\\001' '\\t' converts it)"
               : "binary data of an unknown kind: expected text";
}

/* ---- Markup ---- */

static bool begins_word(const char *text, const char *end, const char *word) {
    size_t length = strlen(word);
    return (size_t)(end - text) >= length && strncasecmp(text, word, length) == 0;
}

static bool is_letter(char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
}

/* Names a text that begins as HTML or XML does. */
static const char *markup_kind(const char *text, const char *end) {
    static const char *const html[] = {"<!doctype html", "<html", "<head", "<body"};
    for (size_t h = 0; h < sizeof html / sizeof html[0]; h++) {
        const char *behind = text + strlen(html[h]);
        if (begins_word(text, end, html[h]) && (behind == end || !is_letter(*behind))) {
            return "an HTML page, not the data itself: the download got a page of the site, as for a login or an error";
        }
    }
    if (begins_word(text, end, "<?xml") || begins_word(text, end, "<!doctype")) {
        return "an XML document: expected plain text; after a download it may be a server's message of an error";
    }
    return NULL;
}

/* Names the text of a server's "not found" response, if the file has nothing else. */
static const char *refusal_kind(const char *text, const char *end) {
    static const char *const refusals[] = {"404: Not Found", "404 Not Found", "404 page not found",  "Entry not found",
                                           "403 Forbidden",  "Access Denied", "Repository not found"};
    while (end > text && (text_is_blank(end[-1]) || text_is_line_end(end[-1]) || end[-1] == '.')) {
        end--;
    }
    for (size_t r = 0; r < sizeof refusals / sizeof refusals[0]; r++) {
        size_t length = strlen(refusals[r]);
        if ((size_t)(end - text) == length && memcmp(text, refusals[r], length) == 0) {
            return "a server's message that it has no such file, not the data itself";
        }
    }
    return NULL;
}

const char *text_foreign_container(const void *bytes, size_t size) {
    return begins_as_tar(bytes, size)   ? "a tar archive: expected a text file ('tar -xf' unpacks it)"
           : begins_as_idx(bytes, size) ? "idx data (as MNIST's): expected text"
                                        : NULL;
}

const char *text_foreign_bytes(const void *data, size_t size) {
    const unsigned char *bytes = data;
    if (size > TEXT_FOREIGN_BYTES) {
        size = TEXT_FOREIGN_BYTES;
    }
    if (begins_as_tar(bytes, size) || begins_as_idx(bytes, size)) {
        return NULL;
    }
    const struct magic *magic = find_magic(bytes, size);
    if (magic != NULL) {
        const char *zip = magic->bytes[0] == 'P' && magic->bytes[1] == 'K' ? zip_kind(bytes, size) : NULL;
        return zip != NULL ? zip : magic->kind;
    }
    const char *text = data;
    const char *end = text + size;
    text += begins(bytes, size, "\xEF\xBB\xBF", 3) ? 3 : 0;
    while (text < end && (text_is_blank(*text) || text_is_line_end(*text))) {
        text++;
    }
    const char *markup = markup_kind(text, end);
    markup = markup != NULL ? markup : refusal_kind(text, end);
    if (markup != NULL) {
        return markup;
    }
    if (is_wide_text(bytes, size, 4, false) || is_wide_text(bytes, size, 4, true)) {
        return other_wide_coding;
    }
    if (is_wide_text(bytes, size, 2, false) || is_wide_text(bytes, size, 2, true)) {
        return other_coding;
    }
    return binary_kind(bytes, size);
}

/* ---- Lines ---- */

static const char *skip_blanks(const char *p, const char *end) {
    while (p < end && text_is_blank(*p)) {
        p++;
    }
    return p;
}

/* Whether everything from p on consists of numbers and lists of numbers. */
static bool is_list_of_numbers(const char *p, const char *end) {
    for (; p < end; p++) {
        if (memchr("0123456789+-.eE,[] \t", *p, 21) == NULL) {
            return false;
        }
    }
    return true;
}

/* Whether the line begins a JSON object or list. A plain text may begin with a bracket too. */
static bool is_json(const char *line, const char *end) {
    const char *inside = line < end ? skip_blanks(line + 1, end) : end;
    if (line == end || (*line != '{' && *line != '[')) {
        return false;
    }
    if (inside == end) {
        return true;
    }
    return *line == '{' ? *inside == '"' || *inside == '}'
                        : *inside == '{' || *inside == '"' || *inside == '[' || is_list_of_numbers(inside, end);
}

/* Whether the text before `bar` can be the label and tag of a Vowpal Wabbit line: it is empty, or all words but the
 * last are numbers. Only the last word, the tag, may touch the bar. */
static bool is_vowpal_head(const char *line, const char *bar) {
    const char *p = skip_blanks(line, bar);
    while (p < bar) {
        const char *word = p;
        bool number = true;
        for (; p < bar && !text_is_blank(*p); p++) {
            number = number && memchr("0123456789+-.eE:", *p, 16) != NULL;
        }
        if (!number) {
            return skip_blanks(p, bar) == bar && memchr(word, ',', (size_t)(p - word)) == NULL;
        }
        p = skip_blanks(p, bar);
    }
    return bar == line || text_is_blank(bar[-1]);
}

/* Whether a feature such as `word:2`, or several words between two bars, follow `bar`. */
static bool has_features(const char *bar, const char *end) {
    for (const char *p = bar + 1; p < end && *p != '|'; p++) {
        if (*p == ':' && p > bar + 1 && p + 1 < end && ((p[1] >= '0' && p[1] <= '9') || p[1] == '.' || p[1] == '-')) {
            return true;
        }
    }
    return false;
}

/* Whether each bar has a blank before and behind it, as psql draws a table. */
static bool is_drawn(const char *line, const char *end) {
    for (const char *p = line; p < end; p++) {
        if (*p == '|' && (p == line || !text_is_blank(p[-1]) || p + 1 == end || !text_is_blank(p[1]))) {
            return false;
        }
    }
    return true;
}

/* Whether each bar begins a namespace, as in `5 |user 28 |item 4`: it follows a blank and touches the name. */
static bool has_namespaces(const char *line, const char *bar, const char *end) {
    for (; bar != NULL; bar = memchr(bar + 1, '|', (size_t)(end - bar - 1))) {
        if ((bar > line && !text_is_blank(bar[-1])) || bar + 1 == end || !is_letter(bar[1])) {
            return false;
        }
    }
    return true;
}

/* Names a line whose fields bars separate or begin. */
static const char *bars_kind(const char *line, const char *end) {
    const char *bar = memchr(line, '|', (size_t)(end - line));
    if (end - line > 2 && *line == '+' && (line[1] == '-' || line[1] == '=') && end[-1] == '+') {
        return "a table drawn with lines (mysql): expected fields separated by tabs or commas";
    }
    if (bar == NULL) {
        return NULL;
    }
    const char *last = end;
    while (last > line && text_is_blank(last[-1])) {
        last--;
    }
    size_t bars = 0;
    for (const char *p = bar; p < end; p++) {
        bars += *p == '|';
    }
    bool begins_bar = skip_blanks(line, end) == bar;
    bool drawn = begins_bar ? bars > 1 && last[-1] == '|' : text_is_blank(*line) && is_drawn(line, end);
    if (drawn) {
        return "a table drawn with bars: expected fields separated by tabs or commas";
    }
    bool labelled = memchr("+-.0123456789", *skip_blanks(line, bar), 13) != NULL;
    if (is_vowpal_head(line, bar) &&
        (begins_bar || has_features(bar, end) || (bars == 1 && labelled) || has_namespaces(line, bar, end))) {
        return "Vowpal Wabbit data ('|' begins features), which this reader does not take: expected plain text";
    }
    for (const char *p = line; p < bar; p++) {
        if (text_is_blank(*p) || *p == ',' || *p == ';') {
            return NULL; /* no supported reader separates fields by bars */
        }
    }
    return bars > 1 ? "fields separated by '|': expected tabs or commas (tr '|' '\\t' converts it)" : NULL;
}

/* Whether the word [word, behind) is FIELD:INDEX:VALUE. */
static bool is_ffm_feature(const char *word, const char *behind) {
    unsigned colons = 0;
    for (const char *p = word; p < behind; p++) {
        colons += *p == ':';
        bool digit = *p >= '0' && *p <= '9';
        if (!digit && *p != ':' && (colons < 2 || memchr("+-.eE", *p, 5) == NULL)) {
            return false;
        }
    }
    return colons == 2 && behind - word >= 5;
}

/* Whether the line is a number and then features of libffm. It needs two features, as a time of day looks like one. */
static bool is_ffm(const char *line, const char *end) {
    size_t words = 0;
    for (const char *p = line; p < end && words < 3; words++) {
        const char *word = p;
        while (p < end && !text_is_blank(*p)) {
            p++;
        }
        if (words == 0 ? memchr("+-0123456789", *word, 12) == NULL : !is_ffm_feature(word, p)) {
            return false;
        }
        p = skip_blanks(p, end);
    }
    return words == 3;
}

static bool is_sql(const char *line, const char *end) {
    static const char *const begins[] = {"insert into ",   "create table ",      "drop table ",  "create database ",
                                         "-- mysql dump",  "-- postgresql data", "-- mariadb d", "-- phpmyadmin",
                                         "pragma foreign", "begin transaction;", "/*!40",        "/*m!"};
    for (size_t b = 0; b < sizeof begins / sizeof begins[0]; b++) {
        if (begins_word(line, end, begins[b])) {
            return true;
        }
    }
    return end - line == 2 && memcmp(line, "--", 2) == 0; /* pg_dump */
}

/* Names the formats of single lines, except MatrixMarket and lines with bars. */
static const char *line_kind(const char *line, const char *end) {
    if (is_json(line, end)) {
        return "JSON: expected plain text, a line for each record (jq's @csv or @tsv writes it)";
    }
    if (begins_word(line, end, "@relation") || begins_word(line, end, "@attribute")) {
        return "an ARFF file (Weka): expected its data alone (sed '1,/@data/Id' takes them)";
    }
    if (line < end && *line == '%' && (line + 1 == end || text_is_blank(line[1]) || line[1] == '%')) {
        return "a comment that begins with '%', as in ARFF (Weka) and MATLAB: expected the data alone";
    }
    if (begins_word(line, end, "__label__")) {
        return "fastText data (__label__NAME), which this reader does not take: expected plain text";
    }
    if (is_ffm(line, end)) {
        return "libffm data (field:index:value), which this reader does not take: expected index:value";
    }
    if (begins_word(line, end, "sep=") && end - line <= 6) {
        return "a line for Excel that names the separator: expected the table alone (sed 1d takes it)";
    }
    if (is_sql(line, end)) {
        return "an SQL dump: expected text (a query's result as CSV or TSV)";
    }
    if (end - line > 1 && *line == '<' && (is_letter(line[1]) || line[1] == '!' || line[1] == '?' || line[1] == '/')) {
        return "HTML or XML: expected plain text";
    }
    return NULL;
}

const char *text_foreign_line(const char *line, const char *end) {
    const char *text = skip_blanks(line, end);
    if (matrix_market_begins(text, end)) {
        return "a MatrixMarket matrix, which this reader does not take: expected plain text (scipy.io.mmread reads it)";
    }
    const char *kind = line_kind(text, end);
    return kind != NULL ? kind : bars_kind(line, end);
}

const char *text_foreign_document(const char *line, const char *end) {
    const char *text = skip_blanks(line, end);
    return matrix_market_begins(text, end) ? NULL : line_kind(text, end);
}
