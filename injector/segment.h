/* The memory that limpet shares with the agent: two sealed memfds, made and first touched here, so
 * that they are charged to us and not to the target's container.
 *
 * The shared memory holds thread states, chunks of records, the stack tree and the slot table; the
 * arena holds the unwind tables, which the target maps read-only. */
#ifndef LIMPET_INJECTOR_SEGMENT_H
#define LIMPET_INJECTOR_SEGMENT_H

#include <stdbool.h>
#include <stdint.h>

#include "common/err.h"
#include "common/unwind_walk.h"
#include "common/wire.h"
#include "injector/modules.h"

struct limpet_segment {
	int shm_fd, arena_fd;
	struct limpet_shm *shm;
	uint64_t shm_bytes;
	uint8_t *arena;
	uint64_t arena_bytes, arena_used;
	/* What the shared memory says of the modules is for the agent; this is what we go by: the
	 * target can write there. */
	struct limpet_unwind_module *modules; /* LIMPET_MAX_UNWIND_MODULES */
	uint32_t module_count, generation;
	uint32_t gone; /* shm->gone_count, as it was before the modules were looked at */
	struct limpet_segment_table *tables; /* all that were made, also of modules that are gone */
	uint32_t table_count;
	uint64_t modules_offset, nodes_offset, chunks_offset;
	uint32_t chunk_count, room_pages;
	unsigned populated; /* shares of the shared memory that were touched: populate */
};

/* `memory_bytes` bounds all of it and what the agent takes for itself. `sampling` NULL: everything
 * is recorded. */
int limpet_segment_create(uint64_t memory_bytes, const struct limpet_sampling *sampling,
			  struct limpet_segment *ret, struct limpet_err *err) LIMPET_MUST_CHECK;
void limpet_segment_done(struct limpet_segment *segment);

/* Touches the next share of the shared memory, so that the target need not: the first is touched
 * when it is made, the others may follow while the target runs, for to touch all takes longer than
 * all the rest of attaching. Answers whether there is more. */
bool limpet_segment_populate(struct limpet_segment *segment);

/* Compiles the unwind table of every module that is not in the arena yet, and publishes the list.
 * A module that is gone leaves it; when it comes back, wherever to, its table is still there.
 * Another one in its place has a table of its own. `gone`: shm->gone_count before `modules` were
 * read. Answers the number of tables made, or -errno. */
int limpet_segment_update_tables(struct limpet_segment *segment, struct limpet_modules *modules,
				 uint32_t gone);
/* Pages that the agent's threads have taken beyond what each of them has. */
uint64_t limpet_segment_room_pages(const struct limpet_segment *segment);
/* The tables as the walker wants them. */
void limpet_segment_walk_map(const struct limpet_segment *segment, struct limpet_walk_map *ret);

#endif
