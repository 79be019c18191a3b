#include "collector/capture/object_snapshot.h"

#include <stdio.h>
#include <stdlib.h>

#include "explain/runtimes/v8_census.h"
#include "injector/proc/processes.h"
#include "injector/proc/target_process.h"

#define MOST_BYTES ((uint64_t)1 << 30)

static enum limpet_object_kind kind_of(const struct limpet_v8_row *row)
{
	switch (row->kind) {
	case LIMPET_V8_INSTANCES:
		return LIMPET_OBJECT_INSTANCES;
	case LIMPET_V8_CLOSURES:
		return LIMPET_OBJECT_CLOSURES;
	case LIMPET_V8_STRINGS:
		return LIMPET_OBJECT_STRINGS;
	default:
		return LIMPET_OBJECT_INTERNAL;
	}
}

static void copy_row(const struct limpet_v8_row *from, struct limpet_object_row *to)
{
	to->kind = kind_of(from);
	snprintf(to->name, sizeof(to->name), "%s", from->name);
	snprintf(to->script, sizeof(to->script), "%.*s", (int)sizeof(to->script) - 1, from->script);
	to->line = from->line;
	to->count = from->count;
	to->bytes = from->bytes;
	to->outside_bytes = from->outside_bytes;
}

void limpet_object_snapshot_read(const struct limpet_target *target,
				 struct limpet_object_counts *ret)
{
	struct limpet_v8_census census;
	struct limpet_proc_status status;
	struct limpet_err err = {0};

	*ret = (struct limpet_object_counts){0};
	if (limpet_proc_status_read(target->pid, &status) < 0 || status.rss_bytes > MOST_BYTES ||
	    limpet_v8_census_read(target, &census, &err) < 0)
		return;
	if (census.is_known && !census.is_cut)
		ret->rows = calloc(LIMPET_OBJECT_ROWS_MAX, sizeof(*ret->rows));
	ret->known = ret->rows;
	for (size_t i = 0; ret->known && i < census.row_count; i++)
		if (census.rows[i].name[0] && ret->count < LIMPET_OBJECT_ROWS_MAX)
			copy_row(&census.rows[i], &ret->rows[ret->count++]);
	limpet_v8_census_done(&census);
}

void limpet_object_snapshot_done(struct limpet_object_counts *counts)
{
	free(counts->rows);
	*counts = (struct limpet_object_counts){0};
}
