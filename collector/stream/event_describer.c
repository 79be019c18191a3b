#include "collector/stream/event_describer.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "collector/stream/plausible.h"
#include "common/array.h"
#include "common/wire.h"

/* Nodes of a stack: its frames, and its owner. */
#define MAX_NODE_CHAIN (LIMPET_STACK_FRAMES + 1)
#define MOVED_LIMIT 64u /* more are taken as released */
#define KEPT_LIMIT 65536u

struct limpet_event_describer {
	struct limpet_session *session;
	struct limpet_recorder *recorder;
	struct limpet_stack_tree *stacks;
	struct limpet_module_watch *modules;
	struct limpet_script_names *scripts; /* NULL: there are none */
	const struct limpet_agent_clock *clock;
	uint64_t last_time_ns;                   /* of a record */
	uint64_t lost_stacks;                    /* events */
	int64_t recorded;                        /* since they were taken */
	int record_error;                        /* the first one since then */
	struct limpet_record moved[MOVED_LIMIT]; /* see find_moved() */
	size_t moved_count;
	bool has_named;  /* functions that the user named */
	bool has_doubts; /* there are stacks that are doubted */
	struct limpet_record *kept;
	size_t kept_count, kept_capacity;
	struct limpet_plausible plausible;
};

struct limpet_event_describer *limpet_event_describer_new(struct limpet_session *session,
							  struct limpet_recorder *recorder,
							  struct limpet_stack_tree *stacks,
							  struct limpet_module_watch *modules,
							  struct limpet_script_names *scripts,
							  const struct limpet_agent_clock *clock)
{
	struct limpet_event_describer *describer = calloc(1, sizeof(*describer));

	if (!describer)
		return NULL;
	describer->session = session;
	describer->recorder = recorder;
	describer->stacks = stacks;
	describer->modules = modules;
	describer->scripts = scripts;
	describer->clock = clock;
	describer->has_named = limpet_session_has_named(session);
	return describer;
}

void limpet_event_describer_free(struct limpet_event_describer *describer)
{
	if (!describer)
		return;
	free(describer->kept);
	free(describer);
}

/* ---------------------------------------------------------------- stacks */

static int add_node(struct limpet_event_describer *describer, uint32_t node)
{
	const struct limpet_stack_node *it = limpet_stack_tree_node(describer->stacks, node);
	bool is_owner = it->flags & LIMPET_STACK_NODE_OWNER;
	uint64_t script = !is_owner && describer->scripts
				  ? limpet_script_names_address(describer->scripts, it)
				  : 0;
	bool made = script;
	uint32_t module =
		is_owner || made ? 0 : limpet_module_watch_find(describer->modules, it, &made);
	uint32_t flags = is_owner ? LIMPET_TRACE_NODE_OWNER : made ? LIMPET_TRACE_NODE_MADE : 0;

	if (is_owner && !limpet_session_owner(describer->session, (uint32_t)it->address))
		flags = 0;
	if (it->flags & LIMPET_STACK_NODE_TRUNCATED)
		flags |= LIMPET_TRACE_NODE_TRUNCATED;
	return limpet_recorder_add_node(describer->recorder, node, it->parent,
					script ? script : it->address, module, flags);
}

/* Adds a stack to the trace, outermost frame first; returns its node. Each node is added once: one
 * that was refused would be refused again. */
static uint32_t describe_node(struct limpet_event_describer *describer, uint32_t node)
{
	uint32_t chain[MAX_NODE_CHAIN], count = 0, at = node;
	enum limpet_stack_mark mark = LIMPET_STACK_MARKED;

	while (at &&
	       (mark = limpet_stack_tree_mark(describer->stacks, at)) == LIMPET_STACK_NOT_MARKED) {
		chain[count++] = at;
		at = limpet_stack_tree_node(describer->stacks, at)->parent;
	}
	while (count) {
		at = chain[--count];
		if (mark == LIMPET_STACK_MARK_REFUSED || add_node(describer, at) < 0) {
			limpet_stack_tree_refuse(describer->stacks, at);
			mark = LIMPET_STACK_MARK_REFUSED;
		}
	}
	if (mark != LIMPET_STACK_MARK_REFUSED)
		return node;
	describer->lost_stacks++;
	return 0;
}

