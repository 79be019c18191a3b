#include "injector/unwind/cfi.h"

#include <dwarf.h>
#include <string.h>

#include "injector/unwind/arch.h"

/* Real programs do not nest remember_state; the most seen from GCC is 2. */
enum { MAX_REMEMBERED = 16 };

struct machine {
	const struct limpet_cfi_cie *cie;
	const struct limpet_cfi_bases *bases;
	struct limpet_cfi_state state;
	struct limpet_cfi_state remembered[MAX_REMEMBERED];
	unsigned remembered_count;
	uint64_t pc;
};

static struct limpet_cfi_register *find_register(struct limpet_cfi_state *state, uint64_t reg)
{
	return reg == LIMPET_ARCH_DWARF_FP   ? &state->fp
	       : reg == LIMPET_ARCH_DWARF_SP ? &state->sp
	       : reg == LIMPET_ARCH_DWARF_RA ? &state->ra
					     : NULL;
}

static void set_register(struct machine *machine, uint64_t reg, enum limpet_cfi_how how,
			 int64_t offset)
{
	struct limpet_cfi_register *place = find_register(&machine->state, reg);

	if (place)
		*place = (struct limpet_cfi_register){how, offset};
}

static void set_register_factored(struct machine *machine, uint64_t reg, enum limpet_cfi_how how,
				  int64_t factored)
{
	int64_t offset;

	if (__builtin_mul_overflow(factored, machine->cie->data_align, &offset))
		set_register(machine, reg, LIMPET_CFI_OTHER, 0);
	else
		set_register(machine, reg, how, offset);
}

static void restore_register(struct machine *machine, uint64_t reg)
{
	struct limpet_cfi_register *place = find_register(&machine->state, reg);
	struct limpet_cfi_state initial = machine->cie->initial;

	if (place)
		*place = *find_register(&initial, reg);
}

static void set_cfa(struct machine *machine, uint64_t reg, int64_t offset)
{
	machine->state.expression = LIMPET_CFA_NONE;
	machine->state.reg = reg;
	machine->state.offset = offset;
	machine->state.extra = 0;
}

static void set_cfa_offset(struct machine *machine, int64_t offset)
{
	/* After an expression this is invalid (DWARF 6.4.2.2). */
	if (machine->state.expression != LIMPET_CFA_NONE)
		machine->state.broken = true;
	machine->state.offset = offset;
}

static int64_t read_factored(struct machine *machine, struct limpet_cfi_reader *code)
{
	int64_t value;

	if (__builtin_mul_overflow(limpet_cfi_read_sleb(code), machine->cie->data_align, &value))
		machine->state.broken = true;
	return value;
}

static struct limpet_cfi_reader read_block(struct limpet_cfi_reader *code)
{
	uint64_t bytes = limpet_cfi_read_uleb(code);

	return limpet_cfi_cut(code, bytes);
}

/* The instructions that set the rule of one register, which is their first operand. */
static void execute_register(struct machine *machine, struct limpet_cfi_reader *code, uint8_t op)
{
	const uint64_t reg = limpet_cfi_read_uleb(code);
	struct limpet_cfi_register how;

	switch (op) {
	case DW_CFA_offset_extended:
		set_register_factored(machine, reg, LIMPET_CFI_AT_CFA,
				      (int64_t)limpet_cfi_read_uleb(code));
		break;
	case DW_CFA_offset_extended_sf:
		set_register_factored(machine, reg, LIMPET_CFI_AT_CFA, limpet_cfi_read_sleb(code));
		break;
	case DW_CFA_GNU_negative_offset_extended:
		set_register_factored(machine, reg, LIMPET_CFI_AT_CFA,
				      -(int64_t)(limpet_cfi_read_uleb(code) & INT64_MAX));
		break;
	case DW_CFA_val_offset:
		set_register_factored(machine, reg, LIMPET_CFI_CFA_SUM,
				      (int64_t)limpet_cfi_read_uleb(code));
		break;
	case DW_CFA_val_offset_sf:
		set_register_factored(machine, reg, LIMPET_CFI_CFA_SUM, limpet_cfi_read_sleb(code));
		break;
	case DW_CFA_restore_extended:
		restore_register(machine, reg);
		break;
	case DW_CFA_undefined:
		set_register(machine, reg, LIMPET_CFI_UNDEFINED, 0);
		break;
	case DW_CFA_same_value:
		set_register(machine, reg, LIMPET_CFI_SAME, 0);
		break;
	case DW_CFA_register:
		limpet_cfi_read_uleb(code);
		set_register(machine, reg, LIMPET_CFI_OTHER, 0);
		break;
	case DW_CFA_expression:
	case DW_CFA_val_expression:
		how = limpet_cfi_register_expression(read_block(code), op == DW_CFA_val_expression);
		set_register(machine, reg, how.how, how.offset);
		break;
	default:
		break;
	}
}

