#include "analyzer/text/report_json.h"

#include <errno.h>
#include <inttypes.h>
#include <jansson.h>
#include <string.h>

#include "analyzer/model/model_losses.h"
#include "analyzer/text/losses_json.h"
#include "analyzer/views/verdict.h"
#include "common/labels.h"

/* A large capture has millions of frames: the list of sites is written one by one, never held as
 * one tree. */

/* Negative: unknown. */
static json_t *known_number(int64_t value)
{
	return value < 0 ? json_null() : json_integer(value);
}

static json_t *target_object(const struct limpet_trace_target *target)
{
	return json_pack(
		"{s:o,s:o,s:o,s:o,s:o,s:o,s:o,s:o,s:o,s:o}", "pid", limpet_json_known(target->pid),
		"command", limpet_json_text(target->command), "executable",
		limpet_json_text(target->executable), "comm", limpet_json_text(target->comm),
		"allocators", limpet_json_text(target->allocators), "host",
		limpet_json_text(target->host), "kernel", limpet_json_text(target->kernel),
		"machine", limpet_json_text(target->machine), "container",
		limpet_json_text(target->container), "cgroup_limit_bytes",
		limpet_json_known(target->cgroup_limit_bytes));
}

static json_t *labels_object(const char *at)
{
	json_t *object = json_object();
	struct limpet_label label;
	unsigned read = 0;

	while (limpet_labels_next(&at, &read, &label))
		object = limpet_json_set(object, label.name, json_string(label.value));
	return object;
}

/* When allocations were sampled, under overload; null: never. */
static json_t *overloads_object(const struct limpet_model *model)
{
	json_t *list = json_array();
	uint64_t all_ns = 0;

	if (!model->overload_count) {
		json_decref(list);
		return json_null();
	}
	for (size_t i = 0; list && i < model->overload_count; i++) {
		const struct limpet_trace_overload *overload = &model->overloads[i];

		all_ns += overload->to_ns - overload->from_ns;
		list = limpet_json_append(list, json_pack("{s:o,s:o}", "from_seconds",
							  limpet_json_seconds(overload->from_ns),
							  "to_seconds",
							  limpet_json_seconds(overload->to_ns)));
	}
	return json_pack("{s:o,s:o,s:o}", "sample_bytes", limpet_json_number(model->sample_bytes),
			 "seconds", limpet_json_seconds(all_ns), "ranges", list);
}

/* What a site may have beyond its interval; null: nothing is estimated. */
static json_t *unseen_high(const struct limpet_model *model, double most)
{
	return model->sample_bytes ? limpet_json_number((uint64_t)limpet_estimate_unseen(most))
				   : json_null();
}

/* Dropped events by kind; `unknown`: of no known kind. */
static json_t *dropped_object(const struct limpet_model *model)
{
	const struct limpet_dropped *dropped = &model->missing.dropped;
	const uint64_t known =
		dropped->allocations + dropped->frees + dropped->mmaps + dropped->munmaps;
	const uint64_t all = model->missing.dropped_events;

	return json_pack("{s:o,s:o,s:o,s:o,s:o,s:o,s:o,s:o,s:o}", "allocations",
			 limpet_json_number(dropped->allocations), "allocated_bytes",
			 limpet_json_number(dropped->allocated_bytes), "frees",
			 limpet_json_number(dropped->frees), "freed_bytes",
			 limpet_json_number(dropped->freed_bytes), "mmaps",
			 limpet_json_number(dropped->mmaps), "mmap_bytes",
			 limpet_json_number(dropped->mmap_bytes), "munmaps",
			 limpet_json_number(dropped->munmaps), "munmap_bytes",
			 limpet_json_number(dropped->munmap_bytes), "unknown",
			 limpet_json_number(all > known ? all - known : 0));
}

