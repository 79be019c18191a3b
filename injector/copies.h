/* Copies of hook addresses that the program made while slots led into the agent: callback tables of
 * libraries that store &malloc or &free. After dlclose they would call unmapped memory. */
#ifndef LIMPET_INJECTOR_COPIES_H
#define LIMPET_INJECTOR_COPIES_H

#include <stdint.h>
#include <sys/types.h>

#include "injector/quiesce.h"

struct limpet_copies_stats {
	uint64_t scanned_bytes;
	unsigned found, restored;
};

/* Finds them in all writable memory while the target runs. If there are any, all threads are
 * stopped for a moment, the found places looked at again, and the originals written there,
 * registers included. 0, or -errno: some may remain. */
int limpet_copies_restore(pid_t pid, const struct limpet_agent_place *place, uint64_t hooks_address,
			  struct limpet_copies_stats *ret_stats);

#endif
