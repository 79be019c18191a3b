/* Frames of signal handlers on a stack: this program looks for its own, from within a handler. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <signal.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <ucontext.h>
#include <unistd.h>

#include "injector/ptrace/signal_frame.h"

static uint8_t room[LIMPET_SIGNAL_STACK_BYTES];

/* What was found in the handler, whose frame lies between. */
static struct {
	uint64_t pc;
	bool below, misaligned, elsewhere, above;
} seen;

static bool is_interrupted(const void *context, uint64_t pc)
{
	return pc == *(const uint64_t *)context;
}

static bool goes_back(uint64_t sp, uint64_t pc)
{
	struct limpet_stack_maps maps;
	const bool by_itself =
		limpet_signal_goes_back(getpid(), NULL, sp, room, is_interrupted, &pc);
	bool by_maps;

	limpet_stack_maps_read(getpid(), &maps);
	by_maps = limpet_signal_goes_back(getpid(), &maps, sp, room, is_interrupted, &pc);
	limpet_stack_maps_done(&maps);
	assert_int_equal(by_maps, by_itself);
	return by_itself;
}

static void look_from_handler(int number, siginfo_t *info, void *context)
{
	const ucontext_t *frame = context;
	/* As large as any. */
	uint8_t local[1 << 20];
	uint64_t sp = (uint64_t)(uintptr_t)local & ~UINT64_C(7);

	(void)number;
	(void)info;
	__asm__ volatile("" : : "r"(local) : "memory");
	seen.pc = (uint64_t)frame->uc_mcontext.gregs[REG_RIP];
	seen.below = goes_back(sp, seen.pc);
	seen.misaligned = goes_back(sp + 3, seen.pc);
	seen.elsewhere = goes_back(sp, (uint64_t)(uintptr_t)look_from_handler);
	seen.above = goes_back((uint64_t)frame->uc_mcontext.gregs[REG_RSP], seen.pc);
}

static void test_frames_are_found(void **state)
{
	const struct sigaction action = {.sa_sigaction = look_from_handler, .sa_flags = SA_SIGINFO};

	(void)state;
	assert_int_equal(sigaction(SIGUSR1, &action, NULL), 0);
	raise(SIGUSR1);
	assert_true(seen.pc);
	assert_true(seen.below);
	/* Wherever the program has left its stack pointer. */
	assert_true(seen.misaligned);
	assert_false(seen.elsewhere);
	assert_false(seen.above);
}

static void test_what_cannot_be_read_may_be_one(void **state)
{
	const size_t bytes = 4096;
	uint8_t *page = mmap(NULL, bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	(void)state;
	assert_true(page != MAP_FAILED);
	assert_true(goes_back((uint64_t)(uintptr_t)page, 1));
	assert_true(goes_back(0, 1));
	munmap(page, bytes);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_frames_are_found),
		cmocka_unit_test(test_what_cannot_be_read_may_be_one),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
