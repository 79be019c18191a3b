#include "injector/hook/inline_hook.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "common/clock.h"
#include "injector/elf/inline_hook_layout.h"
#include "injector/proc/memfd.h"
#include "injector/proc/memory.h"
#include "injector/proc/proc.h"
#include "injector/proc/target_process.h"
#include "injector/ptrace/signal_frame.h"
#include "injector/ptrace/step.h"
#include "injector/ptrace/stop_all.h"
#include "injector/remote/growing.h"

#define MAP_TRIES 8
#define RED_ZONE_BYTES 128
/* How long threads may be stopped: longer at each try. */
#define FIRST_PATIENCE_NS 10000000u
#define PAUSE_NS 2000000u
#define LAST_PATIENCE_NS 500000000u
/* How long limpet waits for the end of a call that a stop would cut short. */
#define POLITE_NS 1000000000u

/* Opens it through a traced thread: a kernel may require that of a process that writes past page
 * protections. */
static int open_memory(const struct limpet_target *target, pid_t tid)
{
	char name[32];

	snprintf(name, sizeof(name), "task/%d/mem", tid);
	return limpet_proc_open(target, name, O_RDWR);
}

static int write_all(int memory, uint64_t address, const void *from, size_t bytes)
{
	if (pwrite(memory, from, bytes, (off_t)address) != (ssize_t)bytes)
		return limpet_errno();
	return 0;
}

/* ---------------------------------------------------------------- the hook areas */

static uint64_t address_of(const struct limpet_hook_area *area, size_t index)
{
	return area->address + sizeof(struct limpet_inline_hook_head) +
	       index * sizeof(struct limpet_inline_hook_entry);
}

/* Valid once the area was made. */
static uint64_t address_of_hook(const struct limpet_entry *entry)
{
	return entry->original - offsetof(struct limpet_inline_hook_entry, prologue);
}

static const uint8_t endbr64[4] = {0xf3, 0x0f, 0x1e, 0xfa};

/* Saves what a thunk uses for itself; in the middle of a function, below the function's red zone.
 */
static void make_keep(struct limpet_inline_hook_entry *ret, const struct limpet_entry_code *code)
{
	/* lea ...(%rsp), %rsp, which leaves the flags alone */
	static const uint8_t move_stack[] = {0x48, 0x8d, 0xa4, 0x24};
	/* push %r11; push %r10; jmp ... */
	static const uint8_t keep[] = {0x41, 0x53, 0x41, 0x52, 0xeb};
	static const uint8_t go[] = {0x49, 0xbb}, go_thunk[] = {0x41, 0xff, 0xe3};
	const int32_t by = code->kind == LIMPET_ENTRY_PROBE ? -RED_ZONE_BYTES : code->undo;
	uint8_t *at = ret->keep;

	if (by) {
		at = mempcpy(at, move_stack, sizeof(move_stack));
		at = mempcpy(at, &by, sizeof(by));
	}
	at = mempcpy(at, keep, sizeof(keep));
	*at = (uint8_t)(ret->go - (at + 1));
	memcpy(ret->go, go, sizeof(go));
	memcpy(ret->go_thunk, go_thunk, sizeof(go_thunk));
}

static int make_entry(const struct limpet_hook_area *area, size_t index, struct limpet_entry *entry,
		      struct limpet_inline_hook_entry *ret, struct limpet_err *err)
{
	/* jmp to `keep` */
	static const uint8_t stub[2] = {0xeb, offsetof(struct limpet_inline_hook_entry, keep) -
						      sizeof(stub)};
	uint64_t at = address_of(area, index);
	uint64_t prologue = at + offsetof(struct limpet_inline_hook_entry, prologue);
	uint8_t jump[LIMPET_ENTRY_MOVED_MAX];

	if (limpet_entry_code_move(&entry->code, prologue + sizeof(endbr64)) < 0 ||
	    limpet_entry_code_jump(&entry->code, at, jump) < 0)
		return limpet_err_set(err, -ERANGE, "no memory within reach of %s", entry->name);
	memset(ret, 0, sizeof(*ret));
	memcpy(ret->stub, stub, sizeof(stub));
	make_keep(ret, &entry->code);
	memcpy(ret->prologue, endbr64, sizeof(endbr64));
	memcpy(ret->prologue + sizeof(endbr64), entry->code.code, entry->code.code_bytes);
	memcpy(ret->original, entry->code.original, sizeof(ret->original));
	memcpy(ret->jump, jump, sizeof(ret->jump));
	ret->from = entry->code.from;
	entry->original = prologue;
	return 0;
}

