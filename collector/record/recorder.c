#include "collector/record/recorder.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "collector/record/accounting.h"
#include "collector/record/recorder_blocks.h"
#include "collector/record/rollup.h"
#include "collector/record/trace_compressor.h"
#include "collector/record/trace_file.h"
#include "collector/record/trace_ring.h"
#include "collector/record/trace_writer.h"
#include "common/array.h"
#include "common/mark_name.h"
#include "common/trace_block.h"

/* The agent's numbers index an array: larger ones are not the agent's. */
#define AGENT_NODES_MAX (1u << 26)
/* A list of nodes of this size becomes a block, even within a period. */
#define NODE_LIST_BYTES (8u << 20)
/* Maximum size of a live entry in the file. */
#define LIVE_ENTRY_BYTES 16u
#define LIVE_ENTRIES_PER_BLOCK (1u << 18)
#define RUNS_PER_BLOCK (1u << 18)
/* A tick with no news is written at least this often, for the timeline. */
#define QUIET_NS 900000000ull
/* A period under load ends with LIMPET_TRACE_ROWS_PER_BLOCK rows; later if there are fewer than
 * ROWS_PER_SITE rows per site, but at MANY_ROWS at the latest. */
#define ROWS_PER_SITE 8u
#define MANY_ROWS (LIMPET_TRACE_ROWS_MAX / 4)
/* How much memory is kept for the rows of the next events. */
#define KEEP_ROWS_BYTES (1u << 20)
/* The accounting gets this many events at a time: what they touch fits in the L1 cache. */
#define EVENTS_AT_ONCE 64u
/* With `compact`, the periods of this much time become one. */
#define ROLLUP_NS 60000000000ull
/* Points of the timeline that outlive their periods. */
#define POINTS_MAX 1024u

/* A block that stays when the periods around it become one. */
struct kept_block {
	enum limpet_trace_block_type type;
	struct limpet_bytes content;
};

struct limpet_recorder {
	struct limpet_trace_writer *writer;
	struct limpet_accounting *accounting;
	struct limpet_accounting_rows rows; /* of the events that are being added */
	struct limpet_trace_compressor *compressor;
	/* Memory ran out: an event is not in the accounting, or blocks are not in the list of live
	 * ones. Rows that are missing in a block are an error of the file. */
	bool inexact;

	bool compact;
	uint64_t step_bytes; /* between SUMS blocks; 0: no bound */
	/* `sums` with `compact`: of the periods that will become one; in a bounded file: of the
	 * whole capture. */
	struct limpet_rollup period, sums;
	uint32_t rollup_sequence; /* of the first block of these periods */
	uint64_t rollup_start_ns, sums_at_bytes;
	struct kept_block *kept;
	size_t kept_count, kept_capacity;
	uint64_t held_bytes, rollup_held_bytes; /* the peak at the last period, rollup */
	uint64_t written_events;
	struct limpet_recorder_point *points;
	size_t point_count, point_step, point_skip;

	struct limpet_bytes module_list, identity_list;
	uint32_t module_count, modules_listed, identities_listed;
	struct limpet_bytes node_list;
	struct limpet_bytes thread_list; /* names of threads */
	uint32_t threads_listed;
	struct limpet_bytes text_list, symbol_list, frame_list; /* names of addresses */
	uint32_t texts_listed, symbols_listed;
	char (*marks)[LIMPET_MARK_NAME_ROOM]; /* all so far */
	size_t mark_count, mark_capacity;
	struct limpet_bytes owner_list; /* names of allocators, for the next nodes */
	uint32_t *node_of_agent;        /* dense number in the trace; 0: unknown */
	size_t agent_capacity;
	uint32_t *agent_of_node;
	size_t node_capacity;
	uint32_t node_count;   /* including entry 0, the root */
	uint32_t first_listed; /* node */
	uint64_t last_node_address;

	uint64_t period_start_ns, last_ns;
	struct limpet_recorder_gauges gauges, written_gauges;
	struct limpet_recorder_losses losses, written_losses;
	uint64_t unknown_stacks, refused_events;
	uint64_t closed_events, events_given_up; /* since the reader of a stream was too slow */
	uint32_t rows_given_up;                  /* of the period */
	uint64_t inferred_before, inferred_bytes_before; /* before the first loss */
	uint64_t given_losses; /* losses that the recorder cannot determine itself */
	uint64_t end_losses;   /* as in the END block */
	bool partial;          /* --partial */
};

static void forget_kept(struct limpet_recorder *recorder)
{
	for (size_t i = 0; i < recorder->kept_count; i++)
		limpet_bytes_done(&recorder->kept[i].content);
	recorder->kept_count = 0;
}

/* Of several periods, in `sums`, with what sites held at the peak. */
static bool keeps_sums(const struct limpet_recorder *recorder)
{
	return recorder->compact || recorder->step_bytes;
}

/* Without a file. NULL: no memory. */
static struct limpet_recorder *recorder_new(const struct limpet_recorder_options *options)
{
	struct limpet_recorder *recorder = calloc(1, sizeof(*recorder));

	if (!recorder)
		return NULL;
	recorder->node_count = recorder->first_listed = 1;
	recorder->accounting = limpet_accounting_new(options->memory_bytes);
	if (!recorder->accounting) {
		limpet_recorder_free(recorder);
		return NULL;
	}
	limpet_accounting_set_sampling(recorder->accounting, options->sampling);
	recorder->partial = options->unseen_rss_share >= 0;
	recorder->compact = options->compact;
	recorder->step_bytes = limpet_trace_ring_step(options->max_bytes);
	if (keeps_sums(recorder))
		limpet_accounting_keep_held(recorder->accounting);
	if (recorder->step_bytes) {
		recorder->points = calloc(POINTS_MAX, sizeof(*recorder->points));
		recorder->point_step = 1;
		if (!recorder->points) {
			limpet_recorder_free(recorder);
			return NULL;
		}
	}
	return recorder;
}

