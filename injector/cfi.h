/* Call frame information: CIEs, FDEs and their programs, as .eh_frame holds them.
 *
 * The part of the unwind-table compiler that knows DWARF. Bytes are hostile: every read goes
 * through a bounded reader whose error sticks. No allocation, no state, any thread. */
#ifndef LIMPET_INJECTOR_CFI_H
#define LIMPET_INJECTOR_CFI_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/unwind_table.h"

/* A window on the section. Past the end, or after a malformed number, `bad` is set and every read
 * gives 0. `address` is that of `at` in the target. */
struct limpet_cfi_reader {
	const uint8_t *at, *end;
	uint64_t address;
	bool bad;
};
uint64_t limpet_cfi_read_fixed(struct limpet_cfi_reader *reader, unsigned bytes); /* 1, 2, 4, 8 */
uint64_t limpet_cfi_read_uleb(struct limpet_cfi_reader *reader);
int64_t limpet_cfi_read_sleb(struct limpet_cfi_reader *reader);
void limpet_cfi_skip(struct limpet_cfi_reader *reader, uint64_t bytes);
/* Cuts the next `bytes` off into a reader of their own. */
struct limpet_cfi_reader limpet_cfi_cut(struct limpet_cfi_reader *reader, uint64_t bytes);

/* Bases of relative pointers; see struct limpet_unwind_input. */
struct limpet_cfi_bases {
	uint64_t bias, text, data;
};
/* Reads a pointer of a DW_EH_PE_* encoding. False if it is null, omitted, indirect or unreadable;
 * `reader` is past it nonetheless, unless it is bad. */
bool limpet_cfi_read_pointer(struct limpet_cfi_reader *reader, uint8_t encoding,
			     const struct limpet_cfi_bases *bases, uint64_t *ret_address);

/* How one register of the caller is found. */
enum limpet_cfi_how {
	LIMPET_CFI_DEFAULT = 0, /* nothing was said */
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
	bool broken; /* an instruction was not understood: nothing holds from here on */
};

struct limpet_cfi_cie {
	size_t offset;  /* in the section */
	bool usable;    /* its FDEs' addresses can be read */
	bool augmented; /* 'z': FDEs have augmentation data */
	bool signal;    /* 'S' */
	uint8_t encoding;
	uint64_t code_align;
	int64_t data_align;
	struct limpet_cfi_state initial;
};

/* `body` begins after the CIE's id field. An unusable CIE is an answer, not an error. */
void limpet_cfi_parse_cie(struct limpet_cfi_reader body, const struct limpet_cfi_bases *bases,
			  size_t offset, struct limpet_cfi_cie *ret_cie);

struct limpet_cfi_fde {
	uint64_t start, end;
	struct limpet_cfi_reader program;
};
/* `body` begins after the FDE's CIE pointer. False if it describes no bytes or is malformed. */
bool limpet_cfi_parse_fde(struct limpet_cfi_reader body, const struct limpet_cfi_cie *cie,
			  const struct limpet_cfi_bases *bases, struct limpet_cfi_fde *ret_fde);

/* Runs an FDE's program and hands out its rows: from `pc` on, `rule` holds. Rows ascend, all within
 * [fde->start, fde->end), the first at fde->start. */
typedef void limpet_cfi_row(void *context, uint64_t pc, const struct limpet_unwind_rule *rule);
void limpet_cfi_run(const struct limpet_cfi_cie *cie, const struct limpet_cfi_fde *fde,
		    const struct limpet_cfi_bases *bases, limpet_cfi_row *row, void *context);

#endif
