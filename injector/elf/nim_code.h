/* Finds copies of two functions of Nim's allocator in a function's code.
 *
 * gcc inlines rawAlloc and rawDealloc (lib/system/alloc.nim) into the functions that call them, so
 * that their own entries see only a part of the calls. Each copy calls one of a few functions that
 * are too large to be inlined, and is found by these calls; then its characteristic instructions
 * are counted.
 *
 * Pure: works on copies of bytes. */
#ifndef LIMPET_INJECTOR_ELF_NIM_CODE_H
#define LIMPET_INJECTOR_ELF_NIM_CODE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/err.h"

#define LIMPET_NIM_TARGETS_MAX 16u
#define LIMPET_NIM_SITES_MAX 8u
#define LIMPET_NIM_SMALL_CHUNK 4096u /* of a small chunk; no large block is as small */

/* The functions that copies call: to get a chunk, and to put one back. */
struct limpet_nim_targets {
	uint64_t get[LIMPET_NIM_TARGETS_MAX], put[LIMPET_NIM_TARGETS_MAX];
	size_t get_count, put_count;
};

struct limpet_nim_code {
	unsigned gets, puts; /* calls of these, and jumps to them */
	unsigned huge;       /* comparisons with the size of a huge chunk: one in each whole copy */
	unsigned small;      /* with the size of the largest small block: two in each whole copy */
	/* The instruction that turns a block's address into that of its page, once in each copy of
	 * rawDealloc, and its register. */
	struct limpet_nim_page {
		uint64_t address;
		unsigned reg; /* by the processor's number */
		size_t bytes;
	} pages[LIMPET_NIM_SITES_MAX];
	size_t page_count;
	/* Calls that get a chunk, of 5 bytes; size 0: not a constant. */
	struct limpet_nim_call {
		uint64_t address, target, size;
	} calls[LIMPET_NIM_SITES_MAX];
	size_t call_count;
};

/* Whether an instruction at `address`, of which `code` is a copy of at least 6 bytes, may call or
 * jump to one of the targets. */
bool limpet_nim_code_leads(const uint8_t *code, uint64_t address,
			   const struct limpet_nim_targets *targets);
/* Reads one function. 0, -ENOTSUP: more than there is room for, or not code; -ENOMEM. */
int limpet_nim_code_read(const uint8_t *code, size_t bytes, uint64_t address,
			 const struct limpet_nim_targets *targets,
			 struct limpet_nim_code *ret) LIMPET_MUST_CHECK;

#endif
