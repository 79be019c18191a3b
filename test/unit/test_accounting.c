/* Heap accounting: what each word counts, and the tables beneath, against naive models. */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "collector/record/accounting.h"
#include "collector/record/live_table.h"
#include "collector/record/mapping_table.h"
#include "common/err.h"
#include "common/sample.h"
#include "common/wire.h"

#define MEMORY_BYTES (1u << 20)

static uint64_t random_state = 88172645463325252ull;

static uint64_t random_below(uint64_t limit)
{
	return limpet_sample_random(&random_state) % limit;
}

/* ------------------------------------------------------------------ live table */

#define ADDRESSES 4096u

/* 0: inserted; 1: replaced the entry of this address, which is in *ret_old; -ENOSPC: full. */
static int insert(struct limpet_live_table *table, const struct limpet_live_entry *entry,
		  struct limpet_live_entry *ret_old)
{
	struct limpet_live_entry *place = limpet_live_table_find(table, entry->address);

	if (!place->address)
		return limpet_live_table_add(table, place, entry) ? 0 : -ENOSPC;
	*ret_old = *place;
	*place = *entry;
	return 1;
}

/* Whether there was an entry; if so, it is in *ret_entry. */
static bool remove_address(struct limpet_live_table *table, uint64_t address,
			   struct limpet_live_entry *ret_entry)
{
	struct limpet_live_entry *entry = limpet_live_table_find(table, address);

	if (!entry->address)
		return false;
	*ret_entry = *entry;
	limpet_live_table_remove(table, entry);
	return true;
}

static void test_live_table_agrees_with_an_array(void **state)
{
	struct limpet_live_table *table = limpet_live_table_new(MEMORY_BYTES);
	static uint64_t sizes[ADDRESSES]; /* + 1; 0: not live */
	uint64_t count = 0;

	(void)state;
	assert_non_null(table);
	for (int i = 0; i < 400000; i++) {
		uint64_t number = random_below(ADDRESSES);
		struct limpet_live_entry entry = {.address = 0x7f0000000010ull + number * 16,
						  .size = (uint64_t)i,
						  .tick = (uint64_t)i * 3,
						  .site = (uint32_t)number,
						  .thread = 7},
					 old = {0};

		if (random_below(2)) {
			int code = insert(table, &entry, &old);

			assert_int_equal(code, sizes[number] != 0);
			if (code)
				assert_int_equal(old.size, sizes[number] - 1);
			count += !code;
			sizes[number] = entry.size + 1;
		} else {
			bool found = remove_address(table, entry.address, &old);

			assert_int_equal(found, sizes[number] != 0);
			if (found) {
				assert_int_equal(old.size, sizes[number] - 1);
				assert_int_equal(old.tick, old.size * 3);
				assert_int_equal(old.site, number);
			}
			count -= found;
			sizes[number] = 0;
		}
		assert_int_equal(limpet_live_table_count(table), count);
	}
	limpet_live_table_free(table);
}

static void test_live_table_keeps_all_while_it_grows(void **state)
{
	struct limpet_live_table *table = limpet_live_table_new(8u << 20);
	const struct limpet_live_entry *sorted;
	uint64_t count = 150000;
	size_t sorted_count;

	(void)state;
	for (uint64_t i = 0; i < count; i++) {
		struct limpet_live_entry entry = {.address = 16 + i * 48, .size = i, .tick = i},
					 old;

		assert_int_equal(insert(table, &entry, &old), 0);
	}
	sorted = limpet_live_table_sort(table, &sorted_count);
	assert_int_equal(sorted_count, count);
	for (uint64_t i = 0; i < count; i++) {
		assert_int_equal(sorted[i].address, 16 + i * 48);
		assert_int_equal(sorted[i].tick, i);
	}
	limpet_live_table_free(table);
}

/* Mean distance of an entry from where the search for it starts. */
static double mean_distance(uint64_t count, uint64_t step_bytes)
{
	struct limpet_live_table *table = limpet_live_table_new(64u << 20);
	const uint64_t base = 0x7f0000000010;
	uint64_t distances = 0, capacity;

	assert_non_null(table);
	for (uint64_t i = 0; i < count; i++) {
		const struct limpet_live_entry entry = {.address = base + i * step_bytes};
		struct limpet_live_entry old;

		assert_int_equal(insert(table, &entry, &old), 0);
	}
	capacity = 1ull << table->bits;
	for (uint64_t i = 0; i < capacity; i++)
		if (table->entries[i].address)
			distances +=
				(i - limpet_live_table_home(table, table->entries[i].address)) &
				(capacity - 1);
	limpet_live_table_free(table);
	return (double)distances / (double)count;
}

/* Of random addresses it is at most a half. */
static void test_live_table_scatters_rows_of_blocks(void **state)
{
	static const uint64_t steps[] = {16, 32, 48, 64, 80, 96, 112, 144, 1040, 4096, 65536};
	static const uint64_t counts[] = {1000, 5000, 20000, 33000, 100000, 600000};

	(void)state;
	for (size_t i = 0; i < sizeof(steps) / sizeof(*steps); i++)
		for (size_t k = 0; k < sizeof(counts) / sizeof(*counts); k++)
			assert_true(mean_distance(counts[k], steps[i]) < 2);
}

static void test_live_table_is_bounded(void **state)
{
	struct limpet_live_table *table = limpet_live_table_new(64 * 1024);
	struct limpet_live_entry entry = {0}, old;
	uint64_t i;
	int code = 0;

	(void)state;
	for (i = 1; i < 4096 && code == 0; i++) {
		entry.address = i * 16;
		code = insert(table, &entry, &old);
	}
	assert_int_equal(code, -ENOSPC);
	/* 2048 entries of 32 bytes, seven eighths of them used */
	assert_int_equal(limpet_live_table_count(table), 2048 / 8 * 7);
	assert_true(remove_address(table, 16, &old));
	assert_int_equal(insert(table, &entry, &old), 0);
	limpet_live_table_free(table);
}

