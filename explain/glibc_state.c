#include "explain/glibc_state.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "common/array.h"

/* Before 2.27 the flag that there are chunks in fastbins was in another member; before 2.26 there
 * were no caches of threads. */
static const struct limpet_glibc_layout layouts[] = {
	{.fastbins = 16, .top = 96, .bins = 112, .next = 2160, .bytes = 2200, .has_caches = true},
	{.fastbins = 8, .top = 88, .bins = 104, .next = 2152, .bytes = 2192},
};
#define STATE_BYTES 2200u
#define STATE_WORDS (STATE_BYTES / 8)
#define PAGE 4096u
#define TOP_TRIES 4u
#define ALIGNMENT 16u
#define HUGE_LIMIT_BYTES ((uint64_t)1 << 30)
#define CHUNK_BITS ((uint64_t)7)
#define CHUNK_PREVIOUS_IN_USE ((uint64_t)1)
#define CHUNK_LEAST_BYTES 32u
/* NONCONTIGUOUS_BIT in the member `flags`, which follows the lock. */
#define FLAG_NOT_CONTIGUOUS ((uint64_t)2 << 32)
/* A compiler aligns so large a static structure to this, at least. */
#define STATE_ALIGNMENT 16u
/* A heap in which fewer bins are empty has never been seen: large bins are 64. */
#define LEAST_EMPTY_BINS 8u
/* Bins whose lists are followed for one step, at most. */
#define CHECKED_BINS 32u
#define TRIES 4
/* Of what looks like an arena at first sight: in one part of data there is one. */
#define REFUSED_LIMIT 8u

/* ------------------------------------------------------------------ one state */

/* The address that an empty bin has in both of its words: as if it were a chunk. */
static uint64_t bin_address(uint64_t bins, unsigned i)
{
	return bins + (uint64_t)16 * i - 16;
}

/* One pair of words may be half changed. */
static bool are_bins(const uint64_t *words, uint64_t address)
{
	unsigned empty = 0, torn = 0;

	for (unsigned i = 0; i < LIMPET_GLIBC_BINS; i++) {
		uint64_t own = bin_address(address, i), next = words[2 * (size_t)i],
			 previous = words[2 * (size_t)i + 1];

		if (next == own && previous == own)
			empty++;
		else if (next == own || previous == own)
			torn++;
		else if (!next || !previous || next % ALIGNMENT || previous % ALIGNMENT)
			return false;
	}
	return empty >= LEAST_EMPTY_BINS && torn <= 1;
}

/* attached_threads, a small number, precedes system_mem since 2.23, and in some builds before. */
static int parse_system_bytes(const uint64_t *words, const struct limpet_glibc_layout *layout,
			      uint64_t *ret_bytes)
{
	const size_t at = layout->next / 8 + 2;
	const bool attached = words[at] < PAGE;
	uint64_t bytes = words[at + (attached ? 1 : 0)];

	/* Without that member the highest amount comes next. */
	if (bytes > words[at + (attached ? 2 : 1)])
		return -EBADMSG;
	*ret_bytes = bytes;
	return attached;
}

static int parse_state(const uint64_t *words, uint64_t address,
		       const struct limpet_glibc_layout *layout,
		       struct limpet_glibc_state *ret_state)
{
	struct limpet_glibc_state state = {.address = address, .layout = layout};
	uint64_t bins = address + layout->bins;
	int attached;

	if (address % 8 || !are_bins(words + layout->bins / 8, bins))
		return -EBADMSG;
	memcpy(state.fastbins, words + layout->fastbins / 8, sizeof(state.fastbins));
	state.top = words[layout->top / 8];
	state.next = words[layout->next / 8];
	state.contiguous = !(words[0] & FLAG_NOT_CONTIGUOUS);
	attached = parse_system_bytes(words, layout, &state.system_bytes);
	if (attached < 0 || !state.next || state.next % 8)
		return -EBADMSG;
	state.end = address + layout->bytes - (attached ? 0 : 8);
	if (state.top == bin_address(bins, 0))
		state.top = 0;
	if (state.top % ALIGNMENT || (!state.top && state.system_bytes > 0) ||
	    (state.top && !state.system_bytes))
		return -EBADMSG;
	*ret_state = state;
	return 0;
}

int limpet_glibc_state_read(const struct limpet_memory_reader *memory, uint64_t address,
			    const struct limpet_glibc_layout *layout,
			    struct limpet_glibc_state *ret_state)
{
	uint64_t words[STATE_WORDS] = {0};
	int error = limpet_memory_reader_read(memory, address, words, layout->bytes);

	return error < 0 ? error : parse_state(words, address, layout, ret_state);
}

/* sysmalloc() moves the top before it writes its head, which may be the first write to a page. */
static int read_head(const struct limpet_memory_reader *memory, uint64_t top, uint64_t *ret_head)
{
	int error = limpet_memory_reader_read(memory, top + 8, ret_head, sizeof(*ret_head));

	if (error != -ENODATA && error != -EFAULT)
		return error;
	*ret_head = 0;
	return 0;
}