static int write_header(struct limpet_recorder *recorder,
			const struct limpet_recorder_options *options)
{
	struct limpet_trace_compressor *compressor = limpet_trace_compressor_new(recorder->writer);

	recorder->compressor = compressor;
	if (!compressor)
		return -ENOMEM;
	if (options->addresses)
		limpet_trace_compressor_keep_addresses(compressor);
	limpet_recorder_append_header(limpet_trace_compressor_content(compressor), options);
	limpet_trace_compressor_append(compressor, LIMPET_TRACE_HEADER, 0, 0);
	recorder->rollup_sequence = limpet_trace_compressor_sequence(compressor);
	limpet_trace_compressor_flush(compressor);
	return limpet_trace_compressor_wait(compressor);
}

static int open_writer(struct limpet_recorder *recorder,
		       const struct limpet_recorder_options *options, struct limpet_err *err)
{
	const struct limpet_trace_file_options file_options = {
		.path = options->path,
		.comm = options->comm,
		.pid = options->pid,
		.owner_uid = options->owner_uid,
		.owner_gid = options->owner_gid,
		.max_bytes = options->max_bytes,
	};
	struct limpet_trace_sink *sink = options->sink;
	int code = sink ? 0 : limpet_trace_file_open(&file_options, &sink, err);

	if (code < 0)
		return code;
	recorder->writer = limpet_trace_writer_new(sink);
	return recorder->writer ? 0 : limpet_err_set(err, -ENOMEM, "out of memory");
}

int limpet_recorder_open(const struct limpet_recorder_options *options,
			 struct limpet_recorder **ret, struct limpet_err *err)
{
	struct limpet_recorder *recorder = recorder_new(options);
	int code;

	if (!recorder)
		return limpet_err_set(err, -ENOMEM, "out of memory");
	code = open_writer(recorder, options, err);
	if (code < 0) {
		limpet_recorder_free(recorder);
		return code;
	}
	code = write_header(recorder, options);
	if (code < 0) {
		limpet_err_set(err, code, "cannot write '%s': %s", limpet_recorder_path(recorder),
			       strerror(-code));
		limpet_trace_compressor_free(recorder->compressor);
		recorder->compressor = NULL;
		limpet_trace_writer_discard(recorder->writer);
		recorder->writer = NULL;
		limpet_recorder_free(recorder);
		return code;
	}
	*ret = recorder;
	return 0;
}

void limpet_recorder_free(struct limpet_recorder *recorder)
{
	if (!recorder)
		return;
	limpet_trace_compressor_free(recorder->compressor);
	limpet_trace_writer_free(recorder->writer);
	limpet_accounting_free(recorder->accounting);
	free(recorder->rows.list);
	limpet_rollup_done(&recorder->period);
	limpet_rollup_done(&recorder->sums);
	free(recorder->points);
	forget_kept(recorder);
	free(recorder->kept);
	limpet_bytes_done(&recorder->module_list);
	limpet_bytes_done(&recorder->identity_list);
	limpet_bytes_done(&recorder->node_list);
	limpet_bytes_done(&recorder->owner_list);
	limpet_bytes_done(&recorder->thread_list);
	limpet_bytes_done(&recorder->text_list);
	limpet_bytes_done(&recorder->symbol_list);
	limpet_bytes_done(&recorder->frame_list);
	free(recorder->marks);
	free(recorder->node_of_agent);
	free(recorder->agent_of_node);
	free(recorder);
}

int limpet_recorder_take_passes(struct limpet_recorder *recorder)
{
	return limpet_accounting_take_passes(recorder->accounting);
}

void limpet_recorder_end_pass(struct limpet_recorder *recorder, uint32_t place)
{
	limpet_accounting_end_pass(recorder->accounting, place);
}

const char *limpet_recorder_path(const struct limpet_recorder *recorder)
{
	return limpet_trace_writer_path(recorder->writer);
}

/* ------------------------------------------------------------------ modules and nodes */

int limpet_recorder_add_module(struct limpet_recorder *recorder,
			       const struct limpet_recorder_module *module)
{
	if (recorder->module_count + 1 >= LIMPET_TRACE_MODULES_MAX)
		return -ENOSPC;
	if (module->end < module->start || module->build_id_bytes > LIMPET_TRACE_STRING_MAX_BYTES ||
	    (module->path && strlen(module->path) > LIMPET_TRACE_STRING_MAX_BYTES))
		return -EINVAL;
	recorder->module_count++;
	recorder->modules_listed++;
	limpet_recorder_append_module(&recorder->module_list, recorder->module_count, module);
	if (recorder->module_list.failed)
		return -ENOMEM;
	return (int)recorder->module_count;
}

void limpet_recorder_identify_module(struct limpet_recorder *recorder, uint32_t module,
				     const struct limpet_file_identity *identity)
{
	limpet_recorder_append_identity(&recorder->identity_list, module, identity);
	recorder->identities_listed++;
}

/* Blocks between periods that will be replaced are written again then. */
static void keep_block(struct limpet_recorder *recorder, enum limpet_trace_block_type type,
		       const struct limpet_bytes *content)
{
	struct kept_block *block;

	if (!recorder->compact)
		return;
	if (limpet_reserve(&recorder->kept, &recorder->kept_capacity, recorder->kept_count + 1,
			   sizeof(*recorder->kept)) < 0) {
		recorder->inexact = true;
		return;
	}
	block = &recorder->kept[recorder->kept_count++];
	*block = (struct kept_block){.type = type};
	limpet_bytes_append(&block->content, content->data + LIMPET_TRACE_CONTENT_HEAD_BYTES,
			    content->count - LIMPET_TRACE_CONTENT_HEAD_BYTES);
	block->content.failed |= content->failed;
}

