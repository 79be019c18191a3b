#include "cli/top_finding.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "analyzer/views/findings_groups.h"
#include "cli/heap_findings.h"
#include "common/plain_text.h"
#include "common/units.h"

int limpet_top_finding_first(const struct limpet_analysis *analysis, char **ret_text,
			     struct limpet_err *err)
{
	struct limpet_verdict verdict = {0};
	int result = limpet_cli_judge_alone(analysis, false, NULL, &verdict, err);
	char *text;

	text = verdict.sentences[0];
	verdict.sentences[0] = NULL;
	limpet_verdict_done(&verdict);
	*ret_text = text;
	return result < 0 ? result : 0;
}

struct growth {
	int64_t bytes;
	uint32_t node;
};

/* Adds up the sites that have a label in common; *ret_most is zero if none of them grew. */
static int find_most(const struct limpet_view *view, struct limpet_findings_groups *groups,
		     struct growth *ret_most)
{
	LIMPET_FREE struct growth *sums = calloc(view->site_count + 1, sizeof(*sums));

	*ret_most = (struct growth){0};
	if (!sums)
		return -ENOMEM;
	for (size_t i = 0; i < view->site_count; i++) {
		const struct limpet_model_site *site = &view->sites[i];
		uint32_t group = 0;
		int result;

		if (!site->growth_bytes)
			continue;
		result = limpet_findings_groups_find(groups, site->node, &group);
		if (result < 0)
			return result;
		sums[group].bytes += site->growth_bytes;
		sums[group].node = site->node;
	}
	for (size_t i = 0; i < view->site_count; i++)
		if (sums[i].bytes > ret_most->bytes)
			*ret_most = sums[i];
	return 0;
}

static int format_growth(const struct limpet_view *view, const struct growth *most,
			 uint64_t window_ns, char **ret_text)
{
	const double seconds = (double)window_ns / 1e9;
	const struct limpet_function *function, *caller;
	char change[LIMPET_UNITS_TEXT];
	LIMPET_FREE char *label = NULL;
	int result = limpet_findings_label(view->locations, most->node, &label, &function, &caller);

	if (result < 0)
		return result;
	limpet_units_format_bytes_change(
		change, window_ns ? (int64_t)((double)most->bytes / seconds) : most->bytes);
	if (asprintf(ret_text, "growing most: %s%s %s", change, window_ns ? "/s" : "", label) < 0)
		return -ENOMEM;
	limpet_plain_text_clean(*ret_text);
	return 0;
}

int limpet_top_finding_growing(const struct limpet_view *view, uint64_t window_ns, char **ret_text)
{
	struct limpet_findings_groups *groups = NULL;
	struct growth most;
	char *text = NULL;
	int result = limpet_findings_groups_new(view->locations, &groups);

	if (result >= 0)
		result = find_most(view, groups, &most);
	if (result >= 0 && most.bytes > 0)
		result = format_growth(view, &most, window_ns, &text);
	limpet_findings_groups_free(groups);
	if (result >= 0)
		*ret_text = text;
	return result < 0 ? result : 0;
}
