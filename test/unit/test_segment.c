/* The memory shared with the agent: what is touched when, so that nobody else has to. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include <cmocka.h>

#include <sys/mman.h>
#include <unistd.h>

#include "common/err.h"
#include "injector/proc/proc.h"
#include "injector/remote/segment.h"
#include "test/unit/skip_reason.h"
#include "test/unit/target_of.h"

#define PAGE 4096u
#define NO_TOUCH "a kernel before 5.14 cannot be asked to touch memory"

static uint64_t resident_bytes(const struct limpet_segment *segment, uint64_t from, uint64_t bytes)
{
	size_t pages = bytes / PAGE;
	unsigned char *there = calloc(pages, 1);
	uint64_t count = 0;

	assert_non_null(there);
	assert_int_equal(mincore((uint8_t *)segment->shm + from, pages * PAGE, there), 0);
	for (size_t i = 0; i < pages; i++)
		count += there[i] & 1;
	free(there);
	return count * PAGE;
}

#define FIRST_FINGERPRINTS 8192u

/* Populated entries that the agent is to use. */
static uint32_t used_fingerprints(const struct limpet_segment *segment,
				  enum limpet_fingerprint_table table)
{
	const uint32_t count = segment->layout.fingerprint_count[table] >>
			       segment->shm->fingerprint_use[table].shift;
	const uint64_t bytes = count * sizeof(struct limpet_fingerprint);

	assert_int_equal(resident_bytes(segment, segment->layout.fingerprints_offset[table], bytes),
			 bytes);
	return count;
}

/* As at an attach. */
static void make_shared(uint64_t memory_bytes, const struct limpet_sampling *sampling,
			struct limpet_segment *ret)
{
	LIMPET_CLOSE int file = memfd_create("limpet-shared", MFD_CLOEXEC);

	assert_int_equal(limpet_segment_create(memory_bytes, 0, sampling, ret, NULL), 0);
	assert_true(file >= 0);
	assert_int_equal(ftruncate(file, (off_t)(PAGE + ret->shm_bytes + ret->tables.arena_bytes)),
			 0);
	assert_int_equal(limpet_segment_share(ret, file, PAGE), 0);
	assert_int_equal(limpet_segment_share_rest(ret), 0);
}

/* The slots are read at once; of chunks and fingerprints the first serve for a while. */
static void test_first_share(void **state)
{
	struct limpet_segment segment;
	uint64_t resident;

	(void)state;
	make_shared(64u << 20, NULL, &segment);
	if (resident_bytes(&segment, 0, segment.layout.fingerprints_offset[0]) <
	    segment.layout.fingerprints_offset[0])
		limpet_skip(NO_TOUCH);
	for (uint32_t group = 0; group < segment.layout.chunk_count / 64; group++)
		assert_int_equal(resident_bytes(&segment,
						segment.layout.chunks_offset +
							group * 64ull * LIMPET_CHUNK_BYTES,
						4 * LIMPET_CHUNK_BYTES),
				 4 * LIMPET_CHUNK_BYTES);
	for (unsigned table = 0; table < LIMPET_FINGERPRINT_TABLES; table++)
		assert_int_equal(used_fingerprints(&segment, table), FIRST_FINGERPRINTS);
	/* As long as little is used, no more is populated. */
	resident = resident_bytes(&segment, 0, segment.shm_bytes);
	assert_true(resident < segment.shm_bytes / 6);
	limpet_segment_populate_needed(&segment);
	assert_int_equal(resident_bytes(&segment, 0, segment.shm_bytes), resident);
	limpet_segment_done(&segment);
}

