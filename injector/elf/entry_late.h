/* Allocators in modules that are loaded during a capture. They are not hooked, since the program
 * already executes their functions when limpet learns of them; but the trace has to say so. */
#ifndef LIMPET_INJECTOR_ELF_ENTRY_LATE_H
#define LIMPET_INJECTOR_ELF_ENTRY_LATE_H

#include <stddef.h>
#include <stdint.h>

#include "common/err.h"
#include "injector/elf/entry_list.h"
#include "injector/elf/modules.h"

struct limpet_entry_late {
	struct limpet_entry_late_module {
		uint64_t bias, phdr, inode;
		uint32_t dev_major, dev_minor;
	} * known; /* examined, or present from the beginning */
	size_t known_count, known_capacity;
	size_t functions; /* that would have been hooked, or could not be */
	char first[64];   /* name of the first such module */
};

/* Notes the modules that are present from the beginning; `late` must be zeroed. 0, -ENOMEM. */
int limpet_entry_late_begin(struct limpet_entry_late *late,
			    const struct limpet_modules *modules) LIMPET_MUST_CHECK;
/* Examines modules that were loaded since: 0, -ENOMEM. */
int limpet_entry_late_scan(struct limpet_entry_late *late, struct limpet_modules *modules,
			   const struct limpet_entry_list *list) LIMPET_MUST_CHECK;
void limpet_entry_late_done(struct limpet_entry_late *late);

#endif
