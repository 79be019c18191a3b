/* Passes text that is longer than the terminal through a pager, like git: LIMPET_PAGER, else PAGER,
 * else less; no pager if these are empty or `cat`. Main thread. */
#ifndef LIMPET_CLI_PAGER_H
#define LIMPET_CLI_PAGER_H

#include <stdbool.h>
#include <sys/types.h>

struct limpet_pager {
	pid_t pid;    /* 0: none */
	int terminal; /* the original stdout */
};

/* Until limpet_pager_end() stdout is the pager's input, if it is a terminal and `wanted`. Query
 * properties of the terminal (width, colours) before this. */
void limpet_pager_begin(struct limpet_pager *pager, bool wanted);
/* Waits until the user has quit the pager; then stdout is the terminal again. */
void limpet_pager_end(struct limpet_pager *pager);

#endif