/* Puts `head` and the list into a block of their own, in the batch, and empties the list. */
static void append_list(struct limpet_recorder *recorder, enum limpet_trace_block_type type,
			unsigned section, struct limpet_bytes *content, struct limpet_bytes *head,
			struct limpet_bytes *list)
{
	limpet_bytes_append(head, list->data, list->count);
	limpet_trace_section_append(content, section, head->data, head->count);
	content->failed |= head->failed || list->failed;
	limpet_bytes_done(head);
	keep_block(recorder, type, content);
	limpet_trace_compressor_append(recorder->compressor, type, recorder->last_ns,
				       recorder->last_ns);
	limpet_bytes_clear(list);
}

static void append_modules(struct limpet_recorder *recorder)
{
	struct limpet_bytes *content, head = {0};

	if (!recorder->modules_listed && !recorder->identities_listed)
		return;
	content = limpet_trace_compressor_content(recorder->compressor);
	if (recorder->identities_listed) {
		limpet_bytes_append_varint(&head, recorder->identities_listed);
		limpet_bytes_append(&head, recorder->identity_list.data,
				    recorder->identity_list.count);
		limpet_trace_section_append(content, LIMPET_MODULES_FILES, head.data, head.count);
		content->failed |= head.failed || recorder->identity_list.failed;
		limpet_bytes_clear(&recorder->identity_list);
		limpet_bytes_clear(&head);
	}
	limpet_bytes_append_varint(&head, recorder->modules_listed);
	append_list(recorder, LIMPET_TRACE_MODULES, LIMPET_MODULES_LIST, content, &head,
		    &recorder->module_list);
	recorder->modules_listed = recorder->identities_listed = 0;
}

static void append_nodes(struct limpet_recorder *recorder)
{
	struct limpet_bytes *content, head = {0};

	if (recorder->first_listed == recorder->node_count)
		return;
	content = limpet_trace_compressor_content(recorder->compressor);
	if (recorder->owner_list.count)
		limpet_trace_section_append(content, LIMPET_NODES_OWNERS, recorder->owner_list.data,
					    recorder->owner_list.count);
	content->failed |= recorder->owner_list.failed;
	limpet_bytes_clear(&recorder->owner_list);
	limpet_bytes_append_varint(&head, recorder->first_listed);
	limpet_bytes_append_varint(&head, recorder->node_count - recorder->first_listed);
	append_list(recorder, LIMPET_TRACE_NODES, LIMPET_NODES_LIST, content, &head,
		    &recorder->node_list);
	recorder->first_listed = recorder->node_count;
	recorder->last_node_address = 0;
}

static void append_threads(struct limpet_recorder *recorder)
{
	struct limpet_bytes head = {0};

	if (!recorder->threads_listed)
		return;
	limpet_bytes_append_varint(&head, recorder->threads_listed);
	append_list(recorder, LIMPET_TRACE_THREADS, LIMPET_THREADS_LIST,
		    limpet_trace_compressor_content(recorder->compressor), &head,
		    &recorder->thread_list);
	recorder->threads_listed = 0;
}

static void append_symbols(struct limpet_recorder *recorder)
{
	struct limpet_bytes *content, head = {0};

	if (!recorder->symbols_listed)
		return;
	content = limpet_trace_compressor_content(recorder->compressor);
	limpet_bytes_append_varint(&head, recorder->texts_listed);
	limpet_bytes_append(&head, recorder->text_list.data, recorder->text_list.count);
	limpet_trace_section_append(content, LIMPET_SYMBOLS_STRINGS, head.data, head.count);
	limpet_trace_section_append(content, LIMPET_SYMBOLS_FRAMES, recorder->frame_list.data,
				    recorder->frame_list.count);
	content->failed |= head.failed || recorder->text_list.failed || recorder->frame_list.failed;
	limpet_bytes_clear(&head);
	limpet_bytes_clear(&recorder->text_list);
	limpet_bytes_clear(&recorder->frame_list);
	limpet_bytes_append_varint(&head, recorder->symbols_listed);
	append_list(recorder, LIMPET_TRACE_SYMBOLS, LIMPET_SYMBOLS_ADDRESSES, content, &head,
		    &recorder->symbol_list);
	recorder->texts_listed = recorder->symbols_listed = 0;
}

static uint32_t find_node(const struct limpet_recorder *recorder, uint32_t agent_node)
{
	return agent_node < recorder->agent_capacity ? recorder->node_of_agent[agent_node] : 0;
}

void limpet_recorder_name_owner(struct limpet_recorder *recorder, uint32_t number, const char *name)
{
	limpet_bytes_append_varint(&recorder->owner_list, number);
	limpet_bytes_append_varint(&recorder->owner_list, strlen(name));
	limpet_bytes_append(&recorder->owner_list, name, strlen(name));
}

