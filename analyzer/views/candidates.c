#include "analyzer/views/candidates.h"

#include <ctype.h>
#include <errno.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "analyzer/views/object_growth.h"
#include "common/array.h"
#include "common/base_name.h"
#include "common/begins.h"
#include "common/units.h"

/* Less than both is not said. The verdict is about what weighs most, if it weighs something. */
struct rule {
	enum limpet_heap_finding_kind kind;
	double least_bytes; /* of CHURNS: calls a second */
	double least_share; /* of what the comment says */
	double weight;      /* of a byte */
};
enum rule_name {
	RULE_LEAK,
	RULE_GROWTH,
	RULE_RISE,
	RULE_FURTHER,
	RULE_LOST,
	RULE_RUNTIME,
	RULE_OBJECTS,
	RULE_MAPPING,
	RULE_STACKS,
	RULE_FILE,
	RULE_FREE,
	RULE_MAPPED,
	RULE_SPARSE,
	RULE_HOLDS,
	RULE_CHURNS,
	RULES
};
static const struct rule rules[RULES] = {
	/* No collector, cache or swing explains it. */
	[RULE_LEAK] = {LIMPET_HEAP_LEAK, 64 << 10, 0, 12},
	/* Of the swing of live bytes, of which it may be a part. */
	[RULE_GROWTH] = {LIMPET_HEAP_GROWTH, 64 << 10, 0.25, 4},
	/* Of RSS: it is over, and matters by its size alone. */
	[RULE_RISE] = {LIMPET_HEAP_RISE, 64 << 10, 0.01, 1},
	/* Of all growth: other functions than the one that grew most. */
	[RULE_FURTHER] = {LIMPET_HEAP_GROWTH, 64 << 10, 0.05, 0},
	/* Of live bytes, or so many: they came and are lost, whatever grows. */
	[RULE_LOST] = {LIMPET_HEAP_LEAK, 64 << 10, 0.01, 12},
	/* Of RSS, which the kernel counts in batches; collectors come late. */
	[RULE_RUNTIME] = {LIMPET_HEAP_RUNTIME, 1 << 20, 0.03, 1},
	/* Of the native growth; the program's own objects count anyway. */
	[RULE_OBJECTS] = {LIMPET_HEAP_RUNTIME, 64 << 10, 0.25, 0},
	[RULE_MAPPING] = {LIMPET_HEAP_MAPPING, 1 << 20, 0.03, 1},
	[RULE_STACKS] = {LIMPET_HEAP_STACKS, 1 << 20, 0.03, 1},
	[RULE_FILE] = {LIMPET_HEAP_FILE, 1 << 20, 0.03, 1},
	/* Of RSS: what is kept free changes with the load. */
	[RULE_FREE] = {LIMPET_HEAP_FREE, 1 << 20, 0.1, 1},
	/* Of live and mapped bytes: by mmap(2), whether resident or not. */
	[RULE_MAPPED] = {LIMPET_HEAP_MAPPING, 8 << 20, 0.25, 0},
	/* Of RSS: a change of the program pays from there on. */
	[RULE_SPARSE] = {LIMPET_HEAP_SPARSE, 8 << 20, 0.1, 0},
	/* Of what is live: less is one of many. And as for RISE. */
	[RULE_HOLDS] = {LIMPET_HEAP_HOLDS, 64 << 10, 0.2, 0},
	/* Of all allocations: fewer calls cost no time that could be seen. */
	[RULE_CHURNS] = {LIMPET_HEAP_CHURNS, 1000, 0.25, 0},
};

/* Of what came, blocks from before that went: less leaves growth in any case. */
#define REPLACED_SHARE 0.5
/* A rise that was over so soon is a cache that filled as the capture began. */
#define EARLY_SHARE 0.125
#define FREED_SHARE 0.95 /* of the blocks of what churns */
#define FURTHER 3u       /* functions that grow beside the first */
/* Of what grew in a heap: what the program's own objects hold are arrays and strings, too. */
#define OWN_SHARE 0.1

static bool is_enough(const struct rule *rule, double bytes, double whole)
{
	return bytes >= rule->least_bytes && bytes >= rule->least_share * whole;
}

/* ------------------------------------------------------------------ the list */

int limpet_candidates_add(struct limpet_candidates *candidates,
			  const struct limpet_candidate *candidate)
{
	struct limpet_heap_finding finding = candidate->finding;

	if (!finding.text || limpet_reserve(&candidates->list, &candidates->capacity,
					    candidates->count + 1, sizeof(*candidates->list)) < 0) {
		limpet_heap_finding_done(&finding);
		return -ENOMEM;
	}
	candidates->list[candidates->count++] = *candidate;
	return 0;
}

