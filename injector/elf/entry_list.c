#include "injector/elf/entry_list.h"

#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "common/family.h"

#define MAX_FILE_BYTES 65536u
#define LINE_BYTES 320u
#define MAX_ARGUMENTS 6u

static const char hint[] =
	"a line is a name and malloc(size), calloc(n, size), realloc(p, size), "
	"reallocarray(p, n, size), memalign(alignment, size), "
	"posix_memalign(out, alignment, size) or free(p); _ for other arguments in front";

/* What each signature uses, in this order. */
static const struct signature {
	const char *word;
	enum limpet_op op;
	const char *arguments[3];
} signatures[] = {
	{"malloc", LIMPET_OP_MALLOC, {"size"}},
	{"calloc", LIMPET_OP_CALLOC, {"n", "size"}},
	{"realloc", LIMPET_OP_REALLOC, {"p", "size"}},
	{"reallocarray", LIMPET_OP_REALLOCARRAY, {"p", "n", "size"}},
	{"free", LIMPET_OP_FREE, {"p"}},
	{"free_sized", LIMPET_OP_FREE, {"p", "size"}},
	{"memalign", LIMPET_OP_MEMALIGN, {"alignment", "size"}},
	{"posix_memalign", LIMPET_OP_POSIX_MEMALIGN, {"out", "alignment", "size"}},
};

struct parser {
	const char *source;
	unsigned line;
	char owner[LIMPET_ENTRY_LIST_OWNER_BYTES];
	struct limpet_entry_list *list;
	struct limpet_err *err;
};

__attribute__((format(printf, 2, 3))) static int wrong(struct parser *parser, const char *format,
						       ...)
{
	char words[240];
	va_list args;

	va_start(args, format);
	vsnprintf(words, sizeof(words), format, args);
	va_end(args);
	limpet_err_set(parser->err, -EINVAL, "%s:%u: %s", parser->source, parser->line, words);
	limpet_err_hint(parser->err, "%s", hint);
	return -EINVAL;
}

/* Accepts a name that a linker can know; messages show it, so it must be printable. */
static bool is_name(const char *text)
{
	for (; *text; text++)
		if (*text <= ' ' || *text > '~')
			return false;
	return true;
}

/* Parses the arguments: ignored ones, those of the signature, and any that follow. */
static int parse_arguments(struct parser *parser, const struct signature *signature, char *text,
			   unsigned *ret_skip)
{
	unsigned number = 0, skip = 0, taken = 0;
	char *save;

	for (char *word = strtok_r(text, ", \t", &save); word;
	     word = strtok_r(NULL, ", \t", &save)) {
		if (++number > MAX_ARGUMENTS)
			return wrong(parser, "more than %u arguments", MAX_ARGUMENTS);
		if (taken == LIMPET_COUNT_OF(signature->arguments) || !signature->arguments[taken])
			continue;
		if (!strcmp(word, signature->arguments[taken]))
			taken++;
		else if (!strcmp(word, "_") && !taken)
			skip++;
		else
			return wrong(parser, "'%.40s' instead of '%s' in %s(...)", word,
				     signature->arguments[taken], signature->word);
	}
	if (taken < LIMPET_COUNT_OF(signature->arguments) && signature->arguments[taken])
		return wrong(parser, "%s(...) lacks '%s'", signature->word,
			     signature->arguments[taken]);
	if (skip > LIMPET_HOOK_SKIP_MAX)
		return wrong(parser, "more than %u arguments in front", LIMPET_HOOK_SKIP_MAX);
	*ret_skip = skip;
	return 0;
}

static int add(struct parser *parser, const char *name, char *rest)
{
	struct limpet_entry_list *list = parser->list;
	struct limpet_entry_listed *listed = &list->list[list->count];
	char *open = strchr(rest, '('), *end = open ? strchr(open, ')') : NULL;
	const struct signature *signature = NULL;
	unsigned skip = 0;
	int error;

	if (!open || !end || end[1 + strspn(end + 1, " \t")])
		return wrong(parser, "'%.60s' is not a signature", rest);
	*open = *end = '\0';
	rest[strcspn(rest, " \t")] = '\0';
	for (size_t i = 0; i < LIMPET_COUNT_OF(signatures) && !signature; i++)
		if (!strcmp(rest, signatures[i].word))
			signature = &signatures[i];
	if (!signature)
		return wrong(parser, "unknown signature '%.40s'", rest);
	if (strlen(name) >= sizeof(listed->name))
		return wrong(parser, "a name of more than %zu bytes", sizeof(listed->name) - 1);
	if (limpet_entry_list_find(list, name) >= 0)
		return wrong(parser, "'%.60s' comes twice", name);
	if (list->count == LIMPET_ENTRY_LIST_MAX)
		return wrong(parser, "more than %u functions", LIMPET_ENTRY_LIST_MAX);
	error = parse_arguments(parser, signature, open + 1, &skip);
	if (error)
		return error;
	snprintf(listed->name, sizeof(listed->name), "%s", name);
	snprintf(listed->owner, sizeof(listed->owner), "%s", parser->owner);
	listed->what = (struct limpet_entry_name){
		.family = LIMPET_ENTRY_LISTED,
		.op = signature->op,
		.hook_flags = LIMPET_HOOK_SKIP_FLAG(skip) | LIMPET_HOOK_STACK,
		.symbol = limpet_family_first(signature->op),
	};
	list->count++;
	return 0;
}

