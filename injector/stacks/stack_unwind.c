#include "injector/stacks/stack_unwind.h"

#include <errno.h>
#include <libunwind.h>
#include <string.h>

#include "common/array.h"

/* Words that libunwind may read for one stack: an expression may loop, and a description may be as
 * long as its module. */
#define READS_MOST 4000000u
#define ENTRY_BYTES 8u /* of the search table */

/* The search in a table at an address, for accessors of our own; perf(1) uses it in the same way.
 * No header of libunwind's declares it. */
#define search_table UNW_OBJ(dwarf_search_unwind_table)
int search_table(unw_addr_space_t space, unw_word_t ip, unw_dyn_info_t *info, unw_proc_info_t *ret,
		 int need_unwind_info, void *context);

struct unwinding {
	const struct limpet_stack_scene *scene;
	struct limpet_walk_copy stack;
	uint64_t
		registers[LIMPET_ARCH_UNWIND_REGISTERS]; /* of the frame at which libunwind began */
	unw_addr_space_t space;
	unw_cursor_t cursor;
	bool begun; /* the cursor is at the current frame */
	uint32_t reads_left;
	struct limpet_walk_frame frame;
	enum limpet_stack_finder finder;
};

static const struct limpet_stack_module *find_module(const struct limpet_stack_scene *scene,
						     uint64_t address)
{
	const size_t at =
		LIMPET_PARTITION_POINT(i, scene->module_count, scene->modules[i].end <= address);

	return at < scene->module_count && scene->modules[at].start <= address ? &scene->modules[at]
									       : NULL;
}

/* ------------------------------------------------------------------ what libunwind asks for */

/* A module's other memory reads as zeros. libunwind reads it for the address of a personality
 * routine, and for the code at the program counter; neither is needed. */
static void read_module(const struct limpet_stack_module *module, uint64_t address,
			unw_word_t *ret_word)
{
	const uint64_t offset = address - module->address;
	size_t part = sizeof(*ret_word);

	*ret_word = 0;
	if (offset >= module->bytes)
		return;
	if (part > module->bytes - offset)
		part = module->bytes - offset;
	memcpy(ret_word, module->data + offset, part);
}

static int access_memory(unw_addr_space_t space, unw_word_t address, unw_word_t *word, int write,
			 void *context)
{
	struct unwinding *unwinding = context;
	const struct limpet_stack_module *module;
	uint64_t value;

	(void)space;
	if (write || !unwinding->reads_left)
		return -UNW_EINVAL;
	unwinding->reads_left--;
	if (limpet_walk_read_copy(&unwinding->stack, address, &value)) {
		*word = value;
		return 0;
	}
	module = find_module(unwinding->scene, address);
	if (!module)
		return -UNW_EINVAL;
	read_module(module, address, word);
	return 0;
}

static int access_register(unw_addr_space_t space, unw_regnum_t number, unw_word_t *value,
			   int write, void *context)
{
	const struct unwinding *unwinding = context;

	(void)space;
	if (write || number < 0 || (unsigned)number >= LIMPET_ARCH_UNWIND_REGISTERS)
		return -UNW_EBADREG;
	*value = unwinding->registers[number];
	return 0;
}

static int access_fp_register(unw_addr_space_t space, unw_regnum_t number, unw_fpreg_t *value,
			      int write, void *context)
{
	(void)space, (void)number, (void)value, (void)write, (void)context;
	return -UNW_EBADREG;
}

static int find_info(unw_addr_space_t space, unw_word_t ip, unw_proc_info_t *ret,
		     int need_unwind_info, void *context)
{
	const struct unwinding *unwinding = context;
	const struct limpet_stack_module *module = find_module(unwinding->scene, ip);
	unw_dyn_info_t info = {.format = UNW_INFO_FORMAT_REMOTE_TABLE};

	if (!module || !module->entries)
		return -UNW_ENOINFO;
	info.start_ip = module->start;
	info.end_ip = module->end;
	info.u.rti.segbase = module->header;
	info.u.rti.table_data = module->table;
	info.u.rti.table_len = (uint64_t)module->entries * ENTRY_BYTES / sizeof(unw_word_t);
	return search_table(space, ip, &info, ret, need_unwind_info, context);
}

/* libunwind frees it itself. */
static void put_info(unw_addr_space_t space, unw_proc_info_t *info, void *context)
{
	(void)space, (void)info, (void)context;
}

static int find_registered(unw_addr_space_t space, unw_word_t *ret_address, void *context)
{
	(void)space, (void)ret_address, (void)context;
	return -UNW_ENOINFO;
}

static int resume(unw_addr_space_t space, unw_cursor_t *cursor, void *context)
{
	(void)space, (void)cursor, (void)context;
	return -UNW_EINVAL;
}

/* ------------------------------------------------------------------ a step */

/* Of a return address, the address of the call. */
static uint64_t code_address(const struct limpet_walk_frame *frame)
{
	return frame->pc - !(frame->flags & LIMPET_FRAME_EXACT);
}

/* Puts the cursor at the current frame, to which the walker came. It does not know the other
 * registers; few functions need one to find their caller. */
