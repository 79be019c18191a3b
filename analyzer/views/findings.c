#include "analyzer/views/findings.h"

#include <stdlib.h>

const char *const limpet_heap_finding_words[LIMPET_HEAP_KINDS] = {
	[LIMPET_HEAP_STEADY] = "steady",   [LIMPET_HEAP_LEAK] = "leak",
	[LIMPET_HEAP_GROWTH] = "growth",   [LIMPET_HEAP_RISE] = "rise",
	[LIMPET_HEAP_RUNTIME] = "runtime", [LIMPET_HEAP_FREE] = "free",
	[LIMPET_HEAP_FILE] = "file",       [LIMPET_HEAP_STACKS] = "stacks",
	[LIMPET_HEAP_MAPPING] = "mapping", [LIMPET_HEAP_HOLDS] = "holds",
	[LIMPET_HEAP_CHURNS] = "churns",   [LIMPET_HEAP_SPARSE] = "sparse",
};

void limpet_heap_finding_done(struct limpet_heap_finding *finding)
{
	free(finding->text);
	free(finding->evidence);
	limpet_culprit_done(&finding->culprit);
}

void limpet_heap_findings_done(struct limpet_heap_findings *findings)
{
	for (size_t i = 0; i < findings->count; i++)
		limpet_heap_finding_done(&findings->list[i]);
	findings->count = 0;
}
