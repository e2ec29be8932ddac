/* See answer.h. */
#include "proteus/answer.h"

#include "agileml/wire/records.h"

#include <string.h>

json_t *answer_status(const struct message *message) {
    size_t size;
    const char *text = records_text(message, &size);
    return json_loadb(text, size, 0, NULL);
}

bool answer_job_is_over(const json_t *status) {
    const char *phase = json_string_value(json_object_get(status, "phase"));
    return phase != NULL && strcmp(phase, "leave") == 0;
}

int answer_result(const json_t *summary, struct error *error) {
    if (json_is_true(json_object_get(summary, "ok"))) {
        return 0;
    }
    const char *text = json_string_value(json_object_get(summary, "error"));
    bool input = json_integer_value(json_object_get(summary, "status")) == 2;
    return error_set(error, input ? AML_EINPUT : AML_EFAIL, "%s", text != NULL ? text : "the job failed");
}

void answer_print(FILE *stream, const json_t *answer) {
    json_dumpf(answer, stream, JSON_COMPACT | JSON_ENSURE_ASCII | JSON_REAL_PRECISION(9));
    putc('\n', stream);
}
