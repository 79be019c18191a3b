/* Losses make findings uncertain: adds to each, in words, by how much. */
#include <errno.h>
#include <stdarg.h>
#include <stdlib.h>

#include "analyzer/views/findings_work.h"
#include "common/units.h"

static int append(struct limpet_findings_entry *finding, const char *format, ...)
	__attribute__((format(printf, 2, 3)));
static int append(struct limpet_findings_entry *finding, const char *format, ...)
{
	LIMPET_FREE char *more = NULL;
	va_list arguments;
	char *text;
	int length;

	va_start(arguments, format);
	length = vasprintf(&more, format, arguments);
	va_end(arguments);
	if (length < 0) {
		more = NULL;
		return -ENOMEM;
	}
	if (asprintf(&text, "%s %s", finding->text, more) < 0)
		return -ENOMEM;
	free(finding->text);
	finding->text = text;
	finding->qualified = true;
	return 0;
}

static const struct limpet_findings_group *group_of(const struct limpet_findings_work *work,
						    uint32_t node)
{
	for (size_t i = 0; node && i < work->count; i++)
		if (work->groups[i].figures.node == node)
			return &work->groups[i];
	return NULL;
}

/* Whether the finding depends on live blocks, or on their change. */
static bool rests_on_live(enum limpet_findings_kind kind)
{
	return kind <= LIMPET_FINDINGS_STEADY || kind == LIMPET_FINDINGS_RETAINED ||
	       kind == LIMPET_FINDINGS_RESIDENT || kind == LIMPET_FINDINGS_NEVER_FREED ||
	       kind == LIMPET_FINDINGS_ROSE || kind == LIMPET_FINDINGS_STEP ||
	       kind == LIMPET_FINDINGS_TOUCHED || kind == LIMPET_FINDINGS_TOUCHES;
}

uint64_t limpet_findings_lost_calls(const struct limpet_model *model)
{
	return model->missing.dropped_events + model->missing.unseen_calls;
}

/* Blocks that count as live, but may be freed, of one site or of all. */
static int qualify_frees(struct limpet_findings_work *work, struct limpet_findings_entry *finding)
{
	const struct limpet_model *model = work->model;
	const struct limpet_model_missing *missing = &model->missing;
	const struct limpet_findings_group *group = group_of(work, finding->node);
	const bool peak =
		finding->kind == LIMPET_FINDINGS_HOLDS && model->target->mode == LIMPET_MODE_RUN;
	const uint64_t live = !group ? model->totals.live_allocations
			      : peak ? group->figures.peak_allocations
				     : group->figures.live_allocations;
	const uint64_t may = model->bounds.unseen_frees < live ? model->bounds.unseen_frees : live;
	char blocks[LIMPET_UNITS_TEXT], frees[LIMPET_UNITS_TEXT];

	if (!may)
		return 0;
	finding->freed_blocks_max = may;
	if (missing->dropped.frees && missing->dropped.frees >= model->bounds.unseen_frees)
		return append(finding, "Up to %s of %s may have been freed: %s free%s dropped.",
			      limpet_units_format_count(blocks, may),
			      group ? "these" : "all blocks",
			      limpet_units_format_count(frees, missing->dropped.frees),
			      missing->dropped.frees == 1 ? " was" : "s were");
	return append(finding, "Up to %s of %s may have been freed: %s calls were lost.",
		      limpet_units_format_count(blocks, may), group ? "these" : "all blocks",
		      limpet_units_format_count(frees, limpet_findings_lost_calls(model)));
}

/* Blocks that may be live, but do not count. */
static int qualify_allocations(struct limpet_findings_work *work,
			       struct limpet_findings_entry *finding)
{
	const struct limpet_model_missing *missing = &work->model->missing;
	const uint64_t count = missing->dropped.allocations + missing->untracked_allocations;
	char blocks[LIMPET_UNITS_TEXT], bytes[LIMPET_UNITS_TEXT];

	if (!count)
		return 0;
	return append(finding, "%s more allocation%s, %s, %s not followed: they may be live.",
		      limpet_units_format_count(blocks, count), count == 1 ? "" : "s",
		      limpet_findings_bytes(bytes, (double)missing->dropped.allocated_bytes +
							   (double)missing->untracked_bytes),
		      count == 1 ? "is" : "are");
}

