/* Walks of this very process against libunwind and glibc's backtrace(): unusual frames, threads,
 * coroutines, handlers, code without rows, and a module that came later. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#define UNW_LOCAL_ONLY
#include <dlfcn.h>
#include <libunwind.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <ucontext.h>

#include "test/unit/walk_fixture.h"

PLAIN static void use(volatile char *bytes)
{
	bytes[0] = 1;
	compare();
	KEEP();
}

PLAIN static void with_alloca(unsigned bytes)
{
	use(__builtin_alloca(bytes));
	KEEP();
}

PLAIN static void with_alignment(unsigned depth)
{
	volatile char block[192] __attribute__((aligned(64)));

	if (depth)
		with_alignment(depth - 1);
	else
		use(block);
	KEEP();
}

/* Arguments on the stack, a realigned frame and alloca: GCC then keeps the CFA in memory. */
PLAIN static long with_all(long a, long b, long c, long d, long e, long f, long g, unsigned bytes)
{
	volatile char block[64] __attribute__((aligned(64)));

	block[0] = (char)a;
	use(__builtin_alloca(bytes));
	KEEP();
	return a + b + c + d + e + f + g + block[0];
}

PLAIN static int compare_in_qsort(const void *a, const void *b)
{
	if (!compared)
		compare();
	return *(const int *)a - *(const int *)b;
}

static void test_walk_here(void **state)
{
	(void)state;
	compare();
	assert_int_equal(compared, 1);
}

static void test_walk_unusual_frames(void **state)
{
	(void)state;
	int list[3] = {3, 1, 2};

	with_alloca(100);
	with_alloca(70000);
	with_alignment(0);
	with_alignment(3);
	with_all(1, 2, 3, 4, 5, 6, 7, 100);
	assert_int_equal(compared, 5);
	compared = 0;
	qsort(list, 3, sizeof(list[0]), compare_in_qsort);
	assert_int_equal(compared, 1);
}

PLAIN static unsigned recurse(unsigned depth, struct walk *walk)
{
	unsigned result;

	if (depth == 0) {
		walk_from(HERE(), walk);
		return 0;
	}
	result = recurse(depth - 1, walk);
	KEEP();
	return result + 1;
}

static void test_walk_is_cut_at_its_depth(void **state)
{
	(void)state;
	struct walk walk, whole;

	assert_int_equal(recurse(5000, &walk), 5000);
	assert_int_equal(walk.end, LIMPET_WALK_DEPTH);
	assert_int_equal(walk.count, MAX_DEPTH);
	assert_int_equal(recurse(3, &whole), 3);
	assert_int_equal(whole.end, LIMPET_WALK_COMPLETE);
	/* exactly as many as there are: whole; one less: cut */
	for (uint32_t less = 0; less < 2; less++) {
		struct limpet_walk_frame frame = HERE();
		enum limpet_walk_end end;
		uint64_t pcs[MAX_DEPTH];
		uint32_t count;

		walk_from(frame, &walk);
		count = limpet_walk(
			&process.map, NULL, limpet_walk_read_ranges, &stack, frame,
			&(struct limpet_walk_result){pcs, walk.count - less, &end, NULL});
		assert_int_equal(count, walk.count - less);
		assert_int_equal(end, less ? LIMPET_WALK_DEPTH : LIMPET_WALK_COMPLETE);
	}
}

static void test_walk_is_cut_where_memory_ends(void **state)
{
	(void)state;
	struct limpet_walk_frame frame = HERE();
	struct limpet_walk_ranges part = stack;
	enum limpet_walk_end end;
	uint64_t pcs[MAX_DEPTH];
	struct walk whole;
	uint32_t count, last = 0;

	walk_from(frame, &whole);
	for (part.high[0] = frame.sp; part.high[0] < frame.sp + 4096; part.high[0] += 8) {
		count = limpet_walk(&process.map, NULL, limpet_walk_read_ranges, &part, frame,
				    &(struct limpet_walk_result){pcs, MAX_DEPTH, &end, NULL});
		assert_true(count >= last && count <= whole.count);
		assert_memory_equal(pcs, whole.pcs, count * sizeof(pcs[0]));
		if (count < whole.count)
			assert_int_equal(end, LIMPET_WALK_UNREADABLE);
		last = count;
	}
}

static void *thread_main(void *unused)
{
	struct limpet_walk_ranges main_stack = stack;

	(void)unused;
	fixture_stack(&stack.low[0], &stack.high[0]);
	with_alloca(10);
	stack = main_stack;
	return NULL;
}

