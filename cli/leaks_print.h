/* The output of `limpet leaks`. */
#ifndef LIMPET_CLI_LEAKS_PRINT_H
#define LIMPET_CLI_LEAKS_PRINT_H

#include <stdbool.h>
#include <sys/types.h>

#include "explain/reach/leaks.h"

struct limpet_leaks_shown {
	const struct limpet_leaks *leaks;
	pid_t pid;
	const char *command;         /* its name */
	uint64_t most_stop_ns;       /* that was allowed */
	const bool *suppressed;      /* of each site; NULL: none is */
	const char *why_not_stopped; /* by preflight; NULL: it was not asked, or allowed it */
};

/* Lost, and not suppressed. */
struct limpet_leak_amount limpet_leaks_lost(const struct limpet_leaks_shown *shown);

/* These print to stdout, all of it, and return `status`, or another exit status. */
int limpet_leaks_print_text(const struct limpet_leaks_shown *shown, int status);
int limpet_leaks_print_json(const struct limpet_leaks_shown *shown, int status);

#endif
