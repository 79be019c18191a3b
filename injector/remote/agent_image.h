/* The agent's file, embedded in limpet, and what the injector must know about it. */
#ifndef LIMPET_INJECTOR_REMOTE_AGENT_IMAGE_H
#define LIMPET_INJECTOR_REMOTE_AGENT_IMAGE_H

#include <elf.h>
#include <stddef.h>
#include <stdint.h>

#include "common/wire.h"

#define LIMPET_AGENT_BUILD_ID_BYTES 20u

struct limpet_agent_image {
	const uint8_t *bytes;
	size_t size;
	uint64_t text_offset, text_bytes; /* of the executable segment in the file, whole pages */
	uint64_t text_address;            /* from the load bias */
	uint64_t boot_entry;    /* offset of the boot stub from the start of that segment */
	uint64_t thunks_offset; /* offset in the file of the page with the code of the thunks */
	uint64_t info_offset;   /* of limpet_agent_info, from the load bias */
	/* How it lies in memory, if it is mapped without a dynamic linker; `layout.bytes` are whole
	 * pages, the rest of which are zeros. */
	struct limpet_boot_map layout;
	/* As it lies in memory, up to its zeros, relocated (limpet_agent_image_relocate), but
	 * without the first byte of its head: until the stub puts that there, it is no module, but
	 * a leftover if limpet dies. */
	uint8_t *memory;
	uint64_t memory_bytes;
	const Elf64_Rela *relocations; /* relative ones, of addresses within `memory` */
	uint64_t relocation_count;
	uint32_t readable; /* PROT_READ, if all of it has to be mapped as readable, too; else 0 */
	uint8_t build_id[LIMPET_AGENT_BUILD_ID_BYTES];
};

/* Parsed once; -ENOEXEC only if the build is broken. */
int limpet_agent_image_get(const struct limpet_agent_image **ret);
/* Makes the addresses in `memory` those of an image that lies at `start`. */
void limpet_agent_image_relocate(const struct limpet_agent_image *image, uint64_t start);
/* Writes it to a file that it closes again, before a thread stands until it is written. */
void limpet_agent_image_rehearse(void);

#endif
