/* lda: topic models by latent Dirichlet allocation, with collapsed Gibbs sampling on AgileML. This file has the
 * command line and the reading of documents. The training is in train.c, the arithmetic in sampler.c, readers in
 * corpus.c, the end of a job in finish.c, `lda --infer` in infer.c. */
#include "agileml.h"
#include "agileml/base/hash.h"
#include "apps/app.h"
#include "apps/lda/finish.h"
#include "apps/lda/infer.h"
#include "apps/lda/prior.h"
#include "apps/lda/train.h"
#include "apps/tool.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

/* Numbers of --test documents begin here. */
static const uint64_t TEST_NUMBERS = UINT64_C(1) << 40;

enum { INPUT_FILES = 4 };
static const double WORDS_PER_TOKEN = 0.9; /* at this ratio nearly every word occurs once */

static void input_files(const struct lda *lda, struct app_file files[INPUT_FILES]) {
    files[0] = (struct app_file){.option = "data", .values = &lda->data};
    files[1] = (struct app_file){.option = "test", .values = &lda->test};
    files[2] = (struct app_file){.option = "vocabulary", .path = lda->vocabulary};
    files[3] = (struct app_file){.option = "stop-words", .path = lda->stop_words};
}

/* Reports what was read, as a note of the job. */
static void say(void *context, const char *text) {
    aml_note(context, "%s", text);
}

/* Returns the settings for reading, which are the same for all files. */
static struct lda_corpus corpus_of(const struct lda *lda, aml_worker *worker) {
    return (struct lda_corpus){.format = lda->format,
                               .minimum_length = (unsigned)lda->minimum_length,
                               .columns = lda->columns,
                               .name_space = lda->name_space,
                               .note = worker != NULL ? say : NULL,
                               .note_context = worker};
}

/* Surveys the files of an option, unless a value is a folder of texts. */
static int survey_option(const char *option, const struct aml_strings *values, const struct lda_corpus *corpus,
                         uint32_t first, struct input_list *list, struct lda_survey *survey, struct error *error) {
    for (unsigned v = 0; v < values->count; v++) {
        struct stat status;
        if (stat(values->values[v], &status) == 0 && S_ISDIR(status.st_mode)) {
            survey->format = LDA_FORMAT_TEXT;
            return 0;
        }
    }
    int result = app_list_files(option, values, true, list, error);
    if (result == 0 && first + list->count > AML_READ_FILES_MAX) {
        result = error_set(error, AML_EINPUT, "--data, --test: %zu files, expected at most %d", first + list->count,
                           AML_READ_FILES_MAX);
    }
    return result == 0 && list->count > 0 ? lda_survey(list, corpus, first, survey, error) : result;
}

static void survey_close(struct lda *lda) {
    lda_survey_close(&lda->data_survey);
    lda_survey_close(&lda->test_survey);
    input_list_close(&lda->data_files);
    input_list_close(&lda->test_files);
}

/* Numbers the documents of files that the processes divide. */
static int survey_data(aml_worker *worker, struct lda *lda) {
    struct error error = {0};
    const struct lda_corpus corpus = corpus_of(lda, worker);
    survey_close(lda);
    int result = survey_option("data", &lda->data, &corpus, 0, &lda->data_files, &lda->data_survey, &error);
    uint32_t first = (uint32_t)lda->data_survey.file_count;
    result = result == 0
                 ? survey_option("test", &lda->test, &corpus, first, &lda->test_files, &lda->test_survey, &error)
                 : result;
    if (lda->data_survey.parts || lda->test_survey.parts) {
        aml_input_mark(worker, "lines", hash_pair(lda->data_survey.text, lda->test_survey.text));
    }
    return app_result(worker, result, &error);
}

