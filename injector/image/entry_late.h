/* Allocators inside of modules that come during a capture: they are not hooked, and that is to be
 * known. Their functions begin in code that the program runs already when we hear of it. */
#ifndef LIMPET_INJECTOR_IMAGE_ENTRY_LATE_H
#define LIMPET_INJECTOR_IMAGE_ENTRY_LATE_H

#include <stddef.h>
#include <stdint.h>

#include "common/err.h"
#include "injector/image/entry_list.h"
#include "injector/image/modules.h"

struct limpet_entry_late {
	struct limpet_entry_late_module {
		uint64_t bias, phdr, inode;
		uint32_t dev_major, dev_minor;
	} * known; /* looked at, or there from the beginning */
	size_t known_count, known_capacity;
	size_t functions; /* that would have been hooked, or could not be */
	char first[64];   /* the first such module's name, for people */
};

/* Zeroed it knows no module. Those that are there from the beginning: 0, -ENOMEM. */
int limpet_entry_late_begin(struct limpet_entry_late *late,
			    const struct limpet_modules *modules) LIMPET_MUST_CHECK;
/* Looks at those that have come since: 0, -ENOMEM. */
int limpet_entry_late_look(struct limpet_entry_late *late, struct limpet_modules *modules,
			   const struct limpet_entry_list *list) LIMPET_MUST_CHECK;
void limpet_entry_late_done(struct limpet_entry_late *late);

#endif
