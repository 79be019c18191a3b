#include "analyzer/views/verdict.h"

#include <ctype.h>
#include <errno.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "analyzer/views/culprit.h"
#include "analyzer/views/growth.h"
#include "analyzer/views/resident_parts.h"
#include "common/array.h"
#include "common/units.h"

const char *const limpet_verdict_words[LIMPET_VERDICT_KINDS] = {
	[LIMPET_VERDICT_STEADY] = "steady",   [LIMPET_VERDICT_LEAK] = "leak",
	[LIMPET_VERDICT_GROWTH] = "growth",   [LIMPET_VERDICT_RISE] = "rise",
	[LIMPET_VERDICT_RUNTIME] = "runtime", [LIMPET_VERDICT_FREE] = "free",
	[LIMPET_VERDICT_FILE] = "file",       [LIMPET_VERDICT_STACKS] = "stacks",
	[LIMPET_VERDICT_MAPPING] = "mapping"};

/* Less than this is not growth of a heap. */
#define LEAST_HEAP_BYTES (64u << 10)
/* Of a swing of all live bytes: what rose by less may be a part of it. */
#define SWING_SHARE 0.25
/* Fewer blocks that are kept are no evidence. */
#define KEPT_BLOCKS 16u
/* Of what came, blocks from before that went: less leaves growth in any case. */
#define REPLACED_SHARE 0.5
/* A rise that ended matters from this share of resident memory on, growth that goes on always. */
#define RISE_SHARE 0.01
#define EARLY_SHARE 0.125
/* Growth that goes on weighs more than what was once, or may be a collector's late. */
#define GOING_ON_WEIGHT 4
#define KEPT_WEIGHT 12
/* Change of a part of resident memory: the kernel counts in batches, collectors come late. */
#define LEAST_PART_BYTES (1u << 20)
#define PART_SHARE 0.03
#define FREE_CHANGE_SHARE 0.1 /* what is kept free changes with the load */
/* What lies there, if nothing grows. */
#define FREE_SHARE 0.3
#define FILE_SHARE 0.4
#define STACKS_SHARE 0.25
#define OLD_SHARE 0.5
#define LEAST_THERE_BYTES (8u << 20)

enum { SENTENCE = 512 };

struct evidence {
	const struct limpet_view *view;
	const struct limpet_model *model;
	const char *file;
	struct limpet_growth growth;
	struct limpet_parts parts;
	struct limpet_culprit maps; /* who mapped what is left */
	double live_change;         /* of all blocks, those from before included */
	double seconds;
};
/* What the verdict is about. */
struct matter {
	enum limpet_verdict_kind kind;
	double bytes, weight;
	const struct limpet_part *part;      /* NULL: blocks */
	const struct limpet_growth_sum *sum; /* the blocks */
};

static double rss_of(const struct evidence *it)
{
	return (double)(it->parts.bytes ? it->parts.bytes : it->parts.before_bytes);
}

/* ------------------------------------------------------------------ what grows */

/* Of all allocators. */
static double in_use_change(const struct evidence *it)
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
static bool is_replaced(const struct evidence *it, const struct limpet_growth_sum *sum)
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

/* A cache that was filled as the capture began says nothing of what comes. */
static bool came_early(const struct evidence *it, const struct limpet_growth_sum *sum)
{
	return (double)(sum->ended_ns - it->model->from_ns) < EARLY_SHARE * 1e9 * it->seconds;
}

