/* What a call leaves, and what only looks like it. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdbool.h>
#include <string.h>

#include "common/err.h"
#include "injector/ptrace/arch.h"

/* As an assembler writes it, behind bytes that are none of it. */
static const struct {
	const char *words, *code;
	size_t bytes;
	bool is_call;
} table[] = {
	{"call rel32", "\xe8\x10\x20\x30\x40", 5, true},
	{"call *%rax", "\xff\xd0", 2, true},
	{"call *%r11", "\x41\xff\xd3", 3, true},
	{"call *(%rax)", "\xff\x10", 2, true},
	{"call *(%rsp)", "\xff\x14\x24", 3, true},
	{"call *8(%rax)", "\xff\x50\x08", 3, true},
	{"call *8(%rsp)", "\xff\x54\x24\x08", 4, true},
	{"call *0x1000(%rax)", "\xff\x90\x00\x10\x00\x00", 6, true},
	{"call *0x1000(%rsp)", "\xff\x94\x24\x00\x10\x00\x00", 7, true},
	{"call *0x1000(%rip)", "\xff\x15\x00\x10\x00\x00", 6, true},
	{"call *0x1000(,%rax,8)", "\xff\x14\xc5\x00\x10\x00\x00", 7, true},
	{"call *(%rax,%rbx,8)", "\xff\x14\xd8", 3, true},
	{"jmp *%rax", "\xff\xe0", 2, false},
	{"jmp rel32", "\xe9\x10\x20\x30\x40", 5, false},
	{"jmp *0x1000(%rip)", "\xff\x25\x00\x10\x00\x00", 6, false},
	{"push 8(%rax)", "\xff\x70\x08", 3, false},
	{"nopw 0(%rax,%rax,1)", "\x66\x0f\x1f\x44\x00\x00", 6, false},
	{"ret", "\xc3", 1, false},
};

static void test_calls(void **state)
{
	(void)state;
	for (size_t i = 0; i < LIMPET_COUNT_OF(table); i++) {
		uint8_t before[LIMPET_ARCH_CALL_BYTES];

		memset(before, 0x90, sizeof(before));
		memcpy(before + sizeof(before) - table[i].bytes, table[i].code, table[i].bytes);
		if (limpet_arch_ends_call(before) != table[i].is_call)
			fail_msg("%s", table[i].words);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {cmocka_unit_test(test_calls)};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
