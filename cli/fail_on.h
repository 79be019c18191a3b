/* `limpet report --fail-on`: what makes a test fail, judged by a trace. */
#ifndef LIMPET_CLI_FAIL_ON_H
#define LIMPET_CLI_FAIL_ON_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "analyzer/views/verdict.h"

#define LIMPET_FAIL_ON_MAX 8u

struct limpet_fail_on {
	struct limpet_fail_condition {
		const char *text; /* as it was given; borrowed */
		bool of_growth;   /* else of lost blocks */
		uint64_t bytes;   /* more than that, of growth: in the time */
		uint64_t per_ns;
	} list[LIMPET_FAIL_ON_MAX];
	size_t count;
};

/* Adds "lost", "lost>64KiB" or "growth>1MiB/h": LIMPET_EXIT_OK, or LIMPET_EXIT_USAGE after a
 * message. `text` is kept. */
int limpet_fail_on_parse(const char *text, struct limpet_fail_on *fail_on);
/* LIMPET_EXIT_OK; LIMPET_EXIT_FAIL_ON if one holds, each with a message on standard error; or
 * LIMPET_EXIT_FAILED: the trace does not tell. */
int limpet_fail_on_judge(const struct limpet_fail_on *fail_on, const struct limpet_model *model,
			 const struct limpet_verdict *verdict);

#endif
