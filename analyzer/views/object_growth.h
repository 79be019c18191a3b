/* Which objects of a managed heap became more during a capture, by the counts of its two ends. */
#ifndef LIMPET_ANALYZER_VIEWS_OBJECT_GROWTH_H
#define LIMPET_ANALYZER_VIEWS_OBJECT_GROWTH_H

#include <stdint.h>

#include "analyzer/model/model.h"

struct limpet_object_growth {
	const struct limpet_object_row *row; /* of the end; of the trace. NULL: none grew */
	uint64_t count, bytes;               /* more than before */
};
struct limpet_objects_grown {
	struct limpet_object_growth most; /* of all instances and closures */
	struct limpet_object_growth own;  /* of those that are of the program's own code */
	double own_share;                 /* of all growth */
};

struct limpet_objects_grown limpet_object_growth_find(const struct limpet_model *model);

#endif
