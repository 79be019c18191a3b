#include "injector/ledger.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "common/estimate.h"
#include "common/wire.h"
#include "injector/thread_numbers.h"

/* One munmap can release them all, and its rows must fit one block of the trace. */
#define MAPPINGS_MAX_BYTES (48u << 20)

struct limpet_ledger {
	struct limpet_live_table *live;
	struct limpet_mapping_table *mappings;
	struct limpet_site_book *sites;
	struct limpet_thread_numbers *threads;
	uint64_t page_bytes;

	uint64_t totals[LIMPET_TOTAL_COUNT];
	uint64_t live_bytes, live_allocations;
	struct limpet_sampling sampling;
	uint64_t estimated_bytes; /* live */
	uint64_t table_full, inferred_bytes;

	uint32_t period_rows;
	struct limpet_ledger_peak peak;
	bool keeps_held;
	uint64_t peak_turn; /* from 1: another with each new peak of the capture */
	struct limpet_ledger_size sizes[LIMPET_TRACE_SIZE_BUCKETS];

	bool overloaded, was_overloaded;
	struct limpet_ledger_overload *overloads; /* the last is the one that lasts, if so */
	size_t overload_count, overload_room;

	/* of the event at hand */
	uint64_t time_ns, tick;
	uint32_t thread, tid;
	struct limpet_ledger_rows *rows;
	bool no_memory;
};

struct limpet_ledger *limpet_ledger_new(uint64_t memory_bytes)
{
	struct limpet_ledger *ledger = calloc(1, sizeof(*ledger));

	if (!ledger)
		return NULL;
	ledger->page_bytes = (uint64_t)sysconf(_SC_PAGESIZE);
	ledger->sites = limpet_site_book_new();
	ledger->threads = limpet_thread_numbers_new();
	ledger->live = limpet_live_table_new(memory_bytes / 10 * 9);
	ledger->mappings = limpet_mapping_table_new(
		memory_bytes / 10 < MAPPINGS_MAX_BYTES ? memory_bytes / 10 : MAPPINGS_MAX_BYTES);
	if (!ledger->live || !ledger->mappings || !ledger->sites || !ledger->threads) {
		limpet_ledger_free(ledger);
		return NULL;
	}
	return ledger;
}

void limpet_ledger_set_sampling(struct limpet_ledger *ledger, struct limpet_sampling sampling)
{
	ledger->sampling = sampling;
}

void limpet_ledger_keep_held(struct limpet_ledger *ledger)
{
	ledger->keeps_held = true;
	ledger->peak_turn = 1;
}

void limpet_ledger_free(struct limpet_ledger *ledger)
{
	if (!ledger)
		return;
	limpet_live_table_free(ledger->live);
	limpet_mapping_table_free(ledger->mappings);
	limpet_site_book_free(ledger->sites);
	limpet_thread_numbers_free(ledger->threads);
	free(ledger->overloads);
	free(ledger);
}

uint32_t limpet_ledger_tid(const struct limpet_ledger *ledger, uint32_t thread)
{
	return limpet_thread_numbers_tid(ledger->threads, thread);
}

/* ------------------------------------------------------------------ rows */

static bool grow_rows(struct limpet_ledger_rows *rows)
{
	size_t room = rows->room ? rows->room * 2 : 1024;
	struct limpet_ledger_row *list = reallocarray(rows->list, room, sizeof(*list));

	if (!list)
		return false;
	rows->list = list;
	rows->room = room;
	return true;
}

static inline void add_row(struct limpet_ledger *ledger, uint8_t op, uint64_t address,
			   uint32_t node, uint64_t size, uint64_t age_ticks)
{
	struct limpet_ledger_rows *rows = ledger->rows;
	struct limpet_ledger_row *row;

	if (rows->count == rows->room && !grow_rows(rows)) {
		ledger->no_memory = true;
		return;
	}
	row = &rows->list[rows->count++];
	row->tick = ledger->tick;
	row->address = address;
	row->size = size;
	row->age_ticks = age_ticks;
	row->node = node;
	row->thread = ledger->thread;
	row->tid = ledger->tid;
	row->op = op;
	ledger->period_rows++;
}

/* What a block counts for in figures of what is live: of a sample more than its size. */
static uint64_t stands_for(const struct limpet_ledger *ledger, uint64_t size, bool sampled)
{
	uint64_t period = sampled ? ledger->sampling.overload_bytes : ledger->sampling.bytes;
	double bytes;

	if (!period)
		return size;
	bytes = limpet_weight_of(size, period).weight * (double)size;
	return bytes < 0x1p62 ? (uint64_t)bytes : 1ull << 62;
}

