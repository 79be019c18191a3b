#include "analyzer/views/analysis.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "common/units.h"

/* ------------------------------------------------------------------ filtering */

/* Removes the sites that the filter does not keep; `from_replay`: with the replay's figures. */
static void keep_sites(struct limpet_analysis *analysis, bool from_replay)
{
	struct limpet_model *model = analysis->model;
	struct limpet_model_estimates all = {0};
	size_t kept = 0, at = 0;

	for (size_t i = 0; i < model->site_count; i++) {
		const struct limpet_replay *replay = analysis->replay;

		if (!analysis->kept[model->sites[i].node])
			continue;
		if (from_replay) {
			while (at < replay->site_count &&
			       replay->sites[at].figures.node < model->sites[i].node)
				at++;
			if (at == replay->site_count ||
			    replay->sites[at].figures.node != model->sites[i].node)
				continue;
			model->sites[kept++] = replay->sites[at].figures;
			continue;
		}
		if (model->site_estimates) {
			limpet_model_estimates_join(&all, &model->site_estimates[i]);
			model->site_estimates[kept] = model->site_estimates[i];
		}
		model->sites[kept++] = model->sites[i];
	}
	model->site_count = kept;
	model->estimates = all;
}

/* The same for mappings. */
static void keep_maps(struct limpet_analysis *analysis, bool from_replay)
{
	struct limpet_model *model = analysis->model;
	struct limpet_model_totals *totals = &model->totals;
	size_t kept = 0;

	if (from_replay) {
		free(model->maps);
		model->map_count = analysis->replay->map_count;
		model->maps = LIMPET_TAKE(analysis->replay->maps);
	}
	totals->mmaps = totals->mmap_bytes = totals->unmapped_bytes = totals->mapped_bytes = 0;
	totals->munmaps = totals->foreign_unmapped_bytes = 0;
	for (size_t i = 0; i < model->map_count; i++) {
		if (!analysis->kept[model->maps[i].node])
			continue;
		totals->mmaps += model->maps[i].mmaps;
		totals->mmap_bytes += model->maps[i].mmap_bytes;
		totals->unmapped_bytes += model->maps[i].unmapped_bytes;
		totals->mapped_bytes += model->maps[i].mapped_bytes;
		model->maps[kept++] = model->maps[i];
	}
	model->map_count = kept;
}

static void keep_totals(struct limpet_analysis *analysis)
{
	const struct limpet_model_site *sums = &analysis->view.totals;
	struct limpet_model_totals *totals = &analysis->model->totals;

	totals->allocations = sums->allocations;
	totals->allocated_bytes = sums->allocated_bytes;
	totals->frees = sums->frees;
	totals->freed_bytes = sums->freed_bytes;
	totals->temporary_allocations = sums->temporary_allocations;
	totals->reallocations = sums->reallocations;
	totals->live_allocations = sums->live_allocations;
	totals->live_bytes = sums->live_bytes;
	totals->growth_bytes = sums->growth_bytes;
	totals->peak_bytes = sums->peak_bytes;
	totals->foreign_frees = totals->foreign_freed_bytes = totals->inferred_frees = 0;
	totals->untracked_allocations = totals->untracked_bytes = 0;
	totals->events = totals->allocations + totals->frees + totals->mmaps;
	limpet_model_bound_again(analysis->model);
}

/* Sizes and live bytes over time; the kernel's memory figures stay. */
static void keep_series(struct limpet_analysis *analysis)
{
	struct limpet_model *model = analysis->model;
	const struct limpet_replay *replay = analysis->replay;
	uint64_t allocations = 0;

	memcpy(model->sizes, replay->sizes, replay->size_count * sizeof(*model->sizes));
	model->size_count = replay->size_count;
	for (size_t i = 0; i < model->timeline_count && i < replay->moment_count; i++) {
		allocations += replay->moments[i].allocations;
		model->timeline[i].live_bytes = replay->moments[i].last_bytes;
		model->timeline[i].allocations = allocations;
	}
}

/* `before` minus `left`. */
static struct limpet_model_site difference(const struct limpet_model_site *before,
					   const struct limpet_model_site *left)
{
	return (struct limpet_model_site){
		.allocations = before->allocations - left->allocations,
		.allocated_bytes = before->allocated_bytes - left->allocated_bytes,
		.frees = before->frees - left->frees,
		.freed_bytes = before->freed_bytes - left->freed_bytes,
		.temporary_allocations =
			before->temporary_allocations - left->temporary_allocations,
		.reallocations = before->reallocations - left->reallocations,
		.live_allocations = before->live_allocations - left->live_allocations,
		.live_bytes = before->live_bytes - left->live_bytes,
		.peak_allocations = before->peak_allocations - left->peak_allocations,
		.peak_bytes = before->peak_bytes - left->peak_bytes,
		.growth_bytes = before->growth_bytes - left->growth_bytes,
	};
}

