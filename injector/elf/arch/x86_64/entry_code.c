#include "injector/elf/entry_code.h"

#include <assert.h>
#include <capstone/capstone.h>
#include <errno.h>
#include <string.h>

static size_t endbr64_bytes(const uint8_t *code, size_t bytes)
{
	static const uint8_t endbr64[4] = {0xf3, 0x0f, 0x1e, 0xfa};

	return bytes >= sizeof(endbr64) && !memcmp(code, endbr64, sizeof(endbr64)) ? sizeof(endbr64)
										   : 0;
}

struct mover {
	csh handle;
	struct limpet_entry_code *out;
	bool ended;                               /* execution does not continue here */
	uint64_t targets[LIMPET_ENTRY_MOVED_MAX]; /* of moved branches */
	size_t target_count;
};

static int refuse(struct limpet_err *err, const char *why, uint64_t address)
{
	return limpet_err_set(err, -ENOTSUP, "%s at %#llx", why, (unsigned long long)address);
}

static bool in_group(const struct mover *mover, const cs_insn *insn, unsigned group)
{
	return cs_insn_group(mover->handle, insn, group);
}

/* Short jumps grow by four bytes; there is also room for one more instruction and the jump back. */
static void append(struct limpet_entry_code *out, const void *bytes, size_t count)
{
	assert(out->code_bytes + count <= LIMPET_ENTRY_CODE_MAX);
	memcpy(out->code + out->code_bytes, bytes, count);
	out->code_bytes += count;
}

static void append_relative(struct limpet_entry_code *out, int32_t away)
{
	assert(out->relative_count < LIMPET_COUNT_OF(out->relative));
	out->relative[out->relative_count++] = (uint8_t)out->code_bytes;
	append(out, &away, sizeof(away));
}

/* Where a jump of `bytes` bytes would end if it were appended now. */
static uint64_t end_of_next(const struct limpet_entry_code *out, size_t bytes)
{
	return out->to + out->code_bytes + bytes;
}

static int distance(uint64_t from, uint64_t to, int32_t *ret)
{
	int64_t away = (int64_t)(to - from);

	if (away > INT32_MAX || away < INT32_MIN)
		return -ERANGE;
	*ret = (int32_t)away;
	return 0;
}

/* Short jumps become long ones. */
static int append_jump(struct limpet_entry_code *out, const uint8_t *opcode, size_t opcode_bytes,
		       uint64_t target)
{
	int32_t away;

	if (distance(end_of_next(out, opcode_bytes + sizeof(away)), target, &away) < 0)
		return -ERANGE;
	append(out, opcode, opcode_bytes);
	append_relative(out, away);
	return 0;
}

static int move_jump(struct mover *mover, const cs_insn *insn, struct limpet_err *err)
{
	struct limpet_entry_code *out = mover->out;
	const uint8_t *opcode = insn->detail->x86.opcode;
	uint64_t target = (uint64_t)insn->detail->x86.operands[0].imm;
	bool is_near = opcode[0] == 0x0f && (opcode[1] & 0xf0) == 0x80;
	uint8_t conditional[2] = {0x0f, 0};
	const uint8_t always = 0xe9;

	mover->targets[mover->target_count++] = target;
	/* A branch can have prefixes for hints and bnd only; the forms accepted below have none. */
	if ((opcode[0] == 0xeb && insn->size == 2) || (opcode[0] == 0xe9 && insn->size == 5)) {
		mover->ended = true;
		return append_jump(out, &always, 1, target);
	}
	if ((opcode[0] & 0xf0) == 0x70 && insn->size == 2)
		conditional[1] = (uint8_t)(0x80 | (opcode[0] & 15));
	else if (is_near && insn->size == 6)
		conditional[1] = opcode[1];
	else
		return refuse(err, "a branch that cannot be relocated", insn->address);
	return append_jump(out, conditional, sizeof(conditional), target);
}

/* The call returns to its original return address, after the instructions that move: the relocated
 * address is on no stack after the code is removed. (Shadow stacks would fault; programs that use
 * them are refused.) */