static uint64_t age(const struct limpet_ledger *ledger, uint64_t tick)
{
	return ledger->tick > tick ? ledger->tick - tick : 0;
}

/* Before a site's live figures change: what it has now it had at the peak, if nothing happened to
 * it since. */
static inline void hold(const struct limpet_ledger *ledger, struct limpet_site *site)
{
	if (site->held_turn == ledger->peak_turn)
		return;
	site->held_turn = ledger->peak_turn;
	site->held_blocks = site->live_blocks;
	site->held_bytes = site->live_bytes;
}

/* A block of the live table is gone: by a call, or because its address was handed out anew. */
static void book_free(struct limpet_ledger *ledger, const struct limpet_live_entry *entry,
		      uint8_t op)
{
	struct limpet_site *site = limpet_site_book_touch(ledger->sites, entry->site);
	bool sampled = entry->thread & LIMPET_LIVE_ENTRY_SAMPLED;
	uint64_t *last = limpet_thread_numbers_last(ledger->threads,
						    entry->thread & ~LIMPET_LIVE_ENTRY_SAMPLED);
	uint64_t is_last, temporary;

	ledger->totals[LIMPET_TOTAL_FREES]++;
	ledger->totals[LIMPET_TOTAL_FREED_BYTES] += entry->size;
	ledger->live_bytes -= entry->size;
	ledger->live_allocations--;
	if (ledger->keeps_held) {
		hold(ledger, site);
		site->live_blocks--;
	}
	site->frees++;
	site->freed_bytes += entry->size;
	site->live_bytes -= stands_for(ledger, entry->size, sampled);
	ledger->estimated_bytes -= stands_for(ledger, entry->size, sampled);
	/* The address is enough: since it was allocated, nobody else can have got it. Half of the
	 * frees of many programs: no branch could be foreseen.
	 * Whether samples follow each other says nothing of what was between. */
	is_last = *last == entry->address;
	temporary =
		is_last & (op == LIMPET_ROW_FREE) & !ledger->sampling.bytes & !ledger->overloaded;
	*last = is_last ? 0 : *last;
	op |= (uint8_t)(temporary * LIMPET_ROW_TEMPORARY | sampled * LIMPET_ROW_SAMPLED);
	ledger->totals[LIMPET_TOTAL_TEMPORARY] += temporary;
	site->temporary += temporary;
	add_row(ledger, op, entry->address, site->node, entry->size, age(ledger, entry->tick));
}

static void update_peak(struct limpet_ledger *ledger)
{
	if (ledger->live_bytes <= ledger->peak.bytes)
		return;
	ledger->peak.bytes = ledger->live_bytes;
	ledger->peak.rows = ledger->period_rows;
	ledger->peak.time_ns = ledger->time_ns;
	if (ledger->live_bytes > ledger->peak.capture_bytes) {
		ledger->peak.capture_bytes = ledger->live_bytes;
		ledger->peak.capture_ns = ledger->time_ns;
		ledger->peak_turn += ledger->keeps_held;
	}
}

