/* The output of `limpet explain`, of a process or of a trace. */
#ifndef LIMPET_CLI_EXPLAIN_PRINT_H
#define LIMPET_CLI_EXPLAIN_PRINT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <jansson.h>

#include "analyzer/views/resident_parts.h"
#include "explain/explain.h"

/* What a trace knows besides: the same accounts earlier. All is borrowed. */
struct limpet_explained_trace {
	const char *file;
	uint64_t duration_ns;
	const uint64_t *before; /* the bytes of each account before the capture; NULL: not known */
};

struct limpet_explained {
	const struct limpet_explanation *explanation;
	const struct limpet_parts *parts;           /* the same in short */
	const struct limpet_explained_trace *trace; /* NULL: of a process */
	/* For JSON, which takes them; json_null(): not asked for. NULL: out of memory. */
	json_t *census, *classes, *objects;
};

/* These print to stdout, all of it, and return an exit status. */
int limpet_explain_print_text(const struct limpet_explained *what);
int limpet_explain_print_json(const struct limpet_explained *what);

#endif
