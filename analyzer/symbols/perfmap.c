#include "analyzer/symbols/perfmap.h"

#include <errno.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "common/err.h"
#include "common/file_io.h"

#define READ_BYTES (1u << 20)
/* Longer lines are cut. */
#define LINE_MAX_BYTES 4096u
/* The rest of a larger map is not read; a gigabyte is fifteen million functions. */
#define MAP_MAX_BYTES (1ull << 30)
/* Limit of assignments of a name to an address, so that a map whose lines each cover thousands of
 * addresses cannot delay limpet. */
#define NAMINGS_MAX (1ull << 26)

struct place {
	uint64_t offset; /* of the name in the file */
	uint32_t bytes;  /* 0: none */
};

struct entry {
	char *text;
	struct limpet_perfmap_name name;
};

struct limpet_perfmap {
	size_t count;
	struct place *locations;
	struct entry *entries;
};

void limpet_perfmap_free(struct limpet_perfmap *map)
{
	if (!map)
		return;
	for (size_t i = 0; map->entries && i < map->count; i++)
		free(map->entries[i].text);
	free(map->entries);
	free(map->locations);
	free(map);
}

struct limpet_perfmap_name limpet_perfmap_at(const struct limpet_perfmap *map, size_t index)
{
	return map->entries[index].name;
}

/* ------------------------------------------------------------------ lines */

/* Reads a hexadecimal number and the blanks after it; NULL: there is none. */
static const char *parse_number(const char *at, const char *end, uint64_t *ret)
{
	const char *start;
	uint64_t value = 0;

	if (end - at > 2 && at[0] == '0' && (at[1] == 'x' || at[1] == 'X'))
		at += 2;
	for (start = at; at < end; at++) {
		unsigned digit;

		if (*at >= '0' && *at <= '9')
			digit = (unsigned)(*at - '0');
		else if ((*at | 0x20) >= 'a' && (*at | 0x20) <= 'f')
			digit = (unsigned)((*at | 0x20) - 'a' + 10);
		else
			break;
		if (value >> 60)
			return NULL;
		value = value << 4 | digit;
	}
	if (at == start || at == end || *at != ' ')
		return NULL;
	while (at < end && *at == ' ')
		at++;
	*ret = value;
	return at;
}

struct search {
	struct limpet_perfmap *map;
	const uint64_t *addresses;
	uint64_t namings;
};

static void parse_line(struct search *search, const char *line, size_t bytes, uint64_t offset)
{
	const char *end = line + bytes, *name;
	size_t low = 0, high = search->map->count;
	uint64_t start, size;

	name = parse_number(line, end, &start);
	name = name ? parse_number(name, end, &size) : NULL;
	if (!name || name == end)
		return;
	while (low < high) {
		size_t middle = low + (high - low) / 2;

		if (search->addresses[middle] < start)
			low = middle + 1;
		else
			high = middle;
	}
	for (; low < search->map->count && search->addresses[low] - start < size; low++) {
		search->map->locations[low] =
			(struct place){offset + (uint64_t)(name - line), (uint32_t)(end - name)};
		if (++search->namings > NAMINGS_MAX)
			return;
	}
}

/* Takes the whole lines of the buffer; returns their length. An unfinished line of LINE_MAX_BYTES
 * or more is taken as far as it goes. */
static size_t parse_lines(struct search *search, const char *text, size_t bytes, uint64_t offset,
			  bool *in_long_line)
{
	size_t at = 0;

	while (at < bytes) {
		const char *newline = memchr(text + at, '\n', bytes - at);
		size_t length = newline ? (size_t)(newline - text) - at : bytes - at;

		if (!newline && bytes - at < LINE_MAX_BYTES)
			return at;
		if (!*in_long_line)
			parse_line(search, text + at,
				   length < LINE_MAX_BYTES ? length : LINE_MAX_BYTES, offset + at);
		*in_long_line = !newline;
		at += length + (newline != NULL);
	}
	return at;
}

