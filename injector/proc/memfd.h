/* The names of our memory files, by which /proc shows what is ours: in mappings ("/memfd:NAME
 * (deleted)") and as targets of descriptors. A program can make files with some of these names
 * itself, so a name alone never proves that one is ours. Only targets map the agent's; the shared
 * one limpet maps, too, but never from its start. */
#ifndef LIMPET_INJECTOR_PROC_MEMFD_H
#define LIMPET_INJECTOR_PROC_MEMFD_H

#include <stdbool.h>
#include <string.h>

#define LIMPET_MEMFD_AGENT "limpet-agent"
#define LIMPET_MEMFD_SHARED "limpet-shared"

static inline bool limpet_memfd_is_ours(const char *path)
{
	return !strncmp(path, "/memfd:limpet-", strlen("/memfd:limpet-"));
}

static inline bool limpet_memfd_is_shared(const char *path)
{
	return !strncmp(path, "/memfd:" LIMPET_MEMFD_SHARED, strlen("/memfd:" LIMPET_MEMFD_SHARED));
}

static inline bool limpet_memfd_is_agent(const char *path)
{
	return !strncmp(path, "/memfd:" LIMPET_MEMFD_AGENT, strlen("/memfd:" LIMPET_MEMFD_AGENT));
}

#endif
