#ifndef LIMPET_COMMON_BASE_NAME_H
#define LIMPET_COMMON_BASE_NAME_H

#include <stdio.h>
#include <string.h>

/* The part of a path after its last slash, inside it; NULL for NULL. */
static inline const char *limpet_base_name(const char *path)
{
	const char *slash = path ? strrchr(path, '/') : NULL;

	return slash ? slash + 1 : path;
}

#define LIMPET_SHORT_NAME_BYTES 32

/* The same, if need be shortened in the middle: names of files that programs generate may be
 * hashes.
 */
static inline const char *limpet_short_base_name(const char *path,
						 char ret[LIMPET_SHORT_NAME_BYTES])
{
	const char *name = limpet_base_name(path);
	const size_t length = strlen(name), head = LIMPET_SHORT_NAME_BYTES / 2 - 4;

	if (length < LIMPET_SHORT_NAME_BYTES)
		return name;
	snprintf(ret, LIMPET_SHORT_NAME_BYTES, "%.*s...%s", (int)head, name,
		 name + length - (LIMPET_SHORT_NAME_BYTES - head - 4));
	return ret;
}

#endif
