#include "common/units.h"

#include <errno.h>
#include <stdbool.h>
#include <string.h>

struct unit {
	const char *name;
	uint64_t scale;
};

/* A decimal number at *text: whole part, and the fraction as numerator over a power of ten. More
 * than 18 digits of fraction cannot influence a 64-bit value. */
struct decimal {
	uint64_t whole, numerator, denominator;
	bool has_fraction;
};

static bool is_digit(char c)
{
	return c >= '0' && c <= '9';
}

static int read_decimal(const char **text, struct decimal *ret)
{
	struct decimal value = {.denominator = 1};
	const char *s = *text;

	if (!is_digit(*s))
		return -EINVAL;
	for (; is_digit(*s); s++) {
		if (__builtin_mul_overflow(value.whole, 10, &value.whole) ||
		    __builtin_add_overflow(value.whole, (uint64_t)(*s - '0'), &value.whole))
			return -ERANGE;
	}
	if (*s == '.') {
		s++;
		if (!is_digit(*s))
			return -EINVAL;
		value.has_fraction = true;
		for (; is_digit(*s); s++) {
			if (value.denominator == 1000000000000000000u)
				continue;
			value.numerator = value.numerator * 10 + (uint64_t)(*s - '0');
			value.denominator *= 10;
		}
	}
	*text = s;
	*ret = value;
	return 0;
}

/* value * scale, the fraction cut off. */
static int scale_decimal(const struct decimal *value, uint64_t scale, uint64_t *ret)
{
	uint64_t whole, part;

	if (__builtin_mul_overflow(value->whole, scale, &whole))
		return -ERANGE;
	part = (uint64_t)((unsigned __int128)value->numerator * scale / value->denominator);
	if (__builtin_add_overflow(whole, part, &whole))
		return -ERANGE;
	*ret = whole;
	return 0;
}

static size_t letters(const char *s)
{
	size_t count = 0;

	while ((s[count] >= 'a' && s[count] <= 'z') || (s[count] >= 'A' && s[count] <= 'Z'))
		count++;
	return count;
}

int limpet_units_parse_duration(const char *text, uint64_t *ret_ns)
{
	static const struct unit units[] = {
		{"d", 86400000000000u},
		{"h", 3600000000000u},
		{"m", 60000000000u},
		{"s", 1000000000u},
		{"ms", 1000000u},
		{"us", 1000u},
		{"ns", 1u},
	};
	uint64_t total = 0;
	size_t next = 0;
	bool first = true, fraction = false;

	do {
		struct decimal value;
		uint64_t part;
		size_t i = next, length;
		int result;

		/* A fraction is only allowed in the last part: 1.5h30m is a mistake. */
		if (fraction)
			return -EINVAL;
		result = read_decimal(&text, &value);
		if (result < 0)
			return result;
		fraction = value.has_fraction;
		length = letters(text);
		if (first && *text == '\0') {
			i = 3;
		} else {
			while (i < LIMPET_COUNT_OF(units) &&
			       (strlen(units[i].name) != length ||
				strncmp(units[i].name, text, length) != 0))
				i++;
			if (i == LIMPET_COUNT_OF(units))
				return -EINVAL;
		}
		result = scale_decimal(&value, units[i].scale, &part);
		if (result < 0 || __builtin_add_overflow(total, part, &total))
			return -ERANGE;
		text += length;
		next = i + 1;
		first = false;
	} while (*text);
	*ret_ns = total;
	return 0;
}

int limpet_units_parse_bytes(const char *text, uint64_t *ret_bytes)
{
	static const char prefixes[] = "kmgtpe";
	struct decimal value;
	uint64_t scale = 1, bytes;
	const char *prefix;
	int result;

	result = read_decimal(&text, &value);
	if (result < 0)
		return result;
	if (*text) {
		prefix = strchr(prefixes, *text | 0x20);
		if (prefix) {
			scale = (uint64_t)1 << (10 * (prefix - prefixes + 1));
			text++;
			if (*text && (text[0] | 0x20) == 'i' && (text[1] | 0x20) == 'b')
				text += 2;
		} else if (*text == 'B' || *text == 'b') {
			text++;
		}
	}
	if (*text || (scale == 1 && value.has_fraction))
		return -EINVAL;
	result = scale_decimal(&value, scale, &bytes);
	if (result < 0)
		return result;
	*ret_bytes = bytes;
	return 0;
}

/* `value` in the largest unit that leaves at least 1, to the nearest tenth. Rounding may carry into
 * the next unit: 1048575 bytes are 1.0 MiB, not 1024.0 KiB. */
