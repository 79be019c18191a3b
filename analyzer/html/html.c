#include "analyzer/html/html.h"

#include <jansson.h>

#include "analyzer/html/html_page.h"
#include "analyzer/text/json_printer.h"
#include "analyzer/text/report_json.h"
#include "analyzer/views/report.h"
#include "common/array.h"

#define COLUMN(page, steps, count, field)                                             \
	({                                                                            \
		json_t *column_ = json_array();                                       \
                                                                                      \
		for (size_t i_ = 0; i_ < (count); i_++)                               \
			limpet_html_add(page, column_,                                \
					json_integer((json_int_t)(steps)[i_].field)); \
		column_;                                                              \
	})

/* The same in a row. */
#define ROW_COLUMN(page, key, steps, count, field)                                \
	({                                                                        \
		limpet_html_row_column(page, key);                                \
		for (size_t i_ = 0; i_ < (count); i_++)                           \
			limpet_html_row_add(page, (json_int_t)(steps)[i_].field); \
		limpet_html_row_column_end(page);                                 \
	})

/* False if the peak is in the part that was given up: then no stack's share of it is known. */
static bool has_peak(const struct limpet_html_subject *subject)
{
	const struct limpet_model *model = subject->model;

	for (size_t i = 0; i < model->site_count; i++)
		if (model->sites[i].peak_bytes)
			return true;
	return !model->given_up_ns || model->totals.peak_ns > model->given_up_ns;
}

/* What is live at the end, by the step in which it was allocated. */
static void append_survivors(struct limpet_html_page *page,
			     const struct limpet_survivors *survivors, uint32_t node)
{
	const struct limpet_survivor *list;
	const size_t count = limpet_survivors_of_site(survivors, node, &list);

	ROW_COLUMN(page, "s", list, count, step);
	ROW_COLUMN(page, "sn", list, count, blocks);
	ROW_COLUMN(page, "sb", list, count, bytes);
}

/* Who allocated by the stack, the most bytes first. */
static void append_threads(struct limpet_html_page *page,
			   const struct limpet_thread_timeline *thread_timeline, uint32_t node)
{
	const struct limpet_site_thread *list;
	const size_t count = limpet_site_threads_of(&thread_timeline->site_threads, node, &list);

	ROW_COLUMN(page, "th", list, count, tid);
	ROW_COLUMN(page, "thb", list, count, bytes);
}

/* What of its live blocks was lost, and who holds the others; nothing if none was judged. */
static void append_lost(struct limpet_html_page *page, const struct limpet_leak_counts *counts,
			uint32_t node)
{
	struct limpet_lost lost = {0};

	limpet_lost_add(&lost, counts, node);
	if (!lost.known)
		return;
	limpet_html_row_number(page, "lost", (int64_t)lost.lost.blocks);
	limpet_html_row_number(page, "judged", (int64_t)lost.judged.blocks);
	if (!lost.held)
		return;
	limpet_html_row_key(page, "holder");
	limpet_html_row_value(page, limpet_json_text(lost.held->holder));
}

/* NULL: not known. */
static const struct limpet_survivors *known_survivors(const struct limpet_html_subject *subject)
{
	const struct limpet_thread_timeline *timeline = subject->thread_timeline;

	return timeline && !(timeline->replay->losses & LIMPET_LOSS_BIT(LIMPET_LOSS_BRIDGED))
		       ? &timeline->survivors
		       : NULL;
}

