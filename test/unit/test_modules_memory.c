/* Memory is read without mapping pages of it: from the file what is the file's, as zeros what was
 * never touched. The pages of a child are counted before and after. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include <cmocka.h>

#include <errno.h>
#include <signal.h>
#include <stdbool.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "common/err.h"
#include "injector/elf/modules_memory.h"
#include "injector/proc/memory.h"
#include "injector/proc/pagemap.h"
#include "injector/proc/pages.h"
#include "injector/proc/stack_memory.h"
#include "test/unit/target_of.h"

enum { PAGE = 4096, PAGES = 64 };

static struct {
	pid_t pid;
	int file;
	uint8_t *mapped;  /* of the file, private: pages 3 and 4 are touched (16 come in at once), 4
			     is written to */
	uint8_t *nothing; /* without a file, split before page 4: page 5 is written to */
	uint8_t *shared;  /* split before page 4; written to, but not by the child */
	uint8_t *border;  /* without a file up to page 4, then of the file; not touched */
} child;

/* By how many seconds the process is younger than it is: the file is older than that. */
static unsigned younger_s;
time_t __real_limpet_proc_started(pid_t pid);
time_t __wrap_limpet_proc_started(pid_t pid);
time_t __wrap_limpet_proc_started(pid_t pid)
{
	return __real_limpet_proc_started(pid) + younger_s;
}

static uint8_t of_file(size_t at)
{
	return (uint8_t)(at / PAGE * 7 + at % 251 + 1);
}

/* The last page of the file is not a whole one. */
#define FILE_BYTES ((size_t)(PAGES - 1) * PAGE + 100)

