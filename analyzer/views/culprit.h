/* The function that people would name for what many stacks share: of the program's own code, or
 * else of a library's interface; neither a loop or dispatcher above all stacks, nor a helper that
 * many callers use. */
#ifndef LIMPET_ANALYZER_VIEWS_CULPRIT_H
#define LIMPET_ANALYZER_VIEWS_CULPRIT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "analyzer/model/source_locations.h"
#include "common/err.h"

struct limpet_culprit {
	uint32_t node;  /* a stack of it: the one with most; 0: there is no culprit */
	char *function; /* as people call it */
	char *via; /* what it calls that allocates: `xstrdup`, `sqlite3_open`; NULL: nothing else */
	char *caller;     /* NULL: unknown */
	const char *file; /* of the call in `function`, borrowed; NULL: unknown */
	uint32_t line;    /* 0: unknown */
	double share;     /* of the weight */
	uint32_t number;  /* of the function among the locations' */
};

/* A stack, and how much it weighs. */
struct limpet_culprit_stack {
	uint32_t node;
	double weight;        /* > 0, or only its calls count: */
	uint64_t allocations; /* tells functions that others use, too */
};
/* -ENOMEM. Without weight: node 0. */
int limpet_culprit_find(struct limpet_locations *locations,
			const struct limpet_culprit_stack *stacks, size_t count,
			struct limpet_culprit *ret_culprit) LIMPET_MUST_CHECK;
/* Marks the stacks that the culprit's function is on. -ENOMEM. */
int limpet_culprit_mark(struct limpet_locations *locations, const struct limpet_culprit *culprit,
			const struct limpet_culprit_stack *stacks, size_t count,
			bool *marks) LIMPET_MUST_CHECK;
/* "remember (server.c:31)", or with `via` "remember (server.c:31), through strdup"; malloc'ed.
 * NULL: no memory. */
char *limpet_culprit_words(const struct limpet_culprit *culprit, bool with_via);
void limpet_culprit_done(struct limpet_culprit *culprit);

#endif
