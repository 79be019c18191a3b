/* Thread states, chunks and records.
 *
 * A state is claimed once per thread by compare and exchange and then written by that thread alone.
 * Records go into the thread's current chunk; `committed` publishes them. Full chunks stay linked
 * until the collector has read them and gives them back through the free map. Nothing here waits,
 * but for chunk_wait: without a free chunk the event is counted as lost. */
#include "agent/agent.h"

struct limpet_shm *limpet_shm;
struct limpet_scratch *limpet_scratches;
_Static_assert(LIMPET_THREADS * sizeof(struct limpet_scratch) + (1u << 20) <
		       LIMPET_AGENT_PRIVATE_BYTES,
	       "preflight asks for less than the agent takes");

#define PROBES 32u
#define POINTER_CHANGING 1u /* thread_pointer of an entry between two owners */

typedef int clock_gettime_fn(int clock, int64_t *out);

uint64_t limpet_clock(void)
{
	if (__builtin_expect(limpet_shm->clock_is_tsc, 1)) {
		return limpet_ticks() - limpet_shm->clock_base;
	} else {
		int64_t time[2] = {0, 0};
		const int monotonic = 1;

		((clock_gettime_fn *)(uintptr_t)limpet_shm->clock_function)(monotonic, time);
		return (uint64_t)time[0] * 1000000000u + (uint64_t)time[1] - limpet_shm->clock_base;
	}
}

static struct limpet_chunk *chunk_at(uint32_t index)
{
	return limpet_shm_at(limpet_shm->chunks_offset +
			     (uint64_t)(index - 1) * LIMPET_CHUNK_BYTES);
}

uint32_t limpet_thread_index(const struct limpet_thread *thread)
{
	const struct limpet_thread *first = limpet_shm_at(limpet_shm->threads_offset);

	return (uint32_t)(thread - first);
}

/* Takes a chunk out of the free map. Threads start at different words, so that they seldom meet. */
static uint32_t chunk_take(const struct limpet_thread *thread)
{
	uint64_t *map = limpet_shm_at(limpet_shm->free_chunks_offset);
	uint32_t words = (limpet_shm->chunk_count + 63) / 64;
	uint32_t word = limpet_thread_index(thread) % words;

	for (uint32_t i = 0; i < words; i++, word = word + 1 == words ? 0 : word + 1) {
		uint64_t bits = __atomic_load_n(&map[word], __ATOMIC_ACQUIRE);

		while (bits) {
			uint32_t bit = (uint32_t)__builtin_ctzll(bits);

			/* Pairs with the collector's release when it gives a chunk back. */
			if (__atomic_compare_exchange_n(&map[word], &bits, bits & ~(1ull << bit),
							false, __ATOMIC_ACQ_REL, __ATOMIC_ACQUIRE))
				return word * 64 + bit + 1;
		}
	}
	return LIMPET_CHUNK_NONE;
}

/* 0: the kernel does not say. */
static uint64_t monotonic_ms(void)
{
	int64_t time[2] = {0, 0};
	const int monotonic = 1;

	if (limpet_syscall3(SYS_clock_gettime, monotonic, (long)time, 0) < 0)
		return 0;
	return (uint64_t)time[0] * 1000u + (uint64_t)time[1] / 1000000u;
}

/* --on-overload wait: the thread sleeps until the collector has given a chunk back or is gone. Not
 * even being switched off ends it: what has begun is recorded. But a collector that was stopped, or
 * hangs, gives no sign of life; once one thread has waited for that in vain, none waits any more
 * until there is one. */
