#include "analyzer/views/verdict.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "analyzer/views/candidates.h"
#include "common/array.h"
#include "common/begins.h"
#include "common/units.h"

/* What is there is said, if nothing grows, from these shares of RSS on. */
#define FREE_SHARE 0.3
#define FILE_SHARE 0.4
#define STACKS_SHARE 0.25
#define OLD_SHARE 0.5 /* blocks from before the capture */
#define LEAST_THERE_BYTES (8u << 20)
#define LEAST_HEAP_BYTES (64u << 10)
#define LEAST_TRIM_BYTES (1u << 20)

/* ------------------------------------------------------------------ what is there */

/* The allocator that keeps most; NULL: none is known. */
static const struct limpet_part *find_free(const struct limpet_parts *parts)
{
	const struct limpet_part *most = NULL;

	for (size_t i = 0; i < parts->count; i++) {
		const struct limpet_part *part = &parts->list[i];

		if (part->class == LIMPET_PART_ALLOCATOR && part->free_known &&
		    (!most || part->free_bytes > most->free_bytes))
			most = part;
	}
	return most;
}

/* Blocks of an allocator from before the capture, which it does not name. */
static const struct limpet_part *find_old(const struct limpet_evidence *it, double *ret_bytes)
{
	const struct limpet_parts *parts = &it->parts;

	for (size_t i = 0; parts->has_before && i < parts->count; i++) {
		const struct limpet_part *part = &parts->list[i];

		if (part->class != LIMPET_PART_ALLOCATOR)
			continue;
		*ret_bytes = (double)part->bytes - (double)part->free_bytes -
			     (double)it->model->totals.live_bytes;
		return *ret_bytes >= LEAST_THERE_BYTES &&
				       *ret_bytes >= OLD_SHARE * limpet_evidence_rss(it)
			       ? part
			       : NULL;
	}
	return NULL;
}

static struct limpet_candidate found(enum limpet_heap_finding_kind kind, double bytes,
				     const struct limpet_part *part)
{
	return (struct limpet_candidate){
		.finding = {.kind = kind, .bytes = (uint64_t)bytes, .share = -1}, .part = part};
}

static struct limpet_candidate find_there(const struct limpet_evidence *it)
{
	const double rss = limpet_evidence_rss(it);
	const struct limpet_part *most = find_free(&it->parts);
	const double unused = most ? (double)most->free_bytes : 0;

	/* What is free for a moment is used again. */
	if (unused >= LEAST_THERE_BYTES && unused >= FREE_SHARE * rss &&
	    it->growth.swing_bytes < unused / 2)
		return found(LIMPET_HEAP_FREE, unused, most);
	for (size_t i = 0; i < it->parts.count; i++) {
		const struct limpet_part *part = &it->parts.list[i];
		const double bytes = (double)part->bytes;

		if (bytes < LEAST_THERE_BYTES)
			continue;
		if (part->class == LIMPET_PART_MAPPED && bytes >= FILE_SHARE * rss)
			return found(LIMPET_HEAP_FILE, bytes, part);
		if (part->class == LIMPET_PART_STACKS && bytes >= STACKS_SHARE * rss)
			return found(LIMPET_HEAP_STACKS, bytes, part);
	}
	return found(LIMPET_HEAP_STEADY, 0, NULL);
}

/* ------------------------------------------------------------------ the first sentence */

/* What was not seen may grow. */
static const char *nothing_grows(const struct limpet_evidence *it)
{
	return it->model->complete && it->model->target->unseen_rss_share <= 0 &&
			       !limpet_model_unfollowed(it->model).matters
		       ? "Nothing grows"
		       : "Nothing that was recorded grows";
}

