/* The parts of explain that need no heap: its reader, on our own memory; what a hostile tree costs;
 * mount tables; sentences. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <errno.h>
#include <pthread.h>
#include <semaphore.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "explain/accounts.h"
#include "explain/census.h"
#include "explain/class_census.h"
#include "explain/data.h"
#include "explain/explain.h"
#include "explain/glibc_heaps.h"
#include "explain/jemalloc.h"
#include "explain/mappings.h"
#include "explain/runtimes.h"
#include "explain/runtimes/v8_pages.h"
#include "explain/tcmalloc.h"
#include "explain/tmpfs.h"
#include "explain/verdicts.h"
#include "injector/proc/memory_reader.h"
#include "injector/proc/pages.h"
#include "test/unit/target_of.h"

enum { PAGE = 4096, PAGES = 1024, V8_PAGES = 64 };
#define NODE_BYTES ((size_t)8 << 18)

static uint8_t *map_memory(size_t bytes)
{
	uint8_t *memory =
		mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	assert_true(memory != MAP_FAILED);
	assert_int_equal(madvise(memory, bytes, MADV_NOHUGEPAGE), 0);
	return memory;
}

static uint64_t present(const uint8_t *memory)
{
	uint64_t bytes = 1;

	assert_int_equal(limpet_pages_count(target_of(getpid()), (uint64_t)(uintptr_t)memory,
					    (uint64_t)PAGES * PAGE, &bytes, NULL),
			 0);
	return bytes;
}

static uint64_t at(const uint8_t *memory, size_t page)
{
	return (uint64_t)(uintptr_t)memory + page * PAGE;
}

/* ------------------------------------------------------------------ mappings */

/* mprotect(2) splits a mapping, but not a piece of it. */
static void test_a_piece_in_two_mappings_counts_once(void **state)
{
	enum { HALF = 8, OTHER = 4 };
	uint8_t *memory = map_memory((size_t)2 * HALF * PAGE);
	struct limpet_memory_range piece = {.start = at(memory, OTHER),
					    .end = at(memory, 2 * HALF),
					    .account = LIMPET_MEMORY_CODE};
	struct limpet_memory_ranges ranges = {.list = &piece, .count = 1};
	struct limpet_glibc_heaps heaps = {.range_count = 0};
	struct limpet_stack_owners threads = {.count = 0};
	struct limpet_maps maps = {.count = 0};
	struct limpet_tmpfs mounts = {.count = 0};
	struct limpet_mappings_facts facts = {.maps = &maps,
					      .heaps = &heaps,
					      .ranges = &ranges,
					      .threads = &threads,
					      .mounts = &mounts};
	struct limpet_explanation explanation = {.rss_bytes = 0};
	struct limpet_accounts accounts = {.explanation = &explanation};
	struct limpet_smaps smaps;

	(void)state;
	memset(memory, 1, (size_t)2 * HALF * PAGE);
	assert_int_equal(mprotect(memory + (size_t)HALF * PAGE, (size_t)HALF * PAGE, PROT_READ), 0);
	assert_int_equal(limpet_proc_smaps_read(getpid(), &smaps), 0);
	assert_int_equal(limpet_mappings_account(&smaps, &facts, &accounts), 0);
	limpet_proc_smaps_done(&smaps);
	assert_int_equal(limpet_accounts_bytes(&explanation, LIMPET_KIND_CODE),
			 (2 * HALF - OTHER) * PAGE);
	/* Not all such memory has code in it. */
	assert_non_null(limpet_accounts_find(&explanation, LIMPET_KIND_CODE,
					     "executable anonymous memory"));
	limpet_explanation_done(&explanation);
	munmap(memory, (size_t)2 * HALF * PAGE);
}

/* What only looks like blocks of glibc's is of no known owner, also where the largest mappings of
 * such memory are listed: at least what is more than glibc has in all of its blocks. */
static void test_a_mapping_that_only_looks_like_blocks(void **state)
{
	uint8_t *memory = map_memory((size_t)PAGES * PAGE);
	struct limpet_memory_range piece = {
		.start = at(memory, 0), .end = at(memory, PAGES), .account = LIMPET_MEMORY_HEAP};
	struct limpet_memory_ranges ranges = {.list = &piece, .count = 1};
	struct limpet_glibc_heaps heaps = {.mmapped_known = true};
	struct limpet_stack_owners threads = {.count = 0};
	struct limpet_maps maps = {.count = 0};
	struct limpet_tmpfs mounts = {.count = 0};
	struct limpet_mappings_facts facts = {.maps = &maps,
					      .heaps = &heaps,
					      .ranges = &ranges,
					      .threads = &threads,
					      .mounts = &mounts};

	(void)state;
	memset(memory, 1, (size_t)PAGES * PAGE);
	for (uint64_t own = 0; own <= PAGES; own += PAGES / 2) {
		struct limpet_explanation explanation = {.rss_bytes = 0};
		struct limpet_accounts accounts = {.explanation = &explanation};
		struct limpet_smaps smaps;
		uint64_t listed = 0;

		heaps.mmapped_bytes = own * PAGE;
		assert_int_equal(limpet_proc_smaps_read(getpid(), &smaps), 0);
		assert_int_equal(limpet_mappings_account(&smaps, &facts, &accounts), 0);
		limpet_proc_smaps_done(&smaps);
		for (size_t i = 0; i < explanation.unknown_mapping_count; i++) {
			const struct limpet_explain_mapping *it = &explanation.unknown_mappings[i];

			if (it->start <= piece.start && piece.end <= it->end)
				listed = it->bytes;
		}
		assert_true(listed >= (PAGES - own) * PAGE);
		limpet_explanation_done(&explanation);
	}
	munmap(memory, (size_t)PAGES * PAGE);
}

/* ------------------------------------------------------------------ the reader */

static void test_only_present_pages_are_read(void **state)
{
	struct limpet_process_reader *process;
	const struct limpet_memory_reader *reader;
	uint8_t *memory = map_memory((size_t)PAGES * PAGE), copy[2 * PAGE];

	(void)state;
	for (size_t i = 0; i < PAGES; i += 2)
		memset(memory + i * PAGE, (int)(i % 251), PAGE);
	assert_int_equal(limpet_process_reader_new(target_of(getpid()), &process), 0);
	reader = limpet_process_reader(process);
	for (size_t i = 0; i < PAGES; i++) {
		int error = limpet_memory_reader_read(reader, at(memory, i) + 8, copy, PAGE - 8);

		assert_int_equal(error, i % 2 ? -ENODATA : 0);
		if (!error)
			assert_int_equal(copy[PAGE - 9], i % 251);
		/* Part of the next page. */
		assert_int_equal(limpet_memory_reader_read(reader, at(memory, i) + 8, copy, PAGE),
				 -ENODATA);
	}
	assert_int_equal(present(memory), (uint64_t)PAGES / 2 * PAGE);
	assert_true(limpet_memory_reader_read(reader, 0, copy, 8) < 0);
	assert_true(limpet_memory_reader_read(reader, UINT64_MAX - 4, copy, 8) < 0);
	assert_true(limpet_memory_reader_read(reader, (uint64_t)1 << 63, copy, 8) < 0);
	assert_true(limpet_memory_reader_read(reader, 0x1000, copy, SIZE_MAX) < 0);
	assert_false(limpet_memory_reader_is_spent(reader));
	limpet_process_reader_free(process);
	munmap(memory, (size_t)PAGES * PAGE);
}