int limpet_recorder_add_node(struct limpet_recorder *recorder, uint32_t node, uint32_t parent,
			     uint64_t address, uint32_t module, uint32_t flags)
{
	uint32_t own = recorder->node_count, own_parent = find_node(recorder, parent);
	int64_t step;
	int code;

	if (!node || node >= AGENT_NODES_MAX || (parent && !own_parent) ||
	    module > recorder->module_count)
		return -EINVAL;
	if (find_node(recorder, node))
		return -EEXIST;
	if (own >= LIMPET_TRACE_NODES_MAX)
		return -ENOSPC;
	code = limpet_reserve_zeroed(&recorder->node_of_agent, &recorder->agent_capacity,
				     (size_t)node + 1, sizeof(*recorder->node_of_agent));
	if (code == 0)
		code = limpet_reserve_zeroed(&recorder->agent_of_node, &recorder->node_capacity,
					     (size_t)own + 1, sizeof(*recorder->agent_of_node));
	if (code < 0)
		return code;
	recorder->node_of_agent[node] = own;
	recorder->agent_of_node[own] = node;
	recorder->node_count++;
	step = (int64_t)(address - recorder->last_node_address);
	recorder->last_node_address = address;
	limpet_bytes_append_varint(&recorder->node_list, own - own_parent);
	limpet_bytes_append_varint(&recorder->node_list, module);
	limpet_bytes_append_varint(&recorder->node_list, limpet_trace_zigzag((uint64_t)step));
	limpet_bytes_append_varint(&recorder->node_list, flags);
	if (recorder->node_list.failed)
		return -ENOMEM;
	if (recorder->node_list.count >= NODE_LIST_BYTES) {
		append_modules(recorder);
		append_nodes(recorder);
	}
	return limpet_trace_writer_error(recorder->writer);
}

void limpet_recorder_name_thread(struct limpet_recorder *recorder, uint32_t tid, const char *name)
{
	limpet_bytes_append_varint(&recorder->thread_list, tid);
	limpet_bytes_append_varint(&recorder->thread_list, strlen(name));
	limpet_bytes_append(&recorder->thread_list, name, strlen(name));
	recorder->threads_listed++;
}

static uint32_t append_text(struct limpet_recorder *recorder, const char *text)
{
	const size_t bytes = text ? strnlen(text, LIMPET_TRACE_STRING_MAX_BYTES) : 0;

	if (!text)
		return 0;
	limpet_bytes_append_varint(&recorder->text_list, bytes);
	limpet_bytes_append(&recorder->text_list, text, bytes);
	return ++recorder->texts_listed;
}

void limpet_recorder_name_script(struct limpet_recorder *recorder, uint64_t address,
				 const struct limpet_recorder_frame *frames, uint32_t count)
{
	limpet_bytes_append_varint(&recorder->symbol_list, 0); /* no module */
	limpet_bytes_append_varint(&recorder->symbol_list, address);
	limpet_bytes_append_varint(&recorder->symbol_list, count);
	for (uint32_t i = 0; i < count; i++) {
		const uint32_t function = append_text(recorder, frames[i].function);
		const uint32_t file = append_text(recorder, frames[i].file);

		limpet_bytes_append_varint(&recorder->frame_list, function);
		limpet_bytes_append_varint(&recorder->frame_list, file);
		limpet_bytes_append_varint(&recorder->frame_list, frames[i].line);
		limpet_bytes_append_varint(&recorder->frame_list,
					   (uint64_t)frames[i].column
							   << LIMPET_SYMBOL_COLUMN_SHIFT |
						   (i + 1 < count ? LIMPET_SYMBOL_INLINED : 0));
	}
	recorder->symbols_listed++;
	if (recorder->text_list.count >= NODE_LIST_BYTES)
		append_symbols(recorder);
}

/* ------------------------------------------------------------------ periods */

/* Keeps one in `point_step` points; the step doubles whenever there is no more room. */
static void add_point(struct limpet_recorder *recorder)
{
	const struct limpet_totals *totals = limpet_accounting_totals(recorder->accounting);

	if (!recorder->step_bytes || recorder->point_skip++ % recorder->point_step)
		return;
	if (recorder->point_count == POINTS_MAX) {
		recorder->point_count =
			limpet_halve(recorder->points, POINTS_MAX, sizeof(*recorder->points));
		recorder->point_step *= 2;
	}
	recorder->points[recorder->point_count++] = (struct limpet_recorder_point){
		.time_ns = recorder->last_ns,
		.live_bytes = limpet_accounting_live_bytes(recorder->accounting),
		.rss_bytes = recorder->gauges.rss_bytes,
		.cgroup_bytes = recorder->gauges.cgroup_bytes,
		.mapped_bytes = limpet_accounting_mapped_bytes(recorder->accounting),
		.allocations = totals->counts.allocations,
	};
}

/* Sums of the whole capture: all blocks before them may be given up. */
static void append_sums(struct limpet_recorder *recorder)
{
	struct limpet_recorder_period period = {.gauges = &recorder->gauges,
						.losses = &recorder->losses,
						.sums = &recorder->sums,
						.held = true};
	struct limpet_bytes *content = limpet_trace_compressor_content(recorder->compressor);

	limpet_recorder_append_period(content, recorder->accounting, &period);
	limpet_recorder_append_timeline(content, recorder->points, recorder->point_count);
	limpet_trace_compressor_append(recorder->compressor, LIMPET_TRACE_SUMS, 0,
				       recorder->last_ns);
	recorder->sums_at_bytes = limpet_trace_writer_bytes(recorder->writer);
}

