#include "injector/cfi.h"

#include <dwarf.h>
#include <string.h>

/* DWARF numbers of x86-64 registers, System V ABI figure 3.36. */
enum { REG_FP = 6, REG_SP = 7, REG_RA = 16 };

/* Real programs nest remember_state once; GCC's longest seen is 2. */
enum { MAX_REMEMBERED = 16, MAX_OPERANDS = 8 };

uint64_t limpet_cfi_read_fixed(struct limpet_cfi_reader *reader, unsigned bytes)
{
	uint64_t value = 0;

	if (reader->bad || (size_t)(reader->end - reader->at) < bytes) {
		reader->bad = true;
		return 0;
	}
	for (unsigned i = 0; i < bytes; i++)
		value |= (uint64_t)reader->at[i] << (8 * i);
	reader->at += bytes;
	reader->address += bytes;
	return value;
}

static uint64_t read_leb(struct limpet_cfi_reader *reader, bool is_signed)
{
	uint64_t value = 0;
	unsigned shift = 0;

	while (!reader->bad && reader->at < reader->end) {
		uint8_t byte = *reader->at++;

		reader->address++;
		if (shift < 64)
			value |= (uint64_t)(byte & 0x7f) << shift;
		shift += 7;
		if (byte & 0x80)
			continue;
		if (is_signed && (byte & 0x40) && shift < 64)
			value |= ~(uint64_t)0 << shift;
		return value;
	}
	reader->bad = true;
	return 0;
}

uint64_t limpet_cfi_read_uleb(struct limpet_cfi_reader *reader)
{
	return read_leb(reader, false);
}

int64_t limpet_cfi_read_sleb(struct limpet_cfi_reader *reader)
{
	return (int64_t)read_leb(reader, true);
}

void limpet_cfi_skip(struct limpet_cfi_reader *reader, uint64_t bytes)
{
	if (reader->bad || (uint64_t)(reader->end - reader->at) < bytes) {
		reader->bad = true;
		return;
	}
	reader->at += bytes;
	reader->address += bytes;
}

struct limpet_cfi_reader limpet_cfi_cut(struct limpet_cfi_reader *reader, uint64_t bytes)
{
	struct limpet_cfi_reader part = *reader;

	limpet_cfi_skip(reader, bytes);
	part.bad = reader->bad;
	part.end = reader->bad ? part.at : reader->at;
	return part;
}

bool limpet_cfi_read_pointer(struct limpet_cfi_reader *reader, uint8_t encoding,
			     const struct limpet_cfi_bases *bases, uint64_t *ret_address)
{
	uint64_t base, value;

	if (encoding == DW_EH_PE_omit)
		return false;
	if (encoding == DW_EH_PE_aligned)
		limpet_cfi_skip(reader, -reader->address & 7);
	switch (encoding & 0x70) {
	case DW_EH_PE_absptr:
	case DW_EH_PE_aligned:
		base = bases->bias;
		break;
	case DW_EH_PE_pcrel:
		base = reader->address;
		break;
	case DW_EH_PE_textrel:
		base = bases->text;
		break;
	case DW_EH_PE_datarel:
		base = bases->data;
		break;
	default:
		reader->bad = true;
		return false;
	}
	switch (encoding & 0x0f) {
	case DW_EH_PE_absptr:
	case DW_EH_PE_udata8:
	case DW_EH_PE_sdata8:
		value = limpet_cfi_read_fixed(reader, 8);
		break;
	case DW_EH_PE_uleb128:
		value = limpet_cfi_read_uleb(reader);
		break;
	case DW_EH_PE_udata2:
		value = limpet_cfi_read_fixed(reader, 2);
		break;
	case DW_EH_PE_udata4:
		value = limpet_cfi_read_fixed(reader, 4);
		break;
	case DW_EH_PE_sleb128:
		value = (uint64_t)limpet_cfi_read_sleb(reader);
		break;
	case DW_EH_PE_sdata2:
		value = (uint64_t)(int64_t)(int16_t)limpet_cfi_read_fixed(reader, 2);
		break;
	case DW_EH_PE_sdata4:
		value = (uint64_t)(int64_t)(int32_t)limpet_cfi_read_fixed(reader, 4);
		break;
	default:
		reader->bad = true;
		return false;
	}
	/* A stored 0 is null whatever it is relative to: the linker's mark for dropped code. */
	if (reader->bad || value == 0 || (encoding & DW_EH_PE_indirect))
		return false;
	if (base == 0 && (encoding & 0x70) != DW_EH_PE_absptr && encoding != DW_EH_PE_aligned)
		return false;
	*ret_address = base + value;
	return true;
}

