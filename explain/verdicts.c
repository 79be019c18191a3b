#include "explain/verdicts.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/array.h"
#include "common/units.h"
#include "explain/accounts.h"
#include "explain/runtimes.h"

/* Less is not worth a sentence: a share of RSS, and bytes. */
#define NOTABLE_PERCENT 5u
#define NOTABLE_BYTES ((uint64_t)1 << 20)
#define LARGE_PERCENT 25u
#define MOST_BYTES ((uint64_t)4 << 20) /* and more than half of RSS: for any row */
#define MANY_ARENAS 4u
#define MANY_THREADS 64u
#define TOOLS "; the language's own tools show more"

struct verdicts {
	struct limpet_explanation *of;
	bool is_least; /* the amount of the next one */
	int error;
};

static bool is_share(const struct limpet_explanation *of, uint64_t bytes, unsigned percent)
{
	return bytes >= NOTABLE_BYTES && bytes / percent >= of->rss_bytes / 100;
}

/* The text begins with `bytes`, unless they are 0, and ends with a full stop. `returned`: by how
 * much the remedy lowers RSS; NULL: not known, or there is no remedy. */
__attribute__((format(printf, 6, 7))) static void report(struct verdicts *verdicts, uint64_t bytes,
							 const char *id, const char *remedy,
							 const uint64_t *returned,
							 const char *format, ...)
{
	struct limpet_explanation *of = verdicts->of;
	struct limpet_explain_verdict *verdict;
	char amount[LIMPET_UNITS_TEXT];
	size_t used = 0;
	va_list args;

	if (!verdicts->error)
		verdicts->error =
			limpet_reserve_zeroed(&of->verdicts, &of->verdict_capacity,
					      of->verdict_count + 1, sizeof(*of->verdicts));
	if (verdicts->error)
		return;
	verdict = &of->verdicts[of->verdict_count++];
	*verdict = (struct limpet_explain_verdict){.id = id,
						   .bytes = bytes,
						   .remedy = remedy,
						   .returned_known = returned != NULL,
						   .returned_bytes = returned ? *returned : 0};
	if (bytes)
		used = (size_t)snprintf(verdict->text, sizeof(verdict->text), "%s%s ",
					verdicts->is_least ? "At least " : "",
					limpet_units_format_bytes(amount, bytes));
	verdicts->is_least = false;
	va_start(args, format);
	vsnprintf(verdict->text + used, sizeof(verdict->text) - used - 1, format, args);
	va_end(args);
	strcat(verdict->text, ".");
}

/* Of the last verdict. */
static void set_next(const struct verdicts *verdicts, const char *next)
{
	if (!verdicts->error)
		verdicts->of->verdicts[verdicts->of->verdict_count - 1].next = next;
}

/* What can be returned at once comes first, then the largest amount. */
static int compare(const void *a, const void *b)
{
	const struct limpet_explain_verdict *left = a, *right = b;

	if (left->returned_bytes != right->returned_bytes)
		return left->returned_bytes > right->returned_bytes ? -1 : 1;
	if (left->bytes != right->bytes)
		return left->bytes > right->bytes ? -1 : 1;
	return strcmp(left->id, right->id);
}

/* ------------------------------------------------------------------ glibc */

static void report_trimmed(struct verdicts *verdicts)
{
	const struct limpet_explain_glibc *glibc = &verdicts->of->glibc;
	const bool many = glibc->arenas >= MANY_ARENAS &&
			  glibc->other_free_resident_bytes >= glibc->free_resident_bytes / 2;
	const bool is_least = !glibc->whole || !glibc->fast_whole;
	char returned[LIMPET_UNITS_TEXT], arenas[96] = "heap";

	limpet_units_format_bytes(returned, glibc->returned_bytes);
	if (glibc->arenas > 1 && glibc->empty_arenas == glibc->arenas)
		snprintf(arenas, sizeof(arenas), "%zu arenas, all of which are nearly empty",
			 glibc->arenas);
	else if (glibc->arenas > 1 && glibc->empty_arenas > 1)
		snprintf(arenas, sizeof(arenas), "%zu arenas, %zu of which are nearly empty",
			 glibc->arenas, glibc->empty_arenas);
	else if (glibc->arenas > 1)
		snprintf(arenas, sizeof(arenas), "%zu arenas", glibc->arenas);
	verdicts->is_least = is_least;
	report(verdicts, glibc->free_resident_bytes, "glibc-free", "malloc_trim(0)",
	       glibc->whole ? &glibc->returned_bytes : NULL,
	       "are free inside glibc's %s: malloc_trim(0) returns %s%s at once%s%s", arenas,
	       is_least ? "at least " : "", returned,
	       glibc->locked ? ", no more, since the memory is locked (mlock)" : "",
	       many ? "; fewer arenas (MALLOC_ARENA_MAX) may keep less" : "");
}

