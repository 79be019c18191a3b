/* Hooks within hooks: calls of the allocator itself, a signal or a fork in the middle of one. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "agent/patch.h"
#include "common/err.h"
#include "test/unit/hooks_fixture.h"

static void test_inner_calls_do_not_count(void **state)
{
	/* A stack grows down: the allocator's own frames lie below its caller's hook. */
	struct fixture_stack frames[2];
	struct fixture_stack *inner = &frames[0], *outer = &frames[1];

	(void)state;
	fixture_stack_build(inner, plain_stack, 2);
	fixture_stack_build(outer, plain_stack, 3);
	assert_true(fixture_enter(outer, FIXTURE_CALLOC, (const uint64_t[6]){3, 5}));
	assert_false(FIXTURE_CALL(inner, FIXTURE_MALLOC, BLOCK_A, 15));
	assert_false(FIXTURE_CALL(inner, FIXTURE_MMAP, BLOCK_B, 0, 1 << 20));
	assert_false(FIXTURE_CALL(inner, FIXTURE_FREE, 0, BLOCK_B));
	fixture_exit(outer, BLOCK_A);
	RECORDED({LIMPET_EVENT_ALLOC, BLOCK_A, 15});
}

static void publish(struct fixture_stack *frames, unsigned count)
{
	own_thread()->stack_low = (uintptr_t)frames;
	own_thread()->stack_high = (uintptr_t)(frames + count);
}

/* An exception or longjmp left through the original, and the return address that an unfinished hook
 * must have is gone: the next call counts again. */
static void test_a_popped_entry_is_forgotten(void **state)
{
	struct fixture_stack frames[3];

	(void)state;
	for (int i = 0; i < 3; i++)
		fixture_stack_build(&frames[i], plain_stack, 3);
	assert_true(fixture_enter(&frames[0], FIXTURE_REALLOC, (const uint64_t[6]){BLOCK_A, 1}));
	publish(frames, 3);
	frames[0].below[FIXTURE_BELOW - 1] = 0;
	assert_true(FIXTURE_CALL(&frames[1], FIXTURE_MALLOC, BLOCK_B, 2));
	RECORDED({LIMPET_EVENT_ALLOC, BLOCK_B, 2});
	/* Again, with a call just as deep as the one that was left: its frame is over the other's.
	 */
	assert_true(fixture_enter(&frames[1], FIXTURE_MALLOC, (const uint64_t[6]){3}));
	assert_true(FIXTURE_CALL(&frames[1], FIXTURE_MALLOC, BLOCK_B, 4));
	RECORDED({LIMPET_EVENT_ALLOC, BLOCK_B, 4});
	/* But not one that lies below it. */
	assert_true(fixture_enter(&frames[2], FIXTURE_MALLOC, (const uint64_t[6]){5}));
	assert_false(FIXTURE_CALL(&frames[1], FIXTURE_MALLOC, BLOCK_B, 6));
	fixture_exit(&frames[2], BLOCK_A);
	RECORDED({LIMPET_EVENT_ALLOC, BLOCK_A, 5});
	assert_int_equal(fixture.shm->lost_state_in_use, 0);
}

/* A signal handler on a stack above the hook, or a coroutine: its calls pass and are counted, and
 * the hook ends as it should. */
static void test_a_call_from_above_an_unfinished_hook(void **state)
{
	struct fixture_stack frames[2];

	(void)state;
	for (int i = 0; i < 2; i++)
		fixture_stack_build(&frames[i], plain_stack, 3);
	for (unsigned known = 0; known < 2; known++) {
		assert_true(fixture_enter(&frames[0], FIXTURE_MALLOC, (const uint64_t[6]){7}));
		if (known)
			publish(frames, 2);
		assert_false(FIXTURE_CALL(&frames[1], FIXTURE_MALLOC, BLOCK_B, 8));
		assert_false(FIXTURE_CALL(&frames[1], FIXTURE_FREE_UNSIZED, 0, BLOCK_B));
		assert_true(own_thread()->depth);
		assert_int_equal(fixture.shm->lost_state_in_use, 2 * (known + 1));
		fixture_exit(&frames[0], BLOCK_A);
		RECORDED({LIMPET_EVENT_ALLOC, BLOCK_A, 7});
	}
}

