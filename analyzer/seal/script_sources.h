/* Replaces places in generated JavaScript by those that source maps tell. */
#ifndef LIMPET_ANALYZER_SEAL_SCRIPT_SOURCES_H
#define LIMPET_ANALYZER_SEAL_SCRIPT_SOURCES_H

#include <signal.h>
#include <stddef.h>

#include "analyzer/model/model.h"
#include "common/err.h"

struct limpet_script_sources_options {
	const char *root;                    /* prefix of the paths of scripts, or NULL */
	const volatile sig_atomic_t *cancel; /* or NULL */
	/* Called with the frames of an address, some of which are others now. Returns 0 or -errno,
	 * which ends the search. */
	int (*found)(void *context, const struct limpet_model_address *address,
		     const struct limpet_model_frame *frames, uint32_t count);
	void *context;
};

/* `list`: addresses in no module. 0, -ENOMEM, -EINTR, or the error of `found`. Scripts without a
 * map are left as they are. */
int limpet_script_sources_find(
	const struct limpet_model *model, const struct limpet_model_address *list, size_t count,
	const struct limpet_script_sources_options *options) LIMPET_MUST_CHECK;

#endif
