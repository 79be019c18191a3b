/* How many descriptors limpet itself may have. */
#ifndef LIMPET_INJECTOR_PROC_DESCRIPTOR_H
#define LIMPET_INJECTOR_PROC_DESCRIPTOR_H

#include <stdint.h>

/* Lets limpet itself have this many descriptors, as far as its hard limit allows. */
void limpet_descriptor_raise_limit(uint64_t count);

#endif
