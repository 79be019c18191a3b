#include "injector/unwind/frame_code.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "common/array.h"
#include "injector/unwind/frame_step.h"

#define INSTRUCTION_MAX 15u
/* Paths of one function that wait to be followed. */
#define WAITING_MAX 65536u
/* A function is read again when it was found that one that it calls never returns. */
#define ROUNDS 2u
#define READINGS_MAX 200u
#define STACK_ALIGN 16
/* How far from a function's start the code may be to which a table of jumps leads. */
#define FUNCTION_MAX (256u << 10)

/* An instruction that was reached, the last time. */
struct place {
	struct limpet_frame_state state;
	uint32_t owner;
	uint16_t reading; /* of the owner, at which this was found */
	uint8_t bytes;
	bool after_call; /* reached by a call's return, which may never happen */
};

enum owner_state { OWNER_GOOD, OWNER_UNCLEAR };
struct owner {
	uint32_t start;
	uint8_t state;
	uint16_t reading; /* how often it was read */
	bool leaves;      /* to its caller, or to another function in its stead */
	bool returns;     /* by an instruction that returns */
	bool jumps;       /* to the start of another function */
	bool moves;       /* the stack pointer */
	bool guessed;     /* nothing is known to call it */
};

/* A path that is to be followed. */
struct path {
	uint32_t offset;
	uint32_t returned; /* where the last call returned to; 0: there was none */
	uint32_t suspect;  /* the last of these that looks as if a function began there */
	bool after_call;
	struct limpet_frame_state state;
	struct limpet_frame_path registers;
};

struct reader {
	const struct limpet_frame_code *code;
	csh handle;
	cs_insn *insn;
	uint32_t low, span;  /* of all holes */
	uint32_t *places_at; /* by offset - low: number in `places`, from 1 on; 0: none */
	uint8_t *marks;      /* the same: IN_HOLE... */
	uint8_t outside;     /* what is written to a mark there */
	struct place *places;
	size_t place_count, place_capacity;
	struct owner *owners;
	size_t owner_count, owner_capacity;
	uint32_t *found; /* starts that are to be read */
	size_t found_count, found_capacity;
	/* Paths of the function: those after a call are followed when there are no others, since
	 * the call may never return. */
	struct paths {
		struct path *list;
		size_t count, capacity;
	} jumps, returns;
	bool is_spilled;  /* a path was left out */
	uint32_t suspect; /* where a call probably never returned to, after a contradiction; 0 */
	uint64_t budget;  /* instructions that may still be decoded */
	int error;
};

#define IN_HOLE 1u
#define IS_START 2u
#define NEVER_RETURNS 4u
#define NOT_REACHED 8u /* the call before it does not return */

static uint8_t *mark_at(struct reader *reader, uint64_t offset)
{
	reader->outside = 0;
	return offset - reader->low < reader->span ? &reader->marks[offset - reader->low]
						   : &reader->outside;
}

/* The place, unless nothing that counts was found there. */
static struct place *place_at(struct reader *reader, uint32_t offset)
{
	const uint32_t index =
		offset - reader->low < reader->span ? reader->places_at[offset - reader->low] : 0;

	struct place *place = index ? &reader->places[index - 1] : NULL;
	const struct owner *owner = place ? &reader->owners[place->owner] : NULL;

	return place && owner->state == OWNER_GOOD && owner->reading == place->reading ? place
										       : NULL;
}

static void add_start(struct reader *reader, uint64_t offset)
{
	uint8_t *mark = mark_at(reader, offset);

	if ((*mark & (IN_HOLE | IS_START)) != IN_HOLE || reader->error)
		return;
	reader->error = limpet_reserve(&reader->found, &reader->found_capacity,
				       reader->found_count + 1, sizeof(*reader->found));
	if (reader->error)
		return;
	*mark |= IS_START;
	reader->found[reader->found_count++] = (uint32_t)offset;
}

static void add_path(struct reader *reader, const struct path *path)
{
	struct paths *paths = path->after_call ? &reader->returns : &reader->jumps;

	reader->is_spilled |= paths->count >= WAITING_MAX;
	if (reader->error || reader->is_spilled)
		return;
	reader->error = limpet_reserve(&paths->list, &paths->capacity, paths->count + 1,
				       sizeof(*paths->list));
	if (!reader->error)
		paths->list[paths->count++] = *path;
}

static bool next_path(struct reader *reader, struct path *ret)
{
	struct paths *paths = reader->jumps.count ? &reader->jumps : &reader->returns;

	if (!paths->count)
		return false;
	*ret = paths->list[--paths->count];
	return true;
}

