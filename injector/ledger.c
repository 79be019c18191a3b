#include "injector/ledger.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "common/wire.h"

/* Threads are numbered for good, so that a live entry can name its thread in four bytes; a target
 * that goes through more than this shares the last number. */
#define THREADS_MAX (1u << 22)
/* One munmap can release them all, and its rows must fit one block of the trace. */
#define MAPPINGS_MAX_BYTES (48u << 20)

struct thread {
	uint32_t tid;
	uint64_t last_address; /* of its last allocation while that is live, else 0 */
};

struct limpet_ledger {
	struct limpet_live_table *live;
	struct limpet_mapping_table *mappings;

	uint64_t totals[LIMPET_TOTAL_COUNT];
	uint64_t live_bytes, live_allocations;
	uint64_t table_full;
	uint64_t time_ns;

	struct limpet_ledger_site *sites; /* entry 0 is not used */
	uint32_t site_count, site_room;
	uint32_t *site_of_node; /* 0: none yet */
	size_t node_room;
	uint32_t *touched; /* sites with an event in this period */
	size_t touched_count, touched_room;
	const struct limpet_ledger_site **listed;
	size_t listed_room;

	uint32_t period; /* from 1 */
	uint32_t period_rows;
	struct limpet_ledger_peak peak;
	struct limpet_ledger_size sizes[LIMPET_TRACE_SIZE_BUCKETS];

	struct thread *threads;
	uint32_t thread_count, thread_room;
	uint32_t *thread_slots; /* open addressing by tid: number + 1 */
	uint32_t thread_mask;
	uint32_t last_tid, last_thread;

	uint32_t growing_site; /* 0: none */
	uint64_t growing_bytes;

	struct limpet_ledger_row *rows; /* of the event at hand */
	size_t row_count, row_room;
	bool no_memory;
	/* of the event at hand, for the mapping table's call-backs */
	uint64_t tick;
};

/* Makes `*array` hold at least `want` items; false: no memory, nothing changed. */
static bool want_room(void *array, size_t *room, size_t want, size_t item_bytes)
{
	size_t more = *room ? *room : 64;
	void *grown;

	if (want <= *room)
		return true;
	while (more < want)
		more *= 2;
	memcpy(&grown, array, sizeof(grown));
	grown = reallocarray(grown, more, item_bytes);
	if (!grown)
		return false;
	memcpy(array, &grown, sizeof(grown));
	*room = more;
	return true;
}

struct limpet_ledger *limpet_ledger_new(uint64_t memory_bytes)
{
	struct limpet_ledger *ledger = calloc(1, sizeof(*ledger));

	if (!ledger)
		return NULL;
	ledger->period = 1;
	ledger->site_count = 1;
	ledger->live = limpet_live_table_new(memory_bytes / 10 * 9);
	ledger->mappings = limpet_mapping_table_new(
		memory_bytes / 10 < MAPPINGS_MAX_BYTES ? memory_bytes / 10 : MAPPINGS_MAX_BYTES);
	if (!ledger->live || !ledger->mappings) {
		limpet_ledger_free(ledger);
		return NULL;
	}
	return ledger;
}

void limpet_ledger_free(struct limpet_ledger *ledger)
{
	if (!ledger)
		return;
	limpet_live_table_free(ledger->live);
	limpet_mapping_table_free(ledger->mappings);
	free(ledger->sites);
	free(ledger->site_of_node);
	free(ledger->touched);
	free(ledger->listed);
	free(ledger->threads);
	free(ledger->thread_slots);
	free(ledger->rows);
	free(ledger);
}

/* ------------------------------------------------------------------ threads */

static bool grow_thread_slots(struct limpet_ledger *ledger)
{
	uint32_t room = ledger->thread_mask ? (ledger->thread_mask + 1) * 2 : 64;
	uint32_t *slots = calloc(room, sizeof(*slots));

	if (!slots)
		return false;
	for (uint32_t i = 0; i < ledger->thread_count; i++) {
		uint32_t at = ledger->threads[i].tid * 0x9E3779B1u & (room - 1);

		while (slots[at])
			at = (at + 1) & (room - 1);
		slots[at] = i + 1;
	}
	free(ledger->thread_slots);
	ledger->thread_slots = slots;
	ledger->thread_mask = room - 1;
	return true;
}

