#include "analyzer/model/model_symbols.h"

#include <errno.h>
#include <string.h>

#include "common/array.h"
#include "common/trace_block.h"

#define SYMBOLS_FRAMES_MAX (1u << 22)

struct entry {
	uint64_t address;
	uint32_t module;
	uint32_t frame_count;
	const struct limpet_model_frame *frames;
	size_t order; /* a later one wins */
};

/* The content of one block, to which its entries point. */
struct chunk {
	struct chunk *next;
	char *text; /* all strings, each with a NUL */
	const char **strings;
	size_t string_count;
	struct limpet_model_frame *frames;
	size_t frame_count;
};

struct limpet_model_symbols {
	struct chunk *chunks;
	struct entry *entries;
	size_t count, capacity;
	bool finished;
};

static void chunk_free(struct chunk *chunk)
{
	if (!chunk)
		return;
	free(chunk->text);
	free(chunk->strings);
	free(chunk->frames);
	free(chunk);
}

void limpet_model_symbols_free(struct limpet_model_symbols *symbols)
{
	if (!symbols)
		return;
	while (symbols->chunks) {
		struct chunk *next = symbols->chunks->next;

		chunk_free(symbols->chunks);
		symbols->chunks = next;
	}
	free(symbols->entries);
	free(symbols);
}

static int read_strings(struct chunk *chunk, struct limpet_cursor *list)
{
	uint64_t count = limpet_cursor_varint(list);
	char *to;

	if (list->failed || count > limpet_cursor_left(list))
		return -EBADMSG;
	/* A string of n bytes takes n + 1 bytes here, and at least as many in the list. */
	chunk->text = to = malloc(limpet_cursor_left(list) + 1);
	chunk->strings = calloc(count + 1, sizeof(*chunk->strings));
	if (!chunk->text || !chunk->strings)
		return -ENOMEM;
	for (uint64_t i = 0; i < count; i++) {
		uint64_t bytes = limpet_cursor_limited(list, LIMPET_TRACE_STRING_MAX_BYTES);
		const uint8_t *text = limpet_cursor_bytes(list, bytes);

		if (!text)
			return -EBADMSG;
		memcpy(to, text, bytes);
		to[bytes] = '\0';
		chunk->strings[++chunk->string_count] = to; /* from 1: 0 is none */
		to += bytes + 1;
	}
	return 0;
}

static const char *string_at(const struct chunk *chunk, struct limpet_cursor *list)
{
	uint64_t number = limpet_cursor_limited(list, chunk->string_count);

	return number ? chunk->strings[number] : NULL;
}

static int read_frames(struct chunk *chunk, struct limpet_cursor *list)
{
	/* four integers each */
	size_t limit = limpet_cursor_left(list) / 4;

	if (limit > SYMBOLS_FRAMES_MAX)
		return -EBADMSG;
	chunk->frames = calloc(limit + 1, sizeof(*chunk->frames));
	if (!chunk->frames)
		return -ENOMEM;
	while (limpet_cursor_left(list) && chunk->frame_count < limit) {
		struct limpet_model_frame *frame = &chunk->frames[chunk->frame_count++];
		uint64_t flags;

		frame->function = string_at(chunk, list);
		frame->file = string_at(chunk, list);
		frame->line = (uint32_t)limpet_cursor_limited(list, UINT32_MAX);
		flags = limpet_cursor_limited(
			list, (uint64_t)UINT32_MAX << LIMPET_SYMBOL_COLUMN_SHIFT | 1);
		frame->column = (uint32_t)(flags >> LIMPET_SYMBOL_COLUMN_SHIFT);
		frame->inlined = flags & LIMPET_SYMBOL_INLINED;
	}
	return list->failed ? -EBADMSG : 0;
}

static int add_entry(struct limpet_model_symbols *symbols, const struct entry *entry)
{
	int code = limpet_reserve(&symbols->entries, &symbols->capacity, symbols->count + 1,
				  sizeof(*symbols->entries));

	if (code < 0)
		return code;
	symbols->entries[symbols->count] = *entry;
	symbols->entries[symbols->count].order = symbols->count;
	symbols->count++;
	return 0;
}

