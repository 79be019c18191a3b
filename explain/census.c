#include "explain/census.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "common/array.h"
#include "common/trace_format.h"
#include "explain/used_blocks.h"
#include "explain/vtables.h"
#include "injector/proc/target_process.h"

#define PAGE ((uint64_t)4096)
#define HEAD_BYTES 16u
/* Everything is read three times: two readings, and what the blocks hold. */
#define CENSUS_NS (4 * LIMPET_MEMORY_READER_NS)
#define BUCKETS LIMPET_TRACE_SIZE_BUCKETS

enum { IS_STRING = 1, IS_UNTOUCHED = 2 }; /* flags of a block; its type: of vtables, + 1 */

struct counting {
	const struct limpet_target *target;
	const struct limpet_memory_reader *memory;
	struct limpet_pages *pages;    /* that are present */
	struct limpet_pages *existing; /* or swapped out */
	struct limpet_modules modules;
	struct limpet_vtables vtables;
	struct limpet_used_blocks first, second;
};

static void add(struct limpet_census_amount *amount, const struct limpet_used_block *block)
{
	amount->blocks++;
	amount->bytes += limpet_used_block_usable(block);
}

/* ------------------------------------------------------------------ what a block is */

static bool is_printable(unsigned char byte)
{
	return (byte >= ' ' && byte < 0x7f) || byte == '\t' || byte == '\n' || byte == '\r';
}

/* Printable from its first byte on to a NUL within it. */
static bool is_string(struct limpet_glibc_reader *reader, uint64_t start, uint64_t bytes)
{
	const uint64_t most = bytes < LIMPET_CENSUS_STRING_MOST ? bytes : LIMPET_CENSUS_STRING_MOST;

	for (uint64_t at = 0; at + 8 <= most; at += 8) {
		uint64_t word;

		if (limpet_glibc_reader_next(reader, start + at, &word) < 0)
			return false;
		for (unsigned i = 0; i < 8; i++) {
			const unsigned char byte = (unsigned char)(word >> 8 * i);

			if (!byte)
				return at + i >= LIMPET_CENSUS_STRING_LEAST;
			if (!is_printable(byte))
				return false;
		}
	}
	return bytes > LIMPET_CENSUS_STRING_MOST;
}

/* It has whole pages, and none of them exists: it was not written to since the kernel gave it. */
static bool is_untouched(struct counting *counting, const struct limpet_used_block *block)
{
	const uint64_t end = (block->start + block->bytes) & ~(PAGE - 1);
	uint64_t at = (block->start + HEAD_BYTES + PAGE - 1) & ~(PAGE - 1);
	struct limpet_page_range ranges[LIMPET_PAGES_RANGES];

	if (at >= end)
		return false;
	while (at < end)
		if (limpet_pages_next(counting->existing, at, end, false, ranges, &at) != 0)
			return false;
	return true;
}

static void examine_block(struct counting *counting, struct limpet_glibc_reader *reader,
			  struct limpet_used_block *block)
{
	const uint64_t start = block->start + HEAD_BYTES;
	uint64_t word;
	int64_t type;

	if (is_untouched(counting, block))
		block->flags |= IS_UNTOUCHED;
	if (limpet_glibc_reader_next(reader, start, &word) < 0)
		return;
	type = limpet_vtables_find(&counting->vtables, word);
	if (type >= 0)
		block->type = (uint32_t)type + 1;
	else if (is_string(reader, start, limpet_used_block_usable(block)))
		block->flags |= IS_STRING;
}

/* Pages with blocks that have mappings of their own: of each the first, which is enough for a
 * string. */
static int read_first_pages(struct counting *counting, struct limpet_present *present)
{
	const struct limpet_used_blocks *blocks = &counting->first;
	int error = 0;

	for (size_t i = 0; i < blocks->count && !error; i++) {
		const struct limpet_used_block *block = &blocks->list[i];
		const uint64_t most = block->start + 2 * PAGE, end = block->start + block->bytes;

		if (block->mmapped)
			error = limpet_present_read(present, counting->pages, block->start,
						    end < most ? end : most);
	}
	return error == -ENOMEM ? error : 0;
}

