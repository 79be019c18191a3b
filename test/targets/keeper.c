/* keeper: calls malloc and free by variables, and has noted which malloc that was, as babl does: a
 * change of it is a fault ("changed"). "work N": N blocks. "quit". */
#include "test/targets/target.h"

static void *(*volatile take)(size_t) = malloc;
static void (*volatile give)(void *) = free;
static void *(*volatile noted)(size_t);

TARGET_FRAME static void keeper_work(unsigned long count)
{
	while (count--) {
		char *block = take(1000);

		if (noted != take)
			target_broken("changed");
		TARGET_KEEP_FRAME();
		give(block);
	}
}

int main(void)
{
	noted = take;
	keeper_work(1);
	target_serve("work", keeper_work, "worked");
	return 0;
}