static void weigh_sum(const struct evidence *it, enum limpet_growth_of of, struct matter *most)
{
	static const struct {
		enum limpet_verdict_kind kind;
		double weight;
	} kinds[LIMPET_GROWTH_SUMS] = {
		[LIMPET_GROWTH_KEPT] = {LIMPET_VERDICT_LEAK, KEPT_WEIGHT},
		[LIMPET_GROWTH_ON] = {LIMPET_VERDICT_GROWTH, GOING_ON_WEIGHT},
		[LIMPET_GROWTH_ALL] = {LIMPET_VERDICT_RISE, 1},
	};
	const struct limpet_growth_sum *sum = &it->growth.sums[of];
	struct matter blocks = {.kind = kinds[of].kind, .bytes = sum->bytes, .sum = sum};

	if (sum->bytes < LEAST_HEAP_BYTES || is_replaced(it, sum) ||
	    (of == LIMPET_GROWTH_KEPT && sum->allocations < KEPT_BLOCKS) ||
	    (of != LIMPET_GROWTH_KEPT && sum->bytes < SWING_SHARE * it->growth.swing_bytes) ||
	    (of == LIMPET_GROWTH_ALL &&
	     (sum->bytes < RISE_SHARE * rss_of(it) || came_early(it, sum))))
		return;
	/* One that is reallocated goes on, with what it had before. */
	if (of != LIMPET_GROWTH_KEPT &&
	    (double)it->model->totals.foreign_freed_bytes < REPLACED_SHARE * sum->bytes)
		blocks.bytes -= (double)it->model->totals.foreign_freed_bytes;
	blocks.weight = blocks.bytes * kinds[of].weight;
	if (blocks.weight > most->weight)
		*most = blocks;
}

static enum limpet_verdict_kind kind_of(const struct limpet_part *part)
{
	switch (part->class) {
	case LIMPET_PART_RUNTIME:
		return LIMPET_VERDICT_RUNTIME;
	case LIMPET_PART_STACKS:
		return LIMPET_VERDICT_STACKS;
	case LIMPET_PART_MAPPED:
		return LIMPET_VERDICT_FILE;
	case LIMPET_PART_ANONYMOUS:
		return LIMPET_VERDICT_MAPPING;
	case LIMPET_PART_ALLOCATOR:
	case LIMPET_PART_CODE:
		break;
	}
	return LIMPET_VERDICT_FREE;
}

/* Of an allocator: without the blocks that are known to have come. */
static double change_of(const struct evidence *it, const struct limpet_part *part)
{
	const double change = (double)limpet_part_change(part);

	if (part->class == LIMPET_PART_CODE)
		return 0; /* a program touches more of its code as it goes */
	if (part->class != LIMPET_PART_ALLOCATOR)
		return change;
	if (part->free_known)
		return fmin(change, (double)part->free_bytes - (double)part->free_before_bytes);
	return change - fmax(0, it->live_change);
}

static void weigh_parts(const struct evidence *it, struct matter *most)
{
	const double least = fmax(LEAST_PART_BYTES, PART_SHARE * rss_of(it));

	for (size_t i = 0; it->parts.has_before && i < it->parts.count; i++) {
		const struct limpet_part *part = &it->parts.list[i];
		const double change = change_of(it, part);

		if (change >= (part->class == LIMPET_PART_ALLOCATOR ? FREE_CHANGE_SHARE * rss_of(it)
								    : 0) &&
		    change >= least && change > most->weight)
			*most = (struct matter){.kind = kind_of(part),
						.bytes = change,
						.weight = change,
						.part = part};
	}
}

/* ------------------------------------------------------------------ what lies there */

static double free_bytes(const struct limpet_parts *parts, const struct limpet_part **ret_most)
{
	double sum = 0;

	*ret_most = NULL;
	for (size_t i = 0; i < parts->count; i++) {
		const struct limpet_part *part = &parts->list[i];

		if (part->class != LIMPET_PART_ALLOCATOR || !part->free_known)
			continue;
		sum += (double)part->free_bytes;
		if (!*ret_most || part->free_bytes > (*ret_most)->free_bytes)
			*ret_most = part;
	}
	return sum;
}

