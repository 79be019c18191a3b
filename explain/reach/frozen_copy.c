#include "explain/reach/frozen_copy.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "common/array.h"
#include "common/clock.h"
#include "common/file_io.h"
#include "injector/proc/target_process.h"

#define PAGE ((uint64_t)4096)
/* Between two looks at the clock: some tenths of a millisecond. */
#define PIECE_BYTES ((uint64_t)256 << 10)
/* Larger ranges come after all smaller ones of their kind. */
#define LARGE_BYTES ((uint64_t)1 << 20)
#define PARTS_LIMIT ((size_t)1 << 20)

void limpet_frozen_copy_done(struct limpet_frozen_copy *copy)
{
	if (copy->bytes)
		munmap(copy->bytes, copy->room);
	if (copy->pages)
		close(copy->memory);
	limpet_pages_free(copy->pages);
	free(copy->list);
	*copy = (struct limpet_frozen_copy){0};
}

/* ------------------------------------------------------------------ reading the copy */

static const struct limpet_frozen_part *find(const struct limpet_frozen_copy *copy,
					     uint64_t address)
{
	const struct limpet_frozen_part *list = copy->list;
	/* cppcheck-suppress constStatement */
	const size_t i = LIMPET_PARTITION_POINT(k, copy->count, list[k].end <= address);

	return i < copy->count && list[i].start <= address ? &list[i] : NULL;
}

/* A page at a time, since parts may adjoin. */
static int read_copy(void *context, uint64_t address, void *ret, size_t bytes)
{
	const struct limpet_frozen_copy *copy = context;
	uint8_t *to = ret;

	while (bytes) {
		const struct limpet_frozen_part *part = find(copy, address);
		const uint64_t left = part ? part->end - address : PAGE - address % PAGE;
		const size_t now = left < bytes ? (size_t)left : bytes;

		if (part) {
			memcpy(to, copy->bytes + part->at + (address - part->start), now);
		} else {
			int error = limpet_memory_reader_read(copy->live, address, to, now);

			if (error)
				return error;
		}
		address += now;
		to += now;
		bytes -= now;
	}
	return 0;
}

static bool is_spent(void *context)
{
	const struct limpet_frozen_copy *copy = context;

	return limpet_memory_reader_is_spent(copy->live);
}

/* ------------------------------------------------------------------ copying */

int limpet_frozen_copy_begin(struct limpet_frozen_copy *copy, const struct limpet_target *target,
			     size_t room)
{
	int error = limpet_pages_new(target, LIMPET_PAGES_SCAN, &copy->pages);

	if (error)
		return error;
	limpet_pages_be_exact(copy->pages);
	copy->memory = limpet_proc_open(target, "mem", O_RDONLY);
	if (copy->memory < 0)
		return copy->memory;
	copy->room = (room + PAGE - 1) & ~(size_t)(PAGE - 1);
	copy->bytes = mmap(NULL, copy->room, PROT_READ | PROT_WRITE,
			   MAP_PRIVATE | MAP_ANONYMOUS | MAP_POPULATE, -1, 0);
	if (copy->bytes == MAP_FAILED) {
		copy->bytes = NULL;
		return -ENOMEM;
	}
	return limpet_reserve(&copy->list, &copy->capacity, 4096, sizeof(*copy->list));
}

/* False: there is no time or no room left. */
static bool copy_run(struct limpet_frozen_copy *copy, uint64_t start, uint64_t end,
		     uint64_t deadline_ns)
{
	for (uint64_t at = start, next; at < end; at = next) {
		ssize_t got;

		next = end - at < PIECE_BYTES ? end : at + PIECE_BYTES;
		if (limpet_monotonic_ns() >= deadline_ns || next - at > copy->room - copy->used ||
		    copy->count == PARTS_LIMIT ||
		    limpet_reserve(&copy->list, &copy->capacity, copy->count + 1,
				   sizeof(*copy->list)) < 0)
			return false;
		got = limpet_pread(copy->memory, copy->bytes + copy->used, (size_t)(next - at), at);
		if (got < 0 || (uint64_t)got < next - at) {
			copy->is_whole = false;
			continue;
		}
		copy->list[copy->count++] = (struct limpet_frozen_part){at, next, copy->used};
		copy->used += (size_t)(next - at);
	}
	return true;
}

