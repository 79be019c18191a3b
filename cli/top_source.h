/* The source of `limpet top`: a trace that is being written and is followed, or a finished one. A
 * finished trace is read once, and shows more: the peak, and what each thread holds. */
#ifndef LIMPET_CLI_TOP_SOURCE_H
#define LIMPET_CLI_TOP_SOURCE_H

#include <stdbool.h>
#include <stdint.h>

#include "analyzer/model/filter.h"
#include "analyzer/model/model.h"
#include "analyzer/model/replay.h"
#include "analyzer/views/view.h"
#include "common/err.h"

struct limpet_top_source;

/* Returns the errors of reading it. */
int limpet_top_source_open(const char *path, struct limpet_top_source **ret_source,
			   struct limpet_err *err) LIMPET_MUST_CHECK;
void limpet_top_source_free(struct limpet_top_source *source);

/* Whether the capture was still running at the last update. */
bool limpet_top_source_is_live(const struct limpet_top_source *source);
/* Reads what is new. 1: something; 0: nothing; or the errors of reading. When the capture has
 * ended, the source becomes that of a finished trace. */
int limpet_top_source_update(struct limpet_top_source *source,
			     struct limpet_err *err) LIMPET_MUST_CHECK;

/* The last update read only a part: the next one continues there. Keys are handled in between. */
bool limpet_top_source_is_behind(const struct limpet_top_source *source);

struct limpet_top_view {
	uint64_t window_ns; /* of a running capture: figures of this last period; 0: of the whole
			       capture */
	enum limpet_report_sort sort;
	bool full;                          /* with frames of allocators and other noise */
	const struct limpet_filter *filter; /* NULL: none */
};
const char *limpet_top_source_path(const struct limpet_top_source *source);

/* The line of top_finding.h for the last view; belongs to the source; NULL: there is none. -ENOMEM.
 */
int limpet_top_source_finding(struct limpet_top_source *source, const struct limpet_top_view *look,
			      const char **ret_text) LIMPET_MUST_CHECK;

/* Figures of the last update, valid until the next call for this source. -ENOMEM. */
int limpet_top_source_view(struct limpet_top_source *source, const struct limpet_top_view *look,
			   const struct limpet_view **ret_view) LIMPET_MUST_CHECK;
/* Of the last view. */
const struct limpet_model *limpet_top_source_model(const struct limpet_top_source *source);

/* By thread: for a running capture what each did during the last *ret_ns; for a finished trace
 * everything, including what each holds, and *ret_ns is 0. The list belongs to the source. Returns
 * their number; -ENODATA: the trace has no single events. */
int64_t limpet_top_source_threads(struct limpet_top_source *source,
				  const struct limpet_replay_thread **ret_list, uint64_t *ret_ns);

/* The thread's name: of a running capture while the process exists, of a finished one as recorded;
 * "": none. */
const char *limpet_top_source_thread_name(struct limpet_top_source *source, uint32_t tid,
					  char ret[32]);

#endif
