/* The page that shows a job, one HTML document with all that it needs. It is made from the files of this folder and
 * dygraphs when the programs are built (join.cmake).
 *
 * Live, the page reads the job's report from the server that it comes from (api/history, api/events, api/status). With
 * reports in it, it asks nobody for anything: `proteus report` puts each of them, where WEB_PAGE_DATA stands, as
 *     <script type="application/x-ndjson" class="report" data-name="NAME">LINES</script>
 * with \u003c for each < in the lines. */
#ifndef WEB_PAGE_PAGE_H
#define WEB_PAGE_PAGE_H

#include <stddef.h>

#define WEB_PAGE_DATA "<!--DATA-->"

extern const char web_page[]; /* ends with a 0, which does not count */
extern const size_t web_page_size;
/* The Content-Security-Policy that the page also states itself: nothing but its own script and style, by their hashes,
 * and the server that it comes from. */
extern const char web_page_policy[];

#endif
