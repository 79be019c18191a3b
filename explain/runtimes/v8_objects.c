#include "explain/runtimes/v8_objects.h"

#include <string.h>

/* src/objects/instance-type.h: how the characters of a string are kept. */
#define REPRESENTATION_MASK 7u
#define ONE_BYTE 8u
enum { SEQUENTIAL = 0, CONS = 1, EXTERNAL = 2, SLICED = 3, THIN = 5 };
#define STRING_PARTS 64u
#define STRING_LIMIT ((uint32_t)1 << 29)
#define CHARACTERS 256u
/* src/objects/scope-info.tq. */
#define LOCALS_LIMIT 65536
#define INLINED_LOCALS 75u
#define SCOPE_TYPE(flags) ((flags)&15)
#define SCOPE_SAVED_CLASS_VARIABLE(flags) ((flags) >> 10 & 1)
#define SCOPE_FUNCTION_VARIABLE(flags) ((flags) >> 12 & 3)
#define SCOPE_INFERRED_NAME(flags) ((flags) >> 14 & 1)
#define SCOPE_OUTER(flags) ((flags) >> 22 & 1)
/* A list of a block's variables; since V8 13, code that depends on what eval() may add. */
#define SCOPE_LAST(layout, flags) ((flags) >> ((layout)->scope_first_vars < 5 ? 28 : 4) & 1)
#define SCOPE_EMPTY(flags) ((flags) >> 29 & 1)
/* CLASS_SCOPE, EVAL_SCOPE, FUNCTION_SCOPE, MODULE_SCOPE, SCRIPT_SCOPE. */
#define LAST_WITH_POSITIONS 4u

/* ------------------------------------------------------------------ objects */

static int read_type(const struct limpet_v8 *v8, uint64_t map, uint16_t *ret)
{
	return limpet_memory_reader_read(v8->memory, map + (uint64_t)v8->layout->map_instance_type,
					 ret, sizeof(*ret));
}

int limpet_v8_object(const struct limpet_v8 *v8, uint64_t word, struct limpet_v8_object *ret)
{
	struct limpet_v8_object object = {.address = limpet_v8_address(word)};
	uint64_t map_word, meta_word;
	uint16_t meta_type;
	int error;

	if (!object.address || object.address % 8)
		return -EBADMSG;
	error = limpet_memory_reader_read(v8->memory, object.address, &map_word, sizeof(map_word));
	if (error)
		return error;
	object.map = limpet_v8_address(map_word);
	if (!object.map || object.map % 8 || (map_word & 3) != 1)
		return -EBADMSG;
	error = limpet_memory_reader_read(v8->memory, object.map, &meta_word, sizeof(meta_word));
	if (!error)
		error = read_type(v8, object.map, &object.type);
	if (error)
		return error;
	if ((meta_word & 3) != 1 || !limpet_v8_address(meta_word))
		return -EBADMSG;
	error = read_type(v8, limpet_v8_address(meta_word), &meta_type);
	if (error)
		return error;
	if (meta_type != v8->layout->type_map)
		return -EBADMSG;
	*ret = object;
	return 0;
}

bool limpet_v8_field(const struct limpet_v8 *v8, const struct limpet_v8_object *object,
		     int32_t offset, uint64_t *ret_word)
{
	return offset >= 0 && limpet_memory_reader_read_word(
				      v8->memory, object->address + (uint64_t)offset, ret_word);
}

int limpet_v8_reference(const struct limpet_v8 *v8, const struct limpet_v8_object *object,
			int32_t offset, struct limpet_v8_object *ret)
{
	uint64_t word;

	if (!limpet_v8_field(v8, object, offset, &word))
		return -ENODATA;
	return limpet_v8_object(v8, word, ret);
}

bool limpet_v8_is_string(const struct limpet_v8 *v8, uint16_t type)
{
	return type < v8->layout->first_nonstring;
}

