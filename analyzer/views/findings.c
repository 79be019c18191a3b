#include "analyzer/views/findings.h"

#include <assert.h>
#include <errno.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include "analyzer/views/findings_groups.h"
#include "analyzer/views/findings_work.h"
#include "common/array.h"
#include "common/units.h"

#define PARTS LIMPET_FINDINGS_PARTS
#define LEAST_BYTES LIMPET_FINDINGS_LEAST_BYTES
#define LEAST_RESIDENT_BYTES (8u << 20)
#define LEAST_NS 4000000000ull
#define LEAST_CALLS_PER_SECOND 1000
#define HOLDS_SHARE LIMPET_FINDINGS_HOLDS_SHARE
#define CHURN_SHARE 0.25

const char *const limpet_findings_words[LIMPET_FINDINGS_KINDS] = {
	"holds",  "grows",       "turnover", "steady",  "churns",  "retained", "resident",
	"mapped", "never_freed", "rose",     "maps",    "threads", "unjudged", "idle",
	"pool",   "unfollowed",  "sparse",   "touched", "touches", "keeper",   "step"};

/* ------------------------------------------------------------------ sentences */

const char *limpet_findings_bytes(char *ret, double bytes)
{
	return limpet_units_format_bytes(ret, bytes > 0 ? (uint64_t)bytes : 0);
}

const char *limpet_findings_others(char ret[LIMPET_FINDINGS_OTHERS], double mapped, double files)
{
	char maps[LIMPET_UNITS_TEXT], shared[LIMPET_UNITS_TEXT];

	limpet_findings_bytes(maps, mapped);
	if (files > 0)
		snprintf(ret, LIMPET_FINDINGS_OTHERS,
			 ", mappings by %s, and pages of files and shared memory by %s", maps,
			 limpet_findings_bytes(shared, files));
	else
		snprintf(ret, LIMPET_FINDINGS_OTHERS, " and mappings by %s", maps);
	return ret;
}

int limpet_findings_add(struct limpet_findings_work *work,
			const struct limpet_findings_entry *finding, const char *format, ...)
{
	struct limpet_findings *findings = work->findings;
	struct limpet_findings_entry *added;
	va_list arguments;
	int length;

	if (limpet_reserve(&findings->list, &findings->capacity, findings->count + 1,
			   sizeof(*findings->list)) < 0)
		return -ENOMEM;
	added = &findings->list[findings->count];
	*added = *finding;
	va_start(arguments, format);
	length = vasprintf(&added->text, format, arguments);
	va_end(arguments);
	if (length < 0)
		return -ENOMEM;
	findings->count++;
	return 0;
}

int limpet_findings_name(const struct limpet_findings_work *work, uint32_t node,
			 struct limpet_findings_entry *finding, char **ret_label)
{
	const struct limpet_function *function, *caller;
	char *label;
	int code = limpet_findings_label(work->view->locations, node, &label, &function, &caller);

	if (code < 0)
		return code;
	finding->node = node;
	finding->function = strdup(function->name);
	finding->caller = caller ? strdup(caller->name) : NULL;
	if (finding->function && (finding->caller || !caller)) {
		*ret_label = label;
		return 0;
	}
	free(label);
	limpet_findings_forget_names(finding);
	return -ENOMEM;
}

void limpet_findings_forget_names(struct limpet_findings_entry *finding)
{
	free(finding->function);
	free(finding->caller);
}

/* ------------------------------------------------------------------ adding up */

unsigned limpet_findings_part_of_step(const struct limpet_findings_work *work, uint32_t step)
{
	const struct limpet_model *model = work->model;
	const uint64_t *edges = work->history->edges_ns;
	const double middle = ((double)edges[step] + (double)edges[step + 1]) / 2;
	const double from = middle - (double)model->from_ns;
	const double part = from / (double)(model->to_ns - model->from_ns) * PARTS;

	if (from < 0 || middle > (double)model->to_ns)
		return PARTS;
	return part < PARTS ? (unsigned)part : PARTS - 1;
}

static void add_steps(struct limpet_findings_work *work, struct limpet_findings_group *group,
		      const struct limpet_history_site *steps)
{
	struct limpet_cursor cursor = limpet_history_steps(work->history, steps);
	struct limpet_history_step step;

	while (limpet_history_next(&cursor, &step)) {
		const struct limpet_counts *counts = &step.counts;
		const unsigned part = limpet_findings_part_of_step(work, step.step);
		const uint64_t end_ns = work->history->edges_ns[step.step + 1];

		if (part == PARTS)
			continue;
		if (counts->allocations && end_ns < group->first_ns)
			group->first_ns = end_ns;
		group->growth[part] +=
			(double)counts->allocated_bytes - (double)counts->freed_bytes;
		group->blocks[part] += (double)counts->allocations - (double)counts->frees;
	}
}

