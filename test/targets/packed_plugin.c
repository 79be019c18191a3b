/* What `packed` is about: pointers to malloc and free where no other's are: in structures without
 * padding, in one cache line and across the end of a page, and in instructions (DT_TEXTREL). In a
 * library: in a program the linker would take the program's own PLT for the functions' addresses.
 */
#include "test/targets/packed.h"

enum { TO_END_OF_PAGE = 4093 };

typedef void *allocate_fn(size_t bytes);
typedef void free_fn(void *block);

static struct __attribute__((packed, aligned(4096))) {
	char tag;
	allocate_fn *allocate;
	free_fn *release;
	char fill[TO_END_OF_PAGE - 17];
	allocate_fn *at_end_of_page;
	free_fn *after_it;
} volatile packed = {
	.allocate = malloc, .release = free, .at_end_of_page = malloc, .after_it = free};

/* clang-format off */
/* By an aligned operand, and by one that is not. */
void *packed_in_code(size_t bytes);
void packed_free_in_code(void *block);
extern char packed_operands[], packed_operand_free[];
__asm__("	.text\n"
	"	.balign 64\n"
	"	.space 6, 0x90\n"
	"	.globl packed_in_code\n"
	"	.type packed_in_code, @function\n"
	"packed_in_code:\n"
	"	movabs $malloc, %rax\n"
	"	jmp *%rax\n"
	"	.size packed_in_code, . - packed_in_code\n"
	"	.set packed_operands, packed_in_code + 2\n"
	"	.globl packed_free_in_code\n"
	"	.type packed_free_in_code, @function\n"
	"packed_free_in_code:\n"
	"	movabs $free, %rax\n"
	"	jmp *%rax\n"
	"	.size packed_free_in_code, . - packed_free_in_code\n"
	"	.set packed_operand_free, packed_free_in_code + 2\n");
/* clang-format on */

TARGET_FRAME void packed_calls(unsigned long count, allocate_fn *volatile allocate,
			       free_fn *volatile release)
{
	while (count--) {
		void *block = allocate(100);

		if (!block)
			target_broken("no memory");
		release(block);
	}
}

bool packed_is_same(void)
{
	allocate_fn *allocate;
	free_fn *release;

	memcpy(&allocate, packed_operands, sizeof(allocate));
	memcpy(&release, packed_operand_free, sizeof(release));
	return allocate == malloc && release == free && packed.allocate == malloc &&
	       packed.release == free && packed.at_end_of_page == malloc && packed.after_it == free;
}

bool packed_run(const char *line)
{
	unsigned long n;

	if (target_word(line, "packed", &n))
		packed_calls(n, packed.allocate, packed.release);
	else if (target_word(line, "page", &n))
		packed_calls(n, packed.at_end_of_page, packed.after_it);
	else if (target_word(line, "code", &n))
		packed_calls(n, packed_in_code, packed_free_in_code);
	else if (target_word(line, "kept", &n))
		packed_calls(n, malloc, packed.release);
	else
		return false;
	return true;
}
