/* Bounds of the peak: whatever the order of threads within passes, the truth is between them. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "collector/record/accounting.h"
#include "common/sample.h"
#include "common/wire.h"

#define MEMORY_BYTES (64u << 10)
#define ADDRESS(i) (0x10000 + (uint64_t)(i)*64)

static uint64_t random_state = 88172645463325252ull;

static uint64_t random_below(uint64_t limit)
{
	return limpet_sample_random(&random_state) % limit;
}

/* An event that was published; `number`: of its address. */
struct event {
	bool frees;
	unsigned address, number;
	uint64_t size;
};

/* Reads as the collector does. */
struct reading {
	struct limpet_accounting *accounting;
	struct limpet_accounting_rows rows;
	uint32_t place, pass;
};

static struct reading reading_new(void)
{
	struct reading reading = {.accounting = limpet_accounting_new(MEMORY_BYTES)};

	assert_non_null(reading.accounting);
	assert_int_equal(limpet_accounting_take_passes(reading.accounting), 0);
	return reading;
}

static void add(struct reading *reading, uint32_t place, uint32_t thread, const struct event *event)
{
	const struct limpet_record record = {.kind = event->frees ? LIMPET_EVENT_FREE
								  : LIMPET_EVENT_ALLOC,
					     .address = ADDRESS(event->address),
					     .size = event->size,
					     .thread = thread + 1000,
					     .place = place};

	limpet_accounting_rows_clear(&reading->rows);
	assert_int_equal(limpet_accounting_add(reading->accounting, &record, 1, &reading->rows), 0);
}

static void end_pass(struct reading *reading)
{
	limpet_accounting_end_pass(reading->accounting, ++reading->place);
	reading->pass++;
}

/* Whether the order is not known. Without bounds they are the observed peak. */
static bool reading_end(struct reading *reading, uint64_t *ret_min, uint64_t *ret_max)
{
	bool mixed;

	*ret_min = *ret_max = limpet_accounting_peak(reading->accounting).capture_bytes;
	mixed = limpet_accounting_peak_bounds(reading->accounting, ret_min, ret_max);
	limpet_accounting_free(reading->accounting);
	free(reading->rows.list);
	return mixed;
}

/* `mixed`: the order of threads matters. */
static void expect_bounds(struct reading *reading, bool mixed, uint64_t min, uint64_t max)
{
	uint64_t found_min, found_max;

	assert_int_equal(reading_end(reading, &found_min, &found_max), mixed);
	assert_int_equal(found_min, min);
	assert_int_equal(found_max, max);
}

/* ------------------------------------------------------------------ all orders of few events */

#define FEW 3
#define TURNS 4 /* two passes */

/* Each thread has addresses of its own. */
static void make_few(struct event list[FEW], unsigned first)
{
	bool live[FEW] = {false};

	for (unsigned i = 0; i < FEW; i++) {
		const unsigned at = (unsigned)random_below(FEW);

		list[i] = (struct event){
			.frees = live[at], .address = first + at, .size = 1ull << random_below(8)};
		for (unsigned k = 0; k < i && list[i].frees; k++)
			if (!list[k].frees && list[k].address == list[i].address)
				list[i].size = list[k].size;
		live[at] = !live[at];
	}
}

struct order {
	const struct event *threads[2];
	unsigned done[2], read[2], turns;
	char path[2 * FEW + TURNS]; /* 0, 1: the thread's next event; 2: the next thread is read */
	unsigned count;
};

static void read_thread(struct reading *reading, struct order *order, unsigned thread)
{
	while (order->read[thread] < order->done[thread])
		add(reading, ++reading->place, thread,
		    &order->threads[thread][order->read[thread]++]);
	if (thread)
		end_pass(reading);
}

static void check_order(struct order order)
{
	struct reading reading = reading_new();
	uint64_t live = 0, peak = 0, min, max;

	order.done[0] = order.done[1] = order.turns = 0;
	for (unsigned i = 0; i < order.count; i++) {
		const unsigned step = (unsigned)order.path[i];
		const struct event *event;

		if (step == 2) {
			read_thread(&reading, &order, order.turns++ % 2);
			continue;
		}
		event = &order.threads[step][order.done[step]++];
		live = event->frees ? live - event->size : live + event->size;
		peak = live > peak ? live : peak;
	}
	for (unsigned i = 0; i < 2; i++)
		read_thread(&reading, &order, i);
	(void)reading_end(&reading, &min, &max);
	assert_in_range(peak, min, max);
}

