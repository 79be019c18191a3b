/* Recursion in a stack: a function that calls itself, or several that call each other, which are
 * shown once, with their number. Whatever shows stacks asks here; analyzer/html/recursion.js is the
 * page's, with the same tests (test/html/recursion.tsv). Pure functions. */
#ifndef LIMPET_ANALYZER_VIEWS_RECURSION_H
#define LIMPET_ANALYZER_VIEWS_RECURSION_H

#include <stdbool.h>
#include <stddef.h>

/* Calls that follow each other `times` times. times 1: no recursion; length is 1 then. */
struct limpet_recursion {
	size_t length, times;
};

/* Whether two calls of a list count as the same. */
typedef bool limpet_recursion_same(const void *context, size_t a, size_t b);

/* What begins at `at` of a list of `count` calls, in either direction: a function that calls itself
 * at least twice, else the shortest series of at most eight calls that is there at least three
 * times. */
struct limpet_recursion limpet_recursion_at(size_t at, size_t count, limpet_recursion_same *same,
					    const void *context);

/* For a stack in one line, around the name of call `i` of the series: "a x38",
 * "(a < b) x20". */
#define LIMPET_RECURSION_MARK 64
struct limpet_recursion_marks {
	char before[2];
	char after[LIMPET_RECURSION_MARK];
};
struct limpet_recursion_marks limpet_recursion_marks(const struct limpet_recursion *series,
						     size_t i);

#endif
