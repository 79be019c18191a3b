/* Preflight: what kind of program this is, and how the agent would be loaded. */
#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>

#include "common/open_file.h"
#include "injector/elf/elf_file.h"
#include "injector/elf/preflight_allocators.h"
#include "injector/preflight/preflight_check.h"
#include "injector/proc/memfd.h"
#include "injector/proc/proc.h"
#include "injector/proc/target_process.h"

/* A process whose memory may not be read, or that was refused, is not examined further. */
struct limpet_attach_plan *limpet_check_plan(struct limpet_check *check)
{
	if (check->options.quick || check->out->verdict != LIMPET_PREFLIGHT_OK)
		return NULL;
	if (!check->examined)
		check->plan_error = limpet_attach_plan_new(check->target, &check->options.config,
							   &check->plan, NULL);
	check->examined = true;
	return check->plan;
}

/* A C library that glibc's lists do not show: before 2.35 they lacked those of other namespaces. */
static void check_other_libcs(struct limpet_check *check, struct limpet_modules *modules)
{
	for (size_t i = 0; i < modules->count; i++) {
		struct limpet_module *module = &modules->list[i];
		const char *name = strrchr(module->path, '/');

		if (module->in_list || !name || strcmp(name, "/libc.so.6") != 0)
			continue;
		limpet_check_add(check, LIMPET_FINDING_WARNING, "other-libc", "a second libc",
				 "it has modules in a namespace of their own (dlmopen) that its C "
				 "library does not show: what they allocate is not seen");
		return;
	}
}

static void report_method(struct limpet_check *check, const struct limpet_attach_plan *plan)
{
	switch (plan->hooks.method) {
	case LIMPET_METHOD_ANY: /* until what is in the way is removed */
	case LIMPET_METHOD_MAP:
		limpet_check_add(check, LIMPET_FINDING_OK, "agent", "",
				 "the agent is mapped; it sets its hooks while the program runs");
		break;
	case LIMPET_METHOD_DLOPEN:
		limpet_check_add(check, LIMPET_FINDING_OK, "agent", "",
				 "the agent is loaded by the program's own dlopen (%s), which for "
				 "a moment has two descriptors with the lowest free numbers",
				 plan->hooks.reason);
		break;
	case LIMPET_METHOD_OUTSIDE:
		limpet_check_add(check, LIMPET_FINDING_NOTE, "agent", "", LIMPET_PLAN_OUTSIDE,
				 plan->hooks.reason);
		break;
	}
	limpet_check_add(check, LIMPET_FINDING_OK, "visible", "",
			 "a program that checks itself would see a tracer for the moments of "
			 "attach and detach%s",
			 plan->entries.count ? ", and its code changed between them" : "");
}

/* What an earlier limpet left is removed first: until then slots lead there, and there is nothing
 * that could be planned. So it is if another limpet attaches at this moment, after the modules were
 * read. */
static bool has_agent(pid_t pid)
{
	struct limpet_maps maps;
	bool found = false;

	if (limpet_proc_maps_read(pid, &maps) < 0)
		return false;
	for (size_t i = 0; i < maps.count && !found; i++)
		found = limpet_memfd_is_agent(maps.list[i].path);
	limpet_proc_maps_done(&maps);
	return found;
}

/* Reads memory, so as to examine the library that runs, not one that was installed later. If a
 * program's list of modules cannot be read, this check adds nothing: the attach will report it. */
static int check_loader(struct limpet_check *check)
{
	struct limpet_attach_plan *plan;

	if (check->out->verdict != LIMPET_PREFLIGHT_OK)
		return 0;
	plan = limpet_check_plan(check);
	if (!plan)
		return check->plan_error == -ENOMEM ? -ENOMEM : 0;
	if (!plan->error || (plan->error == -ENOENT && has_agent(check->target->pid))) {
		report_method(check, plan);
	} else if (plan->error == -ENOTSUP) {
		limpet_check_refuse(check, -ENOTSUP, "agent", "no dlopen", "%s", plan->err.message);
		limpet_check_hint(check, "%s", plan->err.hint);
	} else if (plan->error == -ENOENT) {
		limpet_check_refuse(check, -ENOENT, "calls", "no calls to hook", "%s",
				    plan->err.message);
		if (plan->err.hint[0])
			limpet_check_hint(check, "%s", plan->err.hint);
		else
			limpet_check_hint_pages(check, "", "");
	}
	if (plan->modules.r_debug)
		check_other_libcs(check, &plan->modules);
	return 0;
}

static void refuse_unreadable(struct limpet_check *check, int error)
{
	limpet_check_refuse(
		check, error, "executable", "unreadable", "its executable cannot be read: %s",
		error == -ETIMEDOUT ? "its file system does not answer" : strerror(-error));
	limpet_check_hint(check, "see what it is: sudo file -L /proc/%d/exe", check->target->pid);
}

static void refuse_processor(struct limpet_check *check, unsigned bits)
{
	if (bits == 32 && sizeof(void *) == 8)
		limpet_check_refuse(check, -ENOTSUP, "elf-class", "32-bit",
				    "it is a 32-bit program");
	else
		limpet_check_refuse(check, -ENOTSUP, "elf-class", "other processor",
				    "it is a program for another kind of processor");
	limpet_check_hint(check, "a build of the program for this machine's processor works");
}

int limpet_check_processor(struct limpet_check *check)
{
	char process[PATH_MAX];
	struct limpet_elf_file *file;
	LIMPET_CLOSE int fd = -1;
	int error;

	snprintf(process, sizeof(process), "%s/%d", limpet_proc_root, check->resident);
	fd = limpet_open_linked(process, "exe", NULL);
	error = fd < 0 ? fd : limpet_elf_file_open(fd, &file);
	if (error == -ENOMEM || error == -ESRCH)
		return error;
	if (error) {
		refuse_unreadable(check, error);
		return 0;
	}
	if (!limpet_elf_file_is_native(file))
		refuse_processor(check, limpet_elf_file_bits(file));
	limpet_elf_file_free(file);
	return 0;
}

static void refuse_loader(struct limpet_check *check)
{
	limpet_check_refuse(check, -ENOTSUP, "static", "dynamic linker",
			    "it is a dynamic linker, and has not loaded its program yet");
	limpet_check_hint(check, "limpet run PROGRAM, without the linker, or limpet attach once it "
				 "runs");
}

int limpet_check_program(struct limpet_check *check)
{
	struct limpet_program program = {0};
	bool loaded;
	int error;

	if (limpet_check_translator(check))
		return 0;
	error = limpet_check_read_program(check, &program);
	if (error == -ENOMEM || error == -ESRCH)
		return error;
	if (error < 0) {
		refuse_unreadable(check, error);
		return 0;
	}
	if (!program.native) {
		refuse_processor(check, program.bits);
		return 0;
	}
	if (!program.interpreter[0] && limpet_check_is_loader_by_hand(check, &loaded)) {
		if (!loaded) {
			refuse_loader(check);
			return 0;
		}
		/* musl's has a malloc, and is a library here like others. */
		program.own_allocator = NULL;
		program.own_malloc = false;
	}
	limpet_check_libc(check, &program);
	limpet_check_libraries(check, &program);
	/* After a refusal nothing more is reported. */
	if (check->out->libc[0])
		limpet_check_own_allocator(check, &program);
	limpet_check_listed(check);
	limpet_check_unfollowed(check);
	return check_loader(check);
}
