#include "cli/leaks_print.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "analyzer/symbols/demangle.h"
#include "analyzer/text/json_printer.h"
#include "cli/json_output.h"
#include "cli/ui.h"
#include "common/units.h"

/* Sites that are listed, and the columns before what they are. */
enum { ROWS = 20, WHAT_COLUMN = 42 };

static bool is_suppressed(const struct limpet_leaks_shown *shown, size_t site)
{
	return shown->suppressed && shown->suppressed[site];
}

/* Of one state, without what is suppressed. */
static struct limpet_leak_amount amount_of(const struct limpet_leaks_shown *shown,
					   enum limpet_leak_state state)
{
	const struct limpet_leaks *leaks = shown->leaks;
	struct limpet_leak_amount amount = leaks->amounts.of[state];

	for (size_t i = 0; i < leaks->site_count; i++)
		if (leaks->sites[i].state == state && is_suppressed(shown, i)) {
			amount.blocks -= leaks->sites[i].amount.blocks;
			amount.bytes -= leaks->sites[i].amount.bytes;
		}
	return amount;
}

struct limpet_leak_amount limpet_leaks_lost(const struct limpet_leaks_shown *shown)
{
	struct limpet_leak_amounts amounts;

	for (enum limpet_leak_state state = 0; state < LIMPET_LEAK_STATES; state++)
		amounts.of[state] = amount_of(shown, state);
	return limpet_leak_amounts_lost(&amounts);
}

/* ------------------------------------------------------------------ sentences */

static void say_unjudged(const struct limpet_leaks *leaks, pid_t pid)
{
	if (!leaks->has_glibc)
		limpet_ui_say("Nothing is known: this process has no heap of glibc's malloc, and "
			      "only its "
			      "blocks are judged.");
	else if (leaks->is_late)
		limpet_ui_say("Nothing is known: there was no time, or no room, for all blocks.");
	else if (!leaks->unread_arenas)
		limpet_ui_say(
			"Nothing is known: no block of glibc's malloc was found, and only these "
			"are "
			"judged. Another allocator may have the heap: `limpet doctor %d` names it.",
			(int)pid);
	else
		limpet_ui_say("Nothing is known: the lists of free blocks changed each time they "
			      "were read. "
			      "Try again.");
}

static void say_lost(const struct limpet_leaks_shown *shown)
{
	const struct limpet_leak_amount lost = limpet_leaks_lost(shown);
	const bool is_probable = shown->leaks->amounts.of[LIMPET_LEAK_PROBABLY].blocks != 0;
	struct limpet_leak_amount all = {0, 0};
	char bytes[LIMPET_UNITS_TEXT];

	for (unsigned i = 0; i < LIMPET_LEAK_STATES; i++) {
		all.blocks += shown->leaks->amounts.of[i].blocks;
		all.bytes += shown->leaks->amounts.of[i].bytes;
	}

	if (!lost.blocks)
		limpet_ui_say("No block is lost: pointers lead to all of them (%" PRIu64
			      " blocks, %s).",
			      all.blocks, limpet_units_format_bytes(bytes, all.bytes));
	else
		limpet_ui_say("%s in %" PRIu64 " block%s %s%s lost: nothing points to %s any more.",
			      limpet_units_format_bytes(bytes, lost.bytes), lost.blocks,
			      lost.blocks == 1 ? "" : "s", lost.blocks == 1 ? "is" : "are",
			      is_probable ? " probably" : "", lost.blocks == 1 ? "it" : "them");
}