static json_t *capture_object(const struct limpet_report *report)
{
	const struct limpet_model *model = report->model;
	const struct limpet_trace_end *end = model->end;
	const struct limpet_trace_target *target = model->target;
	const char *mode = limpet_model_mode_word(model);
	/* Of another profiler's file it is not known. */
	const bool own = !limpet_model_is_imported(model);
	/* From the end record, if there is one. */
	const char *because = end->known ? end->because : limpet_model_because(model);
	json_t *started = target->wall_ns ? json_real((double)target->wall_ns / 1e9) : json_null();
	json_t *unseen = target->known && target->unseen_rss_share >= 0
				 ? json_real(target->unseen_rss_share)
				 : json_null();

	return json_pack(
		"{s:o,s:o,s:b,s:o,s:o,s:o,s:o,s:o,s:o,s:o,s:o,s:o,s:o,s:o,s:o,s:b,s:b,s:b,s:o,s:o,"
		"s:o,s:o,s:b,s:o,s:o,s:o,s:o,s:o,s:o}",
		"mode", target->known ? json_string(mode) : json_null(), "end",
		end->end == LIMPET_END_UNKNOWN ? json_null()
					       : json_string(limpet_trace_end_word(end->end)),
		"complete", model->complete, "duration_seconds",
		limpet_json_seconds(model->duration_ns), "events",
		limpet_json_number(report->options.capture_events), "dropped_events",
		limpet_json_number_if(own, model->totals.dropped_events), "truncated_stacks",
		limpet_json_number_if(own, model->totals.truncated_stacks), "sample_bytes",
		target->known ? limpet_json_number(target->sample_bytes) : json_null(),
		"attach_stop_microseconds", known_number(end->attach_stop_us),
		"detach_stop_microseconds", known_number(end->detach_stop_us), "agent_unloaded",
		own && end->known ? json_boolean(end->agent_unloaded) : json_null(), "unseen_calls",
		limpet_json_number_if(own, model->totals.unseen_calls), "unseen_rss_share", unseen,
		"started_seconds", started, "damaged_blocks",
		limpet_json_number(model->damage->blocks_damaged + model->damage->blocks_lost),
		"exact", model->exact, "sealed", model->sealed, "estimated",
		model->sample_bytes != 0, "agent_memory_bytes",
		limpet_json_number_if(own && end->known, end->agent_memory_bytes), "overloads",
		overloads_object(model), "unseen_bytes_high",
		unseen_high(model, limpet_estimate_most_bytes(model->sample_bytes)),
		"unseen_allocations_high",
		unseen_high(model, limpet_estimate_most_blocks(model->sample_bytes)), "compact",
		model->compact, "single_events_from_seconds",
		model->compact ? json_null() : limpet_json_seconds(model->given_up_ns),
		"incomplete_because", because[0] ? limpet_json_text(because) : json_null(),
		"incomplete_reasons", limpet_losses_json_keys(model, true), "inexact_reasons",
		limpet_losses_json_keys(model, false), "losses", limpet_losses_json(model),
		"dropped", own ? dropped_object(model) : json_null());
}

static json_t *whole_capture_object(const struct limpet_report *report)
{
	const struct limpet_model *model = report->model;
	json_t *object = capture_object(report);

	object = limpet_json_set(object, "agent_resident_bytes",
				 limpet_json_known(model->end->agent_resident_bytes));
	object = limpet_json_set(object, "names", limpet_json_names(model));
	object = limpet_json_set(object, "recorder", limpet_json_text(model->target->recorder));
	object = limpet_json_set(object, "damaged_lines",
				 limpet_json_number(model->damage->bad_lines));
	return limpet_json_set(object, "labels", labels_object(model->target->labels));
}

