/* The unwind tables of a process's modules, in one block of memory, the arena, and the list of
 * modules with which they are found.
 *
 * The caller provides the arena, which stays as long as the tables; it is filled from its start,
 * and nothing is ever moved or released in it. One thread. */
#ifndef LIMPET_INJECTOR_UNWIND_UNWIND_SET_H
#define LIMPET_INJECTOR_UNWIND_UNWIND_SET_H

#include <stddef.h>
#include <stdint.h>

#include "common/err.h"
#include "common/unwind_walk.h"
#include "common/wire.h"
#include "injector/elf/modules.h"
#include "injector/unwind/frame_reader.h"

/* Modules whose tables found no room in the arena: stacks end there. */
struct limpet_tables_without_room {
	unsigned count;
	char first[64]; /* its file, without directories */
};

/* Begins as all zeros, except for these three. */
struct limpet_unwind_set {
	uint8_t *arena; /* aligned to LIMPET_UNWIND_ALIGN */
	uint64_t arena_bytes;
	uint64_t arena_used; /* at least LIMPET_UNWIND_ALIGN: offset 0 means "no table" */
	struct limpet_unwind_module *modules; /* sorted by address */
	uint32_t module_count;
	uint32_t generation; /* of that list */
	struct limpet_tables_without_room without_room;
	/* private: each table that was made, also for modules that are gone */
	struct limpet_unwind_set_table *list;
	uint32_t list_count;
	size_t list_capacity;
	struct limpet_frame_reader reader; /* of the table with number `reading` - 1, if not 0 */
	uint32_t reading;
};
/* About what the tables of all modules need, and rather more. Reads nothing. */
uint64_t limpet_unwind_set_estimate(const struct limpet_modules *modules);
/* Releases all but the arena. */
void limpet_unwind_set_done(struct limpet_unwind_set *set);

/* Compiles the table of every module that is not in the arena yet, and makes the list anew. A
 * module that was unloaded leaves the list; if it is loaded again, at any address, its table is
 * used again. A different module at its address gets a table of its own. Returns the number of
 * tables made, or -errno, and then the list is as it was. */
int limpet_unwind_set_update(struct limpet_unwind_set *set,
			     struct limpet_modules *modules) LIMPET_MUST_CHECK;
/* Code without unwind information (module_frames.h) is read in a process of its own, one module
 * after the other, which takes up to some seconds for each. Call it after each update. Begins with
 * the next one, and adds the rows of those that are done; `wait`: for all of them. Returns how many
 * tables were made, or -ENOMEM. */
int limpet_unwind_set_read_frames(struct limpet_unwind_set *set, struct limpet_modules *modules,
				  bool wait) LIMPET_MUST_CHECK;
/* Whether that would make a table now. */
bool limpet_unwind_set_has_frames(const struct limpet_unwind_set *set);
/* In the form that the walker needs; valid until the next update. */
void limpet_unwind_set_walk_map(const struct limpet_unwind_set *set, struct limpet_walk_map *ret);

#endif
