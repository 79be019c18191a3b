/* The state of a CFI program, including expressions, and its conversion to an unwind rule. No
 * allocation, no state, any thread. */
#ifndef LIMPET_INJECTOR_UNWIND_CFI_RULE_H
#define LIMPET_INJECTOR_UNWIND_CFI_RULE_H

#include <stdbool.h>
#include <stdint.h>

#include "common/unwind_table.h"
#include "injector/unwind/cfi_reader.h"

/* How one register of the caller is found. */
enum limpet_cfi_how {
	LIMPET_CFI_DEFAULT = 0, /* not set */
	LIMPET_CFI_SAME,
	LIMPET_CFI_UNDEFINED,
	LIMPET_CFI_AT_CFA,  /* *(CFA + offset) */
	LIMPET_CFI_AT_SP,   /* *(rsp + offset) */
	LIMPET_CFI_AT_FP,   /* *(rbp + offset) */
	LIMPET_CFI_CFA_SUM, /* CFA + offset */
	LIMPET_CFI_OTHER    /* in another register, or a longer expression */
};
struct limpet_cfi_register {
	enum limpet_cfi_how how;
	int64_t offset;
};

struct limpet_cfi_state {
	/* LIMPET_CFA_NONE: reg and offset; else as in a rule (offset, extra) */
	enum limpet_unwind_cfa expression;
	uint64_t reg;
	int64_t offset, extra;
	struct limpet_cfi_register fp, sp, ra;
	bool broken; /* an instruction was not understood: nothing is known from here on */
};

/* DW_CFA_def_cfa_expression. */
void limpet_cfi_set_cfa_expression(struct limpet_cfi_state *state, struct limpet_cfi_reader code);
/* DW_CFA_expression; `value`: DW_CFA_val_expression. */
struct limpet_cfi_register limpet_cfi_register_expression(struct limpet_cfi_reader code,
							  bool value);
/* "unknown" if no rule can express it. `signal`: the frame is the kernel's. */
struct limpet_unwind_rule limpet_cfi_state_to_rule(const struct limpet_cfi_state *state,
						   bool signal);

#endif