/* ------------------------------------------------------------------ replaying */

/* The ends of equal parts, or the points of the timeline, whose figures become those of the kept
 * blocks. */
static int choose_ends(const struct limpet_analysis *analysis, size_t moments, uint64_t **ret_ends,
		       size_t *ret_count)
{
	const struct limpet_model *model = analysis->model;
	size_t count = moments ? moments : model->timeline_count;
	uint64_t *ends = calloc(count + 1, sizeof(*ends));
	uint64_t length = model->to_ns > model->from_ns ? model->to_ns - model->from_ns : 0;

	if (!ends)
		return -ENOMEM;
	for (size_t i = 0; i < count; i++) {
		if (moments)
			ends[i] = model->from_ns +
				  (uint64_t)((double)length * (double)(i + 1) / (double)count);
		else /* a point includes the events of its time */
			ends[i] = model->timeline[i].time_ns + 1;
	}
	*ret_ends = ends;
	*ret_count = count;
	return 0;
}

static int replay(struct limpet_analysis *analysis, const struct limpet_analysis_options *options,
		  bool series, struct limpet_replay **ret_replay)
{
	LIMPET_FREE uint64_t *ends = NULL;
	struct limpet_replay_options replay_options = {.kept = analysis->kept,
						       .filter = options->filter,
						       .progress = options->progress,
						       .context = options->context};
	int code = choose_ends(analysis, series ? 0 : options->moments, &ends,
			       &replay_options.end_count);

	if (code < 0)
		return code;
	replay_options.ends = ends;
	return limpet_replay_new(analysis->reader, analysis->model, &replay_options, ret_replay);
}

/* ------------------------------------------------------------------ opening */

/* A replay would cover another time than the sums. */
static bool is_partly_summed(const struct limpet_model *model)
{
	return model->given_up_ns && model->from_ns <= model->given_up_ns;
}

static bool needs_replay(const struct limpet_analysis_options *options)
{
	return options->replay || (options->filter && limpet_filter_needs_events(options->filter));
}

/* Of blocks that were made where only sums are kept, it is not known which are live. */
static int check_births(const struct limpet_analysis *analysis,
			const struct limpet_analysis_options *options, struct limpet_err *err)
{
	const uint64_t kept_ns = analysis->model->given_up_ns;
	char text[LIMPET_UNITS_TEXT];
	uint64_t from_ns, to_ns;

	if (!options->filter || !limpet_filter_births(options->filter, &from_ns, &to_ns))
		return 0;
	if (analysis->model->compact) {
		limpet_err_set(err, -ENODATA,
			       "a compact trace does not say when blocks were allocated: it has "
			       "only sums");
		limpet_err_hint(err,
				"capture without --compact to keep events; sums can be limited "
				"by --from and --to");
		return -ENODATA;
	}
	if (!kept_ns || from_ns > kept_ns)
		return 0;
	limpet_units_format_duration(text, kept_ns);
	limpet_err_set(err, -ERANGE,
		       "of blocks that were allocated before %s only sums are kept (--max-size)",
		       text);
	limpet_err_hint(err, "--born-between can begin later than %s", text);
	return -ERANGE;
}

/* Of another profiler's file neither the thread of a block is known, nor its lifetime. */
static int check_recorder(const struct limpet_analysis *analysis,
			  const struct limpet_analysis_options *options, struct limpet_err *err)
{
	const struct limpet_model *model = analysis->model;

	if (!limpet_model_is_imported(model) ||
	    (!options->blocks && !(options->filter && limpet_filter_needs_events(options->filter))))
		return 0;
	limpet_err_set(err, -ENODATA,
		       "a file of %s does not say which thread allocated a block, nor which block "
		       "was freed",
		       model->target->recorder);
	limpet_err_hint(err, "the other views need neither; sums can be limited by --from and "
			     "--to, and by function");
	return -ENODATA;
}

