/* Threads with a descriptor table of their own: unshare(2) with CLONE_FILES, close_range(2) with
 * CLOSE_RANGE_UNSHARE. The table starts as a copy, and so has the agent's channel in it if that
 * existed. Any thread may be hijacked, so it is not known in which table the channel is opened or
 * closed. */
#ifndef LIMPET_INJECTOR_REMOTE_TABLES_H
#define LIMPET_INJECTOR_REMOTE_TABLES_H

#include "common/err.h"
#include "injector/remote/hijack.h"

/* Closes descriptor `fd`, formerly the agent's channel, in the table of each thread that still has
 * it (own_objects.h). 0, or -errno of the last thread that could not be hijacked for this, with its
 * number. */
int limpet_tables_clean(const struct limpet_hijack_setup *setup, int fd,
			pid_t *ret_left) LIMPET_MUST_CHECK;

#endif
