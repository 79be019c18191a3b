/* What an instruction does to the call frame. Implemented in arch/, by capstone. */
#ifndef LIMPET_INJECTOR_UNWIND_FRAME_STEP_H
#define LIMPET_INJECTOR_UNWIND_FRAME_STEP_H

#include <capstone/capstone.h>
#include <stdbool.h>
#include <stdint.h>

#include "common/unwind_table.h"

/* Registers that may hold the address of a table of jumps. */
#define LIMPET_FRAME_REGISTERS 16u
#define LIMPET_FRAME_NO_DEPTH INT32_MIN

/* The frame before an instruction. `depth` is the distance from the stack pointer up to the CFA:
 * LIMPET_FRAME_ENTRY_DEPTH at the start of a function. */
struct limpet_frame_state {
	int32_t depth;    /* LIMPET_FRAME_NO_DEPTH: not known */
	int32_t fp_base;  /* from the frame pointer up to the CFA; 0: it points elsewhere */
	int32_t fp_saved; /* the caller's frame pointer is at CFA + fp_saved; 0: it is not there */
	bool fp_lost;     /* and not in its register either */
};
#define LIMPET_FRAME_ENTRY_DEPTH 8

/* What is known on one path besides. */
struct limpet_frame_path {
	uint32_t tables[LIMPET_FRAME_REGISTERS]; /* addresses in registers; 0: not known */
	uint32_t table;                          /* from which the last jump's distance was read */
	uint32_t table_count;                    /* of its entries: from the last comparison */
};

enum limpet_frame_flow {
	LIMPET_FLOW_NEXT,
	LIMPET_FLOW_CALL,
	LIMPET_FLOW_BRANCH,
	LIMPET_FLOW_JUMP,
	LIMPET_FLOW_TABLE,  /* a jump by a table */
	LIMPET_FLOW_RETURN, /* also a jump to an address from memory: that of another function */
	LIMPET_FLOW_STOP,   /* never continues */
	LIMPET_FLOW_UNCLEAR /* does to the stack what is not followed */
};
struct limpet_frame_effect {
	enum limpet_frame_flow flow;
	bool has_target;
	uint64_t target; /* of CALL, BRANCH, JUMP */
	uint64_t value;  /* an address that was computed, perhaps of a function; 0: none */
};

/* Applies an instruction, decoded with details, to the frame. */
void limpet_frame_step(const cs_insn *insn, struct limpet_frame_state *state,
		       struct limpet_frame_path *path, struct limpet_frame_effect *ret);

#endif
