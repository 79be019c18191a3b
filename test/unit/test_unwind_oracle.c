/* The unwind-table compiler against libdw's own reading of real programs. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <dlfcn.h>
#include <dwarf.h>
#include <elfutils/libdw.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "test/unit/skip_reason.h"
#include "test/unit/unwind_fixture.h"

/* A synthetic moment: registers, and a memory whose every word is a plausible address. */
struct moment {
	uint64_t pc, sp, fp;
};

static uint64_t word_at(const struct moment *moment, uint64_t address)
{
	uint64_t hash = (address ^ address >> 29) * 0xbf58476d1ce4e5b9ull;

	return moment->sp + 0x100000 + (hash >> 40) * 8;
}

static bool read_moment(const void *memory, uint64_t address, uint64_t *ret_word)
{
	*ret_word = word_at(memory, address);
	return true;
}

enum answer { ANSWER_OK, ANSWER_INEXPRESSIBLE, ANSWER_UNDEFINED };

/* A full evaluator, other than the compiler's: over numbers. */
static enum answer evaluate(const struct moment *moment, const Dwarf_Op *ops, size_t count,
			    uint64_t cfa, uint64_t *ret_value, bool *ret_is_value)
{
	uint64_t stack[16] = {0}, a;
	size_t depth = 0;

	*ret_is_value = false;
	for (size_t i = 0; i < count; i++) {
		const Dwarf_Op *op = &ops[i];
		uint64_t reg = UINT64_MAX;
		int64_t offset = 0;

		if (depth >= LIMPET_COUNT_OF(stack))
			fail_msg("the oracle's evaluator is not deep enough");
		if (op->atom >= DW_OP_lit0 && op->atom <= DW_OP_lit31) {
			stack[depth++] = op->atom - DW_OP_lit0;
			continue;
		}
		if (op->atom >= DW_OP_breg0 && op->atom <= DW_OP_breg31) {
			reg = op->atom - DW_OP_breg0;
			offset = (int64_t)op->number;
		} else if (op->atom == DW_OP_bregx) {
			reg = op->number;
			offset = (int64_t)op->number2;
		} else if (op->atom == DW_OP_regx ||
			   (op->atom >= DW_OP_reg0 && op->atom <= DW_OP_reg31)) {
			return ANSWER_INEXPRESSIBLE; /* in another register */
		}
		if (reg != UINT64_MAX) {
			if (reg != 6 && reg != 7 && reg != 16)
				return ANSWER_INEXPRESSIBLE;
			a = reg == 6 ? moment->fp : reg == 7 ? moment->sp : moment->pc;
			stack[depth++] = a + (uint64_t)offset;
			continue;
		}
		switch (op->atom) {
		case DW_OP_call_frame_cfa:
			stack[depth++] = cfa;
			break;
		case DW_OP_deref:
			assert_true(depth >= 1);
			stack[depth - 1] = word_at(moment, stack[depth - 1]);
			break;
		case DW_OP_plus_uconst:
			assert_true(depth >= 1);
			stack[depth - 1] += op->number;
			break;
		case DW_OP_const1u:
		case DW_OP_const1s:
		case DW_OP_const2u:
		case DW_OP_const2s:
		case DW_OP_const4u:
		case DW_OP_const4s:
		case DW_OP_constu:
		case DW_OP_consts:
			stack[depth++] = op->number;
			break;
		case DW_OP_stack_value:
			*ret_is_value = true;
			break;
		default:
			assert_true(depth >= 2);
			a = stack[--depth];
			switch (op->atom) {
			case DW_OP_plus:
				stack[depth - 1] += a;
				break;
			case DW_OP_minus:
				stack[depth - 1] -= a;
				break;
			case DW_OP_and:
				stack[depth - 1] &= a;
				break;
			case DW_OP_shl:
				stack[depth - 1] <<= a;
				break;
			case DW_OP_mul:
				stack[depth - 1] *= a;
				break;
			case DW_OP_ge:
				stack[depth - 1] = (int64_t)stack[depth - 1] >= (int64_t)a;
				break;
			default:
				fail_msg("the oracle's evaluator lacks operation %#x", op->atom);
			}
		}
	}
	assert_true(depth > 0);
	*ret_value = stack[depth - 1];
	return ANSWER_OK;
}