/* Calls of unknown kind. */
static int qualify_unknown(struct limpet_findings_work *work, struct limpet_findings_entry *finding)
{
	const struct limpet_model *model = work->model;
	const struct limpet_dropped *dropped = &model->missing.dropped;
	const uint64_t known =
		dropped->allocations + dropped->frees + dropped->mmaps + dropped->munmaps;
	const uint64_t lost = limpet_findings_lost_calls(model);
	char calls[LIMPET_UNITS_TEXT];

	/* qualify_frees() has named them, as possible frees. */
	if (lost <= known || finding->freed_blocks_max)
		return 0;
	return append(finding, "%s call%s %s lost, which may be of any kind.",
		      limpet_units_format_count(calls, lost - known), lost - known == 1 ? "" : "s",
		      lost - known == 1 ? "was" : "were");
}

/* Reasons without a figure. */
static int qualify_reason(struct limpet_findings_work *work, struct limpet_findings_entry *finding)
{
	static const uint64_t said =
		LIMPET_LOSS_BIT(LIMPET_LOSS_DROPPED) | LIMPET_LOSS_BIT(LIMPET_LOSS_UNSEEN) |
		LIMPET_LOSS_BIT(LIMPET_LOSS_UNTRACKED) | LIMPET_LOSS_BIT(LIMPET_LOSS_SAMPLED) |
		LIMPET_LOSS_BIT(LIMPET_LOSS_GIVEN_UP);
	int code = 0;

	for (unsigned i = 0; i < LIMPET_LOSS_COUNT && code >= 0; i++)
		if (work->model->losses & LIMPET_LOSS_BIT(i) & ~said &&
		    limpet_loss_kinds[i].clears_exact)
			code = append(finding, "It may be off: %s.", limpet_loss_kinds[i].words);
	return code;
}

static int qualify_rate(struct limpet_findings_work *work, struct limpet_findings_entry *finding)
{
	const uint64_t lost = work->model->missing.dropped.allocations;
	char calls[LIMPET_UNITS_TEXT];

	if (!lost)
		return 0;
	return append(finding, "%s more allocation%s dropped: rates are higher, and shares others.",
		      limpet_units_format_count(calls, lost), lost == 1 ? " was" : "s were");
}

/* Its other callers may be cut off. */
static int qualify_name(struct limpet_findings_work *work, struct limpet_findings_entry *finding)
{
	struct limpet_location_stack stack;
	int code;

	if (!finding->node)
		return 0;
	code = limpet_locations_stack(work->view->locations, finding->node, false, &stack);
	if (code < 0 || stack.list[stack.count - 1] != LIMPET_LOCATION_CUT)
		return code;
	return append(finding, "Its stack was cut short.");
}

int limpet_findings_qualify(struct limpet_findings_work *work)
{
	const uint64_t maps =
		work->model->missing.dropped.mmaps + work->model->missing.dropped.munmaps;
	int code = 0;

	for (size_t i = 0; i < work->findings->count && code >= 0; i++) {
		struct limpet_findings_entry *finding = &work->findings->list[i];
		const bool live = rests_on_live(finding->kind);

		code = qualify_name(work, finding);
		if (code >= 0 && live && !work->model->sample_bytes)
			code = qualify_frees(work, finding);
		if (code >= 0 && live && !work->model->sample_bytes)
			code = qualify_allocations(work, finding);
		if (code >= 0 && live && !work->model->sample_bytes)
			code = qualify_unknown(work, finding);
		if (code >= 0 && live)
			code = qualify_reason(work, finding);
		if (code >= 0 && finding->kind == LIMPET_FINDINGS_CHURNS)
			code = qualify_rate(work, finding);
		if (code >= 0 && maps &&
		    (finding->kind == LIMPET_FINDINGS_MAPPED ||
		     finding->kind == LIMPET_FINDINGS_MAPS))
			code = append(finding, "Calls of mmap and its like were dropped.");
	}
	return code;
}