static uint8_t *in_a_gap(int flags)
{
	uint8_t *room =
		mmap(NULL, (PAGES + 2) * PAGE, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	uint8_t *pages = room + PAGE;

	assert_true(room != MAP_FAILED);
	assert_ptr_equal(mmap(pages, PAGES * PAGE, PROT_READ | PROT_WRITE,
			      flags | MAP_FIXED | MAP_ANONYMOUS, -1, 0),
			 pages);
	assert_int_equal(madvise(pages, PAGES * PAGE, MADV_NOHUGEPAGE), 0);
	assert_int_equal(madvise(pages, 4 * PAGE, MADV_DONTDUMP), 0);
	return pages;
}

static int begin(void **state)
{
	uint8_t *bytes = malloc(FILE_BYTES);
	char go = 0, name[] = "/tmp/test_modules_memory.XXXXXX";
	int ready[2];

	(void)state;
	assert_non_null(bytes);
	for (size_t i = 0; i < FILE_BYTES; i++)
		bytes[i] = of_file(i);
	child.file = mkstemp(name);
	assert_true(child.file >= 0);
	unlink(name);
	assert_int_equal(write(child.file, bytes, FILE_BYTES), FILE_BYTES);
	free(bytes);
	child.mapped = mmap(NULL, PAGES * PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE, child.file, 0);
	/* There is room before it, and a gap behind. */
	child.nothing = in_a_gap(MAP_PRIVATE);
	child.shared = in_a_gap(MAP_SHARED);
	child.border = in_a_gap(MAP_PRIVATE);
	assert_ptr_equal(mmap(child.border + 4 * PAGE, (PAGES - 4) * PAGE, PROT_READ | PROT_WRITE,
			      MAP_PRIVATE | MAP_FIXED, child.file, 0),
			 child.border + 4 * PAGE);
	assert_true(child.mapped != MAP_FAILED);
	memset(child.shared, 7, PAGES * PAGE);
	assert_int_equal(pipe(ready), 0);
	child.pid = fork();
	if (child.pid == 0) {
		child.mapped[4 * PAGE] = 200;
		child.nothing[5 * PAGE] = 201;
		if (*(volatile uint8_t *)&child.mapped[3 * PAGE] == of_file(3 * PAGE) &&
		    write(ready[1], "", 1) == 1)
			pause();
		_exit(1);
	}
	close(ready[1]);
	assert_int_equal(read(ready[0], &go, 1), 1);
	close(ready[0]);
	return 0;
}

static int end(void **state)
{
	(void)state;
	kill(child.pid, SIGKILL);
	waitpid(child.pid, NULL, 0);
	munmap(child.mapped, PAGES * PAGE);
	munmap(child.nothing - PAGE, (PAGES + 2) * PAGE);
	munmap(child.shared - PAGE, (PAGES + 2) * PAGE);
	munmap(child.border - PAGE, (PAGES + 2) * PAGE);
	close(child.file);
	return 0;
}

static uint64_t present(const uint8_t *pages)
{
	uint64_t bytes = 1;

	assert_int_equal(limpet_pages_count(target_of(child.pid), (uint64_t)(uintptr_t)pages,
					    PAGES * PAGE, &bytes, NULL),
			 0);
	return bytes;
}

static void test_a_run_of_pages(void **state)
{
	LIMPET_CLOSE int pagemap = limpet_pagemap_open(child.pid);
	const uint64_t start = (uint64_t)(uintptr_t)child.nothing;
	bool exist = true;

	(void)state;
	assert_true(pagemap >= 0);
	assert_int_equal(limpet_pagemap_run(pagemap, start + 10, PAGES * PAGE - 10, &exist),
			 5 * PAGE - 10);
	assert_false(exist);
	assert_int_equal(limpet_pagemap_run(pagemap, start + 5 * PAGE, PAGES * PAGE, &exist), PAGE);
	assert_true(exist);
	assert_int_equal(limpet_pagemap_run(pagemap, start + 6 * PAGE, 7, &exist), 7);
	assert_false(exist);
	assert_true(limpet_pagemap_run(-1, start, 1, &exist) < 0);
}

/* Pages of a stack, or of what lies above it, that were never touched read as zeros, and are not
 * touched; a gap, a file or shared memory ends it. Without maps all is read. */
static void test_stacks(void **state)
{
	const size_t below = 4 * PAGE;
	const uint64_t start = (uint64_t)(uintptr_t)child.nothing;
	struct limpet_stack_maps maps;
	uint8_t *copy = malloc(2 * PAGES * PAGE);

	(void)state;
	assert_non_null(copy);
	limpet_stack_maps_read(child.pid, &maps);
	assert_true(maps.maps.count && maps.pagemap >= 0);
	memset(copy, 99, 2 * PAGES * PAGE);
	/* The mapping before it is 'nothing' up to its fourth page: it is split there. */
	assert_int_equal(
		limpet_stack_read(child.pid, &maps, start + below - 16, copy, 2 * PAGES * PAGE),
		(PAGES - 4) * PAGE + 16);
	for (size_t i = 0; i < (PAGES - 4) * PAGE + 16; i++)
		assert_int_equal(copy[i], i == 16 + PAGE ? 201 : 0);
	/* Page 5 was written to. */
	assert_int_equal(present(child.nothing), PAGE);
	assert_int_equal(limpet_stack_read(child.pid, &maps, 16, copy, PAGE), -EFAULT);
	assert_int_equal(limpet_stack_read(child.pid, NULL, start, copy, 3 * PAGE), 3 * PAGE);
	assert_int_equal(limpet_stack_read(child.pid, &maps, (uint64_t)(uintptr_t)child.shared,
					   copy, PAGES * PAGE),
			 4 * PAGE);
	/* What is shared need not be in the page tables. */
	for (size_t i = 0; i < 4 * PAGE; i++)
		assert_int_equal(copy[i], 7);
	assert_int_equal(limpet_stack_read(child.pid, &maps,
					   (uint64_t)(uintptr_t)child.border + PAGE, copy,
					   PAGES * PAGE),
			 3 * PAGE);
	/* Only what is in the mapping of the stack pointer. */
	assert_int_equal(present(child.border), 0);
	limpet_stack_maps_done(&maps);
	free(copy);
}

/* All of the file, whole and in pieces, and nothing of it comes in. */
static void test_memory_of_a_module(void **state)
{
	struct limpet_maps maps;
	struct limpet_module_memory *memory;
	const struct limpet_map *map;
	struct limpet_module module = {0};
	uint8_t *copy = calloc(PAGES, PAGE);
	uint64_t before;

	(void)state;
	assert_non_null(copy);
	assert_int_equal(limpet_proc_maps_read(child.pid, &maps), 0);
	map = limpet_proc_maps_find(&maps, (uint64_t)(uintptr_t)child.mapped);
	assert_non_null(map);
	younger_s = 60;
	memory = limpet_module_memory_new(target_of(child.pid), &maps);
	assert_non_null(memory);
	module = (struct limpet_module){.path = map->path,
					.start = map->start,
					.end = map->end,
					.map_start = map->start,
					.map_end = map->end,
					.dev_major = map->dev_major,
					.dev_minor = map->dev_minor,
					.inode = map->inode,
					.memory = memory};
	before = present(child.mapped);
	assert_in_range(before, 2 * PAGE, PAGES / 2 * PAGE);
	assert_int_equal(
		limpet_module_read(target_of(child.pid), &module, map->start, copy, PAGES * PAGE),
		0);
	for (size_t i = 0; i < PAGES * PAGE; i++)
		assert_int_equal(copy[i], i >= FILE_BYTES ? 0 : i == 4 * PAGE ? 200 : of_file(i));
	memset(copy, 99, PAGES * PAGE);
	for (size_t at = 1; at + 3000 <= PAGES * PAGE; at += 3000)
		assert_int_equal(limpet_module_read_some(target_of(child.pid), &module,
							 map->start + at, copy + at, 3000),
				 3000);
	for (size_t i = 1; i < FILE_BYTES; i++)
		assert_int_equal(copy[i], i == 4 * PAGE ? 200 : of_file(i));
	assert_int_equal(
		limpet_module_memory_read_map(memory, map, copy, (size_t)(map->end - map->start)),
		PAGES * PAGE);
	assert_int_equal(present(child.mapped), before);
	limpet_module_memory_free(memory);
	/* A file that was changed since the process started need not be what is mapped. */
	younger_s = 0;
	module.memory = memory = limpet_module_memory_new(target_of(child.pid), &maps);
	assert_non_null(memory);
	assert_int_equal(
		limpet_module_read(target_of(child.pid), &module, map->start, copy, PAGES * PAGE),
		0);
	for (size_t i = 0; i < FILE_BYTES; i++)
		assert_int_equal(copy[i], i == 4 * PAGE ? 200 : of_file(i));
	assert_int_equal(present(child.mapped), PAGES * PAGE);
	limpet_module_memory_free(memory);
	limpet_proc_maps_done(&maps);
	free(copy);
}

/* A file that is shorter by now, and one that cannot be opened: as the process would read it. */
static void test_without_the_file(void **state)
{
	const uint64_t start = (uint64_t)(uintptr_t)child.mapped;
	struct limpet_maps maps;
	struct limpet_module_memory *memory;
	struct limpet_module module = {.path = (char *)"/no/such/file",
				       .start = start,
				       .end = start + PAGES * PAGE,
				       .map_start = start,
				       .map_end = start + PAGE};
	uint8_t byte = 0, two[2 * PAGE];

	(void)state;
	assert_int_equal(limpet_proc_maps_read(child.pid, &maps), 0);
	memory = limpet_module_memory_new(target_of(child.pid), &maps);
	assert_non_null(memory);
	module.memory = memory;
	assert_int_equal(
		limpet_module_read(target_of(child.pid), &module, start + 9 * PAGE, &byte, 1), 0);
	assert_int_equal(byte, of_file(9 * PAGE));
	assert_int_equal(ftruncate(child.file, 10 * PAGE), 0);
	assert_int_equal(limpet_module_read_some(target_of(child.pid), &module, start + 9 * PAGE,
						 two, sizeof(two)),
			 PAGE);
	assert_int_equal(
		limpet_module_read(target_of(child.pid), &module, start + 20 * PAGE, &byte, 1),
		-EFAULT);
	limpet_module_memory_free(memory);
	limpet_proc_maps_done(&maps);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(test_a_run_of_pages, begin, end),
		cmocka_unit_test_setup_teardown(test_stacks, begin, end),
		cmocka_unit_test_setup_teardown(test_memory_of_a_module, begin, end),
		cmocka_unit_test_setup_teardown(test_without_the_file, begin, end),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
