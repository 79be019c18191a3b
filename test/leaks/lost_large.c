/* Blocks with a mapping of their own, lost, which hold the only pointers to small ones: such a
 * mapping is no root. */
#include "planted.h"

PLANTED_FRAME static void make_table(void)
{
	void **table = block((1 << 20) - 24);

	table[5000] = block(200);
	table[90000] = block(200);
}

void plant(void)
{
	for (int i = 0; i < 3; i++)
		make_table();
}