static bool same_state(const struct limpet_frame_state *a, const struct limpet_frame_state *b)
{
	return a->depth == b->depth && a->fp_base == b->fp_base && a->fp_saved == b->fp_saved &&
	       a->fp_lost == b->fp_lost;
}

enum meeting { MEET_DONE, MEET_GO_ON, MEET_CONTRADICTS };

/* Two paths meet: what both say stays. Only what is known can become less, so this ends. */
static enum meeting meet(struct place *place, struct path *path)
{
	struct limpet_frame_state *old = &place->state, *new = &path->state;

	if (same_state(old, new))
		return MEET_DONE;
	if (old->depth != new->depth) {
		if (path->after_call)
			return MEET_DONE; /* that call never returns */
		return MEET_CONTRADICTS;
	}
	if (old->fp_base != new->fp_base) {
		if (old->depth == LIMPET_FRAME_NO_DEPTH)
			return MEET_CONTRADICTS;
		new->fp_base = 0;
	}
	if (old->fp_saved != new->fp_saved || old->fp_lost != new->fp_lost) {
		new->fp_saved = 0;
		new->fp_lost = true;
	}
	return same_state(old, new) ? MEET_DONE : MEET_GO_ON;
}

static void note_place(struct reader *reader, uint32_t owner, const struct path *path)
{
	uint32_t *index = &reader->places_at[path->offset - reader->low];
	const struct place place = {.state = path->state,
				    .owner = owner,
				    .reading = reader->owners[owner].reading,
				    .bytes = (uint8_t)reader->insn->size,
				    .after_call = path->after_call};

	if (!*index) {
		reader->error = limpet_reserve(&reader->places, &reader->place_capacity,
					       reader->place_count + 1, sizeof(*reader->places));
		if (reader->error)
			return;
		*index = (uint32_t)++reader->place_count;
	}
	reader->places[*index - 1] = place;
}

static bool decode(struct reader *reader, uint32_t offset)
{
	const uint8_t *at = reader->code->image + offset;
	size_t left = reader->code->bytes - offset;
	uint64_t address = offset;

	if (!reader->budget)
		return false;
	reader->budget--;
	if (left > INSTRUCTION_MAX)
		left = INSTRUCTION_MAX;
	return cs_disasm_iter(reader->handle, &at, &left, &address, reader->insn);
}

/* The entries of a table of jumps, as long as they lead into this function. */
static void follow_table(struct reader *reader, struct owner *owner, struct path path)
{
	const uint32_t table = path.registers.table, limit = path.registers.table_count;
	uint32_t end = owner->start + 1;

	owner->leaves = true; /* perhaps: on a path that is not seen */
	while (end - owner->start < FUNCTION_MAX &&
	       (*mark_at(reader, end) & (IN_HOLE | IS_START)) == IN_HOLE)
		end++;
	for (uint32_t i = 0; i < limit; i++) {
		int32_t away;

		if (table > reader->code->bytes ||
		    reader->code->bytes - table < (i + 1) * sizeof(away))
			return;
		memcpy(&away, reader->code->image + table + i * sizeof(away), sizeof(away));
		path.offset = table + (uint32_t)away;
		if (path.offset < owner->start || path.offset >= end)
			return;
		add_path(reader, &path);
	}
}

static bool is_left(const struct limpet_frame_state *state)
{
	return state->depth == LIMPET_FRAME_ENTRY_DEPTH && !state->fp_lost && !state->fp_saved;
}

/* A jump out of the function: it ends there, and another begins. */
static bool leave(struct owner *owner, const struct limpet_frame_state *state)
{
	owner->leaves = true;
	return is_left(state);
}

/* A jump or a branch. False: it contradicts. */
static bool jump(struct reader *reader, uint32_t number, struct path path, uint64_t target)
{
	struct owner *owner = &reader->owners[number];
	const uint8_t mark = *mark_at(reader, target);

	if (!(mark & IN_HOLE) || (mark & IS_START && target != owner->start)) {
		owner->jumps |= (mark & IS_START) != 0;
		return leave(owner, &path.state);
	}
	path.offset = (uint32_t)target;
	path.after_call = false;
	add_path(reader, &path);
	return true;
}

static void clobber(struct limpet_frame_path *registers)
{
	static const uint8_t scratch[] = {0, 1, 2, 6, 7, 8, 9, 10, 11};

	for (size_t i = 0; i < sizeof(scratch); i++)
		registers->tables[scratch[i]] = 0;
}