int limpet_glibc_state_read_top(const struct limpet_memory_reader *memory, uint64_t address,
				const struct limpet_glibc_layout *layout,
				struct limpet_glibc_state *ret_state, uint64_t *ret_head)
{
	uint64_t heads[2] = {0};

	for (unsigned i = 0; i < TOP_TRIES; i++) {
		struct limpet_glibc_state states[2];
		int error = 0;

		for (unsigned k = 0; k < 2 && !error; k++) {
			error = limpet_glibc_state_read(memory, address, layout, &states[k]);
			if (!error && states[k].top)
				error = read_head(memory, states[k].top, &heads[k]);
		}
		if (error && error != -EBADMSG)
			return error;
		/* A top ends with a page. */
		if (!error && states[0].top == states[1].top && heads[0] == heads[1] &&
		    (!heads[0] || (states[0].top + (heads[0] & ~CHUNK_BITS)) % PAGE == 0)) {
			*ret_state = states[1];
			*ret_head = heads[1];
			return 0;
		}
	}
	return -EBADMSG;
}

/* ------------------------------------------------------------------ the main arena */

static uint64_t word_at(const struct limpet_memory_reader *memory, uint64_t address)
{
	uint64_t word;

	return limpet_memory_reader_read(memory, address, &word, sizeof(word)) < 0 ? 0 : word;
}

static bool is_absent(const struct limpet_memory_reader *memory, uint64_t address)
{
	uint64_t word;

	return limpet_memory_reader_read(memory, address, &word, sizeof(word)) == -ENODATA;
}

/* Whether the bin's words are no longer what was read. */
static bool has_changed(const struct limpet_memory_reader *memory, const uint64_t *words,
			uint64_t address)
{
	return word_at(memory, address) != words[0] || word_at(memory, address + 8) != words[1];
}

/* The chunks in a bin point back to it. While the process allocates some may not, and those of a
 * bin that changes all the time are never caught. */
static bool lists_are_right(const struct limpet_memory_reader *memory, const uint64_t *words,
			    uint64_t address)
{
	unsigned checked = 0, right = 0;

	for (unsigned i = 0; i < LIMPET_GLIBC_BINS && checked < CHECKED_BINS; i++) {
		uint64_t own = bin_address(address, i), first = words[2 * (size_t)i],
			 last = words[2 * (size_t)i + 1];

		if (first == own)
			continue;
		checked++;
		if (word_at(memory, first + 24) == own && word_at(memory, last + 16) == own)
			right++;
		else if (is_absent(memory, first + 24) || is_absent(memory, last + 16) ||
			 has_changed(memory, &words[2 * (size_t)i], address + (uint64_t)16 * i))
			checked--;
	}
	return right * 4 >= checked * 3;
}

/* sysmalloc() moves the top before it writes its head, and that write is the first one to its page:
 * where a process is that grows. The head is then 0, or its page does not exist. */
static bool has_top(const struct limpet_memory_reader *memory,
		    const struct limpet_glibc_state *state)
{
	uint64_t head = word_at(memory, state->top + 8), bytes = head & ~CHUNK_BITS;

	return !state->top || !head || is_absent(memory, state->top + 8) ||
	       (head & CHUNK_PREVIOUS_IN_USE && bytes >= ALIGNMENT &&
		bytes <= state->system_bytes && (state->top + bytes) % 8 == 0);
}

/* The state of another arena directly follows the head of a heap, of four or six words, the first
 * of which points to the state. */
static bool is_in_heap(const struct limpet_memory_reader *memory, uint64_t address)
{
	return word_at(memory, address - 32) == address || word_at(memory, address - 48) == address;
}

/* All members but the first are at the same addresses in a layout as in the other one 8 bytes
 * further: only with the right one does the list of arenas lead back to the address of the state.
 * If the list cannot be followed to its end, the alignment of the state decides. */
static bool is_list_of(const struct limpet_memory_reader *memory,
		       const struct limpet_glibc_state *state)
{
	LIMPET_FREE struct limpet_glibc_state *list = NULL;
	uint64_t absent;

	return limpet_glibc_arenas_read(memory, state, &list, &absent) > 0 &&
	       (!absent || state->address % STATE_ALIGNMENT == 0);
}

/* The process may be changing its lists: what does not fit once may fit a moment later. */
static bool is_main(const struct limpet_memory_reader *memory, uint64_t address,
		    const struct limpet_glibc_layout *layout, struct limpet_glibc_state *ret_state)
{
	for (int i = 0; i < TRIES && !is_in_heap(memory, address); i++) {
		uint64_t words[STATE_WORDS] = {0};
		struct limpet_glibc_state state;

		if (limpet_memory_reader_read(memory, address, words, layout->bytes) < 0 ||
		    parse_state(words, address, layout, &state) < 0 ||
		    !lists_are_right(memory, words + layout->bins / 8, address + layout->bins) ||
		    !has_top(memory, &state) || !is_list_of(memory, &state))
			continue;
		*ret_state = state;
		return true;
	}
	return false;
}

