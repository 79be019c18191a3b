/* Thread states, chunks and records.
 *
 * A state is claimed once per thread by compare and exchange and then written by that thread alone.
 * Records go into the thread's current chunk; `committed` publishes them. Full chunks stay linked
 * until the collector has read them and returns them through the free map. Nothing here waits,
 * except chunk_wait: without a free chunk the event is counted as lost. */
#include "agent/record.h"
#include "agent/agent.h"
#include "agent/stack_cache.h"
#include "agent/stack_prints.h"

struct limpet_shm *limpet_shm;
struct limpet_hot limpet_hot __attribute__((aligned(64)));
_Static_assert(LIMPET_RULE_CACHE * sizeof(struct limpet_walk_cache_entry) ==
		       LIMPET_RULE_CACHE_BYTES,
	       "what the injector counts on");

#define PROBES 32u
#define PAGE_BYTES 4096u    /* the smallest of any processor */
#define POINTER_CHANGING 1u /* thread_pointer of an entry between two owners */

static uint64_t block_mark; /* of libc's threads; 0: not glibc's */

/* Once the memory is mapped, and before any hook records. On a thread of libc's, if limpet_shm says
 * where that keeps what it knows of a thread. */
void limpet_record_configure(void)
{
	limpet_hot.threads = limpet_shm_at(limpet_shm->layout.threads_offset);
	limpet_hot.chunks =
		(uint8_t *)limpet_shm_at(limpet_shm->layout.chunks_offset) - LIMPET_CHUNK_BYTES;
	limpet_hot.thread_mask = limpet_shm->layout.thread_count - 1;
	limpet_hot.tid_offset = limpet_shm->tid_offset;
	block_mark = limpet_hot.tid_offset ? limpet_block_mark(limpet_thread_pointer()) : 0;
	for (unsigned table = 0; table < LIMPET_FINGERPRINT_TABLES; table++)
		limpet_hot.fingerprints[table] =
			limpet_shm_at(limpet_shm->layout.fingerprints_offset[table]);
	limpet_fingerprints_adjust();
	limpet_hot.modules = limpet_shm_at(limpet_shm->layout.unwind_modules_offset);
	limpet_hot.sample_counters = limpet_shm_at(limpet_shm->layout.sample_filter_offset);
	limpet_hot.sample_shift = limpet_shm->layout.sample_filter_shift;
	limpet_hot.overload = 0;
}

static struct limpet_chunk *chunk_at(uint32_t index)
{
	return (struct limpet_chunk *)(void *)(limpet_hot.chunks +
					       (uint64_t)index * LIMPET_CHUNK_BYTES);
}

/* Takes a chunk from the free map. Threads start at different words, so that they seldom collide.
 */
static uint32_t chunk_claim(const struct limpet_thread *thread)
{
	uint64_t *map = limpet_shm_at(limpet_shm->layout.free_chunks_offset);
	uint32_t words = (limpet_shm->layout.chunk_count + 63) / 64;
	uint32_t word = limpet_thread_index(thread) % words;

	for (uint32_t i = 0; i < words; i++, word = word + 1 == words ? 0 : word + 1) {
		uint64_t bits = __atomic_load_n(&map[word], __ATOMIC_ACQUIRE);

		while (bits) {
			uint32_t bit = (uint32_t)__builtin_ctzll(bits);

			/* Pairs with the collector's release when it returns a chunk. */
			if (__atomic_compare_exchange_n(&map[word], &bits, bits & ~(1ull << bit),
							false, __ATOMIC_ACQ_REL, __ATOMIC_ACQUIRE))
				return word * 64 + bit + 1;
		}
	}
	return LIMPET_CHUNK_NONE;
}

void limpet_record_ring(void)
{
	__atomic_fetch_add(&limpet_shm->bell, 1, __ATOMIC_RELEASE);
}

/* Whether nobody wants a record with that time: then switches the hooks off, so that they become
 * plain calls. After the end of the capture this also lets limpet hijack a thread that does nothing
 * but allocate, which is always in a hook otherwise. */
static bool is_over_for(uint32_t time)
{
	const bool died = limpet_record_collector_has_died();

	if (!died && !limpet_record_has_ended())
		return false;
	__atomic_store_n(&limpet_control->on, 0, __ATOMIC_RELEASE);
	return died || !limpet_record_is_late(time);
}