/* Blocks of an allocator from before the capture, which it does not name. */
static const struct limpet_part *find_old(const struct evidence *it, double *ret_bytes)
{
	const struct limpet_parts *parts = &it->parts;

	for (size_t i = 0; parts->has_before && i < parts->count; i++) {
		const struct limpet_part *part = &parts->list[i];

		if (part->class != LIMPET_PART_ALLOCATOR)
			continue;
		*ret_bytes = (double)part->bytes - (double)part->free_bytes -
			     (double)it->model->totals.live_bytes;
		return *ret_bytes >= LEAST_THERE_BYTES && *ret_bytes >= OLD_SHARE * rss_of(it)
			       ? part
			       : NULL;
	}
	return NULL;
}

static struct matter what_lies_there(const struct evidence *it)
{
	const double rss = rss_of(it);
	const struct limpet_part *most;
	const double unused = free_bytes(&it->parts, &most);

	/* What is free for a moment is used again. */
	if (unused >= LEAST_THERE_BYTES && unused >= FREE_SHARE * rss &&
	    it->growth.swing_bytes < unused / 2)
		return (struct matter){.kind = LIMPET_VERDICT_FREE, .bytes = unused, .part = most};
	for (size_t i = 0; i < it->parts.count; i++) {
		const struct limpet_part *part = &it->parts.list[i];
		const double bytes = (double)part->bytes;

		if (bytes < LEAST_THERE_BYTES)
			continue;
		if ((part->class == LIMPET_PART_MAPPED && bytes >= FILE_SHARE * rss) ||
		    (part->class == LIMPET_PART_STACKS && bytes >= STACKS_SHARE * rss))
			return (struct matter){.kind = kind_of(part), .bytes = bytes, .part = part};
	}
	return (struct matter){.kind = LIMPET_VERDICT_STEADY, .part = NULL};
}

/* ------------------------------------------------------------------ the first sentence */

/* "remember (server.c:31), through strdup": NULL: no memory. */
static char *say_culprit(const struct limpet_culprit *culprit)
{
	char place[128] = "";
	char *text;

	if (!culprit->node)
		return strdup("functions without a name");
	if (culprit->file && culprit->line)
		snprintf(place, sizeof(place), " (%s:%u)", culprit->file, culprit->line);
	else if (culprit->caller)
		snprintf(place, sizeof(place), " (called by %s)", culprit->caller);
	return asprintf(&text, "%s%s%s%s", culprit->function, place,
			culprit->via ? ", through " : "", culprit->via ?: "") < 0
		       ? NULL
		       : text;
}

static void say_freed(const struct matter *matter, char *ret, size_t room)
{
	const struct limpet_growth_sum *sum = matter->sum;
	char count[LIMPET_UNITS_TEXT];

	limpet_units_format_count(count, sum->allocations);
	if (!sum->frees)
		snprintf(ret, room, "none of %s blocks was freed", count);
	else if (matter->kind == LIMPET_VERDICT_LEAK)
		snprintf(ret, room, "hardly any of %s blocks was freed", count);
	else
		snprintf(ret, room, "%s block%s %s live",
			 limpet_units_format_count(count, sum->live_blocks),
			 sum->live_blocks == 1 ? "" : "s", sum->live_blocks == 1 ? "is" : "are");
}

static char *say_blocks(const struct evidence *it, const struct matter *matter)
{
	const struct limpet_growth_sum *sum = matter->sum;
	const bool rise = matter->kind == LIMPET_VERDICT_RISE;
	LIMPET_FREE char *who = say_culprit(&sum->culprit);
	char bytes[LIMPET_UNITS_TEXT], time[LIMPET_UNITS_TEXT], freed[128], share[64] = "";
	char *text;

	if (!who)
		return NULL;
	limpet_units_format_bytes(bytes, (uint64_t)matter->bytes);
	if (it->model->target->pages)
		return asprintf(&text, "%s more of new pages are resident, first touched under %s.",
				bytes, who) < 0
			       ? NULL
			       : text;
	limpet_units_format_duration(time, rise ? sum->ended_ns : (uint64_t)(1e9 * it->seconds));
	say_freed(matter, freed, sizeof(freed));
	if (sum->culprit.node && sum->culprit.share < 0.8)
		snprintf(share, sizeof(share), "%.0f %% of it ", 100 * sum->culprit.share);
	return asprintf(&text, "Live memory %s by %s %s %s%s, %sunder %s: %s.",
			rise ? "rose" : "grew", bytes, rise ? "until" : "in", time,
			rise ? " and stayed there" : "", share, who, freed) < 0
		       ? NULL
		       : text;
}