/* Why what is lost is not so for certain. */
static void say_doubts(const struct limpet_leaks_shown *shown)
{
	const struct limpet_leaks *leaks = shown->leaks;
	char copied[LIMPET_UNITS_TEXT], all[LIMPET_UNITS_TEXT], most[LIMPET_UNITS_TEXT];

	if (leaks->stop == LIMPET_LEAKS_PART)
		limpet_ui_say(
			"Not certain: of %s searched, %s could be copied within a stop of %s; "
			"--max-stop allows a longer one.",
			limpet_units_format_bytes(all, leaks->searched_bytes),
			limpet_units_format_bytes(copied, leaks->copied_bytes),
			limpet_units_format_duration(most, shown->most_stop_ns));
	else if (shown->why_not_stopped)
		limpet_ui_say("Not certain: the process was not stopped: %s.",
			      shown->why_not_stopped);
	else if (leaks->stop == LIMPET_LEAKS_NOT_ALLOWED)
		limpet_ui_say("Not certain: the process was not stopped (--max-stop 0).");
	else if (leaks->stop == LIMPET_LEAKS_BUSY)
		limpet_ui_say("Not certain: the process was not stopped: a thread of it sleeps in "
			      "a system "
			      "call that would notice, or did not stop in time. Try again.");
	else if (leaks->stop == LIMPET_LEAKS_TRACED)
		limpet_ui_say("Not certain: the process was not stopped: another one traces it.");
	if (leaks->is_swapped)
		limpet_ui_say(
			"Not certain: a part of the process is swapped out, and was not searched.");
	if (leaks->missed_bytes)
		limpet_ui_say("Not certain: %s of its memory could not be read.",
			      limpet_units_format_bytes(all, leaks->missed_bytes));
	if (leaks->unread_arenas)
		limpet_ui_say(
			"%zu arenas of malloc could not be read: their blocks are not judged.",
			leaks->unread_arenas);
}

/* ------------------------------------------------------------------ text */

static const char *words_of(enum limpet_leak_state state)
{
	static const char *const words[] = {
		"definitely lost: nothing points to them",
		"indirectly lost: only lost blocks point to them",
		"probably lost: nothing that was seen points to them",
		"possibly lost: only pointers into their midst",
		"held only from a stack",
		"reachable",
	};

	return words[state];
}

static void print_states(const struct limpet_leaks_shown *shown)
{
	printf("\n%s  %10s  %10s   %s%s\n", limpet_ui_style(stdout, LIMPET_UI_DIM), "blocks",
	       "bytes", "state", limpet_ui_style(stdout, LIMPET_UI_PLAIN));
	for (enum limpet_leak_state state = 0; state < LIMPET_LEAK_STATES; state++) {
		const struct limpet_leak_amount amount = amount_of(shown, state);
		char bytes[LIMPET_UNITS_TEXT], count[LIMPET_UNITS_TEXT];

		if (amount.blocks || state == LIMPET_LEAK_REACHABLE)
			printf("  %10s  %10s   %s\n",
			       limpet_units_format_count(count, amount.blocks),
			       limpet_units_format_bytes(bytes, amount.bytes), words_of(state));
	}
}

/* "ns::Type", or "blocks of 104 B"; malloc'ed, or NULL. */
static char *what_of(const struct limpet_leak_site *site)
{
	static const char before[] = "vtable for ";
	char *name, bytes[LIMPET_UNITS_TEXT];

	if (!site->type)
		return asprintf(&name, "blocks of %s",
				limpet_units_format_bytes(bytes, site->block_bytes)) < 0
			       ? NULL
			       : name;
	name = limpet_demangle(site->type);
	if (name && !strncmp(name, before, strlen(before)))
		memmove(name, name + strlen(before), strlen(name) - strlen(before) + 1);
	return name;
}

static void print_sites(const struct limpet_leaks_shown *shown)
{
	const struct limpet_leaks *leaks = shown->leaks;
	const int width = limpet_ui_width(STDOUT_FILENO);
	size_t rows = 0, others = 0;

	for (size_t i = 0; i < leaks->site_count; i++) {
		const struct limpet_leak_site *site = &leaks->sites[i];
		char bytes[LIMPET_UNITS_TEXT], count[LIMPET_UNITS_TEXT], *what;

		if (is_suppressed(shown, i))
			continue;
		if (rows == ROWS) {
			others++;
			continue;
		}
		if (!rows++)
			printf("\n%s  %-13s  %10s  %10s   %s%s\n",
			       limpet_ui_style(stdout, LIMPET_UI_DIM), "state", "blocks", "bytes",
			       "what", limpet_ui_style(stdout, LIMPET_UI_PLAIN));
		what = what_of(site);
		printf("  %-13s  %10s  %10s   %s\n", limpet_leak_state_word(site->state),
		       limpet_units_format_count(count, site->amount.blocks),
		       limpet_units_format_bytes(bytes, site->amount.bytes),
		       what ? limpet_ui_cut(what, width - WHAT_COLUMN) : "?");
		free(what);
	}
	if (others)
		printf("  and %zu more: --json\n", others);
}

