/* Blocks whose only pointers were in the data of a library that was unloaded. */
#include "planted.h"

#include <dlfcn.h>

PLANTED_FRAME static void *make_value(void)
{
	return block(104);
}

void plant(void)
{
	void *library = dlopen(PLANTED_LIBRARY, RTLD_NOW);

	if (!library)
		broken("dlopen");
	void (*hold)(int, void *) = (void (*)(int, void *))dlsym(library, "library_hold");

	for (int i = 0; i < 10; i++)
		hold(i, make_value());
	dlclose(library);
	if (dlopen(PLANTED_LIBRARY, RTLD_NOW | RTLD_NOLOAD))
		broken("the library is still there");
	/* The failure above left a message. */
	dlerror();
	dlerror();
}