static char *format_there(const struct limpet_evidence *it, const struct limpet_candidate *there)
{
	const struct limpet_part *part = there->part;
	char bytes[LIMPET_UNITS_TEXT], rss[LIMPET_UNITS_TEXT];
	char *text;
	int code;

	limpet_units_format_bytes(bytes, there->finding.bytes);
	limpet_units_format_bytes(rss, (uint64_t)limpet_evidence_rss(it));
	if (there->finding.kind == LIMPET_HEAP_FREE)
		code = asprintf(&text, "%s; %s of %s resident are free inside %s.",
				nothing_grows(it), bytes, rss, part->words);
	else if (there->finding.kind == LIMPET_HEAP_STACKS)
		code = asprintf(&text, "%s; %s of %s resident are %llu thread stacks.",
				nothing_grows(it), bytes, rss, (unsigned long long)part->count);
	else
		code = asprintf(&text, "%s; %s of %s resident are %s (%s).", nothing_grows(it),
				bytes, rss, part->words, limpet_part_name(part));
	return code < 0 ? NULL : text;
}

/* ", 62 % of it under NAME", or nothing if it is little. NULL: no memory. */
static char *format_holder(const struct limpet_evidence *it, bool peak, uint64_t bytes)
{
	struct limpet_culprit holder = {0};
	LIMPET_FREE char *who = NULL;
	char *text = NULL;

	if (bytes < LEAST_HEAP_BYTES)
		return strdup("");
	if (limpet_evidence_holder(it, peak, &holder) < 0)
		return NULL;
	/* All of it is under functions without a name. */
	who = holder.node ? limpet_culprit_words(&holder, true) : NULL;
	if (!holder.node)
		text = strdup("");
	else if (who && asprintf(&text, ", %.0f %% of it under %s", 100 * holder.share, who) < 0)
		text = NULL;
	limpet_culprit_done(&holder);
	return text;
}

static char *format_unjudged(const struct limpet_evidence *it, const char *time, const char *holder)
{
	const struct limpet_model_totals *totals = &it->model->totals;
	char live[LIMPET_UNITS_TEXT], at[LIMPET_UNITS_TEXT], least[32] = "";
	char *text;
	int code;

	if (it->seconds < LIMPET_GROWTH_LEAST_S && !it->model->compact && !it->model->sample_bytes)
		snprintf(least, sizeof(least), " (%u s would do)", LIMPET_GROWTH_LEAST_S);
	if (it->model->target->mode == LIMPET_MODE_RUN)
		code = asprintf(&text, "At most %s were live, at %s%s.",
				limpet_units_format_bytes(live, totals->peak_bytes),
				limpet_units_format_duration(at, totals->peak_ns), holder);
	else
		code = asprintf(&text, "%s %s what grows%s; %s is live%s.", time,
				it->model->sample_bytes ? "of samples do not tell"
							: "is too short to tell",
				least, limpet_units_format_bytes(live, totals->live_bytes), holder);
	return code < 0 ? NULL : text;
}

/* Of a program that was captured to its end, or too short, the peak or what is live. */
static char *format_calm(const struct limpet_evidence *it)
{
	const struct limpet_model_totals *totals = &it->model->totals;
	const bool peak = it->model->target->mode == LIMPET_MODE_RUN;
	LIMPET_FREE char *holder =
		format_holder(it, peak, peak ? totals->peak_bytes : totals->live_bytes);
	char live[LIMPET_UNITS_TEXT], time[LIMPET_UNITS_TEXT], swing[LIMPET_UNITS_TEXT];
	char *text;
	int code;

	if (!holder)
		return NULL;
	limpet_units_format_duration(time, (uint64_t)(1e9 * it->seconds));
	limpet_units_format_bytes(live, totals->live_bytes);
	limpet_units_format_bytes(swing, (uint64_t)it->growth.swing_bytes);
	if (it->model->target->pages)
		return asprintf(&text, "Of new pages, %s are resident%s.", live, holder) < 0 ? NULL
											     : text;
	if (!it->growth.judged || peak)
		return format_unjudged(it, time, holder);
	if (it->all_growth.bytes >= LEAST_HEAP_BYTES &&
	    limpet_evidence_is_replaced(it, &it->all_growth))
		code = asprintf(
			&text,
			"%s: what was allocated in %s replaced older blocks that were freed.",
			nothing_grows(it), time);
	else if (it->growth.swing_bytes >= LEAST_HEAP_BYTES)
		code = asprintf(&text, "%s: live memory goes up and down by %s, and comes back.",
				nothing_grows(it), swing);
	else
		code = asprintf(&text, "%s: of what was allocated in %s, %s is live%s.",
				nothing_grows(it), time, live, holder);
	return code < 0 ? NULL : text;
}