static enum answer oracle_register(Dwarf_Frame *frame, int reg, const struct moment *moment,
				   uint64_t cfa, uint64_t same, uint64_t *ret_value)
{
	Dwarf_Op memory[3], *ops;
	enum answer answer;
	bool is_value;
	size_t count;

	assert_int_equal(dwarf_frame_register(frame, reg, memory, &ops, &count), 0);
	if (count == 0 && ops == memory)
		return ANSWER_UNDEFINED;
	if (count == 0) {
		*ret_value = same;
		return ANSWER_OK;
	}
	answer = evaluate(moment, ops, count, cfa, ret_value, &is_value);
	if (answer == ANSWER_OK && !is_value)
		*ret_value = word_at(moment, *ret_value);
	return answer;
}

struct tally {
	unsigned long checked, equal, unknown, weaker, different;
};

static void differ(struct tally *tally, const char *what, const struct moment *moment,
		   uint64_t ours, uint64_t theirs)
{
	if (tally->different++ < 10)
		print_message("# pc %#lx: %s: %#lx, libdw %#lx\n", (long)moment->pc, what,
			      (long)ours, (long)theirs);
}

static void compare_at(const struct fixture_file *file, Dwarf_CFI *cfi, uint64_t pc,
		       struct tally *tally)
{
	const struct limpet_unwind_rule *rule =
		limpet_unwind_table_find(file->table, (uint32_t)(pc - file->module.start));
	struct moment moment = {.pc = pc, .sp = 0x7ffd00010000, .fp = 0x7ffd00010400};
	struct limpet_walk_frame next = {moment.pc, moment.sp, moment.fp, LIMPET_FRAME_EXACT, 0, 0};
	enum answer cfa_answer, ra_answer, fp_answer;
	uint64_t cfa = 0, ra = 0, fp = 0, sp = 0;
	enum limpet_walk_end end;
	Dwarf_Frame *frame;
	bool signal, is_value;
	Dwarf_Op *ops;
	size_t count;

	tally->checked++;
	if (dwarf_cfi_addrframe(cfi, pc, &frame) != 0) {
		if (rule->cfa != LIMPET_CFA_NONE)
			differ(tally, "a rule where libdw has none", &moment, rule->cfa, 0);
		else
			tally->equal++;
		return;
	}
	assert_int_equal(dwarf_frame_info(frame, NULL, NULL, &signal), 16);
	assert_int_equal(dwarf_frame_cfa(frame, &ops, &count), 0);
	cfa_answer = count ? evaluate(&moment, ops, count, 0, &cfa, &is_value) : ANSWER_UNDEFINED;
	ra_answer = oracle_register(frame, 16, &moment, cfa, moment.pc, &ra);
	fp_answer = oracle_register(frame, 6, &moment, cfa, moment.fp, &fp);
	/* libdw has no default for rsp: undefined is "the CFA". */
	if (oracle_register(frame, 7, &moment, cfa, moment.sp, &sp) != ANSWER_OK)
		sp = cfa;
	free(frame);

	if (rule->cfa == LIMPET_CFA_UNKNOWN) {
		tally->unknown++;
		if (cfa_answer == ANSWER_OK && ra_answer == ANSWER_OK && sp == cfa)
			tally->weaker++;
		return;
	}
	if (rule->cfa == LIMPET_CFA_NONE) {
		differ(tally, "no rule", &moment, 0, cfa);
		return;
	}
	end = limpet_walk_step(&file->map, NULL, read_moment, &moment, &next);
	limpet_walk_load_fp(read_moment, &moment, &next);
	if (ra_answer == ANSWER_UNDEFINED) {
		if (end != LIMPET_WALK_COMPLETE)
			differ(tally, "end", &moment, end, LIMPET_WALK_COMPLETE);
		else
			tally->equal++;
		return;
	}
	if (end != LIMPET_WALK_MORE || cfa_answer != ANSWER_OK || ra_answer != ANSWER_OK)
		differ(tally, "step", &moment, end, cfa_answer);
	else if (next.sp != cfa)
		differ(tally, "CFA", &moment, next.sp, cfa);
	else if (next.pc != ra)
		differ(tally, "return address", &moment, next.pc, ra);
	else if (fp_answer == ANSWER_OK ? next.fp != fp : next.fp != LIMPET_WALK_NO_FP)
		differ(tally, "frame pointer", &moment, next.fp, fp);
	else if (signal != ((next.flags & LIMPET_FRAME_SIGNAL) != 0))
		differ(tally, "signal", &moment, next.flags, signal);
	else
		tally->equal++;
}

enum { MOST_CHECKS = 60000 };