/* Replaces the periods since the last rollup by one. */
static void roll_up_periods(struct limpet_recorder *recorder)
{
	struct limpet_trace_compressor *compressor = recorder->compressor;
	uint64_t peak = limpet_accounting_peak(recorder->accounting).capture_bytes;
	struct limpet_recorder_period period = {.gauges = &recorder->gauges,
						.losses = &recorder->losses,
						.sums = &recorder->sums,
						.held = peak > recorder->rollup_held_bytes};

	recorder->rollup_held_bytes = peak;
	limpet_trace_compressor_replace(compressor, recorder->rollup_sequence);
	for (size_t i = 0; i < recorder->kept_count; i++) {
		const struct kept_block *block = &recorder->kept[i];
		struct limpet_bytes *content = limpet_trace_compressor_content(compressor);

		limpet_bytes_append(content, block->content.data, block->content.count);
		content->failed |= block->content.failed;
		limpet_trace_compressor_append(compressor, block->type, recorder->last_ns,
					       recorder->last_ns);
	}
	forget_kept(recorder);
	limpet_recorder_append_period(limpet_trace_compressor_content(compressor),
				      recorder->accounting, &period);
	limpet_trace_compressor_append(compressor, LIMPET_TRACE_PERIOD, recorder->rollup_start_ns,
				       recorder->last_ns);
	limpet_trace_compressor_flush(compressor);
	limpet_rollup_clear(&recorder->sums);
	recorder->rollup_start_ns = recorder->last_ns;
	recorder->rollup_sequence = limpet_trace_compressor_sequence(compressor);
}

/* The losses in the trace: this is the only place that decides them. */
static uint64_t find_losses(const struct limpet_recorder *recorder)
{
	const struct limpet_totals *totals = limpet_accounting_totals(recorder->accounting);
	const struct limpet_recorder_losses *losses = &recorder->losses;

	return (recorder->given_losses & LIMPET_LOSSES_WRITTEN) |
	       limpet_loss_if(losses->dropped_events, LIMPET_LOSS_DROPPED) |
	       limpet_loss_if(losses->unseen_calls, LIMPET_LOSS_UNSEEN) |
	       limpet_loss_if(limpet_accounting_table_full(recorder->accounting),
			      LIMPET_LOSS_UNTRACKED) |
	       limpet_loss_if(totals->inferred_frees, LIMPET_LOSS_INFERRED) |
	       limpet_loss_if(losses->truncated_stacks, LIMPET_LOSS_TRUNCATED) |
	       limpet_loss_if(limpet_accounting_is_estimated(recorder->accounting),
			      LIMPET_LOSS_SAMPLED) |
	       limpet_loss_if(recorder->partial, LIMPET_LOSS_PARTIAL) |
	       limpet_loss_if(recorder->events_given_up, LIMPET_LOSS_STREAM) |
	       limpet_loss_if(recorder->inexact, LIMPET_LOSS_MEMORY);
}

/* Whether periods that were written become one. */
static bool rolls_up(const struct limpet_recorder *recorder)
{
	return recorder->compact && !limpet_trace_writer_appends(recorder->writer);
}

static void give_up_rows(struct limpet_recorder *recorder)
{
	const uint64_t events = limpet_accounting_totals(recorder->accounting)->events;
	const uint64_t rows = (uint64_t)recorder->rows_given_up +
			      limpet_trace_compressor_drop_rows(recorder->compressor);

	recorder->rows_given_up =
		rows < LIMPET_TRACE_ROWS_MAX ? (uint32_t)rows : LIMPET_TRACE_ROWS_MAX;
	recorder->events_given_up += events - recorder->closed_events;
	recorder->closed_events = events;
}

/* Whether the period goes on: with its sums, without its single events where nobody takes what is
 * there; with `compact` until it has its length, where it cannot be replaced. */
static bool stays_open(struct limpet_recorder *recorder, uint64_t time_ns)
{
	if (!recorder->compact && limpet_trace_compressor_rows(recorder->compressor) &&
	    limpet_trace_writer_is_behind(recorder->writer))
		give_up_rows(recorder);
	if (recorder->compact && !rolls_up(recorder) &&
	    time_ns < recorder->period_start_ns + ROLLUP_NS)
		return true;
	return limpet_trace_writer_is_behind(recorder->writer);
}

/* The rows of the period as a block, or the gap that they have left. */
static void append_rows(struct limpet_recorder *recorder, uint64_t time_ns,
			struct limpet_recorder_period *period)
{
	struct limpet_trace_compressor *compressor = recorder->compressor;

	if (recorder->rows_given_up) {
		give_up_rows(recorder);
		period->rows = recorder->rows_given_up;
		period->events_sequence = limpet_trace_compressor_append_gap(compressor);
		recorder->rows_given_up = 0;
		return;
	}
	period->rows = limpet_trace_compressor_rows(compressor);
	if (period->rows)
		period->events_sequence = limpet_trace_compressor_append_events(
			compressor, recorder->period_start_ns, time_ns);
}

/* The compressor continues with it; an error of the file is reported later. */
static void close_period(struct limpet_recorder *recorder, uint64_t time_ns)
{
	struct limpet_trace_compressor *compressor = recorder->compressor;
	struct limpet_recorder_period period = {.gauges = &recorder->gauges,
						.losses = &recorder->losses,
						.sums = &recorder->period};
	uint64_t peak = limpet_accounting_peak(recorder->accounting).capture_bytes;
	bool gave_up;

	if (time_ns < recorder->last_ns)
		time_ns = recorder->last_ns;
	recorder->last_ns = time_ns;
	recorder->gauges.time_ns = time_ns;
	append_modules(recorder);
	append_nodes(recorder);
	append_symbols(recorder);
	append_threads(recorder);
	gave_up = recorder->rows_given_up;
	append_rows(recorder, time_ns, &period);
	period.held = recorder->compact && peak > recorder->held_bytes;
	recorder->held_bytes = peak;
	limpet_rollup_clear(&recorder->period);
	if (limpet_rollup_add(&recorder->period, recorder->accounting) < 0 ||
	    (keeps_sums(recorder) && limpet_rollup_add(&recorder->sums, recorder->accounting) < 0))
		recorder->inexact = true;
	/* Up to them is no row. */
	if (gave_up)
		recorder->period.peak.rows = 0;
	recorder->losses.reasons = find_losses(recorder);
	limpet_recorder_append_period(limpet_trace_compressor_content(compressor),
				      recorder->accounting, &period);
	limpet_trace_compressor_append(compressor, LIMPET_TRACE_PERIOD, recorder->period_start_ns,
				       time_ns);
	recorder->written_gauges = recorder->gauges;
	recorder->written_losses = recorder->losses;
	recorder->written_events = limpet_accounting_totals(recorder->accounting)->events;
	recorder->closed_events = recorder->written_events;
	recorder->period_start_ns = time_ns;
	add_point(recorder);
	if (recorder->step_bytes && limpet_trace_writer_bytes(recorder->writer) >=
					    recorder->sums_at_bytes + recorder->step_bytes)
		append_sums(recorder);
	limpet_accounting_next_period(recorder->accounting, time_ns);
	limpet_trace_compressor_flush(compressor);
	if (rolls_up(recorder) && time_ns - recorder->rollup_start_ns >= ROLLUP_NS)
		roll_up_periods(recorder);
}

