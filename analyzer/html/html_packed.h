/* A part of a page: what is written to it is compressed by zlib, and is base64 in the page, which
 * needs no escaping there. analyzer/html/read.js reads it. */
#ifndef LIMPET_ANALYZER_HTML_HTML_PACKED_H
#define LIMPET_ANALYZER_HTML_HTML_PACKED_H

#include <stdio.h>

/* `page` stays open when the part is closed, which writes the rest. Errors of `page` are found by
 * ferror(page) and make fclose() fail. NULL: no memory. */
FILE *limpet_html_packed_open(FILE *page);

#endif
