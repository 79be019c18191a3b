/* Names for the stacks of a capture that is not sealed yet, looked up by a thread of its own from
 * the files of this machine, at low priority.
 *
 * All calls come from one thread. Modules whose file is gone or of another build stay without
 * names.
 */
#ifndef LIMPET_ANALYZER_MODEL_NAMER_H
#define LIMPET_ANALYZER_MODEL_NAMER_H

#include <stdbool.h>

#include "analyzer/model/model.h"
#include "analyzer/model/model_symbols.h"

struct limpet_namer;

struct limpet_namer_options {
	const char *root; /* put before the paths of modules: "/proc/4711/root"; or NULL */
	int perf_map_fd; /* of the code that the target makes itself, see perfmap.h; taken; -1: none
			  */
};

int limpet_namer_new(const struct limpet_namer_options *options,
		     struct limpet_namer **ret_namer) LIMPET_MUST_CHECK;
/* Waits for the look-up at hand. NULL is fine. */
void limpet_namer_free(struct limpet_namer *namer);

/* Asks for each address of the model's stacks that was not asked for before. -ENOMEM. */
int limpet_namer_ask(struct limpet_namer *namer, const struct limpet_model *model);
/* Moves what was found since into `symbols`, and settles them. 1: something; 0: nothing; -ENOMEM.
 */
int limpet_namer_take(struct limpet_namer *namer, struct limpet_model_symbols *symbols);
/* Something is still being looked up. */
bool limpet_namer_is_busy(struct limpet_namer *namer);

#endif
