/* See ratings_head.h. */
#include "workers/data/ratings_head.h"

#include "agileml/base/text_foreign.h"
#include "workers/data/rating_ids.h"
#include "workers/data/ratings_names.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

enum {
    NAME_SHOWN_MAX = 30,   /* bytes of a column's name in a message */
    NAMES_SHOWN_MAX = 160, /* bytes of all names of a header in a message */
    COLUMNS_PLAIN = 4,     /* fields of a line without a header: user item rating time */
    NEXT_LINES = 3,        /* lines looked at after a first line of texts */
    ROWS = 20              /* lines whose row names are looked at, if the header has no name for such a column */
};

static const char *const role_names[RATING_ROLES] = {"user", "item", "rating"};

/* A line of the head, and the text behind it. */
struct head_line {
    const char *text, *end;
    const char *rest, *rest_end;
    enum text_separator separator;
};

static int refuse(struct ratings_head *head, const char *text) {
    head->phase = RATINGS_REFUSED;
    return error_set(&head->refusal, AML_EINPUT, "%s", text);
}

/* ---- --columns ---- */

struct choices {
    struct text_choice roles[RATING_ROLES];
};

/* Whether a column is chosen by its name, so that there must be a header. */
static bool has_names(const struct choices *choices) {
    bool names = false;
    for (int r = 0; r < RATING_ROLES; r++) {
        names = names || choices->roles[r].name[0] != '\0';
    }
    return names;
}

static int parse_choices(const char *columns, struct choices *choices, struct error *error) {
    return text_choices_parse(columns, role_names, RATING_ROLES, choices->roles, error);
}

int ratings_columns_check(const char *columns, struct error *error) {
    struct choices choices;
    return parse_choices(columns, &choices, error);
}

/* ---- Fields of a line ---- */

/* Goes to the line's next field; a call with `number` -1 takes the first. Returns false behind the last field and at
 * bad quotes. */
static bool next_field(const struct head_line *line, struct text_field *field, int *number) {
    const char *next = *number < 0 ? line->text : field->next;
    ++*number;
    return next != NULL && *number < TEXT_COLUMNS_MAX && text_field_take(next, line->end, line->separator, field);
}

/* Whether all quotes are closed, as text_field_take wants them. */
static bool is_well_quoted(const struct head_line *line) {
    return text_fields_count(line->text, line->end, line->separator) > 0;
}

static int count_fields(const struct head_line *line) {
    struct text_field field;
    int number = -1;
    while (next_field(line, &field, &number)) {
    }
    return number;
}

/* The field of a column that exists. */
static struct text_field field_of(const struct head_line *line, int place) {
    struct text_field field;
    (void)text_field_at(line->text, line->end, line->separator, (size_t)place, &field);
    return field;
}

/* Whether the field is a decimal number, of any size. */
static bool is_number(const struct text_field *field) {
    return field->length > 0 && rating_number_end(field->text) == field->text + field->length;
}

/* Returns the separator of a line's fields. In a line of tabs and spaces, tabs separate names with spaces in them, but
 * both separate numbers. */
static enum text_separator separator_of(const char *line, const char *end) {
    struct head_line blanks = {.text = line, .end = end, .separator = text_separator_of(line, end)};
    struct text_field field;
    bool numbers = true;
    for (int number = -1; blanks.separator == TEXT_BLANKS && numbers && next_field(&blanks, &field, &number);) {
        numbers = is_number(&field) || rating_is_missing(&field);
    }
    const char *first = text_skip_blanks(line);
    const char *last = end;
    while (last > first && text_is_blank(last[-1])) {
        last--;
    }
    return !numbers && memchr(first, '\t', (size_t)(last - first)) != NULL ? TEXT_TAB : blanks.separator;
}

static bool has_number(const struct head_line *line) {
    struct text_field field;
    for (int number = -1; next_field(line, &field, &number);) {
        if (is_number(&field)) {
            return true;
        }
    }
    return false;
}

/* Whether the first two fields exist, and are ids that are numbers. */
static bool has_number_ids(const struct head_line *line) {
    struct text_field field;
    uint64_t key;
    int number = -1;
    while (next_field(line, &field, &number) && rating_id_key(&field, &key) && (key & RATING_ID_TEXT) == 0) {
        if (number == 1) {
            return true;
        }
    }
    return false;
}

/* ---- Columns by their names ---- */

