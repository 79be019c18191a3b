/* The unwind tables of a mapped agent, for the program's own unwinder.
 *
 * The dynamic linker does not list a mapped agent, so an unwinder could not pass a hook's frame: an
 * exception would end the program, and a cancelled thread's destructors would not run. Since glibc
 * 2.35 libgcc looks up the tables of each return address by _dl_find_object. That function is
 * hooked too (limpet_path_finder): for addresses in the agent it returns the entry below, for all
 * others it jumps to the original, also when the agent is switched off, and in a forked child. */
#include "agent/finder.h"
#include "agent/agent.h"

#include <elf.h>
#include <link.h>

/* The result that thunks.S returns. */
struct limpet_found {
	uint64_t low, bytes; /* of the agent; 0: loaded by the program's own linker */
	uint64_t eh_frame;   /* its .eh_frame_hdr */
	struct link_map link_map;
	char name[8];
};
_Static_assert(offsetof(struct limpet_found, low) == 0, "low");
_Static_assert(offsetof(struct limpet_found, bytes) == 8, "FOUND_BYTES");
_Static_assert(offsetof(struct limpet_found, eh_frame) == 16, "FOUND_EH_FRAME");
_Static_assert(offsetof(struct limpet_found, link_map) == 24, "FOUND_LINK_MAP");
struct limpet_found limpet_found;

void limpet_finder_configure(const struct limpet_start *start)
{
	const Elf64_Ehdr *head = (const Elf64_Ehdr *)(uintptr_t)start->map;
	const Elf64_Phdr *phdrs;

	if (!start->map_bytes)
		return;
	phdrs = (const Elf64_Phdr *)(uintptr_t)(start->map + head->e_phoff);
	for (unsigned i = 0; i < head->e_phnum; i++) {
		uint64_t address = start->map + phdrs[i].p_vaddr;

		if (phdrs[i].p_type == PT_GNU_EH_FRAME)
			limpet_found.eh_frame = address;
		else if (phdrs[i].p_type == PT_DYNAMIC)
			limpet_found.link_map.l_ld = (Elf64_Dyn *)(uintptr_t)address;
	}
	limpet_found.low = limpet_found.link_map.l_addr = start->map;
	limpet_found.link_map.l_name = limpet_found.name;
	/* Last: with 0 bytes no address is in the range. */
	limpet_found.bytes = start->map_bytes;
}
