/* The heap of a Java virtual machine (HotSpot), by the tables that it exports for debuggers. */
#ifndef LIMPET_EXPLAIN_JAVA_H
#define LIMPET_EXPLAIN_JAVA_H

#include "injector/elf/modules.h"
#include "injector/proc/memory_reader.h"

struct limpet_java_ranges {
	uint64_t heap_start, heap_end; /* reserved for it; both 0: unknown */
};
/* `module` is libjvm.so. Leaves *ranges unchanged if the tables do not say it. */
void limpet_java_find(const struct limpet_memory_reader *memory,
		      const struct limpet_modules *modules, const struct limpet_module *module,
		      struct limpet_java_ranges *ranges);

#endif
