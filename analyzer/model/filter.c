#include "analyzer/model/filter.h"

#include <errno.h>
#include <regex.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/array.h"

enum scope { SCOPE_ANY = 0, SCOPE_FUNCTION, SCOPE_FILE, SCOPE_MODULE, SCOPE_THREAD, SCOPE_COUNT };

static const char *const scope_words[SCOPE_COUNT] = {"",
						     "function:", "file:", "module:", "thread:"};

struct pattern {
	regex_t regex;
	regex_t name; /* of a thread, if has_name */
	bool has_name;
	enum scope scope;
	bool exclude;
};

struct limpet_filter {
	struct pattern *patterns;
	size_t pattern_count, pattern_capacity;
	char **suppressions;
	size_t suppression_count, suppression_capacity;
	bool ignores_case;
	unsigned wanted; /* bit n: there is an include of scope n */
	bool has_births;
	uint64_t births_from_ns, births_to_ns;
};

#define BIT_HIDDEN (1u << SCOPE_COUNT)

struct limpet_filter *limpet_filter_new(void)
{
	return calloc(1, sizeof(struct limpet_filter));
}

void limpet_filter_free(struct limpet_filter *filter)
{
	if (!filter)
		return;
	for (size_t i = 0; i < filter->pattern_count; i++) {
		regfree(&filter->patterns[i].regex);
		if (filter->patterns[i].has_name)
			regfree(&filter->patterns[i].name);
	}
	for (size_t i = 0; i < filter->suppression_count; i++)
		free(filter->suppressions[i]);
	free(filter->patterns);
	free(filter->suppressions);
	free(filter);
}

bool limpet_filter_is_empty(const struct limpet_filter *filter)
{
	return !filter->pattern_count && !filter->suppression_count && !filter->has_births;
}

void limpet_filter_ignore_case(struct limpet_filter *filter)
{
	filter->ignores_case = true;
}

/* What could be meant for a number alone: digits, and the signs of expressions. */
static bool is_for_ids(const char *text)
{
	static const char digits[] = "[:digit:]";

	while (*text) {
		if (!strncmp(text, digits, sizeof(digits) - 1))
			text += sizeof(digits) - 1;
		else if (strchr("0123456789[](){}.*+?|^$\\,-", *text))
			text++;
		else
			return false;
	}
	return true;
}

/* A thread id must match as a whole: 1 does not match 12. */
static int compile(struct pattern *added, const char *pattern, int flags)
{
	LIMPET_FREE char *whole = NULL;
	int code;

	if (!pattern[0])
		return REG_BADPAT;
	if (added->scope != SCOPE_THREAD)
		return regcomp(&added->regex, pattern, flags);
	if (asprintf(&whole, "^(%s)$", pattern) < 0) {
		whole = NULL;
		return REG_ESPACE;
	}
	code = regcomp(&added->regex, whole, flags);
	if (code || is_for_ids(pattern))
		return code;
	code = regcomp(&added->name, pattern, flags);
	if (code)
		regfree(&added->regex);
	added->has_name = !code;
	return code;
}

int limpet_filter_add(struct limpet_filter *filter, const char *pattern, bool exclude,
		      struct limpet_err *err)
{
	const int flags = REG_EXTENDED | REG_NOSUB | (filter->ignores_case ? REG_ICASE : 0);
	struct pattern added = {.scope = SCOPE_ANY, .exclude = exclude};
	char text[200];
	int code;

	if (limpet_reserve(&filter->patterns, &filter->pattern_capacity, filter->pattern_count + 1,
			   sizeof(*filter->patterns)) < 0)
		return limpet_err_set(err, -ENOMEM, "out of memory");
	for (unsigned i = SCOPE_FUNCTION; i < SCOPE_COUNT; i++)
		if (!strncmp(pattern, scope_words[i], strlen(scope_words[i])))
			added.scope = (enum scope)i;
	pattern += strlen(scope_words[added.scope]);
	code = compile(&added, pattern, flags);
	if (code == REG_ESPACE)
		return limpet_err_set(err, -ENOMEM, "out of memory");
	if (code) {
		regerror(code, &added.regex, text, sizeof(text));
		return limpet_err_set(err, -EINVAL, "'%s' is not a regular expression: %s", pattern,
				      text);
	}
	filter->patterns[filter->pattern_count++] = added;
	if (!exclude)
		filter->wanted |= 1u << added.scope;
	return 0;
}