static void test_a_text_ends_with_what_is_present(void **state)
{
	struct limpet_process_reader *process;
	uint8_t *memory = map_memory((size_t)PAGES * PAGE);
	char text[16];

	(void)state;
	for (size_t i = 0; i < 5; i++)
		memory[PAGE - 5 + i] = (uint8_t) "first"[i];
	assert_int_equal(limpet_process_reader_new(target_of(getpid()), &process), 0);
	assert_int_equal(limpet_memory_reader_read_text(limpet_process_reader(process),
							at(memory, 1) - 5, text, sizeof(text)),
			 0);
	assert_string_equal(text, "first");
	assert_int_equal(limpet_memory_reader_read_text(limpet_process_reader(process),
							at(memory, 1) - 3, text, 3),
			 0);
	assert_string_equal(text, "rs");
	assert_int_equal(limpet_memory_reader_read_text(limpet_process_reader(process),
							at(memory, 1), text, sizeof(text)),
			 -ENODATA);
	limpet_process_reader_free(process);
	munmap(memory, (size_t)PAGES * PAGE);
}

static void test_the_budget_ends(void **state)
{
	struct limpet_process_reader *process;
	const struct limpet_memory_reader *reader;
	uint64_t word, from = 7;

	(void)state;
	assert_int_equal(limpet_process_reader_new(target_of(getpid()), &process), 0);
	reader = limpet_process_reader(process);
	limpet_process_reader_limit(process, 2);
	for (int i = 0; i < 2; i++)
		assert_int_equal(
			limpet_memory_reader_read(reader, (uint64_t)(uintptr_t)&from, &word, 8), 0);
	assert_int_equal(word, 7);
	assert_int_equal(limpet_memory_reader_read(reader, (uint64_t)(uintptr_t)&from, &word, 8),
			 -ETIME);
	assert_true(limpet_memory_reader_is_spent(reader));
	limpet_process_reader_free(process);
}

/* A part of the budget may be kept for later. */
static void test_the_budget_is_shared(void **state)
{
	struct limpet_process_reader *process;
	const struct limpet_memory_reader *reader;
	const uint64_t from = 7;
	unsigned done[3] = {0};

	(void)state;
	assert_int_equal(limpet_process_reader_new(target_of(getpid()), &process), 0);
	reader = limpet_process_reader(process);
	limpet_process_reader_limit(process, 100);
	for (unsigned part = 0; part < 3; part++) {
		uint64_t word;

		limpet_process_reader_keep(process, 40 - 20 * part);
		assert_false(limpet_memory_reader_is_spent(reader));
		while (!limpet_memory_reader_read(reader, (uint64_t)(uintptr_t)&from, &word, 8))
			done[part]++;
		assert_true(limpet_process_reader_was_cut(process));
	}
	assert_int_equal(done[0], 60);
	assert_int_equal(done[1], 20);
	assert_int_equal(done[2], 20);
	limpet_process_reader_keep(process, 0);
	assert_true(limpet_memory_reader_is_spent(reader));
	limpet_process_reader_free(process);
}

static void test_nobody(void **state)
{
	struct limpet_process_reader *process = NULL;

	(void)state;
	assert_true(limpet_process_reader_new(target_of(0x7ffffff0), &process) < 0);
	assert_null(process);
}

static void test_devices(void **state)
{
	static const char *const devices[] = {"/dev/dri/renderD128", "/dev/mem",
					      "anon_inode:[io_uring]", "/dmabuf:buffer"},
				 *const memory[] = {"",
						    "[heap]",
						    "/dev/zero (deleted)",
						    "/dev/shm/queue",
						    "/memfd:queue",
						    "/srv/dev/file"};

	(void)state;
	for (size_t i = 0; i < LIMPET_COUNT_OF(devices); i++)
		assert_true(limpet_memory_reader_is_device(devices[i]));
	for (size_t i = 0; i < LIMPET_COUNT_OF(memory); i++)
		assert_false(limpet_memory_reader_is_device(memory[i]));
}

/* ------------------------------------------------------------------ censuses */

static void test_a_census_is_of_the_same_program(void **state)
{
	struct limpet_class_heaps heaps = {.jemalloc_root = 8 * PAGE};
	struct limpet_class_censuses censuses;
	struct limpet_target target;
	struct limpet_census census;
	struct limpet_err err = {0};
	int memory_fd;

	(void)state;
	assert_int_equal(limpet_target_open(getpid(), &target, &err), 0);
	memory_fd = target.memory_fd;
	target.mark[0] ^= 1;
	target.memory_fd = -1; /* else it is seen that its memory is the same */
	assert_int_equal(limpet_census_read(&target, &census, &err), -ESTALE);
	assert_int_equal(limpet_class_censuses_read(&target, &heaps, false, &censuses, &err),
			 -ESTALE);
	target.mark[0] ^= 1;
	target.memory_fd = memory_fd;
	target.start_ticks++;
	assert_int_equal(limpet_class_censuses_read(&target, &heaps, false, &censuses, &err),
			 -ESRCH);
	limpet_target_close(&target);
}

/* Nothing was counted, which is not the same as no blocks. */
static void test_a_root_that_is_none_has_no_census(void **state)
{
	uint8_t *zeros = map_memory(NODE_BYTES);
	const uint64_t roots[] = {8 * PAGE, (uint64_t)(uintptr_t)zeros};
	struct limpet_class_censuses censuses;
	struct limpet_err err = {0};

	(void)state;
	memset(zeros, 0, NODE_BYTES);
	for (size_t i = 0; i < LIMPET_COUNT_OF(roots); i++) {
		struct limpet_class_heaps heaps = {.jemalloc_root = roots[i]};

		assert_int_equal(limpet_class_censuses_read(target_of(getpid()), &heaps, false,
							    &censuses, &err),
				 0);
		assert_int_equal(censuses.count, 1);
		assert_false(censuses.list[0].known);
		assert_false(censuses.list[0].whole);
		assert_false(censuses.list[0].exact);
		limpet_class_censuses_done(&censuses);
	}
	munmap(zeros, NODE_BYTES);
}

/* ------------------------------------------------------------------ jemalloc's tree */

