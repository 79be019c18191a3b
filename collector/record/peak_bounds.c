#include "collector/record/peak_bounds.h"

#include <stdlib.h>
#include <string.h>

#include "common/array.h"

/* Of a list of runs; more are added up without their order. */
#define RUNS_MOST (1u << 18)
/* Late events are sorted by so many bits of their places at a time. */
#define DIGIT_BITS 11u
#define DIGITS (1u << DIGIT_BITS)
/* Passes that are looked at together. */
#define PASSES 4u
#define NO_EVENT INT64_MIN

/* Events of a thread with consecutive places: their sum; the most after one of them, and the least,
 * relative to the beginning; the least of the first one alone. */
struct run {
	uint32_t place, thread; /* of the first event; the thread's dense number */
	int64_t sum, most, least, first;
};

/* An event that came after one with a later place. */
struct late {
	uint32_t place, thread;
	int64_t sum, most;
};

/* The events of a pass that is not added up yet: in the order of reading, and in none. */
struct pass {
	struct run *runs;
	size_t count, capacity;
	struct late *late;
	size_t late_count, late_capacity;
	bool is_packed; /* some late ones are among the runs */
};

/* What a thread did in a pass. */
struct part {
	int64_t sum;
	int64_t most, least; /* at any place in it, its beginning included */
	int64_t high;        /* the most after an event of it */
	int64_t first;       /* the least of the first event, its beginning included */
};

struct thread {
	uint32_t thread;
	uint64_t last; /* pass with events */
	struct part parts[PASSES];
};

struct limpet_peak_hidden {
	struct run run; /* that goes on now; its sums are in limpet_peak_now */
	bool is_late;   /* the event: */
	uint32_t late_place, late_thread;
	int64_t live_before, most_before, least_before;
	uint32_t place;            /* where the current pass begins */
	uint64_t number;           /* of the pass that is added up next */
	struct pass last, current; /* that one, and the one after it */
	struct late *spare;        /* for sorting */
	size_t spare_capacity;
	int64_t live;           /* before the oldest of the parts */
	struct thread *threads; /* those with a part */
	size_t count, capacity;
	uint32_t *index; /* by dense number: in `threads` + 1, 0: none */
	size_t index_capacity;
	/* Runs for which there was no room: of as many passes, and of those that are not added up.
	 */
	struct part unordered[2 * PASSES];
	int64_t most, least; /* bounds of the peak */
	bool mixed;
};

/* Figures of a hostile program may be anything. */
static int64_t plus(int64_t a, int64_t b)
{
	return (int64_t)((uint64_t)a + (uint64_t)b);
}

static int64_t minus(int64_t a, int64_t b)
{
	return (int64_t)((uint64_t)a - (uint64_t)b);
}

static int64_t larger(int64_t a, int64_t b)
{
	return a > b ? a : b;
}

static int64_t smaller(int64_t a, int64_t b)
{
	return a < b ? a : b;
}

struct limpet_peak_bounds *limpet_peak_bounds_new(void)
{
	struct limpet_peak_bounds *bounds = calloc(1, sizeof(*bounds));

	if (!bounds)
		return NULL;
	bounds->hidden = calloc(1, sizeof(*bounds->hidden));
	if (!bounds->hidden) {
		free(bounds);
		return NULL;
	}
	bounds->hidden->number = PASSES;
	bounds->now.tid = LIMPET_PEAK_NO_TID;
	return bounds;
}

static void free_pass(struct pass *pass)
{
	free(pass->runs);
	free(pass->late);
}

void limpet_peak_bounds_free(struct limpet_peak_bounds *bounds)
{
	if (!bounds)
		return;
	free_pass(&bounds->hidden->last);
	free_pass(&bounds->hidden->current);
	free(bounds->hidden->spare);
	free(bounds->hidden->threads);
	free(bounds->hidden->index);
	free(bounds->hidden);
	free(bounds);
}

/* ------------------------------------------------------------------ runs */

static struct part *unordered_of(struct limpet_peak_hidden *hidden, const struct pass *pass)
{
	const uint64_t number = hidden->number + (pass == &hidden->current);

	return &hidden->unordered[number % (2 * PASSES)];
}

/* Without room for more, runs become one of no order: each of them may have been at its highest, or
 * at its lowest, at any moment. */
static void add_unordered(struct part *part, const struct run *run)
{
	part->sum = plus(part->sum, run->sum);
	part->most = plus(part->most, larger(run->most, 0));
	part->least = plus(part->least, run->least);
}