static void chunk_give_back(uint32_t index)
{
	uint64_t *map = limpet_shm_at(limpet_shm->layout.free_chunks_offset);

	__atomic_fetch_or(&map[(index - 1) / 64], 1ull << (index - 1) % 64, __ATOMIC_RELEASE);
}

/* --on-overload wait: spins until the collector has returned a chunk or died, or, unless the record
 * belongs before it, the capture has ended. A collector that is stopped or hangs shows no sign of
 * life; once one thread has waited for one in vain, no thread waits again until there is one. The
 * thread neither sleeps, which would be a system call, nor reads a clock, which may be forbidden:
 * it counts turns. */
static uint32_t chunk_wait(const struct limpet_thread *thread, uint32_t time)
{
	static uint64_t last_beat = UINT64_MAX; /* the last beat before a thread waited in vain */
	uint32_t index = chunk_claim(thread);
	uint64_t beat = UINT64_MAX, turns = 0;

	if (index == LIMPET_CHUNK_NONE)
		limpet_record_ring();
	while (index == LIMPET_CHUNK_NONE && limpet_shm->wait_turns) {
		uint64_t now_beat = __atomic_load_n(&limpet_shm->beats, __ATOMIC_RELAXED);

		/* Not alive: this is the child of a fork in a signal handler. */
		if (now_beat == __atomic_load_n(&last_beat, __ATOMIC_RELAXED) ||
		    is_over_for(time) || !limpet_is_alive())
			break;
		if (now_beat != beat) {
			beat = now_beat;
			turns = 0;
		} else if (++turns >= limpet_shm->wait_turns) {
			__atomic_store_n(&last_beat, beat, __ATOMIC_RELAXED);
			break;
		}
		for (unsigned i = 0; i < LIMPET_TURN_PAUSES; i++)
			limpet_pause();
		limpet_record_ring();
		index = chunk_claim(thread);
	}
	return index;
}

/* `time`: of the record for which there is no room. */
static bool chunk_next(struct limpet_thread *thread, uint32_t time)
{
	uint32_t index = chunk_wait(thread, time);
	struct limpet_own *own = limpet_own(thread);
	struct limpet_chunk *chunk;
	uint32_t old = own->chunk;

	/* The first description in a chunk is whole: it does not depend on an earlier one. */
	*(volatile uint32_t *)&limpet_path_of(thread)->count = 0;
	if (index != LIMPET_CHUNK_NONE && is_over_for(time)) {
		chunk_give_back(index);
		return false;
	}
	if (index == LIMPET_CHUNK_NONE)
		return false;
	chunk = chunk_at(index);
	chunk->thread = limpet_thread_index(thread);
	chunk->generation = thread->generation;
	chunk->sequence = own->sequence++;
	chunk->lost_before = thread->dropped;
	chunk->tid = thread->tid;
	chunk->describes = 0;
	chunk->next = LIMPET_CHUNK_NONE;
	__atomic_store_n(&chunk->committed, 0, __ATOMIC_RELAXED);
	own->chunk = index;
	own->at = (uint64_t)(uintptr_t)chunk + sizeof(*chunk);
	own->end = (uint64_t)(uintptr_t)chunk + LIMPET_CHUNK_BYTES;
	if (old == LIMPET_CHUNK_NONE) {
		__atomic_store_n(&thread->first_chunk, index, __ATOMIC_RELEASE);
	} else {
		/* From here on the collector may read the old chunk to its end and free it. */
		__atomic_store_n(&chunk_at(old)->next, index, __ATOMIC_RELEASE);
		limpet_record_ring();
	}
	return true;
}

static uint32_t count_free_chunks(void)
{
	const uint64_t *map = limpet_shm_at(limpet_shm->layout.free_chunks_offset);
	uint32_t words = (limpet_shm->layout.chunk_count + 63) / 64, count = 0;

	for (uint32_t i = 0; i < words; i++) {
		/* Portable: not every processor has an instruction for it. */
		for (uint64_t bits = __atomic_load_n(&map[i], __ATOMIC_RELAXED); bits;
		     bits &= bits - 1)
			count++;
	}
	return count;
}

/* A number in the table entries distinguishes overloads: see sampled.h. */
#define LAST_OVERLOAD (2u * LIMPET_OVERLOAD_TAGS - 3)

/* The OVERLOAD record precedes the record for which the chunk was just opened, whose call began
 * before; all sampled calls come later. There is room for both. */
