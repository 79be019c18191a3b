#include "collector/capture/leak_search.h"

#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/uio.h>

#include "collector/record/live_table.h"
#include "collector/record/recorder.h"
#include "common/array.h"
#include "common/clock.h"
#include "common/err.h"
#include "common/subprocess.h"
#include "explain/reach/holders.h"
#include "explain/reach/leaks.h"
#include "injector/proc/target_process.h"

/* Sites whose holders are looked for, of how large a part of what is live, and how long. */
#define HELD_SITES 8u
#define HELD_PART 50u
#define HOLDERS_NS UINT64_C(10000000000)
#define CHAINS 3u

/* What the other process answers: this, blocks, and holders. */
struct answer {
	bool is_judged, is_certain;
	uint64_t stop_ns;
	uint64_t last_tick; /* of what it knew */
	uint64_t block_count, holder_count;
};
/* Not reachable, or (LIMPET_LEAK_STATES) not found. */
struct block {
	uint64_t address, tick;
	uint64_t state;
};
struct holder {
	uint32_t site;
	uint64_t held_bytes;
	char name[LIMPET_LEAK_HOLDER_BYTES];
};

static uint32_t largest_site(const struct limpet_live_entry *entries, size_t count)
{
	uint32_t largest = 0;

	for (size_t i = 0; i < count; i++)
		largest = entries[i].site > largest ? entries[i].site : largest;
	return largest;
}

struct limpet_leak_search {
	struct limpet_subprocess process;
	bool has_ended;
	struct answer answer;
	struct block *blocks; /* by address */
	struct holder *holders;
};

/* ------------------------------------------------------------------ in the other process */

struct finder {
	const struct limpet_target *of; /* limpet's own view; its descriptors are closed here */
	struct limpet_recorder *recorder;
	limpet_name_variable_fn *name;
	struct limpet_target target;
	const struct limpet_live_entry *entries;
	struct limpet_known_block *list;
	uint8_t *states;
	struct limpet_known_blocks known;
	struct answer answer;
	struct block *blocks;
	struct holder holders[HELD_SITES];
};

static int list_known(struct finder *finder)
{
	size_t count;

	finder->entries = limpet_recorder_live(finder->recorder, &count);
	finder->list = reallocarray(NULL, count + 1, sizeof(*finder->list));
	finder->states = calloc(count + 1, sizeof(*finder->states));
	if (!finder->list || !finder->states)
		return -ENOMEM;
	for (size_t i = 0; i < count; i++) {
		const struct limpet_live_entry *entry = &finder->entries[i];

		finder->list[i] = (struct limpet_known_block){entry->address, entry->size};
		if (entry->tick > finder->answer.last_tick)
			finder->answer.last_tick = entry->tick;
	}
	finder->known = (struct limpet_known_blocks){finder->list, count};
	return 0;
}

static int judge(struct finder *finder)
{
	const struct limpet_leaks_options how = {.most_stop_ns = LIMPET_LEAKS_STOP_NS,
						 .known = &finder->known,
						 .ret_states = finder->states};
	struct answer *answer = &finder->answer;
	struct limpet_leaks leaks;
	struct limpet_err err = {0};
	int error = limpet_leaks_read(&finder->target, &how, &leaks, &err);

	if (error)
		return error;
	answer->is_judged = leaks.is_judged;
	answer->is_certain =
		(leaks.stop == LIMPET_LEAKS_WHOLE || leaks.stop == LIMPET_LEAKS_NO_STOP) &&
		!leaks.is_swapped && !leaks.missed_bytes;
	answer->stop_ns = leaks.stop_ns;
	limpet_leaks_done(&leaks);
	finder->blocks = reallocarray(NULL, finder->known.count + 1, sizeof(*finder->blocks));
	if (!finder->blocks)
		return -ENOMEM;
	for (size_t i = 0; i < finder->known.count && answer->is_judged; i++)
		if (finder->states[i] != LIMPET_LEAK_REACHABLE)
			finder->blocks[answer->block_count++] =
				(struct block){finder->entries[i].address, finder->entries[i].tick,
					       finder->states[i]};
	return 0;
}

