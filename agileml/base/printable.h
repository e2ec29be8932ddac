/* Text that quotes a peer, a file or an app, made fit for a terminal, a log and JSON. */
#ifndef AGILEML_BASE_PRINTABLE_H
#define AGILEML_BASE_PRINTABLE_H

/* Makes `text` one line of printable UTF-8, in place, without changing its length. Ends of lines become spaces.
 * Other control characters (U+0000 to U+001F, U+007F to U+009F) and bytes that are not UTF-8 become '?'. */
void text_make_printable(char *text);

#endif
