/* A module that comes late, and calls an allocator by other names (names_alias.c). */
#include <stddef.h>

void *alias_malloc(size_t bytes);
void alias_free(void *block);
void names_late(unsigned long count);

__attribute__((noinline, visibility("default"))) void names_late(unsigned long count)
{
	while (count--)
		alias_free(alias_malloc(24));
}