/* Constructors of the language's own classes have types of their own, right after those of other
 * functions. */
bool limpet_v8_is_function(const struct limpet_v8 *v8, const struct limpet_v8_object *object)
{
	struct limpet_v8_object shared;

	if (object->type < v8->layout->type_function ||
	    object->type >= v8->layout->type_function + 32)
		return false;
	return limpet_v8_reference(v8, object, v8->layout->function_shared, &shared) == 0 &&
	       shared.type == v8->layout->type_shared;
}

/* ------------------------------------------------------------------ strings */

struct text {
	const struct limpet_v8 *v8;
	char *at;
	size_t left;   /* without the NUL */
	uint32_t high; /* the first half of a pair of surrogates; 0: none */
	unsigned parts_left;
};

static void append_byte(struct text *text, unsigned byte)
{
	*text->at++ = (char)byte;
	text->left--;
}

static void append_code_point(struct text *text, uint32_t code)
{
	const unsigned bytes = code < 0x80 ? 1 : code < 0x800 ? 2 : code < 0x10000 ? 3 : 4;

	if (bytes > text->left) {
		text->left = 0;
		return;
	}
	if (bytes == 1) {
		append_byte(text, code < 0x20 || code == 0x7f ? '?' : code);
		return;
	}
	append_byte(text, (0xf00u >> bytes & 0xff) | code >> 6 * (bytes - 1));
	for (unsigned left = bytes - 1; left--;)
		append_byte(text, 0x80 | (code >> 6 * left & 0x3f));
}

static void append_unit(struct text *text, uint32_t unit)
{
	const uint32_t high = text->high;

	text->high = 0;
	if (unit >= 0xd800 && unit < 0xdc00) {
		text->high = unit;
		return;
	}
	if (unit >= 0xdc00 && unit < 0xe000)
		append_code_point(text, high ? 0x10000 + ((high - 0xd800) << 10) + (unit - 0xdc00)
					     : 0xfffd);
	else
		append_code_point(text, unit);
}

static int append_sequential(struct text *text, const struct limpet_v8_object *string,
			     uint32_t from, uint32_t count)
{
	const bool one_byte = string->type & ONE_BYTE;
	const uint64_t width = one_byte ? 1 : 2;
	uint64_t at = string->address + (uint64_t)text->v8->layout->string_chars + from * width;
	uint16_t wide[CHARACTERS];
	uint8_t narrow[CHARACTERS];

	while (count && text->left) {
		const uint32_t part = count < CHARACTERS ? count : CHARACTERS;
		int error = limpet_memory_reader_read(
			text->v8->memory, at, one_byte ? (void *)narrow : wide, part * width);

		if (error)
			return error;
		for (uint32_t i = 0; i < part && text->left; i++)
			append_unit(text, one_byte ? narrow[i] : wide[i]);
		at += part * width;
		count -= part;
	}
	return 0;
}

static int append_string(struct text *text, uint64_t word, uint32_t from, uint32_t count);

static int append_part(struct text *text, const struct limpet_v8_object *string, int32_t offset,
		       uint32_t from, uint32_t count)
{
	uint64_t word;

	if (!limpet_v8_field(text->v8, string, offset, &word))
		return -ENODATA;
	return append_string(text, word, from, count);
}

static int read_length(const struct limpet_v8 *v8, const struct limpet_v8_object *string,
		       uint32_t *ret)
{
	int error = limpet_memory_reader_read(v8->memory,
					      string->address + (uint64_t)v8->layout->string_length,
					      ret, sizeof(*ret));

	return error ? error : *ret > STRING_LIMIT ? -EBADMSG : 0;
}

