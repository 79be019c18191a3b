/* The agent's bytes, carried inside limpet: one file to copy to a server. */
	.section .rodata
	.balign 16
	.globl limpet_agent_image, limpet_agent_image_end
limpet_agent_image:
	.incbin AGENT_FILE
limpet_agent_image_end:
	.byte 0
	.section .note.GNU-stack, "", @progbits
