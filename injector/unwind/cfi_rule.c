#include "injector/unwind/cfi_rule.h"

#include <dwarf.h>

#include "injector/unwind/arch.h"

enum { MAX_OPERANDS = 8 };

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
			push.offset = limpet_cfi_read_signed(&code, 1);
			break;
		case DW_OP_const2u:
			push.offset = (int64_t)limpet_cfi_read_fixed(&code, 2);
			break;
		case DW_OP_const2s:
			push.offset = limpet_cfi_read_signed(&code, 2);
			break;
		case DW_OP_const4u:
			push.offset = (int64_t)limpet_cfi_read_fixed(&code, 4);
			break;
		case DW_OP_const4s:
			push.offset = limpet_cfi_read_signed(&code, 4);
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
			if (reg != LIMPET_ARCH_DWARF_SP && reg != LIMPET_ARCH_DWARF_FP)
				return false;
			push.kind = reg == LIMPET_ARCH_DWARF_SP ? SP_SUM : FP_SUM;
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