/* The ranges of the four figures that have one. */
static json_t *set_ranges(json_t *object, const struct limpet_model_estimates *estimates,
			  uint64_t sample_bytes)
{
	static const char *const keys[LIMPET_FIGURE_COUNT] = {
		[LIMPET_FIGURE_ALLOCATIONS] = "allocations",
		[LIMPET_FIGURE_ALLOCATED_BYTES] = "allocated_bytes",
		[LIMPET_FIGURE_LIVE_ALLOCATIONS] = "live_allocations",
		[LIMPET_FIGURE_LIVE_BYTES] = "live_bytes",
	};

	for (unsigned i = 0; i < LIMPET_FIGURE_COUNT; i++) {
		struct limpet_model_range range = limpet_model_estimates_range(
			estimates, (enum limpet_model_figure)i, sample_bytes);
		char low[32], high[32];

		snprintf(low, sizeof(low), "%s_low", keys[i]);
		snprintf(high, sizeof(high), "%s_high", keys[i]);
		object = limpet_json_set(object, low, limpet_json_number(range.low));
		object = limpet_json_set(object, high, limpet_json_number(range.high));
	}
	return object;
}

/* The certain bounds of the figures; null: not known. */
static json_t *set_bounds(json_t *object, const struct limpet_model_bounds *bounds)
{
	const struct {
		const char *min, *max;
		const struct limpet_model_bound *bound;
	} list[] = {
		{"live_bytes_min", "live_bytes_max", &bounds->live_bytes},
		{"live_allocations_min", "live_allocations_max", &bounds->live_allocations},
		{"peak_bytes_min", "peak_bytes_max", &bounds->peak_bytes},
		{"mapped_bytes_min", "mapped_bytes_max", &bounds->mapped_bytes},
	};

	for (size_t i = 0; i < LIMPET_COUNT_OF(list); i++) {
		const struct limpet_model_bound *bound = list[i].bound;

		object = limpet_json_set(object, list[i].min,
					 bound->has_min ? limpet_json_number(bound->min)
							: json_null());
		object = limpet_json_set(object, list[i].max,
					 bound->has_max ? limpet_json_number(bound->max)
							: json_null());
	}
	return object;
}

/* What other profilers do not say. */
static json_t *forget_unrecorded(json_t *object)
{
	static const char *const of_limpet[] = {"reallocations",
						"foreign_frees",
						"foreign_freed_bytes",
						"inferred_frees",
						"untracked_allocations",
						"untracked_bytes",
						"mmaps",
						"mmap_bytes",
						"munmaps",
						"unmapped_bytes",
						"foreign_unmapped_bytes",
						"mapped_bytes"};

	for (size_t i = 0; i < LIMPET_COUNT_OF(of_limpet); i++)
		object = limpet_json_set(object, of_limpet[i], json_null());
	return object;
}

static json_t *totals_object(const struct limpet_model *model, bool is_filtered)
{
	const struct limpet_model_totals *totals = &model->totals;
	json_t *object = json_object();
	const struct {
		const char *key;
		uint64_t value;
	} list[] = {
		{"allocations", totals->allocations},
		{"frees", totals->frees},
		{"allocated_bytes", totals->allocated_bytes},
		{"freed_bytes", totals->freed_bytes},
		{"reallocations", totals->reallocations},
		{"live_allocations", totals->live_allocations},
		{"live_bytes", totals->live_bytes},
		{"peak_bytes", totals->peak_bytes},
		{"temporary_allocations", totals->temporary_allocations},
		{"foreign_frees", totals->foreign_frees},
		{"foreign_freed_bytes", totals->foreign_freed_bytes},
		{"inferred_frees", totals->inferred_frees},
		{"untracked_allocations", totals->untracked_allocations},
		{"untracked_bytes", totals->untracked_bytes},
		{"events", totals->events},
		{"mmaps", totals->mmaps},
		{"mmap_bytes", totals->mmap_bytes},
		{"munmaps", totals->munmaps},
		{"unmapped_bytes", totals->unmapped_bytes},
		{"foreign_unmapped_bytes", totals->foreign_unmapped_bytes},
		{"mapped_bytes", totals->mapped_bytes},
	};
	/* What samples do not say; nor do filters, as it is not known which threads and stacks
	 * older blocks were of. */
	static const char *const of_older[] = {"foreign_frees", "foreign_freed_bytes"};

	for (size_t i = 0; i < LIMPET_COUNT_OF(list); i++)
		object = limpet_json_set(object, list[i].key, limpet_json_number(list[i].value));
	object = set_bounds(object, &model->bounds);
	object = limpet_json_set(object, "growth_bytes", json_integer(totals->growth_bytes));
	object = limpet_json_set(object, "peak_seconds", limpet_json_seconds(totals->peak_ns));
	if (model->sample_bytes)
		object = limpet_json_set(object, "temporary_allocations", json_null());
	for (size_t i = 0; i < LIMPET_COUNT_OF(of_older) && (model->sample_bytes || is_filtered);
	     i++)
		object = limpet_json_set(object, of_older[i], json_null());
	if (limpet_model_is_imported(model))
		object = forget_unrecorded(object);
	/* A freed block has a size: 0 bytes mean that no size was known. */
	if (totals->foreign_frees && !totals->foreign_freed_bytes)
		object = limpet_json_set(object, "foreign_freed_bytes", json_null());
	return model->sample_bytes ? set_ranges(object, &model->estimates, model->sample_bytes)
				   : object;
}

