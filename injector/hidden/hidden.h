/* Finds the functions of allocators that are inside stripped executables and libraries, without a
 * name: by the calls that the module's code makes (slot_calls.h), confirmed by a look at real calls
 * in the running process (call_watch.h, call_judge.h). None of them is ever called by limpet.
 *
 * Only modules that contain the messages of a known allocator, and no symbols, are looked at. Where
 * the calls that were seen do not make up a whole allocator, nothing is added: blocks whose release
 * is not seen would be reported as leaks. One thread; blocks for as long as the watch takes. */
#ifndef LIMPET_INJECTOR_HIDDEN_HIDDEN_H
#define LIMPET_INJECTOR_HIDDEN_HIDDEN_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "common/err.h"
#include "injector/elf/entry_list.h"

struct limpet_target;

struct limpet_hidden_watcher {
	/* Before the calls of an allocator are watched, for at most `most_ns`. */
	void (*watching)(void *context, const char *allocator, uint64_t most_ns);
	/* Its functions were added. `pairs`: blocks that were given and taken back meanwhile. */
	void (*found)(void *context, const char *allocator, unsigned functions, unsigned pairs);
	/* They were not, and why. `hint` may be empty. Not called for an allocator whose functions
	 * the program's code does not show: then there was nothing to watch. */
	void (*not_found)(void *context, const char *allocator, const char *why, const char *hint);
	void *context;
};

/* Calls `shown` for each allocator whose calls limpet_hidden_find() would watch: its functions are
 * visible in the code. Watches nothing. Errors as below. */
int limpet_hidden_show(const struct limpet_target *target,
		       void (*shown)(void *context, const char *allocator),
		       void *context) LIMPET_MUST_CHECK;

/* Adds the functions that it finds in the target to `list`. 0, also if there are none; -ENOMEM
 * or an error of reading /proc/PID. */
int limpet_hidden_find(const struct limpet_target *target,
		       const struct limpet_hidden_watcher *watcher,
		       struct limpet_entry_list *list) LIMPET_MUST_CHECK;

#endif