static void watch_room(struct limpet_thread *thread)
{
	uint32_t overload = __atomic_load_n(&limpet_hot.overload, __ATOMIC_ACQUIRE);

	if (overload & 1 || overload >= LAST_OVERLOAD ||
	    count_free_chunks() >= __atomic_load_n(&limpet_shm->overload_below, __ATOMIC_RELAXED) ||
	    !limpet_is_alive())
		return;
	__atomic_store_n(&limpet_shm->overload_room, 0, __ATOMIC_RELAXED);
	if (__atomic_compare_exchange_n(&limpet_hot.overload, &overload, overload + 1, false,
					__ATOMIC_SEQ_CST, __ATOMIC_RELAXED)) {
		limpet_record_append(thread, LIMPET_EVENT_OVERLOAD, overload + 1, 0, 0);
		limpet_record_publish(thread);
	}
}

/* The thread has already rung for the collector, in a word that all threads share. The kind is
 * counted before the thread's own count, so that every counted event has a kind. */
static void count_drop(struct limpet_thread *thread, uint32_t type, uint64_t size)
{
	uint32_t kind = LIMPET_EVENT_KIND(type);

	if (kind == LIMPET_EVENT_VOID || !limpet_is_alive())
		return;
	if (kind < LIMPET_DROPS_KINDS) {
		struct limpet_drops *drops = &limpet_shm->drops[kind];

		__atomic_fetch_add(&drops->count, 1, __ATOMIC_RELAXED);
		__atomic_fetch_add(&drops->bytes, size, __ATOMIC_RELAXED);
		if (kind == LIMPET_EVENT_FREE && !size)
			__atomic_fetch_add(&drops->unsized, 1, __ATOMIC_RELAXED);
	}
	__atomic_store_n(&thread->dropped, thread->dropped + 1, __ATOMIC_RELEASE);
}

static bool open_chunk(struct limpet_thread *thread, uint32_t time)
{
	limpet_record_publish(thread);
	if (!chunk_next(thread, time))
		return false;
	if (limpet_shm->overload_bytes && !limpet_record_is_late(time))
		watch_room(thread);
	return true;
}

bool limpet_record_open_chunk(struct limpet_thread *thread)
{
	return open_chunk(thread, LIMPET_RECORD_NOW);
}

bool limpet_record_make_room(struct limpet_thread *thread, uint32_t type, uint64_t size,
			     uint32_t time)
{
	if (open_chunk(thread, time))
		return true;
	if (!limpet_record_has_ended() || limpet_record_is_late(time))
		count_drop(thread, type, size);
	return false;
}

/* Space for the record first: the end of an overload must be recorded. */
void limpet_record_end_overload(struct limpet_thread *thread, uint32_t overload)
{
	const uint64_t bytes = 24;

	limpet_record_publish(thread);
	if (limpet_own(thread)->end - limpet_own(thread)->at < bytes &&
	    !chunk_next(thread, LIMPET_RECORD_NOW))
		return;
	/* The ROOM record takes its number afterwards: calls that are not recorded began before. */
	if (__atomic_compare_exchange_n(&limpet_hot.overload, &overload, overload + 1, false,
					__ATOMIC_SEQ_CST, __ATOMIC_RELAXED)) {
		limpet_record_append(thread, LIMPET_EVENT_ROOM, overload, 0, 0);
		limpet_record_publish(thread);
	}
}

static struct limpet_chunk *chunk_before(uint64_t end)
{
	return (struct limpet_chunk *)(uintptr_t)(end - LIMPET_CHUNK_BYTES);
}

/* `committed` says how much is whole, for the reader, also if the thread is killed. */
static void commit(struct limpet_record_place place)
{
	struct limpet_chunk *chunk = chunk_before(place.end);

	__atomic_store_n(&chunk->committed, (uint32_t)(place.at - (uint64_t)(uintptr_t)(chunk + 1)),
			 __ATOMIC_RELEASE);
}

bool limpet_record_find_place(const struct limpet_thread *thread, uint32_t bytes,
			      struct limpet_record_place *ret_place)
{
	const struct limpet_own *own = limpet_own(thread);
	const struct limpet_record_place place = {
		.at = __atomic_load_n(&own->at, __ATOMIC_RELAXED),
		.end = __atomic_load_n(&own->end, __ATOMIC_RELAXED)};

