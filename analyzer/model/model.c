#include "analyzer/model/model.h"

#include <errno.h>
#include <string.h>

#include "analyzer/model/model_bounds.h"
#include "analyzer/model/model_sum.h"
#include "analyzer/model/model_symbols.h"
#include "common/base_name.h"
#include "common/begins.h"
#include "common/units.h"

struct limpet_model_private {
	struct limpet_model_symbols *symbols;
	struct limpet_model_address *addresses;
	size_t address_count;
	struct limpet_trace_overload *overloads;
};

/* ------------------------------------------------------------------ figures */

static void fill_totals(struct limpet_model *model, const struct limpet_model_sum *sum)
{
	model->totals =
		limpet_model_counts_totals(&sum->sums.totals, &sum->totals_before, sum->sums.scale);
	model->totals.peak_bytes = sum->peak_bytes;
	model->totals.peak_ns = sum->peak_ns;
	model->totals.dropped_events = sum->missing.dropped_events;
	model->totals.truncated_stacks = sum->truncated_stacks;
	model->totals.unseen_calls = sum->missing.unseen_calls;
}

void limpet_model_judge(struct limpet_model *model, uint64_t found)
{
	const struct limpet_model_totals *totals = &model->totals;
	const struct limpet_model_missing *missing = &model->missing;

	model->losses = model->end->losses | missing->losses | found |
			limpet_loss_if(!model->end->known, LIMPET_LOSS_UNFINISHED) |
			limpet_loss_if(model->damage->gone, LIMPET_LOSS_DAMAGED) |
			limpet_loss_if(totals->dropped_events, LIMPET_LOSS_DROPPED) |
			limpet_loss_if(totals->unseen_calls, LIMPET_LOSS_UNSEEN) |
			limpet_loss_if(missing->untracked_allocations, LIMPET_LOSS_UNTRACKED) |
			limpet_loss_if(missing->inferred_frees, LIMPET_LOSS_INFERRED) |
			limpet_loss_if(totals->truncated_stacks, LIMPET_LOSS_TRUNCATED) |
			limpet_loss_if(model->sample_bytes, LIMPET_LOSS_SAMPLED) |
			limpet_loss_if(model->target->unseen_rss_share >= 0, LIMPET_LOSS_PARTIAL) |
			limpet_loss_if(limpet_model_is_imported(model), LIMPET_LOSS_RECORDER);
	model->complete = limpet_losses_complete(model->losses);
	model->exact = limpet_losses_exact(model->losses);
	limpet_model_bounds_find(model, true);
}

bool limpet_model_lacks_events(const struct limpet_model *model)
{
	/* A trace that is being written may look as if its end were damaged. */
	const uint64_t going_on =
		LIMPET_LOSS_BIT(LIMPET_LOSS_UNFINISHED) | LIMPET_LOSS_BIT(LIMPET_LOSS_DAMAGED);
	const bool runs = model->end->end == LIMPET_END_RUNNING;

	return !limpet_losses_complete(model->losses & ~(runs ? going_on : 0));
}

void limpet_model_bound_again(struct limpet_model *model)
{
	limpet_model_bounds_find(model, false);
}

/* What the site had when the window began. */
static const struct limpet_site_count *before(const struct limpet_model_sum *sum,
					      const struct limpet_site_count *site)
{
	static const struct limpet_site_count nothing;
	const size_t at = (size_t)(site - sum->sums.sites.list);

	return at < sum->site_count_before ? &sum->sites_before[at] : &nothing;
}

static void add_site(struct limpet_model *model, const struct limpet_model_sum *sum,
		     const struct limpet_site_count *from)
{
	const struct limpet_scale scale = sum->sums.scale;
	const struct limpet_site_count *peak = limpet_site_counts_find(&sum->at_peak, from->node);
	struct limpet_model_site site = limpet_model_counts_site(from->node, &from->counts,
								 &before(sum, from)->counts, scale);

	if (peak) {
		const struct limpet_model_site held =
			limpet_model_counts_site(0, &peak->counts, &peak->counts, scale);

		site.peak_allocations = held.live_allocations;
		site.peak_bytes = held.live_bytes;
	}
	if (!site.allocations && !site.frees && !site.live_allocations && !site.peak_allocations)
		return;
	if (model->site_estimates)
		model->site_estimates[model->site_count] =
			sum->estimates[from - sum->sums.sites.list];
	model->sites[model->site_count++] = site;
}

