/* Thread states, and the chunks that threads fill with records. */
#ifndef LIMPET_AGENT_RECORD_H
#define LIMPET_AGENT_RECORD_H

#include "agent/thread.h"

void limpet_record_configure(void);
/* For a thread pointer whose state is not in the first entry probed, or now belongs to another
 * thread. */
struct limpet_thread *limpet_thread_look_up(uint64_t sp);
/* The time of a record that is stamped when it is written; not a time of limpet_record_time(). */
#define LIMPET_RECORD_NOW UINT32_MAX
/* Opens a chunk; false: none is free, and the event is counted as lost, by its kind, unless its
 * time is after the end of the capture. Switches to sampling when chunks run short. */
bool limpet_record_make_room(struct limpet_thread *thread, uint32_t type, uint64_t size,
			     uint32_t time);
/* Publishes the records so far and opens a chunk; false: none is free. */
bool limpet_record_open_chunk(struct limpet_thread *thread);
/* Where a description goes. */
struct limpet_record_place {
	uint64_t at, end; /* of the chunk */
};
/* Whether `bytes` fit in the thread's chunk; then *ret_place is the place of the next record. The
 * state is read once: a fibre may stay in a signal handler here until the state has another owner,
 * and even then must not write beyond the chunk. False also in the child of a fork in a signal
 * handler: the chunks are its parent's. */
bool limpet_record_find_place(const struct limpet_thread *thread, uint32_t bytes,
			      struct limpet_record_place *ret_place);
/* Publishes what was written there as the next record. False: this is such a child, and nothing was
 * published. */
bool limpet_record_commit(struct limpet_thread *thread, struct limpet_record_place place,
			  uint32_t bytes);
/* An overload's number, in an entry of the table of blocks that were not recorded (sampled.h). */
#define LIMPET_OVERLOAD_TAG_BITS 20
#define LIMPET_OVERLOAD_TAGS (1u << LIMPET_OVERLOAD_TAG_BITS)
/* The collector has freed chunks: resume full recording. */
void limpet_record_end_overload(struct limpet_thread *thread, uint32_t overload);
/* Publishes the records so far, and clears the intent. */
void limpet_record_publish(struct limpet_thread *thread);
static inline bool limpet_record_has_ended(void)
{
	return __atomic_load_n(&limpet_shm->ended, __ATOMIC_ACQUIRE);
}
/* As the collector has told it. */
static inline uint32_t limpet_record_time(void)
{
	return (uint32_t)__atomic_load_n(&limpet_shm->time, __ATOMIC_RELAXED) & LIMPET_TIME_MASK;
}
/* Whether a record with that time belongs to the capture, although its end has come. */
static inline bool limpet_record_is_late(uint32_t time)
{
	return time != LIMPET_RECORD_NOW && limpet_record_has_ended() &&
	       time != limpet_record_time();
}
/* In whatever way. */
static inline bool limpet_record_collector_has_died(void)
{
	return __atomic_load_n(&limpet_shm->collector, __ATOMIC_RELAXED) & LIMPET_COLLECTOR_DIED;
}
/* Notes work for the collector, which sees it at its next poll. */
void limpet_record_ring(void);
/* The thread's tid, read from libc's thread block without a system call if its offset is known. */
uint32_t limpet_record_tid(void);

static inline uint64_t limpet_thread_hash(uint64_t thread_pointer)
{
	return (thread_pointer >> 6) * LIMPET_GOLDEN >> 32;
}

/* libc stores the tid at a fixed offset from the thread pointer; the injector measured it. libc
 * reuses a thread pointer for one thread after the other: only the tid identifies the owner of a
 * state. */
static inline struct limpet_thread *limpet_thread_self(uint64_t sp)
{
	uint64_t pointer = limpet_thread_pointer();
	struct limpet_thread *thread =
		&limpet_hot.threads[limpet_thread_hash(pointer) & limpet_hot.thread_mask];

	if (__builtin_expect(__atomic_load_n(&thread->thread_pointer, __ATOMIC_RELAXED) == pointer,
			     1) &&
	    __builtin_expect(limpet_hot.tid_offset != 0, 1) &&
	    __builtin_expect(*(const uint32_t *)(uintptr_t)(pointer + limpet_hot.tid_offset) ==
				     thread->tid,
			     1))
		return thread;
	return limpet_thread_look_up(sp);
}

/* The next number of that counter. The intent is stored first: whoever has seen a later number sees
 * the intent, or the record. The increment is a full barrier. */
static inline uint32_t limpet_order_next(uint32_t *intent, uint32_t counter)
{
	__atomic_store_n(intent, counter + 1, __ATOMIC_RELAXED);
	return __atomic_fetch_add(&limpet_hot.order[counter], 1, __ATOMIC_SEQ_CST);
}

