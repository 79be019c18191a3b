/* Unwind tables: the parts of a module's .eh_frame that call stacks need.
 *
 * Freestanding: written by injector/unwind/unwind_compile.c outside the target, read by the agent
 * inside a malloc hook. A table is one block of bytes without pointers: it may be at any address
 * that is a multiple of 16. Program counters are relative to the start of the module's covered
 * range (struct limpet_unwind_module.start), so that a table serves every process that maps the
 * module.
 *
 *     struct limpet_unwind_table          header
 *     uint32_t index[bucket_count + 1]    first row at or above bucket << bucket_shift
 *     struct limpet_unwind_row[]          sorted by program counter
 *     struct limpet_unwind_rule[]         the distinct rules; 0 is "no row", 1 is "unknown"
 *
 * A row is valid until the next one begins. Holes between functions have rows of their own (rule
 * 0), and row 0 is at offset 0. So a look-up is one load from the index and a search among the few
 * rows of one bucket: it is bounded by the bucket's size, whatever the table contains.
 *
 * The rules are those of the System V ABI for x86-64, with the DWARF registers 6 (rbp), 7 (rsp) and
 * 16 (return address); call stacks need no others. Of all rows measured, 99.9 % are
 * CFA = rsp|rbp + constant with the return address at CFA - 8.
 *
 * Trust: the reader trusts the table. limpet makes it, and no other process can
 * write to it: the target could to a copy of its own. */
#ifndef LIMPET_COMMON_UNWIND_TABLE_H
#define LIMPET_COMMON_UNWIND_TABLE_H

#include <stdint.h>

#define LIMPET_UNWIND_MAGIC 0x3144574eu /* "NWD1" */
#define LIMPET_UNWIND_VERSION 1u
#define LIMPET_UNWIND_ALIGN 16u

struct limpet_unwind_table {
	uint32_t magic;
	uint16_t version;
	uint16_t bucket_shift; /* 8..16: text bytes per bucket, as a power of 2 */
	uint32_t bytes;        /* of the whole table, a multiple of LIMPET_UNWIND_ALIGN */
	uint32_t covered;      /* text bytes from the start of the module's range */
	uint32_t bucket_count;
	uint32_t row_count;
	uint32_t rule_count;
	uint32_t index_offset; /* these three from the start of this header */
	uint32_t rows_offset;
	uint32_t rules_offset;
	uint32_t reserved[6];
};

struct limpet_unwind_row {
	uint16_t low; /* offset in its bucket */
	uint16_t rule;
};
#define LIMPET_UNWIND_MAX_RULES 0xffffu

/* Where the canonical frame address (CFA: rsp in the caller once the call has returned) is. */
enum limpet_unwind_cfa {
	LIMPET_CFA_NONE = 0, /* no row: code without a description, or none at all */
	LIMPET_CFA_UNKNOWN,  /* described, but in a way that no rule can express */
	LIMPET_CFA_END,      /* the return address is undefined: outermost frame */
	LIMPET_CFA_SP,       /* rsp + cfa_offset */
	LIMPET_CFA_FP,       /* rbp + cfa_offset */
	LIMPET_CFA_SP_DEREF, /* *(rsp + cfa_offset) + extra */
	LIMPET_CFA_FP_DEREF, /* *(rbp + cfa_offset) + extra: functions that realign their stack */
	LIMPET_CFA_PLT /* rsp + cfa_offset + ((pc & 15) >= extra ? 8 : 0): lazy binding stubs */
};
/* Where the caller's rbp is. */
enum limpet_unwind_fp {
	LIMPET_FP_SAME = 0,
	LIMPET_FP_CFA,     /* *(CFA + fp_offset) */
	LIMPET_FP_SP,      /* *(rsp + fp_offset) */
	LIMPET_FP_FP,      /* *(rbp + fp_offset) */
	LIMPET_FP_CFA_SUM, /* CFA + fp_offset, itself */
	LIMPET_FP_LOST     /* undefined, or in a way that no rule can express */
};
/* Where the return address is. */
enum limpet_unwind_ra {
	LIMPET_RA_CFA = 0, /* *(CFA - 8) */
	LIMPET_RA_SP       /* *(rsp + extra); never together with a kind of CFA that uses extra */
};
/* The frame was made by the kernel for a signal: its return address is the interrupted
 * instruction itself, not the one after a call, and its CFA may lie on another stack. */
#define LIMPET_RULE_SIGNAL 1u

struct limpet_unwind_rule {
	uint8_t cfa;   /* enum limpet_unwind_cfa */
	uint8_t fp;    /* enum limpet_unwind_fp */
	uint8_t ra;    /* enum limpet_unwind_ra */
	uint8_t flags; /* LIMPET_RULE_* */
	int32_t cfa_offset;
	int32_t fp_offset;
	int32_t extra;
};
#define LIMPET_UNWIND_RULE_NONE 0u
#define LIMPET_UNWIND_RULE_UNKNOWN 1u

/* The rule for the instruction at `offset` in the covered range. For a frame in a call, pass the
 * return address - 1: a call that never returns may be its function's last bytes. */
static inline const struct limpet_unwind_rule *limpet_unwind_table_find(
	const struct limpet_unwind_table *table, uint32_t offset)
{
	const uint8_t *base = (const uint8_t *)table;
	const uint32_t *index = (const uint32_t *)(const void *)(base + table->index_offset);
	const struct limpet_unwind_row *rows =
		(const struct limpet_unwind_row *)(const void *)(base + table->rows_offset);
	const struct limpet_unwind_rule *rules =
		(const struct limpet_unwind_rule *)(const void *)(base + table->rules_offset);
	uint32_t bucket, low, first, count;

	if (offset >= table->covered)
		return &rules[LIMPET_UNWIND_RULE_NONE];
	bucket = offset >> table->bucket_shift;
	low = offset & ((1u << table->bucket_shift) - 1);
	first = index[bucket];
	count = index[bucket + 1] - first;
	/* Rows before `first` are at or below `offset`, those from `first + count` are above. */
	while (count) {
		uint32_t half = count / 2;

		if (rows[first + half].low <= low) {
			first += half + 1;
			count -= half + 1;
		} else {
			count = half;
		}
	}
	return &rules[rows[first - 1].rule];
}

#endif
