#include "explain/explain.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "common/begins.h"
#include "explain/accounts.h"
#include "explain/mappings.h"
#include "explain/runtimes.h"
#include "explain/verdicts.h"
#include "injector/elf/memory_owners.h"
#include "injector/elf/preflight_allocators.h"
#include "injector/proc/pages.h"
#include "injector/proc/target_process.h"

/* An arena below a tenth of its resident memory in use counts as empty. */
#define EMPTY_SHARE 10u
#define EMPTY_LEAST_BYTES ((uint64_t)1 << 20)

#define NAMED_FILE_BYTES ((uint64_t)1 << 20)
#define KEPT_STACK_BYTES ((uint64_t)40 << 20)
#define NAMED_LEAST_BYTES ((uint64_t)1 << 20)
/* What the search for Go's heap may read. */
#define GO_READS ((uint64_t)1 << 20)

/* Of the budget for reading, what is kept while one part is read for those that follow: glibc's
 * arenas and trees of extents may take all there is, while the heap of a runtime is found by a few
 * reads, and the threads of stacks by one each. */
enum { KEPT_FROM_GLIBC = 40, KEPT_FROM_TREES = 20, KEPT_FROM_RUNTIMES = 5 };

/* Everything that is read from the process, for one account. */
struct inquiry {
	const struct limpet_target *target;
	struct limpet_maps maps;
	struct limpet_modules modules;
	struct limpet_process_reader *process;
	const struct limpet_memory_reader *memory;
	struct limpet_glibc_heaps heaps;
	struct limpet_memory_ranges ranges;
	struct limpet_jemalloc jemalloc;
	struct limpet_tcmalloc tcmalloc;
	struct limpet_gperftools gperftools;
	struct limpet_go go;
	bool go_cut;
	struct limpet_runtimes_marked marked;
	struct limpet_stack_owners threads;
	struct limpet_smaps smaps;
	struct limpet_tmpfs mounts;
};

static void inquiry_done(struct inquiry *inquiry)
{
	limpet_proc_smaps_done(&inquiry->smaps);
	limpet_stack_owners_done(&inquiry->threads);
	limpet_go_done(&inquiry->go);
	limpet_gperftools_done(&inquiry->gperftools);
	limpet_tcmalloc_done(&inquiry->tcmalloc);
	limpet_jemalloc_done(&inquiry->jemalloc);
	limpet_memory_ranges_done(&inquiry->ranges);
	limpet_glibc_heaps_done(&inquiry->heaps);
	limpet_process_reader_free(inquiry->process);
	limpet_modules_done(&inquiry->modules);
	limpet_proc_maps_done(&inquiry->maps);
	limpet_tmpfs_done(&inquiry->mounts);
}

/* Heaps of allocators and runtimes, in memory of no known owner. */
static int inquire_heaps(struct inquiry *inquiry, struct limpet_pages *pages)
{
	const struct limpet_runtimes_heaps heaps = {.jemalloc = &inquiry->jemalloc,
						    .tcmalloc = &inquiry->tcmalloc,
						    .gperftools = &inquiry->gperftools,
						    .go = &inquiry->go};
	struct limpet_memory_share share;
	int error;

	limpet_process_reader_keep(inquiry->process, KEPT_FROM_TREES);
	error = limpet_jemalloc_read(inquiry->memory, &inquiry->maps, pages, &inquiry->ranges,
				     &inquiry->jemalloc);
	if (!error && !inquiry->jemalloc.count)
		error = limpet_tcmalloc_read(inquiry->memory, &inquiry->maps, pages,
					     &inquiry->ranges, &inquiry->tcmalloc);
	if (!error && !inquiry->jemalloc.count && !inquiry->tcmalloc.ranges.count)
		error = limpet_gperftools_read(inquiry->memory, &inquiry->maps, pages,
					       &inquiry->ranges, &inquiry->gperftools);
	limpet_process_reader_keep(inquiry->process, KEPT_FROM_RUNTIMES);
	limpet_memory_share_begin(&share, inquiry->memory, GO_READS);
	if (!error)
		error = limpet_go_read(&share.reader, &inquiry->modules, pages, &inquiry->go);
	inquiry->go_cut = share.was_cut;
	if (!error)
		error = limpet_runtimes_mark(inquiry->memory, &inquiry->modules, &heaps,
					     &inquiry->ranges, &inquiry->marked);
	limpet_process_reader_keep(inquiry->process, 0);
	return error;
}

