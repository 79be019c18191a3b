#include "analyzer/import/trace_maker_blocks.h"

#include <string.h>

#include "common/base_name.h"
#include "common/file_io.h"

/* A block stays far below the limit of its content. */
#define NODES_PER_BLOCK (1u << 20)
#define SYMBOLS_BLOCK_BYTES (8u << 20)

static void append_text(struct limpet_bytes *list, const struct limpet_trace_maker *maker,
			const struct limpet_maker_string *string)
{
	limpet_bytes_append_varint(list, string->bytes);
	limpet_bytes_append(list, maker->text.data + string->start, string->bytes);
}

/* Covers the time from the span's beginning on. Takes over the content. */
static int append_block(struct limpet_trace_maker *maker, enum limpet_trace_block_type type,
			uint64_t to_ns, struct limpet_bytes *content)
{
	struct limpet_trace_mark mark = {.type = type,
					 .sequence = maker->sequence++,
					 .first_ns = maker->span_ns,
					 .last_ns = to_ns};
	const int code = limpet_trace_block_append(&maker->out, maker->zstd, &mark, content);

	limpet_bytes_done(content);
	return code;
}

/* ------------------------------------------------------------------ EVENTS */

/* The number of the kind's pair in this span. */
static uint32_t pair_of(struct limpet_trace_maker *maker, struct limpet_maker_kind *kind)
{
	struct limpet_maker_rows *rows = &maker->rows;

	if (kind->span != maker->span) {
		kind->span = maker->span;
		kind->pair = rows->pair_count++;
		limpet_bytes_append_varint(&rows->pair_nodes, kind->node);
		limpet_bytes_append_varint(&rows->pair_sizes, kind->bytes);
	}
	return kind->pair;
}

int limpet_maker_blocks_row(struct limpet_trace_maker *maker, struct limpet_maker_kind *kind,
			    uint8_t op, uint64_t age)
{
	struct limpet_maker_rows *rows = &maker->rows;
	const uint64_t tick = maker->time_ns / LIMPET_TRACE_TICK_NS;

	if (!rows->count)
		rows->first_tick = rows->last_tick = tick;
	limpet_bytes_append_byte(&rows->ops, op);
	limpet_bytes_append_varint(&rows->times, tick - rows->last_tick);
	limpet_bytes_append_varint(&rows->pairs, pair_of(maker, kind));
	if (limpet_row_has_age(LIMPET_ROW_KIND(op))) {
		limpet_bytes_append_varint(&rows->ages, age);
		limpet_bytes_append_varint(&rows->owners, 0);
	}
	rows->last_tick = tick;
	rows->count++;
	return rows->ops.failed || rows->times.failed || rows->pairs.failed || rows->ages.failed ||
			       rows->owners.failed || rows->pair_nodes.failed ||
			       rows->pair_sizes.failed
		       ? -ENOMEM
		       : 0;
}

static void clear_rows(struct limpet_maker_rows *rows)
{
	struct limpet_bytes *const columns[] = {&rows->ops,        &rows->times, &rows->pair_nodes,
						&rows->pair_sizes, &rows->pairs, &rows->ages,
						&rows->owners};

	for (size_t i = 0; i < LIMPET_COUNT_OF(columns); i++)
		limpet_bytes_clear(columns[i]);
	rows->count = rows->pair_count = 0;
}

static int append_events(struct limpet_trace_maker *maker, uint64_t to_ns)
{
	const struct limpet_maker_rows *rows = &maker->rows;
	const struct {
		unsigned tag;
		const struct limpet_bytes *column;
	} columns[] = {
		{LIMPET_EVENTS_OPS, &rows->ops},
		{LIMPET_EVENTS_TIMES, &rows->times},
		{LIMPET_EVENTS_PAIR_NODES, &rows->pair_nodes},
		{LIMPET_EVENTS_PAIR_SIZES, &rows->pair_sizes},
		{LIMPET_EVENTS_PAIRS, &rows->pairs},
		{LIMPET_EVENTS_AGES, &rows->ages},
		{LIMPET_EVENTS_OWNERS, &rows->owners},
	};
	struct limpet_bytes content = {0};

	if (!rows->count)
		return 0;
	limpet_trace_content_begin(&content);
	limpet_trace_numbers_append(&content, LIMPET_EVENTS_COUNTS,
				    (uint64_t[]){rows->count, rows->count, rows->first_tick}, 3);
	for (size_t i = 0; i < LIMPET_COUNT_OF(columns); i++)
		limpet_trace_section_append(&content, columns[i].tag, columns[i].column->data,
					    columns[i].column->count);
	return append_block(maker, LIMPET_TRACE_EVENTS, to_ns, &content);
}