static int lda_configure(aml_worker *worker, struct aml_app *app) {
    struct lda *lda = app->context;
    struct error error = {0};
    struct app_file files[INPUT_FILES];
    lda_tables(app->tables, (uint32_t)lda->topics);
    /* lda_begin requires more clocks than the staleness (see train.h). */
    app->clocks_per_iteration = 1 + (int64_t)aml_staleness(worker);
    lda->alpha = lda->given_alpha > 0 ? lda->given_alpha : 5.0 / (double)lda->topics;
    lda->optimize_alpha = lda->optimize_given || lda->given_alpha <= 0;
    int result = app_check_data(worker, "documents", lda->data.values[0], lda->test.values[0], lda->test_fraction);
    if (result != 0) {
        return result;
    }
    int format = app_choice("format", lda->format_name, lda_formats, &error);
    result = format < 0 ? format : lda_columns_check(lda->columns, &error);
    if (result != 0) {
        return app_result(worker, result, &error);
    }
    lda->format = (enum lda_format)format;
    input_files(lda, files);
    result = app_check_files(worker, files, INPUT_FILES, lda->model_out);
    return result != 0 ? result : survey_data(worker, lda);
}

/* ---- Reading ---- */

struct reading {
    aml_worker *worker;
    const struct lda *lda;
    const struct lda_vocabulary *names; /* the words so far */
    bool test;                          /* the documents come from --test */
};

static int read_document(void *context, const struct lda_bag *bag) {
    struct reading *reading = context;
    const struct lda *lda = reading->lda;
    struct lda_bag document = *bag;
    uint64_t hash = aml_mix(aml_seed(reading->worker), document.number);
    enum aml_item_use use = reading->test || app_held_out(hash, lda->test_fraction) ? AML_TEST : AML_TRAIN;
    document.number += reading->test ? TEST_NUMBERS : 0;
    int kept = lda_emit(reading->worker, use, &document);
    if (kept == 1) {
        aml_total_raise(reading->worker, MAXIMUM_WORDS, bag->words[bag->count - 1] + 1.0);
        aml_total_raise(reading->worker, MAXIMUM_WORDS, reading->names->count);
    }
    if (kept == 1) {
        if (use == AML_TRAIN) {
            aml_total_add(reading->worker, TOTAL_TOKENS, bag->tokens);
        }
        aml_total_add(reading->worker, use == AML_TRAIN ? TOTAL_DOCUMENTS : TOTAL_TEST_DOCUMENTS, 1);
    }
    return kept < 0 ? kept : 0;
}

/* A file that is divided among the processes. */
struct part_file {
    const struct reading *reading;
    const struct lda_survey *survey;
    struct lda_corpus corpus;
    struct lda_head head;
};

/* Emits the documents of some of the file's lines. Runs in any thread. */
static int read_part(aml_worker *worker, const struct aml_lines *lines, void *context) {
    const struct part_file *file = context;
    struct reading reading = *file->reading;
    struct error error = {0};
    const char *at = NULL;
    uint64_t begin = lines->split == 0 && file->head.begin > lines->offset ? file->head.begin - lines->offset : 0;
    const struct lda_chunk *chunk = lda_survey_find(file->survey, lines->file, lines->split, lines->offset);
    if (chunk == NULL) {
        return aml_error(worker, AML_EINPUT, "%s: the file has changed since this process began", file->corpus.path);
    }
    const struct lda_run run = {.text = lines->text,
                                .size = lines->size,
                                .skip = begin < lines->size ? (size_t)begin : lines->size,
                                .number = chunk->line};
    reading.worker = worker;
    int result = lda_read_run(&file->corpus, &file->head, &run, read_document, &reading, &at, &error);
    if (result != 0 && error.code != 0 && at != NULL) {
        return aml_error(worker, result, "%s:%llu: %s", file->corpus.path,
                         (unsigned long long)aml_line_number(worker, lines, at), error.text);
    }
    return app_result(worker, result, &error);
}

/* Reads this process's parts of the files. */
static int read_parts(const struct reading *reading, const struct lda_corpus *corpus, const struct lda_survey *survey,
                      struct error *error) {
    int result = 0;
    for (size_t f = 0; f < survey->file_count && result == 0; f++) {
        struct part_file file = {.reading = reading, .survey = survey, .corpus = *corpus};
        file.corpus.path = survey->files[f].path;
        file.corpus.format = survey->files[f].head.format;
        file.corpus.first_number = survey->files[f].first_number;
        result = lda_read_head(&file.corpus, &file.head, error); /* read again, as the vocabulary is known now */
        if (result == 0 && file.head.format != LDA_FORMAT_LDA_C) {
            result = aml_read_groups(reading->worker, file.corpus.path, lda_head_group(&file.head), read_part, &file);
        } else if (result == 0) {
            result = aml_read_lines(reading->worker, file.corpus.path, read_part, &file);
        }
    }
    return result;
}

