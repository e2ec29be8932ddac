/* lda_documents: writes made-up documents in lda-c's format to standard output. */
#include "bench/lda/documents.h"
#include "bench/measure.h"

int main(int argc, char **argv) {
    int64_t documents = 1000;
    int64_t words = 20000;
    int64_t length = 200;
    const struct aml_option options[] = {
        {"documents", "N", AML_OPTION_INTEGER, &documents, 1, 1e9, "how many to write"},
        {"words", "N", AML_OPTION_INTEGER, &words, 1, 1e7, "of the vocabulary"},
        {"length", "N", AML_OPTION_INTEGER, &length, 1, 1e6, "tokens of a document"},
        {NULL, NULL, AML_OPTION_FLAG, NULL, 0, 0, NULL},
    };
    int status = measure_options(options, "lda_documents: made-up documents onto standard output", argc, argv);
    if (status >= 0) {
        return status;
    }
    documents_write(stdout, (uint32_t)documents, (uint32_t)words, (uint32_t)length);
    return measure_written("lda_documents");
}