static int move_call(struct mover *mover, const cs_insn *insn, struct limpet_err *err)
{
	/* push $..., whose upper half is the sign; movl $..., 4(%rsp) */
	const uint8_t push = 0x68;
	static const uint8_t store[4] = {0xc7, 0x44, 0x24, 0x04};
	struct limpet_entry_code *out = mover->out;
	const uint8_t jump = 0xe9;
	const uint64_t next = insn->address + insn->size;
	const uint32_t halves[2] = {(uint32_t)next, (uint32_t)(next >> 32)};
	uint64_t target;
	int error;

	if (insn->size != 5 || insn->bytes[0] != 0xe8)
		return refuse(err, "an indirect call", insn->address);
	target = (uint64_t)insn->detail->x86.operands[0].imm;
	mover->targets[mover->target_count++] = target;
	append(out, &push, sizeof(push));
	append(out, &halves[0], sizeof(halves[0]));
	append(out, store, sizeof(store));
	append(out, &halves[1], sizeof(halves[1]));
	error = append_jump(out, &jump, 1, target);
	mover->ended = true;
	return error;
}

/* The place of a displacement that is relative to the next instruction, or 0. */
static size_t relative_operand(const cs_insn *insn)
{
	const cs_x86 *x86 = &insn->detail->x86;

	for (uint8_t i = 0; i < x86->op_count; i++)
		if (x86->operands[i].type == X86_OP_MEM && x86->operands[i].mem.base == X86_REG_RIP)
			return x86->encoding.disp_offset;
	return 0;
}

/* Prefix 0x67 makes it so; no compiler emits it. */
static bool has_short_address(const cs_insn *insn)
{
	const cs_x86 *x86 = &insn->detail->x86;

	for (uint8_t i = 0; i < x86->op_count; i++)
		if (x86->operands[i].type == X86_OP_MEM && x86->operands[i].mem.base == X86_REG_EIP)
			return true;
	return false;
}

static int move_plain(struct mover *mover, const cs_insn *insn, struct limpet_err *err)
{
	struct limpet_entry_code *out = mover->out;
	size_t at = relative_operand(insn);
	uint64_t target;
	int32_t away;

	if (has_short_address(insn))
		return refuse(err, "a short address", insn->address);
	if (!at) {
		append(out, insn->bytes, insn->size);
		return 0;
	}
	if (insn->detail->x86.encoding.disp_size != sizeof(away))
		return refuse(err, "a short address", insn->address);
	memcpy(&away, insn->bytes + at, sizeof(away));
	target = insn->address + insn->size + (uint64_t)(int64_t)away;
	if (distance(end_of_next(out, insn->size), target, &away) < 0)
		return -ERANGE;
	append(out, insn->bytes, at);
	append_relative(out, away);
	append(out, insn->bytes + at + sizeof(away), insn->size - at - sizeof(away));
	return 0;
}

static bool is_padding(const cs_insn *insn)
{
	return insn->id == X86_INS_NOP || insn->id == X86_INS_INT3;
}

static int move_one(struct mover *mover, const cs_insn *insn, struct limpet_err *err)
{
	/* Code after a jump or a return is not reached, and between functions there is only
	 * padding. */
	if (mover->ended)
		return is_padding(insn) ? 0
					: refuse(err, "the function is too short", insn->address);
	if (in_group(mover, insn, CS_GRP_CALL))
		return move_call(mover, insn, err);
	if (insn->id == X86_INS_INT3)
		return refuse(err, "a breakpoint, perhaps of another tool,", insn->address);
	if (in_group(mover, insn, CS_GRP_INT) || in_group(mover, insn, CS_GRP_IRET) ||
	    in_group(mover, insn, CS_GRP_PRIVILEGE) || insn->id == X86_INS_SYSCALL ||
	    insn->id == X86_INS_UD2)
		return refuse(err, "an instruction that cannot be relocated", insn->address);
	if (in_group(mover, insn, CS_GRP_BRANCH_RELATIVE))
		return move_jump(mover, insn, err);
	mover->ended = in_group(mover, insn, CS_GRP_RET) || in_group(mover, insn, CS_GRP_JUMP);
	return move_plain(mover, insn, err);
}