/* ------------------------------------------------------------------ expressions */

/* A value that a rule can say: constant, register + offset, *(register + offset) + extra. */
struct operand {
	enum { CONSTANT, SP_SUM, FP_SUM, CFA_SUM, SP_DEREF, FP_DEREF } kind;
	int64_t offset, extra;
};

static bool operand_add(struct operand *operand, int64_t constant)
{
	bool deref = operand->kind == SP_DEREF || operand->kind == FP_DEREF;
	int64_t *sum = deref ? &operand->extra : &operand->offset;

	return !__builtin_add_overflow(*sum, constant, sum);
}

/* Computes an expression over operands; false: nothing that a rule can say. `start_with_cfa`: the
 * CFA is on the stack at first, as for the rules of registers. */
static bool evaluate(struct limpet_cfi_reader code, bool start_with_cfa, struct operand *ret)
{
	struct operand stack[MAX_OPERANDS], *top;
	unsigned depth = 0;

	if (start_with_cfa)
		stack[depth++] = (struct operand){CFA_SUM, 0, 0};
	while (code.at < code.end && !code.bad) {
		uint8_t op = (uint8_t)limpet_cfi_read_fixed(&code, 1);
		struct operand push = {CONSTANT, 0, 0};
		uint64_t reg;

		top = depth ? &stack[depth - 1] : NULL;
		switch (op) {
		case DW_OP_nop:
			continue;
		case DW_OP_deref:
			if (!top || top->kind == CONSTANT || top->kind >= CFA_SUM)
				return false;
			top->kind = top->kind == SP_SUM ? SP_DEREF : FP_DEREF;
			continue;
		case DW_OP_plus_uconst:
			if (!top || !operand_add(top, (int64_t)limpet_cfi_read_uleb(&code)))
				return false;
			continue;
		case DW_OP_plus:
		case DW_OP_minus:
			if (depth < 2)
				return false;
			if (op == DW_OP_plus && stack[depth - 2].kind == CONSTANT) {
				push = stack[depth - 2];
				stack[depth - 2] = *top;
				*top = push;
			}
			if (top->kind != CONSTANT ||
			    (op == DW_OP_minus &&
			     __builtin_sub_overflow((int64_t)0, top->offset, &top->offset)) ||
			    !operand_add(&stack[depth - 2], top->offset))
				return false;
			depth--;
			continue;
		case DW_OP_const1u:
			push.offset = (int64_t)limpet_cfi_read_fixed(&code, 1);
			break;
		case DW_OP_const1s:
			push.offset = (int8_t)limpet_cfi_read_fixed(&code, 1);
			break;
		case DW_OP_const2u:
			push.offset = (int64_t)limpet_cfi_read_fixed(&code, 2);
			break;
		case DW_OP_const2s:
			push.offset = (int16_t)limpet_cfi_read_fixed(&code, 2);
			break;
		case DW_OP_const4u:
			push.offset = (int64_t)limpet_cfi_read_fixed(&code, 4);
			break;
		case DW_OP_const4s:
			push.offset = (int32_t)limpet_cfi_read_fixed(&code, 4);
			break;
		case DW_OP_constu:
			push.offset = (int64_t)limpet_cfi_read_uleb(&code);
			break;
		case DW_OP_consts:
			push.offset = limpet_cfi_read_sleb(&code);
			break;
		case DW_OP_lit0 ... DW_OP_lit31:
			push.offset = op - DW_OP_lit0;
			break;
		case DW_OP_breg0 ... DW_OP_breg31:
		case DW_OP_bregx:
			reg = op == DW_OP_bregx ? limpet_cfi_read_uleb(&code)
						: (uint64_t)(op - DW_OP_breg0);
			if (reg != REG_SP && reg != REG_FP)
				return false;
			push.kind = reg == REG_SP ? SP_SUM : FP_SUM;
			push.offset = limpet_cfi_read_sleb(&code);
			break;
		default:
			return false;
		}
		if (depth == MAX_OPERANDS)
			return false;
		stack[depth++] = push;
	}
	if (code.bad || !depth)
		return false;
	*ret = stack[depth - 1];
	return true;
}