/* ------------------------------------------------------------------ suppressions */

static int add_suppression(struct limpet_filter *filter, const char *pattern)
{
	int code = limpet_reserve(&filter->suppressions, &filter->suppression_capacity,
				  filter->suppression_count + 1, sizeof(char *));

	if (code < 0)
		return code;
	filter->suppressions[filter->suppression_count] = strdup(pattern);
	if (!filter->suppressions[filter->suppression_count])
		return -ENOMEM;
	filter->suppression_count++;
	return 0;
}

/* 1: neither a suppression nor a comment. */
static int add_line(struct limpet_filter *filter, char *line)
{
	static const char blanks[] = " \t\r\n";
	size_t length;
	char *colon;

	line += strspn(line, blanks);
	length = strlen(line);
	while (length && strchr(blanks, line[length - 1]))
		line[--length] = '\0';
	if (!length || line[0] == '#')
		return 0;
	colon = strchr(line, ':');
	if (!colon || colon == line || !colon[1])
		return 1;
	return strncmp(line, "leak:", 5) ? 0 : add_suppression(filter, colon + 1);
}

int limpet_filter_add_suppressions(struct limpet_filter *filter, const char *path,
				   struct limpet_err *err)
{
	LIMPET_FCLOSE FILE *file = fopen(path, "re");
	LIMPET_FREE char *line = NULL;
	size_t room = 0, number = 0;
	int code = 0;

	if (!file) {
		code = limpet_errno();
		return limpet_err_set(err, code, "cannot read '%s': %s", path, strerror(-code));
	}
	while (code == 0 && getline(&line, &room, file) >= 0) {
		number++;
		code = add_line(filter, line);
	}
	if (code == 1) {
		limpet_err_set(err, -EINVAL, "line %zu of '%s' is not a suppression", number, path);
		limpet_err_hint(err, "a suppression is leak:PATTERN, a comment starts with #");
		return -EINVAL;
	}
	if (code == 0 && ferror(file))
		code = -EIO;
	return code < 0 ? limpet_err_set(err, code, "cannot read '%s': %s", path, strerror(-code))
			: 0;
}

/* Finds `part` of a pattern, up to `*`, at the start, at the end, or anywhere. Returns what follows
 * it in `text`, or NULL. */
static const char *find_part(const char *text, const char *part, size_t length, bool start,
			     bool end)
{
	size_t have = strlen(text);
	const char *found;

	if (length > have)
		return NULL;
	if (end) {
		text += have - length;
		if ((start && have != length) || memcmp(text, part, length) != 0)
			return NULL;
		return text + length;
	}
	if (start)
		return memcmp(text, part, length) ? NULL : text + length;
	found = length ? memmem(text, have, part, length) : text;
	return found ? found + length : NULL;
}

bool limpet_filter_suppresses(const char *pattern, const char *text)
{
	bool start = pattern[0] == '^';
	size_t length;

	if (!text || !text[0])
		return false;
	pattern += start;
	for (;;) {
		bool last, end;

		length = strcspn(pattern, "*");
		last = !pattern[length];
		end = last && length && pattern[length - 1] == '$';
		text = find_part(text, pattern, length - end, start, end);
		if (!text)
			return false;
		if (last)
			return true;
		pattern += length + 1;
		start = false;
	}
}

/* ------------------------------------------------------------------ stacks */

static bool is_suppressed(const struct limpet_filter *filter, const char *text)
{
	for (size_t i = 0; i < filter->suppression_count; i++)
		if (limpet_filter_suppresses(filter->suppressions[i], text))
			return true;
	return false;
}

static unsigned match_text(const struct limpet_filter *filter, const char *text, enum scope scope)
{
	unsigned bits = 0;

	if (!text)
		return 0;
	for (size_t i = 0; i < filter->pattern_count; i++) {
		const struct pattern *pattern = &filter->patterns[i];

		if (pattern->scope != SCOPE_ANY && pattern->scope != scope)
			continue;
		if (!(bits & BIT_HIDDEN) && !regexec(&pattern->regex, text, 0, NULL, 0))
			bits |= pattern->exclude ? BIT_HIDDEN : 1u << pattern->scope;
	}
	if (is_suppressed(filter, text))
		bits |= BIT_HIDDEN;
	return bits;
}

