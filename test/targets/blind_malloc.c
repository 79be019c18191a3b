/* blind-malloc.so: an allocator's library, for blind, in whose malloc somebody can be asked to
 * wait. */
#include "test/targets/target.h"

void *__libc_malloc(size_t bytes);
void *malloc(size_t bytes);

/* Called once, in the middle of the next malloc. */
__attribute__((visibility("default"))) void (*blind_asked)(void);

__attribute__((visibility("default"), optimize("no-omit-frame-pointer"))) TARGET_FRAME void *malloc(
	size_t bytes)
{
	static bool is_entered;
	void (*asked)(void) = blind_asked;

	if (is_entered)
		target_broken("malloc was called in the middle of malloc");
	if (asked) {
		blind_asked = NULL;
		is_entered = true;
		asked();
		is_entered = false;
	}
	return __libc_malloc(bytes);
}