/* ------------------------------------------------------------------ mapping table */

#define PAGES 512u

static uint32_t page_owner[PAGES]; /* node, 0: free */

static void check_part(const struct limpet_mapping *part, void *data)
{
	uint64_t *bytes = data;

	for (uint64_t page = part->start; page < part->end; page++) {
		assert_int_equal(page_owner[page - 1000], part->node);
		page_owner[page - 1000] = 0;
	}
	*bytes += part->end - part->start;
}

static void count_part(const struct limpet_mapping *part, void *data)
{
	uint64_t *bytes = data;

	for (uint64_t page = part->start; page < part->end; page++)
		assert_int_equal(page_owner[page - 1000], part->node);
	*bytes += part->end - part->start;
}

static void test_mapping_table_agrees_with_pages(void **state)
{
	struct limpet_mapping_table *table = limpet_mapping_table_new(MEMORY_BYTES);

	(void)state;
	assert_non_null(table);
	for (uint32_t i = 1; i < 60000; i++) {
		uint64_t first = random_below(PAGES), last = first + 1 + random_below(40);
		uint64_t expected = 0, released = 0, all = 0, held = 0;

		if (last > PAGES)
			last = PAGES;
		for (uint64_t page = first; page < last; page++)
			expected += page_owner[page] != 0;
		limpet_mapping_table_release(table, 1000 + first, 1000 + last, check_part,
					     &released);
		assert_int_equal(released, expected);
		if (random_below(5) < 3) {
			struct limpet_mapping mapping = {
				.start = 1000 + first, .end = 1000 + last, .node = i};

			assert_int_equal(limpet_mapping_table_add(table, &mapping), 0);
			for (uint64_t page = first; page < last; page++)
				page_owner[page] = i;
		}
		for (uint64_t page = 0; page < PAGES; page++)
			all += page_owner[page] != 0;
		limpet_mapping_table_walk(table, count_part, &held);
		assert_int_equal(held, all);
	}
	limpet_mapping_table_free(table);
}

static void ignore_part(const struct limpet_mapping *part, void *data)
{
	*(uint64_t *)data += part->end - part->start;
}

static void test_mapping_table_is_bounded(void **state)
{
	struct limpet_mapping_table *table = limpet_mapping_table_new(0);
	struct limpet_mapping mapping = {0};
	uint64_t released = 0;
	int code = 0;

	(void)state;
	for (uint64_t i = 0; i < 1000 && code == 0; i++) {
		mapping.start = i * 10;
		mapping.end = i * 10 + 10;
		code = limpet_mapping_table_add(table, &mapping);
	}
	assert_int_equal(code, -ENOSPC);
	/* No room for the second piece: what lies behind the cut is given up, and said. */
	limpet_mapping_table_release(table, 104, 106, ignore_part, &released);
	assert_int_equal(released, 6);
	limpet_mapping_table_free(table);
}

/* ------------------------------------------------------------------ accounting */

struct fixture {
	struct limpet_accounting *accounting;
	struct limpet_accounting_rows list;
	const struct limpet_accounting_row *rows; /* of the last event */
	uint64_t time_ns;
};

static int setup(void **state)
{
	struct fixture *fixture = calloc(1, sizeof(*fixture));

	fixture->accounting = limpet_accounting_new(MEMORY_BYTES);
	*state = fixture;
	return fixture->accounting ? 0 : -1;
}

static int teardown(void **state)
{
	struct fixture *fixture = *state;

	limpet_accounting_free(fixture->accounting);
	free(fixture->list.list);
	free(fixture);
	return 0;
}

static int add_event(struct fixture *fixture, struct limpet_record event)
{
	int64_t code;

	event.time_ns = fixture->time_ns += LIMPET_TRACE_TICK_NS;

	fixture->list.count = 0;
	code = limpet_accounting_add(fixture->accounting, &event, 1, &fixture->list);
	fixture->rows = fixture->list.list;
	if (code < 0)
		return (int)code;
	return code ? -EINVAL : (int)fixture->list.count;
}

static int add(struct fixture *fixture, uint32_t kind, uint32_t tid, uint64_t address,
	       uint64_t size, uint32_t node)
{
	return add_event(fixture, (struct limpet_record){.address = address,
							 .size = size,
							 .node = node,
							 .thread = tid,
							 .kind = (uint8_t)kind});
}

/* Of what the thread had allocated last. */
static int add_temporary_free(struct fixture *fixture, uint32_t tid, uint64_t address)
{
	return add_event(fixture, (struct limpet_record){.address = address,
							 .thread = tid,
							 .kind = LIMPET_EVENT_FREE,
							 .temporary = true});
}

static uint64_t total(const struct fixture *fixture, enum limpet_trace_total which)
{
	struct limpet_totals totals = *limpet_accounting_totals(fixture->accounting);

	return *limpet_totals_at(&totals, which);
}

