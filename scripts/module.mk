# Scripts as targets.
.PHONY: bootstrap
bootstrap:
	$(Q)scripts/bootstrap
