/* A program that compares: the address of malloc that its code loads, that of a table which the
 * linker has filled in, and what dlsym answers. */
#include <dlfcn.h>

#include "test/targets/target.h"

typedef void *allocate_fn(size_t);

extern allocate_fn *volatile equal_table[1];
allocate_fn *volatile equal_table[1] = {malloc};

/* Of its own: no register keeps an address when it has returned. */
TARGET_FRAME static void equal_compare(void *libc)
{
	allocate_fn *volatile loaded = malloc;
	const void *mine = (const void *)(uintptr_t)loaded;

	if (mine != dlsym(libc, "malloc"))
		target_broken("dlsym answers another malloc");
	if (mine != dlsym(RTLD_DEFAULT, "malloc"))
		target_broken("dlsym by default answers another malloc");
	if (equal_table[0] != loaded)
		target_broken("the table has another malloc");
}

int main(void)
{
	void *libc = dlopen("libc.so.6", RTLD_NOW | RTLD_NOLOAD);
	char line[64];

	target_say("ready %d", getpid());
	while (target_listen(line, sizeof(line)) && strcmp(line, "quit") != 0) {
		equal_compare(libc);
		target_say("equal");
	}
	return 0;
}
