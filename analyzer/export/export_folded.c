/* Stacks as "outermost;...;innermost figure", merged: for flamegraph.pl, inferno, speedscope. */
#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "analyzer/export/export_formats.h"
#include "common/bytes.h"

/* The function's name, without this format's separator. */
static char *clean_name(const struct limpet_function *function, bool full)
{
	LIMPET_FREE char *name = limpet_function_name(function, full);

	return name ? limpet_export_name(name, ";", ':') : NULL;
}

static int clean_names(const struct limpet_locations *locations, bool full, char ***ret_names)
{
	char **names = calloc(locations->function_count + 1ul, sizeof(*names));
	int code = names ? 0 : -ENOMEM;

	for (uint32_t i = 0; i < locations->function_count && code == 0; i++) {
		names[i] = clean_name(&locations->functions[i], full);
		if (!names[i])
			code = -ENOMEM;
	}
	*ret_names = names;
	return code;
}

static void free_names(char **names)
{
	for (size_t i = 0; names && names[i]; i++)
		free(names[i]);
	free(names);
}

static int compare_by_name(const void *a, const void *b, void *context)
{
	const uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;
	char *const *names = context;
	int result = strcmp(names[x], names[y]);

	return result ? result : x < y ? -1 : x > y;
}

/* For each function the first one of the same name, so that each line is a distinct stack. */
static int find_alike(char **names, uint32_t count, uint32_t **ret_alike)
{
	LIMPET_FREE uint32_t *list = calloc(count + 1ul, sizeof(*list));
	uint32_t *alike = calloc(count + 1ul, sizeof(*alike));

	if (!list || !alike) {
		free(alike);
		return -ENOMEM;
	}
	for (uint32_t i = 0; i < count; i++)
		list[i] = i;
	qsort_r(list, count, sizeof(*list), compare_by_name, names);
	for (uint32_t i = 0; i < count; i++)
		alike[list[i]] = i && !strcmp(names[list[i - 1]], names[list[i]])
					 ? alike[list[i - 1]]
					 : list[i];
	*ret_alike = alike;
	return 0;
}

/* The figure of the stacks that end at a node: its own minus its children's. */
static int64_t own_figure(const struct limpet_view_tree *tree, uint32_t number,
			  enum limpet_report_sort sort)
{
	int64_t figure = limpet_report_figure(&tree->nodes[number].figures, sort);

	for (uint32_t at = tree->nodes[number].first_child; at; at = tree->nodes[at].next)
		figure -= limpet_report_figure(&tree->nodes[at].figures, sort);
	return figure;
}

static int print_tree(const struct limpet_analysis *analysis, const struct limpet_view_tree *tree,
		      char *const *names, FILE *file)
{
	LIMPET_FREE size_t *lengths = calloc(tree->count + 1ul, sizeof(*lengths));
	struct limpet_bytes path = {0};
	uint32_t at = tree->nodes[0].first_child;
	int code;

	if (!lengths)
		return -ENOMEM;
	while (at && !ferror(file)) {
		const char *name = names[tree->nodes[at].function];
		int64_t own = own_figure(tree, at, analysis->view.sort);

		lengths[at] = path.count;
		if (path.count)
			limpet_bytes_append_byte(&path, ';');
		limpet_bytes_append(&path, name, strlen(name) + 1);
		if (path.failed)
			break;
		path.count--; /* the next name overwrites the NUL */
		if (own > 0)
			fprintf(file, "%s %" PRId64 "\n", (const char *)path.data, own);
		if (tree->nodes[at].first_child) {
			at = tree->nodes[at].first_child;
			continue;
		}
		while (at && !tree->nodes[at].next) {
			path.count = lengths[at];
			at = tree->nodes[at].parent;
		}
		if (at) {
			path.count = lengths[at];
			at = tree->nodes[at].next;
		}
	}
	code = path.failed ? -ENOMEM : 0;
	limpet_bytes_done(&path);
	return code;
}

static int write_folded(struct limpet_analysis *analysis, const struct limpet_export_part *part,
			FILE *file)
{
	LIMPET_FREE uint32_t *alike = NULL;
	struct limpet_view view = analysis->view;
	struct limpet_view_tree *tree = NULL;
	char **names = NULL;
	int code = clean_names(analysis->locations, view.full, &names);

	(void)part;
	if (code == 0)
		code = find_alike(names, analysis->locations->function_count, &alike);
	view.alike = alike;
	if (code == 0)
		code = limpet_view_tree_new(&view, false, &tree);
	if (code == 0)
		code = print_tree(analysis, tree, names, file);
	limpet_view_tree_free(tree);
	free_names(names);
	return code;
}

const struct limpet_export_format limpet_export_folded = {
	.name = "folded",
	.needs = LIMPET_EXPORT_SORTED,
	.write = write_folded,
};
