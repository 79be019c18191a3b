/* Functions and lines of a trace as numbers: each function once, each line in it once, and the
 * stack of each node as a list of these. What views, diff and exporters count by.
 *
 * A function is its name in its module. A frame without a symbol is a function of its own, named
 * by module and offset; code of a JIT compiler without a name is one function, [jit], since it
 * moves and multiplies. */
#ifndef LIMPET_ANALYZER_PLACES_H
#define LIMPET_ANALYZER_PLACES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "analyzer/fold.h"
#include "analyzer/model.h"

/* The functions that every trace has, also as places. */
enum {
	LIMPET_PLACE_UNKNOWN = 0, /* of node 0 */
	LIMPET_PLACE_CUT = 1      /* the outermost frame of a stack that was cut short, or lost */
};

struct limpet_function {
	const char *name;   /* never NULL */
	const char *module; /* path; NULL: in none */
	const char *file;   /* of the first line that is known; NULL: of none */
	enum limpet_fold_kind kind;
	bool named; /* has a symbol */
};
struct limpet_place {
	uint32_t function;
	uint32_t line;    /* 0: unknown */
	const char *file; /* NULL: unknown */
	bool inlined;     /* into the frame after it */
};

struct limpet_places_private;
struct limpet_places {
	const struct limpet_model *model;
	struct limpet_function *functions;
	uint32_t function_count;
	struct limpet_place *places;
	uint32_t place_count;
	uint32_t location_count; /* distinct addresses, see limpet_places_location() */
	struct limpet_places_private *private;
};

/* The model must outlive it. -ENOMEM. */
int limpet_places_new(const struct limpet_model *model,
		      struct limpet_places **ret_places) LIMPET_MUST_CHECK;
void limpet_places_free(struct limpet_places *places);

/* Places of one node alone, innermost first. Answers their number; 0: node 0, or lost. */
uint32_t limpet_places_of_node(const struct limpet_places *places, uint32_t node,
			       const uint32_t **ret_list);

/* A number of the node's address in its module, from 1, the same for all nodes there; 0: node 0, or
 * lost. */
uint32_t limpet_places_location(const struct limpet_places *places, uint32_t node);

struct limpet_place_stack {
	const uint32_t *list; /* places, innermost first; until the next call */
	size_t count;         /* at least 1 */
};
/* The stack of a node, less its noise unless `full`. -ENOMEM. */
int limpet_places_stack(struct limpet_places *places, uint32_t node, bool full,
			struct limpet_place_stack *ret_stack) LIMPET_MUST_CHECK;

/* For text: name of a function, cut to its usual form unless `full`; malloc'ed. */
char *limpet_function_name(const struct limpet_function *function, bool full);

#endif