int limpet_leaks_print_text(const struct limpet_leaks_shown *shown, int status)
{
	const struct limpet_leaks *leaks = shown->leaks;
	char stop[LIMPET_UNITS_TEXT], bytes[LIMPET_UNITS_TEXT];

	if (!leaks->is_judged) {
		say_unjudged(leaks, shown->pid);
		return limpet_ui_finish(status);
	}
	printf("%s", limpet_ui_style(stdout, LIMPET_UI_BOLD));
	say_lost(shown);
	printf("%s", limpet_ui_style(stdout, LIMPET_UI_PLAIN));
	say_doubts(shown);
	print_states(shown);
	print_sites(shown);
	if (leaks->stop_ns)
		printf("\n%s searched; %zu thread%s stopped for %s.\n",
		       limpet_units_format_bytes(bytes, leaks->searched_bytes), leaks->threads,
		       leaks->threads == 1 ? "" : "s",
		       limpet_units_format_duration(stop, leaks->stop_ns));
	else
		printf("\n%s searched; no thread was stopped.\n",
		       limpet_units_format_bytes(bytes, leaks->searched_bytes));
	printf("Blocks of other allocators than glibc's malloc are not judged.\n");
	return limpet_ui_finish(status);
}

/* ------------------------------------------------------------------ JSON */

static json_t *lost_json(const struct limpet_leaks_shown *shown)
{
	json_t *object = json_object();

	for (enum limpet_leak_state state = 0; state < LIMPET_LEAK_REACHABLE; state++) {
		const struct limpet_leak_amount amount = amount_of(shown, state);

		object = limpet_json_set(object, limpet_leak_state_word(state),
					 shown->leaks->is_judged ? limpet_json_lost(true, &amount)
								 : json_null());
	}
	return object;
}

static json_t *site_json(const struct limpet_leak_site *site)
{
	json_t *object = limpet_json_lost(true, &site->amount);
	char *type = site->type ? what_of(site) : NULL;

	object = limpet_json_set(object, "state", json_string(limpet_leak_state_word(site->state)));
	object = limpet_json_set(object, "type", limpet_json_text(type));
	object = limpet_json_set(object, "block_bytes", limpet_json_known(site->block_bytes));
	object = limpet_json_set(object, "stack", json_null());
	object = limpet_json_set(object, "holders", json_null());
	free(type);
	return object;
}

static json_t *sites_json(const struct limpet_leaks_shown *shown)
{
	json_t *list = json_array();

	for (size_t i = 0; i < shown->leaks->site_count; i++)
		if (!is_suppressed(shown, i))
			list = limpet_json_append(list, site_json(&shown->leaks->sites[i]));
	return list;
}

static json_t *stop_json(const struct limpet_leaks *leaks)
{
	static const char *const words[] = {"not_needed",  "whole", "part",
					    "not_allowed", "busy",  "traced"};
	json_t *object = json_object();

	object = limpet_json_set(object, "state", json_string(words[leaks->stop]));
	object = limpet_json_set(object, "microseconds",
				 limpet_json_known((leaks->stop_ns + 999) / 1000));
	object = limpet_json_set(object, "threads", limpet_json_number(leaks->threads));
	return limpet_json_set(object, "copied_bytes", limpet_json_number(leaks->copied_bytes));
}

int limpet_leaks_print_json(const struct limpet_leaks_shown *shown, int status)
{
	const struct limpet_leaks *leaks = shown->leaks;
	json_t *object = json_object();

	object = limpet_json_set(object, "format", json_string("limpet-leaks"));
	object = limpet_json_set(object, "version", json_integer(1));
	object = limpet_json_set(object, "pid", json_integer(shown->pid));
	object = limpet_json_set(object, "command", limpet_json_text(shown->command));
	object = limpet_json_set(object, "judged", json_boolean(leaks->is_judged));
	object = limpet_json_set(object, "swapped", json_boolean(leaks->is_swapped));
	object = limpet_json_set(object, "searched_bytes",
				 limpet_json_number(leaks->searched_bytes));
	object = limpet_json_set(object, "missed_bytes", limpet_json_number(leaks->missed_bytes));
	object = limpet_json_set(object, "stop", stop_json(leaks));
	object = limpet_json_set(object, "lost", lost_json(shown));
	object = limpet_json_set(
		object, "reachable",
		leaks->is_judged ? limpet_json_lost(true, &leaks->amounts.of[LIMPET_LEAK_REACHABLE])
				 : json_null());
	return limpet_json_output(limpet_json_set(object, "sites", sites_json(shown)), status);
}