/* mmap allocates nothing: a handler does, below it on the same stack or above on its own. */
static void test_a_handler_in_the_middle_of_mmap(void **state)
{
	struct fixture_stack frames[3];

	(void)state;
	for (int i = 0; i < 3; i++)
		fixture_stack_build(&frames[i], plain_stack, 3);
	for (unsigned i = 0; i < 3; i += 2) {
		const uint64_t before = fixture.shm->lost_state_in_use;

		assert_true(
			fixture_enter(&frames[1], FIXTURE_MMAP, (const uint64_t[6]){0, 1 << 20}));
		publish(frames, 3);
		FIXTURE_CALL(&frames[i], FIXTURE_MALLOC, BLOCK_A, 8);
		FIXTURE_CALL(&frames[i], FIXTURE_FREE, 0, BLOCK_A);
		assert_int_equal(fixture.shm->lost_state_in_use, before);
		/* Others are not recorded, but counted. */
		assert_false(FIXTURE_CALL(&frames[i], FIXTURE_CALLOC, BLOCK_A, 2, 4));
		assert_int_equal(fixture.shm->lost_state_in_use, before + 1);
		fixture_exit(&frames[1], BLOCK_B);
		RECORDED({LIMPET_EVENT_ALLOC, BLOCK_A, 8},
			 {LIMPET_EVENT_FREE, BLOCK_A, BLOCK_A & 0xff},
			 {LIMPET_EVENT_MMAP, BLOCK_B, 1 << 20});
	}
}

/* What dlsym allocates for the text of an error belongs to nobody else. */
static void test_what_dlsym_allocates(void **state)
{
	struct fixture_stack frames[2];

	(void)state;
	fixture_stack_build(&frames[0], plain_stack, 3);
	fixture_stack_build(&frames[1], plain_stack, 3);
	limpet_hooks[FIXTURE_LOADER].symbol = (uint16_t)limpet_family_find("dlsym", UINT64_MAX);
	/* A handle that is not one of glibc's special ones. */
	frames[1].hook.args[0] = 8;
	frames[1].hook.args[1] = (uintptr_t) "malloc";
	frames[1].hook.hook = FIXTURE_LOADER;
	assert_true(limpet_hook_enter_loader(&frames[1].hook));
	FIXTURE_CALL(&frames[0], FIXTURE_FREE, 0, BLOCK_A);
	FIXTURE_CALL(&frames[0], FIXTURE_MALLOC, BLOCK_B, 60);
	assert_int_equal(fixture.shm->lost_state_in_use, 0);
	/* Others are not recorded, but counted. */
	assert_false(FIXTURE_CALL(&frames[0], FIXTURE_CALLOC, BLOCK_A, 2, 4));
	assert_int_equal(fixture.shm->lost_state_in_use, 1);
	fixture_exit(&frames[1], 0);
	RECORDED({LIMPET_EVENT_FREE, BLOCK_A, BLOCK_A & 0xff}, {LIMPET_EVENT_ALLOC, BLOCK_B, 60});
}

static struct fixture_stack handler_stack;

static bool handler_recorded;

static uint64_t usable_size_with_a_signal(uint64_t block)
{
	raise(SIGUSR1);
	return block & 0xff;
}

static void allocate_in_handler(int number)
{
	(void)number;
	handler_recorded = FIXTURE_CALL(&handler_stack, FIXTURE_MALLOC, BLOCK_B, 99);
}

