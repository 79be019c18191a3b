/* Other names of an allocator's functions: a library may have one function under a name of the
 * family (common/family.h) and under others. Found by the address; slots by such a name are planned
 * like those of the family. */
#ifndef LIMPET_INJECTOR_HOOK_SLOT_ALIASES_H
#define LIMPET_INJECTOR_HOOK_SLOT_ALIASES_H

#include "common/err.h"
#include "common/slots.h"
#include "injector/elf/modules.h"

/* Each name is compared with those of all relocations. Of known libraries tcmalloc has most, 31. */
#define LIMPET_SLOT_ALIASES_MAX 256u
#define LIMPET_SLOT_ALIAS_BYTES 1024u

struct limpet_slot_aliases {
	struct limpet_slot_alias *list;
	size_t count, capacity;
	bool left_out; /* there are more, or longer ones */
};

/* Of all libraries that define malloc. 0, -ENOMEM. Free with limpet_slot_aliases_done(), also after
 * a failure. */
int limpet_slot_aliases_find(struct limpet_modules *modules,
			     struct limpet_slot_aliases *ret) LIMPET_MUST_CHECK;
void limpet_slot_aliases_done(struct limpet_slot_aliases *aliases);

#endif