	*ret_place = place;
	return place.end - place.at <= LIMPET_CHUNK_BYTES && place.end - place.at >= bytes &&
	       limpet_is_alive();
}

bool limpet_record_commit(struct limpet_thread *thread, struct limpet_record_place place,
			  uint32_t bytes)
{
	if (!limpet_is_alive())
		return false;
	chunk_before(place.end)->describes = 1;
	/* A thread that a signal handler throws out of here leaves a whole record, or none. */
	__atomic_signal_fence(__ATOMIC_SEQ_CST);
	place.at += bytes;
	__atomic_store_n(&limpet_own(thread)->at, place.at, __ATOMIC_RELAXED);
	commit(place);
	return true;
}

/* There is nothing to publish after a claim or a take-over, until the new owner has opened a chunk.
 */
void limpet_record_publish(struct limpet_thread *thread)
{
	const struct limpet_record_place place = {limpet_own(thread)->at, limpet_own(thread)->end};

	if (place.end)
		commit(place);
	__atomic_store_n(&thread->intent, 0, __ATOMIC_RELEASE);
}

/* Whether the block of a thread, which libc need not have made (clone with CLONE_SETTLS), has as
 * many bytes: they are in its first page, or it bears the marks of libc's. */
static bool block_has(uint64_t pointer, uint64_t bytes)
{
	const uint64_t room = PAGE_BYTES - pointer % PAGE_BYTES;

	return bytes <= LIMPET_BLOCK_BYTES || bytes <= room ||
	       (block_mark && room >= LIMPET_BLOCK_BYTES &&
		limpet_block_mark(pointer) == block_mark);
}

static bool has_tid(uint64_t pointer)
{
	return block_has(pointer, limpet_hot.tid_offset + sizeof(uint32_t));
}

uint32_t limpet_record_tid(void)
{
	uint64_t pointer = limpet_thread_pointer();

	if (__builtin_expect(!limpet_hot.tid_offset || !has_tid(pointer), 0))
		return (uint32_t)limpet_syscall1(SYS_gettid, 0);
	return *(const uint32_t *)(uintptr_t)(pointer + limpet_hot.tid_offset);
}

/* The bounds of the thread's stack according to libc. For other stacks, and for the main thread,
 * for which libc has no bounds, the collector searches the maps. */
static void find_stack(struct limpet_thread *thread, uint64_t pointer, uint64_t sp)
{
	const struct limpet_shm *shm = limpet_shm;
	uint64_t low, bytes, guard;

	if (thread->tid == shm->main_tid) {
		thread->stack_low = shm->main_stack_low;
		__atomic_store_n(&thread->stack_high, shm->main_stack_high, __ATOMIC_RELEASE);
		return;
	}
	if (!shm->stack_offset || sp >= pointer ||
	    !block_has(pointer, shm->stack_offset + 3 * sizeof(uint64_t)))
		return;
	low = *(const uint64_t *)(uintptr_t)(pointer + shm->stack_offset);
	bytes = *(const uint64_t *)(uintptr_t)(pointer + shm->stack_offset + 8);
	guard = *(const uint64_t *)(uintptr_t)(pointer + shm->stack_offset + 16);
	/* The guard is at the low end; the thread's own control block is the upper bound. */
	if (low > sp || guard > sp - low || pointer - low >= bytes)
		return;
	thread->stack_low = low + guard;
	__atomic_store_n(&thread->stack_high, pointer, __ATOMIC_RELEASE);
}

static void thread_begin(struct limpet_thread *thread, uint32_t tid, uint64_t thread_pointer,
			 uint64_t sp)
{
	struct limpet_own *own = limpet_own(thread);

	thread->tid = tid;
	/* Pairs with the collector's loads of it before and after it works on the entry. */
	__atomic_store_n(&thread->generation, thread->generation + 1, __ATOMIC_RELEASE);
	own->at = own->end = 0;
	thread->depth = 0;
	thread->phase = LIMPET_PHASE_OUTSIDE;
	limpet_record_forget_intents(thread);
	__atomic_store_n(&thread->entry_sp, 0, __ATOMIC_RELAXED);
	__atomic_store_n(&thread->stack_high, 0, __ATOMIC_RELAXED);
	thread->stack_low = 0;
	if (!own->stack_cache)
		own->stack_cache =
			limpet_thread_index(thread) << 8 | LIMPET_ROOM_SMALL.cache_entries;
	find_stack(thread, thread_pointer, sp);
	__atomic_store_n(&thread->thread_pointer, thread_pointer, __ATOMIC_RELEASE);
	limpet_record_ring();
}

