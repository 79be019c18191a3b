/* Shared by the files that make findings. Internal to them. */
#ifndef LIMPET_ANALYZER_VIEWS_FINDINGS_WORK_H
#define LIMPET_ANALYZER_VIEWS_FINDINGS_WORK_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "analyzer/views/findings.h"
#include "common/units.h"

#define LIMPET_FINDINGS_PARTS 8u
/* Less is not reported. */
#define LIMPET_FINDINGS_LEAST_BYTES (64u << 10)
/* Of what is live, held by one function, at least. */
#define LIMPET_FINDINGS_HOLDS_SHARE 0.2

/* Stacks under one label whose blocks keep coming, and are hardly ever freed. */
struct limpet_findings_kept {
	struct limpet_model_site figures; /* sums; `node`: the stack with the most live bytes */
	uint64_t largest;
	size_t stacks;
	uint64_t first_ns;
	double growth[LIMPET_FINDINGS_PARTS]; /* as below */
};

/* All stacks under one label. */
struct limpet_findings_group {
	struct limpet_model_site figures; /* sums; `node`: the stack with the largest share */
	int64_t largest;
	size_t stacks;
	double growth[LIMPET_FINDINGS_PARTS]; /* bytes, in each eighth of the time */
	double blocks[LIMPET_FINDINGS_PARTS]; /* the same, in blocks */
	double late_growth;                   /* of `late_node`, in the second half */
	uint32_t late_node;                   /* the stack that grew most then; 0: none did */
	uint64_t first_ns; /* its first block was allocated no later; UINT64_MAX: not known */
	struct limpet_findings_kept kept; /* of its stacks, each by itself */
	struct limpet_findings_kept
		sure;   /* the same, of those of which no block was freed at all */
	bool told_once; /* a finding says that it grew at one moment */
};

struct limpet_findings_work {
	const struct limpet_view *view;
	const struct limpet_model *model;
	const struct limpet_history *history;
	struct limpet_findings *findings;
	struct limpet_findings_group *groups;
	size_t count;
	uint32_t *group_of; /* by number of the view's site */
	double seconds;     /* of the window */
	bool in_parts;      /* it is long enough, and its history by site is known */
	bool resident_said; /* a finding says that RSS grew */
};

static inline double limpet_findings_sum(const double *growth, unsigned from, unsigned to)
{
	double all = 0;

	for (unsigned i = from; i < to; i++)
		all += growth[i];
	return all;
}

/* Copies `finding` with a sentence. The list takes ownership of its function and caller, except on
 * -ENOMEM. */
int limpet_findings_add(struct limpet_findings_work *work,
			const struct limpet_findings_entry *finding, const char *format, ...)
	__attribute__((format(printf, 3, 4)));
/* Fills in node, function and caller. *ret_label is malloc'ed. On failure nothing is left
 * allocated. */
int limpet_findings_name(const struct limpet_findings_work *work, uint32_t node,
			 struct limpet_findings_entry *finding, char **ret_label);
void limpet_findings_forget_names(struct limpet_findings_entry *finding);
/* Negative bytes count as 0. */
const char *limpet_findings_bytes(char *ret, double bytes);
/* What else grew beside live bytes: " and mappings by 1 MiB", or ", mappings by 1 MiB, and pages of
 * files and shared memory by 2 MiB". Returns `ret`. */
#define LIMPET_FINDINGS_OTHERS (2 * LIMPET_UNITS_TEXT + 64)
const char *limpet_findings_others(char ret[LIMPET_FINDINGS_OTHERS], double mapped, double files);

/* The group with the most; NULL: there is none. */
const struct limpet_findings_group *limpet_findings_highest(const struct limpet_findings_work *work,
							    enum limpet_report_sort sort);
/* The group that makes a large part of all allocations (of pages: touches), if nearly all of them
 * are freed (returned) again; fills in *ret_finding but for names and text. NULL: there is none. */
const struct limpet_findings_group *limpet_findings_churner(
	const struct limpet_findings_work *work, struct limpet_findings_entry *ret_finding);

/* Adds to each finding how wrong it may be: findings_losses.c. */
int limpet_findings_qualify(struct limpet_findings_work *work);
/* Calls that were seen, but are not in the trace. */
uint64_t limpet_findings_lost_calls(const struct limpet_model *model);

/* Whether the path is that of a runtime's file, whose name may go on with a version. */
bool limpet_findings_is_file_of(const char *path, const char *file);

/* Of a trace of pages: findings_touched.c. */
int limpet_findings_find_touched(struct limpet_findings_work *work);
int limpet_findings_find_returned(struct limpet_findings_work *work);
int limpet_findings_find_keeper(struct limpet_findings_work *work);

/* By number and age, whatever their size: blocks keep coming, and hardly any is freed. */
bool limpet_findings_is_kept(const struct limpet_findings_work *work,
			     const struct limpet_findings_group *group);
/* Also where most blocks of its function are freed: many, all the time, and none of them freed. */
bool limpet_findings_is_surely_kept(const struct limpet_findings_work *work,
				    const struct limpet_findings_group *group);

/* Its growth in the second half. */
double limpet_findings_late_growth(const double *growth);

/* Finds functions that grew once and stayed so, of which nothing was told yet. */
int limpet_findings_find_steps(struct limpet_findings_work *work);
/* The part that a step of the history is of; LIMPET_FINDINGS_PARTS: it is outside of the window. */
unsigned limpet_findings_part_of_step(const struct limpet_findings_work *work, uint32_t step);

/* Finds sites that grow, other growth, or that nothing grows: findings_growth.c. */
int limpet_findings_find_growing(struct limpet_findings_work *work);

#endif
