#include "collector/stream/collector.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "collector/stream/agent_clock.h"
#include "collector/stream/agent_counts.h"
#include "collector/stream/chunk_reader.h"
#include "collector/stream/event_describer.h"
#include "collector/stream/look_ahead.h"
#include "collector/stream/module_watch.h"
#include "collector/stream/other_stacks.h"
#include "collector/stream/reorder.h"
#include "collector/stream/script_names.h"
#include "collector/stream/stack_tree.h"
#include "collector/stream/target_memory.h"
#include "collector/stream/thread_states.h"
#include "common/arch.h"
#include "common/clock.h"
#include "common/wire.h"

struct limpet_collector {
	struct limpet_session *session;
	struct limpet_recorder *recorder;
	struct limpet_shm *shm;
	/* What events go through, from the shared memory to the recorder. */
	struct limpet_chunk_reader *reader;
	struct limpet_reorder *reorder;
	struct limpet_event_describer *describer;
	/* What these look up. */
	struct limpet_agent_clock clock;
	struct limpet_stack_tree *stacks;
	struct limpet_look_ahead *ahead;
	struct limpet_module_watch *modules;
	struct limpet_script_names *scripts; /* NULL: the program runs none */
	/* What goes on beside the events. */
	struct limpet_thread_states *states;
	struct limpet_other_stacks *other_stacks;
	struct limpet_agent_counts *counts;
	struct limpet_target_memory memory;
	uint32_t noted;    /* LIMPET_NOTED_*, as of the end */
	uint32_t set_back; /* variables, as of the end */
	uint64_t turn_ns;  /* duration of LIMPET_TURN_PAUSES on this processor */
	uint32_t bell;     /* shm->bell before the last drain */
	bool called;       /* it had changed since the drain before */
	bool more;         /* the last drain left something unread */
};

/* ---------------------------------------------------------------- life */

/* How long a thread of the target takes for one turn of waiting for room: it cannot read a clock.
 * The minimum of several runs, as this thread may be preempted. */
static uint64_t measure_turn_ns(void)
{
	uint64_t least_ns = UINT64_MAX;

	for (unsigned i = 0; i < 16; i++) {
		uint64_t began_ns = limpet_monotonic_ns(), took_ns;

		for (unsigned k = 0; k < LIMPET_TURN_PAUSES; k++)
			limpet_pause();
		took_ns = limpet_monotonic_ns() - began_ns;
		if (took_ns < least_ns)
			least_ns = took_ns;
	}
	return least_ns ? least_ns : 1;
}

/* From the recorder upwards: each part gets the one that comes after it. */
static int make_parts(struct limpet_collector *collector)
{
	struct limpet_session *session = collector->session;
	const struct limpet_segment *segment = limpet_session_segment(session);
	int error = limpet_module_watch_new(session, collector->recorder, &collector->modules);

	if (error)
		return error;
	collector->stacks = limpet_stack_tree_new();
	collector->counts = limpet_agent_counts_new(segment);
	collector->other_stacks = limpet_other_stacks_new(session);
	if (!collector->stacks || !collector->counts || !collector->other_stacks)
		return -ENOMEM;
	error = limpet_script_names_new(session, collector->recorder, collector->stacks,
					&collector->scripts);
	if (error)
		return error;
	collector->ahead = limpet_look_ahead_new(segment, collector->stacks);
	collector->describer = limpet_event_describer_new(session, collector->recorder,
							  collector->stacks, collector->modules,
							  collector->scripts, &collector->clock);
	if (!collector->ahead || !collector->describer)
		return -ENOMEM;
	collector->reorder = limpet_reorder_new(collector->describer);
	if (!collector->reorder)
		return -ENOMEM;
	collector->reader = limpet_chunk_reader_new(segment, collector->stacks, collector->ahead,
						    collector->reorder, &collector->clock);
	if (!collector->reader)
		return -ENOMEM;
	collector->states = limpet_thread_states_new(session, collector->recorder,
						     collector->reader, collector->counts);
	return collector->states ? 0 : -ENOMEM;
}

int limpet_collector_new(struct limpet_session *session, struct limpet_recorder *recorder,
			 struct limpet_collector **ret)
{
	struct limpet_collector *collector = calloc(1, sizeof(*collector));
	int error;

	if (!collector)
		return -ENOMEM;
	collector->session = session;
	collector->recorder = recorder;
	collector->shm = limpet_session_segment(session)->shm;
	collector->turn_ns = measure_turn_ns();
	limpet_agent_clock_init(&collector->clock, collector->shm);
	limpet_target_memory_init(&collector->memory, session);
	error = make_parts(collector);
	if (!error)
		error = limpet_recorder_take_passes(recorder);
	if (error) {
		limpet_collector_free(collector);
		return error;
	}
	*ret = collector;
	return 0;
}