void limpet_candidates_done(struct limpet_candidates *candidates)
{
	for (size_t i = 0; i < candidates->count; i++)
		limpet_heap_finding_done(&candidates->list[i].finding);
	free(candidates->list);
	*candidates = (struct limpet_candidates){0};
}

static struct limpet_candidate candidate_of(const struct rule *rule, double bytes)
{
	return (struct limpet_candidate){
		.finding = {.kind = rule->kind, .bytes = (uint64_t)bytes, .share = -1},
		.weight = bytes * rule->weight};
}

/* As asprintf(3); NULL: no memory. */
static char *print(const char *format, ...) __attribute__((format(printf, 1, 2)));
static char *print(const char *format, ...)
{
	va_list arguments;
	char *text;
	int length;

	va_start(arguments, format);
	length = vasprintf(&text, format, arguments);
	va_end(arguments);
	return length < 0 ? NULL : text;
}

/* ------------------------------------------------------------------ blocks that grow */

/* Of all allocators. */
static double in_use_change(const struct limpet_evidence *it)
{
	double change = 0;

	for (size_t i = 0; i < it->parts.count; i++) {
		const struct limpet_part *part = &it->parts.list[i];

		if (part->class == LIMPET_PART_ALLOCATOR)
			change += (double)limpet_part_change(part) - (double)part->free_bytes +
				  (double)part->free_before_bytes;
	}
	return change;
}

/* Blocks from before that are freed may be what the new ones replace. They are not if they were of
 * another size, unless the heap as a whole did not grow. */
bool limpet_evidence_is_replaced(const struct limpet_evidence *it,
				 const struct limpet_growth_sum *sum)
{
	const struct limpet_model_totals *totals = &it->model->totals;
	const double old = (double)totals->foreign_freed_bytes;
	double size;

	if (old < REPLACED_SHARE * sum->bytes || !totals->foreign_frees || !sum->live_blocks)
		return false;
	size = old / (double)totals->foreign_frees * (double)sum->live_blocks / sum->bytes;
	if (it->parts.has_before && it->growth.swing_bytes < sum->bytes)
		return in_use_change(it) < REPLACED_SHARE * sum->bytes;
	return size > 0.5 && size < 2;
}

static bool came_early(const struct limpet_evidence *it, const struct limpet_growth_sum *sum)
{
	return (double)(sum->ended_ns - it->model->from_ns) < EARLY_SHARE * 1e9 * it->seconds;
}

static const struct rule *rule_of(enum limpet_growth_of of)
{
	return &rules[of == LIMPET_GROWTH_KEPT ? RULE_LEAK
		      : of == LIMPET_GROWTH_ON ? RULE_GROWTH
					       : RULE_RISE];
}

static bool applies(const struct limpet_evidence *it, enum limpet_growth_of of)
{
	const struct limpet_growth_sum *sum = &it->growth.sums[of];

	if (limpet_evidence_is_replaced(it, sum))
		return false;
	switch (of) {
	case LIMPET_GROWTH_KEPT:
		return is_enough(rule_of(of), sum->bytes, 0) &&
		       sum->blocks >= LIMPET_GROWTH_KEPT_BLOCKS;
	case LIMPET_GROWTH_ON:
		return is_enough(rule_of(of), sum->bytes, it->growth.swing_bytes);
	default:
		return is_enough(rule_of(of), sum->bytes, limpet_evidence_rss(it)) &&
		       is_enough(rule_of(LIMPET_GROWTH_ON), sum->bytes, it->growth.swing_bytes) &&
		       !came_early(it, sum);
	}
}

/* What has grown by `sum`. */
static double bytes_of(const struct limpet_evidence *it, enum limpet_growth_of of)
{
	const struct limpet_growth_sum *sum = &it->growth.sums[of];
	const double old = (double)it->model->totals.foreign_freed_bytes;

	/* One that is reallocated goes on, with what it had before. */
	return (of != LIMPET_GROWTH_KEPT || sum->reallocations > sum->blocks) &&
			       old < REPLACED_SHARE * sum->bytes
		       ? sum->bytes - old
		       : sum->bytes;
}

static const char *format_freed(const struct limpet_growth_sum *sum,
				enum limpet_heap_finding_kind kind, char *ret, size_t room)
{
	char count[LIMPET_UNITS_TEXT], live[LIMPET_UNITS_TEXT], times[LIMPET_UNITS_TEXT];

