#include "injector/hidden/call_sites.h"

#include <string.h>

#define INDIRECT_BYTES 6u /* call or jmp *displacement(%rip) */
#define MOVE_BYTES 3u     /* mov %r64,%r64 */
#define MOST_MOVES 4u

/* The operand of the instruction at `code`, relative to the next one. */
static uint64_t slot_of(const uint8_t *code, uint64_t address)
{
	int32_t displacement;

	memcpy(&displacement, code + 2, sizeof(displacement));
	return address + INDIRECT_BYTES + (uint64_t)(int64_t)displacement;
}

bool limpet_call_site_at(const uint8_t *code, uint64_t address, struct limpet_call_site *ret)
{
	static const uint8_t test_rax[] = {0x48, 0x85, 0xc0};

	if (code[0] != 0xff || (code[1] != 0x15 && code[1] != 0x25))
		return false;
	ret->slot = slot_of(code, address);
	ret->is_jump = code[1] == 0x25;
	ret->tested = !ret->is_jump && !memcmp(code + INDIRECT_BYTES, test_rax, sizeof(test_rax));
	return true;
}

/* REX.W mov with both operands in registers, none of them %rsp. */
static bool is_move(const uint8_t *code)
{
	return (code[0] & 0xf8) == 0x48 && code[1] == 0x89 && code[2] >= 0xc0 &&
	       (code[2] & 7) != 4 && (code[2] >> 3 & 7) != 4;
}

uint64_t limpet_call_stub_slot(const uint8_t *code, size_t bytes, uint64_t address)
{
	size_t at = 0;

	for (unsigned i = 0; i < MOST_MOVES && at + MOVE_BYTES <= bytes && is_move(code + at); i++)
		at += MOVE_BYTES;
	if (at + INDIRECT_BYTES > bytes || code[at] != 0xff || code[at + 1] != 0x25)
		return 0;
	return slot_of(code + at, address + at);
}
