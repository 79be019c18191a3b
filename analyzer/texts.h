/* Strings kept once, however often they come. One thread. */
#ifndef LIMPET_ANALYZER_TEXTS_H
#define LIMPET_ANALYZER_TEXTS_H

struct limpet_texts;

/* The copy of `string` in *texts (NULL: none yet), which lives as long as that; NULL when memory is
 * out. */
const char *limpet_texts_keep(struct limpet_texts **texts, const char *string);
void limpet_texts_free(struct limpet_texts *texts);

#endif
