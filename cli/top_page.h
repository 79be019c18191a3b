/* Key h of `limpet top`: a `limpet html` that runs beside the screen. Begins as all zeros. */
#ifndef LIMPET_CLI_TOP_PAGE_H
#define LIMPET_CLI_TOP_PAGE_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

#include "common/err.h"

struct limpet_top_page {
	pid_t limpet;           /* 0: none is running */
	int fd;                 /* what it prints, while it is running */
	char path[4096];        /* of the page; "": none was begun yet */
	bool written;           /* it wrote that page before, and may do so again */
	char words[4096 + 256]; /* a path fits */
	size_t length;
};

/* Begins to write the page beside the trace. -EALREADY: it is being written. */
int limpet_top_page_start(struct limpet_top_page *page, const char *trace,
			  struct limpet_err *err) LIMPET_MUST_CHECK;
/* Reads what it printed; call it when `fd` is readable. Whether it has ended: then `ret` says how,
 * in words that are safe to show. */
bool limpet_top_page_read(struct limpet_top_page *page, char *ret, size_t bytes);
/* Ends it; an unfinished page is removed. */
void limpet_top_page_stop(struct limpet_top_page *page);

#endif
