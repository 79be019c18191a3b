#ifndef LIMPET_COMMON_BEGINS_H
#define LIMPET_COMMON_BEGINS_H

#include <stdbool.h>
#include <string.h>

/* Whether `text` begins with `with`. */
static inline bool limpet_begins(const char *text, const char *with)
{
	return !strncmp(text, with, strlen(with));
}

#endif