static bool copy_range(struct limpet_frozen_copy *copy, const struct limpet_search_range *range,
		       uint64_t deadline_ns)
{
	struct limpet_page_range present[LIMPET_PAGES_RANGES];

	for (uint64_t at = range->start; at < range->end;) {
		const int found =
			limpet_pages_next(copy->pages, at, range->end, range->own, present, &at);

		if (found < 0 || limpet_monotonic_ns() >= deadline_ns)
			return false;
		for (int i = 0; i < found; i++)
			if (!copy_run(copy, present[i].start, present[i].end, deadline_ns))
				return false;
	}
	return true;
}

/* False: there is no time or no room left. */
static bool copy_kind(struct limpet_frozen_copy *copy, const struct limpet_search_ranges *ranges,
		      enum limpet_searched kind, bool large, uint64_t deadline_ns)
{
	for (size_t i = 0; i < ranges->count; i++) {
		const struct limpet_search_range *range = &ranges->list[i];

		if (range->kind == kind && large == (range->end - range->start > LARGE_BYTES) &&
		    !copy_range(copy, range, deadline_ns))
			return false;
	}
	return true;
}

/* It is not whole until it has ended. */
void limpet_frozen_copy_take(struct limpet_frozen_copy *copy,
			     const struct limpet_search_ranges *ranges,
			     const struct limpet_search_ranges *first, uint64_t deadline_ns)
{
	static const enum limpet_searched early[] = {LIMPET_SEARCHED_LOCAL, LIMPET_SEARCHED_STACK,
						     LIMPET_SEARCHED_DATA},
					  late[] = {LIMPET_SEARCHED_MEMORY, LIMPET_SEARCHED_MIXED,
						    LIMPET_SEARCHED_HEAP};

	copy->is_whole = true;
	for (size_t i = 0; i < 2 * LIMPET_COUNT_OF(early); i++)
		if (!copy_kind(copy, ranges, early[i / 2], i % 2, deadline_ns))
			goto cut;
	if (!copy_kind(copy, first, LIMPET_SEARCHED_HEAP, false, deadline_ns))
		goto cut;
	for (size_t i = 0; i < 2 * LIMPET_COUNT_OF(late); i++)
		if (!copy_kind(copy, ranges, late[i / 2], i % 2, deadline_ns))
			goto cut;
	return;
cut:
	copy->is_whole = false;
}

static int compare(const void *a, const void *b)
{
	const struct limpet_frozen_part *left = a, *right = b;

	return left->start < right->start ? -1 : left->start > right->start;
}

/* A page may have been copied twice. */
void limpet_frozen_copy_end(struct limpet_frozen_copy *copy)
{
	size_t kept = 0;

	if (copy->count)
		qsort(copy->list, copy->count, sizeof(*copy->list), compare);
	for (size_t i = 0; i < copy->count; i++) {
		struct limpet_frozen_part part = copy->list[i];

		if (kept && part.start < copy->list[kept - 1].end) {
			const uint64_t end = copy->list[kept - 1].end;
			const uint64_t skipped = (end < part.end ? end : part.end) - part.start;

			part.start += skipped;
			part.at += skipped;
		}
		if (part.start < part.end)
			copy->list[kept++] = part;
	}
	copy->count = kept;
	copy->reader = (struct limpet_memory_reader){read_copy, is_spent, copy};
}

int limpet_frozen_copy_visit(const struct limpet_frozen_copy *copy,
			     const struct limpet_search_ranges *ranges,
			     int (*visit)(void *context, const struct limpet_search_range *range,
					  uint64_t address, const uint64_t *words, size_t count),
			     void *context)
{
	int error = 0;

	for (size_t i = 0, k = 0; i < ranges->count && !error; i++) {
		const struct limpet_search_range *range = &ranges->list[i];

		while (k < copy->count && copy->list[k].end <= range->start)
			k++;
		for (size_t j = k; j < copy->count && copy->list[j].start < range->end && !error;
		     j++) {
			const struct limpet_frozen_part *part = &copy->list[j];
			const uint64_t low =
				part->start > range->start ? part->start : range->start;
			const uint64_t from = (low + 7) & ~(uint64_t)7;
			const uint64_t to = part->end < range->end ? part->end : range->end;
			const void *words = copy->bytes + part->at + (from - part->start);

			if (from + 8 <= to)
				error = visit(context, range, from, words, (size_t)(to - from) / 8);
		}
	}
	return error;
}
