/* The plan of an attach: which words to patch, with which hooks, computed while the target runs. */
#ifndef LIMPET_INJECTOR_HOOK_PLAN_H
#define LIMPET_INJECTOR_HOOK_PLAN_H

#include <stdint.h>

#include "common/err.h"
#include "common/method.h"
#include "common/wire.h"
#include "injector/elf/entry_find.h"
#include "injector/elf/modules.h"
#include "injector/ptrace/tracee.h"
#include "injector/remote/segment.h"

/* What LIMPET_METHOD_OUTSIDE means for people; the reason is its argument. */
#define LIMPET_PLAN_OUTSIDE "the agent is mapped, without a dynamic linker (%s)"

struct limpet_plan {
	struct limpet_start start; /* hooks, defaults, addresses; not yet channel and nonce */
	enum limpet_method method;
	const char *reason; /* why that and not LIMPET_METHOD_MAP; NULL: it is */
	uint64_t dlopen, dlclose, dlerror;
	uint64_t dlopen_mode;
	struct limpet_tracee_gadgets gadgets;
	uint64_t loader_lock;      /* limpet_loader_lock_find() */
	int64_t loader_error;      /* limpet_loader_error_find() */
	struct limpet_slot *slots; /* in the segment's table, where the target can write */
	uint32_t slot_count, slots_unhooked;
	/* If blocks come from more than one allocator: the names of the numbers of
	 * LIMPET_HOOK_OWNER, from 1. */
	char owners[LIMPET_HOOK_OWNERS][LIMPET_ENTRY_OWNER_BYTES];
	uint32_t owner_count;
	bool address_slots; /* some slot outside libc is read as data: its value may be copied */
	bool symbols;       /* some slots are values of symbols: the linker copies them */
};

/* Fills the plan and the hooks of the entries; slots that lead to an entry are left alone. -ENOENT
 * with a message if the target has nothing to patch. */
int limpet_plan_make(struct limpet_modules *modules, struct limpet_entries *entries,
		     enum limpet_method wish, struct limpet_plan *ret,
		     struct limpet_err *err) LIMPET_MUST_CHECK;
/* Fills in the slot and module tables of the segment, also by a plan that could not be made. */
void limpet_plan_fill_segment(const struct limpet_plan *plan, const struct limpet_modules *modules,
			      struct limpet_segment *segment);
/* To be called even after a failure. */
void limpet_plan_done(struct limpet_plan *plan);

/* Chooses how the agent gets into the target, and who installs its hooks. Where exceptions cannot
 * pass the agent, takes operators out of `entries`. Sets method, reason, dlopen, dlclose, dlerror
 * (may be 0), dlopen_mode, start.dl_iterate_phdr (may be 0) and start.method only. With a message:
 * -ENOENT: the program is only starting; -ENOTSUP: `wish` is dlopen, which is not possible.
 */
int limpet_plan_choose_method(struct limpet_modules *modules, struct limpet_entries *entries,
			      enum limpet_method wish, struct limpet_plan *ret,
			      struct limpet_err *err) LIMPET_MUST_CHECK;

/* Whether the program has the Boehm collector, which asks dl_iterate_phdr(3) for the memory of all
 * modules when a collection begins, and reads it until the end: unloading a module meanwhile would
 * crash it. */
bool limpet_plan_has_collector(struct limpet_modules *modules) LIMPET_MUST_CHECK;

#endif
