/* The page's template, embedded in limpet. */
	.section .rodata
	.globl limpet_html_template, limpet_html_template_end
limpet_html_template:
	.incbin PAGE_FILE
limpet_html_template_end:
	.byte 0
	.section .note.GNU-stack, "", @progbits
