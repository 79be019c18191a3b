/* Durations, sizes and rates in human-readable form. Pure functions; no locale.
 *
 * Parsing is strict: the whole text must be one value, or the result is -EINVAL (no value) or
 * -ERANGE (too large). Out-parameters are untouched then. */
#ifndef LIMPET_COMMON_UNITS_H
#define LIMPET_COMMON_UNITS_H

#include <stddef.h>
#include <stdint.h>

#include "common/err.h"

/* `50ms`, `90s`, `10m`, `1h30m`, `2d`, `0.5s`, `250us`, `10ns`; a bare number is seconds. Several
 * units go from large to small, each once; the last one may have a decimal fraction. Fractions of a
 * nanosecond are truncated. No sign, no spaces. */
int limpet_units_parse_duration(const char *text, uint64_t *ret_ns) LIMPET_MUST_CHECK;

/* `4096`, `4096B`, `64KiB`, `64K`, `2G` (= `2GiB`), `1.5MiB`; in either case; up to EiB. Fractions
 * of a byte are truncated, and a fraction of plain bytes is rejected. `KB`, `MB`... are rejected as
 * ambiguous: they may mean 1000 or 1024. */
int limpet_units_parse_bytes(const char *text, uint64_t *ret_bytes) LIMPET_MUST_CHECK;

/* Long enough for any result below. */
#define LIMPET_UNITS_TEXT 32

/* These write a terminated text into `ret`, and return it. */

/* The most characters of a text of bytes (`1023.9 KiB`), and of a change of them. */
#define LIMPET_UNITS_BYTES_MAX 10
#define LIMPET_UNITS_CHANGE_MAX (LIMPET_UNITS_BYTES_MAX + 1)

/* `0 B`, `1023 B`, `1.0 KiB`, `182.4 MiB`; rounded to the nearest tenth. */
char *limpet_units_format_bytes(char ret[LIMPET_UNITS_TEXT], uint64_t bytes);
/* With a sign: `+1.5 MiB`, `-20 B`, `0 B`. */
char *limpet_units_format_bytes_change(char ret[LIMPET_UNITS_TEXT], int64_t bytes);
/* `999`, `1.0 k`, `3.1 M`, `2.0 G`; rounded to the nearest tenth. Shorter than a text of bytes. */
char *limpet_units_format_count(char ret[LIMPET_UNITS_TEXT], uint64_t count);
/* As counts: `950 /s`, `3.1 M/s`. */
char *limpet_units_format_rate(char ret[LIMPET_UNITS_TEXT], uint64_t per_second);
/* `0s`, `417us`, `450ms`, `2.5s`, `12s`, `1m02s`, `1h02m`, `3d04h`; rounded to the nearest. */
char *limpet_units_format_duration(char ret[LIMPET_UNITS_TEXT], uint64_t ns);
/* A time since the start of the capture, however long it is: as durations below 10 seconds, then to
 * the nearest tenth of a second: `12.3s`, `1m02.0s`, `26h01m02.5s`. */
char *limpet_units_format_time(char ret[LIMPET_UNITS_TEXT], uint64_t ns);

#endif