	limpet_units_format_count(count, sum->blocks);
	limpet_units_format_count(live, sum->live_blocks);
	if (kind != LIMPET_HEAP_LEAK && !sum->freed_blocks &&
	    sum->live_blocks < LIMPET_GROWTH_KEPT_BLOCKS && sum->reallocations > sum->live_blocks)
		snprintf(ret, room, "%s block%s, reallocated %s times",
			 sum->live_blocks == 1 ? "one" : live, sum->live_blocks == 1 ? "" : "s",
			 limpet_units_format_count(times, sum->reallocations));
	else if (!sum->freed_blocks && sum->blocks)
		snprintf(ret, room, "none of %s block%s was freed", count,
			 sum->blocks == 1 ? "" : "s");
	else if (kind == LIMPET_HEAP_LEAK)
		snprintf(ret, room, "hardly any of %s blocks was freed", count);
	else
		snprintf(ret, room, "%s block%s %s live", live, sum->live_blocks == 1 ? "" : "s",
			 sum->live_blocks == 1 ? "is" : "are");
	return ret;
}

/* Figures of stacks that have grown: NULL: no memory. */
static char *format_growth_figures(const struct limpet_evidence *it,
				   const struct limpet_growth_sum *sum)
{
	const bool minutes = it->seconds >= 60;
	const double rate = sum->bytes / it->seconds * (minutes ? 60 : 1);
	char per[LIMPET_UNITS_TEXT], blocks[LIMPET_UNITS_TEXT], freed[LIMPET_UNITS_TEXT];
	char from[LIMPET_UNITS_TEXT], to[LIMPET_UNITS_TEXT];
	char times[LIMPET_UNITS_TEXT];

	return print("%s a %s; %s blocks allocated, %s%s%s freed, by %zu stack%s; from %s "
		     "to %s",
		     limpet_units_format_bytes(per, (uint64_t)rate), minutes ? "minute" : "second",
		     limpet_units_format_count(blocks, sum->blocks),
		     sum->reallocations ? limpet_units_format_count(times, sum->reallocations) : "",
		     sum->reallocations ? " reallocations, " : "",
		     limpet_units_format_count(freed, sum->freed_blocks), sum->stack_count,
		     sum->stack_count == 1 ? "" : "s",
		     limpet_units_format_time(from, sum->began_ns),
		     limpet_units_format_time(to, sum->ended_ns));
}

static char *format_growth(const struct limpet_evidence *it,
			   const struct limpet_heap_finding *finding,
			   const struct limpet_growth_sum *sum, const struct limpet_lost *lost)
{
	const struct limpet_culprit *culprit = &finding->culprit;
	const bool rise = finding->kind == LIMPET_HEAP_RISE;
	LIMPET_FREE char *who = limpet_culprit_words(culprit, true);
	char bytes[LIMPET_UNITS_TEXT], time[LIMPET_UNITS_TEXT], freed[128], share[64] = "";
	LIMPET_FREE char *words = NULL;

	if (!who)
		return NULL;
	limpet_units_format_bytes(bytes, finding->bytes);
	if (it->model->target->pages)
		return print("%s more of new pages are resident, first touched under "
			     "%s.",
			     bytes, who);
	limpet_units_format_duration(time, rise ? sum->ended_ns : (uint64_t)(1e9 * it->seconds));
	if (culprit->node && culprit->share < 0.8)
		snprintf(share, sizeof(share), "%.0f %% of it ", 100 * culprit->share);
	words = print("Live memory %s by %s %s %s%s, %sunder %s", rise ? "rose" : "grew", bytes,
		      rise ? "until" : "in", time, rise ? " and stayed there" : "", share, who);
	format_freed(sum, finding->kind, freed, sizeof(freed));
	return words ? limpet_evidence_sentence(&finding->culprit, words, freed, lost) : NULL;
}

static void time_growth(const struct limpet_evidence *it, const struct limpet_growth_sum *sum,
			struct limpet_heap_finding *finding)
{
	finding->from_ns = sum->began_ns;
	finding->to_ns = finding->kind == LIMPET_HEAP_RISE ? sum->ended_ns : it->model->to_ns;
}

/* What nothing points to is a leak, also where it came at one time, or where other blocks of the
 * function are freed. */
static void judge_lost(struct limpet_candidate *one, const struct limpet_lost *lost)
{
	if (!limpet_lost_is_most(lost))
		return;
	one->is_lost = true;
	one->finding.kind = LIMPET_HEAP_LEAK;
	if (one->weight > 0)
		one->weight = (double)one->finding.bytes * rules[RULE_LEAK].weight;
}

