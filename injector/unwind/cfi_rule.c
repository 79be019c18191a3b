#include "injector/unwind/cfi_rule.h"

#include <dwarf.h>

#include "injector/unwind/arch.h"

enum { MAX_OPERANDS = 8 };

/* ------------------------------------------------------------------ expressions */

/* A value that a rule can express: constant, register + offset, *(register + offset) + extra. */
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

struct operands {
	struct operand list[MAX_OPERANDS];
	unsigned depth;
};

/* Each of the following returns false if no rule can express the result. */

static bool push(struct operands *stack, struct operand operand)
{
	if (stack->depth == MAX_OPERANDS)
		return false;
	stack->list[stack->depth++] = operand;
	return true;
}

/* DW_OP_deref. */
static bool dereference(struct operands *stack)
{
	struct operand *top;

	if (!stack->depth)
		return false;
	top = &stack->list[stack->depth - 1];
	if (top->kind != SP_SUM && top->kind != FP_SUM)
		return false;
	top->kind = top->kind == SP_SUM ? SP_DEREF : FP_DEREF;
	return true;
}

/* DW_OP_plus_uconst. */
static bool add_constant(struct operands *stack, int64_t constant)
{
	return stack->depth && operand_add(&stack->list[stack->depth - 1], constant);
}

/* DW_OP_plus and DW_OP_minus, if one side is a constant: for minus the right one. */
static bool add_top_two(struct operands *stack, bool minus)
{
	struct operand left, right;

	if (stack->depth < 2)
		return false;
	left = stack->list[stack->depth - 2];
	right = stack->list[stack->depth - 1];
	if (!minus && left.kind == CONSTANT) {
		left = right;
		right = stack->list[stack->depth - 2];
	}
	if (right.kind != CONSTANT ||
	    (minus && __builtin_sub_overflow((int64_t)0, right.offset, &right.offset)) ||
	    !operand_add(&left, right.offset))
		return false;
	stack->depth -= 2;
	return push(stack, left);
}

/* DW_OP_breg0 to DW_OP_breg31 and DW_OP_bregx. */
static bool push_register(struct operands *stack, struct limpet_cfi_reader *code, uint64_t reg)
{
	if (reg != LIMPET_ARCH_DWARF_SP && reg != LIMPET_ARCH_DWARF_FP)
		return false;
	return push(stack, (struct operand){reg == LIMPET_ARCH_DWARF_SP ? SP_SUM : FP_SUM,
					    limpet_cfi_read_sleb(code), 0});
}

/* The operations that push a constant; no other. */
static bool push_constant(struct operands *stack, struct limpet_cfi_reader *code, uint8_t op)
{
	struct operand constant = {CONSTANT, 0, 0};

	switch (op) {
	case DW_OP_const1u:
		constant.offset = (int64_t)limpet_cfi_read_fixed(code, 1);
		break;
	case DW_OP_const1s:
		constant.offset = limpet_cfi_read_signed(code, 1);
		break;
	case DW_OP_const2u:
		constant.offset = (int64_t)limpet_cfi_read_fixed(code, 2);
		break;
	case DW_OP_const2s:
		constant.offset = limpet_cfi_read_signed(code, 2);
		break;
	case DW_OP_const4u:
		constant.offset = (int64_t)limpet_cfi_read_fixed(code, 4);
		break;
	case DW_OP_const4s:
		constant.offset = limpet_cfi_read_signed(code, 4);
		break;
	case DW_OP_constu:
		constant.offset = (int64_t)limpet_cfi_read_uleb(code);
		break;
	case DW_OP_consts:
		constant.offset = limpet_cfi_read_sleb(code);
		break;
	case DW_OP_lit0 ... DW_OP_lit31:
		constant.offset = op - DW_OP_lit0;
		break;
	default:
		return false;
	}
	return push(stack, constant);
}

static bool apply(struct operands *stack, struct limpet_cfi_reader *code, uint8_t op)
{
	switch (op) {
	case DW_OP_nop:
		return true;
	case DW_OP_deref:
		return dereference(stack);
	case DW_OP_plus_uconst:
		return add_constant(stack, (int64_t)limpet_cfi_read_uleb(code));
	case DW_OP_plus:
	case DW_OP_minus:
		return add_top_two(stack, op == DW_OP_minus);
	case DW_OP_breg0 ... DW_OP_breg31:
		return push_register(stack, code, op - DW_OP_breg0);
	case DW_OP_bregx:
		return push_register(stack, code, limpet_cfi_read_uleb(code));
	default:
		return push_constant(stack, code, op);
	}
}

/* Computes an expression. `start_with_cfa`: the CFA is on the stack at first, as for the rules of
 * registers. */
static bool evaluate(struct limpet_cfi_reader code, bool start_with_cfa, struct operand *ret)
{
	struct operands stack = {.depth = 0};

	if (start_with_cfa)
		push(&stack, (struct operand){CFA_SUM, 0, 0});
	while (code.at < code.end && !code.bad)
		if (!apply(&stack, &code, (uint8_t)limpet_cfi_read_fixed(&code, 1)))
			return false;
	if (code.bad || !stack.depth)
		return false;
	*ret = stack.list[stack.depth - 1];
	return true;
}

void limpet_cfi_set_cfa_expression(struct limpet_cfi_state *state, struct limpet_cfi_reader code)
{
	struct operand operand;

	state->expression = LIMPET_CFA_UNKNOWN;
	if (limpet_arch_match_plt(code, &state->offset, &state->extra)) {
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

struct limpet_cfi_register limpet_cfi_register_expression(struct limpet_cfi_reader code, bool value)
{
	struct limpet_cfi_register other = {LIMPET_CFI_OTHER, 0};
	struct operand operand;

	if (!evaluate(code, true, &operand))
		return other;
	/* DW_CFA_val_expression gives the value itself, DW_CFA_expression its address. A value that
	 * is read from memory is the same as its address. */
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
		cfa = state->reg == LIMPET_ARCH_DWARF_SP   ? LIMPET_CFA_SP
		      : state->reg == LIMPET_ARCH_DWARF_FP ? LIMPET_CFA_FP
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

/* No rule can express a caller's rsp that is not the CFA (setcontext, longjmp). */
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
	/* Other places are expressed relative to rsp, if the rule has room for that. */
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

struct limpet_unwind_rule limpet_cfi_state_to_rule(const struct limpet_cfi_state *state,
						   bool signal)
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
