/* See answer.h. */
#include "proteus/answer.h"

#include <stdlib.h>
#include <string.h>

bool answer_job_is_over(const struct report_line *status) {
    return status != NULL && status->phase != NULL && strcmp(status->phase, "leave") == 0;
}

int answer_result(const struct report_line *summary, struct error *error) {
    if (summary != NULL && summary->ok) {
        return 0;
    }
    bool input = summary != NULL && summary->status == 2;
    const char *text = summary != NULL && summary->error != NULL ? summary->error : "the job failed";
    return error_set(error, input ? AML_EINPUT : AML_EFAIL, "%s", text);
}

void answer_print(FILE *stream, const struct report_line *answer) {
    char *text = report_line_dump(json_incref(answer->json), true);
    fprintf(stream, "%s\n", text);
    free(text);
}