/* What grew most: blocks that are kept, those that grow on, or all. */
static int find_first_growth(struct limpet_evidence *it, struct limpet_candidates *candidates)
{
	struct limpet_growth_sum sum = {0}, extracted;
	struct limpet_candidate most = {0};
	struct limpet_lost lost = {0};
	enum limpet_growth_of of;
	int code;

	for (unsigned i = 0; i < LIMPET_GROWTH_SUMS; i++) {
		const struct limpet_candidate one = candidate_of(
			rule_of((enum limpet_growth_of)i), bytes_of(it, (enum limpet_growth_of)i));

		if (one.weight <= most.weight || !applies(it, (enum limpet_growth_of)i))
			continue;
		most = one;
		sum = it->growth.sums[i];
	}
	if (!most.weight)
		return 0;
	code = limpet_culprit_find(it->view->locations, sum.stacks, it->view->site_count,
				   &most.finding.culprit);
	if (code == 0)
		code = limpet_evidence_lost(it, &most.finding.culprit, sum.stacks, &lost);
	if (code < 0) {
		limpet_heap_finding_done(&most.finding);
		return code;
	}
	time_growth(it, &sum, &most.finding);
	judge_lost(&most, &lost);
	most.finding.text = format_growth(it, &most.finding, &sum, &lost);
	most.finding.evidence = format_growth_figures(it, &sum);
	/* What has no name is in one sentence. */
	if (most.finding.culprit.node)
		code = limpet_growth_extract(&it->growth, it->view, &most.finding.culprit,
					     &extracted, &of);
	if (code < 0 || !most.finding.evidence) {
		limpet_heap_finding_done(&most.finding);
		return -ENOMEM;
	}
	return limpet_candidates_add(candidates, &most);
}

/* "session_new (session.c:12) grew by 2.1 MiB: none of 300 blocks was freed." */
static char *format_further(const struct limpet_evidence *it,
			    const struct limpet_heap_finding *finding,
			    const struct limpet_growth_sum *sum, const struct limpet_lost *lost)
{
	const bool rise = finding->kind == LIMPET_HEAP_RISE;
	LIMPET_FREE char *who = limpet_culprit_words(&finding->culprit, false);
	char bytes[LIMPET_UNITS_TEXT], freed[128], time[LIMPET_UNITS_TEXT], until[64] = "";
	LIMPET_FREE char *words = NULL;

	if (!who)
		return NULL;
	limpet_units_format_bytes(bytes, finding->bytes);
	if (it->model->target->pages)
		return print("%s first touched %s more.", who, bytes);
	if (rise)
		snprintf(until, sizeof(until), " until %s and stayed there",
			 limpet_units_format_duration(time, sum->ended_ns));
	words = print("%s %s by %s%s", who, rise ? "rose" : "grew", bytes, until);
	format_freed(sum, finding->kind, freed, sizeof(freed));
	return words ? limpet_evidence_sentence(&finding->culprit, words, freed, lost) : NULL;
}

/* Other functions that grow. */
static int find_further_growth(struct limpet_evidence *it, struct limpet_candidates *candidates)
{
	for (unsigned i = 0; i < FURTHER; i++) {
		const struct limpet_growth_sum *all = &it->growth.sums[LIMPET_GROWTH_ALL];
		struct limpet_candidate one = candidate_of(&rules[RULE_FURTHER], 0);
		struct limpet_growth_sum sum = {0};
		enum limpet_growth_of of = LIMPET_GROWTH_ALL;
		struct limpet_lost lost = {0};
		int code = limpet_culprit_find(it->view->locations, all->stacks,
					       it->view->site_count, &one.finding.culprit);

		if (code < 0 || !one.finding.culprit.node)
			return code;
		code = limpet_evidence_lost(it, &one.finding.culprit, all->stacks, &lost);
		if (code == 0)
			code = limpet_growth_extract(&it->growth, it->view, &one.finding.culprit,
						     &sum, &of);
		one.finding.kind = rule_of(of)->kind;
		one.finding.bytes = (uint64_t)sum.bytes;
		if (code < 0 || !is_enough(&rules[RULE_FURTHER], sum.bytes, it->all_growth.bytes) ||
		    (of == LIMPET_GROWTH_ALL && came_early(it, &sum))) {
			limpet_heap_finding_done(&one.finding);
			if (code < 0)
				return code;
			continue;
		}
		time_growth(it, &sum, &one.finding);
		judge_lost(&one, &lost);
		one.finding.text = format_further(it, &one.finding, &sum, &lost);
		one.finding.evidence = format_growth_figures(it, &sum);
		code = limpet_candidates_add(candidates, &one);
		if (code < 0)
			return code;
	}
	return 0;
}

static int find_growth(struct limpet_evidence *it, struct limpet_candidates *candidates)
{
	int code;

	if (!it->growth.judged)
		return 0;
	code = find_first_growth(it, candidates);
	return code < 0 || !candidates->count ? code : find_further_growth(it, candidates);
}

/* ------------------------------------------------------------------ parts of resident memory */

