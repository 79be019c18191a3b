/* The report as text, for people. ASCII, except for names. */
#ifndef LIMPET_ANALYZER_TEXT_REPORT_TEXT_H
#define LIMPET_ANALYZER_TEXT_REPORT_TEXT_H

#include <stdbool.h>
#include <stdio.h>

#include "analyzer/views/report.h"

/* For samples, in place of the sites by temporary allocations. */
extern const char limpet_report_not_temporary[];

struct limpet_report_text_options {
	unsigned width; /* columns; 0: lines are not cut */
	bool full;      /* every frame, names with parameters */
	/* Escape sequences, "" without colours. */
	const char *bold, *dim, *warn, *plain;
};

/* -ENOMEM; errors of `file` are found by ferror(). */
int limpet_report_text_print(struct limpet_report *report,
			     const struct limpet_report_text_options *options,
			     FILE *file) LIMPET_MUST_CHECK;

#endif