static int build_model(struct limpet_analysis *analysis,
		       const struct limpet_analysis_options *options, struct limpet_err *err)
{
	struct limpet_model_options window = {.from_ns = options->from_ns, .to_ns = options->to_ns};
	int code = limpet_model_build(analysis->reader, &window, &analysis->model, err);

	if (code == 0)
		code = check_recorder(analysis, options, err);
	if (code == 0)
		code = check_births(analysis, options, err);
	if (code < 0 || !needs_replay(options) || !is_partly_summed(analysis->model))
		return code;
	window.from_ns = analysis->model->given_up_ns + LIMPET_TRACE_TICK_NS;
	limpet_model_free(LIMPET_TAKE(analysis->model));
	analysis->narrowed = true;
	return limpet_model_build(analysis->reader, &window, &analysis->model, err);
}

static int apply_filter(struct limpet_analysis *analysis,
			const struct limpet_analysis_options *options, struct limpet_err *err)
{
	const bool blocks = limpet_filter_needs_events(options->filter);
	const bool series =
		options->series && !analysis->model->compact && !is_partly_summed(analysis->model);
	const struct limpet_model_site before = analysis->view.totals;
	int code;

	analysis->model->born = limpet_filter_births(
		options->filter, &analysis->model->born_from_ns, &analysis->model->born_to_ns);
	if (blocks && analysis->model->sample_bytes) {
		limpet_err_set(err, -ENOTSUP, "a sampled trace cannot be filtered by %s",
			       analysis->model->born ? "when blocks were allocated" : "threads");
		limpet_err_hint(err, "%s",
				analysis->model->born
					? "--from and --to show what was allocated in that time"
					: "filter by function:, file: or module: instead");
		return -ENOTSUP;
	}
	analysis->filtered = true;
	analysis->filter = options->filter;
	code = limpet_filter_nodes(options->filter, analysis->locations, &analysis->kept);
	/* Sizes and timeline of sums cannot be filtered: leave them out. */
	if (options->series && !series)
		analysis->model->size_count = analysis->model->timeline_count = 0;
	if (code == 0 && (blocks || options->replay || series))
		code = replay(analysis, options, series, &analysis->replay);
	if (code < 0)
		return code;
	keep_maps(analysis, blocks);
	keep_sites(analysis, blocks);
	analysis->view.site_count = analysis->model->site_count;
	limpet_view_add_up(&analysis->view);
	analysis->hidden = difference(&before, &analysis->view.totals);
	keep_totals(analysis);
	if (series)
		keep_series(analysis);
	return 0;
}

static int fill(struct limpet_analysis *analysis, const char *path,
		const struct limpet_analysis_options *options, struct limpet_err *err)
{
	int code = limpet_trace_reader_open(path, &analysis->reader, err);

	if (code == 0)
		code = build_model(analysis, options, err);
	if (code < 0)
		return code;
	if (options->look_up && !analysis->model->sealed &&
	    analysis->model->end->end == LIMPET_END_RUNNING)
		code = options->look_up(analysis->model);
	if (code == 0)
		code = limpet_locations_new(analysis->model, &analysis->locations);
	if (code < 0)
		return code;
	analysis->view = (struct limpet_view){
		.locations = analysis->locations,
		.sites = analysis->model->sites,
		.site_count = analysis->model->site_count,
		.full = options->full,
		.sort = options->sorted                                    ? options->sort
			: analysis->model->target->mode == LIMPET_MODE_RUN ? LIMPET_REPORT_PEAK
									   : LIMPET_REPORT_LIVE,
	};
	limpet_view_add_up(&analysis->view);
	analysis->events = analysis->model->totals.events;
	if (options->filter && !limpet_filter_is_empty(options->filter))
		return apply_filter(analysis, options, err);
	if (options->replay)
		return replay(analysis, options, false, &analysis->replay);
	return 0;
}

int limpet_analysis_open(const char *path, const struct limpet_analysis_options *options,
			 struct limpet_analysis *ret_analysis, struct limpet_err *err)
{
	struct limpet_analysis analysis = {0};
	int code;

	*err = (struct limpet_err){0};
	code = fill(&analysis, path, options, err);
	if (code < 0) {
		limpet_analysis_close(&analysis);
		if (code == -ENODATA && !err->message[0]) {
			limpet_err_set(err, code, "'%s' contains only sums, no single events",
				       path);
			limpet_err_hint(err, "capture without --compact to keep events");
		}
		return err->message[0] ? code
				       : limpet_err_set(err, code, "cannot read '%s': %s", path,
							strerror(-code));
	}
	*ret_analysis = analysis;
	return 0;
}

void limpet_analysis_close(struct limpet_analysis *analysis)
{
	limpet_replay_free(analysis->replay);
	limpet_locations_free(analysis->locations);
	limpet_model_free(analysis->model);
	limpet_trace_reader_free(analysis->reader);
	free(analysis->kept);
	*analysis = (struct limpet_analysis){0};
}