static int book_alloc(struct limpet_ledger *ledger, const struct limpet_record *event)
{
	struct limpet_live_entry entry = {
		.address = event->address,
		.size = event->size,
		.tick = ledger->tick,
		.site = limpet_site_book_number(ledger->sites, event->node),
		.thread = ledger->thread | (event->sampled ? LIMPET_LIVE_ENTRY_SAMPLED : 0)};
	uint8_t flags = event->sampled ? LIMPET_ROW_SAMPLED : 0;
	struct limpet_site *site;
	unsigned bucket = limpet_trace_size_bucket(event->size);
	struct limpet_live_entry old;
	int code;

	ledger->was_overloaded |= event->sampled;
	if (!entry.site)
		return -ENOMEM;
	site = limpet_site_book_touch(ledger->sites, entry.site);
	code = limpet_live_table_insert(ledger->live, &entry, &old);
	if (code == 1) {
		ledger->totals[LIMPET_TOTAL_INFERRED_FREES]++;
		ledger->inferred_bytes += old.size;
		book_free(ledger, &old, LIMPET_ROW_INFERRED_FREE);
	}
	ledger->totals[LIMPET_TOTAL_EVENTS]++;
	ledger->totals[LIMPET_TOTAL_ALLOCATIONS]++;
	ledger->totals[LIMPET_TOTAL_ALLOCATED_BYTES] += event->size;
	ledger->sizes[bucket].allocations++;
	ledger->sizes[bucket].bytes += event->size;
	site->allocations++;
	site->allocated_bytes += event->size;
	if (code < 0) {
		ledger->table_full++;
		ledger->totals[LIMPET_TOTAL_UNTRACKED]++;
		ledger->totals[LIMPET_TOTAL_UNTRACKED_BYTES] += event->size;
		site->untracked++;
		site->untracked_bytes += event->size;
		*limpet_thread_numbers_last(ledger->threads, ledger->thread) = 0;
		add_row(ledger, LIMPET_ROW_UNTRACKED | flags, event->address, event->node,
			event->size, 0);
		return 0;
	}
	ledger->live_bytes += event->size;
	ledger->live_allocations++;
	if (ledger->keeps_held) {
		hold(ledger, site);
		site->live_blocks++;
	}
	site->live_bytes += stands_for(ledger, event->size, event->sampled);
	ledger->estimated_bytes += stands_for(ledger, event->size, event->sampled);
	*limpet_thread_numbers_last(ledger->threads, ledger->thread) = event->address;
	add_row(ledger, LIMPET_ROW_ALLOC | flags, event->address, event->node, event->size, 0);
	update_peak(ledger);
	return 0;
}

static int book_call_free(struct limpet_ledger *ledger, const struct limpet_record *event)
{
	struct limpet_live_entry entry;

	if (!limpet_live_table_remove(ledger->live, event->address, &entry)) {
		/* Older than the capture, or left out by sampling: nobody knows. */
		if (ledger->was_overloaded)
			return 0;
		ledger->totals[LIMPET_TOTAL_EVENTS]++;
		ledger->totals[LIMPET_TOTAL_FOREIGN_FREES]++;
		ledger->totals[LIMPET_TOTAL_FOREIGN_FREED_BYTES] += event->size;
		add_row(ledger, LIMPET_ROW_FOREIGN_FREE, event->address, 0, event->size, 0);
		return 0;
	}
	ledger->totals[LIMPET_TOTAL_EVENTS]++;
	book_free(ledger, &entry, LIMPET_ROW_FREE);
	return 0;
}

/* ------------------------------------------------------------------ mappings */

/* NULL: no memory. */
static struct limpet_site *find_site(struct limpet_ledger *ledger, uint32_t node)
{
	uint32_t number = limpet_site_book_number(ledger->sites, node);

	return number ? limpet_site_book_touch(ledger->sites, number) : NULL;
}

static void book_unmapped(const struct limpet_mapping *part, void *data)
{
	struct limpet_ledger *ledger = data;
	struct limpet_site *site = find_site(ledger, part->node);
	uint64_t bytes = part->end - part->start;

	if (!site) {
		ledger->no_memory = true;
		return;
	}
	ledger->totals[LIMPET_TOTAL_UNMAPPED_BYTES] += bytes;
	site->unmapped_parts++;
	site->unmapped_bytes += bytes;
	add_row(ledger, LIMPET_ROW_UNMAPPED, part->start, part->node, bytes,
		age(ledger, part->tick));
}

static int book_mmap(struct limpet_ledger *ledger, const struct limpet_record *event)
{
	struct limpet_mapping mapping = {.start = event->address,
					 .end = event->address + event->size,
					 .tick = ledger->tick,
					 .node = event->node,
					 .thread = ledger->thread};
	struct limpet_site *site;

	/* MAP_FIXED takes the place of what was there. */
	limpet_mapping_table_release(ledger->mappings, mapping.start, mapping.end, book_unmapped,
				     ledger);
	site = find_site(ledger, event->node);
	if (!site)
		return -ENOMEM;
	ledger->totals[LIMPET_TOTAL_EVENTS]++;
	ledger->totals[LIMPET_TOTAL_MMAPS]++;
	ledger->totals[LIMPET_TOTAL_MMAP_BYTES] += event->size;
	site->mmaps++;
	site->mmap_bytes += event->size;
	/* No room: never live, then, as an allocation that finds none. */
	if (limpet_mapping_table_add(ledger->mappings, &mapping) < 0) {
		ledger->table_full++;
		book_unmapped(&mapping, ledger);
	}
	add_row(ledger, LIMPET_ROW_MMAP, event->address, event->node, event->size, 0);
	return 0;
}