/* A handler that allocates while its thread is in the agent: passed through, and counted. */
static void test_a_signal_while_recording(void **state)
{
	struct sigaction action = {.sa_handler = allocate_in_handler}, old;

	(void)state;
	fixture_stack_build(&handler_stack, plain_stack, 3);
	assert_int_equal(sigaction(SIGUSR1, &action, &old), 0);
	fixture.usable_size = usable_size_with_a_signal;
	handler_recorded = true;
	FIXTURE_CALL(&stack, FIXTURE_FREE, 0, BLOCK_A);
	assert_false(handler_recorded);
	assert_int_equal(fixture.shm->lost_state_in_use, 1);
	RECORDED({LIMPET_EVENT_FREE, BLOCK_A, BLOCK_A & 0xff});
	/* Between two calls it is a call like any other. */
	raise(SIGUSR1);
	assert_true(handler_recorded);
	RECORDED({LIMPET_EVENT_ALLOC, BLOCK_B, 99});
	assert_int_equal(fixture.shm->lost_state_in_use, 1);
	sigaction(SIGUSR1, &old, NULL);
}

static void test_the_child_of_a_fork_writes_nothing(void **state)
{
	LIMPET_FREE uint8_t *before = malloc(fixture.segment->shm_bytes);
	int status;
	pid_t pid;

	(void)state;
	assert_non_null(before);
	FIXTURE_CALL(&stack, FIXTURE_MALLOC, BLOCK_A, 1);
	/* In the middle of a call, as a handler or an allocator may fork. */
	assert_true(fixture_enter(&stack, FIXTURE_REALLOC, (const uint64_t[6]){BLOCK_A, 2}));
	memcpy(before, fixture.shm, fixture.segment->shm_bytes);
	pid = fork();
	assert_true(pid >= 0);
	if (!pid) {
		int bad = 0;

		fixture_exit(&stack, BLOCK_B);
		bad |= limpet_control->on || limpet_control->alive;
		for (int i = 0; i < 10; i++) {
			bad |= FIXTURE_CALL(&stack, FIXTURE_MALLOC, BLOCK_A, 3);
			bad |= FIXTURE_CALL(&stack, FIXTURE_FREE, 0, BLOCK_A);
		}
		limpet_patch_on_loader_call(false, false);
		_exit(bad);
	}
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_int_equal(status, 0);
	/* The bell is in there, too. */
	assert_memory_equal(before, fixture.shm, fixture.segment->shm_bytes);
	fixture_exit(&stack, BLOCK_B);
	RECORDED({LIMPET_EVENT_ALLOC, BLOCK_A, 1},
		 {LIMPET_EVENT_FREE | LIMPET_EVENT_REALLOC, BLOCK_A, BLOCK_A & 0xfff},
		 {LIMPET_EVENT_ALLOC | LIMPET_EVENT_REALLOC, BLOCK_B, 2});
}

static void test_switched_off_in_the_middle(void **state)
{
	(void)state;
	assert_true(fixture_enter(&stack, FIXTURE_MALLOC, (const uint64_t[6]){1}));
	((int (*)(void))(uintptr_t)limpet_agent_info.detach)();
	assert_int_equal(limpet_agent_info.state, LIMPET_AGENT_PASSING);
	fixture_exit(&stack, BLOCK_A);
	assert_outside(own_thread());
	assert_false(FIXTURE_CALL(&stack, FIXTURE_MALLOC, BLOCK_A, 2));
	NOTHING();
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		WITH_AGENT(test_inner_calls_do_not_count),
		WITH_AGENT(test_a_popped_entry_is_forgotten),
		WITH_AGENT(test_a_call_from_above_an_unfinished_hook),
		WITH_AGENT(test_a_handler_in_the_middle_of_mmap),
		WITH_AGENT(test_what_dlsym_allocates),
		WITH_AGENT(test_a_signal_while_recording),
		WITH_AGENT(test_the_child_of_a_fork_writes_nothing),
		WITH_AGENT(test_switched_off_in_the_middle),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
