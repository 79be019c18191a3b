#include "collector/stream/agent_counts.h"

#include <stdlib.h>

#include "common/clock.h"
#include "common/wire.h"

struct count {
	uint64_t total;
	bool overwritten;
};

struct of_thread {
	struct count dropped, truncated;
};

struct of_kind {
	struct count count, bytes, unsized;
};

struct limpet_agent_counts {
	const struct limpet_segment *segment;
	struct limpet_agent_figures figures;
	uint64_t updated_ns; /* before the last update, or before anybody counted */
	bool overwritten, ended;
	uint64_t dropped_gone, truncated_gone; /* of threads whose entries were cleared */
	struct count no_thread, state_in_use, arguments;
	struct count no_sample, late_modules, slots_unhooked; /* up to the end of the capture */
	struct of_kind kinds[LIMPET_DROPS_KINDS];
	struct of_thread threads[];
};

struct limpet_agent_counts *limpet_agent_counts_new(const struct limpet_segment *segment)
{
	const size_t threads = segment->layout.thread_count * sizeof(struct of_thread);
	struct limpet_agent_counts *counts = calloc(1, sizeof(*counts) + threads);

	if (!counts)
		return NULL;
	counts->segment = segment;
	counts->updated_ns = limpet_monotonic_ns();
	return counts;
}

void limpet_agent_counts_free(struct limpet_agent_counts *counts)
{
	free(counts);
}

/* ---------------------------------------------------------------- one count */

static void note_overwritten(struct limpet_agent_counts *counts, struct count *count)
{
	count->overwritten = counts->overwritten = true;
}

/* `rise`: since the last update, in the width of the count, so that one that fell has risen by
 * nearly all that it can hold. No count rises faster than once a nanosecond: a call that is
 * counted takes longer, and threads that share a count take turns. */
static void add_rise(struct limpet_agent_counts *counts, struct count *count, uint64_t rise)
{
	if (!rise || count->overwritten)
		return;
	if (rise > limpet_monotonic_ns() - counts->updated_ns)
		note_overwritten(counts, count);
	else
		count->total += rise;
}

static void update(struct limpet_agent_counts *counts, struct count *count, const uint64_t *shared)
{
	const uint64_t value = __atomic_load_n(shared, __ATOMIC_ACQUIRE);

	add_rise(counts, count, value - count->total);
}

/* May wrap around. */
static void update_short(struct limpet_agent_counts *counts, struct count *count,
			 const uint32_t *shared)
{
	const uint32_t value = __atomic_load_n(shared, __ATOMIC_ACQUIRE);

	add_rise(counts, count, (uint32_t)(value - (uint32_t)count->total));
}

/* At most so many for each event of a count that was read later, and was counted before. */
static void update_sum(struct limpet_agent_counts *counts, struct count *sum, uint64_t value,
		       uint64_t events, uint64_t most)
{
	if (sum->overwritten || value == sum->total)
		return;
	if (value < sum->total || value / most > events)
		note_overwritten(counts, sum);
	else
		sum->total = value;
}

/* ---------------------------------------------------------------- all of them */

static void update_thread(struct limpet_agent_counts *counts, uint32_t index)
{
	const struct limpet_thread *entry = limpet_segment_thread(counts->segment, index);
	struct of_thread *thread = &counts->threads[index];

	update(counts, &thread->dropped, &entry->dropped);
	update_short(counts, &thread->truncated, &entry->truncated);
}

static void update_kind(struct limpet_agent_counts *counts, uint32_t number)
{
	const struct limpet_drops *drops = &counts->segment->shm->drops[number];
	struct of_kind *kind = &counts->kinds[number];
	/* The agent adds to them after the count. */
	const uint64_t bytes = __atomic_load_n(&drops->bytes, __ATOMIC_ACQUIRE);
	const uint64_t unsized = __atomic_load_n(&drops->unsized, __ATOMIC_ACQUIRE);

	update(counts, &kind->count, &drops->count);
	update_sum(counts, &kind->bytes, bytes, kind->count.total, LIMPET_HIGHEST_ADDRESS);
	update_sum(counts, &kind->unsized, unsized, kind->count.total, 1);
}

