/* Held by pointers whose upper byte is a tag (LAM, top-byte ignore, reference counts beside a
 * pointer). */
#include "planted.h"

#include <stdint.h>

uintptr_t tagged_values[20];

PLANTED_FRAME static uintptr_t make_tagged(unsigned tag)
{
	return (uintptr_t)block(104) | (uintptr_t)tag << 56;
}

void plant(void)
{
	for (unsigned i = 0; i < 20; i++)
		tagged_values[i] = make_tagged(0x81 + 5 * i);
}
