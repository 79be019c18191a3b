/* Modules, as the dynamic linker lists them. Visits run under its lock: no module is unmapped
 * meanwhile. Never under an allocation hook. */
#ifndef LIMPET_AGENT_LOADED_H
#define LIMPET_AGENT_LOADED_H

#include "agent/agent.h"

struct limpet_image {
	uint64_t bias, phdr; /* as dl_iterate_phdr reports them */
	uint64_t phdr_count;
	uint64_t low, high; /* of what is mapped */
	uint64_t dynamic;   /* address of the dynamic section; 0: none */
	const char *name;   /* of its file, as the loader has it: not checked; NULL: none */
	uint64_t space;     /* first link_map of its namespace; 0: the program's own */
	bool shrunk;        /* a module was unloaded since the last settled walk */
	uint64_t unloads;   /* how many were unloaded until this walk */
};
struct limpet_image_tables {
	struct limpet_slot_tables slots;
	const uint32_t *hash;     /* DT_GNU_HASH; NULL: none */
	const uint16_t *versions; /* DT_VERSYM; NULL: none */
	bool is_rel;              /* its relocations have no addends: they are not in `slots` */
};
typedef int limpet_image_fn(const struct limpet_image *image, void *context);
void limpet_loaded_configure(const struct limpet_start *start);
/* Stops when `visit` returns nonzero, and returns that. ret_unread, which may be NULL, gets the
 * number of modules whose program headers were not found or cannot be read. For the injector's
 * calls only, between hold_all and let_all_go; may use dl_iterate_phdr. */
int limpet_loaded_walk(limpet_image_fn *visit, void *context, uint32_t *ret_unread);
/* Takes the lock under which a hook may walk; recursive. false: it was not available at once or, if
 * `wait`, within a fraction of a second. Without `may_ask`, for a call that makes no system call
 * itself, limpet_loaded_may_read() trusts, and modules that have just come are read without a
 * question, but only if none was unloaded since the last settled walk; others are not read. */
bool limpet_loaded_hold(bool wait, bool may_ask);
void limpet_loaded_release(void);
/* For the injector's calls: takes what limpet_loaded_walk() needs, so that it waits for nobody. The
 * hijacked thread may hold a lock of the program, malloc's for one, that a holder of the loader's
 * wants: gives up after some milliseconds. Where the locks are not known: true. */
bool limpet_loaded_hold_all(void);
/* What limpet_loaded_walk_held() would return, as hold_all found it. */
uint32_t limpet_loaded_unread(void);
void limpet_loaded_let_all_go(void);
/* The same walk, between hold and release; returns the number of unread modules. `settles`: from
 * now on limpet_loaded_has_changed() compares with this walk. */
uint32_t limpet_loaded_walk_held(limpet_image_fn *visit, void *context, bool settles);
#define LIMPET_LOADER_PATIENCE 2000u /* pauses of 0.1 ms */
#define LIMPET_CALL_PATIENCE 50u     /* the same at most, while the injector waits */
/* Not `may_sleep` in the injector's calls: the hijacked thread may be in the middle of a call that
 * waits for a time, of which the kernel notes what is left. It has one place for that, which a
 * timed call of ours would take if a signal came (restart_syscall(2)). */
void limpet_loaded_pause(bool may_sleep);
/* Takes no lock. Returns false if unknown: the collector checks from outside. */
bool limpet_loaded_has_changed(void);
/* Whether dlclose takes no lock that dlopen takes. */
bool limpet_loaded_closes_unlocked(void);
/* Whether the kernel can read there, by a futex call for each page. A page of a loaded module need
 * not be readable: its file may be shorter by now, or the program may have closed it. Between the
 * begin and the end of a visit each page is asked for once in a row. */
bool limpet_loaded_may_read(const void *start, uint64_t bytes);
/* Whether the word is in the module's data. Gaps between segments need not be mapped. */
bool limpet_image_has_word(const struct limpet_image *image, uint64_t address);
/* The mapped part of the module's file that contains the word, in whole pages. */
struct limpet_image_part {
	uint64_t start, bytes;
	uint32_t flags; /* PF_* */
};
bool limpet_image_part_of(const struct limpet_image *image, uint64_t address,
			  struct limpet_image_part *ret);
/* The module that contains the address. Also allowed between hold and release. */
bool limpet_loaded_find(uint64_t address, struct limpet_image *ret);
/* Returns 1; 0: it has none; -EFAULT: they cannot be read. Whether relocations can be is the
 * caller's question. */
int limpet_image_tables(const struct limpet_image *image, struct limpet_image_tables *ret);
/* Address of a function that the module defines, in its default version; 0: none. */
uint64_t limpet_image_symbol(const struct limpet_image *image, const char *name);
/* The number of modules that define the function in the image's namespace, which is not the
 * program's; ret gets the last definition. */
uint32_t limpet_space_symbol(const struct limpet_image *image, const char *name, uint64_t *ret);

#endif