/* ---------------------------------------------------------------- events */

/* For functions that the user named: their stacks have the owner. */
static void check_plausible(struct limpet_event_describer *describer,
			    const struct limpet_record *record)
{
	const struct limpet_stack_node *node;

	if (record->kind == LIMPET_EVENT_FREE || record->freed)
		limpet_plausible_released(&describer->plausible, record->address);
	if (record->kind != LIMPET_EVENT_ALLOC || !record->node)
		return;
	node = limpet_stack_tree_node(describer->stacks, record->node);
	if (node->flags & LIMPET_STACK_NODE_OWNER)
		limpet_plausible_made(&describer->plausible,
				      limpet_session_target(describer->session),
				      (uint32_t)node->address, record->address, record->size);
}

/* Times in the trace do not decrease, but a record may have waited for another. */
static uint64_t time_of(struct limpet_event_describer *describer, uint32_t stamp)
{
	const uint64_t time_ns = limpet_agent_clock_time_of(describer->clock, stamp);

	if (time_ns > describer->last_time_ns)
		describer->last_time_ns = time_ns;
	return describer->last_time_ns;
}

static void set_times(struct limpet_event_describer *describer, struct limpet_record *records,
		      size_t count)
{
	for (size_t i = 0; i < count; i++)
		records[i].time_ns = i && records[i].time == records[i - 1].time
					     ? records[i - 1].time_ns
					     : time_of(describer, records[i].time);
}

static void pass_on(struct limpet_event_describer *describer, struct limpet_record *records,
		    size_t count)
{
	size_t at = 0;
	int error;

	set_times(describer, records, count);
	while ((at = limpet_recorder_find_unknown(describer->recorder, records, at, count)) <
	       count) {
		records[at].node = describe_node(describer, records[at].node);
		at++;
	}
	for (size_t i = 0; i < count && describer->has_named; i++)
		check_plausible(describer, &records[i]);
	error = limpet_recorder_add_events(describer->recorder, records, count);
	if (error < 0 && !describer->record_error)
		describer->record_error = error;
}

/* The release of a block that a realloc under way at the end had moved, and that another thread has
 * got before the end. NULL: there is none. */
static struct limpet_record *find_moved(struct limpet_event_describer *describer, uint64_t address)
{
	for (size_t i = 0; i < describer->moved_count; i++)
		if (describer->moved[i].address == address)
			return &describer->moved[i];
	return NULL;
}

/* Leaves out what came after the end, and calls that had not returned by then. */
static void pass_on_up_to_end(struct limpet_event_describer *describer,
			      struct limpet_record *records, size_t count)
{
	size_t kept = 0;

	for (size_t i = 0; i < count; i++) {
		struct limpet_record *moved;

		if (limpet_agent_clock_is_after_end(describer->clock, records[i].time))
			continue;
		if (records[i].if_reused && describer->moved_count < MOVED_LIMIT) {
			describer->moved[describer->moved_count++] = records[i];
			continue;
		}
		moved = describer->moved_count && records[i].kind == LIMPET_EVENT_ALLOC
				? find_moved(describer, records[i].address)
				: NULL;
		if (moved) {
			pass_on(describer, records, kept);
			kept = 0;
			pass_on(describer, moved, 1);
			*moved = describer->moved[--describer->moved_count];
		}
		records[kept++] = records[i];
	}
	pass_on(describer, records, kept);
}

static void pass_on_now(struct limpet_event_describer *describer, struct limpet_record *records,
			size_t count)
{
	if (limpet_agent_clock_has_ended(describer->clock))
		pass_on_up_to_end(describer, records, count);
	else
		pass_on(describer, records, count);
}