/* Reads the files of an option. Without a worker only the words' names are needed; divided files have none and are
 * skipped. */
static int read_option(const struct lda_corpus *corpus, const struct aml_strings *values,
                       const struct lda_survey *survey, int (*each)(void *context, const struct lda_bag *bag),
                       struct reading *reading, struct error *error) {
    if (!survey->parts) {
        return lda_corpora_read(corpus, values, each, reading, error);
    }
    return reading->worker != NULL ? read_parts(reading, corpus, survey, error) : 0;
}

/* Reads the input: calls `each` for training documents, then, with reading->test set, for test documents. */
static int read_input(const struct lda *lda, struct lda_vocabulary *names,
                      int (*each)(void *context, const struct lda_bag *bag), struct reading *reading,
                      struct error *error) {
    struct lda_vocabulary stop_words = {0};
    int result = lda->vocabulary != NULL ? lda_vocabulary_read(names, lda->vocabulary, error) : 0;
    struct lda_corpus corpus = corpus_of(lda, reading->worker);
    corpus.vocabulary = names;
    corpus.closed = lda->vocabulary != NULL;
    corpus.stop_words = &stop_words;
    result = result != 0 ? result : lda_stop_words_read(&stop_words, lda->stop_words, lda->english, error);
    result = result != 0 ? result : read_option(&corpus, &lda->data, &lda->data_survey, each, reading, error);
    if (result == 0 && lda->test.count > 0) {
        corpus.closed = true;
        reading->test = true;
        result = read_option(&corpus, &lda->test, &lda->test_survey, each, reading, error);
    }
    lda_vocabulary_close(&stop_words);
    return result;
}

static int lda_read(aml_worker *worker, void *context) {
    struct lda *lda = context;
    struct lda_vocabulary names = {0};
    struct reading reading = {.worker = worker, .lda = lda, .names = &names};
    struct error error = {0};
    struct app_file files[INPUT_FILES];
    input_files(lda, files);
    files[0].values = lda->data_survey.parts ? NULL : files[0].values; /* the library reports the divided files */
    files[1].values = lda->test_survey.parts ? NULL : files[1].values;
    app_name_files(worker, files, INPUT_FILES);
    int result = read_input(lda, &names, read_document, &reading, &error);
    if (result == 0 && !lda->names_ready) {
        lda->names = names;
        lda->names_ready = true;
        return 0;
    }
    lda_vocabulary_close(&names); /* `finish` may be using the names of the first call */
    return app_result(worker, result, &error);
}

/* ---- The beginning ---- */

/* Notes what all processes have read, and anything unusual in it. */
static void describe_input(aml_worker *worker, const struct lda *lda) {
    double tokens = aml_total(worker, TOTAL_TOKENS);
    double documents = aml_total(worker, TOTAL_DOCUMENTS);
    double tests = aml_total(worker, TOTAL_TEST_DOCUMENTS);
    double words = aml_total_maximum(worker, MAXIMUM_WORDS);
    char test[64] = "";
    if (tests > 0) {
        snprintf(test, sizeof test, ", and %.0f documents to test on", tests);
    }
    aml_note(worker, "read %.0f documents with %.0f tokens of %.0f words (%s)%s", documents, tokens, words,
             lda_formats[lda->data_survey.format], test);
    if (documents > 1 && tokens == documents) {
        aml_note(worker, "every document has only one word: topics need documents of several words");
    } else if (documents > 1 && words > WORDS_PER_TOKEN * tokens) {
        aml_note(worker, "nearly every word occurs only once: topics need words that documents share");
    }
    if ((double)lda->topics > documents) {
        aml_note(worker, "%lld topics are more than the documents: fewer (--topics) show more", (long long)lda->topics);
    }
}

static int begin(aml_worker *worker, void *context) {
    describe_input(worker, context);
    return lda_begin(worker, context);
}

/* ---- The end ---- */

static int pass_over(void *context, const struct lda_bag *bag) {
    (void)context;
    (void)bag;
    return 0;
}

