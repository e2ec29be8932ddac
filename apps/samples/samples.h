/* Reads files of labelled samples: as a stream, in the order of the file, in the calling thread; or runs of lines in
 * any thread. One sample is in memory at a time. Files may be plain or gzip. Rejects malformed input with file, line
 * and what was expected. Does not keep, scale or shuffle samples.
 *
 * Formats:
 * - libsvm (svmlight): lines `label index:value ...`, indexes ascending, separated by spaces or tabs; `#` begins a
 *   comment, `qid:NUMBER` after the label is skipped. Indexes count from 0 or 1; a line may have only indexes, whose
 *   values are 1. Indexes that are far apart are numbered (numbering.h).
 * - text: lines of numbers separated by spaces or tabs, all of the same length, one of them the label, which may be a
 *   word, with or without a header: columns.h finds the columns in the first lines.
 * - csv: the same with commas, semicolons or tabs.
 * - idx: MNIST's format, images of unsigned bytes in one file, labels of one byte (or of 4, signed) in another.
 * - criteo: lines of a label, 13 integers and 26 categories (criteo.h), whose features are hashed (hash.h).
 * - tar: compressed images, which only images.h reads.
 *
 * Lines and their fields (quotes, blanks, line ends) follow the rules of text_fields.h and text_lines.h. Empty lines
 * are skipped. */
#ifndef APPS_SAMPLES_SAMPLES_H
#define APPS_SAMPLES_SAMPLES_H

#include "agileml/base/error.h"
#include "agileml/base/text_fields.h"
#include "agileml/input/list.h"
#include "apps/samples/columns.h"
#include "apps/samples/criteo.h"
#include "apps/samples/criteo_hash.h"
#include "apps/samples/image.h"
#include "apps/samples/labels.h"
#include "apps/samples/numbering.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
    SAMPLES_FEATURES_MAX = 1 << 26,            /* features of a set; each takes memory */
    SAMPLES_INDEX_MAX = INT32_MAX,             /* largest index of libsvm */
    SAMPLES_VALUES_MAX = COLUMNS_FEATURES_MAX, /* values of a sample, and so features if it is dense */
    SAMPLES_LINE_MAX = 1 << 24                 /* bytes of a line, without its end */
};

enum samples_format {
    SAMPLES_AUTO = 0,
    SAMPLES_LIBSVM,
    SAMPLES_TEXT,
    SAMPLES_CSV,
    SAMPLES_IDX,
    SAMPLES_CRITEO,
    SAMPLES_TAR
};

/* The formats' names, in the order of the enum; NULL ends them. */
extern const char *const samples_formats[];

/* What to do with samples whose label is missing (label_is_missing). */
enum samples_missing {
    SAMPLES_MISSING_REFUSE = 0,
    SAMPLES_MISSING_SKIP, /* they are left out */
    SAMPLES_MISSING_KEEP  /* the text is a class; an empty label is rejected */
};

/* The names of enum samples_missing, in its order; NULL ends them. */
extern const char *const samples_missing_names[];

/* The place of an image's label: see images.h. */
enum images_labels { IMAGES_LABELS_CLASS, IMAGES_LABELS_FOLDER };

/* How images become samples. */
struct images_form {
    enum images_labels labels;
    struct image_shape shape; /* all images are decoded to this shape */
};

/* An input, and how to read it. */
struct samples_file {
    const char *path; /* with several files, the first */
    /* Several files of one format, read one after the other. NULL: only `path`. Each may have a header. Not for idx,
     * which allows only one file. */
    const struct input_list *files;
    uint64_t first_place;       /* added to the samples' places */
    const char *labels_path;    /* idx: the labels; else NULL */
    enum samples_format format; /* SAMPLES_AUTO: detected from the file's beginning */
    const char *label_column;   /* text, csv: see struct columns_wish */
    char *said; /* text, csv: [COLUMNS_SAID_MAX], receives a note about the first file's columns; NULL: no note */
    const struct columns *like; /* text, csv: the training data's columns; NULL: this is the training data */
    uint32_t index_base;        /* libsvm: the index of feature 0: 0 or 1 */
    /* libsvm: how features are numbered; features without a number are left out. NULL or unused: a feature is its
     * index minus index_base. */
    const struct numbering *numbering;
    struct criteo_hash hash;   /* criteo: how a line's fields become features */
    struct images_form images; /* tar */
    enum samples_missing missing;
    /* All samples of the file may lack labels. libsvm: all lines are `index:value` pairs. text, csv: without
     * label_column, lines have `features` fields, or the header names these and no label. idx: there is no
     * labels_path. criteo: lines have 39 fields, or the header has no label. tar: the images have no labels. */
    bool label_optional; /* Then single missing labels are allowed too, and samples have them as written. */
    uint32_t features;   /* only with label_optional */
};

/* One sample, valid only during the call that receives it. */
struct sample {
    uint64_t number; /* number in the file, from 0; for a run see struct samples_run */
    uint64_t place;  /* in the files: the bytes of text before the line; idx: the number */
    uint64_t line;   /* line in the file, from 1; 0: the file has no lines, or the sample is of a run */
    bool labelled;   /* false: `label` is not set */
    struct label label;
    /* [count] ascending, without index_base; NULL: 0..count-1. For criteo, and for numbered features in a survey: in
     * any order, all different. */
    const uint32_t *features;
    const double *values; /* [count] finite, and within float's range */
    bool ones;            /* all values are known to be 1 */
    uint32_t count;       /* at most SAMPLES_VALUES_MAX */
};

/* Returns a number above all of a sample's features. */
uint32_t sample_end(const struct sample *sample);