static void test_a_free_is_paired(void **state)
{
	struct fixture *fixture = *state;

	assert_int_equal(add(fixture, LIMPET_EVENT_ALLOC, 1, 0x1000, 100, 5), 1);
	assert_int_equal(fixture->rows[0].op, LIMPET_ROW_ALLOC);
	assert_int_equal(add(fixture, LIMPET_EVENT_ALLOC, 1, 0x2000, 50, 6), 1);
	assert_int_equal(limpet_accounting_live_bytes(fixture->accounting), 150);
	/* the size in a FREE is the usable one: the requested size counts */
	assert_int_equal(add(fixture, LIMPET_EVENT_FREE, 1, 0x1000, 104, 0), 1);
	assert_int_equal(fixture->rows[0].op, LIMPET_ROW_FREE);
	assert_int_equal(fixture->rows[0].node, 5);
	assert_int_equal(fixture->rows[0].size, 100);
	assert_int_equal(fixture->rows[0].age_ticks, 2);
	assert_int_equal(limpet_accounting_live_bytes(fixture->accounting), 50);
	assert_int_equal(limpet_accounting_live_allocations(fixture->accounting), 1);
	assert_int_equal(total(fixture, LIMPET_TOTAL_EVENTS), 3);
	assert_int_equal(total(fixture, LIMPET_TOTAL_FREED_BYTES), 100);
}

static void test_a_foreign_free_lowers_nothing(void **state)
{
	struct fixture *fixture = *state;

	add(fixture, LIMPET_EVENT_ALLOC, 1, 0x1000, 100, 5);
	assert_int_equal(add(fixture, LIMPET_EVENT_FREE, 1, 0x9000, 4096, 0), 1);
	assert_int_equal(fixture->rows[0].op, LIMPET_ROW_FOREIGN_FREE);
	assert_int_equal(fixture->rows[0].size, 4096);
	assert_int_equal(limpet_accounting_live_bytes(fixture->accounting), 100);
	assert_int_equal(total(fixture, LIMPET_TOTAL_FOREIGN_FREES), 1);
	assert_int_equal(total(fixture, LIMPET_TOTAL_FOREIGN_FREED_BYTES), 4096);
	assert_int_equal(total(fixture, LIMPET_TOTAL_FREES), 0);
	/* freed twice: the second is foreign */
	add(fixture, LIMPET_EVENT_FREE, 1, 0x1000, 104, 0);
	add(fixture, LIMPET_EVENT_FREE, 1, 0x1000, 104, 0);
	assert_int_equal(total(fixture, LIMPET_TOTAL_FOREIGN_FREES), 2);
	assert_int_equal(limpet_accounting_live_bytes(fixture->accounting), 0);
}

/* The collector says so, and is believed where the block is the thread's own. */
static void test_temporary_is_of_the_allocating_thread(void **state)
{
	struct fixture *fixture = *state;

	add(fixture, LIMPET_EVENT_ALLOC, 1, 0x1000, 10, 5);
	add(fixture, LIMPET_EVENT_ALLOC, 2, 0x2000, 10, 5);
	add_temporary_free(fixture, 2, 0x1000);
	assert_int_equal(fixture->rows[0].op, LIMPET_ROW_FREE);
	assert_int_equal(fixture->rows[0].tid, 2);
	assert_int_equal(fixture->rows[0].owner_tid, 1);
	add_temporary_free(fixture, 2, 0x2000);
	assert_int_equal(fixture->rows[0].op, LIMPET_ROW_FREE | LIMPET_ROW_TEMPORARY);
	add(fixture, LIMPET_EVENT_ALLOC, 1, 0x4000, 10, 5);
	add(fixture, LIMPET_EVENT_FREE, 1, 0x4000, 10, 0);
	assert_int_equal(fixture->rows[0].op, LIMPET_ROW_FREE);
	add_temporary_free(fixture, 1, 0x5000);
	assert_int_equal(fixture->rows[0].op, LIMPET_ROW_FOREIGN_FREE);
	assert_int_equal(total(fixture, LIMPET_TOTAL_TEMPORARY), 1);
}

static int add_half(struct fixture *fixture, uint32_t kind, uint64_t address, uint64_t size,
		    uint32_t node)
{
	return add_event(fixture, (struct limpet_record){.address = address,
							 .size = size,
							 .node = node,
							 .thread = 1,
							 .kind = (uint8_t)kind,
							 .realloc = true});
}

/* One block, which began at one site, grows at another and is freed there. */
static void test_a_realloc_continues_a_block(void **state)
{
	struct fixture *fixture = *state;
	const struct limpet_site *site;

	add(fixture, LIMPET_EVENT_ALLOC, 1, 0x1000, 10, 5);
	for (unsigned i = 0; i < 3; i++) {
		assert_int_equal(add_half(fixture, LIMPET_EVENT_FREE, 0x1000, 16, 0), 1);
		assert_int_equal(fixture->rows[0].op, LIMPET_ROW_FREE | LIMPET_ROW_REALLOC);
		assert_int_equal(fixture->rows[0].node, i ? 6 : 5);
		assert_int_equal(add_half(fixture, LIMPET_EVENT_ALLOC, 0x1000, 20, 6), 1);
		assert_int_equal(fixture->rows[0].op, LIMPET_ROW_ALLOC | LIMPET_ROW_REALLOC);
	}
	assert_int_equal(limpet_accounting_live_allocations(fixture->accounting), 1);
	add(fixture, LIMPET_EVENT_FREE, 1, 0x1000, 24, 0);
	assert_int_equal(fixture->rows[0].op, LIMPET_ROW_FREE);
	assert_int_equal(total(fixture, LIMPET_TOTAL_ALLOCATIONS), 4);
	assert_int_equal(total(fixture, LIMPET_TOTAL_FREES), 4);
	assert_int_equal(total(fixture, LIMPET_TOTAL_REALLOCATIONS), 3);
	assert_int_equal(total(fixture, LIMPET_TOTAL_TEMPORARY), 0);
	assert_int_equal(limpet_accounting_sort_sites(fixture->accounting), 2);
	site = limpet_accounting_site_at(fixture->accounting, 0);
	assert_int_equal(site->node, 5);
	assert_int_equal(site->counts.allocations - site->counts.reallocations, 0);
	site = limpet_accounting_site_at(fixture->accounting, 1);
	assert_int_equal(site->counts.allocations - site->counts.reallocations, 1);
	assert_int_equal(site->counts.frees - site->counts.reallocations, 1);
}