static const char *capital(const char *words, char *ret, size_t room)
{
	snprintf(ret, room, "%s", words);
	if (!strncmp(ret, "the ", 4) || !strchr(words, '\''))
		ret[0] = (char)toupper(ret[0]);
	return ret;
}

/* Of its largest row: "file data.mdb", "POSIX, /dev/shm". */
static const char *short_name(const struct limpet_part *part)
{
	const char *colon = part->name ? strstr(part->name, ": ") : NULL;

	return colon ? colon + 2 : part->name ?: part->words;
}

/* Whether mappings that the capture saw are most of what grew. */
static bool is_mapped_by(const struct evidence *it, const struct matter *matter)
{
	return it->maps.node && (double)it->model->totals.mapped_bytes >= matter->bytes / 2;
}

static char *say_part(const struct evidence *it, const struct matter *matter)
{
	const struct limpet_part *part = matter->part;
	LIMPET_FREE char *who = NULL;
	char bytes[LIMPET_UNITS_TEXT], time[LIMPET_UNITS_TEXT], all[LIMPET_UNITS_TEXT];
	char name[64];
	char *text;
	int code;

	limpet_units_format_bytes(bytes, (uint64_t)matter->bytes);
	limpet_units_format_bytes(all, part->bytes);
	limpet_units_format_duration(time, (uint64_t)(1e9 * it->seconds));
	switch (matter->kind) {
	case LIMPET_VERDICT_RUNTIME:
		code = asprintf(&text,
				"%s grew by %s in %s, to %s: objects of the language, no leak of "
				"native memory.",
				capital(part->words, name, sizeof(name)), bytes, time, all);
		break;
	case LIMPET_VERDICT_FREE:
		code = asprintf(&text, "%s keeps %s more that are free than %s before, of %s.",
				part->words, bytes, time, all);
		break;
	case LIMPET_VERDICT_MAPPING:
		who = is_mapped_by(it, matter) ? say_culprit(&it->maps) : NULL;
		code = asprintf(&text, "%s grew by %s in %s, to %s%s%s.",
				capital(part->words, name, sizeof(name)), bytes, time, all,
				who ? ", mapped by " : "", who ?: "");
		break;
	case LIMPET_VERDICT_STACKS:
		who = is_mapped_by(it, matter) ? say_culprit(&it->maps) : NULL;
		code = asprintf(&text, "Thread stacks grew by %s in %s, to %s in %llu%s%s%s%s.",
				bytes, time, all, (unsigned long long)part->count,
				part->idle_count > part->count / 2 ? ", most of them " : "",
				part->idle_count > part->count / 2 ? part->idle : "",
				who ? ", made by " : "", who ?: "");
		break;
	default:
		code = asprintf(&text, "Resident pages of %s grew by %s in %s, to %s (%s).",
				part->words, bytes, time, all, short_name(part));
		break;
	}
	return code < 0 ? NULL : text;
}

/* What was not seen may grow. */
static const char *nothing_grows(const struct evidence *it)
{
	return it->model->complete && it->model->target->unseen_rss_share <= 0 &&
			       !limpet_model_unfollowed(it->model).matters
		       ? "Nothing grows"
		       : "Nothing that was recorded grows";
}