/* Takes a sample. A result other than 0 stops the reading and becomes its result. samples_read puts the sample's
 * place in the file before the text of *error. */
typedef int samples_sink(void *context, const struct sample *sample, struct error *error);

/* Passes all samples to `sink`. Returns 0, AML_ENOMEM, or what the sink returned. Returns AML_EINPUT when the file
 * can't be read, is malformed, or has no samples. */
int samples_read(const struct samples_file *file, samples_sink *sink, void *context, struct error *error);

/* Sets *format to file->format. If that is SAMPLES_AUTO, to SAMPLES_IDX or SAMPLES_CRITEO when the file begins so;
 * otherwise the file has lines of another format. */
int samples_find_format(const struct samples_file *file, enum samples_format *format, struct error *error);

/* ---- Files of lines: any parts, in several threads ---- */

/* What the beginning of a file of lines shows about all its lines. */
struct samples_head {
    enum samples_format format; /* not SAMPLES_AUTO and not SAMPLES_IDX */
    uint64_t begin;             /* bytes of the text before the first sample: header, comments, empty lines */
    struct columns columns;     /* text, csv */
    struct criteo_columns criteo;
};

/* A run of whole lines of a file. Each line has an end. */
struct samples_run {
    const char *text; /* [size], and a final 0 */
    size_t size;
    size_t skip;    /* bytes at the run's beginning that are before the file's first sample */
    uint64_t place; /* place of the line at text[0] */
    /* Whether a line's place is a mix of `name` (of a part of the file) and the place in that part. Then `place` is
     * that of text[0] in the part, and a sample's number is its place. */
    bool named;
    uint64_t name;
    uint64_t number; /* number of the run's first sample, unless `named` */
};

/* Reads the beginning of the file at file->path, up to its first sample. file->label_optional must be false. Returns
 * 0, and samples_head_close must follow; or an error of samples_read. */
int samples_read_head(const struct samples_file *file, struct samples_head *head, struct error *error);
void samples_head_close(struct samples_head *head);
/* Passes the samples of a run to `sink`, in any thread. Returns 0, AML_ENOMEM, AML_EINPUT or what the sink returned.
 * After an error of a line *at is that line, and *error does not contain its place. */
int samples_read_run(const struct samples_file *file, const struct samples_head *head, const struct samples_run *run,
                     samples_sink *sink, void *context, const char **at, struct error *error);

/* ---- Surveys ---- */

/* The places of runs of lines. A chunk is a run that the library's reader passes on in one call. */
struct samples_places {
    struct samples_chunk {
        uint32_t file, split; /* split as in aml_lines */
        uint64_t offset;      /* offset of the chunk's text within the text of the split's lines */
        uint64_t place;       /* place of the chunk's first line in all files */
        uint64_t number;      /* number of samples before the chunk, in all files */
    } * chunks;               /* [count], ascending */
    size_t count, capacity;
    uint64_t end; /* place after the last line of all files */
};
/* Returns the chunk that begins there; NULL: there is none. */
const struct samples_chunk *samples_find_chunk(const struct samples_places *places, uint32_t file, uint32_t split,
                                               uint64_t offset);

/* The shape and labels of a set of samples. */
struct samples_survey {
    enum samples_format format; /* never SAMPLES_AUTO */
    uint64_t samples;           /* for criteo an estimate */
    uint64_t left_out;          /* lines whose label is missing, with SAMPLES_MISSING_SKIP */
    uint64_t values;            /* number of values written in the file; for idx, of all values */
    uint32_t features;          /* the largest feature + 1, at least 1; or the number of numbered features */
    uint32_t index_base;        /* libsvm: 0 when index 0 occurs, else 1 */
    bool indexes_alone;         /* libsvm: some lines have only indexes, whose values are 1 */
    bool dense;                 /* every sample has all features */
    struct labels labels;
    struct columns columns;       /* text, csv: the columns of the first file */
    struct numbering numbering;   /* libsvm: numbering of features, if it is used */
    uint32_t *numbers;            /* final numbers by the numbers that the sink received; NULL: not used */
    float *maxima;                /* [features] largest absolute value of each feature, if requested; else NULL */
    struct samples_places places; /* libsvm, text and csv; tar: a chunk for each file; else none */
    uint64_t text;                /* the sum of the chunks' hashes; tar: a hash of the images' names and sizes */
};

/* What a survey should find besides shape and labels. */
struct samples_wanted {
    bool base;     /* whether index 0 occurs; file->index_base is then ignored */
    bool numbered; /* libsvm: number features if their indexes are far apart; otherwise such indexes are rejected */
    bool maxima;   /* largest absolute value of each feature */
    bool values;   /* reads all values, even if the survey does not need them */
    /* Receives each sample with its place. With `base` features count from 0. With `numbered` they are the numbers
     * of numbering_add. NULL: no sink. */
    samples_sink *sink;
    void *context; /* context of the sink */
};

/* Reads the files once, or twice when features are numbered. Ignores file->numbering. Without maxima and a sink, it
 * reads only what it needs, which is much faster than samples_read: of idx the header and the labels, of lines their
 * shape. The later reading of the samples finds errors in their values. After success samples_survey_close must
 * follow. */
int samples_survey(const struct samples_file *file, const struct samples_wanted *wanted, struct samples_survey *survey,
                   struct error *error);
/* Makes the survey of a file of Criteo lines without reading it. The features are the hash's slots, and the labels
 * are 0 and 1. The number of samples is estimated from the file's beginning, with the same result in every process. */
int samples_survey_criteo(const struct samples_file *file, struct samples_survey *survey, struct error *error);
void samples_survey_close(struct samples_survey *survey);

#endif
