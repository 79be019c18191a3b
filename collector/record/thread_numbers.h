/* Numbers the threads of a capture, from 0. Numbers are permanent, so that a live block can refer
 * to its thread in four bytes, however many threads start and end. One thread. */
#ifndef LIMPET_COLLECTOR_RECORD_THREAD_NUMBERS_H
#define LIMPET_COLLECTOR_RECORD_THREAD_NUMBERS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Public only for the inline functions below, which are called for each event. */
#define LIMPET_THREAD_NUMBERS_NEAR 256u
struct limpet_thread_numbers {
	uint32_t *tids;
	uint32_t count;
	size_t capacity;
	uint32_t *slots; /* open addressing by tid: number + 1; at most half full */
	uint32_t slot_count;
	struct {
		uint32_t tid, thread;
		bool known;
	} near[LIMPET_THREAD_NUMBERS_NEAR]; /* those found last, by the low bits of the tid */
};

/* NULL: no memory. */
struct limpet_thread_numbers *limpet_thread_numbers_new(void);
void limpet_thread_numbers_free(struct limpet_thread_numbers *numbers);

/* Finds or numbers a thread. Returns its number, or -ENOMEM. If a target has millions of threads,
 * the rest share the last number. */
int limpet_thread_numbers_look_up(struct limpet_thread_numbers *numbers, uint32_t tid);
static inline int limpet_thread_numbers_find(struct limpet_thread_numbers *numbers, uint32_t tid)
{
	uint32_t at = tid % LIMPET_THREAD_NUMBERS_NEAR;

	if (numbers->near[at].known && numbers->near[at].tid == tid)
		return (int)numbers->near[at].thread;
	return limpet_thread_numbers_look_up(numbers, tid);
}

/* 0 for a number that was never assigned. */
uint32_t limpet_thread_numbers_tid(const struct limpet_thread_numbers *numbers, uint32_t thread);
#endif