/* What malloc_trim leaves: locked memory, free chunks on pages that hold blocks in use, too, and
 * the tops of arenas other than the main one. */
static void report_kept(struct verdicts *verdicts, uint64_t stays)
{
	const struct limpet_explain_glibc *glibc = &verdicts->of->glibc;
	uint64_t tops = glibc->other_top_resident_bytes, locked = glibc->kept_by_lock_bytes;

	if (locked > stays)
		locked = stays;
	stays -= locked;
	if (is_share(verdicts->of, locked, NOTABLE_PERCENT))
		report(verdicts, locked, "glibc-locked", NULL, NULL,
		       "are free inside glibc, but stay: they are locked (mlock), and malloc_trim "
		       "returns of locked memory only the end of the main heap");
	if (tops > stays)
		tops = stays;
	if (is_share(verdicts->of, stays - tops, NOTABLE_PERCENT))
		report(verdicts, stays - tops, "glibc-fragmented", NULL, NULL,
		       "are free inside glibc, but on pages that blocks in use share: malloc_trim "
		       "does not return them");
	if (is_share(verdicts->of, tops, NOTABLE_PERCENT))
		report(verdicts, tops, "glibc-tops", NULL, NULL,
		       "are free at the ends of arenas other than the main one: malloc_trim does "
		       "not return them");
}

static void judge_unread(struct verdicts *verdicts)
{
	const struct limpet_explain_glibc *glibc = &verdicts->of->glibc;
	const char *why = "that changed too fast to be read: in use or free is not known; try "
			  "again";

	if (glibc->late_arenas == glibc->unknown_arenas)
		why = "that were not read in time: in use or free is not known";
	else if (glibc->absent_arenas == glibc->unknown_arenas)
		why = "that are partly swapped out, and were not swapped in to be read: in use "
		      "or free is not known";
	else if (glibc->broken_arenas == glibc->unknown_arenas)
		why = "whose structure is not as glibc keeps it (damaged, or partly given back by "
		      "madvise): in use or free is not known";
	else if (glibc->late_arenas || glibc->absent_arenas || glibc->broken_arenas)
		why = "that changed too fast to be read, are partly swapped out or damaged, or "
		      "were not read in time: in use or free is not known";
	if (glibc->unknown_arenas && is_share(verdicts->of, glibc->unread_bytes, NOTABLE_PERCENT))
		report(verdicts, glibc->unread_bytes, "glibc-unread", NULL, NULL,
		       "are in arenas of glibc %s", why);
}

static void judge_glibc(struct verdicts *verdicts)
{
	const struct limpet_explain_glibc *glibc = &verdicts->of->glibc;

	if (is_share(verdicts->of, glibc->returned_bytes, NOTABLE_PERCENT))
		report_trimmed(verdicts);
	if (glibc->free_resident_bytes > glibc->returned_bytes)
		report_kept(verdicts, glibc->free_resident_bytes - glibc->returned_bytes);
	judge_unread(verdicts);
	if (is_share(verdicts->of, glibc->shared_bytes, NOTABLE_PERCENT))
		report(verdicts, glibc->shared_bytes, "glibc-shared", NULL, NULL,
		       "of glibc's heaps are shared with other processes since a fork: they count "
		       "in RSS of each, and are free only when all have given them back");
}

