/* The names of our memory files, by which /proc shows what is ours: in mappings ("/memfd:NAME
 * (deleted)") and as targets of descriptors. A program can make files with some of these names
 * itself, so a name alone never proves that one is ours. */
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
