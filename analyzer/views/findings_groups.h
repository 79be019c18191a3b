/* Stacks by what a finding says of them: the function that they are about and who called it. What
 * is printed under one label is one group, whatever the stacks below it. Internal to the findings.
 */
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

/* The group of a node's stack: a number from 0 on, the next one for a label that is new. -ENOMEM.
 */
int limpet_findings_groups_find(struct limpet_findings_groups *groups, uint32_t node,
				uint32_t *ret_group) LIMPET_MUST_CHECK;

/* The label of a node's stack, for people, and both functions; NULL where nobody called it. */
int limpet_findings_label(struct limpet_locations *locations, uint32_t node, char **ret_label,
			  const struct limpet_function **ret_function,
			  const struct limpet_function **ret_caller) LIMPET_MUST_CHECK;

#endif
