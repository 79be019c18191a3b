/* The target's resident memory by owner, before a capture and after it: what `limpet explain` says.
 * One thread. */
#ifndef LIMPET_COLLECTOR_CAPTURE_ACCOUNT_SNAPSHOT_H
#define LIMPET_COLLECTOR_CAPTURE_ACCOUNT_SNAPSHOT_H

#include "common/resident_account.h"

struct limpet_target;

/* Reads the process from outside, as explain.h says. What cannot be read is not known,
 * nor the account of a process of more than 4 GiB. */
void limpet_account_snapshot_take(const struct limpet_target *target,
				  struct limpet_resident_account *ret);
void limpet_account_snapshot_done(struct limpet_resident_account *account);

#endif
