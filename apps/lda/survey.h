/* What a process must know about files of uci, lda-c or MatrixMarket before it reads parts of them. This is the
 * documents' numbers, which count from the first file's first line, and whether the numbers of lines match the
 * headers. The survey is a pass over the lines that converts almost nothing. Errors in lines are found when the
 * lines are read. */
#ifndef APPS_LDA_SURVEY_H
#define APPS_LDA_SURVEY_H

#include "agileml/input/list.h"
#include "apps/lda/corpus.h"

struct lda_survey_file {
    const char *path; /* belongs to the list */
    struct lda_head head;
    uint64_t first_number; /* added to the numbers of its documents */
};

/* A run of lines that the library's reader passes on in one call. */
struct lda_chunk {
    uint32_t file, split; /* as in aml_lines */
    uint64_t offset;
    uint64_t line; /* number of its first line in the file, from 0 */
};

struct lda_survey {
    /* All files can be divided: they are uci, lda-c, or MatrixMarket with its rows in order. If false, only the
     * format is set. */
    bool parts;
    enum lda_format format;        /* format of the first file */
    struct lda_survey_file *files; /* [file_count] */
    size_t file_count;
    struct lda_chunk *chunks; /* [chunk_count], ascending */
    size_t chunk_count, chunk_capacity;
    uint64_t text; /* the sum of hashes of all chunks */
};

/* Surveys the list's files. The list must stay valid as long as the survey. `first` is the number of its first file
 * among the files that the library reads. Uses corpus->format, columns, name_space and note. Returns what
 * lda_corpus_read returns; after success lda_survey_close must follow. */
int lda_survey(const struct input_list *list, const struct lda_corpus *corpus, uint32_t first,
               struct lda_survey *survey, struct error *error);
void lda_survey_close(struct lda_survey *survey); /* a zeroed struct is allowed */

/* Returns the chunk that begins there; NULL: there is none, as the file has changed since. */
const struct lda_chunk *lda_survey_find(const struct lda_survey *survey, uint32_t file, uint32_t split,
                                        uint64_t offset);

/* Returns the function that gives a line's group for uci or MatrixMarket (aml_read_groups), its document. Returns
 * NULL for lda-c, whose lines have no groups. */
uint64_t (*lda_head_group(const struct lda_head *head))(const char *line);

#endif
