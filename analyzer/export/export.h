/* A heap in the formats of other tools. Each is written whole, or not at all: no option of theirs
 * is guessed. limpet-export(1) lists the contents of each. */
#ifndef LIMPET_ANALYZER_EXPORT_EXPORT_H
#define LIMPET_ANALYZER_EXPORT_EXPORT_H

#include <stdio.h>

#include "analyzer/model/history.h"
#include "analyzer/views/analysis.h"
#include "common/err.h"

/* What a format needs of a trace, or cannot show a part of. */
enum limpet_export_needs {
	LIMPET_EXPORT_WHOLE = 1 << 0,     /* the whole capture, no window */
	LIMPET_EXPORT_EVENTS = 1 << 1,    /* single events, of all blocks and threads */
	LIMPET_EXPORT_BEGINNING = 1 << 2, /* from the first one on */
	LIMPET_EXPORT_EXACT = 1 << 3,     /* no samples */
	LIMPET_EXPORT_REPLAY = 1 << 4,    /* trees at moments */
	LIMPET_EXPORT_HISTORY = 1 << 5,   /* figures over time */
	LIMPET_EXPORT_SORTED = 1 << 6,    /* one figure, that of --sort */
};

/* What is written at once. */
struct limpet_export_part {
	unsigned table;                       /* of the format's tables */
	const struct limpet_history *history; /* for LIMPET_EXPORT_HISTORY */
};

/* A format: one file, which export_formats.h lists. */
struct limpet_export_format {
	const char *name;
	unsigned needs; /* enum limpet_export_needs */
	/* 0, -ENOMEM or -ENODATA; errors of `file` are found by ferror(). */
	int (*write)(struct limpet_analysis *analysis, const struct limpet_export_part *part,
		     FILE *file);
	const char *const *tables; /* each in a file of its own, up to NULL; NULL: one file */
	/* The ending of a binary format's file: not for a terminal. NULL: it is text. */
	const char *binary;
};

/* NULL: there is none of that index. */
const struct limpet_export_format *limpet_export_format(size_t index);
/* Their names; ends with NULL. */
extern const char *const limpet_export_words[];

/* Number of moments in a massif file, and of dumps of Perfetto. */
#define LIMPET_EXPORT_MOMENTS 80

/* -ENOTSUP, -ENODATA: the format needs what the trace does not have, or shows all where a part was
 * asked for; with a message. -ENOMEM; errors of `file` are found by ferror(). `table`: the one to
 * write, of a format that has several. */
int limpet_export(struct limpet_analysis *analysis, const struct limpet_export_format *format,
		  unsigned table, FILE *file, struct limpet_err *err) LIMPET_MUST_CHECK;

#endif
