#include "collector/record/thread_numbers.h"

#include <errno.h>
#include <stdlib.h>

#include "common/array.h"

#define THREADS_MAX (1u << 22)

struct limpet_thread_numbers *limpet_thread_numbers_new(void)
{
	struct limpet_thread_numbers *numbers = calloc(1, sizeof(*numbers));

	if (!numbers)
		return NULL;
	numbers->capacity = 64;
	numbers->slot_count = 128;
	numbers->tids = calloc(numbers->capacity, sizeof(*numbers->tids));
	numbers->slots = calloc(numbers->slot_count, sizeof(*numbers->slots));
	if (!numbers->tids || !numbers->slots) {
		limpet_thread_numbers_free(numbers);
		return NULL;
	}
	return numbers;
}

void limpet_thread_numbers_free(struct limpet_thread_numbers *numbers)
{
	if (!numbers)
		return;
	free(numbers->tids);
	free(numbers->slots);
	free(numbers);
}

static uint32_t *find_slot(const struct limpet_thread_numbers *numbers, uint32_t *slots,
			   uint32_t slot_count, uint32_t tid)
{
	uint32_t at = tid * 0x9E3779B1u & (slot_count - 1);

	while (slots[at] && numbers->tids[slots[at] - 1] != tid)
		at = (at + 1) & (slot_count - 1);
	return &slots[at];
}

/* Doubles both tables. */
static bool grow(struct limpet_thread_numbers *numbers)
{
	uint32_t slot_count = numbers->slot_count * 2;
	uint32_t *slots = calloc(slot_count, sizeof(*slots));

	if (!slots || limpet_reserve(&numbers->tids, &numbers->capacity, numbers->capacity + 1,
				     sizeof(*numbers->tids)) < 0) {
		free(slots);
		return false;
	}
	for (uint32_t i = 0; i < numbers->count; i++)
		*find_slot(numbers, slots, slot_count, numbers->tids[i]) = i + 1;
	free(numbers->slots);
	numbers->slots = slots;
	numbers->slot_count = slot_count;
	return true;
}

int limpet_thread_numbers_look_up(struct limpet_thread_numbers *numbers, uint32_t tid)
{
	uint32_t *slot = find_slot(numbers, numbers->slots, numbers->slot_count, tid), thread;
	uint32_t at = tid % LIMPET_THREAD_NUMBERS_NEAR;

	if (*slot) {
		thread = *slot - 1;
	} else if (numbers->count == THREADS_MAX) {
		thread = THREADS_MAX - 1;
	} else {
		if (numbers->count == numbers->capacity) {
			if (!grow(numbers))
				return -ENOMEM;
			slot = find_slot(numbers, numbers->slots, numbers->slot_count, tid);
		}
		numbers->tids[numbers->count] = tid;
		thread = numbers->count;
		*slot = ++numbers->count;
	}
	numbers->near[at].tid = tid;
	numbers->near[at].thread = thread;
	numbers->near[at].known = true;
	return (int)thread;
}

uint32_t limpet_thread_numbers_tid(const struct limpet_thread_numbers *numbers, uint32_t thread)
{
	return thread < numbers->count ? numbers->tids[thread] : 0;
}