static int inquire(struct inquiry *inquiry, uint64_t reads)
{
	struct limpet_pages *pages;
	int error = limpet_proc_maps_read(inquiry->target->pid, &inquiry->maps);

	if (!error)
		error = limpet_process_reader_new(inquiry->target, &inquiry->process);
	if (error)
		return error;
	inquiry->memory = limpet_process_reader(inquiry->process);
	pages = limpet_process_reader_pages(inquiry->process);
	limpet_process_reader_limit(inquiry->process, reads);
	limpet_process_reader_keep(inquiry->process, KEPT_FROM_GLIBC);
	error = limpet_glibc_heaps_read(inquiry->target, inquiry->memory, &inquiry->maps, pages,
					NULL, &inquiry->heaps);
	if (!error)
		error = limpet_modules_of_files(inquiry->target, &inquiry->modules);
	if (!error)
		error = limpet_memory_ranges_read(inquiry->target, &inquiry->modules,
						  &inquiry->heaps, &inquiry->ranges);
	if (!error)
		error = inquire_heaps(inquiry, pages);
	if (!error) {
		limpet_glibc_heaps_refresh(inquiry->memory, &inquiry->heaps);
		error = limpet_stack_owners_read(inquiry->target, &inquiry->threads);
	}
	if (!error)
		error = limpet_proc_smaps_read(inquiry->target->pid, &inquiry->smaps);
	/* Without it, files of a tmpfs count as files. */
	return error ? error : limpet_tmpfs_read(inquiry->target, &inquiry->mounts);
}

/* ------------------------------------------------------------------ glibc's sums */

/* What malloc_trim(3) would return if it were not locked: madvise(2) refuses that, brk(2) does not.
 * If not all such pages are known, at worst all that are locked are among them. */
static uint64_t kept_by_lock(const struct limpet_glibc_arena *arena)
{
	const struct limpet_glibc_figures *figures = &arena->figures;
	const uint64_t most = figures->returned_bytes - figures->brk_returned_bytes;
	const uint64_t kept =
		arena->returns.is_cut ? arena->locked_bytes : arena->locked_returned_bytes;

	return kept < most ? kept : most;
}

static uint64_t returned_by_trim(const struct limpet_glibc_arena *arena)
{
	return arena->figures.returned_bytes - kept_by_lock(arena);
}

static bool is_locked(const struct limpet_glibc_arena *arena)
{
	return arena->locked_bytes > arena->figures.resident_bytes / 2;
}

static void limit(uint64_t *bytes, uint64_t most)
{
	if (*bytes > most)
		*bytes = most;
}

/* What is resident of an arena is no more than what the kernel counts of its mappings: it may have
 * been given back meanwhile, and huge pages (hugetlb) are no part of RSS. */
static void limit_arenas(struct limpet_glibc_heaps *heaps)
{
	for (size_t i = 0; i < heaps->count; i++) {
		struct limpet_glibc_figures *figures = &heaps->list[i].figures;

		limit(&figures->resident_bytes, heaps->list[i].counted_bytes);
		limit(&figures->free_resident_bytes, figures->resident_bytes);
		limit(&figures->cache_bytes,
		      figures->resident_bytes - figures->free_resident_bytes);
		limit(&figures->top_resident_bytes, figures->free_resident_bytes);
		limit(&figures->returned_bytes, figures->free_resident_bytes);
		limit(&figures->brk_returned_bytes, figures->returned_bytes);
	}
}

