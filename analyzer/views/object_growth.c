#include "analyzer/views/object_growth.h"

#include <string.h>

#include "common/begins.h"

/* Fewer may be on their way to be collected. */
#define LEAST_OWN 64u

static const struct limpet_object_row *find_before(const struct limpet_object_counts *before,
						   const struct limpet_object_row *row)
{
	for (size_t i = 0; i < before->count; i++) {
		const struct limpet_object_row *one = &before->rows[i];

		if (one->kind == row->kind && one->line == row->line &&
		    !strcmp(one->name, row->name) && !strcmp(one->script, row->script))
			return one;
	}
	return NULL;
}

static uint64_t bytes_of(const struct limpet_object_row *row)
{
	return row ? row->bytes + row->outside_bytes : 0;
}

static struct limpet_object_growth growth_of(const struct limpet_object_counts *before,
					     const struct limpet_object_row *row)
{
	const struct limpet_object_row *then = find_before(before, row);
	const uint64_t count = then ? then->count : 0;

	if (row->count <= count || bytes_of(row) <= bytes_of(then))
		return (struct limpet_object_growth){.row = NULL};
	return (struct limpet_object_growth){row, row->count - count,
					     bytes_of(row) - bytes_of(then)};
}

static bool is_named(const struct limpet_object_row *row)
{
	return row->kind == LIMPET_OBJECT_INSTANCES || row->kind == LIMPET_OBJECT_CLOSURES;
}

/* Not of the runtime itself. */
static bool is_own(const struct limpet_object_row *row)
{
	return row->script[0] && !limpet_begins(row->script, "node:");
}

struct limpet_objects_grown limpet_object_growth_find(const struct limpet_model *model)
{
	const struct limpet_object_counts *before = &model->target->objects;
	const struct limpet_object_counts *after = &model->end->objects;
	struct limpet_objects_grown grown = {.own_share = 0};
	double all = 0;

	for (size_t i = 0; before->known && after->known && i < after->count; i++) {
		const struct limpet_object_growth one = growth_of(before, &after->rows[i]);

		all += (double)one.bytes;
		if (!one.row || !is_named(one.row))
			continue;
		if (one.bytes > grown.most.bytes)
			grown.most = one;
		if (is_own(one.row) && one.count >= LEAST_OWN && one.bytes > grown.own.bytes)
			grown.own = one;
	}
	if (grown.own.row)
		grown.own_share = (double)grown.own.bytes / all;
	return grown;
}
