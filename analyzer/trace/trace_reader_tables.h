/* The tables of a trace: target, modules, nodes, end. The reader fills them block by block. */
#ifndef LIMPET_ANALYZER_TRACE_TRACE_READER_TABLES_H
#define LIMPET_ANALYZER_TRACE_TRACE_READER_TABLES_H

#include "analyzer/trace/trace_reader.h"
#include "common/varint.h"

struct limpet_trace_tables {
	struct limpet_trace_target target;
	char *strings[13]; /* of the target and the end */
	size_t string_count;
	struct limpet_trace_module *modules;
	uint32_t module_count;
	size_t module_capacity;
	struct limpet_trace_node *nodes;
	uint32_t node_count;
	size_t node_capacity;
	char **owners;
	uint32_t owner_count;
	size_t owner_capacity;
	struct limpet_trace_thread_name {
		uint32_t tid, order;
		char *name;
	} * threads; /* after limpet_trace_tables_settle() by tid, each once */
	uint32_t thread_count;
	size_t thread_capacity;
	struct limpet_trace_user_mark *marks; /* after limpet_trace_tables_settle() by time */
	size_t mark_count, mark_capacity;
	struct limpet_trace_end end;
};

/* 0 or -ENOMEM. */
int limpet_trace_tables_init(struct limpet_trace_tables *tables);
void limpet_trace_tables_done(struct limpet_trace_tables *tables);
/* Reads a HEADER, MODULES, NODES, THREADS, MARKS or END block; ignores other types. -EBADMSG: it is
 * damaged; what was read before the damage stays. */
int limpet_trace_tables_read(struct limpet_trace_tables *tables, unsigned type,
			     struct limpet_cursor sections);
/* After the last block: makes every reference between the tables valid. */
void limpet_trace_tables_settle(struct limpet_trace_tables *tables);
/* "": unknown. */
const char *limpet_trace_tables_thread(const struct limpet_trace_tables *tables, uint32_t tid);

#endif