/* The sites with most reachable bytes, the first ones; returns their number. */
static size_t choose_sites(const struct finder *finder, uint32_t sites[HELD_SITES])
{
	const uint32_t most = largest_site(finder->entries, finder->known.count);
	uint64_t *bytes = calloc((size_t)most + 1, sizeof(*bytes)), all = 0;
	size_t count = 0;

	for (size_t i = 0; bytes && i < finder->known.count; i++) {
		all += finder->entries[i].size;
		if (finder->states[i] == LIMPET_LEAK_REACHABLE)
			bytes[finder->entries[i].site] += finder->entries[i].size;
	}
	while (bytes && count < HELD_SITES) {
		uint32_t largest = 0;

		for (uint32_t site = 0; site <= most; site++)
			largest = bytes[site] > bytes[largest] ? site : largest;
		if (!bytes[largest] || bytes[largest] < all / HELD_PART)
			break;
		sites[count++] = largest;
		bytes[largest] = 0;
	}
	free(bytes);
	return count;
}

/* A variable that alone, but for stacks, leads to half of the chosen blocks, or more. */
static bool find_holder(struct finder *finder, struct limpet_holders *holders,
			struct holder *ret_holder)
{
	const uint64_t chosen = limpet_holders_chosen(holders).bytes;
	struct limpet_holder_chain chain;

	for (unsigned i = 0; i < CHAINS && limpet_holders_next(holders, &chain) > 0; i++) {
		const struct limpet_holder_root root = chain.root;
		struct limpet_leak_variable variable;
		uint64_t held;

		limpet_holder_chain_done(&chain);
		if (root.kind != LIMPET_PLACE_DATA ||
		    !finder->name(&finder->target, root.module, root.address, &variable))
			continue;
		held = limpet_holders_retained_by(holders, variable.start, variable.end, false)
			       .bytes;
		if (limpet_holders_retained_chosen(holders).bytes >= chosen - chosen / 2) {
			ret_holder->held_bytes = held;
			memcpy(ret_holder->name, variable.name, sizeof(variable.name));
			return true;
		}
		limpet_holders_leave_out(holders, variable.start, variable.end);
	}
	return false;
}

static int choose_blocks(const struct finder *finder, uint32_t site, struct limpet_holders *holders)
{
	struct limpet_known_block *list =
		reallocarray(NULL, finder->known.count + 1, sizeof(*list));
	struct limpet_known_blocks blocks = {list, 0};
	int error;

	if (!list)
		return -ENOMEM;
	for (size_t i = 0; i < finder->known.count; i++)
		if (finder->entries[i].site == site && finder->states[i] == LIMPET_LEAK_REACHABLE)
			list[blocks.count++] = finder->list[i];
	error = limpet_holders_choose_blocks(holders, &blocks);
	free(list);
	return error;
}

/* Nothing is wrong if there are none. */
static void find_holders(struct finder *finder)
{
	const uint64_t end_ns = limpet_monotonic_ns() + HOLDERS_NS;
	struct limpet_holders *holders;
	struct limpet_err err = {0};
	uint32_t sites[HELD_SITES];
	const size_t count = finder->name ? choose_sites(finder, sites) : 0;

	if (!count || limpet_holders_read(&finder->target, &finder->known, &holders, &err) < 0)
		return;
	for (size_t i = 0; i < count && limpet_holders_facts(holders)->is_known &&
			   !limpet_holders_facts(holders)->is_cut && limpet_monotonic_ns() < end_ns;
	     i++) {
		struct holder holder = {.site = sites[i]};

		if (choose_blocks(finder, sites[i], holders) == 0 &&
		    find_holder(finder, holders, &holder))
			finder->holders[finder->answer.holder_count++] = holder;
	}
	limpet_holders_free(holders);
}

static void answer(int socket, const struct finder *finder)
{
	const struct limpet_subprocess self = {.pidfd = -1, .socket = socket};
	const struct answer *head = &finder->answer;
	const struct iovec parts[] = {
		{(void *)(uintptr_t)head, sizeof(*head)},
		{finder->blocks, head->block_count * sizeof(*finder->blocks)},
		{(void *)(uintptr_t)finder->holders,
		 head->holder_count * sizeof(finder->holders[0])},
	};

	(void)!limpet_subprocess_send(&self, parts, LIMPET_COUNT_OF(parts));
}

