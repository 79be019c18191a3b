/* Numbers for the functions and lines of a trace: each function once, each line in it once, and the
 * stack of each node as a list of these. Views, diff and exporters count by these numbers.
 *
 * A function is identified by its name and its module, one in no module by its name and its file. A
 * frame without a symbol is a function of its own, named by module and offset; JIT-compiled code
 * without a name is one function, [jit], since it moves and multiplies. */
#ifndef LIMPET_ANALYZER_MODEL_SOURCE_LOCATIONS_H
#define LIMPET_ANALYZER_MODEL_SOURCE_LOCATIONS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "analyzer/model/frame_filter.h"
#include "analyzer/model/model.h"

/* The functions that every trace has, also as locations. */
enum {
	LIMPET_LOCATION_UNKNOWN = 0, /* of node 0 */
	LIMPET_LOCATION_CUT = 1, /* the outermost frame of a stack that was cut short, or lost */
	LIMPET_LOCATION_UNFAULTED = 2 /* of pages that came without a fault, instead of a stack */
};

struct limpet_function {
	const char *name;   /* never NULL */
	const char *module; /* path; NULL: in none */
	const char *file;   /* of the first known line; NULL: none */
	enum limpet_frame_kind kind;
	bool named; /* has a symbol */
};
struct limpet_location {
	uint32_t function;
	uint32_t line;    /* 0: unknown */
	const char *file; /* NULL: unknown */
	bool inlined;     /* into the frame after it */
};

struct limpet_locations_tables;
struct limpet_locations {
	const struct limpet_model *model;
	struct limpet_function *functions;
	uint32_t function_count;
	struct limpet_location *locations;
	uint32_t location_count;
	uint32_t address_count; /* distinct addresses, see limpet_locations_address_number() */
	struct limpet_locations_tables *tables;
};

/* The model must outlive it. -ENOMEM. */
int limpet_locations_new(const struct limpet_model *model,
			 struct limpet_locations **ret_locations) LIMPET_MUST_CHECK;
void limpet_locations_free(struct limpet_locations *locations);

/* Locations of one node only, innermost first. Returns their number; 0: node 0, or lost. */
uint32_t limpet_locations_of_node(const struct limpet_locations *locations, uint32_t node,
				  const uint32_t **ret_list);

/* The number, from 1, of the node's address in its module, the same for all nodes with this
 * address; 0: node 0, or lost. */
uint32_t limpet_locations_address_number(const struct limpet_locations *locations, uint32_t node);

struct limpet_location_stack {
	const uint32_t *list; /* locations, innermost first; valid until the next call */
	size_t count;         /* at least 1 */
};
/* The stack of a node, without the frames that frame_filter.h leaves out, unless `full`. -ENOMEM.
 */
int limpet_locations_stack(struct limpet_locations *locations, uint32_t node, bool full,
			   struct limpet_location_stack *ret_stack) LIMPET_MUST_CHECK;

/* The name of a function for text, shortened unless `full`; malloc'ed. */
char *limpet_function_name(const struct limpet_function *function, bool full);

#endif
