/* Names for the JavaScript functions on stacks, which have no code of their own: reads from outside
 * what V8's objects tell about them, while the stacks are fresh, and adds the names to the trace.
 *
 * What is read is hostile, and moves: names are copied, bounded, and given only as long as the
 * function's objects prove them; they are looked at again and again. If another function's code may
 * have come to the same address, its frames lose their name: they are "(JavaScript)", never
 * another's.
 *
 * Private memory, bounded; one thread; never blocks; never prints. */
#ifndef LIMPET_COLLECTOR_STREAM_SCRIPT_NAMES_H
#define LIMPET_COLLECTOR_STREAM_SCRIPT_NAMES_H

#include <stdbool.h>
#include <stdint.h>

#include "collector/record/recorder.h"
#include "collector/stream/stack_tree.h"
#include "common/err.h"
#include "common/wire.h"
#include "injector/session/session.h"

struct limpet_script_names;

/* Tells the agent where the interpreter is, and the tree to pass on functions: call before the
 * attach. *ret NULL: the program has no V8, or none that limpet knows. All must outlive it.
 * -ENOMEM.
 */
int limpet_script_names_new(struct limpet_session *session, struct limpet_recorder *recorder,
			    struct limpet_stack_tree *stacks,
			    struct limpet_script_names **ret) LIMPET_MUST_CHECK;
void limpet_script_names_free(struct limpet_script_names *names);

/* Call before chunks are read: bounds how much is read of the program until the next call. Reads
 * what there was no time for. */
void limpet_script_names_begin(struct limpet_script_names *names);
/* Call after chunks were read, and before what was read goes to the trace: whether frames have
 * become ones of other functions since the last call. A frame of which
 * limpet_script_names_is_doubtful() holds may have been either's in between. */
bool limpet_script_names_check(struct limpet_script_names *names);
bool limpet_script_names_is_doubtful(const struct limpet_script_names *names,
				     const struct limpet_stack_node *frame);
/* The address of a frame that stands for one that may be any function's. */
#define LIMPET_SCRIPT_NAMES_ANY LIMPET_FRAME_INTERPRETED
/* The address by which the trace names the frame; 0: it is none of a script, or has no name and is
 * named by its own address, if at all. */
uint64_t limpet_script_names_address(struct limpet_script_names *names,
				     const struct limpet_stack_node *frame);

#endif
