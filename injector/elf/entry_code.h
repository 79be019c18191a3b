/* Makes room for a jump at the entry of a function: the instructions that the jump overwrites are
 * relocated, and do the same at their new address (relocated prologue).
 *
 * The jump replaces the second instruction where it can, since the first one is where others set
 * breakpoints: the kernel executes what the file has there (uprobes), and continues behind it, and
 * it writes that byte, and takes it away, at any moment. The first instruction must be one that can
 * be executed twice, here and in the relocated prologue, and whose effect on the stack pointer can
 * be undone, so that the hook finds the arguments as the caller has passed them.
 *
 * Pure: works on copies of bytes. Refuses instructions that cannot be relocated with certainty, and
 * functions that jump back to the overwritten bytes. */
#ifndef LIMPET_INJECTOR_ELF_ENTRY_CODE_H
#define LIMPET_INJECTOR_ELF_ENTRY_CODE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/err.h"

#define LIMPET_ENTRY_JUMP_BYTES 5u    /* jmp rel32 */
#define LIMPET_ENTRY_BREAKPOINT 0xccu /* int3, of another tool */
#define LIMPET_ENTRY_MOVED_MAX 24u    /* bytes of the function that may have to move */
#define LIMPET_ENTRY_CODE_MAX 64u     /* bytes of the relocated prologue, with the jump back */
#define LIMPET_ENTRY_REACH INT32_MAX  /* of all relative operands */

/* What the jump replaces. */
enum limpet_entry_kind {
	LIMPET_ENTRY_FUNCTION = 0, /* the beginning of a function */
	LIMPET_ENTRY_CALL,         /* a call of a function: it is replaced by another call */
	LIMPET_ENTRY_PROBE,        /* one instruction in the middle of a function */
};

struct limpet_entry_code {
	enum limpet_entry_kind kind;
	uint64_t from;  /* where the jump is: the function's entry, or after what stays there */
	uint32_t stays; /* bytes of the instruction that stays in front of it; endbr64 is not
			   counted */
	int32_t undo;   /* what undoes that instruction, added to the stack pointer */
	uint64_t to;    /* address of the relocated instructions, of which the first is the one that
			   stays */
	uint8_t original[LIMPET_ENTRY_MOVED_MAX];
	size_t original_bytes; /* of whole instructions, at least LIMPET_ENTRY_JUMP_BYTES */
	uint8_t code[LIMPET_ENTRY_CODE_MAX];
	size_t code_bytes;
	/* Offsets of each instruction, before and after relocation: a thread at one continues at
	 * the other. */
	struct {
		uint8_t from, to;
	} places[LIMPET_ENTRY_MOVED_MAX];
	size_t place_count;
	/* Offsets in `code` of the 32-bit displacements that depend on `to`. */
	uint8_t relative[LIMPET_ENTRY_MOVED_MAX];
	size_t relative_count;
};

/* Relocates the beginning of the function of `bytes` bytes at `address`, of which `code` is a copy,
 * to `to`, within LIMPET_ENTRY_REACH of the function. 0, -ENOTSUP with the reason, -ERANGE: an
 * operand's target is out of reach from there; -ENOMEM. */
int limpet_entry_code_make(const uint8_t *code, size_t bytes, uint64_t address, uint64_t to,
			   struct limpet_entry_code *ret, struct limpet_err *err) LIMPET_MUST_CHECK;

/* For the call at `address`, of LIMPET_ENTRY_JUMP_BYTES bytes; -ENOTSUP: it is not a call. The code
 * at `to` jumps to the called function. */
int limpet_entry_code_make_call(const uint8_t *code, uint64_t address, uint64_t to,
				struct limpet_entry_code *ret,
				struct limpet_err *err) LIMPET_MUST_CHECK;
/* For the one instruction of `bytes` bytes at `address`, in the middle of a function. */
int limpet_entry_code_make_probe(const uint8_t *code, size_t bytes, uint64_t address, uint64_t to,
				 struct limpet_entry_code *ret,
				 struct limpet_err *err) LIMPET_MUST_CHECK;

/* Whether the jump lies on two pages: it could become visible half written. */
bool limpet_entry_code_crosses_page(const struct limpet_entry_code *code);
/* Whether a breakpoint of another tool on the first instruction of the function at `address`, set
 * or removed while the jump is there, would break the jump. */
bool limpet_entry_code_is_exposed(const struct limpet_entry_code *code, uint64_t address);

#define LIMPET_SHORT_JUMP_MAX 6u /* with its endbr64 */
/* Whether the function of `bytes` bytes at `address`, of which `code` is a copy, is a jump that is
 * too short to be replaced, and nothing else. */
bool limpet_entry_code_is_short_jump(const uint8_t *code, size_t bytes, uint64_t address,
				     uint64_t *ret_target);

/* Code that other functions may jump out of by a byte's displacement, into what moves of one: a
 * copy of what lies around that one. */
struct limpet_entry_surroundings {
	uint64_t address, bytes; /* of the copy */
	uint64_t own,
		own_bytes; /* the function itself, which is checked by limpet_entry_code_make() */
	uint64_t moved, moved_bytes;
};
#define LIMPET_SURROUNDINGS_REACH 224u /* bytes on either side of what moves */
/* Whether bytes there look like such a jump; then, whether they are one. Where functions begin
 * around it is not known: an instruction is what several ways to decode the bytes before it come
 * to. The second returns 0, 1 or -ENOMEM. */
bool limpet_entry_code_may_be_jumped_into(const struct limpet_entry_surroundings *around,
					  const uint8_t *code);
int limpet_entry_code_is_jumped_into(const struct limpet_entry_surroundings *around,
				     const uint8_t *code);

/* Relocates the result to another address: 0, or -ERANGE and unchanged. Decodes nothing again. */
int limpet_entry_code_move(struct limpet_entry_code *code, uint64_t to) LIMPET_MUST_CHECK;

/* The jump, or call, to write at `from`, padded to original_bytes; -ERANGE if `target` is out of
 * reach. */
int limpet_entry_code_jump(const struct limpet_entry_code *code, uint64_t target,
			   uint8_t *ret) LIMPET_MUST_CHECK;

/* Where a thread at `pc` continues: at the relocated instruction for the original (`away`), or the
 * other way round; 0: it is elsewhere, UINT64_MAX: between two instructions, where no thread of the
 * program can be. */
uint64_t limpet_entry_code_move_pc(const struct limpet_entry_code *code, uint64_t pc, bool away);

#endif
