/* Lines, by their first letter; numbers are hexadecimal:
 *
 * - v VERSION FORMAT, X COMMAND, I PAGE_BYTES PAGES, A: it was attached
 * - s STRING (from format 3 on s LENGTH STRING): numbered from 1
 * - i ADDRESS MODULE [FUNCTION [FILE LINE]], and three more for each function it was inlined into
 * - t PLACE PARENT: a stack, numbered from 1; PLACE is an i
 * - a SIZE STACK: a kind of allocation, numbered from 0
 * - + and - and the number of an a; c MILLISECONDS; R RSS_PAGES
 * - S a suppression of leaks; # a comment */
#include "analyzer/import/heaptrack_file.h"

#include <string.h>

#include "analyzer/import/trace_maker.h"
#include "common/array.h"

#define FORMAT_NEWEST 3u
/* heaptrack 1.2 before its release: format 1, which its first line does not say. */
#define VERSION_OF_FORMAT_1 0x010200u
#define VERSION_LEAST 0x010000u
#define FRAMES_PER_PLACE_MAX 1024u
#define NS_PER_MS 1000000u
#define PAGE_BYTES 4096u

/* Frames of these functions are left out where a stack begins with them. */
static const char *const operators_new[] = {
	"operator new(unsigned long)",
	"operator new[](unsigned long)",
	"operator new(unsigned int)",
	"operator new[](unsigned int)",
};

struct file {
	struct limpet_trace_maker *maker;
	unsigned format; /* 0: not said yet */
	char *command;
	enum limpet_capture_mode mode;
	uint64_t page_bytes;
	uint32_t string_count;
	uint32_t operators[LIMPET_COUNT_OF(operators_new)]; /* strings; 0: not seen */
	bool *is_operator;                                  /* by place */
	size_t place_count, place_room;
	uint32_t *places; /* the maker's, by place; 0: its line made no sense */
	size_t made_room;
	uint32_t made_count;
	uint32_t *nodes; /* by stack */
	size_t node_count, node_room;
	uint32_t *kinds; /* the maker's, by number of an a; 0: its line made no sense */
	size_t kind_count, kind_room;
	uint32_t made_kinds;
	uint64_t last; /* the allocation before, which a free of its kind makes temporary */
	uint64_t time_ns;
};

/* ------------------------------------------------------------------ one line */

/* What follows the first letter. */
struct rest {
	const char *at, *end;
	bool failed;
};