/* Of a block from before the capture the rows say so, and no figure. */
static void test_a_realloc_of_an_older_block(void **state)
{
	struct fixture *fixture = *state;

	assert_int_equal(add_half(fixture, LIMPET_EVENT_FREE, 0x1000, 16, 0), 1);
	assert_int_equal(fixture->rows[0].op, LIMPET_ROW_FOREIGN_FREE | LIMPET_ROW_REALLOC);
	add_half(fixture, LIMPET_EVENT_ALLOC, 0x1000, 20, 6);
	assert_int_equal(fixture->rows[0].op, LIMPET_ROW_ALLOC | LIMPET_ROW_REALLOC);
	assert_int_equal(total(fixture, LIMPET_TOTAL_FOREIGN_FREES), 1);
	assert_int_equal(total(fixture, LIMPET_TOTAL_REALLOCATIONS), 0);
}

static void test_an_unseen_free_is_inferred(void **state)
{
	struct fixture *fixture = *state;

	add(fixture, LIMPET_EVENT_ALLOC, 1, 0x1000, 100, 5);
	assert_int_equal(add(fixture, LIMPET_EVENT_ALLOC, 1, 0x1000, 30, 6), 2);
	assert_int_equal(fixture->rows[0].op, LIMPET_ROW_INFERRED_FREE);
	assert_int_equal(fixture->rows[0].node, 5);
	assert_int_equal(fixture->rows[0].size, 100);
	assert_int_equal(fixture->rows[1].op, LIMPET_ROW_ALLOC);
	assert_int_equal(limpet_accounting_live_bytes(fixture->accounting), 30);
	assert_int_equal(total(fixture, LIMPET_TOTAL_EVENTS), 2);
	assert_int_equal(total(fixture, LIMPET_TOTAL_FREES), 1);
	assert_int_equal(total(fixture, LIMPET_TOTAL_INFERRED_FREES), 1);
	assert_int_equal(total(fixture, LIMPET_TOTAL_TEMPORARY), 0);
}

static void test_what_finds_no_room_is_never_live(void **state)
{
	struct fixture *fixture = *state;
	uint64_t tracked;

	for (uint64_t i = 1; i <= 100000; i++)
		add(fixture, LIMPET_EVENT_ALLOC, 1, i * 16, 10, 5);
	tracked = limpet_accounting_live_allocations(fixture->accounting);
	assert_in_range(tracked, 1000, 99999);
	assert_int_equal(total(fixture, LIMPET_TOTAL_ALLOCATIONS), 100000);
	assert_int_equal(total(fixture, LIMPET_TOTAL_UNTRACKED), 100000 - tracked);
	assert_int_equal(limpet_accounting_table_full(fixture->accounting), 100000 - tracked);
	assert_int_equal(limpet_accounting_live_bytes(fixture->accounting), tracked * 10);
	assert_int_equal(fixture->rows[0].op, LIMPET_ROW_UNTRACKED);
	for (uint64_t i = 1; i <= 100000; i++)
		add(fixture, LIMPET_EVENT_FREE, 1, i * 16, 24, 0);
	assert_int_equal(limpet_accounting_live_bytes(fixture->accounting), 0);
	assert_int_equal(total(fixture, LIMPET_TOTAL_FOREIGN_FREES), 100000 - tracked);
}

static void test_munmap_takes_parts(void **state)
{
	struct fixture *fixture = *state;

	add(fixture, LIMPET_EVENT_MMAP, 1, 0x10000, 0x4000, 7);
	add(fixture, LIMPET_EVENT_MMAP, 1, 0x14000, 0x4000, 8);
	/* the end of one, the start of the next, nothing of the heap */
	assert_int_equal(add(fixture, LIMPET_EVENT_MUNMAP, 1, 0x13000, 0x2000, 0), 3);
	assert_int_equal(fixture->rows[0].op, LIMPET_ROW_UNMAPPED);
	assert_int_equal(fixture->rows[0].node, 7);
	assert_int_equal(fixture->rows[0].size, 0x1000);
	assert_int_equal(fixture->rows[1].node, 8);
	assert_int_equal(fixture->rows[2].op, LIMPET_ROW_MUNMAP);
	assert_int_equal(fixture->rows[2].size, 0x2000);
	assert_int_equal(limpet_accounting_mapped_bytes(fixture->accounting), 0x6000);
	/* beyond what was seen: foreign */
	add(fixture, LIMPET_EVENT_MUNMAP, 1, 0x10000, 0x10000, 0);
	assert_int_equal(limpet_accounting_mapped_bytes(fixture->accounting), 0);
	assert_int_equal(total(fixture, LIMPET_TOTAL_FOREIGN_UNMAPPED_BYTES), 0xa000);
	assert_int_equal(total(fixture, LIMPET_TOTAL_UNMAPPED_BYTES), 0x8000);
	assert_int_equal(limpet_accounting_live_bytes(fixture->accounting), 0);
	assert_int_equal(total(fixture, LIMPET_TOTAL_EVENTS), 4);
	/* MAP_FIXED over an older mapping */
	add(fixture, LIMPET_EVENT_MMAP, 1, 0x10000, 0x4000, 7);
	assert_int_equal(add(fixture, LIMPET_EVENT_MMAP, 1, 0x11000, 0x1000, 8), 2);
	assert_int_equal(fixture->rows[0].op, LIMPET_ROW_UNMAPPED);
	assert_int_equal(limpet_accounting_mapped_bytes(fixture->accounting), 0x4000);
	assert_int_equal(limpet_accounting_mapping_count(fixture->accounting), 3);
}

