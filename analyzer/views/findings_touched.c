/* Findings of a trace of pages. It is known which stack touched a page first, and whether the page
 * is resident; not what uses the page: an allocator may have freed it and used it again. So no
 * sentence says that a function holds memory, or that it does not free it. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "analyzer/views/findings_work.h"
#include "common/array.h"
#include "common/units.h"

int limpet_findings_find_touched(struct limpet_findings_work *work)
{
	const struct limpet_findings_group *group =
		limpet_findings_highest(work, LIMPET_REPORT_LIVE);
	const uint64_t bytes = group ? group->figures.live_bytes : 0;
	const uint64_t whole = work->model->totals.live_bytes;
	struct limpet_findings_entry finding = {.kind = LIMPET_FINDINGS_TOUCHED,
						.bytes = bytes,
						.share =
							(double)bytes / (double)(whole ? whole : 1),
						.per_second = -1};
	char text[LIMPET_UNITS_TEXT], stacks[48] = "";
	LIMPET_FREE char *name = NULL;
	int code;

	if (bytes < LIMPET_FINDINGS_LEAST_BYTES || finding.share < LIMPET_FINDINGS_HOLDS_SHARE)
		return 0;
	code = limpet_findings_name(work, group->figures.node, &finding, &name);
	if (code < 0)
		return code;
	if (group->stacks > 1)
		snprintf(stacks, sizeof(stacks), ", by %zu stacks", group->stacks);
	code = limpet_findings_add(work, &finding,
				   "%s first touched %s, %.0f %% of the new pages that are "
				   "resident%s.",
				   name, limpet_findings_bytes(text, (double)bytes),
				   100 * finding.share, stacks);
	if (code < 0)
		limpet_findings_forget_names(&finding);
	return code;
}

/* Pages that are touched and soon returned, which costs a fault each time. */
int limpet_findings_find_returned(struct limpet_findings_work *work)
{
	struct limpet_findings_entry finding;
	const struct limpet_findings_group *group = limpet_findings_churner(work, &finding);
	char rate[LIMPET_UNITS_TEXT], bytes[LIMPET_UNITS_TEXT];
	LIMPET_FREE char *name = NULL;
	int code;

	if (!group)
		return 0;
	code = limpet_findings_name(work, group->figures.node, &finding, &name);
	if (code < 0)
		return code;
	code = limpet_findings_add(
		work, &finding,
		"%s touches %.0f %% of all new pages, %s and %s/s, and nearly all of them are "
		"returned again.",
		name, 100 * finding.share,
		limpet_units_format_rate(rate, (uint64_t)finding.per_second),
		limpet_findings_bytes(bytes, (double)finding.bytes / work->seconds));
	if (code < 0)
		limpet_findings_forget_names(&finding);
	return code;
}

/* ------------------------------------------------------------------ what tells who keeps pages */

/* Go's runtime is part of each of its programs: functions tell it, not a file. */
static bool is_go(const struct limpet_locations *locations)
{
	static const char *const names[] = {"runtime.goexit", "runtime.mallocgc",
					    "runtime.newstack", "runtime.mstart"};

	for (uint32_t i = 0; i < locations->function_count; i++)
		for (size_t k = 0; k < LIMPET_COUNT_OF(names); k++) {
			const char *name = locations->functions[i].name;
			const size_t length = strlen(names[k]);

			if (!strncmp(name, names[k], length) &&
			    (!name[length] || name[length] == '.'))
				return true;
		}
	return false;
}

bool limpet_findings_has_module(const struct limpet_model *model, const char *file)
{
	for (uint32_t module = 1; module < model->module_count; module++)
		if (limpet_findings_is_file_of(model->modules[module].path, file))
			return true;
	return false;
}

int limpet_findings_find_keeper(struct limpet_findings_work *work)
{
	const struct limpet_model *model = work->model;
	const struct limpet_findings_entry finding = {
		.kind = LIMPET_FINDINGS_KEEPER, .share = -1, .per_second = -1};
	char tells[192];

	if (!model->totals.allocations && !model->totals.live_allocations)
		return 0;
	if (is_go(work->view->locations))
		snprintf(tells, sizeof(tells), "pprof tells which keeps Go's objects");
	else if (limpet_findings_has_module(model, "node") ||
		 limpet_findings_has_module(model, "libnode"))
		snprintf(tells, sizeof(tells),
			 "a heap snapshot tells what keeps JavaScript's objects, `limpet attach` "
			 "what keeps native memory");
	else if (limpet_findings_has_module(model, "libjvm"))
		snprintf(tells, sizeof(tells),
			 "`jcmd %u GC.class_histogram` tells which Java objects are kept, "
			 "`limpet attach` what keeps native memory",
			 model->target->pid);
	else
		snprintf(tells, sizeof(tells),
			 "`limpet attach` tells which, if it can follow the allocator");
	return limpet_findings_add(
		work, &finding,
		"A page counts for the stack that touched it first. If an allocator frees it and "
		"uses it again, another function may keep it: %s.",
		tells);
}