/* ------------------------------------------------------------------ PERIOD */

/* A list of sites: how many, each one's node, and one column after the other. */
#define COLUMNS_MAX 7u
struct site_list {
	size_t count;
	uint32_t last;
	struct limpet_bytes nodes, columns[COLUMNS_MAX];
};

static void add_row(struct site_list *list, uint32_t node, const uint64_t *columns, size_t count)
{
	limpet_bytes_append_varint(&list->nodes, node - list->last);
	list->last = node;
	list->count++;
	for (size_t i = 0; i < count; i++)
		limpet_bytes_append_varint(&list->columns[i], columns[i]);
}

static void append_sites(struct limpet_bytes *content, unsigned tag, struct site_list *list)
{
	struct limpet_bytes all = {0};

	limpet_bytes_append_varint(&all, list->count);
	limpet_bytes_append(&all, list->nodes.data, list->nodes.count);
	all.failed |= list->nodes.failed;
	limpet_bytes_done(&list->nodes);
	for (size_t i = 0; i < COLUMNS_MAX; i++) {
		limpet_bytes_append(&all, list->columns[i].data, list->columns[i].count);
		all.failed |= list->columns[i].failed;
		limpet_bytes_done(&list->columns[i]);
	}
	limpet_trace_list_append(content, tag, &all);
}

static int by_number(const void *a, const void *b)
{
	const uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;

	return x < y ? -1 : x > y;
}

/* The sites that changed in the span. Their nodes have to ascend. */
static void append_span(struct limpet_bytes *content, struct limpet_trace_maker *maker)
{
	struct site_list list = {0};
	uint32_t *nodes = maker->touched;

	for (size_t i = 0; i < maker->touched_count; i++)
		nodes[i] = maker->sites[nodes[i]].node;
	qsort(nodes, maker->touched_count, sizeof(*nodes), by_number);
	for (size_t i = 0; i < maker->touched_count; i++) {
		const uint32_t site = maker->nodes[nodes[i]].site - 1;
		const struct limpet_counts *span = &maker->sites[site].span;

		add_row(&list, nodes[i],
			(uint64_t[]){span->allocations, span->allocated_bytes, span->frees,
				     span->freed_bytes, span->temporary, 0, 0},
			COLUMNS_MAX);
		nodes[i] = site;
	}
	append_sites(content, LIMPET_PERIOD_SITES, &list);
}

static void append_sizes(struct limpet_bytes *content, const struct limpet_size_counts *sizes)
{
	struct limpet_bytes list = {0};

	for (unsigned i = 0; i < LIMPET_TRACE_SIZE_BUCKETS; i++) {
		if (!sizes[i].allocations)
			continue;
		limpet_bytes_append_varint(&list, i);
		limpet_bytes_append_varint(&list, sizes[i].allocations);
		limpet_bytes_append_varint(&list, sizes[i].allocated_bytes);
	}
	limpet_trace_list_append(content, LIMPET_PERIOD_SIZES, &list);
}

/* After its EVENTS. */
static int append_period(struct limpet_trace_maker *maker, uint64_t to_ns)
{
	const uint32_t rows = maker->rows.count;
	struct limpet_bytes content = {0};
	uint64_t totals[LIMPET_TOTAL_COUNT];

	limpet_totals_list(&maker->totals, totals);
	limpet_trace_content_begin(&content);
	limpet_trace_numbers_append(&content, LIMPET_PERIOD_EVENTS,
				    (uint64_t[]){rows ? maker->sequence - 1 : 0, rows}, 2);
	limpet_trace_numbers_append(&content, LIMPET_PERIOD_TOTALS, totals, LIMPET_TOTAL_COUNT);
	limpet_trace_numbers_append(&content, LIMPET_PERIOD_GAUGES,
				    (uint64_t[]){to_ns, maker->rss_bytes, 0, 0, 0, 0}, 6);
	limpet_trace_numbers_append(&content, LIMPET_PERIOD_PEAK,
				    (uint64_t[]){maker->span_peak.bytes, maker->span_peak.rows,
						 maker->span_peak.time_ns, maker->highest.bytes,
						 maker->highest.time_ns},
				    5);
	append_sizes(&content, maker->sizes);
	append_span(&content, maker);
	return append_block(maker, LIMPET_TRACE_PERIOD, to_ns, &content);
}