/* Appends the text of a column's name, in quotes and shortened. */
static void append_name(char *to, size_t room, const struct text_field *field) {
    size_t length = strlen(to);
    bool whole = field->length <= NAME_SHOWN_MAX;
    snprintf(to + length, room - length, "\"%.*s%s\"", (int)(whole ? field->length : NAME_SHOWN_MAX), field->text,
             whole ? "" : "...");
}

/* Whether a role's column is `place`. */
static bool is_taken(const int places[RATING_ROLES], int place) {
    return places[RATING_USER] == place || places[RATING_ITEM] == place || places[RATING_VALUE] == place;
}

/* Finds the column of one tier of a role. Returns the column, TEXT_COLUMN_NONE or AML_EINPUT. */
static int find_tier(struct ratings_head *head, const struct head_line *line, const struct text_role *role) {
    int place;
    size_t columns;
    struct error error = {0};
    int code = text_columns_find(line->text, line->end, line->separator, role, 1, &place, &columns, &error);
    if (code >= 0) {
        return place;
    }
    head->phase = RATINGS_REFUSED;
    return error_set(&head->refusal, AML_EINPUT, "%s%s%s%s", error.text,
                     head->options.has_options ? "; --columns " : "", head->options.has_options ? role->name : "",
                     head->options.has_options ? "=NAME says which one counts" : "");
}

/* Finds the columns of all roles that have none yet, by the header's names. Returns how many it found, or a code. */
static int find_named(struct ratings_head *head, const struct head_line *line, int places[RATING_ROLES]) {
    int found = 0;
    for (int r = 0; r < RATING_ROLES; r++) {
        for (int t = 0; t < RATINGS_TIERS && places[r] == TEXT_COLUMN_NONE; t++) {
            int place = find_tier(head, line, &ratings_names[r][t]);
            if (head->phase == RATINGS_REFUSED) {
                return place;
            }
            places[r] = is_taken(places, place) ? TEXT_COLUMN_NONE : place;
            found += places[r] != TEXT_COLUMN_NONE;
        }
    }
    return found;
}

/* Whether any column has a known name, even if two columns have the same role. */
static bool knows_names(const struct head_line *line) {
    const struct text_role *const time = &ratings_time_names;
    struct error error = {0};
    size_t columns;
    int place;
    bool known = text_columns_find(line->text, line->end, line->separator, time, 1, &place, &columns, &error) != 0;
    for (int i = 0; i < RATING_ROLES * RATINGS_TIERS && !known; i++) {
        const struct text_role *role = &ratings_names[i / RATINGS_TIERS][i % RATINGS_TIERS];
        known = text_columns_find(line->text, line->end, line->separator, role, 1, &place, &columns, &error) != 0;
    }
    return known;
}

/* If only the user or only the item has no column, gives it a column whose name ends in "id". That must be the only
 * such column without a role. */
static void find_other_id(const struct head_line *line, int places[RATING_ROLES]) {
    struct text_field field;
    char name[TEXT_COLUMN_NAME_MAX + 1];
    int found = TEXT_COLUMN_NONE;
    int count = 0;
    enum rating_role missing = places[RATING_USER] == TEXT_COLUMN_NONE ? RATING_USER : RATING_ITEM;
    if ((places[RATING_USER] == TEXT_COLUMN_NONE) == (places[RATING_ITEM] == TEXT_COLUMN_NONE)) {
        return;
    }
    for (int number = -1; next_field(line, &field, &number);) {
        size_t length = text_column_normalize(&field, name, sizeof name);
        if (length > 2 && length < sizeof name && strcmp(name + length - 2, "id") == 0 && !is_taken(places, number)) {
            found = number;
            count++;
        }
    }
    if (count == 1) {
        places[missing] = found;
    }
}

/* Gives each role without a column the first column without a role. In a header, columns that number the lines are left
 * out. */
static void take_places(const struct head_line *line, bool header, int places[RATING_ROLES]) {
    struct text_field field;
    for (int r = 0; r < RATING_ROLES; r++) {
        for (int number = -1; places[r] == TEXT_COLUMN_NONE && next_field(line, &field, &number);) {
            bool index = header && text_column_is_index(&field, (size_t)number);
            places[r] = index || is_taken(places, number) ? TEXT_COLUMN_NONE : number;
        }
    }
}