/* Finds or numbers the thread. Answers its number or -ENOMEM. */
static int find_thread(struct limpet_ledger *ledger, uint32_t tid)
{
	size_t room = ledger->thread_room;
	uint32_t at;

	if (ledger->thread_count && ledger->last_tid == tid)
		return (int)ledger->last_thread;
	if (ledger->thread_count * 2 >= ledger->thread_mask && !grow_thread_slots(ledger))
		return -ENOMEM;
	at = tid * 0x9E3779B1u & ledger->thread_mask;
	while (ledger->thread_slots[at]) {
		uint32_t thread = ledger->thread_slots[at] - 1;

		if (ledger->threads[thread].tid == tid)
			goto found;
		at = (at + 1) & ledger->thread_mask;
	}
	if (ledger->thread_count < THREADS_MAX) {
		if (!want_room(&ledger->threads, &room, ledger->thread_count + 1ul,
			       sizeof(*ledger->threads)))
			return -ENOMEM;
		ledger->thread_room = (uint32_t)room;
		ledger->threads[ledger->thread_count] = (struct thread){.tid = tid};
		ledger->thread_slots[at] = ++ledger->thread_count;
	} else {
		ledger->thread_slots[at] = ledger->thread_count;
	}
found:
	ledger->last_tid = tid;
	ledger->last_thread = ledger->thread_slots[at] - 1;
	return (int)ledger->last_thread;
}

uint32_t limpet_ledger_tid(const struct limpet_ledger *ledger, uint32_t thread)
{
	return thread < ledger->thread_count ? ledger->threads[thread].tid : 0;
}

uint32_t limpet_ledger_thread(const struct limpet_ledger *ledger)
{
	return ledger->last_thread;
}

/* ------------------------------------------------------------------ sites */

/* Its figures of the period begin at zero with its first event. NULL: no memory. */
static struct limpet_ledger_site *find_site(struct limpet_ledger *ledger, uint32_t node)
{
	struct limpet_ledger_site *site;
	uint32_t at;

	if (node >= ledger->node_room) {
		size_t old_room = ledger->node_room;

		if (!want_room(&ledger->site_of_node, &ledger->node_room, node + 1ul,
			       sizeof(*ledger->site_of_node)))
			return NULL;
		memset(ledger->site_of_node + old_room, 0,
		       (ledger->node_room - old_room) * sizeof(*ledger->site_of_node));
	}
	at = ledger->site_of_node[node];
	if (!at) {
		size_t room = ledger->site_room;

		if (!want_room(&ledger->sites, &room, ledger->site_count + 1ul,
			       sizeof(*ledger->sites)))
			return NULL;
		ledger->site_room = (uint32_t)room;
		if (ledger->site_count == 1)
			ledger->sites[0] = (struct limpet_ledger_site){0};
		at = ledger->site_count;
		ledger->sites[at] = (struct limpet_ledger_site){.node = node};
	}
	site = &ledger->sites[at];
	if (site->period != ledger->period) {
		if (!want_room(&ledger->touched, &ledger->touched_room, ledger->touched_count + 1,
			       sizeof(*ledger->touched)))
			return NULL;
		ledger->touched[ledger->touched_count++] = at;
		*site = (struct limpet_ledger_site){
			.node = node, .period = ledger->period, .live_bytes = site->live_bytes};
	}
	if (at == ledger->site_count) {
		ledger->site_of_node[node] = at;
		ledger->site_count++;
	}
	return site;
}

/* ------------------------------------------------------------------ rows */

static bool add_row(struct limpet_ledger *ledger, uint8_t op, uint32_t node, uint64_t size,
		    uint64_t age_ticks)
{
	if (!want_room(&ledger->rows, &ledger->row_room, ledger->row_count + 1,
		       sizeof(*ledger->rows))) {
		ledger->no_memory = true;
		return false;
	}
	ledger->rows[ledger->row_count++] = (struct limpet_ledger_row){
		.op = op, .node = node, .size = size, .age_ticks = age_ticks};
	return true;
}

static uint64_t age(const struct limpet_ledger *ledger, uint64_t tick)
{
	return ledger->tick > tick ? ledger->tick - tick : 0;
}

/* A block of the live table is gone: by a call, or because its address was handed out anew. */
static void book_free(struct limpet_ledger *ledger, const struct limpet_live_entry *entry,
		      struct limpet_ledger_site *site, uint8_t op)
{
	struct thread *owner = &ledger->threads[entry->thread];

	ledger->totals[LIMPET_TOTAL_FREES]++;
	ledger->totals[LIMPET_TOTAL_FREED_BYTES] += entry->size;
	ledger->live_bytes -= entry->size;
	ledger->live_allocations--;
	site->frees++;
	site->freed_bytes += entry->size;
	site->live_bytes -= entry->size;
	/* The address is enough: since it was allocated, nobody else can have got it. */
	if (owner->last_address == entry->address) {
		owner->last_address = 0;
		if (op == LIMPET_ROW_FREE) {
			op |= LIMPET_ROW_TEMPORARY;
			ledger->totals[LIMPET_TOTAL_TEMPORARY]++;
			site->temporary++;
		}
	}
	add_row(ledger, op, entry->node, entry->size, age(ledger, entry->tick));
}

