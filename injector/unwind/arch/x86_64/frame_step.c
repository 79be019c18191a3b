#include "injector/unwind/frame_step.h"

/* Frames larger than that are taken for nonsense. */
#define DEPTH_MAX (16 << 20)
#define TABLE_MAX 4096u

struct step {
	const cs_insn *insn;
	const cs_x86 *x86;
	struct limpet_frame_state *state;
	struct limpet_frame_path *path;
	struct limpet_frame_effect *effect;
};

/* The number of a 64-bit general register, of any of its parts; -1: another one. */
static int number(x86_reg reg)
{
	static const uint8_t numbers[X86_REG_ENDING] = {
		/* plus 1 */
		[X86_REG_RAX] = 1,  [X86_REG_EAX] = 1,   [X86_REG_AX] = 1,    [X86_REG_AL] = 1,
		[X86_REG_RCX] = 2,  [X86_REG_ECX] = 2,   [X86_REG_CX] = 2,    [X86_REG_CL] = 2,
		[X86_REG_RDX] = 3,  [X86_REG_EDX] = 3,   [X86_REG_DX] = 3,    [X86_REG_DL] = 3,
		[X86_REG_RBX] = 4,  [X86_REG_EBX] = 4,   [X86_REG_BX] = 4,    [X86_REG_BL] = 4,
		[X86_REG_RSP] = 5,  [X86_REG_ESP] = 5,   [X86_REG_SP] = 5,    [X86_REG_SPL] = 5,
		[X86_REG_RBP] = 6,  [X86_REG_EBP] = 6,   [X86_REG_BP] = 6,    [X86_REG_BPL] = 6,
		[X86_REG_RSI] = 7,  [X86_REG_ESI] = 7,   [X86_REG_SI] = 7,    [X86_REG_SIL] = 7,
		[X86_REG_RDI] = 8,  [X86_REG_EDI] = 8,   [X86_REG_DI] = 8,    [X86_REG_DIL] = 8,
		[X86_REG_R8] = 9,   [X86_REG_R8D] = 9,   [X86_REG_R8W] = 9,   [X86_REG_R8B] = 9,
		[X86_REG_R9] = 10,  [X86_REG_R9D] = 10,  [X86_REG_R9W] = 10,  [X86_REG_R9B] = 10,
		[X86_REG_R10] = 11, [X86_REG_R10D] = 11, [X86_REG_R10W] = 11, [X86_REG_R10B] = 11,
		[X86_REG_R11] = 12, [X86_REG_R11D] = 12, [X86_REG_R11W] = 12, [X86_REG_R11B] = 12,
		[X86_REG_R12] = 13, [X86_REG_R12D] = 13, [X86_REG_R12W] = 13, [X86_REG_R12B] = 13,
		[X86_REG_R13] = 14, [X86_REG_R13D] = 14, [X86_REG_R13W] = 14, [X86_REG_R13B] = 14,
		[X86_REG_R14] = 15, [X86_REG_R14D] = 15, [X86_REG_R14W] = 15, [X86_REG_R14B] = 15,
		[X86_REG_R15] = 16, [X86_REG_R15D] = 16, [X86_REG_R15W] = 16, [X86_REG_R15B] = 16,
	};

	return reg < X86_REG_ENDING ? numbers[reg] - 1 : -1;
}
#define SP 4
#define FP 5

static bool is_register(const cs_x86_op *operand, x86_reg reg)
{
	return operand->type == X86_OP_REG && operand->reg == reg;
}

/* [base + displacement], and nothing else. */
static bool is_plain_memory(const cs_x86_op *operand, x86_reg base)
{
	return operand->type == X86_OP_MEM && operand->mem.base == base &&
	       operand->mem.index == X86_REG_INVALID && operand->mem.segment == X86_REG_INVALID;
}

static void lose_fp(struct limpet_frame_state *state)
{
	state->fp_base = 0;
	if (!state->fp_saved)
		state->fp_lost = true;
}

static void unclear(struct step *step)
{
	step->effect->flow = LIMPET_FLOW_UNCLEAR;
}

static void set_depth(struct step *step, int64_t depth)
{
	struct limpet_frame_state *state = step->state;

	/* Below that it takes its return address away, as the first function of a thread does. */
	if (depth < LIMPET_FRAME_ENTRY_DEPTH || depth > DEPTH_MAX) {
		unclear(step);
		return;
	}
	state->depth = (int32_t)depth;
	/* What is below the stack pointer may be written over. */
	if (state->fp_saved && -state->fp_saved > depth) {
		state->fp_saved = 0;
		state->fp_lost = true;
	}
}

static void add_depth(struct step *step, int64_t bytes)
{
	if (step->state->depth != LIMPET_FRAME_NO_DEPTH)
		set_depth(step, step->state->depth + bytes);
}

