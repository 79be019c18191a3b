#include "collector/record/accounting.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "collector/record/peak_bounds.h"
#include "collector/record/thread_numbers.h"
#include "common/array.h"
#include "common/estimate.h"
#include "common/wire.h"

/* One munmap can release all mappings, and its rows must fit in one block of the trace. */
#define MAPPINGS_MAX_BYTES (48u << 20)

struct limpet_accounting {
	struct limpet_live_table *live;
	struct limpet_mapping_table *mappings;
	struct limpet_site_table *sites;
	struct limpet_thread_numbers *threads;
	uint64_t page_bytes;

	struct limpet_totals totals;
	struct limpet_sampling sampling;
	uint64_t estimated_bytes; /* live */
	uint64_t table_full, inferred_bytes;

	uint32_t period_rows;
	struct limpet_accounting_peak peak;
	struct limpet_peak_bounds *bounds; /* NULL: events are added in their order */
	bool keeps_held;
	uint64_t peak_number; /* from 1; incremented at each new peak of the capture */
	struct limpet_size_counts sizes[LIMPET_TRACE_SIZE_BUCKETS];

	bool overloaded, was_overloaded;
	struct limpet_accounting_overload *overloads; /* the last one continues if `overloaded` */
	size_t overload_count, overload_capacity;

	/* of the current event */
	uint64_t time_ns, tick;
	uint32_t thread, tid;
	bool has_thread;
	struct limpet_accounting_rows *rows;
	bool no_memory;
};

struct limpet_accounting *limpet_accounting_new(uint64_t memory_bytes)
{
	struct limpet_accounting *accounting = calloc(1, sizeof(*accounting));

	if (!accounting)
		return NULL;
	accounting->page_bytes = (uint64_t)sysconf(_SC_PAGESIZE);
	accounting->sites = limpet_site_table_new();
	accounting->threads = limpet_thread_numbers_new();
	accounting->live = limpet_live_table_new(memory_bytes / 10 * 9);
	accounting->mappings = limpet_mapping_table_new(
		memory_bytes / 10 < MAPPINGS_MAX_BYTES ? memory_bytes / 10 : MAPPINGS_MAX_BYTES);
	if (!accounting->live || !accounting->mappings || !accounting->sites ||
	    !accounting->threads) {
		limpet_accounting_free(accounting);
		return NULL;
	}
	return accounting;
}

void limpet_accounting_set_sampling(struct limpet_accounting *accounting,
				    struct limpet_sampling sampling)
{
	accounting->sampling = sampling;
}

void limpet_accounting_keep_held(struct limpet_accounting *accounting)
{
	accounting->keeps_held = true;
	accounting->peak_number = 1;
}

int limpet_accounting_take_passes(struct limpet_accounting *accounting)
{
	accounting->bounds = limpet_peak_bounds_new();
	return accounting->bounds ? 0 : -ENOMEM;
}

void limpet_accounting_free(struct limpet_accounting *accounting)
{
	if (!accounting)
		return;
	limpet_peak_bounds_free(accounting->bounds);
	limpet_live_table_free(accounting->live);
	limpet_mapping_table_free(accounting->mappings);
	limpet_site_table_free(accounting->sites);
	limpet_thread_numbers_free(accounting->threads);
	free(accounting->overloads);
	free(accounting);
}

uint32_t limpet_accounting_tid(const struct limpet_accounting *accounting, uint32_t thread)
{
	return limpet_thread_numbers_tid(accounting->threads, thread);
}

/* ------------------------------------------------------------------ rows */

static __attribute__((noinline)) bool grow_rows(struct limpet_accounting *accounting)
{
	struct limpet_accounting_rows *rows = accounting->rows;

	if (limpet_reserve(&rows->list, &rows->capacity, rows->count + 1, sizeof(*rows->list)) == 0)
		return true;
	accounting->no_memory = true;
	return false;
}

/* NULL: no memory. */
static inline struct limpet_accounting_row *add_row(struct limpet_accounting *accounting,
						    uint8_t op, uint64_t address, uint32_t node,
						    uint64_t size)
{
	struct limpet_accounting_rows *rows = accounting->rows;
	struct limpet_accounting_row *row;

	if (rows->count == rows->capacity && !grow_rows(accounting))
		return NULL;
	row = &rows->list[rows->count++];
	row->tick = accounting->tick;
	row->address = address;
	row->size = size;
	row->age_ticks = 0;
	row->node = node;
	row->owner = row->thread = accounting->thread;
	row->owner_tid = row->tid = accounting->tid;
	row->op = op;
	row->freed = false;
	rows->trace_rows++;
	accounting->period_rows++;
	return row;
}

