/* Writes the seeds of page_fuzz into the folder that is its only argument: a request of each kind. */
#include "tests/fuzz/corpus.h"

#define HOST "Host: localhost\r\n"
#define WITH "Authorization: Bearer 0123456789abcdef\r\n"
#define JSON WITH "Content-Type: application/json\r\n" HOST

static const char *const seeds[] = {
    "0GET / HTTP/1.1\r\n" HOST "\r\n",
    "0GET /healthz HTTP/1.0\r\n\r\n",
    "0GET /api/status HTTP/1.1\r\n" HOST WITH "\r\n",
    "0GET /api/history HTTP/1.1\r\n" HOST WITH "\r\n",
    "0GET /api/report?from=1 HTTP/1.1\r\n" HOST WITH "\r\n",
    "0GET /api/events?run=0123456789abcdef&from=0 HTTP/1.1\r\n" HOST WITH "\r\n",
    "0GET /api/events HTTP/1.1\r\nLast-Event-ID: 0\r\n" HOST WITH "\r\n",
    "0GET /metrics HTTP/1.1\r\nAccept: application/openmetrics-text\r\n" HOST WITH "\r\n",
    "0GET /api/status HTTP/1.1\r\nCookie: proteus=00000000000000000000000000000000\r\n" HOST "\r\n",
    "0POST /api/login HTTP/1.1\r\n" JSON "Content-Length: 0\r\n\r\n",
    "0POST /api/stop HTTP/1.1\r\n" JSON "Content-Length: 12\r\n\r\n{\"now\":true}",
    "0POST /api/checkpoint HTTP/1.1\r\n" JSON "Content-Length: 2\r\n\r\n{}",
    "0POST /api/evict HTTP/1.1\r\n" JSON "Content-Length: 37\r\n\r\n{\"nodes\":[\"n\"],\"notice_seconds\":12.5}\n",
    "0POST /api/stop HTTP/1.1\r\nOrigin: http://localhost\r\n" JSON
    "Transfer-Encoding: chunked\r\n\r\n2\r\n{}\r\n0\r\n\r\n",
    "0HEAD / HTTP/1.1\r\n" HOST "\r\nGET /healthz HTTP/1.1\r\n" HOST "\r\n",
};

int main(int argc, char **argv) {
    return corpus_main("page_corpus", argc, argv, seeds, sizeof seeds / sizeof *seeds);
}
