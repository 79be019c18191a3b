#include "injector/remote/segment.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/random.h>
#include <sys/resource.h>
#include <unistd.h>

#include "injector/proc/commit.h"

#ifndef MADV_POPULATE_WRITE
#define MADV_POPULATE_WRITE 23
#endif
#define PAGE 4096u
/* The arena gets more if the program's modules need it, from the chunks' share; where that is
 * small, each thread's chunk matters more. */
#define ARENA_SHARE_16THS 3u
#define ARENA_MOST_16THS 5u
#define ARENA_MORE_FROM_BYTES (32u << 20)
#define CHUNK_SHARE_16THS 6u
#define FINGERPRINT_SHARE_16THS 2u /* of each table */
/* Taken from the chunks' share, which is less needed with sampling. */
#define SAMPLE_SHARE_16THS 1u
#define SLOTS_PER_COUNTER 8u
/* Chunks are populated in shares, a table of fingerprints from so many entries on. */
#define POPULATE_SHARES 8u
#define FIRST_FINGERPRINTS 8192u
#define GROWTH_SHIFT 2u
/* A table grows when so many of its entries were evicted. */
#define EVICTED_SHARE 64u
#define AGENT_IMAGE_BYTES (128u << 10)
#define MAX_ROOM_PAGES (1u << 16)
#define CHUNK_GROUP 64u /* chunks are taken in ascending order within each group of this size */

static uint64_t round_up(uint64_t value, uint64_t unit)
{
	return (value + unit - 1) / unit * unit;
}

static int memory(uint64_t bytes, void **ret)
{
	void *map = mmap(NULL, bytes, PROT_READ | PROT_WRITE,
			 MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);

	if (map == MAP_FAILED)
		return limpet_errno();
	*ret = map;
	return 0;
}

static uint64_t reserve(uint64_t *at, uint64_t bytes)
{
	uint64_t offset = *at;

	*at = round_up(offset + bytes, PAGE);
	return offset;
}

static uint32_t power_of_2_below(uint64_t value)
{
	uint32_t power = 1;

	while (power * 2ull <= value)
		power *= 2;
	return power;
}

/* Shares are computed from what the tables of constant size leave. */
static uint64_t sixteenth_of(uint64_t memory_bytes)
{
	const uint64_t tables[] = {
		sizeof(struct limpet_shm),
		LIMPET_THREADS * sizeof(struct limpet_thread),
		LIMPET_OWN_BYTES,
		LIMPET_MAX_SLOTS * sizeof(struct limpet_slot),
		LIMPET_MAX_KNOWN_MODULES * sizeof(struct limpet_known_module),
		2ull * LIMPET_MAX_UNWIND_MODULES * sizeof(struct limpet_unwind_module),
	};
	uint64_t left = memory_bytes;

	for (size_t i = 0; i < LIMPET_COUNT_OF(tables); i++)
		left -= round_up(tables[i], PAGE);
	return left / 16;
}

static void lay_out_sampling(uint64_t sixteenth, const struct limpet_sampling *sampling,
			     struct limpet_shm_layout *layout, uint64_t *at)
{
	uint32_t counters;

	layout->sample_table_count =
		power_of_2_below(SAMPLE_SHARE_16THS * sixteenth / sizeof(uint64_t));
	counters = layout->sample_table_count / SLOTS_PER_COUNTER;
	layout->sample_filter_shift = (uint32_t)__builtin_clzll(counters) + 1;
	layout->sample_table_offset = reserve(at, layout->sample_table_count * sizeof(uint64_t));
	if (sampling->bytes)
		layout->sample_filter_offset = reserve(at, counters);
}

/* Divides what is left for the agent's private memory. Each thread state has some, which it keeps
 * after its thread has ended, and needs a chunk besides; some may have more. */
static void lay_out_private(uint64_t bytes, struct limpet_shm_layout *layout)
{
	uint64_t pages = (bytes - LIMPET_PRIVATE_TABLES_BYTES - AGENT_IMAGE_BYTES) / PAGE;

	layout->thread_limit = layout->thread_count;
	if (layout->thread_limit > pages / 5 * 4)
		layout->thread_limit = (uint32_t)(pages / 5 * 4);
	if (layout->thread_limit > layout->chunk_count / 4 * 3)
		layout->thread_limit = layout->chunk_count / 4 * 3;
	pages -= layout->thread_limit;
	layout->room_pages = (uint32_t)(pages < MAX_ROOM_PAGES ? pages : MAX_ROOM_PAGES);
}

