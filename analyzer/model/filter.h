/* Which stacks and blocks a view includes: --include and --exclude, suppression files, and
 * --born-between.
 *
 * A pattern is an extended regular expression (POSIX), searched for in the function, file and
 * module of every frame; a prefix `function:`, `file:`, `module:` or `thread:` restricts it. For
 * each of these kinds with includes, one include must match; no exclude and no suppression may. A
 * pattern for threads must match the whole thread id, or, unless it is made of digits and signs
 * alone, is searched for in the thread's last name; a filter of threads, or of births, needs the
 * events (replay.h), all others work on sums. */
#ifndef LIMPET_ANALYZER_MODEL_FILTER_H
#define LIMPET_ANALYZER_MODEL_FILTER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "analyzer/model/source_locations.h"
#include "common/err.h"

struct limpet_filter;

/* NULL: out of memory. An empty filter keeps everything. */
struct limpet_filter *limpet_filter_new(void);
void limpet_filter_free(struct limpet_filter *filter);

/* Of patterns that are added from now on. */
void limpet_filter_ignore_case(struct limpet_filter *filter);
/* -EINVAL: not a regular expression; err says why. */
int limpet_filter_add(struct limpet_filter *filter, const char *pattern, bool exclude,
		      struct limpet_err *err) LIMPET_MUST_CHECK;
/* A file in LeakSanitizer's syntax: `leak:PATTERN` a line, `#` comments; PATTERN is searched for in
 * function, file and module, with `*`, and `^` and `$` at its ends. Lines for other sanitizers are
 * ignored. Returns the errors of opening it; -EINVAL: a line is neither. */
int limpet_filter_add_suppressions(struct limpet_filter *filter, const char *path,
				   struct limpet_err *err) LIMPET_MUST_CHECK;

bool limpet_filter_is_empty(const struct limpet_filter *filter);
bool limpet_filter_has_threads(const struct limpet_filter *filter);
/* Keeps only blocks and mappings that were made in [from_ns, to_ns), in the trace's ticks. to_ns
 * UINT64_MAX: no end. */
void limpet_filter_set_births(struct limpet_filter *filter, uint64_t from_ns, uint64_t to_ns);
/* Whether it has such limits; if not, the range contains all. */
bool limpet_filter_births(const struct limpet_filter *filter, uint64_t *ret_from_ns,
			  uint64_t *ret_to_ns);
bool limpet_filter_needs_events(const struct limpet_filter *filter);
/* `name`: its last one; "": not known. */
bool limpet_filter_keeps_thread(const struct limpet_filter *filter, uint32_t tid, const char *name);

/* For each node of the locations' model, whether its stack is kept. *ret_kept is malloc'ed.
 * -ENOMEM. */
int limpet_filter_nodes(const struct limpet_filter *filter,
			const struct limpet_locations *locations,
			bool **ret_kept) LIMPET_MUST_CHECK;

/* One pattern of a suppression file against one string. */
bool limpet_filter_suppresses(const char *pattern, const char *text);

#endif
