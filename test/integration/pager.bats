#!/usr/bin/env bats
# Text on a terminal goes through a pager, as git's does; nothing else does.

load helpers
setup() {
	begin
	unset PAGER LIMPET_PAGER LESS
	"$LIMPET" run -q -o run.limpet -- true
}
teardown() { end; }

# on_terminal COMMAND: what it writes to a terminal of 80 columns.
on_terminal() {
	TERM=xterm within 20 script -qec "stty cols 80 rows 24; $1" /dev/null </dev/null >said 2>&1
	tr -d '\r' <said >said.plain
}
paged() {
	[[ $(grep -c '^paged: ' said.plain) -gt 5 ]] || fail "not paged: $(<said.plain)"
	! grep -q '^target' said.plain || fail "not all of it is paged: $(<said.plain)"
}
not_paged() {
	! grep -q 'paged: ' said.plain || fail "paged: $(<said.plain)"
	grep -qE '^(target|.*limpet|\{)' said.plain || fail "nothing was said: $(<said.plain)"
}

@test "LIMPET_PAGER, else PAGER, and what turns it off" {
	export LIMPET_PAGER="sed 's/^/paged: /'" PAGER=cat
	on_terminal "$LIMPET report run.limpet"
	paged
	on_terminal "$LIMPET report --view functions run.limpet | cat; $LIMPET report --json run.limpet"
	not_paged
	on_terminal "$LIMPET diff run.limpet run.limpet"
	grep -q '^paged: ' said.plain
	on_terminal "LIMPET_PAGER= $LIMPET report run.limpet"
	not_paged
	unset LIMPET_PAGER
	on_terminal "$LIMPET report run.limpet"
	not_paged
	export PAGER="sed 's/^/paged: /'"
	on_terminal "$LIMPET report run.limpet"
	paged
}

@test "a pager that is not there, and one that ends early" {
	LIMPET_PAGER=no-such-pager on_terminal "$LIMPET report run.limpet"
	not_paged
	# Not more than it wants to read, and no complaint.
	LIMPET_PAGER="head -n 1 | sed 's/^/paged: /'" on_terminal "$LIMPET report --full -n 1000 run.limpet"
	[[ $(grep -c '^paged: Verdict' said.plain) == 1 && $(wc -l <said.plain) == 1 ]] || fail "$(<said.plain)"
}

@test "the pager keeps the width and the colours of the terminal" {
	LIMPET_PAGER="sed 's/^/paged: /'" NO_COLOR='' on_terminal "$LIMPET report run.limpet"
	grep -q $'paged: \033\\[1m' said.plain
	run ! grep -qE '^paged: .{120}' said.plain
}