/* Null unless there are several. */
static json_t *owners_array(const struct limpet_model *model)
{
	const uint32_t count = model->owners ? model->owner_count : 0;
	json_t *array = model->owners ? json_array() : json_null();

	for (uint32_t i = 0; array && i < count; i++) {
		const struct limpet_model_owner *owner = &model->owners[i];

		if (!owner->allocations && !owner->live_allocations && !owner->frees)
			continue;
		array = limpet_json_append(
			array, json_pack("{s:o,s:o,s:o,s:o,s:o,s:o,s:o,s:o}", "name",
					 limpet_json_text(owner->name), "allocations",
					 limpet_json_number(owner->allocations), "allocated_bytes",
					 limpet_json_number(owner->allocated_bytes), "frees",
					 limpet_json_number(owner->frees), "freed_bytes",
					 limpet_json_number(owner->freed_bytes), "live_allocations",
					 limpet_json_number(owner->live_allocations), "live_bytes",
					 limpet_json_number(owner->live_bytes), "peak_bytes",
					 limpet_json_number(owner->peak_bytes)));
	}
	return array;
}

/* The allocator of a stack's blocks; null: not recorded. */
static json_t *owner_name(const struct limpet_model *model, uint32_t node)
{
	uint32_t owner = model->owners ? model->nodes[node].owner : 0;

	return owner ? limpet_json_text(model->owners[owner].name) : json_null();
}

/* `placed`: it is known where modules were in memory. */
static json_t *frame_object(const struct limpet_frame *frame, bool placed)
{
	json_t *object;
	char offset[20];

	snprintf(offset, sizeof(offset), "0x%" PRIx64, frame->offset);
	object = json_pack("{s:o,s:o,s:o,s:o,s:b,s:s,s:b}", "function",
			   limpet_json_text(frame->function), "file", limpet_json_text(frame->file),
			   "line", frame->line ? limpet_json_number(frame->line) : json_null(),
			   "module", limpet_json_text(frame->module), "inlined", frame->inlined,
			   frame->module && placed ? "offset" : "address", offset, "noise",
			   frame->kind != LIMPET_FRAME_PROGRAM);
	return frame->module ? object : limpet_json_set(object, "jit", json_boolean(frame->made));
}

static json_t *stack_array(struct limpet_report *report, uint32_t node, bool *ret_cut)
{
	struct limpet_report_stack stack;
	json_t *array = json_array();

	if (!array || limpet_report_expand(report, node, &stack)) {
		json_decref(array);
		return NULL;
	}
	for (size_t i = 0; array && i < stack.count; i++)
		array = limpet_json_append(
			array,
			frame_object(&stack.frames[i], !limpet_model_is_imported(report->model)));
	*ret_cut = (stack.truncated || stack.lost || !node) &&
		   !limpet_model_is_unfaulted(report->model, node);
	return array;
}