static void judge_live(struct verdicts *verdicts)
{
	const struct limpet_explanation *of = verdicts->of;
	const uint64_t heaps =
		of->glibc.resident_bytes + limpet_accounts_bytes(of, LIMPET_KIND_GLIBC_MMAPPED);
	const uint64_t unused = of->glibc.free_resident_bytes + of->glibc.cache_bytes;
	const uint64_t live = heaps > unused ? heaps - unused : 0;

	if (!is_share(of, live, LARGE_PERCENT))
		return;
	report(verdicts, live, "glibc-live", NULL, NULL,
	       "are in use inside glibc's heaps%s: limpet attach %d shows who holds what is "
	       "allocated "
	       "from then on",
	       of->glibc.whole && !of->glibc.caches_known
		       ? ", or wait in caches of threads, which were not found"
		       : "",
	       of->pid);
	set_next(verdicts, "limpet attach");
}

/* ------------------------------------------------------------------ other memory */

/* Stacks of no known thread are not threads. The group with the most memory is named. */
static void judge_stacks(struct verdicts *verdicts)
{
	const struct limpet_explanation *of = verdicts->of;
	const struct limpet_account *largest = NULL;
	uint64_t bytes = 0, count = 0, others = 0;
	const char *unjoined = "";
	unsigned groups = 0;

	for (size_t i = 0; i < of->account_count; i++) {
		const struct limpet_account *account = &of->accounts[i];

		if (strcmp(account->kind, LIMPET_KIND_STACKS) != 0)
			continue;
		if (strncmp(account->owner, LIMPET_STACKS_NAMED, strlen(LIMPET_STACKS_NAMED)) !=
		    0) {
			others += account->bytes;
			if (!strcmp(account->owner, LIMPET_OWNER_UNJOINED))
				unjoined = account->owner;
			continue;
		}
		bytes += account->bytes;
		count += account->count;
		groups++;
		/* They are sorted. */
		if (!largest)
			largest = account;
	}
	if (is_share(of, others, NOTABLE_PERCENT) && unjoined[0])
		report(verdicts, others, "unjoined-stacks", NULL, NULL,
		       "are %s: pthread_join or pthread_detach would give them back", unjoined);
	else if (is_share(of, others, NOTABLE_PERCENT))
		report(verdicts, others, "kept-stacks", NULL, NULL,
		       "are in stacks of no known thread: the C library keeps those of ended "
		       "threads, and after a fork those of the parent's other threads, for new "
		       "ones");
	if (!largest || (count < MANY_THREADS && !is_share(of, bytes, NOTABLE_PERCENT)))
		return;
	report(verdicts, bytes, "thread-stacks", NULL, NULL,
	       "are in the stacks of %llu thread%s%s%s: what a thread has once touched of its "
	       "stack "
	       "stays until it ends",
	       (unsigned long long)count, count == 1 ? "" : "s",
	       groups > 1 ? ", most of them in those named " : " named ",
	       largest->owner + strlen(LIMPET_STACKS_NAMED));
}

/* If it is known how much of it is free: gperftools' own. */
static const struct limpet_account *known_tcmalloc(const struct limpet_explanation *of)
{
	const struct limpet_account *heap =
		limpet_accounts_find(of, LIMPET_KIND_TCMALLOC, LIMPET_OWNER_TCMALLOC);

	return heap && heap->retained_known ? heap : NULL;
}

static void judge_tcmalloc(struct verdicts *verdicts)
{
	const struct limpet_explanation *of = verdicts->of;
	const uint64_t pages = limpet_accounts_bytes(of, LIMPET_KIND_TCMALLOC_FREE);
	const struct limpet_account *heap = known_tcmalloc(of);

	if (is_share(of, pages, NOTABLE_PERCENT))
		report(verdicts, pages, "tcmalloc-free", LIMPET_REMEDY_RELEASE, &pages,
		       "are free pages that tcmalloc keeps for later: "
		       "MallocExtension_ReleaseFreeMemory() returns them at once");
	if (!heap)
		return;
	if (is_share(of, heap->retained_bytes, NOTABLE_PERCENT))
		report(verdicts, heap->retained_bytes, "tcmalloc-fragmented", NULL, NULL,
		       "are free inside tcmalloc's spans, which blocks in use share: tcmalloc uses "
		       "them for blocks of the same size, but does not return them");
	if (!is_share(of, heap->bytes - heap->retained_bytes, LARGE_PERCENT))
		return;
	report(verdicts, heap->bytes - heap->retained_bytes, "tcmalloc-live", NULL, NULL,
	       "are in use inside tcmalloc's heap, or in its caches: limpet attach %d shows who "
	       "holds "
	       "what is allocated from then on",
	       of->pid);
	set_next(verdicts, "limpet attach");
}

