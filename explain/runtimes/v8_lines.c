#include "explain/runtimes/v8_lines.h"

#include <stdlib.h>

#include "common/array.h"

/* src/objects/instance-type.h: how the characters of a string are kept. */
#define REPRESENTATION_MASK 7u
#define ONE_BYTE 8u
#define UNCACHED 16u
enum { SEQUENTIAL = 0, CONS = 1, EXTERNAL = 2, SLICED = 3, THIN = 5 };
#define EXTERNAL_DATA 24u
#define STRING_STEPS 8u
#define CHARACTERS 4096u

void limpet_v8_lines_done(struct limpet_v8_lines *lines)
{
	free(lines->ends);
	*lines = (struct limpet_v8_lines){0};
}

static int add_line(struct limpet_v8_lines *lines, int32_t end)
{
	int error;

	if (lines->count == LIMPET_V8_LINES_MAX)
		return -EFBIG;
	error = limpet_reserve(&lines->ends, &lines->capacity, lines->count + 1,
			       sizeof(*lines->ends));
	if (!error)
		lines->ends[lines->count++] = end;
	return error;
}

/* A string's characters, wherever they are. */
struct characters {
	uint64_t at;
	uint32_t length;
	unsigned width;
};

/* Of a string that V8 compiles: flat. */
static int find_characters(const struct limpet_v8 *v8, struct limpet_v8_object string,
			   struct characters *ret)
{
	const struct limpet_v8_layout *layout = v8->layout;

	for (unsigned i = 0; i < STRING_STEPS; i++) {
		const unsigned kind = string.type & REPRESENTATION_MASK;
		int error;

		if (!limpet_v8_is_string(v8, string.type))
			return -EBADMSG;
		if (kind == SEQUENTIAL || kind == EXTERNAL) {
			ret->width = string.type & ONE_BYTE ? 1 : 2;
			ret->at = string.address + (uint64_t)layout->string_chars;
			if (kind == EXTERNAL &&
			    (string.type & UNCACHED ||
			     !limpet_memory_reader_read_word(
				     v8->memory, string.address + EXTERNAL_DATA, &ret->at)))
				return -EBADMSG;
			return limpet_memory_reader_read(
				v8->memory, string.address + (uint64_t)layout->string_length,
				&ret->length, sizeof(ret->length));
		}
		if (kind != CONS && kind != THIN)
			return -EBADMSG;
		error = limpet_v8_reference(v8, &string,
					    kind == CONS ? layout->cons_first : layout->thin_actual,
					    &string);
		if (error)
			return error;
	}
	return -EBADMSG;
}

static bool ends_line(unsigned unit, unsigned next)
{
	const unsigned line_separator = 0x2028, paragraph_separator = 0x2029;

	return unit == '\n' || (unit == '\r' && next != '\n') || unit == line_separator ||
	       unit == paragraph_separator;
}

/* The last one's successor is not known: it may be the other half of a line's end. */
static int find_ends(const struct limpet_v8 *v8, const struct characters *text,
		     struct limpet_v8_lines *lines)
{
	LIMPET_FREE uint16_t *units = malloc((CHARACTERS + 1) * sizeof(*units));
	int error = units ? 0 : -ENOMEM;

	for (uint32_t from = 0; from < text->length && !error;) {
		const uint32_t left = text->length - from;
		const uint32_t count = left < CHARACTERS ? left : CHARACTERS;
		const uint32_t more = left > count;
		const uint8_t *narrow = (const uint8_t *)units;

		error = limpet_memory_reader_read(v8->memory,
						  text->at + (uint64_t)from * text->width, units,
						  (size_t)(count + more) * text->width);
		if (!more && text->width == 1)
			((uint8_t *)units)[count] = 0;
		else if (!more)
			units[count] = 0;
		for (uint32_t i = 0; i < count && !error; i++) {
			const unsigned unit = text->width == 1 ? narrow[i] : units[i];
			const unsigned next = text->width == 1 ? narrow[i + 1] : units[i + 1];

			if (ends_line(unit, next))
				error = add_line(lines, (int32_t)(from + i));
		}
		from += count;
	}
	return error ? error : add_line(lines, (int32_t)text->length);
}

int limpet_v8_lines_read(const struct limpet_v8 *v8, uint64_t script, struct limpet_v8_lines *ret)
{
	struct limpet_v8_object object, source;
	struct limpet_v8_lines lines = {0};
	struct characters text;
	int error = limpet_v8_object(v8, script | 1, &object);

	if (!error && object.type != v8->layout->type_script)
		error = -EBADMSG;
	if (!error)
		error = limpet_v8_reference(v8, &object, v8->layout->script_source, &source);
	if (!error)
		error = find_characters(v8, source, &text);
	if (error)
		return error;
	if (text.length > LIMPET_V8_SOURCE_MAX)
		return -EFBIG;
	error = find_ends(v8, &text, &lines);
	if (error)
		limpet_v8_lines_done(&lines);
	else
		*ret = lines;
	return error;
}

uint32_t limpet_v8_line_of(const struct limpet_v8_lines *lines, int32_t position)
{
	/* cppcheck-suppress constStatement */
	const size_t at = LIMPET_PARTITION_POINT(i, lines->count, lines->ends[i] < position);

	return position < 0 || at == lines->count ? 0 : (uint32_t)at + 1;
}

uint32_t limpet_v8_column_of(const struct limpet_v8_lines *lines, int32_t position)
{
	const uint32_t line = limpet_v8_line_of(lines, position);
	const int32_t begins = line > 1 ? lines->ends[line - 2] + 1 : 0;

	return line ? (uint32_t)(position - begins) + 1 : 0;
}
