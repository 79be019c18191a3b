#include "injector/libunwind_walk.h"

#include <errno.h>
#include <libunwind-ptrace.h>
#include <string.h>

#include "injector/memory.h"

/* In libunwind's library, without a public header. */
int _Ux86_64_dwarf_search_unwind_table(unw_addr_space_t as, unw_word_t ip, unw_dyn_info_t *di,
				       unw_proc_info_t *pi, int need_unwind_info, void *arg);
#define dwarf_search_unwind_table _Ux86_64_dwarf_search_unwind_table

/* Words of the target that one walk may read: an expression can go round, and a program can be as
 * long as there is memory. A real walk reads some thousands. */
#define MAX_READS 200000u

struct source {
	unsigned reads;
	pid_t pid;
	const struct limpet_modules *modules;
	const struct user_regs_struct *regs;
	const struct limpet_walk_copy *stack;
};

/* .eh_frame_hdr: version, three encodings, address of .eh_frame, count, table of pairs. */
struct frame_header {
	uint8_t version, frame_encoding, count_encoding, table_encoding;
	int32_t frame;
	uint32_t count;
} __attribute__((packed));
#define ENCODING_UDATA4 0x03
#define ENCODING_DATAREL_SDATA4 0x3b

static int find_proc_info(unw_addr_space_t as, unw_word_t ip, unw_proc_info_t *info, int need,
			  void *argument)
{
	const struct source *source = argument;
	const struct limpet_module *module = limpet_modules_find(source->modules, ip);
	struct frame_header header;
	unw_dyn_info_t dynamic;

	if (!module || !module->eh_frame_hdr ||
	    limpet_memory_read(source->pid, module->eh_frame_hdr, &header, sizeof(header)) < 0 ||
	    header.version != 1 || header.count_encoding != ENCODING_UDATA4 ||
	    header.table_encoding != ENCODING_DATAREL_SDATA4)
		return -UNW_ENOINFO;
	memset(&dynamic, 0, sizeof(dynamic));
	dynamic.format = UNW_INFO_FORMAT_REMOTE_TABLE;
	dynamic.start_ip = module->start;
	dynamic.end_ip = module->end;
	dynamic.u.rti.segbase = module->eh_frame_hdr;
	dynamic.u.rti.table_data = module->eh_frame_hdr + sizeof(header);
	dynamic.u.rti.table_len = (unw_word_t)header.count * 8 / sizeof(unw_word_t);
	return dwarf_search_unwind_table(as, ip, &dynamic, info, need, argument);
}

static void put_unwind_info(unw_addr_space_t as, unw_proc_info_t *info, void *argument)
{
	/* It comes from libunwind's own pool. */
	(void)as;
	(void)info;
	(void)argument;
}

static int get_dyn_info_list(unw_addr_space_t as, unw_word_t *address, void *argument)
{
	(void)as;
	(void)address;
	(void)argument;
	return -UNW_ENOINFO;
}

static int access_mem(unw_addr_space_t as, unw_word_t address, unw_word_t *value, int write,
		      void *argument)
{
	struct source *source = argument;

	(void)as;
	if (write || source->reads++ >= MAX_READS)
		return -UNW_EINVAL;
	if (limpet_walk_read_copy(source->stack, address, value))
		return 0;
	return limpet_memory_read(source->pid, address, value, sizeof(*value)) < 0 ? -UNW_EINVAL
										   : 0;
}

static int access_reg(unw_addr_space_t as, unw_regnum_t number, unw_word_t *value, int write,
		      void *argument)
{
	const struct source *source = argument;
	const struct user_regs_struct *regs = source->regs;
	const unw_word_t values[] = {
		[UNW_X86_64_RAX] = regs->rax, [UNW_X86_64_RDX] = regs->rdx,
		[UNW_X86_64_RCX] = regs->rcx, [UNW_X86_64_RBX] = regs->rbx,
		[UNW_X86_64_RSI] = regs->rsi, [UNW_X86_64_RDI] = regs->rdi,
		[UNW_X86_64_RBP] = regs->rbp, [UNW_X86_64_RSP] = regs->rsp,
		[UNW_X86_64_R8] = regs->r8,   [UNW_X86_64_R9] = regs->r9,
		[UNW_X86_64_R10] = regs->r10, [UNW_X86_64_R11] = regs->r11,
		[UNW_X86_64_R12] = regs->r12, [UNW_X86_64_R13] = regs->r13,
		[UNW_X86_64_R14] = regs->r14, [UNW_X86_64_R15] = regs->r15,
		[UNW_X86_64_RIP] = regs->rip,
	};

	(void)as;
	if (write || number < 0 || (size_t)number >= LIMPET_COUNT_OF(values))
		return -UNW_EBADREG;
	*value = values[number];
	return 0;
}

static int access_fpreg(unw_addr_space_t as, unw_regnum_t number, unw_fpreg_t *value, int write,
			void *argument)
{
	(void)as;
	(void)number;
	(void)value;
	(void)write;
	(void)argument;
	return -UNW_EBADREG;
}

static int resume(unw_addr_space_t as, unw_cursor_t *cursor, void *argument)
{
	(void)as;
	(void)cursor;
	(void)argument;
	return -UNW_EINVAL;
}

static int get_proc_name(unw_addr_space_t as, unw_word_t address, char *buffer, size_t bytes,
			 unw_word_t *offset, void *argument)
{
	(void)as;
	(void)address;
	(void)buffer;
	(void)bytes;
	(void)offset;
	(void)argument;
	return -UNW_ENOINFO;
}

int limpet_libunwind_walk(pid_t pid, const struct limpet_modules *modules,
			  const struct user_regs_struct *regs, const struct limpet_walk_copy *stack,
			  uint64_t *ret_pcs, unsigned max, bool *ret_complete)
{
	unw_accessors_t accessors = {
		.find_proc_info = find_proc_info,
		.put_unwind_info = put_unwind_info,
		.get_dyn_info_list_addr = get_dyn_info_list,
		.access_mem = access_mem,
		.access_reg = access_reg,
		.access_fpreg = access_fpreg,
		.resume = resume,
		.get_proc_name = get_proc_name,
	};
	struct source source = {.pid = pid, .modules = modules, .regs = regs, .stack = stack};
	unw_addr_space_t space = unw_create_addr_space(&accessors, 0);
	unw_cursor_t cursor;
	unsigned count = 0;
	int step = -1;

	if (!space)
		return -ENOMEM;
	*ret_complete = false;
	if (unw_init_remote(&cursor, space, &source) < 0) {
		unw_destroy_addr_space(space);
		return -EINVAL;
	}
	do {
		unw_word_t ip = 0;

		if (count == max || unw_get_reg(&cursor, UNW_REG_IP, &ip) < 0 || !ip)
			break;
		ret_pcs[count++] = ip;
		step = unw_step(&cursor);
	} while (step > 0);
	if (step == 0) {
		/* "No more frames" is also its answer where it knows no way on: only a frame with a
		 * description counts as a root. */
		unw_proc_info_t info;

		*ret_complete = count && unw_get_proc_info(&cursor, &info) == 0;
	}
	unw_destroy_addr_space(space);
	return (int)count;
}