static void add_map(struct limpet_model *model, const struct limpet_model_sum *sum,
		    const struct limpet_site_count *from)
{
	const struct limpet_map_counts *all = &from->maps, *then = &before(sum, from)->maps;
	const struct limpet_model_map_site map = {
		.node = from->node,
		.mmaps = all->mmaps - then->mmaps,
		.mmap_bytes = all->mmap_bytes - then->mmap_bytes,
		.unmapped_bytes = all->unmapped_bytes - then->unmapped_bytes,
		.mapped_bytes = limpet_at_least_zero(all->mmap_bytes - all->unmapped_bytes)};

	if (map.mmaps || map.unmapped_bytes || map.mapped_bytes)
		model->maps[model->map_count++] = map;
}

static int fill_sites(struct limpet_model *model, const struct limpet_model_sum *sum)
{
	const struct limpet_site_counts *sites = &sum->sums.sites;

	model->sites = calloc(sites->count + 1, sizeof(*model->sites));
	model->maps = calloc(sites->count + 1, sizeof(*model->maps));
	if (model->sample_bytes)
		model->site_estimates = calloc(sites->count + 1, sizeof(*model->site_estimates));
	if (!model->sites || !model->maps || (model->sample_bytes && !model->site_estimates))
		return -ENOMEM;
	for (uint32_t node = 0; node < model->node_count; node++) {
		const struct limpet_site_count *site = limpet_site_counts_find(sites, node);

		if (!site)
			continue;
		add_site(model, sum, site);
		add_map(model, sum, site);
	}
	return 0;
}

static bool has_owners(const struct limpet_model *model)
{
	for (size_t i = 0; i < model->site_count; i++)
		if (model->nodes[model->sites[i].node].owner)
			return true;
	return false;
}

static int fill_owners(struct limpet_model *model, const struct limpet_trace_reader *reader)
{
	char *const *names;
	uint32_t named = limpet_trace_reader_owners(reader, &names);

	if (!has_owners(model))
		return 0;
	model->owner_count = LIMPET_TRACE_OWNERS_MAX;
	model->owners = calloc(model->owner_count, sizeof(*model->owners));
	if (!model->owners)
		return -ENOMEM;
	for (uint32_t i = 0; i < model->owner_count; i++)
		model->owners[i].name = i < named && names[i] ? names[i] : "";
	for (size_t i = 0; i < model->site_count; i++) {
		const struct limpet_model_site *site = &model->sites[i];
		struct limpet_model_owner *owner = &model->owners[model->nodes[site->node].owner];

		owner->allocations += site->allocations;
		owner->allocated_bytes += site->allocated_bytes;
		owner->frees += site->frees;
		owner->freed_bytes += site->freed_bytes;
		owner->live_allocations += site->live_allocations;
		owner->live_bytes += site->live_bytes;
		owner->peak_bytes += site->peak_bytes;
	}
	return 0;
}

static int fill_sizes(struct limpet_model *model, const struct limpet_model_sum *sum)
{
	const struct limpet_scale scale = sum->sums.scale;

	model->sizes = calloc(LIMPET_TRACE_SIZE_BUCKETS, sizeof(*model->sizes));
	if (!model->sizes)
		return -ENOMEM;
	for (unsigned i = 0; i < LIMPET_TRACE_SIZE_BUCKETS; i++) {
		const struct limpet_size_counts *all = &sum->sums.sizes[i];
		const struct limpet_size_counts *then = &sum->sizes_before[i];
		const uint64_t allocations =
			limpet_unscaled(all->allocations - then->allocations, scale.block_bits);

		if (allocations)
			model->sizes[model->size_count++] = limpet_model_size_of(
				i, allocations,
				limpet_unscaled(all->allocated_bytes - then->allocated_bytes,
						scale.byte_bits));
	}
	return 0;
}

