/* See error.h. */
#include "agileml/base/error.h"

#include "agileml/base/printable.h"

#include <stdarg.h>
#include <stdio.h>

int error_set(struct error *error, int code, const char *format, ...) {
    if (error == NULL || error->code != 0) {
        return code;
    }
    error->code = code;
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(error->text, sizeof error->text, format, arguments);
    va_end(arguments);
    text_make_printable(error->text); /* the text may quote files and messages */
    return code;
}

int error_exit_status(int code) {
    switch (code) {
    case AML_OK:
        return 0;
    case AML_EINPUT:
    case AML_ELIMIT:
        return 2;
    default:
        return 1;
    }
}
