#include "collector/merge.h"

#include <errno.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#define FIRST_CAPACITY 256u
#define MAX_WAITING (16u << 20)
/* Records that streams have room for, together; beyond it an empty one gives its room back: each
 * may have its day, but not all of them theirs for good. */
#define ENOUGH_ROOM (4u << 20)
/* Records of a stream that are brought near ahead of their turn. */
#define AHEAD 4
/* Of a stream that has no more. */
#define EXHAUSTED UINT64_MAX

struct stream {
	struct limpet_record *records;
	size_t first, end, capacity;
};

/* A place in the tree: who lost here, and by which time. */
struct loser {
	uint64_t time;
	uint32_t leaf;
};
struct leaf {
	struct limpet_record *at, *end;
};

struct limpet_merge {
	struct stream *streams;
	uint32_t stream_count;
	uint32_t *active; /* streams that are not empty */
	uint32_t active_count;
	struct leaf *leaves;  /* of the active ones, while records are taken */
	struct loser *losers; /* from 1; the leaves' parents come last */
	size_t waiting, room;
	struct stream *lent; /* the one stream that was taken from, and is empty now */
	struct limpet_record taken[LIMPET_MERGE_BATCH]; /* of several */
};

static uint32_t power_of_2_from(uint32_t count)
{
	uint32_t power = 1;

	while (power < count)
		power *= 2;
	return power;
}

int limpet_merge_new(uint32_t streams, struct limpet_merge **ret)
{
	struct limpet_merge *merge = calloc(1, sizeof(*merge));

	if (!merge)
		return -ENOMEM;
	merge->stream_count = streams;
	merge->streams = calloc(streams, sizeof(*merge->streams));
	merge->active = calloc(streams, sizeof(*merge->active));
	merge->leaves = calloc(power_of_2_from(streams), sizeof(*merge->leaves));
	merge->losers = calloc(2ul * power_of_2_from(streams), sizeof(*merge->losers));
	if (!merge->streams || !merge->active || !merge->leaves || !merge->losers) {
		limpet_merge_free(merge);
		return -ENOMEM;
	}
	*ret = merge;
	return 0;
}

void limpet_merge_free(struct limpet_merge *merge)
{
	if (!merge)
		return;
	for (uint32_t i = 0; merge->streams && i < merge->stream_count; i++)
		free(merge->streams[i].records);
	free(merge->streams);
	free(merge->active);
	free(merge->leaves);
	free(merge->losers);
	free(merge);
}

struct limpet_record *limpet_merge_want(struct limpet_merge *merge, uint32_t index, size_t count)
{
	struct stream *stream = &merge->streams[index];
	size_t waiting = stream->end - stream->first, capacity = stream->capacity;
	struct limpet_record *more;

	if (count <= capacity - stream->end)
		return stream->records + stream->end;
	if (stream->first > capacity / 2 && count <= capacity - waiting) {
		memmove(stream->records, stream->records + stream->first,
			waiting * sizeof(*stream->records));
		stream->end = waiting;
		stream->first = 0;
		return stream->records + stream->end;
	}
	if (count > MAX_WAITING - stream->end)
		return NULL;
	capacity = capacity ? capacity * 2 : FIRST_CAPACITY;
	while (capacity - stream->end < count)
		capacity *= 2;
	more = realloc(stream->records, capacity * sizeof(*more));
	if (!more)
		return NULL;
	merge->room += capacity - stream->capacity;
	stream->records = more;
	stream->capacity = capacity;
	return stream->records + stream->end;
}

void limpet_merge_added(struct limpet_merge *merge, uint32_t index, size_t count)
{
	struct stream *stream = &merge->streams[index];

	if (!count)
		return;
	if (stream->first == stream->end)
		merge->active[merge->active_count++] = index;
	stream->end += count;
	merge->waiting += count;
}

/* ------------------------------------------------------------------ the tree of losers
 *
 * Knuth 5.4.1: who comes first of all leaves is known; each place on the way up from a leaf holds
 * the one that lost there. The next of the winner's own stream is played up against those, always
 * the same number of them and without a branch that depends on who wins: streams that alternate at
 * random cost no more than others. */
static uint64_t time_of(const struct leaf *leaf)
{
	if (leaf->at == leaf->end)
		return EXHAUSTED;
	return leaf->at->time_ns < EXHAUSTED ? leaf->at->time_ns : EXHAUSTED - 1;
}