static void print_sites(struct limpet_html_page *page, const struct limpet_html_subject *subject)
{
	const struct limpet_history *history = subject->history;
	const struct limpet_survivors *survivors = known_survivors(subject);
	const struct limpet_leak_counts *leaks =
		limpet_lost_counts(subject->model, subject->hidden);
	const bool peak = has_peak(subject);
	LIMPET_FREE struct limpet_history_step *steps = NULL;
	size_t capacity = 0;

	limpet_json_begin_list(&page->printer, "sites");
	for (size_t i = 0; !page->printer.error && i < history->site_count; i++) {
		const struct limpet_history_site *site = &history->sites[i];
		struct limpet_cursor cursor = limpet_history_steps(history, site);
		size_t count = 0;

		if (!limpet_json_check(
			    &page->printer,
			    limpet_reserve(&steps, &capacity, site->count + 1, sizeof(*steps))))
			break;
		while (count < site->count && limpet_history_next(&cursor, &steps[count]))
			count++;
		limpet_html_row_begin(page);
		limpet_html_row_number(page, "node", site->node);
		limpet_html_row_key(page, "peak");
		limpet_html_row_value(page, limpet_json_number_if(peak, site->peak_bytes));
		ROW_COLUMN(page, "b", steps, count, step);
		ROW_COLUMN(page, "a", steps, count, counts.allocations);
		ROW_COLUMN(page, "ab", steps, count, counts.allocated_bytes);
		ROW_COLUMN(page, "f", steps, count, counts.frees);
		ROW_COLUMN(page, "fb", steps, count, counts.freed_bytes);
		ROW_COLUMN(page, "t", steps, count, counts.temporary);
		ROW_COLUMN(page, "r", steps, count, counts.reallocations);
		if (survivors)
			append_survivors(page, survivors, site->node);
		if (subject->thread_timeline)
			append_threads(page, subject->thread_timeline, site->node);
		append_lost(page, leaks, site->node);
		if (subject->model->owners)
			limpet_html_row_number(page, "owner",
					       subject->model->nodes[site->node].owner);
		limpet_html_row_item(page);
	}
	limpet_json_end_list(&page->printer);
}

/* Names of allocators, by the number that sites have; null: there are not several. */
static json_t *owners(struct limpet_html_page *page, const struct limpet_model *model)
{
	json_t *array = model->owners ? json_array() : json_null();

	for (uint32_t i = 0; model->owners && i < model->owner_count; i++)
		limpet_html_add(page, array, limpet_json_text(model->owners[i].name));
	return array;
}

static json_t *sizes(struct limpet_html_page *page, const struct limpet_html_subject *subject)
{
	const struct limpet_model *model = subject->model;
	size_t count = subject->history->step_count;
	json_t *array = json_array();

	for (size_t i = 0; i < model->size_count; i++) {
		const struct limpet_model_size *steps = &subject->history->sizes[i * count];
		json_t *at = json_array();

		for (size_t step = 0; step < count; step++)
			limpet_html_add(page, at, json_integer((json_int_t)step));
		limpet_html_add(page, array,
				json_pack("{s:I,s:I,s:o,s:o,s:o}", "from",
					  (json_int_t)model->sizes[i].from_bytes, "to",
					  (json_int_t)model->sizes[i].to_bytes, "b", at, "a",
					  COLUMN(page, steps, count, allocations), "ab",
					  COLUMN(page, steps, count, allocated_bytes)));
	}
	return array;
}

/* Like sites, with the frees that the thread made itself; null: not known. */
static json_t *threads(struct limpet_html_page *page, const struct limpet_html_subject *subject)
{
	const struct limpet_thread_timeline *thread_timeline = subject->thread_timeline;
	/* The threads of what was given up are not known. */
	const bool peak = !subject->model->given_up_ns;
	json_t *array = thread_timeline ? json_array() : json_null();

	for (size_t i = 0; thread_timeline && i < thread_timeline->replay->thread_count; i++) {
		const struct limpet_replay_thread *thread = &thread_timeline->replay->threads[i];
		const struct limpet_thread_timeline_step *steps;
		size_t count = limpet_thread_timeline_thread(thread_timeline, thread->tid, &steps);

		limpet_html_add(
			page, array,
			json_pack("{s:I,s:o,s:o,s:o,s:o,s:o,s:o,s:o,s:o,s:o}", "tid",
				  (json_int_t)thread->tid, "name",
				  limpet_json_text(limpet_trace_reader_thread_name(subject->reader,
										   thread->tid)),
				  "peak", limpet_json_number_if(peak, thread->figures.peak_bytes),
				  "b", COLUMN(page, steps, count, step), "a",
				  COLUMN(page, steps, count, counts.allocations), "ab",
				  COLUMN(page, steps, count, counts.allocated_bytes), "f",
				  COLUMN(page, steps, count, counts.frees), "fb",
				  COLUMN(page, steps, count, counts.freed_bytes), "t",
				  COLUMN(page, steps, count, counts.temporary), "o",
				  COLUMN(page, steps, count, own_frees)));
	}
	return array;
}