static void push(struct step *step)
{
	const cs_x86_op *operand = &step->x86->operands[0];
	struct limpet_frame_state *state = step->state;

	if (step->x86->op_count == 1 && operand->size != 8) {
		unclear(step);
		return;
	}
	add_depth(step, 8);
	if (step->x86->op_count == 1 && is_register(operand, X86_REG_RBP) && !state->fp_saved &&
	    !state->fp_lost && !state->fp_base && state->depth != LIMPET_FRAME_NO_DEPTH)
		state->fp_saved = -state->depth;
}

static void pop(struct step *step)
{
	const cs_x86_op *operand = &step->x86->operands[0];
	struct limpet_frame_state *state = step->state;
	const bool restores = state->fp_saved && state->fp_saved == -state->depth;

	if (step->x86->op_count == 1 && (operand->size != 8 || is_register(operand, X86_REG_RSP))) {
		unclear(step);
		return;
	}
	if (step->x86->op_count == 1 && is_register(operand, X86_REG_RBP)) {
		if (restores) {
			state->fp_saved = 0;
			state->fp_base = 0;
		} else {
			lose_fp(state);
		}
	}
	add_depth(step, -8);
}

/* Whether the instruction was one that moves the stack pointer in a way that is followed. */
static bool moves_sp(struct step *step)
{
	const cs_x86_op *to = &step->x86->operands[0], *from = &step->x86->operands[1];
	struct limpet_frame_state *state = step->state;

	if (step->x86->op_count != 2 || !is_register(to, X86_REG_RSP))
		return false;
	if (step->insn->id == X86_INS_ADD && from->type == X86_OP_IMM) {
		add_depth(step, -from->imm);
	} else if (step->insn->id == X86_INS_SUB && from->type == X86_OP_IMM) {
		add_depth(step, from->imm);
	} else if (step->insn->id == X86_INS_LEA && is_plain_memory(from, X86_REG_RSP)) {
		add_depth(step, -from->mem.disp);
	} else if (step->insn->id == X86_INS_LEA && is_plain_memory(from, X86_REG_RBP) &&
		   state->fp_base) {
		set_depth(step, state->fp_base - from->mem.disp);
	} else if (step->insn->id == X86_INS_MOV && is_register(from, X86_REG_RBP) &&
		   state->fp_base) {
		set_depth(step, state->fp_base);
	} else if ((step->insn->id == X86_INS_SUB || step->insn->id == X86_INS_AND) &&
		   state->fp_base) {
		/* alloca(), or a larger alignment: from here on by the frame pointer. */
		state->depth = LIMPET_FRAME_NO_DEPTH;
	} else {
		return false;
	}
	return true;
}

/* The same of the frame pointer. */
static bool moves_fp(struct step *step)
{
	const cs_x86_op *to = &step->x86->operands[0], *from = &step->x86->operands[1];
	struct limpet_frame_state *state = step->state;
	int64_t place;

	if (step->insn->id == X86_INS_LEAVE) {
		if (!state->fp_base || state->fp_saved != -state->fp_base) {
			unclear(step);
			return true;
		}
		set_depth(step, state->fp_base - 8);
		state->fp_saved = 0;
		state->fp_base = 0;
		state->fp_lost = false;
		return true;
	}
	if (step->insn->id != X86_INS_MOV || step->x86->op_count != 2)
		return false;
	if (is_register(to, X86_REG_RBP) && is_register(from, X86_REG_RSP) &&
	    state->depth != LIMPET_FRAME_NO_DEPTH) {
		if (!state->fp_saved)
			state->fp_lost = true;
		state->fp_base = state->depth;
		return true;
	}
	if (state->depth == LIMPET_FRAME_NO_DEPTH)
		return false;
	if (is_register(from, X86_REG_RBP) && is_plain_memory(to, X86_REG_RSP)) {
		place = to->mem.disp - state->depth;
		if (!state->fp_saved && !state->fp_lost && !state->fp_base && place < 0 &&
		    place >= -DEPTH_MAX)
			state->fp_saved = (int32_t)place;
		return true;
	}
	if (is_register(to, X86_REG_RBP) && is_plain_memory(from, X86_REG_RSP) && state->fp_saved &&
	    from->mem.disp - state->depth == state->fp_saved) {
		state->fp_saved = 0;
		state->fp_base = 0;
		return true;
	}
	return false;
}

