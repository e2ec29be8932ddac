/* See ini.h. */
#include "agileml/cloud/ini.h"

#include <stdbool.h>
#include <stdio.h>
#include <string.h>

struct ini {
    const char *file;
    ini_found *found;
    void *context;
    char section[INI_SECTION_MAX]; /* "": no section has begun */
    const char *name;              /* name of the latest item; NULL: none yet in this section */
    bool parts;                    /* the latest item has indented parts instead of a value */
    size_t indent;                 /* indentation of the latest item */
    unsigned line;
};

static bool ini_blank(char c) {
    return c == ' ' || c == '\t' || c == '\r';
}

/* Removes the blanks at the end, in place. */
static void ini_trim(char *text) {
    size_t size = strlen(text);
    while (size > 0 && ini_blank(text[size - 1])) {
        text[--size] = '\0';
    }
}

/* Removes a comment that follows a blank. */
static void ini_uncomment(char *text) {
    for (char *c = text; *c != '\0'; c++) {
        if ((*c == '#' || *c == ';') && (c == text || ini_blank(c[-1]))) {
            *c = '\0';
            return;
        }
    }
}

/* Begins a section; `text` is what follows "[". */
static int ini_begin_section(struct ini *ini, char *text, struct error *error) {
    char *end = strrchr(text, ']');
    size_t size = 0;
    char quote = '\0';
    if (end == NULL) {
        return error_set(error, AML_EINPUT, "%s:%u: expected ']' at the section's end", ini->file, ini->line);
    }
    *end = '\0';
    for (const char *c = text; *c != '\0' && size + 1 < INI_SECTION_MAX; c++) {
        if (*c == quote || (quote == '\0' && (*c == '"' || *c == '\''))) {
            quote = quote != '\0' ? '\0' : *c;
        } else if (quote != '\0' || !ini_blank(*c)) {
            ini->section[size++] = *c;
        } else if (size > 0 && c[1] != '\0' && !ini_blank(c[1])) {
            ini->section[size++] = ' ';
        }
    }
    ini->section[size] = '\0';
    ini->name = NULL;
    if (size == 0 || quote != '\0' || size + 1 == INI_SECTION_MAX) {
        return error_set(error, AML_EINPUT, "%s:%u: expected a section's name of 1 to %d bytes", ini->file, ini->line,
                         INI_SECTION_MAX - 2);
    }
    const struct ini_item item = {.section = ini->section, .value = "", .line = ini->line};
    return ini->found(ini->context, &item, error);
}

/* Splits "NAME = VALUE", and makes the name lower case. Returns false when the name or the sign is missing. */
static bool ini_split(char *text, char **value) {
    char *sign = text + strcspn(text, "=:");
    if (*sign == '\0' || sign == text) {
        return false;
    }
    *sign = '\0';
    *value = sign + 1 + strspn(sign + 1, " \t");
    ini_trim(text);
    ini_trim(*value);
    for (char *c = text; *c != '\0'; c++) {
        *c = *c >= 'A' && *c <= 'Z' ? (char)(*c - 'A' + 'a') : *c;
    }
    return true;
}

static int ini_line(struct ini *ini, char *text, struct error *error) {
    size_t indent = strspn(text, " \t");
    text += indent;
    ini_uncomment(text);
    ini_trim(text);
    if (text[0] == '\0') {
        return 0;
    }
    bool inside = ini->name != NULL && indent > ini->indent;
    if (text[0] == '[' && !inside) {
        return ini_begin_section(ini, text + 1, error);
    }
    if (ini->section[0] == '\0') {
        return error_set(error, AML_EINPUT, "%s:%u: expected a section first, such as [default]", ini->file, ini->line);
    }
    if (inside && !ini->parts) {
        return 0; /* a value over several lines: no supported setting has one */
    }
    struct ini_item item = {.section = ini->section, .line = ini->line};
    char *value;
    if (!ini_split(text, &value)) {
        return error_set(error, AML_EINPUT, "%s:%u: expected NAME = VALUE", ini->file, ini->line);
    }
    if (!inside) {
        ini->name = text;
        ini->parts = value[0] == '\0';
        ini->indent = indent;
    }
    item.name = ini->name;
    item.part = inside ? text : NULL;
    item.value = value;
    return ini->found(ini->context, &item, error);
}

int ini_parse(const char *file, char *text, ini_found *found, void *context, struct error *error) {
    struct ini ini = {.file = file, .found = found, .context = context};
    text += strncmp(text, "\xEF\xBB\xBF", 3) == 0 ? 3 : 0; /* skips a byte order mark, which some editors write */
    for (char *line = text; *line != '\0';) {
        size_t size = strcspn(line, "\n");
        char *next = line + size + (line[size] == '\n');
        line[size] = '\0';
        ini.line++;
        int code = ini_line(&ini, line, error);
        if (code != 0) {
            return code;
        }
        line = next;
    }
    return 0;
}
