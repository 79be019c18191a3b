/* Heaps of allocators and runtimes as a hostile target shows them to explain.
 *
 * Byte 0 says whose heap it is; what follows byte 7 is memory, from BASE on. */
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "common/err.h"
#include "explain/glibc_orphans.h"
#include "explain/glibc_regions.h"
#include "explain/go.h"
#include "explain/gperftools.h"
#include "explain/jemalloc.h"
#include "explain/mimalloc_census.h"
#include "explain/runtimes.h"
#include "explain/runtimes/v8_pages.h"
#include "explain/tcmalloc.h"
#include "test/unit/target_of.h"

#define BASE UINT64_C(0x200000000000)
#define BYTES ((uint64_t)4 << 20)
#define HEAD_BYTES 8u
#define DATA_BYTES ((size_t)8192) /* where glibc's own data is; its heap follows */

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* In `make test`: a second's worth. */
extern unsigned long fuzz_mutations;
unsigned long fuzz_mutations = 300;

static uint8_t *memory;

static int read_memory(void *context, uint64_t address, void *ret, size_t bytes)
{
	(void)context;
	if (address < BASE || bytes > BYTES || address - BASE > BYTES - bytes)
		return address % 3 ? -EFAULT : -ENODATA;
	memcpy(ret, memory + (address - BASE), bytes);
	return 0;
}

static const struct limpet_memory_reader memory_reader = {.read = read_memory};

static void check(bool right)
{
	if (!right)
		abort();
}

/* ------------------------------------------------------------------ glibc */

static void walk(struct limpet_glibc_reader *reader, const struct limpet_present *present,
		 const struct limpet_glibc_state *state, size_t size)
{
	struct limpet_glibc_region span = {.start = BASE + DATA_BYTES,
					   .end = (BASE + size + 4095) & ~UINT64_C(4095),
					   .top = state->top,
					   .is_main = true,
					   .is_brk = true,
					   .shrinks = true};
	struct limpet_glibc_regions regions = {0};
	struct limpet_glibc_fast fast = {0};
	struct limpet_glibc_figures figures;

	if (limpet_glibc_fast_read(reader, state, &fast) < 0)
		abort();
	if (limpet_glibc_walk(reader, present, &span, &fast, &figures) == 0) {
		check(figures.region_bytes <= span.end - span.start);
		check(figures.resident_bytes <= figures.region_bytes);
		check(figures.free_bytes <= figures.region_bytes);
		check(figures.free_resident_bytes <= figures.resident_bytes);
		check(figures.returned_bytes <= figures.resident_bytes);
		check(figures.top_bytes <= figures.free_bytes);
	}
	span.in_parts = true;
	if (limpet_glibc_regions_find(reader, present, &span, &fast, &regions) == 0)
		for (size_t i = 0; i < regions.count; i++)
			check(regions.list[i].start < regions.list[i].end &&
			      regions.list[i].end <= span.end);
	limpet_glibc_regions_done(&regions);
	limpet_glibc_fast_done(&fast);
}

static void read_arenas(const struct limpet_glibc_state *state)
{
	LIMPET_FREE struct limpet_glibc_state *list = NULL;
	uint64_t absent;
	int count = limpet_glibc_arenas_read(&memory_reader, state, &list, &absent);

	for (int i = 0; i < count; i++)
		check(list[i].end > list[i].address && list[i].layout);
}

static void find_orphans(void)
{
	struct limpet_map list[] = {{.start = BASE, .end = BASE + BYTES}};
	const struct limpet_maps maps = {.list = list, .count = 1};
	struct limpet_glibc_orphan orphan = {.start = BASE - 1};

	memcpy(list[0].perms, "rw-p", sizeof("rw-p"));
	list[0].path = (char[]){""};
	while (limpet_glibc_orphan_next(&memory_reader, &maps, orphan.start + 1, &orphan))
		check(orphan.start >= BASE && orphan.end > orphan.start);
}

static void read_glibc(size_t size)
{
	static uint64_t copy[DATA_BYTES / 8];
	const struct limpet_glibc_data data = {copy, sizeof(copy), BASE};
	struct limpet_glibc_parameters parameters;
	struct limpet_present present = {0};
	struct limpet_glibc_reader *reader;
	struct limpet_glibc_state state;
	unsigned refused;
	size_t from = 0, end;

	memcpy(copy, memory, sizeof(copy));
	while (limpet_glibc_parameters_find(&data, from, BASE, BASE + BYTES, &parameters, &end)) {
		check(end > from && end <= sizeof(copy));
		from = end;
	}
	from = 0;
	find_orphans();
	if (limpet_present_add(&present, BASE, BASE + BYTES) < 0 ||
	    limpet_glibc_reader_new(&memory_reader, &present, &reader) < 0)
		abort();
	while (limpet_glibc_main_find(&data, from, &memory_reader, &state, &refused)) {
		check(state.end - BASE > from);
		from = state.end - BASE;
		read_arenas(&state);
		walk(reader, &present, &state, size);
	}
	for (uint64_t at = BASE; at < BASE + size; at += 1024) {
		uint64_t bytes;

		(void)limpet_glibc_cache_read(reader, at, 0x290, &bytes);
		(void)limpet_glibc_cache_read(reader, at, 0x250, &bytes);
		(void)limpet_glibc_cache_read(reader, at, 0x300, &bytes);
	}
	limpet_glibc_reader_free(reader);
	limpet_present_done(&present);
}

