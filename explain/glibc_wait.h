/* Lets a process go on before what was changing is read again. */
#ifndef LIMPET_EXPLAIN_GLIBC_WAIT_H
#define LIMPET_EXPLAIN_GLIBC_WAIT_H

#include "injector/proc/memory_reader.h"

#define LIMPET_GLIBC_WAIT_NS UINT64_C(100000000) /* usual, for one thing */

struct limpet_glibc_wait {
	uint64_t next_ns, left_ns;
};
/* So much time in all. */
#define LIMPET_GLIBC_WAIT(total_ns)                       \
	{                                                 \
		.next_ns = 1000000, .left_ns = (total_ns) \
	}
/* Waits a millisecond, then twice as long each time. Returns false, at once, if the time or the
 * budget of the reader is spent. */
bool limpet_glibc_wait(struct limpet_glibc_wait *wait, const struct limpet_memory_reader *memory);

#endif
