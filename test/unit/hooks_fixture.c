#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "agent/record.h"
#include "common/err.h"
#include "test/unit/hooks_fixture.h"

struct agent_fixture fixture;

struct fixture_stack stack;

const uint64_t plain_stack[PLAIN_FRAMES] = {0x401111, 0x402222, 0x403333};

uint32_t own_tid(void)
{
	return (uint32_t)limpet_syscall1(SYS_gettid, 0);
}

struct limpet_thread *own_thread(void)
{
	return fixture_thread(&fixture, fixture_thread_of(&fixture, own_tid()));
}

struct limpet_own *own_private(void)
{
	return limpet_own(&limpet_hot.threads[fixture_thread_of(&fixture, own_tid())]);
}

/* Of the test, that were looked at. */
static size_t records_before;

int hooks_begin_small(void **state)
{
	(void)state;
	agent_fixture_begin(&fixture, 8u << 20, NULL);
	records_before = 0;
	fixture_stack_build(&stack, plain_stack, PLAIN_FRAMES);
	return 0;
}

int hooks_begin_large(void **state)
{
	(void)state;
	agent_fixture_begin(&fixture, 32u << 20, NULL);
	records_before = 0;
	fixture_stack_build(&stack, plain_stack, PLAIN_FRAMES);
	return 0;
}

int hooks_end(void **state)
{
	(void)state;
	agent_fixture_end(&fixture);
	return 0;
}

size_t own_records(struct fixture_record **ret_records)
{
	return fixture_records(&fixture, fixture_thread_of(&fixture, own_tid()), ret_records);
}

void assert_outside(const struct limpet_thread *thread)
{
	assert_int_equal(thread->depth, 0);
	assert_int_equal(thread->intent, 0);
	assert_int_equal(thread->held_intent, 0);
	assert_int_equal(thread->phase, LIMPET_PHASE_OUTSIDE);
}

__attribute__((format(printf, 1, 2))) static const char *complain(const char *format, ...)
{
	static char text[256];
	va_list args;

	va_start(args, format);
	vsnprintf(text, sizeof(text), format, args);
	va_end(args);
	return text;
}

const char *hooks_complaint(const struct hooks_event *expected, size_t count)
{
	LIMPET_FREE struct fixture_record *records = NULL;
	size_t all = own_records(&records), first;

	first = records_before;
	records_before = all;
	if (all - first != count)
		return complain("%zu events, not %zu", all - first, count);
	for (size_t i = 0; i < count; i++) {
		const struct fixture_record *record = &records[first + i];
		const uint32_t type = record->type | (record->realloc ? LIMPET_EVENT_REALLOC : 0);
		const uint32_t kind = expected[i].type & ~LIMPET_EVENT_REALLOC;
		const bool has_stack = kind == LIMPET_EVENT_ALLOC || kind == LIMPET_EVENT_MMAP;

		if (type != expected[i].type || record->address != expected[i].address ||
		    record->size != expected[i].size ||
		    record->wide != (expected[i].size > UINT32_MAX))
			return complain("event %zu: type %u, address %#lx, size %#lx, wide %d", i,
					type, (long)record->address, (long)record->size,
					record->wide);
		if ((record->node != 0) != has_stack)
			return complain("event %zu: node %u", i, record->node);
		if (record->tid != own_tid())
			return complain("event %zu: of thread %u", i, record->tid);
		if (first + i && record->address == records[first + i - 1].address &&
		    record->type <= LIMPET_EVENT_FREE &&
		    record->number <= records[first + i - 1].number)
			return complain("event %zu: before the one before it", i);
	}
	assert_outside(own_thread());
	return NULL;
}

void hooks_assert_recorded(const struct hooks_event *expected, size_t count)
{
	const char *complaint = hooks_complaint(expected, count);

	if (complaint)
		fail_msg("%s", complaint);
}

uint32_t measure_tid_offset(void)
{
	const uint32_t *words = (const uint32_t *)(uintptr_t)limpet_thread_pointer();

	for (uint32_t i = 1; i < 400; i++)
		if (words[i] == own_tid())
			return i * 4;
	fail_msg("libc keeps no thread number");
	return 0;
}

void take_all_chunks(void)
{
	memset(fixture_chunk_map(&fixture), 0, fixture.shm->layout.chunk_count / 8);
}

void give_chunk(uint32_t index)
{
	__atomic_fetch_or(&fixture_chunk_map(&fixture)[(index - 1) / 64],
			  1ull << ((index - 1) % 64), __ATOMIC_RELEASE);
}
