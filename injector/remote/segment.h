/* The memory that limpet shares with the agent: two sealed memfds, made and first touched here, so
 * that they are charged to us and not to the target's container.
 *
 * The shared memory holds thread states, chunks of records, fingerprints of stacks and the slot
 * table; the arena holds the unwind tables, which the target maps read-only. */
#ifndef LIMPET_INJECTOR_REMOTE_SEGMENT_H
#define LIMPET_INJECTOR_REMOTE_SEGMENT_H

#include <stdbool.h>
#include <stdint.h>
#include <string.h>

#include "common/err.h"
#include "common/unwind_walk.h"
#include "common/wire.h"
#include "injector/image/modules.h"

struct limpet_segment {
	int shm_fd, arena_fd;
	struct limpet_shm *shm;
	uint64_t shm_bytes;
	/* Ours: what stands in the shared memory is for the agent, and for anybody to write over.
	 */
	struct limpet_shm_layout layout;
	uint8_t *arena;
	uint64_t arena_bytes, arena_used;
	/* What the shared memory says of the modules is for the agent; this is what we go by: the
	 * target can write there. */
	struct limpet_unwind_module *modules; /* LIMPET_MAX_UNWIND_MODULES */
	uint32_t module_count, generation;
	uint32_t gone; /* shm->gone_count, as it was before the modules were looked at */
	struct limpet_segment_table *tables; /* all that were made, also of modules that are gone */
	uint32_t table_count;
	size_t table_capacity;
	unsigned populated; /* shares of the shared memory that were touched: populate */
};

/* `memory_bytes` bounds all of it and what the agent takes for itself. `sampling` NULL: everything
 * is recorded. */
int limpet_segment_create(uint64_t memory_bytes, const struct limpet_sampling *sampling,
			  struct limpet_segment *ret, struct limpet_err *err) LIMPET_MUST_CHECK;
void limpet_segment_done(struct limpet_segment *segment);

/* The tables of the shared memory, by our own layout. What stands there the target may write over
 * at any moment: see limpet_shared_copy(). */
static inline void *limpet_segment_at(const struct limpet_segment *segment, uint64_t offset)
{
	return (uint8_t *)segment->shm + offset;
}

static inline struct limpet_thread *limpet_segment_thread(const struct limpet_segment *segment,
							  uint32_t index)
{
	return (struct limpet_thread *)limpet_segment_at(segment, segment->layout.threads_offset) +
	       index;
}

/* The first state from there on that is or was a thread's, or is about to be; thread_count: none.
 */
static inline uint32_t limpet_segment_next_used(const struct limpet_segment *segment, uint32_t from)
{
	const uint32_t count = segment->layout.thread_count;

	for (uint32_t i = from; i < count; i = (i / 64 + 1) * 64) {
		uint64_t bits =
			__atomic_load_n(&segment->shm->states_used[i / 64], __ATOMIC_ACQUIRE) >>
			i % 64;

		if (bits)
			return i + (uint32_t)__builtin_ctzll(bits);
	}
	return count;
}

/* `index` counts from 1. */
static inline struct limpet_chunk *limpet_segment_chunk(const struct limpet_segment *segment,
							uint32_t index)
{
	return (struct limpet_chunk *)limpet_segment_at(
		segment,
		segment->layout.chunks_offset + (uint64_t)(index - 1) * LIMPET_CHUNK_BYTES);
}

static inline struct limpet_slot *limpet_segment_slots(const struct limpet_segment *segment)
{
	return (struct limpet_slot *)limpet_segment_at(segment, segment->layout.slots_offset);
}

static inline struct limpet_known_module *limpet_segment_known_modules(
	const struct limpet_segment *segment)
{
	return (struct limpet_known_module *)limpet_segment_at(segment,
							       segment->layout.modules_offset);
}

/* A bit a chunk, 1: free. */
static inline uint64_t *limpet_segment_free_chunks(const struct limpet_segment *segment)
{
	return (uint64_t *)limpet_segment_at(segment, segment->layout.free_chunks_offset);
}

/* Takes a copy out of the shared memory, once: a compiler would be free to read again what it has
 * already checked. */
static inline void limpet_shared_copy(void *ret, const void *shared, size_t bytes)
{
	memcpy(ret, shared, bytes);
	__asm__ volatile("" : : "r"(ret) : "memory");
}

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
/* What the agent has at most beside the shared memory and its tables, with so many states of
 * threads: its image, and what it keeps for itself. */
uint64_t limpet_segment_beside_bytes(const struct limpet_segment *segment, uint64_t states);
/* The tables as the walker wants them. */
void limpet_segment_walk_map(const struct limpet_segment *segment, struct limpet_walk_map *ret);

#endif
