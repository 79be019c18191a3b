/* Hand-made .eh_frame sections and what the compiler makes of them. Whatever fails here fails the
 * running test. */
#ifndef LIMPET_TEST_EH_FRAME_FIXTURE_H
#define LIMPET_TEST_EH_FRAME_FIXTURE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/unwind_walk.h"
#include "injector/unwind/unwind_compile.h"

enum { TEXT = 0x10000, TEXT_BYTES = 0x4000, SECTION = 0x50000 };

struct section {
	uint8_t bytes[4096];
	size_t count;
	size_t cie; /* offset of the last one */
};

void put(struct section *section, uint64_t value, unsigned bytes);
void put_bytes(struct section *section, const void *data, size_t bytes);
/* An entry, whose length is put in at its end. */
size_t begin_entry(struct section *section, bool wide);
void end_entry(struct section *section, size_t start);
/* A CIE with the usual state: CFA = rsp + 8, return address at CFA - 8. */
void put_cie(struct section *section, const char *augmentation, const void *data, size_t data_bytes,
	     bool wide);
void put_plain_cie(struct section *section);
void put_fde(struct section *section, uint64_t pc, uint32_t bytes, const void *program,
	     size_t program_bytes);

struct compiled {
	void *table; /* to be freed */
	size_t bytes;
	struct limpet_unwind_stats stats;
};
struct compiled compile(const struct section *section);
const struct limpet_unwind_rule *rule_at(const struct compiled *compiled, uint64_t pc);
void assert_rule(const struct compiled *compiled, uint64_t pc, struct limpet_unwind_rule expected);

#define RULE(...) ((struct limpet_unwind_rule){__VA_ARGS__})
#define NONE RULE(.cfa = LIMPET_CFA_NONE)
#define UNKNOWN RULE(.cfa = LIMPET_CFA_UNKNOWN)
#define SP(n) RULE(.cfa = LIMPET_CFA_SP, .cfa_offset = (n))

#endif