static void update_own(struct limpet_agent_counts *counts)
{
	const struct limpet_shm *shm = counts->segment->shm;

	if (counts->ended)
		return;
	update(counts, &counts->no_sample, &shm->lost_no_sample);
	update_short(counts, &counts->late_modules, &shm->late_modules);
	update_short(counts, &counts->slots_unhooked, &shm->slots_unhooked);
}

static void sum_up(struct limpet_agent_counts *counts)
{
	const struct of_kind *kinds = counts->kinds;
	struct limpet_agent_figures *figures = &counts->figures;

	*figures = (struct limpet_agent_figures){
		.dropped_events = counts->dropped_gone + counts->no_sample.total,
		.truncated_stacks = counts->truncated_gone,
		.unseen_calls = counts->no_thread.total + counts->state_in_use.total +
				counts->arguments.total,
		.late_modules = counts->late_modules.total,
		.slots_unhooked = counts->slots_unhooked.total,
		.dropped = {.allocations = kinds[LIMPET_EVENT_ALLOC].count.total,
			    .allocated_bytes = kinds[LIMPET_EVENT_ALLOC].bytes.total,
			    .frees = kinds[LIMPET_EVENT_FREE].count.total,
			    .freed_bytes = kinds[LIMPET_EVENT_FREE].bytes.total,
			    .unsized_frees = kinds[LIMPET_EVENT_FREE].unsized.total,
			    .mmaps = kinds[LIMPET_EVENT_MMAP].count.total,
			    .mmap_bytes = kinds[LIMPET_EVENT_MMAP].bytes.total,
			    .munmaps = kinds[LIMPET_EVENT_MUNMAP].count.total,
			    .munmap_bytes = kinds[LIMPET_EVENT_MUNMAP].bytes.total}};
	for (uint32_t i = 0; i < counts->segment->layout.thread_count; i++) {
		figures->dropped_events += counts->threads[i].dropped.total;
		figures->truncated_stacks += counts->threads[i].truncated.total;
	}
}

const struct limpet_agent_figures *limpet_agent_counts_update(struct limpet_agent_counts *counts)
{
	const struct limpet_segment *segment = counts->segment;
	const uint64_t now_ns = limpet_monotonic_ns();

	/* A thread's events before their kinds: each that is counted has one. */
	for (uint32_t i = limpet_segment_next_used(segment, 0); i < segment->layout.thread_count;
	     i = limpet_segment_next_used(segment, i + 1))
		update_thread(counts, i);
	for (uint32_t kind = 0; kind < LIMPET_DROPS_KINDS; kind++)
		update_kind(counts, kind);
	update(counts, &counts->no_thread, &segment->shm->lost_no_thread);
	update(counts, &counts->state_in_use, &segment->shm->lost_state_in_use);
	update(counts, &counts->arguments, &segment->shm->lost_arguments);
	update_own(counts);
	counts->updated_ns = now_ns;
	sum_up(counts);
	return &counts->figures;
}

const struct limpet_agent_figures *limpet_agent_counts_last(
	const struct limpet_agent_counts *counts)
{
	return &counts->figures;
}

void limpet_agent_counts_clear(struct limpet_agent_counts *counts, uint32_t index)
{
	struct limpet_thread *entry = limpet_segment_thread(counts->segment, index);
	struct of_thread *thread = &counts->threads[index];

	update_thread(counts, index);
	counts->dropped_gone += thread->dropped.total;
	counts->truncated_gone += thread->truncated.total;
	*thread = (struct of_thread){.dropped.total = 0};
	entry->dropped = 0;
	entry->truncated = 0;
}

void limpet_agent_counts_end(struct limpet_agent_counts *counts)
{
	update_own(counts);
	counts->ended = true;
}

bool limpet_agent_counts_are_overwritten(const struct limpet_agent_counts *counts)
{
	return counts->overwritten;
}
