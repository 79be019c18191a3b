/* The records that the kernel writes for the page-fault events of fault_events.h. The kernel wrote
 * them, but a field may still say more than there is: each length is checked. Pure. */
#ifndef LIMPET_COLLECTOR_PAGES_FAULT_RECORD_H
#define LIMPET_COLLECTOR_PAGES_FAULT_RECORD_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/err.h"

enum limpet_fault_kind {
	LIMPET_FAULT_OTHER = 0, /* of no interest */
	LIMPET_FAULT_TAKEN,     /* a page fault */
	LIMPET_FAULT_LOST,      /* there was no room for so many */
	LIMPET_FAULT_MAPPED,    /* the program mapped memory */
	LIMPET_FAULT_CODE,      /* the same, and it is executable */
	LIMPET_FAULT_EXEC       /* the process executed another program */
};

struct limpet_fault_record {
	enum limpet_fault_kind kind;
	uint64_t time_ns; /* CLOCK_MONOTONIC */
	uint32_t pid, tid;
	uint64_t lost;
	/* of a fault */
	uint64_t address;
	bool has_registers; /* of a 64-bit program; otherwise the next three are 0 */
	uint64_t pc, sp, fp;
	const uint8_t *stack; /* a copy of the memory from sp on; within the record */
	uint64_t stack_bytes;
};

/* What the events are asked to record, by perf_event_attr.sample_type; sample_id_all is set. */
uint64_t limpet_fault_sample_type(void);
/* Reads a record of `count` bytes, its header included. -EBADMSG: it makes no sense. */
int limpet_fault_record_read(const uint8_t *bytes, size_t count,
			     struct limpet_fault_record *ret) LIMPET_MUST_CHECK;

#endif
