#include "test/torture/chains_unwind.h"

#include <elfutils/libdwfl.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "injector/proc/memory.h"
#include "injector/proc/proc.h"

#define PAGE 4096u
#define PAGES 512u /* a power of 2 */
#define AT_ONCE (16u * PAGE)

/* Pages of the target's stack, as they are at one stop. */
struct page {
	uint64_t address; /* 0: empty */
	uint64_t stop;
	uint8_t bytes[PAGE];
};

struct other_unwinder {
	pid_t pid;
	Dwfl *dwfl;
	uint64_t stop, modules; /* hash of what is loaded */
	const struct user_regs_struct *registers;
	struct page pages[PAGES];
	uint8_t bulk[AT_ONCE];
};

struct walk {
	struct chain *chain;
	uint32_t max;
	bool interrupted; /* the frame before was the kernel's, made for a signal */
};

static struct page *page_of(struct other_unwinder *unwinder, uint64_t address)
{
	return &unwinder->pages[address / PAGE & (PAGES - 1)];
}

static bool read_pages(struct other_unwinder *unwinder, uint64_t address, size_t bytes)
{
	ssize_t got = limpet_memory_read_some(unwinder->pid, address, unwinder->bulk, bytes);

	for (size_t at = 0; got > 0 && at + PAGE <= (size_t)got; at += PAGE) {
		struct page *page = page_of(unwinder, address + at);

		page->address = address + at;
		page->stop = unwinder->stop;
		memcpy(page->bytes, unwinder->bulk + at, PAGE);
	}
	return got >= (ssize_t)PAGE;
}

static bool read_word(Dwfl *dwfl, Dwarf_Addr address, Dwarf_Word *result, void *context)
{
	struct other_unwinder *unwinder = context;
	uint64_t start = address & ~(uint64_t)(PAGE - 1);
	struct page *page = page_of(unwinder, start);

	(void)dwfl;
	if (address - start > PAGE - sizeof(*result))
		return limpet_memory_read(unwinder->pid, address, result, sizeof(*result)) == 0;
	if ((page->address != start || page->stop != unwinder->stop) &&
	    !read_pages(unwinder, start, PAGE))
		return false;
	memcpy(result, page->bytes + (address - start), sizeof(*result));
	return true;
}

static pid_t next_thread(Dwfl *dwfl, void *context, void **argument)
{
	struct other_unwinder *unwinder = context;

	(void)dwfl;
	if (*argument)
		return 0;
	*argument = unwinder;
	return unwinder->pid;
}

static bool get_thread(Dwfl *dwfl, pid_t tid, void *context, void **argument)
{
	(void)dwfl;
	(void)tid;
	*argument = context;
	return true;
}

/* As they are in the caller, whose frame is taken for one that was interrupted at the last byte of
 * its call: that is where the row for a frame that has called somebody is looked up. */
static bool set_registers(Dwfl_Thread *thread, void *argument)
{
	const struct other_unwinder *unwinder = argument;
	const struct user_regs_struct *r = unwinder->registers;
	Dwarf_Word return_address;
	const Dwarf_Word words[] = {r->rax, r->rdx, r->rcx, r->rbx,
				    r->rsi, r->rdi, r->rbp, r->rsp + sizeof(return_address),
				    r->r8,  r->r9,  r->r10, r->r11,
				    r->r12, r->r13, r->r14, r->r15};

	if (!read_word(NULL, r->rsp, &return_address, argument))
		return false;
	dwfl_thread_state_register_pc(thread, return_address - 1);
	return dwfl_thread_state_registers(thread, 0, sizeof(words) / sizeof(words[0]), words);
}

static int no_debug_file(Dwfl_Module *module, void **data, const char *name, Dwarf_Addr base,
			 const char *file, const char *link, GElf_Word crc, char **ret_name)
{
	(void)module;
	(void)data;
	(void)name;
	(void)base;
	(void)file;
	(void)link;
	(void)crc;
	(void)ret_name;
	return -1;
}

