/* Modules whose functions have no names, and how much of what is shown is under these. */
#ifndef LIMPET_ANALYZER_VIEWS_NAMELESS_MODULES_H
#define LIMPET_ANALYZER_VIEWS_NAMELESS_MODULES_H

#include <stddef.h>
#include <stdint.h>

#include "analyzer/views/report.h"

#define LIMPET_NAMELESS_MODULES 3u

struct limpet_nameless {
	struct limpet_nameless_module {
		uint32_t module;
		uint64_t bytes;          /* of stacks with a frame of the module that has no name */
	} list[LIMPET_NAMELESS_MODULES]; /* the largest first */
	size_t count;
	uint64_t all_bytes;
};

/* Of at least a tenth of all bytes: those held at the peak, live or allocated, by the sort. None
 * as long as names may still be added by limpet itself, and none of JIT-compiled code. -ENOMEM. */
int limpet_nameless_find(const struct limpet_model *model, enum limpet_report_sort sort,
			 struct limpet_nameless *ret) LIMPET_MUST_CHECK;

#endif
