/* The output of `limpet holders`. */
#ifndef LIMPET_CLI_HOLDERS_PRINT_H
#define LIMPET_CLI_HOLDERS_PRINT_H

#include <stdbool.h>
#include <sys/types.h>

#include "analyzer/symbols/symbolize.h"
#include "explain/reach/holders.h"

#define LIMPET_HOLDERS_CHAINS 3u

struct limpet_holders_chain_shown {
	struct limpet_holder_chain chain;
	bool has_variable; /* the root is in one that is known: */
	struct limpet_symbol_variable variable;
	bool has_retained; /* what only the variable leads to is known: */
	struct limpet_holder_amount retained;
};
struct limpet_holders_shown {
	pid_t pid;
	const char *command; /* its name; NULL: not known */
	const struct limpet_holders_facts *facts;
	const char *type; /* that was asked for; NULL: an address */
	struct limpet_holder_link block;
	struct limpet_holder_amount chosen, retained;
	struct limpet_holders_chain_shown chains[LIMPET_HOLDERS_CHAINS];
	size_t count;
};

/* The class of a vtable's symbol; malloc'ed, or NULL. */
char *limpet_holders_class_of(const char *symbol);
/* What lies at an address that is no block: "the stack of thread 7 (worker)"; malloc'ed, or NULL.
 */
char *limpet_holders_place_words(const struct limpet_holder_root *root);

/* These print to stdout, all of it, and return an exit status. */
int limpet_holders_print_text(const struct limpet_holders_shown *shown);
int limpet_holders_print_json(const struct limpet_holders_shown *shown);

#endif
