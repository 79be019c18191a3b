#include "cli/top_source.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "analyzer/model/tail.h"
#include "analyzer/views/analysis.h"
#include "cli/live_names.h"
#include "cli/top_finding.h"
#include "cli/view_options.h"

/* Sums of sites, or rows of events, that are read at a time, in some hundredths of a second. */
#define PIECE ((size_t)1 << 17)

struct limpet_top_source {
	char *path;
	struct limpet_tail *tail; /* NULL: finished, and in `heap` */
	bool unsealed; /* the capture has ended, and the file has no names: `tail` has them */
	struct limpet_analysis analysis;
	const struct limpet_model *model;
	struct limpet_locations *locations; /* of the live model */
	uint64_t generation;                /* generation of the model that they are for */
	struct limpet_model_site *kept;
	struct limpet_view view;
	struct limpet_replay *replay;
	struct limpet_replay_thread *threads;
	char *finding; /* of the heap, or of the last view */
};

/* Without names offsets are shown. */
static void look_up_names(struct limpet_top_source *source)
{
	struct limpet_namer *namer;

	if (limpet_tail_model(source->tail) &&
	    limpet_cli_namer_new(source->model->target, &namer) == 0)
		limpet_tail_set_namer(source->tail, namer);
}

/* `progress`: show it, on a terminal where nothing is drawn yet. */
static int open_finished(struct limpet_top_source *source, bool progress, struct limpet_err *err)
{
	const struct limpet_analysis_options options = {
		.progress = progress ? limpet_cli_show_progress : NULL};
	int result = limpet_analysis_open(source->path, &options, &source->analysis, err);

	if (progress)
		limpet_cli_clear_progress();
	if (result < 0)
		return result;
	source->model = source->analysis.model;
	free(source->finding);
	source->finding = NULL;
	result = limpet_top_finding_first(&source->analysis, &source->finding, err);
	if (result == -ENOMEM)
		return result;
	/* A trace whose events cannot be read has figures to show all the same. */
	*err = (struct limpet_err){0};
	return 0;
}

int limpet_top_source_open(const char *path, struct limpet_top_source **ret_source,
			   struct limpet_err *err)
{
	struct limpet_top_source *source = calloc(1, sizeof(*source));
	int result;

	*err = (struct limpet_err){0};
	if (source)
		source->path = strdup(path);
	if (!source || !source->path) {
		free(source);
		return limpet_err_set(err, -ENOMEM, "out of memory");
	}
	result = limpet_tail_open(path, &source->tail, err);
	if (result >= 0 && limpet_tail_is_over(source->tail)) {
		limpet_tail_free(source->tail);
		source->tail = NULL;
		result = open_finished(source, true, err);
	} else if (result >= 0) {
		source->model = limpet_tail_model(source->tail);
		limpet_tail_bound(source->tail, PIECE);
		look_up_names(source);
	}
	if (result < 0) {
		limpet_top_source_free(source);
		return result;
	}
	*ret_source = source;
	return 0;
}

void limpet_top_source_free(struct limpet_top_source *source)
{
	if (!source)
		return;
	limpet_locations_free(source->locations);
	limpet_tail_free(source->tail);
	limpet_replay_free(source->replay);
	if (source->analysis.reader)
		limpet_analysis_close(&source->analysis);
	free(source->threads);
	free(source->finding);
	free(source->kept);
	free(source->path);
	free(source);
}

bool limpet_top_source_is_live(const struct limpet_top_source *source)
{
	return source->tail != NULL;
}

bool limpet_top_source_is_behind(const struct limpet_top_source *source)
{
	return source->tail && !source->unsealed && limpet_tail_is_behind(source->tail);
}

int limpet_top_source_update(struct limpet_top_source *source, struct limpet_err *err)
{
	int result;

	if (!source->tail)
		return 0;
	result = limpet_tail_update(source->tail, err);
	if (result < 0 || !limpet_tail_is_over(source->tail) || source->unsealed)
		return result;
	result = open_finished(source, false, err);
	if (result < 0)
		return result;
	if (!source->model->sealed) {
		limpet_analysis_close(&source->analysis);
		source->unsealed = true;
		source->model = limpet_tail_model(source->tail);
		return source->model ? 1 : -ENOMEM;
	}
	limpet_locations_free(source->locations);
	source->locations = NULL;
	limpet_tail_free(source->tail);
	source->tail = NULL;
	return 1;
}

