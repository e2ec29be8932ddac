/* Reads files of labelled samples: as a stream, in the order of the file, in the calling thread; or runs of lines in
 * any thread. One sample is in memory at a time. Files may be plain or gzip. Refuses malformed input with file, line
 * and what was expected. Does not keep, scale or shuffle samples.
 *
 * Formats:
 * - libsvm (svmlight): lines `label index:value ...`, indexes ascending, separated by spaces or tabs; `#` begins a
 *   comment, `qid:NUMBER` behind the label is skipped. Indexes count from 0 or 1; a line may have indexes alone, whose
 *   values are 1. Indexes that are far apart are numbered (numbering.h).
 * - text: lines of numbers separated by spaces or tabs, all of the same length, one of them the label, which may be a
 *   word, with or without a header: columns.h finds the columns by the first lines.
 * - csv: the same with commas, semicolons or tabs.
 * - idx: MNIST's format, images of unsigned bytes in one file, labels of one byte (or of 4, signed) in another.
 * - criteo: lines of a label, 13 integers and 26 categories (criteo.h), whose features are hashed (hash.h).
 * - tar: compressed images, read by images.h alone.
 *
 * Lines and their fields (quotes, blanks, line ends) are by the rules of text_fields.h and text_lines.h; empty lines
 * are skipped. */
#ifndef APPS_MLR_SAMPLES_H
#define APPS_MLR_SAMPLES_H

#include "agileml/base/error.h"
#include "agileml/base/text_fields.h"
#include "agileml/input/list.h"
#include "apps/mlr/columns.h"
#include "apps/mlr/criteo.h"
#include "apps/mlr/hash.h"
#include "apps/mlr/labels.h"
#include "apps/mlr/numbering.h"
#include "apps/samples/image.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
    SAMPLES_FEATURES_MAX = 1 << 26,            /* features of a set: bytes of memory for each */
    SAMPLES_INDEX_MAX = INT32_MAX,             /* of libsvm's */
    SAMPLES_VALUES_MAX = COLUMNS_FEATURES_MAX, /* values of a sample: so many features when it is dense */
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

/* What becomes of samples whose label is missing (mlr_label_is_missing). */
enum samples_missing {
    SAMPLES_MISSING_REFUSE = 0,
    SAMPLES_MISSING_SKIP, /* they are left out */
    SAMPLES_MISSING_KEEP  /* the word is a class; an empty label is refused */
};

/* The names of these; NULL ends them. */
extern const char *const samples_missing_names[];

/* Where the labels of images are: see images.h. */
enum images_labels { IMAGES_LABELS_CLASS, IMAGES_LABELS_FOLDER };

/* What images are made samples of. */
struct images_form {
    enum images_labels labels;
    struct image_shape shape; /* that all are decoded to */
};

/* An input, and how to read it. */
struct samples_file {
    const char *path; /* of several files the first */
    /* Several files of one format, read one after the other; NULL: `path` alone. Each may have a header. idx: not more
     * than one. */
    const struct input_list *files;
    uint64_t first_place;       /* added to the samples' places */
    const char *labels_path;    /* idx: the labels; else NULL */
    enum samples_format format; /* SAMPLES_AUTO: found out from the file's beginning */
    const char *label_column;   /* text, csv: see struct columns_wish */
    char *said; /* text, csv: [COLUMNS_SAID_MAX] what is said of the first file's columns; NULL: nobody asks */
    const struct columns *like; /* text, csv: the training data's columns; NULL: these are the training data */
    uint32_t index_base;        /* libsvm: the index of feature 0: 0 or 1 */
    /* libsvm: NULL or not used: features are indexes less index_base. Else they are this one's, and others are left
     * out. */
    const struct numbering *numbering;
    struct mlr_hash hash;      /* criteo: how a line's fields become features */
    struct images_form images; /* tar */
    enum samples_missing missing;
    /* Whether all samples of the file may lack labels: lines of `index:value` alone (libsvm); without label_column,
     * lines of `features` fields, or a header that names these and no label (text, csv); no labels_path (idx); lines of
     * 39 fields, or a header without a label (criteo); images without one (tar). */
    bool label_optional; /* Missing labels are then allowed too, and are the samples' as they are written. */
    uint32_t features;   /* with label_optional */
};

/* One sample, valid during the call that it is passed to. */
struct sample {
    uint64_t number; /* in the file, from 0; for samples of a run see there */
    uint64_t place;  /* in the files: the bytes of their text before the line; idx: the number */
    uint64_t line;   /* in the file, from 1; 0: it has no lines, or the sample is of a run */
    bool labelled;   /* false: `label` is not set */
    struct mlr_label label;
    /* [count] ascending, index_base already subtracted; NULL: 0..count-1. criteo, and numbered ones in a survey: any
     * order, none twice */
    const uint32_t *features;
    const double *values; /* [count] finite, and in the range of float */
    bool ones;            /* all values are known to be 1 */
    uint32_t count;       /* at most SAMPLES_VALUES_MAX */
};

/* Returns a number above all features of a sample. */
uint32_t sample_end(const struct sample *sample);

/* Takes a sample. A result other than 0 stops the reading, and samples_read returns it. samples_read puts the sample's
 * place in the file before the text of *error. */
typedef int samples_sink(void *context, const struct sample *sample, struct error *error);