static void sum_arena(struct limpet_explain_glibc *sum, const struct limpet_glibc_arena *arena,
		      bool has_swap)
{
	const struct limpet_glibc_figures *figures = &arena->figures;
	const uint64_t used = figures->resident_bytes - figures->free_resident_bytes;

	sum->arenas++;
	sum->system_bytes += arena->state.system_bytes;
	sum->locked |= is_locked(arena);
	sum->fast_whole &= arena->known && arena->fast_whole;
	if (!arena->known) {
		sum->unknown_arenas++;
		/* Without any swapped page it was rather given back. */
		sum->absent_arenas += arena->unread == LIMPET_UNREAD_ABSENT && has_swap;
		sum->broken_arenas +=
			arena->unread == LIMPET_UNREAD_BROKEN ||
			(arena->unread == LIMPET_UNREAD_ABSENT && !has_swap && arena->is_steady);
		sum->late_arenas += arena->unread == LIMPET_UNREAD_LATE;
		sum->unread_bytes += figures->resident_bytes;
		return;
	}
	sum->free_bytes += figures->free_bytes;
	sum->fast_bytes += figures->fast_bytes;
	sum->cache_bytes += figures->cache_bytes;
	sum->caches_known |= figures->caches > 0 || !arena->state.layout->has_caches;
	sum->resident_bytes += figures->resident_bytes;
	sum->free_resident_bytes += figures->free_resident_bytes;
	sum->returned_bytes += returned_by_trim(arena);
	sum->kept_by_lock_bytes += kept_by_lock(arena);
	sum->chunks += figures->chunks;
	sum->free_chunks += figures->free_chunks;
	if (arena->is_main) {
		sum->top_bytes += figures->top_bytes;
		sum->main_top_resident_bytes += figures->top_resident_bytes;
	} else {
		sum->other_top_resident_bytes += figures->top_resident_bytes;
		sum->other_free_resident_bytes += figures->free_resident_bytes;
	}
	if (figures->resident_bytes >= EMPTY_LEAST_BYTES &&
	    used < figures->resident_bytes / EMPTY_SHARE)
		sum->empty_arenas++;
}

static int sum_glibc(const struct limpet_glibc_heaps *heaps, struct limpet_explanation *ret)
{
	struct limpet_explain_glibc *sum = &ret->glibc;

	ret->has_glibc = heaps->count > 0;
	sum->fast_whole = !heaps->is_cut;
	ret->arenas = calloc(heaps->count + 1, sizeof(*ret->arenas));
	if (!ret->arenas)
		return -ENOMEM;
	for (size_t i = 0; i < heaps->count; i++) {
		const struct limpet_glibc_arena *arena = &heaps->list[i];

		sum_arena(sum, arena, ret->swap_bytes > 0);
		ret->arenas[i] = (struct limpet_explain_arena){
			.address = arena->state.address,
			.is_main = arena->is_main,
			.known = arena->known,
			.system_known = arena->state.layout != NULL,
			.system_bytes = arena->state.system_bytes,
			.resident_bytes = arena->figures.resident_bytes,
			.free_bytes = arena->figures.free_resident_bytes,
			.top_bytes = arena->figures.top_resident_bytes,
			.returned_bytes = returned_by_trim(arena)};
	}
	sum->listed = !heaps->is_cut;
	sum->whole = sum->listed && !sum->unknown_arenas;
	sum->caches_known = sum->whole && (sum->caches_known || !sum->system_bytes);
	sum->mmapped_known = heaps->mmapped_known;
	sum->mmapped_bytes = heaps->mmapped_bytes;
	return 0;
}

/* What is free of each of the two accounts of glibc's arenas. */
static void retain(const struct limpet_glibc_heaps *heaps, bool is_main, const char *kind,
		   struct limpet_explanation *explanation)
{
	struct limpet_account *account = limpet_accounts_find(explanation, kind, NULL);
	bool known = true;
	uint64_t returned = 0;

	if (!account)
		return;
	account->count = 0;
	for (size_t i = 0; i < heaps->count; i++) {
		const struct limpet_glibc_arena *arena = &heaps->list[i];

		if (arena->is_main != is_main)
			continue;
		account->count++;
		known = known && arena->known;
		if (!arena->known)
			continue;
		account->retained_bytes += arena->figures.free_resident_bytes;
		returned += returned_by_trim(arena);
	}
	account->retained_known = known;
	if (account->retained_bytes > account->bytes)
		account->retained_bytes = account->bytes;
	if (returned)
		account->remedy = "malloc_trim(0)";
}

/* Large blocks are recognized by two words at the start of a page. If that gives more than glibc
 * itself has counted, the rest belongs to somebody else. */
static void limit_mmapped(const struct limpet_glibc_heaps *heaps, struct limpet_accounts *accounts)
{
	struct limpet_account *account =
		limpet_accounts_find(accounts->explanation, LIMPET_KIND_GLIBC_MMAPPED, NULL);
	uint64_t surplus;

	if (!account || !heaps->mmapped_known || account->bytes <= heaps->mmapped_bytes)
		return;
	surplus = account->bytes - heaps->mmapped_bytes;
	account->bytes = heaps->mmapped_bytes;
	limpet_accounts_add(accounts, LIMPET_KIND_UNKNOWN, LIMPET_OWNER_UNKNOWN, surplus, 0);
	accounts->explanation->unknown_bytes += surplus;
}

