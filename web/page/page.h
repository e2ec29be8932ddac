/* The page that shows a job: a self-contained HTML document. The build makes it from the files of this folder and
 * dygraphs (join.cmake).
 *
 * A live page reads the job's report from its server (api/history, api/events, api/status). A page with reports in it
 * makes no requests. `proteus report` replaces WEB_PAGE_DATA by an element for each report:
 *     <script type="application/x-ndjson" class="report" data-name="NAME">LINES</script>
 * In its lines \u003c replaces each <. */
#ifndef WEB_PAGE_PAGE_H
#define WEB_PAGE_PAGE_H

#include <stddef.h>

#define WEB_PAGE_DATA "<!--DATA-->"

extern const char web_page[]; /* NUL-terminated */
extern const size_t web_page_size;
/* The Content-Security-Policy, which the page also states itself. It allows only the page's own script and style, by
 * their hashes, and its own server. */
extern const char web_page_policy[];

#endif