static bool begin_libunwind(struct unwinding *unwinding)
{
	struct limpet_walk_frame *frame = &unwinding->frame;

	memset(unwinding->registers, 0, sizeof(unwinding->registers));
	unwinding->registers[UNW_TDEP_IP] = code_address(frame);
	unwinding->registers[UNW_TDEP_SP] = frame->sp;
	unwinding->registers[LIMPET_ARCH_UNWIND_FP] =
		limpet_walk_load_fp(limpet_walk_read_copy, &unwinding->stack, frame);
	return unw_init_remote(&unwinding->cursor, unwinding->space, unwinding) == 0;
}

static enum limpet_walk_end read_libunwind_frame(struct unwinding *unwinding)
{
	const bool signal =
		limpet_walk_find_rule(&unwinding->scene->map, NULL, code_address(&unwinding->frame))
			.flags &
		LIMPET_RULE_SIGNAL;
	struct limpet_walk_frame next = {.flags = unwinding->frame.flags & LIMPET_FRAME_DOUBT};
	unw_word_t pc, sp, fp;

	if (unw_get_reg(&unwinding->cursor, UNW_REG_IP, &pc) < 0 ||
	    unw_get_reg(&unwinding->cursor, UNW_REG_SP, &sp) < 0)
		return LIMPET_WALK_LOST;
	if (unw_get_reg(&unwinding->cursor, LIMPET_ARCH_UNWIND_FP, &fp) < 0)
		fp = LIMPET_WALK_NO_FP;
	/* Only the kernel's frame leads to another stack. */
	if (!signal && sp <= unwinding->frame.sp)
		return LIMPET_WALK_STUCK;
	if (!limpet_walk_plausible_pc(pc))
		return LIMPET_WALK_LOST;
	next.pc = pc;
	next.sp = sp;
	next.fp = fp;
	next.flags |= signal ? LIMPET_FRAME_EXACT | LIMPET_FRAME_SIGNAL : 0;
	unwinding->frame = next;
	unwinding->finder = LIMPET_FOUND_BY_LIBUNWIND;
	return LIMPET_WALK_MORE;
}

/* Without a description libunwind would follow frame pointers, with fewer checks than the walker;
 * and whether a frame is the outermost one it tells no better than that something failed. */
static enum limpet_walk_end step_by_libunwind(struct unwinding *unwinding)
{
	unw_proc_info_t info;

	if (!unwinding->space ||
	    find_info(unwinding->space, code_address(&unwinding->frame), &info, 0, unwinding) < 0)
		return LIMPET_WALK_LOST;
	if (!unwinding->begun && !begin_libunwind(unwinding))
		return LIMPET_WALK_LOST;
	unwinding->begun = unw_step(&unwinding->cursor) > 0;
	return unwinding->begun ? read_libunwind_frame(unwinding) : LIMPET_WALK_LOST;
}

static enum limpet_walk_end step(struct unwinding *unwinding)
{
	enum limpet_walk_end end = step_by_libunwind(unwinding);

	if (end == LIMPET_WALK_MORE)
		return end;
	unwinding->begun = false;
	end = limpet_walk_step(&unwinding->scene->map, NULL, limpet_walk_read_copy,
			       &unwinding->stack, &unwinding->frame);
	unwinding->finder = unwinding->frame.flags & LIMPET_FRAME_BY_FP ? LIMPET_FOUND_BY_FP
									: LIMPET_FOUND_BY_TABLE;
	return end;
}

int limpet_stack_unwind(const struct limpet_stack_scene *scene,
			const struct limpet_stack_copy *copy, struct limpet_unwound *ret)
{
	unw_accessors_t accessors = {.find_proc_info = find_info,
				     .put_unwind_info = put_info,
				     .get_dyn_info_list_addr = find_registered,
				     .access_mem = access_memory,
				     .access_reg = access_register,
				     .access_fpreg = access_fp_register,
				     .resume = resume};
	struct unwinding unwinding = {.scene = scene, .reads_left = READS_MOST};
	enum limpet_walk_end end;

	memcpy(unwinding.registers, copy->registers, sizeof(copy->registers));
	unwinding.stack =
		(struct limpet_walk_copy){copy->registers[UNW_TDEP_SP], copy->bytes, copy->stack};
	unwinding.frame = (struct limpet_walk_frame){.pc = copy->registers[UNW_TDEP_IP],
						     .sp = copy->registers[UNW_TDEP_SP],
						     .fp = copy->registers[LIMPET_ARCH_UNWIND_FP],
						     .flags = LIMPET_FRAME_EXACT};
	if (!scene->without_libunwind) {
		unwinding.space = unw_create_addr_space(&accessors, 0);
		if (!unwinding.space)
			return -ENOMEM;
		unwinding.begun =
			unw_init_remote(&unwinding.cursor, unwinding.space, &unwinding) == 0;
	}
	ret->count = 0;
	do {
		const struct limpet_walk_frame *frame = &unwinding.frame;

		ret->frames[ret->count++] = (struct limpet_stack_frame){
			frame->pc + (frame->flags & LIMPET_FRAME_EXACT ? 1 : 0), unwinding.finder,
			0};
		end = step(&unwinding);
		ret->frames[ret->count - 1].signal =
			end == LIMPET_WALK_MORE && (frame->flags & LIMPET_FRAME_SIGNAL);
	} while (end == LIMPET_WALK_MORE && ret->count < LIMPET_STACKS_FRAMES);
	ret->end = end == LIMPET_WALK_MORE ? LIMPET_WALK_DEPTH : end;
	if (unwinding.space)
		unw_destroy_addr_space(unwinding.space);
	return 0;
}
