/* See infer.h. */
#include "apps/lda/infer.h"

#include "agileml/base/memory.h"
#include "agileml/base/text_fields.h"
#include "apps/app.h"
#include "apps/lda/corpus.h"
#include "apps/lda/likelihood.h"
#include "apps/lda/model.h"
#include "apps/tool.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

struct share {
    float value;
    uint32_t topic;
};

struct inference {
    struct lda_model model;
    double minimum; /* smallest share of a topic that is printed */
    struct tool_output out;
    float *phi; /* [words of the document][K] */
    size_t phi_capacity;
    float *theta, *scratch; /* [K] */
    struct share *shares;   /* [K] */
    struct lda_completion completion;
    struct error *error;
};

static int share_order(const void *a, const void *b) {
    const struct share *left = a;
    const struct share *right = b;
    return left->value > right->value ? -1 : left->value < right->value ? 1 : (int)left->topic - (int)right->topic;
}

/* Prints the document's id, or its number, and a tab. Tabs and line ends in an id become blanks. */
static bool print_id(FILE *file, const struct lda_bag *bag) {
    bool failed = false;
    if (bag->id == NULL) {
        failed = fprintf(file, "%" PRIu64, bag->number + 1) < 0;
    }
    for (size_t i = 0; bag->id != NULL && i < bag->id_length && !failed; i++) {
        char c = bag->id[i];
        failed = fputc(text_is_line_end(c) || c == '\t' ? ' ' : c, file) < 0;
    }
    return !failed && fputc('\t', file) >= 0;
}

static int print_document(struct inference *inference, const struct lda_bag *bag) {
    uint32_t topics = inference->model.header.topics;
    uint32_t count = 0;
    for (uint32_t k = 0; k < topics; k++) {
        if ((double)inference->theta[k] >= inference->minimum) {
            inference->shares[count++] = (struct share){inference->theta[k], k};
        }
    }
    qsort(inference->shares, count, sizeof *inference->shares, share_order);
    bool failed = !print_id(inference->out.file, bag);
    for (uint32_t i = 0; i < count && !failed; i++) {
        failed = fprintf(inference->out.file, "%s%u:%.4f", i > 0 ? " " : "", inference->shares[i].topic,
                         (double)inference->shares[i].value) < 0;
    }
    if (failed || fputc('\n', inference->out.file) < 0) {
        return tool_output_failed(&inference->out, inference->error);
    }
    return 0;
}

/* Prints a document whose words are all unknown to the model. */
static int print_unknown(struct inference *inference, const struct lda_bag *bag) {
    bool printed = print_id(inference->out.file, bag) && fputs("unknown\n", inference->out.file) >= 0;
    return printed ? 0 : tool_output_failed(&inference->out, inference->error);
}

static int infer_document(void *context, const struct lda_bag *bag) {
    struct inference *inference = context;
    if (bag->count == 0) {
        return print_unknown(inference, bag);
    }
    const struct lda_model_header *header = &inference->model.header;
    size_t size = (size_t)bag->count * header->topics;
    if (size > inference->phi_capacity) {
        inference->phi_capacity = 2 * size;
        inference->phi = memory_resized(inference->phi, inference->phi_capacity, sizeof *inference->phi);
    }
    for (uint32_t w = 0; w < bag->count; w++) {
        if (bag->words[w] >= header->vocabulary) {
            return error_set(inference->error, AML_EINPUT,
                             "document %" PRIu64
                             " has word number %u: expected a number below %u, as the model has %u words",
                             bag->number + 1, bag->words[w], header->vocabulary, header->vocabulary);
        }
        lda_model_phi(&inference->model, bag->words[w], inference->phi + (size_t)w * header->topics);
    }
    lda_complete(&inference->completion, inference->phi, bag->counts, bag->count, header->topics, header->alpha, NULL,
                 inference->theta, inference->scratch);
    lda_fold_in(inference->phi, bag->counts, bag->count, header->topics, header->alpha, inference->theta,
                inference->scratch);
    return print_document(inference, bag);
}

struct infer_options {
    struct aml_strings data;
    const char *model, *out, *format, *columns, *name_space, *stop_words;
    int64_t minimum_length;
    double minimum;
    bool english;
};

static void say(void *context, const char *text) {
    (void)context;
    fprintf(stderr, "lda: %s\n", text);
}