/* ------------------------------------------------------------------ others */

static void read_jemalloc(void)
{
	struct limpet_jemalloc jemalloc = {0};
	struct limpet_jemalloc_extent extent;
	struct limpet_pages *pages;

	(void)limpet_jemalloc_judge(*(uint64_t *)(void *)memory, BASE,
				    (uint64_t *)(void *)memory + 1, &extent);
	if (limpet_pages_new(target_of(getpid()), LIMPET_PAGES_SCAN, &pages) < 0)
		abort();
	limpet_pages_be_exact(pages);
	if (limpet_jemalloc_read_tree(&memory_reader, pages, BASE, &jemalloc) < 0)
		abort();
	for (size_t i = 0; i < jemalloc.count; i++)
		check(jemalloc.list[i].start < jemalloc.list[i].end &&
		      jemalloc.list[i].free_bytes <= jemalloc.list[i].end - jemalloc.list[i].start);
	limpet_jemalloc_done(&jemalloc);
	limpet_pages_free(pages);
}

static void read_tcmalloc(void)
{
	struct limpet_map list[] = {{.start = BASE, .end = BASE + BYTES}};
	const struct limpet_maps maps = {.list = list, .count = 1};
	struct limpet_tcmalloc tcmalloc = {0};
	uint64_t span;

	memcpy(list[0].perms, "rw-p", sizeof("rw-p"));
	list[0].path = (char[]){""};
	for (uint64_t at = BASE; at < BASE + 65536; at += 8192)
		(void)limpet_tcmalloc_explains(&memory_reader, at, at, &span);
	if (limpet_tcmalloc_read_tree(&memory_reader, &maps, BASE, &tcmalloc) < 0)
		abort();
	for (size_t i = 0; i < tcmalloc.ranges.count; i++)
		check(tcmalloc.ranges.list[i].start < tcmalloc.ranges.list[i].end &&
		      (!i || tcmalloc.ranges.list[i - 1].end <= tcmalloc.ranges.list[i].start));
	limpet_tcmalloc_done(&tcmalloc);
}

static void read_gperftools(void)
{
	struct limpet_gperftools heap = {.count = 0};
	struct limpet_pages *pages;

	if (limpet_pages_new(target_of(getpid()), LIMPET_PAGES_SCAN, &pages) < 0)
		abort();
	limpet_pages_be_exact(pages);
	if (limpet_gperftools_read_map(&memory_reader, pages, BASE, &heap) < 0)
		abort();
	for (size_t i = 0; i < heap.count; i++)
		check(heap.list[i].start < heap.list[i].end &&
		      (!i || heap.list[i - 1].end <= heap.list[i].start));
	limpet_gperftools_done(&heap);
	limpet_pages_free(pages);
}

static void read_go(void)
{
	struct limpet_map list[] = {{.start = BASE, .end = BASE + BYTES}};
	const struct limpet_maps maps = {.list = list, .count = 1};
	struct limpet_go go = {0};
	struct limpet_pages *pages;

	memcpy(list[0].perms, "rw-p", sizeof("rw-p"));
	list[0].path = (char[]){""};
	if (limpet_pages_new(target_of(getpid()), LIMPET_PAGES_SCAN, &pages) < 0)
		abort();
	if (limpet_go_read_tables(&memory_reader, &maps, pages, (uint64_t *)(void *)memory, 16,
				  &go) < 0)
		abort();
	for (size_t i = 0; i < go.ranges.count; i++)
		check(go.ranges.list[i].start < go.ranges.list[i].end &&
		      (!i || go.ranges.list[i - 1].end <= go.ranges.list[i].start));
	limpet_go_done(&go);
	limpet_pages_free(pages);
}

/* Whatever is at the cookie's place is one. */
static void count_mimalloc(void)
{
	static struct limpet_class_tally tally;
	struct limpet_map list[] = {{.start = BASE, .end = BASE + BYTES}};
	const struct limpet_maps maps = {.list = list, .count = 1};
	struct limpet_mimalloc mimalloc = {.found = true, .gap = 1};

	memcpy(list[0].perms, "rw-p", sizeof("rw-p"));
	list[0].path = (char[]){""};
	for (mimalloc.offset = 0; mimalloc.offset < LIMPET_MIMALLOC_HEAD_WORDS;
	     mimalloc.offset += 8) {
		mimalloc.secret = ((uint64_t *)(void *)memory)[mimalloc.offset] ^ BASE;
		memset(&tally, 0, sizeof(tally));
		if (limpet_mimalloc_count_segments(&memory_reader, &maps, &mimalloc, &tally) < 0)
			abort();
		check(tally.count <= LIMPET_CLASS_SIZES);
	}
}

