/* wrapper: has put functions of its own into its slots of malloc and free, as plthook does: they
 * put a mark before each block, and a block without it, or a call that passes them by, is a fault.
 * "work N": N blocks. "quit". */
#include <dlfcn.h>
#include <link.h>

#include "test/targets/target.h"

enum { MARK_BYTES = 16 };
static const uint64_t mark = 0x600d600d600d600d;

static void *(*next_malloc)(size_t);
static void (*next_free)(void *);
static unsigned long calls;

static void *marked_malloc(size_t bytes)
{
	char *block = next_malloc(bytes + MARK_BYTES);

	calls++;
	memcpy(block, &mark, sizeof(mark));
	return block + MARK_BYTES;
}

static void marked_free(void *block)
{
	calls++;
	if (!block)
		return;
	if (memcmp((char *)block - MARK_BYTES, &mark, sizeof(mark)) != 0)
		target_broken("a block that passed the wrapper by");
	next_free((char *)block - MARK_BYTES);
}

static void replace(const char *name, void *function)
{
	const struct link_map *map = dlopen(NULL, RTLD_NOW);
	const ElfW(Sym) *symbols = NULL;
	const ElfW(Rela) *slots = NULL;
	const char *names = NULL;
	size_t bytes = 0;

	for (const ElfW(Dyn) *entry = map->l_ld; entry->d_tag; entry++)
		if (entry->d_tag == DT_SYMTAB)
			symbols = (const ElfW(Sym) *)entry->d_un.d_ptr;
		else if (entry->d_tag == DT_STRTAB)
			names = (const char *)entry->d_un.d_ptr;
		else if (entry->d_tag == DT_JMPREL)
			slots = (const ElfW(Rela) *)entry->d_un.d_ptr;
		else if (entry->d_tag == DT_PLTRELSZ)
			bytes = entry->d_un.d_val;
	for (size_t i = 0; i < bytes / sizeof(*slots); i++)
		if (!strcmp(names + symbols[ELF64_R_SYM(slots[i].r_info)].st_name, name))
			*(void **)(map->l_addr + slots[i].r_offset) = function;
}

TARGET_FRAME static void wrapper_work(unsigned long count)
{
	const unsigned long before = calls;

	for (unsigned long i = 0; i < count; i++) {
		char *volatile block = malloc(100 + i % 400);

		TARGET_KEEP_FRAME();
		free(block);
	}
	if (calls != before + 2 * count)
		target_broken("calls passed the wrapper by");
}

int main(void)
{
	next_malloc = (void *(*)(size_t))dlsym(RTLD_NEXT, "malloc");
	next_free = (void (*)(void *))dlsym(RTLD_NEXT, "free");
	replace("malloc", (void *)marked_malloc);
	replace("free", (void *)marked_free);
	target_serve("work", wrapper_work, "worked");
	return 0;
}