static uint64_t inode_of(const struct limpet_modules *modules, uint64_t address)
{
	const struct limpet_map *map = limpet_proc_maps_find(&modules->maps, address);

	return map ? map->inode : 0;
}

static int fill_area(int memory, const struct limpet_modules *modules,
		     struct limpet_entries *entries, uint32_t number, struct limpet_err *err)
{
	const struct limpet_hook_area *area = &entries->areas[number];
	LIMPET_FREE struct limpet_inline_hook_entry *made = calloc(entries->count, sizeof(*made));
	struct limpet_inline_hook_head head = {.magic = LIMPET_INLINE_HOOK_MAGIC};
	struct limpet_step step;
	int error = 0;

	if (!made)
		return limpet_err_set(err, -ENOMEM, "out of memory");
	for (size_t i = 0; i < entries->count && !error; i++) {
		if (entries->list[i].area != number)
			continue;
		head.inode = inode_of(modules, entries->list[i].address);
		error = make_entry(area, head.count, &entries->list[i], &made[head.count], err);
		head.count++;
	}
	if (error)
		return error;
	step = limpet_step_begin(LIMPET_STEP_WRITE_AREA, 0, 0);
	error = write_all(memory, address_of(area, 0), made, head.count * sizeof(*made));
	if (!error)
		error = write_all(memory, area->address, &head, sizeof(head));
	limpet_step_end(&step, error);
	return error ? limpet_err_set(err, error, "cannot write near the program's code: %s",
				      strerror(-error))
		     : 0;
}

/* Another thread may map something there meanwhile. */
static int map_area(struct limpet_hijack *hijack, const struct limpet_target *target,
		    struct limpet_hook_area *area, struct limpet_err *err)
{
	int error = -EEXIST;

	for (int i = 0; i < MAP_TRIES && error == -EEXIST; i++) {
		struct limpet_maps maps;
		uint64_t address;

		error = limpet_proc_maps_read(target->pid, &maps);
		if (error)
			break;
		error = limpet_entries_choose_place(&maps, area, &address);
		if (!error && limpet_growing_above(target->pid, &maps, address + area->bytes))
			error = -ERANGE;
		limpet_proc_maps_done(&maps);
		if (!error)
			error = limpet_hijack_map_hook_area(hijack, address, area->bytes);
		if (!error)
			area->address = address;
	}
	return error ? limpet_err_set(err, error, "cannot map memory near the program's code: %s",
				      strerror(-error))
		     : 0;
}

int limpet_inline_hook_map(struct limpet_hijack *hijack, const struct limpet_modules *modules,
			   struct limpet_entries *entries, struct limpet_err *err)
{
	LIMPET_CLOSE int memory =
		open_memory(modules->target, limpet_tracee_tid(limpet_hijack_tracee(hijack)));
	int error =
		memory < 0 ? limpet_err_set(err, memory, "cannot open the memory of process %d: %s",
					    modules->target->pid, strerror(-memory))
			   : 0;

	for (uint32_t i = 0; i < entries->area_count && !error; i++) {
		error = map_area(hijack, modules->target, &entries->areas[i], err);
		if (!error)
			error = fill_area(memory, modules, entries, i, err);
	}
	return error;
}

/* ---------------------------------------------------------------- on */

/* A thread at `pc` would find other code than it has begun to execute. Returns the same instruction
 * in a relocated prologue, UINT64_MAX if there is none. 0: it is not affected. */
static uint64_t relocated_pc(const struct limpet_entries *entries, uint64_t pc)
{
	for (size_t i = 0; i < entries->count; i++) {
		const struct limpet_entry_code *code = &entries->list[i].code;

		/* At the first byte it executes the jump. */
		if (pc > code->from && pc < code->from + code->original_bytes)
			return limpet_entry_code_move_pc(code, pc, true);
	}
	return 0;
}

/* The smallest range that contains all of them. */
struct bounds {
	const struct limpet_entries *entries;
	uint64_t low, bytes;
};

