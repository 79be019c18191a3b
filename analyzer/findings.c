#include "analyzer/findings.h"

#include <assert.h>
#include <errno.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include "analyzer/view_text.h"
#include "common/units.h"

#define PARTS 8u
/* Less is not worth a sentence. */
#define LEAST_BYTES (64u << 10)
#define LEAST_RESIDENT_BYTES (8u << 20)
#define LEAST_GROWING_BLOCKS 8u
#define LEAST_NS 4000000000ull
#define LEAST_CALLS_PER_SECOND 1000
#define HOLDS_SHARE 0.2
#define CHURN_SHARE 0.25
#define GROWING_SHOWN 3u

const char *const limpet_findings_words[LIMPET_FINDINGS_KINDS] = {
	"holds",    "grows",    "turnover", "steady",    "churns",
	"retained", "resident", "mapped",   "unfollowed"};

/* Stacks that look alike. */
struct look {
	struct limpet_model_site figures; /* `node`: the stack with the largest share */
	int64_t largest;
	double growth[PARTS];
};

struct work {
	const struct limpet_view *view;
	const struct limpet_model *model;
	const struct limpet_history *history;
	struct limpet_findings *findings;
	struct look *looks;
	size_t count;
	double growth[PARTS]; /* of all */
	double seconds;
	bool in_parts; /* the capture was long enough, and its course is known */
};

/* ------------------------------------------------------------------ sentences */

static const char *say_bytes(char text[LIMPET_UNITS_TEXT], double bytes)
{
	return limpet_units_format_bytes(text, bytes > 0 ? (uint64_t)bytes : 0);
}

static int add(struct work *work, const struct limpet_findings_entry *finding, const char *format,
	       ...) __attribute__((format(printf, 3, 4)));
