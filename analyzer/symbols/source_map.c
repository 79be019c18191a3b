#include "analyzer/symbols/source_map.h"

#include <errno.h>
#include <jansson.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Of index maps within index maps, which are not allowed. */
#define DEPTH_MAX 4

static int digit_of(char c)
{
	static const char digits[] =
		"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
	const char *at = c ? strchr(digits, c) : NULL;

	return at ? (int)(at - digits) : -1;
}

/* ------------------------------------------------------------------ look-up */

struct lookup {
	const uint64_t *places;
	size_t count, next; /* the first that is not decided yet */
	struct limpet_source_place *found;
};

/* Of one map: fields of the segment before. */
struct segment {
	uint64_t at; /* LIMPET_SCRIPT_PLACE */
	int64_t source, line;
	bool mapped;
};

static char *source_path(const json_t *map, int64_t number)
{
	const char *root = json_string_value(json_object_get(map, "sourceRoot"));
	const json_t *sources = json_object_get(map, "sources");
	const char *source =
		number >= 0 ? json_string_value(json_array_get(sources, (size_t)number)) : NULL;
	const size_t length = root ? strlen(root) : 0;
	char *path;

	if (!source)
		return NULL;
	return asprintf(&path, "%s%s%s", length ? root : "",
			length && root[length - 1] != '/' ? "/" : "", source) < 0
		       ? NULL
		       : path;
}

/* Decides the places before `end`: they are in the segment, if it is on their line. */
static int decide(struct lookup *lookup, const json_t *map, const struct segment *segment,
		  uint64_t end)
{
	for (; lookup->next < lookup->count && lookup->places[lookup->next] < end; lookup->next++) {
		const uint64_t place = lookup->places[lookup->next];
		struct limpet_source_place *found = &lookup->found[lookup->next];

		if (!segment->mapped || place < segment->at || place >> 32 != segment->at >> 32 ||
		    segment->line < 0 || segment->line >= UINT32_MAX || found->file)
			continue;
		found->file = source_path(map, segment->source);
		found->line = (uint32_t)segment->line + 1;
	}
	return 0;
}

/* One number of a segment; false: there is none. */
static bool parse_number(const char **at, int64_t *ret)
{
	uint64_t value = 0;
	unsigned shift = 0;
	int digit;

	do {
		digit = digit_of(**at);
		if (digit < 0 || shift > 55)
			return false;
		value |= (uint64_t)(digit & 31) << shift;
		shift += 5;
		++*at;
	} while (digit & 32);
	*ret = value & 1 ? -(int64_t)(value >> 1) : (int64_t)(value >> 1);
	return true;
}

static bool is_column(int64_t column)
{
	return column >= 0 && column < UINT32_MAX;
}

/* A sum of hostile numbers. */
static bool add(int64_t *to, int64_t more)
{
	return !__builtin_add_overflow(*to, more, to);
}

/* One segment: its column, and if it is mapped source, line, column, perhaps a name. */
static bool parse_segment(const char **at, int64_t *column, int64_t state[3], bool *ret_mapped)
{
	int64_t number;

	if (!parse_number(at, &number) || !add(column, number))
		return false;
	*ret_mapped = digit_of(**at) >= 0;
	for (unsigned i = 0; *ret_mapped && i < 3; i++)
		if (!parse_number(at, &number) || !add(&state[i], number))
			return false;
	return digit_of(**at) < 0 || parse_number(at, &number);
}

static int look_up_mappings(struct lookup *lookup, const json_t *map, const char *at, uint32_t line,
			    int64_t first_column, uint64_t end)
{
	struct segment segment = {.mapped = false};
	int64_t column = 0, state[3] = {0};
	const uint32_t first_line = line;

	while (*at && lookup->next < lookup->count) {
		bool mapped;

		if (*at == ';' || *at == ',') {
			column = *at == ';' ? 0 : column;
			line += *at++ == ';';
			if (line == UINT32_MAX)
				return -EBADMSG;
			continue;
		}
		if (!parse_segment(&at, &column, state, &mapped))
			return -EBADMSG;
		const int64_t whole = column + (line == first_line ? first_column : 0);

		if (!is_column(column) || !is_column(whole))
			return -EBADMSG;
		const uint64_t place = LIMPET_SCRIPT_PLACE(line, (uint32_t)whole + 1);

		if (place >= end)
			break;
		decide(lookup, map, &segment, place);
		segment = (struct segment){place, state[0], state[1], mapped};
	}
	return decide(lookup, map, &segment, end);
}

static int look_up(struct lookup *lookup, const json_t *map, uint32_t line, int64_t column,
		   uint64_t end, unsigned depth);

