/* What a report says in words. Candidates are found by a table of rules and put in order of their
 * weight: the first one is the verdict's (verdict.h), of the others at most five are findings. */
#ifndef LIMPET_ANALYZER_VIEWS_FINDINGS_H
#define LIMPET_ANALYZER_VIEWS_FINDINGS_H

#include <stddef.h>
#include <stdint.h>

#include "analyzer/views/culprit.h"

enum limpet_heap_finding_kind {
	LIMPET_HEAP_STEADY = 0, /* nothing grows */
	LIMPET_HEAP_LEAK,       /* blocks come all the time, and hardly any is freed */
	LIMPET_HEAP_GROWTH,     /* live bytes grow, and blocks are freed, too */
	LIMPET_HEAP_RISE,       /* live bytes rose at one time, and stayed */
	LIMPET_HEAP_RUNTIME,    /* the heap of a language's runtime */
	LIMPET_HEAP_FREE,       /* an allocator keeps what is free */
	LIMPET_HEAP_FILE,       /* files and shared memory */
	LIMPET_HEAP_STACKS,
	LIMPET_HEAP_MAPPING, /* memory that the program maps itself */
	LIMPET_HEAP_VERDICTS,

	LIMPET_HEAP_SPARSE = LIMPET_HEAP_VERDICTS, /* pages that only a few live blocks keep */
	LIMPET_HEAP_HOLDS,                         /* most of what is live, or was at the peak */
	LIMPET_HEAP_CHURNS,                        /* many blocks that are soon freed */
	LIMPET_HEAP_KINDS
};
extern const char *const limpet_heap_finding_words[LIMPET_HEAP_KINDS];

struct limpet_heap_finding {
	enum limpet_heap_finding_kind kind;
	char *text;                    /* a sentence, safe to show */
	char *evidence;                /* figures that it rests on, as text; NULL: none */
	struct limpet_culprit culprit; /* node 0: it is about the whole */
	uint64_t bytes;                /* in question; of CHURNS: allocated */
	double share;                  /* of live bytes, of calls, of RSS; < 0: there is none */
	uint64_t from_ns, to_ns;       /* when blocks came that stayed; to_ns 0: does not apply */
};
enum { LIMPET_HEAP_FINDINGS_MAX = 5 };

struct limpet_heap_findings {
	struct limpet_heap_finding list[LIMPET_HEAP_FINDINGS_MAX];
	size_t count;
};

void limpet_heap_finding_done(struct limpet_heap_finding *finding);
void limpet_heap_findings_done(struct limpet_heap_findings *findings);

#endif
