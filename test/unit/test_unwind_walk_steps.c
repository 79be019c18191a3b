/* Walks from every single instruction against what is known to be the truth, and through nonsense.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <ucontext.h>

#include "test/unit/walk_fixture.h"

static struct walk truth; /* the callers of the function that is being stepped through */
static unsigned steps, wrong;

__attribute__((noinline)) static void check_step(int signal, siginfo_t *info, void *context)
{
	const greg_t *registers = ((ucontext_t *)context)->uc_mcontext.gregs;
	struct limpet_walk_frame frame = {
		.pc = (uint64_t)registers[REG_RIP],
		.sp = (uint64_t)registers[REG_RSP],
		.fp = (uint64_t)registers[REG_RBP],
		.flags = LIMPET_FRAME_EXACT,
	};
	static struct walk from_registers, from_here;
	uint32_t tail = truth.count - 1, at = 0;

	(void)signal;
	(void)info;
	steps++;
	walk_from(frame, &from_registers);
	/* The same through the handler's own frame and the kernel's. */
	walk_from(HERE(), &from_here);
	while (at < from_here.count && from_here.pcs[at] != frame.pc + 1)
		at++;
	if (from_registers.end != LIMPET_WALK_COMPLETE || from_registers.count < tail ||
	    memcmp(from_registers.pcs + from_registers.count - tail, truth.pcs + 1,
		   tail * sizeof(truth.pcs[0])) != 0 ||
	    from_here.end != LIMPET_WALK_COMPLETE || from_here.count - at != from_registers.count ||
	    memcmp(from_here.pcs + at, from_registers.pcs,
		   from_registers.count * sizeof(truth.pcs[0])) != 0) {
		if (wrong++ < 5)
			fprintf(stderr, "# wrong at %#lx: end %d, %u frames\n", (long)frame.pc,
				from_registers.end, from_registers.count);
	}
}

PLAIN static int compare_ints(const void *a, const void *b)
{
	return *(const int *)a - *(const int *)b;
}

PLAIN static long leaf(long a, long b)
{
	volatile char block[64] __attribute__((aligned(64)));

	block[0] = (char)a;
	return a * b + block[0];
}

PLAIN static void stepped(void)
{
	int list[6] = {5, 2, 6, 1, 3, 4};
	struct timespec now;
	char text[64];
	void *block;

	qsort(list, 6, sizeof(list[0]), compare_ints);
	snprintf(text, sizeof(text), "%d %s %.3f", list[3], "words", 3.25);
	block = malloc((size_t)leaf(70, 3));
	memset(block, 1, 200);
	block = realloc(block, 100000);
	free(block);
	clock_gettime(CLOCK_MONOTONIC, &now); /* in the vDSO */
	KEEP();
}

/* The function whose callers are the truth; the trap flag goes up and down inside it. By frame
 * pointer, for the assembly's pushes are in no row. */
BY_FRAME_POINTER static void step_through(void (*function)(void))
{
	walk_from(HERE(), &truth);
	__asm__ volatile("pushfq; orq $0x100, (%%rsp); popfq" ::: "memory", "cc");
	function();
	__asm__ volatile("pushfq; andq $~0x100, (%%rsp); popfq" ::: "memory", "cc");
}

static void test_walk_from_every_instruction(void **state)
{
	(void)state;
	struct sigaction action = {.sa_sigaction = check_step, .sa_flags = SA_SIGINFO}, old;

	assert_int_equal(sigaction(SIGTRAP, &action, &old), 0);
	stepped(); /* symbols are bound */
	steps = wrong = 0;
	step_through(stepped);
	assert_int_equal(sigaction(SIGTRAP, &old, NULL), 0);
	print_message("# %u instructions\n", steps);
	assert_true(steps > 1000);
	assert_int_equal(wrong, 0);
}

/* ------------------------------------------------------------------ nonsense */

struct counted {
	uint64_t seed, reads;
};

/* A reader's memory is read-only; what is counted lies behind it. */
struct nonsense {
	struct counted *counted;
};

static bool read_nonsense(const void *memory, uint64_t address, uint64_t *ret_word)
{
	struct counted *counted = ((const struct nonsense *)memory)->counted;
	const struct limpet_unwind_module *module;

	counted->reads++;
	counted->seed = (counted->seed ^ address) * 0xd6e8feb86659fd93ull + 0x9e3779b97f4a7c15ull;
	module = &process.modules[(counted->seed >> 8) % process.map.count];
	switch (counted->seed >> 60) {
	case 0:
		return false;
	case 1:
		*ret_word = counted->seed;
		return true;
	case 2 ... 5:
		*ret_word = address + (counted->seed >> 50) * 8;
		return true;
	default:
		*ret_word = module->start + (counted->seed >> 20) % (module->end - module->start);
		return true;
	}
}

static void test_nonsense_ends(void **state)
{
	(void)state;
	struct counted counted = {.seed = 1};
	const struct nonsense nonsense = {&counted};
	unsigned ends[LIMPET_WALK_LOST + 1] = {0};
	uint64_t pcs[MAX_DEPTH];
	uint64_t frames = 0;

	for (unsigned round = 0; round < 200000; round++) {
		const struct limpet_unwind_module *module =
			&process.modules[round % process.map.count];
		struct limpet_walk_frame frame = {
			module->start + (uint64_t)round * 977 % (module->end - module->start),
			0x7ffd0000 + round % 3,
			0x7ffd0100 + round % 5,
			round & 1,
			0,
			0};
		enum limpet_walk_end end;
		uint32_t count;

		counted.reads = 0;
		counted.seed += round;
		count = limpet_walk(&process.map, NULL, read_nonsense, &nonsense, frame,
				    &(struct limpet_walk_result){pcs, MAX_DEPTH, &end, NULL});
		assert_true(count >= 1 && count <= MAX_DEPTH);
		assert_true(counted.reads <= 3 * (uint64_t)count);
		assert_true(end > LIMPET_WALK_MORE && end <= LIMPET_WALK_LOST);
		ends[end]++;
		frames += count;
	}
	for (unsigned end = LIMPET_WALK_COMPLETE; end <= LIMPET_WALK_LOST; end++)
		if (end != LIMPET_WALK_DEPTH && end != LIMPET_WALK_DOUBTFUL)
			assert_true(ends[end] > 0);
	assert_true(frames > 200000);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup(test_walk_from_every_instruction, walk_setup),
		cmocka_unit_test_setup(test_nonsense_ends, walk_setup),
	};

	return cmocka_run_group_tests(tests, walk_group_begin, walk_group_end);
}