struct counter {
	const struct limpet_memory_reader *reader;
	uint64_t reads;
	uint64_t *node; /* of which whole pages are counted: */
	uint64_t pages;
};

static int count_read(void *context, uint64_t address, void *ret, size_t bytes)
{
	struct counter *counter = context;
	const uint64_t node = (uint64_t)(uintptr_t)counter->node;

	counter->reads++;
	counter->pages += bytes == PAGE && address >= node && address - node < NODE_BYTES;
	return limpet_memory_reader_read(counter->reader, address, ret, bytes);
}

/* As in include/jemalloc/internal/edata.h. */
struct extent {
	uint64_t bits, start, bytes, rest[13];
} __attribute__((aligned(128)));
enum { ENTRY_HEAD = 2, CLASS_OF_A_PAGE = 28 };
#define BITS_HEAD (UINT64_C(1) << 44)

struct own_tree {
	struct limpet_process_reader *process;
	struct counter counter;
	struct limpet_memory_reader reader;
	struct extent extents[16]; /* blocks of a page */
	uint64_t *root, *leaf;
	struct limpet_jemalloc found;
};

/* From the second page of the address space on: blocks of a page, each a head. */
static void begin_tree(struct own_tree *tree)
{
	tree->root = (uint64_t *)(void *)map_memory(NODE_BYTES);
	tree->leaf = (uint64_t *)(void *)map_memory(NODE_BYTES);
	tree->root[0] = (uint64_t)(uintptr_t)tree->leaf;
	for (size_t i = 0; i < LIMPET_COUNT_OF(tree->extents); i++) {
		tree->extents[i] =
			(struct extent){.bits = (uint64_t)CLASS_OF_A_PAGE << 20 | BITS_HEAD,
					.start = (i + 1) * PAGE,
					.bytes = PAGE};
		tree->leaf[i + 1] = (uint64_t)CLASS_OF_A_PAGE << 48 |
				    (uint64_t)(uintptr_t)&tree->extents[i] | ENTRY_HEAD;
	}
	assert_int_equal(limpet_process_reader_new(target_of(getpid()), &tree->process), 0);
	tree->counter = (struct counter){.reader = limpet_process_reader(tree->process),
					 .node = tree->leaf};
	tree->reader = (struct limpet_memory_reader){.read = count_read, .context = &tree->counter};
}

static void read_tree(struct own_tree *tree)
{
	limpet_jemalloc_done(&tree->found);
	assert_int_equal(limpet_jemalloc_read_tree(&tree->reader,
						   limpet_process_reader_pages(tree->process),
						   (uint64_t)(uintptr_t)tree->root, &tree->found),
			 0);
}

static void end_tree(struct own_tree *tree)
{
	limpet_jemalloc_done(&tree->found);
	limpet_process_reader_free(tree->process);
	munmap(tree->root, NODE_BYTES);
	munmap(tree->leaf, NODE_BYTES);
}

/* Each entry of the root leads to the same leaf, and the last one to the root itself. The leaf's
 * entries lead to two extents of a TiB: each is right, wherever the leaf is said to be. */
static void test_a_leaf_is_read_once(void **state)
{
	static struct own_tree tree;

	(void)state;
	begin_tree(&tree);
	memset(tree.leaf, 0, NODE_BYTES);
	for (size_t i = 0; i < 2; i++)
		tree.extents[i].bytes = UINT64_C(1) << 40;
	for (size_t i = 0; i < NODE_BYTES / 8; i++) {
		tree.root[i] =
			(uint64_t)(uintptr_t)(i + 1 < NODE_BYTES / 8 ? tree.leaf : tree.root);
		if (i % 512 == 8 || i % 512 == 9)
			tree.leaf[i] = (uint64_t)(uintptr_t)&tree.extents[i % 512 - 8] | ENTRY_HEAD;
	}
	read_tree(&tree);
	assert_int_equal(tree.counter.pages, NODE_BYTES / PAGE);
	/* The pages of root and leaf, its entries, and some of the root's as if it were a leaf. */
	assert_true(tree.counter.reads <= 2 * NODE_BYTES / PAGE + 2 * NODE_BYTES / PAGE + 4096);
	/* Nothing is lost without a word. */
	limpet_process_reader_limit(tree.process, 4);
	read_tree(&tree);
	assert_true(tree.found.is_cut);
	end_tree(&tree);
}

/* A small heap, too: most entries have to lead to extents, and one has to have what 5.2 has not. */
static void test_a_small_tree_is_judged(void **state)
{
	static struct own_tree tree;

	(void)state;
	begin_tree(&tree);
	read_tree(&tree);
	assert_int_equal(tree.found.count, LIMPET_COUNT_OF(tree.extents));
	for (size_t i = 0; i < LIMPET_COUNT_OF(tree.extents); i++) {
		tree.extents[i].bits &= ~BITS_HEAD;
		tree.leaf[i + 1] &= ~(uint64_t)ENTRY_HEAD;
	}
	read_tree(&tree);
	assert_int_equal(tree.found.count, 0);
	/* A free one. */
	tree.extents[0].bits |= UINT64_C(1) << 17;
	tree.leaf[1] |= UINT64_C(1) << 2;
	read_tree(&tree);
	assert_int_equal(tree.found.count, LIMPET_COUNT_OF(tree.extents));
	for (size_t i = 1; i <= LIMPET_COUNT_OF(tree.extents) / 2 + 1; i++)
		tree.extents[i].start = 0;
	read_tree(&tree);
	assert_int_equal(tree.found.count, 0);
	assert_false(tree.found.is_cut);
	end_tree(&tree);
}

/* The entry is read before the extent, and the program goes on meanwhile. */
static int change_then_read(void *context, uint64_t address, void *ret, size_t bytes)
{
	struct own_tree *tree = context;

	if (address == (uint64_t)(uintptr_t)&tree->extents[3]) {
		tree->extents[3].bits |= UINT64_C(1) << 17;
		tree->leaf[4] |= UINT64_C(1) << 2;
	}
	return limpet_memory_reader_read(tree->counter.reader, address, ret, bytes);
}

static void test_an_entry_that_changed_is_read_again(void **state)
{
	static struct own_tree tree;

	(void)state;
	begin_tree(&tree);
	tree.reader = (struct limpet_memory_reader){.read = change_then_read, .context = &tree};
	read_tree(&tree);
	assert_int_equal(tree.found.count, LIMPET_COUNT_OF(tree.extents));
	for (size_t i = 0; i < tree.found.count; i++)
		assert_int_equal(tree.found.list[i].in_use, i != 3);
	end_tree(&tree);
}

/* As if the thread that joins two free extents did not go on. */
enum { STATE_MERGING = 5 };

static void set_state(struct own_tree *tree, size_t i, uint64_t state)
{
	tree->extents[i].bits &= ~(UINT64_C(7) << 17);
	tree->extents[i].bits |= state << 17;
	tree->leaf[i + 1] &= ~(UINT64_C(7) << 2);
	tree->leaf[i + 1] |= state << 2;
}

