/* Text that is longer than the terminal goes through a pager, as git's does: LIMPET_PAGER, else
 * PAGER, else less; none where these are empty or `cat`. Main thread. */
#ifndef LIMPET_CLI_PAGER_H
#define LIMPET_CLI_PAGER_H

#include <stdbool.h>
#include <sys/types.h>

struct limpet_pager {
	pid_t pid;    /* 0: none */
	int terminal; /* stdout as it was */
};

/* Until the end stdout is the pager's input, if it is a terminal and `wanted`. What depends on the
 * terminal (width, colours) is to be asked before. */
void limpet_pager_begin(struct limpet_pager *pager, bool wanted);
/* Waits until the user has read it; stdout is the terminal again. */
void limpet_pager_end(struct limpet_pager *pager);

#endif