static struct loser play(struct limpet_merge *merge, uint32_t leaf_count, struct loser player)
{
	for (uint32_t place = (player.leaf + leaf_count) / 2; place; place /= 2) {
		struct loser *loser = &merge->losers[place];
		uint64_t loses = loser->time < player.time;
		uint64_t time = (loser->time ^ player.time) & -loses;
		uint32_t leaf = (loser->leaf ^ player.leaf) & -(uint32_t)loses;

		loser->time ^= time;
		loser->leaf ^= leaf;
		player.time ^= time;
		player.leaf ^= leaf;
	}
	return player;
}

/* Answers the first winner. The tree is that of `leaf_count`, a power of two. */
static struct loser begin_play(struct limpet_merge *merge, uint32_t leaf_count)
{
	struct loser *places = merge->losers;

	/* Winners first, in the places of a tree with leaves. */
	for (uint32_t i = 0; i < leaf_count; i++)
		places[leaf_count + i] = (struct loser){
			.time = i < merge->active_count ? time_of(&merge->leaves[i]) : EXHAUSTED,
			.leaf = i};
	for (uint32_t i = leaf_count - 1; i; i--)
		places[i] = places[2 * i + (places[2 * i + 1].time < places[2 * i].time)];
	/* From the top down each winner gives its place to the one it beat. */
	places[0] = places[1];
	for (uint32_t i = 1; i < leaf_count; i++)
		places[i] = places[2 * i + (places[2 * i].leaf == places[i].leaf)];
	return places[0];
}

/* In place. */
static size_t take_one_stream(struct leaf *leaf, uint64_t until, size_t max,
			      struct limpet_record **ret)
{
	*ret = leaf->at;
	if (max > (size_t)(leaf->end - leaf->at))
		max = (size_t)(leaf->end - leaf->at);
	while (leaf->at < *ret + max && leaf->at->time_ns <= until)
		leaf->at++;
	return (size_t)(leaf->at - *ret);
}

static size_t take_many(struct limpet_merge *merge, uint64_t until, size_t max,
			struct limpet_record *ret)
{
	uint32_t leaf_count = power_of_2_from(merge->active_count);
	struct loser winner = begin_play(merge, leaf_count);
	size_t count = 0;

	if (until == EXHAUSTED)
		until--;
	while (count < max && winner.time <= until) {
		struct leaf *leaf = &merge->leaves[winner.leaf];

		ret[count++] = *leaf->at++;
		/* Too many streams for the processor to see that they run on. */
		__builtin_prefetch(leaf->at + AHEAD);
		winner.time = time_of(leaf);
		winner = play(merge, leaf_count, winner);
	}
	return count;
}

static void give_room_back(struct limpet_merge *merge, struct stream *stream)
{
	if (merge->room <= ENOUGH_ROOM)
		return;
	free(stream->records);
	stream->records = NULL;
	merge->room -= stream->capacity;
	stream->capacity = 0;
}

size_t limpet_merge_take(struct limpet_merge *merge, uint64_t until, size_t max,
			 struct limpet_record **ret)
{
	uint32_t active = 0;
	bool one = merge->active_count == 1;
	size_t count;

	if (merge->lent && merge->lent->first == merge->lent->end)
		give_room_back(merge, merge->lent);
	merge->lent = NULL;
	if (max > LIMPET_MERGE_BATCH)
		max = LIMPET_MERGE_BATCH;
	if (!merge->active_count)
		return 0;
	for (uint32_t i = 0; i < merge->active_count; i++) {
		struct stream *stream = &merge->streams[merge->active[i]];

		merge->leaves[i] = (struct leaf){.at = stream->records + stream->first,
						 .end = stream->records + stream->end};
	}
	if (one) {
		count = take_one_stream(&merge->leaves[0], until, max, ret);
	} else {
		count = take_many(merge, until, max, merge->taken);
		*ret = merge->taken;
	}
	for (uint32_t i = 0; i < merge->active_count; i++) {
		struct stream *stream = &merge->streams[merge->active[i]];

		stream->first = (size_t)(merge->leaves[i].at - stream->records);
		if (stream->first < stream->end) {
			merge->active[active++] = merge->active[i];
			continue;
		}
		stream->first = stream->end = 0;
		if (one)
			merge->lent = stream;
		else
			give_room_back(merge, stream);
	}
	merge->active_count = active;
	merge->waiting -= count;
	return count;
}

size_t limpet_merge_waiting_all(const struct limpet_merge *merge)
{
	return merge->waiting;
}

size_t limpet_merge_waiting(const struct limpet_merge *merge, uint32_t stream)
{
	return merge->streams[stream].end - merge->streams[stream].first;
}