static void retain_in(const char *kind, uint64_t bytes, const char *remedy,
		      struct limpet_explanation *explanation)
{
	struct limpet_account *account = limpet_accounts_find(explanation, kind, NULL);

	if (!account)
		return;
	account->retained_known = true;
	account->retained_bytes = bytes < account->bytes ? bytes : account->bytes;
	account->remedy = remedy;
}

static void retain_tcmalloc(const struct inquiry *inquiry, struct limpet_explanation *explanation)
{
	struct limpet_account *account =
		limpet_accounts_find(explanation, LIMPET_KIND_TCMALLOC, LIMPET_OWNER_TCMALLOC);
	const uint64_t bytes = inquiry->marked.tcmalloc_bytes;

	if (!account || !inquiry->gperftools.classes.count)
		return;
	account->retained_known = true;
	account->retained_bytes = bytes < account->bytes ? bytes : account->bytes;
}

static void retain_v8(const struct limpet_runtimes_marked *marked,
		      struct limpet_explanation *explanation)
{
	for (size_t i = 0; i < marked->v8_count; i++) {
		struct limpet_account *account =
			limpet_accounts_find(explanation, LIMPET_KIND_V8, marked->v8[i].owner);

		if (!account)
			continue;
		account->retained_known = true;
		account->retained_bytes = marked->v8[i].free_bytes < account->bytes
						  ? marked->v8[i].free_bytes
						  : account->bytes;
	}
}

/* ------------------------------------------------------------------ names */

/* Appends "NAME in FILE" for libraries of allocators. */
static void name_libraries(const struct limpet_modules *modules, char *ret, size_t room)
{
	for (size_t i = 0; i < modules->count; i++) {
		const char *path = modules->list[i].path, *slash = strrchr(path, '/');
		const char *name = limpet_allocator_of_library(path);
		size_t used = strlen(ret);

		if (name && slash)
			snprintf(ret + used, room - used, "%s%s in %s", used ? ", " : "", name,
				 slash + 1);
	}
}

static void name_others(const struct inquiry *inquiry, struct limpet_explanation *explanation)
{
	const uint64_t bytes = explanation->unknown_bytes;
	char named[sizeof(explanation->others)];

	/* A heap that is in the table is recognized. The files of all modules are searched. */
	if (bytes < NAMED_LEAST_BYTES || bytes < explanation->rss_bytes / 20 ||
	    inquiry->jemalloc.count || inquiry->tcmalloc.ranges.count ||
	    inquiry->gperftools.count || limpet_accounts_bytes(explanation, LIMPET_KIND_MIMALLOC))
		return;
	name_libraries(&inquiry->modules, explanation->others, sizeof(explanation->others));
	explanation->others_are_libraries = explanation->others[0] != '\0';
	if (explanation->others_are_libraries)
		return;
	limpet_memory_owners_name(&inquiry->modules, NULL, "", NULL, named, sizeof(named));
	snprintf(explanation->others, sizeof(explanation->others), "%s", named);
	explanation->glibc_unrecognized =
		!named[0] && inquiry->heaps.has_library && !inquiry->heaps.count;
}

/* glibc keeps 40 MiB of stacks for new threads, and unmaps what is more, unless somebody may still
 * join the thread. */
static void name_unjoined(struct limpet_explanation *explanation)
{
	struct limpet_account *ended =
		limpet_accounts_find(explanation, LIMPET_KIND_STACKS, LIMPET_OWNER_ENDED);

	if (ended && explanation->ended_stack_bytes > KEPT_STACK_BYTES)
		snprintf(ended->owner, sizeof(ended->owner), LIMPET_OWNER_UNJOINED);
}

/* Those of which little is resident are one account. */
static void gather_small_files(struct limpet_accounts *accounts)
{
	struct limpet_explanation *explanation = accounts->explanation;
	uint64_t bytes = 0;

	for (size_t i = 0; i < explanation->account_count; i++) {
		struct limpet_account *account = &explanation->accounts[i];

		if (strcmp(account->kind, LIMPET_KIND_DATA_FILES) != 0 ||
		    account->bytes >= NAMED_FILE_BYTES)
			continue;
		bytes += account->bytes;
		account->bytes = 0; /* it goes when they are sorted */
	}
	if (bytes)
		limpet_accounts_add(accounts, LIMPET_KIND_DATA_FILES, "small files, mapped", bytes,
				    0);
}