static uint64_t age(const struct limpet_accounting *accounting, uint64_t tick)
{
	return accounting->tick > tick ? accounting->tick - tick : 0;
}

/* The row is of a block or mapping that `owner` made at `tick`. NULL: there was no room for it. */
static inline void set_origin(const struct limpet_accounting *accounting,
			      struct limpet_accounting_row *row, uint64_t tick, uint32_t owner)
{
	if (!row)
		return;
	row->age_ticks = age(accounting, tick);
	if (owner == accounting->thread)
		return;
	row->owner = owner;
	row->owner_tid = limpet_thread_numbers_tid(accounting->threads, owner);
}

/* How much a block adds to live figures: for a sample, more than its size. */
static uint64_t stands_for(const struct limpet_accounting *accounting, uint64_t size, bool sampled)
{
	uint64_t period = accounting->sampling.bytes;
	double bytes;

	if (sampled)
		period = accounting->sampling.overload_bytes;
	if (!period)
		return size;
	bytes = limpet_weight_of(size, period).weight * (double)size;
	return bytes < 0x1p62 ? (uint64_t)bytes : 1ull << 62;
}

/* Of the recorded blocks, whatever they stand for. */
static inline uint64_t live_bytes(const struct limpet_accounting *accounting)
{
	return limpet_counts_live_bytes(&accounting->totals.counts);
}

/* Call before a site's live figures change. Saves them as the figures at the peak, if this is the
 * first change since. */
static inline void hold(const struct limpet_accounting *accounting, struct limpet_site *site)
{
	if (site->held_peak == accounting->peak_number)
		return;
	site->held_peak = accounting->peak_number;
	site->held_blocks = site->live_blocks;
	site->held_bytes = site->live_bytes;
}

/* The flags of its row that an event decides. */
static inline uint8_t flags_of(const struct limpet_record *event)
{
	return (uint8_t)(event->sampled * LIMPET_ROW_SAMPLED | event->realloc * LIMPET_ROW_REALLOC);
}

/* A block leaves the live table: it was freed, or its address was allocated again. */
static inline void book_free(struct limpet_accounting *accounting,
			     const struct limpet_live_entry *entry, uint8_t op, bool temporary)
{
	struct limpet_site *site = limpet_site_table_touch(accounting->sites, entry->site);
	const bool sampled = entry->thread & LIMPET_LIVE_ENTRY_SAMPLED;
	const uint32_t owner = entry->thread & ~LIMPET_LIVE_ENTRY_SAMPLED;
	const uint64_t size = entry->size, stood_for = stands_for(accounting, size, sampled);

	if (accounting->keeps_held) {
		hold(accounting, site);
		site->live_blocks--;
	}
	site->live_bytes -= stood_for;
	accounting->estimated_bytes -= stood_for;
	/* In many programs half of the frees are temporary: a branch would be mispredicted.
	 * Consecutive samples say nothing about the events between them. */
	temporary &= owner == accounting->thread;
	temporary &= !accounting->sampling.bytes & !accounting->overloaded;
	op |= (uint8_t)(temporary * LIMPET_ROW_TEMPORARY | sampled * LIMPET_ROW_SAMPLED);
	limpet_counts_free(&accounting->totals.counts, 1, size, temporary, op & LIMPET_ROW_REALLOC);
	limpet_counts_free(&site->counts, 1, size, temporary, op & LIMPET_ROW_REALLOC);
	set_origin(accounting, add_row(accounting, op, entry->address, site->node, size),
		   entry->tick, owner);
}

static inline void update_peak(struct limpet_accounting *accounting, uint64_t live_bytes)
{
	if (live_bytes <= accounting->peak.bytes)
		return;
	accounting->peak.bytes = live_bytes;
	accounting->peak.rows = accounting->period_rows;
	accounting->peak.time_ns = accounting->time_ns;
	if (live_bytes > accounting->peak.capture_bytes) {
		accounting->peak.capture_bytes = live_bytes;
		accounting->peak.capture_ns = accounting->time_ns;
		accounting->peak_number += accounting->keeps_held;
	}
}