/* The linkers' expression for lazy binding stubs: rsp + 8, and 8 more from the n-th byte of each
 * stub of 16 on, behind its push (n depends on the stub's form). */
static bool match_plt(struct limpet_cfi_reader code, int64_t *ret_offset, int64_t *ret_from)
{
	static const uint8_t tail[] = {DW_OP_ge, DW_OP_lit3, DW_OP_shl, DW_OP_plus};
	int64_t offset, from;

	if (limpet_cfi_read_fixed(&code, 1) != DW_OP_breg7)
		return false;
	offset = limpet_cfi_read_sleb(&code);
	if (limpet_cfi_read_fixed(&code, 1) != DW_OP_breg16 || limpet_cfi_read_sleb(&code) != 0 ||
	    limpet_cfi_read_fixed(&code, 1) != DW_OP_lit15 ||
	    limpet_cfi_read_fixed(&code, 1) != DW_OP_and)
		return false;
	from = (int64_t)limpet_cfi_read_fixed(&code, 1) - DW_OP_lit0;
	if (code.bad || from < 0 || from > 31 || (size_t)(code.end - code.at) != sizeof(tail) ||
	    memcmp(code.at, tail, sizeof(tail)) != 0)
		return false;
	*ret_offset = offset;
	*ret_from = from;
	return true;
}

static void set_cfa_expression(struct limpet_cfi_state *state, struct limpet_cfi_reader code)
{
	struct operand operand;

	state->expression = LIMPET_CFA_UNKNOWN;
	if (match_plt(code, &state->offset, &state->extra)) {
		state->expression = LIMPET_CFA_PLT;
		return;
	}
	if (!evaluate(code, false, &operand))
		return;
	state->offset = operand.offset;
	state->extra = operand.extra;
	switch (operand.kind) {
	case SP_SUM:
		state->expression = LIMPET_CFA_SP;
		break;
	case FP_SUM:
		state->expression = LIMPET_CFA_FP;
		break;
	case SP_DEREF:
		state->expression = LIMPET_CFA_SP_DEREF;
		break;
	case FP_DEREF:
		state->expression = LIMPET_CFA_FP_DEREF;
		break;
	default:
		break;
	}
}

static struct limpet_cfi_register register_expression(struct limpet_cfi_reader code, bool value)
{
	struct limpet_cfi_register other = {LIMPET_CFI_OTHER, 0};
	struct operand operand;

	if (!evaluate(code, true, &operand))
		return other;
	/* DW_CFA_val_expression gives the value itself, DW_CFA_expression where it is. A value that
	 * is read from memory is the same as its place. */
	if (value && operand.extra == 0 && operand.kind == SP_DEREF)
		return (struct limpet_cfi_register){LIMPET_CFI_AT_SP, operand.offset};
	if (value && operand.extra == 0 && operand.kind == FP_DEREF)
		return (struct limpet_cfi_register){LIMPET_CFI_AT_FP, operand.offset};
	if (value)
		return operand.kind == CFA_SUM
			       ? (struct limpet_cfi_register){LIMPET_CFI_CFA_SUM, operand.offset}
			       : other;
	switch (operand.kind) {
	case CFA_SUM:
		return (struct limpet_cfi_register){LIMPET_CFI_AT_CFA, operand.offset};
	case SP_SUM:
		return (struct limpet_cfi_register){LIMPET_CFI_AT_SP, operand.offset};
	case FP_SUM:
		return (struct limpet_cfi_register){LIMPET_CFI_AT_FP, operand.offset};
	default:
		return other;
	}
}

/* ------------------------------------------------------------------ from state to rule */

static bool fits(int64_t value)
{
	return value >= INT32_MIN && value <= INT32_MAX;
}

static bool rule_cfa(const struct limpet_cfi_state *state, struct limpet_unwind_rule *rule)
{
	enum limpet_unwind_cfa cfa = state->expression;

	if (cfa == LIMPET_CFA_NONE)
		cfa = state->reg == REG_SP   ? LIMPET_CFA_SP
		      : state->reg == REG_FP ? LIMPET_CFA_FP
					     : LIMPET_CFA_UNKNOWN;
	if (cfa == LIMPET_CFA_UNKNOWN || !fits(state->offset))
		return false;
	rule->cfa = (uint8_t)cfa;
	rule->cfa_offset = (int32_t)state->offset;
	if (cfa == LIMPET_CFA_SP_DEREF || cfa == LIMPET_CFA_FP_DEREF || cfa == LIMPET_CFA_PLT) {
		if (!fits(state->extra))
			return false;
		rule->extra = (int32_t)state->extra;
	}
	return true;
}

