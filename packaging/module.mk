# What is released: packages of the static binary, and the sources.
.PHONY: dist dist-sources
dist: $(B)/html/uplot/done
	$(Q)packaging/dist

# Needs the network.
dist-sources:
	$(Q)packaging/library-sources
