/* mseal(2), Linux 6.10: sealed memory can neither be unmapped nor get another protection until the
 * program ends. A program that seals all its mappings seals ours, too. */
#ifndef LIMPET_INJECTOR_HOOK_MSEAL_H
#define LIMPET_INJECTOR_HOOK_MSEAL_H

#include <stdbool.h>
#include <sys/types.h>

#include "common/err.h"
#include "injector/proc/proc.h"

struct limpet_target;

/* Whether the process has sealed a mapping of a file with one of our names. If `maps` has none,
 * nothing is read. */
bool limpet_mseal_check(const struct limpet_target *target, const struct limpet_maps *maps);
/* Sets the message for that; returns -EPERM. */
int limpet_mseal_explain(const struct limpet_target *target, struct limpet_err *err);

#endif
