#include "explain/reach/leaks.h"

#include <stdlib.h>
#include <string.h>

#include "common/array.h"
#include "common/clock.h"
#include "explain/reach/leak_candidates.h"
#include "explain/reach/leaks_sites.h"
#include "explain/reach/reach_clear.h"
#include "explain/reach/reach_round.h"
#include "injector/proc/target_process.h"
#include "injector/stacks/stop_moment.h"

/* For one look at everything. */
#define LOOK_NS (6 * LIMPET_MEMORY_READER_NS)
/* No memory is copied faster: 10 bytes a nanosecond. */
#define FASTEST_BYTES ((uint64_t)10)
/* By which the memory may have grown when the process stands. */
#define SLACK_BYTES ((uint64_t)4 << 20)
#define PAGE ((uint64_t)4096)
/* Looks beside the running process if the stop was too short, and processor time after which none
 * is begun. */
#define LOOKS 8u
#define STEADY_LOOKS 2u
#define LOOKS_NS UINT64_C(2000000000)
#define HEADS_LIMIT 1024u /* ranges */

struct inquiry {
	const struct limpet_target *target;
	const struct limpet_leaks_options *options;
	struct limpet_leaks *leaks;
	struct limpet_process_reader *process;
	struct limpet_reach_round round;
	struct limpet_leak_candidates candidates; /* of the round before */
	struct limpet_frozen_copy frozen;
	struct limpet_search_ranges ranges;   /* of the moment of that copy */
	struct limpet_search_ranges heads;    /* pages with first words of lost blocks */
	uint64_t *registers, *stack_pointers; /* of the stop */
	size_t register_count, stack_pointer_count, register_capacity, stack_pointer_capacity;
	int stop_error;
};

static void inquiry_done(struct inquiry *inquiry)
{
	limpet_reach_round_done(&inquiry->round);
	limpet_leak_candidates_done(&inquiry->candidates);
	limpet_frozen_copy_done(&inquiry->frozen);
	limpet_search_ranges_done(&inquiry->ranges);
	limpet_search_ranges_done(&inquiry->heads);
	limpet_process_reader_free(inquiry->process);
	free(inquiry->registers);
	free(inquiry->stack_pointers);
}

/* ------------------------------------------------------------------ looks */

static int begin_look(struct inquiry *inquiry)
{
	int error;

	limpet_process_reader_free(inquiry->process);
	inquiry->process = NULL;
	error = limpet_process_reader_new(inquiry->target, &inquiry->process);
	if (!error)
		error = limpet_process_reader_read_shared(inquiry->process, inquiry->target);
	if (error)
		return error;
	limpet_process_reader_limit(inquiry->process, UINT32_MAX);
	limpet_process_reader_allow(inquiry->process, LOOK_NS);
	return 0;
}

static int look(struct inquiry *inquiry, const struct limpet_reach_look *how)
{
	struct limpet_leaks *leaks = inquiry->leaks;
	int error;

	limpet_reach_round_done(&inquiry->round);
	error = limpet_reach_round_read(how, &inquiry->round);
	leaks->has_glibc = inquiry->round.has_glibc;
	leaks->is_judged = inquiry->round.is_judged;
	leaks->is_late |= inquiry->round.is_late;
	leaks->unread_arenas = inquiry->round.unread_arenas;
	leaks->searched_bytes = inquiry->round.bytes;
	leaks->missed_bytes = inquiry->round.missed;
	if (error || !leaks->is_judged)
		return error;
	if (inquiry->candidates.list)
		limpet_leak_candidates_excuse(&inquiry->candidates, &inquiry->round.graph);
	return limpet_reach_marks(&inquiry->round.graph);
}

static int look_live(struct inquiry *inquiry, bool roots_first, bool heap_first)
{
	struct limpet_reach_look how = {.target = inquiry->target,
					.known = inquiry->options->known,
					.roots_first = roots_first,
					.heap_first = heap_first};
	int error = begin_look(inquiry);

	if (error)
		return error;
	how.memory = limpet_process_reader(inquiry->process);
	how.pages = limpet_process_reader_pages(inquiry->process);
	return look(inquiry, &how);
}

static int look_frozen(struct inquiry *inquiry)
{
	struct limpet_reach_look how = {.target = inquiry->target,
					.memory = &inquiry->frozen.reader,
					.known = inquiry->options->known,
					.registers = inquiry->registers,
					.register_count = inquiry->register_count,
					.stack_pointers = inquiry->stack_pointers,
					.stack_pointer_count = inquiry->stack_pointer_count};
	int error = begin_look(inquiry);

	if (error)
		return error;
	inquiry->frozen.live = limpet_process_reader(inquiry->process);
	how.pages = limpet_process_reader_pages(inquiry->process);
	return look(inquiry, &how);
}

/* ------------------------------------------------------------------ the stop */