/* null: nobody looked, or the figures are of another moment or of a part. */
static json_t *lost_object(const struct limpet_leak_counts *counts)
{
	json_t *object = counts ? json_object() : json_null();

	for (unsigned i = 0; counts && i < LIMPET_LEAK_STATES; i++)
		object = limpet_json_set(object, limpet_leak_state_word((enum limpet_leak_state)i),
					 limpet_json_lost(true, &counts->amounts.of[i]));
	if (!counts)
		return object;
	object = limpet_json_set(object, "certain", json_boolean(counts->is_certain));
	object = limpet_json_set(object, "unjudged", limpet_json_number(counts->unjudged));
	return limpet_json_set(
		object, "stop_microseconds",
		limpet_json_known(counts->stop_ns / 1000 + (counts->stop_ns % 1000 != 0)));
}

/* The variable that leads to most of it; null: not known. */
static json_t *holder_object(const struct limpet_lost *lost)
{
	return lost->held ? json_pack("{s:o,s:o}", "name", limpet_json_text(lost->held->holder),
				      "bytes", limpet_json_known(lost->held->held_bytes))
			  : json_null();
}

static json_t *site_object(struct limpet_report *report, const struct limpet_report_site *site)
{
	const struct limpet_model_site *figures = &site->figures;
	uint64_t sample_bytes = report->model->sample_bytes;
	bool cut = false;
	json_t *stack = stack_array(report, figures->node, &cut), *object;

	if (!stack)
		return NULL;
	object = json_pack(
		"{s:o,s:o,s:o,s:o,s:o,s:o,s:o,s:o,s:I,s:b,s:o,s:o}", "allocations",
		limpet_json_number(figures->allocations), "allocated_bytes",
		limpet_json_number(figures->allocated_bytes), "live_allocations",
		limpet_json_number(figures->live_allocations), "live_bytes",
		limpet_json_number(figures->live_bytes), "peak_bytes",
		limpet_json_number(figures->peak_bytes), "temporary_allocations",
		sample_bytes ? json_null() : limpet_json_number(figures->temporary_allocations),
		"frees", limpet_json_number(figures->frees), "reallocations",
		limpet_json_number_if(!limpet_model_is_imported(report->model),
				      figures->reallocations),
		"growth_bytes", (json_int_t)figures->growth_bytes, "stack_truncated", cut,
		"allocator", owner_name(report->model, figures->node), "stack", stack);
	object = limpet_json_set(object, "lost",
				 limpet_json_lost(site->lost.known, &site->lost.lost));
	object = limpet_json_set(object, "holder", holder_object(&site->lost));
	return sample_bytes ? set_ranges(object, &report->estimates[site->estimates], sample_bytes)
			    : object;
}

static json_t *map_object(struct limpet_report *report, const struct limpet_report_map_site *site)
{
	const struct limpet_model_map_site *figures = &site->figures;
	bool cut = false;
	json_t *stack = stack_array(report, figures->node, &cut);

	if (!stack)
		return NULL;
	return json_pack("{s:o,s:o,s:o,s:o,s:b,s:o}", "mmaps", limpet_json_number(figures->mmaps),
			 "mmap_bytes", limpet_json_number(figures->mmap_bytes), "unmapped_bytes",
			 limpet_json_number(figures->unmapped_bytes), "mapped_bytes",
			 limpet_json_number(figures->mapped_bytes), "stack_truncated", cut, "stack",
			 stack);
}

