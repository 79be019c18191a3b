#include "analyzer/model/open_maps.h"

#include <errno.h>
#include <stdlib.h>
#include <uthash.h>

#include "analyzer/model/open_blocks.h"

struct limpet_open_maps_site {
	struct limpet_model_map_site figures;
	UT_hash_handle hh;
};
/* What one thread mapped on one stack at one time and is still mapped. */
struct part {
	struct limpet_open_maps_site *site; /* NULL: the thread is not kept */
	uint64_t bytes;
	uint32_t thread;
	struct part *next;
};
struct key {
	uint64_t tick, node; /* of one width: no padding that a comparison would see */
};
struct limpet_open_maps_entry {
	struct key key;
	struct part *parts;
	UT_hash_handle hh;
};

static unsigned hash_of(const struct key *key)
{
	return limpet_open_hash(limpet_open_seed((uint32_t)key->node, 0), key->tick);
}

static struct limpet_open_maps_entry *find_entry(const struct limpet_open_maps *maps,
						 const struct limpet_open_map *like)
{
	const struct key key = {.tick = like->tick, .node = like->node};
	struct limpet_open_maps_entry *entry;

	HASH_FIND_BYHASHVALUE(hh, maps->entries, &key, sizeof(key), hash_of(&key), entry);
	return entry;
}

static struct limpet_open_maps_entry *find_or_add_entry(struct limpet_open_maps *maps,
							const struct limpet_open_map *map)
{
	struct limpet_open_maps_entry *entry = find_entry(maps, map);

	if (entry)
		return entry;
	entry = calloc(1, sizeof(*entry));
	if (!entry)
		return NULL;
	entry->key = (struct key){.tick = map->tick, .node = map->node};
	HASH_ADD_BYHASHVALUE(hh, maps->entries, key, sizeof(entry->key), hash_of(&entry->key),
			     entry);
	return entry;
}

static struct limpet_open_maps_site *find_or_add_site(struct limpet_open_maps *maps, uint32_t node)
{
	struct limpet_open_maps_site *site;

	HASH_FIND(hh, maps->sites, &node, sizeof(node), site);
	if (site)
		return site;
	site = calloc(1, sizeof(*site));
	if (!site)
		return NULL;
	site->figures.node = node;
	HASH_ADD(hh, maps->sites, figures.node, sizeof(site->figures.node), site);
	return site;
}

static struct part *find_part(const struct limpet_open_maps_entry *entry, uint32_t thread)
{
	struct part *part = entry->parts;

	while (part && part->thread != thread)
		part = part->next;
	return part;
}

int limpet_open_maps_add(struct limpet_open_maps *maps, const struct limpet_open_map *map,
			 bool counting)
{
	struct limpet_open_maps_entry *entry = find_or_add_entry(maps, map);
	struct limpet_open_maps_site *site = map->kept ? find_or_add_site(maps, map->node) : NULL;
	struct part *part = entry ? find_part(entry, map->thread) : NULL;

	if (!entry || (map->kept && !site))
		return -ENOMEM;
	if (!part) {
		part = calloc(1, sizeof(*part));
		if (!part)
			return -ENOMEM;
		*part = (struct part){.site = site, .thread = map->thread, .next = entry->parts};
		entry->parts = part;
	}
	part->bytes += map->bytes;
	if (!site)
		return 0;
	site->figures.mapped_bytes += map->bytes;
	if (counting) {
		site->figures.mmaps++;
		site->figures.mmap_bytes += map->bytes;
	}
	return 0;
}

/* Returns how many of the bytes were in `part`. */
static uint64_t remove_from(struct part *part, uint64_t bytes, bool counting)
{
	if (bytes > part->bytes)
		bytes = part->bytes;
	part->bytes -= bytes;
	if (part->site) {
		part->site->figures.mapped_bytes -= bytes;
		if (counting)
			part->site->figures.unmapped_bytes += bytes;
	}
	return bytes;
}

static void free_parts(struct limpet_open_maps_entry *entry)
{
	while (entry->parts) {
		struct part *part = entry->parts;

		entry->parts = part->next;
		free(part);
	}
}

void limpet_open_maps_remove(struct limpet_open_maps *maps, const struct limpet_open_map *like,
			     bool counting)
{
	struct limpet_open_maps_entry *entry = find_entry(maps, like);
	struct part *own = entry ? find_part(entry, like->thread) : NULL;
	uint64_t bytes = like->bytes, left = 0;

	if (!entry)
		return;
	if (own)
		bytes -= remove_from(own, bytes, counting);
	for (struct part *part = entry->parts; part; part = part->next) {
		bytes -= remove_from(part, bytes, counting);
		left += part->bytes;
	}
	if (!left) {
		HASH_DEL(maps->entries, entry);
		free_parts(entry);
		free(entry);
	}
}

static int compare_sites(const void *a, const void *b)
{
	const struct limpet_model_map_site *x = a, *y = b;

	return x->node < y->node ? -1 : x->node > y->node;
}

int limpet_open_maps_sites(const struct limpet_open_maps *maps,
			   struct limpet_model_map_site **ret_sites, size_t *ret_count)
{
	struct limpet_model_map_site *sites = calloc(HASH_COUNT(maps->sites) + 1, sizeof(*sites));
	size_t count = 0;

	if (!sites)
		return -ENOMEM;
	for (const struct limpet_open_maps_site *site = maps->sites; site; site = site->hh.next)
		sites[count++] = site->figures;
	qsort(sites, count, sizeof(*sites), compare_sites);
	*ret_sites = sites;
	*ret_count = count;
	return 0;
}

void limpet_open_maps_done(struct limpet_open_maps *maps)
{
	struct limpet_open_maps_entry *entry, *next_entry;
	struct limpet_open_maps_site *site, *next_site;

	HASH_ITER (hh, maps->entries, entry, next_entry) {
		HASH_DEL(maps->entries, entry);
		free_parts(entry);
		free(entry);
	}
	HASH_ITER (hh, maps->sites, site, next_site) {
		HASH_DEL(maps->sites, site);
		free(site);
	}
}
