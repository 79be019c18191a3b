/* The names of our memory files, by which /proc tells what is ours: in mappings ("/memfd:NAME
 * (deleted)") and behind descriptors. A program can make some of these names itself: whatever is
 * done to one needs another proof. */
#ifndef LIMPET_INJECTOR_MEMFD_H
#define LIMPET_INJECTOR_MEMFD_H

#include <stdbool.h>
#include <stdint.h>
#include <string.h>

#include "common/wire.h"

#define LIMPET_MEMFD_AGENT "limpet-agent"
#define LIMPET_MEMFD_SHARED "limpet-shared"
#define LIMPET_MEMFD_UNWIND "limpet-unwind"

static inline bool limpet_memfd_is_ours(const char *path)
{
	return !strncmp(path, "/memfd:limpet-", strlen("/memfd:limpet-"));
}

static inline bool limpet_memfd_is_agent(const char *path)
{
	return !strncmp(path, "/memfd:" LIMPET_MEMFD_AGENT, strlen("/memfd:" LIMPET_MEMFD_AGENT));
}

/* A mapping of the thunks, which may have outlived its agent; `offset` in its file. */
static inline bool limpet_memfd_is_thunks(const char *path, uint64_t offset)
{
	return limpet_memfd_is_agent(path) && offset >= LIMPET_THUNKS_OFFSET;
}

#endif
