/* The page's template, carried inside limpet. */
	.section .rodata
	.globl limpet_html_page, limpet_html_page_end
limpet_html_page:
	.incbin PAGE_FILE
limpet_html_page_end:
	.byte 0
	.section .note.GNU-stack, "", @progbits