static bool is_moved(const struct limpet_entry_code *out, uint64_t target)
{
	return target - (out->from - out->stays) < out->stays + out->original_bytes;
}

/* Checks the rest of the function. It must not jump into the middle of what moves, nor to its
 * beginning, which would count as one more call. */
static int check_rest(const struct mover *mover, cs_insn *insn, const uint8_t *code, size_t bytes,
		      uint64_t address, struct limpet_err *err)
{
	for (size_t i = 0; i < mover->target_count; i++)
		if (is_moved(mover->out, mover->targets[i]))
			return refuse(err, "a jump into the relocated bytes", mover->out->from);
	while (bytes) {
		if (!cs_disasm_iter(mover->handle, &code, &bytes, &address, insn))
			return refuse(err, "bytes that are not an instruction", address);
		if (!in_group(mover, insn, CS_GRP_BRANCH_RELATIVE) ||
		    in_group(mover, insn, CS_GRP_CALL))
			continue;
		if (is_moved(mover->out, (uint64_t)insn->detail->x86.operands[0].imm))
			return refuse(err, "a jump back to the function's beginning",
				      insn->address);
	}
	return 0;
}

/* What it adds to the stack pointer; 0: nothing, or that is not known. */
static int64_t stack_change(const cs_insn *insn)
{
	const cs_x86 *x86 = &insn->detail->x86;
	const cs_x86_op *to = &x86->operands[0], *by = &x86->operands[1];
	const int64_t word = sizeof(uint64_t);

	if (insn->id == X86_INS_PUSH)
		return to->type != X86_OP_MEM && to->size == sizeof(uint64_t) ? -word : 0;
	if (x86->op_count != 2 || to->type != X86_OP_REG || to->reg != X86_REG_RSP)
		return 0;
	if (insn->id == X86_INS_SUB && by->type == X86_OP_IMM)
		return -by->imm;
	if (insn->id == X86_INS_ADD && by->type == X86_OP_IMM)
		return by->imm;
	if (insn->id == X86_INS_LEA && by->mem.base == X86_REG_RSP &&
	    by->mem.index == X86_REG_INVALID)
		return by->mem.disp;
	return 0;
}

/* The number of a register that belongs to the called function, 32 or 64 bits of it; -1: another.
 */
static int scratch_register(unsigned reg)
{
	static const uint16_t wide[] = {X86_REG_RAX, X86_REG_RCX, X86_REG_RDX,
					X86_REG_RSI, X86_REG_RDI, X86_REG_R8,
					X86_REG_R9,  X86_REG_R10, X86_REG_R11};
	static const uint16_t half[] = {X86_REG_EAX, X86_REG_ECX,  X86_REG_EDX,
					X86_REG_ESI, X86_REG_EDI,  X86_REG_R8D,
					X86_REG_R9D, X86_REG_R10D, X86_REG_R11D};

	for (size_t i = 0; i < LIMPET_COUNT_OF(wide); i++)
		if (reg == wide[i] || reg == half[i])
			return (int)i;
	return -1;
}

/* Whether it writes a register that it does not read: a function whose first instruction does so
 * has no argument there. */
static bool only_writes(const cs_insn *insn)
{
	const cs_x86 *x86 = &insn->detail->x86;
	const cs_x86_op *to = &x86->operands[0], *from = &x86->operands[1];
	int written;

	if (x86->op_count != 2 || to->type != X86_OP_REG)
		return false;
	written = scratch_register(to->reg);
	if (written < 0)
		return false;
	if (from->type == X86_OP_REG)
		return scratch_register(from->reg) != written || insn->id == X86_INS_XOR;
	if (from->type == X86_OP_MEM)
		return scratch_register(from->mem.base) != written &&
		       scratch_register(from->mem.index) != written;
	return true;
}

