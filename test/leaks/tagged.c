/* Held by pointers whose low bits are a tag. */
#include "planted.h"

#include <stdint.h>

uintptr_t tagged_values[21];

PLANTED_FRAME static uintptr_t make_tagged(unsigned tag)
{
	return (uintptr_t)block(104) | tag;
}

void plant(void)
{
	for (unsigned i = 0; i < 21; i++)
		tagged_values[i] = make_tagged(1 + i % 7);
}