static bool period_is_full(const struct limpet_recorder *recorder)
{
	size_t rows = limpet_trace_compressor_rows(recorder->compressor);

	/* Each period lists its sites: there must be few of them, or many rows. */
	return rows >= LIMPET_TRACE_ROWS_PER_BLOCK &&
	       (rows >= MANY_ROWS ||
		rows >= ROWS_PER_SITE * limpet_accounting_period_sites(recorder->accounting));
}

/* One munmap may have made very many. */
static void clear_rows(struct limpet_accounting_rows *rows)
{
	limpet_accounting_rows_clear(rows);
	if (rows->capacity * sizeof(*rows->list) <= KEEP_ROWS_BYTES)
		return;
	free(rows->list);
	*rows = (struct limpet_accounting_rows){0};
}

static int add_some(struct limpet_recorder *recorder, struct limpet_record *records, size_t count)
{
	int64_t refused;
	int code;

	for (size_t i = 0; i < count; i++) {
		uint32_t node = find_node(recorder, records[i].node);

		recorder->unknown_stacks += records[i].node && !node;
		records[i].node = node;
	}
	/* An event that no program can cause is no reason to give up the others. */
	refused = limpet_accounting_add(recorder->accounting, records, count, &recorder->rows);
	if (refused < 0)
		recorder->inexact = true;
	else
		recorder->refused_events += (uint64_t)refused;
	if (limpet_accounting_time_ns(recorder->accounting) > recorder->last_ns)
		recorder->last_ns = limpet_accounting_time_ns(recorder->accounting);
	code = limpet_trace_writer_error(recorder->writer);
	if (code == 0 && !recorder->compact)
		limpet_trace_compressor_append_rows(recorder->compressor, &recorder->rows);
	clear_rows(&recorder->rows);
	if (refused < 0)
		return (int)refused;
	if (code == 0 && period_is_full(recorder) && !stays_open(recorder, recorder->last_ns)) {
		close_period(recorder, recorder->last_ns);
		code = limpet_trace_writer_error(recorder->writer);
	}
	return code;
}

size_t limpet_recorder_find_unknown(const struct limpet_recorder *recorder,
				    const struct limpet_record *records, size_t from, size_t count)
{
	while (from < count && (!records[from].node || find_node(recorder, records[from].node)))
		from++;
	return from;
}

int limpet_recorder_add_event(struct limpet_recorder *recorder, const struct limpet_record *record)
{
	struct limpet_record copy = *record;

	return add_some(recorder, &copy, 1);
}

int limpet_recorder_add_events(struct limpet_recorder *recorder, struct limpet_record *records,
			       size_t count)
{
	int first = 0;

	while (count) {
		size_t some = count < EVENTS_AT_ONCE ? count : EVENTS_AT_ONCE;
		int code = add_some(recorder, records, some);

		if (code < 0 && first == 0)
			first = code;
		records += some;
		count -= some;
	}
	return first;
}

static void copy_figures(struct limpet_recorder *recorder, const struct limpet_recorder_tick *tick)
{
	uint64_t inferred = limpet_accounting_totals(recorder->accounting)->inferred_frees;
	uint64_t inferred_bytes = limpet_accounting_inferred_bytes(recorder->accounting);

	recorder->gauges.rss_bytes = tick->rss_bytes;
	recorder->gauges.cgroup_bytes = tick->cgroup_bytes;
	recorder->gauges.threads = tick->threads;
	recorder->gauges.agent_bytes = tick->agent_bytes;
	recorder->gauges.file_bytes = tick->file_bytes;
	recorder->losses.dropped_events = tick->dropped_events + recorder->refused_events;
	recorder->losses.truncated_stacks = tick->truncated_stacks + recorder->unknown_stacks;
	recorder->losses.unseen_calls = tick->unseen_calls;
	recorder->losses.dropped = tick->dropped;
	/* Frees that were inferred before the first loss are not due to losses. */
	if (!recorder->losses.dropped_events && !tick->unseen_calls) {
		recorder->inferred_before = inferred;
		recorder->inferred_bytes_before = inferred_bytes;
	}
	recorder->losses.inferred_frees = inferred - recorder->inferred_before;
	recorder->losses.inferred_bytes = inferred_bytes - recorder->inferred_bytes_before;
	recorder->given_losses = tick->losses;
	recorder->losses.reasons = find_losses(recorder);
}

