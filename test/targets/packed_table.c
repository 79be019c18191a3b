/* A library of data alone: the linker makes no segment with code. */
#include <stdlib.h>

#include "test/targets/packed.h"

struct packed_table packed_table = {malloc, free};