static int refresh(struct other_unwinder *unwinder)
{
	static const Dwfl_Callbacks callbacks = {
		.find_elf = dwfl_linux_proc_find_elf,
		.find_debuginfo = no_debug_file,
	};
	static const Dwfl_Thread_Callbacks threads = {
		.next_thread = next_thread,
		.get_thread = get_thread,
		.memory_read = read_word,
		.set_initial_registers = set_registers,
	};

	if (unwinder->dwfl)
		dwfl_end(unwinder->dwfl);
	unwinder->dwfl = dwfl_begin(&callbacks);
	if (!unwinder->dwfl)
		return -ENOMEM;
	if (dwfl_linux_proc_report(unwinder->dwfl, unwinder->pid) ||
	    dwfl_report_end(unwinder->dwfl, NULL, NULL) ||
	    !dwfl_attach_state(unwinder->dwfl, NULL, unwinder->pid, &threads, unwinder))
		return -ENOEXEC;
	return 0;
}

/* Of the code that is mapped from files. */
static uint64_t hash_modules(pid_t pid)
{
	uint64_t hash = 1;
	char *text = NULL, *line, *rest;
	size_t bytes;

	if (limpet_proc_file_read(pid, "maps", &text, &bytes))
		return 0;
	for (line = strtok_r(text, "\n", &rest); line; line = strtok_r(NULL, "\n", &rest)) {
		bool code = strstr(line, " r-xp ") && strchr(line, '/');

		for (const char *at = line; code && *at; at++)
			hash = (hash ^ (uint8_t)*at) * 0x100000001b3ull;
	}
	free(text);
	return hash;
}

int other_unwinder_new(pid_t pid, struct other_unwinder **ret)
{
	struct other_unwinder *unwinder = calloc(1, sizeof(*unwinder));
	int error;

	if (!unwinder)
		return -ENOMEM;
	unwinder->pid = pid;
	error = refresh(unwinder);
	if (error)
		other_unwinder_free(unwinder);
	else
		*ret = unwinder;
	return error;
}

void other_unwinder_free(struct other_unwinder *unwinder)
{
	if (!unwinder)
		return;
	if (unwinder->dwfl)
		dwfl_end(unwinder->dwfl);
	free(unwinder);
}

/* libdwfl calls both frames of a signal "activations": the kernel's, which the handler returns to,
 * and the one that was interrupted. Only the latter has not called. */
static int note_frame(Dwfl_Frame *frame, void *context)
{
	struct walk *walk = context;
	struct chain *chain = walk->chain;
	Dwarf_Addr pc;
	bool exact;

	if (chain->count == walk->max || !dwfl_frame_pc(frame, &pc, &exact))
		return DWARF_CB_ABORT;
	if (chain->count == 0) {
		pc++;
	} else if (exact) {
		pc += walk->interrupted;
		walk->interrupted = !walk->interrupted;
	} else {
		walk->interrupted = false;
	}
	chain->pcs[chain->count++] = pc;
	return DWARF_CB_OK;
}

void other_unwinder_walk(struct other_unwinder *unwinder, const struct user_regs_struct *registers,
			 uint32_t max, struct chain *ret_chain)
{
	struct walk walk = {ret_chain, max < CHAIN_MAX ? max : CHAIN_MAX, false};
	uint64_t modules = hash_modules(unwinder->pid);

	ret_chain->count = 0;
	ret_chain->whole = false;
	if (modules != unwinder->modules && refresh(unwinder))
		return;
	unwinder->modules = modules;
	unwinder->stop++;
	unwinder->registers = registers;
	read_pages(unwinder, registers->rsp & ~(uint64_t)(PAGE - 1), AT_ONCE);
	ret_chain->whole =
		dwfl_getthread_frames(unwinder->dwfl, unwinder->pid, note_frame, &walk) == 0;
}

void other_unwinder_name(struct other_unwinder *unwinder, uint64_t pc, char *ret, size_t bytes)
{
	Dwfl_Module *module = dwfl_addrmodule(unwinder->dwfl, pc - 1);
	const char *name = NULL, *file = "no module";
	Dwarf_Addr start = 0;

	if (module) {
		file = dwfl_module_info(module, NULL, &start, NULL, NULL, NULL, NULL, NULL);
		name = dwfl_module_addrname(module, pc - 1);
	}
	snprintf(ret, bytes, "%#lx %s+%#lx %s", (unsigned long)pc, file,
		 (unsigned long)(pc - start), name ? name : "?");
}
