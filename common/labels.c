#include "common/labels.h"

#include <errno.h>
#include <string.h>

#include "common/plain_text.h"

static bool is_letter(char c)
{
	return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_';
}

static bool is_name(const char *name, size_t length)
{
	if (!length || !is_letter(name[0]))
		return false;
	for (size_t i = 1; i < length; i++)
		if (!is_letter(name[i]) && (name[i] < '0' || name[i] > '9'))
			return false;
	return true;
}

/* NULL: it may be one. */
static const char *refuse(const char *label)
{
	const char *equals = strchr(label, '=');

	if (!equals)
		return "is not NAME=VALUE";
	if (strlen(label) > LIMPET_LABEL_MAX_BYTES)
		return "is longer than 128 bytes";
	if (!is_name(label, (size_t)(equals - label)))
		return "has a name of other characters than letters, digits and _";
	if (!equals[1])
		return "has no value";
	switch (limpet_plain_text_check(label)) {
	case 0:
		return NULL;
	case -EILSEQ:
		return "is not UTF-8";
	default:
		return "contains control characters";
	}
}

static void split(const char *label, struct limpet_label *ret)
{
	const size_t name = (size_t)(strchr(label, '=') - label);

	memcpy(ret->name, label, name);
	ret->name[name] = '\0';
	memcpy(ret->value, label + name + 1, strlen(label + name + 1) + 1);
}

const char *limpet_labels_add(struct limpet_labels *labels, const char *label)
{
	const char *why = refuse(label), *text = labels->text;
	struct limpet_label added, other;
	size_t end = strlen(labels->text), bytes = strlen(label);
	unsigned read = 0;

	if (why)
		return why;
	if (labels->count == LIMPET_LABELS_MAX)
		return "is the 17th: 16 are the most";
	split(label, &added);
	while (limpet_labels_next(&text, &read, &other))
		if (!strcmp(other.name, added.name))
			return "has the name of another one";
	memcpy(labels->text + end, label, bytes);
	memcpy(labels->text + end + bytes, "\n", 2);
	labels->count++;
	return NULL;
}

bool limpet_labels_next(const char **text, unsigned *read, struct limpet_label *ret)
{
	char line[LIMPET_LABEL_MAX_BYTES + 1];

	while (**text && *read < LIMPET_LABELS_MAX) {
		const size_t length = strcspn(*text, "\n");
		const char *from = *text;

		*text += length + (from[length] == '\n');
		(*read)++;
		if (length >= sizeof(line))
			continue;
		memcpy(line, from, length);
		line[length] = '\0';
		if (refuse(line))
			continue;
		split(line, ret);
		return true;
	}
	return false;
}