static int parse_line(struct parser *parser, const char *text, size_t bytes)
{
	char line[LINE_BYTES], *name, *rest;
	const char *comment = memchr(text, '#', bytes);

	if (comment)
		bytes = (size_t)(comment - text);
	if (bytes >= sizeof(line))
		return wrong(parser, "a line of more than %zu bytes", sizeof(line) - 1);
	if (memchr(text, '\0', bytes))
		return wrong(parser, "a NUL byte: this is not a text file");
	memcpy(line, text, bytes);
	line[bytes] = '\0';
	line[strcspn(line, "\r")] = '\0';
	name = line + strspn(line, " \t");
	if (!*name)
		return 0;
	rest = name + strcspn(name, " \t");
	if (*rest)
		*rest++ = '\0';
	rest += strspn(rest, " \t");
	for (size_t end = strlen(rest); end && strchr(" \t", rest[end - 1]); end--)
		rest[end - 1] = '\0';
	for (const char *at = rest; *at; at++)
		if ((*at < ' ' && *at != '\t') || *at > '~')
			return wrong(parser, "a byte that is no letter");
	if (!is_name(name))
		return wrong(parser, "a name with a byte that is no letter");
	if (!*rest)
		return wrong(parser, "'%.60s' has no signature", name);
	if (strcmp(name, "allocator") != 0)
		return add(parser, name, rest);
	if (strlen(rest) >= sizeof(parser->owner))
		return wrong(parser, "a name of more than %zu bytes", sizeof(parser->owner) - 1);
	snprintf(parser->owner, sizeof(parser->owner), "%s", rest);
	return 0;
}

static int check_halves(struct parser *parser)
{
	const struct limpet_entry_list *list = parser->list;

	for (size_t i = 0; i < list->count; i++) {
		bool makes = false, releases = false;

		for (size_t k = 0; k < list->count; k++) {
			enum limpet_op op = list->list[k].what.op;

			if (strcmp(list->list[k].owner, list->list[i].owner) != 0)
				continue;
			makes |= op != LIMPET_OP_FREE;
			releases |= limpet_op_releases(op);
		}
		if (!makes || !releases)
			return wrong(parser, "no function of %s %s blocks", list->list[i].owner,
				     makes ? "releases" : "makes");
	}
	if (!list->count)
		return wrong(parser, "it names no function");
	return 0;
}

int limpet_entry_list_parse(const char *text, size_t bytes, const char *source,
			    struct limpet_entry_list *ret, struct limpet_err *err)
{
	LIMPET_FREE struct limpet_entry_list *list = calloc(1, sizeof(*list));
	struct parser parser = {
		.source = source, .owner = "functions that were named", .list = list, .err = err};
	int error = 0;

	if (!list)
		return limpet_err_set(err, -ENOMEM, "out of memory");
	while (bytes && !error) {
		const char *end = memchr(text, '\n', bytes);
		size_t length = end ? (size_t)(end - text) : bytes;

		parser.line++;
		error = parse_line(&parser, text, length);
		length += end != NULL;
		text += length;
		bytes -= length;
	}
	if (!error)
		error = check_halves(&parser);
	if (!error)
		*ret = *list;
	return error;
}

int limpet_entry_list_read(const char *path, struct limpet_entry_list *ret, struct limpet_err *err)
{
	LIMPET_FREE char *text = malloc(MAX_FILE_BYTES);
	LIMPET_CLOSE int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOCTTY | O_NONBLOCK);
	size_t used = 0;
	ssize_t got = 0;

	if (!text)
		return limpet_err_set(err, -ENOMEM, "out of memory");
	if (fd < 0)
		got = -1;
	while (got >= 0 && used < MAX_FILE_BYTES) {
		got = read(fd, text + used, MAX_FILE_BYTES - used);
		if (got <= 0)
			break;
		used += (size_t)got;
	}
	if (got < 0) {
		int error = limpet_errno();

		limpet_err_set(err, error, "cannot read '%s': %s", path, strerror(-error));
		limpet_err_hint(err, "%s", hint);
		return error;
	}
	if (used == MAX_FILE_BYTES) {
		limpet_err_set(err, -EINVAL, "'%s' is larger than %u bytes", path, MAX_FILE_BYTES);
		limpet_err_hint(err, "%s", hint);
		return -EINVAL;
	}
	return limpet_entry_list_parse(text, used, path, ret, err);
}

int limpet_entry_list_find(const struct limpet_entry_list *list, const char *name)
{
	for (size_t i = 0; list && i < list->count; i++)
		if (!strcmp(list->list[i].name, name))
			return (int)i;
	return -1;
}