/* It is in transition when it is looked at, and settles then. */
static int settle_then_read(void *context, uint64_t address, void *ret, size_t bytes)
{
	struct own_tree *tree = context;
	const int error = limpet_memory_reader_read(tree->counter.reader, address, ret, bytes);

	if (address == (uint64_t)(uintptr_t)&tree->extents[3])
		set_state(tree, 3, 0);
	return error;
}

/* As jemalloc clears an entry: without an extent, and of no size class. */
#define ENTRY_CLEARED (UINT64_C(232) << 48)

/* It is joined to another one once it was looked at. */
static int join_then_read(void *context, uint64_t address, void *ret, size_t bytes)
{
	struct own_tree *tree = context;

	if (address == (uint64_t)(uintptr_t)&tree->extents[3])
		tree->leaf[4] = ENTRY_CLEARED;
	return limpet_memory_reader_read(tree->counter.reader, address, ret, bytes);
}

static uint64_t late_entry;

/* An extent of 600 pages begins after the entry of its first one was read, and before that of its
 * last one is. */
static int begin_then_read(void *context, uint64_t address, void *ret, size_t bytes)
{
	struct own_tree *tree = context;

	if (address == (uint64_t)(uintptr_t)(tree->leaf + 512))
		tree->leaf[4] = tree->leaf[603] = late_entry;
	return limpet_memory_reader_read(tree->counter.reader, address, ret, bytes);
}

static void test_an_extent_in_transition_is_missed(void **state)
{
	static struct own_tree tree;

	(void)state;
	begin_tree(&tree);
	for (size_t i = 600; i < 700; i++)
		tree.leaf[i] = ENTRY_CLEARED;
	read_tree(&tree);
	assert_false(tree.found.missed);
	set_state(&tree, 3, STATE_MERGING);
	read_tree(&tree);
	assert_int_equal(tree.found.count, LIMPET_COUNT_OF(tree.extents) - 1);
	assert_true(tree.found.missed);
	assert_false(tree.found.is_cut);
	/* It is not if it is an extent again soon, or if there is no entry any more. */
	tree.reader = (struct limpet_memory_reader){.read = settle_then_read, .context = &tree};
	read_tree(&tree);
	assert_int_equal(tree.found.count, LIMPET_COUNT_OF(tree.extents));
	assert_false(tree.found.missed);
	set_state(&tree, 3, STATE_MERGING);
	tree.reader.read = join_then_read;
	read_tree(&tree);
	assert_int_equal(tree.found.count, LIMPET_COUNT_OF(tree.extents) - 1);
	assert_false(tree.found.missed);
	end_tree(&tree);
}

static void test_an_extent_without_a_beginning_is_missed(void **state)
{
	static struct own_tree tree;

	(void)state;
	begin_tree(&tree);
	late_entry = tree.leaf[4];
	tree.extents[3].bytes = 600 * PAGE;
	tree.leaf[603] = 0; /* so that its page is present */
	memset(&tree.leaf[4], 0, (LIMPET_COUNT_OF(tree.extents) - 3) * sizeof(*tree.leaf));
	tree.reader = (struct limpet_memory_reader){.read = begin_then_read, .context = &tree};
	read_tree(&tree);
	assert_int_equal(tree.found.count, 3);
	assert_true(tree.found.missed);
	/* Of the next reading it is a part. */
	read_tree(&tree);
	assert_int_equal(tree.found.count, 4);
	assert_false(tree.found.missed);
	end_tree(&tree);
}

/* A block is taken from a free extent after that was read. */
static int take_then_read(void *context, uint64_t address, void *ret, size_t bytes)
{
	struct own_tree *tree = context;

	if (address == (uint64_t)(uintptr_t)&tree->extents[5]) {
		set_state(tree, 5, 0);
		tree->extents[3].bytes = 2 * PAGE;
	}
	return limpet_memory_reader_read(tree->counter.reader, address, ret, bytes);
}

static void test_extents_that_overlap(void **state)
{
	static struct own_tree tree;

	(void)state;
	begin_tree(&tree);
	set_state(&tree, 3, 1);
	set_state(&tree, 5, 1);
	tree.extents[3].bytes = 3 * PAGE;
	tree.leaf[5] = 0;
	tree.reader = (struct limpet_memory_reader){.read = take_then_read, .context = &tree};
	read_tree(&tree);
	assert_int_equal(tree.found.count, LIMPET_COUNT_OF(tree.extents) - 1);
	assert_false(tree.found.missed);
	assert_false(tree.found.list[3].in_use);
	assert_int_equal(tree.found.list[3].end, 6 * PAGE);
	assert_true(tree.found.list[4].in_use);
	assert_int_equal(tree.found.list[4].start, 6 * PAGE);
	/* Both in use: one of them is of another moment. */
	set_state(&tree, 3, 0);
	tree.extents[3].bytes = 3 * PAGE;
	tree.reader.read = count_read;
	tree.reader.context = &tree.counter;
	read_tree(&tree);
	assert_int_equal(tree.found.count, LIMPET_COUNT_OF(tree.extents) - 2);
	assert_true(tree.found.missed);
	end_tree(&tree);
}

/* A census says of what was missed that it is not whole. */
static void test_a_census_without_an_extent_is_not_whole(void **state)
{
	static struct own_tree tree;
	struct limpet_class_heaps heaps;
	struct limpet_class_censuses censuses;
	struct limpet_err err = {0};

	(void)state;
	begin_tree(&tree);
	heaps = (struct limpet_class_heaps){.jemalloc_root = (uint64_t)(uintptr_t)tree.root};
	for (uint64_t missed = 0; missed < 2; missed++) {
		set_state(&tree, 3, missed ? STATE_MERGING : 0);
		assert_int_equal(limpet_class_censuses_read(target_of(getpid()), &heaps, false,
							    &censuses, &err),
				 0);
		assert_int_equal(censuses.count, 1);
		assert_true(censuses.list[0].known);
		assert_int_equal(censuses.list[0].used.low.blocks,
				 LIMPET_COUNT_OF(tree.extents) - missed);
		assert_int_equal(censuses.list[0].whole, !missed);
		assert_int_equal(censuses.list[0].exact, !missed);
		limpet_class_censuses_done(&censuses);
	}
	end_tree(&tree);
}

