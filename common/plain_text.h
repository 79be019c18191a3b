/* Makes strings of a target or a file printable: they may contain any byte but NUL. */
#ifndef LIMPET_COMMON_PLAIN_TEXT_H
#define LIMPET_COMMON_PLAIN_TEXT_H

#include <stddef.h>

/* Converts to valid UTF-8: replaces only invalid bytes, by U+FFFD. Control characters stay, since a
 * JSON writer escapes them. malloc'ed; NULL if out of memory. */
char *limpet_plain_text_repair(const char *text);

/* In place: control characters and invalid bytes become '?', so that no name can control a
 * terminal. Returns `text`. */
char *limpet_plain_text_clean(char *text);

/* 0: limpet_plain_text_clean() would change nothing; -EILSEQ: there are invalid bytes; -EINVAL:
 * there are control characters. */
int limpet_plain_text_check(const char *text);

/* Columns of `text`, valid UTF-8: one for each character, including combining and wide ones. */
size_t limpet_plain_text_columns(const char *text);

#endif