static int fill_from_sum(struct limpet_model *model, struct limpet_trace_reader *reader)
{
	struct limpet_model_sum sum;
	int code = limpet_model_sum_init(&sum, reader, model->from_ns, model->to_ns);

	if (code < 0)
		return code;
	model->compact = model->target->compact;
	model->given_up_ns = sum.given_up_ns;
	model->widened = sum.from_ns != model->from_ns || sum.to_ns != model->to_ns;
	model->from_ns = sum.from_ns;
	model->to_ns = sum.to_ns;
	model->sample_bytes = sum.sums.sample_bytes;
	model->estimates = sum.estimate;
	model->private->overloads = sum.overloads;
	model->overloads = sum.overloads;
	model->overload_count = sum.overload_count;
	sum.overloads = NULL;
	model->timeline = sum.points;
	model->timeline_count = sum.point_count;
	sum.points = NULL;
	fill_totals(model, &sum);
	code = fill_sites(model, &sum);
	if (code == 0)
		code = fill_sizes(model, &sum);
	if (code == 0) {
		model->missing = sum.missing;
		limpet_model_judge(model, sum.losses);
	}
	limpet_model_sum_done(&sum);
	return code;
}

/* ------------------------------------------------------------------ addresses */

static int compare_addresses(const void *a, const void *b)
{
	const struct limpet_model_address *left = a, *right = b;

	if (left->module != right->module)
		return left->module < right->module ? -1 : 1;
	return left->address < right->address ? -1 : left->address > right->address;
}

static int list_addresses(struct limpet_model *model)
{
	struct limpet_model_address *list = calloc(model->node_count + 1ul, sizeof(*list));
	size_t count = 0, kept = 0;

	if (!list)
		return -ENOMEM;
	for (uint32_t i = 1; i < model->node_count; i++)
		if (!model->nodes[i].lost)
			list[count++] =
				(struct limpet_model_address){.module = model->nodes[i].module,
							      .address = model->nodes[i].address};
	qsort(list, count, sizeof(*list), compare_addresses);
	for (size_t i = 0; i < count; i++)
		if (!kept || compare_addresses(&list[kept - 1], &list[i]) != 0)
			list[kept++] = list[i];
	model->private->addresses = list;
	model->private->address_count = kept;
	return 0;
}

size_t limpet_model_addresses(const struct limpet_model *model,
			      const struct limpet_model_address **ret_addresses)
{
	*ret_addresses = model->private->addresses;
	return model->private->address_count;
}

uint32_t limpet_model_symbols(const struct limpet_model *model, uint32_t module, uint64_t address,
			      const struct limpet_model_frame **ret_frames)
{
	return limpet_model_symbols_find(model->private->symbols, module, address, ret_frames);
}

struct limpet_model_symbols *limpet_model_symbol_table(struct limpet_model *model)
{
	return model->private->symbols;
}

/* ------------------------------------------------------------------ building */

static int build(struct limpet_model *model, struct limpet_trace_reader *reader)
{
	int code = fill_from_sum(model, reader);

	if (code == 0)
		code = fill_owners(model, reader);
	if (code == 0)
		code = limpet_model_symbols_new(reader, &model->private->symbols);
	if (code < 0)
		return code;
	model->sealed = limpet_model_symbols_count(model->private->symbols) > 0 ||
			limpet_model_symbols_finished(model->private->symbols);
	model->symbols_complete = limpet_model_symbols_finished(model->private->symbols);
	return list_addresses(model);
}

/* Only sums of all that was discarded are known. */
static int check_window(const struct limpet_model *model, struct limpet_err *err)
{
	const uint64_t kept_ns = model->given_up_ns + LIMPET_TRACE_TICK_NS;
	char text[LIMPET_UNITS_TEXT];

	if (!model->given_up_ns ||
	    ((!model->from_ns || model->from_ns >= kept_ns) && model->to_ns >= kept_ns))
		return 0;
	limpet_units_format_duration(text, kept_ns);
	limpet_err_set(err, -ERANGE, "the trace has no single events before %s, only their sums",
		       text);
	limpet_err_hint(err,
			"a window may begin where the capture does, and begin or end later than %s",
			text);
	return -ERANGE;
}

int limpet_model_build(struct limpet_trace_reader *reader,
		       const struct limpet_model_options *options, struct limpet_model **ret_model,
		       struct limpet_err *err)
{
	static const struct limpet_model_options whole;
	struct limpet_model *model = calloc(1, sizeof(*model));
	int code;

