/* posix_memalign writes the block's address to a word of the program's: from then on another thread
 * may use it, change it, or unmap it. So the hook does not read that word. The original writes to
 * the hook's frame, and what it wrote is stored in the program's word, once, as the original would
 * have done. Not for functions that the user has named: they may have other arguments. */
#ifndef LIMPET_AGENT_HOOK_OUT_H
#define LIMPET_AGENT_HOOK_OUT_H

#include <stdbool.h>

#include "agent/hook_frame.h"

/* Of LIMPET_OP_POSIX_MEMALIGN, before its original is called. */
void limpet_out_begin(struct limpet_hook_frame *frame, const struct limpet_hook *hook);
/* When it has returned, before anything else, in a forked child, too. */
void limpet_out_end(struct limpet_hook_frame *frame, const struct limpet_hook *hook);
/* Afterwards: the block, which may be 0. false: unknown. */
bool limpet_out_block(struct limpet_hook_frame *frame, const struct limpet_hook *hook,
		      uint64_t *ret);

#endif