/* Every row's first byte and the byte before it, or as many as MOST_CHECKS, spread evenly. */
static void compare_file(const char *path, double most_unknown_percent)
{
	struct tally tally = {0};
	struct fixture_file file;
	uint32_t *offsets, step;
	Dwarf_CFI *cfi;

	if (!fixture_file_open(path, &file)) {
		print_message("# %s\n", path);
		limpet_skip("this file is not on this machine");
	}
	cfi = dwarf_getcfi_elf(file.elf);
	assert_non_null(cfi);
	assert_true(file.stats.functions > 0);
	offsets = fixture_row_offsets(file.table);
	step = file.table->row_count / (MOST_CHECKS / 2) + 1;
	for (uint32_t i = 0; i < file.table->row_count; i += step) {
		compare_at(&file, cfi, file.module.start + offsets[i], &tally);
		if (offsets[i])
			compare_at(&file, cfi, file.module.start + offsets[i] - 1, &tally);
	}
	print_message("# %s: %u rows, %u rules, %.2f B/row; %lu checked, %lu equal, %lu unknown "
		      "(%.3f %%), %lu different; unknown bytes %.3f %%\n",
		      path, file.stats.rows, file.stats.rules,
		      (double)file.table->bytes / file.stats.rows, tally.checked, tally.equal,
		      tally.unknown, 100.0 * (double)tally.unknown / (double)tally.checked,
		      tally.different,
		      100.0 * (double)file.stats.unknown_bytes /
			      (double)(file.stats.described_bytes + file.stats.unknown_bytes));
	assert_int_equal(tally.different, 0);
	assert_int_equal(tally.weaker, 0);
	assert_int_equal(tally.equal + tally.unknown, tally.checked);
	assert_true(100.0 * (double)tally.unknown / (double)tally.checked <= most_unknown_percent);
	assert_true(file.stats.rows < 1000 || file.table->bytes <= 8ull * file.stats.rows);
	free(offsets);
	dwarf_cfi_end(cfi);
	fixture_file_close(&file);
}

struct oracle {
	const char *test;
	const char *library, *path; /* either */
	double most_unknown_percent;
};

static void test_oracle(void **state)
{
	const struct oracle *oracle = *state;
	char path[4096];
	void *library;

	if (!oracle->library) {
		compare_file(oracle->path, oracle->most_unknown_percent);
		return;
	}
	library = dlopen(oracle->library, RTLD_LAZY);
	if (!library) {
		print_message("# %s\n", oracle->library);
		limpet_skip("this library is not on this machine");
	}
	strcpy(path, fixture_own_module(oracle->library));
	dlclose(library);
	compare_file(path, oracle->most_unknown_percent);
}

static char directory[] = "/tmp/limpet-unwind-XXXXXX";

static int make_directory(void **state)
{
	(void)state;
	return mkdtemp(directory) ? 0 : -1;
}

static int remove_directory(void **state)
{
	char command[128];

	(void)state;
	snprintf(command, sizeof(command), "rm -r %s", directory);
	return system(command);
}

/* rustc's own linker (LLD from 1.90 on) lays a program out other than GNU ld does. */
static void test_oracle_rust(void **state)
{
	char command[512], path[128];

	(void)state;
	if (system("command -v rustc >/dev/null 2>&1") != 0)
		limpet_skip("no rustc");
	snprintf(path, sizeof(path), "%s/program", directory);
	snprintf(command, sizeof(command),
		 "cd %s && echo 'fn main() { println!(\"{:?}\", std::env::args()); }' >program.rs "
		 "&& rustc -O program.rs -o program 2>program.log || { cat program.log; false; }",
		 directory);
	assert_int_equal(system(command), 0);
	assert_int_equal(access(path, X_OK), 0);
	compare_file(path, 0.1);
}

#define ORACLE(row)                                                       \
	{                                                                 \
		oracles[row].test, test_oracle, NULL, NULL, &oracles[row] \
	}

int main(void)
{
	struct oracle oracles[] = {
		{"test_oracle_libc", "libc.so.6", NULL, 0.1},
		{"test_oracle_loader", "ld-linux-x86-64.so.2", NULL, 1.0},
		{"test_oracle_libstdcxx", "libstdc++.so.6", NULL, 0.1},
		{"test_oracle_libcrypto", "libcrypto.so.3", NULL, 1.5},
		{"test_oracle_python", NULL, "/usr/bin/python3.11", 0.1},
		{"test_oracle_node", NULL, "/usr/bin/node", 0.5},
		{"test_oracle_self", NULL, "/proc/self/exe", 0.1},
	};
	const struct CMUnitTest tests[] = {
		ORACLE(0),
		ORACLE(1),
		ORACLE(2),
		ORACLE(3),
		ORACLE(4),
		ORACLE(5),
		ORACLE(6),
		cmocka_unit_test_setup_teardown(test_oracle_rust, make_directory, remove_directory),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
