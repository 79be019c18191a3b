/* Names for a capture that still runs, whose trace has none yet: from the files as the process sees
 * them. */
#ifndef LIMPET_CLI_LIVE_NAMES_H
#define LIMPET_CLI_LIVE_NAMES_H

#include "analyzer/model/model.h"
#include "analyzer/model/namer.h"

/* If the process of the trace runs here: in its own root directory, and in the map of its
 * JIT-compiled code; else in this machine's files. The errors of limpet_namer_new(). */
int limpet_cli_namer_new(const struct limpet_trace_target *target,
			 struct limpet_namer **ret_namer) LIMPET_MUST_CHECK;

/* For limpet_analysis_options. Says on a terminal what limpet is busy with. */
int limpet_cli_look_up_names(struct limpet_model *model) LIMPET_MUST_CHECK;

/* A note on stderr that names were looked up, for output that has no place for it. */
void limpet_cli_note_names(const struct limpet_model *model);

#endif