/* Whether it may stay in front of the jump. */
static bool may_stay(const cs_insn *insn, int64_t change)
{
	switch (insn->id) {
	case X86_INS_NOP:
	case X86_INS_TEST:
	case X86_INS_CMP:
		return true;
	case X86_INS_PUSH:
	case X86_INS_SUB:
	case X86_INS_ADD:
		return change < 0 && change > INT32_MIN;
	case X86_INS_LEA:
		return (change < 0 && change > INT32_MIN) || only_writes(insn);
	case X86_INS_MOV:
	case X86_INS_MOVABS:
		return only_writes(insn);
	case X86_INS_XOR:
		return insn->detail->x86.operands[0].reg == insn->detail->x86.operands[1].reg &&
		       only_writes(insn);
	default:
		return false;
	}
}

/* Leaves the first instruction where it is. -ENOTSUP: it is none that may stay. */
static int let_first_stay(struct mover *mover, cs_insn *insn, const uint8_t **code, size_t *bytes)
{
	struct limpet_entry_code *out = mover->out;
	uint64_t address = out->from;
	int64_t change;

	if (!cs_disasm_iter(mover->handle, code, bytes, &address, insn))
		return -ENOTSUP;
	change = stack_change(insn);
	if (!may_stay(insn, change))
		return -ENOTSUP;
	out->from += insn->size;
	out->stays = insn->size;
	out->undo = (int32_t)-change;
	return move_plain(mover, insn, NULL);
}

static int make(struct mover *mover, cs_insn *insn, const uint8_t *code, size_t bytes,
		struct limpet_err *err)
{
	struct limpet_entry_code *out = mover->out;
	uint64_t address = out->from;
	const uint8_t back = 0xe9;
	int error = 0;

	while (!error && out->original_bytes < LIMPET_ENTRY_JUMP_BYTES) {
		if (!cs_disasm_iter(mover->handle, &code, &bytes, &address, insn))
			return refuse(err, "bytes that are not an instruction", address);
		out->places[out->place_count].from = (uint8_t)out->original_bytes;
		out->places[out->place_count++].to = (uint8_t)out->code_bytes;
		memcpy(out->original + out->original_bytes, insn->bytes, insn->size);
		out->original_bytes += insn->size;
		error = move_one(mover, insn, err);
	}
	if (!error && !mover->ended)
		error = append_jump(out, &back, 1, address);
	if (error == -ERANGE)
		return limpet_err_set(err, error,
				      "what the code at %#llx refers to is out of reach",
				      (unsigned long long)out->from);
	return error ? error : check_rest(mover, insn, code, bytes, address, err);
}

/* From ret->from to ret->to, which are set; on failure it is as it was. `stays`: the first
 * instruction is to stay; otherwise the jump takes its place. */
static int make_at(const uint8_t *code, size_t bytes, bool stays, struct limpet_entry_code *ret,
		   struct limpet_err *err)
{
	struct limpet_entry_code out = {.from = ret->from, .to = ret->to};
	struct mover mover = {.out = &out};
	cs_insn *insn;
	int error;

	if (cs_open(CS_ARCH_X86, CS_MODE_64, &mover.handle) != CS_ERR_OK)
		return limpet_err_set(err, -ENOMEM, "out of memory");
	cs_option(mover.handle, CS_OPT_DETAIL, CS_OPT_ON);
	insn = cs_malloc(mover.handle);
	if (!insn) {
		cs_close(&mover.handle);
		return limpet_err_set(err, -ENOMEM, "out of memory");
	}
	error = stays ? let_first_stay(&mover, insn, &code, &bytes) : 0;
	if (!error)
		error = make(&mover, insn, code, bytes, err);
	cs_free(insn, 1);
	cs_close(&mover.handle);
	if (!error)
		*ret = out;
	return error;
}

int limpet_entry_code_make(const uint8_t *code, size_t bytes, uint64_t address, uint64_t to,
			   struct limpet_entry_code *ret, struct limpet_err *err)
{
	const size_t skipped = endbr64_bytes(code, bytes);
	struct limpet_entry_code out = {.from = address + skipped, .to = to};
	int error = skipped ? -ENOTSUP : make_at(code, bytes, true, &out, NULL);

	if (error || limpet_entry_code_crosses_page(&out)) {
		out = (struct limpet_entry_code){.from = address + skipped, .to = to};
		error = make_at(code + skipped, bytes - skipped, false, &out, err);
	}
	if (!error)
		*ret = out;
	return error;
}