static char *say_there(const struct evidence *it, const struct matter *matter)
{
	const struct limpet_part *part = matter->part;
	char bytes[LIMPET_UNITS_TEXT], rss[LIMPET_UNITS_TEXT];
	char *text;
	int code;

	limpet_units_format_bytes(bytes, (uint64_t)matter->bytes);
	limpet_units_format_bytes(rss, (uint64_t)rss_of(it));
	if (matter->kind == LIMPET_VERDICT_FREE)
		code = asprintf(&text, "%s; %s of %s resident are free inside %s.",
				nothing_grows(it), bytes, rss, part->words);
	else if (matter->kind == LIMPET_VERDICT_STACKS)
		code = asprintf(&text, "%s; %s of %s resident are %llu thread stacks.",
				nothing_grows(it), bytes, rss, (unsigned long long)part->count);
	else
		code = asprintf(&text, "%s; %s of %s resident are %s (%s).", nothing_grows(it),
				bytes, rss, part->words, short_name(part));
	return code < 0 ? NULL : text;
}

/* Who holds most of what is live, or of what was at the peak. */
static int find_holder(const struct evidence *it, bool peak, struct limpet_culprit *ret)
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

/* ", 62 % of it under NAME", or nothing if it is little. NULL: no memory. */
static char *say_holder(const struct evidence *it, bool peak, uint64_t bytes)
{
	struct limpet_culprit holder = {0};
	LIMPET_FREE char *who = NULL;
	char *text = NULL;

	if (bytes < LEAST_HEAP_BYTES)
		return strdup("");
	if (find_holder(it, peak, &holder) < 0)
		return NULL;
	who = say_culprit(&holder);
	if (who && asprintf(&text, ", %.0f %% of it under %s", 100 * holder.share, who) < 0)
		text = NULL;
	limpet_culprit_done(&holder);
	return text;
}

static char *say_unjudged(const struct evidence *it, const char *time, const char *holder)
{
	const struct limpet_model_totals *totals = &it->model->totals;
	char live[LIMPET_UNITS_TEXT], at[LIMPET_UNITS_TEXT];
	char *text;
	int code;

	if (it->model->target->mode == LIMPET_MODE_RUN)
		code = asprintf(&text, "At most %s were live, at %s%s.",
				limpet_units_format_bytes(live, totals->peak_bytes),
				limpet_units_format_duration(at, totals->peak_ns), holder);
	else
		code = asprintf(&text, "%s %s to tell what grows; %s is live%s.", time,
				it->seconds < 4 ? "is too short" : "tells too little",
				limpet_units_format_bytes(live, totals->live_bytes), holder);
	return code < 0 ? NULL : text;
}