static uint64_t arena_bytes_of(uint64_t memory_bytes, uint64_t tables_bytes)
{
	const uint64_t sixteenth = sixteenth_of(memory_bytes);
	const uint64_t share = sixteenth * ARENA_SHARE_16THS;
	const uint64_t most =
		memory_bytes < ARENA_MORE_FROM_BYTES ? share : sixteenth * ARENA_MOST_16THS;
	const uint64_t wanted = tables_bytes < most ? tables_bytes : most;

	return round_up(wanted > share ? wanted : share, PAGE);
}

static uint64_t lay_out(uint64_t memory_bytes, uint64_t arena_bytes,
			const struct limpet_sampling *sampling, struct limpet_shm_layout *layout)
{
	uint64_t sixteenth = sixteenth_of(memory_bytes);
	uint64_t at = round_up(sizeof(struct limpet_shm), PAGE);
	bool samples = sampling->bytes || sampling->overload_bytes;
	uint64_t chunk_bytes = (CHUNK_SHARE_16THS - (samples ? SAMPLE_SHARE_16THS : 0)) * sixteenth;

	if (arena_bytes > ARENA_SHARE_16THS * sixteenth)
		chunk_bytes -= arena_bytes - ARENA_SHARE_16THS * sixteenth;

	layout->thread_count = LIMPET_THREADS;
	layout->chunk_count =
		(uint32_t)(chunk_bytes / LIMPET_CHUNK_BYTES / CHUNK_GROUP * CHUNK_GROUP);
	/* Tables whose size is a power of two may exceed their share by an eighth. */
	for (unsigned table = 0; table < LIMPET_FINGERPRINT_TABLES; table++)
		layout->fingerprint_count[table] =
			power_of_2_below(FINGERPRINT_SHARE_16THS * sixteenth * 9 / 8 /
					 sizeof(struct limpet_fingerprint));
	layout->slots_offset = reserve(&at, LIMPET_MAX_SLOTS * sizeof(struct limpet_slot));
	layout->modules_offset =
		reserve(&at, LIMPET_MAX_KNOWN_MODULES * sizeof(struct limpet_known_module));
	layout->unwind_modules_offset = reserve(&at, 2ull * LIMPET_MAX_UNWIND_MODULES *
							     sizeof(struct limpet_unwind_module));
	for (unsigned table = 0; table < LIMPET_FINGERPRINT_TABLES; table++)
		layout->fingerprints_offset[table] = reserve(
			&at, layout->fingerprint_count[table] * sizeof(struct limpet_fingerprint));
	reserve(&at, LIMPET_OWN_BYTES);
	layout->threads_offset = reserve(&at, LIMPET_THREADS * sizeof(struct limpet_thread));
	layout->free_chunks_offset = reserve(&at, layout->chunk_count / 8);
	if (samples)
		lay_out_sampling(sixteenth, sampling, layout, &at);
	at = layout->threads_offset + round_up(at - layout->threads_offset, LIMPET_CHUNK_BYTES);
	layout->chunks_offset = reserve(&at, (uint64_t)layout->chunk_count * LIMPET_CHUNK_BYTES);
	lay_out_private(memory_bytes - at - arena_bytes, layout);
	return at;
}

void limpet_segment_free_all(struct limpet_segment *segment)
{
	uint64_t *map = limpet_segment_free_chunks(segment);

	for (uint32_t i = 0; i < segment->layout.chunk_count; i++)
		if (limpet_chunk_is_usable(&segment->layout, i + 1))
			map[i / 64] |= 1ull << i % 64;
}

/* On older kernels memory is not populated in advance: it is charged to the first who touches a
 * page. Nothing but that depends on it: where a touch could fail, the file has all of its pages
 * (limpet_commit_file()). */
static void touch(const struct limpet_segment *segment, uint64_t start, uint64_t end)
{
	start = start / PAGE * PAGE;
	end = round_up(end, PAGE);
	(void)madvise((uint8_t *)segment->shm + start, end - start, MADV_POPULATE_WRITE);
}

