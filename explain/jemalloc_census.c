#include <errno.h>
#include <stdlib.h>

#include "common/array.h"
#include "explain/census.h"
#include "explain/jemalloc.h"
#include "explain/program.h"
#include "injector/proc/proc.h"

/* Size classes: of those that an address space of 48 bits has room for. */
#define CLASSES 256u

/* How many blocks there are of each size. Sizes are few, and in no order while they are noted. */
struct tally {
	uint64_t sizes[CLASSES];
	uint64_t blocks[CLASSES];
	size_t count;
	bool is_cut;
};

static void note(struct tally *tally, uint64_t block_bytes, uint32_t blocks)
{
	size_t i = 0;

	while (i < tally->count && tally->sizes[i] != block_bytes)
		i++;
	if (i == CLASSES) {
		tally->is_cut = true;
		return;
	}
	tally->count += i == tally->count;
	tally->sizes[i] = block_bytes;
	tally->blocks[i] += blocks;
}

static int count(const struct limpet_memory_reader *memory, struct limpet_pages *pages,
		 uint64_t root, struct tally *tally)
{
	struct limpet_jemalloc jemalloc = {0};
	int error = limpet_jemalloc_read_tree(memory, pages, root, &jemalloc);

	for (size_t i = 0; i < jemalloc.count && !error; i++) {
		const struct limpet_jemalloc_extent *extent = &jemalloc.list[i];

		if (extent->block_bytes && extent->blocks)
			note(tally, extent->block_bytes, extent->blocks);
		else if (extent->in_use && !extent->block_bytes)
			tally->is_cut = true;
	}
	tally->is_cut |= jemalloc.is_cut;
	limpet_jemalloc_done(&jemalloc);
	return error;
}

static uint64_t blocks_of(const struct tally *tally, uint64_t size)
{
	for (size_t i = 0; i < tally->count; i++)
		if (tally->sizes[i] == size)
			return tally->blocks[i];
	return 0;
}

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

static void add_size(struct limpet_jemalloc_census *census, uint64_t size, uint64_t first,
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

static int judge(const struct tally *first, const struct tally *second,
		 struct limpet_jemalloc_census *census)
{
	census->sizes = calloc(first->count + second->count + 1, sizeof(*census->sizes));
	if (!census->sizes)
		return -ENOMEM;
	census->exact = census->whole;
	for (size_t i = 0; i < first->count; i++)
		add_size(census, first->sizes[i], first->blocks[i],
			 blocks_of(second, first->sizes[i]));
	for (size_t i = 0; i < second->count; i++)
		if (!blocks_of(first, second->sizes[i]))
			add_size(census, second->sizes[i], 0, second->blocks[i]);
	qsort(census->sizes, census->size_count, sizeof(*census->sizes), by_size);
	return 0;
}

int limpet_jemalloc_census_take(pid_t pid, uint64_t root, bool is_swapped,
				struct limpet_jemalloc_census *ret_census, struct limpet_err *err)
{
	struct limpet_jemalloc_census census = {.whole = !is_swapped};
	struct limpet_process_reader *process = NULL;
	LIMPET_FREE struct tally *tallies = calloc(2, sizeof(*tallies));
	struct limpet_program_identity program;
	int identity_error, error = tallies ? limpet_program_identify(pid, &program) : -ENOMEM;

	if (!error)
		error = limpet_process_reader_new(limpet_proc_resident(pid), &process);
	for (size_t i = 0; i < 2 && !error; i++)
		error = count(limpet_process_reader(process), limpet_process_reader_pages(process),
			      root, &tallies[i]);
	if (!error) {
		census.whole = census.whole && !tallies[0].is_cut && !tallies[1].is_cut;
		error = judge(&tallies[0], &tallies[1], &census);
	}
	/* Whatever was found then, it is of neither program. */
	identity_error = tallies ? limpet_program_check(pid, &program) : 0;
	error = identity_error ? identity_error : error;
	limpet_process_reader_free(process);
	if (error) {
		limpet_jemalloc_census_done(&census);
		return limpet_proc_explain(pid, error, "read the memory of", err);
	}
	*ret_census = census;
	return 0;
}

void limpet_jemalloc_census_done(struct limpet_jemalloc_census *census)
{
	free(census->sizes);
	*census = (struct limpet_jemalloc_census){0};
}