int limpet_glibc_main_find(const struct limpet_glibc_data *data, size_t from,
			   const struct limpet_memory_reader *memory,
			   struct limpet_glibc_state *ret_state, unsigned *ret_refused)
{
	const uint64_t *words = data->words;
	const size_t count = data->bytes / 8;
	unsigned refused = 0;

	*ret_refused = 0;
	for (size_t at = from / 8; at < count && refused < REFUSED_LIMIT; at++)
		for (size_t i = 0; i < LIMPET_COUNT_OF(layouts); i++) {
			const uint64_t start = data->address + 8 * at;
			const size_t first = at + layouts[i].bins / 8;

			/* Nearly every position is refused by one word of its bins. */
			if (count - at < layouts[i].bytes / 8 || !words[first] ||
			    !words[first + 2 * (size_t)LIMPET_GLIBC_BINS - 1] ||
			    !are_bins(words + first, start + layouts[i].bins))
				continue;
			if (is_main(memory, start, &layouts[i], ret_state))
				return 1;
			*ret_refused = ++refused;
		}
	return 0;
}

/* ------------------------------------------------------------------ all arenas */

int limpet_glibc_arenas_read(const struct limpet_memory_reader *memory,
			     const struct limpet_glibc_state *main_arena,
			     struct limpet_glibc_state **ret_list, uint64_t *ret_absent)
{
	LIMPET_FREE struct limpet_glibc_state *list = NULL;
	size_t count = 0, capacity = 0;
	struct limpet_glibc_state state = *main_arena;
	/* Brent's search for circles that do not lead back. */
	uint64_t mark = 0;
	size_t wait = 64;

	*ret_absent = 0;
	for (;;) {
		int error;

		if (count >= LIMPET_GLIBC_ARENAS_LIMIT || (mark && state.address == mark))
			return -EBADMSG;
		if (count == wait) {
			mark = state.address;
			wait *= 2;
		}
		if (limpet_reserve(&list, &capacity, count + 1, sizeof(*list)) < 0)
			return -ENOMEM;
		list[count++] = state;
		if (state.next == main_arena->address)
			break;
		error = limpet_glibc_state_read(memory, state.next, main_arena->layout, &state);
		if (error == -ENODATA) {
			*ret_absent = list[count - 1].next;
			break;
		}
		if (error)
			return error;
		state.contiguous = false;
	}
	*ret_list = LIMPET_TAKE(list);
	return (int)count;
}

/* ------------------------------------------------------------------ parameters */

/* Words that lead up to mmapped_mem: n_mmaps_max, 65536 unless mallopt(3) has changed it, with
 * n_mmaps before and max_n_mmaps after it. It ends a word; since 2.35 it starts one, after the size
 * of huge pages, if malloc uses them. no_dyn_threshold is last, 0 or 1. */
static bool has_mmaps_limit(const uint64_t *words, bool is_old, uint64_t *ret_top_step)
{
	const uint64_t limit = 65536, huge = words[-5];
	const uint64_t before = words[-3] >> 32, after = words[-2] >> 32;

	*ret_top_step = PAGE;
	if (after == limit)
		return (words[-2] & UINT32_MAX) <= limit && (words[-1] & UINT32_MAX) <= limit &&
		       words[-1] >> 32 <= 1;
	if (is_old || (words[-2] & UINT32_MAX) != limit || before > limit || after > limit ||
	    (words[-1] & UINT32_MAX) > 1)
		return false;
	if (huge > PAGE && huge <= HUGE_LIMIT_BYTES && !(huge & (huge - 1)))
		*ret_top_step = huge;
	return true;
}

static bool are_amounts(uint64_t now, uint64_t most)
{
	return now <= most && now % PAGE == 0 && most % PAGE == 0 && most < (uint64_t)1 << 47;
}

int limpet_glibc_parameters_find(const struct limpet_glibc_data *data, size_t from, uint64_t low,
				 uint64_t high, struct limpet_glibc_parameters *ret_parameters,
				 size_t *ret_end)
{
	const uint64_t *words = data->words;

	for (size_t i = from / 8 > 8 ? from / 8 : 8; i < data->bytes / 8; i++) {
		if (words[i] < low || words[i] >= high)
			continue;
		/* Up to 2.23 a total came between the highest amount and the address. */
		for (size_t back = 2; back <= 3; back++) {
			uint64_t step;

			if (!are_amounts(words[i - back], words[i - back + 1]) ||
			    !has_mmaps_limit(words + i - back, back == 3, &step))
				continue;
			*ret_parameters =
				(struct limpet_glibc_parameters){.mmapped_bytes = words[i - back],
								 .top_step = step,
								 .heap_start = words[i]};
			*ret_end = 8 * (i + 1);
			return 1;
		}
	}
	return 0;
}
