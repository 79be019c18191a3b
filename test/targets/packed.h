#ifndef LIMPET_TEST_TARGETS_PACKED_H
#define LIMPET_TEST_TARGETS_PACKED_H

#include "test/targets/target.h"

struct packed_table {
	void *(*allocate)(size_t bytes);
	void (*release)(void *block);
};
extern struct packed_table packed_table;

void packed_calls(unsigned long count, void *(*volatile allocate)(size_t),
		  void (*volatile release)(void *));
/* False: it is none of these words. */
bool packed_run(const char *line);
bool packed_is_same(void);

#endif
