/* Allocators that are called without a slot: linked into the program (or a library that calls its
 * own directly). Their functions are found by name, in the symbol tables of the modules' files, and
 * get inline hooks (entry_code.h).
 *
 * Reads the target, which runs on, and the files. Everything in both is hostile. */
#ifndef LIMPET_INJECTOR_ELF_ENTRY_FIND_H
#define LIMPET_INJECTOR_ELF_ENTRY_FIND_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/err.h"
#include "injector/elf/entry_code.h"
#include "injector/elf/entry_list.h"
#include "injector/elf/entry_names.h"
#include "injector/elf/modules.h"

struct limpet_target;

#define LIMPET_MAX_ENTRIES 192u  /* less than LIMPET_MAX_HOOKS, since slots need some */
#define LIMPET_MAX_HOOK_AREAS 8u /* modules with entries */
#define LIMPET_ENTRY_OWNER_BYTES 48u

struct limpet_entry {
	uint64_t address, bytes; /* of the function */
	struct limpet_entry_name what;
	char name[80];
	char owner[LIMPET_ENTRY_OWNER_BYTES]; /* the allocator, for reports */
	bool own_operator;                    /* the program's own operator new or delete */
	bool is_common;                       /* the name is common: other things have it, too */
	uint64_t usable_size; /* malloc_usable_size of the same allocator; 0: none */
	int listed;           /* index in the user's list; -1: a known name */
	unsigned jumps;       /* functions that are jumps to it, and have no hook of their own */
	uint32_t area;
	uint32_t hook;     /* chosen by the plan */
	uint64_t original; /* address of the relocated prologue, once the area is mapped */
	struct limpet_entry_code code;
};

/* The module of some entries, and what their jumps must reach. */
struct limpet_hook_area {
	uint64_t low, high;
	uint64_t address, bytes; /* of the area; address 0: not mapped yet */
};

struct limpet_entries {
	struct limpet_entry *list; /* sorted by area, then address */
	size_t count;
	struct limpet_hook_area areas[LIMPET_MAX_HOOK_AREAS];
	uint32_t area_count;
	/* Code of the allocators, where a thread may hold their locks. */
	struct limpet_entry_range {
		uint64_t start, end;
	} * inside;
	size_t inside_count, inside_capacity;
	bool program; /* some are in the program itself, not only in libraries */
	unsigned families[LIMPET_ENTRY_FAMILIES]; /* how many functions of each */
	/* For each function that the user named: it exists; and it is in `list`. */
	bool is_there[LIMPET_ENTRY_LIST_MAX], is_listed[LIMPET_ENTRY_LIST_MAX];
	/* Functions that cannot be hooked, and one of them with the reason, if there is one. */
	unsigned refused;
	char why_refused[160];
	/* Nim's: blocks in a thread's heap are not seen released when the thread ends. */
	bool thread_heaps;
	/* If a module's allocator was left out, because one of its releases would not be seen: the
	 * reason. */
	char why[192];
};

/* `list`: functions to find besides the known ones; may be NULL. */
int limpet_entries_find(struct limpet_modules *modules, const struct limpet_entry_list *list,
			struct limpet_entries *ret) LIMPET_MUST_CHECK;
/* Searches one of the modules. */
int limpet_entries_find_in(struct limpet_modules *modules, size_t index,
			   const struct limpet_entry_list *list,
			   struct limpet_entries *ret) LIMPET_MUST_CHECK;
void limpet_entries_done(struct limpet_entries *entries);
/* Stops hooking operators that the program has replaced; the malloc that they call stays hooked.
 * For an agent that exceptions cannot pass (limpet_plan_passes_exceptions). */
void limpet_entries_leave_operators(struct limpet_entries *entries);

/* Whether more than the C library's malloc is there to be followed: functions that get an inline
 * hook, or a library that brings a malloc. From outside, their memory cannot be told from the rest.
 */
bool limpet_entries_have_others(const struct limpet_entries *entries,
				const struct limpet_target *target, struct limpet_modules *modules);
/* Whether any entry is in this module. Has the signature that limpet_memory_owners_name() wants. */
bool limpet_entries_are_in(void *entries, const struct limpet_module *module);
const struct limpet_entry *limpet_entries_at(const struct limpet_entries *entries,
					     uint64_t address);

/* Chooses an address for an area's memory, at most 2 GiB from everything that it must reach: 0,
 * -ERANGE. */
int limpet_entries_choose_place(const struct limpet_maps *maps, const struct limpet_hook_area *area,
				uint64_t *ret) LIMPET_MUST_CHECK;

#endif