/* A caller's rsp that is not the CFA (setcontext, longjmp) is beyond a rule. */
static bool sp_is_cfa(const struct limpet_cfi_state *state)
{
	switch (state->sp.how) {
	case LIMPET_CFI_DEFAULT:
		return true;
	case LIMPET_CFI_CFA_SUM:
		return state->sp.offset == 0;
	case LIMPET_CFI_AT_SP:
		return state->expression == LIMPET_CFA_SP_DEREF && state->extra == 0 &&
		       state->sp.offset == state->offset;
	default:
		return false;
	}
}

static bool rule_ra(const struct limpet_cfi_state *state, struct limpet_unwind_rule *rule)
{
	int64_t offset = state->ra.offset;

	rule->ra = LIMPET_RA_CFA;
	if (state->ra.how == LIMPET_CFI_AT_CFA && offset == -8)
		return true;
	/* Other places are said from rsp, if the rule has room for it. */
	if (rule->extra != 0 || rule->cfa == LIMPET_CFA_PLT)
		return false;
	if (state->ra.how == LIMPET_CFI_AT_CFA && rule->cfa == LIMPET_CFA_SP) {
		if (__builtin_add_overflow(offset, state->offset, &offset))
			return false;
	} else if (state->ra.how != LIMPET_CFI_AT_SP) {
		return false;
	}
	if (!fits(offset))
		return false;
	rule->ra = LIMPET_RA_SP;
	rule->extra = (int32_t)offset;
	return true;
}

static void rule_fp(const struct limpet_cfi_state *state, struct limpet_unwind_rule *rule)
{
	static const uint8_t kinds[] = {
		[LIMPET_CFI_DEFAULT] = LIMPET_FP_SAME,    [LIMPET_CFI_SAME] = LIMPET_FP_SAME,
		[LIMPET_CFI_UNDEFINED] = LIMPET_FP_LOST,  [LIMPET_CFI_AT_CFA] = LIMPET_FP_CFA,
		[LIMPET_CFI_AT_SP] = LIMPET_FP_SP,        [LIMPET_CFI_AT_FP] = LIMPET_FP_FP,
		[LIMPET_CFI_CFA_SUM] = LIMPET_FP_CFA_SUM, [LIMPET_CFI_OTHER] = LIMPET_FP_LOST,
	};

	rule->fp = kinds[state->fp.how];
	if (rule->fp == LIMPET_FP_SAME || rule->fp == LIMPET_FP_LOST)
		return;
	if (fits(state->fp.offset))
		rule->fp_offset = (int32_t)state->fp.offset;
	else
		rule->fp = LIMPET_FP_LOST;
}

static struct limpet_unwind_rule state_to_rule(const struct limpet_cfi_state *state, bool signal)
{
	static const struct limpet_unwind_rule unknown = {.cfa = LIMPET_CFA_UNKNOWN};
	struct limpet_unwind_rule rule = {.flags = signal ? LIMPET_RULE_SIGNAL : 0};

	if (state->broken)
		return unknown;
	if (state->ra.how == LIMPET_CFI_UNDEFINED)
		return (struct limpet_unwind_rule){.cfa = LIMPET_CFA_END};
	if (!rule_cfa(state, &rule) || !sp_is_cfa(state) || !rule_ra(state, &rule))
		return unknown;
	rule_fp(state, &rule);
	return rule;
}

/* ------------------------------------------------------------------ programs */

struct machine {
	const struct limpet_cfi_cie *cie;
	const struct limpet_cfi_bases *bases;
	struct limpet_cfi_state state;
	struct limpet_cfi_state remembered[MAX_REMEMBERED];
	unsigned remembered_count;
	uint64_t pc;
};

static struct limpet_cfi_register *find_register(struct limpet_cfi_state *state, uint64_t reg)
{
	return reg == REG_FP   ? &state->fp
	       : reg == REG_SP ? &state->sp
	       : reg == REG_RA ? &state->ra
			       : NULL;
}

