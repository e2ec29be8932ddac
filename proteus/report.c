/* proteus report: makes a self-contained HTML page from reports of jobs. */
#include "agileml/base/log.h"
#include "agileml/base/memory.h"
#include "agileml/base/new_file.h"
#include "agileml/base/options.h"
#include "agileml/base/printable.h"
#include "proteus/command.h"
#include "proteus/report_reader.h"
#include "web/history.h"
#include "web/page/page.h"

#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

enum { REPORTS_MAX = 10 }; /* the number of colours of the page */

static const char USAGE[] = "usage: proteus report [--out FILE] REPORT...\n\n"
                            "Makes one HTML page of a job's report (--report of 'proteus run' and 'proteus\n"
                            "controller'), finished or not: a file that needs nothing else, to look at in a\n"
                            "browser or to send to others. Several reports are laid over one another. The\n"
                            "page saves each figure as an SVG file.";

struct part {
    char *text; /* the page's element for the report */
    size_t size;
};

/* ---- Texts of the page ---- */

/* JSON has < only in strings, where \u003c means the same. Thus no text of a report can end the element around it. */
static void put_line(FILE *stream, const char *text, size_t size) {
    for (size_t b = 0; b < size; b++) {
        if (text[b] == '<') {
            fputs("\\u003c", stream);
        } else {
            putc(text[b], stream);
        }
    }
    putc('\n', stream);
}

static void put_attribute(FILE *stream, const char *text) {
    static const char special[] = "&<>\"";
    static const char *const names[] = {"&amp;", "&lt;", "&gt;", "&quot;"};
    for (; *text != '\0'; text++) {
        const char *found = strchr(special, *text);
        if (found != NULL) {
            fputs(names[found - special], stream);
        } else {
            putc(*text, stream);
        }
    }
}

static const char *base_name(const char *path) {
    const char *slash = strrchr(path, '/');
    return slash != NULL && slash[1] != '\0' ? slash + 1 : path;
}

/* Returns the name of a report on the page, from malloc: the name of its file, with folders if others have the same
 * name. */
static char *report_name(char *const *paths, int count, int own) {
    bool alone = true;
    for (int r = 0; r < count; r++) {
        alone = alone && (r == own || strcmp(base_name(paths[r]), base_name(paths[own])) != 0);
    }
    char *name = memory_string(alone ? base_name(paths[own]) : paths[own]);
    text_make_printable(name);
    return name;
}

static void take_line(void *context, const struct report_line *line, const char *text, size_t size) {
    struct history *history = context;
    struct history_line *kept = history_line_new(history_next(history), line, text, size);
    history_add(history, kept);
    history_line_drop(kept);
}

static void put_history(FILE *stream, const struct history *history) {
    struct history_view view = history_view_open(history);
    for (size_t l = 0; l < view.count; l++) {
        put_line(stream, view.lines[l]->text, view.lines[l]->size);
    }
    history_view_close(&view);
}

static int read_part(struct part *part, char *const *paths, int count, int own, struct error *error) {
    FILE *stream = open_memstream(&part->text, &part->size);
    if (stream == NULL) {
        memory_exhausted(1);
    }
    char *name = report_name(paths, count, own);
    fputs("<script type=\"application/x-ndjson\" class=\"report\" data-name=\"", stream);
    put_attribute(stream, name);
    fputs("\">", stream);
    free(name);
    struct history *history = history_new();
    int result = report_read(paths[own], take_line, history, error);
    put_history(stream, history);
    history_free(history);
    fputs("</script>\n", stream);
    if (fclose(stream) != 0) {
        memory_exhausted(part->size);
    }
    return result;
}

/* ---- The file ---- */

static int write_page(const char *path, const struct part *parts, int count, struct error *error) {
    const char *data = strstr(web_page, WEB_PAGE_DATA);
    const char *rest = data + strlen(WEB_PAGE_DATA);
    struct new_file file;
    int result = new_file_open(&file, path, error);
    if (result != 0) {
        return result;
    }
    result = new_file_write(&file, web_page, (size_t)(data - web_page), error);
    for (int p = 0; result == 0 && p < count; p++) {
        result = new_file_write(&file, parts[p].text, parts[p].size, error);
    }
    result = result == 0 ? new_file_write(&file, rest, strlen(rest), error) : result;
    if (result != 0) {
        new_file_discard(&file);
        return result;
    }
    return new_file_commit(&file, error);
}

static bool is_same_file(const char *a, const char *b) {
    struct stat first;
    struct stat second;
    return stat(a, &first) == 0 && stat(b, &second) == 0 && first.st_dev == second.st_dev &&
           first.st_ino == second.st_ino;
}

static int check_files(const char *out, char *const *paths, int count, struct error *error) {
    if (count == 0) {
        return error_set(error, AML_EINPUT, "report: no file; expected 'proteus report [--out FILE] REPORT...'");
    }
    if (count > REPORTS_MAX) {
        return error_set(error, AML_ELIMIT, "report: %d files, expected at most %d", count, REPORTS_MAX);
    }
    for (int r = 0; r < count; r++) {
        if (is_same_file(out, paths[r])) {
            return error_set(error, AML_EINPUT, "--out %.200s: that is one of the reports; expected another file", out);
        }
    }
    return 0;
}

static int make_page(const char *out, char *const *paths, int count, struct error *error) {
    struct part parts[REPORTS_MAX] = {0};
    int result = check_files(out, paths, count, error);
    for (int r = 0; result == 0 && r < count; r++) {
        result = read_part(&parts[r], paths, count, r, error);
    }
    result = result == 0 ? write_page(out, parts, count, error) : result;
    for (int r = 0; r < REPORTS_MAX; r++) {
        free(parts[r].text);
    }
    if (result == 0) {
        printf("wrote %s: open it in a browser\n", out);
    }
    return result;
}

int command_report(int argc, char **argv) {
    bool help = false;
    const char *out = "report.html";
    const struct aml_option table[] = {
        {"out", "FILE", AML_OPTION_STRING, &out, 0, 0, "the page's file; earlier contents are replaced"},
        {.name = "help", .type = AML_OPTION_FLAG, .target = &help, .help = "this text"},
        {0},
    };
    const struct aml_option *const tables[] = {table};
    struct error error = {0};
    int operand;
    int result = options_parse_mixed(tables, 1, argc, argv, &operand, &error);
    if (result == 0 && help) {
        options_write_help(stdout, USAGE, tables, 1, NULL, &error);
        return 0;
    }
    result = result == 0 ? make_page(out, argv + operand, argc - operand, &error) : result;
    if (result != 0) {
        log_error("%s", error.text);
        return error_exit_status(result);
    }
    return 0;
}