static struct bounds bounds_of(const struct limpet_entries *entries)
{
	uint64_t low = UINT64_MAX, high = 0;

	for (size_t i = 0; i < entries->count; i++) {
		const struct limpet_entry_code *code = &entries->list[i].code;

		low = code->from < low ? code->from : low;
		high = code->from > high ? code->from : high;
	}
	return (struct bounds){entries, low, high - low + LIMPET_ENTRY_MOVED_MAX};
}

/* Whether a signal handler would return there. */
static bool is_to_change(const void *context, uint64_t pc)
{
	const struct bounds *bounds = context;

	return pc - bounds->low <= bounds->bytes && relocated_pc(bounds->entries, pc);
}

/* Moves threads out of the bytes that will become jumps, into the relocated prologues. -EAGAIN: not
 * all can be moved. */
static int move_threads(const struct limpet_target *target, const struct limpet_entries *entries,
			const struct limpet_tracee *hijacked, const struct limpet_stop_all *stopped,
			const struct limpet_stack_maps *maps)
{
	LIMPET_FREE void *stack = malloc(LIMPET_SIGNAL_STACK_BYTES);
	const struct user_regs_struct *regs = hijacked ? limpet_tracee_regs(hijacked) : NULL;
	const struct bounds bounds = bounds_of(entries);

	if (!entries->count)
		return 0;
	if (!stack)
		return -ENOMEM;
	/* At a safe point a thread is in none of these functions. */
	if (regs &&
	    (relocated_pc(entries, regs->rip) ||
	     limpet_signal_goes_back(target->pid, maps, regs->rsp, stack, is_to_change, &bounds)))
		return -EAGAIN;
	for (size_t i = 0; i < stopped->count; i++) {
		regs = limpet_tracee_regs(stopped->list[i]);
		if (relocated_pc(entries, regs->rip) == UINT64_MAX ||
		    limpet_signal_goes_back(target->pid, maps, regs->rsp, stack, is_to_change,
					    &bounds))
			return -EAGAIN;
	}
	/* The instructions are the same in both places: a thread that was moved may stay there. */
	for (size_t i = 0; i < stopped->count; i++) {
		uint64_t pc = relocated_pc(entries, limpet_tracee_regs(stopped->list[i])->rip);
		int error = pc ? limpet_tracee_move(stopped->list[i], pc) : 0;

		if (error)
			return error == -EBUSY ? -EAGAIN : error;
	}
	return 0;
}

/* -ESTALE: the code has changed. */
static int check_code(const struct limpet_target *target, const struct limpet_entries *entries)
{
	for (size_t i = 0; i < entries->count; i++) {
		const struct limpet_entry_code *code = &entries->list[i].code;
		uint8_t now[LIMPET_ENTRY_MOVED_MAX];

		if (limpet_memory_read(target->pid, code->from, now, code->original_bytes) < 0 ||
		    memcmp(now, code->original, code->original_bytes) != 0)
			return -ESTALE;
	}
	return 0;
}

static int write_jumps(int memory, const struct limpet_entries *entries)
{
	for (size_t i = 0; i < entries->count; i++) {
		const struct limpet_entry *entry = &entries->list[i];
		uint8_t jump[LIMPET_ENTRY_MOVED_MAX];
		int error = limpet_entry_code_jump(&entry->code, address_of_hook(entry), jump);
		const struct limpet_step step = limpet_step_begin(LIMPET_STEP_WRITE_JUMP, 0, 0);

		if (!error)
			error = write_all(memory, entry->code.from, jump, LIMPET_ENTRY_JUMP_BYTES);
		limpet_step_end(&step, error);
		if (error)
			return error;
	}
	return 0;
}

/* What is switched on: each entry leads to its hook's thunk. */
struct on {
	const struct limpet_entries *entries;
	uint64_t thunks, thunk_bytes; /* the first thunk, and how long each is */
};

/* Writes the thunks to which the entries lead. */
static int write_targets(int memory, const struct on *on)
{
	const struct limpet_entries *entries = on->entries;

	for (size_t i = 0; i < entries->count; i++) {
		const struct limpet_entry *entry = &entries->list[i];
		uint64_t thunk = on->thunks + entry->hook * on->thunk_bytes;
		int error = write_all(memory,
				      address_of_hook(entry) +
					      offsetof(struct limpet_inline_hook_entry, thunk),
				      &thunk, sizeof(thunk));

		if (error)
			return error;
	}
	return 0;
}