/* The address of a live block is allocated again: its free was not seen. */
static void book_inferred_free(struct limpet_accounting *accounting,
			       const struct limpet_live_entry *entry)
{
	accounting->totals.inferred_frees++;
	accounting->inferred_bytes += entry->size;
	book_free(accounting, entry, LIMPET_ROW_INFERRED_FREE, false);
}

/* A block that the live table has no room for. */
static void book_untracked(struct limpet_accounting *accounting, const struct limpet_record *event,
			   struct limpet_site *site)
{
	accounting->table_full++;
	limpet_counts_untrack(&accounting->totals.counts, 1, event->size);
	limpet_counts_untrack(&site->counts, 1, event->size);
	add_row(accounting, LIMPET_ROW_UNTRACKED | flags_of(event), event->address, event->node,
		event->size);
}

static inline void count_allocation(struct limpet_accounting *accounting, struct limpet_site *site,
				    uint64_t size)
{
	const struct limpet_size_counts one = {1, size};

	limpet_counts_allocate(&accounting->totals.counts, 1, size);
	limpet_counts_allocate(&site->counts, 1, size);
	limpet_size_counts_add(&accounting->sizes[limpet_trace_size_bucket(size)], &one);
}

static inline int book_alloc(struct limpet_accounting *accounting,
			     const struct limpet_record *event)
{
	const struct limpet_live_entry new = {
		.address = event->address,
		.size = event->size,
		.tick = accounting->tick,
		.site = limpet_site_table_number(accounting->sites, event->node),
		.thread = accounting->thread | (event->sampled ? LIMPET_LIVE_ENTRY_SAMPLED : 0)};
	const uint64_t size = event->size;
	struct limpet_live_entry *entry;
	struct limpet_site *site;
	uint64_t stand_for;

	accounting->was_overloaded |= event->sampled;
	if (!new.site)
		return -ENOMEM;
	site = limpet_site_table_touch(accounting->sites, new.site);
	accounting->totals.events++;
	count_allocation(accounting, site, size);
	entry = limpet_live_table_find(accounting->live, event->address);
	if (entry->address) {
		book_inferred_free(accounting, entry);
		*entry = new;
	} else if (!limpet_live_table_add(accounting->live, entry, &new)) {
		book_untracked(accounting, event, site);
		return 0;
	}
	if (accounting->keeps_held) {
		hold(accounting, site);
		site->live_blocks++;
	}
	stand_for = stands_for(accounting, size, event->sampled);
	site->live_bytes += stand_for;
	accounting->estimated_bytes += stand_for;
	add_row(accounting, LIMPET_ROW_ALLOC | flags_of(event), event->address, event->node, size);
	update_peak(accounting, live_bytes(accounting));
	return 0;
}

static inline int book_call_free(struct limpet_accounting *accounting,
				 const struct limpet_record *event)
{
	struct limpet_live_entry *entry = limpet_live_table_find(accounting->live, event->address);

	if (!entry->address) {
		/* From before the capture, or not sampled: it is unknown which. */
		if (accounting->was_overloaded)
			return 0;
		accounting->totals.events++;
		accounting->totals.foreign_frees++;
		accounting->totals.foreign_freed_bytes += event->size;
		add_row(accounting, LIMPET_ROW_FOREIGN_FREE | flags_of(event), event->address, 0,
			event->size);
		return 0;
	}
	accounting->totals.events++;
	book_free(accounting, entry, LIMPET_ROW_FREE | flags_of(event), event->temporary);
	limpet_live_table_remove(accounting->live, entry);
	return 0;
}

/* ------------------------------------------------------------------ mappings */

/* NULL: no memory. */
static inline struct limpet_site *find_site(struct limpet_accounting *accounting, uint32_t node)
{
	uint32_t number = limpet_site_table_number(accounting->sites, node);

	return number ? limpet_site_table_touch(accounting->sites, number) : NULL;
}

