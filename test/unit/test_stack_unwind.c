/* Unwinding of copies, of this very process: known calls, any stack, and damaged unwind
 * information. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdlib.h>
#include <string.h>
#include <ucontext.h>

#include "injector/elf/modules.h"
#include "injector/proc/memory.h"
#include "injector/stacks/stack_scene.h"
#include "injector/stacks/stack_unwind.h"
#include "test/unit/target_of.h"

#define COPY_BYTES 65536u
#define ROUNDS 3000u

static struct limpet_stack_copy copy;

/* As a tracer sees them. */
static void copy_here(void)
{
	static uint8_t room[COPY_BYTES];
	ucontext_t context;
	const greg_t *from = context.uc_mcontext.gregs;
	struct user_regs_struct regs = {0};

	assert_int_equal(getcontext(&context), 0);
	regs.rip = (uint64_t)from[REG_RIP];
	regs.rsp = (uint64_t)from[REG_RSP];
	regs.rbp = (uint64_t)from[REG_RBP];
	regs.rbx = (uint64_t)from[REG_RBX];
	regs.r12 = (uint64_t)from[REG_R12];
	regs.r13 = (uint64_t)from[REG_R13];
	regs.r14 = (uint64_t)from[REG_R14];
	regs.r15 = (uint64_t)from[REG_R15];
	limpet_arch_unwind_registers(&regs, copy.registers);
	copy.stack = room;
	copy.bytes = (size_t)limpet_memory_read_some(getpid(), regs.rsp, room, sizeof(room));
}

__attribute__((noinline, noclone)) static void inner(void)
{
	copy_here();
	__asm__ volatile("" ::: "memory");
}

__attribute__((noinline, noclone)) static void outer(void)
{
	inner();
	__asm__ volatile("" ::: "memory");
}

static struct limpet_modules modules;
static struct limpet_stack_sources sources;
static struct limpet_unwound unwound;

static int group_begin(void **state)
{
	(void)state;
	outer();
	assert_int_equal(limpet_modules_read(target_of(getpid()), &modules, NULL), 0);
	assert_int_equal(limpet_stack_sources_read(&modules, &copy, 1, &sources), 0);
	return 0;
}

static int group_end(void **state)
{
	(void)state;
	limpet_stack_sources_done(&sources);
	limpet_modules_done(&modules);
	return 0;
}

/* The functions are small. */
static bool is_within(uint64_t address, void (*function)(void))
{
	return address - (uintptr_t)function < 4096;
}

static size_t find(void (*function)(void))
{
	size_t at = 0;

	while (at < unwound.count && !is_within(unwound.frames[at].address - 1, function))
		at++;
	return at;
}

static void look_at_chain(void)
{
	assert_int_equal(limpet_stack_unwind(&sources.scene, &copy, &unwound), 0);
	assert_int_equal(unwound.end, LIMPET_WALK_COMPLETE);
	assert_true(find(inner) + 1 < unwound.count);
	assert_int_equal(unwound.frames[0].finder, LIMPET_FOUND_BY_REGISTERS);
}

static void test_both_find_the_same(void **state)
{
	(void)state;
	struct limpet_unwound first;

	look_at_chain();
	assert_int_equal(find(outer), find(inner) + 1);
	assert_int_equal(unwound.frames[1].finder, LIMPET_FOUND_BY_LIBUNWIND);
	first = unwound;
	sources.scene.without_libunwind = true;
	look_at_chain();
	sources.scene.without_libunwind = false;
	assert_int_equal(unwound.count, first.count);
	for (uint32_t i = 0; i < first.count; i++)
		assert_int_equal(unwound.frames[i].address, first.frames[i].address);
	assert_int_equal(unwound.frames[1].finder, LIMPET_FOUND_BY_TABLE);
}

/* Within a module, or within the stack. */
static uint64_t draw(unsigned *seed)
{
	const struct limpet_module *module = &modules.list[(unsigned)rand_r(seed) % modules.count];

	switch (rand_r(seed) % 3) {
	case 0:
		return copy.registers[UNW_TDEP_SP] + (unsigned)rand_r(seed) % copy.bytes;
	case 1:
		return module->text_start +
		       (uint64_t)rand_r(seed) % (module->text_end - module->text_start);
	default:
		return (uint64_t)rand_r(seed) << 32 | (uint64_t)rand_r(seed);
	}
}

static void test_any_stack_ends(void **state)
{
	(void)state;
	static uint8_t stack[COPY_BYTES];
	struct limpet_stack_copy drawn = {.stack = stack, .bytes = copy.bytes};
	unsigned seed = 1;

	for (unsigned round = 0; round < ROUNDS; round++) {
		for (size_t i = 0; i < LIMPET_COUNT_OF(drawn.registers); i++)
			drawn.registers[i] = draw(&seed);
		drawn.registers[UNW_TDEP_SP] = copy.registers[UNW_TDEP_SP];
		for (size_t at = 0; at + 8 <= 4096; at += 8) {
			const uint64_t word = draw(&seed);

			memcpy(stack + at, &word, sizeof(word));
		}
		assert_int_equal(limpet_stack_unwind(&sources.scene, &drawn, &unwound), 0);
		assert_in_range(unwound.count, 1, LIMPET_STACKS_FRAMES);
		assert_in_range(unwound.end, LIMPET_WALK_COMPLETE, LIMPET_WALK_LOST);
	}
}

/* Bytes of .eh_frame_hdr and .eh_frame are changed; libunwind may not read outside of the copies,
 * nor without an end. */
static void test_damaged_information(void **state)
{
	(void)state;
	unsigned seed = 2;

	for (unsigned round = 0; round < ROUNDS; round++) {
		struct limpet_stack_module *module =
			&sources.modules[(unsigned)rand_r(&seed) % sources.scene.module_count];
		uint8_t *byte, kept;

		if (!module->bytes)
			continue;
		byte = &module->data[(unsigned)rand_r(&seed) % module->bytes];
		kept = *byte;
		*byte = (uint8_t)rand_r(&seed);
		assert_int_equal(limpet_stack_unwind(&sources.scene, &copy, &unwound), 0);
		assert_in_range(unwound.count, 1, LIMPET_STACKS_FRAMES);
		*byte = kept;
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_both_find_the_same),
		cmocka_unit_test(test_any_stack_ends),
		cmocka_unit_test(test_damaged_information),
	};

	return cmocka_run_group_tests(tests, group_begin, group_end);
}