static int read_addresses(struct limpet_model_symbols *symbols, const struct chunk *chunk,
			  struct limpet_cursor *list)
{
	uint64_t count = limpet_cursor_varint(list);
	size_t used = 0;

	if (list->failed || count > limpet_cursor_left(list) / 3)
		return -EBADMSG;
	for (uint64_t i = 0; i < count; i++) {
		struct entry entry = {0};
		int code;

		entry.module = (uint32_t)limpet_cursor_limited(list, LIMPET_TRACE_MODULES_MAX);
		entry.address = limpet_cursor_varint(list);
		entry.frame_count =
			(uint32_t)limpet_cursor_limited(list, chunk->frame_count - used);
		if (list->failed)
			return -EBADMSG;
		entry.frames = chunk->frames + used;
		used += entry.frame_count;
		code = add_entry(symbols, &entry);
		if (code < 0)
			return code;
	}
	return 0;
}

static int read_block(struct limpet_model_symbols *symbols, struct limpet_cursor sections)
{
	struct limpet_cursor section, strings = {0}, addresses = {0}, frames = {0};
	struct chunk *chunk;
	bool has_list = false;
	unsigned tag;
	int code;

	while ((tag = limpet_trace_next_section(&sections, &section))) {
		if (tag == LIMPET_SYMBOLS_STRINGS)
			strings = section, has_list = true;
		else if (tag == LIMPET_SYMBOLS_ADDRESSES)
			addresses = section;
		else if (tag == LIMPET_SYMBOLS_FRAMES)
			frames = section;
		else if (tag == LIMPET_SYMBOLS_FINISHED)
			symbols->finished = limpet_cursor_varint(&section) == 1;
	}
	if (sections.failed)
		return -EBADMSG;
	if (!has_list)
		return 0;
	chunk = calloc(1, sizeof(*chunk));
	if (!chunk)
		return -ENOMEM;
	/* kept even if damaged: entries may point to it already */
	chunk->next = symbols->chunks;
	symbols->chunks = chunk;
	code = read_strings(chunk, &strings);
	if (code == 0)
		code = read_frames(chunk, &frames);
	return code < 0 ? code : read_addresses(symbols, chunk, &addresses);
}

static int compare(const void *a, const void *b)
{
	const struct entry *left = a, *right = b;

	if (left->module != right->module)
		return left->module < right->module ? -1 : 1;
	if (left->address != right->address)
		return left->address < right->address ? -1 : 1;
	return left->order < right->order ? -1 : left->order > right->order;
}

/* Sorts by module and address; keeps only the last of equal ones. */
static void sort_entries(struct limpet_model_symbols *symbols)
{
	struct entry *entries = symbols->entries;
	size_t kept = 0;

	if (!symbols->count)
		return;
	qsort(entries, symbols->count, sizeof(*entries), compare);
	for (size_t i = 0; i < symbols->count; i++) {
		if (kept && entries[kept - 1].module == entries[i].module &&
		    entries[kept - 1].address == entries[i].address)
			kept--;
		entries[kept] = entries[i];
		entries[kept].order = kept;
		kept++;
	}
	symbols->count = kept;
}

struct limpet_model_symbols *limpet_model_symbols_none(void)
{
	return calloc(1, sizeof(struct limpet_model_symbols));
}

/* Copies a string to *at, and moves *at behind it. */
static const char *copy_string(const char *from, char **at)
{
	const char *copy = *at;

	if (!from)
		return NULL;
	*at = stpcpy(*at, from) + 1;
	return copy;
}

