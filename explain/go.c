#include "explain/go.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "common/array.h"
#include "explain/data.h"
#include "explain/present.h"
#include "injector/elf/elf_file.h"

/* runtime/malloc.go: small structures of the runtime are in chunks that it never frees. The first
 * word of each is the address of the one before, the last one's is 0. */
#define PAGE ((uint64_t)4096)
#define CHUNK_BYTES ((uint64_t)256 << 10)
#define CHUNKS_LIMIT ((size_t)16 << 10)
#define CHUNKS_LEAST 2u
#define CHUNKS_SEARCHED 64u
/* runtime/mheap.go: a span (mspan, in such a chunk) begins with three pointers, the address of its
 * first page, of 8 KiB, and their number. */
#define SPAN_START 3u
#define SPAN_PAGE_BYTES ((uint64_t)8192)
#define SPAN_PAGES_LIMIT ((uint64_t)1 << 17)
#define SPANS_LIMIT 4096u
#define SAMPLES 64u
#define SAMPLES_NEEDED 4u
/* An arena of the heap is described by a heapArena, which has a pointer for each page to its span.
 * What precedes it (in Go 1.21 a MiB, until Go 1.19 two) and follows it differs between releases.
 */
#define ARENA_SHIFT 26u
#define ARENA_PAGES ((size_t)(LIMPET_GO_ARENA_BYTES / SPAN_PAGE_BYTES))
#define SPANS_OFFSET_LIMIT ((uint64_t)0x220000)
#define SPANS_BYTES (8 * (uint64_t)ARENA_PAGES)
#define ARENA_REST_BYTES ((uint64_t)3088)
/* A table has the addresses of all of them, in a mapping to which the program's data points. The
 * first half of it is for addresses of the upper half. */
#define TABLE_WORDS ((uint64_t)1 << 22)
#define NUMBER_OF_0 (TABLE_WORDS / 2)
#define ARENAS_LIMIT 65536u
#define CANDIDATES_LIMIT 1024u
#define CHECKS_LIMIT 16u
#define ENTRIES_TRIED 64u
#define POINTERS_LIMIT ((size_t)64 << 10)

struct span {
	uint64_t address, start;
};

struct reading {
	const struct limpet_memory_reader *memory;
	const struct limpet_maps *maps;
	struct limpet_pages *pages;
	const uint64_t *pointers;
	size_t pointer_count;
	uint64_t *chunks; /* sorted */
	size_t chunk_count;
	struct span samples[SAMPLES]; /* of one arena, sorted by address */
	size_t sample_count;
	uint64_t number; /* of this arena in the table */
	uint64_t table, spans_offset;
	struct limpet_go *go;
};

void limpet_go_done(struct limpet_go *go)
{
	limpet_heap_ranges_done(&go->ranges);
	*go = (struct limpet_go){0};
}

static bool is_anonymous(const struct limpet_maps *maps, uint64_t address, uint64_t bytes)
{
	const struct limpet_map *map = limpet_proc_maps_find(maps, address);

	return map && limpet_map_is_anonymous(map) && !strncmp(map->perms, "rw-p", 4) &&
	       bytes <= map->end - address;
}

static uint64_t number_of(uint64_t address)
{
	return NUMBER_OF_0 + (address >> ARENA_SHIFT);
}

static size_t page_in_arena(uint64_t address)
{
	return address % LIMPET_GO_ARENA_BYTES / SPAN_PAGE_BYTES;
}

/* ------------------------------------------------------------------ chunks */

static bool is_in_chunk(const struct reading *reading, uint64_t address)
{
	/* cppcheck-suppress constStatement */
	size_t above =
		LIMPET_PARTITION_POINT(i, reading->chunk_count, reading->chunks[i] <= address);

	return above && address - reading->chunks[above - 1] < CHUNK_BYTES;
}

/* The number of chunks in the list that begins there, or 0. */
static size_t follow(const struct reading *reading, uint64_t at, uint64_t *ret_chunks)
{
	size_t count = 0;

	while (at) {
		if (count == CHUNKS_LIMIT || at % PAGE ||
		    !is_anonymous(reading->maps, at, CHUNK_BYTES))
			return 0;
		ret_chunks[count++] = at;
		if (!limpet_memory_reader_read_word(reading->memory, at, &at))
			return 0;
	}
	return count;
}

static bool overlap(const uint64_t *chunks, size_t count)
{
	for (size_t i = 1; i < count; i++)
		if (chunks[i] - chunks[i - 1] < CHUNK_BYTES)
			return true;
	return false;
}

