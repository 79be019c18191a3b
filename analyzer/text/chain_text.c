#include "analyzer/text/chain_text.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "analyzer/text/report_printer.h"
#include "analyzer/views/recursion.h"
#include "common/err.h"
#include "common/plain_text.h"

/* Of a line without a limit. */
#define WIDTH 400u

static bool is_same(const void *context, size_t a, size_t b)
{
	const struct limpet_chain *chain = context;

	return chain->functions[a] == chain->functions[b];
}

/* Adds call `at`; takes over the text before it. */
static char *add_call(const struct limpet_chain *chain, size_t at,
		      const struct limpet_recursion_marks *marks, char *before)
{
	LIMPET_FREE char *old = before;
	const size_t used = chain->used + strlen(marks->before) + strlen(marks->after);
	LIMPET_FREE char *name = chain->name(chain->context, chain->functions[at]);
	char *text = NULL;

	if (name && at == 0 && chain->width > used)
		limpet_printer_cut(name, chain->width - used, true);
	if (!name || asprintf(&text, "%s%s%s%s%s", old, at ? " < " : "", marks->before, name,
			      marks->after) < 0)
		return NULL;
	return text;
}

/* Whether a caller would be cut off at once. */
static bool is_over(const struct limpet_chain *chain, const char *text)
{
	return chain->used + limpet_plain_text_columns(text) + 8 >
	       (chain->width ? chain->width : WIDTH);
}

/* Says that there are more callers, if that fits; takes over the text. */
static char *add_rest(const struct limpet_chain *chain, char *before)
{
	static const char rest[] = " < ...";
	LIMPET_FREE char *old = before;
	const bool fits = chain->used + limpet_plain_text_columns(old) + sizeof(rest) - 1 <=
			  (chain->width ? chain->width : WIDTH);
	char *text = NULL;

	return asprintf(&text, "%s%s", old, fits ? rest : "") < 0 ? NULL : text;
}

char *limpet_chain_text(const struct limpet_chain *chain)
{
	struct limpet_recursion series = {1, 1};
	char *text = strdup("");

	for (size_t at = 0; text && at < chain->count; at += series.length * series.times) {
		if (!chain->full)
			series = limpet_recursion_at(at, chain->count, is_same, chain);
		for (size_t i = 0; text && i < series.length; i++) {
			const struct limpet_recursion_marks marks =
				limpet_recursion_marks(&series, i);

			text = add_call(chain, at + i, &marks, text);
			if (text && is_over(chain, text))
				return at + series.length * series.times < chain->count
					       ? add_rest(chain, text)
					       : text;
		}
	}
	return text;
}