static void add_kept(struct limpet_findings_kept *kept, const struct limpet_findings_group *one)
{
	const uint32_t node = kept->figures.node;

	if (!kept->stacks || one->first_ns < kept->first_ns)
		kept->first_ns = one->first_ns;
	limpet_view_add_figures(&kept->figures, &one->figures);
	kept->figures.node = node;
	if (!kept->stacks++ || one->figures.live_bytes > kept->largest) {
		kept->largest = one->figures.live_bytes;
		kept->figures.node = one->figures.node;
	}
	for (unsigned i = 0; i < PARTS; i++)
		kept->growth[i] += one->growth[i];
}

/* A function that puts what it never frees into a list may free that list itself, by another
 * stack, each time it grows: stacks are judged one by one, too. */
static void add_parts(struct limpet_findings_work *work, struct limpet_findings_group *group,
		      const struct limpet_model_site *figures,
		      const struct limpet_history_site *steps)
{
	struct limpet_findings_group one = {.figures = *figures, .first_ns = UINT64_MAX};
	double late;

	add_steps(work, &one, steps);
	late = limpet_findings_late_growth(one.growth);
	if (late > group->late_growth) {
		group->late_growth = late;
		group->late_node = figures->node;
	}
	for (unsigned i = 0; i < PARTS; i++) {
		group->growth[i] += one.growth[i];
		group->blocks[i] += one.blocks[i];
	}
	if (one.first_ns < group->first_ns)
		group->first_ns = one.first_ns;
	if (limpet_findings_is_kept(work, &one))
		add_kept(&group->kept, &one);
	if (limpet_findings_is_surely_kept(work, &one))
		add_kept(&group->sure, &one);
}

static void add_site(struct limpet_findings_work *work, struct limpet_findings_group *group,
		     const struct limpet_model_site *figures)
{
	const struct limpet_history_site *steps =
		limpet_history_site_of(work->history, figures->node);
	const int64_t weight = (int64_t)(figures->live_bytes + figures->allocated_bytes / 1024);
	const uint32_t node = group->figures.node;

	limpet_view_add_figures(&group->figures, figures);
	group->figures.node = node;
	group->stacks++;
	if (weight > group->largest) {
		group->largest = weight;
		group->figures.node = figures->node;
	}
	if (work->in_parts && steps)
		add_parts(work, group, figures, steps);
}

static int add_up(struct limpet_findings_work *work)
{
	const struct limpet_view *view = work->view;
	struct limpet_findings_groups *groups;
	int code = limpet_findings_groups_new(view->locations, &groups);

	if (code < 0)
		return code;
	work->groups = calloc(view->site_count + 1, sizeof(*work->groups));
	work->group_of = calloc(view->site_count + 1, sizeof(*work->group_of));
	if (!work->groups || !work->group_of)
		code = -ENOMEM;
	for (size_t i = 0; i < view->site_count && code == 0; i++) {
		uint32_t group;

		code = limpet_findings_groups_find(groups, view->sites[i].node, &group);
		if (code < 0)
			break;
		if (group == work->count) {
			work->groups[group].largest = -1;
			work->groups[group].first_ns = UINT64_MAX;
			work->count++;
		}
		work->group_of[i] = group;
		add_site(work, &work->groups[group], &view->sites[i]);
	}
	limpet_findings_groups_free(groups);
	return code;
}

const struct limpet_findings_group *limpet_findings_highest(const struct limpet_findings_work *work,
							    enum limpet_report_sort sort)
{
	const struct limpet_findings_group *best = NULL;

	for (size_t i = 0; i < work->count; i++)
		if (!best || limpet_report_figure(&work->groups[i].figures, sort) >
				     limpet_report_figure(&best->figures, sort))
			best = &work->groups[i];
	return best;
}

static const char *about(const struct limpet_findings_work *work)
{
	return work->model->sample_bytes ? "about " : "";
}

/* ------------------------------------------------------------------ holders */