static int digit(char c)
{
	return c >= '0' && c <= '9' ? c - '0' : c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

/* A number, and the space after it. */
static uint64_t read_number(struct rest *rest)
{
	const char *from = rest->at;
	uint64_t value = 0;

	while (rest->at < rest->end && digit(*rest->at) >= 0) {
		rest->failed |= value >> 60 != 0;
		value = value << 4 | (uint64_t)digit(*rest->at++);
	}
	rest->failed |= rest->at == from || (rest->at < rest->end && *rest->at != ' ');
	rest->at += rest->at < rest->end;
	return rest->failed ? 0 : value;
}

static uint32_t read_index(struct rest *rest)
{
	const uint64_t value = read_number(rest);

	rest->failed |= value > UINT32_MAX;
	return rest->failed ? 0 : (uint32_t)value;
}

static bool is_over(const struct rest *rest)
{
	return rest->failed || rest->at == rest->end;
}

/* What makes no sense is a line of its own; anything else ends the reading. */
static bool is_fatal(int code)
{
	return code < 0 && code != -EINVAL;
}

static int read_string(struct file *file, struct rest rest)
{
	const uint64_t bytes =
		file->format >= 3 ? read_number(&rest) : (uint64_t)(rest.end - rest.at);
	const bool bad = rest.failed || bytes != (uint64_t)(rest.end - rest.at);
	int code = limpet_trace_maker_string(file->maker, rest.at, (size_t)(rest.end - rest.at));

	if (code < 0)
		return code;
	file->string_count++;
	for (size_t i = 0; i < LIMPET_COUNT_OF(operators_new); i++)
		if (!file->operators[i] && bytes == strlen(operators_new[i]) &&
		    !memcmp(rest.at, operators_new[i], bytes))
			file->operators[i] = file->string_count;
	return bad ? -EINVAL : 0;
}

/* Function, file and line of each; the first may be a function alone. */
static size_t read_frames(struct rest *rest, struct limpet_maker_frame *frames)
{
	size_t count = 0;

	while (!is_over(rest) && count < FRAMES_PER_PLACE_MAX) {
		struct limpet_maker_frame *frame = &frames[count++];

		*frame = (struct limpet_maker_frame){.function = read_index(rest)};
		if (count == 1 && is_over(rest))
			break;
		frame->file = read_index(rest);
		frame->line = read_index(rest);
	}
	rest->failed |= rest->at < rest->end;
	return count;
}

static bool is_operator(const struct file *file, uint32_t function)
{
	for (size_t i = 0; i < LIMPET_COUNT_OF(file->operators); i++)
		if (function && file->operators[i] == function)
			return true;
	return false;
}

static int read_place(struct file *file, struct rest rest)
{
	struct limpet_maker_frame frames[FRAMES_PER_PLACE_MAX];
	struct limpet_maker_place place = {
		.address = read_number(&rest), .module = read_index(&rest), .frames = frames};
	int code;

	place.frame_count = read_frames(&rest, frames);
	if (limpet_reserve(&file->places, &file->made_room, file->place_count + 1,
			   sizeof(*file->places)) < 0 ||
	    limpet_reserve(&file->is_operator, &file->place_room, file->place_count + 1,
			   sizeof(*file->is_operator)) < 0)
		return -ENOMEM;
	code = rest.failed ? -EINVAL : limpet_trace_maker_place(file->maker, &place);
	if (is_fatal(code) || file->place_count == LIMPET_MAKER_PLACES_MAX)
		return is_fatal(code) ? code : -E2BIG;
	file->is_operator[file->place_count] =
		code == 0 && place.frame_count && is_operator(file, frames[0].function);
	file->places[file->place_count++] = code == 0 ? ++file->made_count : 0;
	return code;
}

/* Of a stack that was read before. */
static int find_node(const struct file *file, uint32_t stack, uint32_t *ret_node)
{
	if (stack > file->node_count)
		return -EINVAL;
	*ret_node = stack ? file->nodes[stack - 1] : 0;
	return 0;
}

static int read_stack(struct file *file, struct rest rest)
{
	const uint32_t place = read_index(&rest), parent = read_index(&rest);
	uint32_t node = 0;
	int code =
		rest.failed || place > file->place_count ? -EINVAL : find_node(file, parent, &node);

	if (file->node_count == LIMPET_TRACE_NODES_MAX)
		return -E2BIG;
	if (limpet_reserve(&file->nodes, &file->node_room, file->node_count + 1,
			   sizeof(*file->nodes)) < 0)
		return -ENOMEM;
	/* Without a place it is no frame, and what called it is not known. */
	if (code == 0 && !place)
		node = 0;
	else if (code == 0 && !file->is_operator[place - 1])
		code = limpet_trace_maker_node(file->maker, file->places[place - 1], node, &node);
	if (is_fatal(code))
		return code;
	file->nodes[file->node_count++] = code == 0 ? node : 0;
	return code;
}

static int read_kind(struct file *file, struct rest rest)
{
	const uint64_t bytes = read_number(&rest);
	const uint32_t stack = read_index(&rest);
	uint32_t node;
	int code = rest.failed ? -EINVAL : find_node(file, stack, &node);

	if (limpet_reserve(&file->kinds, &file->kind_room, file->kind_count + 1,
			   sizeof(*file->kinds)) < 0)
		return -ENOMEM;
	if (code == 0)
		code = limpet_trace_maker_kind(file->maker, node, bytes);
	if (is_fatal(code) || file->kind_count == LIMPET_MAKER_KINDS_MAX)
		return is_fatal(code) ? code : -E2BIG;
	file->kinds[file->kind_count++] = code == 0 ? ++file->made_kinds : 0;
	return code;
}

/* Of an event; 0: none is meant. */
static uint32_t find_kind(const struct file *file, const struct rest *rest, uint64_t number)
{
	return !rest->failed && rest->at == rest->end && number < file->kind_count
		       ? file->kinds[number]
		       : 0;
}

static int read_allocation(struct file *file, struct rest rest)
{
	const uint64_t number = read_number(&rest);
	int code = limpet_trace_maker_allocate(file->maker, find_kind(file, &rest, number));

	if (code == 0)
		file->last = number;
	return code;
}

/* A free is temporary, in heaptrack's sense, if no other event lies between it and an allocation of
 * the same kind, of whatever thread. Number 0 stands for none, too: heaptrack_print counts a free
 * of that kind as temporary after any other free. */
static int read_free(struct file *file, struct rest rest)
{
	const uint64_t number = read_number(&rest);
	int code = limpet_trace_maker_release(file->maker, find_kind(file, &rest, number),
					      number == file->last);

	if (code == 0)
		file->last = 0;
	return code;
}

static int read_time(struct file *file, struct rest rest)
{
	const uint64_t ms = read_number(&rest);
	int code = rest.failed || ms > INT64_MAX / NS_PER_MS - 1
			   ? -EINVAL
			   : limpet_trace_maker_time(file->maker, ms * NS_PER_MS);

	if (code == 0)
		file->time_ns = ms * NS_PER_MS;
	return code;
}

static int read_rss(struct file *file, struct rest rest)
{
	const uint64_t pages = read_number(&rest);

	if (rest.failed || pages > INT64_MAX / file->page_bytes)
		return -EINVAL;
	limpet_trace_maker_rss(file->maker, pages * file->page_bytes);
	return 0;
}

static int read_system(struct file *file, struct rest rest)
{
	const uint64_t bytes = read_number(&rest);

	if (rest.failed || bytes < PAGE_BYTES || bytes > 1u << 24 || bytes & (bytes - 1))
		return -EINVAL;
	file->page_bytes = bytes;
	return 0;
}

static int read_command(struct file *file, struct rest rest)
{
	if (file->command || rest.at == rest.end)
		return -EINVAL;
	file->command = strndup(rest.at, (size_t)(rest.end - rest.at));
	return file->command ? 0 : -ENOMEM;
}

/* All figures begin with it. */
static int read_attached(struct file *file)
{
	if (file->kind_count)
		return -EINVAL;
	file->mode = LIMPET_MODE_ATTACH;
	return 0;
}

static int read_line(struct file *file, char letter, struct rest rest)
{
	switch (letter) {
	case '+':
		return read_allocation(file, rest);
	case '-':
		return read_free(file, rest);
	case 'a':
		return read_kind(file, rest);
	case 't':
		return read_stack(file, rest);
	case 'i':
		return read_place(file, rest);
	case 's':
		return read_string(file, rest);
	case 'c':
		return read_time(file, rest);
	case 'R':
		return read_rss(file, rest);
	case 'I':
		return read_system(file, rest);
	case 'X':
		return read_command(file, rest);
	case 'A':
		return read_attached(file);
	case 'S':
	case '#':
		return 0;
	default:
		return -EINVAL;
	}
}

/* ------------------------------------------------------------------ the file */

bool limpet_heaptrack_begins(const char *text, size_t bytes)
{
	const char *end = memchr(text, '\n', bytes);
	struct rest rest = {.at = text + 2, .end = end};

	if (!end || end - text < 3 || memcmp(text, "v ", 2) != 0 ||
	    read_number(&rest) < VERSION_LEAST)
		return false;
	if (!is_over(&rest))
		read_number(&rest);
	return is_over(&rest) && !rest.failed;
}

/* The first line. */
static int read_version(struct file *file, struct rest rest, const char *path,
			struct limpet_err *err)
{
	const uint64_t version = read_number(&rest);

	if (!is_over(&rest))
		file->format = read_index(&rest);
	else if (version == VERSION_OF_FORMAT_1)
		file->format = 1;
	if (file->format && file->format <= FORMAT_NEWEST)
		return 0;
	limpet_err_set(err, -EPROTONOSUPPORT,
		       "'%s' is a file of heaptrack in format %u: limpet reads formats 1 to %u",
		       path, file->format, FORMAT_NEWEST);
	if (!file->format)
		limpet_err_hint(err, "it is of heaptrack before 1.0: heaptrack_print reads it");
	return -EPROTONOSUPPORT;
}

static int explain_failure(int code, const char *path, uint64_t line, struct limpet_err *err)
{
	if (code == -E2BIG)
		return limpet_err_set(err, code,
				      "'%s' has too many names or stacks to be read: at line %llu",
				      path, (unsigned long long)line);
	if (code == -EBADMSG)
		return limpet_err_set(err, code, "'%s' is damaged: no line of it can be read",
				      path);
	return limpet_err_set(err, code, "cannot read '%s': %s", path, strerror(-code));
}

/* All lines after the first. Returns an enum limpet_heaptrack_kind, or -errno. */
static int read_lines(struct file *file, struct limpet_text_lines *lines,
		      struct limpet_imported *imported)
{
	const char *line;
	bool too_long;
	size_t length;

	while ((line = limpet_text_lines_next(lines, &length, &too_long))) {
		const char letter = length ? line[0] : '#';
		const struct rest rest = {.at = line + (length > 2 ? 2 : length),
					  .end = line + length};
		int code;

		if ((letter == 'x' || letter == 'm') && !file->string_count)
			return LIMPET_HEAPTRACK_RAW;
		code = too_long || (length > 1 && line[1] != ' ') ? -EINVAL
								  : read_line(file, letter, rest);
		if (letter == '#' && !too_long)
			code = 0;
		if (is_fatal(code))
			return code;
		if (code < 0 && !imported->bad_lines++)
			imported->first_bad = lines->number;
	}
	imported->lines = lines->number;
	imported->cut = lines->cut || lines->failure < 0;
	return LIMPET_HEAPTRACK_INTERPRETED;
}

/* As heaptrack_print counts: the last millisecond is over. */
static int finish(struct file *file, struct limpet_imported *imported)
{
	const struct limpet_maker_head head = {.recorder = "heaptrack",
					       .command = file->command,
					       .mode = file->mode,
					       .page_bytes = file->page_bytes,
					       .end_ns = file->time_ns + NS_PER_MS,
					       .whole = !imported->cut};

	return limpet_trace_maker_finish(file->maker, &head, &imported->fd);
}

static void file_done(struct file *file)
{
	limpet_trace_maker_free(file->maker);
	free(file->command);
	free(file->is_operator);
	free(file->places);
	free(file->nodes);
	free(file->kinds);
}

int limpet_heaptrack_read(struct limpet_text_lines *lines, const char *path,
			  struct limpet_imported *ret, struct limpet_err *err)
{
	struct file file = {.mode = LIMPET_MODE_RUN, .page_bytes = PAGE_BYTES};
	struct limpet_imported imported = {.fd = -1};
	const char *line;
	bool too_long;
	size_t length;
	int kind = limpet_trace_maker_new(&file.maker);

	line = kind == 0 ? limpet_text_lines_next(lines, &length, &too_long) : NULL;
	if (line && length > 2)
		kind = read_version(&file, (struct rest){.at = line + 2, .end = line + length},
				    path, err);
	else if (kind == 0)
		kind = lines->failure < 0 ? lines->failure : -EBADMSG;
	if (kind == 0)
		kind = read_lines(&file, lines, &imported);
	if (kind == LIMPET_HEAPTRACK_INTERPRETED) {
		const int code = finish(&file, &imported);

		kind = code < 0 ? code : kind;
	}
	if (kind < 0 && !err->message[0])
		explain_failure(kind, path, lines->number, err);
	if (kind == LIMPET_HEAPTRACK_INTERPRETED)
		*ret = imported;
	file_done(&file);
	return kind;
}