bool limpet_entry_code_crosses_page(const struct limpet_entry_code *code)
{
	const uint64_t page = 4096, last = code->from + LIMPET_ENTRY_JUMP_BYTES - 1;

	return code->from / page != last / page;
}

/* A jump in place of a jump: the opcode, which is all that a breakpoint touches, is the same. */
bool limpet_entry_code_is_exposed(const struct limpet_entry_code *code, uint64_t address)
{
	return code->kind == LIMPET_ENTRY_FUNCTION && code->from == address &&
	       code->original[0] != 0xe9;
}

int limpet_entry_code_make_call(const uint8_t *code, uint64_t address, uint64_t to,
				struct limpet_entry_code *ret, struct limpet_err *err)
{
	struct limpet_entry_code out = {
		.kind = LIMPET_ENTRY_CALL,
		.from = address,
		.to = to,
		.original_bytes = LIMPET_ENTRY_JUMP_BYTES,
		.place_count = 1,
	};
	const uint8_t jump = 0xe9;
	int32_t away;

	if (code[0] != 0xe8)
		return refuse(err, "no direct call", address);
	memcpy(&away, code + 1, sizeof(away));
	memcpy(out.original, code, LIMPET_ENTRY_JUMP_BYTES);
	if (append_jump(&out, &jump, 1,
			address + LIMPET_ENTRY_JUMP_BYTES + (uint64_t)(int64_t)away) < 0)
		return limpet_err_set(err, -ERANGE, "what is called at %#llx is out of reach",
				      (unsigned long long)address);
	*ret = out;
	return 0;
}

int limpet_entry_code_make_probe(const uint8_t *code, size_t bytes, uint64_t address, uint64_t to,
				 struct limpet_entry_code *ret, struct limpet_err *err)
{
	struct limpet_entry_code out = {.from = address, .to = to};
	int error = make_at(code, bytes, false, &out, err);

	if (!error && (out.place_count != 1 || out.original_bytes != bytes))
		return refuse(err, "more than one instruction", address);
	if (error)
		return error;
	out.kind = LIMPET_ENTRY_PROBE;
	*ret = out;
	return 0;
}

bool limpet_entry_code_is_short_jump(const uint8_t *code, size_t bytes, uint64_t address,
				     uint64_t *ret_target)
{
	const size_t skipped = endbr64_bytes(code, bytes);

	if (bytes != skipped + 2 || code[skipped] != 0xeb)
		return false;
	*ret_target = address + bytes + (uint64_t)(int64_t)(int8_t)code[skipped + 1];
	return true;
}

/* ------------------------------------------------------------------ jumps from other functions */

#define SHORT_JUMP_BYTES 2u
/* The bytes before it are decoded in so many ways, each of which begins at least so far before it:
 * most have met by then. If that many come to it, it is an instruction; otherwise the middle of
 * one. */
#define WAYS 16u
#define WAY_BYTES 48u
#define WAYS_THAT_MEET 4u

/* The next offset from `at` of what may be such a jump; around->bytes: none. */
static size_t next_jump(const struct limpet_entry_surroundings *around, const uint8_t *code,
			size_t at)
{
	for (; at + SHORT_JUMP_BYTES <= around->bytes; at++) {
		const uint8_t opcode = code[at];
		const uint64_t from = around->address + at;
		const uint64_t target =
			from + SHORT_JUMP_BYTES + (uint64_t)(int64_t)(int8_t)code[at + 1];

		/* jmp; jcc; loopne, loope, loop, jrcxz */
		if (opcode != 0xeb && (opcode & 0xf0) != 0x70 && (opcode & 0xfc) != 0xe0)
			continue;
		if (from - around->own >= around->own_bytes && target > around->moved &&
		    target < around->moved + around->moved_bytes)
			return at;
	}
	return around->bytes;
}

bool limpet_entry_code_may_be_jumped_into(const struct limpet_entry_surroundings *around,
					  const uint8_t *code)
{
	return next_jump(around, code, 0) < around->bytes;
}

static bool is_prefix(uint8_t byte)
{
	return byte == 0x26 || byte == 0x2e || byte == 0x36 || byte == 0x3e ||
	       (byte >= 0x64 && byte <= 0x67) || byte == 0xf2 || byte == 0xf3 ||
	       (byte & 0xf0) == 0x40;
}