int limpet_maker_blocks_span(struct limpet_trace_maker *maker, uint64_t to_ns)
{
	int code = append_events(maker, to_ns);

	if (code == 0)
		code = append_period(maker, to_ns);
	clear_rows(&maker->rows);
	return code;
}

/* ------------------------------------------------------------------ MODULES, NODES, SYMBOLS */

static int append_modules(struct limpet_trace_maker *maker)
{
	struct limpet_bytes content = {0}, list = {0};

	limpet_bytes_append_varint(&list, maker->module_count);
	for (size_t i = 1; i < maker->string_count; i++) {
		const struct limpet_maker_string *path = &maker->strings[i];

		if (!path->module)
			continue;
		limpet_bytes_append_varint(&list, path->module);
		/* Flags; where it was in memory is not known; nor its build-id, after the path. */
		for (unsigned unknown = 0; unknown < 4; unknown++)
			limpet_bytes_append_varint(&list, 0);
		append_text(&list, maker, path);
		limpet_bytes_append_varint(&list, 0);
	}
	limpet_trace_content_begin(&content);
	limpet_trace_list_append(&content, LIMPET_MODULES_LIST, &list);
	return append_block(maker, LIMPET_TRACE_MODULES, maker->span_ns, &content);
}

static int append_nodes(struct limpet_trace_maker *maker, uint32_t first, uint32_t end)
{
	struct limpet_bytes content = {0}, list = {0};
	uint64_t last = 0;

	limpet_bytes_append_varint(&list, first);
	limpet_bytes_append_varint(&list, end - first);
	for (uint32_t i = first; i < end; i++) {
		const struct limpet_maker_node *node = &maker->nodes[i];
		const struct limpet_maker_stored_place *place = &maker->places[node->place];

		limpet_bytes_append_varint(&list, i - node->parent);
		limpet_bytes_append_varint(&list, place->module);
		limpet_bytes_append_varint(&list, limpet_trace_zigzag(place->address - last));
		limpet_bytes_append_varint(&list, 0);
		last = place->address;
	}
	limpet_trace_content_begin(&content);
	limpet_trace_list_append(&content, LIMPET_NODES_LIST, &list);
	return append_block(maker, LIMPET_TRACE_NODES, maker->span_ns, &content);
}

/* Of one SYMBOLS block. */
struct symbols {
	struct limpet_trace_maker *maker;
	uint32_t block; /* from 1 */
	uint32_t string_count, place_count;
	struct limpet_bytes strings, places, frames;
};

/* Each block has its own numbers of strings. */
static uint32_t number_in_block(struct symbols *symbols, uint32_t string)
{
	struct limpet_maker_string *it = &symbols->maker->strings[string];

	if (!string)
		return 0;
	if (it->block != symbols->block) {
		it->block = symbols->block;
		it->number = ++symbols->string_count;
		append_text(&symbols->strings, symbols->maker, it);
	}
	return it->number;
}

static void add_place(struct symbols *symbols, const struct limpet_maker_stored_place *place)
{
	if (!place->frame_count)
		return;
	symbols->place_count++;
	limpet_bytes_append_varint(&symbols->places, place->module);
	limpet_bytes_append_varint(&symbols->places, place->address);
	limpet_bytes_append_varint(&symbols->places, place->frame_count);
	for (uint32_t i = 0; i < place->frame_count; i++) {
		const struct limpet_maker_frame *frame =
			&symbols->maker->frames[place->first_frame + i];
		const bool inlined = i + 1 < place->frame_count;

		limpet_bytes_append_varint(&symbols->frames,
					   number_in_block(symbols, frame->function));
		limpet_bytes_append_varint(&symbols->frames, number_in_block(symbols, frame->file));
		limpet_bytes_append_varint(&symbols->frames, frame->line);
		limpet_bytes_append_varint(&symbols->frames, inlined ? LIMPET_SYMBOL_INLINED : 0);
	}
}

static void append_counted(struct limpet_bytes *content, unsigned tag, uint64_t count,
			   struct limpet_bytes *rest)
{
	struct limpet_bytes list = {0};

	limpet_bytes_append_varint(&list, count);
	limpet_bytes_append(&list, rest->data, rest->count);
	list.failed |= rest->failed;
	limpet_bytes_clear(rest);
	limpet_trace_list_append(content, tag, &list);
}