static int examine_blocks(struct counting *counting)
{
	struct limpet_used_blocks *blocks = &counting->first;
	struct limpet_glibc_reader *arenas = NULL, *mappings = NULL;
	struct limpet_present present = {0};
	int error = read_first_pages(counting, &present);

	if (!error)
		error = limpet_glibc_reader_new(counting->memory, &blocks->present, &arenas);
	if (!error)
		error = limpet_glibc_reader_new(counting->memory, &present, &mappings);
	for (size_t i = 0; i < blocks->count && !error; i++)
		if (i % 1024 || !limpet_memory_reader_is_spent(counting->memory))
			examine_block(counting, blocks->list[i].mmapped ? mappings : arenas,
				      &blocks->list[i]);
		else
			break;
	limpet_glibc_reader_free(arenas);
	limpet_glibc_reader_free(mappings);
	limpet_present_done(&present);
	return error;
}

/* ------------------------------------------------------------------ adding up */

struct sums {
	struct limpet_census *census;
	struct limpet_census_interval buckets[BUCKETS];
	struct limpet_census_amount *types; /* by vtable */
};

static void add_both(struct sums *sums, const struct limpet_used_block *block)
{
	struct limpet_census *census = sums->census;

	add(&census->used.low, block);
	add(&sums->buckets[limpet_trace_size_bucket(limpet_used_block_usable(block))].low, block);
	if (block->type) {
		add(&census->typed, block);
		add(&sums->types[block->type - 1], block);
	}
	if (block->flags & IS_STRING)
		add(&census->strings, block);
	if (block->flags & IS_UNTOUCHED)
		add(&census->untouched, block);
}

static void add_either(struct sums *sums, const struct limpet_used_block *block)
{
	add(&sums->census->used.high, block);
	add(&sums->buckets[limpet_trace_size_bucket(limpet_used_block_usable(block))].high, block);
}

static int compare(const struct limpet_used_block *a, const struct limpet_used_block *b)
{
	if (a->start != b->start)
		return a->start < b->start ? -1 : 1;
	return a->bytes < b->bytes ? -1 : a->bytes > b->bytes;
}

/* Both lists are in order of address. */
static void add_up(const struct counting *counting, struct sums *sums)
{
	const struct limpet_used_blocks *first = &counting->first, *second = &counting->second;
	size_t i = 0, j = 0;

	while (i < first->count || j < second->count) {
		const int order = i == first->count    ? 1
				  : j == second->count ? -1
						       : compare(&first->list[i], &second->list[j]);
		const struct limpet_used_block *block =
			order <= 0 ? &first->list[i] : &second->list[j];

		if (order == 0)
			add_both(sums, block);
		add_either(sums, block);
		i += order <= 0;
		j += order >= 0;
	}
}

static int keep_sizes(struct limpet_census *census, const struct sums *sums)
{
	census->sizes = calloc(BUCKETS, sizeof(*census->sizes));
	if (!census->sizes)
		return -ENOMEM;
	for (unsigned i = 0; i < BUCKETS; i++)
		if (sums->buckets[i].high.blocks)
			census->sizes[census->size_count++] = (struct limpet_census_size){
				.from_bytes = i ? UINT64_C(1) << (i - 1) : 0,
				.to_bytes = i ? (UINT64_C(1) << (i - 1)) * 2 - 1 : 0,
				.used = sums->buckets[i]};
	return 0;
}

static int by_symbol(const void *a, const void *b)
{
	const struct limpet_census_type *left = a, *right = b;

	return strcmp(left->symbol, right->symbol);
}

static int by_bytes(const void *a, const void *b)
{
	const struct limpet_census_type *left = a, *right = b;

	if (left->used.bytes != right->used.bytes)
		return left->used.bytes > right->used.bytes ? -1 : 1;
	return strcmp(left->symbol, right->symbol);
}

/* Several modules may have a vtable of the same class. */
static void join_types(struct limpet_census *census)
{
	size_t kept = 0;

	qsort(census->types, census->type_count, sizeof(*census->types), by_symbol);
	for (size_t i = 0; i < census->type_count; i++) {
		struct limpet_census_type *last = kept ? &census->types[kept - 1] : NULL;

		if (!last || strcmp(last->symbol, census->types[i].symbol) != 0) {
			census->types[kept++] = census->types[i];
			continue;
		}
		last->used.blocks += census->types[i].used.blocks;
		last->used.bytes += census->types[i].used.bytes;
		free(census->types[i].symbol);
	}
	census->type_count = kept;
	qsort(census->types, kept, sizeof(*census->types), by_bytes);
}