static json_t *point_object(const struct limpet_model *model,
			    const struct limpet_model_point *point)
{
	const struct {
		const char *name;
		json_t *(*convert)(uint64_t value);
		uint64_t value;
	} fields[] = {
		{"seconds", limpet_json_seconds, point->time_ns},
		{"live_bytes", limpet_json_number, point->live_bytes},
		{"rss_bytes", limpet_json_known, point->rss_bytes},
		{"cgroup_bytes", limpet_json_known, point->cgroup_bytes},
		{"allocations", limpet_json_number, point->allocations},
		{"mapped_bytes", limpet_json_number, point->mapped_bytes},
		{"threads", limpet_json_known, point->threads},
		{"agent_bytes", limpet_json_known, point->agent_bytes},
		{"file_bytes", limpet_json_known, point->file_bytes},
	};
	json_t *object = json_object();

	for (size_t i = 0; i < LIMPET_COUNT_OF(fields); i++)
		object =
			limpet_json_set(object, fields[i].name, fields[i].convert(fields[i].value));
	return limpet_model_is_imported(model)
		       ? limpet_json_set(object, "mapped_bytes", json_null())
		       : object;
}

static json_t *timeline_array(const struct limpet_model *model)
{
	json_t *array = json_array();

	for (size_t i = 0; array && i < model->timeline_count; i++)
		array = limpet_json_append(array, point_object(model, &model->timeline[i]));
	return array;
}

static json_t *build_id(const struct limpet_trace_module *module)
{
	char digits[2 * 64 + 1] = "";

	for (uint32_t i = 0; i < module->build_id_bytes && i < 64; i++)
		snprintf(digits + 2ul * i, 3, "%02x", module->build_id[i]);
	return limpet_json_text(digits);
}

static json_t *modules_array(const struct limpet_model *model)
{
	json_t *array = json_array();

	for (uint32_t i = 1; array && i < model->module_count; i++) {
		const struct limpet_trace_module *module = &model->modules[i];

		if (!module->number)
			continue;
		array = limpet_json_append(array, json_pack("{s:o,s:o,s:b}", "module",
							    limpet_json_text(module->path),
							    "build_id", build_id(module),
							    "allocator", module->allocator));
	}
	return array;
}

static json_t *seconds_if(bool known, uint64_t ns)
{
	return known ? limpet_json_seconds(ns) : json_null();
}

/* What a verdict and a finding have in common; `object` as it is. */
static json_t *set_finding(json_t *object, const struct limpet_heap_finding *finding)
{
	const bool timed = finding->to_ns != 0;

	object = limpet_json_set(object, "kind",
				 json_string(limpet_heap_finding_words[finding->kind]));
	object = limpet_json_set(object, "culprit", limpet_json_text(finding->culprit.function));
	object = limpet_json_set(object, "file", limpet_json_text(finding->culprit.file));
	object = limpet_json_set(object, "line", limpet_json_known(finding->culprit.line));
	object = limpet_json_set(object, "node", limpet_json_known(finding->culprit.node));
	object = limpet_json_set(object, "bytes", limpet_json_number(finding->bytes));
	object = limpet_json_set(object, "share",
				 finding->share >= 0 ? json_real(finding->share) : json_null());
	object = limpet_json_set(object, "evidence", limpet_json_text(finding->evidence));
	object = limpet_json_set(object, "from_seconds", seconds_if(timed, finding->from_ns));
	return limpet_json_set(object, "to_seconds", seconds_if(timed, finding->to_ns));
}

/* null: not looked for, as in a part of a capture. */
static json_t *findings_array(const struct limpet_verdict *verdict)
{
	json_t *array = verdict ? json_array() : json_null();

	for (size_t i = 0; verdict && i < verdict->findings.count; i++) {
		const struct limpet_heap_finding *finding = &verdict->findings.list[i];
		json_t *object =
			limpet_json_set(json_object(), "text", limpet_json_text(finding->text));

		array = limpet_json_append(array, set_finding(object, finding));
	}
	return array;
}

