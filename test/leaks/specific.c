/* Held by pthread_setspecific of a thread that lives: keys of the first array, and of one that libc
 * allocates. */
#include "planted.h"

#include <pthread.h>

PLANTED_FRAME static void *make_value(void)
{
	return block(104);
}

static void set(void)
{
	for (int i = 0; i < 40; i++) {
		pthread_key_t key;

		if (pthread_key_create(&key, NULL) || pthread_setspecific(key, make_value()))
			broken("pthread_setspecific");
	}
}

void plant(void)
{
	start_wiped_thread(set);
}