/* Whether its blocks are in the trace: then what grows beside them is free. */
static bool is_followed(const struct limpet_evidence *it, const struct limpet_part *part)
{
	char name[64];

	snprintf(name, sizeof(name), "%.*s", (int)strcspn(part->words, "'"), part->words);
	return strstr(it->model->target->allocators, name);
}

static const struct rule *rule_of_part(const struct limpet_evidence *it,
				       const struct limpet_part *part)
{
	switch (part->class) {
	case LIMPET_PART_RUNTIME:
		return &rules[RULE_RUNTIME];
	case LIMPET_PART_STACKS:
		return &rules[RULE_STACKS];
	case LIMPET_PART_MAPPED:
		return &rules[RULE_FILE];
	case LIMPET_PART_ANONYMOUS:
		return &rules[RULE_MAPPING];
	case LIMPET_PART_ALLOCATOR:
		return &rules[part->free_known || is_followed(it, part) ? RULE_FREE : RULE_MAPPING];
	case LIMPET_PART_CODE:
		break; /* a program touches more of its code as it goes */
	}
	return NULL;
}

/* Of an allocator: without the blocks that are known to have come. */
static double change_of(const struct limpet_evidence *it, const struct limpet_part *part)
{
	const double change = (double)limpet_part_change(part);

	if (part->class != LIMPET_PART_ALLOCATOR)
		return change;
	if (part->free_known)
		return fmin(change, (double)part->free_bytes - (double)part->free_before_bytes);
	return change - fmax(0, it->live_change);
}

/* Who mapped what is left. */
static int find_mapper(const struct limpet_evidence *it, struct limpet_culprit *ret)
{
	const struct limpet_model *model = it->model;
	LIMPET_FREE struct limpet_culprit_stack *stacks =
		calloc(model->map_count + 1, sizeof(*stacks));

	if (!stacks)
		return -ENOMEM;
	for (size_t i = 0; i < model->map_count; i++)
		stacks[i] = (struct limpet_culprit_stack){model->maps[i].node,
							  (double)model->maps[i].mapped_bytes,
							  model->maps[i].mmaps};
	return limpet_culprit_find(it->view->locations, stacks, model->map_count, ret);
}

static const char *capital(const char *words, char *ret, size_t room)
{
	snprintf(ret, room, "%s", words);
	if (!strncmp(ret, "the ", 4) || !strchr(words, '\''))
		ret[0] = (char)toupper(ret[0]);
	return ret;
}

/* `who`: "", or who mapped it, with what is before it. */
static char *format_stacks(const struct limpet_part *part, const char *bytes, const char *time,
			   const char *all, const char *who)
{
	const bool idle = part->idle_count > part->count / 2;

	return print("Thread stacks grew by %s in %s, to %s in %llu%s%s%s.", bytes, time, all,
		     (unsigned long long)part->count, idle ? ", most of them " : "",
		     idle ? part->idle : "", who);
}

/* "18.0 k more closures of onTick (leaks.js:2)"; malloc'ed. */
static char *format_objects(const struct limpet_object_growth *growth)
{
	const struct limpet_object_row *row = growth->row;
	const char *file = row->script[0] ? limpet_base_name(row->script) : NULL;
	char count[LIMPET_UNITS_TEXT], place[LIMPET_OBJECT_SCRIPT_BYTES + 16] = "";

	limpet_units_format_count(count, growth->count);
	if (file && row->line)
		snprintf(place, sizeof(place), "%s:%u", file, row->line);
	if (row->kind == LIMPET_OBJECT_CLOSURES && row->name[0] == '(')
		return print("%s more closures %s%s", count, place[0] ? "made at " : "of V8's own",
			     place);
	return print("%s more %s%s%s%s%s", count,
		     row->kind == LIMPET_OBJECT_CLOSURES ? "closures of " : "of ", row->name,
		     place[0] ? " (" : "", place, place[0] ? ")" : "");
}

/* The objects that became more; those of the program's own code say whose they are. NULL without an
 * error: it is not known. */
static int name_objects(const struct limpet_evidence *it, struct limpet_heap_finding *finding,
			char **ret_words)
{
	const struct limpet_objects_grown grown = limpet_object_growth_find(it->model);
	const struct limpet_object_growth *named = grown.own.row ? &grown.own : &grown.most;
	LIMPET_FREE char *own = NULL, *most = NULL;

	*ret_words = NULL;
	if (!grown.most.row)
		return 0;
	finding->culprit.function = strdup(named->row->name);
	finding->culprit.file = named->row->script[0] ? limpet_base_name(named->row->script) : NULL;
	finding->culprit.line = named->row->line;
	own = format_objects(named);
	most = format_objects(&grown.most);
	if (!finding->culprit.function || !own || !most)
		return -ENOMEM;
	*ret_words = named == &grown.most || grown.own_share >= OWN_SHARE
			     ? strdup(own)
			     : print("%s, and %s", most, own);
	return *ret_words ? 0 : -ENOMEM;
}