void limpet_collector_free(struct limpet_collector *collector)
{
	if (!collector)
		return;
	limpet_thread_states_free(collector->states);
	limpet_chunk_reader_free(collector->reader);
	limpet_reorder_free(collector->reorder);
	limpet_event_describer_free(collector->describer);
	limpet_look_ahead_free(collector->ahead);
	limpet_other_stacks_free(collector->other_stacks);
	limpet_agent_counts_free(collector->counts);
	limpet_script_names_free(collector->scripts);
	limpet_stack_tree_free(collector->stacks);
	limpet_module_watch_free(collector->modules);
	free(collector);
}

/* ---------------------------------------------------------------- time */

void limpet_collector_begin(struct limpet_collector *collector)
{
	limpet_other_stacks_begin(collector->other_stacks);
	for (uint32_t i = 1; limpet_session_owner(collector->session, i); i++)
		limpet_recorder_name_owner(collector->recorder, i,
					   limpet_session_owner(collector->session, i));
	limpet_agent_clock_begin(&collector->clock);
}

void limpet_collector_end(struct limpet_collector *collector)
{
	collector->noted = limpet_collector_noted(collector);
	collector->set_back = limpet_module_watch_set_back(collector->modules);
	limpet_agent_counts_end(collector->counts);
	limpet_agent_clock_end(&collector->clock);
	__atomic_store_n(&collector->shm->ended, 1, __ATOMIC_RELEASE);
}

void limpet_collector_publish_time(struct limpet_collector *collector)
{
	limpet_agent_clock_publish(&collector->clock);
}

uint64_t limpet_collector_begin_time(struct limpet_collector *collector)
{
	return limpet_agent_clock_publish_ahead(&collector->clock);
}

uint64_t limpet_collector_time_ns(const struct limpet_collector *collector)
{
	return limpet_agent_clock_time_ns(&collector->clock);
}

/* ---------------------------------------------------------------- draining */

/* A missing number was taken by a thread that had stored an intent before. Either the intent is
 * still there, or the record was published: then it is read below, or there is none. */
static void check_gaps(struct limpet_collector *collector, uint64_t now_ns)
{
	if (limpet_reorder_kept(collector->reorder))
		limpet_reorder_check_gaps(collector->reorder,
					  limpet_thread_states_intents(collector->states), now_ns);
}

static void begin_reading(struct limpet_collector *collector)
{
	limpet_chunk_reader_begin(collector->reader);
	if (collector->scripts)
		limpet_script_names_begin(collector->scripts);
}

static void end_pass(struct limpet_collector *collector)
{
	if (limpet_chunk_reader_is_pass(collector->reader) &&
	    limpet_reorder_end_pass(collector->reorder))
		limpet_recorder_end_pass(collector->recorder,
					 limpet_chunk_reader_end_pass(collector->reader));
}

int64_t limpet_collector_drain(struct limpet_collector *collector)
{
	uint64_t now_ns = limpet_monotonic_ns();
	uint32_t bell;

	limpet_collector_publish_time(collector);
	begin_reading(collector);
	__atomic_fetch_add(&collector->shm->beats, 1, __ATOMIC_RELAXED);
	bell = __atomic_load_n(&collector->shm->bell, __ATOMIC_ACQUIRE);
	collector->called = bell != collector->bell;
	collector->bell = bell;
	if (limpet_module_watch_is_called(collector->modules))
		(void)limpet_module_watch_update(collector->modules);
	check_gaps(collector, now_ns);
	collector->more = limpet_chunk_reader_read(collector->reader);
	limpet_reorder_close(collector->reorder, !collector->more, now_ns);
	limpet_reorder_flush(collector->reorder);
	limpet_event_describer_settle(collector->describer);
	limpet_thread_states_publish_stacks(collector->states);
	limpet_other_stacks_publish(collector->other_stacks, now_ns);
	if (!collector->more)
		limpet_chunk_reader_announce_room(collector->reader);
	end_pass(collector);
	return limpet_event_describer_pop_recorded(collector->describer);
}

int64_t limpet_collector_drain_all(struct limpet_collector *collector)
{
	limpet_collector_publish_time(collector);
	begin_reading(collector);
	(void)limpet_module_watch_update(collector->modules);
	limpet_chunk_reader_read_all(collector->reader);
	limpet_reorder_close_all(collector->reorder);
	limpet_reorder_flush(collector->reorder);
	limpet_event_describer_settle(collector->describer);
	return limpet_event_describer_pop_recorded(collector->describer);
}

bool limpet_collector_has_more(const struct limpet_collector *collector)
{
	return collector->more;
}

bool limpet_collector_was_called(const struct limpet_collector *collector)
{
	return collector->called;
}