static void test_walk_of_a_thread(void **state)
{
	(void)state;
	pthread_t thread;

	assert_int_equal(pthread_create(&thread, NULL, thread_main, NULL), 0);
	assert_int_equal(pthread_join(thread, NULL), 0);
	assert_int_equal(compared, 1);
}

static ucontext_t back, coroutine;

static void coroutine_main(void)
{
	struct walk walk;
	void *theirs[MAX_DEPTH];
	int count = unw_backtrace(theirs, MAX_DEPTH);

	walk_from(HERE(), &walk);
	assert_int_equal(walk.end, LIMPET_WALK_COMPLETE);
	/* this function and its root; libunwind may go on into what is no frame */
	assert_int_equal(walk.count, 2);
	assert_true(count >= 2 && (uint64_t)(uintptr_t)theirs[1] == walk.pcs[1]);
	compared++;
	swapcontext(&coroutine, &back);
}

static void test_walk_of_a_coroutine(void **state)
{
	(void)state;
	size_t bytes = 256 * 1024;
	uint8_t *memory = malloc(bytes);

	assert_non_null(memory);
	stack.low[1] = (uint64_t)(uintptr_t)memory;
	stack.high[1] = stack.low[1] + bytes;
	assert_int_equal(getcontext(&coroutine), 0);
	coroutine.uc_stack.ss_sp = memory;
	coroutine.uc_stack.ss_size = bytes;
	coroutine.uc_link = &back;
	makecontext(&coroutine, coroutine_main, 0);
	assert_int_equal(swapcontext(&back, &coroutine), 0);
	assert_int_equal(compared, 1);
	free(memory);
}

static void compare_in_handler(int signal)
{
	(void)signal;
	compare();
}

static void test_walk_in_a_signal_handler(void **state)
{
	(void)state;
	size_t bytes = 256 * 1024;
	uint8_t *memory = malloc(bytes);
	stack_t alternate = {.ss_sp = memory, .ss_size = bytes}, old;
	struct sigaction action = {.sa_handler = compare_in_handler}, old_action;

	assert_non_null(memory);
	assert_int_equal(sigaltstack(&alternate, &old), 0);
	assert_int_equal(sigaction(SIGUSR1, &action, &old_action), 0);
	raise(SIGUSR1);
	assert_int_equal(compared, 1);
	action.sa_flags = SA_ONSTACK;
	assert_int_equal(sigaction(SIGUSR1, &action, NULL), 0);
	stack.low[1] = (uint64_t)(uintptr_t)memory;
	stack.high[1] = stack.low[1] + bytes;
	raise(SIGUSR1);
	assert_int_equal(compared, 2);
	assert_int_equal(sigaction(SIGUSR1, &old_action, NULL), 0);
	assert_int_equal(sigaltstack(&old, NULL), 0);
	free(memory);
}

/* ------------------------------------------------------------------ code without rows */

static uint64_t jit_pc;

static void walk_through_jit(void)
{
	struct walk walk;
	uint32_t at = 0;

	walk_from(HERE(), &walk);
	assert_int_equal(walk.end, LIMPET_WALK_COMPLETE);
	while (at < walk.count && walk.pcs[at] != jit_pc)
		at++;
	assert_int_equal(at, 1);
	compared = walk.count;
}

static void test_walk_through_jit_code(void **state)
{
	(void)state;
	/* push %rbp; mov %rsp,%rbp; sub $48,%rsp; call *%rdi; leave; ret */
	static const uint8_t code[] = {0x55, 0x48, 0x89, 0xe5, 0x48, 0x83,
				       0xec, 0x30, 0xff, 0xd7, 0xc9, 0xc3};
	uint8_t *page =
		mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	void (*jit)(void (*)(void));
	struct walk walk;

	assert_ptr_not_equal(page, MAP_FAILED);
	memcpy(page, code, sizeof(code));
	assert_int_equal(mprotect(page, 4096, PROT_READ | PROT_EXEC), 0);
	jit_pc = (uint64_t)(uintptr_t)page + 10;
	memcpy(&jit, &page, sizeof(jit));
	jit(walk_through_jit);
	walk_from(HERE(), &walk);
	/* the two frames inside, and all those of here */
	assert_int_equal(compared, walk.count + 2);
	munmap(page, 4096);
}

