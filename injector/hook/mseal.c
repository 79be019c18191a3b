#include "injector/hook/mseal.h"

#include <errno.h>
#include <string.h>

#include "injector/proc/memfd.h"
#include "injector/proc/target_process.h"

static bool has_ours(const struct limpet_maps *maps)
{
	for (size_t i = 0; i < maps->count; i++)
		if (limpet_memfd_is_ours(maps->list[i].path))
			return true;
	return false;
}

bool limpet_mseal_check(const struct limpet_target *target, const struct limpet_maps *maps)
{
	struct limpet_smaps smaps;
	struct limpet_smap smap;
	bool sealed = false;

	if (!has_ours(maps) || limpet_proc_smaps_read(target->pid, &smaps) < 0)
		return false;
	while (!sealed && limpet_proc_smaps_next(&smaps, &smap) > 0)
		sealed = limpet_memfd_is_ours(smap.map.path) && limpet_smap_has_flag(&smap, "sl");
	limpet_proc_smaps_done(&smaps);
	return sealed;
}

int limpet_mseal_explain(const struct limpet_target *target, struct limpet_err *err)
{
	limpet_err_set(err, -EPERM,
		       "process %d has sealed limpet's memory by mseal(2): it stays, unused, until "
		       "the program ends",
		       target->pid);
	limpet_err_hint(err, "restart the program to capture it again");
	return -EPERM;
}