static int keep_registers(struct inquiry *inquiry, const struct limpet_stopped *stopped)
{
	inquiry->register_count = inquiry->stack_pointer_count = 0;
	if (limpet_reserve(&inquiry->registers, &inquiry->register_capacity,
			   stopped->count * LIMPET_STOPPED_WORDS,
			   sizeof(*inquiry->registers)) < 0 ||
	    limpet_reserve(&inquiry->stack_pointers, &inquiry->stack_pointer_capacity,
			   stopped->count, sizeof(*inquiry->stack_pointers)) < 0 ||
	    !inquiry->registers || !inquiry->stack_pointers)
		return -ENOMEM;
	for (size_t i = 0; i < stopped->count; i++) {
		const struct limpet_stopped_thread *thread = &stopped->threads[i];

		memcpy(inquiry->registers + inquiry->register_count, thread->words,
		       thread->count * sizeof(thread->words[0]));
		inquiry->register_count += thread->count;
		inquiry->stack_pointers[inquiry->stack_pointer_count++] = thread->sp;
	}
	qsort(inquiry->stack_pointers, inquiry->stack_pointer_count,
	      sizeof(*inquiry->stack_pointers), limpet_compare_words);
	return 0;
}

/* All threads of the process are stopped. */
static void copy_all(void *context, const struct limpet_stopped *stopped)
{
	struct inquiry *inquiry = context;

	inquiry->stop_error = keep_registers(inquiry, stopped);
	if (!inquiry->stop_error)
		inquiry->stop_error = limpet_reach_round_ranges(&inquiry->round, inquiry->target,
								&inquiry->ranges);
	if (!inquiry->stop_error)
		limpet_frozen_copy_take(&inquiry->frozen, &inquiry->ranges, &inquiry->heads,
					stopped->deadline_ns);
}

/* So that a block that is used and freed again and again is not taken for a lost one: in the copy
 * it differs, or a register has it. */
static int list_heads(struct inquiry *inquiry)
{
	const struct limpet_reach_graph *graph = &inquiry->round.graph;
	struct limpet_search_ranges *heads = &inquiry->heads;
	int error = 0;

	for (size_t i = 0; i < graph->blocks.count && heads->count < HEADS_LIMIT && !error; i++) {
		const uint64_t page = graph->blocks.starts[i] & ~(PAGE - 1);

		if (!limpet_block_is_lost(graph, (uint32_t)i))
			continue;
		if (heads->count && heads->list[heads->count - 1].end >= page) {
			heads->list[heads->count - 1].end = page + PAGE;
			continue;
		}
		error = limpet_search_ranges_add(
			heads, &(struct limpet_search_range){.start = page,
							     .end = page + PAGE,
							     .kind = LIMPET_SEARCHED_HEAP});
	}
	return error;
}

/* Present bytes of what is searched. */
static int measure(struct inquiry *inquiry, uint64_t *ret_bytes)
{
	struct limpet_pages *pages = limpet_process_reader_pages(inquiry->process);
	struct limpet_page_range present[LIMPET_PAGES_RANGES];
	struct limpet_search_ranges ranges = {0};
	uint64_t bytes = 0;
	int error = limpet_reach_round_ranges(&inquiry->round, inquiry->target, &ranges);

	for (size_t i = 0; i < ranges.count; i++)
		for (uint64_t at = ranges.list[i].start; at < ranges.list[i].end;) {
			const int found = limpet_pages_next(pages, at, ranges.list[i].end,
							    ranges.list[i].own, present, &at);

			if (found < 0)
				break;
			for (int k = 0; k < found; k++)
				bytes += present[k].end - present[k].start;
		}
	limpet_search_ranges_done(&ranges);
	*ret_bytes = bytes;
	return error;
}

static enum limpet_leaks_stop stop_of(int error)
{
	if (error == -EPERM)
		return LIMPET_LEAKS_TRACED;
	return LIMPET_LEAKS_BUSY;
}

/* Nothing of it is needed if that fails. */
static int stop(struct inquiry *inquiry, struct limpet_err *err)
{
	struct limpet_stop_moment moment = {
		.most_ns = inquiry->options->most_stop_ns, .look = copy_all, .context = inquiry};
	struct limpet_leaks *leaks = inquiry->leaks;
	uint64_t bytes = 0, most = moment.most_ns * FASTEST_BYTES;
	int error = measure(inquiry, &bytes);

	if (!error)
		error = list_heads(inquiry);
	bytes += bytes / 4 + SLACK_BYTES;
	if (!error)
		error = limpet_frozen_copy_begin(&inquiry->frozen, inquiry->target,
						 (size_t)(bytes < most ? bytes : most));
	if (error)
		return error;
	error = limpet_stop_moment(inquiry->target, &moment, err);
	leaks->stop_ns = moment.stop_ns;
	leaks->threads = moment.threads;
	if (error == -ESRCH || error == -ESTALE || error == -ENOMEM)
		return error;
	if (!error)
		error = inquiry->stop_error;
	limpet_frozen_copy_end(&inquiry->frozen);
	leaks->copied_bytes = inquiry->frozen.used;
	leaks->stop = error                      ? stop_of(error)
		      : inquiry->frozen.is_whole ? LIMPET_LEAKS_WHOLE
						 : LIMPET_LEAKS_PART;
	return 0;
}

