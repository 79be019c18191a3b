#include "explain/class_census.h"

#include <errno.h>
#include <stdlib.h>

#include "common/array.h"
#include "explain/class_tally.h"
#include "explain/jemalloc.h"
#include "explain/mimalloc_census.h"
#include "injector/proc/proc.h"
#include "injector/proc/target_process.h"

#define GPERFTOOLS_TRIES 4u

/* ------------------------------------------------------------------ tallies */

static size_t slot_of(const struct limpet_class_tally *tally, uint64_t size)
{
	size_t slot = (size_t)(size * UINT64_C(0x9e3779b97f4a7c15) >> 32) % LIMPET_CLASS_SLOTS;

	while (tally->sizes[slot] && tally->sizes[slot] != size)
		slot = (slot + 1) % LIMPET_CLASS_SLOTS;
	return slot;
}

void limpet_class_tally_note(struct limpet_class_tally *tally, uint64_t block_bytes,
			     uint64_t blocks)
{
	const size_t slot = slot_of(tally, block_bytes);

	if (!block_bytes || !blocks)
		return;
	if (!tally->sizes[slot]) {
		if (tally->count == LIMPET_CLASS_SIZES) {
			tally->is_cut = true;
			return;
		}
		tally->sizes[slot] = block_bytes;
		tally->count++;
	}
	tally->blocks[slot] += blocks;
}

uint64_t limpet_class_tally_blocks(const struct limpet_class_tally *tally, uint64_t block_bytes)
{
	return tally->blocks[slot_of(tally, block_bytes)];
}

/* ------------------------------------------------------------------ heaps */

struct counting {
	const struct limpet_memory_reader *memory;
	const struct limpet_maps *maps;
	struct limpet_pages *pages; /* that are present */
	const struct limpet_class_heaps *heaps;
};

static int count_jemalloc(const struct counting *counting, struct limpet_class_tally *tally)
{
	struct limpet_jemalloc jemalloc = {0};
	int error = limpet_jemalloc_read_tree(counting->memory, counting->pages,
					      counting->heaps->jemalloc_root, &jemalloc);

	for (size_t i = 0; i < jemalloc.count && !error; i++) {
		const struct limpet_jemalloc_extent *extent = &jemalloc.list[i];

		if (extent->block_bytes)
			limpet_class_tally_note(tally, extent->block_bytes, extent->blocks);
		else if (extent->in_use)
			tally->is_cut = true;
	}
	tally->is_cut |= jemalloc.is_cut || jemalloc.missed;
	/* A heap that was found has extents: the root is none, or none any more. */
	tally->is_unknown = !jemalloc.count && !jemalloc.is_cut && !jemalloc.missed;
	limpet_jemalloc_done(&jemalloc);
	return error;
}

static int count_mimalloc_segments(const struct counting *counting,
				   struct limpet_class_tally *tally)
{
	return limpet_mimalloc_count_segments(counting->memory, counting->maps,
					      &counting->heaps->mimalloc, tally);
}

static int count_mimalloc_arenas(const struct counting *counting, struct limpet_class_tally *tally)
{
	return limpet_mimalloc_count_map(counting->memory, counting->maps, counting->pages,
					 &counting->heaps->arenas, tally);
}

/* Again if something was missed: in a heap that changes, that is rare. */
static int count_gperftools(const struct counting *counting, struct limpet_class_tally *tally)
{
	struct limpet_gperftools gperftools = {.count = 0};
	int error = 0;

	for (unsigned tries = 0; tries < GPERFTOOLS_TRIES; tries++) {
		limpet_gperftools_done(&gperftools);
		error = limpet_gperftools_read_map(counting->memory, counting->pages,
						   counting->heaps->gperftools_root, &gperftools);
		if (error || gperftools.is_whole || gperftools.is_cut)
			break;
	}
	limpet_gperftools_count(&gperftools, &counting->heaps->gperftools_classes, tally);
	tally->is_unknown = !gperftools.count && !gperftools.is_cut;
	limpet_gperftools_done(&gperftools);
	return error;
}

static int count_unknown(const struct counting *counting, struct limpet_class_tally *tally)
{
	(void)counting;
	tally->is_unknown = true;
	return 0;
}

static bool has_jemalloc(const struct limpet_class_heaps *heaps)
{
	return heaps->jemalloc_root != 0;
}

static bool has_mimalloc_segments(const struct limpet_class_heaps *heaps)
{
	return heaps->mimalloc.found;
}

static bool has_mimalloc_arenas(const struct limpet_class_heaps *heaps)
{
	return heaps->arenas.count > 0;
}

static bool has_gperftools(const struct limpet_class_heaps *heaps)
{
	return heaps->gperftools_root != 0;
}

static bool has_tcmalloc(const struct limpet_class_heaps *heaps)
{
	return heaps->has_tcmalloc;
}