/* Something else that explained a few samples: its entries lead to no extents. */
static void test_what_is_no_tree_is_given_up(void **state)
{
	struct limpet_process_reader *process;
	uint64_t *root = (uint64_t *)(void *)map_memory(NODE_BYTES),
		 *leaf = (uint64_t *)(void *)map_memory(NODE_BYTES);
	struct limpet_jemalloc jemalloc = {0};
	struct counter counter = {0};
	const struct limpet_memory_reader reader = {.read = count_read, .context = &counter};

	(void)state;
	root[0] = (uint64_t)(uintptr_t)leaf;
	for (size_t i = 0; i < NODE_BYTES / 8; i++)
		leaf[i] = (uint64_t)(uintptr_t)leaf + 128 * (i % 1000);
	assert_int_equal(limpet_process_reader_new(target_of(getpid()), &process), 0);
	counter.reader = limpet_process_reader(process);
	assert_int_equal(limpet_jemalloc_read_tree(&reader, limpet_process_reader_pages(process),
						   (uint64_t)(uintptr_t)root, &jemalloc),
			 0);
	assert_int_equal(jemalloc.count, 0);
	assert_false(jemalloc.is_cut);
	/* Each entry is read three times, and what it leads to. */
	assert_true(counter.reads < NODE_BYTES / PAGE + 6144);
	limpet_process_reader_free(process);
	munmap(root, NODE_BYTES);
	munmap(leaf, NODE_BYTES);
}

/* ------------------------------------------------------------------ looking for a tree */

#define LEAF_BYTES NODE_BYTES
enum { TABLE_WORDS = 1 << 20, LEAVES = 24 };
static volatile uint64_t table[TABLE_WORDS]; /* read from outside */

/* What a search reads, if the memory is of no known owner, and the table leads into it. */
/* That the program has given to the memory, if the kernel could; NULL: none. */
static char *memory_name;

static uint64_t search_reads(const uint8_t *memory, size_t bytes,
			     int (*search)(const struct limpet_memory_reader *memory,
					   const struct limpet_maps *maps,
					   struct limpet_pages *pages,
					   const struct limpet_memory_ranges *ranges,
					   bool *ret_cut),
			     bool *ret_cut)
{
	struct limpet_memory_range piece = {.start = at(memory, 0),
					    .end = at(memory, bytes / PAGE),
					    .account = LIMPET_MEMORY_UNKNOWN};
	struct limpet_memory_ranges ranges = {.list = &piece, .count = 1};
	struct limpet_process_reader *process;
	struct limpet_maps maps;
	struct counter counter = {0};
	const struct limpet_memory_reader reader = {.read = count_read, .context = &counter};

	assert_int_equal(limpet_process_reader_new(target_of(getpid()), &process), 0);
	assert_int_equal(limpet_proc_maps_read(getpid(), &maps), 0);
	for (size_t i = 0; memory_name && i < maps.count; i++)
		if (at(memory, 0) >= maps.list[i].start && at(memory, 0) < maps.list[i].end)
			maps.list[i].path = memory_name;
	counter.reader = limpet_process_reader(process);
	assert_int_equal(
		search(&reader, &maps, limpet_process_reader_pages(process), &ranges, ret_cut), 0);
	limpet_proc_maps_done(&maps);
	limpet_process_reader_free(process);
	return counter.reads;
}

static int search_jemalloc(const struct limpet_memory_reader *memory,
			   const struct limpet_maps *maps, struct limpet_pages *pages,
			   const struct limpet_memory_ranges *ranges, bool *ret_cut)
{
	struct limpet_jemalloc found = {0};
	int error = limpet_jemalloc_read(memory, maps, pages, ranges, &found);

	assert_int_equal(found.count, 0);
	*ret_cut = found.is_cut;
	return error;
}

static int search_tcmalloc(const struct limpet_memory_reader *memory,
			   const struct limpet_maps *maps, struct limpet_pages *pages,
			   const struct limpet_memory_ranges *ranges, bool *ret_cut)
{
	struct limpet_tcmalloc found = {0};
	int error = limpet_tcmalloc_read(memory, maps, pages, ranges, &found);

	assert_int_equal(found.ranges.count, 0);
	*ret_cut = found.is_cut;
	return error;
}

/* A program's own table of pointers to blocks is no root of a tree: that is seen without reading
 * what they point to. */
static void test_a_table_of_pointers_costs_little(void **state)
{
	const size_t bytes = (size_t)64 << 20;
	uint8_t *memory = map_memory(bytes);
	bool is_cut;

	(void)state;
	for (size_t i = 0; i < TABLE_WORDS; i++)
		table[i] = at(memory, 0) + 64 * i;
	assert_true(search_reads(memory, bytes, search_jemalloc, &is_cut) < 2000);
	assert_false(is_cut);
	assert_true(search_reads(memory, bytes, search_tcmalloc, &is_cut) < 2000);
	assert_false(is_cut);
	munmap(memory, bytes);
}

/* A table that looks like roots does not use up what there is for all, and it is said. */
static void test_a_search_has_its_share(void **state)
{
	static char region[] = "[anon:region]";
	const size_t bytes = (LEAVES + 1) * LEAF_BYTES;
	uint8_t *memory = map_memory(bytes);
	bool is_cut;

	(void)state;
	for (size_t i = 0; i < TABLE_WORDS; i++)
		table[i] = at(memory, 0) + i % LEAVES * LEAF_BYTES;
	memset(memory, 0, bytes);
	assert_true(search_reads(memory, bytes, search_jemalloc, &is_cut) <=
		    LIMPET_MEMORY_READER_READS / 8);
	assert_true(is_cut);
	/* Sparse, as if each word led to what covers 128 GiB. */
	for (size_t i = 0; i < TABLE_WORDS; i++)
		table[i] = i % 4 ? 0 : at(memory, 0) + i % 1024 * 64;
	for (size_t i = 0; i < bytes / 8; i++)
		((uint64_t *)(void *)memory)[i] = at(memory, 1);
	assert_true(search_reads(memory, bytes, search_tcmalloc, &is_cut) <=
		    LIMPET_MEMORY_READER_READS / 8);
	assert_true(is_cut);
	/* A name changes nothing. */
	memory_name = region;
	assert_true(search_reads(memory, bytes, search_tcmalloc, &is_cut) <=
		    LIMPET_MEMORY_READER_READS / 8);
	assert_true(is_cut);
	memory_name = NULL;
	munmap(memory, bytes);
}

/* The .bss of a module, whatever the program calls it. */
static void test_named_data(void **state)
{
	struct limpet_map list[] = {
		{.start = 2 * PAGE,
		 .end = 3 * PAGE,
		 .inode = 7,
		 .perms = "rw-p",
		 .path = (char[]){"/lib/a.so"}},
		{.start = 3 * PAGE,
		 .end = 5 * PAGE,
		 .perms = "rw-p",
		 .path = (char[]){"[anon:.bss]"}},
		{.start = 5 * PAGE, .end = 6 * PAGE, .perms = "rw-p", .path = (char[]){"[heap]"}}};
	const struct limpet_maps maps = {.list = list, .count = LIMPET_COUNT_OF(list)};

	(void)state;
	assert_true(limpet_data_has(&maps, 2 * PAGE, 3 * PAGE));
	assert_false(limpet_data_has(&maps, 2 * PAGE, 3 * PAGE + 1));
	assert_false(limpet_data_has(&maps, 5 * PAGE, 8));
}