bool limpet_segment_populate_chunks(struct limpet_segment *segment)
{
	const uint64_t bytes = CHUNK_GROUP / POPULATE_SHARES * LIMPET_CHUNK_BYTES;

	if (segment->chunk_shares == POPULATE_SHARES)
		return false;
	for (uint32_t group = 0; group < segment->layout.chunk_count / CHUNK_GROUP; group++) {
		uint64_t at = segment->layout.chunks_offset +
			      (uint64_t)group * CHUNK_GROUP * LIMPET_CHUNK_BYTES +
			      segment->chunk_shares * bytes;

		touch(segment, at, at + bytes);
	}
	segment->chunk_shares++;
	return true;
}

static uint32_t fingerprints_in_use(const struct limpet_segment *segment, unsigned table)
{
	return segment->layout.fingerprint_count[table] >> segment->fingerprint_shift[table];
}

static void touch_fingerprints(const struct limpet_segment *segment,
			       enum limpet_fingerprint_table table)
{
	const uint64_t at = segment->layout.fingerprints_offset[table];

	touch(segment, at,
	      at + fingerprints_in_use(segment, table) * sizeof(struct limpet_fingerprint));
}

bool limpet_segment_grow_fingerprints(struct limpet_segment *segment,
				      enum limpet_fingerprint_table table)
{
	uint32_t *shift = &segment->fingerprint_shift[table];

	if (!*shift)
		return false;
	*shift -= *shift < GROWTH_SHIFT ? *shift : GROWTH_SHIFT;
	touch_fingerprints(segment, table);
	__atomic_store_n(&segment->shm->fingerprint_use[table].shift, *shift, __ATOMIC_RELAXED);
	return true;
}

static void touch_first(struct limpet_segment *segment)
{
	touch(segment, 0, segment->layout.fingerprints_offset[0]);
	touch(segment, segment->layout.threads_offset, segment->layout.chunks_offset);
	segment->chunk_shares = 0;
	limpet_segment_populate_chunks(segment);
	for (unsigned table = 0; table < LIMPET_FINGERPRINT_TABLES; table++)
		touch_fingerprints(segment, table);
}

/* Chunks are taken from the lower end of each group: whether half of what is populated of one is
 * taken. */
static bool needs_chunks(const struct limpet_segment *segment)
{
	const unsigned populated = CHUNK_GROUP / POPULATE_SHARES * segment->chunk_shares;
	const uint64_t *free_chunks = limpet_segment_free_chunks(segment);

	for (uint32_t group = 0; group < segment->layout.chunk_count / CHUNK_GROUP; group++) {
		/* With the one that is never free. */
		const uint64_t taken = ~__atomic_load_n(&free_chunks[group], __ATOMIC_RELAXED);

		if ((unsigned)__builtin_popcountll(taken) > populated / 2)
			return true;
	}
	return false;
}

static bool needs_fingerprints(struct limpet_segment *segment, enum limpet_fingerprint_table table)
{
	const uint32_t evicted =
		__atomic_load_n(&segment->shm->fingerprint_use[table].evicted, __ATOMIC_RELAXED);

	if (evicted - segment->evicted[table] <=
	    fingerprints_in_use(segment, table) / EVICTED_SHARE)
		return false;
	segment->evicted[table] = evicted;
	return true;
}

void limpet_segment_populate_needed(struct limpet_segment *segment)
{
	if (segment->chunk_shares < POPULATE_SHARES && needs_chunks(segment))
		limpet_segment_populate_chunks(segment);
	for (unsigned table = 0; table < LIMPET_FINGERPRINT_TABLES; table++)
		if (segment->fingerprint_shift[table] && needs_fingerprints(segment, table))
			limpet_segment_grow_fingerprints(segment, table);
}

/* limpet sets the size of the file that the program will map. */
static int check_own_limit(uint64_t bytes, struct limpet_err *err)
{
	struct rlimit own;

	if (getrlimit(RLIMIT_FSIZE, &own) < 0 || own.rlim_cur >= bytes)
		return 0;
	limpet_err_set(err, -EFBIG,
		       "limpet itself may not make a file as large as the memory that it shares "
		       "with the agent (RLIMIT_FSIZE)");
	limpet_err_hint(err, "ulimit -f unlimited");
	return -EFBIG;
}

int limpet_segment_create(uint64_t memory_bytes, uint64_t tables_bytes,
			  const struct limpet_sampling *sampling, struct limpet_segment *ret,
			  struct limpet_err *err)
{
	static const struct limpet_sampling none;
	struct limpet_segment segment = {.file = -1};
	struct limpet_shm head;
	void *map = NULL;
	int error;