static void format_scaled(char ret[LIMPET_UNITS_TEXT], uint64_t value, uint64_t base,
			  const char *const *names, size_t name_count, const char *suffix)
{
	uint64_t scale = 1, tenths;
	size_t i = 0;

	while (i + 1 < name_count && value / scale >= base) {
		scale *= base;
		i++;
	}
	if (i == 0) {
		snprintf(ret, LIMPET_UNITS_TEXT, "%llu%s%s%s", (unsigned long long)value,
			 *names[0] || *suffix ? " " : "", names[0], suffix);
		return;
	}
	tenths = (uint64_t)(((unsigned __int128)value * 10 + scale / 2) / scale);
	if (tenths >= base * 10 && i + 1 < name_count) {
		tenths = 10;
		i++;
	}
	snprintf(ret, LIMPET_UNITS_TEXT, "%llu.%llu %s%s", (unsigned long long)(tenths / 10),
		 (unsigned long long)(tenths % 10), names[i], suffix);
}

char *limpet_units_format_bytes(char ret[LIMPET_UNITS_TEXT], uint64_t bytes)
{
	static const char *const names[] = {"B", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB"};

	format_scaled(ret, bytes, 1024, names, LIMPET_COUNT_OF(names), "");
	return ret;
}

char *limpet_units_format_bytes_change(char ret[LIMPET_UNITS_TEXT], int64_t bytes)
{
	char text[LIMPET_UNITS_TEXT];
	/* Negated as unsigned: -INT64_MIN is no int64_t. */
	uint64_t size = bytes < 0 ? -(uint64_t)bytes : (uint64_t)bytes;

	limpet_units_format_bytes(text, size);
	snprintf(ret, LIMPET_UNITS_TEXT, "%s%.30s", bytes < 0 ? "-" : bytes > 0 ? "+" : "", text);
	return ret;
}

static const char *const count_names[] = {"", "k", "M", "G", "T", "P", "E"};

char *limpet_units_format_count(char ret[LIMPET_UNITS_TEXT], uint64_t count)
{
	format_scaled(ret, count, 1000, count_names, LIMPET_COUNT_OF(count_names), "");
	return ret;
}

char *limpet_units_format_rate(char ret[LIMPET_UNITS_TEXT], uint64_t per_second)
{
	format_scaled(ret, per_second, 1000, count_names, LIMPET_COUNT_OF(count_names), "/s");
	return ret;
}

static unsigned long long nearest(uint64_t ns, uint64_t unit_ns)
{
	return ns / unit_ns + (ns % unit_ns >= unit_ns - unit_ns / 2);
}

/* Rounding may carry into the next unit: 59.96 s are 1m00s. */
char *limpet_units_format_duration(char ret[LIMPET_UNITS_TEXT], uint64_t ns)
{
	const unsigned long long us = nearest(ns, 1000), ms = nearest(ns, 1000000);
	const unsigned long long tenths = nearest(ns, 100000000), s = nearest(ns, 1000000000);
	const unsigned long long m = nearest(ns, 60000000000), h = nearest(ns, 3600000000000);

	if (ns == 0)
		snprintf(ret, LIMPET_UNITS_TEXT, "0s");
	else if (ns < 1000)
		snprintf(ret, LIMPET_UNITS_TEXT, "%lluns", (unsigned long long)ns);
	else if (us < 1000)
		snprintf(ret, LIMPET_UNITS_TEXT, "%lluus", us);
	else if (ms < 1000)
		snprintf(ret, LIMPET_UNITS_TEXT, "%llums", ms);
	else if (tenths < 100)
		snprintf(ret, LIMPET_UNITS_TEXT, "%llu.%llus", tenths / 10, tenths % 10);
	else if (s < 60)
		snprintf(ret, LIMPET_UNITS_TEXT, "%llus", s);
	else if (s < 3600)
		snprintf(ret, LIMPET_UNITS_TEXT, "%llum%02llus", s / 60, s % 60);
	else if (m < 24 * 60)
		snprintf(ret, LIMPET_UNITS_TEXT, "%lluh%02llum", m / 60, m % 60);
	else
		snprintf(ret, LIMPET_UNITS_TEXT, "%llud%02lluh", h / 24, h % 24);
	return ret;
}

char *limpet_units_format_time(char ret[LIMPET_UNITS_TEXT], uint64_t ns)
{
	const unsigned long long tenths = nearest(ns, 100000000), m = tenths / 600;
	const unsigned long long s = tenths / 10 % 60, tenth = tenths % 10;

	if (tenths < 100)
		return limpet_units_format_duration(ret, ns);
	if (m >= 60)
		snprintf(ret, LIMPET_UNITS_TEXT, "%lluh%02llum%02llu.%llus", m / 60, m % 60, s,
			 tenth);
	else if (m)
		snprintf(ret, LIMPET_UNITS_TEXT, "%llum%02llu.%llus", m, s, tenth);
	else
		snprintf(ret, LIMPET_UNITS_TEXT, "%llu.%llus", s, tenth);
	return ret;
}