/* ------------------------------------------------------------------ what of glibc is swapped out
 */

/* As if pages of these ranges were swapped out. */
struct hidden {
	const struct limpet_memory_reader *reader;
	struct limpet_page_range ranges[4];
	size_t count;
};

static int read_shown(void *context, uint64_t address, void *ret, size_t bytes)
{
	const struct hidden *hidden = context;

	for (size_t i = 0; i < hidden->count; i++)
		if (address < hidden->ranges[i].end && address + bytes > hidden->ranges[i].start)
			return -ENODATA;
	return limpet_memory_reader_read(hidden->reader, address, ret, bytes);
}

struct own_heaps {
	struct limpet_process_reader *process;
	struct limpet_pages *pages;
	struct limpet_maps maps;
	struct hidden hidden;
	struct limpet_glibc_heaps heaps;
};

static void read_heaps(struct own_heaps *own)
{
	const struct limpet_memory_reader reader = {.read = read_shown, .context = &own->hidden};

	limpet_glibc_heaps_done(&own->heaps);
	assert_int_equal(limpet_glibc_heaps_read(target_of(getpid()), &reader, &own->maps,
						 own->pages, NULL, &own->heaps),
			 0);
}

static void hide(struct own_heaps *own, uint64_t start, uint64_t end)
{
	own->hidden.ranges[own->hidden.count++] = (struct limpet_page_range){start, end};
}

/* That a compiler does not leave out. */
static void *take_block(size_t bytes)
{
	volatile char *block = malloc(bytes);

	assert_non_null(block);
	for (size_t i = 0; i < bytes; i++)
		block[i] = 1;
	return (void *)(uintptr_t)block;
}

static void *take_arena(void *context)
{
	sem_t *const *steps = context;
	void *block = take_block(60000);

	sem_post(steps[0]);
	sem_wait(steps[1]);
	free(block);
	return NULL;
}

/* Of this process, with one more arena: first all is read, then what is swapped out differs. */
static void judge_hidden(struct own_heaps *own)
{
	const struct limpet_map *map;
	uint64_t state, other;

	read_heaps(own);
	/* A sanitizer's malloc. */
	if (own->heaps.count < 2)
		return;
	assert_int_equal(own->heaps.count, 2);
	assert_true(own->heaps.has_library);
	assert_true(own->heaps.list[0].is_main);
	state = own->heaps.list[0].state.address;
	other = own->heaps.list[1].state.address;
	/* The other arena's: the main one is found once. */
	hide(own, other & ~(uint64_t)(PAGE - 1), (other | (PAGE - 1)) + 1);
	read_heaps(own);
	assert_true(own->heaps.is_cut);
	assert_int_equal(own->heaps.count, 2);
	assert_int_equal(own->heaps.list[0].state.address, state);
	assert_int_equal(own->heaps.list[1].state.address, other);
	assert_false(own->heaps.list[1].known || own->heaps.list[1].is_main);
	assert_int_equal(own->heaps.list[1].unread, LIMPET_UNREAD_ABSENT);
	assert_true(own->heaps.list[1].figures.resident_bytes >= 60000);
	assert_true(limpet_glibc_heaps_bytes(&own->heaps, other, other + PAGE) >= PAGE);
	/* Both. */
	map = limpet_proc_maps_find(&own->maps, state);
	assert_non_null(map);
	hide(own, map->start, map->end);
	read_heaps(own);
	assert_int_equal(own->heaps.count, 2);
	assert_true(own->heaps.is_cut && own->heaps.uses_brk && own->heaps.list[0].is_main);
	for (size_t i = 0; i < 2; i++) {
		assert_false(own->heaps.list[i].known);
		assert_int_equal(own->heaps.list[i].unread, LIMPET_UNREAD_ABSENT);
		assert_true(own->heaps.list[i].figures.resident_bytes >= 60000);
	}
}

static void test_what_is_swapped_out_is_said(void **state)
{
	struct own_heaps own = {0};
	sem_t taken, judged;
	sem_t *steps[] = {&taken, &judged};
	void *block = take_block(100000);
	pthread_t thread;

	(void)state;
	sem_init(&taken, 0, 0);
	sem_init(&judged, 0, 0);
	assert_int_equal(pthread_create(&thread, NULL, take_arena, steps), 0);
	while (sem_wait(&taken) < 0)
		;
	assert_int_equal(limpet_process_reader_new(target_of(getpid()), &own.process), 0);
	assert_int_equal(limpet_pages_new(target_of(getpid()), LIMPET_PAGES_SCAN, &own.pages), 0);
	limpet_pages_be_exact(own.pages);
	assert_int_equal(limpet_proc_maps_read(getpid(), &own.maps), 0);
	own.hidden.reader = limpet_process_reader(own.process);
	judge_hidden(&own);
	limpet_glibc_heaps_done(&own.heaps);
	limpet_proc_maps_done(&own.maps);
	limpet_pages_free(own.pages);
	limpet_process_reader_free(own.process);
	sem_post(&judged);
	pthread_join(thread, NULL);
	free(block);
}

/* ------------------------------------------------------------------ mount tables */

static void test_mounts(void **state)
{
	struct limpet_tmpfs mounts = {0};

	(void)state;
	assert_int_equal(limpet_tmpfs_parse("36 35 0:42 / /run rw - tmpfs tmpfs rw\n"
					    "37 35 8:1 / / rw shared:1 - ext4 /dev/sda1 rw\n"
					    "nonsense - tmpfs \n"
					    "38 35 0:7 / /dev/shm rw master:2 - tmpfs none rw\n"
					    "39 35 0:9 / /proc rw - proc proc rw",
					    &mounts),
			 0);
	assert_int_equal(mounts.count, 2);
	assert_true(limpet_tmpfs_has(&mounts, 0, 42));
	assert_true(limpet_tmpfs_has(&mounts, 0, 7));
	assert_false(limpet_tmpfs_has(&mounts, 8, 1));
	assert_false(limpet_tmpfs_has(&mounts, 0, 9));
	limpet_tmpfs_done(&mounts);
	assert_int_equal(limpet_tmpfs_parse("", &mounts), 0);
	assert_false(limpet_tmpfs_has(&mounts, 0, 42));
}

/* ------------------------------------------------------------------ sentences */

#define MIB ((uint64_t)1 << 20)

static const struct limpet_explain_verdict *find(const struct limpet_explanation *of,
						 const char *id)
{
	for (size_t i = 0; i < of->verdict_count; i++)
		if (!strcmp(of->verdicts[i].id, id))
			return &of->verdicts[i];
	print_error("no verdict %s\n", id);
	abort();
}