static int book_munmap(struct limpet_ledger *ledger, const struct limpet_record *event)
{
	uint64_t before = ledger->totals[LIMPET_TOTAL_UNMAPPED_BYTES], known;

	limpet_mapping_table_release(ledger->mappings, event->address, event->address + event->size,
				     book_unmapped, ledger);
	known = ledger->totals[LIMPET_TOTAL_UNMAPPED_BYTES] - before;
	ledger->totals[LIMPET_TOTAL_EVENTS]++;
	ledger->totals[LIMPET_TOTAL_MUNMAPS]++;
	/* More can be known than was asked for when a piece had to be given up. */
	if (known < event->size)
		ledger->totals[LIMPET_TOTAL_FOREIGN_UNMAPPED_BYTES] += event->size - known;
	add_row(ledger, LIMPET_ROW_MUNMAP, event->address, 0, event->size, 0);
	return 0;
}

/* ------------------------------------------------------------------ overloads */

/* What is not recorded lies between an allocation and its free, or may. */
static void forget_last(struct limpet_ledger *ledger)
{
	for (uint32_t i = 0; i < ledger->threads->count; i++)
		*limpet_thread_numbers_last(ledger->threads, i) = 0;
}

static int book_overload(struct limpet_ledger *ledger, bool begins)
{
	struct limpet_ledger_overload *list = ledger->overloads;
	size_t room = ledger->overload_room;

	if (!ledger->sampling.overload_bytes || begins == ledger->overloaded)
		return -EINVAL;
	ledger->overloaded = begins;
	ledger->was_overloaded = true;
	forget_last(ledger);
	if (!begins) {
		list[ledger->overload_count - 1].to_ns = ledger->time_ns;
		return 0;
	}
	if (ledger->overload_count == room) {
		room = room ? room * 2 : 16;
		list = reallocarray(list, room, sizeof(*list));
		if (!list) {
			ledger->overloaded = false;
			return -ENOMEM;
		}
		ledger->overloads = list;
		ledger->overload_room = room;
	}
	list[ledger->overload_count++] = (struct limpet_ledger_overload){.from_ns = ledger->time_ns,
									 .to_ns = ledger->time_ns};
	return 0;
}

size_t limpet_ledger_period_overloads(const struct limpet_ledger *ledger,
				      const struct limpet_ledger_overload **ret_list)
{
	if (ledger->overloaded)
		ledger->overloads[ledger->overload_count - 1].to_ns = ledger->time_ns;
	*ret_list = ledger->overloads;
	return ledger->overload_count;
}

/* Of the one that lasts, the rest is still to come. */
static void next_overloads(struct limpet_ledger *ledger)
{
	if (ledger->overloaded)
		ledger->overloads[0].from_ns = ledger->overloads[0].to_ns = ledger->time_ns;
	ledger->overload_count = ledger->overloaded;
}

/* ------------------------------------------------------------------ events */

static bool is_mapping(const struct limpet_record *event)
{
	return event->kind == LIMPET_EVENT_MMAP || event->kind == LIMPET_EVENT_MUNMAP;
}

static bool is_sane(const struct limpet_record *event)
{
	if (event->kind < LIMPET_EVENT_ALLOC || event->kind > LIMPET_EVENT_MUNMAP)
		return false;
	if (event->node >= LIMPET_TRACE_NODES_MAX || event->size > INT64_MAX)
		return false;
	return event->address && (!is_mapping(event) ||
				  (event->size && event->address + event->size > event->address));
}

static void set_time(struct limpet_ledger *ledger, uint64_t time_ns)
{
	/* Merging by time stamp is as good as the clocks; the file's times never run back. */
	if (time_ns <= ledger->time_ns)
		return;
	ledger->time_ns = time_ns;
	ledger->tick = time_ns / LIMPET_TRACE_TICK_NS;
}