static void book_unmapped(const struct limpet_mapping *part, void *data)
{
	struct limpet_accounting *accounting = data;
	struct limpet_site *site = find_site(accounting, part->node);
	uint64_t bytes = part->end - part->start;

	if (!site) {
		accounting->no_memory = true;
		return;
	}
	accounting->totals.unmapped_bytes += bytes;
	site->maps.unmapped_parts++;
	site->maps.unmapped_bytes += bytes;
	set_origin(accounting,
		   add_row(accounting, LIMPET_ROW_UNMAPPED, part->start, part->node, bytes),
		   part->tick, part->thread);
}

static int book_mmap(struct limpet_accounting *accounting, const struct limpet_record *event)
{
	struct limpet_mapping mapping = {.start = event->address,
					 .end = event->address + event->size,
					 .tick = accounting->tick,
					 .node = event->node,
					 .thread = accounting->thread};
	struct limpet_site *site;

	/* MAP_FIXED replaces older mappings. */
	limpet_mapping_table_release(accounting->mappings, mapping.start, mapping.end,
				     book_unmapped, accounting);
	site = find_site(accounting, event->node);
	if (!site)
		return -ENOMEM;
	accounting->totals.events++;
	accounting->totals.mmaps++;
	accounting->totals.mmap_bytes += event->size;
	site->maps.mmaps++;
	site->maps.mmap_bytes += event->size;
	/* No room: the mapping is never live, like an untracked allocation. */
	if (limpet_mapping_table_add(accounting->mappings, &mapping) < 0) {
		accounting->table_full++;
		book_unmapped(&mapping, accounting);
	}
	add_row(accounting, LIMPET_ROW_MMAP, event->address, event->node, event->size);
	return 0;
}

static int book_munmap(struct limpet_accounting *accounting, const struct limpet_record *event)
{
	uint64_t before = accounting->totals.unmapped_bytes, known;

	limpet_mapping_table_release(accounting->mappings, event->address,
				     event->address + event->size, book_unmapped, accounting);
	known = accounting->totals.unmapped_bytes - before;
	accounting->totals.events++;
	accounting->totals.munmaps++;
	/* `known` is larger if the rest of a mapping that was cut found no room. */
	if (known < event->size)
		accounting->totals.foreign_unmapped_bytes += event->size - known;
	add_row(accounting, LIMPET_ROW_MUNMAP, event->address, 0, event->size);
	return 0;
}

/* ------------------------------------------------------------------ overloads */

/* An overload never has length 0. */
static void end_overload(struct limpet_accounting_overload *overload, uint64_t time_ns)
{
	overload->to_ns =
		time_ns > overload->from_ns ? time_ns : overload->from_ns + LIMPET_TRACE_TICK_NS;
}

static int book_overload(struct limpet_accounting *accounting, bool begins)
{
	if (!accounting->sampling.overload_bytes || begins == accounting->overloaded)
		return -EINVAL;
	accounting->overloaded = begins;
	accounting->was_overloaded = true;
	if (!begins) {
		end_overload(&accounting->overloads[accounting->overload_count - 1],
			     accounting->time_ns);
		return 0;
	}
	/* Times are only as fine as the collector's polls: without a gap, the overload before
	 * continues. */
	if (accounting->overload_count &&
	    accounting->overloads[accounting->overload_count - 1].to_ns >= accounting->time_ns)
		return 0;
	if (limpet_reserve(&accounting->overloads, &accounting->overload_capacity,
			   accounting->overload_count + 1, sizeof(*accounting->overloads)) < 0) {
		accounting->overloaded = false;
		return -ENOMEM;
	}
	accounting->overloads[accounting->overload_count++] = (struct limpet_accounting_overload){
		.from_ns = accounting->time_ns, .to_ns = accounting->time_ns};
	return 0;
}

size_t limpet_accounting_period_overloads(const struct limpet_accounting *accounting,
					  const struct limpet_accounting_overload **ret_list)
{
	if (accounting->overloaded)
		end_overload(&accounting->overloads[accounting->overload_count - 1],
			     accounting->time_ns);
	*ret_list = accounting->overloads;
	return accounting->overload_count;
}

/* The rest of an overload that has not ended belongs to the next period. */
static void next_overloads(struct limpet_accounting *accounting)
{
	if (accounting->overloaded)
		accounting->overloads[0].from_ns = accounting->overloads[0].to_ns =
			accounting->overloads[accounting->overload_count - 1].to_ns;
	accounting->overload_count = accounting->overloaded;
}