/* The longest list. Whether it is the right one is told by the spans in it. */
static int find_chunks(struct reading *reading)
{
	LIMPET_FREE uint64_t *chunks = calloc(CHUNKS_LIMIT, sizeof(*chunks));
	LIMPET_FREE uint64_t *best = calloc(CHUNKS_LIMIT, sizeof(*best));
	size_t count, most = CHUNKS_LEAST - 1;

	if (!chunks || !best)
		return -ENOMEM;
	for (size_t i = 0; i < reading->pointer_count; i++) {
		count = follow(reading, reading->pointers[i], chunks);
		if (count <= most)
			continue;
		qsort(chunks, count, sizeof(*chunks), limpet_compare_words);
		if (overlap(chunks, count))
			continue;
		most = count;
		memcpy(best, chunks, count * sizeof(*chunks));
	}
	if (most < CHUNKS_LEAST)
		return 0;
	reading->chunk_count = most;
	reading->chunks = LIMPET_TAKE(best);
	return 0;
}

/* ------------------------------------------------------------------ spans */

static int compare_starts(const void *a, const void *b)
{
	const struct span *left = a, *right = b;

	return left->start < right->start ? -1 : left->start > right->start;
}

static int compare_spans(const void *a, const void *b)
{
	const struct span *left = a, *right = b;

	return left->address < right->address ? -1 : left->address > right->address;
}

/* Some of them are no spans, or have been given back: most of those of an arena have to be right.
 */
static size_t read_spans(const struct reading *reading, uint64_t page, struct span *spans,
			 size_t count)
{
	uint64_t words[PAGE / 8];

	if (limpet_memory_reader_read(reading->memory, page, words, sizeof(words)) < 0)
		return count;
	for (size_t i = SPAN_START; i + 1 < PAGE / 8 && count < SPANS_LIMIT; i++) {
		const uint64_t start = words[i], pages = words[i + 1];

		if (!start || start % SPAN_PAGE_BYTES || !pages || pages > SPAN_PAGES_LIMIT ||
		    words[i - 1] % 8 || words[i - 2] % 8 || words[i - 3] % 8 ||
		    !is_anonymous(reading->maps, start, SPAN_PAGE_BYTES) ||
		    is_in_chunk(reading, start))
			continue;
		spans[count++] =
			(struct span){.address = page + 8 * (i - SPAN_START), .start = start};
	}
	return count;
}

/* Of the arena that has most, evenly. */
static void choose_samples(struct reading *reading, struct span *spans, size_t count)
{
	size_t best = 0, most = 0;

	if (count)
		qsort(spans, count, sizeof(*spans), compare_starts);
	for (size_t i = 0, first = 0; i < count; i++) {
		if (spans[i].start >> ARENA_SHIFT != spans[first].start >> ARENA_SHIFT)
			first = i;
		if (i - first + 1 > most) {
			most = i - first + 1;
			best = first;
		}
	}
	if (most < SAMPLES_NEEDED)
		return;
	reading->sample_count = most < SAMPLES ? most : SAMPLES;
	for (size_t i = 0; i < reading->sample_count; i++)
		reading->samples[i] = spans[best + i * most / reading->sample_count];
	qsort(reading->samples, reading->sample_count, sizeof(*reading->samples), compare_spans);
	reading->number = number_of(spans[best].start);
}

static int find_spans(struct reading *reading)
{
	LIMPET_FREE struct span *spans = calloc(SPANS_LIMIT, sizeof(*spans));
	size_t count = 0;

	if (!spans)
		return -ENOMEM;
	for (size_t i = 0; i < reading->chunk_count && i < CHUNKS_SEARCHED; i++)
		for (uint64_t at = 0; at < CHUNK_BYTES && count < SPANS_LIMIT; at += PAGE)
			count = read_spans(reading, reading->chunks[i] + at, spans, count);
	choose_samples(reading, spans, count);
	return 0;
}

/* ------------------------------------------------------------------ one arena */

/* Whether the pointers of an arena to its spans begin there: of most samples it has the addresses
 * where they belong. */
static bool are_pointers(const struct reading *reading, uint64_t pointers)
{
	size_t right = 0;

	for (size_t i = 0; i < reading->sample_count; i++) {
		const struct span *sample = &reading->samples[i];
		uint64_t word;

		right += limpet_memory_reader_read_word(reading->memory,
							pointers + 8 * page_in_arena(sample->start),
							&word) &&
			 word == sample->address;
	}
	return right >= SAMPLES_NEEDED && right * 2 >= reading->sample_count;
}

static const struct span *find_sample(const struct reading *reading, uint64_t address)
{
	/* cppcheck-suppress constStatement */
	size_t at = LIMPET_PARTITION_POINT(i, reading->sample_count,
					   reading->samples[i].address < address);

	return at < reading->sample_count && reading->samples[at].address == address
		       ? &reading->samples[at]
		       : NULL;
}