/* Answers 0, -EINVAL (nothing is booked) or -ENOMEM. */
static int add_event(struct limpet_ledger *ledger, const struct limpet_record *event)
{
	struct limpet_record whole_pages;
	bool overload = event->kind == LIMPET_EVENT_OVERLOAD || event->kind == LIMPET_EVENT_ROOM;
	int thread, code;

	/* The kernel maps and unmaps whole pages, whatever length it is told. */
	if (is_mapping(event) && event->size <= INT64_MAX) {
		whole_pages = *event;
		whole_pages.size =
			(event->size + ledger->page_bytes - 1) & ~(ledger->page_bytes - 1);
		event = &whole_pages;
	}
	if ((!overload && !is_sane(event)) || (event->sampled && !ledger->sampling.overload_bytes))
		return -EINVAL;
	thread = limpet_thread_numbers_find(ledger->threads, event->thread);
	if (thread < 0)
		return thread;
	ledger->thread = (uint32_t)thread;
	ledger->tid = event->thread;
	set_time(ledger, event->time_ns);
	switch (event->kind) {
	case LIMPET_EVENT_ALLOC:
		code = book_alloc(ledger, event);
		break;
	case LIMPET_EVENT_FREE:
		code = book_call_free(ledger, event);
		break;
	case LIMPET_EVENT_MMAP:
		code = book_mmap(ledger, event);
		break;
	case LIMPET_EVENT_OVERLOAD:
	case LIMPET_EVENT_ROOM:
		code = book_overload(ledger, event->kind == LIMPET_EVENT_OVERLOAD);
		break;
	default:
		code = book_munmap(ledger, event);
		break;
	}
	return code;
}

/* A block that its own thread gives back before anybody's next event: it need not go through the
 * live table. Not where samples, what was held or want of room make a difference. */
static inline bool is_short(const struct limpet_ledger *ledger, const struct limpet_record *event)
{
	return event[0].kind == LIMPET_EVENT_ALLOC && event[1].kind == LIMPET_EVENT_FREE &&
	       event[0].address == event[1].address && event[0].thread == event[1].thread &&
	       !event[0].sampled && !ledger->was_overloaded && !ledger->sampling.bytes &&
	       !ledger->keeps_held && is_sane(&event[0]) && is_sane(&event[1]) &&
	       limpet_live_table_would_take(ledger->live, event[0].address);
}

/* As book_alloc() and book_call_free() one after the other. */
static int book_short(struct limpet_ledger *ledger, const struct limpet_record *event)
{
	unsigned bucket = limpet_trace_size_bucket(event[0].size);
	uint64_t size = event[0].size, tick;
	int thread = limpet_thread_numbers_find(ledger->threads, event[0].thread);
	struct limpet_site *site;

	if (thread < 0)
		return thread;
	site = find_site(ledger, event[0].node);
	if (!site)
		return -ENOMEM;
	ledger->thread = (uint32_t)thread;
	ledger->tid = event[0].thread;
	set_time(ledger, event[0].time_ns);
	tick = ledger->tick;
	ledger->totals[LIMPET_TOTAL_EVENTS] += 2;
	ledger->totals[LIMPET_TOTAL_ALLOCATIONS]++;
	ledger->totals[LIMPET_TOTAL_ALLOCATED_BYTES] += size;
	ledger->totals[LIMPET_TOTAL_FREES]++;
	ledger->totals[LIMPET_TOTAL_FREED_BYTES] += size;
	ledger->totals[LIMPET_TOTAL_TEMPORARY]++;
	ledger->sizes[bucket].allocations++;
	ledger->sizes[bucket].bytes += size;
	site->allocations++;
	site->allocated_bytes += size;
	site->frees++;
	site->freed_bytes += size;
	site->temporary++;
	ledger->live_bytes += size;
	add_row(ledger, LIMPET_ROW_ALLOC, event[0].address, event[0].node, size, 0);
	update_peak(ledger);
	ledger->live_bytes -= size;
	set_time(ledger, event[1].time_ns);
	*limpet_thread_numbers_last(ledger->threads, ledger->thread) = 0;
	add_row(ledger, LIMPET_ROW_FREE | LIMPET_ROW_TEMPORARY, event[0].address, event[0].node,
		size, age(ledger, tick));
	return 0;
}

/* First the lines of all blocks, then those of their sites, which the blocks name. */
static void prefetch(const struct limpet_ledger *ledger, const struct limpet_record *events,
		     size_t count)
{
	for (size_t i = 0; i < count; i++)
		limpet_live_table_prefetch(ledger->live, events[i].address);
	for (size_t i = 0; i < count; i++) {
		if (events[i].kind == LIMPET_EVENT_FREE)
			limpet_site_book_prefetch(
				ledger->sites,
				limpet_live_table_peek(ledger->live, events[i].address));
		else
			limpet_site_book_prefetch_node(ledger->sites, events[i].node);
	}
}

