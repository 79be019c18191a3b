/* Held by libc: a stream whose pointer is dropped, the argument of a function for the end, the
 * environment. */
#include "planted.h"

#include <stdio.h>
#include <stdlib.h>

static void at_end(int status, void *argument)
{
	(void)status;
	(void)argument;
}

PLANTED_FRAME static void *make_argument(void)
{
	return block(104);
}

void plant(void)
{
	FILE *stream = fopen("/dev/null", "w");

	if (!stream || fputs("buffered", stream) < 0 || setenv("PLANTED", "a value on the heap", 1))
		broken("libc");
	stream = NULL;
	for (int i = 0; i < 3; i++)
		on_exit(at_end, make_argument());
}