/* The first pointer to a span is that of its first page. */
static bool judge_page(struct reading *reading, uint64_t arena, uint64_t page, unsigned *checks)
{
	const struct span *last = NULL;
	uint64_t words[PAGE / 8];

	if (limpet_memory_reader_read(reading->memory, page, words, sizeof(words)) < 0)
		return false;
	for (size_t i = 0; i < PAGE / 8 && *checks < CHECKS_LIMIT; i++) {
		const struct span *sample = words[i] ? find_sample(reading, words[i]) : NULL;
		const uint64_t at = page + 8 * i;

		if (!sample || sample == last || at - arena < 8 * page_in_arena(sample->start))
			continue;
		last = sample;
		++*checks;
		if (!are_pointers(reading, at - 8 * page_in_arena(sample->start)))
			continue;
		reading->spans_offset = at - 8 * page_in_arena(sample->start) - arena;
		return true;
	}
	return false;
}

/* Whether a heapArena of the samples' arena begins there. Sets `spans_offset`. */
static bool is_arena(struct reading *reading, uint64_t arena)
{
	unsigned checks = 0;

	if (!arena || arena % PAGE || !is_anonymous(reading->maps, arena, SPANS_BYTES) ||
	    is_in_chunk(reading, arena))
		return false;
	for (uint64_t at = 0; at < SPANS_OFFSET_LIMIT && checks < CHECKS_LIMIT; at += PAGE)
		if (judge_page(reading, arena, arena + at, &checks))
			return true;
	return false;
}

/* The arena alone would not do: a pointer to something else in the same mapping may precede it. */
static bool find_table(struct reading *reading)
{
	for (size_t i = 0; i < reading->pointer_count && i < CANDIDATES_LIMIT; i++) {
		const uint64_t table = reading->pointers[i];
		uint64_t arena;

		if (!is_anonymous(reading->maps, table, 8 * TABLE_WORDS) ||
		    !limpet_memory_reader_read_word(reading->memory, table + 8 * reading->number,
						    &arena) ||
		    !is_arena(reading, arena))
			continue;
		reading->table = table;
		return true;
	}
	return false;
}

/* ------------------------------------------------------------------ all arenas */

static int add_range(struct limpet_go *go, uint64_t start, uint64_t bytes, bool is_table)
{
	return limpet_heap_ranges_add(&go->ranges, start, (start + bytes + PAGE - 1) & ~(PAGE - 1),
				      is_table);
}

/* Whether one of the first spans of an arena contains the page whose pointer leads to it. */
static bool has_span(const struct reading *reading, uint64_t pointers, uint64_t heap)
{
	uint64_t words[PAGE / 8], span[2];
	unsigned tried = 0;

	for (uint64_t at = 0; at < SPANS_BYTES; at += sizeof(words)) {
		if (limpet_memory_reader_read(reading->memory, pointers + at, words,
					      sizeof(words)) < 0)
			continue;
		for (size_t i = 0; i < PAGE / 8 && tried < ENTRIES_TRIED; i++) {
			const uint64_t page = heap + (at / 8 + i) * SPAN_PAGE_BYTES;

			if (!words[i] || !is_in_chunk(reading, words[i]))
				continue;
			tried++;
			if (limpet_memory_reader_read(reading->memory, words[i] + 8 * SPAN_START,
						      span, sizeof(span)) == 0 &&
			    span[0] % SPAN_PAGE_BYTES == 0 && span[0] <= page &&
			    span[1] <= SPAN_PAGES_LIMIT &&
			    page - span[0] < span[1] * SPAN_PAGE_BYTES)
				return true;
		}
	}
	return false;
}

static int add_arena(struct reading *reading, uint64_t number, uint64_t arena)
{
	const uint64_t heap = (number - NUMBER_OF_0) << ARENA_SHIFT;
	const uint64_t bytes = reading->spans_offset + SPANS_BYTES;
	int error;

	if (number < NUMBER_OF_0 || arena % PAGE || !is_anonymous(reading->maps, arena, bytes) ||
	    reading->go->ranges.count >= 2 * ARENAS_LIMIT ||
	    !has_span(reading, arena + reading->spans_offset, heap))
		return 0;
	error = add_range(reading->go, heap, LIMPET_GO_ARENA_BYTES, false);
	return error ? error : add_range(reading->go, arena, bytes + ARENA_REST_BYTES, true);
}