/* Whether what follows a call may be another function, since it begins as these do. */
static bool looks_like_start(struct reader *reader, uint32_t offset)
{
	while (*mark_at(reader, offset) & IN_HOLE && decode(reader, offset)) {
		switch (reader->insn->id) {
		case X86_INS_NOP:
		case X86_INS_INT3:
			offset += reader->insn->size;
			break;
		case X86_INS_PUSH:
		case X86_INS_ENDBR64:
			return true;
		case X86_INS_SUB:
			return reader->insn->detail->x86.operands[0].reg == X86_REG_RSP;
		default:
			return false;
		}
	}
	return true;
}

enum next { NEXT_GO_ON, NEXT_END, NEXT_CONTRADICTS };

/* Applies the instruction to the path. */
static enum next step(struct reader *reader, uint32_t number, struct path *path)
{
	struct owner *owner = &reader->owners[number];
	struct limpet_frame_effect effect = {.flow = LIMPET_FLOW_NEXT};

	limpet_frame_step(reader->insn, &path->state, &path->registers, &effect);
	path->offset += reader->insn->size;
	path->after_call = false;
	owner->moves |= path->state.depth != LIMPET_FRAME_ENTRY_DEPTH;
	switch (effect.flow) {
	case LIMPET_FLOW_NEXT:
		return NEXT_GO_ON;
	case LIMPET_FLOW_CALL:
		/* The ABI wants the stack aligned there: otherwise the guess was wrong. */
		if (owner->guessed && path->state.depth % STACK_ALIGN &&
		    path->state.depth != LIMPET_FRAME_NO_DEPTH)
			return NEXT_CONTRADICTS;
		path->after_call = true;
		clobber(&path->registers);
		if (effect.has_target)
			add_start(reader, effect.target);
		if (*mark_at(reader, path->offset) & NOT_REACHED ||
		    (effect.has_target && *mark_at(reader, effect.target) & NEVER_RETURNS))
			return NEXT_END;
		path->returned = path->offset;
		if (looks_like_start(reader, path->offset))
			path->suspect = path->offset;
		add_path(reader, path);
		return NEXT_END;
	case LIMPET_FLOW_BRANCH:
		return jump(reader, number, *path, effect.target) ? NEXT_GO_ON : NEXT_CONTRADICTS;
	case LIMPET_FLOW_JUMP:
		return jump(reader, number, *path, effect.target) ? NEXT_END : NEXT_CONTRADICTS;
	case LIMPET_FLOW_TABLE:
		follow_table(reader, owner, *path);
		return NEXT_END;
	case LIMPET_FLOW_RETURN:
		owner->returns |= reader->insn->id == X86_INS_RET;
		return leave(owner, &path->state) ? NEXT_END : NEXT_CONTRADICTS;
	case LIMPET_FLOW_STOP:
		return NEXT_END;
	default:
		return NEXT_CONTRADICTS;
	}
}

/* Which call of the path probably never returned, if it ends in a contradiction. */
static uint32_t suspect_of(const struct path *path)
{
	return path->suspect ? path->suspect : path->returned;
}

/* Follows one path to its end. False: it contradicts. */
static bool follow(struct reader *reader, uint32_t number, struct path path)
{
	while (!reader->error) {
		const uint8_t mark = *mark_at(reader, path.offset);
		struct place *place;

		if (!(mark & IN_HOLE))
			return true; /* after a call that never returns */
		if (mark & IS_START && path.offset != reader->owners[number].start)
			return true;
		place = place_at(reader, path.offset);
		if (place) {
			const enum meeting meeting = meet(place, &path);

			reader->owners[number].leaves |= place->owner != number;
			if (meeting == MEET_DONE)
				return true;
			if (meeting == MEET_CONTRADICTS || place->owner != number) {
				reader->suspect =
					place->after_call ? path.offset : suspect_of(&path);
				return false;
			}
		}
		reader->suspect = suspect_of(&path);
		if (!decode(reader, path.offset))
			return false;
		note_place(reader, number, &path);
		if (reader->error)
			return true;
		switch (step(reader, number, &path)) {
		case NEXT_GO_ON:
			break;
		case NEXT_END:
			return true;
		default:
			return false;
		}
	}
	return true;
}