static void try_orders(struct order *order)
{
	if (order->count == sizeof(order->path)) {
		check_order(*order);
		return;
	}
	for (char step = 0; step < 3; step++) {
		unsigned *taken = step == 2 ? &order->turns : &order->done[(int)step];

		if (*taken == (step == 2 ? TURNS : FEW))
			continue;
		order->path[order->count++] = step;
		++*taken;
		try_orders(order);
		--*taken;
		order->count--;
	}
}

static void test_all_orders_of_few_events(void **state)
{
	struct event a[FEW], b[FEW];

	(void)state;
	for (unsigned i = 0; i < 2; i++) {
		struct order order = {.threads = {a, b}};

		make_few(a, 0);
		make_few(b, FEW);
		try_orders(&order);
	}
}

/* ------------------------------------------------------------------ histories */

#define THREADS 3
#define BLOCKS 3
#define EVENTS 64

/* The release by a realloc takes its number before the call, and is published after it: meanwhile
 * another thread can have the address. An event whose predecessor was not read is held, at most to
 * the end of the pass after its own. */
struct history {
	struct event published[THREADS][EVENTS];
	unsigned count[THREADS], read[THREADS], turn;
	struct event frees[THREADS];
	bool is_freeing[THREADS];
	uint64_t sizes[BLOCKS];   /* 0: not live, or being freed */
	uint64_t counted[BLOCKS]; /* in `live` */
	unsigned numbers[BLOCKS], next[BLOCKS];
	struct {
		struct event event;
		uint32_t place, pass;
		unsigned thread;
	} held[THREADS * EVENTS];
	unsigned held_count;
	uint64_t live, peak;
	struct reading reading;
};

static void release(struct history *it)
{
	for (unsigned i = 0; i < it->held_count; i++) {
		const struct event event = it->held[i].event;

		if (event.number != it->next[event.address])
			continue;
		it->next[event.address]++;
		add(&it->reading, it->held[i].place, it->held[i].thread, &event);
		it->held[i] = it->held[--it->held_count];
		i = UINT32_MAX;
	}
}

static void read_next(struct history *it)
{
	const unsigned thread = it->turn++ % THREADS;
	bool may_end = thread == THREADS - 1;

	while (it->read[thread] < it->count[thread]) {
		it->held[it->held_count].event = it->published[thread][it->read[thread]++];
		it->held[it->held_count].place = ++it->reading.place;
		it->held[it->held_count].pass = it->reading.pass;
		it->held[it->held_count++].thread = thread;
		release(it);
	}
	for (unsigned i = 0; i < it->held_count; i++)
		may_end = may_end && it->held[i].pass == it->reading.pass;
	if (may_end)
		end_pass(&it->reading);
}

/* What is live at the address from now on. */
static void count(struct history *it, unsigned at, uint64_t size)
{
	it->live = it->live - it->counted[at] + size;
	it->counted[at] = size;
	it->peak = it->live > it->peak ? it->live : it->peak;
}

static void do_something(struct history *it, unsigned thread)
{
	const unsigned at = (unsigned)random_below(BLOCKS);
	struct event event = {.frees = it->sizes[at],
			      .address = at,
			      .size = it->sizes[at] ? it->sizes[at] : 1ull << random_below(8)};

	if (it->is_freeing[thread]) {
		const struct event *freed = &it->frees[thread];

		it->is_freeing[thread] = false;
		it->published[thread][it->count[thread]++] = *freed;
		if (freed->number + 1 == it->numbers[freed->address])
			count(it, freed->address, 0);
		return;
	}
	event.number = it->numbers[at]++;
	if (event.frees) {
		it->is_freeing[thread] = true;
		it->frees[thread] = event;
	} else {
		it->published[thread][it->count[thread]++] = event;
		count(it, at, event.size);
	}
	it->sizes[at] = event.frees ? 0 : event.size;
}

static void test_histories(void **state)
{
	static struct history it;
	unsigned tight = 0;

	(void)state;
	for (unsigned round = 0; round < 4000; round++) {
		const uint64_t reads = 2 + random_below(12);
		uint64_t min, max;

		memset(&it, 0, sizeof(it));
		it.reading = reading_new();
		for (unsigned i = 0; i < EVENTS; i++) {
			if (random_below(16) < reads)
				read_next(&it);
			else
				do_something(&it, (unsigned)random_below(THREADS));
		}
		for (unsigned i = 0; i < THREADS; i++)
			if (it.is_freeing[i])
				do_something(&it, i);
		for (unsigned i = 0; i < 3 * THREADS; i++)
			read_next(&it);
		assert_int_equal(it.held_count, 0);
		(void)reading_end(&it.reading, &min, &max);
		assert_in_range(it.peak, min, max);
		tight += min == max;
	}
	/* Bounds that say nothing would be no bounds. */
	assert_true(tight > 40);
}

