/* Preflight: would limpet work on this process, and if not, why, and what helps?
 *
 * Looks from outside only. The one exception is a target with a seccomp filter: to read the filter
 * a helper process of ours stops one of its threads for some microseconds (the helper's end
 * releases the thread in any case); `quick` omits even that. The answer is a snapshot: the process
 * may exit, exec or be traced by somebody else a moment later. Never prints. Any thread. */
#ifndef LIMPET_INJECTOR_PREFLIGHT_PREFLIGHT_H
#define LIMPET_INJECTOR_PREFLIGHT_PREFLIGHT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "common/err.h"
#include "common/unfollowed.h"
#include "injector/elf/memory_owners.h"
#include "injector/preflight/capture_config.h"

enum limpet_severity {
	LIMPET_FINDING_OK = 0,
	LIMPET_FINDING_NOTE,    /* worth knowing, no effect */
	LIMPET_FINDING_WARNING, /* works, but the result is limited */
	LIMPET_FINDING_REFUSE   /* limpet will not touch this process */
};

struct limpet_finding {
	char id[24]; /* stable word: "permission", "seccomp", "allocator"... (limpet-doctor(1)) */
	char brief[40]; /* a few words for a table: "needs sudo" */
	char text[320]; /* one sentence, no full stop */
	char hint[320]; /* what helps; may be empty */
	enum limpet_severity severity;
};
#define LIMPET_PREFLIGHT_MAX_FINDINGS 48

/* Every id that a finding can have, and its worst severity; an empty id ends the list. */
struct limpet_finding_word {
	char id[24];
	enum limpet_severity worst;
};
extern const struct limpet_finding_word limpet_finding_words[];

struct limpet_attach_plan;
struct limpet_target;
struct limpet_preflight_options {
	struct limpet_capture_config config; /* agent_memory_bytes 0: the default, 64 MiB */
	bool hurried;    /* at a raised priority, unless there is one processor alone */
	bool quick;      /* for lists: no thread is stopped, filters stay unread */
	bool launched;   /* a child of ours that we trace, stopped at its entry point */
	bool stops_only; /* its threads are stopped and nothing else: `limpet stacks` */
	struct limpet_preflight_cache *cache; /* for lists; may be NULL */
};

enum limpet_preflight_verdict {
	LIMPET_PREFLIGHT_OK = 0,
	LIMPET_PREFLIGHT_GONE,    /* no such process (any more) */
	LIMPET_PREFLIGHT_REFUSED, /* at least one finding is LIMPET_FINDING_REFUSE */
	LIMPET_PREFLIGHT_FAILED   /* could not check: out of memory, /proc not mounted... */
};

struct limpet_preflight {
	enum limpet_preflight_verdict verdict;
	pid_t pid;
	char name[64]; /* comm, as the process set it: sanitize it before display */
	uid_t uid;     /* effective */
	uint64_t rss_bytes;
	uint64_t stop_ns; /* the longest of a thread, to read a filter */
	bool kernel_thread;
	char libc[32];        /* "glibc 2.36"; empty: unknown */
	char allocators[128]; /* followed, for messages: "glibc 2.36, jemalloc" */
	char unfollowed[256]; /* not followed: "jemalloc in biome"; empty: none is known */
	/* of these, the files with an allocator inside */
	struct limpet_owner_files unfollowed_files;
	double unseen_rss_share; /* 0..1, if an allocator is out of reach; < 0: none is */
	char runtime[16]; /* "V8": a language's runtime with a heap of its own; empty: none */
	struct limpet_unfollowed_part others; /* memory of theirs; not known: was not examined */
	/* Unless it is refused, or was not examined; limpet_preflight_done() frees it. Who takes it
	 * over sets NULL. */
	struct limpet_attach_plan *plan;
	size_t count;
	struct limpet_finding list[LIMPET_PREFLIGHT_MAX_FINDINGS]; /* in the order of the checks */
};

/* Checks the process, also one that could not be opened. Returns 0 if an attach (or a run) may
 * proceed; otherwise -errno, with the first refusal's message and hint in `err` as a whole sentence
 * ("cannot attach to 'node' (4711):
 * ..."). Unlike elsewhere, *ret is always filled in: the other findings of a refusal are useful,
 * too. `options` and `err` may be NULL. */
int limpet_preflight_run(const struct limpet_target *target,
			 const struct limpet_preflight_options *options,
			 struct limpet_preflight *ret, struct limpet_err *err);

void limpet_preflight_done(struct limpet_preflight *preflight);

/* The exit status for a verdict. */
enum limpet_exit limpet_preflight_exit(const struct limpet_preflight *preflight);

/* Caches what executables contain, for a caller that checks many processes. One thread. */
struct limpet_preflight_cache *limpet_preflight_cache_new(void); /* NULL: out of memory */
void limpet_preflight_cache_free(struct limpet_preflight_cache *cache);

#endif
