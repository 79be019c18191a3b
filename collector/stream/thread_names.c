#include "collector/stream/thread_names.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/array.h"
#include "common/number_table.h"
#include "injector/proc/proc.h"
#include "injector/proc/target_process.h"

/* Names that one round reads: some milliseconds. */
#define NAMES_AT_ONCE 64
#define THREADS_MAX (1u << 20)

struct entry {
	uint64_t last_round; /* at which the thread was there */
	uint64_t reads, next;
	char name[LIMPET_PROC_NAME_BYTES];
};

struct limpet_thread_names {
	struct limpet_number_table numbers; /* of thread ids; entry n - 1 */
	struct entry *entries;
	size_t count, capacity;
	uint64_t round;
};

struct limpet_thread_names *limpet_thread_names_new(void)
{
	return calloc(1, sizeof(struct limpet_thread_names));
}

void limpet_thread_names_free(struct limpet_thread_names *names)
{
	if (!names)
		return;
	limpet_number_table_done(&names->numbers);
	free(names->entries);
	free(names);
}

static struct entry *entry_of(struct limpet_thread_names *names, pid_t own)
{
	uint32_t number = limpet_number_table_find(&names->numbers, (uint64_t)own);

	if (!number && names->count < THREADS_MAX)
		number = limpet_number_table_of(&names->numbers, (uint64_t)own);
	if (!number || limpet_reserve_zeroed(&names->entries, &names->capacity, number,
					     sizeof(*names->entries)) < 0)
		return NULL;
	if (number > names->count)
		names->count = number;
	return &names->entries[number - 1];
}

/* Whether its name is due to be read. A thread id that was away may be another thread's now. */
static bool is_due(const struct limpet_thread_names *names, struct entry *entry)
{
	if (entry->last_round + 1 != names->round)
		entry->reads = entry->next = 0;
	entry->last_round = names->round;
	return entry->reads++ >= entry->next;
}

void limpet_thread_names_refresh(struct limpet_thread_names *names,
				 struct limpet_recorder *recorder,
				 const struct limpet_target *target,
				 const struct limpet_thread_list *list, bool all)
{
	char name[LIMPET_PROC_NAME_BYTES];
	int read = 0;

	names->round++;
	for (int i = 0; i < list->count; i++) {
		struct entry *entry = entry_of(names, list->own[i]);

		if (!entry)
			continue;
		if ((!is_due(names, entry) && !all) || (read >= NAMES_AT_ONCE && !all))
			continue;
		read++;
		entry->next = 2 * entry->reads;
		if (limpet_proc_thread_name(target, list->tids[i], name) < 0 ||
		    !strcmp(name, entry->name))
			continue;
		memcpy(entry->name, name, sizeof(name));
		limpet_recorder_name_thread(recorder, (uint32_t)list->own[i], name);
	}
}
