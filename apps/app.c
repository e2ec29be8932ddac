/* See app.h. */
#include "apps/app.h"

#include "agileml/cloud/storage.h"
#include "agileml/input/source.h"

#include <assert.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

int app_list_files(const char *option, const struct aml_strings *values, bool jobs, struct input_list *list,
                   struct error *error) {
    struct error reason = {0};
    int code = 0;
    *list = (struct input_list){0};
    for (unsigned v = 0; v < values->count && code == 0; v++) {
        code = input_list_add(list, values->values[v], &reason);
    }
    for (size_t n = 0; n < list->count && code == 0 && jobs; n++) {
        const char *path = list->names[n].path;
        struct stat status;
        if (!source_is_address(path) && stat(path, &status) == 0 && !S_ISREG(status.st_mode)) {
            code = error_set(&reason, AML_EINPUT,
                             "%s: expected a regular file, which every process of the job can read", path);
        }
    }
    if (code != 0) {
        input_list_close(list);
        return error_set(error, code, "--%s: %s", option, reason.text);
    }
    input_list_drop_empty(list);
    return 0;
}

/* Returns whether the two paths name the same file. */
static bool same_file(const char *path, const struct stat *file) {
    struct stat other;
    return !source_is_address(path) && stat(path, &other) == 0 && other.st_dev == file->st_dev &&
           other.st_ino == file->st_ino;
}

/* Checks the files of an option with several values. Sets *overwritten if `model_out` is one of them. */
static int check_values(aml_worker *worker, const struct app_file *file, const char *model_out, bool *overwritten) {
    struct input_list list;
    struct error error = {0};
    struct stat model;
    int code = app_list_files(file->option, file->values, true, &list, &error);
    if (code != 0) {
        return aml_error(worker, code, "%s", error.text);
    }
    bool exists = model_out != NULL && !source_is_address(model_out) && stat(model_out, &model) == 0;
    for (size_t n = 0; n < list.count && exists; n++) {
        *overwritten = *overwritten || same_file(list.names[n].path, &model);
    }
    input_list_close(&list);
    return 0;
}

static int check_readable(aml_worker *worker, const struct app_file *file) {
    const char *path = file->path;
    struct stat status;
    if (source_is_address(path)) {
        struct source_identity identity;
        struct error error = {0};
        int code = source_identify(path, &identity, &error);
        return code == 0 ? 0 : aml_error(worker, code, "--%s: %s", file->option, error.text);
    }
    bool there = stat(path, &status) == 0;
    /* Opening a pipe could block for ever. */
    if (there && !S_ISREG(status.st_mode) && !(file->folders && S_ISDIR(status.st_mode))) {
        return aml_error(worker, AML_EINPUT,
                         "--%s: %s: expected a regular file%s, which every process of the job can read", file->option,
                         path, file->folders ? " or a folder" : "");
    }
    if (!there || access(path, R_OK) != 0) {
        return aml_error(worker, AML_EINPUT, "--%s: %s: %s", file->option, path, strerror(errno));
    }
    return 0;
}

static int check_model_out(aml_worker *worker, const char *path, const struct app_file files[], size_t count,
                           bool overwritten) {
    struct error error = {0};
    struct stat file;
    if (storage_check(path, &error) != 0) {
        return aml_error(worker, AML_EINPUT, "--model-out: %s", error.text);
    }
    for (size_t i = 0; i < count; i++) {
        if (files[i].path != NULL && storage_is_object(path) && strcmp(files[i].path, path) == 0) {
            return aml_error(worker, AML_EINPUT,
                             "--model-out: %s: this is an input file of the job: expected another path", path);
        }
    }
    bool exists = stat(path, &file) == 0;
    for (size_t i = 0; exists && i < count; i++) {
        overwritten = overwritten || (files[i].path != NULL && same_file(files[i].path, &file));
    }
    return overwritten ? aml_error(worker, AML_EINPUT,
                                   "--model-out: %s: this is an input file of the job: expected another path", path)
                       : 0;
}

int app_check_files(aml_worker *worker, const struct app_file files[], size_t count, const char *model_out) {
    bool overwritten = false;
    int result = 0;
    for (size_t i = 0; i < count && result == 0; i++) {
        if (files[i].values != NULL) {
            result = check_values(worker, &files[i], model_out, &overwritten);
        } else if (files[i].path != NULL) {
            result = check_readable(worker, &files[i]);
        }
    }
    return result == 0 && model_out != NULL ? check_model_out(worker, model_out, files, count, overwritten) : result;
}

int app_check_data(aml_worker *worker, const char *what, const char *data, const char *test, double test_fraction) {
    if (data == NULL) {
        return aml_error(worker, AML_EINPUT, "--data FILE is missing: expected %s to train on", what);
    }
    if (test != NULL && test_fraction > 0) {
        return aml_error(worker, AML_EINPUT, "--test and --test-fraction are both given: expected one of them");
    }
    return 0;
}

/* Reports the files of a value as input; for a folder, the folder. */
static void name_value(aml_worker *worker, const char *value) {
    struct input_list list = {0};
    struct error error = {0};
    struct stat status;
    if (stat(value, &status) == 0 && S_ISDIR(status.st_mode)) {
        aml_input_file(worker, value);
        return;
    }
    (void)input_list_add(&list, value, &error); /* the code that reads the files reports their errors */
    for (size_t n = 0; n < list.count; n++) {
        aml_input_file(worker, list.names[n].path);
    }
    input_list_close(&list);
}

void app_name_files(aml_worker *worker, const struct app_file files[], size_t count) {
    for (size_t i = 0; i < count; i++) {
        if (files[i].path != NULL) {
            aml_input_file(worker, files[i].path);
        }
        for (unsigned v = 0; files[i].values != NULL && v < files[i].values->count; v++) {
            name_value(worker, files[i].values->values[v]);
        }
    }
}

int app_choice(const char *option, const char *value, const char *const names[], struct error *error) {
    char expected[128] = "";
    size_t length = 0;
    for (int i = 0; names[i] != NULL; i++) {
        if (strcmp(value, names[i]) == 0) {
            return i;
        }
        const char *separator = i == 0 ? "" : names[i + 1] != NULL ? ", " : " or ";
        length += (size_t)snprintf(expected + length, sizeof expected - length, "%s%s", separator, names[i]);
        assert(length < sizeof expected);
    }
    return error_set(error, AML_EINPUT, "--%s: expected %s, got '%s'", option, expected, value);
}

bool app_held_out(uint64_t hash, double test_fraction) {
    return (double)hash < test_fraction * 0x1p64;
}