static void judge_v8(struct verdicts *verdicts)
{
	const uint64_t bytes = limpet_accounts_bytes(verdicts->of, LIMPET_KIND_V8);

	if (!is_share(verdicts->of, bytes, LARGE_PERCENT))
		return;
	report(verdicts, bytes, "runtime-heap", NULL, NULL,
	       "are V8's heap, JavaScript's objects: limpet explain %d --objects counts them",
	       verdicts->of->pid);
	set_next(verdicts, "limpet explain --objects");
}

/* Objects/obmalloc.c: an arena is unmapped once it holds no object at all. */
static void judge_runtimes(struct verdicts *verdicts)
{
	static const struct {
		const char *kind, *text;
		bool tools; /* that the language has for its heap */
	} heaps[] = {{LIMPET_KIND_JAVA, "Java's heap", true},
		     {LIMPET_KIND_GO, "Go's heap", true},
		     {LIMPET_KIND_MIMALLOC, "mimalloc's heap; how much of it is free is not known",
		      false},
		     {LIMPET_KIND_TCMALLOC, "tcmalloc's heap; how much of it is free is not known",
		      false},
		     {LIMPET_KIND_PYTHON, "objects of Python", true}};
	const struct limpet_account *python =
		limpet_accounts_find(verdicts->of, LIMPET_KIND_PYTHON, NULL);

	if (python && is_share(verdicts->of, python->retained_bytes, NOTABLE_PERCENT))
		report(verdicts, python->retained_bytes, "python-free", NULL, NULL,
		       "are free inside Python's arenas: an arena goes back to the system only "
		       "when all of its objects are gone");
	for (size_t i = 0; i < LIMPET_COUNT_OF(heaps); i++) {
		uint64_t bytes = limpet_accounts_bytes(verdicts->of, heaps[i].kind);

		if (python && !strcmp(heaps[i].kind, LIMPET_KIND_PYTHON))
			bytes -= python->retained_bytes;
		if (known_tcmalloc(verdicts->of) && !strcmp(heaps[i].kind, LIMPET_KIND_TCMALLOC))
			continue;

		if (is_share(verdicts->of, bytes, LARGE_PERCENT))
			report(verdicts, bytes, "runtime-heap", NULL, NULL, "are %s%s",
			       heaps[i].text, heaps[i].tools ? TOOLS : "");
	}
}

static void judge_jemalloc(struct verdicts *verdicts)
{
	const struct limpet_explanation *of = verdicts->of;
	const struct limpet_account *heap = limpet_accounts_find(of, LIMPET_KIND_JEMALLOC, NULL);
	const uint64_t pages = limpet_accounts_bytes(of, LIMPET_KIND_JEMALLOC_FREE);
	const uint64_t locked = limpet_accounts_bytes(of, LIMPET_KIND_JEMALLOC_LOCKED);

	if (is_share(of, pages, NOTABLE_PERCENT))
		report(verdicts, pages, "jemalloc-free", LIMPET_REMEDY_PURGE, &pages,
		       "are free pages that jemalloc keeps for a while (dirty_decay_ms): "
		       "mallctl(\"arena.4096.purge\") returns them at once");
	if (is_share(of, locked, NOTABLE_PERCENT))
		report(verdicts, locked, "jemalloc-locked", NULL, NULL,
		       "are free pages of jemalloc, but stay: the memory is locked (mlock), and "
		       "the "
		       "kernel refuses to take it back (madvise)");
	if (!heap)
		return;
	if (is_share(of, heap->retained_bytes, NOTABLE_PERCENT))
		report(verdicts, heap->retained_bytes, "jemalloc-fragmented", NULL, NULL,
		       "are free inside jemalloc's slabs, which blocks in use share: jemalloc uses "
		       "them for blocks of the same size, but does not return them");
	if (!is_share(of, heap->bytes - heap->retained_bytes, LARGE_PERCENT))
		return;
	report(verdicts, heap->bytes - heap->retained_bytes, "jemalloc-live", NULL, NULL,
	       "are in use inside jemalloc's heap: limpet attach %d shows who holds what is "
	       "allocated from then on",
	       of->pid);
	set_next(verdicts, "limpet attach");
}