/* Reads the words' names, if this process has not read the data. */
static int find_names(aml_worker *worker, struct lda *lda) {
    struct reading reading = {.lda = lda};
    struct error error = {0};
    if (lda->names_ready) {
        return 0;
    }
    int result = read_input(lda, &lda->names, pass_over, &reading, &error);
    if (result != 0) {
        lda_vocabulary_close(&lda->names);
        return app_result(worker, result, &error);
    }
    lda->names_ready = true;
    return 0;
}

struct alpha_rows {
    struct lda_spread *rows; /* indexed by iteration - LDA_SPREAD_FROM - 1 */
    uint64_t count;
};

static int alpha_row(void *context, const uint64_t *keys, const void *rows, size_t count) {
    struct alpha_rows *alpha = context;
    for (size_t i = 0; i < count; i++) {
        uint64_t at = keys[i] - LDA_SPREAD_FROM - 1;
        if (at < alpha->count) {
            memcpy(&alpha->rows[at], (const struct lda_spread *)rows + i, sizeof *alpha->rows);
        }
    }
    return 0;
}

/* Computes alpha after the job's last iteration. */
static int final_alpha(aml_worker *worker, const struct lda *lda, double *alpha) {
    uint64_t iterations = aml_clock(worker) / aml_clocks_per_iteration(worker);
    *alpha = lda->alpha;
    if (!lda->optimize_alpha || iterations <= LDA_SPREAD_FROM) {
        return 0;
    }
    struct alpha_rows rows = {.count = iterations - LDA_SPREAD_FROM};
    rows.rows = calloc(rows.count, sizeof *rows.rows);
    if (rows.rows == NULL) {
        return aml_error(worker, AML_ENOMEM, "no memory for %llu iterations", (unsigned long long)iterations);
    }
    int result = aml_scan(worker, SPREAD, alpha_row, &rows);
    for (uint64_t i = 0; i < rows.count; i++) {
        *alpha = lda_alpha_next(*alpha, (uint32_t)lda->topics, &rows.rows[i]);
    }
    free(rows.rows);
    return result;
}

static int lda_end(aml_worker *worker, void *context) {
    struct lda *lda = context;
    struct lda_finish finish = {.words_table = WORDS,
                                .topics_table = TOPICS,
                                .topics = (uint32_t)lda->topics,
                                .vocabulary = (uint32_t)aml_total_maximum(worker, MAXIMUM_WORDS),
                                .tokens = aml_total(worker, TOTAL_TOKENS),
                                .beta = lda->beta,
                                .top_words = (uint32_t)lda->top_words,
                                .model_out = lda->model_out,
                                .names = &lda->names};
    int result = final_alpha(worker, lda, &finish.alpha);
    if (result == 0 && (finish.top_words > 0 || finish.model_out != NULL)) {
        result = find_names(worker, lda);
    }
    if (aml_metric_value(worker, METRIC_PERPLEXITY) >= aml_metric_value(worker, METRIC_UNIGRAM)) {
        aml_note(worker, "the topics predict the test documents no better than the words' frequencies alone: more "
                         "documents, fewer --topics or other words may help");
    }
    return result == 0 ? lda_finish(worker, &finish) : result;
}

/* ---- The command line ---- */

static int run_job(struct lda *lda, const struct aml_option *options, int argc, char **argv) {
    struct aml_table tables[TABLES]; /* `configure` sets the widths */
    const struct aml_metric metrics[METRICS] = {
        [METRIC_LIKELIHOOD] = {.name = "log_likelihood_per_token", .kind = AML_MEAN, .evaluated = 1},
        [METRIC_PERPLEXITY] = {.name = "perplexity", .kind = AML_EXP_MEAN, .evaluated = 1},
        [METRIC_SPEED] = {.name = "tokens_per_second", .kind = AML_MEAN},
        [METRIC_ALPHA] = {.name = "alpha", .kind = AML_MEAN},
        [METRIC_UNIGRAM] = {.name = "unigram_perplexity", .kind = AML_EXP_MEAN, .evaluated = 1},
    };
    static const char *const steering[] = {"likelihood-every", "top-words", NULL};
    struct aml_app app = {
        .name = "lda",
        .summary = "topic models of documents; also: lda --infer MODEL --data FILE",
        .options = options,
        .steering = steering,
        .tables = tables,
        .table_count = TABLES,
        .metrics = metrics,
        .metric_count = METRICS,
        .item_varied = 1,
        .clock_alone = 1,
        .evaluate_always = 1,
        .iterations = 100,
        .configure = lda_configure,
        .read_only_emits = 1,
        .read = lda_read,
        .begin = begin,
        .clock = lda_clock,
        .evaluate = lda_evaluate,
        .finish = lda_end,
        .context = lda,
    };
    lda_tables(tables, (uint32_t)lda->topics);
    int status = aml_main(&app, argc, argv);
    lda_train_close(lda);
    survey_close(lda);
    lda_vocabulary_close(&lda->names);
    return status;
}