static const struct kind {
	const char *allocator;
	const char *caches;
	bool (*is_there)(const struct limpet_class_heaps *heaps);
	int (*count)(const struct counting *counting, struct limpet_class_tally *tally);
} kinds[] = {{"jemalloc", "caches of threads", has_jemalloc, count_jemalloc},
	     {"mimalloc", NULL, has_mimalloc_segments, count_mimalloc_segments},
	     {"mimalloc", NULL, has_mimalloc_arenas, count_mimalloc_arenas},
	     {"tcmalloc", "caches of threads or the central one", has_gperftools, count_gperftools},
	     {"tcmalloc", NULL, has_tcmalloc, count_unknown}};

/* ------------------------------------------------------------------ two readings */

static void add(struct limpet_census_amount *amount, uint64_t size, uint64_t blocks)
{
	amount->blocks += blocks;
	amount->bytes += blocks * size;
}

static int by_size(const void *a, const void *b)
{
	const struct limpet_census_size *left = a, *right = b;

	return (left->to_bytes > right->to_bytes) - (left->to_bytes < right->to_bytes);
}

static void add_size(struct limpet_class_census *census, uint64_t size, uint64_t first,
		     uint64_t second)
{
	const uint64_t low = first < second ? first : second;
	const uint64_t high = first < second ? second : first;
	struct limpet_census_size *it = &census->sizes[census->size_count++];

	*it = (struct limpet_census_size){.from_bytes = size, .to_bytes = size};
	add(&it->used.low, size, low);
	add(&it->used.high, size, high);
	add(&census->used.low, size, low);
	add(&census->used.high, size, high);
	census->exact = census->exact && first == second;
}

static int judge(const struct limpet_class_tally *first, const struct limpet_class_tally *second,
		 struct limpet_class_census *census)
{
	census->known = !first->is_unknown && !second->is_unknown;
	if (!census->known) {
		census->whole = false;
		return 0;
	}
	census->whole = census->whole && !first->is_cut && !second->is_cut;
	census->exact = census->whole;
	census->sizes = calloc(first->count + second->count + 1, sizeof(*census->sizes));
	if (!census->sizes)
		return -ENOMEM;
	for (size_t i = 0; i < LIMPET_CLASS_SLOTS; i++) {
		const uint64_t size = first->sizes[i];

		if (size)
			add_size(census, size, first->blocks[i],
				 limpet_class_tally_blocks(second, size));
	}
	for (size_t i = 0; i < LIMPET_CLASS_SLOTS; i++) {
		const uint64_t size = second->sizes[i];

		if (size && !limpet_class_tally_blocks(first, size))
			add_size(census, size, 0, second->blocks[i]);
	}
	qsort(census->sizes, census->size_count, sizeof(*census->sizes), by_size);
	return 0;
}

/* One reading, with a budget of its own. Mappings are asked for anew, since the heap grows. */
static int count(const struct limpet_target *target, const struct limpet_class_heaps *heaps,
		 const struct kind *kind, struct limpet_class_tally *tally)
{
	struct limpet_process_reader *process = NULL;
	struct limpet_maps maps = {0};
	struct counting counting = {.maps = &maps, .heaps = heaps};
	int error = limpet_process_reader_new(target, &process);

	if (!error)
		error = limpet_proc_maps_read(target->pid, &maps);
	if (!error) {
		counting.memory = limpet_process_reader(process);
		counting.pages = limpet_process_reader_pages(process);
		error = kind->count(&counting, tally);
	}
	limpet_proc_maps_done(&maps);
	limpet_process_reader_free(process);
	return error;
}

static int read_census(const struct limpet_target *target, const struct limpet_class_heaps *heaps,
		       const struct kind *kind, bool is_swapped,
		       struct limpet_class_census *ret_census)
{
	LIMPET_FREE struct limpet_class_tally *tallies = calloc(2, sizeof(*tallies));
	struct limpet_class_census census = {
		.allocator = kind->allocator, .caches = kind->caches, .whole = !is_swapped};
	int error = tallies ? 0 : -ENOMEM;

	for (size_t i = 0; i < 2 && !error; i++)
		error = count(target, heaps, kind, &tallies[i]);
	if (!error)
		error = judge(&tallies[0], &tallies[1], &census);
	*ret_census = census;
	return error;
}

int limpet_class_censuses_read(const struct limpet_target *target,
			       const struct limpet_class_heaps *heaps, bool is_swapped,
			       struct limpet_class_censuses *ret_censuses, struct limpet_err *err)
{
	struct limpet_class_censuses censuses = {.count = 0};
	int identity_error, error = limpet_target_check(target);

	if (!error) {
		for (size_t i = 0; i < LIMPET_COUNT_OF(kinds) && !error; i++)
			if (kinds[i].is_there(heaps))
				error = read_census(target, heaps, &kinds[i], is_swapped,
						    &censuses.list[censuses.count++]);
		/* Whatever was found then, it is of neither program. */
		identity_error = limpet_target_check(target);
		error = identity_error ? identity_error : error;
	}
	if (error) {
		limpet_class_censuses_done(&censuses);
		return limpet_proc_explain(target->pid, error, "read the memory of", err);
	}
	*ret_censuses = censuses;
	return 0;
}

void limpet_class_censuses_done(struct limpet_class_censuses *censuses)
{
	for (size_t i = 0; i < censuses->count; i++)
		free(censuses->list[i].sizes);
	*censuses = (struct limpet_class_censuses){.count = 0};
}
