#include "injector/elf/nim_code.h"

#include <capstone/capstone.h>
#include <errno.h>
#include <string.h>

/* lib/system/alloc.nim of Nim 1.6: HugeChunkSize, and a page without the head of a small chunk. A
 * comparison may be with the constant beside it. */
#define HUGE_BYTES 0x3f000000
#define SMALL_BYTES 0xfc0
#define PAGE_MASK (-4096)

static bool is_one_of(const uint64_t *list, size_t count, uint64_t address)
{
	for (size_t i = 0; i < count; i++)
		if (list[i] == address)
			return true;
	return false;
}

bool limpet_nim_code_leads(const uint8_t *code, uint64_t address,
			   const struct limpet_nim_targets *targets)
{
	size_t length = 0;
	uint64_t target;
	int32_t away;

	if (code[0] == 0xe8 || code[0] == 0xe9)
		length = 5;
	else if (code[0] == 0x0f && (code[1] & 0xf0) == 0x80)
		length = 6;
	else
		return false;
	memcpy(&away, code + length - sizeof(away), sizeof(away));
	target = address + length + (uint64_t)(int64_t)away;
	return is_one_of(targets->get, targets->get_count, target) ||
	       is_one_of(targets->put, targets->put_count, target);
}

/* and $-4096 of a whole register: until then the block's address is in it. */
static bool read_page(const cs_insn *insn, struct limpet_nim_page *ret)
{
	static const uint8_t mask[4] = {0x00, 0xf0, 0xff, 0xff};
	const uint8_t *at = insn->bytes;

	if (insn->size == 6 && at[0] == 0x48 && at[1] == 0x25 && !memcmp(at + 2, mask, 4))
		*ret = (struct limpet_nim_page){insn->address, 0, insn->size};
	else if (insn->size == 7 && (at[0] & 0xfe) == 0x48 && at[1] == 0x81 &&
		 (at[2] & 0xf8) == 0xe0 && !memcmp(at + 3, mask, 4))
		*ret = (struct limpet_nim_page){insn->address,
						(unsigned)(at[2] & 7) | (unsigned)(at[0] & 1) << 3,
						insn->size};
	else
		return false;
	return true;
}

/* The second argument, if a constant was loaded for it right before. */
struct constant {
	uint64_t value;
	unsigned age;
};

static void note_constant(const cs_insn *insn, struct constant *constant)
{
	const cs_x86 *x86 = &insn->detail->x86;
	const unsigned enough = 6;

	if (constant->age++ == enough)
		constant->value = 0;
	if (!x86->op_count || x86->operands[0].type != X86_OP_REG ||
	    (x86->operands[0].reg != X86_REG_ESI && x86->operands[0].reg != X86_REG_RSI))
		return;
	constant->value = insn->id == X86_INS_MOV && x86->operands[1].type == X86_OP_IMM
				  ? (uint64_t)x86->operands[1].imm
				  : 0;
	constant->age = 0;
}

static int read_branch(const cs_insn *insn, const struct limpet_nim_targets *targets, uint64_t size,
		       struct limpet_nim_code *code)
{
	uint64_t target = (uint64_t)insn->detail->x86.operands[0].imm;

	code->puts += is_one_of(targets->put, targets->put_count, target);
	if (!is_one_of(targets->get, targets->get_count, target))
		return 0;
	code->gets++;
	/* A jump is not a call: the caller of its function gets the chunk. */
	if (insn->id != X86_INS_CALL || insn->size != 5 || insn->bytes[0] != 0xe8)
		return 0;
	if (code->call_count == LIMPET_NIM_SITES_MAX)
		return -ENOTSUP;
	code->calls[code->call_count++] = (struct limpet_nim_call){insn->address, target, size};
	return 0;
}

static int read_one(csh handle, const cs_insn *insn, const struct limpet_nim_targets *targets,
		    struct constant *constant, struct limpet_nim_code *code)
{
	const cs_x86 *x86 = &insn->detail->x86;
	struct limpet_nim_page page;

	if (cs_insn_group(handle, insn, CS_GRP_BRANCH_RELATIVE) ||
	    (insn->id == X86_INS_CALL && x86->operands[0].type == X86_OP_IMM))
		return read_branch(insn, targets, constant->value, code);
	note_constant(insn, constant);
	if (insn->id == X86_INS_CMP && x86->op_count == 2 && x86->operands[1].type == X86_OP_IMM) {
		int64_t value = x86->operands[1].imm;

		code->huge += value == HUGE_BYTES || value == HUGE_BYTES - 1;
		code->small += value == SMALL_BYTES || value == SMALL_BYTES - 1;
	}
	if (insn->id != X86_INS_AND || x86->op_count != 2 || x86->operands[1].type != X86_OP_IMM ||
	    x86->operands[1].imm != PAGE_MASK)
		return 0;
	if (!read_page(insn, &page) || code->page_count == LIMPET_NIM_SITES_MAX)
		return -ENOTSUP;
	code->pages[code->page_count++] = page;
	return 0;
}

int limpet_nim_code_read(const uint8_t *code, size_t bytes, uint64_t address,
			 const struct limpet_nim_targets *targets, struct limpet_nim_code *ret)
{
	struct limpet_nim_code found = {0};
	struct constant constant = {0};
	int error = 0;
	cs_insn *insn;
	csh handle;

	if (cs_open(CS_ARCH_X86, CS_MODE_64, &handle) != CS_ERR_OK)
		return -ENOMEM;
	cs_option(handle, CS_OPT_DETAIL, CS_OPT_ON);
	insn = cs_malloc(handle);
	if (!insn)
		error = -ENOMEM;
	while (!error && bytes)
		error = cs_disasm_iter(handle, &code, &bytes, &address, insn)
				? read_one(handle, insn, targets, &constant, &found)
				: -ENOTSUP;
	if (insn)
		cs_free(insn, 1);
	cs_close(&handle);
	if (!error)
		*ret = found;
	return error;
}