static void test_all_shares(void **state)
{
	static const uint64_t sizes[] = {8u << 20, 64u << 20, 100000000u};

	(void)state;
	for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
		const struct limpet_sampling sampling = {.bytes = i % 2 * 65536,
							 .overload_bytes = i / 2 * 65536};
		struct limpet_segment segment;
		unsigned shares = 0;

		make_shared(sizes[i], &sampling, &segment);
		if (!resident_bytes(&segment, PAGE, PAGE))
			limpet_skip(NO_TOUCH);
		while (limpet_segment_populate_chunks(&segment))
			assert_true(++shares < 100);
		for (unsigned table = 0; table < LIMPET_FINGERPRINT_TABLES; table++) {
			while (limpet_segment_grow_fingerprints(&segment, table))
				(void)used_fingerprints(&segment, table);
			assert_int_equal(used_fingerprints(&segment, table),
					 segment.layout.fingerprint_count[table]);
		}
		/* The agent has memory of its own where its part of the states would be. */
		assert_int_equal(resident_bytes(&segment, 0, segment.shm_bytes),
				 segment.shm_bytes - LIMPET_OWN_BYTES);
		limpet_segment_done(&segment);
	}
}

/* Half of what is populated of one group is taken: the next share of all. */
static void test_chunks_that_are_needed(void **state)
{
	struct limpet_segment segment;
	uint64_t *map, resident;

	(void)state;
	make_shared(64u << 20, NULL, &segment);
	if (!resident_bytes(&segment, PAGE, PAGE))
		limpet_skip(NO_TOUCH);
	map = limpet_segment_free_chunks(&segment);
	resident = resident_bytes(&segment, 0, segment.shm_bytes);
	map[3] &= ~0xfull;
	limpet_segment_populate_needed(&segment);
	assert_int_equal(resident_bytes(&segment, 0, segment.shm_bytes), resident);
	map[3] &= ~0x1full;
	limpet_segment_populate_needed(&segment);
	resident += segment.layout.chunk_count / 8 * LIMPET_CHUNK_BYTES;
	assert_int_equal(resident_bytes(&segment, 0, segment.shm_bytes), resident);
	limpet_segment_populate_needed(&segment);
	assert_int_equal(resident_bytes(&segment, 0, segment.shm_bytes), resident);
	limpet_segment_done(&segment);
}

/* Who evicts many entries gets four times as many, and no others. */
static void test_fingerprints_that_are_needed(void **state)
{
	struct limpet_segment segment;
	struct limpet_fingerprint_use *use;

	(void)state;
	make_shared(64u << 20, NULL, &segment);
	if (!resident_bytes(&segment, PAGE, PAGE))
		limpet_skip(NO_TOUCH);
	use = segment.shm->fingerprint_use;
	use[LIMPET_BY_WORDS].evicted = FIRST_FINGERPRINTS / 64;
	limpet_segment_populate_needed(&segment);
	assert_int_equal(used_fingerprints(&segment, LIMPET_BY_WORDS), FIRST_FINGERPRINTS);
	use[LIMPET_BY_WORDS].evicted++;
	limpet_segment_populate_needed(&segment);
	limpet_segment_populate_needed(&segment);
	assert_int_equal(used_fingerprints(&segment, LIMPET_BY_WORDS), 4 * FIRST_FINGERPRINTS);
	assert_int_equal(used_fingerprints(&segment, LIMPET_BY_FRAMES), FIRST_FINGERPRINTS);
	/* The target may write anything there. */
	for (unsigned i = 0; i < 10; i++) {
		use[LIMPET_BY_FRAMES].evicted -= 0x7fffffff;
		use[LIMPET_BY_FRAMES].shift = 77;
		limpet_segment_populate_needed(&segment);
	}
	assert_int_equal(segment.fingerprint_shift[LIMPET_BY_FRAMES], 0);
	limpet_segment_done(&segment);
}