/* Of a pair, the characters that are in its first part, and the rest. */
static int append_pair(struct text *text, const struct limpet_v8_object *string, uint32_t from,
		       uint32_t count)
{
	const struct limpet_v8_layout *layout = text->v8->layout;
	struct limpet_v8_object first;
	uint32_t length, taken = 0;
	int error = limpet_v8_reference(text->v8, string, layout->cons_first, &first);

	if (!error)
		error = read_length(text->v8, &first, &length);
	if (error)
		return error;
	if (from < length) {
		taken = count < length - from ? count : length - from;
		error = append_part(text, string, layout->cons_first, from, taken);
	}
	if (error || taken == count || !text->left)
		return error;
	return append_part(text, string, layout->cons_second, from + taken - length, count - taken);
}

static int append_slice(struct text *text, const struct limpet_v8_object *string, uint32_t from,
			uint32_t count)
{
	const struct limpet_v8_layout *layout = text->v8->layout;
	uint64_t offset;

	if (!limpet_v8_field(text->v8, string, layout->sliced_offset, &offset))
		return -ENODATA;
	if (!limpet_v8_is_smi(offset) || offset >> 32 > STRING_LIMIT)
		return -EBADMSG;
	return append_part(text, string, layout->sliced_parent, from + (uint32_t)(offset >> 32),
			   count);
}

/* `count` characters of a string, from one on. Each object of a string, also if it leads back to
 * itself, counts against the limit. */
static int append_string(struct text *text, uint64_t word, uint32_t from, uint32_t count)
{
	struct limpet_v8_object string;
	uint32_t length;
	int error;

	if (!text->parts_left)
		return -EBADMSG;
	text->parts_left--;
	error = limpet_v8_object(text->v8, word, &string);
	if (error)
		return error;
	if (!limpet_v8_is_string(text->v8, string.type))
		return -EBADMSG;
	error = read_length(text->v8, &string, &length);
	if (error)
		return error;
	if (from > length)
		return -EBADMSG;
	if (count > length - from)
		count = length - from;
	switch (string.type & REPRESENTATION_MASK) {
	case SEQUENTIAL:
		return append_sequential(text, &string, from, count);
	case CONS:
		return append_pair(text, &string, from, count);
	case SLICED:
		return append_slice(text, &string, from, count);
	case THIN:
		return append_part(text, &string, text->v8->layout->thin_actual, from, count);
	case EXTERNAL:
	default:
		return -EBADMSG;
	}
}

int limpet_v8_text(const struct limpet_v8 *v8, uint64_t word, char *ret, size_t room)
{
	struct text text = {.v8 = v8, .at = ret, .left = room - 1, .parts_left = STRING_PARTS};
	int error = append_string(&text, word, 0, STRING_LIMIT);

	*text.at = '\0';
	if (error)
		*ret = '\0';
	return error;
}

/* ------------------------------------------------------------------ functions */

/* Word `index` after the map. */
static bool read_slot(const struct limpet_v8 *v8, const struct limpet_v8_object *object,
		      int64_t index, uint64_t *ret)
{
	return limpet_memory_reader_read_word(v8->memory, object->address + 8 + (uint64_t)index * 8,
					      ret);
}

static int read_positions(const struct limpet_v8 *v8, const struct limpet_v8_object *scope,
			  int64_t at, struct limpet_v8_function *function)
{
	uint64_t start, end;

	if (!read_slot(v8, scope, at, &start) || !read_slot(v8, scope, at + 1, &end))
		return -ENODATA;
	if (!limpet_v8_is_smi(start) || !limpet_v8_is_smi(end) || limpet_v8_smi(start) < 0 ||
	    limpet_v8_smi(end) < limpet_v8_smi(start))
		return 0;
	function->start = limpet_v8_smi(start);
	function->end = limpet_v8_smi(end);
	return 0;
}

/* Why a word is no string: -EAGAIN if it may be one that is on its way elsewhere, else 0. */
static int judge_text(const struct limpet_v8 *v8, uint64_t word)
{
	struct limpet_v8_object object = {0};

	if (!limpet_v8_address(word))
		return 0;
	if (limpet_v8_object(v8, word, &object) != 0)
		return -EAGAIN;
	return limpet_v8_is_string(v8, object.type) &&
			       (object.type & REPRESENTATION_MASK) != EXTERNAL
		       ? -EAGAIN
		       : 0;
}