static void read_function(struct reader *reader, uint32_t number)
{
	const struct path start = {.offset = reader->owners[number].start,
				   .state.depth = LIMPET_FRAME_ENTRY_DEPTH};
	struct path path;
	bool is_clear;

	/* As often as a call turns out not to return. */
	do {
		reader->jumps.count = reader->returns.count = 0;
		reader->is_spilled = false;
		reader->suspect = 0;
		reader->owners[number].reading++;
		reader->owners[number].state = OWNER_GOOD;
		reader->owners[number].leaves = reader->owners[number].returns = false;
		reader->owners[number].jumps = reader->owners[number].moves = false;
		add_path(reader, &start);
		is_clear = true;
		while (is_clear && !reader->error && next_path(reader, &path))
			is_clear = follow(reader, number, path);
		is_clear = is_clear && !reader->is_spilled;
		if (!is_clear && reader->suspect)
			*mark_at(reader, reader->suspect) |= NOT_REACHED;
	} while (!is_clear && reader->suspect && reader->owners[number].reading < READINGS_MAX);
	if (!is_clear) {
		reader->owners[number].state = OWNER_UNCLEAR;
	} else if (reader->owners[number].guessed) {
		if (!reader->owners[number].returns && !reader->owners[number].jumps)
			reader->owners[number].state = OWNER_UNCLEAR;
	} else if (!reader->owners[number].leaves) {
		*mark_at(reader, reader->owners[number].start) |= NEVER_RETURNS;
	}
}

static void read_start(struct reader *reader, uint32_t start, bool guessed)
{
	struct place *place = place_at(reader, start);

	if (place) {
		if (place->state.depth == LIMPET_FRAME_ENTRY_DEPTH && !place->state.fp_saved &&
		    !place->state.fp_lost)
			return;
		reader->owners[place->owner].state = OWNER_UNCLEAR;
	}
	reader->error = limpet_reserve(&reader->owners, &reader->owner_capacity,
				       reader->owner_count + 1, sizeof(*reader->owners));
	if (reader->error)
		return;
	reader->owners[reader->owner_count++] = (struct owner){.start = start, .guessed = guessed};
	read_function(reader, (uint32_t)reader->owner_count - 1);
}

static void read_found(struct reader *reader, bool guessed)
{
	for (size_t i = 0; i < reader->found_count && !reader->error; i++)
		read_start(reader, reader->found[i], guessed);
	reader->found_count = 0;
}

/* The end of the code that runs on from here without a look at branches: where another function may
 * begin. */
static uint32_t end_of_run(struct reader *reader, uint32_t at)
{
	while (*mark_at(reader, at) & IN_HOLE && !place_at(reader, at) && decode(reader, at)) {
		at += reader->insn->size;
		switch (reader->insn->id) {
		case X86_INS_RET:
		case X86_INS_JMP:
		case X86_INS_UD2:
		case X86_INS_HLT:
			return at;
		default:
			break;
		}
	}
	return at;
}

/* Functions that nothing is seen to call: what begins where other code ends, behind bytes that
 * only fill. */
static void guess_starts(struct reader *reader)
{
	uint32_t at = reader->low;

	while (at - reader->low < reader->span && !reader->error && reader->budget) {
		const struct place *place = place_at(reader, at);

		if (place) {
			at += place->bytes;
			continue;
		}
		if (!(*mark_at(reader, at) & IN_HOLE) || !decode(reader, at)) {
			at++;
			continue;
		}
		if (reader->insn->id == X86_INS_NOP || reader->insn->id == X86_INS_INT3) {
			at += reader->insn->size;
			continue;
		}
		read_start(reader, at, true);
		read_found(reader, false);
		if (!place_at(reader, at))
			at = end_of_run(reader, at);
	}
}

static void read_again(struct reader *reader)
{
	for (size_t i = 0; i < reader->owner_count && !reader->error; i++)
		if (reader->owners[i].state == OWNER_UNCLEAR &&
		    !place_at(reader, reader->owners[i].start))
			read_function(reader, (uint32_t)i);
}

static int prepare(struct reader *reader)
{
	const struct limpet_frame_code *code = reader->code;

	reader->low = code->holes[0].start;
	reader->span = code->holes[code->hole_count - 1].end - reader->low;
	reader->budget = (uint64_t)reader->span * 2;
	if (code->holes[code->hole_count - 1].end > code->bytes)
		return -EINVAL;
	reader->places_at = calloc(reader->span, sizeof(*reader->places_at));
	reader->marks = calloc(reader->span, 1);
	if (!reader->places_at || !reader->marks)
		return -ENOMEM;
	for (size_t i = 0; i < code->hole_count; i++)
		memset(reader->marks + (code->holes[i].start - reader->low), IN_HOLE,
		       code->holes[i].end - code->holes[i].start);
	if (cs_open(CS_ARCH_X86, CS_MODE_64, &reader->handle) != CS_ERR_OK)
		return -ENOTSUP;
	cs_option(reader->handle, CS_OPT_DETAIL, CS_OPT_ON);
	reader->insn = cs_malloc(reader->handle);
	return reader->insn ? 0 : -ENOMEM;
}

