/* What a capture of touched pages has missed, in words. Pure. */
#ifndef LIMPET_COLLECTOR_PAGES_FAULT_LOSSES_H
#define LIMPET_COLLECTOR_PAGES_FAULT_LOSSES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct limpet_fault_losses {
	uint64_t lost;      /* faults for which the kernel had no room */
	bool may_have_lost; /* the same, without their number */
	uint64_t broken;    /* times that records made no sense, and were skipped */
	bool partial;       /* some threads may not be followed */
	uint64_t stacks;    /* of pages, for which there was no room */
	bool no_room;       /* for pages, which are not recorded */
};

bool limpet_fault_losses_any(const struct limpet_fault_losses *losses);
/* Appends the sentence of LIMPET_LOSS_STACKS, common/losses.h, if there is any. */
void limpet_fault_losses_report(const struct limpet_fault_losses *losses, char *because,
				size_t room);

#endif