static uint32_t chunk_wait(const struct limpet_thread *thread)
{
	static uint64_t last_beat = UINT64_MAX; /* after which nothing came for so long */
	const int64_t pause[2] = {0, 200000};
	uint32_t index = chunk_take(thread);
	uint64_t beat = UINT64_MAX, since_ms = 0;

	while (index == LIMPET_CHUNK_NONE && limpet_shm->wait_for_room) {
		uint64_t now_beat = __atomic_load_n(&limpet_shm->beats, __ATOMIC_RELAXED);
		uint64_t now_ms = monotonic_ms();

		if (!now_ms || now_beat == __atomic_load_n(&last_beat, __ATOMIC_RELAXED))
			break;
		if (now_beat != beat) {
			beat = now_beat;
			since_ms = now_ms;
		} else if (now_ms - since_ms >= limpet_shm->wait_for_room) {
			__atomic_store_n(&last_beat, beat, __ATOMIC_RELAXED);
			break;
		}
		if (limpet_channel_send(LIMPET_MSG_STARVED, limpet_thread_index(thread), 0, 0) < 0)
			break;
		limpet_syscall3(SYS_nanosleep, (long)pause, 0, 0);
		index = chunk_take(thread);
	}
	return index;
}

static bool chunk_next(struct limpet_thread *thread)
{
	uint32_t index = chunk_wait(thread);
	struct limpet_chunk *chunk;
	uint32_t old = thread->chunk;

	if (index == LIMPET_CHUNK_NONE)
		return false;
	chunk = chunk_at(index);
	chunk->thread = limpet_thread_index(thread);
	chunk->generation = thread->generation;
	chunk->sequence = thread->sequence++;
	chunk->lost_before = thread->dropped;
	chunk->tid = thread->tid;
	chunk->next = LIMPET_CHUNK_NONE;
	__atomic_store_n(&chunk->committed, 0, __ATOMIC_RELAXED);
	thread->chunk = index;
	thread->write_offset = 0;
	if (old == LIMPET_CHUNK_NONE) {
		__atomic_store_n(&thread->first_chunk, index, __ATOMIC_RELEASE);
	} else {
		/* From here on the old chunk may be read to its end and given back. */
		__atomic_store_n(&chunk_at(old)->next, index, __ATOMIC_RELEASE);
		limpet_channel_send(LIMPET_MSG_BATCH, limpet_thread_index(thread), chunk->sequence,
				    0);
	}
	return true;
}

/* Not so after a claim or a take-over, until the new owner has opened a chunk of its own. */
static bool chunk_is_own(const struct limpet_thread *thread)
{
	return thread->chunk != LIMPET_CHUNK_NONE &&
	       chunk_at(thread->chunk)->generation == thread->generation;
}

void limpet_record_append(struct limpet_thread *thread, uint32_t type, uint64_t ticks,
			  uint64_t address, uint64_t size, uint32_t node)
{
	bool wide = size > UINT32_MAX;
	uint32_t bytes = wide ? 32 : 24;
	uint64_t *words;

	if (!chunk_is_own(thread) ||
	    thread->write_offset + bytes > LIMPET_CHUNK_BYTES - sizeof(struct limpet_chunk)) {
		limpet_record_publish(thread);
		if (!chunk_next(thread)) {
			__atomic_store_n(&thread->dropped, thread->dropped + 1, __ATOMIC_RELAXED);
			return;
		}
	}
	words = (uint64_t *)(void *)((uint8_t *)chunk_at(thread->chunk) +
				     sizeof(struct limpet_chunk) + thread->write_offset);
	words[0] = ticks << 8 | type | (wide ? LIMPET_EVENT_WIDE : 0);
	words[1] = address;
	if (wide) {
		words[2] = size;
		words[3] = node;
	} else {
		words[2] = (uint64_t)node << 32 | size;
	}
	thread->write_offset += bytes;
	if (ticks > thread->last_ticks)
		thread->last_ticks = ticks;
	thread->events++;
}

void limpet_record_publish(struct limpet_thread *thread)
{
	if (chunk_is_own(thread))
		__atomic_store_n(&chunk_at(thread->chunk)->committed, thread->write_offset,
				 __ATOMIC_RELEASE);
}

/* libc keeps the tid at a fixed distance behind the thread pointer; the injector measured it. Where
 * it could not, the kernel is asked: libc gives a thread pointer to one thread after the other, and
 * only by the tid is it known whose state this is. */