/* ------------------------------------------------------------------ events */

/* Whether a program can cause the allocation or free of a block. */
static inline bool is_sane_block(const struct limpet_accounting *accounting,
				 const struct limpet_record *event)
{
	return event->address && event->node < LIMPET_TRACE_NODES_MAX && event->size <= INT64_MAX &&
	       (!event->sampled || accounting->sampling.overload_bytes);
}

static bool is_mapping(const struct limpet_record *event)
{
	return event->kind == LIMPET_EVENT_MMAP || event->kind == LIMPET_EVENT_MUNMAP;
}

static bool is_overload(const struct limpet_record *event)
{
	return event->kind == LIMPET_EVENT_OVERLOAD || event->kind == LIMPET_EVENT_ROOM;
}

static bool is_sane_mapping(const struct limpet_accounting *accounting,
			    const struct limpet_record *event)
{
	return is_mapping(event) && is_sane_block(accounting, event) && event->size &&
	       event->address + event->size > event->address;
}

/* Of the event that is counted next. Returns 0 or -ENOMEM. */
static inline int set_thread(struct limpet_accounting *accounting, uint32_t tid)
{
	int thread;

	if (accounting->has_thread && accounting->tid == tid)
		return 0;
	thread = limpet_thread_numbers_find(accounting->threads, tid);
	if (thread < 0)
		return thread;
	accounting->has_thread = true;
	accounting->thread = (uint32_t)thread;
	accounting->tid = tid;
	return 0;
}

static inline void set_time(struct limpet_accounting *accounting, uint64_t time_ns)
{
	/* Times in the file never decrease. */
	if (time_ns <= accounting->time_ns)
		return;
	accounting->time_ns = time_ns;
	accounting->tick = time_ns / LIMPET_TRACE_TICK_NS;
}

/* An event that is not about a block. Returns 0, -EINVAL (it is not counted) or -ENOMEM. */
static int add_other(struct limpet_accounting *accounting, const struct limpet_record *event)
{
	struct limpet_record whole_pages = *event;
	int code;

	/* The kernel maps and unmaps whole pages, whatever the length of the call. */
	if (event->size <= INT64_MAX)
		whole_pages.size =
			(event->size + accounting->page_bytes - 1) & ~(accounting->page_bytes - 1);
	if ((!is_overload(event) && !is_sane_mapping(accounting, &whole_pages)) ||
	    (event->sampled && !accounting->sampling.overload_bytes))
		return -EINVAL;
	code = set_thread(accounting, event->thread);
	if (code < 0)
		return code;
	set_time(accounting, event->time_ns);
	if (is_overload(event))
		return book_overload(accounting, event->kind == LIMPET_EVENT_OVERLOAD);
	return event->kind == LIMPET_EVENT_MMAP ? book_mmap(accounting, &whole_pages)
						: book_munmap(accounting, &whole_pages);
}

/* Returns 0, -EINVAL (the event is not counted) or -ENOMEM. */
static inline int add_event(struct limpet_accounting *accounting, const struct limpet_record *event)
{
	int code;

	if (event->kind != LIMPET_EVENT_ALLOC && event->kind != LIMPET_EVENT_FREE)
		return add_other(accounting, event);
	if (!is_sane_block(accounting, event))
		return -EINVAL;
	code = set_thread(accounting, event->thread);
	if (code < 0)
		return code;
	set_time(accounting, event->time_ns);
	return event->kind == LIMPET_EVENT_ALLOC ? book_alloc(accounting, event)
						 : book_call_free(accounting, event);
}

/* A block that is freed at once need not go through the live table, except where sampling, figures
 * at the peak or lack of room make a difference. */
static inline bool is_short(const struct limpet_accounting *accounting,
			    const struct limpet_record *event)
{
	return event->freed && !accounting->was_overloaded && !accounting->sampling.bytes &&
	       !accounting->keeps_held && event->kind == LIMPET_EVENT_ALLOC && !event->sampled &&
	       is_sane_block(accounting, event) &&
	       !limpet_live_table_find(accounting->live, event->address)->address &&
	       limpet_live_table_has_room(accounting->live);
}