/* What else it writes to. */
static void note_writes(struct step *step)
{
	const cs_detail *detail = step->insn->detail;
	bool written[LIMPET_FRAME_REGISTERS] = {false};

	for (uint8_t i = 0; i < step->x86->op_count; i++) {
		const cs_x86_op *operand = &step->x86->operands[i];
		const int reg = operand->type == X86_OP_REG ? number(operand->reg) : -1;

		if (reg >= 0 && (operand->access & CS_AC_WRITE))
			written[reg] = true;
	}
	for (uint8_t i = 0; i < detail->regs_write_count; i++) {
		const int reg = number((x86_reg)detail->regs_write[i]);

		if (reg >= 0)
			written[reg] = true;
	}
	for (unsigned reg = 0; reg < LIMPET_FRAME_REGISTERS; reg++)
		if (written[reg])
			step->path->tables[reg] = 0;
	if (written[SP])
		unclear(step);
	if (written[FP]) {
		lose_fp(step->state);
		if (step->state->depth == LIMPET_FRAME_NO_DEPTH)
			unclear(step);
	}
}

/* A jump by a table: lea table(%rip), base; movslq (base, index, 4), x; add base, x; jmp *x, after
 * a comparison of the index with the last one. */
static void note_table(struct step *step)
{
	const cs_x86_op *to = &step->x86->operands[0], *from = &step->x86->operands[1];
	struct limpet_frame_path *path = step->path;
	int base;

	if (step->x86->op_count != 2)
		return;
	if (step->insn->id == X86_INS_CMP && from->type == X86_OP_IMM) {
		path->table_count =
			from->imm >= 0 && from->imm < TABLE_MAX ? (uint32_t)from->imm + 1 : 0;
	} else if (step->insn->id == X86_INS_MOVSXD && from->type == X86_OP_MEM &&
		   from->mem.scale == 4) {
		base = number((x86_reg)from->mem.base);
		path->table = base >= 0 ? path->tables[base] : 0;
	} else if (step->insn->id == X86_INS_LEA && is_plain_memory(from, X86_REG_RIP)) {
		step->effect->value =
			step->insn->address + step->insn->size + (uint64_t)from->mem.disp;
		base = number(to->reg);
		if (base >= 0 && to->size == 8 && step->effect->value < UINT32_MAX)
			path->tables[base] = (uint32_t)step->effect->value;
	}
}

static void flow_to(struct step *step, enum limpet_frame_flow flow)
{
	const cs_x86_op *operand = &step->x86->operands[0];

	step->effect->flow = flow;
	step->effect->has_target = step->x86->op_count == 1 && operand->type == X86_OP_IMM;
	if (step->effect->has_target)
		step->effect->target = (uint64_t)operand->imm;
	else if (flow == LIMPET_FLOW_JUMP)
		step->effect->flow = operand->type == X86_OP_REG && step->path->table
					     ? LIMPET_FLOW_TABLE
					     : LIMPET_FLOW_RETURN;
}

static bool is_branch(const cs_insn *insn)
{
	for (uint8_t i = 0; i < insn->detail->groups_count; i++)
		if (insn->detail->groups[i] == X86_GRP_JUMP)
			return true;
	return false;
}

/* Whether the instruction goes elsewhere. */
static bool flows(struct step *step)
{
	switch (step->insn->id) {
	case X86_INS_CALL:
		flow_to(step, LIMPET_FLOW_CALL);
		return true;
	case X86_INS_JMP:
		flow_to(step, LIMPET_FLOW_JUMP);
		return true;
	case X86_INS_RET:
		step->effect->flow = LIMPET_FLOW_RETURN;
		return true;
	case X86_INS_INT3:
	case X86_INS_HLT:
	case X86_INS_UD2:
		step->effect->flow = LIMPET_FLOW_STOP;
		return true;
	case X86_INS_LOOP:
	case X86_INS_LOOPE:
	case X86_INS_LOOPNE:
		flow_to(step, LIMPET_FLOW_BRANCH);
		return true;
	default:
		if (!is_branch(step->insn))
			return false;
		flow_to(step, LIMPET_FLOW_BRANCH);
		return true;
	}
}

void limpet_frame_step(const cs_insn *insn, struct limpet_frame_state *state,
		       struct limpet_frame_path *path, struct limpet_frame_effect *ret)
{
	struct step step = {insn, &insn->detail->x86, state, path, ret};

	*ret = (struct limpet_frame_effect){.flow = LIMPET_FLOW_NEXT};
	if (flows(&step))
		return;
	switch (insn->id) {
	case X86_INS_PUSH:
	case X86_INS_PUSHFQ:
		push(&step);
		return;
	case X86_INS_POP:
	case X86_INS_POPFQ:
		if (insn->detail->x86.op_count == 1 &&
		    insn->detail->x86.operands[0].type == X86_OP_REG &&
		    number(insn->detail->x86.operands[0].reg) >= 0)
			path->tables[number(insn->detail->x86.operands[0].reg)] = 0;
		pop(&step);
		return;
	default:
		if (moves_sp(&step) || moves_fp(&step))
			return;
		note_writes(&step);
		note_table(&step);
	}
}
