#include "explain/used_blocks.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "common/array.h"
#include "injector/proc/target_process.h"

#define PAGE ((uint64_t)4096)
#define CHUNK_BITS ((uint64_t)7)
#define CHUNK_IS_MMAPPED ((uint64_t)2)

void limpet_used_blocks_done(struct limpet_used_blocks *blocks)
{
	limpet_heap_ranges_done(&blocks->ranges);
	limpet_present_done(&blocks->present);
	limpet_glibc_chunks_done(&blocks->chunks);
	free(blocks->list);
	*blocks = (struct limpet_used_blocks){0};
}

static int add(struct limpet_used_blocks *blocks, uint64_t start, uint64_t bytes, bool mmapped)
{
	if (blocks->count == LIMPET_GLIBC_CHUNKS_LIMIT) {
		blocks->is_cut = true;
		return 0;
	}
	if (limpet_reserve(&blocks->list, &blocks->capacity, blocks->count + 1,
			   sizeof(*blocks->list)) < 0 ||
	    !blocks->list)
		return -ENOMEM;
	blocks->list[blocks->count++] =
		(struct limpet_used_block){.start = start, .bytes = bytes, .mmapped = mmapped};
	return 0;
}

/* ------------------------------------------------------------------ chunks of arenas */

static int compare_chunks(const void *a, const void *b)
{
	const struct limpet_glibc_chunk *left = a, *right = b;

	return left->start < right->start ? -1 : left->start > right->start;
}

/* What the caches of threads hold, and the caches themselves, which are glibc's own blocks. */
static int list_caches(struct limpet_glibc_reader *reader, const struct limpet_glibc_chunks *used,
		       struct limpet_glibc_fast *cached, struct limpet_glibc_fast *caches)
{
	cached->is_whole = true;
	for (size_t i = 0; i < used->count; i++) {
		const struct limpet_glibc_chunk *chunk = &used->list[i];
		enum limpet_glibc_cache what;
		uint64_t bytes;
		int error;

		if (!limpet_glibc_may_be_cache(chunk->bytes))
			continue;
		what = limpet_glibc_cache_read(reader, chunk->start, chunk->bytes, &bytes);
		/* What it holds counts as in use. */
		cached->is_whole &= what != LIMPET_GLIBC_CACHE_UNREAD;
		if (what != LIMPET_GLIBC_CACHE || !bytes)
			continue;
		error = limpet_glibc_cache_list(reader, chunk->start, chunk->bytes, cached);
		if (!error)
			error = limpet_reserve(&caches->list, &caches->capacity, caches->count + 1,
					       sizeof(*caches->list));
		if (error)
			return -ENOMEM;
		if (caches->list)
			caches->list[caches->count++] = chunk->start;
	}
	if (cached->count)
		qsort(cached->list, cached->count, sizeof(*cached->list), limpet_compare_words);
	return 0;
}

static bool has(const struct limpet_glibc_fast *list, uint64_t address)
{
	return list->count && bsearch(&address, list->list, list->count, sizeof(*list->list),
				      limpet_compare_words);
}

/* The second word of a block in the cache of a thread; before 2.29 it means nothing. A block that
 * is in use by now has another one, so two must have it. */
static void note_key(struct limpet_cache_keys *keys, struct limpet_glibc_reader *reader,
		     uint64_t chunk, uint64_t *last)
{
	uint64_t word;

	if (limpet_glibc_reader_any(reader, chunk + 24, &word) < 0 || !word)
		return;
	if (word == *last && keys->count < LIMPET_CACHE_KEYS && !limpet_cache_keys_have(keys, word))
		keys->list[keys->count++] = word;
	*last = word;
}

/* Leaves those that are in use, in `used`. */
static int sift_chunks(struct limpet_used_blocks *blocks, struct limpet_glibc_reader *reader,
		       struct limpet_glibc_chunks *used)
{
	struct limpet_glibc_fast cached = {0}, caches = {0};
	int error = list_caches(reader, used, &cached, &caches);
	uint64_t last = 0;
	size_t kept = 0;

	blocks->is_whole &= cached.is_whole;
	blocks->lists_whole &= cached.is_whole;
	for (size_t i = 0; i < used->count && !error; i++) {
		const struct limpet_glibc_chunk chunk = used->list[i];

		if (has(&cached, chunk.start)) {
			blocks->cached++;
			blocks->cached_bytes += chunk.bytes;
			note_key(&blocks->keys, reader, chunk.start, &last);
		} else if (!has(&caches, chunk.start)) {
			used->list[kept++] = chunk;
		}
	}
	used->count = kept;
	limpet_glibc_fast_done(&cached);
	limpet_glibc_fast_done(&caches);
	return error;
}

/* ------------------------------------------------------------------ blocks with mappings */

static bool may_be_mapped(const struct limpet_glibc_heaps *heaps, const struct limpet_map *map)
{
	return limpet_map_is_anonymous(map) && map->perms[3] == 'p' &&
	       !limpet_glibc_heaps_find(heaps, map->start);
}