static int keep_types(struct limpet_census *census, const struct limpet_vtables *vtables,
		      const struct sums *sums)
{
	size_t count = 0;

	for (size_t i = 0; i < vtables->count; i++)
		count += sums->types[i].blocks != 0;
	census->types = calloc(count + 1, sizeof(*census->types));
	if (!census->types)
		return -ENOMEM;
	for (size_t i = 0; i < vtables->count; i++) {
		char *symbol;

		if (!sums->types[i].blocks)
			continue;
		symbol = strdup(limpet_vtables_name(vtables, i));
		if (!symbol)
			return -ENOMEM;
		census->types[census->type_count++] =
			(struct limpet_census_type){symbol, sums->types[i]};
	}
	join_types(census);
	return 0;
}

static int judge(const struct counting *counting, struct limpet_census *census)
{
	const struct limpet_used_blocks *first = &counting->first, *second = &counting->second;
	struct sums sums = {.census = census};
	int error;

	sums.types = calloc(counting->vtables.count + 1, sizeof(*sums.types));
	if (!sums.types)
		return -ENOMEM;
	add_up(counting, &sums);
	census->has_glibc = first->has_glibc;
	census->whole = first->is_whole && second->is_whole;
	census->exact = census->whole && census->used.low.blocks == census->used.high.blocks;
	census->late = first->is_spent || second->is_spent || first->is_cut || second->is_cut;
	census->unread_arenas = first->unread_arenas > second->unread_arenas
					? first->unread_arenas
					: second->unread_arenas;
	census->cached = (struct limpet_census_amount){first->cached, first->cached_bytes};
	error = keep_sizes(census, &sums);
	if (!error)
		error = keep_types(census, &counting->vtables, &sums);
	free(sums.types);
	return error;
}

/* ------------------------------------------------------------------ all */

static int count(struct counting *counting)
{
	int error = limpet_pages_new(counting->target, LIMPET_PAGES_SCAN, &counting->existing);

	if (error)
		return error;
	error = limpet_modules_of_files(counting->target, &counting->modules);
	if (!error)
		error = limpet_vtables_read(&counting->modules, &counting->vtables);
	if (!error)
		error = limpet_used_blocks_read(counting->target, counting->memory, counting->pages,
						&counting->first);
	/* Between the two readings: what both found was there meanwhile. */
	if (!error)
		error = examine_blocks(counting);
	if (!error)
		error = limpet_used_blocks_read(counting->target, counting->memory, counting->pages,
						&counting->second);
	return error;
}

int limpet_census_read(const struct limpet_target *target, struct limpet_census *ret_census,
		       struct limpet_err *err)
{
	struct counting counting = {.target = target};
	struct limpet_census census = {0};
	struct limpet_process_reader *process = NULL;
	int identity_error, error = limpet_target_check(target);

	if (!error)
		error = limpet_process_reader_new(counting.target, &process);
	if (!error) {
		limpet_process_reader_allow(process, CENSUS_NS);
		counting.memory = limpet_process_reader(process);
		counting.pages = limpet_process_reader_pages(process);
		error = count(&counting);
	}
	if (!error)
		error = judge(&counting, &census);
	/* Whatever was found then, it is of neither program. */
	identity_error = limpet_target_check(target);
	if (identity_error)
		error = identity_error;
	limpet_used_blocks_done(&counting.first);
	limpet_used_blocks_done(&counting.second);
	limpet_vtables_done(&counting.vtables);
	limpet_modules_done(&counting.modules);
	limpet_pages_free(counting.existing);
	limpet_process_reader_free(process);
	if (error) {
		limpet_census_done(&census);
		return limpet_proc_explain(target->pid, error, "read the memory of", err);
	}
	*ret_census = census;
	return 0;
}

void limpet_census_done(struct limpet_census *census)
{
	for (size_t i = 0; i < census->type_count; i++)
		free(census->types[i].symbol);
	free(census->types);
	free(census->sizes);
	*census = (struct limpet_census){0};
}
