/* A file of a Go program of any release, with a table of two functions. */
#ifndef LIMPET_TEST_UNIT_GO_FIXTURE_H
#define LIMPET_TEST_UNIT_GO_FIXTURE_H

#include <stddef.h>
#include <stdint.h>

#include "analyzer/symbols/go_file.h"

/* main.outer: 16 bytes of outer.go:10; 16 bytes of main.inner, inner.go:5, inlined in line 11; then
 * outer.go:12. main.(*T).plain: outer.go:20. */
#define GO_FIXTURE_TEXT 0x401000u
#define GO_FIXTURE_OUTER 0x401000u
#define GO_FIXTURE_INLINED 0x401010u
#define GO_FIXTURE_PLAIN 0x401040u
#define GO_FIXTURE_END 0x401060u
#define GO_FIXTURE_ROOM 4096u

/* What is peculiar about one. */
enum go_fixture_kind {
	GO_FIXTURE_USUAL,
	GO_FIXTURE_NO_MODULE, /* nothing leads to the trees */
	GO_FIXTURE_PIE,       /* pointers are in relocations only */
	GO_FIXTURE_LOOP       /* main.inner is inlined in itself */
};

/* Returns the number of bytes. */
size_t go_fixture_make(enum limpet_go_format format, enum go_fixture_kind kind,
		       uint8_t file[GO_FIXTURE_ROOM]);

#endif