static struct run run_of(const struct late *late)
{
	return (struct run){.place = late->place,
			    .thread = late->thread,
			    .sum = late->sum,
			    .most = late->most,
			    .least = smaller(late->sum, 0),
			    .first = smaller(late->sum, 0)};
}

static void give_up_runs(struct limpet_peak_hidden *hidden, struct pass *pass)
{
	for (size_t i = 0; i < pass->count; i++)
		add_unordered(unordered_of(hidden, pass), &pass->runs[i]);
	pass->count = 0;
}

static void give_up_late(struct limpet_peak_hidden *hidden, struct pass *pass)
{
	for (size_t i = 0; i < pass->late_count; i++) {
		const struct run run = run_of(&pass->late[i]);

		add_unordered(unordered_of(hidden, pass), &run);
	}
	pass->late_count = 0;
}

static void add_run(struct limpet_peak_hidden *hidden, struct pass *pass, const struct run *run)
{
	if (pass->count == RUNS_MOST)
		give_up_runs(hidden, pass);
	if (limpet_reserve(&pass->runs, &pass->capacity, pass->count + 1, sizeof(*pass->runs)) == 0)
		pass->runs[pass->count++] = *run;
	else
		add_unordered(unordered_of(hidden, pass), run);
}

/* Moves the late events into the order of their bits from `shift` on; those with the same bits stay
 * in their order. */
static void sort_by_digit(const struct pass *pass, struct late *ret, uint32_t first, unsigned shift)
{
	size_t at[DIGITS + 1] = {0};

	for (size_t i = 0; i < pass->late_count; i++)
		at[((pass->late[i].place - first) >> shift) % DIGITS + 1]++;
	for (unsigned i = 0; i < DIGITS; i++)
		at[i + 1] += at[i];
	for (size_t i = 0; i < pass->late_count; i++)
		ret[at[((pass->late[i].place - first) >> shift) % DIGITS]++] = pass->late[i];
}

/* False: no memory. */
static bool sort_late(struct limpet_peak_hidden *hidden, struct pass *pass)
{
	uint32_t first = pass->late_count ? pass->late[0].place : 0, bits = 0;

	for (size_t i = 0; i < pass->late_count; i++)
		if ((int32_t)(pass->late[i].place - first) < 0)
			first = pass->late[i].place;
	for (size_t i = 0; i < pass->late_count; i++)
		bits |= pass->late[i].place - first;
	for (unsigned shift = 0; shift < 32 && bits >> shift; shift += DIGIT_BITS) {
		struct late *list = pass->late;
		const size_t capacity = pass->late_capacity;

		if (limpet_reserve(&hidden->spare, &hidden->spare_capacity, pass->late_count,
				   sizeof(*hidden->spare)) < 0)
			return false;
		sort_by_digit(pass, hidden->spare, first, shift);
		pass->late = hidden->spare;
		pass->late_capacity = hidden->spare_capacity;
		hidden->spare = list;
		hidden->spare_capacity = capacity;
	}
	return true;
}

/* Makes runs of the late events, out of their order among the others: those that waited for each
 * other mostly have consecutive places. */
static void pack_late(struct limpet_peak_hidden *hidden, struct pass *pass)
{
	struct run run;
	uint32_t next = 0;

	if (!sort_late(hidden, pass)) {
		give_up_late(hidden, pass);
		return;
	}
	for (size_t i = 0; i < pass->late_count; i++) {
		const struct run one = run_of(&pass->late[i]);

		if (i && one.place == next && one.thread == run.thread) {
			run.most = larger(run.most, plus(run.sum, one.most));
			run.least = smaller(run.least, plus(run.sum, one.least));
			run.sum = plus(run.sum, one.sum);
		} else {
			if (i)
				add_run(hidden, pass, &run);
			run = one;
		}
		next = one.place + 1;
	}
	if (pass->late_count)
		add_run(hidden, pass, &run);
	pass->late_count = 0;
	pass->is_packed = true;
}

static void add_late(struct limpet_peak_hidden *hidden, struct pass *pass, struct late late)
{
	const struct run run = run_of(&late);

	if (pass->late_count == RUNS_MOST)
		pack_late(hidden, pass);
	if (limpet_reserve(&pass->late, &pass->late_capacity, pass->late_count + 1,
			   sizeof(*pass->late)) == 0)
		pass->late[pass->late_count++] = late;
	else
		add_unordered(unordered_of(hidden, pass), &run);
}

