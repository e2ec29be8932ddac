/* The parameters of an EC2 Query request: the form body taken apart, and values read by name and checked by type. Each
 * read marks what it took, so that what nobody read can be refused as EC2 does. The first mistake is kept and later
 * ones are not looked for: a handler reads all it needs, then asks once. One thread, no I/O. */
#ifndef SPOTMARKET_PARAMETERS_H
#define SPOTMARKET_PARAMETERS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
    PARAMETERS_MAX = 4096,      /* of a request */
    PARAMETERS_NAME_MAX = 256,  /* bytes of a name */
    PARAMETERS_LIST_MAX = 1000, /* values of a list */
    API_CODE_MAX = 64,
    API_MESSAGE_MAX = 300,
};

/* EC2's answer to what it does not take. A zeroed struct: no error. */
struct api_error {
    int status; /* of HTTP; 0: none */
    char code[API_CODE_MAX];
    char message[API_MESSAGE_MAX];
};

/* Sets it unless one is set. */
__attribute__((format(printf, 4, 5))) void api_error_set(struct api_error *error, int status, const char *code,
                                                         const char *format, ...);

struct parameter {
    const char *name, *value;
    bool used;
};

struct parameters {
    char *buffer;
    struct parameter *list; /* by name */
    size_t count;
    struct api_error *error; /* where mistakes go */
};

/* Takes "a=b&c=d" apart, %XX and '+' decoded. Mistakes go to `error`, which must outlive it. To be closed in any case.
 */
void parameters_open(struct parameters *parameters, const char *body, size_t size, struct api_error *error);
void parameters_close(struct parameters *parameters);

/* NULL when it is not there. Names may be given as for printf. */
__attribute__((format(printf, 2, 3))) const char *parameters_text(struct parameters *parameters, const char *name, ...);
/* As above, MissingParameter when it is not there (then ""). */
const char *parameters_required(struct parameters *parameters, const char *name);
/* `absent` when it is not there; InvalidParameterValue when it is no whole number of lowest..highest. */
int64_t parameters_integer(struct parameters *parameters, const char *name, int64_t lowest, int64_t highest,
                           int64_t absent);
bool parameters_flag(struct parameters *parameters, const char *name);
/* Seconds since 1970; InvalidParameterValue when it is no moment. */
int64_t parameters_time(struct parameters *parameters, const char *name, int64_t absent);
/* Micro-dollars per hour, at least 1; PRICE_UNKNOWN when it is not there. */
int64_t parameters_price(struct parameters *parameters, const char *name);
/* The values of NAME.1, NAME.2, ... in `values` (PARAMETERS_LIST_MAX places); how many. */
size_t parameters_list(struct parameters *parameters, const char *name, const char **values);
/* Whether there is a parameter that begins with `prefix`. */
bool parameters_has(const struct parameters *parameters, const char *prefix);
/* Marks all that begin with `prefix` as read: known, and without effect here. */
void parameters_ignore(struct parameters *parameters, const char *prefix);
/* UnknownParameter when something was not read. True: there is no mistake at all. */
bool parameters_end(struct parameters *parameters);

#endif