static void set_register(struct machine *machine, uint64_t reg, enum limpet_cfi_how how,
			 int64_t offset)
{
	struct limpet_cfi_register *place = find_register(&machine->state, reg);

	if (place)
		*place = (struct limpet_cfi_register){how, offset};
}

static void set_register_factored(struct machine *machine, uint64_t reg, enum limpet_cfi_how how,
				  int64_t factored)
{
	int64_t offset;

	if (__builtin_mul_overflow(factored, machine->cie->data_align, &offset))
		set_register(machine, reg, LIMPET_CFI_OTHER, 0);
	else
		set_register(machine, reg, how, offset);
}

static void restore_register(struct machine *machine, uint64_t reg)
{
	struct limpet_cfi_register *place = find_register(&machine->state, reg);
	struct limpet_cfi_state initial = machine->cie->initial;

	if (place)
		*place = *find_register(&initial, reg);
}

static void set_cfa(struct machine *machine, uint64_t reg, int64_t offset)
{
	machine->state.expression = LIMPET_CFA_NONE;
	machine->state.reg = reg;
	machine->state.offset = offset;
	machine->state.extra = 0;
}

static void set_cfa_offset(struct machine *machine, int64_t offset)
{
	/* Said after an expression it means nothing (DWARF 6.4.2.2). */
	if (machine->state.expression != LIMPET_CFA_NONE)
		machine->state.broken = true;
	machine->state.offset = offset;
}

static int64_t read_factored(struct machine *machine, struct limpet_cfi_reader *code)
{
	int64_t value;

	if (__builtin_mul_overflow(limpet_cfi_read_sleb(code), machine->cie->data_align, &value))
		machine->state.broken = true;
	return value;
}

static struct limpet_cfi_reader read_block(struct limpet_cfi_reader *code)
{
	uint64_t bytes = limpet_cfi_read_uleb(code);

	return limpet_cfi_cut(code, bytes);
}

/* All instructions but those that move the pc. */
static void execute(struct machine *machine, struct limpet_cfi_reader *code, uint8_t op)
{
	struct limpet_cfi_state *state = &machine->state;
	uint64_t reg;

	switch (op) {
	case DW_CFA_nop:
		break;
	case DW_CFA_offset_extended:
		reg = limpet_cfi_read_uleb(code);
		set_register_factored(machine, reg, LIMPET_CFI_AT_CFA,
				      (int64_t)limpet_cfi_read_uleb(code));
		break;
	case DW_CFA_offset_extended_sf:
		reg = limpet_cfi_read_uleb(code);
		set_register_factored(machine, reg, LIMPET_CFI_AT_CFA, limpet_cfi_read_sleb(code));
		break;
	case DW_CFA_GNU_negative_offset_extended:
		reg = limpet_cfi_read_uleb(code);
		set_register_factored(machine, reg, LIMPET_CFI_AT_CFA,
				      -(int64_t)(limpet_cfi_read_uleb(code) & INT64_MAX));
		break;
	case DW_CFA_val_offset:
		reg = limpet_cfi_read_uleb(code);
		set_register_factored(machine, reg, LIMPET_CFI_CFA_SUM,
				      (int64_t)limpet_cfi_read_uleb(code));
		break;
	case DW_CFA_val_offset_sf:
		reg = limpet_cfi_read_uleb(code);
		set_register_factored(machine, reg, LIMPET_CFI_CFA_SUM, limpet_cfi_read_sleb(code));
		break;
	case DW_CFA_restore_extended:
		restore_register(machine, limpet_cfi_read_uleb(code));
		break;
	case DW_CFA_undefined:
		set_register(machine, limpet_cfi_read_uleb(code), LIMPET_CFI_UNDEFINED, 0);
		break;
	case DW_CFA_same_value:
		set_register(machine, limpet_cfi_read_uleb(code), LIMPET_CFI_SAME, 0);
		break;
	case DW_CFA_register:
		reg = limpet_cfi_read_uleb(code);
		limpet_cfi_read_uleb(code);
		set_register(machine, reg, LIMPET_CFI_OTHER, 0);
		break;
	case DW_CFA_expression:
	case DW_CFA_val_expression: {
		struct limpet_cfi_register how;

		reg = limpet_cfi_read_uleb(code);
		how = register_expression(read_block(code), op == DW_CFA_val_expression);
		set_register(machine, reg, how.how, how.offset);
		break;
	}
	case DW_CFA_remember_state:
		if (machine->remembered_count == MAX_REMEMBERED)
			state->broken = true;
		else
			machine->remembered[machine->remembered_count++] = *state;
		break;
	case DW_CFA_restore_state:
		/* What broke before the pair stays broken: a lost remember leaves no pairs. */
		if (state->broken || machine->remembered_count == 0)
			state->broken = true;
		else
			*state = machine->remembered[--machine->remembered_count];
		break;
	case DW_CFA_def_cfa:
		reg = limpet_cfi_read_uleb(code);
		set_cfa(machine, reg, (int64_t)limpet_cfi_read_uleb(code));
		break;
	case DW_CFA_def_cfa_sf:
		reg = limpet_cfi_read_uleb(code);
		set_cfa(machine, reg, read_factored(machine, code));
		break;
	case DW_CFA_def_cfa_register:
		if (state->expression != LIMPET_CFA_NONE)
			state->broken = true;
		state->reg = limpet_cfi_read_uleb(code);
		break;
	case DW_CFA_def_cfa_offset:
		set_cfa_offset(machine, (int64_t)limpet_cfi_read_uleb(code));
		break;
	case DW_CFA_def_cfa_offset_sf:
		set_cfa_offset(machine, read_factored(machine, code));
		break;
	case DW_CFA_def_cfa_expression:
		set_cfa_expression(state, read_block(code));
		break;
	case DW_CFA_GNU_args_size:
		limpet_cfi_read_uleb(code);
		break;
	default:
		/* An unknown length: the rest cannot be read either. */
		state->broken = true;
		code->at = code->end;
		break;
	}
}