static void plant(uint64_t at, uint64_t word)
{
	((uint64_t *)(void *)memory)[at / 8] = word;
}

/* The map of an arena that begins at BASE leads to descriptions in what follows the first 8 KiB. */
static void count_mimalloc_map(void)
{
	const uint64_t root = 1 << 20, part = 2 << 20, entry = root + 8 * (BASE >> 29);
	struct limpet_map list[] = {{.start = BASE, .end = BASE + DATA_BYTES, .inode = 1},
				    {.start = BASE + DATA_BYTES, .end = BASE + BYTES}};
	const struct limpet_maps maps = {.list = list, .count = 2};
	const struct limpet_mimalloc_arenas arenas = {.list = {BASE}, .count = 1};
	static struct limpet_class_tally tally;
	static char none[] = "";
	struct limpet_pages *pages;

	for (size_t i = 0; i < LIMPET_COUNT_OF(list); i++) {
		memcpy(list[i].perms, "rw-p", sizeof("rw-p"));
		list[i].path = none;
	}
	plant(0, BASE + root);
	plant(entry, BASE + part);
	for (uint64_t i = 1; i < 64; i++)
		plant(part + 8 * i, BASE + DATA_BYTES + i * 96);
	memset(&tally, 0, sizeof(tally));
	if (limpet_pages_new(target_of(getpid()), LIMPET_PAGES_SCAN, &pages) < 0 ||
	    limpet_mimalloc_count_map(&memory_reader, &maps, pages, &arenas, &tally) < 0)
		abort();
	check(tally.count <= LIMPET_CLASS_SIZES);
	limpet_pages_free(pages);
	plant(entry, 0);
	memset(memory + part, 0, 512);
}

static void read_runtimes(void)
{
	static struct limpet_mimalloc_head heads[4];
	struct limpet_mimalloc mimalloc = {0};
	struct limpet_memory_ranges pieces = {0};
	uint64_t words[LIMPET_PYTHON_WORDS], used;

	limpet_memory_ranges_add(&pieces,
				 &(struct limpet_memory_range){.start = BASE,
							       .end = BASE + BYTES,
							       .account = LIMPET_MEMORY_UNKNOWN});
	for (uint64_t at = BASE; at < BASE + BYTES; at += LIMPET_V8_PAGE_BYTES) {
		struct limpet_v8_page page;

		check(!limpet_v8_page_read(&memory_reader, at, &page) ||
		      (page.address == at && page.start < page.end));
	}
	for (uint64_t at = 0; at < LIMPET_V8_PAGE_BYTES; at += 4096) {
		memcpy(words, memory + at, sizeof(words));
		used = 0;
		check(limpet_runtimes_python_pool(BASE + at, words, &used) >= used);
	}
	for (size_t i = 0; i < LIMPET_COUNT_OF(heads); i++) {
		heads[i].address = BASE + i * LIMPET_MIMALLOC_SEGMENT_BYTES;
		memcpy(heads[i].words, memory + i * sizeof(heads[i].words), sizeof(heads[i].words));
	}
	if (limpet_mimalloc_judge(heads, LIMPET_COUNT_OF(heads), &mimalloc))
		check(mimalloc.found && mimalloc.offset < LIMPET_MIMALLOC_HEAD_WORDS);
	(void)limpet_mimalloc_segment(&memory_reader, &mimalloc, BASE);
	if (limpet_mimalloc_find(&memory_reader, &pieces, &mimalloc) < 0)
		abort();
	(void)limpet_mimalloc_segment(&memory_reader, &mimalloc, BASE);
	limpet_memory_ranges_done(&pieces);
	count_mimalloc();
	count_mimalloc_map();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	if (!memory) {
		memory = mmap((void *)(uintptr_t)BASE, BYTES, PROT_READ | PROT_WRITE,
			      MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE, -1, 0);
		check(memory == (void *)(uintptr_t)BASE);
	}
	if (size <= HEAD_BYTES || size - HEAD_BYTES > BYTES)
		return 0;
	memcpy(memory, data + HEAD_BYTES, size - HEAD_BYTES);
	switch (data[0] % 3) {
	case 0:
		read_glibc(size - HEAD_BYTES);
		break;
	case 1:
		read_jemalloc();
		read_tcmalloc();
		read_gperftools();
		read_go();
		break;
	default:
		read_runtimes();
		break;
	}
	memset(memory, 0, size - HEAD_BYTES);
	return 0;
}
