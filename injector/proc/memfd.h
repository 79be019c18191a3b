/* The names of our memory files, by which /proc tells what is ours: in mappings ("/memfd:NAME
 * (deleted)") and behind descriptors. A program can make some of these names itself: whatever is
 * done to one needs another proof. */
#ifndef LIMPET_INJECTOR_PROC_MEMFD_H
#define LIMPET_INJECTOR_PROC_MEMFD_H

#include <stdbool.h>
#include <string.h>

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

#endif