static char *format_part(const struct limpet_evidence *it, const struct limpet_candidate *one,
			 const char *who)
{
	const struct limpet_part *part = one->part;
	char bytes[LIMPET_UNITS_TEXT], time[LIMPET_UNITS_TEXT], all[LIMPET_UNITS_TEXT];
	char name[64];

	limpet_units_format_bytes(bytes, one->finding.bytes);
	limpet_units_format_bytes(all, part->bytes);
	limpet_units_format_duration(time, (uint64_t)(1e9 * it->seconds));
	capital(part->words, name, sizeof(name));
	switch (one->finding.kind) {
	case LIMPET_HEAP_STACKS:
		return format_stacks(part, bytes, time, all, who);
	case LIMPET_HEAP_RUNTIME:
		if (who[0])
			return print("JavaScript objects grew by %s in %s, to %s: %s.", bytes, time,
				     all, who);
		return print("%s grew by %s in %s, to %s: objects of the language, no leak of "
			     "native memory.",
			     name, bytes, time, all);
	case LIMPET_HEAP_FREE:
		return print("%s keeps %s more that are free than %s before, of %s.", part->words,
			     bytes, time, all);
	case LIMPET_HEAP_MAPPING:
		return print("%s grew by %s in %s, to %s%s.", name, bytes, time, all, who);
	default:
		return print("Resident pages of %s grew by %s in %s, to %s (%s).", part->words,
			     bytes, time, all, limpet_part_name(part));
	}
}

/* *ret_words: ", mapped by connect (pool.c:9)", or of V8's heap the objects, or "" if that is not
 * known. */
static int name_maker(const struct limpet_evidence *it, const struct limpet_part *part,
		      struct limpet_heap_finding *finding, char **ret_words)
{
	LIMPET_FREE char *who = NULL;
	int code = 0;

	if (finding->kind == LIMPET_HEAP_RUNTIME) {
		code = limpet_begins(part->words, "V8") ? name_objects(it, finding, ret_words) : 0;
		if (code < 0 || *ret_words)
			return code;
	}
	if ((finding->kind == LIMPET_HEAP_MAPPING || finding->kind == LIMPET_HEAP_STACKS) &&
	    it->model->totals.mapped_bytes >= finding->bytes / 2)
		code = find_mapper(it, &finding->culprit);
	if (code < 0)
		return code;
	if (!finding->culprit.node) {
		*ret_words = strdup("");
		return *ret_words ? 0 : -ENOMEM;
	}
	who = limpet_culprit_words(&finding->culprit, true);
	*ret_words = who ? print(", %s by %s",
				 finding->kind == LIMPET_HEAP_STACKS ? "made" : "mapped", who)
			 : NULL;
	return *ret_words ? 0 : -ENOMEM;
}

static int find_parts(struct limpet_evidence *it, struct limpet_candidates *candidates)
{
	const double rss = limpet_evidence_rss(it);
	int code = 0;

	for (size_t i = 0; it->parts.has_before && i < it->parts.count && code == 0; i++) {
		const struct limpet_part *part = &it->parts.list[i];
		const struct rule *rule = rule_of_part(it, part);
		const double change = change_of(it, part);
		struct limpet_candidate one;
		LIMPET_FREE char *who = NULL;

		if (!rule || !is_enough(rule, change, rss))
			continue;
		one = candidate_of(rule, change);
		one.part = part;
		code = name_maker(it, part, &one.finding, &who);
		if (code < 0)
			break;
		one.finding.text = format_part(it, &one, who);
		code = limpet_candidates_add(candidates, &one);
	}
	return code;
}

/* Native memory may grow by objects that hold it, which are no growth of V8's heap to speak of. */
static int find_holding_objects(struct limpet_evidence *it, struct limpet_candidates *candidates)
{
	struct limpet_candidate one = candidate_of(&rules[RULE_OBJECTS], 0);
	struct limpet_objects_grown grown;
	LIMPET_FREE char *words = NULL;
	int code;

	for (size_t i = 0; i < candidates->count; i++)
		if (candidates->list[i].finding.kind == LIMPET_HEAP_RUNTIME)
			return 0;
	grown = limpet_object_growth_find(it->model);
	if (!candidates->count || !grown.most.row ||
	    (!grown.own.row && !is_enough(&rules[RULE_OBJECTS], (double)grown.most.bytes,
					  (double)candidates->list[0].finding.bytes)))
		return 0;
	code = name_objects(it, &one.finding, &words);
	if (code < 0) {
		limpet_heap_finding_done(&one.finding);
		return code;
	}
	one.finding.bytes = grown.own.row ? grown.own.bytes : grown.most.bytes;
	one.finding.text = print("JavaScript objects meanwhile: %s.", words);
	return limpet_candidates_add(candidates, &one);
}