/* ------------------------------------------------------------------ all */

/* Again and again, until nothing more is found to be held, twice: a block that is made and freed
 * all the time may be missed by one look, or two. */
static int look_until_steady(struct inquiry *inquiry)
{
	const uint64_t begin_ns = limpet_thread_time_ns();
	size_t before = inquiry->candidates.count;
	unsigned steady = 0;
	int error = 0;

	for (unsigned i = 0; i < LOOKS && !error && inquiry->leaks->is_judged; i++) {
		error = look_live(inquiry, i % 2, i % 2 == 0);
		if (!error && inquiry->leaks->is_judged)
			error = limpet_leak_candidates_take(&inquiry->round.graph,
							    &inquiry->candidates);
		steady = inquiry->candidates.count == before ? steady + 1 : 0;
		before = inquiry->candidates.count;
		if (!before || steady == STEADY_LOOKS ||
		    limpet_thread_time_ns() - begin_ns > LOOKS_NS)
			break;
	}
	return error;
}

static int confirm(struct inquiry *inquiry, struct limpet_err *err)
{
	struct limpet_leaks *leaks = inquiry->leaks;
	int error = limpet_leak_candidates_take(&inquiry->round.graph, &inquiry->candidates);

	if (error || !inquiry->candidates.count)
		return error;
	if (inquiry->options->most_stop_ns)
		error = stop(inquiry, err);
	else
		leaks->stop = LIMPET_LEAKS_NOT_ALLOWED;
	if (error)
		return error;
	if (leaks->stop == LIMPET_LEAKS_WHOLE)
		return look_frozen(inquiry);
	error = look_until_steady(inquiry);
	if (!error && leaks->is_judged && leaks->stop == LIMPET_LEAKS_PART)
		error = limpet_reach_clear(&inquiry->round.graph, inquiry->registers,
					   inquiry->register_count, &inquiry->frozen,
					   &inquiry->ranges);
	return error;
}

static bool has_blocks(const struct limpet_leaks *leaks)
{
	uint64_t blocks = 0;

	for (enum limpet_leak_state state = 0; state < LIMPET_LEAK_STATES; state++)
		blocks += leaks->amounts.of[state].blocks;
	return blocks;
}

static void fill_states(const struct inquiry *inquiry, bool is_exact)
{
	const struct limpet_known_blocks *known = inquiry->options->known;
	const struct limpet_reach_graph *graph = &inquiry->round.graph;

	for (size_t i = 0; i < known->count; i++) {
		const uint32_t block =
			limpet_block_table_find(&graph->blocks, known->list[i].start);

		inquiry->options->ret_states[i] =
			(uint8_t)(block == LIMPET_NO_BLOCK
					  ? LIMPET_LEAK_STATES
					  : limpet_leaks_state_of(graph, block, is_exact));
	}
}

static int inquire(struct inquiry *inquiry, struct limpet_err *err)
{
	struct limpet_leaks *leaks = inquiry->leaks;
	bool is_exact;
	int error = look_live(inquiry, false, false);

	if (!error && leaks->is_judged)
		error = confirm(inquiry, err);
	if (error || !leaks->is_judged)
		return error;
	leaks->is_swapped = limpet_reach_has_swap(inquiry->target);
	is_exact = leaks->stop == LIMPET_LEAKS_WHOLE && !leaks->is_swapped && !leaks->missed_bytes;
	error = limpet_leaks_sites_add(inquiry->target, limpet_process_reader(inquiry->process),
				       &inquiry->round.graph, is_exact, leaks);
	/* They are another allocator's, or were not found. */
	leaks->is_judged = has_blocks(leaks);
	if (!error && leaks->is_judged && inquiry->options->known)
		fill_states(inquiry, is_exact);
	return error;
}

int limpet_leaks_read(const struct limpet_target *target,
		      const struct limpet_leaks_options *options, struct limpet_leaks *ret_leaks,
		      struct limpet_err *err)
{
	struct limpet_leaks leaks = {.is_judged = false};
	struct inquiry inquiry = {.target = target, .options = options, .leaks = &leaks};
	int identity_error, error = limpet_target_check(target);

	if (!error)
		error = inquire(&inquiry, err);
	/* Whatever was found then, it is of neither program. */
	identity_error = limpet_target_check(target);
	error = identity_error ? identity_error : error;
	inquiry_done(&inquiry);
	if (error) {
		limpet_leaks_done(&leaks);
		return limpet_proc_explain(target->pid, error, "read the memory of", err);
	}
	*ret_leaks = leaks;
	return 0;
}

void limpet_leaks_done(struct limpet_leaks *leaks)
{
	for (size_t i = 0; i < leaks->site_count; i++)
		free(leaks->sites[i].type);
	free(leaks->sites);
	*leaks = (struct limpet_leaks){.is_judged = false};
}