/* Of a program that was captured to its end, or too short, the peak or what is live. */
static char *say_calm(const struct evidence *it)
{
	const struct limpet_model_totals *totals = &it->model->totals;
	const bool peak = it->model->target->mode == LIMPET_MODE_RUN;
	LIMPET_FREE char *holder =
		say_holder(it, peak, peak ? totals->peak_bytes : totals->live_bytes);
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
		return say_unjudged(it, time, holder);
	if (it->growth.sums[LIMPET_GROWTH_ALL].bytes >= LEAST_HEAP_BYTES &&
	    is_replaced(it, &it->growth.sums[LIMPET_GROWTH_ALL]))
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

static char *say_steady(const struct evidence *it)
{
	double old_bytes;
	const struct limpet_part *old = find_old(it, &old_bytes);
	char bytes[LIMPET_UNITS_TEXT], time[LIMPET_UNITS_TEXT];
	char *text;
	int code;

	limpet_units_format_duration(time, (uint64_t)(1e9 * it->seconds));
	if (old && it->growth.swing_bytes < old_bytes / 4 && !it->model->target->pages)
		code = asprintf(&text, "%s in %s; %s in use in %s are older than the capture.",
				nothing_grows(it), time,
				limpet_units_format_bytes(bytes, (uint64_t)old_bytes), old->words);
	else if (!it->model->totals.events)
		code = asprintf(&text,
				it->model->target->pages ? "No new page was touched in %s."
							 : "Nothing was allocated or freed in %s.",
				time);
	else
		return say_calm(it);
	return code < 0 ? NULL : text;
}

static char *say_first(const struct evidence *it, const struct matter *matter)
{
	if (!matter->weight)
		return matter->part ? say_there(it, matter) : say_steady(it);
	if (matter->part)
		return say_part(it, matter);
	return matter->sum ? say_blocks(it, matter) : say_steady(it);
}

/* ------------------------------------------------------------------ the second and third */

static void say_one_part(FILE *file, const struct limpet_parts *parts,
			 const struct limpet_part *part)
{
	const int64_t change = limpet_part_change(part);
	char bytes[LIMPET_UNITS_TEXT], more[LIMPET_UNITS_TEXT];
	const char *open = " (";

	fprintf(file, "%s %s", part->words, limpet_units_format_bytes(bytes, part->bytes));
	if (parts->has_before && (uint64_t)llabs(change) >= parts->bytes / 100 && change) {
		fprintf(file, "%s%s", open, limpet_units_format_bytes_change(more, change));
		open = ", ";
	}
	if (part->free_known && part->free_bytes >= parts->bytes / 20) {
		fprintf(file, "%s%s free", open, limpet_units_format_bytes(more, part->free_bytes));
		open = ", ";
	}
	fputs(open[0] == ',' ? ")" : "", file);
}

/* NULL without an error: it is not known. */
static int say_parts(const struct evidence *it, char **ret)
{
	enum { SAID = 4 };
	const struct limpet_parts *parts = &it->parts;
	const uint64_t least = parts->bytes / 20;
	char rss[LIMPET_UNITS_TEXT], others[LIMPET_UNITS_TEXT];
	uint64_t said = 0;
	size_t bytes, i;
	FILE *file;

	if (!parts->known || !parts->bytes)
		return 0;
	file = open_memstream(ret, &bytes);
	if (!file)
		return -ENOMEM;
	fprintf(file, "%s resident: ", limpet_units_format_bytes(rss, parts->bytes));
	for (i = 0; i < parts->count && i < SAID && parts->list[i].bytes >= least; i++) {
		fputs(i ? ", " : "", file);
		say_one_part(file, parts, &parts->list[i]);
		said += parts->list[i].bytes;
	}
	if (parts->bytes - said)
		fprintf(file, "%sothers %s", i ? ", " : "",
			limpet_units_format_bytes(others, parts->bytes - said));
	fputs(".", file);
	return fclose(file) ? -ENOMEM : 0;
}

/* What to type, by the part that matters: what stands before and after the pid. */
static const struct {
	const char *words, *before, *after; /* the last NULL: no pid */
} tools[] = {
	{"V8's heap (JavaScript)", "`kill -USR1 ",
	 "` opens node's inspector on loopback: compare two heap snapshots there."},
	{"the Java heap", "`jcmd ", " GC.class_histogram` counts its objects by class."},
	{"Python's arenas", "`limpet explain ",
	 " --census` counts its blocks; tracemalloc names lines."},
	{"Go's heap", "The heap profile of net/http/pprof names its functions.", NULL},
	{"thread stacks", "`limpet stacks ", "` shows where each thread stands."},
	{"anonymous mappings", "`limpet pages ", "` shows which functions touch them first."},
};

/* Whether it may be typed as it is. */
static bool is_word(const char *name)
{
	return name && name[strspn(name, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"
					 "0123456789_:.")] == '\0';
}

static int say_next(const struct evidence *it, const struct matter *matter, char **ret)
{
	char trimmed[LIMPET_UNITS_TEXT];
	double old_bytes;
	int code = 0;

	limpet_units_format_bytes(trimmed, it->parts.trimmed_bytes);
	if (matter->sum && it->file && is_word(matter->sum->culprit.function))
		code = asprintf(ret,
				"`limpet report %s --function %s` shows its callers and lines.",
				it->file, matter->sum->culprit.function);
	else if (matter->sum && it->file)
		code = asprintf(ret, "`limpet html %s` shows its stacks over time.", it->file);
	else if (matter->kind == LIMPET_VERDICT_FREE && it->parts.trimmed_bytes >= LEAST_PART_BYTES)
		code = asprintf(ret, "malloc_trim(0) in the program would give %s back at once.",
				trimmed);
	else if (matter->kind == LIMPET_VERDICT_STEADY && !matter->part && find_old(it, &old_bytes))
		code = asprintf(ret, "`limpet explain %u --census` counts its blocks by size.",
				it->model->target->pid);
	for (size_t i = 0; matter->part && !*ret && i < LIMPET_COUNT_OF(tools); i++)
		if (strcmp(tools[i].words, matter->part->words) != 0)
			continue;
		else if (tools[i].after)
			code = asprintf(ret, "%s%u%s", tools[i].before, it->model->target->pid,
					tools[i].after);
		else
			code = asprintf(ret, "%s", tools[i].before);
	return code < 0 ? -ENOMEM : 0;
}

/* ------------------------------------------------------------------ all */

static int find_maps(struct evidence *it)
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
	return limpet_culprit_find(it->view->locations, stacks, model->map_count, &it->maps);
}

