/* Which code of a module has no unwind information, and what has to be known to read its frames
 * (frame_code.h). */
#ifndef LIMPET_INJECTOR_UNWIND_MODULE_FRAMES_H
#define LIMPET_INJECTOR_UNWIND_MODULE_FRAMES_H

#include <stdbool.h>
#include <stdint.h>

#include "common/err.h"
#include "common/unwind_table.h"
#include "injector/elf/modules.h"
#include "injector/unwind/frame_reader.h"

struct limpet_target;

/* Whether so much of its code has no description that it was probably built without. Where only a
 * little has none, it is code that others call by frame pointer, such as V8's builtins, which stay
 * as they are. */
bool limpet_module_lacks_frames(const struct limpet_module *module, uint64_t described_bytes);
/* Begins to read them; copies the module for that. 0 or -errno. */
int limpet_module_frames_start(const struct limpet_target *target, struct limpet_module *module,
			       const struct limpet_unwind_table *table,
			       struct limpet_frame_reader *ret) LIMPET_MUST_CHECK;

#endif