static void judge_shared(struct verdicts *verdicts)
{
	static const char *const kinds[] = {LIMPET_KIND_MEMFD, LIMPET_KIND_SHM, LIMPET_KIND_TMPFS,
					    LIMPET_KIND_SYSV, LIMPET_KIND_SHARED_ANONYMOUS};
	uint64_t sum = 0;

	for (size_t i = 0; i < LIMPET_COUNT_OF(kinds); i++)
		sum += limpet_accounts_bytes(verdicts->of, kinds[i]);
	if (is_share(verdicts->of, sum, NOTABLE_PERCENT))
		report(verdicts, sum, "shared-memory", NULL, NULL,
		       "are shared memory (memfd, /dev/shm, tmpfs, System V), not a heap: it "
		       "counts "
		       "in the RSS of each process that maps it");
}

static void judge_files(struct verdicts *verdicts)
{
	const struct limpet_explanation *of = verdicts->of;
	uint64_t sum = limpet_accounts_bytes(of, LIMPET_KIND_FILES) +
		       limpet_accounts_bytes(of, LIMPET_KIND_DATA_FILES);

	if (is_share(of, sum, LARGE_PERCENT))
		report(verdicts, sum, "file-pages", NULL, NULL,
		       "are pages of files, not a heap: the kernel takes them back when it needs "
		       "memory");
}

/* What no other sentence is about. */
static void judge_most(struct verdicts *verdicts)
{
	static const char *const texts[][2] = {
		{LIMPET_KIND_MAIN_STACK, "are the stack of the main thread: what it has once "
					 "touched of it stays until the process ends"},
		{LIMPET_KIND_CODE, "are anonymous memory that is executable: code generated at run "
				   "time, as a rule"},
		{LIMPET_KIND_NAMED, "are memory that the program has named itself "
				    "(PR_SET_VMA_ANON_NAME): the table has the names"},
		{LIMPET_KIND_DEVICE, "are mapped memory of devices or of the kernel, not a heap"},
		{LIMPET_KIND_GO_TABLES, "are tables of Go's runtime, which it never frees"},
		{LIMPET_KIND_JEMALLOC_RETAINED, "are resident pages of address space that jemalloc "
						"keeps for later (retain): a purge leaves them"},
		{LIMPET_KIND_LIMPET,
		 "are what limpet has in the process: a capture that runs, or what one left"},
		{LIMPET_KIND_KERNEL, "are pages of the kernel (vdso and the like)"},
	};
	const struct limpet_explanation *of = verdicts->of;

	for (size_t i = 0; i < LIMPET_COUNT_OF(texts); i++) {
		const uint64_t bytes = limpet_accounts_bytes(of, texts[i][0]);

		if (bytes >= MOST_BYTES && bytes > of->rss_bytes / 2)
			report(verdicts, bytes, texts[i][0], NULL, NULL, "%s", texts[i][1]);
	}
}

/* Pages that were written to are the process's own. */
static void judge_data(struct verdicts *verdicts)
{
	const struct limpet_explanation *of = verdicts->of;
	const uint64_t all = limpet_accounts_bytes(of, LIMPET_KIND_DATA);
	const struct limpet_account *files =
		limpet_accounts_find(of, LIMPET_KIND_DATA, LIMPET_OWNER_WRITTEN);
	const uint64_t bytes = files ? files->bytes : 0;

	if (all < MOST_BYTES || all <= of->rss_bytes / 2)
		return;
	if (bytes > all / 2)
		report(verdicts, bytes, LIMPET_KIND_DATA, NULL, NULL,
		       "are pages of files that are mapped privately and were written to: they are "
		       "the process's own, and stay until the file is unmapped");
	else
		report(verdicts, all - bytes, LIMPET_KIND_DATA, NULL, NULL,
		       "are data of the program and its libraries that was written to: variables, "
		       "not a heap");
}