static void update_peak(struct limpet_ledger *ledger)
{
	if (ledger->live_bytes <= ledger->peak.bytes)
		return;
	ledger->peak.bytes = ledger->live_bytes;
	ledger->peak.rows = ledger->period_rows + (uint32_t)ledger->row_count;
	ledger->peak.time_ns = ledger->time_ns;
	if (ledger->live_bytes > ledger->peak.capture_bytes) {
		ledger->peak.capture_bytes = ledger->live_bytes;
		ledger->peak.capture_ns = ledger->time_ns;
	}
}

static int book_alloc(struct limpet_ledger *ledger, const struct limpet_ledger_event *event,
		      uint32_t thread)
{
	struct limpet_live_entry entry = {.address = event->address,
					  .size = event->size,
					  .tick = ledger->tick,
					  .node = event->node,
					  .thread = thread};
	struct limpet_ledger_site *site = find_site(ledger, event->node), *old_site;
	unsigned bucket = limpet_trace_size_bucket(event->size);
	struct limpet_live_entry old;
	int code;

	if (!site)
		return -ENOMEM;
	code = limpet_live_table_insert(ledger->live, &entry, &old);
	if (code == 1) {
		ledger->totals[LIMPET_TOTAL_INFERRED_FREES]++;
		/* cannot fail: the site of a live block has its place */
		old_site = find_site(ledger, old.node);
		if (old_site)
			book_free(ledger, &old, old_site, LIMPET_ROW_INFERRED_FREE);
		site = find_site(ledger, event->node);
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
		ledger->threads[thread].last_address = 0;
		add_row(ledger, LIMPET_ROW_UNTRACKED, event->node, event->size, 0);
		return 0;
	}
	ledger->live_bytes += event->size;
	ledger->live_allocations++;
	site->live_bytes += event->size;
	ledger->threads[thread].last_address = event->address;
	add_row(ledger, LIMPET_ROW_ALLOC, event->node, event->size, 0);
	update_peak(ledger);
	return 0;
}

static int book_call_free(struct limpet_ledger *ledger, const struct limpet_ledger_event *event)
{
	struct limpet_live_entry entry;
	struct limpet_ledger_site *site;

	if (!limpet_live_table_remove(ledger->live, event->address, &entry)) {
		ledger->totals[LIMPET_TOTAL_EVENTS]++;
		ledger->totals[LIMPET_TOTAL_FOREIGN_FREES]++;
		ledger->totals[LIMPET_TOTAL_FOREIGN_FREED_BYTES] += event->size;
		add_row(ledger, LIMPET_ROW_FOREIGN_FREE, 0, event->size, 0);
		return 0;
	}
	site = find_site(ledger, entry.node);
	if (!site)
		return -ENOMEM;
	ledger->totals[LIMPET_TOTAL_EVENTS]++;
	book_free(ledger, &entry, site, LIMPET_ROW_FREE);
	return 0;
}

/* ------------------------------------------------------------------ mappings */

static void book_unmapped(const struct limpet_mapping *part, void *data)
{
	struct limpet_ledger *ledger = data;
	struct limpet_ledger_site *site = find_site(ledger, part->node);
	uint64_t bytes = part->end - part->start;

	if (!site) {
		ledger->no_memory = true;
		return;
	}
	ledger->totals[LIMPET_TOTAL_UNMAPPED_BYTES] += bytes;
	site->unmapped_parts++;
	site->unmapped_bytes += bytes;
	add_row(ledger, LIMPET_ROW_UNMAPPED, part->node, bytes, age(ledger, part->tick));
}

static int book_mmap(struct limpet_ledger *ledger, const struct limpet_ledger_event *event,
		     uint32_t thread)
{
	struct limpet_mapping mapping = {.start = event->address,
					 .end = event->address + event->size,
					 .tick = ledger->tick,
					 .node = event->node,
					 .thread = thread};
	struct limpet_ledger_site *site;

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
	add_row(ledger, LIMPET_ROW_MMAP, event->node, event->size, 0);
	return 0;
}

static int book_munmap(struct limpet_ledger *ledger, const struct limpet_ledger_event *event)
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
	add_row(ledger, LIMPET_ROW_MUNMAP, 0, event->size, 0);
	return 0;
}

/* ------------------------------------------------------------------ events */

static bool is_sane(const struct limpet_ledger_event *event)
{
	bool mapping = event->kind == LIMPET_EVENT_MMAP || event->kind == LIMPET_EVENT_MUNMAP;

	if (event->kind < LIMPET_EVENT_ALLOC || event->kind > LIMPET_EVENT_MUNMAP)
		return false;
	if (event->node >= LIMPET_TRACE_NODES_MAX || event->size > INT64_MAX)
		return false;
	return event->address &&
	       (!mapping || (event->size && event->address + event->size > event->address));
}