/* null: not looked for. */
static json_t *verdict_object(const struct limpet_verdict *verdict)
{
	json_t *sentences;

	if (!verdict)
		return json_null();
	sentences = json_array();
	for (size_t i = 0; i < LIMPET_VERDICT_SENTENCES && verdict->sentences[i]; i++)
		sentences = limpet_json_append(sentences, limpet_json_text(verdict->sentences[i]));
	return set_finding(limpet_json_set(json_object(), "sentences", sentences), &verdict->about);
}

/* null: not known, and nobody is known to be unseen. */
static json_t *unfollowed_object(const struct limpet_model *model)
{
	const struct limpet_unfollowed it = limpet_model_unfollowed(model);

	if (!it.known && !it.names[0])
		return json_null();
	if (!it.known)
		return json_pack("{s:n,s:n,s:n,s:b,s:b,s:o}", "bytes", "rss_bytes", "growth_bytes",
				 "large", false, "grows", false, "names",
				 limpet_json_text(it.names));
	return json_pack("{s:o,s:o,s:o,s:b,s:b,s:o}", "bytes", limpet_json_number(it.bytes),
			 "rss_bytes", limpet_json_number(it.rss_bytes), "growth_bytes",
			 it.has_growth ? json_integer(it.growth_bytes) : json_null(), "large",
			 it.is_large, "grows", it.grows, "names",
			 it.names[0] ? limpet_json_text(it.names) : json_null());
}

static json_t *marks_array(const struct limpet_model *model)
{
	json_t *array = json_array();

	for (size_t i = 0; i < model->mark_count; i++)
		array = limpet_json_append(
			array,
			json_pack("{s:o,s:o}", "name", limpet_json_text(model->marks[i].name),
				  "time_s", limpet_json_seconds(model->marks[i].time_ns)));
	return array;
}

void limpet_report_json_print_head(struct limpet_report *report,
				   struct limpet_json_printer *printer)
{
	const struct limpet_model *model = report->model;
	struct limpet_parts parts;

	limpet_parts_last(model, &parts);
	limpet_json_member(printer, "target", target_object(model->target));
	limpet_json_member(printer, "capture", whole_capture_object(report));
	limpet_json_members_of_time(printer, model);
	limpet_json_member(printer, "marks", marks_array(model));
	limpet_json_member(printer, "totals", totals_object(model, report->options.hidden != NULL));
	limpet_json_member(printer, "allocators", owners_array(model));
	limpet_json_member(printer, "resident", limpet_json_resident(&parts));
	limpet_json_member(printer, "unfollowed", unfollowed_object(model));
	limpet_json_member(printer, "verdict", verdict_object(report->options.verdict));
	limpet_json_member(printer, "findings", findings_array(report->options.verdict));
	limpet_json_member(printer, "lost", lost_object(report->leaks));
	if (report->options.hidden)
		limpet_json_member(printer, "hidden",
				   limpet_json_figures(report->options.hidden, model));
}

int limpet_report_json_print(struct limpet_report *report, FILE *file)
{
	const struct limpet_model *model = report->model;
	struct limpet_json_printer printer = {.file = file};

	fputs("{\"format\":\"limpet-report\",\"version\":1", file);
	limpet_report_json_print_head(report, &printer);
	limpet_json_begin_list(&printer, "sites");
	for (size_t i = 0; i < report->site_count && !printer.error && !ferror(file); i++)
		limpet_json_item(&printer, site_object(report, &report->sites[i]));
	limpet_json_end_list(&printer);
	limpet_json_begin_list(&printer, "maps");
	for (size_t i = 0; i < report->map_count && !printer.error && !ferror(file); i++)
		limpet_json_item(&printer, map_object(report, &report->maps[i]));
	limpet_json_end_list(&printer);
	limpet_json_member(&printer, "timeline", timeline_array(model));
	limpet_json_member(&printer, "sizes",
			   limpet_json_sizes(model->sizes, model->size_count, false));
	limpet_json_member(&printer, "modules", modules_array(model));
	fputs("}\n", file);
	return printer.error;
}
