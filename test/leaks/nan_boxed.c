/* Held by values of 64 bits whose upper 16 say that they are pointers, as JavaScript and Lua
 * engines have them. */
#include "planted.h"

#include <stdint.h>

uint64_t boxed_values[20];

PLANTED_FRAME static uint64_t make_boxed(void)
{
	return (uint64_t)(uintptr_t)block(104) | UINT64_C(0xfffa) << 48;
}

void plant(void)
{
	for (int i = 0; i < 20; i++)
		boxed_values[i] = make_boxed();
}