/* Executes up to the next move of the pc. False at the program's end; else the new pc, which is
 * UINT64_MAX if it cannot be said. */
static bool run_to_move(struct machine *machine, struct limpet_cfi_reader *code, uint64_t *ret_pc)
{
	while (code->at < code->end && !code->bad) {
		uint8_t op = (uint8_t)limpet_cfi_read_fixed(code, 1);
		uint64_t delta;

		switch (op & 0xc0) {
		case DW_CFA_advance_loc:
			delta = op & 0x3f;
			break;
		case DW_CFA_offset:
			set_register_factored(machine, op & 0x3f, LIMPET_CFI_AT_CFA,
					      (int64_t)limpet_cfi_read_uleb(code));
			continue;
		case DW_CFA_restore:
			restore_register(machine, op & 0x3f);
			continue;
		default:
			switch (op) {
			case DW_CFA_advance_loc1:
				delta = limpet_cfi_read_fixed(code, 1);
				break;
			case DW_CFA_advance_loc2:
				delta = limpet_cfi_read_fixed(code, 2);
				break;
			case DW_CFA_advance_loc4:
				delta = limpet_cfi_read_fixed(code, 4);
				break;
			case DW_CFA_MIPS_advance_loc8:
				delta = limpet_cfi_read_fixed(code, 8);
				break;
			case DW_CFA_set_loc:
				if (!limpet_cfi_read_pointer(code, machine->cie->encoding,
							     machine->bases, ret_pc))
					*ret_pc = UINT64_MAX;
				return true;
			default:
				execute(machine, code, op);
				continue;
			}
		}
		if (__builtin_mul_overflow(delta, machine->cie->code_align, &delta) ||
		    __builtin_add_overflow(machine->pc, delta, ret_pc))
			*ret_pc = UINT64_MAX;
		return true;
	}
	if (code->bad)
		machine->state.broken = true;
	return false;
}

void limpet_cfi_run(const struct limpet_cfi_cie *cie, const struct limpet_cfi_fde *fde,
		    const struct limpet_cfi_bases *bases, limpet_cfi_row *row, void *context)
{
	struct limpet_cfi_reader code = fde->program;
	struct limpet_unwind_rule rule;
	struct machine machine;
	uint64_t next;

	machine.cie = cie;
	machine.bases = bases;
	machine.state = cie->initial;
	machine.remembered_count = 0;
	machine.pc = fde->start;
	while (run_to_move(&machine, &code, &next)) {
		if (code.bad || next < machine.pc || next == UINT64_MAX) {
			/* Back in time, or cut off: no row from here on can be trusted. */
			machine.state.broken = true;
			break;
		}
		if (next == machine.pc)
			continue;
		rule = state_to_rule(&machine.state, cie->signal);
		row(context, machine.pc, &rule);
		if (next >= fde->end)
			return;
		machine.pc = next;
	}
	rule = state_to_rule(&machine.state, cie->signal);
	row(context, machine.pc, &rule);
}