static int write_verdict(const struct evidence *it, const struct matter *matter,
			 struct limpet_verdict *verdict)
{
	const struct limpet_culprit *culprit =
		matter->part && is_mapped_by(it, matter) &&
				(matter->kind == LIMPET_VERDICT_MAPPING ||
				 matter->kind == LIMPET_VERDICT_STACKS)
			? &it->maps
		: matter->sum ? &matter->sum->culprit
			      : NULL;
	int code;

	verdict->kind = matter->kind;
	verdict->bytes = (uint64_t)matter->bytes;
	verdict->sentences[0] = say_first(it, matter);
	code = verdict->sentences[0] ? say_parts(it, &verdict->sentences[1]) : -ENOMEM;
	if (code == 0)
		code = say_next(it, matter, &verdict->sentences[verdict->sentences[1] ? 2 : 1]);
	if (matter->sum) {
		verdict->from_ns = matter->sum->began_ns;
		verdict->to_ns = matter->kind == LIMPET_VERDICT_RISE ? matter->sum->ended_ns
								     : it->model->to_ns;
	}
	if (code < 0 || !culprit || !culprit->node)
		return code;
	verdict->node = culprit->node;
	verdict->culprit = strdup(culprit->function);
	return verdict->culprit ? 0 : -ENOMEM;
}

int limpet_verdict_new(const struct limpet_view *view, const struct limpet_history *history,
		       const char *file, struct limpet_verdict *ret_verdict)
{
	const struct limpet_model *model = view->locations->model;
	const struct limpet_model_totals *totals = &model->totals;
	struct evidence it = {
		.view = view,
		.model = model,
		.file = file,
		.live_change = (double)totals->growth_bytes - (double)totals->foreign_freed_bytes,
		.seconds = (double)(model->to_ns - model->from_ns) / 1e9,
	};
	struct limpet_verdict verdict = {0};
	struct matter matter = {.kind = LIMPET_VERDICT_STEADY};
	int code = limpet_growth_find(view, history, &it.growth);

	if (code == 0)
		code = find_maps(&it);
	if (code == 0) {
		limpet_parts_of(model, &it.parts);
		for (unsigned i = 0; it.growth.judged && i < LIMPET_GROWTH_SUMS; i++)
			weigh_sum(&it, (enum limpet_growth_of)i, &matter);
		weigh_parts(&it, &matter);
		if (!matter.weight)
			matter = what_lies_there(&it);
		code = write_verdict(&it, &matter, &verdict);
	}
	limpet_growth_done(&it.growth);
	limpet_culprit_done(&it.maps);
	if (code < 0) {
		limpet_verdict_done(&verdict);
		return code;
	}
	*ret_verdict = verdict;
	return 0;
}

void limpet_verdict_done(struct limpet_verdict *verdict)
{
	for (size_t i = 0; i < LIMPET_VERDICT_SENTENCES; i++)
		free(verdict->sentences[i]);
	free(verdict->culprit);
	*verdict = (struct limpet_verdict){0};
}
