/* See summary.h. */
#include "apps/samples/summary.h"

#include "agileml/base/text_input.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

enum { CLASSES_SHOWN = 10, LABEL_SHOWN = 20 /* bytes */ };

/* A text that grows up to its room. */
struct line {
    char *text;
    size_t room;
};

__attribute__((format(printf, 2, 3))) static void add(struct line *line, const char *format, ...) {
    size_t used = strlen(line->text);
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(line->text + used, line->room - used, format, arguments);
    va_end(arguments);
}

static const char *plural(uint64_t count) {
    return count == 1 ? "" : "s";
}

/* Adds the classes with their counts. Criteo lines have no counts. */
static void add_classes(struct line *line, const struct labels *labels) {
    add(line, ", %u classes: ", labels->count);
    for (uint32_t k = 0; k < labels->count && k < CLASSES_SHOWN; k++) {
        const struct label *label = &labels->items[k];
        add(line, "%s%.*s", k > 0 ? ", " : "", LABEL_SHOWN, label->text);
        if (label->count > 0) {
            add(line, " %llu", (unsigned long long)label->count);
        }
    }
    add(line, labels->count > CLASSES_SHOWN ? ", ..." : "");
}

/* Adds the largest index, if features are numbered. */
static void add_largest(struct line *line, const struct samples_survey *survey) {
    uint32_t count = survey->numbering.places.count;
    if (count > 0) {
        add(line, " to %llu, of which the features are those that occur",
            (unsigned long long)survey->numbering.features[count - 1] + survey->index_base);
    }
}

void samples_summary(const struct samples_file *file, const struct samples_survey *survey, char *text, size_t room) {
    struct line line = {.text = text, .room = room};
    size_t files = file->files != NULL ? file->files->count : 1;
    bool estimated = survey->format == SAMPLES_CRITEO;
    text[0] = '\0';
    add(&line, "%s", text_input_name(file->path));
    if (files > 1) {
        add(&line, " and %zu other file%s", files - 1, plural(files - 1));
    }
    add(&line, ": %s%llu sample%s of %u feature%s, %s", estimated ? "about " : "", (unsigned long long)survey->samples,
        plural(survey->samples), survey->features, plural(survey->features), samples_formats[survey->format]);
    if (survey->columns.said[0] != '\0') {
        add(&line, " (%s)", survey->columns.said);
    } else if (survey->format == SAMPLES_LIBSVM) {
        add(&line, " (indexes %sfrom %u", survey->indexes_alone ? "alone, " : "", survey->index_base);
        add_largest(&line, survey);
        add(&line, ")");
    }
    add_classes(&line, &survey->labels);
    if (survey->left_out > 0) {
        add(&line, "; %llu line%s without a label left out", (unsigned long long)survey->left_out,
            plural(survey->left_out));
    }
}