/* Pauses between tries. */
static int wait_for_another(const struct limpet_inline_hook_setup *setup, uint64_t *patience_ns)
{
	uint64_t pause_ns = PAUSE_NS;

	if (*patience_ns < LAST_PATIENCE_NS)
		*patience_ns *= 2;
	return limpet_wait_pause(&setup->wait, &pause_ns, PAUSE_NS);
}

/* Waits for a moment at which no call would be cut short; but not forever: if many threads write
 * there may be none. */
static int wait_for_calls(const struct limpet_inline_hook_setup *setup, pid_t except)
{
	uint64_t now_ns = limpet_monotonic_ns(), patience_ns = FIRST_PATIENCE_NS;
	uint64_t left_ns = setup->wait.deadline_ns > now_ns ? setup->wait.deadline_ns - now_ns : 0;
	uint64_t until_ns = now_ns + (left_ns / 2 < POLITE_NS ? left_ns / 2 : POLITE_NS);
	int error = 0;

	while (!error && limpet_monotonic_ns() < until_ns &&
	       limpet_stop_all_cuts(setup->target->pid, except))
		error = wait_for_another(setup, &patience_ns);
	return error;
}

/* All threads are stopped. */
static int change_code(const struct limpet_inline_hook_setup *setup,
		       const struct limpet_tracee *hijacked, const struct limpet_stop_all *stopped,
		       const struct limpet_stack_maps *maps, const struct on *on)
{
	const struct limpet_tracee *any = hijacked ?: stopped->count ? stopped->list[0] : NULL;
	LIMPET_CLOSE int memory = any ? open_memory(setup->target, limpet_tracee_tid(any)) : -ESRCH;
	int error = memory < 0 ? memory : 0;

	if (!error)
		error = limpet_wait_check(&setup->wait);
	if (!error)
		error = check_code(setup->target, on->entries);
	if (!error)
		error = move_threads(setup->target, on->entries, hijacked, stopped, maps);
	if (!error)
		error = write_targets(memory, on);
	if (!error)
		error = write_jumps(memory, on->entries);
	return !error && setup->also ? setup->also(setup->also_context, memory) : error;
}

int limpet_inline_hook_switch_on(const struct limpet_inline_hook_setup *setup,
				 const struct limpet_tracee *hijacked, uint64_t thunks,
				 uint64_t thunk_bytes, const struct limpet_entries *entries,
				 struct limpet_err *err)
{
	const struct on on = {entries, thunks, thunk_bytes};
	pid_t tid = hijacked ? limpet_tracee_tid(hijacked) : 0;
	uint64_t patience_ns = FIRST_PATIENCE_NS;
	int error = wait_for_calls(setup, tid);

	while (!error) {
		struct limpet_stop_all stopped;
		struct limpet_stack_maps maps;

		limpet_stack_maps_read(setup->target->pid, &maps);
		error = limpet_stop_all_begin(setup->wait.tracer, setup->target->pid, tid,
					      limpet_monotonic_ns() + patience_ns, &stopped);
		if (!error) {
			error = change_code(setup, hijacked, &stopped, &maps, &on);
			limpet_stop_all_end(&stopped);
		}
		limpet_stack_maps_done(&maps);
		if (!error)
			return 0;
		if (error == -EAGAIN)
			error = wait_for_another(setup, &patience_ns);
	}
	limpet_err_set(err, error, "cannot hook the allocator of process %d: %s",
		       setup->target->pid, strerror(-error));
	if (error == -EBUSY)
		limpet_err_hint(err, "not all of its threads reached code where this is possible: "
				     "try again, or wait longer: --attach-timeout 60s");
	return error;
}

/* ---------------------------------------------------------------- off */

static int read_head(const struct limpet_target *target, const struct limpet_map *map,
		     struct limpet_inline_hook_head *ret)
{
	if (!limpet_memfd_is_agent(map->path) ||
	    limpet_memory_read_own(target->pid, map->start, ret, sizeof(*ret)) < 0 ||
	    ret->magic != LIMPET_INLINE_HOOK_MAGIC || ret->count > LIMPET_MAX_ENTRIES ||
	    LIMPET_INLINE_HOOK_BYTES(ret->count) > map->end - map->start)
		return -ENOENT;
	return 0;
}