/* Matches the frame of each location. Names repeat, so each function is matched once. */
static int match_places(const struct limpet_filter *filter,
			const struct limpet_locations *locations, unsigned **ret_bits)
{
	LIMPET_FREE unsigned *functions = calloc(locations->function_count, sizeof(*functions));
	unsigned *bits = calloc(locations->location_count, sizeof(*bits));

	if (!functions || !bits) {
		free(bits);
		return -ENOMEM;
	}
	for (uint32_t i = 0; i < locations->function_count; i++) {
		const struct limpet_function *function = &locations->functions[i];

		functions[i] = match_text(filter, function->name, SCOPE_FUNCTION) |
			       match_text(filter, function->module, SCOPE_MODULE);
	}
	for (uint32_t i = 0; i < locations->location_count; i++) {
		const struct limpet_location *place = &locations->locations[i];
		const struct limpet_location *before = i ? place - 1 : NULL;

		bits[i] = functions[place->function];
		/* Locations of the same file and function are often adjacent. */
		if (before && before->file == place->file && before->function == place->function)
			bits[i] = bits[i - 1];
		else
			bits[i] |= match_text(filter, place->file, SCOPE_FILE);
	}
	*ret_bits = bits;
	return 0;
}

int limpet_filter_nodes(const struct limpet_filter *filter,
			const struct limpet_locations *locations, bool **ret_kept)
{
	const struct limpet_model *model = locations->model;
	const unsigned wanted = filter->wanted & ~(1u << SCOPE_THREAD);
	LIMPET_FREE unsigned *bits = calloc(model->node_count + 1ul, sizeof(*bits));
	LIMPET_FREE bool *kept = calloc(model->node_count + 1ul, sizeof(*kept));
	LIMPET_FREE unsigned *of_place = NULL;
	int result;

	if (!bits || !kept)
		return -ENOMEM;
	result = match_places(filter, locations, &of_place);
	if (result < 0)
		return result;
	bits[0] = 0;
	for (uint32_t i = 0; i < model->node_count; i++) {
		const uint32_t *list;
		uint32_t count = i ? limpet_locations_of_node(locations, i, &list) : 0;

		if (i)
			bits[i] = bits[model->nodes[i].parent];
		for (uint32_t k = 0; k < count; k++)
			bits[i] |= of_place[list[k]];
		kept[i] = !(bits[i] & BIT_HIDDEN) && (bits[i] & wanted) == wanted;
	}
	*ret_kept = LIMPET_TAKE(kept);
	return 0;
}

/* ------------------------------------------------------------------ threads */

bool limpet_filter_has_threads(const struct limpet_filter *filter)
{
	for (size_t i = 0; i < filter->pattern_count; i++)
		if (filter->patterns[i].scope == SCOPE_THREAD)
			return true;
	return false;
}

static bool is_of_thread(const struct pattern *pattern, const char *tid, const char *name)
{
	return pattern->scope == SCOPE_THREAD &&
	       (regexec(&pattern->regex, tid, 0, NULL, 0) == 0 ||
		(pattern->has_name && name[0] && regexec(&pattern->name, name, 0, NULL, 0) == 0));
}

bool limpet_filter_keeps_thread(const struct limpet_filter *filter, uint32_t tid, const char *name)
{
	bool included = !(filter->wanted & 1u << SCOPE_THREAD);
	char text[16];

	snprintf(text, sizeof(text), "%u", tid);
	for (size_t i = 0; i < filter->pattern_count; i++) {
		const struct pattern *pattern = &filter->patterns[i];

		if (!is_of_thread(pattern, text, name))
			continue;
		if (pattern->exclude)
			return false;
		included = true;
	}
	return included;
}

/* ------------------------------------------------------------------ births */

void limpet_filter_set_births(struct limpet_filter *filter, uint64_t from_ns, uint64_t to_ns)
{
	filter->has_births = true;
	filter->births_from_ns = from_ns;
	filter->births_to_ns = to_ns;
}

bool limpet_filter_births(const struct limpet_filter *filter, uint64_t *ret_from_ns,
			  uint64_t *ret_to_ns)
{
	*ret_from_ns = filter->has_births ? filter->births_from_ns : 0;
	*ret_to_ns = filter->has_births ? filter->births_to_ns : UINT64_MAX;
	return filter->has_births;
}

bool limpet_filter_needs_events(const struct limpet_filter *filter)
{
	return filter->has_births || limpet_filter_has_threads(filter);
}
