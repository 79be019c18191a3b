#include "collector/capture/account_snapshot.h"

#include <stdio.h>
#include <stdlib.h>

#include "explain/explain.h"
#include "injector/proc/processes.h"
#include "injector/proc/target_process.h"

/* Of more, the kernel would hold the lock against mmap(2) for too long: 15 ms for each GiB of a
 * mapping. */
#define MOST_BYTES ((uint64_t)4 << 30)

static void copy_row(const struct limpet_account *from, struct limpet_resident_row *to)
{
	snprintf(to->kind, sizeof(to->kind), "%s", from->kind);
	snprintf(to->owner, sizeof(to->owner), "%s", from->owner);
	to->bytes = from->bytes;
	to->count = from->count;
	to->free_known = from->retained_known;
	to->free_bytes = from->retained_bytes;
}

void limpet_account_snapshot_take(const struct limpet_target *target,
				  struct limpet_resident_account *ret)
{
	struct limpet_explanation explanation;
	struct limpet_proc_status status;
	struct limpet_err err = {0};

	*ret = (struct limpet_resident_account){0};
	if (limpet_proc_status_read(target->pid, &status) < 0 || status.rss_bytes > MOST_BYTES ||
	    limpet_explain(target, &explanation, &err) < 0)
		return;
	ret->rows = calloc(explanation.account_count + 1, sizeof(*ret->rows));
	if (ret->rows) {
		ret->known = true;
		ret->count = explanation.account_count;
		ret->rss_bytes = explanation.rss_bytes;
		ret->trimmed_bytes = explanation.glibc.returned_bytes;
		for (size_t i = 0; i < ret->count; i++)
			copy_row(&explanation.accounts[i], &ret->rows[i]);
	}
	limpet_explanation_done(&explanation);
}

void limpet_account_snapshot_done(struct limpet_resident_account *account)
{
	free(account->rows);
	*account = (struct limpet_resident_account){0};
}