/* Whether decoding from `begin` comes to the jump at `at`, or to prefixes of it. */
static bool leads_to(csh handle, cs_insn *insn, const uint8_t *code, size_t end, size_t begin,
		     size_t at)
{
	while (begin < at) {
		const uint8_t *next = code + begin;
		size_t bytes = end - begin, prefixes = begin;
		uint64_t address = 0;
		const size_t size =
			cs_disasm_iter(handle, &next, &bytes, &address, insn) ? insn->size : 1;

		while (prefixes < at && is_prefix(code[prefixes]))
			prefixes++;
		if (prefixes == at && begin + size == at + SHORT_JUMP_BYTES)
			return true;
		begin += size;
	}
	return begin == at;
}

static bool is_instruction(csh handle, cs_insn *insn, const uint8_t *code, size_t end, size_t at)
{
	const size_t last = at > WAY_BYTES ? at - WAY_BYTES : 0;
	const size_t first = last >= WAYS ? last - WAYS + 1 : 0;
	unsigned ways = 0, meeting = 0;

	for (size_t begin = first; begin <= last; begin++) {
		ways++;
		meeting += leads_to(handle, insn, code, end, begin, at);
	}
	return meeting * WAYS >= ways * WAYS_THAT_MEET;
}

int limpet_entry_code_is_jumped_into(const struct limpet_entry_surroundings *around,
				     const uint8_t *code)
{
	const size_t end = around->bytes;
	bool found = false;
	cs_insn *insn;
	csh handle;

	if (cs_open(CS_ARCH_X86, CS_MODE_64, &handle) != CS_ERR_OK)
		return -ENOMEM;
	insn = cs_malloc(handle);
	for (size_t at = next_jump(around, code, 0); insn && at < end && !found;
	     at = next_jump(around, code, at + 1))
		found = is_instruction(handle, insn, code, end, at);
	if (insn)
		cs_free(insn, 1);
	cs_close(&handle);
	return insn ? found : -ENOMEM;
}

int limpet_entry_code_move(struct limpet_entry_code *code, uint64_t to)
{
	struct limpet_entry_code moved = *code;

	moved.to = to;
	for (size_t i = 0; i < code->relative_count; i++) {
		uint8_t *at = moved.code + code->relative[i];
		int32_t away;

		memcpy(&away, at, sizeof(away));
		if (distance(to, code->to + (uint64_t)(int64_t)away, &away) < 0)
			return -ERANGE;
		memcpy(at, &away, sizeof(away));
	}
	*code = moved;
	return 0;
}

int limpet_entry_code_jump(const struct limpet_entry_code *code, uint64_t target, uint8_t *ret)
{
	int32_t away;

	if (distance(code->from + LIMPET_ENTRY_JUMP_BYTES, target, &away) < 0)
		return -ERANGE;
	memset(ret, 0x90, code->original_bytes);
	ret[0] = code->kind == LIMPET_ENTRY_CALL ? 0xe8 : 0xe9;
	memcpy(ret + 1, &away, sizeof(away));
	return 0;
}

uint64_t limpet_entry_code_move_pc(const struct limpet_entry_code *code, uint64_t pc, bool away)
{
	uint64_t start = away ? code->from : code->to;
	uint64_t other = away ? code->to : code->from;
	size_t bytes = away ? code->original_bytes : code->code_bytes;

	if (pc - start >= bytes)
		return 0;
	if (!away && code->stays && pc == start)
		return other - code->stays;
	for (size_t i = 0; i < code->place_count; i++) {
		uint8_t here = away ? code->places[i].from : code->places[i].to;
		uint8_t there = away ? code->places[i].to : code->places[i].from;

		if (pc == start + here)
			return other + there;
	}
	/* The jump back. */
	if (!away && code->code_bytes >= LIMPET_ENTRY_JUMP_BYTES &&
	    pc == start + code->code_bytes - LIMPET_ENTRY_JUMP_BYTES)
		return other + code->original_bytes;
	return UINT64_MAX;
}
