/* Which objects of a managed heap became more during a capture, by the counts of its two ends. */
#ifndef LIMPET_ANALYZER_VIEWS_OBJECT_GROWTH_H
#define LIMPET_ANALYZER_VIEWS_OBJECT_GROWTH_H

#include <stdint.h>

#include "analyzer/model/model.h"

struct limpet_object_growth {
	const struct limpet_object_row
		*row;          /* of the end; borrowed from the trace. NULL: none grew */
	uint64_t count, bytes; /* more than before */
};

/* The kind that grew most of those that the program's own code makes, if it is a notable part of
 * all growth; else the one that grew most of all instances and closures. */
struct limpet_object_growth limpet_object_growth_find(const struct limpet_model *model);

#endif