static void end_run(struct limpet_peak_bounds *bounds, uint64_t live)
{
	struct limpet_peak_now *now = &bounds->now;
	struct run *run = &bounds->hidden->run;

	if (now->tid == LIMPET_PEAK_NO_TID)
		return;
	run->sum = minus((int64_t)live, now->base);
	run->most = minus(now->most, now->base);
	run->least = minus(now->least, now->base);
	add_run(bounds->hidden, &bounds->hidden->current, run);
	now->tid = LIMPET_PEAK_NO_TID;
}

void limpet_peak_bounds_begin(struct limpet_peak_bounds *bounds, uint32_t place, uint32_t tid,
			      uint32_t thread, uint64_t live)
{
	struct limpet_peak_hidden *hidden = bounds->hidden;

	hidden->is_late = (int32_t)(place - bounds->now.next) < 0;
	if (hidden->is_late) {
		hidden->late_place = place;
		hidden->late_thread = thread;
		hidden->live_before = (int64_t)live;
		hidden->most_before = bounds->now.most;
		hidden->least_before = bounds->now.least;
		bounds->now.most = INT64_MIN;
		return;
	}
	end_run(bounds, live);
	hidden->run = (struct run){.place = place, .thread = thread};
	bounds->now = (struct limpet_peak_now){.tid = tid,
					       .next = place + 1,
					       .most = INT64_MIN,
					       .least = (int64_t)live,
					       .base = (int64_t)live};
}

/* What goes on afterwards is as if the late event had not been. */
static void end_late(struct limpet_peak_bounds *bounds, uint64_t live)
{
	struct limpet_peak_hidden *hidden = bounds->hidden;
	struct limpet_peak_now *now = &bounds->now;
	const bool is_older = (int32_t)(hidden->late_place - hidden->place) < 0;
	const int64_t sum = minus((int64_t)live, hidden->live_before);

	add_late(hidden, is_older ? &hidden->last : &hidden->current,
		 (struct late){.place = hidden->late_place,
			       .thread = hidden->late_thread,
			       .sum = sum,
			       .most = minus(now->most, hidden->live_before)});
	now->base = plus(now->base, sum);
	now->most = plus(hidden->most_before, sum);
	now->least = plus(hidden->least_before, sum);
}

void limpet_peak_bounds_began(struct limpet_peak_bounds *bounds, uint64_t live)
{
	if (bounds->hidden->is_late)
		end_late(bounds, live);
	else
		bounds->hidden->run.first = smaller(minus((int64_t)live, bounds->now.base), 0);
}

/* ------------------------------------------------------------------ passes */

/* NULL: no memory. */
static struct thread *find_thread(struct limpet_peak_hidden *hidden, uint32_t number)
{
	struct thread *thread;

	if (limpet_reserve_zeroed(&hidden->index, &hidden->index_capacity, (size_t)number + 1,
				  sizeof(*hidden->index)) < 0)
		return NULL;
	if (hidden->index[number])
		return &hidden->threads[hidden->index[number] - 1];
	if (limpet_reserve(&hidden->threads, &hidden->capacity, hidden->count + 1,
			   sizeof(*hidden->threads)) < 0)
		return NULL;
	thread = &hidden->threads[hidden->count];
	*thread = (struct thread){.thread = number};
	for (unsigned i = 0; i < PASSES; i++)
		thread->parts[i].high = NO_EVENT;
	hidden->index[number] = (uint32_t)++hidden->count;
	return thread;
}

/* Of the pass that is being added up, in the order of reading. */
static void add_to_thread(struct limpet_peak_hidden *hidden, const struct run *run)
{
	struct thread *thread = find_thread(hidden, run->thread);
	struct part *part;

	if (!thread) {
		add_unordered(unordered_of(hidden, &hidden->last), run);
		return;
	}
	part = &thread->parts[hidden->number % PASSES];
	if (thread->last != hidden->number + 1)
		*part = (struct part){.first = run->first, .high = run->most};
	thread->last = hidden->number + 1;
	part->high = larger(part->high, plus(part->sum, run->most));
	part->most = larger(part->most, part->high);
	part->least = smaller(part->least, plus(part->sum, run->least));
	part->sum = plus(part->sum, run->sum);
}

static int compare_places(const void *a, const void *b)
{
	const struct run *x = a, *y = b;

	return (int32_t)(x->place - y->place);
}

static void add_pass(struct limpet_peak_hidden *hidden, struct pass *pass)
{
	size_t late = 0;

	if (!sort_late(hidden, pass))
		give_up_late(hidden, pass);
	if (pass->is_packed && pass->count)
		qsort(pass->runs, pass->count, sizeof(*pass->runs), compare_places);
	for (size_t i = 0; i <= pass->count; i++) {
		for (; late < pass->late_count; late++) {
			const struct run run = run_of(&pass->late[late]);

			if (i < pass->count && (int32_t)(run.place - pass->runs[i].place) > 0)
				break;
			add_to_thread(hidden, &run);
		}
		if (i < pass->count)
			add_to_thread(hidden, &pass->runs[i]);
	}
	pass->count = pass->late_count = 0;
	pass->is_packed = false;
}