/* All that the agent may take is within the bound, and there is room for threads. */
static void test_the_bound_holds(void **state)
{
	const struct limpet_sampling samplings[] = {
		{0}, {.bytes = 65536}, {.overload_bytes = 65536}};

	(void)state;
	for (uint64_t bytes = 8u << 20; bytes <= 4ull << 30; bytes += bytes)
		for (size_t i = 0; i < 2 * LIMPET_COUNT_OF(samplings); i++) {
			struct limpet_segment segment;
			uint64_t pages, used;

			assert_int_equal(limpet_segment_create(bytes, i % 2 ? UINT64_MAX : 0,
							       &samplings[i / 2], &segment, NULL),
					 0);
			pages = (uint64_t)segment.shm->layout.thread_limit +
				segment.shm->layout.room_pages;
			used = segment.shm_bytes + segment.tables.arena_bytes +
			       LIMPET_PRIVATE_TABLES_BYTES + pages * LIMPET_SCRATCH_BYTES;
			assert_in_range(used, bytes / 4 * 3, bytes);
			assert_true(segment.shm->layout.thread_limit >= 128);
			/* Room for five times 100,000 stacks with the default memory. */
			for (unsigned k = 0; k < LIMPET_FINGERPRINT_TABLES; k++)
				assert_true(segment.layout.fingerprint_count[k] >= bytes / 256);
			if (bytes == 64u << 20)
				assert_int_equal(segment.layout.fingerprint_count[LIMPET_BY_FRAMES],
						 1u << 19);
			assert_true(segment.shm->layout.thread_limit <=
				    segment.shm->layout.chunk_count / 4 * 3);
			limpet_segment_done(&segment);
		}
}

static void test_tables_get_what_they_need(void **state)
{
	struct limpet_segment usual, some, most;

	(void)state;
	assert_int_equal(limpet_segment_create(64u << 20, 0, NULL, &usual, NULL), 0);
	assert_int_equal(limpet_segment_create(64u << 20, 15u << 20, NULL, &some, NULL), 0);
	assert_int_equal(limpet_segment_create(64u << 20, UINT64_MAX, NULL, &most, NULL), 0);
	assert_in_range(usual.tables.arena_bytes, 11u << 20, 12u << 20);
	assert_int_equal(some.tables.arena_bytes, 15u << 20);
	assert_in_range(most.tables.arena_bytes, 18u << 20, 20u << 20);
	/* From the chunks alone. */
	assert_in_range(usual.shm_bytes - most.shm_bytes, 7u << 20, 8u << 20);
	assert_int_equal(usual.layout.fingerprint_count[0], most.layout.fingerprint_count[0]);
	/* As limpet-attach(1) says. */
	assert_true(usual.layout.thread_limit > 2000);
	assert_true(most.layout.thread_limit > 1000);
	assert_in_range(most.layout.chunk_count, usual.layout.chunk_count / 2,
			usual.layout.chunk_count - 1);
	limpet_segment_done(&usual);
	limpet_segment_done(&some);
	limpet_segment_done(&most);
}

static unsigned maps_reads;
int __real_limpet_proc_maps_read(pid_t pid, struct limpet_maps *ret_maps);
int __wrap_limpet_proc_maps_read(pid_t pid, struct limpet_maps *ret_maps);
int __wrap_limpet_proc_maps_read(pid_t pid, struct limpet_maps *ret_maps)
{
	maps_reads++;
	return __real_limpet_proc_maps_read(pid, ret_maps);
}

/* With thousands of modules the list of mappings is long. */
static void test_mappings_are_not_read_for_each_module(void **state)
{
	struct limpet_segment segment;
	struct limpet_modules modules;
	int made;

	(void)state;
	assert_int_equal(limpet_segment_create(64u << 20, 0, NULL, &segment, NULL), 0);
	assert_int_equal(limpet_modules_read(target_of(getpid()), &modules, NULL), 0);
	maps_reads = 0;
	made = limpet_segment_update_tables(&segment, &modules, 0);
	assert_in_range(made, 3, 32);
	assert_int_equal(segment.tables.list_count, made);
	assert_int_equal(maps_reads, 1);
	/* All are known by now. */
	assert_int_equal(limpet_segment_update_tables(&segment, &modules, 0), 0);
	assert_int_equal(maps_reads, 1);
	limpet_modules_done(&modules);
	limpet_segment_done(&segment);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_tables_get_what_they_need),
		cmocka_unit_test(test_the_bound_holds),
		cmocka_unit_test(test_mappings_are_not_read_for_each_module),
		cmocka_unit_test(test_first_share),
		cmocka_unit_test(test_all_shares),
		cmocka_unit_test(test_chunks_that_are_needed),
		cmocka_unit_test(test_fingerprints_that_are_needed),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
