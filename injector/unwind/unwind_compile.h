/* The unwind-table compiler: reads .eh_frame, writes a table of common/unwind_table.h.
 *
 * A pure function of byte buffers. They come from a file or from the target's memory and are
 * hostile: every read is bounded, time is linear in their size (except for the sort), and the
 * result depends only on the input. What no rule can express becomes "unknown"; what cannot be
 * parsed is left out and counted. There the walker falls back to the frame pointer.
 *
 * Sources: DWARF 5 section 6.4, the Linux Standard Base's "Exception Frames" (.eh_frame and its
 * pointer encodings), System V ABI for x86-64 section 3.7. */
#ifndef LIMPET_INJECTOR_UNWIND_UNWIND_COMPILE_H
#define LIMPET_INJECTOR_UNWIND_UNWIND_COMPILE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/err.h"

/* All addresses are run-time addresses in the target (or of one consistent layout, such as the
 * file's own). Pure numbers: nothing is read there. */
struct limpet_unwind_input {
	const uint8_t *eh_frame;
	size_t eh_frame_bytes;
	uint64_t eh_frame_address;
	/* eh_frame_bytes is the exact size of the section: continue after a terminator in its
	 * middle (objects linked after crtend.o). False if the bytes extend to the end of the
	 * segment. */
	bool eh_frame_whole;
	/* Added to absolute pointers in the section: 0 for bytes from memory, which the dynamic
	 * linker has relocated; the load bias for bytes from a file. */
	uint64_t bias;
	/* Bases of the rare DW_EH_PE_textrel and DW_EH_PE_datarel pointers; 0: skip these. */
	uint64_t text_base, data_base;
	/* The range that the table covers, as struct limpet_unwind_module.start and .end; < 4 GiB.
	 */
	uint64_t start, end;
	/* Optional: code in that range, searched for a signal restorer without a description (musl,
	 * Go): `mov $15, %eax|%rax; syscall`. */
	const uint8_t *code;
	size_t code_bytes;
	uint64_t code_address;
	/* With code: address of exit(), 0: unknown. Code without a description that passes the
	 * result of another call to exit() is the outermost frame (musl's exit(main(...))). */
	uint64_t exit_address;
	/* The room for the table, 0: unlimited. For a section that would need more, the compiler
	 * itself uses no more than some tens of times this. */
	size_t max_table_bytes;
};

struct limpet_unwind_stats {
	uint32_t functions;         /* in the table */
	uint32_t functions_skipped; /* unreadable, out of range, or a second one at the same address
				     */
	uint32_t rows, rules;
	uint32_t unknown_rows;
	uint64_t described_bytes; /* of code with a usable rule */
	uint64_t unknown_bytes;   /* of code with a description that no rule can express */
};

/* Returns 0, or -ENOSPC (more than max_table_bytes), -EFBIG (range or table too large), -EINVAL
 * (start > end), -ENOMEM. An input without a single usable function gives a valid table without
 * rows. *ret_table is malloc'ed, *ret_bytes its size: a multiple of LIMPET_UNWIND_ALIGN.
 * `ret_stats` may be NULL. Any thread; no state. */
int limpet_unwind_compile(const struct limpet_unwind_input *input, void **ret_table,
			  size_t *ret_bytes,
			  struct limpet_unwind_stats *ret_stats) LIMPET_MUST_CHECK;

/* Finds .eh_frame from the bytes of .eh_frame_hdr (segment PT_GNU_EH_FRAME), which is at
 * `header_address`. 0, or -EBADMSG, or -ENOTSUP (an encoding that needs more than these bytes). */
int limpet_unwind_find_eh_frame(const uint8_t *header, size_t header_bytes, uint64_t header_address,
				uint64_t *ret_eh_frame_address) LIMPET_MUST_CHECK;

#endif