/* Refuses a line in which a role that is needed has no column. */
static int check_places(struct ratings_head *head, const struct head_line *line, int columns) {
    static const char *const examples[RATING_ROLES] = {"user, userId, reviewerID", "item, movieId, asin",
                                                       "rating, stars, score"};
    const int *places = head->layout.places;
    char names[NAMES_SHOWN_MAX] = "";
    for (int r = 0; r < RATING_ROLES; r++) {
        if (places[r] >= columns) {
            head->phase = RATINGS_REFUSED;
            return error_set(&head->refusal, AML_EINPUT, "--columns: column %d is the %s, and the line has %d",
                             places[r] + 1, role_names[r], columns);
        }
        if (places[r] != TEXT_COLUMN_NONE || (r == RATING_VALUE && head->options.missing == RATINGS_TAKE_MISSING)) {
            continue;
        }
        text_columns_list(names, sizeof names, line->text, line->end, line->separator);
        head->phase = RATINGS_REFUSED;
        return error_set(&head->refusal, AML_EINPUT,
                         "the header names no %s: it has %s, and expected is a name such as %s%s%s%s", role_names[r],
                         names, examples[r], head->options.has_options ? "; --columns " : "",
                         head->options.has_options ? role_names[r] : "",
                         head->options.has_options ? "=NAME says which column it is" : "");
    }
    return 0;
}

/* ---- A header ---- */

/* Says what was taken for a header. */
static void say_header(struct ratings_head *head, const struct head_line *line, bool known) {
    size_t length = (size_t)snprintf(head->said, sizeof head->said,
                                     "line %llu is taken as a header%s:", (unsigned long long)head->lines + 1,
                                     known ? "" : " with names that are unknown");
    for (int r = 0; r < RATING_ROLES && length < sizeof head->said; r++) {
        int place = head->layout.places[r];
        if (place == TEXT_COLUMN_NONE) {
            continue;
        }
        struct text_field field = field_of(line, place);
        char name[NAME_SHOWN_MAX + 8] = "";
        append_name(name, sizeof name, &field);
        length += (size_t)snprintf(head->said + length, sizeof head->said - length, "%s %s %s (column %d)",
                                   r > 0 ? "," : "", role_names[r], name, place + 1);
    }
}

/* Takes the columns that --columns gives. Returns 0 or AML_EINPUT. */
static int take_chosen(struct ratings_head *head, const struct head_line *line, const struct choices *choices) {
    int *places = head->layout.places;
    for (int r = 0; r < RATING_ROLES; r++) {
        const struct text_choice *choice = &choices->roles[r];
        places[r] = choice->place;
        if (choice->name[0] != '\0' &&
            text_choice_find(choice, line->text, line->end, line->separator, &places[r], &head->refusal) != 0) {
            head->phase = RATINGS_REFUSED;
            return AML_EINPUT;
        }
        for (int other = 0; other < r; other++) {
            if (places[r] != TEXT_COLUMN_NONE && places[other] == places[r]) {
                head->phase = RATINGS_REFUSED;
                return error_set(&head->refusal, AML_EINPUT, "--columns: %s and %s are both column %d",
                                 role_names[other], role_names[r], places[r] + 1);
            }
        }
    }
    return 0;
}

/* Takes the columns from a header. */
static int take_header(struct ratings_head *head, const struct head_line *line, const struct choices *choices) {
    int *places = head->layout.places;
    bool named = knows_names(line) || has_names(choices);
    int columns = count_fields(line);
    if (take_chosen(head, line, choices) != 0) {
        return AML_EINPUT;
    }
    if (!named) {
        take_places(line, true, places);
    } else if (find_named(head, line, places) < 0) {
        return AML_EINPUT;
    } else {
        find_other_id(line, places);
    }
    head->layout.columns = (size_t)columns;
    head->layout.header = true;
    head->phase = RATINGS_BODY;
    int code = check_places(head, line, columns);
    if (code == 0) {
        say_header(head, line, named);
    }
    return code;
}

/* Whether the ids of the next lines are numbers. */
static bool numbers_follow(const struct head_line *line) {
    const char *p = line->rest;
    bool numbers = p < line->rest_end;
    for (int i = 0; i < NEXT_LINES && p < line->rest_end && numbers; i++) {
        struct head_line next = {.text = p, .end = text_find_line_end(p)};
        next.separator = separator_of(next.text, next.end);
        numbers = has_number_ids(&next);
        p = text_next_line(next.end);
    }
    return numbers;
}

/* Whether the file's first line is a header. A line with a number is none. A line of texts is one if it has a known
 * name. Without a known name it is a header too, except where ratings may be missing: there two texts are ids unless
 * numbers follow. */
