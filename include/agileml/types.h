/* The types that apps and every layer of AgileML share: error codes, element types, aggregation modes, options. Apps
 * get them through agileml.h. Plain C99 and C++; no function fails. */
#ifndef AGILEML_TYPES_H
#define AGILEML_TYPES_H

#include <stddef.h>
#include <stdint.h>

/* Functions that can fail return 0 or one of these. */
enum aml_error_code {
    AML_OK = 0,
    AML_EINPUT = -1,    /* bad usage or bad input, such as a file or an option; exit status 2 */
    AML_EFAIL = -2,     /* the job has failed, for example because a node is missing or a disk is full; exit status 1 */
    AML_ENOMEM = -3,    /* out of memory; exit status 1 */
    AML_ELIMIT = -4,    /* a named limit was exceeded; exit status 2 */
    AML_EPROTOCOL = -5, /* a peer sent what the protocol does not allow; exit status 1 */
    AML_ESTOP = -6      /* the process must stop: a signal came, or the job has ended; exit status 1 */
};

/* The element type of a table's rows. A row is a vector of `width` elements. */
enum aml_type { AML_FLOAT32 = 0, AML_FLOAT64 = 1, AML_INT32 = 2, AML_INT64 = 3 };

/* How a clock's updates are aggregated into a row. AML_ADD is the default. AML_PUT (overwrite mode) is for rows with
 * only one writer at a time. */
enum aml_mode {
    AML_ADD = 0, /* row += sum of all workers' deltas */
    AML_PUT = 1  /* row = the value from its only writer in that clock */
};

/* Returns the bytes of one element of `type`; 0 for a value that is no aml_type. */
static inline size_t aml_type_size(unsigned type) {
    static const unsigned char size[4] = {4, 8, 4, 8};
    return type < 4U ? size[type] : 0U;
}

/* The type of an option's value, and of its target. */
enum aml_option_type {
    AML_OPTION_FLAG = 0,    /* target: bool */
    AML_OPTION_INTEGER = 1, /* target: int64_t */
    AML_OPTION_REAL = 2,    /* target: double */
    AML_OPTION_STRING = 3,  /* target: const char *, pointing into argv; NULL when not given */
    AML_OPTION_STRINGS = 4, /* target: struct aml_strings; the option may be given several times */
    AML_OPTION_WORD = 5     /* a word, not a path, that must be equal on all nodes; target: const char * */
};

enum { AML_STRINGS_MAX = 64 };

/* The values of an option that may be given several times, in their order; pointers into argv. Must be zeroed
 * before. */
struct aml_strings {
    unsigned count;
    const char *values[AML_STRINGS_MAX];
};

/* One command-line option: `--name VALUE` or `--name=VALUE`; a flag takes no value. A list of options ends with an
 * entry whose name is NULL. An app's entry without a target may have the name of an option of the library. Then
 * --help shows the entry's text in place of the library's, to say which default the app chooses. */
struct aml_option {
    const char *name;  /* without the dashes */
    const char *value; /* the name of the value in --help, such as "N" or "FILE"; NULL for a flag */
    enum aml_option_type type;
    void *target;            /* receives the value; holds the default before, which --help shows */
    double minimum, maximum; /* limits of numbers */
    const char *help;        /* a short text, which --help wraps */
};

#endif
