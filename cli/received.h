/* What a `limpet collect` is receiving: the traces in its directory that somebody writes. */
#ifndef LIMPET_CLI_RECEIVED_H
#define LIMPET_CLI_RECEIVED_H

#include <limits.h>
#include <stdint.h>

struct limpet_received {
	char path[PATH_MAX];
	uint64_t bytes;
};

/* By name. *ret_list is malloc'ed; returns their number, or -errno. */
int limpet_received_list(const char *directory, struct limpet_received **ret_list);

#endif