static int read_words(struct reading *reading, uint64_t at)
{
	const uint64_t end = (at & ~(PAGE - 1)) + PAGE;
	uint64_t words[PAGE / 8];
	int error = 0;

	if (limpet_memory_reader_read(reading->memory, at, words, end - at) < 0)
		return 0;
	for (size_t i = 0; i < (end - at) / 8 && !error; i++) {
		const uint64_t number = (at - reading->table) / 8 + i;

		if (words[i] && number < TABLE_WORDS)
			error = add_arena(reading, number, words[i]);
	}
	return error;
}

static int read_table(struct reading *reading)
{
	const uint64_t end = reading->table + 8 * TABLE_WORDS;
	struct limpet_present present = {0};
	int error = limpet_present_read(&present, reading->pages, reading->table & ~(PAGE - 1),
					(end + PAGE - 1) & ~(PAGE - 1));

	for (size_t i = 0; i < present.count && !error; i++)
		for (uint64_t at = present.list[i].start; at < present.list[i].end && !error;
		     at += PAGE)
			error = read_words(reading, at < reading->table ? reading->table : at);
	limpet_present_done(&present);
	return error == -ENOMEM ? error : 0;
}

static void sort_ranges(struct limpet_heap_ranges *ranges)
{
	size_t kept = 0;

	limpet_heap_ranges_sort(ranges);
	for (size_t i = 0; i < ranges->count; i++)
		if (!kept || ranges->list[i].start >= ranges->list[kept - 1].end)
			ranges->list[kept++] = ranges->list[i];
	ranges->count = kept;
}

/* Only if a part of it is an arena of the heap: then the chunks are what they seem, too. */
static int add_tables(struct reading *reading)
{
	int error = 0;

	if (!reading->go->ranges.count)
		return 0;
	for (size_t i = 0; i < reading->chunk_count && !error; i++)
		error = add_range(reading->go, reading->chunks[i], CHUNK_BYTES, true);
	if (!error)
		error = add_range(reading->go, reading->table, 8 * TABLE_WORDS, true);
	sort_ranges(&reading->go->ranges);
	return error;
}

int limpet_go_read_tables(const struct limpet_memory_reader *memory, const struct limpet_maps *maps,
			  struct limpet_pages *pages, const uint64_t *pointers, size_t count,
			  struct limpet_go *go)
{
	struct reading reading = {.memory = memory,
				  .maps = maps,
				  .pages = pages,
				  .pointers = pointers,
				  .pointer_count = count,
				  .go = go};
	int error = find_chunks(&reading);

	if (!error)
		error = find_spans(&reading);
	if (!error && reading.sample_count && find_table(&reading)) {
		error = read_table(&reading);
		if (!error)
			error = add_tables(&reading);
	}
	free(reading.chunks);
	return error;
}

/* ------------------------------------------------------------------ the program */

struct pointers {
	const struct limpet_maps *maps;
	uint64_t *list;
	size_t count, capacity;
	int error;
};

static void scan(void *context, const uint64_t *data, size_t bytes, uint64_t address)
{
	struct pointers *pointers = context;

	(void)address;
	for (size_t i = 0; i < bytes / 8 && pointers->count < POINTERS_LIMIT; i++) {
		if (!data[i] || data[i] % PAGE || !is_anonymous(pointers->maps, data[i], PAGE))
			continue;
		if (limpet_reserve(&pointers->list, &pointers->capacity, pointers->count + 1,
				   sizeof(*pointers->list)) < 0 ||
		    !pointers->list) {
			pointers->error = -ENOMEM;
			return;
		}
		pointers->list[pointers->count++] = data[i];
	}
}

static bool has_go(const struct limpet_target *target, const struct limpet_module *module)
{
	LIMPET_CLOSE int fd = limpet_module_open(target, module);
	struct limpet_elf_file *file;
	bool has;

	if (fd < 0 || limpet_elf_file_open(fd, &file) < 0)
		return false;
	has = limpet_elf_file_has_section(file, ".gopclntab") ||
	      limpet_elf_file_has_section(file, ".data.rel.ro.gopclntab");
	limpet_elf_file_free(file);
	return has;
}

int limpet_go_read(const struct limpet_memory_reader *memory, struct limpet_modules *modules,
		   struct limpet_pages *pages, struct limpet_go *go)
{
	struct pointers pointers = {.maps = &modules->maps};
	int error;

	for (size_t i = 0; i < modules->count && !go->is_there; i++)
		go->is_there =
			modules->list[i].executable && has_go(modules->target, &modules->list[i]);
	if (!go->is_there)
		return 0;
	error = limpet_data_read(memory, &modules->maps, pages, scan, &pointers);
	if (!error)
		error = pointers.error;
	if (!error)
		error = limpet_go_read_tables(memory, &modules->maps, pages, pointers.list,
					      pointers.count, go);
	free(pointers.list);
	return error;
}