bool limpet_collector_poll(struct limpet_collector *collector)
{
	limpet_collector_publish_time(collector);
	return __atomic_load_n(&collector->shm->bell, __ATOMIC_RELAXED) != collector->bell;
}

void limpet_collector_set_most_kept(struct limpet_collector *collector, size_t records)
{
	limpet_reorder_set_most(collector->reorder, records);
}

void limpet_collector_set_patience(struct limpet_collector *collector, uint64_t patience_ns)
{
	const uint64_t turns = patience_ns / collector->turn_ns;

	if (collector->shm->wait_turns != turns)
		collector->shm->wait_turns = turns;
}

void limpet_collector_set_stack_memory(struct limpet_collector *collector, uint64_t bytes)
{
	limpet_stack_tree_set_most(collector->stacks, bytes);
}

/* ---------------------------------------------------------------- housekeeping */

void limpet_collector_housekeep(struct limpet_collector *collector)
{
	limpet_chunk_reader_begin(collector->reader);
	limpet_thread_states_clear_dead(collector->states);
	(void)limpet_module_watch_update(collector->modules);
}

void limpet_collector_name_threads(struct limpet_collector *collector)
{
	limpet_thread_states_name_all(collector->states);
}

bool limpet_collector_needs_rescan(struct limpet_collector *collector)
{
	return limpet_module_watch_needs_rescan(collector->modules);
}

/* ---------------------------------------------------------------- figures */

static uint64_t bad_records(const struct limpet_collector *collector)
{
	return limpet_chunk_reader_bad_records(collector->reader);
}

void limpet_collector_fill_tick(struct limpet_collector *collector,
				struct limpet_recorder_tick *ret_tick)
{
	const struct limpet_agent_figures *figures = limpet_agent_counts_update(collector->counts);
	const uint64_t last_ns = limpet_event_describer_last_time_ns(collector->describer);

	memset(ret_tick, 0, sizeof(*ret_tick));
	ret_tick->time_ns = limpet_collector_time_ns(collector);
	if (ret_tick->time_ns < last_ns)
		ret_tick->time_ns = last_ns;
	limpet_target_memory_sample(&collector->memory, ret_tick);
	ret_tick->dropped_events = figures->dropped_events + bad_records(collector);
	/* A stack for which there was no room counts as truncated. */
	ret_tick->truncated_stacks = figures->truncated_stacks;
	for (unsigned why = 0; why < LIMPET_LOST_STACKS; why++)
		ret_tick->truncated_stacks += limpet_collector_lost_stacks(collector, why);
	ret_tick->dropped = figures->dropped;
	ret_tick->unseen_calls = figures->unseen_calls;
}

uint32_t limpet_collector_thread_states(const struct limpet_collector *collector)
{
	return limpet_thread_states_count(collector->states);
}

uint64_t limpet_collector_late_events(const struct limpet_collector *collector)
{
	return limpet_reorder_late(collector->reorder);
}

bool limpet_collector_is_broken(const struct limpet_collector *collector)
{
	return bad_records(collector) || limpet_agent_counts_are_overwritten(collector->counts);
}

uint64_t limpet_collector_lost_stacks(const struct limpet_collector *collector,
				      enum limpet_lost_stacks why)
{
	const uint64_t lost = limpet_chunk_reader_lost_stacks(collector->reader, why);

	return why == LIMPET_LOST_NO_ROOM
		       ? lost + limpet_event_describer_lost_stacks(collector->describer)
		       : lost;
}

uint64_t limpet_collector_slots_unhooked(const struct limpet_collector *collector)
{
	return limpet_agent_counts_last(collector->counts)->slots_unhooked + collector->set_back;
}

uint64_t limpet_collector_late_modules(const struct limpet_collector *collector)
{
	return limpet_agent_counts_last(collector->counts)->late_modules;
}

uint32_t limpet_collector_noted(const struct limpet_collector *collector)
{
	return limpet_agent_clock_has_ended(&collector->clock)
		       ? collector->noted
		       : __atomic_load_n(&collector->shm->noted, __ATOMIC_RELAXED);
}

void limpet_collector_judge_named(const struct limpet_collector *collector, char *ret_words,
				  size_t bytes)
{
	limpet_event_describer_judge_named(collector->describer, ret_words, bytes);
}

bool limpet_collector_describe_site(const struct limpet_collector *collector, uint32_t node,
				    char *ret, size_t bytes)
{
	return limpet_event_describer_describe_site(collector->describer, node, ret, bytes);
}

void limpet_collector_identify_modules(struct limpet_collector *collector)
{
	limpet_module_table_identify(limpet_module_watch_table(collector->modules));
}

size_t limpet_collector_sources(const struct limpet_collector *collector,
				const struct limpet_collector_source **ret)
{
	return limpet_module_table_sources(limpet_module_watch_table(collector->modules), ret);
}
