/* See findings.h. */
#include "bidbrain/daemon/findings.h"

#include "agileml/base/memory.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

enum {
    FINDINGS_FIRST_MAX =
        ERROR_TEXT_MAX - 80 /* bytes of the first error's text, so that the number of further errors fits after it */
};

static void findings_add(struct findings *findings, bool warning, const char *text) {
    findings->errors += !warning;
    if (findings->count == FINDINGS_MAX) {
        return;
    }
    findings->list = memory_resized(findings->list, findings->count + 1, sizeof *findings->list);
    struct finding *finding = &findings->list[findings->count++];
    finding->warning = warning;
    snprintf(finding->text, sizeof finding->text, "%s", text);
}

__attribute__((format(printf, 4, 0))) static void
findings_add_at(struct findings *findings, bool warning, const char *where, const char *format, va_list arguments) {
    char said[ERROR_TEXT_MAX];
    char text[FINDING_TEXT_MAX];
    vsnprintf(said, sizeof said, format, arguments);
    snprintf(text, sizeof text, "%.200s: %.100s: %s", findings->file, where, said);
    findings_add(findings, warning, text);
}

int findings_error(struct findings *findings, const char *where, const char *format, ...) {
    va_list arguments;
    va_start(arguments, format);
    findings_add_at(findings, false, where, format, arguments);
    va_end(arguments);
    return AML_EINPUT;
}

void findings_warning(struct findings *findings, const char *where, const char *format, ...) {
    va_list arguments;
    va_start(arguments, format);
    findings_add_at(findings, true, where, format, arguments);
    va_end(arguments);
}

int findings_error_text(struct findings *findings, const char *text) {
    findings_add(findings, false, text);
    return AML_EINPUT;
}

int findings_first(const struct findings *findings, struct error *error) {
    for (size_t f = 0; f < findings->count; f++) {
        if (findings->list[f].warning) {
            continue;
        }
        size_t more = findings->errors - 1;
        return more == 0 ? error_set(error, AML_EINPUT, "%s", findings->list[f].text)
                         : error_set(error, AML_EINPUT, "%.*s (and %zu more: 'bidbrain check-config' lists all)",
                                     FINDINGS_FIRST_MAX, findings->list[f].text, more);
    }
    return findings->errors > 0 ? error_set(error, AML_EINPUT, "%s: too many mistakes", findings->file) : 0;
}

void findings_close(struct findings *findings) {
    free(findings->list);
    *findings = (struct findings){0};
}
