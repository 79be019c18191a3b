/* Looks up names for the stacks of a capture that is not sealed yet: in the files of this machine,
 * in a thread of its own at low priority.
 *
 * All calls must come from one thread. Modules whose file is gone or of another build stay without
 * names. */
#ifndef LIMPET_ANALYZER_MODEL_NAMER_H
#define LIMPET_ANALYZER_MODEL_NAMER_H

#include <stdbool.h>

#include "analyzer/model/model.h"
#include "analyzer/model/model_symbols.h"

struct limpet_namer;

struct limpet_namer_options {
	const char *root; /* prefix of the paths of modules: "/proc/4711/root"; or NULL */
	int perf_map_fd;  /* of the target's JIT-compiled code, see perfmap.h; taken over; -1: none
			   */
};

int limpet_namer_new(const struct limpet_namer_options *options,
		     struct limpet_namer **ret_namer) LIMPET_MUST_CHECK;
/* Waits for the current look-up. `namer` may be NULL. */
void limpet_namer_free(struct limpet_namer *namer);

/* Requests each address of the model's stacks that was not requested before. -ENOMEM. */
int limpet_namer_request(struct limpet_namer *namer, const struct limpet_model *model);
/* Waits until everything requested was looked up, at most so long. Returns the number of addresses
 * that were not. */
size_t limpet_namer_wait(struct limpet_namer *namer, unsigned seconds);
/* Moves what was found since the last call into `symbols`, and settles them. 1: something; 0:
 * nothing; -ENOMEM. */
int limpet_namer_collect(struct limpet_namer *namer, struct limpet_model_symbols *symbols);
/* All of these for a model of a trace that is not sealed. Takes at most so long, and the time of
 * one look-up. -ENOMEM. */
int limpet_namer_name_model(struct limpet_namer *namer, struct limpet_model *model,
			    unsigned seconds) LIMPET_MUST_CHECK;

#endif