/* The same stack, in which frames that may be of another function by now are no function's. */
static uint32_t without_doubt(struct limpet_event_describer *describer, uint32_t node)
{
	uint32_t chain[MAX_NODE_CHAIN], count = 0, at = 0;

	for (; node && count < MAX_NODE_CHAIN;
	     node = limpet_stack_tree_node(describer->stacks, node)->parent)
		chain[count++] = node;
	while (count) {
		const struct limpet_stack_node *it =
			limpet_stack_tree_node(describer->stacks, chain[--count]);
		const bool doubtful = limpet_script_names_is_doubtful(describer->scripts, it);

		at = limpet_stack_tree_again(describer->stacks, at, chain[count],
					     doubtful ? LIMPET_SCRIPT_NAMES_ANY : it->address);
		if (!at)
			return 0;
	}
	return at;
}

static bool is_doubtful(void *context, const struct limpet_stack_node *frame)
{
	return limpet_script_names_is_doubtful(context, frame);
}

void limpet_event_describer_settle(struct limpet_event_describer *describer)
{
	if (!describer->scripts)
		return;
	if (limpet_script_names_check(describer->scripts)) {
		limpet_stack_tree_doubt(describer->stacks, is_doubtful, describer->scripts);
		describer->has_doubts = true;
	}
	for (size_t i = 0; i < describer->kept_count && describer->has_doubts; i++) {
		struct limpet_record *record = &describer->kept[i];

		if (limpet_stack_tree_is_doubted(describer->stacks, record->node))
			record->node = without_doubt(describer, record->node);
	}
	pass_on_now(describer, describer->kept, describer->kept_count);
	describer->kept_count = 0;
}

static bool keep(struct limpet_event_describer *describer, const struct limpet_record *records,
		 size_t count)
{
	if (limpet_reserve(&describer->kept, &describer->kept_capacity,
			   describer->kept_count + count, sizeof(*describer->kept)) < 0)
		return false;
	memcpy(describer->kept + describer->kept_count, records, count * sizeof(*records));
	describer->kept_count += count;
	return true;
}

void limpet_event_describer_add(struct limpet_event_describer *describer,
				struct limpet_record *records, size_t count)
{
	describer->recorded += (int64_t)count;
	if (!describer->scripts) {
		pass_on_now(describer, records, count);
		return;
	}
	if (describer->kept_count >= KEPT_LIMIT)
		limpet_event_describer_settle(describer);
	if (keep(describer, records, count))
		return;
	limpet_event_describer_settle(describer);
	pass_on_now(describer, records, count);
}

int64_t limpet_event_describer_pop_recorded(struct limpet_event_describer *describer)
{
	const int64_t recorded =
		describer->record_error ? describer->record_error : describer->recorded;

	describer->recorded = 0;
	describer->record_error = 0;
	return recorded;
}

uint64_t limpet_event_describer_last_time_ns(const struct limpet_event_describer *describer)
{
	return describer->last_time_ns;
}

uint64_t limpet_event_describer_lost_stacks(const struct limpet_event_describer *describer)
{
	return describer->lost_stacks;
}

bool limpet_event_describer_describe_site(const struct limpet_event_describer *describer,
					  uint32_t node, char *ret, size_t bytes)
{
	struct limpet_modules *modules = limpet_session_modules(describer->session);
	const unsigned far_enough = 16;

	for (unsigned i = 0; i < far_enough; i++) {
		const struct limpet_stack_node *it =
			limpet_stack_tree_node(describer->stacks, node);
		const struct limpet_module *module;
		const char *name;

		if (!it)
			return false;
		module = limpet_modules_find(modules, it->address - 1);
		name = module ? strrchr(module->path, '/') : NULL;
		node = it->parent;
		name = name ? name + 1 : module ? module->path : "";
		/* Where operator new is. */
		if (!strncmp(name, "libstdc++.so", 12) || !strncmp(name, "libc++.so", 9))
			continue;
		if (!module || limpet_module_has_malloc(modules->target,
							(struct limpet_module *)(uintptr_t)module))
			continue;
		snprintf(ret, bytes, "one stack of %s", name);
		return true;
	}
	return false;
}

static const char *owner_name(const void *context, uint32_t owner)
{
	const char *name = limpet_session_owner(context, owner);

	return name ? name : "unknown";
}

void limpet_event_describer_judge_named(const struct limpet_event_describer *describer,
					char *ret_words, size_t bytes)
{
	limpet_plausible_judge(&describer->plausible, owner_name, describer->session, ret_words,
			       bytes);
}
