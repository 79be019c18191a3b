#include "agent/stack_prints.h"

void limpet_fingerprints_adjust(void)
{
	for (unsigned table = 0; table < LIMPET_FINGERPRINT_TABLES; table++) {
		const uint32_t shift = __atomic_load_n(&limpet_shm->fingerprint_use[table].shift,
						       __ATOMIC_RELAXED);
		const uint32_t mask = (limpet_shm->layout.fingerprint_count[table] >> shift) - 1;

		if (__atomic_load_n(&limpet_hot.fingerprint_mask[table], __ATOMIC_RELAXED) != mask)
			__atomic_store_n(&limpet_hot.fingerprint_mask[table], mask,
					 __ATOMIC_RELAXED);
	}
}

/* A thread that changes the entry makes its state odd first. */
static bool is_changing(const struct limpet_fingerprint *entry)
{
	return __atomic_load_n(&entry->state, __ATOMIC_RELAXED) >> 32 & 1;
}

/* A free entry of the set, or else one to evict; NULL: neither. */
static struct limpet_fingerprint *entry_for(enum limpet_fingerprint_table table,
					    uint64_t fingerprint)
{
	struct limpet_fingerprint *set = limpet_fingerprint_set(table, fingerprint);

	for (uint32_t i = 0; i < LIMPET_FINGERPRINT_WAYS; i++)
		if (!is_changing(&set[i]) &&
		    !__atomic_load_n(&set[i].fingerprint, __ATOMIC_RELAXED))
			return &set[i];
	for (uint32_t i = 0; i < LIMPET_FINGERPRINT_WAYS; i++) {
		struct limpet_fingerprint *entry =
			&set[(fingerprint + i) & (LIMPET_FINGERPRINT_WAYS - 1)];

		if (is_changing(entry))
			continue;
		__atomic_fetch_add(&limpet_shm->fingerprint_use[table].evicted, 1,
				   __ATOMIC_RELAXED);
		return entry;
	}
	return NULL;
}

/* A thread that a signal handler throws out of here leaves an entry that nobody uses again. */
void limpet_fingerprint_keep(enum limpet_fingerprint_table table, uint64_t fingerprint,
			     uint32_t known)
{
	struct limpet_fingerprint *entry;
	uint64_t state, version;

	/* Only the parent of a fork has published the description. */
	if (!limpet_is_alive())
		return;
	entry = entry_for(table, fingerprint);
	if (!entry)
		return;
	state = __atomic_load_n(&entry->state, __ATOMIC_RELAXED);
	version = (state >> 32) + 1;
	if (!(version & 1) ||
	    !__atomic_compare_exchange_n(&entry->state, &state, version << 32, false,
					 __ATOMIC_ACQ_REL, __ATOMIC_RELAXED))
		return;
	__atomic_store_n(&entry->fingerprint, fingerprint, __ATOMIC_RELEASE);
	__atomic_store_n(&entry->state, (version + 1) << 32 | known, __ATOMIC_RELEASE);
}