static void find(int socket, void *context)
{
	struct finder *finder = context;
	int error = limpet_target_open(finder->of->pid, &finder->target, NULL);

	if (!error && finder->target.start_ticks != finder->of->start_ticks)
		error = -ESRCH;
	if (!error)
		error = list_known(finder);
	if (!error)
		error = judge(finder);
	if (!error && finder->answer.is_judged)
		find_holders(finder);
	/* Otherwise nothing is judged. */
	answer(socket, finder);
}

/* ------------------------------------------------------------------ in limpet's own process */

int limpet_leak_search_begin(const struct limpet_target *target, struct limpet_recorder *recorder,
			     limpet_name_variable_fn *name, struct limpet_leak_search **ret)
{
	struct limpet_leak_search *search = calloc(1, sizeof(*search));
	struct finder *finder = calloc(1, sizeof(*finder));
	int error = search && finder ? 0 : -ENOMEM;

	if (!error) {
		*finder = (struct finder){.of = target, .recorder = recorder, .name = name};
		error = limpet_subprocess_start(find, finder, &search->process);
	}
	free(finder);
	if (error)
		free(search);
	else
		*ret = search;
	return error;
}

int limpet_leak_search_fd(const struct limpet_leak_search *search)
{
	return search->has_ended ? -1 : search->process.socket;
}

static int receive(struct limpet_leak_search *search)
{
	struct answer *answer = &search->answer;
	int error = limpet_subprocess_receive(&search->process, answer, sizeof(*answer));

	if (error)
		return error;
	search->blocks = reallocarray(NULL, answer->block_count + 1, sizeof(*search->blocks));
	search->holders = reallocarray(NULL, answer->holder_count + 1, sizeof(*search->holders));
	if (!search->blocks || !search->holders)
		return -ENOMEM;
	error = limpet_subprocess_receive(&search->process, search->blocks,
					  answer->block_count * sizeof(*search->blocks));
	if (!error)
		error = limpet_subprocess_receive(&search->process, search->holders,
						  answer->holder_count * sizeof(*search->holders));
	return error;
}

bool limpet_leak_search_has_ended(struct limpet_leak_search *search)
{
	struct pollfd socket = {.fd = search->process.socket, .events = POLLIN};

	if (search->has_ended)
		return true;
	if (poll(&socket, 1, 0) <= 0)
		return false;
	search->has_ended = true;
	if (receive(search) < 0)
		search->answer = (struct answer){.is_judged = false};
	return true;
}

void limpet_leak_search_free(struct limpet_leak_search *search)
{
	if (!search)
		return;
	limpet_subprocess_stop(&search->process);
	free(search->blocks);
	free(search->holders);
	free(search);
}

/* ------------------------------------------------------------------ counts */

struct counting {
	const struct limpet_leak_search *search;
	struct limpet_leak_counts *counts;
	uint32_t *places; /* of each site in the counts, + 1; 0: none */
	size_t capacity;
};

/* What the search knew of a block that is live still. */
static enum limpet_leak_state state_of(const struct limpet_leak_search *search, size_t *at,
				       const struct limpet_live_entry *entry)
{
	const struct block *list = search->blocks;
	const size_t count = search->answer.block_count;

	if (entry->tick > search->answer.last_tick)
		return LIMPET_LEAK_STATES;
	while (*at < count && list[*at].address < entry->address)
		++*at;
	if (*at == count || list[*at].address != entry->address)
		return LIMPET_LEAK_REACHABLE;
	return list[*at].tick == entry->tick ? (enum limpet_leak_state)list[*at].state
					     : LIMPET_LEAK_STATES;
}