static bool has_news(const struct limpet_recorder *recorder)
{
	return limpet_accounting_totals(recorder->accounting)->events != recorder->written_events ||
	       recorder->modules_listed || recorder->first_listed != recorder->node_count ||
	       memcmp(&recorder->losses, &recorder->written_losses, sizeof(recorder->losses)) != 0;
}

int limpet_recorder_tick(struct limpet_recorder *recorder, const struct limpet_recorder_tick *tick)
{
	copy_figures(recorder, tick);
	if (!has_news(recorder) && tick->time_ns < recorder->written_gauges.time_ns + QUIET_NS)
		return limpet_trace_writer_error(recorder->writer);
	if (stays_open(recorder, tick->time_ns))
		return limpet_trace_writer_error(recorder->writer);
	close_period(recorder, tick->time_ns);
	return limpet_trace_compressor_wait(recorder->compressor);
}

static void append_mark(struct limpet_recorder *recorder, const char *name, uint64_t time_ns)
{
	struct limpet_bytes head = {0}, list = {0};

	limpet_bytes_append_varint(&head, 1);
	limpet_bytes_append_varint(&list, time_ns);
	limpet_bytes_append_varint(&list, strlen(name));
	limpet_bytes_append(&list, name, strlen(name));
	append_list(recorder, LIMPET_TRACE_MARKS, LIMPET_MARKS_LIST,
		    limpet_trace_compressor_content(recorder->compressor), &head, &list);
	limpet_bytes_done(&list);
}

int limpet_recorder_add_mark(struct limpet_recorder *recorder, const char *name,
			     const struct limpet_recorder_tick *tick)
{
	if (limpet_mark_name_refuse(name))
		return -EINVAL;
	for (size_t i = 0; i < recorder->mark_count; i++)
		if (!strcmp(recorder->marks[i], name))
			return -EEXIST;
	if (recorder->mark_count == LIMPET_MARKS_MAX)
		return -E2BIG;
	if (limpet_reserve(&recorder->marks, &recorder->mark_capacity, recorder->mark_count + 1,
			   sizeof(*recorder->marks)) < 0)
		return -ENOMEM;
	strcpy(recorder->marks[recorder->mark_count++], name);
	copy_figures(recorder, tick);
	close_period(recorder, tick->time_ns);
	append_mark(recorder, name, tick->time_ns);
	limpet_trace_compressor_flush(recorder->compressor);
	/* A window may begin or end here. */
	if (rolls_up(recorder))
		roll_up_periods(recorder);
	return limpet_trace_compressor_wait(recorder->compressor);
}

bool limpet_recorder_disk_is_low(struct limpet_recorder *recorder)
{
	uint64_t live = limpet_accounting_live_allocations(recorder->accounting) +
			limpet_accounting_mapping_count(recorder->accounting);

	return limpet_trace_writer_disk_is_low(recorder->writer, live * LIVE_ENTRY_BYTES);
}

/* ------------------------------------------------------------------ the end */

struct live_list {
	struct limpet_recorder *recorder;
	struct limpet_recorder_live *list;
	size_t count;
	unsigned kind;
	int code;
};

static void append_live(struct live_list *live)
{
	struct limpet_recorder *recorder = live->recorder;
	struct limpet_bytes *content;

	if (!live->count)
		return;
	content = limpet_trace_compressor_content(recorder->compressor);
	limpet_recorder_append_live(content, live->kind, live->list, live->count);
	limpet_trace_compressor_append(recorder->compressor, LIMPET_TRACE_LIVE, recorder->last_ns,
				       recorder->last_ns);
	live->count = 0;
	limpet_trace_compressor_flush(recorder->compressor);
	live->code = limpet_trace_writer_error(recorder->writer);
}

static void add_live(struct live_list *live, const struct limpet_recorder_live *entry)
{
	live->list[live->count++] = *entry;
	if (live->count == LIVE_ENTRIES_PER_BLOCK)
		append_live(live);
}

static void add_mapping(const struct limpet_mapping *mapping, void *data)
{
	struct live_list *live = data;

	add_live(live, &(struct limpet_recorder_live){
			       .address = mapping->start,
			       .size = mapping->end - mapping->start,
			       .tick = mapping->tick,
			       .node = mapping->node,
			       .tid = limpet_accounting_tid(live->recorder->accounting,
							    mapping->thread)});
}

/* Returns the number of heap blocks, or the error that kept them out. */
static int64_t write_live(struct limpet_recorder *recorder)
{
	LIMPET_FREE struct limpet_recorder_live *list =
		calloc(LIVE_ENTRIES_PER_BLOCK, sizeof(*list));
	struct live_list live = {.recorder = recorder, .list = list};
	const struct limpet_live_entry *entries;
	size_t count;

	if (!list)
		return -ENOMEM;
	entries = limpet_accounting_live(recorder->accounting, &count);
	for (size_t i = 0; i < count && live.code == 0; i++)
		add_live(&live, &(struct limpet_recorder_live){
					.address = entries[i].address,
					.size = entries[i].size,
					.tick = entries[i].tick,
					.node = limpet_accounting_node(recorder->accounting,
								       entries[i].site),
					.tid = limpet_accounting_tid(
						recorder->accounting,
						entries[i].thread & ~LIMPET_LIVE_ENTRY_SAMPLED),
					.sampled = entries[i].thread & LIMPET_LIVE_ENTRY_SAMPLED});
	append_live(&live);
	live.kind = 1;
	limpet_accounting_walk_mappings(recorder->accounting, add_mapping, &live);
	append_live(&live);
	return live.code < 0 ? live.code : (int64_t)count;
}

const struct limpet_live_entry *limpet_recorder_live(struct limpet_recorder *recorder,
						     size_t *ret_count)
{
	return limpet_accounting_live(recorder->accounting, ret_count);
}

