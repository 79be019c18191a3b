/* Call frame information of x86-64: what the unwind-table compiler must know about the CPU. */
#ifndef LIMPET_INJECTOR_UNWIND_ARCH_CFI_MACHINE_H
#define LIMPET_INJECTOR_UNWIND_ARCH_CFI_MACHINE_H

#include <dwarf.h>
#include <stdbool.h>
#include <stdint.h>
#include <string.h>

#include "injector/unwind/cfi_reader.h"

/* DWARF numbers of rbp, rsp and the return address: System V ABI, figure 3.36. */
#define LIMPET_ARCH_DWARF_FP 6u
#define LIMPET_ARCH_DWARF_SP 7u
#define LIMPET_ARCH_DWARF_RA 16u

/* The restorer's frame, relative to rsp after its own address was popped: struct ucontext. */
#define LIMPET_ARCH_UCONTEXT_FP 120
#define LIMPET_ARCH_UCONTEXT_SP 160
#define LIMPET_ARCH_UCONTEXT_PC 168

/* The linkers' expression for lazy binding stubs: rsp + 8, and 8 more from the n-th byte of each
 * 16-byte stub on, after its push (n depends on the form of the stub). */
static inline bool limpet_arch_match_plt(struct limpet_cfi_reader code, int64_t *ret_offset,
					 int64_t *ret_from)
{
	static const uint8_t tail[] = {DW_OP_ge, DW_OP_lit3, DW_OP_shl, DW_OP_plus};
	int64_t offset, from;

	if (limpet_cfi_read_fixed(&code, 1) != DW_OP_breg7)
		return false;
	offset = limpet_cfi_read_sleb(&code);
	if (limpet_cfi_read_fixed(&code, 1) != DW_OP_breg16 || limpet_cfi_read_sleb(&code) != 0 ||
	    limpet_cfi_read_fixed(&code, 1) != DW_OP_lit15 ||
	    limpet_cfi_read_fixed(&code, 1) != DW_OP_and)
		return false;
	from = (int64_t)limpet_cfi_read_fixed(&code, 1) - DW_OP_lit0;
	if (code.bad || from < 0 || from > 31 || (size_t)(code.end - code.at) != sizeof(tail) ||
	    memcmp(code.at, tail, sizeof(tail)) != 0)
		return false;
	*ret_offset = offset;
	*ret_from = from;
	return true;
}

/* The first signal restorer in [code, end), or NULL: `mov $15, %rax|%eax; syscall`. */
static inline const uint8_t *limpet_arch_find_restorer(const uint8_t *code, const uint8_t *end,
						       size_t *ret_bytes)
{
	static const uint8_t call[] = {0x0f, 0, 0, 0, 0x0f, 0x05}; /* 15; syscall */
	const uint8_t *at = code;

	while ((at = memmem(at, (size_t)(end - at), call, sizeof(call))) != NULL) {
		size_t before = at - code >= 3 && memcmp(at - 3, "\x48\xc7\xc0", 3) == 0 ? 3
				: at - code >= 1 && at[-1] == 0xb8                       ? 1
											 : 0;

		if (before != 0) {
			*ret_bytes = before + sizeof(call);
			return at - before;
		}
		at += sizeof(call);
	}
	return NULL;
}

/* The first place in [code, end), whose first byte is at `address`, where exit() is called with the
 * result of a call: `mov %eax, %edi; call exit`. NULL: none. */
static inline const uint8_t *limpet_arch_find_exit_call(const uint8_t *code, const uint8_t *end,
							uint64_t address, uint64_t exit_address)
{
	static const uint8_t call[] = {0x89, 0xc7, 0xe8};
	const uint8_t *at = code;

	while ((at = memmem(at, (size_t)(end - at), call, sizeof(call))) != NULL) {
		const size_t bytes = sizeof(call) + sizeof(int32_t);
		int32_t away;

		if ((size_t)(end - at) < bytes)
			return NULL;
		memcpy(&away, at + sizeof(call), sizeof(away));
		if (address + (uint64_t)(at - code) + bytes + (uint64_t)(int64_t)away ==
		    exit_address)
			return at;
		at++;
	}
	return NULL;
}

#endif
