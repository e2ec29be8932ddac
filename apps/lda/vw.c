/* Vowpal Wabbit's lines of words and counts (corpus.h), which BigARTM reads too:
 *
 *     [label [importance]] [id]|[namespace[:weight]] word[:count] ... |namespace word[:count] ...
 *     id word[:count] ... |namespace word[:count] ...
 *
 * Reads the words of one namespace: that of corpus->name_space, or the one that the first line suggests. */
#include "agileml/base/text_fields.h"
#include "apps/lda/reader.h"

#include <stdio.h>
#include <string.h>
#include <strings.h>

enum {
    NAMESPACE_MAX = 64, /* bytes of a namespace's name */
    LEFT_OUT_MAX = 4,   /* most namespaces named in a note */
    LEFT_OUT_BYTES = LEFT_OUT_MAX * (NAMESPACE_MAX + 2) + 1
};

/* The state while lines are read. */
struct words {
    struct lda_reader *reader;
    char wanted[NAMESPACE_MAX + 1]; /* the namespace to read; "": that without a name */
    char left_out[LEFT_OUT_MAX][NAMESPACE_MAX + 1];
    unsigned left_out_count;
    bool more_left_out;
};

/* A run of bytes without blanks. */
struct piece {
    const char *text;
    size_t length;
};

/* Takes the piece at *p, which ends at a blank, a bar or `end`. Returns false when there is none. */
static bool take_piece(const char **p, const char *end, struct piece *piece) {
    const char *begin = *p;
    while (begin < end && text_is_blank(*begin)) {
        begin++;
    }
    const char *behind = begin;
    while (behind < end && !text_is_blank(*behind) && *behind != '|') {
        behind++;
    }
    *piece = (struct piece){begin, (size_t)(behind - begin)};
    *p = behind;
    return behind > begin;
}

static bool is_number(const struct piece *piece) {
    return lda_is_number(piece->text, piece->length);
}

/* Returns the colon before a number at the piece's end. Returns NULL when there is none, or no text before it. */
static const char *find_count(const struct piece *piece) {
    const char *colon = memrchr(piece->text, ':', piece->length);
    if (colon == NULL || colon == piece->text) {
        return NULL;
    }
    const struct piece number = {colon + 1, (size_t)(piece->text + piece->length - colon - 1)};
    return is_number(&number) ? colon : NULL;
}

/* Whether the piece is a word with a count, and not a time of day. */
static bool is_counted_word(const struct piece *piece) {
    const char *colon = find_count(piece);
    return colon != NULL && (size_t)(colon - piece->text) > strspn(piece->text, "0123456789"); /* not all digits */
}

/* The text before the first bar. */
struct prefix {
    const char *end;   /* the bar, or the line's end */
    struct piece id;   /* the document's id; length 0: none */
    const char *words; /* the words after the id; NULL: the text has labels, or nothing */
};

static void find_prefix(const struct lda_reader *reader, struct prefix *prefix) {
    const char *line_end = reader->line + reader->length;
    const char *bar = memchr(reader->line, '|', reader->length);
    const char *p = reader->line;
    struct piece piece;
    struct piece last = {NULL, 0};
    unsigned pieces = 0;
    bool words = bar == NULL;
    *prefix = (struct prefix){.end = bar != NULL ? bar : line_end};
    for (; take_piece(&p, prefix->end, &piece); pieces++) {
        if (pieces == 0) {
            prefix->id = piece;
            prefix->words = p;
        }
        bool tag = p == prefix->end || *piece.text == '\'';
        words = words || (pieces > 0 && (find_count(&piece) != NULL || (!is_number(&piece) && !tag)));
        last = piece;
    }
    if (!words) { /* labels, and perhaps a tag */
        prefix->id = pieces < 2 || !is_number(&last) ? last : (struct piece){NULL, 0};
        prefix->words = NULL;
    }
    if (prefix->id.length > 0 && *prefix->id.text == '\'') { /* Vowpal Wabbit marks a tag with an apostrophe */
        prefix->id.text++;
        prefix->id.length--;
    }
}

