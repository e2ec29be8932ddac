/* See report_file.h. */
#include "proteus/report_file.h"

#include "agileml/base/private_file.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <unistd.h>

int report_file_open(struct report_file *report, const char *path, struct error *error) {
    *report = (struct report_file){.path = path};
    if (path == NULL) {
        return 0;
    }
    const char *reason;
    int descriptor = private_file_open(path, O_WRONLY | O_APPEND, &reason);
    if (descriptor < 0) {
        return error_set(error, AML_EINPUT, "--report %s: can't create the file: %s", path, reason);
    }
    report->file = fdopen(descriptor, "a");
    if (report->file == NULL) {
        close(descriptor);
        return error_set(error, AML_EFAIL, "--report %s: %s", path, strerror(errno));
    }
    setvbuf(report->file, NULL, _IOLBF, 0); /* flush each line: other programs may read it */
    return 0;
}

void report_file_write(struct report_file *report, const char *line, size_t size) {
    if (report->file == NULL) {
        return;
    }
    if (!report->begun) {
        report->begun = true;
        /* EINVAL: a pipe or a device, which can't be truncated. */
        if (ftruncate(fileno(report->file), 0) != 0 && errno != EINVAL) {
            report->failure = errno;
        }
    }
    bool written = fwrite(line, 1, size, report->file) == size && fputc('\n', report->file) != EOF;
    if (!written && report->failure == 0) {
        report->failure = errno;
    }
}

int report_file_close(struct report_file *report, struct error *error) {
    if (report->file == NULL) {
        return 0;
    }
    int closed = fclose(report->file);
    report->file = NULL;
    if (closed != 0 && report->failure == 0) {
        report->failure = errno;
    }
    if (report->failure != 0) {
        return error_set(error, AML_EFAIL, "--report %s: the report is incomplete: %s", report->path,
                         strerror(report->failure));
    }
    return 0;
}