static void test_mappings_are_whole_pages(void **state)
{
	struct fixture *fixture = *state;

	add(fixture, LIMPET_EVENT_MMAP, 1, 0x10000, 100, 7);
	assert_int_equal(limpet_accounting_mapped_bytes(fixture->accounting), 4096);
	add(fixture, LIMPET_EVENT_MMAP, 1, 0x20000, 4096, 7);
	add(fixture, LIMPET_EVENT_MUNMAP, 1, 0x20000, 1, 0);
	assert_int_equal(limpet_accounting_mapped_bytes(fixture->accounting), 4096);
	assert_int_equal(total(fixture, LIMPET_TOTAL_FOREIGN_UNMAPPED_BYTES), 0);
}

static void test_the_peak_has_a_place(void **state)
{
	struct fixture *fixture = *state;
	struct limpet_accounting_peak peak;

	add(fixture, LIMPET_EVENT_ALLOC, 1, 0x1000, 100, 5);
	add(fixture, LIMPET_EVENT_ALLOC, 1, 0x2000, 200, 6);
	add(fixture, LIMPET_EVENT_FREE, 1, 0x1000, 0, 0);
	add(fixture, LIMPET_EVENT_ALLOC, 1, 0x3000, 100, 6);
	peak = limpet_accounting_peak(fixture->accounting);
	/* as high again is no new peak: the first counts */
	assert_int_equal(peak.bytes, 300);
	assert_int_equal(peak.rows, 2);
	assert_int_equal(peak.time_ns, 2 * LIMPET_TRACE_TICK_NS);
	limpet_accounting_next_period(fixture->accounting, 77);
	peak = limpet_accounting_peak(fixture->accounting);
	assert_int_equal(peak.bytes, 300);
	assert_int_equal(peak.rows, 0);
	assert_int_equal(peak.capture_bytes, 300);
	add(fixture, LIMPET_EVENT_FREE, 1, 0x3000, 0, 0);
	add(fixture, LIMPET_EVENT_ALLOC, 1, 0x3000, 150, 6);
	peak = limpet_accounting_peak(fixture->accounting);
	assert_int_equal(peak.capture_bytes, 350);
	assert_int_equal(peak.rows, 2);
}

static void test_sites_are_of_the_period(void **state)
{
	struct fixture *fixture = *state;
	uint64_t bytes = 0;

	add(fixture, LIMPET_EVENT_ALLOC, 1, 0x1000, 100, 9);
	add(fixture, LIMPET_EVENT_ALLOC, 1, 0x2000, 200, 5);
	assert_int_equal(limpet_accounting_sort_sites(fixture->accounting), 2);
	assert_int_equal(limpet_accounting_site_at(fixture->accounting, 0)->node, 5);
	assert_int_equal(limpet_accounting_site_at(fixture->accounting, 1)->node, 9);
	assert_int_equal(limpet_accounting_site_at(fixture->accounting, 1)->counts.allocated_bytes,
			 100);
	limpet_accounting_next_period(fixture->accounting, fixture->time_ns);
	assert_int_equal(limpet_accounting_sort_sites(fixture->accounting), 0);
	assert_int_equal(limpet_accounting_growing(fixture->accounting, &bytes), 5);
	assert_int_equal(bytes, 200);
	/* a free counts in the period it happens in, for the site that allocated */
	add(fixture, LIMPET_EVENT_FREE, 1, 0x2000, 0, 0);
	assert_int_equal(limpet_accounting_sort_sites(fixture->accounting), 1);
	assert_int_equal(limpet_accounting_site_at(fixture->accounting, 0)->node, 5);
	assert_int_equal(limpet_accounting_site_at(fixture->accounting, 0)->counts.allocations, 0);
	assert_int_equal(limpet_accounting_site_at(fixture->accounting, 0)->counts.freed_bytes,
			 200);
	limpet_accounting_next_period(fixture->accounting, fixture->time_ns);
	/* the leader fell: one that was not touched leads */
	assert_int_equal(limpet_accounting_growing(fixture->accounting, &bytes), 9);
	assert_int_equal(bytes, 100);
}

static int add_sample(struct fixture *fixture, uint32_t tid, uint64_t address, uint64_t size,
		      uint32_t node)
{
	struct limpet_record event = {.time_ns = fixture->time_ns += LIMPET_TRACE_TICK_NS,
				      .address = address,
				      .size = size,
				      .node = node,
				      .thread = tid,
				      .kind = LIMPET_EVENT_ALLOC,
				      .sampled = true};

	fixture->list.count = 0;
	if (limpet_accounting_add(fixture->accounting, &event, 1, &fixture->list) != 0)
		return -EINVAL;
	fixture->rows = fixture->list.list;
	return (int)fixture->list.count;
}

static void assert_overload(const struct fixture *fixture, size_t index, uint64_t from_tick,
			    uint64_t to_tick)
{
	const struct limpet_accounting_overload *list;

	assert_true(limpet_accounting_period_overloads(fixture->accounting, &list) > index);
	assert_int_equal(list[index].from_ns, from_tick * LIMPET_TRACE_TICK_NS);
	assert_int_equal(list[index].to_ns, to_tick * LIMPET_TRACE_TICK_NS);
}