/* What is searched: mappings, from the end of the last block on, since a block may reach over
 * several. */
struct mapped {
	const struct limpet_memory_reader *memory;
	struct limpet_pages *pages;
	uint64_t run_end; /* see limpet_proc_maps_run() */
	uint64_t at;
	uint64_t left_bytes; /* of what glibc itself has counted; UINT64_MAX: not known */
	uint64_t bytes;      /* found */
};

/* The bytes of the chunk with a mapping of its own that begins with this page; 0: none does. */
static uint64_t chunk_at(const struct mapped *mapped, uint64_t at)
{
	uint64_t words[2], bytes;

	if (limpet_memory_reader_read(mapped->memory, at, words, sizeof(words)) < 0)
		return 0;
	bytes = words[1] & ~CHUNK_BITS;
	return words[0] || (words[1] & CHUNK_BITS) != CHUNK_IS_MMAPPED || bytes % PAGE ||
			       bytes > mapped->run_end - at || bytes > mapped->left_bytes
		       ? 0
		       : bytes;
}

static int add_chunk(struct limpet_used_blocks *blocks, struct mapped *mapped, uint64_t at,
		     uint64_t bytes)
{
	mapped->bytes += bytes;
	if (mapped->left_bytes != UINT64_MAX)
		mapped->left_bytes -= bytes;
	mapped->at = at + bytes;
	return add(blocks, at, bytes, true);
}

/* The kernel joins adjacent mappings. */
static int add_mapping(struct limpet_used_blocks *blocks, struct mapped *mapped,
		       const struct limpet_map *map)
{
	struct limpet_present present = {0};
	uint64_t at = mapped->at > map->start ? mapped->at : map->start;
	int error = at < map->end ? limpet_present_read(&present, mapped->pages, at, map->end) : 0;

	while (!error && at < map->end) {
		uint64_t bytes;

		at = limpet_present_next(&present, at);
		if (at >= map->end || limpet_memory_reader_is_spent(mapped->memory))
			break;
		at &= ~(PAGE - 1);
		bytes = chunk_at(mapped, at);
		if (bytes)
			error = add_chunk(blocks, mapped, at, bytes);
		at += bytes ? bytes : PAGE;
	}
	limpet_present_done(&present);
	return error == -ENOMEM ? error : 0;
}

/* Memory without any access is reserved address space, of any size, or of blocks that the program
 * has closed: these are looked for right behind what was there before. */
static int add_closed(struct limpet_used_blocks *blocks, struct mapped *mapped,
		      const struct limpet_map *map)
{
	uint64_t at = mapped->at > map->start ? mapped->at : map->start, bytes;
	int error = 0;

	for (; !error && at < map->end; at += bytes) {
		bytes = chunk_at(mapped, at);
		if (!bytes)
			break;
		error = add_chunk(blocks, mapped, at, bytes);
	}
	return error;
}

/* They are all found if they are as much as glibc itself has counted. */
static int add_mappings(struct limpet_used_blocks *blocks,
			const struct limpet_memory_reader *memory, struct limpet_pages *pages,
			const struct limpet_maps *maps, const struct limpet_glibc_heaps *heaps)
{
	struct mapped mapped = {.memory = memory,
				.pages = pages,
				.left_bytes =
					heaps->mmapped_known ? heaps->mmapped_bytes : UINT64_MAX};
	int error = 0;

	/* Once all is found, the others are pages to be read in vain. */
	for (size_t i = 0; i < maps->count && !error && mapped.left_bytes; i++) {
		const struct limpet_map *map = &maps->list[i];

		if (map->start >= mapped.run_end)
			mapped.run_end = maps->list[limpet_proc_maps_run(maps, i, UINT64_MAX)].end;
		if (may_be_mapped(heaps, map))
			error = map->perms[0] == 'r' ? add_mapping(blocks, &mapped, map)
						     : add_closed(blocks, &mapped, map);
	}
	blocks->is_whole &= heaps->mmapped_known && mapped.bytes == heaps->mmapped_bytes;
	return error;
}

/* ------------------------------------------------------------------ all */

static int compare_blocks(const void *a, const void *b)
{
	const struct limpet_used_block *left = a, *right = b;

	return left->start < right->start ? -1 : left->start > right->start;
}

static void sort(struct limpet_used_blocks *blocks)
{
	size_t i = 1;

	while (i < blocks->count && blocks->list[i - 1].start <= blocks->list[i].start)
		i++;
	if (i < blocks->count)
		qsort(blocks->list, blocks->count, sizeof(*blocks->list), compare_blocks);
}

static void note_arenas(struct limpet_used_blocks *blocks, const struct limpet_glibc_heaps *heaps)
{
	blocks->has_glibc = heaps->count > 0;
	blocks->is_whole &= !heaps->is_cut;
	for (size_t i = 0; i < heaps->count; i++) {
		blocks->is_whole &= heaps->list[i].known && heaps->list[i].fast_whole;
		blocks->lists_whole &= !heaps->list[i].known || heaps->list[i].fast_whole;
		blocks->unread_arenas += !heaps->list[i].known;
	}
}

