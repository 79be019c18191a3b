/* Functions, files and lines for the frames of a live process's stacks, from its modules' files and
 * from the map of its JIT-compiled code (analyzer/symbols). Main thread. */
#ifndef LIMPET_CLI_STACK_NAMES_H
#define LIMPET_CLI_STACK_NAMES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/err.h"
#include "injector/stacks/stacks.h"

/* One function at an address. */
struct limpet_stack_name {
	char *function, *file; /* NULL: unknown */
	uint32_t line;         /* 0: unknown */
	bool inlined;          /* into the next one */
};

struct limpet_stack_names;
/* Looks up every frame; an address for which nothing is found stays without a name. -ENOMEM. */
int limpet_stack_names_new(const struct limpet_stacks *stacks,
			   struct limpet_stack_names **ret) LIMPET_MUST_CHECK;
void limpet_stack_names_free(struct limpet_stack_names *names);
/* Innermost first: what is inlined there, then the function itself. Returns their number, 0: none
 * is known. The list lives as long as `names`. */
size_t limpet_stack_names_at(const struct limpet_stack_names *names,
			     const struct limpet_stack_frame *frame,
			     const struct limpet_stack_name **ret_list);

#endif
