/* The findings of a report: a few sentences, each with the figures that support it. Weak evidence
 * gives no finding; "nothing grows" is said only if nothing that was measured did.
 *
 * Growth is looked for in eighths of the capture: a site grows if it still grows in the second
 * half, at no less than half the pace of the first; a site that filled up and then stopped does
 * not. After an attach, blocks that replace older ones look like growth: if as much of older blocks
 * was freed, the finding says that instead. */
#ifndef LIMPET_ANALYZER_VIEWS_FINDINGS_H
#define LIMPET_ANALYZER_VIEWS_FINDINGS_H

#include <stddef.h>
#include <stdint.h>

#include "analyzer/model/history.h"
#include "analyzer/views/view.h"
#include "common/err.h"

enum limpet_findings_kind {
	LIMPET_FINDINGS_HOLDS = 0, /* a large part of what is live, or was at the peak */
	LIMPET_FINDINGS_GROWS,
	LIMPET_FINDINGS_TURNOVER,    /* growth that may be older blocks being replaced */
	LIMPET_FINDINGS_STEADY,      /* nothing grows */
	LIMPET_FINDINGS_CHURNS,      /* many blocks that are soon freed */
	LIMPET_FINDINGS_RETAINED,    /* resident memory that stayed when live bytes fell */
	LIMPET_FINDINGS_RESIDENT,    /* resident memory that grew beyond live bytes */
	LIMPET_FINDINGS_MAPPED,      /* by mmap, outside of the heap */
	LIMPET_FINDINGS_NEVER_FREED, /* blocks that keep coming, hardly any of them freed */
	LIMPET_FINDINGS_ROSE,        /* live bytes or blocks, not by sites that grow all the time */
	LIMPET_FINDINGS_MAPS,        /* mapped bytes grew */
	LIMPET_FINDINGS_THREADS,     /* their number grew */
	LIMPET_FINDINGS_UNJUDGED,    /* why growth is not judged */
	LIMPET_FINDINGS_IDLE,        /* there were no events */
	LIMPET_FINDINGS_POOL,        /* memory that limpet does not look into */
	LIMPET_FINDINGS_UNFOLLOWED,  /* resident memory of no allocator that was followed */
	LIMPET_FINDINGS_SPARSE,      /* pages that only a few live blocks keep */
	/* of a trace of pages, which knows who touched them first, and not who keeps them */
	LIMPET_FINDINGS_TOUCHED, /* a large part of the new pages that are resident */
	LIMPET_FINDINGS_TOUCHES, /* new pages, all the time */
	LIMPET_FINDINGS_KEEPER,  /* another function may keep them, and what tells which */
	LIMPET_FINDINGS_STEP,    /* a function grew at one moment, and most of it stayed */
	LIMPET_FINDINGS_KINDS
};
extern const char *const limpet_findings_words[LIMPET_FINDINGS_KINDS];

struct limpet_findings_entry {
	enum limpet_findings_kind kind;
	char *text;              /* a sentence, safe to show */
	char *function;          /* the function it is about, as recorded; NULL: the whole */
	char *caller;            /* of the function; NULL: unknown */
	uint32_t node;           /* a stack of the function; 0: the whole */
	uint64_t bytes;          /* held, grown by, retained... */
	uint64_t grown_bytes;    /* of NEVER_FREED: in the second half */
	bool of_stacks;          /* of NEVER_FREED: of some stacks of the function alone */
	bool of_files;           /* of RESIDENT: pages of files and shared memory */
	double share;            /* of the total of that; < 0: there is none */
	double per_second;       /* bytes grown, or allocations; < 0: no rate */
	uint64_t from_ns, to_ns; /* the time that it is about; to_ns 0: all of it */
	bool at_once;            /* of what rose: at from_ns, not from then on */
	bool unclear;            /* of ROSE: up and down, and too little was seen of it to judge */
	/* Losses make it uncertain: the text ends with the reason. */
	bool qualified;
	uint64_t freed_blocks_max; /* so many of those it counts as live may have been freed */
};
struct limpet_findings {
	struct limpet_findings_entry *list;
	size_t count, capacity;
};

/* `view`: the capture or a window of it, unfiltered; `history`: the whole capture. -ENOMEM. */
int limpet_findings_new(const struct limpet_view *view, const struct limpet_history *history,
			struct limpet_findings **ret_findings) LIMPET_MUST_CHECK;
/* Adds what is not seen of the program's own heaps: that of a known runtime, or what its functions
 * hold in large round pieces at the end. -ENOMEM, or the error of a read. */
int limpet_findings_add_pools(struct limpet_findings *findings, const struct limpet_view *view,
			      struct limpet_trace_reader *reader) LIMPET_MUST_CHECK;
/* Adds pages that only a few live blocks keep at the end. The same errors. */
int limpet_findings_add_pages(struct limpet_findings *findings, const struct limpet_view *view,
			      struct limpet_trace_reader *reader) LIMPET_MUST_CHECK;
void limpet_findings_free(struct limpet_findings *findings);

/* Whether the capture has a module of this file name, such as "node", also with a version or a
 * suffix. */
bool limpet_findings_has_module(const struct limpet_model *model, const char *file);

#endif