static char *format_nothing(const struct limpet_evidence *it, const char *time)
{
	const struct limpet_model_missing *missing = &it->model->missing;
	const struct limpet_unfollowed unfollowed = limpet_model_unfollowed(it->model);
	const uint64_t lost = missing->dropped_events + missing->unseen_calls;
	char calls[LIMPET_UNITS_TEXT];
	char *text;
	int code;

	if (!lost && !it->model->target->pages && unfollowed.matters && unfollowed.names[0])
		code = asprintf(&text, "No call was seen in %s: limpet does not follow %s.", time,
				unfollowed.names);
	else if (lost)
		code = asprintf(&text, "No call was recorded in %s, but %s %s lost.", time,
				limpet_units_format_count(calls, lost), lost == 1 ? "was" : "were");
	else
		code = asprintf(&text,
				it->model->target->pages ? "No new page was touched in %s."
							 : "Nothing was allocated or freed in %s.",
				time);
	return code < 0 ? NULL : text;
}

static char *format_steady(const struct limpet_evidence *it)
{
	double old_bytes;
	const struct limpet_part *old = find_old(it, &old_bytes);
	char bytes[LIMPET_UNITS_TEXT], time[LIMPET_UNITS_TEXT];
	char *text;

	limpet_units_format_duration(time, (uint64_t)(1e9 * it->seconds));
	if (!old || it->growth.swing_bytes >= old_bytes / 4 || it->model->target->pages)
		return it->model->totals.events ? format_calm(it) : format_nothing(it, time);
	return asprintf(&text, "%s in %s; %s in use in %s are older than the capture.",
			nothing_grows(it), time,
			limpet_units_format_bytes(bytes, (uint64_t)old_bytes), old->words) < 0
		       ? NULL
		       : text;
}

/* ------------------------------------------------------------------ the second and third */

/* What to type, by the part in question: what stands before and after the pid. */
struct tool {
	const char *words, *before, *after; /* the last NULL: no pid */
};
static const struct tool tools[] = {
	{"V8's heap (JavaScript)", "`limpet explain ",
	 " --objects --interval 60s` shows which of them grow."},
	{"the Java heap", "`jcmd ", " GC.class_histogram` counts its objects by class."},
	{"Python's arenas", "`limpet explain ",
	 " --objects` counts its blocks; tracemalloc names lines."},
	{"Go's heap", "The heap profile of net/http/pprof names its functions.", NULL},
	{"thread stacks", "`limpet stacks ", "` shows where each thread stands."},
	{"anonymous mappings", "`limpet pages ", "` shows which functions touch them first."},
};

static const struct tool *find_tool(const char *words)
{
	for (size_t i = 0; words && i < LIMPET_COUNT_OF(tools); i++)
		if (!strcmp(tools[i].words, words))
			return &tools[i];
	return NULL;
}

/* Whether it may be typed as it is. */
static bool is_word(const char *name)
{
	return name && name[strspn(name, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"
					 "0123456789_:.")] == '\0';
}

static bool is_of_blocks(const struct limpet_heap_finding *about)
{
	return about->kind >= LIMPET_HEAP_LEAK && about->kind <= LIMPET_HEAP_RISE;
}