static bool is_header(const struct ratings_head *head, const struct head_line *line, const struct choices *choices) {
    int columns = count_fields(line);
    int place = choices->roles[RATING_VALUE].place;
    place = place != TEXT_COLUMN_NONE ? place : RATING_VALUE;
    if (has_names(choices)) {
        return true;
    }
    if (has_number(line) || !is_well_quoted(line)) {
        return false;
    }
    if (knows_names(line)) {
        return true;
    }
    if (head->options.missing == RATINGS_TAKE_MISSING && columns <= place) {
        return numbers_follow(line);
    }
    struct text_field field = field_of(line, place);
    return columns > place && !rating_is_missing(&field);
}

/* ---- Names of rows ---- */

/* Whether the lines from `line` on, which have one field more than the header, begin with row names as R writes them.
 * R's row names are the only quoted numbers, or count 1, 2, 3 ... Otherwise it may be the last column that has no
 * name. */
static bool has_row_names(const struct head_line *line) {
    struct head_line row = *line;
    struct text_field name = field_of(&row, 0);
    uint64_t count = 0;
    if (name.quoted && is_number(&name) && !field_of(&row, 1).quoted) {
        return true;
    }
    while (count < ROWS) {
        uint64_t key;
        name = field_of(&row, 0);
        if (!rating_id_key(&name, &key) || key != ++count) {
            return false;
        }
        if (row.rest >= row.rest_end || text_is_line_end(*row.rest)) {
            break;
        }
        row.text = row.rest;
        row.end = text_find_line_end(row.text);
        row.rest = text_next_line(row.end);
    }
    return count > 1;
}

/* Moves the columns by one field if R's write.table has left out the name of the first. `line` is the first line of
 * data. */
static int take_row_names(struct ratings_head *head, const struct head_line *line) {
    struct ratings_layout *layout = &head->layout;
    struct choices choices;
    int columns = count_fields(line);
    if (!layout->header || (size_t)columns != layout->columns + 1 || field_of(line, columns - 1).length == 0 ||
        !has_row_names(line) || parse_choices(head->options.columns, &choices, &head->refusal) != 0) {
        return 0;
    }
    for (int r = 0; r < RATING_ROLES; r++) {
        if (choices.roles[r].place != TEXT_COLUMN_NONE) {
            return refuse(head, "each line begins with a row's name, for which the header has none: --columns takes "
                                "names of such a file, no numbers");
        }
        layout->places[r] += layout->places[r] != TEXT_COLUMN_NONE;
    }
    layout->columns++;
    size_t length = strlen(head->said);
    snprintf(head->said + length, sizeof head->said - length, "; each line begins with its row's name");
    return 0;
}

/* ---- The first line of data ---- */

static void take_plain(struct ratings_layout *layout) {
    layout->columns = COLUMNS_PLAIN;
    for (int r = 0; r < RATING_ROLES; r++) {
        layout->places[r] = r;
    }
}

static void take_data(struct ratings_head *head, const struct head_line *line, const struct choices *choices) {
    struct ratings_layout *layout = &head->layout;
    layout->separator = line->separator;
    layout->missing = head->options.missing;
    if (head->phase == RATINGS_BEGIN) {
        int columns = count_fields(line);
        for (int r = 0; r < RATING_ROLES; r++) {
            layout->places[r] = choices->roles[r].place;
        }
        if (head->options.columns != NULL) {
            take_places(line, false, layout->places);
            layout->header = true;
            layout->columns = (size_t)columns;
            if (check_places(head, line, columns) != 0) {
                return;
            }
        } else {
            take_plain(layout);
        }
    }
    head->phase = RATINGS_KNOWN;
}

/* ---- MatrixMarket ---- */

static int take_matrix(struct ratings_head *head, const struct head_line *line) {
    struct ratings_layout *layout = &head->layout;
    int code = matrix_market_take(&head->matrix, line->text, line->end, &head->refusal);
    if (code < 0) {
        head->phase = RATINGS_REFUSED;
        return code;
    }
    if (code == 0) {
        head->phase = RATINGS_MATRIX;
        return 0;
    }
    bool pattern = head->matrix.field == MATRIX_MARKET_PATTERN;
    if (pattern && head->options.missing != RATINGS_TAKE_MISSING) {
        return refuse(head,
                      "a MatrixMarket matrix of kind pattern has no values: expected ratings, by which users judge "
                      "items (kind real or integer)");
    }
    layout->places[RATING_USER] = 0;
    layout->places[RATING_ITEM] = 1;
    layout->places[RATING_VALUE] = pattern ? TEXT_COLUMN_NONE : RATING_VALUE;
    layout->columns = pattern ? 2 : 3;
    layout->matrix = true;
    layout->users = head->matrix.rows;
    layout->items = head->matrix.columns;
    head->phase = RATINGS_BODY;
    snprintf(head->said, sizeof head->said, "a MatrixMarket matrix: rows are users, columns are items");
    return 0;
}

