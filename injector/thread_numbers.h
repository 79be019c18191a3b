/* Numbers the threads of a capture, from 0, for good: so that a live block can name its thread in
 * four bytes however many come and go. Remembers each one's last allocation. One thread. */
#ifndef LIMPET_INJECTOR_THREAD_NUMBERS_H
#define LIMPET_INJECTOR_THREAD_NUMBERS_H

#include <stdint.h>

struct limpet_thread_numbers;

/* NULL: no memory. */
struct limpet_thread_numbers *limpet_thread_numbers_new(void);
void limpet_thread_numbers_free(struct limpet_thread_numbers *numbers);

/* Finds or numbers a thread. Its number, or -ENOMEM. A target that goes through millions of them
 * has the rest share the last number. */
int limpet_thread_numbers_find(struct limpet_thread_numbers *numbers, uint32_t tid);
/* 0 for a number that was never given. */
uint32_t limpet_thread_numbers_tid(const struct limpet_thread_numbers *numbers, uint32_t thread);
/* Address of the thread's last allocation, 0: freed since, or none; to be set by the caller. Valid
 * until the next find. */
uint64_t *limpet_thread_numbers_last(struct limpet_thread_numbers *numbers, uint32_t thread);

#endif
