/* The resident pages of live blocks, of which this process itself has some. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <errno.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <unistd.h>

#include "collector/capture/resident_pages.h"
#include "common/clock.h"
#include "common/wire.h"
#include "test/unit/trace_fixture.h"

#define PAGE 4096u
#define PAGES 1000u

static char *mapped;
static struct limpet_target target;

static int setup(void **state)
{
	prctl(PR_SET_THP_DISABLE, 1, 0, 0, 0);
	mapped = mmap(NULL, (size_t)PAGES * PAGE, PROT_READ | PROT_WRITE,
		      MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	return mapped == MAP_FAILED || limpet_target_open(getpid(), &target, NULL)
		       ? -1
		       : trace_enter_directory(state);
}

static uint64_t page(uint64_t number)
{
	return (uint64_t)(uintptr_t)mapped + number * PAGE;
}

/* Blocks as pairs of first and last page. */
static struct limpet_recorder *record(const char *path, const unsigned (*blocks)[2], size_t count)
{
	struct limpet_recorder_options options = trace_options(path);
	struct limpet_recorder *recorder = trace_record(&options);

	for (size_t i = 0; i < count; i++) {
		const struct limpet_record record = {
			.time_ns = SECOND / 2,
			.address = page(blocks[i][0]) + 100,
			.size = (uint64_t)(blocks[i][1] - blocks[i][0]) * PAGE + 50,
			.thread = 1,
			.kind = LIMPET_EVENT_ALLOC};

		assert_true(limpet_recorder_add_event(recorder, &record) >= 0);
	}
	return recorder;
}

static void touch(unsigned from, unsigned to)
{
	for (unsigned i = from; i <= to; i++)
		mapped[(size_t)i * PAGE + 5] = 1;
}

static bool is_resident(const struct limpet_recorder_resident *resident, unsigned number)
{
	for (size_t i = 0; i < resident->count; i++)
		if (page(number) >= resident->runs[i].start && page(number) < resident->runs[i].end)
			return true;
	return false;
}

static void test_pages_of_blocks(void **state)
{
	/* Near each other, far from each other, and one of many pages; not in order. */
	static const unsigned blocks[][2] = {
		{500, 700}, {10, 10}, {12, 14}, {200, 200}, {201, 201}};
	struct limpet_recorder *recorder = record("pages", blocks, LIMPET_COUNT_OF(blocks));
	struct limpet_resident_pages pages = {.target = &target, .deadline_ns = UINT64_MAX};
	struct limpet_recorder_resident resident = {0};
	const struct limpet_recorder_tick tick = {.time_ns = SECOND};

	(void)state;
	touch(10, 10);
	touch(13, 13);
	touch(201, 201);
	touch(550, 560);
	assert_int_equal(limpet_resident_pages_read(&pages, recorder, &resident), 0);
	assert_int_equal(resident.from, page(10));
	assert_int_equal(resident.to, page(701));
	assert_int_equal(resident.page_bytes, PAGE);
	for (unsigned i = 0; i < PAGES; i++)
		if (is_resident(&resident, i) !=
		    (i == 10 || i == 13 || i == 201 || (i >= 550 && i <= 560)))
			fail_msg("page %u", i);
	/* The blocks are still there to be written. */
	trace_finish(recorder, &tick);
	assert_int_equal(trace_count_blocks("pages", LIMPET_TRACE_LIVE), 1);
	limpet_resident_pages_done(&pages);
}

static void test_no_time(void **state)
{
	static const unsigned blocks[][2] = {{10, 10}, {900, 900}};
	struct limpet_recorder *recorder = record("late", blocks, 2);
	struct limpet_resident_pages pages = {.target = &target, .deadline_ns = 0};
	struct limpet_recorder_resident resident = {0};

	(void)state;
	assert_int_equal(limpet_resident_pages_read(&pages, recorder, &resident), -ENODATA);
	limpet_recorder_free(recorder);
	limpet_resident_pages_done(&pages);
}

static void test_another_program(void **state)
{
	static const unsigned blocks[][2] = {{10, 10}};
	struct limpet_recorder *recorder = record("other", blocks, 1);
	struct limpet_target before = target;
	struct limpet_resident_pages pages = {.target = &before, .deadline_ns = UINT64_MAX};
	struct limpet_recorder_resident resident = {0};

	(void)state;
	before.mark[0] ^= 1;
	before.memory_fd = -1; /* else it is seen that its memory is the same */
	assert_int_equal(limpet_resident_pages_read(&pages, recorder, &resident), -ESRCH);
	limpet_recorder_free(recorder);
	limpet_resident_pages_done(&pages);
}

static void test_no_blocks(void **state)
{
	struct limpet_recorder *recorder = record("none", NULL, 0);
	struct limpet_resident_pages pages = {.target = &target, .deadline_ns = UINT64_MAX};
	struct limpet_recorder_resident resident = {0};

	(void)state;
	assert_int_equal(limpet_resident_pages_read(&pages, recorder, &resident), -ENODATA);
	limpet_recorder_free(recorder);
	limpet_resident_pages_done(&pages);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_pages_of_blocks),
		cmocka_unit_test(test_no_time),
		cmocka_unit_test(test_another_program),
		cmocka_unit_test(test_no_blocks),
	};

	return cmocka_run_group_tests(tests, setup, trace_leave_directory);
}
