/* Describes events that are in order: gives each its time, and the trace the stack that it refers
 * to, with the modules of the stack's frames; then hands them on to the recorder. Leaves out what
 * came after the end of the capture.
 *
 * Times are nanoseconds since the beginning. Private memory; one thread; never prints. All that is
 * passed to limpet_event_describer_new() must outlive the describer. */
#ifndef LIMPET_COLLECTOR_STREAM_EVENT_DESCRIBER_H
#define LIMPET_COLLECTOR_STREAM_EVENT_DESCRIBER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "collector/record/recorder.h"
#include "collector/stream/agent_clock.h"
#include "collector/stream/module_watch.h"
#include "collector/stream/script_names.h"
#include "collector/stream/stack_tree.h"
#include "common/err.h"
#include "injector/session/session.h"

struct limpet_event_describer;

/* NULL: no memory. `scripts` may be NULL. */
struct limpet_event_describer *limpet_event_describer_new(
	struct limpet_session *session, struct limpet_recorder *recorder,
	struct limpet_stack_tree *stacks, struct limpet_module_watch *modules,
	struct limpet_script_names *scripts,
	const struct limpet_agent_clock *clock) LIMPET_MUST_CHECK;
void limpet_event_describer_free(struct limpet_event_describer *describer);

/* Records events, whose nodes are the tree's; it may change them. Of a program that runs scripts
 * they are kept until it settles. */
void limpet_event_describer_add(struct limpet_event_describer *describer,
				struct limpet_record *records, size_t count);
/* Call when all that was read is put: records what was kept. */
void limpet_event_describer_settle(struct limpet_event_describer *describer);
/* The number of events that were put since the last call, or the first -errno of the recorder since
 * then. */
int64_t limpet_event_describer_pop_recorded(struct limpet_event_describer *describer);

/* Of the last event; 0: there is none. */
uint64_t limpet_event_describer_last_time_ns(const struct limpet_event_describer *describer);
/* Events for whose stack the trace had no room. */
uint64_t limpet_event_describer_lost_stacks(const struct limpet_event_describer *describer);
/* See limpet_collector_judge_named() and limpet_collector_describe_site(). */
void limpet_event_describer_judge_named(const struct limpet_event_describer *describer,
					char *ret_words, size_t bytes);
bool limpet_event_describer_describe_site(const struct limpet_event_describer *describer,
					  uint32_t node, char *ret, size_t bytes);

#endif