	if (!options)
		options = &whole;
	if (options->to_ns && options->to_ns <= options->from_ns) {
		free(model);
		return limpet_err_set(err, -EINVAL, "the window ends before it begins");
	}
	if (model)
		model->private = calloc(1, sizeof(*model->private));
	if (!model || !model->private) {
		free(model);
		return limpet_err_set(err, -ENOMEM, "out of memory");
	}
	limpet_model_live_refresh(model, reader);
	model->from_ns = options->from_ns;
	model->to_ns =
		options->to_ns && options->to_ns < model->duration_ns ? options->to_ns : UINT64_MAX;
	code = build(model, reader);
	if (code < 0) {
		limpet_model_free(model);
		return limpet_err_set(err, code, "cannot read the trace: %s", strerror(-code));
	}
	code = check_window(model, err);
	if (code < 0) {
		limpet_model_free(model);
		return code;
	}
	/* A window that begins after the end is empty. */
	if (model->to_ns > model->duration_ns)
		model->to_ns =
			model->from_ns > model->duration_ns ? model->from_ns : model->duration_ns;
	model->windowed = model->from_ns || model->to_ns < model->duration_ns;
	*ret_model = model;
	return 0;
}

void limpet_model_live_refresh(struct limpet_model *model, const struct limpet_trace_reader *reader)
{
	model->target = limpet_trace_reader_target(reader);
	model->end = limpet_trace_reader_end(reader);
	model->damage = limpet_trace_reader_damage(reader);
	model->duration_ns = model->end->time_ns;
	model->mark_count = limpet_trace_reader_marks(reader, &model->marks);
	model->node_count = limpet_trace_reader_nodes(reader, &model->nodes);
	model->module_count = limpet_trace_reader_modules(reader, &model->modules);
}

int limpet_model_live_new(struct limpet_model_symbols *symbols, struct limpet_model **ret_model)
{
	struct limpet_model *model = calloc(1, sizeof(*model));

	if (model)
		model->private = calloc(1, sizeof(*model->private));
	if (!model || !model->private) {
		free(model);
		limpet_model_symbols_free(symbols);
		return -ENOMEM;
	}
	model->private->symbols = symbols;
	*ret_model = model;
	return 0;
}

void limpet_model_free(struct limpet_model *model)
{
	if (!model)
		return;
	limpet_model_symbols_free(model->private->symbols);
	free(model->private->addresses);
	free(model->private->overloads);
	free(model->private);
	free(model->sites);
	free(model->owners);
	free(model->site_estimates);
	free(model->maps);
	free(model->timeline);
	free(model->sizes);
	free(model);
}

/* What others hold that are followed, too, cannot be told from the rest. */
static bool follows_glibc_alone(const struct limpet_model *model)
{
	const struct limpet_trace_target *target = model->target;

	return !target->other_allocators && limpet_begins(target->allocators, "glibc") &&
	       !strchr(target->allocators, ',') && target->unseen_rss_share < 0 &&
	       !(model->losses & LIMPET_LOSS_BIT(LIMPET_LOSS_LATE_ALLOCATOR));
}

struct limpet_unfollowed limpet_model_unfollowed(const struct limpet_model *model)
{
	const struct limpet_trace_end *end = model->end;
	struct limpet_unfollowed_part first = {0}, last = {0};

	if (follows_glibc_alone(model)) {
		first = limpet_unfollowed_of(&model->target->account);
		last = limpet_unfollowed_of(&end->account);
	}
	return limpet_unfollowed_judge(&first, &last, model->totals.mapped_bytes,
				       end->unfollowed[0] ? end->unfollowed
							  : model->target->unfollowed);
}

bool limpet_model_has_module(const struct limpet_model *model, const char *file)
{
	const size_t length = strlen(file);

	for (uint32_t i = 1; i < model->module_count; i++) {
		const char *path = model->modules[i].path;
		const char *name = path ? limpet_base_name(path) : "";

		if (!strncmp(name, file, length) &&
		    (!name[length] || strchr(".0123456789", name[length])))
			return true;
	}
	return false;
}
