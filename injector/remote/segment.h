/* The memory that limpet shares with the agent: a sealed memfd, first touched by limpet, so that it
 * is charged to limpet and not to the target's container. The target has made it (hijack.h), so
 * limpet prepares its contents in memory of its own.
 *
 * The shared memory contains thread states, chunks of records, fingerprints of stacks and the slot
 * table; the arena contains the unwind tables, which the target maps read-only. limpet reads its
 * own copy of the tables. */
#ifndef LIMPET_INJECTOR_REMOTE_SEGMENT_H
#define LIMPET_INJECTOR_REMOTE_SEGMENT_H

#include <stdbool.h>
#include <stdint.h>
#include <string.h>

#include "common/err.h"
#include "common/unwind_walk.h"
#include "common/wire.h"
#include "injector/elf/modules.h"
#include "injector/unwind/unwind_set.h"

/* The least memory of an agent. */
#define LIMPET_AGENT_LEAST_BYTES (UINT64_C(8) << 20)

struct limpet_segment {
	int file; /* -1: not shared yet */
	struct limpet_shm *shm;
	uint64_t shm_bytes;
	/* limpet's own copy: the one in the shared memory is for the agent, and the target can
	 * overwrite it. */
	struct limpet_shm_layout layout;
	/* limpet's own list of modules: the one in the shared memory is for the agent, and the
	 * target can overwrite it. */
	struct limpet_unwind_set tables;
	uint64_t arena_offset, arena_shared; /* of the tables in the file; what is there by now */
	uint32_t gone;                       /* shm->gone_count, read before the modules */
	/* What of the shared memory is populated: limpet_segment_populate_needed() */
	unsigned chunk_shares;
	uint32_t fingerprint_shift[LIMPET_FINGERPRINT_TABLES];
	uint32_t evicted[LIMPET_FINGERPRINT_TABLES]; /* when the table grew last */
};

/* `memory_bytes` limits all shared memory and what the agent takes for itself. `tables_bytes`: what
 * unwind tables are expected to need; they get no less than their usual share. `sampling` NULL:
 * record everything. */
int limpet_segment_create(uint64_t memory_bytes, uint64_t tables_bytes,
			  const struct limpet_sampling *sampling, struct limpet_segment *ret,
			  struct limpet_err *err) LIMPET_MUST_CHECK;
/* Moves it into a file that the target maps, too, at this offset: the shared memory, which keeps
 * its address here, and the arena behind it. The file is as large as both, and cannot be made
 * smaller. A thread of the target stands meanwhile: so only what the agent needs to start. Can be
 * called again, with another file. */
int limpet_segment_share(struct limpet_segment *segment, int file,
			 uint64_t offset) LIMPET_MUST_CHECK;
/* What of the shared memory is touched before limpet_segment_share_rest(): its head and tables. */
static inline uint64_t limpet_segment_head_bytes(const struct limpet_segment *segment)
{
	return segment->layout.fingerprints_offset[0];
}
/* The rest, before a hook records: tables, and populated memory. -ENOSPC: limpet_commit_explain().
 */
int limpet_segment_share_rest(struct limpet_segment *segment) LIMPET_MUST_CHECK;
void limpet_segment_done(struct limpet_segment *segment);

/* A table of the shared memory, by limpet's own layout. The target may overwrite its contents at
 * any moment: see limpet_shared_copy(). */
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

/* The first state at or after `from` that is or was a thread's, or is about to be; thread_count:
 * none. */
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

/* `index` starts at 1. */
static inline struct limpet_chunk *limpet_segment_chunk(const struct limpet_segment *segment,
							uint32_t index)
{
	return (struct limpet_chunk *)limpet_segment_at(
		segment,
		segment->layout.chunks_offset + (uint64_t)(index - 1) * LIMPET_CHUNK_BYTES);
}

/* Whether the number of a chunk, read from shared memory, is that of one. */
static inline bool limpet_segment_has_chunk(const struct limpet_segment *segment, uint32_t index)
{
	return index != LIMPET_CHUNK_NONE && index <= segment->layout.chunk_count;
}

/* Whether a chunk is the one that must follow in a thread's chain: a chain that is a cycle, or
 * leads into another thread's chunks, is read once and ends. */
static inline bool limpet_segment_chunk_follows(const struct limpet_chunk *chunk, uint32_t thread,
						uint64_t sequence)
{
	return chunk->thread == thread && chunk->sequence == sequence;
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

/* Stacks that were walked are walked anew: something that is part of a stack has changed its
 * meaning. */
void limpet_segment_renew_stacks(struct limpet_segment *segment);

/* One bit per chunk, 1: free. */
static inline uint64_t *limpet_segment_free_chunks(const struct limpet_segment *segment)
{
	return (uint64_t *)limpet_segment_at(segment, segment->layout.free_chunks_offset);
}

/* Makes all chunks that are used free. */
void limpet_segment_free_all(struct limpet_segment *segment);

/* Copies out of the shared memory, once: otherwise a compiler could read a value again after it was
 * checked. */
static inline void limpet_shared_copy(void *ret, const void *shared, size_t bytes)
{
	memcpy(ret, shared, bytes);
	__asm__ volatile("" : : "r"(ret) : "memory");
}

/* Populates memory before the agent comes to need it, so that it is not charged to the target:
 * chunks when many are taken, a table of fingerprints when many entries were evicted. What the
 * first few threads and stacks need is populated when the memory is made. Call it often; it mostly
 * does nothing. */
void limpet_segment_populate_needed(struct limpet_segment *segment);
/* The steps of it; false: there is no more. */
bool limpet_segment_populate_chunks(struct limpet_segment *segment);
bool limpet_segment_grow_fingerprints(struct limpet_segment *segment,
				      enum limpet_fingerprint_table table);

/* Compiles the unwind table of every module that is not in the arena yet, and publishes the list. A
 * module that was unloaded leaves the list; if it is loaded again, at any address, its table is
 * used again. A different module at its address gets a table of its own. `gone`: shm->gone_count
 * before `modules` were read. Returns the number of tables made, or -errno. */
int limpet_segment_update_tables(struct limpet_segment *segment, struct limpet_modules *modules,
				 uint32_t gone);
/* The most memory that the agent uses besides the shared memory and its tables, with this many
 * thread states: its image, too. */
uint64_t limpet_segment_beside_bytes(const struct limpet_segment *segment, uint64_t states);
/* The tables, in the form that the walker needs. */
void limpet_segment_walk_map(const struct limpet_segment *segment, struct limpet_walk_map *ret);

#endif
