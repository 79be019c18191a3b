/* How much of a mapping is present, of our own process's memory. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <errno.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "common/err.h"
#include "injector/proc/pages.h"
#include "test/unit/skip_reason.h"
#include "test/unit/target_of.h"

enum { PAGE = 4096, PAGES = 1500 };

static uint8_t *map_pages(void)
{
	/* Shared, as the agent's memory is; huge pages would come in one piece. */
	uint8_t *pages = mmap(NULL, (size_t)PAGES * PAGE, PROT_READ | PROT_WRITE,
			      MAP_SHARED | MAP_ANONYMOUS, -1, 0);

	assert_true(pages != MAP_FAILED);
	assert_int_equal(madvise(pages, (size_t)PAGES * PAGE, MADV_NOHUGEPAGE), 0);
	return pages;
}

static uint64_t present(const uint8_t *pages)
{
	uint64_t bytes = 1;

	assert_int_equal(limpet_pages_count(target_of(getpid()), (uint64_t)(uintptr_t)pages,
					    (uint64_t)PAGES * PAGE, &bytes, NULL),
			 0);
	return bytes;
}

/* Pages that were written to, and no others; not once they are gone. */
static void test_counts_what_was_touched(void **state)
{
	uint8_t *pages = map_pages();

	(void)state;
	assert_int_equal(present(pages), 0);
	for (size_t i = 0; i < PAGES; i += 3)
		pages[i * PAGE] = 1;
	assert_int_equal(present(pages), PAGES / 3 * PAGE);
	assert_int_equal(munmap(pages, (size_t)PAGES * PAGE), 0);
	assert_int_equal(present(pages), 0);
}

/* Of a private mapping those that were written to are the process's own. */
static void test_tells_pages_of_files(void **state)
{
	LIMPET_CLOSE int file = memfd_create("test", MFD_CLOEXEC);
	uint64_t bytes, file_bytes;
	uint8_t *pages;

	(void)state;
	assert_true(file >= 0);
	assert_int_equal(ftruncate(file, 4 * PAGE), 0);
	pages = mmap(NULL, 4 * PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE, file, 0);
	assert_true(pages != MAP_FAILED);
	for (size_t i = 0; i < 4; i++)
		(void)*(volatile uint8_t *)(pages + i * PAGE);
	pages[0] = pages[PAGE] = pages[2 * PAGE] = 1;
	assert_int_equal(limpet_pages_count(target_of(getpid()), (uint64_t)(uintptr_t)pages,
					    4 * PAGE, &bytes, &file_bytes),
			 0);
	assert_int_equal(bytes, 4 * PAGE);
	assert_int_equal(file_bytes, PAGE);
	assert_int_equal(munmap(pages, 4 * PAGE), 0);
}

static void test_nobody(void **state)
{
	uint64_t bytes = 7;

	(void)state;
	assert_true(limpet_pages_count(target_of(0x7ffffff0), PAGE, PAGE, &bytes, NULL) < 0);
	assert_int_equal(bytes, 7);
}

/* What cannot be read is not taken as resident. */
static void test_an_unreadable_pagemap_is_an_error(void **state)
{
	struct limpet_page_range ranges[LIMPET_PAGES_RANGES];
	struct limpet_pages *pages;
	uint64_t at;

	(void)state;
	assert_int_equal(limpet_pages_new(target_of(0x7ffffff0), LIMPET_PAGES_SCAN, &pages), 0);
	limpet_pages_leave_out_swapped(pages);
	assert_int_equal(limpet_pages_next(pages, PAGE, (uint64_t)3 * PAGE, false, ranges, &at),
			 -ENODATA);
	limpet_pages_free(pages);
}

