#ifndef LIMPET_TEST_TARGETS_PACKED_H
#define LIMPET_TEST_TARGETS_PACKED_H

#include "test/targets/target.h"

/* False: it is none of these words. */
bool packed_run(const char *line);
bool packed_is_same(void);

#endif