/* Go's runtime is part of each of its programs: functions tell it, not a file. */
static bool is_go(const struct limpet_locations *locations)
{
	static const char *const names[] = {"runtime.goexit", "runtime.mallocgc",
					    "runtime.newstack", "runtime.mstart"};

	for (uint32_t i = 0; i < locations->function_count; i++)
		if (limpet_begins_any(locations->functions[i].name, names, LIMPET_COUNT_OF(names)))
			return true;
	return false;
}

/* What the heap of a runtime is called, as in `tools`; NULL: there is none. */
static const char *find_runtime(const struct limpet_evidence *it)
{
	static const struct {
		const char *module, *words;
	} runtimes[] = {{"node", "V8's heap (JavaScript)"},
			{"libnode", "V8's heap (JavaScript)"},
			{"libjvm", "the Java heap"}};

	for (size_t i = 0; i < LIMPET_COUNT_OF(runtimes); i++)
		if (limpet_model_has_module(it->model, runtimes[i].module))
			return runtimes[i].words;
	return is_go(it->view->locations) ? "Go's heap" : NULL;
}

/* Of a trace of pages: it tells who touched a page first, and not who keeps it. */
static int format_keeper(const struct limpet_evidence *it, char **ret)
{
	const struct tool *tool = find_tool(find_runtime(it));
	const unsigned pid = it->model->target->pid;
	int code;

	if (!it->model->totals.allocations)
		return 0;
	if (tool)
		code = asprintf(ret, tool->after ? "%s%u%s" : "%s", tool->before, pid, tool->after);
	else
		code = asprintf(ret,
				"`limpet attach %u` tells what keeps pages, if it can follow the "
				"allocator.",
				pid);
	return code;
}

static int format_next(const struct limpet_evidence *it, const char *file,
		       const struct limpet_candidate *about, char **ret)
{
	const struct limpet_heap_finding *finding = &about->finding;
	const struct tool *tool = find_tool(about->part ? about->part->words : NULL);
	const unsigned pid = it->model->target->pid;
	char trimmed[LIMPET_UNITS_TEXT];
	double old_bytes;
	int code = 0;

	limpet_units_format_bytes(trimmed, it->parts.trimmed_bytes);
	if (it->model->target->pages)
		code = format_keeper(it, ret);
	else if (is_of_blocks(finding) && file && is_word(finding->culprit.function))
		code = asprintf(ret,
				"`limpet report %s --view callers=%s` shows its callers and lines.",
				file, finding->culprit.function);
	else if (is_of_blocks(finding) && file)
		code = asprintf(ret, "`limpet html %s` shows who allocated it, and when.", file);
	else if (finding->kind == LIMPET_HEAP_FREE && it->parts.trimmed_bytes >= LEAST_TRIM_BYTES)
		code = asprintf(ret, "malloc_trim(0) in the program would give %s back at once.",
				trimmed);
	else if (finding->kind == LIMPET_HEAP_STEADY && find_old(it, &old_bytes))
		code = asprintf(ret, "`limpet explain %u --objects` counts its blocks by size.",
				pid);
	else if (tool && tool->after)
		code = asprintf(ret, "%s%u%s", tool->before, pid, tool->after);
	else if (tool)
		code = asprintf(ret, "%s", tool->before);
	return code < 0 ? -ENOMEM : 0;
}

/* ------------------------------------------------------------------ all */

/* As sentences have it: limpet_culprit_words(). */
static const char *bare_name(const char *function)
{
	static const char anonymous[] = "(anonymous namespace)::";

	for (const char *at; function && (at = strstr(function, anonymous));)
		function = at + sizeof(anonymous) - 1;
	return function;
}

