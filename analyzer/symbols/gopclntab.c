#include "analyzer/symbols/gopclntab.h"

#include <errno.h>
#include <stdlib.h>

#include "analyzer/symbols/go_file.h"
#include "analyzer/symbols/symbol.h"

/* Limit of what is read for one value: no real function has so many steps. */
#define STEPS_MAX (1u << 18)
/* Limit of a name or path. */
#define TEXT_MAX (64u << 10)
/* Places in a function's list of values by address, and of other data. */
#define INLINED_VALUES 2u
#define INLINED_TREE 3u

struct limpet_gopclntab {
	struct limpet_go_file file;
};

struct function {
	struct limpet_go_bytes record;
	uint64_t start, end;
};

int limpet_gopclntab_new(const uint8_t *file, size_t bytes, struct limpet_gopclntab **ret)
{
	struct limpet_gopclntab *table = malloc(sizeof(*table));
	int code;

	if (!table)
		return -ENOMEM;
	code = limpet_go_file_find(file, bytes, &table->file);
	if (code < 0) {
		free(table);
		return code;
	}
	*ret = table;
	return 0;
}

void limpet_gopclntab_free(struct limpet_gopclntab *table)
{
	free(table);
}

/* ------------------------------------------------------------------ functions */

static bool is_narrow(const struct limpet_go_file *file)
{
	return file->format >= LIMPET_GO_18;
}

/* A number of the list of functions: even ones are addresses, odd ones places of records. */
static uint64_t start_number(const struct limpet_go_file *file, uint64_t index)
{
	uint32_t narrow = 0;
	uint64_t wide = 0;

	if (is_narrow(file))
		return limpet_go_read(file->starts, 4 * index, &narrow, sizeof(narrow)) ? narrow
											: 0;
	return limpet_go_read(file->starts, 8 * index, &wide, sizeof(wide)) ? wide : 0;
}

static uint64_t start_of(const struct limpet_go_file *file, uint64_t function)
{
	return file->text + start_number(file, 2 * function);
}

static bool find_function(const struct limpet_go_file *file, uint64_t address, struct function *ret)
{
	uint64_t low = 0, high = file->count, offset;

	while (low < high) {
		uint64_t middle = low + (high - low) / 2;

		if (start_of(file, middle) <= address)
			low = middle + 1;
		else
			high = middle;
	}
	if (!low)
		return false;
	ret->start = start_of(file, low - 1);
	ret->end = start_of(file, low);
	offset = start_number(file, 2 * (low - 1) + 1);
	if (address < ret->start || address >= ret->end || offset >= file->records.left)
		return false;
	ret->record = (struct limpet_go_bytes){file->records.at + offset,
					       file->records.left - (size_t)offset};
	return true;
}

bool limpet_gopclntab_covers(const struct limpet_gopclntab *table, uint64_t address)
{
	struct function function;

	return find_function(&table->file, address, &function);
}

/* Numbers of a function's record, after its address. */
enum {
	RECORD_NAME,
	RECORD_FILES = 4, /* values by address */
	RECORD_LINES,
	RECORD_VALUE_COUNT,
	RECORD_UNIT, /* since Go 1.16 */
};

static uint32_t record_number(const struct limpet_go_file *file, const struct function *function,
			      unsigned which)
{
	uint32_t number = 0;

	return limpet_go_read(function->record, (is_narrow(file) ? 4 : 8) + 4 * which, &number,
			      sizeof(number))
		       ? number
		       : 0;
}

/* Where the list of values by address begins, behind the fixed part. */
static unsigned record_end(const struct limpet_go_file *file)
{
	static const unsigned ends[] = {
		[LIMPET_GO_2] = 40, [LIMPET_GO_16] = 44, [LIMPET_GO_18] = 40, [LIMPET_GO_20] = 44};

	return ends[file->format];
}

/* NULL if there is none, or it does not end. */
static const char *text_at(struct limpet_go_bytes texts, uint64_t offset)
{
	size_t room;

	if (offset >= texts.left || !texts.at[offset])
		return NULL;
	room = texts.left - (size_t)offset;
	if (!memchr(texts.at + offset, '\0', room < TEXT_MAX ? room : TEXT_MAX))
		return NULL;
	return (const char *)texts.at + offset;
}

/* ------------------------------------------------------------------ values by address */

static bool read_varint(struct limpet_go_bytes *bytes, uint32_t *ret)
{
	uint32_t value = 0;

	for (unsigned shift = 0; bytes->left && shift < 32; shift += 7) {
		uint8_t byte = *bytes->at++;

		bytes->left--;
		value |= (uint32_t)(byte & 0x7f) << shift;
		if (!(byte & 0x80)) {
			*ret = value;
			return true;
		}
	}
	return false;
}

