/* The part of glibc's _rtld_global that injector and agent use: the dynamic linker's locks, and the
 * number of modules. Unchanged since 2.17, except for a third lock since 2.35.
 *
 * sysdeps/nptl/bits/struct_mutex.h, sysdeps/generic/ldsodefs.h (struct rtld_global).
 * Freestanding. */
#ifndef LIMPET_COMMON_LOADER_MUTEX_H
#define LIMPET_COMMON_LOADER_MUTEX_H

#include <stdint.h>

/* pthread_mutex_t on 64-bit machines */
struct limpet_loader_mutex {
	int32_t lock; /* 1: held, 2: held, and threads wait for it */
	uint32_t count;
	int32_t owner;
	uint32_t users, kind;
	int16_t spins, elision;
	uint64_t previous, next;
};

/* _dl_ns is first, then _dl_nns, the locks and _dl_load_adds. */
#define LIMPET_LOADER_SPACES 16u
#define LIMPET_LOADER_SPACE_COUNT 8u /* uint32_t, in a namespace after its first link_map */

#endif