	if (memory_bytes < LIMPET_AGENT_LEAST_BYTES) {
		limpet_err_set(err, -EINVAL, "the agent needs at least 8 MiB of memory");
		limpet_err_hint(err, "--memory 8MiB, or more for busy programs");
		return -EINVAL;
	}
	if (!sampling)
		sampling = &none;
	segment.tables.arena_bytes = arena_bytes_of(memory_bytes, tables_bytes);
	segment.shm_bytes =
		lay_out(memory_bytes, segment.tables.arena_bytes, sampling, &segment.layout);
	error = check_own_limit(segment.shm_bytes + segment.tables.arena_bytes, err);
	if (error)
		return error;
	error = memory(segment.shm_bytes, &map);
	if (!error) {
		segment.shm = map;
		error = memory(segment.tables.arena_bytes, &map);
	}
	if (!error) {
		segment.tables.arena = map;
		segment.tables.modules =
			calloc(LIMPET_MAX_UNWIND_MODULES, sizeof(*segment.tables.modules));
		error = segment.tables.modules ? 0 : -ENOMEM;
	}
	if (error || !segment.shm) {
		limpet_segment_done(&segment);
		return limpet_err_set(err, error,
				      "cannot make the memory shared with the agent: %s",
				      strerror(-error));
	}
	segment.tables.arena_used = LIMPET_UNWIND_ALIGN; /* offset 0 means: no table */
	for (unsigned table = 0; table < LIMPET_FINGERPRINT_TABLES; table++)
		while (fingerprints_in_use(&segment, table) > FIRST_FINGERPRINTS)
			segment.fingerprint_shift[table]++;
	memset(&head, 0, sizeof(head));
	head.magic = LIMPET_SHM_MAGIC;
	head.abi = LIMPET_AGENT_ABI;
	head.header_bytes = sizeof(head);
	head.bytes = segment.shm_bytes;
	head.layout = segment.layout;
	head.sample_bytes = sampling->bytes;
	head.overload_bytes = sampling->overload_bytes;
	head.overload_below = segment.layout.chunk_count / LIMPET_OVERLOAD_SHARE;
	head.next_stack = 1;
	for (unsigned table = 0; table < LIMPET_FINGERPRINT_TABLES; table++)
		head.fingerprint_use[table].shift = segment.fingerprint_shift[table];
	if (sampling != &none && getrandom(&head.sample_seed, sizeof(head.sample_seed), 0) < 0)
		head.sample_seed = (uint64_t)(uintptr_t)segment.shm; /* good enough for sums */
	*segment.shm = head;
	limpet_segment_free_all(&segment);
	*ret = segment;
	return 0;
}

static void copy(void *to, const struct limpet_segment *from, uint64_t offset, uint64_t bytes)
{
	memcpy((uint8_t *)to + offset, limpet_segment_at(from, offset), bytes);
}

static uint32_t at_most(uint32_t count, uint32_t most)
{
	return count < most ? count : most;
}

/* Nothing has been recorded yet: all else are zeros. */
static void copy_contents(void *to, const struct limpet_segment *segment)
{
	const struct limpet_shm_layout *layout = &segment->layout;
	const struct limpet_shm *shm = segment->shm;

	copy(to, segment, 0, sizeof(*shm));
	copy(to, segment, layout->slots_offset,
	     at_most(shm->slot_count, LIMPET_MAX_SLOTS) * sizeof(struct limpet_slot));
	copy(to, segment, layout->modules_offset,
	     at_most(shm->module_count, LIMPET_MAX_KNOWN_MODULES) *
		     sizeof(struct limpet_known_module));
	for (unsigned which = 0; which < 2; which++)
		copy(to, segment,
		     layout->unwind_modules_offset + (uint64_t)which * LIMPET_MAX_UNWIND_MODULES *
							     sizeof(struct limpet_unwind_module),
		     at_most(shm->unwind_count[which], LIMPET_MAX_UNWIND_MODULES) *
			     sizeof(struct limpet_unwind_module));
}

/* The target's copy of the tables, where it may write as well: limpet does not read it. */
static int share_tables(struct limpet_segment *segment)
{
	const uint64_t from = segment->arena_shared;
	const uint64_t bytes = segment->tables.arena_used - from;

	if (segment->file < 0 || !bytes)
		return 0;
	if (pwrite(segment->file, segment->tables.arena + from, bytes,
		   (off_t)(segment->arena_offset + from)) != (ssize_t)bytes)
		return errno ? -errno : -ENOSPC;
	segment->arena_shared = segment->tables.arena_used;
	return 0;
}