/* An allocator that is a library is followed by attach; any memory by pages. */
static void judge_unknown(struct verdicts *verdicts)
{
	const struct limpet_explanation *of = verdicts->of;
	const uint64_t bytes = of->unknown_bytes;
	const bool attach = of->others_are_libraries;
	char next[96];

	if (!is_share(of, bytes, NOTABLE_PERCENT))
		return;
	snprintf(next, sizeof(next),
		 attach ? "limpet attach %d shows who holds what is allocated from then on"
			: "limpet pages %d shows which stacks touch new pages from then on",
		 of->pid);
	if (of->others[0])
		report(verdicts, bytes, "unknown", NULL, NULL,
		       "are of no known owner; the process has an allocator whose heap %s: %s. %s",
		       of->late ? "limpet does not recognize, or had no time to read"
				: "limpet does not recognize",
		       of->others, next);
	else if (of->glibc_unrecognized)
		report(verdicts, bytes, "glibc-unrecognized", NULL, NULL,
		       "are of no known owner; the process has glibc and a heap, but no arena of "
		       "malloc was found: it is of a version that limpet does not know, or another "
		       "allocator serves the program. %s",
		       next);
	else if (of->late)
		report(verdicts, bytes, "unknown", NULL, NULL,
		       "are of no known owner, or of one that was not recognized in time. %s",
		       next);
	else
		report(verdicts, bytes, "unknown", NULL, NULL,
		       "are of no known owner: another allocator, a language's runtime, or direct "
		       "mmap calls. %s",
		       next);
	set_next(verdicts, attach ? "limpet attach" : "limpet pages");
}

static void judge_rest(struct verdicts *verdicts)
{
	const struct limpet_explanation *of = verdicts->of;
	const uint64_t program_break = limpet_accounts_bytes(of, LIMPET_KIND_BREAK);

	if (is_share(of, program_break, NOTABLE_PERCENT))
		report(verdicts, program_break, "program-break", NULL, NULL,
		       "were taken by brk(2), but not by malloc: the program, or another "
		       "allocator, "
		       "calls sbrk(2) itself");
	if (is_share(of, of->lazy_free_bytes, NOTABLE_PERCENT))
		report(verdicts, of->lazy_free_bytes, "lazy-free", NULL, NULL,
		       "are given up already (MADV_FREE): they count in RSS until the kernel needs "
		       "memory");
	if (of->late)
		report(verdicts, 0, "late", NULL, NULL,
		       "Reading took too long, and what was not read in time counts as of no known "
		       "owner");
	if (of->swap_bytes >= NOTABLE_BYTES)
		report(verdicts, of->swap_bytes, "swap", NULL, NULL,
		       "are swapped out, in addition to RSS");
}

int limpet_verdicts_make(struct limpet_explanation *explanation)
{
	struct verdicts verdicts = {.of = explanation};

	judge_glibc(&verdicts);
	judge_live(&verdicts);
	judge_jemalloc(&verdicts);
	judge_tcmalloc(&verdicts);
	judge_v8(&verdicts);
	judge_runtimes(&verdicts);
	judge_stacks(&verdicts);
	judge_shared(&verdicts);
	judge_unknown(&verdicts);
	judge_rest(&verdicts);
	judge_files(&verdicts);
	judge_most(&verdicts);
	judge_data(&verdicts);
	if (!explanation->verdict_count)
		report(&verdicts, 0, "nothing", NULL, NULL,
		       "Nothing stands out: no large amount is free, shared or of no known owner");
	if (explanation->verdict_count)
		qsort(explanation->verdicts, explanation->verdict_count,
		      sizeof(*explanation->verdicts), compare);
	return verdicts.error;
}