/* ------------------------------------------------------------------ what is known */

static void allocate(struct reading *reading, unsigned thread, unsigned address, uint64_t size)
{
	add(reading, ++reading->place, thread, &(struct event){.address = address, .size = size});
}

static void release_one(struct reading *reading, unsigned thread, unsigned address)
{
	add(reading, ++reading->place, thread, &(struct event){.frees = true, .address = address});
}

static void test_one_thread_is_exact(void **state)
{
	struct reading reading = reading_new();

	(void)state;
	for (unsigned i = 0; i < 1000; i++) {
		allocate(&reading, 0, 1, i % 7 * 100);
		allocate(&reading, 0, 2, 50);
		release_one(&reading, 0, 1);
		release_one(&reading, 0, 2);
		if (i % 3 == 0)
			end_pass(&reading);
	}
	expect_bounds(&reading, false, 650, 650);
}

/* One thread's events, long after another's. */
static void test_threads_apart_are_exact(void **state)
{
	struct reading reading = reading_new();

	(void)state;
	for (unsigned i = 0; i < 20; i++) {
		allocate(&reading, i % 2, i, 100);
		allocate(&reading, i % 2, 100, 1000);
		release_one(&reading, i % 2, 100);
		for (unsigned k = 0; k < 5; k++)
			end_pass(&reading);
	}
	expect_bounds(&reading, false, 3000, 3000);
}

static void test_threads_together_have_bounds(void **state)
{
	struct reading reading = reading_new();

	(void)state;
	for (unsigned i = 0; i < 8; i++) {
		allocate(&reading, i, i, 100);
		release_one(&reading, i, i);
	}
	end_pass(&reading);
	expect_bounds(&reading, true, 100, 800);
}

/* Two readings in which nothing happened show what was live. */
static void test_what_is_held_is_known(void **state)
{
	struct reading reading = reading_new();

	(void)state;
	for (unsigned i = 0; i < 8; i++)
		allocate(&reading, i, i, 100);
	for (unsigned i = 0; i < 3; i++)
		end_pass(&reading);
	for (unsigned i = 0; i < 8; i++)
		release_one(&reading, i, i);
	end_pass(&reading);
	expect_bounds(&reading, true, 800, 800);
}

/* A block that is freed at once is one event for the accounting. */
static void test_a_block_freed_at_once(void **state)
{
	struct reading reading = reading_new();

	(void)state;
	for (uint32_t i = 0; i < 2; i++) {
		const struct limpet_record record = {.kind = LIMPET_EVENT_ALLOC,
						     .address = ADDRESS(i),
						     .size = 100 + i,
						     .thread = i + 1,
						     .place = i + 1,
						     .freed = true};

		assert_int_equal(
			limpet_accounting_add(reading.accounting, &record, 1, &reading.rows), 0);
	}
	expect_bounds(&reading, true, 101, 201);
}

/* More turns of threads than there is room for. */
static void test_very_many_turns(void **state)
{
	struct reading reading = reading_new();
	uint64_t min, max;

	(void)state;
	for (unsigned i = 0; i < 300000; i++) {
		const unsigned thread = i % 2;

		if (i / 2 % 2)
			release_one(&reading, thread, thread);
		else
			allocate(&reading, thread, thread, 100);
	}
	end_pass(&reading);
	assert_true(reading_end(&reading, &min, &max));
	assert_true(min <= 100);
	assert_true(max >= 200);
}

/* More late events than there is room for: they follow each other. */
static void test_very_many_late(void **state)
{
	const uint32_t many = 300000;
	struct reading reading = reading_new();

	(void)state;
	reading.place = many;
	allocate(&reading, 0, 0, 50);
	for (uint32_t i = 0; i < many; i++)
		add(&reading, i + 1, 1, &(struct event){.frees = i % 2, .address = 1, .size = 100});
	end_pass(&reading);
	expect_bounds(&reading, true, 100, 150);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_all_orders_of_few_events),
		cmocka_unit_test(test_histories),
		cmocka_unit_test(test_one_thread_is_exact),
		cmocka_unit_test(test_threads_apart_are_exact),
		cmocka_unit_test(test_threads_together_have_bounds),
		cmocka_unit_test(test_what_is_held_is_known),
		cmocka_unit_test(test_a_block_freed_at_once),
		cmocka_unit_test(test_very_many_turns),
		cmocka_unit_test(test_very_many_late),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
