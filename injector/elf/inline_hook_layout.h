/* The hook area of a module with inline hooks. It describes by itself what to restore, and is
 * complete before the first byte of the program changes: whoever finds it can undo everything. */
#ifndef LIMPET_INJECTOR_ELF_INLINE_HOOK_LAYOUT_H
#define LIMPET_INJECTOR_ELF_INLINE_HOOK_LAYOUT_H

#include <stdint.h>

#include "injector/elf/entry_code.h"

#define LIMPET_INLINE_HOOK_MAGIC 0x31504d4a504d494cull /* "LIMPJMP1" */

struct limpet_inline_hook_head {
	uint64_t magic;
	uint32_t count;
	uint32_t pad;
	uint64_t inode; /* of the module's file; 0: not known */
	uint64_t reserved[5];
};

struct limpet_inline_hook_entry {
	uint8_t stub[3];                             /* jumps to `keep` */
	uint8_t go[2];                               /* movabs $thunk, %r11 */
	uint8_t thunk[8];                            /* its address, in the agent */
	uint8_t go_thunk[3];                         /* jmp *%r11 */
	uint8_t prologue[4 + LIMPET_ENTRY_CODE_MAX]; /* endbr64, and the relocated instructions */
	uint8_t original[LIMPET_ENTRY_JUMP_BYTES], jump[LIMPET_ENTRY_JUMP_BYTES];
	uint8_t pad[2];
	uint64_t from; /* where `jump` replaces `original` */
	/* Saves what a thunk uses for itself, and jumps to `go`; in the middle of a function it
	 * first skips the red zone. */
	uint8_t keep[24];
};
_Static_assert(sizeof(struct limpet_inline_hook_head) == 64, "entries are aligned");
_Static_assert(sizeof(struct limpet_inline_hook_entry) == 128, "entries are aligned");

#define LIMPET_INLINE_HOOK_BYTES(count)           \
	(sizeof(struct limpet_inline_hook_head) + \
	 (uint64_t)(count) * sizeof(struct limpet_inline_hook_entry))
/* Offset of the relocated code of the first entry. */
#define LIMPET_INLINE_HOOK_CODE_OFFSET (sizeof(struct limpet_inline_hook_head) + 16 + 4)

#endif