int limpet_model_symbols_add(struct limpet_model_symbols *symbols, uint32_t module,
			     uint64_t address, const struct limpet_model_frame *frames,
			     uint32_t count)
{
	const struct entry entry = {.address = address, .module = module, .frame_count = count};
	struct chunk *chunk = calloc(1, sizeof(*chunk));
	size_t bytes = 1;
	char *at;
	int code;

	if (!chunk)
		return -ENOMEM;
	for (uint32_t i = 0; i < count; i++)
		bytes += (frames[i].function ? strlen(frames[i].function) + 1 : 0) +
			 (frames[i].file ? strlen(frames[i].file) + 1 : 0);
	chunk->text = at = malloc(bytes);
	chunk->frames = calloc(count + 1ul, sizeof(*chunk->frames));
	code = at && chunk->frames ? add_entry(symbols, &entry) : -ENOMEM;
	if (code < 0) {
		chunk_free(chunk);
		return code;
	}
	for (uint32_t i = 0; i < count; i++) {
		chunk->frames[i] = frames[i];
		chunk->frames[i].function = copy_string(frames[i].function, &at);
		chunk->frames[i].file = copy_string(frames[i].file, &at);
	}
	chunk->frame_count = count;
	symbols->entries[symbols->count - 1].frames = chunk->frames;
	chunk->next = symbols->chunks;
	symbols->chunks = chunk;
	return 0;
}

int limpet_model_symbols_move(struct limpet_model_symbols *to, struct limpet_model_symbols *from)
{
	const size_t before = to->count;

	for (size_t i = 0; i < from->count; i++) {
		if (add_entry(to, &from->entries[i]) < 0) {
			to->count = before;
			return -ENOMEM;
		}
	}
	from->count = 0;
	while (from->chunks) {
		struct chunk *chunk = from->chunks;

		from->chunks = chunk->next;
		chunk->next = to->chunks;
		to->chunks = chunk;
	}
	return 0;
}

void limpet_model_symbols_settle(struct limpet_model_symbols *symbols)
{
	sort_entries(symbols);
}

static int add_block(struct limpet_model_symbols *symbols, struct limpet_trace_reader *reader,
		     size_t block)
{
	LIMPET_FREE uint8_t *buffer = NULL;
	struct limpet_cursor sections;
	int code = limpet_trace_reader_load(reader, block, &buffer, &sections);

	if (code == 0)
		code = read_block(symbols, sections);
	return code == -EBADMSG ? 0 : code;
}

int limpet_model_symbols_add_block(struct limpet_model_symbols *symbols,
				   struct limpet_trace_reader *reader, size_t block)
{
	int code = add_block(symbols, reader, block);

	sort_entries(symbols);
	return code;
}

int limpet_model_symbols_new(struct limpet_trace_reader *reader,
			     struct limpet_model_symbols **ret_symbols)
{
	const struct limpet_trace_block *blocks;
	size_t count = limpet_trace_reader_blocks(reader, &blocks);
	struct limpet_model_symbols *symbols = calloc(1, sizeof(*symbols));
	int code = 0;

	if (!symbols)
		return -ENOMEM;
	for (size_t i = 0; i < count && code == 0; i++)
		if (blocks[i].type == LIMPET_TRACE_SYMBOLS && !blocks[i].damaged)
			code = add_block(symbols, reader, i);
	if (code < 0) {
		limpet_model_symbols_free(symbols);
		return code;
	}
	sort_entries(symbols);
	*ret_symbols = symbols;
	return 0;
}

uint32_t limpet_model_symbols_find(const struct limpet_model_symbols *symbols, uint32_t module,
				   uint64_t address, const struct limpet_model_frame **ret_frames)
{
	const struct entry *entries = symbols->entries;
	const size_t at = LIMPET_PARTITION_POINT(
		i, symbols->count,
		entries[i].module < module ||
			(entries[i].module == module && entries[i].address < address));

	if (at == symbols->count || entries[at].module != module || entries[at].address != address)
		return 0;
	*ret_frames = entries[at].frames;
	return entries[at].frame_count;
}

size_t limpet_model_symbols_count(const struct limpet_model_symbols *symbols)
{
	/* Those of no module come first, and of these the scripts' last. */
	const size_t first = LIMPET_PARTITION_POINT(i, symbols->count,
						    !symbols->entries[i].module &&
							    symbols->entries[i].address <
								    LIMPET_TRACE_SCRIPT_ADDRESS);
	const size_t end = LIMPET_PARTITION_POINT(i, symbols->count, !symbols->entries[i].module);

	return symbols->count - (end - first);
}

bool limpet_model_symbols_finished(const struct limpet_model_symbols *symbols)
{
	return symbols->finished;
}