static bool is_nim(const struct limpet_program *program)
{
	return program->is_nim ||
	       (program->own_allocator && limpet_begins(program->own_allocator, "Nim"));
}

/* A runtime that maps its heap itself, in no form that is recognized: what is of no known owner is
 * its own, but for what a library of the program may have mapped. */
static void name_rest(const struct inquiry *inquiry, struct limpet_explanation *explanation)
{
	struct limpet_account *rest =
		limpet_accounts_find(explanation, LIMPET_KIND_UNKNOWN, LIMPET_OWNER_UNKNOWN);
	struct limpet_program program = {.runtime = NULL};
	LIMPET_CLOSE int fd = -1;

	if (!rest || rest->bytes < NAMED_LEAST_BYTES || rest->bytes < explanation->rss_bytes / 20 ||
	    explanation->others_are_libraries)
		return;
	if (limpet_begins(explanation->name, "beam.")) {
		rest->kind = LIMPET_KIND_ERLANG;
		snprintf(rest->owner, sizeof(rest->owner), "Erlang: carriers, and other mappings");
	} else {
		fd = limpet_proc_open(inquiry->target, "exe", O_RDONLY);
		if (fd < 0 || limpet_program_read(fd, &program) < 0 || !is_nim(&program))
			return;
		rest->kind = LIMPET_KIND_NIM;
		snprintf(rest->owner, sizeof(rest->owner), "Nim: heap, and other mappings");
	}
	explanation->unknown_bytes = 0;
	explanation->unknown_mapping_count = 0;
	explanation->others[0] = '\0';
}

/* ------------------------------------------------------------------ all */

static void set_class_heaps(const struct inquiry *inquiry, struct limpet_class_heaps *ret_heaps)
{
	const struct limpet_gperftools *gperftools = &inquiry->gperftools;
	const bool is_known = gperftools->count && gperftools->classes.count;

	*ret_heaps =
		(struct limpet_class_heaps){.jemalloc_root = inquiry->jemalloc.root,
					    .mimalloc = inquiry->marked.mimalloc,
					    .arenas = inquiry->marked.arenas,
					    .gperftools_root = is_known ? gperftools->root : 0,
					    .gperftools_classes = gperftools->classes,
					    .has_tcmalloc = inquiry->tcmalloc.ranges.count > 0 ||
							    (gperftools->count && !is_known)};
}

static int account_for(struct inquiry *inquiry, struct limpet_explanation *explanation)
{
	const struct limpet_mappings_facts facts = {.memory = inquiry->memory,
						    .maps = &inquiry->maps,
						    .modules = &inquiry->modules,
						    .heaps = &inquiry->heaps,
						    .ranges = &inquiry->ranges,
						    .threads = &inquiry->threads,
						    .mounts = &inquiry->mounts,
						    .has_v8 = inquiry->marked.v8_count > 0};
	struct limpet_accounts accounts = {.explanation = explanation};
	int error = limpet_mappings_account(&inquiry->smaps, &facts, &accounts);

	if (error)
		return error;
	limit_arenas(&inquiry->heaps);
	error = sum_glibc(&inquiry->heaps, explanation);
	if (error)
		return error;
	set_class_heaps(inquiry, &explanation->class_heaps);
	/* It may add to what is of no known owner. */
	limit_mmapped(&inquiry->heaps, &accounts);
	name_others(inquiry, explanation);
	name_rest(inquiry, explanation);
	name_unjoined(explanation);
	gather_small_files(&accounts);
	retain(&inquiry->heaps, true, LIMPET_KIND_GLIBC_MAIN, explanation);
	retain(&inquiry->heaps, false, LIMPET_KIND_GLIBC_ARENAS, explanation);
	retain_in(LIMPET_KIND_PYTHON, inquiry->marked.python_bytes, NULL, explanation);
	retain_v8(&inquiry->marked, explanation);
	retain_in(LIMPET_KIND_JEMALLOC, inquiry->marked.jemalloc_bytes, NULL, explanation);
	retain_in(LIMPET_KIND_JEMALLOC_FREE, UINT64_MAX, LIMPET_REMEDY_PURGE, explanation);
	retain_in(LIMPET_KIND_JEMALLOC_LOCKED, UINT64_MAX, NULL, explanation);
	retain_in(LIMPET_KIND_JEMALLOC_RETAINED, UINT64_MAX, NULL, explanation);
	retain_tcmalloc(inquiry, explanation);
	retain_in(LIMPET_KIND_TCMALLOC_FREE, UINT64_MAX, LIMPET_REMEDY_RELEASE, explanation);
	explanation->late = limpet_process_reader_was_cut(inquiry->process) ||
			    inquiry->jemalloc.is_cut || inquiry->tcmalloc.is_cut ||
			    inquiry->gperftools.is_cut || inquiry->go_cut;
	error = limpet_accounts_sort(&accounts);
	return error ? error : limpet_verdicts_make(explanation);
}

