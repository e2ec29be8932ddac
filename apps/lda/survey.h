/* What a process must know of files of uci, lda-c or MatrixMarket before it reads parts of them: the documents'
 * numbers, which count from the first file's first line, and whether a file has as many lines as it says. A pass over
 * the lines that converts next to nothing; who reads the lines finds what is wrong with them. */
#ifndef APPS_LDA_SURVEY_H
#define APPS_LDA_SURVEY_H

#include "agileml/input/list.h"
#include "apps/lda/corpus.h"

struct lda_survey_file {
    const char *path; /* the list's */
    struct lda_head head;
    uint64_t first_number; /* added to the numbers of its documents */
};

/* A run of lines that the library's reader passes on as one. */
struct lda_chunk {
    uint32_t file, split; /* as aml_lines has them */
    uint64_t offset;
    uint64_t line; /* of its first line in the file, from 0 */
};

struct lda_survey {
    /* All files can be read in parts: they are uci, lda-c, or MatrixMarket with its rows in order. false: the struct
     * has nothing else but the format. */
    bool parts;
    enum lda_format format;        /* of the first file */
    struct lda_survey_file *files; /* [file_count] */
    size_t file_count;
    struct lda_chunk *chunks; /* [chunk_count], ascending */
    size_t chunk_count, chunk_capacity;
    uint64_t text; /* the sum of hashes of all chunks */
};

/* Surveys the list's files, which must remain as long as the survey; the first is number `first` of those that the
 * library reads. corpus->format, columns, name_space and note are used. Returns what lda_corpus_read does; after
 * success lda_survey_close must follow. */
int lda_survey(const struct input_list *list, const struct lda_corpus *corpus, uint32_t first,
               struct lda_survey *survey, struct error *error);
void lda_survey_close(struct lda_survey *survey); /* a zeroed struct is allowed */

/* NULL: no chunk begins there, as the file has changed since. */
const struct lda_chunk *lda_survey_find(const struct lda_survey *survey, uint32_t file, uint32_t split,
                                        uint64_t offset);

/* The group of a line of uci or MatrixMarket (aml_read_groups): its document. */
uint64_t lda_uci_group(const char *line);
/* lda_uci_group, or NULL for lda-c, whose lines have no groups. */
uint64_t (*lda_head_group(const struct lda_head *head))(const char *line);

#endif
