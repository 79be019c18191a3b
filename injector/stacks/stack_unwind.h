/* Unwinds the copy of a thread's registers and stack, by libunwind where a module has a search
 * table of unwind information, by limpet's own walker (common/unwind_walk.h) elsewhere: in code
 * without a description, in modules without such a table (programs linked with -static), and where
 * libunwind stops short.
 *
 * libunwind knows all registers, the walker only the stack and frame pointers; the walker passes
 * frames without a description. libunwind reads through functions of this module (its "remote"
 * interface). None of libunwind-ptrace's accessors fits: _UPT_access_mem() and _UPT_access_reg()
 * read a thread that stands all the while, and _UPT_find_proc_info() opens files by name.
 *
 * The copies are hostile, and so is what libunwind makes of them: only a confined process may call
 * this (stack_reader.h). It ends after LIMPET_STACKS_FRAMES frames and a bounded number of reads,
 * whatever they contain. No state but libunwind's own; one thread. */
#ifndef LIMPET_INJECTOR_STACKS_STACK_UNWIND_H
#define LIMPET_INJECTOR_STACKS_STACK_UNWIND_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/arch.h"
#include "common/err.h"
#include "common/unwind_walk.h"
#include "injector/stacks/stack_thread.h"

/* clang-format off */
#include LIMPET_ARCH_STRING(injector/stacks/arch/LIMPET_ARCH/unwind_registers.h)
/* clang-format on */

#define LIMPET_STACKS_FRAMES 512u

/* `bytes` bytes from the stack pointer on. */
struct limpet_stack_copy {
	uint64_t registers[LIMPET_ARCH_UNWIND_REGISTERS];
	uint8_t *stack;
	size_t bytes;
};

/* A module's unwind information, copied from `address` on. */
struct limpet_stack_module {
	uint64_t start, end; /* of the module */
	uint64_t header;     /* of .eh_frame_hdr */
	uint64_t table;      /* its search table */
	uint32_t entries;    /* in the table; 0: there is none, and nothing is copied */
	uint64_t address;
	uint8_t *data;
	size_t bytes;
};

/* What belongs to all threads; borrowed. */
struct limpet_stack_scene {
	const struct limpet_stack_module *modules; /* sorted, without overlaps */
	size_t module_count;
	struct limpet_walk_map map; /* limpet's own tables */
	bool without_libunwind;
};

struct limpet_unwound {
	enum limpet_walk_end end;
	uint32_t count;
	struct limpet_stack_frame frames[LIMPET_STACKS_FRAMES]; /* the innermost first */
};

/* 0 or -ENOMEM. */
int limpet_stack_unwind(const struct limpet_stack_scene *scene,
			const struct limpet_stack_copy *copy,
			struct limpet_unwound *ret) LIMPET_MUST_CHECK;

#endif