static int find_lost(struct limpet_evidence *it, struct limpet_candidates *candidates)
{
	const struct rule *rule = &rules[RULE_LOST];

	return limpet_candidates_find_lost(it, rule->least_bytes, rule->least_share, rule->weight,
					   candidates);
}

/* Mappings that are there, but for those of parts whose growth was found. */
static int find_mapped(struct limpet_evidence *it, struct limpet_candidates *candidates)
{
	const struct limpet_model_totals *totals = &it->model->totals;
	const double mapped = (double)totals->mapped_bytes;
	struct limpet_candidate one = candidate_of(&rules[RULE_MAPPED], mapped);
	char bytes[LIMPET_UNITS_TEXT], calls[LIMPET_UNITS_TEXT];
	LIMPET_FREE char *who = NULL;
	double unsaid = mapped;
	int code;

	for (size_t i = 0; i < candidates->count; i++)
		if (candidates->list[i].part)
			unsaid -= (double)limpet_part_change(candidates->list[i].part);
	if (!is_enough(&rules[RULE_MAPPED], unsaid, mapped + (double)totals->live_bytes))
		return 0;
	code = name_maker(it, NULL, &one.finding, &who);
	if (code < 0)
		return code;
	one.finding.share = mapped / (mapped + (double)totals->live_bytes);
	one.finding.text = print(
		"%s of mappings that were made in the capture are left%s (%s call%s).",
		limpet_units_format_bytes(bytes, totals->mapped_bytes), who,
		limpet_units_format_count(calls, totals->mmaps), totals->mmaps == 1 ? "" : "s");
	return limpet_candidates_add(candidates, &one);
}

static int find_sparse(struct limpet_evidence *it, struct limpet_candidates *candidates)
{
	const struct rule *rule = &rules[RULE_SPARSE];

	return limpet_candidates_find_sparse(it, rule->least_bytes, rule->least_share, candidates);
}

/* ------------------------------------------------------------------ blocks */

int limpet_evidence_holder(const struct limpet_evidence *it, bool peak, struct limpet_culprit *ret)
{
	const struct limpet_view *view = it->view;
	LIMPET_FREE struct limpet_culprit_stack *stacks =
		calloc(view->site_count + 1, sizeof(*stacks));

	if (!stacks)
		return -ENOMEM;
	for (size_t i = 0; i < view->site_count; i++) {
		const struct limpet_model_site *site = &view->sites[i];

		stacks[i] = (struct limpet_culprit_stack){
			site->node, (double)(peak ? site->peak_bytes : site->live_bytes),
			site->allocations};
	}
	return limpet_culprit_find(view->locations, stacks, view->site_count, ret);
}

static int find_holder(struct limpet_evidence *it, struct limpet_candidates *candidates)
{
	const struct limpet_model_totals *totals = &it->model->totals;
	/* A program captured to its end is judged at its peak. */
	const bool peak = it->model->target->mode == LIMPET_MODE_RUN;
	const double whole = (double)(peak ? totals->peak_bytes : totals->live_bytes);
	struct limpet_candidate one = candidate_of(&rules[RULE_HOLDS], 0);
	LIMPET_FREE char *who = NULL;
	char bytes[LIMPET_UNITS_TEXT], all[LIMPET_UNITS_TEXT];
	int code = limpet_evidence_holder(it, peak, &one.finding.culprit);

	if (code < 0 || !one.finding.culprit.node ||
	    !is_enough(&rules[RULE_HOLDS], one.finding.culprit.share * whole, whole) ||
	    !is_enough(&rules[RULE_RISE], one.finding.culprit.share * whole,
		       limpet_evidence_rss(it))) {
		limpet_heap_finding_done(&one.finding);
		return code;
	}
	one.finding.share = one.finding.culprit.share;
	one.finding.bytes = (uint64_t)(one.finding.share * whole);
	limpet_units_format_bytes(bytes, one.finding.bytes);
	limpet_units_format_bytes(all, (uint64_t)whole);
	who = limpet_culprit_words(&one.finding.culprit, false);
	if (who && it->model->target->pages)
		one.finding.text =
			print("%s first touched %s of %s of new pages that are resident.", who,
			      bytes, all);
	else if (who)
		one.finding.text = print("%s %s %s of %s that %s.", who, peak ? "held" : "holds",
					 bytes, all, peak ? "were live at the peak" : "are live");
	return limpet_candidates_add(candidates, &one);
}