/* Sections in their order; each ends where the next one begins. */
static int look_up_sections(struct lookup *lookup, const json_t *sections, unsigned depth)
{
	const size_t count = json_array_size(sections);
	int code = 0;

	for (size_t i = 0; i < count && code == 0; i++) {
		const json_t *section = json_array_get(sections, i);
		const json_t *offset = json_object_get(section, "offset");
		const json_t *next = json_object_get(json_array_get(sections, i + 1), "offset");
		const int64_t line = json_integer_value(json_object_get(offset, "line"));
		const int64_t column = json_integer_value(json_object_get(offset, "column"));
		const int64_t end_line = json_integer_value(json_object_get(next, "line"));
		const int64_t end_column = json_integer_value(json_object_get(next, "column"));

		if (!is_column(line) || !is_column(column) || !is_column(end_line) ||
		    !is_column(end_column))
			return -EBADMSG;
		code = look_up(lookup, json_object_get(section, "map"), (uint32_t)line + 1, column,
			       next ? LIMPET_SCRIPT_PLACE(end_line + 1, end_column + 1)
				    : UINT64_MAX,
			       depth + 1);
	}
	return code;
}

static int look_up(struct lookup *lookup, const json_t *map, uint32_t line, int64_t column,
		   uint64_t end, unsigned depth)
{
	const json_t *sections = json_object_get(map, "sections");
	const char *mappings = json_string_value(json_object_get(map, "mappings"));

	if (sections && depth < DEPTH_MAX)
		return look_up_sections(lookup, sections, depth);
	if (!mappings || json_integer_value(json_object_get(map, "version")) != 3)
		return -EBADMSG;
	return look_up_mappings(lookup, map, mappings, line, column, end);
}

int limpet_source_map_look_up(const char *json, size_t bytes, const uint64_t *places, size_t count,
			      struct limpet_source_place *ret_places)
{
	/* Servers put this before JSON, and maps are served with it. */
	const char *guard =
		bytes >= 3 && !memcmp(json, ")]}", 3) ? memchr(json, '\n', bytes) : NULL;
	const size_t skipped = guard ? (size_t)(guard - json) : 0;
	struct lookup lookup = {.places = places, .count = count, .found = ret_places};
	json_t *map = json_loadb(json + skipped, bytes - skipped, 0, NULL);
	int code;

	for (size_t i = 0; i < count; i++)
		ret_places[i] = (struct limpet_source_place){0};
	code = map ? look_up(&lookup, map, 1, 0, UINT64_MAX, 0) : -EBADMSG;
	json_decref(map);
	return code;
}

/* ------------------------------------------------------------------ where the map is */

static bool ends_url(char c)
{
	return c == '\n' || c == '\r' || c == ' ' || c == '\t' || c == '*' || c == '\'' || c == '"';
}

size_t limpet_source_map_url(const char *script, size_t bytes, const char **ret_url)
{
	static const char *const marks[] = {"//# sourceMappingURL=", "//@ sourceMappingURL="};
	const size_t length = strlen(marks[0]);

	for (size_t i = bytes; i-- > 0;) {
		size_t url = 0;

		if (script[i] != '/' || bytes - i <= length ||
		    (memcmp(script + i, marks[0], length) != 0 &&
		     memcmp(script + i, marks[1], length) != 0))
			continue;
		while (i + length + url < bytes && !ends_url(script[i + length + url]))
			url++;
		*ret_url = script + i + length;
		return url;
	}
	return 0;
}

static char *decode(const char *text, size_t count, size_t *ret_bytes)
{
	char *decoded = malloc(count / 4 * 3 + 3);
	uint32_t word = 0;
	unsigned bits = 0;
	size_t bytes = 0;

	for (size_t i = 0; decoded && i < count; i++) {
		const int digit = digit_of(text[i]);

		if (digit < 0)
			break; /* padding */
		word = word << 6 | (uint32_t)digit;
		bits += 6;
		if (bits < 8)
			continue;
		bits -= 8;
		decoded[bytes++] = (char)(word >> bits & 0xff);
	}
	*ret_bytes = bytes;
	return decoded;
}

char *limpet_source_map_inline(const char *url, size_t bytes, size_t *ret_bytes)
{
	static const char base64[] = ";base64,";
	const size_t length = sizeof(base64) - 1;
	const char *at =
		bytes > 5 && !memcmp(url, "data:", 5) ? memmem(url, bytes, base64, length) : NULL;

	return at ? decode(at + length, bytes - (size_t)(at + length - url), ret_bytes) : NULL;
}