/* For a state that the caller owns. Each state that was ever claimed keeps its memory. */
static bool is_within_limit(const struct limpet_thread *thread)
{
	if (thread->generation)
		return true;
	if (!limpet_is_alive())
		return false;
	if (__atomic_fetch_add(&limpet_shm->states_claimed, 1, __ATOMIC_RELAXED) <
	    limpet_shm->layout.thread_limit)
		return true;
	__atomic_fetch_sub(&limpet_shm->states_claimed, 1, __ATOMIC_RELAXED);
	return false;
}

/* Called before the claim: the collector must not miss a state whose thread a signal handler throws
 * out of here. */
static void mark_used(const struct limpet_thread *thread)
{
	uint32_t index = limpet_thread_index(thread);
	uint64_t bit = 1ull << index % 64, *word = &limpet_shm->states_used[index / 64];

	if (!(__atomic_load_n(word, __ATOMIC_RELAXED) & bit))
		__atomic_fetch_or(word, bit, __ATOMIC_RELEASE);
}

static struct limpet_thread *thread_claim(uint64_t thread_pointer, uint32_t home, uint64_t sp)
{
	uint32_t tid = limpet_record_tid();

	for (uint32_t i = 0; i < PROBES; i++) {
		struct limpet_thread *thread =
			&limpet_hot.threads[(home + i) & limpet_hot.thread_mask];
		uint64_t seen = __atomic_load_n(&thread->thread_pointer, __ATOMIC_RELAXED);

		if (seen == 0)
			mark_used(thread);
		/* Pairs with the collector's release of a dead thread's entry. */
		if (seen == 0 &&
		    __atomic_compare_exchange_n(&thread->thread_pointer, &seen, POINTER_CHANGING,
						false, __ATOMIC_ACQ_REL, __ATOMIC_RELAXED)) {
			if (!is_within_limit(thread)) {
				__atomic_store_n(&thread->thread_pointer, 0, __ATOMIC_RELEASE);
				continue;
			}
			limpet_own(thread)->chunk = LIMPET_CHUNK_NONE;
			limpet_own(thread)->sequence = 0;
			thread_begin(thread, tid, thread_pointer, sp);
			return thread;
		}
		/* A signal handler has claimed it since the search. */
		if (seen == thread_pointer)
			return thread;
	}
	return NULL;
}

/* Another thread now has the same thread pointer: libc reuses stacks. The entry and its chain of
 * chunks continue under the new tid, from a new chunk. */
static struct limpet_thread *thread_reuse(struct limpet_thread *thread, uint64_t thread_pointer,
					  uint32_t tid, uint64_t sp)
{
	uint64_t seen = thread_pointer;

	/* Not alive: it is the same thread in a forked child. */
	if (!limpet_is_alive() ||
	    !__atomic_compare_exchange_n(&thread->thread_pointer, &seen, POINTER_CHANGING, false,
					 __ATOMIC_ACQ_REL, __ATOMIC_RELAXED))
		return NULL; /* the collector is clearing it: this one call is lost */
	thread_begin(thread, tid, thread_pointer, sp);
	return thread;
}

struct limpet_thread *limpet_thread_look_up(uint64_t sp)
{
	uint64_t thread_pointer = limpet_thread_pointer();
	uint32_t home = (uint32_t)limpet_thread_hash(thread_pointer);

	/* Each later call would read there. */
	if (!has_tid(thread_pointer))
		return NULL;
	/* Searches the whole window, past free entries: an entry before may have been freed
	 * since. */
	for (uint32_t i = 0; i < PROBES; i++) {
		struct limpet_thread *thread =
			&limpet_hot.threads[(home + i) & limpet_hot.thread_mask];
		uint32_t tid;

		if (__atomic_load_n(&thread->thread_pointer, __ATOMIC_RELAXED) != thread_pointer)
			continue;
		tid = limpet_record_tid();
		if (__builtin_expect(tid != thread->tid, 0))
			return thread_reuse(thread, thread_pointer, tid, sp);
		return thread;
	}
	return thread_claim(thread_pointer, home, sp);
}