struct churn {
	double allocations, bytes, temporary;
};

static int add_up_churn(const struct limpet_view *view, struct limpet_culprit *ret_culprit,
			struct churn *ret)
{
	LIMPET_FREE struct limpet_culprit_stack *stacks =
		calloc(view->site_count + 1, sizeof(*stacks));
	LIMPET_FREE bool *marks = calloc(view->site_count + 1, sizeof(*marks));
	int code = stacks && marks ? 0 : -ENOMEM;

	for (size_t i = 0; code == 0 && i < view->site_count; i++) {
		const struct limpet_model_site *site = &view->sites[i];
		const uint64_t blocks = limpet_model_site_blocks(site);
		const bool is_freed = blocks && (double)limpet_model_site_ended(site) >=
							FREED_SHARE * (double)blocks;

		stacks[i] = (struct limpet_culprit_stack){
			site->node, is_freed ? (double)site->allocations : 0, site->allocations};
	}
	if (code == 0)
		code = limpet_culprit_find(view->locations, stacks, view->site_count, ret_culprit);
	if (code == 0)
		code = limpet_culprit_mark(view->locations, ret_culprit, stacks, view->site_count,
					   marks);
	for (size_t i = 0; code == 0 && i < view->site_count; i++) {
		ret->allocations += marks[i] ? stacks[i].weight : 0;
		if (!marks[i] || !stacks[i].weight)
			continue;
		ret->bytes += (double)view->sites[i].allocated_bytes;
		ret->temporary += (double)view->sites[i].temporary_allocations;
	}
	return code;
}

static char *format_churn(const struct limpet_evidence *it,
			  const struct limpet_heap_finding *finding, double rate)
{
	LIMPET_FREE char *who = limpet_culprit_words(&finding->culprit, false);
	char calls[LIMPET_UNITS_TEXT];

	limpet_units_format_rate(calls, (uint64_t)rate);
	return !who ? NULL
		    : print(it->model->target->pages
				    ? "%s touches %.0f %% of all new pages, %s; nearly "
				      "all are returned again."
				    : "%s makes %.0f %% of all allocations, %s; nearly "
				      "all are freed again.",
			    who, 100 * finding->share, calls);
}

static int find_churn(struct limpet_evidence *it, struct limpet_candidates *candidates)
{
	const double all = (double)it->model->totals.allocations;
	struct limpet_candidate one = candidate_of(&rules[RULE_CHURNS], 0);
	struct churn churn = {0};
	char bytes[LIMPET_UNITS_TEXT];
	int code = add_up_churn(it->view, &one.finding.culprit, &churn);

	/* `least_bytes` is of calls a second. */
	if (code < 0 || !one.finding.culprit.node ||
	    churn.allocations < rules[RULE_CHURNS].least_bytes * it->seconds ||
	    churn.allocations < rules[RULE_CHURNS].least_share * all) {
		limpet_heap_finding_done(&one.finding);
		return code;
	}
	one.finding.bytes = (uint64_t)churn.bytes;
	one.finding.share = churn.allocations / all;
	one.finding.text = format_churn(it, &one.finding, churn.allocations / it->seconds);
	one.finding.evidence =
		print("%s a second; %.0f %% freed before the next allocation",
		      limpet_units_format_bytes(bytes, (uint64_t)(churn.bytes / it->seconds)),
		      100 * churn.temporary / churn.allocations);
	return limpet_candidates_add(candidates, &one);
}

/* ------------------------------------------------------------------ all */

/* Those that weigh something first; the others as they are found. */
static void sort(struct limpet_candidates *candidates)
{
	struct limpet_candidate *list = candidates->list;

	for (size_t i = 1; i < candidates->count; i++) {
		const struct limpet_candidate one = list[i];
		size_t at = i;

		for (; at > 0 && list[at - 1].weight < one.weight; at--)
			list[at] = list[at - 1];
		list[at] = one;
	}
}

int limpet_candidates_find(struct limpet_evidence *evidence,
			   struct limpet_candidates *ret_candidates)
{
	static int (*const finders[])(struct limpet_evidence *, struct limpet_candidates *) = {
		find_growth, find_parts,  find_holding_objects, find_lost,
		find_mapped, find_sparse, find_holder,          find_churn,
	};
	struct limpet_candidates candidates = {0};
	int code = 0;

	for (size_t i = 0; i < LIMPET_COUNT_OF(finders) && code == 0; i++)
		code = finders[i](evidence, &candidates);
	if (code < 0) {
		limpet_candidates_done(&candidates);
		return code;
	}
	sort(&candidates);
	*ret_candidates = candidates;
	return 0;
}