static int find_holder(struct limpet_findings_work *work)
{
	const struct limpet_model_totals *totals = &work->model->totals;
	/* A program captured to its end is judged at its peak. */
	const bool peak = work->model->target->mode == LIMPET_MODE_RUN;
	const struct limpet_findings_group *group =
		limpet_findings_highest(work, peak ? LIMPET_REPORT_PEAK : LIMPET_REPORT_LIVE);
	const uint64_t whole = peak ? totals->peak_bytes : totals->live_bytes;
	uint64_t bytes = !group ? 0 : peak ? group->figures.peak_bytes : group->figures.live_bytes;
	uint64_t blocks = !group ? 0
			  : peak ? group->figures.peak_allocations
				 : group->figures.live_allocations;
	struct limpet_findings_entry finding = {.kind = LIMPET_FINDINGS_HOLDS,
						.bytes = bytes,
						.share =
							(double)bytes / (double)(whole ? whole : 1),
						.per_second = -1,
						.from_ns = work->model->from_ns,
						.to_ns = peak ? totals->peak_ns : 0};
	LIMPET_FREE char *name = NULL;
	char text[LIMPET_UNITS_TEXT], count[LIMPET_UNITS_TEXT], stacks[48] = "";
	int code;

	if (!group || bytes < LEAST_BYTES || finding.share < HOLDS_SHARE)
		return 0;
	code = limpet_findings_name(work, group->figures.node, &finding, &name);
	if (code < 0)
		return code;
	if (group->stacks > 1)
		snprintf(stacks, sizeof(stacks), " of %zu stacks", group->stacks);
	code = limpet_findings_add(
		work, &finding, "%s %s %s%s, %.0f %% of what %s, in %s %s%s%s.", name,
		peak ? "held" : "holds", about(work), limpet_findings_bytes(text, (double)bytes),
		100 * finding.share, peak ? "was live at the peak" : "is live",
		limpet_units_format_count(count, blocks), "block", blocks == 1 ? "" : "s", stacks);
	if (code < 0)
		limpet_findings_forget_names(&finding);
	return code;
}

/* ------------------------------------------------------------------ churn */

const struct limpet_findings_group *limpet_findings_churner(
	const struct limpet_findings_work *work, struct limpet_findings_entry *ret_finding)
{
	const struct limpet_findings_group *group =
		limpet_findings_highest(work, LIMPET_REPORT_ALLOCATIONS);
	const double all = (double)work->model->totals.allocations;
	const double calls = group ? (double)group->figures.allocations : 0;

	if (!group || work->seconds <= 0 || calls / work->seconds < LEAST_CALLS_PER_SECOND ||
	    calls < CHURN_SHARE * all || (double)group->figures.frees < 0.95 * calls)
		return NULL;
	*ret_finding = (struct limpet_findings_entry){.kind = LIMPET_FINDINGS_CHURNS,
						      .bytes = group->figures.allocated_bytes,
						      .share = calls / all,
						      .per_second = calls / work->seconds};
	return group;
}

static int find_churn(struct limpet_findings_work *work)
{
	struct limpet_findings_entry finding;
	const struct limpet_findings_group *group = limpet_findings_churner(work, &finding);
	char rate[LIMPET_UNITS_TEXT], bytes[LIMPET_UNITS_TEXT], soon[64] = "";
	LIMPET_FREE char *name = NULL;
	double soon_percent;
	int code;

	if (!group)
		return 0;
	code = limpet_findings_name(work, group->figures.node, &finding, &name);
	if (code < 0)
		return code;
	soon_percent = 100.0 * (double)group->figures.temporary_allocations /
		       (double)group->figures.allocations;
	/* Leave out "0 %". */
	if (soon_percent > 0.5)
		snprintf(soon, sizeof(soon), ", %.0f %% before the next one", soon_percent);
	code = limpet_findings_add(
		work, &finding,
		"%s makes %s%.0f %% of all allocations, %s and %s/s, and nearly all of them are "
		"freed again%s.",
		name, about(work), 100 * finding.share,
		limpet_units_format_rate(rate, (uint64_t)finding.per_second),
		limpet_findings_bytes(bytes, (double)finding.bytes / work->seconds), soon);
	if (code < 0)
		limpet_findings_forget_names(&finding);
	return code;
}

/* ------------------------------------------------------------------ beyond the heap */

/* The last point with resident memory. */
static const struct limpet_model_point *last_point(const struct limpet_model *model)
{
	for (size_t i = model->timeline_count; i-- > 0;)
		if (model->timeline[i].rss_bytes)
			return &model->timeline[i];
	return NULL;
}

static double more(uint64_t now, uint64_t before)
{
	return now > before ? (double)(now - before) : 0;
}

