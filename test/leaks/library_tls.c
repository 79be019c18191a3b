/* Held by a thread-local variable of a library that was loaded later, in the main thread and in
 * another: libc allocates room for it in the heap. */
#include "planted.h"

#include <dlfcn.h>

static void (*library_hold)(void *);

PLANTED_FRAME static void *make_value(void)
{
	return block(104);
}

static void hold(void)
{
	library_hold(make_value());
}

void plant(void)
{
	void *library = dlopen(PLANTED_LIBRARY, RTLD_NOW);

	if (!library)
		broken("dlopen");
	*(void **)&library_hold = dlsym(library, "library_hold_local");
	wiped(hold);
	start_wiped_thread(hold);
}
