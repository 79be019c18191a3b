#ifndef LIMPET_COMMON_BEGINS_H
#define LIMPET_COMMON_BEGINS_H

#include <stdbool.h>
#include <stddef.h>
#include <string.h>

/* Whether `text` begins with `with`. */
static inline bool limpet_begins(const char *text, const char *with)
{
	return !strncmp(text, with, strlen(with));
}
/* Whether it begins with one of them. */
static inline bool limpet_begins_any(const char *text, const char *const *list, size_t count)
{
	for (size_t i = 0; i < count; i++)
		if (limpet_begins(text, list[i]))
			return true;
	return false;
}

#endif
