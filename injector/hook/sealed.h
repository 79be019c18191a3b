/* mseal(2), Linux 6.10: memory that can be neither unmapped nor given another protection, until the
 * program ends. A program that seals what it finds in its maps seals ours, too. */
#ifndef LIMPET_INJECTOR_HOOK_SEALED_H
#define LIMPET_INJECTOR_HOOK_SEALED_H

#include <stdbool.h>
#include <sys/types.h>

#include "common/err.h"
#include "injector/proc/proc.h"

/* Whether the process has sealed a mapping of a file with a name of ours. Where `maps` have none,
 * nothing is read. */
bool limpet_sealed_check(pid_t pid, const struct limpet_maps *maps);
/* Words for that; answers -EPERM. */
int limpet_sealed_explain(pid_t pid, struct limpet_err *err);

#endif