static void test_overloads(void **state)
{
	struct fixture *fixture = *state;
	const struct limpet_accounting_overload *list;
	uint64_t live;

	/* Unless the capture is set up for them they do not exist. */
	assert_int_equal(add(fixture, LIMPET_EVENT_OVERLOAD, 1, 1, 0, 0), -EINVAL);
	assert_int_equal(add(fixture, LIMPET_EVENT_ROOM, 1, 1, 0, 0), -EINVAL);
	assert_int_equal(add_sample(fixture, 1, 0x1000, 100, 5), -EINVAL);
	fixture->time_ns = 0;
	limpet_accounting_set_sampling(fixture->accounting,
				       (struct limpet_sampling){.overload_bytes = 4096});
	assert_int_equal(add(fixture, LIMPET_EVENT_ROOM, 1, 1, 0, 0), -EINVAL);
	add(fixture, LIMPET_EVENT_FREE, 1, 0x9000, 8, 0);
	assert_int_equal(total(fixture, LIMPET_TOTAL_FOREIGN_FREES), 1);
	add(fixture, LIMPET_EVENT_ALLOC, 1, 0x1000, 100, 5);
	add(fixture, LIMPET_EVENT_ALLOC, 2, 0x2000, 100, 5);
	assert_false(limpet_accounting_is_estimated(fixture->accounting));
	fixture->time_ns = 9 * LIMPET_TRACE_TICK_NS;
	assert_int_equal(add(fixture, LIMPET_EVENT_OVERLOAD, 1, 1, 0, 0), 0);
	assert_int_equal(add(fixture, LIMPET_EVENT_OVERLOAD, 2, 1, 0, 0), -EINVAL);
	assert_true(limpet_accounting_is_estimated(fixture->accounting));

	/* Of before: paired, but not temporary, since what came between is not known. */
	assert_int_equal(add_temporary_free(fixture, 1, 0x1000), 1);
	assert_int_equal(fixture->rows[0].op, LIMPET_ROW_FREE);
	/* A sample stands for more than itself, until it is freed. */
	live = limpet_accounting_live_bytes(fixture->accounting);
	assert_int_equal(add_sample(fixture, 1, 0x3000, 100, 6), 1);
	assert_int_equal(fixture->rows[0].op, LIMPET_ROW_ALLOC | LIMPET_ROW_SAMPLED);
	assert_true(limpet_accounting_live_bytes(fixture->accounting) > live + 3500);
	/* Nobody knows whose this is: no event. */
	assert_int_equal(add(fixture, LIMPET_EVENT_FREE, 1, 0x9000, 8, 0), 0);
	assert_int_equal(add(fixture, LIMPET_EVENT_FREE, 1, 0x3000, 104, 0), 1);
	assert_int_equal(fixture->rows[0].op, LIMPET_ROW_FREE | LIMPET_ROW_SAMPLED);
	assert_int_equal(limpet_accounting_live_bytes(fixture->accounting), live);
	assert_int_equal(add_sample(fixture, 1, 0x3000, 100, 6), 1);
	assert_int_equal(add_sample(fixture, 1, 0x3000, 50, 6), 2);
	assert_int_equal(fixture->rows[0].op, LIMPET_ROW_INFERRED_FREE | LIMPET_ROW_SAMPLED);

	/* A period ends within it: told in two parts. */
	assert_overload(fixture, 0, 10, fixture->time_ns / LIMPET_TRACE_TICK_NS);
	limpet_accounting_next_period(fixture->accounting, fixture->time_ns);
	fixture->time_ns = 99 * LIMPET_TRACE_TICK_NS;
	assert_int_equal(add(fixture, LIMPET_EVENT_ROOM, 2, 1, 0, 0), 0);
	assert_overload(fixture, 0, 17, 100);
	fixture->time_ns = 199 * LIMPET_TRACE_TICK_NS;
	add(fixture, LIMPET_EVENT_OVERLOAD, 1, 3, 0, 0);
	add(fixture, LIMPET_EVENT_ROOM, 1, 3, 0, 0);
	assert_overload(fixture, 1, 200, 201);
	/* One that begins and ends at once, and one at the time of its end. */
	fixture->time_ns = 299 * LIMPET_TRACE_TICK_NS;
	add(fixture, LIMPET_EVENT_OVERLOAD, 1, 5, 0, 0);
	fixture->time_ns -= LIMPET_TRACE_TICK_NS;
	add(fixture, LIMPET_EVENT_ROOM, 1, 5, 0, 0);
	assert_overload(fixture, 2, 300, 301);
	add(fixture, LIMPET_EVENT_OVERLOAD, 1, 7, 0, 0);
	add(fixture, LIMPET_EVENT_ROOM, 1, 7, 0, 0);
	assert_overload(fixture, 2, 300, 302);
	limpet_accounting_next_period(fixture->accounting, fixture->time_ns);
	assert_int_equal(limpet_accounting_period_overloads(fixture->accounting, &list), 0);

	/* Afterwards all is as before it... */
	assert_int_equal(add(fixture, LIMPET_EVENT_FREE, 2, 0x2000, 104, 0), 1);
	assert_int_equal(fixture->rows[0].op, LIMPET_ROW_FREE);
	add(fixture, LIMPET_EVENT_ALLOC, 1, 0x1000, 100, 5);
	assert_int_equal(fixture->rows[0].op, LIMPET_ROW_ALLOC);
	add_temporary_free(fixture, 1, 0x1000);
	assert_int_equal(fixture->rows[0].op, LIMPET_ROW_FREE | LIMPET_ROW_TEMPORARY);
	/* ...but whose an unknown block is is not known. */
	assert_int_equal(add(fixture, LIMPET_EVENT_FREE, 1, 0x9000, 8, 0), 0);
	assert_int_equal(total(fixture, LIMPET_TOTAL_FOREIGN_FREES), 1);
	assert_int_equal(limpet_accounting_live_allocations(fixture->accounting), 1);
}