unsigned limpet_inline_hook_find(const struct limpet_target *target, const struct limpet_maps *maps,
				 struct limpet_inline_hook_range ret[LIMPET_INLINE_HOOK_MAX])
{
	unsigned count = 0;

	for (size_t i = 0; i < maps->count && count < LIMPET_INLINE_HOOK_MAX; i++) {
		struct limpet_inline_hook_head head;

		if (read_head(target, &maps->list[i], &head) < 0)
			continue;
		ret[count].start = maps->list[i].start;
		ret[count++].end = maps->list[i].end;
	}
	return count;
}

/* Calls `use` with each entry of each area. */
static int for_each_entry(const struct limpet_target *target,
			  void (*use)(void *context, const struct limpet_maps *maps, uint64_t inode,
				      const struct limpet_inline_hook_entry *entry),
			  void *context)
{
	struct limpet_maps maps;
	int error = limpet_proc_maps_read(target->pid, &maps);

	if (error)
		return error;
	for (size_t i = 0; i < maps.count; i++) {
		struct limpet_inline_hook_head head;

		if (read_head(target, &maps.list[i], &head) < 0)
			continue;
		for (uint32_t k = 0; k < head.count; k++) {
			struct limpet_inline_hook_entry entry;

			if (limpet_memory_read_own(target->pid,
						   maps.list[i].start + sizeof(head) +
							   k * sizeof(entry),
						   &entry, sizeof(entry)) == 0)
				use(context, &maps, head.inode, &entry);
		}
	}
	limpet_proc_maps_done(&maps);
	return 0;
}

static void note_jump(void *context, const struct limpet_maps *maps, uint64_t inode,
		      const struct limpet_inline_hook_entry *entry)
{
	struct limpet_inline_hook_jumps *jumps = context;
	struct limpet_inline_hook_jump *jump = &jumps->list[jumps->count];

	(void)maps;
	(void)inode;
	if (jumps->count == LIMPET_COUNT_OF(jumps->list))
		return;
	jump->from = entry->from;
	memcpy(jump->bytes, entry->jump, sizeof(jump->bytes));
	jumps->count++;
}

int limpet_inline_hook_read_jumps(const struct limpet_target *target,
				  struct limpet_inline_hook_jumps *ret)
{
	ret->count = 0;
	return for_each_entry(target, note_jump, ret);
}

enum code_state { CODE_RESTORED, CODE_JUMPS, CODE_GONE, CODE_OVERWRITTEN };

/* A byte may be a breakpoint of another tool's, or what was there before the jump, if such a
 * breakpoint was removed. If it is anything else the module may be gone, and another in its place;
 * if not, another tool has changed it, and may have kept a copy of the jump. */
static enum code_state state_of(const struct limpet_target *target, const struct limpet_maps *maps,
				uint64_t inode, const struct limpet_inline_hook_entry *entry,
				bool *ret_hidden)
{
	const struct limpet_map *map = limpet_proc_maps_find(maps, entry->from);
	enum code_state state = CODE_RESTORED;
	uint8_t now[LIMPET_ENTRY_JUMP_BYTES];

	if (limpet_memory_read(target->pid, entry->from, now, sizeof(now)) < 0)
		return CODE_GONE;
	*ret_hidden = now[0] == LIMPET_ENTRY_BREAKPOINT;
	for (size_t i = 0; i < sizeof(now); i++) {
		if (now[i] == entry->original[i] || now[i] == LIMPET_ENTRY_BREAKPOINT)
			continue;
		if (now[i] != entry->jump[i])
			return map && inode && map->inode == inode ? CODE_OVERWRITTEN : CODE_GONE;
		state = CODE_JUMPS;
	}
	return state;
}

struct changed {
	const struct limpet_target *target;
	struct limpet_inline_hook_entry list[LIMPET_INLINE_HOOK_MAX * LIMPET_MAX_ENTRIES];
	size_t count;
	unsigned hidden;  /* by a breakpoint, or by the program's own code again */
	bool overwritten; /* some are not in the list, since another tool has changed the code */
};

