#ifndef LIMPET_COMMON_BASE_NAME_H
#define LIMPET_COMMON_BASE_NAME_H

#include <string.h>

/* The part of a path after its last slash, inside it; NULL for NULL. */
static inline const char *limpet_base_name(const char *path)
{
	const char *slash = path ? strrchr(path, '/') : NULL;

	return slash ? slash + 1 : path;
}

#endif