/* ------------------------------------------------------------------ entries */

static bool parse_augmentation(struct limpet_cfi_reader *data, const char *letters,
			       const struct limpet_cfi_bases *bases, struct limpet_cfi_cie *cie)
{
	uint64_t ignored;
	uint8_t encoding;

	for (; *letters; letters++) {
		switch (*letters) {
		case 'R':
			cie->encoding = (uint8_t)limpet_cfi_read_fixed(data, 1);
			break;
		case 'L':
			limpet_cfi_read_fixed(data, 1);
			break;
		case 'P':
			encoding = (uint8_t)limpet_cfi_read_fixed(data, 1);
			limpet_cfi_read_pointer(data, encoding, bases, &ignored);
			break;
		case 'S':
			cie->signal = true;
			break;
		case 'B': /* pointer authentication, aarch64: no data */
			break;
		default:
			return false;
		}
	}
	return !data->bad;
}

void limpet_cfi_parse_cie(struct limpet_cfi_reader body, const struct limpet_cfi_bases *bases,
			  size_t offset, struct limpet_cfi_cie *ret_cie)
{
	struct machine machine;
	const char *letters;
	const uint8_t *end_of_letters;
	uint64_t ra_register, ignored;
	uint8_t version;

	memset(ret_cie, 0, sizeof(*ret_cie));
	ret_cie->offset = offset;
	version = (uint8_t)limpet_cfi_read_fixed(&body, 1);
	if (body.bad || (version != 1 && version != 3 && version != 4))
		return;
	letters = (const char *)body.at;
	end_of_letters = memchr(body.at, 0, (size_t)(body.end - body.at));
	if (!end_of_letters)
		return;
	limpet_cfi_skip(&body, (uint64_t)(end_of_letters - body.at) + 1);
	if (strcmp(letters, "eh") == 0) { /* GCC 2's: a pointer of its runtime */
		limpet_cfi_skip(&body, 8);
		letters += 2;
	}
	if (version == 4 &&
	    (limpet_cfi_read_fixed(&body, 1) != 8 || limpet_cfi_read_fixed(&body, 1) != 0))
		return;
	ret_cie->code_align = limpet_cfi_read_uleb(&body);
	ret_cie->data_align = limpet_cfi_read_sleb(&body);
	ra_register = version == 1 ? limpet_cfi_read_fixed(&body, 1) : limpet_cfi_read_uleb(&body);
	if (*letters == 'z') {
		uint64_t bytes = limpet_cfi_read_uleb(&body);
		struct limpet_cfi_reader data = limpet_cfi_cut(&body, bytes);

		ret_cie->augmented = true;
		if (!parse_augmentation(&data, letters + 1, bases, ret_cie))
			return;
	} else if (*letters) {
		return;
	}
	if (body.bad || ra_register != REG_RA)
		return;
	ret_cie->usable = true;

	machine.cie = ret_cie;
	machine.bases = bases;
	memset(&machine.state, 0, sizeof(machine.state));
	machine.state.expression = LIMPET_CFA_UNKNOWN;
	machine.remembered_count = 0;
	machine.pc = 0;
	if (run_to_move(&machine, &body, &ignored)) /* has no place here */
		machine.state.broken = true;
	ret_cie->initial = machine.state;
}

bool limpet_cfi_parse_fde(struct limpet_cfi_reader body, const struct limpet_cfi_cie *cie,
			  const struct limpet_cfi_bases *bases, struct limpet_cfi_fde *ret_fde)
{
	static const struct limpet_cfi_bases no_bases;
	struct limpet_cfi_fde fde;
	uint64_t bytes;

	if (!limpet_cfi_read_pointer(&body, cie->encoding, bases, &fde.start) ||
	    !limpet_cfi_read_pointer(&body, cie->encoding & 0x0f, &no_bases, &bytes) ||
	    __builtin_add_overflow(fde.start, bytes, &fde.end))
		return false;
	if (cie->augmented)
		limpet_cfi_skip(&body, limpet_cfi_read_uleb(&body));
	if (body.bad)
		return false;
	fde.program = body;
	*ret_fde = fde;
	return true;
}
