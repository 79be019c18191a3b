/* The unwind information that copies of stacks need, read from the target while it runs: limpet's
 * own tables and, for libunwind, .eh_frame_hdr and .eh_frame.
 *
 * It is read only of modules to which a register or a word of a copy points: no other can have a
 * frame. The process that unwinds inherits it (stack_reader.h). One thread. */
#ifndef LIMPET_INJECTOR_STACKS_STACK_SCENE_H
#define LIMPET_INJECTOR_STACKS_STACK_SCENE_H

#include <stddef.h>

#include "common/err.h"
#include "injector/elf/modules.h"
#include "injector/stacks/stack_unwind.h"
#include "injector/unwind/unwind_set.h"

struct limpet_stack_sources {
	struct limpet_stack_scene scene;
	/* private */
	struct limpet_unwind_set set;
	struct limpet_stack_module *modules;
};

/* What cannot be read of a module is left out: it is then walked by frame pointer. -ENOMEM. */
int limpet_stack_sources_read(struct limpet_modules *modules,
			      const struct limpet_stack_copy *copies, size_t count,
			      struct limpet_stack_sources *ret) LIMPET_MUST_CHECK;
void limpet_stack_sources_done(struct limpet_stack_sources *sources);

#endif
