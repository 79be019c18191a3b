#include "analyzer/views/findings_groups.h"

#include <assert.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <uthash.h>

#define NO_CALLER UINT32_MAX

struct pair {
	uint64_t key; /* function and caller, by number */
	uint32_t group;
	UT_hash_handle hh;
};
struct label {
	char *text;
	uint32_t group;
	UT_hash_handle hh;
};
struct limpet_findings_groups {
	struct limpet_locations *locations;
	struct pair *pairs;
	struct label *labels;
	uint32_t count;
};

int limpet_findings_groups_new(struct limpet_locations *locations,
			       struct limpet_findings_groups **ret_groups)
{
	struct limpet_findings_groups *groups = calloc(1, sizeof(*groups));

	if (!groups)
		return -ENOMEM;
	groups->locations = locations;
	*ret_groups = groups;
	return 0;
}

void limpet_findings_groups_free(struct limpet_findings_groups *groups)
{
	if (!groups)
		return;
	for (struct pair *pair = groups->pairs, *next; pair; pair = next) {
		next = pair->hh.next;
		HASH_DEL(groups->pairs, pair);
		free(pair);
	}
	for (struct label *label = groups->labels, *next; label; label = next) {
		next = label->hh.next;
		HASH_DEL(groups->labels, label);
		free(label->text);
		free(label);
	}
	free(groups);
}

static int functions_of(struct limpet_locations *locations, uint32_t node, uint32_t *ret_function,
			uint32_t *ret_caller)
{
	struct limpet_location_stack stack;
	int code = limpet_locations_stack(locations, node, false, &stack);

	if (code < 0)
		return code;
	assert(locations->functions && locations->locations);
	*ret_function = locations->locations[stack.list[0]].function;
	*ret_caller = NO_CALLER;
	/* A function that calls itself is no caller of its own. */
	for (size_t i = 1; i < stack.count && stack.list[i] != LIMPET_LOCATION_CUT; i++) {
		*ret_caller = locations->locations[stack.list[i]].function;
		if (*ret_caller != *ret_function)
			return 0;
	}
	*ret_caller = NO_CALLER;
	return 0;
}

int limpet_findings_label(struct limpet_locations *locations, uint32_t node, char **ret_label,
			  const struct limpet_function **ret_function,
			  const struct limpet_function **ret_caller)
{
	LIMPET_FREE char *name = NULL, *by = NULL;
	const struct limpet_function *called_by;
	uint32_t function, caller;
	int code = functions_of(locations, node, &function, &caller);

	if (code < 0)
		return code;
	called_by = caller == NO_CALLER ? NULL : &locations->functions[caller];
	name = limpet_function_name(&locations->functions[function], false);
	by = called_by ? limpet_function_name(called_by, false) : strdup("");
	if (!name || !by ||
	    asprintf(ret_label, "%s%s%s%s", name, called_by ? " (called by " : "", by,
		     called_by ? ")" : "") < 0)
		return -ENOMEM;
	*ret_function = &locations->functions[function];
	*ret_caller = called_by;
	return 0;
}

/* Overloads and copies of a function in several modules have one label. */
static int group_of_label(struct limpet_findings_groups *groups, uint32_t node, uint32_t *ret_group)
{
	const struct limpet_function *function, *caller;
	LIMPET_FREE char *text = NULL;
	struct label *label;
	int code = limpet_findings_label(groups->locations, node, &text, &function, &caller);

	if (code < 0) {
		text = NULL;
		return code;
	}
	HASH_FIND_STR(groups->labels, text, label);
	if (!label) {
		label = calloc(1, sizeof(*label));
		if (!label)
			return -ENOMEM;
		label->text = LIMPET_TAKE(text);
		label->group = groups->count++;
		HASH_ADD_KEYPTR(hh, groups->labels, label->text, strlen(label->text), label);
	}
	*ret_group = label->group;
	return 0;
}

int limpet_findings_groups_find(struct limpet_findings_groups *groups, uint32_t node,
				uint32_t *ret_group)
{
	uint32_t function, caller, group;
	struct pair *pair;
	uint64_t key;
	int code = functions_of(groups->locations, node, &function, &caller);

	if (code < 0)
		return code;
	key = (uint64_t)function << 32 | caller;
	HASH_FIND(hh, groups->pairs, &key, sizeof(key), pair);
	if (!pair) {
		code = group_of_label(groups, node, &group);
		pair = code < 0 ? NULL : calloc(1, sizeof(*pair));
		if (!pair)
			return -ENOMEM;
		pair->key = key;
		pair->group = group;
		HASH_ADD(hh, groups->pairs, key, sizeof(pair->key), pair);
	}
	*ret_group = pair->group;
	return 0;
}
