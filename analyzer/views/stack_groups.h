/* Groups of stacks that reports show as one: stacks that differ only in what is not shown look
 * alike, and are one entry of the report. */
#ifndef LIMPET_ANALYZER_VIEWS_STACK_GROUPS_H
#define LIMPET_ANALYZER_VIEWS_STACK_GROUPS_H

#include <stdbool.h>
#include <stdint.h>

#include "analyzer/model/model.h"
#include "common/err.h"

struct limpet_stack_groups {
	uint32_t *
		of_node; /* a number for each group; 0: the stack is empty, or part of it is lost */
	uint32_t count;  /* the largest number */
};

/* Finds the groups of all nodes of the model. `full`: library frames count. -ENOMEM: nothing is
 * left to free. */
int limpet_stack_groups_init(struct limpet_stack_groups *groups, const struct limpet_model *model,
			     bool full) LIMPET_MUST_CHECK;
void limpet_stack_groups_done(struct limpet_stack_groups *groups);

#endif