static void append_ages(struct limpet_html_page *page, const char *key, const uint64_t *list)
{
	limpet_html_row_column(page, key);
	for (unsigned i = 0; i < LIMPET_REPLAY_AGES; i++)
		limpet_html_row_add(page, (json_int_t)list[i]);
	limpet_html_row_column_end(page);
}

static void append_life(struct limpet_html_page *page,
			const struct limpet_thread_timeline *thread_timeline,
			const struct limpet_replay_site *site)
{
	struct limpet_replay_ages freed = {0}, alive = {0};
	const struct limpet_thread_timeline_life *lives;
	size_t count = limpet_thread_timeline_site(thread_timeline, site->figures.node, &lives);

	limpet_replay_add_ages(site, &freed, &alive);
	limpet_html_row_begin(page);
	limpet_html_row_number(page, "node", site->figures.node);
	limpet_html_row_key(page, "smallest");
	limpet_html_row_value(page, limpet_json_number(site->smallest_bytes));
	limpet_html_row_key(page, "largest");
	limpet_html_row_value(page, limpet_json_number(site->largest_bytes));
	limpet_html_row_key(page, "oldest");
	limpet_html_row_value(page, limpet_json_seconds(site->oldest_ns));
	append_ages(page, "alive", alive.blocks);
	append_ages(page, "aliveBytes", alive.bytes);
	ROW_COLUMN(page, "b", lives, count, step);
	ROW_COLUMN(page, "g", lives, count, age);
	ROW_COLUMN(page, "n", lives, count, blocks);
	ROW_COLUMN(page, "nb", lives, count, bytes);
	limpet_html_row_item(page);
}

static json_t *ages(struct limpet_html_page *page)
{
	json_t *limits = json_array();

	for (unsigned i = 0; i < LIMPET_REPLAY_AGES - 1; i++)
		limpet_html_add(page, limits, limpet_json_seconds(limpet_replay_age_limits_ns[i]));
	return limits;
}

/* How long blocks lived: for each site the freed blocks by step and age, and those that are live at
 * the end. */
static void print_lives(struct limpet_html_page *page, void *context)
{
	const struct limpet_html_subject *subject = context;
	const struct limpet_thread_timeline *thread_timeline = subject->thread_timeline;

	page->printer.items = 0;
	fputs("[", page->printer.file);
	for (size_t i = 0; !page->printer.error && i < thread_timeline->replay->site_count; i++)
		append_life(page, thread_timeline, &thread_timeline->replay->sites[i]);
	fputs("]", page->printer.file);
}

static json_t *edges(struct limpet_html_page *page, const struct limpet_html_subject *subject)
{
	json_t *array = json_array();

	for (size_t i = 0; i <= subject->history->step_count; i++)
		limpet_html_add(page, array, limpet_json_seconds(subject->history->edges_ns[i]));
	return array;
}

/* The most live bytes in each step, and when; null: not known. */
static json_t *highs(struct limpet_html_page *page, const struct limpet_history *history)
{
	json_t *bytes = json_array(), *seconds = json_array();

	for (size_t i = 0; i < history->step_count; i++) {
		const struct limpet_history_high *high = &history->highs[i];

		limpet_html_add(page, bytes, limpet_json_number_if(high->known, high->bytes));
		limpet_html_add(page, seconds,
				high->known ? limpet_json_seconds(high->at_ns) : json_null());
	}
	return json_pack("{s:o,s:o}", "bytes", bytes, "seconds", seconds);
}