/* ---- Lines ---- */

/* Whether a line at the file's beginning is a comment, as sets of graphs and statistics programs have: it begins with
 * '%' or with '#' and a blank. What is left behind these marks may still be a header (numpy.savetxt). */
static bool is_comment(struct head_line *line) {
    const char *p = text_skip_blanks(line->text);
    if (line->end - p == 5 && strncmp(p, "sep=", 4) == 0) { /* which tells spreadsheets the separator */
        return true;
    }
    const char *mark = p;
    while (*p == '#' || *p == '%') {
        p++;
    }
    bool comment = p > mark && (*mark == '%' || text_is_blank(*p) || p == line->end || p - mark > 1);
    struct head_line rest = {
        .text = text_skip_blanks(p), .end = line->end, .rest = line->rest, .rest_end = line->rest_end};
    rest.separator = separator_of(rest.text, rest.end);
    if (p == mark || rest.text >= rest.end) {
        return comment;
    }
    struct ratings_head trial = {.options = {.missing = RATINGS_TAKE_MISSING}};
    int places[RATING_ROLES] = {TEXT_COLUMN_NONE, TEXT_COLUMN_NONE, TEXT_COLUMN_NONE};
    bool header = !has_number(&rest) && is_well_quoted(&rest) && find_named(&trial, &rest, places) >= 2 &&
                  places[RATING_USER] != TEXT_COLUMN_NONE && places[RATING_ITEM] != TEXT_COLUMN_NONE;
    if (header) {
        *line = rest;
    }
    return comment && !header;
}

/* Whether the line has the word MatrixMarket. If so, its banner is wrong, and what follows is no data. */
static bool names_matrix(const struct head_line *line) {
    static const char word[] = "matrixmarket";
    for (const char *p = line->text; line->end - p >= (ptrdiff_t)sizeof word - 1; p++) {
        if (strncasecmp(p, word, sizeof word - 1) == 0) {
            return true;
        }
    }
    return false;
}

/* Takes a line. Returns false for the first line of data, and for one that is wrong. */
static bool take_line(struct ratings_head *head, struct head_line *line) {
    struct choices choices;
    if (head->phase == RATINGS_MATRIX) {
        return take_matrix(head, line) == 0;
    }
    if (text_skip_blanks(line->text) >= line->end) {
        return true;
    }
    if (head->phase == RATINGS_BODY) {
        line->separator = head->matrix.lines > 0 ? TEXT_BLANKS : line->separator;
        if (take_row_names(head, line) == 0) {
            take_data(head, line, NULL);
        }
        return false;
    }
    if (matrix_market_begins(line->text, line->end)) {
        return take_matrix(head, line) == 0;
    }
    if (is_comment(line)) {
        return !names_matrix(line) || refuse(head, "a comment that names MatrixMarket: expected its banner "
                                                   "'%%MatrixMarket matrix coordinate real general'") == 0;
    }
    const char *foreign = text_foreign_line(line->text, line->end);
    if (foreign != NULL) {
        refuse(head, foreign);
        return false;
    }
    if (parse_choices(head->options.columns, &choices, &head->refusal) != 0) {
        head->phase = RATINGS_REFUSED;
        return false;
    }
    if (is_header(head, line, &choices)) {
        return take_header(head, line, &choices) == 0;
    }
    take_data(head, line, &choices);
    return false;
}

size_t ratings_head_take(struct ratings_head *head, const char *text, size_t size) {
    const char *line = text;
    while (line < text + size && head->phase < RATINGS_KNOWN) {
        const char *line_end = text_find_line_end(line);
        struct head_line taken = {
            .text = line, .end = line_end, .rest = text_next_line(line_end), .rest_end = text + size};
        const char *next = taken.rest;
        if (line_end - line > RATINGS_LINE_MAX) { /* the parser refuses it */
            take_plain(&head->layout);
            head->phase = RATINGS_KNOWN;
            break;
        }
        taken.separator = separator_of(line, line_end);
        bool goes_on = take_line(head, &taken);
        if (goes_on || head->phase == RATINGS_REFUSED) {
            head->lines++;
            head->filled += text_skip_blanks(line) < line_end;
        }
        if (!goes_on) {
            break;
        }
        line = next;
    }
    return (size_t)(line - text);
}
