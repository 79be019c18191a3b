/* Groups stacks by a finding's label: the allocating function and its caller. Stacks with the same
 * label are one group. For the findings, and for `limpet top`. */
#ifndef LIMPET_ANALYZER_VIEWS_FINDINGS_GROUPS_H
#define LIMPET_ANALYZER_VIEWS_FINDINGS_GROUPS_H

#include <stdint.h>

#include "analyzer/model/source_locations.h"
#include "common/err.h"

struct limpet_findings_groups;

/* `locations` is borrowed. -ENOMEM. */
int limpet_findings_groups_new(struct limpet_locations *locations,
			       struct limpet_findings_groups **ret_groups) LIMPET_MUST_CHECK;
void limpet_findings_groups_free(struct limpet_findings_groups *groups);

/* The group of a node's stack: a number from 0 on; a new label gets the next one. -ENOMEM. */
int limpet_findings_groups_find(struct limpet_findings_groups *groups, uint32_t node,
				uint32_t *ret_group) LIMPET_MUST_CHECK;

/* The label of a node's stack, for people, with its function and caller; NULL: no caller. */
int limpet_findings_label(struct limpet_locations *locations, uint32_t node, char **ret_label,
			  const struct limpet_function **ret_function,
			  const struct limpet_function **ret_caller) LIMPET_MUST_CHECK;

#endif