/* The value at `offset` bytes from the function's start; -1: none. A list has pairs: how much the
 * value changes, and for how many bytes of code it holds then. */
static int32_t value_at(const struct limpet_go_file *file, uint32_t list, uint64_t offset)
{
	struct limpet_go_bytes bytes = file->values;
	uint32_t value = UINT32_MAX, change, length;
	uint64_t at = 0;

	if (!list || list >= bytes.left)
		return -1;
	bytes.at += list;
	bytes.left -= list;
	for (unsigned i = 0; i < STEPS_MAX; i++) {
		if (!read_varint(&bytes, &change) || (!change && i) ||
		    !read_varint(&bytes, &length))
			return -1;
		value += change & 1 ? ~(change >> 1) : change >> 1;
		at += (uint64_t)length * file->quantum;
		if (offset < at)
			return (int32_t)value;
	}
	return -1;
}

static const char *file_name(const struct limpet_go_file *file, uint32_t unit, uint32_t number)
{
	uint32_t at;

	if (file->format == LIMPET_GO_2)
		return limpet_go_read(file->files, 4ull * number, &at, sizeof(at))
			       ? text_at(file->table, at)
			       : NULL;
	if (!limpet_go_read(file->units, 4 * ((uint64_t)unit + number), &at, sizeof(at)))
		return NULL;
	return text_at(file->files, at);
}

static void set_line(const struct limpet_go_file *file, const struct function *function,
		     uint64_t offset, struct limpet_symbol *symbol)
{
	int32_t number = value_at(file, record_number(file, function, RECORD_FILES), offset);
	int32_t line = value_at(file, record_number(file, function, RECORD_LINES), offset);

	if (number < 0 || line <= 0)
		return;
	symbol->file =
		file_name(file, record_number(file, function, RECORD_UNIT), (uint32_t)number);
	symbol->line = symbol->file ? (uint32_t)line : 0;
}

/* ------------------------------------------------------------------ inlined calls */

/* The number of the call at `offset` in the function's tree; -1: it is not inlined. */
static int32_t inlined_at(const struct limpet_go_file *file, const struct function *function,
			  uint64_t offset)
{
	uint32_t list;

	if (record_number(file, function, RECORD_VALUE_COUNT) <= INLINED_VALUES ||
	    !limpet_go_read(function->record, record_end(file) + 4 * INLINED_VALUES, &list,
			    sizeof(list)))
		return -1;
	return value_at(file, list, offset);
}

/* The name of an inlined function, and where it was called: *ret_offset bytes from the start. */
static const char *inlined_call(const struct limpet_go_file *file, const struct function *function,
				uint32_t number, uint64_t *ret_offset)
{
	/* Since Go 1.20 a call has four words, before five. */
	const bool is_short = file->format == LIMPET_GO_20;
	const uint64_t values = record_number(file, function, RECORD_VALUE_COUNT);
	const unsigned end = record_end(file);
	uint8_t lists;
	uint32_t tree, name, offset;
	uint64_t call;

	if (!file->trees.left ||
	    !limpet_go_read(function->record, end - 1, &lists, sizeof(lists)) ||
	    lists <= INLINED_TREE ||
	    !limpet_go_read(function->record, end + 4 * (values + INLINED_TREE), &tree,
			    sizeof(tree)) ||
	    tree == UINT32_MAX)
		return NULL;
	call = tree + (uint64_t)number * (is_short ? 16 : 20);
	if (!limpet_go_read(file->trees, call + (is_short ? 4 : 12), &name, sizeof(name)) ||
	    !limpet_go_read(file->trees, call + (is_short ? 8 : 16), &offset, sizeof(offset)) ||
	    offset >= function->end - function->start)
		return NULL;
	*ret_offset = offset;
	return text_at(file->names, name);
}

int limpet_gopclntab_find(const struct limpet_gopclntab *table, uint64_t address,
			  struct limpet_symbol *list, int limit)
{
	const struct limpet_go_file *file = &table->file;
	struct function function;
	const char *name;
	uint64_t offset;
	int count = 0;

	if (limit < 1 || !find_function(file, address, &function))
		return 0;
	name = text_at(file->names, record_number(file, &function, RECORD_NAME));
	if (!name)
		return 0;
	for (offset = address - function.start;; count++) {
		int32_t inlined = inlined_at(file, &function, offset);
		uint64_t caller = offset;

		list[count] = (struct limpet_symbol){.function = name};
		if (inlined >= 0) {
			const char *call = NULL;

			/* A crafted tree may have a loop. */
			if (count < limit - 1)
				call = inlined_call(file, &function, (uint32_t)inlined, &caller);
			if (!call)
				return count + 1;
			list[count].function = call;
			list[count].inlined = true;
		}
		set_line(file, &function, offset, &list[count]);
		if (inlined < 0)
			return count + 1;
		offset = caller;
	}
}
