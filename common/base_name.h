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

#define LIMPET_SHORT_PLACE_BYTES (2 * LIMPET_SHORT_NAME_BYTES)

/* The same, after the directory that the file is in if its name had to be shortened: a hash alone
 * tells nobody whose file it is. */
static inline const char *limpet_short_place(const char *path, char ret[LIMPET_SHORT_PLACE_BYTES])
{
	char name[LIMPET_SHORT_NAME_BYTES], directory[LIMPET_SHORT_NAME_BYTES], above[256];
	const char *base = limpet_base_name(path);
	const char *brief = limpet_short_base_name(path, name);
	const size_t length = base > path ? (size_t)(base - path) - 1 : 0;

	if (brief == base)
		return base;
	if (!length || length >= sizeof(above)) {
		snprintf(ret, LIMPET_SHORT_PLACE_BYTES, "%.*s", LIMPET_SHORT_NAME_BYTES - 1, brief);
		return ret;
	}
	memcpy(above, path, length);
	above[length] = '\0';
	snprintf(ret, LIMPET_SHORT_PLACE_BYTES, "%.*s/%.*s", LIMPET_SHORT_NAME_BYTES - 1,
		 limpet_short_base_name(above, directory), LIMPET_SHORT_NAME_BYTES - 1, brief);
	return ret;
}

#endif