/* Adds a word with its count, multiplied by its namespace's weight. */
static int add_word(struct words *words, const struct piece *piece, uint32_t weight) {
    struct lda_reader *reader = words->reader;
    const char *colon = find_count(piece);
    uint32_t count = 1;
    if (colon != NULL) {
        const char *p = colon + 1;
        int result = lda_take_count(reader, &p, &count);
        if (result != 0 || p != piece->text + piece->length) {
            return result < 0 ? result
                              : lda_line_error(reader, "expected 'word:count', got '%.*s'", text_shown(piece->length),
                                               piece->text);
        }
    }
    if ((uint64_t)count * weight > LDA_DOCUMENT_TOKENS_MAX) {
        return lda_line_error(reader, "count %u times the namespace's weight %u: expected at most %d", count, weight,
                              LDA_DOCUMENT_TOKENS_MAX);
    }
    size_t length = colon != NULL ? (size_t)(colon - piece->text) : piece->length;
    if (count == 0 || weight == 0 || length > LDA_WORD_MAX) { /* longer words do not count, as in format text */
        return 0;
    }
    return lda_add_name(reader, piece->text, length, count * weight);
}

/* Records that a namespace with words was skipped. */
static void leave_out(struct words *words, const char *name) {
    for (unsigned n = 0; n < words->left_out_count; n++) {
        if (strcmp(words->left_out[n], name) == 0) {
            return;
        }
    }
    if (words->left_out_count == LEFT_OUT_MAX) {
        words->more_left_out = true;
        return;
    }
    snprintf(words->left_out[words->left_out_count++], NAMESPACE_MAX + 1, "%s", name);
}

/* Takes the words up to the next bar or the line's end. */
static int take_words(struct words *words, const char **p, const char *name, uint32_t weight) {
    const char *end = words->reader->line + words->reader->length;
    bool wanted = strcmp(name, words->wanted) == 0;
    struct piece piece;
    int result = 0;
    bool some = false;
    while (result == 0 && take_piece(p, end, &piece)) {
        some = true;
        result = wanted ? add_word(words, &piece, weight) : 0;
    }
    if (some && !wanted) {
        leave_out(words, name);
    }
    return result;
}

/* Takes the namespace's name and weight after the bar. */
static int take_namespace(const struct lda_reader *reader, const char **p, char name[NAMESPACE_MAX + 1],
                          uint32_t *weight) {
    const char *end = reader->line + reader->length;
    struct piece piece = {*p, 0};
    *weight = 1;
    if (*p < end && !text_is_blank(**p) && **p != '|') {
        take_piece(p, end, &piece);
    }
    const char *colon = find_count(&piece);
    size_t length = colon != NULL ? (size_t)(colon - piece.text) : piece.length;
    if (colon != NULL) {
        const char *number = colon + 1;
        int result = lda_take_count(reader, &number, weight);
        if (result != 0 || number != piece.text + piece.length) {
            return result < 0 ? result
                              : lda_line_error(reader, "expected 'namespace:weight', got '%.*s'",
                                               text_shown(piece.length), piece.text);
        }
    }
    if (length > 0 && *piece.text == '@') { /* BigARTM's form */
        piece.text++;
        length--;
    }
    if (length > NAMESPACE_MAX) {
        return lda_line_error(reader, "expected a namespace of at most %d bytes", NAMESPACE_MAX);
    }
    memcpy(name, piece.text, length);
    name[length] = '\0';
    return 0;
}

static int take_line(struct words *words) {
    struct lda_reader *reader = words->reader;
    const char *end = reader->line + reader->length;
    struct prefix prefix;
    find_prefix(reader, &prefix);
    const char *p = prefix.words;
    int result = p != NULL ? take_words(words, &p, "", 1) : 0;
    for (p = prefix.end; p < end && result == 0;) {
        char name[NAMESPACE_MAX + 1];
        uint32_t weight;
        p++;
        result = take_namespace(reader, &p, name, &weight);
        result = result != 0 ? result : take_words(words, &p, name, weight);
    }
    if (result != 0) {
        return result;
    }
    reader->id = prefix.id.length > 0 ? prefix.id.text : NULL;
    reader->id_length = prefix.id.length;
    return lda_end_document(reader, reader->lines.number - 1);
}

/* Chooses the namespace by the first line: that without a name, if it has words; else one whose name means text;
 * else the first. */