/* What is before the first chunk of an arena that is no main one is its own structure. */
static int note_range(struct limpet_heap_ranges *ranges, const struct limpet_glibc_range *range,
		      bool is_main)
{
	const uint64_t start = range->chunks > range->start ? range->chunks : range->start;
	int error = 0;

	if (!is_main && start > range->start)
		error = limpet_heap_ranges_add(ranges, range->start, start, true);
	return error ? error : limpet_heap_ranges_add(ranges, start, range->end, false);
}

static int note_ranges(struct limpet_used_blocks *blocks, const struct limpet_glibc_heaps *heaps)
{
	int error = 0;

	for (size_t i = 0; i < heaps->range_count && !error; i++) {
		const struct limpet_glibc_range *range = &heaps->ranges[i];

		if (heaps->list[range->arena].known)
			error = note_range(&blocks->ranges, range,
					   heaps->list[range->arena].is_main);
	}
	for (size_t i = 0; i < heaps->count && !error; i++)
		if (heaps->list[i].known && heaps->list[i].is_main)
			error = limpet_heap_ranges_add(&blocks->ranges,
						       heaps->list[i].state.address,
						       heaps->list[i].state.end, true);
	limpet_heap_ranges_sort(&blocks->ranges);
	return error;
}

static int read_present(struct limpet_used_blocks *blocks, struct limpet_pages *pages,
			const struct limpet_glibc_heaps *heaps)
{
	for (size_t i = 0; i < heaps->range_count; i++) {
		const struct limpet_glibc_range *range = &heaps->ranges[i];
		/* Two ranges may share a page. */
		const struct limpet_glibc_range *last = i ? range - 1 : NULL;
		const uint64_t after = last ? (last->end + PAGE - 1) & ~(PAGE - 1) : 0;
		const uint64_t start = range->start > after ? range->start : after;
		int error = start < range->end ? limpet_present_read(&blocks->present, pages, start,
								     range->end)
					       : 0;

		if (error)
			return error;
	}
	return 0;
}

/* Those of one arena are sorted already, and there may be millions. */
static void sort_chunks(struct limpet_glibc_chunks *used)
{
	size_t i = 1;

	while (i < used->count && used->list[i - 1].start <= used->list[i].start)
		i++;
	if (i < used->count)
		qsort(used->list, used->count, sizeof(*used->list), compare_chunks);
}

static int add_arenas(struct limpet_used_blocks *blocks, const struct limpet_memory_reader *memory)
{
	struct limpet_glibc_reader *reader;
	int error = limpet_glibc_reader_new(memory, &blocks->present, &reader);

	if (error)
		return error;
	blocks->is_cut |= blocks->chunks.is_cut;
	sort_chunks(&blocks->chunks);
	error = sift_chunks(blocks, reader, &blocks->chunks);
	limpet_glibc_reader_free(reader);
	return error;
}

int limpet_used_blocks_read_chunks(const struct limpet_target *target,
				   const struct limpet_memory_reader *memory,
				   struct limpet_pages *pages,
				   struct limpet_used_blocks *ret_blocks)
{
	struct limpet_used_blocks blocks = {.is_whole = true, .lists_whole = true};
	struct limpet_glibc_heaps heaps = {0};
	struct limpet_maps maps;
	int error = limpet_proc_maps_read(target->pid, &maps);

	if (error)
		return error;
	error = limpet_glibc_heaps_read(target, memory, &maps, pages, &blocks.chunks, &heaps);
	if (!error) {
		note_arenas(&blocks, &heaps);
		error = note_ranges(&blocks, &heaps);
	}
	if (!error)
		error = read_present(&blocks, pages, &heaps);
	if (!error)
		error = add_arenas(&blocks, memory);
	if (!error && heaps.count)
		error = add_mappings(&blocks, memory, pages, &maps, &heaps);
	blocks.is_spent = limpet_memory_reader_is_spent(memory);
	blocks.is_whole &= !blocks.is_spent && !blocks.is_cut;
	limpet_glibc_heaps_done(&heaps);
	limpet_proc_maps_done(&maps);
	if (error) {
		limpet_used_blocks_done(&blocks);
		return error;
	}
	sort(&blocks);
	*ret_blocks = blocks;
	return 0;
}

int limpet_used_blocks_read(const struct limpet_target *target,
			    const struct limpet_memory_reader *memory, struct limpet_pages *pages,
			    struct limpet_used_blocks *ret_blocks)
{
	struct limpet_used_blocks blocks;
	int error = limpet_used_blocks_read_chunks(target, memory, pages, &blocks);

	if (error)
		return error;
	for (size_t i = 0; i < blocks.chunks.count && !error; i++)
		error = add(&blocks, blocks.chunks.list[i].start, blocks.chunks.list[i].bytes,
			    false);
	blocks.is_whole &= !blocks.is_cut;
	limpet_glibc_chunks_done(&blocks.chunks);
	sort(&blocks);
	if (error)
		limpet_used_blocks_done(&blocks);
	else
		*ret_blocks = blocks;
	return error;
}