static int add(struct work *work, const struct limpet_findings_entry *finding, const char *format,
	       ...)
{
	struct limpet_findings *findings = work->findings;
	struct limpet_findings_entry *added;
	va_list arguments;
	int length;

	if (findings->count == findings->room) {
		size_t room = findings->room ? 2 * findings->room : 8;
		struct limpet_findings_entry *list =
			reallocarray(findings->list, room, sizeof(*list));

		if (!list)
			return -ENOMEM;
		findings->list = list;
		findings->room = room;
	}
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

/* The function that a stack is about and who called it, as a sentence says it; as recorded they go
 * into the finding. After a failure nothing is left. */
static int name_look(const struct work *work, uint32_t node, struct limpet_findings_entry *finding,
		     char **ret_name)
{
	struct limpet_places *places = work->view->places;
	const struct limpet_function *function, *caller = NULL;
	LIMPET_FREE char *name = NULL, *by = NULL;
	struct limpet_place_stack stack;
	int code = limpet_places_stack(places, node, false, &stack);

	if (code < 0)
		return code;
	assert(places->functions && places->places);
	function = &places->functions[places->places[stack.list[0]].function];
	if (stack.count > 1 && stack.list[1] != LIMPET_PLACE_CUT)
		caller = &places->functions[places->places[stack.list[1]].function];
	name = limpet_view_name(function, false);
	by = caller ? limpet_view_name(caller, false) : strdup("");
	if (!name || !by ||
	    asprintf(ret_name, "%s%s%s%s", name, caller ? " (called by " : "", by,
		     caller ? ")" : "") < 0)
		return -ENOMEM;
	finding->node = node;
	finding->function = strdup(function->name);
	finding->caller = caller ? strdup(caller->name) : NULL;
	if (finding->function && (finding->caller || !caller))
		return 0;
	free(*ret_name);
	free(finding->function);
	free(finding->caller);
	return -ENOMEM;
}

static void forget_names(struct limpet_findings_entry *finding)
{
	free(finding->function);
	free(finding->caller);
}

/* ------------------------------------------------------------------ adding up */

static unsigned part_of_step(const struct work *work, uint32_t step)
{
	const uint64_t *edges = work->history->edges_ns;
	double middle = ((double)edges[step] + (double)edges[step + 1]) / 2;
	double part = middle / (double)work->model->duration_ns * PARTS;

	return part < PARTS ? (unsigned)part : PARTS - 1;
}

static void add_site(struct work *work, struct look *look, size_t site)
{
	const struct limpet_model_site *figures = &work->view->sites[site];
	const struct limpet_history_site *steps = &work->history->sites[site];
	const int64_t weight = (int64_t)(figures->live_bytes + figures->allocated_bytes / 1024);
	const uint32_t node = look->figures.node;

	limpet_view_add_figures(&look->figures, figures);
	look->figures.node = node;
	if (weight > look->largest) {
		look->largest = weight;
		look->figures.node = figures->node;
	}
	for (size_t i = 0; work->in_parts && i < steps->count; i++) {
		const struct limpet_history_step *step = &steps->steps[i];
		double growth = (double)step->allocated_bytes - (double)step->freed_bytes;
		unsigned part = part_of_step(work, step->step);

		look->growth[part] += growth;
		work->growth[part] += growth;
	}
}

static int add_up(struct work *work)
{
	const struct limpet_view *view = work->view;
	struct limpet_view_tree *tree;
	LIMPET_FREE uint32_t *look_of_leaf = NULL;
	int code = limpet_view_tree_new(view, false, &tree);

	if (code < 0)
		return code;
	look_of_leaf = calloc(tree->count, sizeof(*look_of_leaf));
	work->looks = calloc(view->site_count + 1, sizeof(*work->looks));
	if (!look_of_leaf || !work->looks)
		code = -ENOMEM;
	for (size_t i = 0; i < view->site_count && code == 0; i++) {
		uint32_t *look = &look_of_leaf[tree->leaf_of_site[i]];

		if (!*look) {
			work->looks[work->count].largest = -1;
			*look = (uint32_t)++work->count;
		}
		add_site(work, &work->looks[*look - 1], i);
	}
	limpet_view_tree_free(tree);
	return code;
}

static double sum(const double *growth, unsigned from, unsigned to)
{
	double all = 0;

	for (unsigned i = from; i < to; i++)
		all += growth[i];
	return all;
}

/* Goes on growing: not only while it filled up, nor once. */
static bool grows(const double *growth)
{
	const double first = sum(growth, 0, PARTS / 2), second = sum(growth, PARTS / 2, PARTS);
	unsigned up = 0;

	for (unsigned i = PARTS / 2; i < PARTS; i++)
		up += growth[i] > second / PARTS / 4;
	return second >= LEAST_BYTES && second >= first / 2 && up >= PARTS / 2 - 1 &&
	       sum(growth, PARTS - PARTS / 4, PARTS) >= second / 4;
}

static const struct look *highest(const struct work *work, enum limpet_report_sort sort)
{
	const struct look *best = NULL;

	for (size_t i = 0; i < work->count; i++)
		if (!best || limpet_report_figure(&work->looks[i].figures, sort) >
				     limpet_report_figure(&best->figures, sort))
			best = &work->looks[i];
	return best;
}

static const char *about(const struct work *work)
{
	return work->model->sample_bytes ? "about " : "";
}

/* ------------------------------------------------------------------ who holds */

static int find_holder(struct work *work)
{
	const struct limpet_model_totals *totals = &work->model->totals;
	/* Of a program that was watched to its end, what it held when it held most. */
	const bool peak = work->model->target->mode == LIMPET_MODE_RUN;
	const struct look *look = highest(work, peak ? LIMPET_REPORT_PEAK : LIMPET_REPORT_LIVE);
	const uint64_t whole = peak ? totals->peak_bytes : totals->live_bytes;
	uint64_t bytes = !look ? 0 : peak ? look->figures.peak_bytes : look->figures.live_bytes;
	uint64_t blocks = !look  ? 0
			  : peak ? look->figures.peak_allocations
				 : look->figures.live_allocations;
	struct limpet_findings_entry finding = {.kind = LIMPET_FINDINGS_HOLDS,
						.bytes = bytes,
						.share =
							(double)bytes / (double)(whole ? whole : 1),
						.per_second = -1};
	LIMPET_FREE char *name = NULL;
	char text[LIMPET_UNITS_TEXT], count[LIMPET_UNITS_TEXT];
	int code;

	if (!look || bytes < LEAST_BYTES || finding.share < HOLDS_SHARE)
		return 0;
	code = name_look(work, look->figures.node, &finding, &name);
	if (code < 0)
		return code;
	code = add(work, &finding, "%s %s %s%s, %.0f %% of what %s, in %s block%s.", name,
		   peak ? "held" : "holds", about(work), say_bytes(text, (double)bytes),
		   100 * finding.share, peak ? "was live at the peak" : "is live",
		   limpet_units_format_count(count, blocks), blocks == 1 ? "" : "s");
	if (code < 0)
		forget_names(&finding);
	return code;
}

/* ------------------------------------------------------------------ who grows */

static int compare_growth(const void *a, const void *b)
{
	const struct look *const *x = a, *const *y = b;
	double p = sum((*x)->growth, PARTS / 2, PARTS), q = sum((*y)->growth, PARTS / 2, PARTS);

	return p > q ? -1 : p < q;
}

static int say_growing(struct work *work, const struct look *look)
{
	const double half = work->seconds / 2, bytes = sum(look->growth, PARTS / 2, PARTS);
	struct limpet_findings_entry finding = {.kind = LIMPET_FINDINGS_GROWS,
						.bytes = (uint64_t)bytes,
						.share = -1,
						.per_second = bytes / half};
	const double all = sum(work->growth, PARTS / 2, PARTS);
	char rate[LIMPET_UNITS_TEXT], hour[LIMPET_UNITS_TEXT], now[LIMPET_UNITS_TEXT];
	char blocks[LIMPET_UNITS_TEXT], freed[128];
	LIMPET_FREE char *name = NULL;
	int code = name_look(work, look->figures.node, &finding, &name);

	if (code < 0)
		return code;
	if (all > 0)
		finding.share = bytes / all < 1 ? bytes / all : 1;
	if (look->figures.frees)
		snprintf(freed, sizeof(freed), "%.1f %% of its %s blocks were freed",
			 100.0 * (double)look->figures.frees / (double)look->figures.allocations,
			 limpet_units_format_count(blocks, look->figures.allocations));
	else
		snprintf(freed, sizeof(freed), "none of its %s blocks was ever freed",
			 limpet_units_format_count(blocks, look->figures.allocations));
	code = add(work, &finding,
		   "%s grows all the time, by %s/s (%s an hour) in the second half, to %s: %s.",
		   name, say_bytes(rate, finding.per_second),
		   say_bytes(hour, 3600 * finding.per_second),
		   say_bytes(now, (double)look->figures.live_bytes), freed);
	if (code < 0)
		forget_names(&finding);
	return code;
}

static int say_turnover(struct work *work)
{
	const double bytes = sum(work->growth, PARTS / 2, PARTS);
	const struct limpet_findings_entry finding = {.kind = LIMPET_FINDINGS_TURNOVER,
						      .bytes = (uint64_t)bytes,
						      .share = -1,
						      .per_second = 2 * bytes / work->seconds};
	char live[LIMPET_UNITS_TEXT], older[LIMPET_UNITS_TEXT];

	return add(work, &finding,
		   "Live bytes grow, to %s since the capture began, but %s of older blocks were "
		   "freed meanwhile: these may be replaced. A longer capture tells.",
		   say_bytes(live, (double)work->model->totals.live_bytes),
		   say_bytes(older, (double)work->model->totals.foreign_freed_bytes));
}

/* A program that frees everything as it ends may well have grown until then. */
static bool tidied_up(const struct limpet_model *model)
{
	const struct limpet_model_totals *totals = &model->totals;

	return model->end->end == LIMPET_END_TARGET_EXIT &&
	       totals->peak_ns > model->duration_ns / 2 &&
	       totals->live_bytes < totals->peak_bytes / 2;
}

static int say_steady(struct work *work)
{
	const double bytes = sum(work->growth, PARTS / 2, PARTS);
	const struct limpet_findings_entry finding = {.kind = LIMPET_FINDINGS_STEADY,
						      .share = -1,
						      .per_second = 2 * bytes / work->seconds};
	char change[LIMPET_UNITS_TEXT], live[LIMPET_UNITS_TEXT];
	const char *how = bytes < 0 ? "fell" : "rose";
	const double most = 0.02 * (double)work->model->totals.live_bytes;

	if ((bytes > LEAST_BYTES && bytes > most) || tidied_up(work->model) ||
	    limpet_model_unfollowed(work->model).grows)
		return 0;
	return add(work, &finding, "Nothing grows: in the second half live bytes %s by %s, to %s.",
		   how, say_bytes(change, bytes < 0 ? -bytes : bytes),
		   say_bytes(live, (double)work->model->totals.live_bytes));
}

static int find_growing(struct work *work)
{
	const struct limpet_model_totals *totals = &work->model->totals;
	LIMPET_FREE const struct look **list = calloc(work->count + 1, sizeof(*list));
	/* Too much of what is new may stand for what was there before. */
	const bool doubtful = totals->foreign_freed_bytes > totals->live_bytes / 2;
	size_t count = 0;
	int code = 0;

	if (!list)
		return -ENOMEM;
	if (!work->in_parts)
		return 0;
	for (size_t i = 0; i < work->count; i++)
		if (grows(work->looks[i].growth) &&
		    work->looks[i].figures.live_allocations >= LEAST_GROWING_BLOCKS)
			list[count++] = &work->looks[i];
	if (!count)
		return say_steady(work);
	if (doubtful)
		return grows(work->growth) ? say_turnover(work) : 0;
	qsort(list, count, sizeof(*list), compare_growth);
	for (size_t i = 0; i < count && i < GROWING_SHOWN && code == 0; i++)
		code = say_growing(work, list[i]);
	return code;
}

/* ------------------------------------------------------------------ who churns */

static int find_churn(struct work *work)
{
	const struct limpet_model_totals *totals = &work->model->totals;
	const struct look *look = highest(work, LIMPET_REPORT_ALLOCATIONS);
	const double calls = look ? (double)look->figures.allocations : 0;
	struct limpet_findings_entry finding = {.kind = LIMPET_FINDINGS_CHURNS, .share = -1};
	char rate[LIMPET_UNITS_TEXT], bytes[LIMPET_UNITS_TEXT], soon[64] = "";
	LIMPET_FREE char *name = NULL;
	int code;

	if (!look || work->seconds <= 0 || calls / work->seconds < LEAST_CALLS_PER_SECOND ||
	    calls < CHURN_SHARE * (double)totals->allocations ||
	    (double)look->figures.frees < 0.95 * calls)
		return 0;
	finding.bytes = look->figures.allocated_bytes;
	finding.share = calls / (double)totals->allocations;
	finding.per_second = calls / work->seconds;
	code = name_look(work, look->figures.node, &finding, &name);
	if (code < 0)
		return code;
	/* "0 %" would be no reason to go on. */
	if (100.0 * (double)look->figures.temporary_allocations > 0.5 * calls)
		snprintf(soon, sizeof(soon), ", %.0f %% before the next one",
			 100.0 * (double)look->figures.temporary_allocations / calls);
	code = add(work, &finding,
		   "%s makes %s%.0f %% of all allocations, %s and %s/s, and nearly all of them are "
		   "freed again%s.",
		   name, about(work), 100 * finding.share,
		   limpet_units_format_rate(rate, (uint64_t)finding.per_second),
		   say_bytes(bytes, (double)finding.bytes / work->seconds), soon);
	if (code < 0)
		forget_names(&finding);
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

/* Live bytes fell, and resident memory did not. */
static int find_retained(struct work *work, const struct limpet_model_point *end, bool *ret_said)
{
	const struct limpet_model *model = work->model;
	const struct limpet_model_point *peak = NULL;
	char rss[LIMPET_UNITS_TEXT], from[LIMPET_UNITS_TEXT], to[LIMPET_UNITS_TEXT];
	struct limpet_findings_entry finding = {
		.kind = LIMPET_FINDINGS_RETAINED, .share = -1, .per_second = -1};
	double fell, kept;

	for (size_t i = 0; i < model->timeline_count; i++)
		if (model->timeline[i].rss_bytes &&
		    (!peak || model->timeline[i].live_bytes > peak->live_bytes))
			peak = &model->timeline[i];
	if (!peak || peak == end)
		return 0;
	fell = more(peak->live_bytes, end->live_bytes);
	kept = fell - more(peak->rss_bytes, end->rss_bytes) -
	       more(end->mapped_bytes, peak->mapped_bytes);
	if (fell < LEAST_RESIDENT_BYTES || kept < 0.75 * fell ||
	    kept < 0.1 * (double)end->rss_bytes)
		return 0;
	finding.bytes = (uint64_t)kept;
	finding.share = kept / (double)end->rss_bytes < 1 ? kept / (double)end->rss_bytes : 1;
	*ret_said = true;
	return add(work, &finding,
		   "RSS stayed at %s when live bytes fell from %s to %s: the allocator keeps what "
		   "was freed.",
		   say_bytes(rss, (double)end->rss_bytes),
		   say_bytes(from, (double)peak->live_bytes),
		   say_bytes(to, (double)end->live_bytes));
}

/* Resident memory grew by more than all that is known of. The agent's memory is part of it. */
static int find_resident(struct work *work, const struct limpet_model_point *end)
{
	const struct limpet_model *model = work->model;
	const struct limpet_model_point *first = model->timeline;
	char grew[LIMPET_UNITS_TEXT], live[LIMPET_UNITS_TEXT], mapped[LIMPET_UNITS_TEXT];
	struct limpet_findings_entry finding = {
		.kind = LIMPET_FINDINGS_RESIDENT, .share = -1, .per_second = -1};
	double beyond;

	while (first < end && !first->rss_bytes)
		first++;
	beyond = more(end->rss_bytes, first->rss_bytes) - more(end->live_bytes, first->live_bytes) -
		 more(end->mapped_bytes, first->mapped_bytes) -
		 (double)model->end->agent_memory_bytes;
	if (beyond < 2.0 * LEAST_RESIDENT_BYTES || beyond < 0.25 * (double)end->rss_bytes)
		return 0;
	finding.bytes = (uint64_t)beyond;
	finding.share = beyond / (double)end->rss_bytes;
	return add(work, &finding,
		   "RSS grew by %s, live bytes by %s and mappings by %s: the rest is kept by the "
		   "allocator, or no heap at all.",
		   say_bytes(grew, more(end->rss_bytes, first->rss_bytes)),
		   say_bytes(live, more(end->live_bytes, first->live_bytes)),
		   say_bytes(mapped, more(end->mapped_bytes, first->mapped_bytes)));
}

static int find_mapped(struct work *work)
{
	const struct limpet_model_totals *totals = &work->model->totals;
	const double all = (double)totals->mapped_bytes + (double)totals->live_bytes;
	struct limpet_findings_entry finding = {
		.kind = LIMPET_FINDINGS_MAPPED, .bytes = totals->mapped_bytes, .per_second = -1};
	char text[LIMPET_UNITS_TEXT], calls[LIMPET_UNITS_TEXT];

	if (totals->mapped_bytes < LEAST_RESIDENT_BYTES || (double)totals->mapped_bytes < all / 4)
		return 0;
	finding.share = (double)totals->mapped_bytes / all;
	return add(work, &finding,
		   "%s are mapped by mmap and not unmapped (%s calls), beside the heap.",
		   say_bytes(text, (double)totals->mapped_bytes),
		   limpet_units_format_count(calls, totals->mmaps));
}

static int find_unfollowed(struct work *work)
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
	limpet_unfollowed_say(&it, words, sizeof(words));
	return add(work, &finding, "%s.", words);
}

static int find_beyond(struct work *work)
{
	const struct limpet_model_point *end = last_point(work->model);
	bool said = false;
	int code = end ? find_retained(work, end, &said) : 0;

	if (code == 0 && end && !said)
		code = find_resident(work, end);
	return code < 0 ? code : find_mapped(work);
}

/* ------------------------------------------------------------------ all */

int limpet_findings_new(const struct limpet_view *view, const struct limpet_history *history,
			struct limpet_findings **ret_findings)
{
	const struct limpet_model *model = view->places->model;
	struct work work = {
		.view = view,
		.model = model,
		.history = history,
		.findings = calloc(1, sizeof(*work.findings)),
		.seconds = (double)model->duration_ns / 1e9,
		/* The second half has to be told from the first. */
		.in_parts = history->step_count >= PARTS && model->duration_ns >= LEAST_NS &&
			    (!history->of_sums || history->edges_ns[1] <= model->duration_ns / 2),
	};
	static int (*const finders[])(struct work *) = {find_holder, find_growing, find_churn,
							find_beyond, find_unfollowed};
	int code = work.findings ? add_up(&work) : -ENOMEM;

	for (size_t i = 0; i < LIMPET_COUNT_OF(finders) && code == 0; i++)
		code = finders[i](&work);
	free(work.looks);
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
		forget_names(&findings->list[i]);
	}
	free(findings->list);
	free(findings);
}