static int read_lines(int fd, struct search *search, const volatile sig_atomic_t *cancel)
{
	LIMPET_FREE char *buffer = malloc(READ_BYTES);
	uint64_t offset = 0; /* of the buffer */
	size_t held = 0;
	bool in_long_line = false;

	if (!buffer)
		return -ENOMEM;
	while (offset < MAP_MAX_BYTES && search->namings <= NAMINGS_MAX) {
		ssize_t got = pread(fd, buffer + held, READ_BYTES - held, (off_t)(offset + held));
		size_t taken;

		if (got < 0 && errno != EINTR)
			return -errno;
		if (cancel && *cancel)
			return -EINTR;
		if (got < 0)
			continue;
		/* A last line without a newline is still being written. */
		if (got == 0)
			break;
		held += (size_t)got;
		taken = parse_lines(search, buffer, held, offset, &in_long_line);
		memmove(buffer, buffer + taken, held - taken);
		held -= taken;
		offset += taken;
	}
	return 0;
}

/* ------------------------------------------------------------------ names */

/* Finds the blank before the file: both sides may contain blanks ("get size"), but most file names
 * begin in one of a few ways. */
static char *find_place(char *name)
{
	static const char *const starts[] = {" /", " file:", " node:"};
	char *place = NULL;

	for (size_t i = 0; i < LIMPET_COUNT_OF(starts) && !place; i++)
		place = strstr(name, starts[i]);
	return place ? place : strrchr(name, ' ');
}

/* The colon before a number at the end of the text; NULL: there is none. */
static char *find_last_number(char *text)
{
	char *colon = strrchr(text, ':');

	return colon && colon[1] && !colon[1 + strspn(colon + 1, "0123456789")] ? colon : NULL;
}

/* "JS:*name /path:12:34", before node 20 "LazyCompile:~name /path:12" (V8's Logger); other kinds
 * have no file and line. */
static void split_name(struct entry *entry)
{
	static const char *const kinds[] = {"JS:", "LazyCompile:", "Function:", "Eval:", "Script:"};
	char *name = entry->text, *place, *line_colon, *column_colon;
	size_t kind = 0;
	unsigned long line;

	entry->name.function = entry->text;
	while (kind < LIMPET_COUNT_OF(kinds) && strncmp(name, kinds[kind], strlen(kinds[kind])))
		kind++;
	if (kind == LIMPET_COUNT_OF(kinds))
		return;
	name += strlen(kinds[kind]);
	name += strspn(name, "*~^+'");
	column_colon = find_last_number(name);
	if (!column_colon)
		return;
	*column_colon = '\0';
	line_colon = find_last_number(name);
	if (!line_colon) {
		*column_colon = ':';
		line_colon = column_colon;
	}
	line = strtoul(line_colon + 1, NULL, 10);
	if (line > UINT32_MAX) {
		*column_colon = ':';
		return;
	}
	*line_colon = '\0';
	place = find_place(name);
	if (!place) {
		entry->name.file = name;
		entry->name.function = "(anonymous)";
	} else {
		*place = '\0';
		entry->name.file = place + 1;
		entry->name.function = place == name ? "(anonymous)" : name;
	}
	entry->name.line = (uint32_t)line;
}

/* The program may have changed its file meanwhile: then the name is wrong or missing. */
static int read_name(int fd, const struct place *place, struct entry *entry)
{
	ssize_t got;

	if (!place->bytes)
		return 0;
	entry->text = malloc(place->bytes + 1ul);
	if (!entry->text)
		return -ENOMEM;
	got = limpet_pread(fd, entry->text, place->bytes, place->offset);
	entry->text[got > 0 ? got : 0] = '\0';
	entry->text[strcspn(entry->text, "\r\n")] = '\0';
	if (entry->text[0])
		split_name(entry);
	return 0;
}

int limpet_perfmap_read(int fd, const uint64_t *addresses, size_t count,
			const volatile sig_atomic_t *cancel, struct limpet_perfmap **ret)
{
	struct limpet_perfmap *map = calloc(1, sizeof(*map));
	struct search search = {.map = map, .addresses = addresses};
	int code = -ENOMEM;

	if (!map)
		return -ENOMEM;
	map->count = count;
	map->locations = calloc(count + 1, sizeof(*map->locations));
	map->entries = calloc(count + 1, sizeof(*map->entries));
	if (map->locations && map->entries)
		code = read_lines(fd, &search, cancel);
	for (size_t i = 0; i < count && code == 0; i++)
		code = read_name(fd, &map->locations[i], &map->entries[i]);
	if (code < 0) {
		limpet_perfmap_free(map);
		return code;
	}
	*ret = map;
	return 0;
}
