#include "agent/stack_prints.h"

/* A free entry of the set; else one that gives way. */
static struct limpet_fingerprint *entry_for(struct limpet_fingerprint *set, uint64_t fingerprint)
{
	for (uint32_t i = 0; i < LIMPET_FINGERPRINT_WAYS; i++)
		if (!__atomic_load_n(&set[i].fingerprint, __ATOMIC_RELAXED))
			return &set[i];
	return &set[fingerprint & (LIMPET_FINGERPRINT_WAYS - 1)];
}

/* Whoever changes an entry makes its state odd first; whoever finds it odd leaves it. A thread that
 * is thrown out of here leaves an entry that nobody uses again. */
void limpet_fingerprint_keep(struct limpet_fingerprints table, uint64_t fingerprint, uint32_t known)
{
	struct limpet_fingerprint *entry =
		entry_for(limpet_fingerprint_set(table, fingerprint), fingerprint);
	uint64_t state = __atomic_load_n(&entry->state, __ATOMIC_RELAXED);
	uint64_t version = (state >> 32) + 1;

	if (!(version & 1) ||
	    !__atomic_compare_exchange_n(&entry->state, &state, version << 32, false,
					 __ATOMIC_ACQ_REL, __ATOMIC_RELAXED))
		return;
	__atomic_store_n(&entry->fingerprint, fingerprint, __ATOMIC_RELEASE);
	__atomic_store_n(&entry->state, (version + 1) << 32 | known, __ATOMIC_RELEASE);
}
