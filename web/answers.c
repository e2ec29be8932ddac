/* Sends every answer of the server. See server_private.h. */
#include "web/server_private.h"

#include "web/page/page.h"

#include <string.h>

enum MHD_Result answers_send(const struct web *web, struct MHD_Connection *connection, unsigned status,
                             const char *type, struct MHD_Response *response) {
    const char *const headers[][2] = {{MHD_HTTP_HEADER_CONTENT_TYPE, type},
                                      {MHD_HTTP_HEADER_CACHE_CONTROL, "no-store"},
                                      {"Content-Security-Policy", web_page_policy},
                                      {"Cross-Origin-Opener-Policy", "same-origin"},
                                      {"Cross-Origin-Resource-Policy", "same-origin"},
                                      {"Referrer-Policy", "no-referrer"},
                                      {"X-Content-Type-Options", "nosniff"},
                                      {"X-Frame-Options", "DENY"}};
    enum MHD_Result result = MHD_YES;
    for (size_t h = 0; h < sizeof headers / sizeof *headers && result == MHD_YES; h++) {
        result = MHD_add_response_header(response, headers[h][0], headers[h][1]);
    }
    if (result == MHD_YES && web->access.tls) {
        result = MHD_add_response_header(response, "Strict-Transport-Security", "max-age=31536000");
    }
    if (result == MHD_YES && status == MHD_HTTP_UNAUTHORIZED) {
        result = MHD_add_response_header(response, MHD_HTTP_HEADER_WWW_AUTHENTICATE, "Bearer");
    }
    result = result == MHD_YES ? MHD_queue_response(connection, status, response) : result;
    MHD_destroy_response(response);
    return result;
}

enum MHD_Result answers_say(const struct web *web, struct MHD_Connection *connection, unsigned status, const char *type,
                            const char *text) {
    /* The cast drops const: MHD's function takes mutable bytes, but copies them. */
    struct MHD_Response *response =
        MHD_create_response_from_buffer(strlen(text), (void *)(uintptr_t)text, MHD_RESPMEM_MUST_COPY);
    return response != NULL ? answers_send(web, connection, status, type, response) : MHD_NO;
}