/* Passes all samples to `sink`. 0; or AML_EINPUT (the file can't be read, does not fit, or has no samples), AML_ENOMEM,
 * or what the sink returned. */
int samples_read(const struct samples_file *file, samples_sink *sink, void *context, struct error *error);

/* ---- Files of lines, in any parts and several threads ---- */

/* What the beginning of a file of lines says of all its lines. */
struct samples_head {
    enum samples_format format; /* not SAMPLES_AUTO and not SAMPLES_IDX */
    uint64_t begin;             /* bytes of the text before the first sample: a header, comments, empty lines */
    struct columns columns;     /* text, csv */
    struct criteo_columns criteo;
};

/* A run of whole lines of a file. Each line has an end. */
struct samples_run {
    const char *text; /* [size], and a 0 behind */
    size_t size;
    size_t skip;    /* bytes at its beginning that are before the file's first sample */
    uint64_t place; /* of the line at text[0] */
    /* Whether the place of a line is a mix of `name`, of a part of the file, and the place in it: `place` is then
     * text[0]'s there, and a sample's number is its place. */
    bool named;
    uint64_t name;
    uint64_t number; /* of the run's first sample, if it is not named */
};

/* Sets *lines to whether the file has lines: whether it is not idx. */
int samples_are_lines(const struct samples_file *file, bool *lines, struct error *error);
/* Reads the beginning of the file at file->path, up to its first sample. file->label_optional must be false. Returns 0,
 * and samples_head_close must follow; or what samples_read does. */
int samples_read_head(const struct samples_file *file, struct samples_head *head, struct error *error);
void samples_head_close(struct samples_head *head);
/* Passes the samples of a run to `sink`, in any thread. Returns 0; AML_EINPUT or what the sink returned, with *at the
 * line and no place in *error; AML_ENOMEM. */
int samples_read_run(const struct samples_file *file, const struct samples_head *head, const struct samples_run *run,
                     samples_sink *sink, void *context, const char **at, struct error *error);

/* ---- Surveys ---- */

/* Where runs of lines are, for those that read them: a chunk is a run that the library's reader passes on as one. */
struct samples_places {
    struct samples_chunk {
        uint32_t file, split; /* the split as aml_lines has it */
        uint64_t offset;      /* of its text in that of the split's lines */
        uint64_t place;       /* in the files, of its first line */
        uint64_t number;      /* samples before it, in all files */
    } * chunks;               /* [count], ascending */
    size_t count, capacity;
    uint64_t end; /* behind the last line of all files */
};
/* NULL: no chunk begins there. */
const struct samples_chunk *samples_find_chunk(const struct samples_places *places, uint32_t file, uint32_t split,
                                               uint64_t offset);

/* The shape and labels of a set of samples. */
struct samples_survey {
    enum samples_format format; /* never SAMPLES_AUTO */
    uint64_t samples;           /* criteo: an estimate */
    uint64_t left_out;          /* lines whose label is missing, with SAMPLES_MISSING_SKIP */
    uint64_t values;            /* written in the file; of idx, all */
    uint32_t features;          /* the largest feature of a sample + 1, at least 1; or how many are numbered */
    uint32_t index_base;        /* libsvm: 0 when index 0 occurs, else 1 */
    bool indexes_alone;         /* libsvm: lines have indexes without values, which are 1 */
    bool dense;                 /* every sample has all features */
    struct mlr_labels labels;
    struct columns columns;       /* text, csv: the columns of the first file */
    struct numbering numbering;   /* libsvm: of features, if it is used */
    uint32_t *numbers;            /* the features' numbers by those that the sink got; NULL: it is not used */
    float *maxima;                /* [features] largest absolute value of each, when `with_maxima`; else NULL */
    struct samples_places places; /* libsvm, text and csv; tar: a chunk for each file; else none */
    uint64_t text;                /* the sum of hashes of all chunks; tar: a hash of the images' names and sizes */
};

/* What a survey is to find out beside shape and labels. */
struct samples_wanted {
    bool base;     /* whether index 0 occurs; file->index_base is ignored */
    bool numbered; /* libsvm: features are numbered, where their indexes are far apart; else such are refused */
    bool maxima;   /* of each feature */
    bool values;   /* all values are read, though nothing here needs them */
    /* Gets each sample, with its place; features count from 0 with `base`, and are those of numbering_add with
     * `numbered`. NULL: none */
    samples_sink *sink;
    void *context; /* the sink's */
};

/* Reads the files once, or twice when features are numbered; file->numbering is ignored. Without maxima and a sink, of
 * idx only the header and the labels; of lines what a survey needs, which is much quicker than samples_read: whoever
 * reads the samples finds what is wrong with their values. After success samples_survey_close must follow. */
int samples_survey(const struct samples_file *file, const struct samples_wanted *wanted, struct samples_survey *survey,
                   struct error *error);
/* Sets *criteo to whether the file has format SAMPLES_CRITEO, or SAMPLES_AUTO and a first line that looks like it. */
int samples_are_criteo(const struct samples_file *file, bool *criteo, struct error *error);
/* Makes the survey of a file of Criteo lines without reading it: the slots of its hash as features, the labels 0 and 1,
 * and an estimate of the number of samples by the file's beginning, the same in every process. */
int samples_survey_criteo(const struct samples_file *file, struct samples_survey *survey, struct error *error);
void samples_survey_close(struct samples_survey *survey);

#endif
