/* How much of a mapping is present, of our own process's memory. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <errno.h>
#include <sys/mman.h>
#include <unistd.h>

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

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_counts_what_was_touched),
		cmocka_unit_test(test_nobody),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