/* The name is "" if the word is not a string: an anonymous function has a zero there. */
static int read_name(const struct limpet_v8 *v8, uint64_t word, struct limpet_v8_function *function)
{
	int error;

	if (function->name[0] || limpet_v8_is_smi(word))
		return 0;
	error = limpet_v8_text(v8, word, function->name, sizeof(function->name));
	return error == -EBADMSG ? judge_text(v8, word) : error;
}

uint32_t limpet_v8_scope_flags(uint64_t word)
{
	return (uint32_t)(limpet_v8_is_smi(word) ? word >> 32 : word);
}

static uint64_t words_of_locals(uint64_t locals)
{
	return (locals < INLINED_LOCALS ? locals : 1) + locals;
}

/* Functions, scripts, modules, classes and what is evaluated have positions; blocks do not. */
static bool has_positions(const struct limpet_v8_layout *layout, uint32_t flags)
{
	return layout->scope_first_vars < 5 && SCOPE_TYPE(flags) <= LAST_WITH_POSITIONS &&
	       !SCOPE_EMPTY(flags);
}

uint64_t limpet_v8_scope_words(const struct limpet_v8_layout *layout, uint32_t flags,
			       uint64_t locals)
{
	return (SCOPE_TYPE(flags) == layout->module_scope) + words_of_locals(locals) +
	       SCOPE_SAVED_CLASS_VARIABLE(flags) + (SCOPE_FUNCTION_VARIABLE(flags) ? 2 : 0) +
	       SCOPE_INFERRED_NAME(flags) + (has_positions(layout, flags) ? 2 : 0) +
	       SCOPE_OUTER(flags) + SCOPE_LAST(layout, flags);
}

/* Its parts follow each other, and are there or not as the flags and the number of locals say: [the
 * number of a module's variables], locals' names, locals' properties, [the variable of a class],
 * [name and slot of the function], [the name that was made up], start and end. Since V8 13 the last
 * two are before the others. */
static int read_scope(const struct limpet_v8 *v8, const struct limpet_v8_object *scope,
		      struct limpet_v8_function *function)
{
	const struct limpet_v8_layout *layout = v8->layout;
	const bool has_fixed_positions = layout->scope_first_vars >= 5;
	int64_t at = layout->scope_first_vars, locals;
	uint64_t word, count;
	uint32_t flags;
	int error = 0;

	if (layout->scope_first_vars < 3 || layout->scope_first_vars > 8 ||
	    !read_slot(v8, scope, 0, &word) ||
	    !read_slot(v8, scope, layout->scope_local_count, &count))
		return -ENODATA;
	flags = limpet_v8_scope_flags(word);
	locals = limpet_v8_smi(count);
	if (!limpet_v8_is_smi(count) || locals < 0 || locals > LOCALS_LIMIT)
		return -EBADMSG;
	if (has_fixed_positions)
		error = read_positions(v8, scope, layout->scope_first_vars - 2, function);
	at += SCOPE_TYPE(flags) == layout->module_scope;
	at += (int64_t)words_of_locals((uint64_t)locals);
	at += SCOPE_SAVED_CLASS_VARIABLE(flags);
	if (SCOPE_FUNCTION_VARIABLE(flags) && !error) {
		if (!read_slot(v8, scope, at, &word))
			return -ENODATA;
		error = read_name(v8, word, function);
		at += 2;
	}
	if (SCOPE_INFERRED_NAME(flags) && !error) {
		if (!read_slot(v8, scope, at, &word))
			return -ENODATA;
		error = read_name(v8, word, function);
		at++;
	}
	if (!error && !has_fixed_positions)
		error = read_positions(v8, scope, at, function);
	return error;
}