static int infer_data(struct inference *inference, const struct infer_options *options,
                      const struct lda_vocabulary *stop_words, struct error *error) {
    int format = app_choice("format", options->format, lda_formats, error);
    int result = format < 0 ? format : lda_columns_check(options->columns, error);
    if (result != 0) {
        return result;
    }
    uint32_t topics = inference->model.header.topics;
    bool named = inference->model.names.count > 0;
    struct lda_corpus corpus = {.format = (enum lda_format)format,
                                .vocabulary = named ? &inference->model.names : NULL,
                                .closed = true,
                                .stop_words = stop_words,
                                .minimum_length = (unsigned)options->minimum_length,
                                .empty = true,
                                .columns = options->columns,
                                .name_space = options->name_space,
                                .note = say};
    inference->theta = memory_zeroed(topics, sizeof *inference->theta);
    inference->scratch = memory_zeroed(topics, sizeof *inference->scratch);
    inference->shares = memory_zeroed(topics, sizeof *inference->shares);
    result = lda_corpora_read(&corpus, &options->data, infer_document, inference, error);
    free(inference->phi);
    free(inference->theta);
    free(inference->scratch);
    free(inference->shares);
    return result;
}

static int infer(void *context, struct error *error) {
    const struct infer_options *options = context;
    struct inference inference = {.minimum = options->minimum, .out = {.path = options->out}, .error = error};
    struct lda_vocabulary stop_words = {0};
    if (options->data.count == 0) {
        return error_set(error, AML_EINPUT, "--data FILE is missing: expected documents whose topics to find");
    }
    int result = lda_model_load(options->model, &inference.model, error);
    if (result != 0) {
        return result;
    }
    result = lda_stop_words_read(&stop_words, options->stop_words, options->english, error);
    result = result != 0 ? result : tool_output_open(&inference.out, error);
    if (result == 0) {
        result = infer_data(&inference, options, &stop_words, error);
        result = tool_output_close(&inference.out, result, error);
    }
    if (result == 0 && options->out != NULL && inference.completion.hidden > 0) {
        printf("perplexity %.6g\n", exp(-inference.completion.score / inference.completion.hidden));
    }
    lda_vocabulary_close(&stop_words);
    lda_model_close(&inference.model);
    return result;
}

int lda_infer_main(int argc, char **argv) {
    struct infer_options o = {.format = "auto", .minimum_length = 3, .minimum = 0.01};
    const struct aml_option options[] = {
        {"infer", "MODEL", AML_OPTION_STRING, &o.model, 0, 0, "a model that --model-out wrote"},
        {"data", "FILES", AML_OPTION_STRINGS, &o.data, 0, 0, "documents, in any format of training"},
        {"format", "NAME", AML_OPTION_STRING, &o.format, 0, 0, LDA_FORMAT_HELP},
        {"columns", "COLUMNS", AML_OPTION_STRING, &o.columns, 0, 0, LDA_COLUMNS_HELP},
        {"namespace", "NAME", AML_OPTION_STRING, &o.name_space, 0, 0, LDA_NAMESPACE_HELP},
        {"stop-words", "FILE", AML_OPTION_STRING, &o.stop_words, 0, 0, LDA_STOP_WORDS_HELP},
        {"english-stop-words", NULL, AML_OPTION_FLAG, &o.english, 0, 0, LDA_ENGLISH_HELP},
        {"minimum-length", "N", AML_OPTION_INTEGER, &o.minimum_length, 1, 100, LDA_MINIMUM_HELP},
        {"minimum", "X", AML_OPTION_REAL, &o.minimum, 0, 1, "print topics of at least this share of a document"},
        {"out", "FILE", AML_OPTION_STRING, &o.out, 0, 0,
         "write the topics there, and print the perplexity of one half of each document given the other"},
        {NULL, NULL, AML_OPTION_FLAG, NULL, 0, 0, NULL},
    };
    const struct tool tool = {.app = "lda",
                              .option = "infer",
                              .usage = "usage: lda --infer MODEL --data FILE [--out FILE]\n\n"
                                       "Prints a line for each document: its id or number, then its topics and their\n"
                                       "shares, the largest first; 'unknown' if the model has none of its words.",
                              .options = options,
                              .run = infer,
                              .context = &o};
    return tool_main(&tool, argc, argv);
}
