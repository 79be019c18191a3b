/* Moved beginnings of functions, run where they were moved to. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <errno.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "injector/elf/entry_code.h"
#include "injector/elf/nim_code.h"

/* Each: int64_t NAME(int64_t), from NAME to NAME_end. */
#define FUNCTION(name, body)                                                                   \
	__asm__(".text\n.balign 16\n.globl " #name "\n.globl " #name "_end\n" #name ":\n" body \
		"\n" #name "_end:\n.balign 16\n");                                             \
	int64_t name(int64_t);                                                                 \
	extern const uint8_t name##_end[]

int64_t entry_word = 40;

FUNCTION(with_frame, "endbr64\npush %rbp\nmov %rsp, %rbp\nlea 2(%rdi), %rax\npop %rbp\nret");
FUNCTION(with_data, "mov entry_word(%rip), %rax\nadd %rdi, %rax\nret");
FUNCTION(with_store, "addq $1, entry_word(%rip)\nmov entry_word(%rip), %rax\nret");
FUNCTION(with_short_branch, "test %rdi, %rdi\nje 1f\nlea 1(%rdi), %rax\nret\n1: mov $7, %eax\nret");
FUNCTION(with_two_branches, "test %edi, %edi\njs 1f\njz 2f\nmov $1, %eax\nret\n"
			    "1: mov $2, %eax\nret\n2: mov $3, %eax\nret");
FUNCTION(with_near_branch, "cmp $5, %rdi\n.byte 0x0f, 0x84\n.long 1f - . - 4\nmov $1, %eax\nret\n"
			   "1: mov $2, %eax\nret");
FUNCTION(tail_jump, ".byte 0xe9\n.long with_data - . - 4\n");
FUNCTION(short_tail_jump, "jmp 1f\nnop\nnop\nnop\n1: lea 3(%rdi), %rax\nret");
FUNCTION(tiny, "lea 9(%rdi), %eax\nret\nnop\nnop\nnop\nnop");
FUNCTION(with_loop, "mov %rdi, %rax\nxor %ecx, %ecx\n1: inc %ecx\ncmp %ecx, %edi\njg 1b\nret");

FUNCTION(pushes, "push %rbp\nmov %rsp, %rbp\nlea 2(%rdi), %rax\npop %rbp\nret");
FUNCTION(makes_room, "sub $0x28, %rsp\nmov %rdi, 8(%rsp)\nmov 8(%rsp), %rax\nadd $0x28, %rsp\nret");
FUNCTION(makes_much_room, "lea -0x1000(%rsp), %rsp\nlea 5(%rdi), %rax\nadd $0x1000, %rsp\nret");
FUNCTION(loads, "mov entry_word(%rip), %rax\nadd %rdi, %rax\nadd %rdi, %rax\nret");
FUNCTION(copies, "mov %rdi, %rsi\nlea 5(%rsi), %rax\nadd %rdi, %rax\nret");
FUNCTION(zeroes, "xor %eax, %eax\nadd %rdi, %rax\nadd $4, %rax\nret");
FUNCTION(changes_argument, "add $5, %rdi\nlea 5(%rdi), %rax\nret");
FUNCTION(reads_what_it_writes, "lea 5(%rdi), %rdi\nlea 5(%rdi), %rax\nret");
FUNCTION(writes_half, "mov $5, %dil\nlea 5(%rdi), %rax\nret");
FUNCTION(writes_theirs, "mov %rsp, %rbx\nlea 5(%rdi), %rax\nret");
FUNCTION(comes_to_second, "push %rbx\n1: nop\nnop\nnop\nnop\nnop\ndec %rdi\njg 1b\npop %rbx\nret");
FUNCTION(calls, "push %rbx\ncall with_data\npop %rbx\nret");
FUNCTION(calls_indirectly, "push %rbx\nmov %rdi, %rbx\ncall *%rdi\npop %rbx\nret");
FUNCTION(comes_back, "dec %rdi\njg comes_back\nmov %rdi, %rax\nret\nnop");
FUNCTION(comes_back_later, "dec %rdi\nnop\nnop\nnop\ntest %rdi, %rdi\njg comes_back_later\nret");
FUNCTION(into_the_middle, "nop\n1: nop\nnop\nnop\nnop\nnop\ndec %rdi\njg 1b\nret");
FUNCTION(jumps_within, "jmp 1f\n1: mov $1, %eax\nret");
FUNCTION(counts_down, "xor %eax, %eax\njrcxz 1f\nnop\n1: ret");
FUNCTION(ends_early, "ret\nmov $1, %eax\nret");
FUNCTION(no_code, "nop\nnop\nnop\nnop\nnop\n.byte 0x06\nret");
FUNCTION(system_call, "mov $39, %eax\nret\n");
FUNCTION(early_system_call, "push %rdi\nsyscall\npop %rdi\nret\nnop");

static uint8_t *near_page;

static uint64_t address_of(int64_t (*function)(int64_t))
{
	return (uint64_t)(uintptr_t)function;
}

static int begin(void **state)
{
	uint64_t here = address_of(with_frame) & ~UINT64_C(0xfff);

	(void)state;
	for (uint64_t away = 1 << 20; away < 1 << 30 && !near_page; away += 1 << 20) {
		void *page = mmap((void *)(uintptr_t)(here - away), 4096,
				  PROT_READ | PROT_WRITE | PROT_EXEC,
				  MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE, -1, 0);

		if (page != MAP_FAILED)
			near_page = page;
	}
	return near_page ? 0 : -1;
}

static int end(void **state)
{
	(void)state;
	return munmap(near_page, 4096);
}

static int make(int64_t (*function)(int64_t), const uint8_t *limit, uint64_t to,
		struct limpet_entry_code *ret, struct limpet_err *err)
{
	return limpet_entry_code_make((const uint8_t *)(uintptr_t)address_of(function),
				      (size_t)((uint64_t)(uintptr_t)limit - address_of(function)),
				      address_of(function), to, ret, err);
}

static void write_code(uint64_t address, const uint8_t *bytes, size_t count)
{
	uint64_t page = address & ~UINT64_C(0xfff);

	assert_int_equal(
		mprotect((void *)(uintptr_t)page, 8192, PROT_READ | PROT_WRITE | PROT_EXEC), 0);
	memcpy((void *)(uintptr_t)address, bytes, count);
	assert_int_equal(mprotect((void *)(uintptr_t)page, 8192, PROT_READ | PROT_EXEC), 0);
}

/* Returns where the jump leads: to the relocated code, past what undoes the instruction that
 * stays. */
static uint64_t write_undo(const struct limpet_entry_code *code)
{
	uint8_t *at = near_page + 2048, *const start = at;
	const int32_t away = (int32_t)(code->to - (uint64_t)(uintptr_t)(at + 13));

	/* lea undo(%rsp), %rsp; jmp */
	at = mempcpy(at, (const uint8_t[]){0x48, 0x8d, 0xa4, 0x24}, 4);
	at = mempcpy(at, &code->undo, sizeof(code->undo));
	*at++ = 0xe9;
	memcpy(at, &away, sizeof(away));
	return (uint64_t)(uintptr_t)start;
}

/* The same answers before, while its beginning is elsewhere, and after. */
static void runs_elsewhere(int64_t (*function)(int64_t), const uint8_t *limit)
{
	int64_t (*volatile called)(int64_t) = function;
	static const int64_t arguments[] = {0, 1, 5, -3, 1000};
	int64_t answers[LIMPET_COUNT_OF(arguments)];
	struct limpet_entry_code code, moved, unmoved;
	struct limpet_err err = {0};
	uint8_t jump[LIMPET_ENTRY_MOVED_MAX], before[64];

	entry_word = 40;
	for (size_t i = 0; i < LIMPET_COUNT_OF(arguments); i++)
		answers[i] = called(arguments[i]);
	memcpy(before, (const void *)(uintptr_t)address_of(function), sizeof(before));
	if (make(function, limit, (uint64_t)(uintptr_t)near_page, &code, &err) < 0)
		fail_msg("%s", err.message);
	/* Made for another place and moved, it is the same. */
	if (make(function, limit, (uint64_t)(uintptr_t)near_page + 0x5432, &moved, &err) < 0)
		fail_msg("%s", err.message);
	assert_int_equal(limpet_entry_code_move(&moved, (uint64_t)(uintptr_t)near_page), 0);
	assert_memory_equal(&moved, &code, sizeof(code));
	unmoved = moved;
	if (limpet_entry_code_move(&moved, code.to + (UINT64_C(1) << 40)) < 0)
		assert_memory_equal(&moved, &unmoved, sizeof(moved));
	else
		assert_int_equal(moved.relative_count, 0);
	assert_true(code.original_bytes >= LIMPET_ENTRY_JUMP_BYTES);
	assert_memory_equal(code.original, (const void *)(uintptr_t)code.from, code.original_bytes);
	memset(near_page, 0xcc, 4096);
	memcpy(near_page, code.code, code.code_bytes);
	assert_int_equal(limpet_entry_code_jump(&code, write_undo(&code), jump), 0);
	write_code(code.from, jump, code.original_bytes);
	entry_word = 40;
	for (size_t i = 0; i < LIMPET_COUNT_OF(arguments); i++)
		assert_int_equal(called(arguments[i]), answers[i]);
	write_code(code.from, code.original, code.original_bytes);
	memset(near_page, 0xcc, 4096);
	entry_word = 40;
	for (size_t i = 0; i < LIMPET_COUNT_OF(arguments); i++)
		assert_int_equal(called(arguments[i]), answers[i]);
	assert_memory_equal(before, (const void *)(uintptr_t)address_of(function), sizeof(before));
}

#define RUNS(name)                                \
	static void test_##name(void **state)     \
	{                                         \
		(void)state;                      \
		runs_elsewhere(name, name##_end); \
	}
RUNS(with_frame)
RUNS(with_data)
RUNS(with_store)
RUNS(with_short_branch)
RUNS(with_two_branches)
RUNS(with_near_branch)
RUNS(tail_jump)
RUNS(short_tail_jump)
RUNS(tiny)
RUNS(with_loop)
RUNS(system_call)
RUNS(calls)
RUNS(pushes)
RUNS(makes_room)
RUNS(makes_much_room)
RUNS(loads)
RUNS(copies)
RUNS(zeroes)
RUNS(changes_argument)
RUNS(reads_what_it_writes)
RUNS(writes_half)

static void is_refused(int64_t (*function)(int64_t), const uint8_t *limit, const char *why)
{
	struct limpet_entry_code code;
	struct limpet_err err = {0};

	assert_int_equal(make(function, limit, (uint64_t)(uintptr_t)near_page, &code, &err),
			 -ENOTSUP);
	if (!strstr(err.message, why))
		fail_msg("'%s' instead of '%s'", err.message, why);
}

static void test_what_cannot_be_moved_is_refused(void **state)
{
	(void)state;
	is_refused(calls_indirectly, calls_indirectly_end, "an indirect call");
	is_refused(comes_back, comes_back_end, "jump into the relocated bytes");
	is_refused(comes_back_later, comes_back_later_end, "back to the function's beginning");
	is_refused(into_the_middle, into_the_middle_end, "back to the function's beginning");
	is_refused(jumps_within, jumps_within_end, "function is too short");
	is_refused(counts_down, counts_down_end, "branch that cannot be relocated");
	is_refused(ends_early, ends_early_end, "function is too short");
	is_refused(no_code, no_code_end, "not an instruction");
	is_refused(early_system_call, early_system_call_end, "cannot be relocated");
	/* Cut: what follows is not known. */
	is_refused(with_frame, (const uint8_t *)(uintptr_t)address_of(with_frame) + 6,
		   "not an instruction");
}

static void test_what_is_out_of_reach_is_refused(void **state)
{
	const uint64_t far = UINT64_C(0x300000000);
	struct limpet_entry_code code;
	struct limpet_err err = {0};
	uint8_t jump[LIMPET_ENTRY_MOVED_MAX];

	(void)state;
	assert_int_equal(make(with_data, with_data_end, address_of(with_data) + far, &code, &err),
			 -ERANGE);
	assert_int_equal(make(with_short_branch, with_short_branch_end, address_of(with_data) + far,
			      &code, &err),
			 -ERANGE);
	/* The way back. */
	assert_int_equal(make(with_frame, with_frame_end, address_of(with_data) + far, &code, &err),
			 -ERANGE);
	assert_int_equal(
		make(with_frame, with_frame_end, (uint64_t)(uintptr_t)near_page, &code, &err), 0);
	assert_int_equal(limpet_entry_code_jump(&code, code.from + far, jump), -ERANGE);
	assert_int_equal(limpet_entry_code_jump(&code, code.from - far, jump), -ERANGE);
}

static void test_threads_move_along(void **state)
{
	struct limpet_entry_code code;

	(void)state;
	assert_int_equal(
		make(with_frame, with_frame_end, (uint64_t)(uintptr_t)near_page, &code, NULL), 0);
	assert_int_equal(code.from, address_of(with_frame) + 4);
	/* push, mov, lea: 1 + 3 + 4 bytes. */
	assert_int_equal(code.original_bytes, 8);
	assert_int_equal(code.place_count, 3);
	assert_int_equal(limpet_entry_code_move_pc(&code, code.from, true), code.to);
	assert_int_equal(limpet_entry_code_move_pc(&code, code.from + 1, true), code.to + 1);
	assert_int_equal(limpet_entry_code_move_pc(&code, code.from + 4, true), code.to + 4);
	assert_true(limpet_entry_code_move_pc(&code, code.from + 2, true) == UINT64_MAX);
	assert_int_equal(limpet_entry_code_move_pc(&code, code.from + 8, true), 0);
	assert_int_equal(limpet_entry_code_move_pc(&code, code.from - 1, true), 0);
	assert_int_equal(limpet_entry_code_move_pc(&code, code.to + 4, false), code.from + 4);
	assert_int_equal(limpet_entry_code_move_pc(&code, code.to + 8, false), code.from + 8);
	assert_true(limpet_entry_code_move_pc(&code, code.to + 9, false) == UINT64_MAX);
	assert_int_equal(limpet_entry_code_move_pc(&code, code.to + code.code_bytes, false), 0);
}

static void stays(int64_t (*function)(int64_t), const uint8_t *limit, unsigned bytes, int undo)
{
	struct limpet_entry_code code;

	assert_int_equal(make(function, limit, (uint64_t)(uintptr_t)near_page, &code, NULL), 0);
	assert_int_equal(code.stays, bytes);
	assert_int_equal(code.undo, undo);
	assert_int_equal(code.from, address_of(function) + bytes);
	assert_int_equal(limpet_entry_code_is_exposed(&code, address_of(function)), !bytes);
	/* A thread at the instruction that stays need not move. */
	assert_int_equal(limpet_entry_code_move_pc(&code, address_of(function), true),
			 bytes ? 0 : code.to);
	assert_int_equal(limpet_entry_code_move_pc(&code, code.to, false), address_of(function));
}

static void test_first_instructions_stay(void **state)
{
	struct limpet_entry_code code;

	(void)state;
	stays(pushes, pushes_end, 1, 8);
	stays(makes_room, makes_room_end, 4, 0x28);
	stays(makes_much_room, makes_much_room_end, 8, 0x1000);
	stays(copies, copies_end, 3, 0);
	stays(zeroes, zeroes_end, 2, 0);
	stays(loads, loads_end, 7, 0);
	stays(with_short_branch, with_short_branch_end, 3, 0);
	stays(calls, calls_end, 1, 8);
	/* Done twice, or lost to the hook. */
	stays(changes_argument, changes_argument_end, 0, 0);
	stays(reads_what_it_writes, reads_what_it_writes_end, 0, 0);
	stays(writes_half, writes_half_end, 0, 0);
	stays(writes_theirs, writes_theirs_end, 0, 0);
	stays(with_store, with_store_end, 0, 0);
	/* There is no room for the jump after it. */
	stays(with_data, with_data_end, 0, 0);
	/* The function jumps to the second one. */
	is_refused(comes_to_second, comes_to_second_end, "back to the function's beginning");
	/* The jump would lie on two pages. */
	assert_int_equal(
		limpet_entry_code_make((const uint8_t *)(uintptr_t)address_of(makes_room),
				       (size_t)(makes_room_end -
						(const uint8_t *)(uintptr_t)address_of(makes_room)),
				       0x10ff8, 0x20000, &code, NULL),
		0);
	assert_int_equal(code.stays, 0);
	assert_false(limpet_entry_code_crosses_page(&code));
	/* A breakpoint changes the opcode alone. */
	assert_int_equal(
		make(tail_jump, tail_jump_end, (uint64_t)(uintptr_t)near_page, &code, NULL), 0);
	assert_false(limpet_entry_code_is_exposed(&code, address_of(tail_jump)));
	assert_int_equal(
		make(with_frame, with_frame_end, (uint64_t)(uintptr_t)near_page, &code, NULL), 0);
	assert_false(limpet_entry_code_is_exposed(&code, address_of(with_frame)));
}

static void test_calls_and_probes(void **state)
{
	/* call +0x100; and $-4096, %r9 */
	static const uint8_t call[] = {0xe8, 0x00, 0x01, 0x00, 0x00};
	static const uint8_t page[] = {0x49, 0x81, 0xe1, 0x00, 0xf0, 0xff, 0xff};
	const uint64_t from = 0x100000, to = 0x200000;
	uint8_t jump[LIMPET_ENTRY_MOVED_MAX];
	struct limpet_entry_code code;
	struct limpet_err err = {0};
	int32_t away;

	(void)state;
	assert_int_equal(limpet_entry_code_make_call(call, from, to, &code, &err), 0);
	/* A call in place of a call, and a jump to what was called. */
	assert_int_equal(limpet_entry_code_jump(&code, to, jump), 0);
	assert_int_equal(jump[0], 0xe8);
	memcpy(&away, jump + 1, sizeof(away));
	assert_int_equal(from + 5 + (uint64_t)away, to);
	assert_int_equal(code.code_bytes, 5);
	assert_int_equal(code.code[0], 0xe9);
	memcpy(&away, code.code + 1, sizeof(away));
	assert_int_equal((int64_t)to + 5 + away, from + 5 + 0x100);
	assert_int_equal(limpet_entry_code_make_call(page, from, to, &code, &err), -ENOTSUP);

	assert_int_equal(limpet_entry_code_make_probe(page, sizeof(page), from, to, &code, &err),
			 0);
	assert_int_equal(code.original_bytes, sizeof(page));
	assert_memory_equal(code.code, page, sizeof(page));
	assert_int_equal(code.code[sizeof(page)], 0xe9);
	memcpy(&away, code.code + sizeof(page) + 1, sizeof(away));
	assert_int_equal((int64_t)to + (int64_t)code.code_bytes + away, from + sizeof(page));
	/* What is less than a jump, with the next. */
	assert_int_equal(
		limpet_entry_code_make_probe((const uint8_t[]){0x90, 0x90, 0x90, 0x90, 0x90}, 5,
					     from, to, &code, &err),
		-ENOTSUP);
}

static void test_short_jumps(void **state)
{
	static const uint8_t back[] = {0xeb, 0xfc}, marked[] = {0xf3, 0x0f, 0x1e, 0xfa, 0xeb, 0x10},
			     more[] = {0xeb, 0xfc, 0x90}, conditional[] = {0x74, 0xfc},
			     longer[] = {0xe9, 0, 0, 0, 0},
			     marked_longer[] = {0xf3, 0x0f, 0x1e, 0xfa, 0xe9, 0};
	uint64_t target = 0;

	(void)state;
	assert_true(limpet_entry_code_is_short_jump(back, sizeof(back), 0x1000, &target));
	assert_int_equal(target, 0xffe);
	assert_true(limpet_entry_code_is_short_jump(marked, sizeof(marked), 0x1000, &target));
	assert_int_equal(target, 0x1016);
	assert_false(limpet_entry_code_is_short_jump(back, 1, 0x1000, &target));
	assert_false(limpet_entry_code_is_short_jump(more, sizeof(more), 0x1000, &target));
	assert_false(
		limpet_entry_code_is_short_jump(conditional, sizeof(conditional), 0x1000, &target));
	assert_false(limpet_entry_code_is_short_jump(longer, sizeof(longer), 0x1000, &target));
	assert_false(limpet_entry_code_is_short_jump(marked_longer, sizeof(marked_longer), 0x1000,
						     &target));
	assert_int_equal(target, 0x1016);
}

/* A copy of code around a function of five bytes in its middle. */
#define AROUND 0x1000u
#define AROUND_BYTES 256u
#define MIDDLE 128u

static int jumped_into(const uint8_t *code)
{
	const struct limpet_entry_surroundings around = {.address = AROUND,
							 .bytes = AROUND_BYTES,
							 .own = AROUND + MIDDLE,
							 .own_bytes = 16,
							 .moved = AROUND + MIDDLE,
							 .moved_bytes = 6};

	return limpet_entry_code_may_be_jumped_into(&around, code)
		       ? limpet_entry_code_is_jumped_into(&around, code)
		       : 0;
}

static void test_jumps_from_around(void **state)
{
	static const uint8_t opcodes[] = {0xeb, 0x70, 0x7f, 0xe0, 0xe3};
	uint8_t code[AROUND_BYTES];

	(void)state;
	for (size_t i = 0; i < sizeof(opcodes); i++) {
		/* From below and from above; to its beginning, which is a call of it; and beyond.
		 */
		memset(code, 0x90, sizeof(code));
		code[100] = opcodes[i];
		code[101] = MIDDLE + 1 - 102;
		assert_int_equal(jumped_into(code), 1);
		code[101] = MIDDLE + 5 - 102;
		assert_int_equal(jumped_into(code), 1);
		code[101] = MIDDLE - 102;
		assert_int_equal(jumped_into(code), 0);
		code[101] = MIDDLE + 6 - 102;
		assert_int_equal(jumped_into(code), 0);
		code[101] = 0;
		code[200] = opcodes[i];
		code[201] = (uint8_t)(MIDDLE + 4 - 202);
		assert_int_equal(jumped_into(code), 1);
		/* In the middle of another instruction, mov $..., %eax. */
		code[199] = 0xb8;
		assert_int_equal(jumped_into(code), 0);
		/* With a prefix, as a hint for branch prediction or of CET. */
		code[199] = 0x3e;
		assert_int_equal(jumped_into(code), 1);
		/* In the function itself: checked where it is moved. */
		code[199] = code[200] = code[201] = 0x90;
		code[MIDDLE + 10] = opcodes[i];
		code[MIDDLE + 11] = (uint8_t)(4 - 12);
		assert_int_equal(jumped_into(code), 0);
	}
	/* At either end of what can be read. */
	memset(code, 0x90, sizeof(code));
	code[AROUND_BYTES - 1] = 0xeb;
	assert_int_equal(jumped_into(code), 0);
	code[2] = 0xeb;
	code[3] = MIDDLE + 1 - 4;
	assert_int_equal(jumped_into(code), 1);
}

/* A copy of rawDealloc as Nim 1.6 and gcc make it, and beginnings of rawAlloc. */
static void test_hook_pointers_of_nims(void **state)
{
	static const uint8_t copy[] = {
		0x49, 0x89, 0xf9,                         /* mov %rdi, %r9 */
		0x49, 0x81, 0xe1, 0x00, 0xf0, 0xff, 0xff, /* and $-4096, %r9 */
		0x48, 0x3d, 0xc0, 0x0f, 0x00, 0x00,       /* cmp $0xfc0, %rax */
		0x48, 0x81, 0xfa, 0xc0, 0x0f, 0x00, 0x00, /* cmp $0xfc0, %rdx */
		0x48, 0x81, 0xfe, 0x00, 0x00, 0x00, 0x3f, /* cmp $0x3f000000, %rsi */
		0xbe, 0x00, 0x10, 0x00, 0x00,             /* mov $0x1000, %esi */
		0xe8, 0x00, 0x00, 0x00, 0x00,             /* call get */
		0x89, 0xce,                               /* mov %ecx, %esi */
		0xe8, 0xf9, 0xff, 0xff, 0xff,             /* call get */
		0xe9, 0x00, 0x01, 0x00, 0x00,             /* jmp put */
	};
	const uint64_t address = 0x400000;
	const struct limpet_nim_targets targets = {
		.get = {address + 40},
		.get_count = 1,
		.put = {address + sizeof(copy) + 0x100},
		.put_count = 1,
	};
	struct limpet_nim_code code;

	(void)state;
	assert_int_equal(limpet_nim_code_read(copy, sizeof(copy), address, &targets, &code), 0);
	assert_int_equal(code.page_count, 1);
	assert_int_equal(code.pages[0].address, address + 3);
	assert_int_equal(code.pages[0].reg, 9);
	assert_int_equal(code.pages[0].bytes, 7);
	assert_int_equal(code.small, 2);
	assert_int_equal(code.huge, 1);
	assert_int_equal(code.puts, 1);
	assert_int_equal(code.gets, 2);
	assert_int_equal(code.call_count, 2);
	assert_int_equal(code.calls[0].size, LIMPET_NIM_SMALL_CHUNK);
	assert_int_equal(code.calls[1].size, 0);
	assert_true(limpet_nim_code_leads(copy + 35, address + 35, &targets));
	assert_false(limpet_nim_code_leads(copy + 3, address + 3, &targets));
	/* Bytes that are no instruction. */
	assert_int_equal(limpet_nim_code_read((const uint8_t[]){0x06}, 1, address, &targets, &code),
			 -ENOTSUP);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_with_frame),
		cmocka_unit_test(test_with_data),
		cmocka_unit_test(test_with_store),
		cmocka_unit_test(test_with_short_branch),
		cmocka_unit_test(test_with_two_branches),
		cmocka_unit_test(test_with_near_branch),
		cmocka_unit_test(test_tail_jump),
		cmocka_unit_test(test_short_tail_jump),
		cmocka_unit_test(test_tiny),
		cmocka_unit_test(test_with_loop),
		cmocka_unit_test(test_system_call),
		cmocka_unit_test(test_pushes),
		cmocka_unit_test(test_makes_room),
		cmocka_unit_test(test_makes_much_room),
		cmocka_unit_test(test_loads),
		cmocka_unit_test(test_copies),
		cmocka_unit_test(test_zeroes),
		cmocka_unit_test(test_changes_argument),
		cmocka_unit_test(test_reads_what_it_writes),
		cmocka_unit_test(test_writes_half),
		cmocka_unit_test(test_calls),
		cmocka_unit_test(test_what_cannot_be_moved_is_refused),
		cmocka_unit_test(test_what_is_out_of_reach_is_refused),
		cmocka_unit_test(test_threads_move_along),
		cmocka_unit_test(test_first_instructions_stay),
		cmocka_unit_test(test_short_jumps),
		cmocka_unit_test(test_jumps_from_around),
		cmocka_unit_test(test_calls_and_probes),
		cmocka_unit_test(test_hook_pointers_of_nims),
	};

	return cmocka_run_group_tests(tests, begin, end);
}