/* Two arenas, of which one could not be read. */
static struct limpet_explanation half_read(void)
{
	return (struct limpet_explanation){.pid = 4711,
					   .rss_bytes = 200 * MIB,
					   .has_glibc = true,
					   .glibc = {.arenas = 2,
						     .unknown_arenas = 1,
						     .listed = true,
						     .resident_bytes = 100 * MIB,
						     .free_resident_bytes = 30 * MIB,
						     .returned_bytes = 20 * MIB,
						     .caches_known = true,
						     .cache_bytes = 10 * MIB,
						     .unread_bytes = 90 * MIB}};
}

static void test_sums_without_all_arenas_are_the_least(void **state)
{
	struct limpet_explanation of = half_read();
	const struct limpet_explain_verdict *verdict;

	(void)state;
	assert_int_equal(limpet_verdicts_make(&of), 0);
	verdict = find(&of, "glibc-free");
	assert_false(verdict->returned_known);
	assert_non_null(strstr(verdict->text, "At least 30.0 MiB are free inside"));
	assert_non_null(strstr(verdict->text, "malloc_trim(0) returns at least 20.0 MiB"));
	verdict = find(&of, "glibc-unread");
	assert_int_equal(verdict->bytes, 90 * MIB);
	assert_non_null(strstr(verdict->text, "changed too fast"));
	/* What waits in caches of threads is not in use. */
	verdict = find(&of, "glibc-live");
	assert_int_equal(verdict->bytes, 60 * MIB);
	assert_null(verdict->remedy);
	assert_string_equal(verdict->next, "limpet attach");
	limpet_explanation_done(&of);
}

static void test_why_arenas_were_not_read(void **state)
{
	struct limpet_explanation of = half_read();

	(void)state;
	of.glibc.absent_arenas = 1;
	assert_int_equal(limpet_verdicts_make(&of), 0);
	assert_non_null(strstr(find(&of, "glibc-unread")->text, "partly swapped out"));
	limpet_explanation_done(&of);
	of = half_read();
	of.glibc.late_arenas = 1;
	of.late = true;
	assert_int_equal(limpet_verdicts_make(&of), 0);
	assert_non_null(strstr(find(&of, "glibc-unread")->text, "not read in time"));
	(void)find(&of, "late");
	limpet_explanation_done(&of);
	of = half_read();
	of.glibc.broken_arenas = 1;
	assert_int_equal(limpet_verdicts_make(&of), 0);
	assert_non_null(strstr(find(&of, "glibc-unread")->text, "not as glibc keeps it (damaged"));
	assert_null(strstr(find(&of, "glibc-unread")->text, "try again"));
	limpet_explanation_done(&of);
	/* One of two changed. */
	of = half_read();
	of.glibc.unknown_arenas = 2;
	of.glibc.broken_arenas = 1;
	assert_int_equal(limpet_verdicts_make(&of), 0);
	assert_non_null(
		strstr(find(&of, "glibc-unread")->text, "changed too fast to be read, are"));
	limpet_explanation_done(&of);
}

/* What was only not read in time is not said to be another allocator's. */
static void test_late_is_not_unknown(void **state)
{
	struct limpet_explanation of = {
		.pid = 4711, .rss_bytes = 100 * MIB, .unknown_bytes = 90 * MIB};

	(void)state;
	assert_int_equal(limpet_verdicts_make(&of), 0);
	assert_non_null(strstr(find(&of, "unknown")->text, "another allocator"));
	limpet_explanation_done(&of);
	of = (struct limpet_explanation){
		.pid = 4711, .rss_bytes = 100 * MIB, .unknown_bytes = 90 * MIB, .late = true};
	assert_int_equal(limpet_verdicts_make(&of), 0);
	assert_null(strstr(find(&of, "unknown")->text, "another allocator"));
	assert_non_null(strstr(find(&of, "unknown")->text, "not recognized in time"));
	limpet_explanation_done(&of);
}

/* Pages of V8 beside a heap of glibc's, with a fastbin whose list leads through many pages. */
static void fill_with_both(void)
{
	enum { BLOCKS = 4000 };
	const uint64_t page = LIMPET_V8_PAGE_BYTES;
	uint8_t *memory = map_memory((V8_PAGES + 1) * page), *blocks[BLOCKS];
	uint8_t *v8 = memory + (page - (uintptr_t)memory % page) % page;

	if (!v8)
		_exit(2);
	memset(memory, 7, (V8_PAGES + 1) * page);
	for (size_t i = 0; i < V8_PAGES; i++) {
		const uint64_t start = (uint64_t)(uintptr_t)v8 + i * page;
		const uint64_t head[] = {page, 0x18, (uint64_t)(uintptr_t)v8, start + 1024,
					 start + page};

		memcpy(v8 + i * page, head, sizeof(head));
	}
	for (size_t i = 0; i < BLOCKS; i++) {
		blocks[i] = malloc(i % 2 ? 4096 : 24);
		if (!blocks[i])
			_exit(2);
		memset(blocks[i], 1, 24);
	}
	for (size_t i = 0; i < BLOCKS; i += 2)
		free(blocks[i]);
}

static void test_a_runtime_is_found_although_glibc_is_late(void **state)
{
	const uint64_t reads = 1000;
	struct limpet_explanation of;
	struct limpet_err err = {0};
	int ready[2], error;
	char byte;
	pid_t child;

	(void)state;
	assert_int_equal(pipe(ready), 0);
	child = fork();
	assert_true(child >= 0);
	if (!child) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		fill_with_both();
		if (write(ready[1], "", 1) == 1)
			pause();
		_exit(1);
	}
	assert_int_equal(read(ready[0], &byte, 1), 1);
	error = limpet_explain_within(target_of(child), reads, &of, &err);
	kill(child, SIGKILL);
	assert_int_equal(waitpid(child, NULL, 0), child);
	assert_int_equal(error, 0);
	assert_true(of.late);
	assert_true(of.glibc.late_arenas > 0);
	assert_true(limpet_accounts_bytes(&of, LIMPET_KIND_V8) >= V8_PAGES * LIMPET_V8_PAGE_BYTES);
	limpet_explanation_done(&of);
	close(ready[0]);
	close(ready[1]);
}

/* Many small groups are as much as a large one. */
static void test_stacks_are_judged_together(void **state)
{
	struct limpet_explanation of = {.pid = 4711, .rss_bytes = 100 * MIB};
	struct limpet_accounts accounts = {.explanation = &of};
	char owner[64];

	(void)state;
	for (int i = 0; i < 50; i++) {
		snprintf(owner, sizeof(owner), LIMPET_STACKS_NAMED "thread %c%c", 'a' + i / 26,
			 'a' + i % 26);
		limpet_accounts_add(&accounts, LIMPET_KIND_STACKS, owner, MIB, 1);
	}
	assert_int_equal(limpet_accounts_sort(&accounts), 0);
	assert_int_equal(limpet_verdicts_make(&of), 0);
	assert_int_equal(find(&of, "thread-stacks")->bytes, 50 * MIB);
	assert_non_null(strstr(find(&of, "thread-stacks")->text, "50 threads"));
	limpet_explanation_done(&of);
}

