/* What a capture says before all else: how much memory is in question and whose it is, what
 * resident memory is made of, and what to type next. Every report, page and `top` has these
 * sentences. */
#ifndef LIMPET_ANALYZER_VIEWS_VERDICT_H
#define LIMPET_ANALYZER_VIEWS_VERDICT_H

#include <stddef.h>
#include <stdint.h>

#include "analyzer/model/history.h"
#include "analyzer/views/view.h"
#include "common/err.h"

enum limpet_verdict_kind {
	LIMPET_VERDICT_STEADY = 0, /* nothing grows */
	LIMPET_VERDICT_LEAK,       /* blocks come all the time, and hardly any is freed */
	LIMPET_VERDICT_GROWTH,     /* live bytes grow, and blocks are freed, too */
	LIMPET_VERDICT_RISE,       /* live bytes rose at one time, and stayed */
	LIMPET_VERDICT_RUNTIME,    /* the heap of a language's runtime grows */
	LIMPET_VERDICT_FREE,       /* an allocator keeps what is free */
	LIMPET_VERDICT_FILE,       /* files and shared memory */
	LIMPET_VERDICT_STACKS,
	LIMPET_VERDICT_MAPPING, /* memory that the program maps itself grows */
	LIMPET_VERDICT_KINDS
};
extern const char *const limpet_verdict_words[LIMPET_VERDICT_KINDS];

enum { LIMPET_VERDICT_SENTENCES = 3 };

struct limpet_verdict {
	enum limpet_verdict_kind kind;
	char *sentences[LIMPET_VERDICT_SENTENCES]; /* safe to show; NULL after the last */
	char *culprit;                             /* a function; NULL: none is to be named */
	uint32_t node;                             /* a stack of it; 0: none */
	uint64_t bytes;                            /* in question */
	uint64_t from_ns, to_ns; /* when blocks came that stayed; to_ns 0: it is about others */
};

/* `view`: the capture or a window of it, unfiltered; `history`: the whole capture. `file`: the
 * trace, as it is to be typed. -ENOMEM. */
int limpet_verdict_new(const struct limpet_view *view, const struct limpet_history *history,
		       const char *file, struct limpet_verdict *ret_verdict) LIMPET_MUST_CHECK;
void limpet_verdict_done(struct limpet_verdict *verdict);

#endif