int64_t limpet_ledger_add(struct limpet_ledger *ledger, const struct limpet_record *events,
			  size_t count, struct limpet_ledger_rows *rows)
{
	int64_t refused = 0;

	ledger->rows = rows;
	ledger->no_memory = false;
	if (count > 1)
		prefetch(ledger, events, count);
	for (size_t i = 0; i < count; i++) {
		int code;

		if (i + 1 < count && is_short(ledger, &events[i]))
			code = book_short(ledger, &events[i++]);
		else
			code = add_event(ledger, &events[i]);
		refused += code == -EINVAL;
		ledger->no_memory |= code == -ENOMEM;
	}
	return ledger->no_memory ? -ENOMEM : refused;
}

uint64_t limpet_ledger_time_ns(const struct limpet_ledger *ledger)
{
	return ledger->time_ns;
}

/* ------------------------------------------------------------------ figures */

const uint64_t *limpet_ledger_totals(const struct limpet_ledger *ledger)
{
	return ledger->totals;
}

uint64_t limpet_ledger_live_bytes(const struct limpet_ledger *ledger)
{
	return ledger->estimated_bytes;
}

bool limpet_ledger_is_estimated(const struct limpet_ledger *ledger)
{
	return ledger->sampling.bytes || ledger->was_overloaded;
}

uint64_t limpet_ledger_live_allocations(const struct limpet_ledger *ledger)
{
	return ledger->live_allocations;
}

uint64_t limpet_ledger_mapped_bytes(const struct limpet_ledger *ledger)
{
	return ledger->totals[LIMPET_TOTAL_MMAP_BYTES] -
	       ledger->totals[LIMPET_TOTAL_UNMAPPED_BYTES];
}

uint64_t limpet_ledger_inferred_bytes(const struct limpet_ledger *ledger)
{
	return ledger->inferred_bytes;
}

uint64_t limpet_ledger_table_full(const struct limpet_ledger *ledger)
{
	return ledger->table_full;
}

struct limpet_ledger_peak limpet_ledger_peak(const struct limpet_ledger *ledger)
{
	return ledger->peak;
}

bool limpet_ledger_next_held(const struct limpet_ledger *ledger, uint32_t *node,
			     struct limpet_ledger_held *ret_held)
{
	const struct limpet_site *site;

	while ((site = limpet_site_book_next(ledger->sites, node))) {
		bool moved = site->held_turn == ledger->peak_turn;
		uint64_t blocks = moved ? site->held_blocks : site->live_blocks;

		if (!blocks)
			continue;
		*ret_held = (struct limpet_ledger_held){.node = site->node,
							.blocks = blocks,
							.bytes = moved ? site->held_bytes
								       : site->live_bytes};
		return true;
	}
	return false;
}

size_t limpet_ledger_period_sites(const struct limpet_ledger *ledger)
{
	return limpet_site_book_touched(ledger->sites);
}

size_t limpet_ledger_sort_sites(struct limpet_ledger *ledger)
{
	return limpet_site_book_sort(ledger->sites);
}

const struct limpet_site *limpet_ledger_site_at(const struct limpet_ledger *ledger, size_t index)
{
	return limpet_site_book_at(ledger->sites, index);
}

const struct limpet_ledger_size *limpet_ledger_period_sizes(const struct limpet_ledger *ledger)
{
	return ledger->sizes;
}

void limpet_ledger_next_period(struct limpet_ledger *ledger, uint64_t time_ns)
{
	limpet_site_book_turn(ledger->sites);
	next_overloads(ledger);
	ledger->period_rows = 0;
	ledger->peak.bytes = ledger->live_bytes;
	ledger->peak.rows = 0;
	ledger->peak.time_ns = time_ns;
	memset(ledger->sizes, 0, sizeof(ledger->sizes));
}

uint32_t limpet_ledger_growing(const struct limpet_ledger *ledger, uint64_t *ret_bytes)
{
	return limpet_site_book_growing(ledger->sites, ret_bytes);
}

const struct limpet_live_entry *limpet_ledger_live(struct limpet_ledger *ledger, size_t *ret_count)
{
	return limpet_live_table_sort(ledger->live, ret_count);
}

uint32_t limpet_ledger_node(const struct limpet_ledger *ledger, uint32_t site)
{
	return limpet_site_book_node(ledger->sites, site);
}

void limpet_ledger_walk_mappings(const struct limpet_ledger *ledger, limpet_mapping_fn *each,
				 void *data)
{
	limpet_mapping_table_walk(ledger->mappings, each, data);
}

size_t limpet_ledger_mapping_count(const struct limpet_ledger *ledger)
{
	return limpet_mapping_table_count(ledger->mappings);
}