static bool is_uncompiled(const struct limpet_v8_layout *layout, uint16_t type)
{
	return type == layout->type_uncompiled || type == layout->type_uncompiled_preparse ||
	       type == layout->type_uncompiled_job || type == layout->type_uncompiled_preparse_job;
}

/* A function that has not run yet, or whose code was dropped, keeps this in place of its scope. */
static int read_uncompiled(const struct limpet_v8 *v8, const struct limpet_v8_object *shared,
			   struct limpet_v8_function *function)
{
	const struct limpet_v8_layout *layout = v8->layout;
	struct limpet_v8_object data;
	int32_t positions[2];
	uint64_t word;
	int error = limpet_v8_reference(v8, shared, layout->shared_data, &data);

	/* Builtins have a number there. */
	if (error == -EBADMSG || (!error && !is_uncompiled(layout, data.type)))
		return 0;
	if (!error && !limpet_v8_field(v8, &data, layout->uncompiled_name, &word))
		error = -ENODATA;
	if (!error)
		error = read_name(v8, word, function);
	if (!error)
		error = limpet_memory_reader_read(v8->memory,
						  data.address + (uint64_t)layout->uncompiled_start,
						  positions, sizeof(positions));
	if (error || positions[0] < 0 || positions[1] < positions[0])
		return error;
	function->start = positions[0];
	function->end = positions[1];
	return 0;
}

static int read_script(const struct limpet_v8 *v8, const struct limpet_v8_object *shared,
		       struct limpet_v8_function *function)
{
	struct limpet_v8_object script;
	uint64_t word;
	int error = 0;

	if (!limpet_v8_field(v8, shared, v8->layout->shared_script, &word))
		return -ENODATA;
	if (!limpet_v8_address(word))
		return 0;
	error = limpet_v8_object(v8, word, &script);
	if (error == -EBADMSG)
		return -EAGAIN;
	if (!error && script.type != v8->layout->type_script)
		return 0;
	if (!error && !limpet_v8_field(v8, &script, v8->layout->script_name, &word))
		error = -ENODATA;
	if (error)
		return error;
	function->script_address = script.address;
	error = limpet_v8_text(v8, word, function->script, sizeof(function->script));
	return error == -EBADMSG ? judge_text(v8, word) : error;
}

static int read_function(const struct limpet_v8 *v8, uint64_t word,
			 struct limpet_v8_function *function)
{
	const struct limpet_v8_layout *layout = v8->layout;
	struct limpet_v8_object shared, scope;
	int error = limpet_v8_object(v8, word, &shared);

	memset(function, 0, sizeof(*function));
	function->start = function->end = -1;
	if (error)
		return error;
	if (shared.type != layout->type_shared ||
	    !limpet_v8_field(v8, &shared, layout->shared_name_or_scope, &word))
		return -EBADMSG;
	error = limpet_v8_object(v8, word, &scope);
	if (!error && scope.type == layout->type_scope)
		error = read_scope(v8, &scope, function);
	else if (!error)
		error = read_name(v8, word, function);
	if (error == -EBADMSG && limpet_v8_address(word))
		return -EAGAIN;
	if (error && error != -EBADMSG)
		return error;
	if (function->start < 0) {
		error = read_uncompiled(v8, &shared, function);
		if (error)
			return error;
	}
	return read_script(v8, &shared, function);
}

int limpet_v8_function_info(const struct limpet_v8 *v8, uint64_t word,
			    struct limpet_v8_function *ret)
{
	struct limpet_v8_function once, again;
	int error = read_function(v8, word, &once);

	limpet_v8_refresh(v8);
	if (!error)
		error = read_function(v8, word, &again);
	if (error)
		return error;
	if (memcmp(&once, &again, sizeof(once)) != 0)
		return -EAGAIN;
	*ret = once;
	return 0;
}