static void test_nonsense_is_refused(void **state)
{
	const struct limpet_record twice = {
		.kind = LIMPET_EVENT_ALLOC, .freed = true, .size = 100, .node = 5, .thread = 1};
	struct fixture *fixture = *state;
	struct limpet_accounting_rows rows = {0};

	assert_int_equal(limpet_accounting_add(fixture->accounting, &twice, 1, &rows), 2);
	assert_int_equal(rows.count, 0);
	assert_int_equal(add(fixture, 0, 1, 0x1000, 100, 5), -EINVAL);
	assert_int_equal(add(fixture, 5, 1, 0x1000, 100, 5), -EINVAL);
	assert_int_equal(add(fixture, LIMPET_EVENT_ALLOC, 1, 0, 100, 5), -EINVAL);
	assert_int_equal(add(fixture, LIMPET_EVENT_ALLOC, 1, 0x1000, UINT64_MAX, 5), -EINVAL);
	assert_int_equal(add(fixture, LIMPET_EVENT_ALLOC, 1, 0x1000, 1, UINT32_MAX), -EINVAL);
	assert_int_equal(add(fixture, LIMPET_EVENT_MMAP, 1, UINT64_MAX - 10, 100, 5), -EINVAL);
	assert_int_equal(add(fixture, LIMPET_EVENT_MUNMAP, 1, 0x1000, 0, 5), -EINVAL);
	assert_int_equal(total(fixture, LIMPET_TOTAL_EVENTS), 0);
	/* malloc(0) is an allocation */
	assert_int_equal(add(fixture, LIMPET_EVENT_ALLOC, 1, 0x1000, 0, 5), 1);
	assert_int_equal(limpet_accounting_live_allocations(fixture->accounting), 1);
}

/* ------------------------------------------------------------------ many at once */

enum { MANY = 30000, BLOCKS = 600, AT_ONCE = 64 };

/* Mostly what programs do, and with every kind of nonsense in between: frees that were not seen,
 * that come from another thread, or are too large. */
static void make_events(struct limpet_record *events)
{
	uint64_t time_ns = 0, last = 0;

	for (int i = 0; i < MANY; i++) {
		bool again = last && random_below(2), nonsense = !random_below(50);
		bool at_once = again && random_below(2);

		time_ns += at_once ? 0 : random_below(2 * LIMPET_TRACE_TICK_NS);
		events[i] = (struct limpet_record){
			.time_ns = time_ns,
			.address = again ? last : 16 * (1 + random_below(BLOCKS)),
			.size = at_once    ? events[i - 1].size
				: nonsense ? UINT64_MAX
					   : random_below(5000),
			.node = (uint32_t)random_below(20),
			.thread = again && random_below(20) ? events[i - 1].thread
							    : 1 + (uint32_t)random_below(3),
			.kind = again || !random_below(3) ? LIMPET_EVENT_FREE : LIMPET_EVENT_ALLOC};
		events[i].realloc = !random_below(5);
		events[i].temporary = again && !events[i].realloc && random_below(10);
		last = events[i].kind == LIMPET_EVENT_ALLOC ? events[i].address : 0;
	}
}

/* As the agent does it: an allocation and the free that follows it at once are one record. */
static size_t fold(const struct limpet_record *events, size_t count, struct limpet_record *ret)
{
	size_t folded = 0;

	for (size_t i = 0; i < count; i++) {
		const struct limpet_record *made = &events[i], *gone = &events[i + 1];

		ret[folded] = *made;
		if (i + 1 < count && made->kind == LIMPET_EVENT_ALLOC && made->address &&
		    made->size <= INT64_MAX && !made->sampled && gone->kind == LIMPET_EVENT_FREE &&
		    gone->address == made->address && gone->thread == made->thread &&
		    gone->temporary && gone->size == made->size && gone->time_ns == made->time_ns) {
			ret[folded].freed = true;
			i++;
		}
		folded++;
	}
	return folded;
}

/* Writes rows as they stand in the trace. */
static void unfold(struct limpet_accounting_rows *rows)
{
	struct limpet_accounting_row *list = calloc(rows->trace_rows + 1, sizeof(*list));
	size_t count = 0;

	assert_non_null(list);
	for (size_t i = 0; i < rows->count; i++) {
		list[count++] = rows->list[i];
		if (!rows->list[i].freed)
			continue;
		assert_int_equal(rows->list[i].op & ~LIMPET_ROW_REALLOC, LIMPET_ROW_ALLOC);
		list[count] = rows->list[i];
		list[count++].op = LIMPET_ROW_FREE | LIMPET_ROW_TEMPORARY;
	}
	assert_int_equal(count, rows->trace_rows);
	free(rows->list);
	rows->list = list;
	rows->count = count;
}

static void assert_same_row(const struct limpet_accounting_row *a,
			    const struct limpet_accounting_row *b)
{
	assert_int_equal(a->tick, b->tick);
	assert_int_equal(a->size, b->size);
	assert_int_equal(a->age_ticks, b->age_ticks);
	assert_int_equal(a->address, b->address);
	assert_int_equal(a->node, b->node);
	assert_int_equal(a->thread, b->thread);
	assert_int_equal(a->tid, b->tid);
	assert_int_equal(a->owner, b->owner);
	assert_int_equal(a->owner_tid, b->owner_tid);
	assert_int_equal(a->op, b->op);
}

