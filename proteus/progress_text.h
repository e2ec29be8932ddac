/* Text for people from the report's lines, and from numbers. Texts of nodes and apps are copied as they are: see
 * text_make_printable. */
#ifndef PROTEUS_PROGRESS_TEXT_H
#define PROTEUS_PROGRESS_TEXT_H

#include "agileml/wire/report_line.h"

enum {
    PROGRESS_NUMBER_TEXT = 32,
    PROGRESS_LINE_TEXT = 1024,
};

/* Text that grows up to the size of its memory. */
struct progress_text {
    char *bytes;
    size_t size, used;
};

/* Appends, cutting the text at the end of the memory. */
__attribute__((format(printf, 2, 3))) void progress_add(struct progress_text *text, const char *format, ...);

/* Returns a share of the items in percent, rounded down to tenths: 100 means all. */
double progress_percent(double share);
/* Writes 1234567 as "1.23 M": three digits, decimal units. */
void progress_count_text(double count, char text[PROGRESS_NUMBER_TEXT]);
/* Writes bytes such as "1.23 MB" or "17 B". */
void progress_bytes_text(double bytes, char text[PROGRESS_NUMBER_TEXT]);
/* Writes seconds as "0:07", "12:05", "3:07:45" or "2 d 3 h". */
void progress_duration_text(double seconds, char text[PROGRESS_NUMBER_TEXT]);

/* Describes a line of type iteration or clock. */
void progress_line_text(const struct report_line *line, char text[PROGRESS_LINE_TEXT]);
/* Describes a line of type event. */
void progress_event_text(const struct report_line *line, char text[PROGRESS_LINE_TEXT]);
/* Describes a line of type summary, in several lines. */
void progress_summary_text(const struct report_line *line, char text[PROGRESS_LINE_TEXT]);
/* Describes a line of type decision. */
void progress_decision_text(const struct report_line *line, char text[PROGRESS_LINE_TEXT]);

/* ---- Parts of these ---- */

/* Returns "-" instead of NULL. */
const char *progress_word(const char *text);
/* Returns whether the line's metrics cover only a part of the items. */
bool progress_is_partial(const struct report_line *line);
/* Calls `visit` for the objective and each metric of the line. */
void progress_visit_metrics(const struct report_line *line,
                            void (*visit)(void *context, const char *name, double value), void *context);
/* Adds a text such as " stage 2, 4+60 nodes", with the numbers of reliable and transient nodes. */
void progress_add_cluster(struct progress_text *text, const struct report_line *line);
/* Adds a text such as "node-3 silent for 0.6 s, given up in 0.4 s". */
void progress_add_silence(struct progress_text *text, const struct report_nodes *nodes, double silent, double left);

#endif
