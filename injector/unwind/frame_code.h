/* Finds out where call frames are in code without unwind information: follows the instructions of
 * each function from its start, and keeps book of the stack pointer.
 *
 * A function counts only as a whole: each of its paths has to reach its return with the stack as it
 * was at the start, and two paths that meet have to agree. The rows of a function of which that
 * cannot be shown are left out.
 *
 * Pure; the code is hostile: memory and time are bounded by its size. All numbers are offsets from
 * the start of the module. */
#ifndef LIMPET_INJECTOR_UNWIND_FRAME_CODE_H
#define LIMPET_INJECTOR_UNWIND_FRAME_CODE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/err.h"
#include "common/unwind_table.h"

struct limpet_frame_range {
	uint32_t start, end;
};

struct limpet_frame_code {
	const uint8_t *image; /* what the module maps, as far as it can be read */
	uint32_t bytes;
	/* Code without a description: sorted, no two of them touch. */
	const struct limpet_frame_range *holes;
	size_t hole_count;
	/* Starts of functions. */
	const uint32_t *starts;
	size_t start_count;
	/* What may be starts: addresses that are stored in data. */
	const uint32_t *guesses;
	size_t guess_count;
};

/* From `offset` on this rule holds; rule.cfa is LIMPET_CFA_NONE where nothing is known. */
struct limpet_frame_row {
	uint32_t offset;
	struct limpet_unwind_rule rule;
};
struct limpet_frame_rows {
	struct limpet_frame_row *list; /* sorted; to be freed */
	size_t count;
	uint32_t functions;         /* whose rows these are */
	uint32_t functions_unclear; /* left out */
	uint64_t bytes;             /* of code with a row */
};

/* 0, -ENOMEM, or -ENOTSUP: instructions cannot be decoded. */
int limpet_frame_code_read(const struct limpet_frame_code *code,
			   struct limpet_frame_rows *ret_rows) LIMPET_MUST_CHECK;

#endif