/* Figures for parts of the steps, from single events; null: not known. */
static json_t *moments(struct limpet_html_page *page, const struct limpet_html_subject *subject)
{
	const struct limpet_replay *replay =
		subject->thread_timeline ? subject->thread_timeline->replay : NULL;
	const size_t count = replay && !replay->losses ? replay->moment_count : 0;
	const bool whole = !subject->model->sample_bytes;
	json_t *seconds = json_array(), *temporary = json_array();

	for (size_t i = 0; i < count; i++) {
		limpet_html_add(page, seconds, limpet_json_seconds(replay->moments[i].to_ns - 1));
		limpet_html_add(
			page, temporary,
			limpet_json_number_if(whole, replay->moments[i].temporary_allocations));
	}
	if (!count) {
		json_decref(seconds);
		json_decref(temporary);
		return json_null();
	}
	return json_pack("{s:o,s:o,s:o,s:o,s:o}", "seconds", seconds, "live",
			 COLUMN(page, replay->moments, count, last_bytes), "highest",
			 COLUMN(page, replay->moments, count, live_bytes), "allocations",
			 COLUMN(page, replay->moments, count, allocations), "temporary", temporary);
}

/* null: all of the time. */
static json_t *shown(const struct limpet_html_subject *subject)
{
	const uint64_t to_ns = subject->to_ns ? subject->to_ns : subject->model->duration_ns;

	if (!subject->from_ns && !subject->to_ns)
		return json_null();
	return json_pack("{s:o,s:o}", "from", limpet_json_seconds(subject->from_ns), "to",
			 limpet_json_seconds(to_ns));
}

static void print_head(struct limpet_html_page *page, const struct limpet_html_subject *subject)
{
	const struct limpet_report_options options = {.capture_events = subject->events,
						      .verdict = subject->verdict,
						      .hidden = subject->hidden};
	struct limpet_report *report;

	if (!limpet_json_check(&page->printer,
			       limpet_report_new(subject->model, &options, &report)))
		return;
	fputs("{\"format\":\"limpet-html\",\"version\":1", page->printer.file);
	limpet_report_json_print_head(report, &page->printer);
	limpet_report_free(report);
	limpet_json_member(&page->printer, "shown", shown(subject));
}

static void print_data(struct limpet_html_page *page, void *context)
{
	const struct limpet_html_subject *subject = context;

	print_head(page, subject);
	limpet_html_add_nodes(page, subject->model);
	limpet_json_member(&page->printer, "buckets", edges(page, subject));
	limpet_json_member(&page->printer, "highest", highs(page, subject->history));
	limpet_json_member(&page->printer, "kept",
			   json_pack("{s:b,s:b,s:b,s:b,s:b}", "ofSums", subject->history->of_sums,
				     "inOne", subject->history->in_one, "peak", has_peak(subject),
				     "survivors", known_survivors(subject) != NULL, "lives",
				     subject->thread_timeline != NULL));
	limpet_json_member(&page->printer, "moments", moments(page, subject));
	limpet_json_member(&page->printer, "timeline", limpet_html_timeline(page, subject->model));
	limpet_json_member(&page->printer, "sizes", sizes(page, subject));
	print_sites(page, subject);
	limpet_json_member(&page->printer, "owners", owners(page, subject->model));
	limpet_json_member(&page->printer, "threads", threads(page, subject));
	limpet_json_member(&page->printer, "ages", ages(page));
	limpet_html_print_stacks(page);
	fputs("}", page->printer.file);
}

int limpet_html_print(const struct limpet_html_subject *subject, FILE *file)
{
	limpet_html_print_fn *const print[LIMPET_HTML_PARTS] = {
		[LIMPET_HTML_DATA] = print_data,
		[LIMPET_HTML_LIVES] = subject->thread_timeline ? print_lives : NULL,
	};
	struct limpet_html_subject copy = *subject;

	return limpet_html_page_print(print, &copy, file);
}
