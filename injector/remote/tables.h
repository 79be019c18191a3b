/* Threads that have a table of descriptors of their own: unshare(2) with CLONE_FILES,
 * close_range(2) with CLOSE_RANGE_UNSHARE. It begins as a copy, with the agent's channel in it if
 * that was there. Which thread is hijacked, and whose table the channel so comes to or is closed
 * in, is open. */
#ifndef LIMPET_INJECTOR_REMOTE_TABLES_H
#define LIMPET_INJECTOR_REMOTE_TABLES_H

#include "common/err.h"
#include "injector/remote/hijack.h"

/* Closes descriptor `fd`, the agent's channel once, in the table of each thread where it is that
 * still (own_objects.h). 0, or -errno of the last thread that could not be hijacked for it, with
 * its number.
 */
int limpet_tables_clean(const struct limpet_hijack_setup *setup, int fd,
			pid_t *ret_left) LIMPET_MUST_CHECK;

#endif
