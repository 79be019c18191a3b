/* The looks of stacks, as reports show them: stacks that differ only in what is not shown look
 * alike, and are one entry of the report. */
#ifndef LIMPET_ANALYZER_VIEWS_LOOKS_H
#define LIMPET_ANALYZER_VIEWS_LOOKS_H

#include <stdbool.h>
#include <stdint.h>

#include "analyzer/model/model.h"
#include "common/err.h"

struct limpet_looks {
	uint32_t
		*of_node; /* a number for each look; 0: the stack is empty, or part of it is lost */
	uint32_t count;   /* the largest number */
};

/* Finds the looks of all nodes of the model. `full`: library frames count. -ENOMEM: nothing is left
 * to free. */
int limpet_looks_init(struct limpet_looks *looks, const struct limpet_model *model,
		      bool full) LIMPET_MUST_CHECK;
void limpet_looks_done(struct limpet_looks *looks);

#endif