/* ------------------------------------------------------------------ figures */

static int refresh_tail(struct limpet_top_source *source, uint64_t window_ns)
{
	const uint64_t generation = limpet_tail_generation(source->tail);
	int result = 0;

	limpet_tail_window(source->tail, window_ns);
	source->model = limpet_tail_model(source->tail);
	if (!source->model)
		return -ENOMEM;
	if (source->locations && source->generation == generation)
		return 0;
	limpet_locations_free(source->locations);
	source->locations = NULL;
	result = limpet_locations_new(source->model, &source->locations);
	source->generation = generation;
	return result;
}

static int keep_sites(struct limpet_top_source *source, const struct limpet_filter *filter)
{
	struct limpet_view *view = &source->view;
	LIMPET_FREE bool *nodes = NULL;
	size_t count = 0;
	int result = limpet_filter_nodes(filter, view->locations, &nodes);

	if (result < 0)
		return result;
	source->kept = calloc(view->site_count + 1, sizeof(*source->kept));
	if (!source->kept)
		return -ENOMEM;
	for (size_t i = 0; i < view->site_count; i++)
		if (nodes[view->sites[i].node])
			source->kept[count++] = view->sites[i];
	view->sites = source->kept;
	view->site_count = count;
	return 0;
}

int limpet_top_source_view(struct limpet_top_source *source, const struct limpet_top_view *look,
			   const struct limpet_view **ret_view)
{
	int result = source->tail ? refresh_tail(source, look->window_ns) : 0;

	if (result < 0)
		return result;
	source->view = (struct limpet_view){
		.locations = source->tail ? source->locations : source->analysis.locations,
		.sites = source->model->sites,
		.site_count = source->model->site_count,
		.sort = look->sort,
		.full = look->full,
	};
	free(source->kept);
	source->kept = NULL;
	if (look->filter)
		result = keep_sites(source, look->filter);
	if (result < 0)
		return result;
	limpet_view_add_up(&source->view);
	*ret_view = &source->view;
	return 0;
}

const struct limpet_model *limpet_top_source_model(const struct limpet_top_source *source)
{
	return source->model;
}

const char *limpet_top_source_path(const struct limpet_top_source *source)
{
	return source->path;
}

int limpet_top_source_finding(struct limpet_top_source *source, const struct limpet_top_view *look,
			      const char **ret_text)
{
	const struct limpet_model *model = source->model;
	char *text = NULL;
	int result;

	if (source->tail) {
		const uint64_t window_ns = look->window_ns && model->to_ns > model->from_ns
						   ? model->to_ns - model->from_ns
						   : 0;

		result = limpet_top_finding_growing(&source->view, window_ns, &text);
		if (result < 0)
			return result;
		free(source->finding);
		source->finding = text;
	}
	*ret_text = source->finding;
	return 0;
}

/* ------------------------------------------------------------------ threads */

static int64_t finished_threads(struct limpet_top_source *source,
				const struct limpet_replay_thread **ret_list)
{
	static const struct limpet_replay_options options;

	if (!source->replay) {
		int result = limpet_replay_new(source->analysis.reader, source->analysis.model,
					       &options, &source->replay);

		if (result < 0)
			return result;
	}
	*ret_list = source->replay->threads;
	return (int64_t)source->replay->thread_count;
}

int64_t limpet_top_source_threads(struct limpet_top_source *source,
				  const struct limpet_replay_thread **ret_list, uint64_t *ret_ns)
{
	int64_t count;

	*ret_ns = 0;
	if (!source->tail)
		return finished_threads(source, ret_list);
	free(source->threads);
	source->threads = NULL;
	count = limpet_tail_threads(source->tail, &source->threads, ret_ns);
	*ret_list = source->threads;
	return count;
}

const char *limpet_top_source_thread_name(struct limpet_top_source *source, uint32_t tid,
					  char ret[32])
{
	char path[64];
	FILE *file;

	ret[0] = '\0';
	if (!source->tail) {
		snprintf(ret, 32, "%s",
			 limpet_trace_reader_thread_name(source->analysis.reader, tid));
		return ret;
	}
	snprintf(path, sizeof(path), "/proc/%u/task/%u/comm", source->model->target->pid, tid);
	file = fopen(path, "re");
	if (!file)
		return ret;
	if (!fgets(ret, 32, file))
		ret[0] = '\0';
	fclose(file);
	ret[strcspn(ret, "\n")] = '\0';
	return ret;
}