static void note_changed(void *context, const struct limpet_maps *maps, uint64_t inode,
			 const struct limpet_inline_hook_entry *entry)
{
	struct changed *changed = context;
	bool hidden = false;
	enum code_state state = state_of(changed->target, maps, inode, entry, &hidden);

	if (state == CODE_JUMPS && changed->count < LIMPET_COUNT_OF(changed->list))
		changed->list[changed->count++] = *entry;
	changed->hidden += (state == CODE_JUMPS && hidden) || state == CODE_RESTORED;
	changed->overwritten |= state == CODE_OVERWRITTEN;
}

static int find_changed(const struct limpet_target *target, struct changed *changed)
{
	changed->target = target;
	changed->count = changed->hidden = 0;
	return for_each_entry(target, note_changed, changed);
}

/* Leaves breakpoints where they are: whoever has set one writes the byte that he found in the
 * file. */
static int restore(const struct limpet_target *target, int memory,
		   const struct limpet_inline_hook_entry *entry)
{
	uint8_t bytes[LIMPET_ENTRY_JUMP_BYTES];
	struct limpet_step step;

	if (limpet_memory_read(target->pid, entry->from, bytes, sizeof(bytes)) < 0)
		return 0;
	for (size_t i = 0; i < sizeof(bytes); i++) {
		if (bytes[i] == entry->jump[i])
			bytes[i] = entry->original[i];
		else if (bytes[i] != entry->original[i] && bytes[i] != LIMPET_ENTRY_BREAKPOINT)
			return 0;
	}
	step = limpet_step_begin(LIMPET_STEP_WRITE_CODE_BACK, 0, 0);
	return limpet_step_end(&step, write_all(memory, entry->from, bytes, sizeof(bytes)));
}

/* All threads are stopped. */
static int restore_all(const struct limpet_inline_hook_setup *setup, pid_t tid,
		       const struct changed *changed)
{
	LIMPET_CLOSE int memory = open_memory(setup->target, tid);
	int error = memory < 0 ? memory : 0;

	for (size_t i = 0; i < changed->count && !error; i++)
		error = restore(setup->target, memory, &changed->list[i]);
	return !error && setup->also ? setup->also(setup->also_context, memory) : error;
}

int limpet_inline_hook_switch_off(const struct limpet_inline_hook_setup *setup)
{
	LIMPET_FREE struct changed *changed = calloc(1, sizeof(*changed));
	uint64_t patience_ns = FIRST_PATIENCE_NS;
	bool also = setup->also;
	int error = changed ? find_changed(setup->target, changed) : -ENOMEM;

	if (!error && setup->ret_hidden)
		*setup->ret_hidden = changed->hidden;
	if (!error && (changed->count || also))
		error = wait_for_calls(setup, 0);
	while (!error && (changed->count || also)) {
		struct limpet_stop_all stopped;

		error = limpet_stop_all_begin(setup->wait.tracer, setup->target->pid, 0,
					      limpet_monotonic_ns() + patience_ns, &stopped);
		if (!error) {
			error = limpet_wait_check(&setup->wait);
			if (!error && !stopped.count)
				error = -ESRCH;
			if (!error && setup->may_switch_off &&
			    !setup->may_switch_off(setup->may_context))
				error = -EAGAIN;
			if (!error)
				error = restore_all(setup, limpet_tracee_tid(stopped.list[0]),
						    changed);
			limpet_stop_all_end(&stopped);
			also = also && error;
			if (!error)
				error = find_changed(setup->target, changed);
			if (!error && changed->count)
				error = -EAGAIN;
		}
		if (error == -EAGAIN)
			error = wait_for_another(setup, &patience_ns);
	}
	return !error && changed->overwritten ? -EADDRINUSE : error;
}

int limpet_inline_hook_leads_there(const struct limpet_target *target)
{
	LIMPET_FREE struct changed *changed = calloc(1, sizeof(*changed));
	int error = changed ? find_changed(target, changed) : -ENOMEM;

	return error ? error : changed->count > 0;
}

const char *limpet_inline_hook_why(int error)
{
	return error == -EADDRINUSE ? "another tool has changed it since" : strerror(-error);
}