/* Live bytes that had been resident fell, but RSS did not. */
static int find_retained(struct limpet_findings_work *work, const struct limpet_model_point *end,
			 bool *ret_said)
{
	const struct limpet_model *model = work->model;
	const struct limpet_model_point *peak = NULL;
	char rss[LIMPET_UNITS_TEXT], from[LIMPET_UNITS_TEXT], to[LIMPET_UNITS_TEXT];
	struct limpet_findings_entry finding = {
		.kind = LIMPET_FINDINGS_RETAINED, .share = -1, .per_second = -1};
	const double rest = (double)limpet_model_point_rss(end);
	double fell, kept;

	for (size_t i = 0; i < model->timeline_count; i++)
		if (model->timeline[i].rss_bytes &&
		    (!peak || model->timeline[i].live_bytes > peak->live_bytes))
			peak = &model->timeline[i];
	if (!peak || peak == end)
		return 0;
	fell = more(peak->live_bytes, end->live_bytes);
	kept = fell - more(limpet_model_point_rss(peak), limpet_model_point_rss(end)) -
	       more(end->mapped_bytes, peak->mapped_bytes);
	if (fell < LEAST_RESIDENT_BYTES || kept < 0.75 * fell || kept < 0.1 * rest || kept > rest ||
	    limpet_model_point_rss(peak) < peak->live_bytes)
		return 0;
	finding.bytes = (uint64_t)kept;
	finding.share = kept / rest;
	finding.from_ns = peak->time_ns;
	finding.to_ns = end->time_ns;
	*ret_said = true;
	return limpet_findings_add(
		work, &finding,
		"RSS stayed at %s when live bytes fell from %s to %s: the allocator keeps what "
		"was freed, or other memory took its place.",
		limpet_findings_bytes(rss, rest),
		limpet_findings_bytes(from, (double)peak->live_bytes),
		limpet_findings_bytes(to, (double)end->live_bytes));
}

/* Without limpet's own memory: all of it, if the trace does not say how much was resident. */
static double rss_grew(const struct limpet_model *model, const struct limpet_model_point *first,
		       const struct limpet_model_point *end)
{
	const double grew =
		(double)limpet_model_point_rss(end) - (double)limpet_model_point_rss(first);

	return limpet_model_has_own_part(model) ? grew
						: grew - (double)model->end->agent_memory_bytes;
}

static bool is_much(double bytes, const struct limpet_model_point *end)
{
	return bytes >= 2.0 * LEAST_RESIDENT_BYTES &&
	       bytes >= 0.25 * (double)limpet_model_point_rss(end);
}

/* RSS grew by more than live bytes and mappings, or by pages of files and shared memory. */
static int find_resident(struct limpet_findings_work *work, const struct limpet_model_point *end)
{
	const struct limpet_model *model = work->model;
	const struct limpet_model_point *first = model->timeline;
	char grew[LIMPET_UNITS_TEXT], live[LIMPET_UNITS_TEXT], mapped[LIMPET_UNITS_TEXT];
	char shared[LIMPET_UNITS_TEXT], others[LIMPET_FINDINGS_OTHERS];
	struct limpet_findings_entry finding = {
		.kind = LIMPET_FINDINGS_RESIDENT, .share = -1, .per_second = -1};
	double all, mapped_more, files, beyond;

	while (first < end && !first->rss_bytes)
		first++;
	all = rss_grew(model, first, end);
	files = first->file_bytes ? more(end->file_bytes, first->file_bytes) : 0;
	mapped_more = more(end->mapped_bytes, first->mapped_bytes);
	/* Mappings may be of files, and count once then. */
	beyond = all - more(end->live_bytes, first->live_bytes) - fmax(mapped_more, files);
	finding.of_files = !is_much(beyond, end) && files > mapped_more;
	finding.bytes = (uint64_t)fmax(0, finding.of_files ? files : beyond);
	if (!is_much((double)finding.bytes, end))
		return 0;
	finding.share = (double)finding.bytes / (double)limpet_model_point_rss(end);
	limpet_findings_bytes(grew, all);
	limpet_findings_bytes(live, more(end->live_bytes, first->live_bytes));
	if (finding.of_files)
		return limpet_findings_add(work, &finding,
					   "RSS grew by %s: pages of files and shared memory by "
					   "%s, live bytes by %s, and mappings by %s.",
					   grew, limpet_findings_bytes(shared, files), live,
					   limpet_findings_bytes(mapped, mapped_more));
	return limpet_findings_add(
		work, &finding,
		"RSS grew by %s, live bytes by %s%s: the rest is freed memory that the allocator "
		"kept, thread stacks, or memory that limpet does not follow.",
		grew, live, limpet_findings_others(others, mapped_more, files));
}

