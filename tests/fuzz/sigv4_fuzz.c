/* libFuzzer target for bidbrain/cloud/aws/sigv4 as a server uses it. The input's lines are the path, the query, and
 * pairs of a header's name and value. Besides crashes it finds canonical requests that are not in canonical form. */
#include "agileml/cloud/sigv4.h"

#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#define FUZZ_CHECK(condition) ((condition) ? (void)0 : abort())

/* Returns the next line and moves *text past it. */
static char *fuzz_line(char **text) {
    char *line = *text;
    size_t size = strcspn(line, "\n");
    *text = line + size + (line[size] != '\0');
    line[size] = '\0';
    return line;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    static const struct sigv4_scope scope = {"20150830T123600Z", "us-east-1", "ec2"};
    struct sigv4_header headers[SIGV4_HEADERS_MAX + 1];
    struct sigv4_request request = {.method = "POST", .headers = headers, .body = data, .body_size = size};
    struct error error = {0};
    char *text = calloc(size + 1, 1);
    char *at = memcpy(text, data, size);
    request.path = fuzz_line(&at);
    request.query = fuzz_line(&at);
    while (*at != '\0' && request.header_count <= SIGV4_HEADERS_MAX) {
        const char *name = fuzz_line(&at);
        headers[request.header_count++] = (struct sigv4_header){name, fuzz_line(&at)};
    }
    char *canonical;
    char *authorization;
    int code = sigv4_canonical(&request, &canonical, &error);
    FUZZ_CHECK(code == 0 ? canonical != NULL : canonical == NULL && error.code == code);
    if (code == 0) {
        const char *path = strchr(canonical, '\n') + 1;
        FUZZ_CHECK(path[0] == '/' && strcspn(path, " ?") >= strcspn(path, "\n"));
        FUZZ_CHECK(strstr(canonical, "//") == NULL || strstr(canonical, "//") > strchr(path, '\n'));
        FUZZ_CHECK(sigv4_authorization(&request, &scope, "KEY", "SECRET", &authorization, &error) == 0);
        free(authorization);
        free(canonical);
    }
    free(text);
    return 0;
}
