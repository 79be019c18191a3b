/* How much of a mapping is present, of our own process's memory. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <errno.h>
#include <signal.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "common/err.h"
#include "injector/proc/pages.h"

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

	assert_int_equal(limpet_pages_count(getpid(), (uint64_t)(uintptr_t)pages,
					    (uint64_t)PAGES * PAGE, &bytes),
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

static void test_nobody(void **state)
{
	uint64_t bytes = 7;

	(void)state;
	assert_true(limpet_pages_count(0x7ffffff0, PAGE, PAGE, &bytes) < 0);
	assert_int_equal(bytes, 7);
}

/* What is present in the middle of three parts: untouched, read, written to. */
static uint64_t exactly_present(enum limpet_pages_way way, const uint8_t *memory)
{
	const uint64_t start = (uint64_t)(uintptr_t)memory, end = start + (uint64_t)PAGES * PAGE;
	struct limpet_page_range ranges[LIMPET_PAGES_RANGES];
	struct limpet_pages *pages;
	uint64_t bytes = 0;

	assert_int_equal(limpet_pages_new(getpid(), way, &pages), 0);
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

/* Pages that were only read are the kernel's page of zeros, and not in RSS. */
static void test_zeros_are_left_out(void **state)
{
	const enum limpet_pages_way ways[] = {LIMPET_PAGES_ASK, LIMPET_PAGES_READ};
	uint8_t *memory = mmap(NULL, (size_t)PAGES * PAGE, PROT_READ | PROT_WRITE,
			       MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	(void)state;
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
	const enum limpet_pages_way ways[] = {LIMPET_PAGES_ASK, LIMPET_PAGES_READ};
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

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_counts_what_was_touched),
		cmocka_unit_test(test_nobody),
		cmocka_unit_test(test_zeros_are_left_out),
		cmocka_unit_test(test_shared_pages_are_not_left_out),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
