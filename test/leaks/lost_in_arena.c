/* Lost blocks of a thread that lives, in an arena of its own. */
#include "planted.h"

PLANTED_FRAME static void make_request(void)
{
	block(120);
}

static void serve(void)
{
	for (int i = 0; i < 20; i++)
		make_request();
}

void plant(void)
{
	start_wiped_thread(serve);
}