int limpet_segment_share(struct limpet_segment *segment, int file, uint64_t offset)
{
	LIMPET_CLOSE int kept = fcntl(file, F_DUPFD_CLOEXEC, 3);
	void *map = kept < 0 ? MAP_FAILED
			     : mmap(NULL, segment->shm_bytes, PROT_READ | PROT_WRITE, MAP_SHARED,
				    kept, (off_t)offset);

	if (map == MAP_FAILED)
		return limpet_errno();
	copy_contents(map, segment);
	if (mremap(map, segment->shm_bytes, segment->shm_bytes, MREMAP_MAYMOVE | MREMAP_FIXED,
		   segment->shm) == MAP_FAILED) {
		int error = -errno;

		munmap(map, segment->shm_bytes);
		return error;
	}
	if (segment->file >= 0)
		close(segment->file);
	segment->file = limpet_take_fd(&kept);
	segment->arena_offset = offset + segment->shm_bytes;
	segment->arena_shared = segment->tables.arena_used; /* not yet */
	return 0;
}

int limpet_segment_share_rest(struct limpet_segment *segment)
{
	int error = limpet_commit_file(segment->file,
				       segment->arena_offset + segment->tables.arena_bytes);

	if (error)
		return error;
	segment->arena_shared = 0;
	touch_first(segment);
	limpet_segment_free_all(segment);
	return share_tables(segment);
}

void limpet_segment_done(struct limpet_segment *segment)
{
	if (segment->shm)
		munmap(segment->shm, segment->shm_bytes);
	if (segment->tables.arena)
		munmap(segment->tables.arena, segment->tables.arena_bytes);
	limpet_unwind_set_done(&segment->tables);
	if (segment->file >= 0)
		close(segment->file);
	memset(segment, 0, sizeof(*segment));
	segment->file = -1;
}

int limpet_segment_update_tables(struct limpet_segment *segment, struct limpet_modules *modules,
				 uint32_t gone)
{
	struct limpet_shm *shm = segment->shm;
	struct limpet_unwind_module *shared;
	int error;
	const bool is_first = !segment->tables.generation;
	int made = limpet_unwind_set_update(&segment->tables, modules), read;
	uint32_t which;

	if (made < 0)
		return made;
	/* Before the capture there is time; during it events must be read. */
	read = limpet_unwind_set_read_frames(&segment->tables, modules, is_first);
	made += read > 0 ? read : 0;
	which = segment->tables.generation & 1;
	error = share_tables(segment);
	if (error)
		return error;
	shared = (struct limpet_unwind_module *)limpet_segment_at(
			 segment, segment->layout.unwind_modules_offset) +
		 (uint64_t)which * LIMPET_MAX_UNWIND_MODULES;
	segment->gone = gone;
	memcpy(shared, segment->tables.modules,
	       segment->tables.module_count * sizeof(*segment->tables.modules));
	/* A reader that sees the new list's number sees the new list. */
	shm->unwind_count[which] = segment->tables.module_count;
	shm->unwind_gone[which] = gone;
	__atomic_store_n(&shm->unwind_current, segment->tables.generation, __ATOMIC_RELEASE);
	return made;
}

void limpet_segment_renew_stacks(struct limpet_segment *segment)
{
	/* The same list. */
	segment->tables.generation += 2;
	__atomic_store_n(&segment->shm->unwind_current, segment->tables.generation,
			 __ATOMIC_RELEASE);
}

void limpet_segment_walk_map(const struct limpet_segment *segment, struct limpet_walk_map *ret)
{
	limpet_unwind_set_walk_map(&segment->tables, ret);
}

/* Pages that the agent's threads have taken in addition to their own. */
static uint64_t room_pages(const struct limpet_segment *segment)
{
	uint32_t taken = __atomic_load_n(&segment->shm->room_pages_used, __ATOMIC_RELAXED);

	return taken < segment->layout.room_pages ? taken : segment->layout.room_pages;
}

uint64_t limpet_segment_beside_bytes(const struct limpet_segment *segment, uint64_t states)
{
	return AGENT_IMAGE_BYTES + LIMPET_PRIVATE_TABLES_BYTES +
	       (states + room_pages(segment)) * LIMPET_SCRATCH_BYTES;
}