uint32_t limpet_recorder_site_node(const struct limpet_recorder *recorder, uint32_t site)
{
	return limpet_accounting_node(recorder->accounting, site);
}

void limpet_recorder_walk_blocks(struct limpet_recorder *recorder,
				 bool (*each)(void *context, uint64_t address, uint64_t size),
				 void *context)
{
	size_t count;
	const struct limpet_live_entry *entries =
		limpet_accounting_live(recorder->accounting, &count);

	for (size_t i = 0; i < count; i++)
		if (!each(context, entries[i].address, entries[i].size))
			return;
}

static void write_resident(struct limpet_recorder *recorder,
			   const struct limpet_recorder_resident *resident)
{
	uint64_t from = resident->from;
	size_t at = 0;

	while (from < resident->to && limpet_trace_writer_error(recorder->writer) == 0) {
		const size_t left = resident->count - at;
		const size_t count = left < RUNS_PER_BLOCK ? left : RUNS_PER_BLOCK;
		const uint64_t to =
			count < left ? resident->runs[at + count - 1].end : resident->to;

		limpet_recorder_append_resident(
			limpet_trace_compressor_content(recorder->compressor), resident, at, count,
			from, to);
		limpet_trace_compressor_append(recorder->compressor, LIMPET_TRACE_RESIDENT,
					       recorder->last_ns, recorder->last_ns);
		limpet_trace_compressor_flush(recorder->compressor);
		at += count;
		from = to;
	}
}

uint64_t limpet_recorder_losses(const struct limpet_recorder *recorder)
{
	return recorder->end_losses;
}

int limpet_recorder_finish(struct limpet_recorder *recorder,
			   const struct limpet_recorder_tick *tick,
			   const struct limpet_recorder_end *end)
{
	struct limpet_trace_writer *writer = recorder->writer;
	struct limpet_recorder_end last = *end;
	struct limpet_bytes *content;
	int64_t live_entries = -1;
	int code, sync_code;

	copy_figures(recorder, tick);
	recorder->given_losses |= end->losses;
	limpet_trace_writer_begin_end(writer);
	close_period(recorder, tick->time_ns);
	if (rolls_up(recorder))
		roll_up_periods(recorder);
	if (recorder->step_bytes) {
		append_sums(recorder);
		limpet_trace_compressor_flush(recorder->compressor);
	}
	code = limpet_trace_compressor_wait(recorder->compressor);
	if (code == 0)
		live_entries = write_live(recorder);
	recorder->inexact |= live_entries == -ENOMEM;
	if (live_entries >= 0 && end->resident)
		write_resident(recorder, end->resident);
	code = limpet_trace_compressor_wait(recorder->compressor);
	if (code < 0)
		live_entries = -1;
	if (code == -ENOSPC || code == -EDQUOT)
		last.end = LIMPET_END_DISK_FULL;
	else if (code == -EFBIG)
		last.end = LIMPET_END_SIZE_LIMIT;
	if (last.time_ns < recorder->last_ns)
		last.time_ns = recorder->last_ns;
	last.losses = find_losses(recorder) |
		      limpet_loss_if(last.end == LIMPET_END_DISK_FULL ||
					     last.end == LIMPET_END_SIZE_LIMIT,
				     LIMPET_LOSS_ENDED_EARLY) |
		      limpet_loss_if(code < 0, LIMPET_LOSS_FILE);
	recorder->end_losses = last.losses;
	if (code < 0)
		limpet_trace_writer_use_reserve(writer);
	content = limpet_trace_compressor_content(recorder->compressor);
	limpet_recorder_append_end(content, &last, live_entries);
	limpet_recorder_append_peak_bounds(content, recorder->accounting);
	limpet_trace_compressor_append(recorder->compressor, LIMPET_TRACE_END, last.time_ns,
				       last.time_ns);
	limpet_trace_compressor_flush(recorder->compressor);
	limpet_trace_compressor_wait(recorder->compressor);
	sync_code = limpet_trace_writer_finish(writer);
	code = limpet_trace_writer_error(writer);
	if (code == 0)
		code = sync_code;
	recorder->end_losses |= limpet_loss_if(code < 0, LIMPET_LOSS_FILE);
	return code;
}

void limpet_recorder_stats_read(const struct limpet_recorder *recorder,
				struct limpet_recorder_stats *ret_stats)
{
	const struct limpet_accounting *accounting = recorder->accounting;
	const struct limpet_totals *totals = limpet_accounting_totals(accounting);
	uint64_t growing_bytes = 0;
	uint32_t growing = limpet_accounting_growing(accounting, &growing_bytes);

	*ret_stats = (struct limpet_recorder_stats){
		.events = totals->events,
		.file_bytes = limpet_trace_writer_bytes(recorder->writer),
		.allocations = totals->counts.allocations,
		.frees = totals->counts.frees,
		.live_bytes = limpet_accounting_live_bytes(accounting),
		.estimated = limpet_accounting_is_estimated(accounting),
		.live_allocations = limpet_accounting_live_allocations(accounting),
		.peak_bytes = limpet_accounting_peak(accounting).capture_bytes,
		.foreign_frees = totals->foreign_frees,
		/* Rows of a period that was left open are given up with it. */
		.events_given_up =
			recorder->events_given_up +
			(recorder->rows_given_up ? totals->events - recorder->closed_events : 0),
		.inferred_frees = totals->inferred_frees,
		.mapped_bytes = limpet_accounting_mapped_bytes(accounting),
		.unmatched_table_full = limpet_accounting_table_full(accounting),
		.growing_node = growing ? recorder->agent_of_node[growing] : 0,
		.growing_bytes = growing_bytes,
	};
}
