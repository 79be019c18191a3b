/* dlerror's message of a failure that nobody has asked about: held by a thread-local variable of
 * libc. */
#include "planted.h"

#include <dlfcn.h>

static void fail(void)
{
	if (dlopen("/nonexistent/library.so", RTLD_NOW))
		broken("a library that is not there");
}

void plant(void)
{
	fail();
	start_wiped_thread(fail);
}
