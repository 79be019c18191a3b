# The agent: freestanding, no libc, one shared object whose bytes are carried inside limpet.
AGENT_SRC := \
	agent/start.c \
	agent/hook.c \
	agent/hook_malloc.c \
	agent/hook_nim.c \
	agent/hook_noted.c \
	agent/hook_out.c \
	agent/hook_paths.c \
	agent/hook_state.c \
	agent/record.c \
	agent/sampled.c \
	agent/stack.c \
	agent/stack_arguments.c \
	agent/stack_cache.c \
	agent/stack_describe.c \
	agent/stack_functions.c \
	agent/stack_left.c \
	agent/stack_prints.c \
	agent/stack_ranges.c \
	agent/late_modules.c \
	agent/loaded.c \
	agent/patch.c \
	agent/finder.c \
	agent/boot.c \
	common/family.c \
	common/slots.c
AGENT_ASM := agent/arch/$(ARCH)/thunks.S agent/arch/$(ARCH)/vectors.S \
	agent/arch/$(ARCH)/exit.S
AGENT_OBJ := $(patsubst %.c,$(B)/agent/%.o,$(AGENT_SRC)) $(patsubst %.S,$(B)/agent/%.o,$(AGENT_ASM))
AGENT_CFLAGS := -std=gnu11 -O2 -g $(WARN) -ffreestanding -fPIC -fvisibility=hidden \
	-fno-stack-protector -fno-omit-frame-pointer -fasynchronous-unwind-tables -mgeneral-regs-only \
	-fcf-protection=branch -fno-tree-loop-distribute-patterns -fno-jump-tables -D_GNU_SOURCE -I. -DLIMPET_ARCH=$(ARCH) $(FOLDER_MAP)
# Some of these are GCC's own: a build of the rest by another compiler names the agent's.
AGENT_CC ?= $(CC)
AGENT_LDFLAGS := -shared -nostdlib -Wl,-z,defs,-z,now,-z,norelro,-z,noexecstack \
	-Wl,--version-script=agent/agent.map -Wl,-soname,limpet-agent -Wl,--build-id=sha1 \
	-Wl,-z,separate-code -Wl,--hash-style=gnu -Wl,-Bsymbolic -Wl,-z,max-page-size=4096 -Wl,--sort-section=name

$(B)/agent/%.o: %.c
	$(call say,CC,$< (agent))
	@mkdir -p $(@D)
	$(Q)$(AGENT_CC) $(AGENT_CFLAGS) -MMD -MP -c -o $@ $<

$(B)/agent/%.o: %.S
	$(call say,AS,$<)
	@mkdir -p $(@D)
	$(Q)$(CC) -fcf-protection=branch -I. -MMD -MP -c -o $@ $<

$(B)/limpet-agent.so: $(AGENT_OBJ) agent/agent.map
	$(call say,LD,$@)
	$(Q)$(AGENT_CC) $(AGENT_LDFLAGS) -o $@ $(AGENT_OBJ)
	$(Q)strip --strip-debug $@ -o $@

$(B)/obj/injector/remote/agent_bytes.o: injector/remote/agent_bytes.S $(B)/limpet-agent.so
	$(call say,AS,$<)
	@mkdir -p $(@D)
	$(Q)$(CC) -I. -DAGENT_FILE='"$(B)/limpet-agent.so"' -c -o $@ $<