static int find_mapped(struct limpet_findings_work *work)
{
	const struct limpet_model_totals *totals = &work->model->totals;
	const double all = (double)totals->mapped_bytes + (double)totals->live_bytes;
	struct limpet_findings_entry finding = {
		.kind = LIMPET_FINDINGS_MAPPED, .bytes = totals->mapped_bytes, .per_second = -1};
	char text[LIMPET_UNITS_TEXT], calls[LIMPET_UNITS_TEXT];

	if (totals->mapped_bytes < LEAST_RESIDENT_BYTES || (double)totals->mapped_bytes < all / 4)
		return 0;
	finding.share = (double)totals->mapped_bytes / all;
	return limpet_findings_add(
		work, &finding,
		"%s are mapped by mmap and not unmapped (%s call%s), beside the heap. This "
		"includes mapped files, and pages that were never touched.",
		limpet_findings_bytes(text, (double)totals->mapped_bytes),
		limpet_units_format_count(calls, totals->mmaps), totals->mmaps == 1 ? "" : "s");
}

static int find_unfollowed(struct limpet_findings_work *work)
{
	const struct limpet_unfollowed it = limpet_model_unfollowed(work->model);
	struct limpet_findings_entry finding = {.kind = LIMPET_FINDINGS_UNFOLLOWED,
						.bytes = it.bytes,
						.share = -1,
						.per_second = -1};
	char words[512];

	if (!it.matters)
		return 0;
	if (it.rss_bytes)
		finding.share = (double)it.bytes / (double)it.rss_bytes;
	limpet_unfollowed_sentence(&it, words, sizeof(words));
	return limpet_findings_add(work, &finding, "%s.", words);
}

static int find_beyond(struct limpet_findings_work *work)
{
	const struct limpet_model_point *end = last_point(work->model);
	bool said = false;
	int code = end ? find_retained(work, end, &said) : 0;

	if (code == 0 && end && !said && !work->resident_said)
		code = find_resident(work, end);
	return code < 0 ? code : find_mapped(work);
}

/* ------------------------------------------------------------------ all */

/* Whether the history distinguishes the two halves of the window. */
static bool is_in_parts(const struct limpet_model *model, const struct limpet_history *history)
{
	const uint64_t *edges = history->edges_ns;
	size_t steps = 0;

	for (size_t i = 0; i < history->step_count; i++)
		steps += edges[i + 1] > model->from_ns && edges[i] < model->to_ns;
	return steps >= PARTS && !history->in_one && model->to_ns - model->from_ns >= LEAST_NS &&
	       (!history->of_sums ||
		edges[1] <= model->from_ns + (model->to_ns - model->from_ns) / 2);
}

int limpet_findings_new(const struct limpet_view *view, const struct limpet_history *history,
			struct limpet_findings **ret_findings)
{
	const struct limpet_model *model = view->locations->model;
	struct limpet_findings_work work = {
		.view = view,
		.model = model,
		.history = history,
		.findings = calloc(1, sizeof(*work.findings)),
		.seconds = (double)(model->to_ns - model->from_ns) / 1e9,
		.in_parts = is_in_parts(model, history),
	};
	static int (*const of_blocks[])(struct limpet_findings_work *) = {
		limpet_findings_find_growing, find_holder, find_churn, find_beyond, find_unfollowed,
		limpet_findings_qualify,      NULL};
	static int (*const of_pages[])(struct limpet_findings_work *) = {
		limpet_findings_find_touched,  limpet_findings_find_growing,
		limpet_findings_find_returned, limpet_findings_qualify,
		limpet_findings_find_keeper,   NULL};
	int code = work.findings ? add_up(&work) : -ENOMEM;

	for (size_t i = 0; (model->target->pages ? of_pages : of_blocks)[i] && code == 0; i++)
		code = (model->target->pages ? of_pages : of_blocks)[i](&work);
	free(work.groups);
	free(work.group_of);
	if (code < 0) {
		limpet_findings_free(work.findings);
		return code;
	}
	*ret_findings = work.findings;
	return 0;
}

void limpet_findings_free(struct limpet_findings *findings)
{
	if (!findings)
		return;
	for (size_t i = 0; i < findings->count; i++) {
		free(findings->list[i].text);
		limpet_findings_forget_names(&findings->list[i]);
	}
	free(findings->list);
	free(findings);
}
