#include "injector/hook/remote_patch.h"

#include <errno.h>
#include <stdlib.h>
#include <unistd.h>

#include "injector/proc/memory.h"
#include "injector/proc/target_process.h"
#include "injector/ptrace/step.h"

/* Anonymous memory has no offset that identifies its parts. */
static bool is_same_memory(const struct limpet_map *before, const struct limpet_map *now)
{
	uint64_t from = before && before->inode ? before->offset : 0;
	uint64_t to = now && now->inode ? now->offset : 0;

	return before && now && before->inode == now->inode &&
	       before->dev_major == now->dev_major && before->dev_minor == now->dev_minor &&
	       before->start - from == now->start - to;
}

unsigned limpet_remote_patch_check(struct limpet_slot *slots, uint32_t count,
				   const struct limpet_maps *before, const struct limpet_maps *now)
{
	unsigned gone = 0;

	for (uint32_t i = 0; i < count; i++) {
		uint64_t address = slots[i].address;

		if (slots[i].state != LIMPET_SLOT_PLANNED ||
		    is_same_memory(limpet_proc_maps_find(before, address),
				   limpet_proc_maps_find(now, address)))
			continue;
		slots[i].state = LIMPET_SLOT_GONE;
		gone++;
	}
	return gone;
}

static uint32_t install(int memory, struct limpet_slot *slot, uint64_t original, uint64_t thunk)
{
	uint64_t ours = limpet_slot_value_ours(slot, thunk);
	int answer = limpet_memory_exchange_stopped(memory, slot->address, slot->old_value, ours);

	/* A lazy slot that was bound after the plan was made. */
	if (answer == 1 && slot->old_value != original && slot->kind != LIMPET_SLOT_OF_SYMBOL) {
		slot->old_value = original;
		answer = limpet_memory_exchange_stopped(memory, slot->address, original, ours);
	}
	if (answer < 0)
		return LIMPET_SLOT_FAILED;
	return answer ? LIMPET_SLOT_FOREIGN : LIMPET_SLOT_PATCHED;
}

unsigned limpet_remote_patch_install(int memory, struct limpet_slot *slots, uint32_t count,
				     const struct limpet_hook *hooks, uint64_t thunks,
				     uint64_t thunk_bytes)
{
	unsigned done = 0;

	for (uint32_t i = 0; i < count; i++) {
		struct limpet_slot *slot = &slots[i];
		struct limpet_step step;

		if (slot->state != LIMPET_SLOT_PLANNED)
			continue;
		step = limpet_step_begin(LIMPET_STEP_WRITE_SLOT, 0, 0);
		slot->state = install(memory, slot, hooks[slot->hook].original,
				      thunks + slot->hook * thunk_bytes);
		limpet_step_end(&step, 0);
		done += slot->state == LIMPET_SLOT_PATCHED;
	}
	return done;
}

/* 1: restored; 0: it is not ours, or gone; -EBUSY. */
static int restore(int memory, const struct limpet_slot *slot, uint64_t thunk, uint64_t original)
{
	uint64_t value = limpet_slot_value_before(slot, original);
	uint64_t ours = limpet_slot_value_ours(slot, thunk);
	int answer = limpet_memory_exchange_stopped(memory, slot->address, ours, value);

	if (answer >= 0)
		return !answer;
	if (pread(memory, &value, sizeof(value), (off_t)slot->address) == (ssize_t)sizeof(value) &&
	    value == ours)
		return -EBUSY;
	return 0;
}

/* Returns their number, or -errno. */
static int read_slots(const struct limpet_target *target, const struct limpet_agent_info *info,
		      struct limpet_slot **ret)
{
	LIMPET_FREE struct limpet_slot *slots = NULL;
	struct limpet_shm shm;
	int error;

	*ret = NULL;
	if (!info->shm)
		return 0;
	error = limpet_memory_read_own(target->pid, info->shm, &shm, sizeof(shm));
	if (error)
		return error;
	if (shm.magic != LIMPET_SHM_MAGIC || shm.slot_count > LIMPET_MAX_SLOTS)
		return -EBADMSG;
	slots = calloc(shm.slot_count + 1, sizeof(*slots));
	if (!slots)
		return -ENOMEM;
	error = limpet_memory_read_own(target->pid, info->shm + shm.layout.slots_offset, slots,
				       shm.slot_count * sizeof(*slots));
	if (error)
		return error;
	*ret = slots;
	slots = NULL;
	return (int)shm.slot_count;
}

static uint64_t thunk_of(const struct limpet_agent_info *info, const struct limpet_slot *slot)
{
	return info->thunks + slot->hook * info->thunk_bytes;
}

/* Nothing leads to thunks any more: so those of the loader's functions need not be seen. */
static int pass_loader_hooks(int memory, const struct limpet_agent_info *info,
			     const struct limpet_hook *hooks)
{
	for (uint64_t i = 0; i < LIMPET_MAX_HOOKS; i++) {
		const uint64_t path = info->thunks + LIMPET_THUNKS_BYTES + i * sizeof(uint64_t);

		if (hooks[i].original && hooks[i].op == LIMPET_OP_LOADER &&
		    pwrite(memory, &hooks[i].original, sizeof(hooks[i].original), (off_t)path) !=
			    sizeof(hooks[i].original))
			return -EBUSY;
	}
	return 0;
}

int limpet_remote_patch_restore(const struct limpet_target *target, int memory,
				const struct limpet_agent_info *info)
{
	LIMPET_FREE struct limpet_slot *slots = NULL;
	struct limpet_hook hooks[LIMPET_MAX_HOOKS];
	int count = read_slots(target, info, &slots), error = 0, done = 0;

	if (count >= 0 && info->shm)
		error = limpet_memory_read_own(target->pid, info->hooks, hooks, sizeof(hooks));
	if (error)
		return error;
	for (int i = 0; slots && i < count; i++) {
		struct limpet_step step;
		int answer;

		if (slots[i].hook >= LIMPET_MAX_HOOKS)
			continue;
		step = limpet_step_begin(LIMPET_STEP_WRITE_SLOT_BACK, 0, 0);
		answer = restore(memory, &slots[i], thunk_of(info, &slots[i]),
				 hooks[slots[i].hook].original);
		limpet_step_end(&step, answer < 0 ? answer : 0);
		if (answer < 0)
			error = answer;
		else
			done += answer;
	}
	if (count >= 0 && info->shm && !error)
		error = pass_loader_hooks(memory, info, hooks);
	return count < 0 ? count : error ? error : done;
}

int limpet_remote_patch_leads_there(const struct limpet_target *target,
				    const struct limpet_agent_info *info)
{
	LIMPET_FREE struct limpet_slot *slots = NULL;
	int count = read_slots(target, info, &slots);

	for (int i = 0; slots && i < count; i++) {
		uint64_t value;

		if (limpet_memory_read(target->pid, slots[i].address, &value, sizeof(value)) == 0 &&
		    value == limpet_slot_value_ours(&slots[i], thunk_of(info, &slots[i])))
			return 1;
	}
	return count < 0 ? count : 0;
}