static void assert_same_books(struct limpet_accounting *a, struct limpet_accounting *b)
{
	struct limpet_accounting_peak peak_a = limpet_accounting_peak(a),
				      peak_b = limpet_accounting_peak(b);
	size_t count = limpet_accounting_sort_sites(a);

	assert_memory_equal(limpet_accounting_totals(a), limpet_accounting_totals(b),
			    sizeof(struct limpet_totals));
	assert_int_equal(limpet_accounting_live_bytes(a), limpet_accounting_live_bytes(b));
	assert_int_equal(limpet_accounting_live_allocations(a),
			 limpet_accounting_live_allocations(b));
	assert_int_equal(peak_a.bytes, peak_b.bytes);
	assert_int_equal(peak_a.rows, peak_b.rows);
	assert_int_equal(peak_a.time_ns, peak_b.time_ns);
	assert_int_equal(peak_a.capture_bytes, peak_b.capture_bytes);
	assert_int_equal(peak_a.capture_ns, peak_b.capture_ns);
	assert_memory_equal(limpet_accounting_period_sizes(a), limpet_accounting_period_sizes(b),
			    LIMPET_TRACE_SIZE_BUCKETS * sizeof(struct limpet_size_counts));
	assert_int_equal(limpet_accounting_sort_sites(b), count);
	for (size_t i = 0; i < count; i++)
		assert_memory_equal(limpet_accounting_site_at(a, i),
				    limpet_accounting_site_at(b, i), sizeof(struct limpet_site));
}

static void compare_at_once(bool held, struct limpet_sampling sampling, uint64_t memory_bytes)
{
	struct limpet_accounting *one = limpet_accounting_new(memory_bytes);
	struct limpet_accounting *many = limpet_accounting_new(memory_bytes);
	struct limpet_record *events = calloc(MANY, sizeof(*events)), folded[AT_ONCE];
	size_t together = 0;
	struct limpet_accounting_rows rows_of_one = {0}, rows_of_many = {0};
	int64_t refused = 0;

	assert_true(one && many && events);
	make_events(events);
	limpet_accounting_set_sampling(one, sampling);
	limpet_accounting_set_sampling(many, sampling);
	if (held) {
		limpet_accounting_keep_held(one);
		limpet_accounting_keep_held(many);
	}
	for (size_t i = 0, some; i < MANY; i += some) {
		int64_t code = 0;
		size_t count;

		some = MANY - i < AT_ONCE ? MANY - i : 1 + random_below(AT_ONCE);
		for (size_t k = 0; k < some; k++)
			code += limpet_accounting_add(one, &events[i + k], 1, &rows_of_one);
		refused += code;
		count = fold(&events[i], some, folded);
		together += some - count;
		assert_int_equal(limpet_accounting_add(many, folded, count, &rows_of_many), code);
		assert_int_equal(limpet_accounting_time_ns(one), limpet_accounting_time_ns(many));
		if (!random_below(30)) {
			assert_same_books(one, many);
			limpet_accounting_next_period(one, limpet_accounting_time_ns(one));
			limpet_accounting_next_period(many, limpet_accounting_time_ns(one));
		}
	}
	assert_true(refused > MANY / 200);
	assert_same_books(one, many);
	assert_true(together > MANY / 20);
	unfold(&rows_of_many);
	assert_int_equal(rows_of_one.count, rows_of_many.count);
	for (size_t i = 0; i < rows_of_one.count; i++)
		assert_same_row(&rows_of_one.list[i], &rows_of_many.list[i]);
	free(rows_of_one.list);
	free(rows_of_many.list);
	free(events);
	limpet_accounting_free(one);
	limpet_accounting_free(many);
}

static void test_many_at_once_are_as_one_by_one(void **state)
{
	const uint64_t full = 2048; /* room for 64 blocks */

	(void)state;
	compare_at_once(false, (struct limpet_sampling){0}, MEMORY_BYTES);
	compare_at_once(false, (struct limpet_sampling){0}, full);
	compare_at_once(true, (struct limpet_sampling){0}, MEMORY_BYTES);
	compare_at_once(false, (struct limpet_sampling){.bytes = 1024}, MEMORY_BYTES);
	compare_at_once(false, (struct limpet_sampling){.overload_bytes = 1024}, MEMORY_BYTES);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_live_table_agrees_with_an_array),
		cmocka_unit_test(test_live_table_keeps_all_while_it_grows),
		cmocka_unit_test(test_live_table_scatters_rows_of_blocks),
		cmocka_unit_test(test_live_table_is_bounded),
		cmocka_unit_test(test_many_at_once_are_as_one_by_one),
		cmocka_unit_test(test_mapping_table_agrees_with_pages),
		cmocka_unit_test(test_mapping_table_is_bounded),
		cmocka_unit_test_setup_teardown(test_a_free_is_paired, setup, teardown),
		cmocka_unit_test_setup_teardown(test_a_foreign_free_lowers_nothing, setup,
						teardown),
		cmocka_unit_test_setup_teardown(test_temporary_is_of_the_allocating_thread, setup,
						teardown),
		cmocka_unit_test_setup_teardown(test_a_realloc_continues_a_block, setup, teardown),
		cmocka_unit_test_setup_teardown(test_a_realloc_of_an_older_block, setup, teardown),
		cmocka_unit_test_setup_teardown(test_an_unseen_free_is_inferred, setup, teardown),
		cmocka_unit_test_setup_teardown(test_what_finds_no_room_is_never_live, setup,
						teardown),
		cmocka_unit_test_setup_teardown(test_munmap_takes_parts, setup, teardown),
		cmocka_unit_test_setup_teardown(test_mappings_are_whole_pages, setup, teardown),
		cmocka_unit_test_setup_teardown(test_the_peak_has_a_place, setup, teardown),
		cmocka_unit_test_setup_teardown(test_sites_are_of_the_period, setup, teardown),
		cmocka_unit_test_setup_teardown(test_overloads, setup, teardown),
		cmocka_unit_test_setup_teardown(test_nonsense_is_refused, setup, teardown),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