/* Signed: if the fields are corrupt, only the record is lost. */
static inline bool limpet_record_fits(const struct limpet_thread *thread, uint32_t bytes)
{
	const struct limpet_own *own = limpet_own(thread);

	return (int64_t)(own->end - own->at) >= (int64_t)bytes;
}

static inline bool limpet_record_has_room(struct limpet_thread *thread, uint32_t type,
					  uint64_t size, uint32_t time)
{
	return __builtin_expect(limpet_record_fits(thread, size > UINT32_MAX ? 32 : 24), 1) ||
	       limpet_record_make_room(thread, type, size, time);
}

/* For a call that was left before its record was written: the record is no longer waited for. */
static inline void limpet_record_forget_intents(struct limpet_thread *thread)
{
	__atomic_store_n(&thread->intent, 0, __ATOMIC_RELEASE);
	__atomic_store_n(&thread->held_intent, 0, __ATOMIC_RELEASE);
}

struct limpet_record_head {
	uint32_t type, number, time;
};

/* The chunk must have room. Inlined like its callers, which saves a free 30 instructions. */
static inline __attribute__((always_inline)) void limpet_record_write(
	struct limpet_thread *thread, struct limpet_record_head head, uint64_t address,
	uint64_t size, uint32_t stack)
{
	const bool wide = size > UINT32_MAX;
	struct limpet_own *own = limpet_own(thread);
	uint64_t *words = (uint64_t *)(uintptr_t)own->at;

	/* The collector has read these cache lines since they were last written: fetching them back
	 * takes longer than writing some records. */
	limpet_prefetch_to_write(words + 48);
	words[0] = (uint64_t)head.number << 32 | head.time << 8 | head.type |
		   (wide ? LIMPET_EVENT_WIDE : 0);
	words[1] = LIMPET_HIDDEN(address);
	if (wide) {
		words[2] = size;
		words[3] = stack;
	} else {
		words[2] = (uint64_t)stack << 32 | size;
	}
	own->last = head.type == LIMPET_EVENT_ALLOC && !wide ? own->at : 0;
	own->at += wide ? 32 : 24;
}

/* For the free of a block. If the thread's last record is its allocation, and nothing has happened
 * to the block's counter since, marks that record: half of the work for the collector, and no call
 * of the allocator for a size that only frees of unknown blocks need. The collector may be reading
 * the record, so one store decides. Returns whether the free is recorded; call
 * limpet_record_publish(). */
static inline bool limpet_record_free_last(struct limpet_thread *thread, uint64_t block)
{
	struct limpet_own *own = limpet_own(thread);
	const uint64_t at = own->at - 24;
	uint64_t *words = (uint64_t *)(uintptr_t)at;
	uint32_t number, time;

	/* The number may turn out not to be the next one: there must be room for a record. */
	if (own->last != at || words[1] != LIMPET_HIDDEN(block) || !limpet_record_fits(thread, 24))
		return false;
	number = limpet_order_next(&thread->intent, limpet_order_of_block(block));
	time = limpet_record_time();
	if (number != LIMPET_EVENT_NUMBER(words[0]) + 1 || time != LIMPET_EVENT_TIME(words[0])) {
		limpet_record_write(thread,
				    (struct limpet_record_head){LIMPET_EVENT_FREE, number, time},
				    block, (uint32_t)words[2], 0);
		return true;
	}
	own->last = 0;
	/* Pairs with the collector's look at the record, also after it has seen a later number. */
	__atomic_store_n(&words[0], words[0] | LIMPET_EVENT_FREED, __ATOMIC_RELEASE);
	return true;
}

/* Makes room first: the collector would wait for the record of a number that was taken. */
static inline __attribute__((always_inline)) void limpet_record_append_at(
	struct limpet_thread *thread, uint32_t type, uint32_t time, uint64_t address, uint64_t size,
	uint32_t stack)
{
	const uint32_t kind = LIMPET_EVENT_KIND(type);
	uint32_t number;

	if (!limpet_record_has_room(thread, type, size, time))
		return;
	number = limpet_order_next(&thread->intent, limpet_order_counter(kind, address));
	if (time == LIMPET_RECORD_NOW)
		time = limpet_record_time();
	limpet_record_write(thread, (struct limpet_record_head){type, number, time}, address, size,
			    stack);
}

static inline __attribute__((always_inline)) void limpet_record_append(struct limpet_thread *thread,
								       uint32_t type,
								       uint64_t address,
								       uint64_t size,
								       uint32_t stack)
{
	limpet_record_append_at(thread, type, LIMPET_RECORD_NOW, address, size, stack);
}

#endif