/* The end of a heap is not always that of a page. */
static void test_a_part_of_a_page_is_looked_at_as_a_whole(void **state)
{
	const enum limpet_pages_way ways[] = {LIMPET_PAGES_SCAN, LIMPET_PAGES_READ};
	uint8_t *memory = mmap(NULL, (size_t)3 * PAGE, PROT_READ | PROT_WRITE,
			       MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	const uint64_t start = (uint64_t)(uintptr_t)memory;

	(void)state;
	assert_true(memory != MAP_FAILED);
	memory[0] = memory[PAGE] = memory[2 * PAGE] = 1;
	for (size_t i = 0; i < LIMPET_COUNT_OF(ways); i++) {
		struct limpet_page_range ranges[LIMPET_PAGES_RANGES];
		struct limpet_pages *pages;
		uint64_t at = 0;

		assert_int_equal(limpet_pages_new(target_of(getpid()), ways[i], &pages), 0);
		assert_int_equal(limpet_pages_next(pages, start + PAGE + 16, start + 2 * PAGE - 16,
						   false, ranges, &at),
				 1);
		assert_int_equal(ranges[0].start, start + PAGE);
		assert_int_equal(ranges[0].end, start + 2 * PAGE);
		assert_int_equal(at, start + 2 * PAGE);
		limpet_pages_free(pages);
	}
	munmap(memory, (size_t)3 * PAGE);
}

/* What is present in the middle of three parts: untouched, read, written to. */
static uint64_t exactly_present(enum limpet_pages_way way, const uint8_t *memory)
{
	const uint64_t start = (uint64_t)(uintptr_t)memory, end = start + (uint64_t)PAGES * PAGE;
	struct limpet_page_range ranges[LIMPET_PAGES_RANGES];
	struct limpet_pages *pages;
	uint64_t bytes = 0;

	assert_int_equal(limpet_pages_new(target_of(getpid()), way, &pages), 0);
	limpet_pages_be_exact(pages);
	for (uint64_t at = start; at < end;) {
		int found = limpet_pages_next(pages, at, end, false, ranges, &at);

		assert_true(found >= 0);
		for (int i = 0; i < found; i++)
			bytes += ranges[i].end - ranges[i].start;
	}
	limpet_pages_free(pages);
	return bytes;
}

/* Rss of the mapping that begins here. */
static uint64_t resident(const uint8_t *memory)
{
	FILE *smaps = fopen("/proc/self/smaps", "re");
	unsigned long start = 0, kib = 0;
	char line[512];
	bool here = false;

	assert_non_null(smaps);
	while (fgets(line, sizeof(line), smaps)) {
		if (sscanf(line, "%lx-%*x ", &start) == 1 && strchr(line, '-'))
			here = start == (uintptr_t)memory;
		else if (here && sscanf(line, "Rss: %lu kB", &kib) == 1)
			break;
	}
	fclose(smaps);
	return (uint64_t)kib * 1024;
}

/* There are kernels that give a page of its own to a read of anonymous memory, too. */
static bool reads_take_memory(void)
{
	uint8_t *memory = mmap(NULL, 3 * PAGE, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	bool take;

	assert_true(memory != MAP_FAILED);
	assert_int_equal(mprotect(memory + PAGE, PAGE, PROT_READ | PROT_WRITE), 0);
	(void)((volatile uint8_t *)memory)[PAGE];
	take = resident(memory + PAGE) > 0;
	munmap(memory, 3 * PAGE);
	return take;
}

/* Pages that were only read are the kernel's page of zeros, and not in RSS. */
static void test_zeros_are_left_out(void **state)
{
	const enum limpet_pages_way ways[] = {LIMPET_PAGES_SCAN, LIMPET_PAGES_READ};
	uint8_t *memory = mmap(NULL, (size_t)PAGES * PAGE, PROT_READ | PROT_WRITE,
			       MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	(void)state;
	if (reads_take_memory())
		limpet_skip("this kernel has no page of zeros: a read takes memory, too");
	assert_true(memory != MAP_FAILED);
	assert_int_equal(madvise(memory, (size_t)PAGES * PAGE, MADV_NOHUGEPAGE), 0);
	for (size_t i = PAGES / 3; i < PAGES; i++)
		(void)((volatile uint8_t *)memory)[i * PAGE];
	for (size_t i = PAGES / 3 * 2; i < PAGES; i++)
		memory[i * PAGE] = 1;
	for (size_t i = 0; i < LIMPET_COUNT_OF(ways); i++)
		assert_int_equal(exactly_present(ways[i], memory), PAGES / 3 * PAGE);
	munmap(memory, (size_t)PAGES * PAGE);
}

/* After a fork they count in both. */
static void test_shared_pages_are_not_left_out(void **state)
{
	const enum limpet_pages_way ways[] = {LIMPET_PAGES_SCAN, LIMPET_PAGES_READ};
	uint8_t *memory = mmap(NULL, (size_t)PAGES * PAGE, PROT_READ | PROT_WRITE,
			       MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	pid_t child;
	int status;

	(void)state;
	assert_true(memory != MAP_FAILED);
	memset(memory, 1, (size_t)PAGES * PAGE);
	child = fork();
	assert_true(child >= 0);
	if (!child) {
		pause();
		_exit(0);
	}
	for (size_t i = 0; i < LIMPET_COUNT_OF(ways); i++)
		assert_int_equal(exactly_present(ways[i], memory), PAGES * PAGE);
	kill(child, SIGKILL);
	assert_int_equal(waitpid(child, &status, 0), child);
	munmap(memory, (size_t)PAGES * PAGE);
}

/* Memory that was never touched is asked for in few steps, and no page after it is missed. */
static void test_terabytes_take_few_requests(void **state)
{
	const uint64_t bytes = UINT64_C(4) << 40, touched = UINT64_C(3) << 40;
	uint8_t *memory =
		mmap(NULL, bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	const uint64_t start = (uint64_t)(uintptr_t)memory;
	struct limpet_page_range ranges[LIMPET_PAGES_RANGES];
	struct limpet_pages *pages;
	unsigned requests = 0, found = 0;

	(void)state;
	assert_true(memory != MAP_FAILED);
	assert_int_equal(mprotect(memory + touched, PAGE, PROT_READ | PROT_WRITE), 0);
	memory[touched] = 1;
	assert_int_equal(limpet_pages_new(target_of(getpid()), LIMPET_PAGES_SCAN, &pages), 0);
	for (uint64_t at = start; at < start + bytes; requests++) {
		int count = limpet_pages_next(pages, at, start + bytes, false, ranges, &at);

		if (!limpet_pages_can_scan(pages))
			limpet_skip("this kernel cannot be asked which pages there are");
		assert_true(count >= 0);
		if (count)
			assert_int_equal(ranges[0].start, start + touched);
		found += (unsigned)count;
	}
	assert_int_equal(found, 1);
	/* 1 GiB, 2 GiB... 256 GiB, twice: a page makes it begin anew. */
	assert_in_range(requests, 1, 48);
	limpet_pages_free(pages);
	munmap(memory, bytes);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_terabytes_take_few_requests),
		cmocka_unit_test(test_counts_what_was_touched),
		cmocka_unit_test(test_tells_pages_of_files),
		cmocka_unit_test(test_nobody),
		cmocka_unit_test(test_an_unreadable_pagemap_is_an_error),
		cmocka_unit_test(test_a_part_of_a_page_is_looked_at_as_a_whole),
		cmocka_unit_test(test_zeros_are_left_out),
		cmocka_unit_test(test_shared_pages_are_not_left_out),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
