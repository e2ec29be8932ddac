/* The parameters of an EC2 Query request: parses the form body, and reads values by name with a check of their type. A
 * read marks its parameter, so that unknown parameters can be refused as EC2 does. Only the first mistake is kept: a
 * handler reads all it needs, then checks once. One thread, no I/O. */
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

/* An error of EC2. A zeroed struct is no error. */
struct api_error {
    int status; /* of HTTP; 0: none */
    char code[API_CODE_MAX];
    char message[API_MESSAGE_MAX];
};

/* Sets the error, unless one is set. */
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

/* Parses "a=b&c=d" and decodes %XX and '+'. Mistakes go to `error`, which must outlive the parameters. The caller
 * closes them in any case. */
void parameters_open(struct parameters *parameters, const char *body, size_t size, struct api_error *error);
void parameters_close(struct parameters *parameters);

/* Returns the value, or NULL when the parameter is absent. The name is a format as for printf. */
__attribute__((format(printf, 2, 3))) const char *parameters_text(struct parameters *parameters, const char *name, ...);
/* Returns the value; "" with MissingParameter when the parameter is absent or empty. */
const char *parameters_required(struct parameters *parameters, const char *name);
/* Returns `absent` when the parameter is absent. InvalidParameterValue when it is no whole number in
 * lowest..highest. */
int64_t parameters_integer(struct parameters *parameters, const char *name, int64_t lowest, int64_t highest,
                           int64_t absent);
bool parameters_flag(struct parameters *parameters, const char *name);
/* Returns seconds since 1970; InvalidParameterValue when the value is no time. */
int64_t parameters_time(struct parameters *parameters, const char *name, int64_t absent);
/* Returns micro-dollars per hour, at least 1; PRICE_UNKNOWN when the parameter is absent. */
int64_t parameters_price(struct parameters *parameters, const char *name);
/* Reads NAME.1, NAME.2, ... into `values` (PARAMETERS_LIST_MAX elements), and returns their number. */
size_t parameters_list(struct parameters *parameters, const char *name, const char **values);
/* Returns whether a parameter's name begins with `prefix`. */
bool parameters_has(const struct parameters *parameters, const char *prefix);
/* Marks all parameters that begin with `prefix` as read: they are known, and have no effect here. */
void parameters_ignore(struct parameters *parameters, const char *prefix);
/* Sets UnknownParameter when a parameter was not read. Returns true when there is no mistake. */
bool parameters_end(struct parameters *parameters);

#endif