static int fail(const struct limpet_target *target, int error, struct limpet_err *err)
{
	(void)limpet_proc_explain(target->pid, error, "read the memory of", err);
	if (error == -EACCES || error == -EPERM)
		limpet_err_hint(
			err, geteuid() ? "sudo limpet explain %d" : "`limpet doctor %d` says why",
			target->pid);
	return error;
}

/* Whether it is a process with memory. */
static int begin(const struct limpet_target *target, struct limpet_proc_status *ret_status,
		 struct limpet_err *err)
{
	int error = limpet_proc_status_read(target->pid, ret_status);

	if (error == -ESRCH) {
		limpet_err_set(err, error, "no process has the pid %d", target->pid);
		limpet_err_hint(err, "find it with `pidof NAME` or `limpet doctor`");
		return error;
	}
	if (error)
		return fail(target, error, err);
	if (ret_status->kernel_thread)
		return limpet_err_set(err, -EINVAL, "process %d is a thread of the kernel",
				      target->pid);
	if (ret_status->tgid != target->pid) {
		limpet_err_set(err, -EINVAL, "%d is a thread of process %d", target->pid,
			       ret_status->tgid);
		limpet_err_hint(err, "limpet explain %d", ret_status->tgid);
		return -EINVAL;
	}
	if (limpet_proc_refuse_zombie(target->pid, ret_status, err))
		return -ESRCH;
	error = limpet_target_check(target);
	return error ? fail(target, error, err) : 0;
}

int limpet_explain_within(const struct limpet_target *target, uint64_t reads,
			  struct limpet_explanation *ret_explanation, struct limpet_err *err)
{
	struct limpet_explanation explanation = {.pid = target->pid};
	struct inquiry inquiry = {.target = target};
	struct limpet_proc_status status;
	int identity_error, error = begin(target, &status, err);

	if (error)
		return error;
	memcpy(explanation.name, status.name, sizeof(explanation.name));
	explanation.vm_rss_bytes = status.rss_bytes;
	error = inquire(&inquiry, reads);
	if (!error)
		error = account_for(&inquiry, &explanation);
	/* Whatever was found then, it is of neither program. */
	identity_error = limpet_target_check(target);
	if (identity_error)
		error = identity_error;
	inquiry_done(&inquiry);
	if (error) {
		limpet_explanation_done(&explanation);
		return fail(target, error, err);
	}
	*ret_explanation = explanation;
	return 0;
}

int limpet_explain(const struct limpet_target *target, struct limpet_explanation *ret_explanation,
		   struct limpet_err *err)
{
	return limpet_explain_within(target, LIMPET_MEMORY_READER_READS, ret_explanation, err);
}

void limpet_explanation_done(struct limpet_explanation *explanation)
{
	free(explanation->accounts);
	free(explanation->verdicts);
	free(explanation->arenas);
	explanation->accounts = NULL;
	explanation->verdicts = NULL;
	explanation->arenas = NULL;
}

int limpet_explanation_account(const struct limpet_explanation *explanation,
			       struct limpet_resident_account *ret_account)
{
	const size_t count = explanation->account_count;
	struct limpet_resident_row *rows = calloc(count + 1, sizeof(*rows));

	if (!rows)
		return -ENOMEM;
	for (size_t i = 0; i < count; i++) {
		const struct limpet_account *from = &explanation->accounts[i];

		rows[i] = (struct limpet_resident_row){.bytes = from->bytes,
						       .count = from->count,
						       .free_known = from->retained_known,
						       .free_bytes = from->retained_bytes};
		snprintf(rows[i].kind, sizeof(rows[i].kind), "%s", from->kind);
		snprintf(rows[i].owner, sizeof(rows[i].owner), "%s", from->owner);
	}
	*ret_account =
		(struct limpet_resident_account){.known = true,
						 .rss_bytes = explanation->rss_bytes,
						 .trimmed_bytes = explanation->glibc.returned_bytes,
						 .rows = rows,
						 .count = count};
	return 0;
}