static int choose_namespace(struct words *words) {
    static const char *const texts[] = {"", "default_class", "text", "body", "words", "w", "t", "content", "document"};
    const struct lda_reader *reader = words->reader;
    const char *end = reader->line + reader->length;
    size_t best = sizeof texts / sizeof *texts;
    bool chosen = false;
    struct prefix prefix;
    find_prefix(reader, &prefix);
    if (prefix.words != NULL) {
        return 0;
    }
    for (const char *p = prefix.end; p < end;) {
        char name[NAMESPACE_MAX + 1];
        uint32_t weight;
        struct piece piece;
        p++;
        int result = take_namespace(reader, &p, name, &weight);
        if (result != 0) {
            return result;
        }
        bool some = take_piece(&p, end, &piece);
        while (take_piece(&p, end, &piece)) {
        }
        size_t place = 0;
        while (some && place < best && strcasecmp(name, texts[place]) != 0) {
            place++;
        }
        if (some && (!chosen || place < best)) {
            memcpy(words->wanted, name, sizeof name);
            best = place;
            chosen = true;
        }
    }
    return 0;
}

/* Notes which namespaces were skipped. */
static void note_namespaces(const struct words *words) {
    char names[LEFT_OUT_BYTES] = "";
    size_t length = 0;
    for (unsigned n = 0; n < words->left_out_count; n++) {
        const char *name = words->left_out[n];
        length += (size_t)snprintf(names + length, sizeof names - length, "%s%s", n > 0 ? ", " : "",
                                   *name != '\0' ? name : "(no name)");
    }
    if (words->left_out_count > 0) {
        lda_note(words->reader->corpus,
                 "words of the namespace %s; those of %s%s are left out (--namespace NAME reads others)",
                 *words->wanted != '\0' ? words->wanted : "without a name", names, words->more_left_out ? ", ..." : "");
    }
}

int lda_read_vw(struct lda_reader *reader) {
    struct words words = {.reader = reader};
    const char *wanted = reader->corpus->name_space;
    if (wanted != NULL && strlen(wanted) > NAMESPACE_MAX) {
        return error_set(reader->error, AML_EINPUT, "--namespace: expected at most %d bytes", NAMESPACE_MAX);
    }
    int result = wanted == NULL ? choose_namespace(&words) : 0;
    if (wanted != NULL) {
        snprintf(words.wanted, sizeof words.wanted, "%s", wanted);
    }
    for (result = result != 0 ? result : 1; result > 0;) {
        result = take_line(&words);
        result = result != 0 ? result : lda_next_line(reader);
    }
    if (result == 0) {
        note_namespaces(&words);
    }
    return result;
}

/* Whether the text after the bar looks like Vowpal Wabbit's. If all bars have a namespace, one piece must have a
 * count; otherwise half of the pieces. */
static bool counts_follow(const char *bar, const char *end) {
    struct piece piece;
    size_t pieces = 0;
    size_t counted = 0;
    bool named = true;
    for (const char *p = bar; p < end;) { /* p is at a bar */
        p++;
        if (p < end && !text_is_blank(*p)) {
            take_piece(&p, end, &piece);
        } else {
            named = false;
        }
        while (take_piece(&p, end, &piece)) {
            counted += is_counted_word(&piece) ? 1 : 0;
            pieces++;
        }
    }
    return counted > 0 && (named || 2 * counted >= pieces);
}

/* Whether the line is a row of a Markdown table: it begins and ends with a bar. */
static bool is_markdown(const char *bar, const char *end) {
    while (end > bar + 1 && text_is_blank(end[-1])) {
        end--;
    }
    return end > bar + 1 && end[-1] == '|';
}

bool lda_is_vw(const struct lda_reader *reader) {
    const char *end = reader->line + reader->length;
    const char *bar = memchr(reader->line, '|', reader->length);
    const char *p = reader->line;
    struct piece piece;
    size_t counted = 0;
    size_t pieces = 0;
    size_t numbers = 0;
    while (take_piece(&p, bar != NULL ? bar : end, &piece)) {
        counted += is_counted_word(&piece) ? 1 : 0;
        numbers += is_number(&piece) ? 1 : 0;
        pieces++;
    }
    if (bar == NULL || (counted > 0 && pieces > 1)) { /* id word:count word:count ... */
        return counted > 1 && counted + 1 >= pieces;
    }
    if (pieces == 0) {
        return !is_markdown(bar, end);
    }
    bool named = bar + 1 < end && !text_is_blank(bar[1]);
    return (numbers == pieces && named) || (pieces <= numbers + 1 && counts_follow(bar, end));
}