/* ------------------------------------------------------------------ C++, and a module that came
 * later */

static const char throw_source[] =
	"#include <stdexcept>\n"
	"#include <unwind.h>\n"
	"static void (*probe)();\n"
	"static bool probed;\n"
	"struct guard { volatile char room[100]; ~guard() { room[0] = 1; probe(); } };\n"
	"__attribute__((noinline)) static void thrower(int n) {\n"
	"	guard g;\n"
	"	if (n) thrower(n - 1);\n"
	"	else throw std::runtime_error(\"x\");\n"
	"}\n"
	"static _Unwind_Reason_Code trace(struct _Unwind_Context *, void *) {\n"
	"	if (!probed) { probed = true; probe(); }\n"
	"	return _URC_NO_REASON;\n"
	"}\n"
	"extern \"C\" int run(void (*f)()) {\n"
	"	probe = f;\n"
	"	probed = false;\n"
	"	_Unwind_Backtrace(trace, nullptr);\n"
	"	try { thrower(2); } catch (const std::exception &) { probe(); return 1; }\n"
	"	return 0;\n"
	"}\n";

static char directory[] = "/tmp/limpet-walk-XXXXXX";

static int make_directory(void **state)
{
	return mkdtemp(directory) ? walk_setup(state) : -1;
}

static int remove_directory(void **state)
{
	char command[128];

	(void)state;
	snprintf(command, sizeof(command), "rm -r %s", directory);
	return system(command);
}

static void test_walk_while_an_exception_unwinds(void **state)
{
	(void)state;
	char command[512], path[128];
	struct fixture_process with_library;
	struct limpet_walk_map old = process.map;
	int (*run)(void (*)(void));
	uint32_t later = 0;
	void *library, *symbol;
	FILE *source;

	snprintf(path, sizeof(path), "%s/throw.cc", directory);
	source = fopen(path, "we");
	assert_non_null(source);
	assert_true(fputs(throw_source, source) >= 0);
	assert_int_equal(fclose(source), 0);
	snprintf(command, sizeof(command),
		 "c++ -O2 -fomit-frame-pointer -shared -fPIC -o %s/throw.so %s/throw.cc", directory,
		 directory);
	assert_int_equal(system(command), 0);
	snprintf(path, sizeof(path), "%s/throw.so", directory);
	library = dlopen(path, RTLD_NOW);
	assert_non_null(library);
	symbol = dlsym(library, "run");
	memcpy(&run, &symbol, sizeof(run));
	assert_non_null(run);

	/* Those that were there stay sorted; the new ones (libstdc++, too) are appended. */
	fixture_process_init(&with_library);
	for (uint32_t i = 0; i < with_library.map.count; i++) {
		uint32_t at = 0;

		while (at < old.count && old.modules[at].start != with_library.modules[i].start)
			at++;
		later += at == old.count;
	}
	assert_true(later >= 1);
	process.map = with_library.map;
	for (uint32_t kept = 0, i = 0; i < with_library.map.count; i++) {
		struct limpet_unwind_module module = with_library.modules[i];
		uint32_t at = 0;

		while (at < old.count && old.modules[at].start != module.start)
			at++;
		if (at == old.count)
			continue;
		with_library.modules[i] = with_library.modules[kept];
		with_library.modules[kept++] = module;
	}
	process.map.sorted = old.count;

	assert_int_equal(run(compare), 1);
	assert_int_equal(compared,
			 5); /* in _Unwind_Backtrace, three destructors, the catch block */

	process.map = old;
	fixture_process_done(&with_library);
	dlclose(library);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup(test_walk_here, walk_setup),
		cmocka_unit_test_setup(test_walk_unusual_frames, walk_setup),
		cmocka_unit_test_setup(test_walk_is_cut_at_its_depth, walk_setup),
		cmocka_unit_test_setup(test_walk_is_cut_where_memory_ends, walk_setup),
		cmocka_unit_test_setup(test_walk_of_a_thread, walk_setup),
		cmocka_unit_test_setup(test_walk_of_a_coroutine, walk_setup),
		cmocka_unit_test_setup(test_walk_in_a_signal_handler, walk_setup),
		cmocka_unit_test_setup(test_walk_through_jit_code, walk_setup),
		cmocka_unit_test_setup_teardown(test_walk_while_an_exception_unwinds,
						make_directory, remove_directory),
	};

	return cmocka_run_group_tests(tests, walk_group_begin, walk_group_end);
}