static bool is_covered(const struct limpet_verdict *verdict,
		       const struct limpet_heap_finding *finding)
{
	const char *function = bare_name(finding->culprit.function);

	if (finding->kind != LIMPET_HEAP_HOLDS)
		return false;
	/* What grew is most of what it holds. */
	if (is_of_blocks(&verdict->about) && verdict->about.bytes >= finding->bytes / 2)
		return true;
	for (size_t i = 0; i < verdict->findings.count; i++)
		if (function && strstr(verdict->findings.list[i].text, function))
			return true;
	return function && strstr(verdict->sentences[0], function);
}

/* Those that are not the verdict's, in their order. */
static void copy_others(struct limpet_candidates *candidates, size_t first,
			struct limpet_verdict *verdict)
{
	struct limpet_heap_findings *findings = &verdict->findings;

	for (size_t i = first; i < candidates->count; i++) {
		struct limpet_heap_finding *finding = &candidates->list[i].finding;

		if (findings->count == LIMPET_HEAP_FINDINGS_MAX || is_covered(verdict, finding))
			continue;
		findings->list[findings->count++] = *finding;
		*finding = (struct limpet_heap_finding){0};
	}
}

static int write_verdict(struct limpet_evidence *it, const char *file,
			 struct limpet_candidates *candidates, struct limpet_verdict *verdict)
{
	const bool grows = candidates->count && candidates->list[0].weight > 0;
	struct limpet_candidate about = grows ? candidates->list[0] : find_there(it);
	int code;

	if (grows)
		candidates->list[0].finding = (struct limpet_heap_finding){0};
	else
		about.finding.text = about.part ? format_there(it, &about) : format_steady(it);
	verdict->sentences[0] = about.finding.text;
	about.finding.text = NULL;
	verdict->part = about.part ? about.part->words : NULL;
	verdict->judged = it->growth.judged && it->model->target->mode != LIMPET_MODE_RUN;
	/* What is lost lies there if nothing of it is known to have grown. */
	verdict->changed = grows && !(about.is_lost && !about.finding.to_ns);
	code = verdict->sentences[0] ? limpet_parts_sentence(&it->parts, &verdict->sentences[1])
				     : -ENOMEM;
	if (code == 0)
		code = format_next(it, file, &about,
				   &verdict->sentences[verdict->sentences[1] ? 2 : 1]);
	verdict->about = about.finding;
	if (code == 0)
		copy_others(candidates, grows, verdict);
	return code;
}

int limpet_verdict_new(const struct limpet_view *view, const struct limpet_history *history,
		       struct limpet_trace_reader *reader, const char *file,
		       struct limpet_verdict *ret_verdict)
{
	const struct limpet_model *model = view->locations->model;
	const struct limpet_model_totals *totals = &model->totals;
	struct limpet_evidence it = {
		.view = view,
		.model = model,
		.reader = reader,
		.live_change = (double)totals->growth_bytes - (double)totals->foreign_freed_bytes,
		.seconds = (double)(model->to_ns - model->from_ns) / 1e9,
	};
	struct limpet_candidates candidates = {0};
	struct limpet_verdict verdict = {0};
	int code = limpet_growth_find(view, history, &it.growth);

	if (code < 0)
		return code;
	limpet_parts_of(model, &it.parts);
	/* The account is from before and after the capture, not the window. */
	it.parts.has_before &= !model->windowed;
	it.all_growth = it.growth.sums[LIMPET_GROWTH_ALL];
	code = limpet_candidates_find(&it, &candidates);
	if (code == 0)
		code = write_verdict(&it, file, &candidates, &verdict);
	limpet_candidates_done(&candidates);
	limpet_growth_done(&it.growth);
	if (code < 0)
		limpet_verdict_done(&verdict);
	else
		*ret_verdict = verdict;
	return code;
}

void limpet_verdict_done(struct limpet_verdict *verdict)
{
	for (size_t i = 0; i < LIMPET_VERDICT_SENTENCES; i++)
		free(verdict->sentences[i]);
	limpet_heap_finding_done(&verdict->about);
	limpet_heap_findings_done(&verdict->findings);
	*verdict = (struct limpet_verdict){0};
}
