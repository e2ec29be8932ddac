/* See source_text.h. */
#include "agileml/input/source_text.h"

#include "agileml/input/source.h"

static void close_source(void *source) {
    source_close(source);
}

static int open_text(struct text_input **input, const char *path, struct error *error) {
    struct source_identity identity;
    struct source *source;
    *input = NULL;
    if (source_scheme_of(path) == &source_files) {
        return text_input_open(input, path, error);
    }
    int code = source_identify(path, &identity, error);
    code = code != 0 ? code : source_open(&source, path, &identity, 0, identity.bytes, error);
    if (code != 0) {
        return code;
    }
    const struct text_piece piece = {
        .name = text_input_name(path), .first = true, .source = source_read, .context = source, .close = close_source};
    return text_input_open_piece(input, &piece, error);
}

int source_lines_open(struct text_lines *lines, const char *path, size_t longest, struct error *error) {
    struct text_input *input;
    int code = open_text(&input, path, error);
    *lines = (struct text_lines){.path = path};
    if (code == 0) {
        text_lines_take(lines, path, input, longest);
    }
    return code;
}
