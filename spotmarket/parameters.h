/* The parameters of an EC2 Query request. Parses the form body, and reads values by name and type. Reading marks a
 * parameter, so that unknown parameters can be rejected as EC2 does. Only the first mistake is kept: a handler reads
 * all it needs, then checks once. One thread, no I/O. */
#ifndef SPOTMARKET_PARAMETERS_H
#define SPOTMARKET_PARAMETERS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
    PARAMETERS_MAX = 4096,      /* parameters of a request */
    PARAMETERS_NAME_MAX = 256,  /* bytes of a name */
    PARAMETERS_LIST_MAX = 1000, /* values of a list */
    API_CODE_MAX = 64,
    API_MESSAGE_MAX = 300,
};

/* An error of EC2. Zeroed: no error. */
struct api_error {
    int status; /* HTTP status; 0: no error */
    char code[API_CODE_MAX];
    char message[API_MESSAGE_MAX];
};

/* Sets the error unless one is already set. */
__attribute__((format(printf, 4, 5))) void api_error_set(struct api_error *error, int status, const char *code,
                                                         const char *format, ...);

struct parameter {
    const char *name, *value;
    bool used;
};

struct parameters {
    char *buffer;
    struct parameter *list; /* sorted by name */
    size_t count;
    struct api_error *error; /* receives mistakes */
};

/* Parses "a=b&c=d" and decodes %XX and '+'. Writes mistakes to `error`, which must outlive the parameters. The caller
 * closes them even then. */
void parameters_open(struct parameters *parameters, const char *body, size_t size, struct api_error *error);
void parameters_close(struct parameters *parameters);

/* Returns the value; NULL when absent. The name is a format as for printf. */
__attribute__((format(printf, 2, 3))) const char *parameters_text(struct parameters *parameters, const char *name, ...);
/* Returns the value; "" with MissingParameter when absent or empty. */
const char *parameters_required(struct parameters *parameters, const char *name);
/* Returns the value; `absent` when it is absent. Sets InvalidParameterValue unless it is an integer in
 * lowest..highest. */
int64_t parameters_integer(struct parameters *parameters, const char *name, int64_t lowest, int64_t highest,
                           int64_t absent);
bool parameters_flag(struct parameters *parameters, const char *name);
/* Returns seconds since 1970. Sets InvalidParameterValue when the value is not a time. */
int64_t parameters_time(struct parameters *parameters, const char *name, int64_t absent);
/* Returns micro-dollars per hour, at least 1; PRICE_UNKNOWN when absent. */
int64_t parameters_price(struct parameters *parameters, const char *name);
/* Reads NAME.1, NAME.2, ... into `values` (PARAMETERS_LIST_MAX elements). Returns their number. */
size_t parameters_list(struct parameters *parameters, const char *name, const char **values);
/* Returns whether a parameter's name begins with `prefix`. */
bool parameters_has(const struct parameters *parameters, const char *prefix);
/* Marks all parameters that begin with `prefix` as read: they are known, but have no effect here. */
void parameters_ignore(struct parameters *parameters, const char *prefix);
/* Sets UnknownParameter if a parameter was not read. Returns true when there is no mistake. */
bool parameters_end(struct parameters *parameters);

#endif