/* The instructions that define the CFA. */
static void execute_cfa(struct machine *machine, struct limpet_cfi_reader *code, uint8_t op)
{
	struct limpet_cfi_state *state = &machine->state;
	uint64_t reg;

	switch (op) {
	case DW_CFA_def_cfa:
		reg = limpet_cfi_read_uleb(code);
		set_cfa(machine, reg, (int64_t)limpet_cfi_read_uleb(code));
		break;
	case DW_CFA_def_cfa_sf:
		reg = limpet_cfi_read_uleb(code);
		set_cfa(machine, reg, read_factored(machine, code));
		break;
	case DW_CFA_def_cfa_register:
		if (state->expression != LIMPET_CFA_NONE)
			state->broken = true;
		state->reg = limpet_cfi_read_uleb(code);
		break;
	case DW_CFA_def_cfa_offset:
		set_cfa_offset(machine, (int64_t)limpet_cfi_read_uleb(code));
		break;
	case DW_CFA_def_cfa_offset_sf:
		set_cfa_offset(machine, read_factored(machine, code));
		break;
	case DW_CFA_def_cfa_expression:
		limpet_cfi_set_cfa_expression(state, read_block(code));
		break;
	default:
		break;
	}
}

static void remember_state(struct machine *machine)
{
	if (machine->remembered_count == MAX_REMEMBERED)
		machine->state.broken = true;
	else
		machine->remembered[machine->remembered_count++] = machine->state;
}

/* A broken state stays broken: if a remember_state was lost, the pairs no longer match. */
static void restore_state(struct machine *machine)
{
	if (machine->state.broken || machine->remembered_count == 0)
		machine->state.broken = true;
	else
		machine->state = machine->remembered[--machine->remembered_count];
}

/* All instructions except those that advance the pc, and those with an operand in the opcode. */
static void execute(struct machine *machine, struct limpet_cfi_reader *code, uint8_t op)
{
	switch (op) {
	case DW_CFA_nop:
		break;
	case DW_CFA_offset_extended:
	case DW_CFA_offset_extended_sf:
	case DW_CFA_GNU_negative_offset_extended:
	case DW_CFA_val_offset:
	case DW_CFA_val_offset_sf:
	case DW_CFA_restore_extended:
	case DW_CFA_undefined:
	case DW_CFA_same_value:
	case DW_CFA_register:
	case DW_CFA_expression:
	case DW_CFA_val_expression:
		execute_register(machine, code, op);
		break;
	case DW_CFA_def_cfa:
	case DW_CFA_def_cfa_sf:
	case DW_CFA_def_cfa_register:
	case DW_CFA_def_cfa_offset:
	case DW_CFA_def_cfa_offset_sf:
	case DW_CFA_def_cfa_expression:
		execute_cfa(machine, code, op);
		break;
	case DW_CFA_remember_state:
		remember_state(machine);
		break;
	case DW_CFA_restore_state:
		restore_state(machine);
		break;
	case DW_CFA_GNU_args_size:
		limpet_cfi_read_uleb(code);
		break;
	default:
		/* The length of an unknown instruction is unknown: the rest cannot be read. */
		machine->state.broken = true;
		code->at = code->end;
		break;
	}
}

/* Executes up to the next change of the pc. False at the end of the program; otherwise the new pc,
 * which is UINT64_MAX if it is unknown. */
static bool run_to_move(struct machine *machine, struct limpet_cfi_reader *code, uint64_t *ret_pc)
{
	while (code->at < code->end && !code->bad) {
		uint8_t op = (uint8_t)limpet_cfi_read_fixed(code, 1);
		uint64_t delta;

		switch (op & 0xc0) {
		case DW_CFA_advance_loc:
			delta = op & 0x3f;
			break;
		case DW_CFA_offset:
			set_register_factored(machine, op & 0x3f, LIMPET_CFI_AT_CFA,
					      (int64_t)limpet_cfi_read_uleb(code));
			continue;
		case DW_CFA_restore:
			restore_register(machine, op & 0x3f);
			continue;
		default:
			switch (op) {
			case DW_CFA_advance_loc1:
				delta = limpet_cfi_read_fixed(code, 1);
				break;
			case DW_CFA_advance_loc2:
				delta = limpet_cfi_read_fixed(code, 2);
				break;
			case DW_CFA_advance_loc4:
				delta = limpet_cfi_read_fixed(code, 4);
				break;
			case DW_CFA_MIPS_advance_loc8:
				delta = limpet_cfi_read_fixed(code, 8);
				break;
			case DW_CFA_set_loc:
				if (!limpet_cfi_read_pointer(code, machine->cie->encoding,
							     machine->bases, ret_pc))
					*ret_pc = UINT64_MAX;
				return true;
			default:
				execute(machine, code, op);
				continue;
			}
		}
		if (__builtin_mul_overflow(delta, machine->cie->code_align, &delta) ||
		    __builtin_add_overflow(machine->pc, delta, ret_pc))
			*ret_pc = UINT64_MAX;
		return true;
	}
	if (code->bad)
		machine->state.broken = true;
	return false;
}