/* Begins the next one. */
static int end_symbols(struct symbols *symbols)
{
	struct limpet_bytes content = {0};

	limpet_trace_content_begin(&content);
	append_counted(&content, LIMPET_SYMBOLS_STRINGS, symbols->string_count, &symbols->strings);
	append_counted(&content, LIMPET_SYMBOLS_ADDRESSES, symbols->place_count, &symbols->places);
	limpet_trace_list_append(&content, LIMPET_SYMBOLS_FRAMES, &symbols->frames);
	limpet_trace_number_append(&content, LIMPET_SYMBOLS_FINISHED, 1);
	symbols->block++;
	symbols->string_count = symbols->place_count = 0;
	return append_block(symbols->maker, LIMPET_TRACE_SYMBOLS, symbols->maker->span_ns,
			    &content);
}

static int append_symbols(struct limpet_trace_maker *maker)
{
	struct symbols symbols = {.maker = maker, .block = 1};
	int code = 0;

	for (size_t i = 1; i < maker->place_count && code == 0; i++) {
		add_place(&symbols, &maker->places[i]);
		if (symbols.strings.count + symbols.frames.count + symbols.places.count >=
		    SYMBOLS_BLOCK_BYTES)
			code = end_symbols(&symbols);
	}
	if (code == 0)
		code = end_symbols(&symbols);
	limpet_bytes_done(&symbols.strings);
	limpet_bytes_done(&symbols.places);
	limpet_bytes_done(&symbols.frames);
	return code;
}

/* ------------------------------------------------------------------ HEADER, END, the file */

/* The file name of the first word of a command line. */
static void append_name(struct limpet_bytes *content, const char *command)
{
	const size_t bytes = strcspn(command, " ");
	const char *name = command + bytes;

	while (name > command && name[-1] != '/')
		name--;
	limpet_trace_section_append(content, LIMPET_HEADER_COMM, name,
				    (size_t)(command + bytes - name));
}

static int append_header(struct limpet_trace_maker *maker, const struct limpet_maker_head *head,
			 struct limpet_bytes *out)
{
	struct limpet_trace_mark mark = {.type = LIMPET_TRACE_HEADER};
	struct limpet_bytes content = {0};
	int code;

	limpet_trace_content_begin(&content);
	if (head->command) {
		append_name(&content, head->command);
		limpet_trace_string_append(&content, LIMPET_HEADER_COMMAND, head->command);
	}
	limpet_trace_number_append(&content, LIMPET_HEADER_MODE, head->mode);
	if (head->page_bytes)
		limpet_trace_number_append(&content, LIMPET_HEADER_PAGE_BYTES, head->page_bytes);
	limpet_trace_string_append(&content, LIMPET_HEADER_RECORDER, head->recorder);
	code = limpet_trace_block_append(out, maker->zstd, &mark, &content);
	limpet_bytes_done(&content);
	return code;
}

/* How it ended is not known. */
static int append_end(struct limpet_trace_maker *maker)
{
	struct limpet_bytes content = {0};

	limpet_trace_content_begin(&content);
	limpet_trace_number_append(&content, LIMPET_ENDING_TIME_NS, maker->span_ns);
	return append_block(maker, LIMPET_TRACE_END, maker->span_ns, &content);
}

static int append_tables(struct limpet_trace_maker *maker)
{
	int code = append_modules(maker);

	for (uint32_t first = 1; first < maker->node_count && code == 0; first += NODES_PER_BLOCK) {
		const uint32_t left = maker->node_count - first;

		code = append_nodes(maker, first,
				    first + (left < NODES_PER_BLOCK ? left : NODES_PER_BLOCK));
	}
	return code == 0 ? append_symbols(maker) : code;
}

int limpet_maker_blocks_write(struct limpet_trace_maker *maker,
			      const struct limpet_maker_head *head, int fd)
{
	struct limpet_bytes first = {0};
	int code = append_header(maker, head, &first);

	if (code == 0)
		code = append_tables(maker);
	if (code == 0 && head->whole)
		code = append_end(maker);
	if (code == 0)
		code = limpet_pwrite(fd, first.data, first.count, 0, NULL);
	if (code == 0)
		code = limpet_pwrite(fd, maker->out.data, maker->out.count, first.count, NULL);
	limpet_bytes_done(&first);
	return code;
}

void limpet_maker_blocks_done(struct limpet_trace_maker *maker)
{
	struct limpet_maker_rows *rows = &maker->rows;
	struct limpet_bytes *const all[] = {&rows->ops,        &rows->times, &rows->pair_nodes,
					    &rows->pair_sizes, &rows->pairs, &rows->ages,
					    &rows->owners,     &maker->out};

	ZSTD_freeCCtx(maker->zstd);
	for (size_t i = 0; i < LIMPET_COUNT_OF(all); i++)
		limpet_bytes_done(all[i]);
}