/* What the threads that were looked at have in common. */
struct look {
	int64_t before; /* live before the two latest passes */
	int64_t most, least, least_of_all, highest;
	size_t active;
};

/* The parts of the passes from the oldest: the latest is the one that was just added up. */
static void look_at(struct look *look, const struct thread *thread, uint64_t oldest)
{
	const struct part *a = &thread->parts[oldest % PASSES],
			  *b = &thread->parts[(oldest + 1) % PASSES],
			  *c = &thread->parts[(oldest + 2) % PASSES],
			  *d = &thread->parts[(oldest + 3) % PASSES];
	const int64_t at_c = plus(a->sum, b->sum);
	const int64_t least_late = smaller(c->least, plus(c->sum, d->first));
	const int64_t least =
		smaller(smaller(a->least, plus(a->sum, b->least)), plus(at_c, least_late));

	look->before = plus(look->before, at_c);
	look->most = plus(look->most, larger(c->most, plus(c->sum, d->most)));
	look->least = plus(look->least, least_late);
	look->least_of_all = plus(look->least_of_all, least);
	if (b->high != NO_EVENT)
		look->highest = larger(look->highest, minus(plus(a->sum, b->high), least));
	look->active++;
}

static void look_at_unordered(struct look *look, const struct part *unordered, uint64_t oldest)
{
	for (uint64_t i = 0; i < PASSES; i++) {
		const struct part *part = &unordered[(oldest + i) % (2 * PASSES)];

		look->active += part->most || part->least ? 2 : 0;
		look->least_of_all = plus(look->least_of_all, part->least);
		if (i < 2) {
			look->before = plus(look->before, part->sum);
			continue;
		}
		look->most = plus(look->most, part->most);
		look->least = plus(look->least, part->least);
	}
}

/* The oldest pass is over for good. */
static void forget_oldest(struct limpet_peak_hidden *hidden, uint64_t oldest)
{
	struct part *unordered = &hidden->unordered[oldest % (2 * PASSES)];

	hidden->live = plus(hidden->live, unordered->sum);
	*unordered = (struct part){0};
	for (size_t i = hidden->count; i-- > 0;) {
		struct thread *thread = &hidden->threads[i];
		struct part *part = &thread->parts[oldest % PASSES];

		hidden->live = plus(hidden->live, part->sum);
		*part = (struct part){.high = NO_EVENT};
		if (thread->last > oldest + 1)
			continue;
		hidden->index[thread->thread] = 0;
		*thread = hidden->threads[--hidden->count];
		if (i < hidden->count)
			hidden->index[thread->thread] = (uint32_t)i + 1;
	}
}

void limpet_peak_bounds_end_pass(struct limpet_peak_bounds *bounds, uint32_t place, uint64_t live)
{
	struct limpet_peak_hidden *hidden = bounds->hidden;
	const uint64_t oldest = hidden->number - (PASSES - 1);
	struct look look = {.highest = 0};
	struct pass empty;

	end_run(bounds, live);
	bounds->now.next = hidden->place = place;
	add_pass(hidden, &hidden->last);
	empty = hidden->last;
	hidden->last = hidden->current;
	hidden->current = empty;
	for (size_t i = 0; i < hidden->count; i++)
		look_at(&look, &hidden->threads[i], oldest);
	look_at_unordered(&look, hidden->unordered, oldest);
	look.before = plus(look.before, hidden->live);
	hidden->most = larger(hidden->most, plus(look.before, look.most));
	hidden->least = larger(hidden->least, plus(look.before, look.least));
	hidden->least =
		larger(hidden->least, plus(plus(hidden->live, look.least_of_all), look.highest));
	hidden->mixed |= look.active > 1;
	forget_oldest(hidden, oldest);
	hidden->number++;
}

bool limpet_peak_bounds_finish(struct limpet_peak_bounds *bounds, uint64_t live, uint64_t *ret_min,
			       uint64_t *ret_max)
{
	struct limpet_peak_hidden *hidden = bounds->hidden;

	for (unsigned i = 0; i < PASSES + 2; i++)
		limpet_peak_bounds_end_pass(bounds, bounds->now.next, live);
	*ret_min = (uint64_t)hidden->least;
	*ret_max = (uint64_t)hidden->most;
	return hidden->mixed;
}
