/* Room for a jump at the entry of a function: the instructions that the jump takes the place of are
 * moved elsewhere, and do there what they did.
 *
 * Pure: works on copies of bytes. What cannot be moved with certainty is refused; so is a function
 * that comes back to the bytes that would be overwritten. */
#ifndef LIMPET_INJECTOR_IMAGE_ENTRY_CODE_H
#define LIMPET_INJECTOR_IMAGE_ENTRY_CODE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/err.h"

#define LIMPET_ENTRY_JUMP_BYTES 5u   /* jmp rel32 */
#define LIMPET_ENTRY_MOVED_MAX 24u   /* bytes of the function that may have to move */
#define LIMPET_ENTRY_CODE_MAX 64u    /* bytes of them elsewhere, with the jump back */
#define LIMPET_ENTRY_REACH INT32_MAX /* of all relative operands */

/* What is at the place that the jump goes to. */
enum limpet_entry_kind {
	LIMPET_ENTRY_FUNCTION = 0, /* a function's beginning */
	LIMPET_ENTRY_CALL,         /* a call of one: another call comes in its place */
	LIMPET_ENTRY_PROBE,        /* one instruction in the midst of a function */
};

struct limpet_entry_code {
	enum limpet_entry_kind kind;
	uint64_t from; /* where the jump goes: the function's entry, or behind its endbr64 */
	uint64_t to;   /* where the moved instructions go */
	uint8_t original[LIMPET_ENTRY_MOVED_MAX];
	size_t original_bytes; /* of whole instructions, LIMPET_ENTRY_JUMP_BYTES at least */
	uint8_t code[LIMPET_ENTRY_CODE_MAX];
	size_t code_bytes;
	/* Beginnings of the instructions, here and there: a thread at one goes on at the other. */
	struct {
		uint8_t from, to;
	} places[LIMPET_ENTRY_MOVED_MAX];
	size_t place_count;
	/* Where in `code` a displacement stands, of 32 bits, that hangs on `to`. */
	uint8_t relative[LIMPET_ENTRY_MOVED_MAX];
	size_t relative_count;
};

/* For the function of `bytes` bytes at `address`, of which `code` is a copy, its instructions to be
 * moved to `to`, within LIMPET_ENTRY_REACH of the function. 0, -ENOTSUP with the reason, -ERANGE:
 * something that an operand refers to is out of reach from there; -ENOMEM. */
int limpet_entry_code_make(const uint8_t *code, size_t bytes, uint64_t address, uint64_t to,
			   struct limpet_entry_code *ret, struct limpet_err *err) LIMPET_MUST_CHECK;

/* For the call at `address`, of LIMPET_ENTRY_JUMP_BYTES bytes; -ENOTSUP: it is none. What is called
 * is jumped to from `to`. */
int limpet_entry_code_make_call(const uint8_t *code, uint64_t address, uint64_t to,
				struct limpet_entry_code *ret,
				struct limpet_err *err) LIMPET_MUST_CHECK;
/* For the one instruction of `bytes` bytes at `address`, which is in the midst of a function. */
int limpet_entry_code_make_probe(const uint8_t *code, size_t bytes, uint64_t address, uint64_t to,
				 struct limpet_entry_code *ret,
				 struct limpet_err *err) LIMPET_MUST_CHECK;

/* To another place: 0, or -ERANGE and unchanged. Nothing is decoded again. */
int limpet_entry_code_move(struct limpet_entry_code *code, uint64_t to) LIMPET_MUST_CHECK;

/* The jump, or call, to write at `from`, padded to original_bytes; -ERANGE if `target` is out of
 * reach. */
int limpet_entry_code_jump(const struct limpet_entry_code *code, uint64_t target,
			   uint8_t *ret) LIMPET_MUST_CHECK;

/* Where a thread that stands at `pc` goes on, there for here (`away`) or here for there; 0: it
 * stands elsewhere, UINT64_MAX: between two instructions, where none of the program's stands. */
uint64_t limpet_entry_code_move_pc(const struct limpet_entry_code *code, uint64_t pc, bool away);

#endif
