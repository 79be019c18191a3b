/* The vtables of a process's C++ classes, by the symbols in the files of its modules: the first
 * word of an object with virtual functions points into one. */
#ifndef LIMPET_EXPLAIN_VTABLES_H
#define LIMPET_EXPLAIN_VTABLES_H

#include <stddef.h>
#include <stdint.h>

#include "injector/elf/modules.h"

/* Of all modules; and the bytes of their names. */
#define LIMPET_VTABLES_LIMIT ((size_t)1 << 20)
#define LIMPET_VTABLES_NAME_BYTES ((size_t)256 << 20)

struct limpet_vtable {
	uint64_t address; /* that an object has: behind the offset and the type information */
	size_t name;      /* where it begins in `names` */
};
struct limpet_vtables {
	struct limpet_vtable *list; /* by address; each address once */
	size_t count, capacity;
	char *names; /* symbols: "_ZTV3Foo" */
	size_t name_bytes, name_capacity;
};

/* 0 or -ENOMEM. The vtables of a stripped file are not known, but for those that it exports. */
int limpet_vtables_read(const struct limpet_modules *modules,
			struct limpet_vtables *ret_vtables) LIMPET_MUST_CHECK;
void limpet_vtables_done(struct limpet_vtables *vtables);
/* The index of the one at this address; -1: none. */
int64_t limpet_vtables_find(const struct limpet_vtables *vtables, uint64_t address);
static inline const char *limpet_vtables_name(const struct limpet_vtables *vtables, size_t index)
{
	return vtables->names + vtables->list[index].name;
}

#endif