/* As in a child of a fork, which has one thread and the stacks of all threads of its parent. */
static void test_kept_stacks_are_no_threads(void **state)
{
	struct limpet_explanation of = {.pid = 4711, .rss_bytes = 100 * MIB};
	struct limpet_accounts accounts = {.explanation = &of};

	(void)state;
	for (int i = 0; i < 1000; i++)
		limpet_accounts_add(&accounts, LIMPET_KIND_STACKS,
				    "stacks of threads that have ended", MIB / 25, 1);
	limpet_accounts_add(&accounts, LIMPET_KIND_STACKS, LIMPET_STACKS_NAMED "worker", 8 * MIB,
			    1);
	assert_int_equal(limpet_accounts_sort(&accounts), 0);
	assert_int_equal(limpet_verdicts_make(&of), 0);
	assert_int_equal(find(&of, "thread-stacks")->bytes, 8 * MIB);
	assert_non_null(strstr(find(&of, "thread-stacks")->text, "1 thread named worker"));
	assert_int_equal(find(&of, "kept-stacks")->bytes, 1000 * (MIB / 25));
	assert_null(strstr(find(&of, "kept-stacks")->text, "1000"));
	limpet_explanation_done(&of);
}

/* A row that is most of RSS has a sentence that says what it is. */
static void test_most_of_rss_is_said(void **state)
{
	static const struct {
		const char *kind, *owner, *words;
	} rows[] = {{LIMPET_KIND_MAIN_STACK, "stack of the main thread", "the main thread"},
		    {LIMPET_KIND_CODE, "code", "executable"},
		    {LIMPET_KIND_DATA, LIMPET_OWNER_WRITTEN, "mapped privately"},
		    {LIMPET_KIND_DATA, "data of program and libraries", "its libraries"},
		    {LIMPET_KIND_NAMED, "named by the program: [anon:it]", "has named"},
		    {LIMPET_KIND_DEVICE, "devices", "devices"},
		    {LIMPET_KIND_GO_TABLES, "Go: tables", "Go's runtime"}};

	(void)state;
	for (size_t i = 0; i < LIMPET_COUNT_OF(rows); i++) {
		/* Half of RSS is not more than half. */
		for (uint64_t least = 0; least < 2; least++) {
			struct limpet_explanation of = {.pid = 4711, .rss_bytes = 10 * MIB};
			struct limpet_accounts accounts = {.explanation = &of};

			limpet_accounts_add(&accounts, rows[i].kind, rows[i].owner,
					    least ? 5 * MIB : 6 * MIB, 0);
			assert_int_equal(limpet_verdicts_make(&of), 0);
			assert_int_equal(of.verdict_count, 1);
			assert_string_equal(of.verdicts[0].id, least ? "nothing" : rows[i].kind);
			if (!least)
				assert_non_null(strstr(of.verdicts[0].text, rows[i].words));
			limpet_explanation_done(&of);
		}
	}
}

static void test_kinds_in_words(void **state)
{
	(void)state;
	assert_string_equal(limpet_explain_words(LIMPET_KIND_STACKS), "thread stacks");
	assert_string_equal(limpet_explain_words(LIMPET_KIND_MEMFD), "memfds");
}

/* With a capital or an amount, to the full stop. */
static void test_verdicts_are_sentences(void **state)
{
	struct limpet_explanation of = half_read();

	(void)state;
	of.swap_bytes = 5 * MIB;
	of.unknown_bytes = 20 * MIB;
	of.glibc_unrecognized = true;
	of.late = true;
	assert_int_equal(limpet_verdicts_make(&of), 0);
	assert_string_equal(find(&of, "swap")->text,
			    "5.0 MiB are swapped out, in addition to RSS.");
	(void)find(&of, "glibc-unrecognized");
	for (size_t i = 0; i < of.verdict_count; i++) {
		const char *text = of.verdicts[i].text;

		assert_true((text[0] >= 'A' && text[0] <= 'Z') ||
			    (text[0] >= '1' && text[0] <= '9'));
		assert_int_equal(text[strlen(text) - 1], '.');
	}
	limpet_explanation_done(&of);
	of = (struct limpet_explanation){.pid = 4711, .rss_bytes = 100 * MIB};
	assert_int_equal(limpet_verdicts_make(&of), 0);
	assert_string_equal(find(&of, "nothing")->text,
			    "Nothing stands out: no large amount is free, shared or of no known "
			    "owner.");
	limpet_explanation_done(&of);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_a_piece_in_two_mappings_counts_once),
		cmocka_unit_test(test_a_mapping_that_only_looks_like_blocks),
		cmocka_unit_test(test_only_present_pages_are_read),
		cmocka_unit_test(test_a_text_ends_with_what_is_present),
		cmocka_unit_test(test_the_budget_ends),
		cmocka_unit_test(test_the_budget_is_shared),
		cmocka_unit_test(test_nobody),
		cmocka_unit_test(test_devices),
		cmocka_unit_test(test_a_census_is_of_the_same_program),
		cmocka_unit_test(test_a_root_that_is_none_has_no_census),
		cmocka_unit_test(test_a_leaf_is_read_once),
		cmocka_unit_test(test_a_small_tree_is_judged),
		cmocka_unit_test(test_a_table_of_pointers_costs_little),
		cmocka_unit_test(test_a_search_has_its_share),
		cmocka_unit_test(test_named_data),
		cmocka_unit_test(test_an_entry_that_changed_is_read_again),
		cmocka_unit_test(test_an_extent_in_transition_is_missed),
		cmocka_unit_test(test_an_extent_without_a_beginning_is_missed),
		cmocka_unit_test(test_extents_that_overlap),
		cmocka_unit_test(test_a_census_without_an_extent_is_not_whole),
		cmocka_unit_test(test_what_is_no_tree_is_given_up),
		cmocka_unit_test(test_what_is_swapped_out_is_said),
		cmocka_unit_test(test_mounts),
		cmocka_unit_test(test_sums_without_all_arenas_are_the_least),
		cmocka_unit_test(test_why_arenas_were_not_read),
		cmocka_unit_test(test_late_is_not_unknown),
		cmocka_unit_test(test_a_runtime_is_found_although_glibc_is_late),
		cmocka_unit_test(test_stacks_are_judged_together),
		cmocka_unit_test(test_kept_stacks_are_no_threads),
		cmocka_unit_test(test_most_of_rss_is_said),
		cmocka_unit_test(test_kinds_in_words),
		cmocka_unit_test(test_verdicts_are_sentences),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
