/* Functions that release or allocate in a way that is not followed: that they are called is noted,
 * so that the trace does not call its figures exact. The hook then jumps to the original. */
#include "agent/hook_state.h"

enum { MIB_LENGTH = 3 };

/* Returns what follows `beginning`; NULL: the name begins otherwise. */
static const char *after(const char *name, const char *beginning)
{
	for (; *beginning; beginning++, name++)
		if (*name != *beginning)
			return NULL;
	return name;
}

static bool is(const char *name, const char *other)
{
	const char *end = name ? after(name, other) : NULL;

	return end && !*end;
}

/* arena.I.reset and arena.I.destroy release all blocks of an arena. */
static uint32_t named(const char *name)
{
	const char *arena = name ? after(name, "arena.") : NULL;

	if (is(name, "experimental.batch_alloc"))
		return LIMPET_NOTED_UNFOLLOWED;
	while (arena && *arena >= '0' && *arena <= '9')
		arena++;
	return is(arena, ".reset") || is(arena, ".destroy") ? LIMPET_NOTED_DESTROY : 0;
}

/* Whether the numbers are those of the name, but for that of the arena. */
static bool is_mib_of(const struct limpet_hook *hook, const uint64_t *args, const char *name,
		      bool may_ask)
{
	const uint64_t *mib = (const uint64_t *)(uintptr_t)args[0];
	uint64_t own[MIB_LENGTH], length = MIB_LENGTH;

	/* In doubt a call that neither reads nor writes a value. */
	if (!hook->usable_size || !may_ask)
		return length == args[1] && !args[2] && !args[3] && !args[4];
	/* jemalloc's mallctlnametomib() fills the array with the numbers of the name's parts, and
	 * returns an int. */
	if (!mib ||
	    (int)limpet_hook_ask(hook, (uint64_t)(uintptr_t)name, (uint64_t)(uintptr_t)own,
				 (uint64_t)(uintptr_t)&length) != 0 ||
	    length != args[1])
		return false;
	return mib[0] == own[0] && mib[length - 1] == own[length - 1];
}

bool limpet_hook_is_numbered(const struct limpet_hook *hook, const uint64_t *args)
{
	return hook->op == LIMPET_OP_CONTROL_BY_MIB && hook->usable_size &&
	       (args[1] == MIB_LENGTH || args[1] == 2);
}

static uint32_t numbered(const struct limpet_hook *hook, const uint64_t *args, bool may_ask)
{
	if (args[1] == MIB_LENGTH && (is_mib_of(hook, args, "arena.0.reset", may_ask) ||
				      is_mib_of(hook, args, "arena.0.destroy", may_ask)))
		return LIMPET_NOTED_DESTROY;
	return args[1] == 2 && is_mib_of(hook, args, "experimental.batch_alloc", may_ask)
		       ? LIMPET_NOTED_UNFOLLOWED
		       : 0;
}

void limpet_hook_note(const struct limpet_hook *hook, const uint64_t *args, bool may_ask)
{
	uint32_t noted = LIMPET_NOTED_UNFOLLOWED;

	if (hook->op == LIMPET_OP_DESTROY)
		noted = LIMPET_NOTED_DESTROY;
	else if (hook->op == LIMPET_OP_CONTROL)
		noted = named((const char *)(uintptr_t)args[0]);
	else if (hook->op == LIMPET_OP_CONTROL_BY_MIB)
		noted = numbered(hook, args, may_ask);
	if (noted && limpet_is_alive() && !limpet_record_has_ended())
		__atomic_fetch_or(&limpet_shm->noted, noted, __ATOMIC_RELAXED);
}