/* Equivalent to book_alloc() followed by book_call_free(). */
static int book_short(struct limpet_accounting *accounting, const struct limpet_record *event)
{
	uint64_t size = event->size;
	struct limpet_accounting_row *row;
	struct limpet_site *site;
	int code = set_thread(accounting, event->thread);

	if (code < 0)
		return code;
	site = find_site(accounting, event->node);
	if (!site)
		return -ENOMEM;
	set_time(accounting, event->time_ns);
	accounting->totals.events += 2;
	count_allocation(accounting, site, size);
	limpet_counts_free(&accounting->totals.counts, 1, size, true, false);
	limpet_counts_free(&site->counts, 1, size, true, false);
	row = add_row(accounting, LIMPET_ROW_ALLOC | flags_of(event), event->address, event->node,
		      size);
	update_peak(accounting, live_bytes(accounting) + size);
	if (accounting->bounds)
		limpet_peak_bounds_see(accounting->bounds, live_bytes(accounting) + size);
	if (!row)
		return 0;
	row->freed = true;
	accounting->rows->trace_rows++;
	accounting->period_rows++;
	return 0;
}

/* An allocation whose block is freed at once, as two events. */
static int add_both(struct limpet_accounting *accounting, const struct limpet_record *event)
{
	struct limpet_record made = *event, released = *event;
	int code;

	made.freed = released.freed = released.realloc = false;
	released.kind = LIMPET_EVENT_FREE;
	released.temporary = true;
	code = add_event(accounting, &made);
	if (accounting->bounds)
		limpet_peak_bounds_see(accounting->bounds, live_bytes(accounting));
	return code < 0 ? code : add_event(accounting, &released);
}

/* First the cache lines of all blocks, then those of their sites, whose numbers are in the blocks'
 * entries. */
static void prefetch(const struct limpet_accounting *accounting, const struct limpet_record *events,
		     size_t count)
{
	for (size_t i = 0; i < count; i++)
		limpet_live_table_prefetch(accounting->live, events[i].address);
	for (size_t i = 0; i < count; i++) {
		if (events[i].kind == LIMPET_EVENT_FREE)
			limpet_site_table_prefetch(
				accounting->sites,
				limpet_live_table_peek(accounting->live, events[i].address));
		else
			limpet_site_table_prefetch_node(accounting->sites, events[i].node);
	}
}

static __attribute__((noinline)) void begin_run(struct limpet_accounting *accounting,
						const struct limpet_record *event)
{
	accounting->no_memory |= set_thread(accounting, event->thread) < 0;
	limpet_peak_bounds_begin(accounting->bounds, event->place, event->thread,
				 accounting->thread, live_bytes(accounting));
}

int64_t limpet_accounting_add(struct limpet_accounting *accounting,
			      const struct limpet_record *events, size_t count,
			      struct limpet_accounting_rows *rows)
{
	struct limpet_peak_bounds *bounds = accounting->bounds;
	int64_t refused = 0;

	accounting->rows = rows;
	accounting->no_memory = false;
	if (count > 1)
		prefetch(accounting, events, count);
	for (size_t i = 0; i < count; i++) {
		const bool begins = bounds && !limpet_peak_bounds_continue(bounds, events[i].place,
									   events[i].thread);
		int code;

		if (__builtin_expect(begins, 0))
			begin_run(accounting, &events[i]);
		code = is_short(accounting, &events[i]) ? book_short(accounting, &events[i])
		       : events[i].freed                ? add_both(accounting, &events[i])
							: add_event(accounting, &events[i]);
		if (bounds)
			limpet_peak_bounds_see(bounds, live_bytes(accounting));
		if (__builtin_expect(begins, 0))
			limpet_peak_bounds_began(bounds, live_bytes(accounting));
		/* If one of two is refused, both are. */
		if (code == -EINVAL)
			refused += events[i].freed ? 2 : 1;
		accounting->no_memory |= code == -ENOMEM;
	}
	return accounting->no_memory ? -ENOMEM : refused;
}

uint64_t limpet_accounting_time_ns(const struct limpet_accounting *accounting)
{
	return accounting->time_ns;
}

/* ------------------------------------------------------------------ figures */

const struct limpet_totals *limpet_accounting_totals(const struct limpet_accounting *accounting)
{
	return &accounting->totals;
}

uint64_t limpet_accounting_live_bytes(const struct limpet_accounting *accounting)
{
	return accounting->estimated_bytes;
}