static struct limpet_unwind_rule rule_of(const struct limpet_frame_state *state)
{
	struct limpet_unwind_rule rule = {.cfa = LIMPET_CFA_SP, .cfa_offset = state->depth};

	if (state->depth == LIMPET_FRAME_NO_DEPTH) {
		rule.cfa = LIMPET_CFA_FP;
		rule.cfa_offset = state->fp_base;
	}
	if (state->fp_saved) {
		rule.fp = LIMPET_FP_CFA;
		rule.fp_offset = state->fp_saved;
	} else if (state->fp_lost) {
		rule.fp = LIMPET_FP_LOST;
	}
	return rule;
}

static int add_row(struct limpet_frame_rows *rows, size_t *capacity, uint32_t offset,
		   const struct limpet_unwind_rule *rule)
{
	if (rows->count && !memcmp(&rows->list[rows->count - 1].rule, rule, sizeof(*rule)))
		return 0;
	if (limpet_reserve(&rows->list, capacity, rows->count + 1, sizeof(*rows->list)) < 0)
		return -ENOMEM;
	rows->list[rows->count++] = (struct limpet_frame_row){offset, *rule};
	return 0;
}

/* A guess that only jumps to another function, with the stack as it was, may be a part of one whose
 * stack is not as it was. */
static bool is_shown(const struct owner *owner)
{
	return !owner->guessed || owner->returns || owner->moves;
}

static int write_rows(struct reader *reader, struct limpet_frame_rows *rows)
{
	static const struct limpet_unwind_rule none = {.cfa = LIMPET_CFA_NONE};
	uint32_t end = reader->low;
	size_t capacity = 0;
	int error = 0;

	for (uint32_t at = reader->low; at - reader->low < reader->span && !error; at++) {
		const struct place *place = place_at(reader, at);
		struct limpet_unwind_rule rule;

		if (!place || !is_shown(&reader->owners[place->owner]))
			continue;
		if (at > end)
			error = add_row(rows, &capacity, end, &none);
		rule = rule_of(&place->state);
		if (!error)
			error = add_row(rows, &capacity, at, &rule);
		end = at + place->bytes;
		rows->bytes += place->bytes;
	}
	if (!error)
		error = add_row(rows, &capacity, end, &none);
	for (size_t i = 0; i < reader->owner_count; i++) {
		if (reader->owners[i].state == OWNER_GOOD)
			rows->functions++;
		else if (!reader->owners[i].guessed)
			rows->functions_unclear++;
	}
	return error;
}

static void done(struct reader *reader)
{
	if (reader->insn)
		cs_free(reader->insn, 1);
	if (reader->handle)
		cs_close(&reader->handle);
	free(reader->places_at);
	free(reader->marks);
	free(reader->places);
	free(reader->owners);
	free(reader->found);
	free(reader->jumps.list);
	free(reader->returns.list);
}

int limpet_frame_code_read(const struct limpet_frame_code *code, struct limpet_frame_rows *ret_rows)
{
	struct reader reader = {.code = code};
	struct limpet_frame_rows rows = {0};
	int error;

	if (!code->hole_count) {
		*ret_rows = rows;
		return 0;
	}
	error = prepare(&reader);
	if (!error) {
		for (size_t i = 0; i < code->start_count; i++)
			add_start(&reader, code->starts[i]);
		read_found(&reader, false);
		for (size_t i = 0; i < code->guess_count && !reader.error; i++)
			if ((*mark_at(&reader, code->guesses[i]) & (IN_HOLE | IS_START)) == IN_HOLE)
				read_start(&reader, code->guesses[i], true);
		read_found(&reader, false);
		for (unsigned round = 0; round < ROUNDS; round++)
			read_again(&reader);
		guess_starts(&reader);
		error = reader.error;
	}
	if (!error)
		error = write_rows(&reader, &rows);
	done(&reader);
	if (error)
		free(rows.list);
	else
		*ret_rows = rows;
	return error;
}