static int add(struct counting *counting, struct limpet_recorder *recorder,
	       const struct limpet_live_entry *entry, enum limpet_leak_state state)
{
	struct limpet_leak_counts *counts = counting->counts;
	uint32_t *place = &counting->places[entry->site];

	if (!*place) {
		if (limpet_reserve(&counts->sites, &counting->capacity, counts->count + 1,
				   sizeof(*counts->sites)) < 0 ||
		    !counts->sites)
			return -ENOMEM;
		counts->sites[counts->count] = (struct limpet_leak_site_counts){
			.node = limpet_recorder_site_node(recorder, entry->site)};
		*place = (uint32_t)++counts->count;
	}
	counts->sites[*place - 1].amounts.of[state].blocks++;
	counts->sites[*place - 1].amounts.of[state].bytes += entry->size;
	counts->amounts.of[state].blocks++;
	counts->amounts.of[state].bytes += entry->size;
	return 0;
}

static void add_holders(const struct counting *counting, uint32_t most)
{
	const struct limpet_leak_search *search = counting->search;

	for (size_t i = 0; i < search->answer.holder_count; i++) {
		const struct holder *holder = &search->holders[i];
		const uint32_t place = holder->site <= most ? counting->places[holder->site] : 0;
		struct limpet_leak_site_counts *site;

		if (!place)
			continue;
		site = &counting->counts->sites[place - 1];
		memcpy(site->holder, holder->name, sizeof(site->holder));
		site->held_bytes = holder->held_bytes;
	}
}

static uint64_t all_bytes(const struct limpet_leak_site_counts *site)
{
	uint64_t bytes = 0;

	for (unsigned i = 0; i < LIMPET_LEAK_STATES; i++)
		bytes += site->amounts.of[i].bytes;
	return bytes;
}

/* What matters most first. */
static int compare_weights(const void *a, const void *b)
{
	const uint64_t left =
		limpet_leak_amounts_lost(&((const struct limpet_leak_site_counts *)a)->amounts)
			.bytes;
	const uint64_t right =
		limpet_leak_amounts_lost(&((const struct limpet_leak_site_counts *)b)->amounts)
			.bytes;

	if (left != right)
		return left > right ? -1 : 1;
	return all_bytes(a) > all_bytes(b) ? -1 : all_bytes(a) < all_bytes(b);
}

static int compare_nodes(const void *a, const void *b)
{
	const uint32_t left = ((const struct limpet_leak_site_counts *)a)->node;
	const uint32_t right = ((const struct limpet_leak_site_counts *)b)->node;

	return left < right ? -1 : left > right;
}

static void keep_most(struct limpet_leak_counts *counts)
{
	if (!counts->count)
		return;
	if (counts->count > LIMPET_LEAK_SITES_MAX) {
		qsort(counts->sites, counts->count, sizeof(*counts->sites), compare_weights);
		counts->count = LIMPET_LEAK_SITES_MAX;
	}
	qsort(counts->sites, counts->count, sizeof(*counts->sites), compare_nodes);
}

int limpet_leak_search_count(const struct limpet_leak_search *search,
			     struct limpet_recorder *recorder,
			     struct limpet_leak_counts *ret_counts)
{
	struct counting counting = {.search = search, .counts = ret_counts};
	const struct limpet_live_entry *entries;
	size_t count, at = 0;
	uint32_t most;
	int error = 0;

	*ret_counts = (struct limpet_leak_counts){.known = search->answer.is_judged};
	if (!ret_counts->known)
		return 0;
	ret_counts->is_certain = search->answer.is_certain;
	ret_counts->stop_ns = search->answer.stop_ns;
	entries = limpet_recorder_live(recorder, &count);
	most = largest_site(entries, count);
	counting.places = calloc((size_t)most + 1, sizeof(*counting.places));
	if (!counting.places)
		error = -ENOMEM;
	for (size_t i = 0; i < count && !error; i++) {
		const enum limpet_leak_state state = state_of(search, &at, &entries[i]);

		if (state < LIMPET_LEAK_STATES)
			error = add(&counting, recorder, &entries[i], state);
		else
			ret_counts->unjudged++;
	}
	if (!error)
		add_holders(&counting, most);
	free(counting.places);
	if (error) {
		free(ret_counts->sites);
		*ret_counts = (struct limpet_leak_counts){.known = false};
	} else {
		keep_most(ret_counts);
	}
	return error;
}