bool limpet_accounting_is_estimated(const struct limpet_accounting *accounting)
{
	return accounting->sampling.bytes || accounting->was_overloaded;
}

uint64_t limpet_accounting_live_allocations(const struct limpet_accounting *accounting)
{
	return limpet_counts_live(&accounting->totals.counts);
}

uint64_t limpet_accounting_mapped_bytes(const struct limpet_accounting *accounting)
{
	return accounting->totals.mmap_bytes - accounting->totals.unmapped_bytes;
}

uint64_t limpet_accounting_inferred_bytes(const struct limpet_accounting *accounting)
{
	return accounting->inferred_bytes;
}

uint64_t limpet_accounting_table_full(const struct limpet_accounting *accounting)
{
	return accounting->table_full;
}

struct limpet_accounting_peak limpet_accounting_peak(const struct limpet_accounting *accounting)
{
	return accounting->peak;
}

void limpet_accounting_end_pass(struct limpet_accounting *accounting, uint32_t place)
{
	if (accounting->bounds)
		limpet_peak_bounds_end_pass(accounting->bounds, place, live_bytes(accounting));
}

bool limpet_accounting_peak_bounds(struct limpet_accounting *accounting, uint64_t *ret_min,
				   uint64_t *ret_max)
{
	const uint64_t peak = accounting->peak.capture_bytes;
	uint64_t min, max;

	if (!accounting->bounds ||
	    !limpet_peak_bounds_finish(accounting->bounds, live_bytes(accounting), &min, &max))
		return false;
	*ret_min = min < peak ? min : peak;
	*ret_max = max > peak ? max : peak;
	return true;
}

bool limpet_accounting_next_held(const struct limpet_accounting *accounting, uint32_t *node,
				 struct limpet_accounting_held *ret_held)
{
	const struct limpet_site *site;

	while ((site = limpet_site_table_next(accounting->sites, node))) {
		bool moved = site->held_peak == accounting->peak_number;
		uint64_t blocks = moved ? site->held_blocks : site->live_blocks;

		if (!blocks)
			continue;
		*ret_held = (struct limpet_accounting_held){.node = site->node,
							    .blocks = blocks,
							    .bytes = moved ? site->held_bytes
									   : site->live_bytes};
		return true;
	}
	return false;
}

size_t limpet_accounting_period_sites(const struct limpet_accounting *accounting)
{
	return limpet_site_table_touched(accounting->sites);
}

size_t limpet_accounting_sort_sites(struct limpet_accounting *accounting)
{
	return limpet_site_table_sort(accounting->sites);
}

const struct limpet_site *limpet_accounting_site_at(const struct limpet_accounting *accounting,
						    size_t index)
{
	return limpet_site_table_at(accounting->sites, index);
}

const struct limpet_size_counts *limpet_accounting_period_sizes(
	const struct limpet_accounting *accounting)
{
	return accounting->sizes;
}

void limpet_accounting_next_period(struct limpet_accounting *accounting, uint64_t time_ns)
{
	limpet_site_table_next_period(accounting->sites);
	next_overloads(accounting);
	accounting->period_rows = 0;
	accounting->peak.bytes = live_bytes(accounting);
	accounting->peak.rows = 0;
	accounting->peak.time_ns = time_ns;
	memset(accounting->sizes, 0, sizeof(accounting->sizes));
}

uint32_t limpet_accounting_growing(const struct limpet_accounting *accounting, uint64_t *ret_bytes)
{
	return limpet_site_table_growing(accounting->sites, ret_bytes);
}

const struct limpet_live_entry *limpet_accounting_live(struct limpet_accounting *accounting,
						       size_t *ret_count)
{
	return limpet_live_table_sort(accounting->live, ret_count);
}

uint32_t limpet_accounting_node(const struct limpet_accounting *accounting, uint32_t site)
{
	return limpet_site_table_node(accounting->sites, site);
}

void limpet_accounting_walk_mappings(const struct limpet_accounting *accounting,
				     limpet_mapping_fn *each, void *data)
{
	limpet_mapping_table_walk(accounting->mappings, each, data);
}

size_t limpet_accounting_mapping_count(const struct limpet_accounting *accounting)
{
	return limpet_mapping_table_count(accounting->mappings);
}
