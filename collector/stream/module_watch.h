/* Keeps up with the modules of the running target: reads its list of them again when the agent
 * reports a change or a frame lies in none of them, finds the module of a frame, and tells when the
 * hooks have to be put in again.
 *
 * What the agent writes is only a hint, or is checked; lists and mappings are read from outside.
 * Private memory; one thread. */
#ifndef LIMPET_COLLECTOR_STREAM_MODULE_WATCH_H
#define LIMPET_COLLECTOR_STREAM_MODULE_WATCH_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "collector/record/recorder.h"
#include "collector/stream/module_table.h"
#include "collector/stream/stack_tree.h"
#include "common/err.h"
#include "injector/session/session.h"

struct limpet_module_watch;

/* Both must outlive it: the session's list of modules is updated, and the recorder gets each new
 * module. */
int limpet_module_watch_new(struct limpet_session *session, struct limpet_recorder *recorder,
			    struct limpet_module_watch **ret) LIMPET_MUST_CHECK;
void limpet_module_watch_free(struct limpet_module_watch *watch);

/* The agent has found new modules since the last update. */
bool limpet_module_watch_is_called(const struct limpet_module_watch *watch);
/* Reads the modules; returns whether anything is new. Call at once when the agent reports new ones:
 * a plugin may be unloaded before the next look. */
bool limpet_module_watch_update(struct limpet_module_watch *watch);
/* The number of a frame's module in the trace; 0: none. ret_made: whether the frame is in
 * JIT-compiled code. */
uint32_t limpet_module_watch_find(struct limpet_module_watch *watch,
				  const struct limpet_stack_node *node, bool *ret_made);
/* Some slot lost its hook, or the loader's list has a module that the agent has not seen. */
bool limpet_module_watch_needs_rescan(struct limpet_module_watch *watch);

/* Looks how many variables that held an allocator's function, and were exchanged, the program has
 * set back to it: the most there were at any look. */
uint32_t limpet_module_watch_set_back(struct limpet_module_watch *watch);

/* The trace's modules; owned by the watch. */
struct limpet_module_table *limpet_module_watch_table(const struct limpet_module_watch *watch);

#endif
