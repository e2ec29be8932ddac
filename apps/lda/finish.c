/* See finish.h. */
#include "apps/lda/finish.h"

#include "apps/app.h"
#include "apps/lda/model.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct top {
    int32_t count;
    uint32_t word;
};

struct scan {
    aml_worker *worker;
    const struct lda_finish *finish;
    struct lda_model_writer *writer; /* NULL: none */
    int64_t *sums;                   /* [K]: each topic's tokens, summed over the words so far */
    struct top *tops;                /* [K][top_words], descending by count */
};

/* Inserts the word among the topic's top words, if it belongs there. */
static void top_add(struct top *tops, uint32_t top_words, struct top word) {
    uint32_t place = top_words;
    while (place > 0 && (tops[place - 1].count < word.count ||
                         (tops[place - 1].count == word.count && tops[place - 1].word > word.word))) {
        if (place < top_words) {
            tops[place] = tops[place - 1];
        }
        place--;
    }
    if (place < top_words) {
        tops[place] = word;
    }
}

static int scan_word(struct scan *scan, uint64_t word, const int32_t *row) {
    const struct lda_finish *finish = scan->finish;
    int64_t sum = 0;
    if (word >= finish->vocabulary) {
        return aml_error(scan->worker, AML_EFAIL, "the counts are wrong: word %" PRIu64 " of %u", word,
                         finish->vocabulary);
    }
    for (uint32_t k = 0; k < finish->topics; k++) {
        if (row[k] < 0) {
            return aml_error(scan->worker, AML_EFAIL, "the counts are wrong: word %" PRIu64 " has topic %u %d times",
                             word, k, row[k]);
        }
        sum += row[k];
        scan->sums[k] += row[k];
        if (row[k] > 0 && finish->top_words > 0) {
            top_add(scan->tops + (size_t)k * finish->top_words, finish->top_words,
                    (struct top){row[k], (uint32_t)word});
        }
    }
    if (sum != row[finish->topics]) {
        return aml_error(scan->worker, AML_EFAIL,
                         "the counts are wrong: word %" PRIu64 " has %d tokens, its topics sum up to %" PRId64, word,
                         row[finish->topics], sum);
    }
    return 0;
}

static int scan_words(void *context, const uint64_t *keys, const void *rows, size_t count) {
    struct scan *scan = context;
    for (size_t i = 0; i < count; i++) {
        const int32_t *row = (const int32_t *)rows + i * (scan->finish->topics + 1U);
        struct error error = {0};
        int result = scan_word(scan, keys[i], row);
        if (result == 0 && scan->writer != NULL) {
            result =
                app_result(scan->worker, lda_model_writer_row(scan->writer, (uint32_t)keys[i], row, &error), &error);
        }
        if (result != 0) {
            return result;
        }
    }
    return 0;
}

static int scan_topics(void *context, const uint64_t *keys, const void *rows, size_t count) {
    const struct scan *scan = context;
    const struct lda_finish *finish = scan->finish;
    const int64_t *totals = rows;
    int64_t sum = 0;
    (void)keys;
    (void)count; /* the table has one row */
    for (uint32_t k = 0; k < finish->topics; k++) {
        if (totals[k] != scan->sums[k]) {
            return aml_error(scan->worker, AML_EFAIL,
                             "the counts are wrong: topic %u has %" PRId64 " tokens, over the words %" PRId64, k,
                             totals[k], scan->sums[k]);
        }
        sum += totals[k];
    }
    if ((double)sum != finish->tokens) {
        return aml_error(scan->worker, AML_EFAIL,
                         "the counts are wrong: %" PRId64 " tokens have a topic, the data has %.0f", sum,
                         finish->tokens);
    }
    return 0;
}

static void print_topics(const struct scan *scan) {
    const struct lda_finish *finish = scan->finish;
    for (uint32_t k = 0; k < finish->topics; k++) {
        printf("topic %u (%.2f %%):", k, 100 * (double)scan->sums[k] / finish->tokens);
        for (uint32_t i = 0; i < finish->top_words; i++) {
            const struct top *top = &scan->tops[(size_t)k * finish->top_words + i];
            const char *name = lda_vocabulary_word(finish->names, top->word);
            if (top->count > 0 && name != NULL) {
                printf(" %s", name);
            } else if (top->count > 0) {
                printf(" %u", top->word);
            }
        }
        printf("\n");
    }
    fflush(stdout);
}

static int finish_scan(struct scan *scan) {
    const struct lda_finish *finish = scan->finish;
    struct error error = {0};
    if (finish->model_out != NULL) {
        const struct lda_model_header header = {finish->topics, finish->vocabulary, finish->alpha, finish->beta};
        int result = lda_model_writer_open(&scan->writer, finish->model_out, &header, &error);
        if (result != 0) {
            return app_result(scan->worker, result, &error);
        }
    }
    int result = aml_scan(scan->worker, finish->words_table, scan_words, scan);
    result = result != 0 ? result : aml_scan(scan->worker, finish->topics_table, scan_topics, scan);
    if (scan->writer != NULL) {
        result = lda_model_writer_close(scan->writer, result, finish->names, &error);
    }
    return app_result(scan->worker, result, &error);
}

int lda_finish(aml_worker *worker, const struct lda_finish *finish) {
    struct scan scan = {.worker = worker, .finish = finish};
    size_t tops = (size_t)finish->topics * finish->top_words;
    scan.sums = calloc(finish->topics, sizeof *scan.sums);
    scan.tops = calloc(tops + 1, sizeof *scan.tops);
    int result =
        scan.sums == NULL || scan.tops == NULL
            ? aml_error(worker, AML_ENOMEM, "no memory for %u words of %u topics", finish->top_words, finish->topics)
            : finish_scan(&scan);
    if (result == 0 && finish->top_words > 0) {
        print_topics(&scan);
    }
    free(scan.sums);
    free(scan.tops);
    return result;
}