int limpet_ledger_add(struct limpet_ledger *ledger, const struct limpet_ledger_event *event,
		      const struct limpet_ledger_row **ret_rows)
{
	int thread, code;

	if (!is_sane(event))
		return -EINVAL;
	thread = find_thread(ledger, event->tid);
	if (thread < 0)
		return thread;
	ledger->row_count = 0;
	ledger->no_memory = false;
	ledger->time_ns = event->time_ns;
	ledger->tick = event->time_ns / LIMPET_TRACE_TICK_NS;
	switch (event->kind) {
	case LIMPET_EVENT_ALLOC:
		code = book_alloc(ledger, event, (uint32_t)thread);
		break;
	case LIMPET_EVENT_FREE:
		code = book_call_free(ledger, event);
		break;
	case LIMPET_EVENT_MMAP:
		code = book_mmap(ledger, event, (uint32_t)thread);
		break;
	default:
		code = book_munmap(ledger, event);
		break;
	}
	if (code < 0 || ledger->no_memory)
		return -ENOMEM;
	ledger->period_rows += (uint32_t)ledger->row_count;
	*ret_rows = ledger->rows;
	return (int)ledger->row_count;
}

void limpet_ledger_prefetch(const struct limpet_ledger *ledger, uint64_t address)
{
	limpet_live_table_prefetch(ledger->live, address);
}

/* ------------------------------------------------------------------ figures */

const uint64_t *limpet_ledger_totals(const struct limpet_ledger *ledger)
{
	return ledger->totals;
}

uint64_t limpet_ledger_live_bytes(const struct limpet_ledger *ledger)
{
	return ledger->live_bytes;
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

uint64_t limpet_ledger_table_full(const struct limpet_ledger *ledger)
{
	return ledger->table_full;
}

struct limpet_ledger_peak limpet_ledger_peak(const struct limpet_ledger *ledger)
{
	return ledger->peak;
}

static int compare_nodes(const void *a, const void *b)
{
	const struct limpet_ledger_site *left, *right;

	memcpy(&left, a, sizeof(left));
	memcpy(&right, b, sizeof(right));
	return left->node < right->node ? -1 : left->node > right->node;
}

size_t limpet_ledger_period_sites(struct limpet_ledger *ledger,
				  const struct limpet_ledger_site *const **ret_sites)
{
	if (!want_room(&ledger->listed, &ledger->listed_room, ledger->touched_count,
		       sizeof(*ledger->listed)))
		return 0;
	for (size_t i = 0; i < ledger->touched_count; i++)
		ledger->listed[i] = &ledger->sites[ledger->touched[i]];
	qsort(ledger->listed, ledger->touched_count, sizeof(*ledger->listed), compare_nodes);
	*ret_sites = ledger->listed;
	return ledger->touched_count;
}

const struct limpet_ledger_size *limpet_ledger_period_sizes(const struct limpet_ledger *ledger)
{
	return ledger->sizes;
}

static void update_growing(struct limpet_ledger *ledger)
{
	uint32_t best = ledger->growing_site;
	/* When the leader fell, one that was not touched may lead now. */
	bool all = ledger->sites[best].live_bytes < ledger->growing_bytes;
	size_t count = all ? ledger->site_count : ledger->touched_count;

	for (size_t i = 0; i < count; i++) {
		uint32_t at = all ? (uint32_t)i : ledger->touched[i];

		if (ledger->sites[at].live_bytes > ledger->sites[best].live_bytes)
			best = at;
	}
	ledger->growing_site = best;
	ledger->growing_bytes = ledger->sites[best].live_bytes;
}

void limpet_ledger_next_period(struct limpet_ledger *ledger, uint64_t time_ns)
{
	if (ledger->site_count > 1)
		update_growing(ledger);
	ledger->touched_count = 0;
	ledger->period++;
	ledger->period_rows = 0;
	ledger->peak.bytes = ledger->live_bytes;
	ledger->peak.rows = 0;
	ledger->peak.time_ns = time_ns;
	memset(ledger->sizes, 0, sizeof(ledger->sizes));
}

uint32_t limpet_ledger_growing(const struct limpet_ledger *ledger, uint64_t *ret_bytes)
{
	uint32_t site = ledger->growing_site;

	if (!site || !ledger->sites[site].live_bytes)
		return 0;
	*ret_bytes = ledger->sites[site].live_bytes;
	return ledger->sites[site].node;
}

const struct limpet_live_entry *limpet_ledger_live(struct limpet_ledger *ledger, size_t *ret_count)
{
	return limpet_live_table_sort(ledger->live, ret_count);
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