int main(int argc, char **argv) {
    struct lda lda = {.topics = 100,
                      .proposals = LDA_PROPOSALS,
                      .beta = 0.05,
                      .minimum_length = 3,
                      .likelihood_every = 5,
                      .format_name = "auto"};
    const char *infer = NULL; /* only for --help: infer.c parses `lda --infer` */
    const struct aml_option options[] = {
        {"data", "FILES", AML_OPTION_STRINGS, &lda.data, 0, 0,
         "documents: counts of words, lines of text, tables, or a folder of texts; files or patterns (docs/lda.md)"},
        {"format", "NAME", AML_OPTION_STRING, &lda.format_name, 0, 0, LDA_FORMAT_HELP},
        {"columns", "COLUMNS", AML_OPTION_WORD, &lda.columns, 0, 0, LDA_COLUMNS_HELP},
        {"namespace", "NAME", AML_OPTION_WORD, &lda.name_space, 0, 0, LDA_NAMESPACE_HELP},
        {"vocabulary", "FILE", AML_OPTION_STRING, &lda.vocabulary, 0, 0,
         "a word a line: the names of numbered words; of other formats, the only words that count"},
        {"stop-words", "FILE", AML_OPTION_STRING, &lda.stop_words, 0, 0, LDA_STOP_WORDS_HELP},
        {"english-stop-words", NULL, AML_OPTION_FLAG, &lda.english, 0, 0, LDA_ENGLISH_HELP},
        {"minimum-length", "N", AML_OPTION_INTEGER, &lda.minimum_length, 1, 100, LDA_MINIMUM_HELP},
        {"test", "FILES", AML_OPTION_STRINGS, &lda.test, 0, 0, "documents to test on"},
        {"test-fraction", "X", AML_OPTION_REAL, &lda.test_fraction, 0, 0.9,
         "hold out this part of the data to test on"},
        {"topics", "K", AML_OPTION_INTEGER, &lda.topics, 1, LDA_TOPICS_MAX, "number of topics"},
        {"alpha", "X", AML_OPTION_REAL, &lda.given_alpha, 0, LDA_ALPHA_MAX,
         "prior of topics in documents; 0: begins with 5 / K, and is adapted"},
        {"beta", "X", AML_OPTION_REAL, &lda.beta, 1e-6, 1e3, "prior of words in topics"},
        {"optimize-alpha", NULL, AML_OPTION_FLAG, &lda.optimize_given, 0, 0,
         "adapt a given --alpha too, from iteration 11 on"},
        {"proposals", "N", AML_OPTION_INTEGER, &lda.proposals, 1, LDA_PROPOSALS_MAX,
         "of each kind a token; more mix faster, fewer run faster"},
        {"likelihood-every", "N", AML_OPTION_INTEGER, &lda.likelihood_every, 1, 1e9,
         "iterations between measurements of the likelihood"},
        {"top-words", "N", AML_OPTION_INTEGER, &lda.top_words, 0, 1000,
         "print each topic's most frequent words at the end"},
        {"model-out", "FILE", AML_OPTION_STRING, &lda.model_out, 0, 0, "write the model there (docs/lda.md)"},
        {"infer", "MODEL", AML_OPTION_STRING, &infer, 0, 0, "no job: find topics by a model; see lda --infer --help"},
        {NULL, NULL, AML_OPTION_FLAG, NULL, 0, 0, NULL},
    };
    return tool_is_asked("infer", argc, argv) ? lda_infer_main(argc, argv) : run_job(&lda, options, argc, argv);
}