void limpet_cfi_run(const struct limpet_cfi_cie *cie, const struct limpet_cfi_fde *fde,
		    const struct limpet_cfi_bases *bases, limpet_cfi_row *row, void *context)
{
	struct limpet_cfi_reader code = fde->program;
	struct limpet_unwind_rule rule;
	struct machine machine;
	uint64_t next;

	machine.cie = cie;
	machine.bases = bases;
	machine.state = cie->initial;
	machine.remembered_count = 0;
	machine.pc = fde->start;
	while (run_to_move(&machine, &code, &next)) {
		if (code.bad || next < machine.pc || next == UINT64_MAX) {
			/* The pc decreases, or the program is cut off: no row from here on can be
			 * trusted. */
			machine.state.broken = true;
			break;
		}
		if (next == machine.pc)
			continue;
		rule = limpet_cfi_state_to_rule(&machine.state, cie->signal);
		row(context, machine.pc, &rule);
		if (next >= fde->end)
			return;
		machine.pc = next;
	}
	rule = limpet_cfi_state_to_rule(&machine.state, cie->signal);
	row(context, machine.pc, &rule);
}

/* ------------------------------------------------------------------ entries */

static bool parse_augmentation(struct limpet_cfi_reader *data, const char *letters,
			       const struct limpet_cfi_bases *bases, struct limpet_cfi_cie *cie)
{
	uint64_t ignored;
	uint8_t encoding;

	for (; *letters; letters++) {
		switch (*letters) {
		case 'R':
			cie->encoding = (uint8_t)limpet_cfi_read_fixed(data, 1);
			break;
		case 'L':
			limpet_cfi_read_fixed(data, 1);
			break;
		case 'P':
			encoding = (uint8_t)limpet_cfi_read_fixed(data, 1);
			limpet_cfi_read_pointer(data, encoding, bases, &ignored);
			break;
		case 'S':
			cie->signal = true;
			break;
		case 'B': /* pointer authentication on aarch64: no data */
			break;
		default:
			return false;
		}
	}
	return !data->bad;
}

void limpet_cfi_parse_cie(struct limpet_cfi_reader body, const struct limpet_cfi_bases *bases,
			  size_t offset, struct limpet_cfi_cie *ret_cie)
{
	struct machine machine;
	const char *letters;
	const uint8_t *end_of_letters;
	uint64_t ra_register, ignored;
	uint8_t version;

	memset(ret_cie, 0, sizeof(*ret_cie));
	ret_cie->offset = offset;
	version = (uint8_t)limpet_cfi_read_fixed(&body, 1);
	if (body.bad || (version != 1 && version != 3 && version != 4))
		return;
	letters = (const char *)body.at;
	end_of_letters = memchr(body.at, 0, (size_t)(body.end - body.at));
	if (!end_of_letters)
		return;
	limpet_cfi_skip(&body, (uint64_t)(end_of_letters - body.at) + 1);
	if (strcmp(letters, "eh") == 0) { /* GCC 2: followed by a pointer of its runtime */
		limpet_cfi_skip(&body, 8);
		letters += 2;
	}
	if (version == 4) {
		uint64_t address_bytes = limpet_cfi_read_fixed(&body, 1);
		uint64_t segment_bytes = limpet_cfi_read_fixed(&body, 1);

		if (address_bytes != 8 || segment_bytes != 0)
			return;
	}
	ret_cie->code_align = limpet_cfi_read_uleb(&body);
	ret_cie->data_align = limpet_cfi_read_sleb(&body);
	ra_register = version == 1 ? limpet_cfi_read_fixed(&body, 1) : limpet_cfi_read_uleb(&body);
	if (*letters == 'z') {
		uint64_t bytes = limpet_cfi_read_uleb(&body);
		struct limpet_cfi_reader data = limpet_cfi_cut(&body, bytes);

		ret_cie->augmented = true;
		if (!parse_augmentation(&data, letters + 1, bases, ret_cie))
			return;
	} else if (*letters) {
		return;
	}
	if (body.bad || ra_register != LIMPET_ARCH_DWARF_RA)
		return;
	ret_cie->usable = true;

	machine.cie = ret_cie;
	machine.bases = bases;
	memset(&machine.state, 0, sizeof(machine.state));
	machine.state.expression = LIMPET_CFA_UNKNOWN;
	machine.remembered_count = 0;
	machine.pc = 0;
	if (run_to_move(&machine, &body, &ignored)) /* not allowed here */
		machine.state.broken = true;
	ret_cie->initial = machine.state;
}

bool limpet_cfi_parse_fde(struct limpet_cfi_reader body, const struct limpet_cfi_cie *cie,
			  const struct limpet_cfi_bases *bases, struct limpet_cfi_fde *ret_fde)
{
	static const struct limpet_cfi_bases no_bases;
	struct limpet_cfi_fde fde;
	uint64_t bytes;

	if (!limpet_cfi_read_pointer(&body, cie->encoding, bases, &fde.start) ||
	    !limpet_cfi_read_pointer(&body, cie->encoding & 0x0f, &no_bases, &bytes) ||
	    __builtin_add_overflow(fde.start, bytes, &fde.end))
		return false;
	if (cie->augmented)
		limpet_cfi_skip(&body, limpet_cfi_read_uleb(&body));
	if (body.bad)
		return false;
	fde.program = body;
	*ret_fde = fde;
	return true;
}
