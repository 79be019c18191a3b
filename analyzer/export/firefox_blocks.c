#include "analyzer/export/firefox_blocks.h"

#include <errno.h>
#include <stdlib.h>

#include "common/array.h"

void limpet_firefox_blocks_init(struct limpet_firefox_blocks *blocks,
				struct limpet_export_stacks *stacks, uint64_t duration_ns)
{
	*blocks = (struct limpet_firefox_blocks){.stacks = stacks,
						 .step_ns = duration_ns / LIMPET_FIREFOX_STEPS + 1,
						 .entries_max = LIMPET_FIREFOX_ENTRIES};
}

/* A trace may contain any time; what is late is in the last step. */
static uint16_t step_of(const struct limpet_firefox_blocks *blocks, uint64_t time_ns)
{
	const uint64_t step = time_ns / blocks->step_ns;

	return step < LIMPET_FIREFOX_STEPS ? (uint16_t)step : LIMPET_FIREFOX_STEPS - 1;
}

/* Adds to the entry with the same key, or appends it: there is room. */
static int place(struct limpet_firefox_blocks *blocks, struct limpet_firefox_entry entry)
{
	const uint64_t key =
		(uint64_t)entry.origin << 32 | (uint32_t)entry.made << 16 | entry.freed;
	const uint32_t number = limpet_number_table_of(&blocks->entry_numbers, key);

	if (!number)
		return -ENOMEM;
	if (number > blocks->entry_count) {
		blocks->entries[number - 1] = entry;
		blocks->entry_count = number;
	} else {
		blocks->entries[number - 1].bytes += entry.bytes;
	}
	return 0;
}

/* Combines two steps to one. */
static int halve(struct limpet_firefox_blocks *blocks)
{
	const size_t count = blocks->entry_count;
	int code = 0;

	limpet_number_table_clear(&blocks->entry_numbers);
	blocks->step_ns *= 2;
	blocks->entry_count = 0;
	/* In place: an entry never moves up. */
	for (size_t i = 0; i < count && code == 0; i++) {
		struct limpet_firefox_entry entry = blocks->entries[i];

		entry.made /= 2;
		if (entry.freed != LIMPET_FIREFOX_NEVER)
			entry.freed /= 2;
		code = place(blocks, entry);
	}
	return code;
}

static int add(struct limpet_firefox_blocks *blocks, uint32_t tid, uint32_t node, double bytes,
	       uint64_t made_ns, uint64_t freed_ns)
{
	const uint32_t stack = limpet_export_stacks_number(blocks->stacks, node);
	const uint32_t origin =
		limpet_number_table_of(&blocks->origin_numbers, (uint64_t)tid << 32 | stack);
	int code;

	if (!stack || !origin ||
	    limpet_reserve(&blocks->origins, &blocks->origin_capacity, origin + 1ul,
			   sizeof(*blocks->origins)) < 0 ||
	    limpet_reserve(&blocks->entries, &blocks->entry_capacity, blocks->entry_count + 1,
			   sizeof(*blocks->entries)) < 0)
		return -ENOMEM;
	blocks->origins[origin] = (struct limpet_firefox_origin){.tid = tid, .stack = stack};
	code = place(blocks, (struct limpet_firefox_entry){
				     .origin = origin,
				     .made = step_of(blocks, made_ns),
				     .freed = freed_ns == UINT64_MAX ? LIMPET_FIREFOX_NEVER
								     : step_of(blocks, freed_ns),
				     .bytes = bytes});
	/* With one step left, the number of entries is that of origins, twice. */
	if (code == 0 && blocks->entry_count > blocks->entries_max &&
	    blocks->entry_count > 2ul * blocks->origin_numbers.count)
		code = halve(blocks);
	return code;
}

int limpet_firefox_blocks_add(void *context, const struct limpet_replay_block *block)
{
	return block->bytes > 0 ? add(context, block->tid, block->node, block->bytes,
				      block->made_ns, block->freed_ns)
				: 0;
}

/* ------------------------------------------------------------------ from sums */

/* What a site allocated in a step and has not freed yet. */
struct open_bytes {
	uint64_t bytes, made_ns;
};

/* One site's steps; `open` has room for them all. */
static int add_site(struct limpet_firefox_blocks *blocks, uint32_t tid,
		    const struct limpet_history *history, const struct limpet_history_site *site,
		    struct open_bytes *open)
{
	struct limpet_cursor cursor = limpet_history_steps(history, site);
	struct limpet_history_step step;
	size_t first = 0, count = 0;
	int code = 0;

	while (code == 0 && limpet_history_next(&cursor, &step)) {
		const uint64_t now_ns = history->edges_ns[step.step];
		uint64_t freed = step.counts.freed_bytes;

		open[count++] = (struct open_bytes){step.counts.allocated_bytes, now_ns};
		while (freed && first < count && code == 0) {
			const uint64_t bytes =
				freed < open[first].bytes ? freed : open[first].bytes;

			if (bytes)
				code = add(blocks, tid, site->node, (double)bytes,
					   open[first].made_ns, now_ns);
			freed -= bytes;
			open[first].bytes -= bytes;
			first += !open[first].bytes;
		}
	}
	for (; first < count && code == 0; first++)
		if (open[first].bytes)
			code = add(blocks, tid, site->node, (double)open[first].bytes,
				   open[first].made_ns, UINT64_MAX);
	return code;
}

int limpet_firefox_blocks_add_sums(struct limpet_firefox_blocks *blocks, uint32_t tid,
				   const struct limpet_history *history)
{
	LIMPET_FREE struct open_bytes *open = calloc(history->step_count + 1, sizeof(*open));
	int code = open ? 0 : -ENOMEM;

	for (size_t i = 0; i < history->site_count && code == 0; i++)
		code = add_site(blocks, tid, history, &history->sites[i], open);
	return code;
}

void limpet_firefox_blocks_done(struct limpet_firefox_blocks *blocks)
{
	limpet_number_table_done(&blocks->origin_numbers);
	limpet_number_table_done(&blocks->entry_numbers);
	free(blocks->origins);
	free(blocks->entries);
}