static uint32_t tid_behind(uint64_t thread_pointer)
{
	if (__builtin_expect(!limpet_shm->tid_offset, 0))
		return (uint32_t)limpet_syscall1(SYS_gettid, 0);
	return *(const uint32_t *)(uintptr_t)(thread_pointer + limpet_shm->tid_offset);
}

static void thread_begin(struct limpet_thread *thread, uint32_t tid, uint64_t thread_pointer,
			 uint64_t sp)
{
	thread->tid = tid;
	/* Pairs with the collector's look at it before and after it works on the entry. */
	__atomic_store_n(&thread->generation, thread->generation + 1, __ATOMIC_RELEASE);
	thread->depth = 0;
	thread->phase = LIMPET_PHASE_OUTSIDE;
	__atomic_store_n(&thread->entry_sp, 0, __ATOMIC_RELAXED);
	__atomic_store_n(&thread->stack_high, 0, __ATOMIC_RELAXED);
	thread->stack_low = 0;
	__atomic_store_n(&thread->thread_pointer, thread_pointer, __ATOMIC_RELEASE);
	limpet_channel_send(LIMPET_MSG_CLAIM, limpet_thread_index(thread), thread->generation, sp);
}

static struct limpet_thread *thread_claim(uint64_t thread_pointer, struct limpet_thread *table,
					  uint32_t home, uint64_t sp)
{
	uint32_t tid = (uint32_t)limpet_syscall1(SYS_gettid, 0);

	for (uint32_t i = 0; i < PROBES; i++) {
		struct limpet_thread *thread = &table[(home + i) % limpet_shm->thread_count];
		uint64_t seen = __atomic_load_n(&thread->thread_pointer, __ATOMIC_RELAXED);

		/* Pairs with the collector's release of a dead thread's entry. */
		if (seen == 0 &&
		    __atomic_compare_exchange_n(&thread->thread_pointer, &seen, POINTER_CHANGING,
						false, __ATOMIC_ACQ_REL, __ATOMIC_RELAXED)) {
			thread->chunk = LIMPET_CHUNK_NONE;
			thread->write_offset = 0;
			thread->sequence = 0;
			thread->last_ticks = 0;
			thread_begin(thread, tid, thread_pointer, sp);
			return thread;
		}
		/* A signal handler came between the search and here. */
		if (seen == thread_pointer)
			return thread;
	}
	return NULL;
}

/* Another thread now lives behind the same thread pointer: libc re-uses stacks. The entry and its
 * chain of chunks go on under the new tid, from a new chunk. */
static struct limpet_thread *thread_take_over(struct limpet_thread *thread, uint64_t thread_pointer,
					      uint32_t tid, uint64_t sp)
{
	uint64_t seen = thread_pointer;

	if (!__atomic_compare_exchange_n(&thread->thread_pointer, &seen, POINTER_CHANGING, false,
					 __ATOMIC_ACQ_REL, __ATOMIC_RELAXED))
		return NULL; /* the collector is clearing it away: lost for this one call */
	thread_begin(thread, tid, thread_pointer, sp);
	return thread;
}

struct limpet_thread *limpet_thread_self(uint64_t sp)
{
	struct limpet_thread *table = limpet_shm_at(limpet_shm->threads_offset);
	uint64_t thread_pointer = limpet_thread_pointer();
	uint32_t home = (uint32_t)((thread_pointer >> 6) * 0x9e3779b97f4a7c15ull >> 32) %
			limpet_shm->thread_count;

	/* The whole window, past free entries: an entry in front may have been freed since. */
	for (uint32_t i = 0; i < PROBES; i++) {
		struct limpet_thread *thread = &table[(home + i) % limpet_shm->thread_count];
		uint32_t tid;

		if (__atomic_load_n(&thread->thread_pointer, __ATOMIC_RELAXED) != thread_pointer)
			continue;
		tid = tid_behind(thread_pointer);
		if (__builtin_expect(tid != thread->tid, 0))
			return thread_take_over(thread, thread_pointer, tid, sp);
		return thread;
	}
	return thread_claim(thread_pointer, table, home, sp);
}
