/* Call frame information: CIEs, FDEs and their programs, as in .eh_frame.
 *
 * The part of the unwind-table compiler that knows DWARF. The bytes are hostile: every read goes
 * through a bounded reader whose error is sticky. No allocation, no state, any thread. */
#ifndef LIMPET_INJECTOR_UNWIND_CFI_H
#define LIMPET_INJECTOR_UNWIND_CFI_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/unwind_table.h"
#include "injector/unwind/cfi_reader.h"
#include "injector/unwind/cfi_rule.h"

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

/* Runs an FDE's program and passes each row to `row`: from `pc` on, `rule` holds. Rows ascend, all
 * within [fde->start, fde->end), the first at fde->start. */
typedef void limpet_cfi_row(void *context, uint64_t pc, const struct limpet_unwind_rule *rule);
void limpet_cfi_run(const struct limpet_cfi_cie *cie, const struct limpet_cfi_fde *fde,
		    const struct limpet_cfi_bases *bases, limpet_cfi_row *row, void *context);

#endif
