#!/usr/bin/env bats
# Small programs that are drawn at random and check themselves, captured at moments that are drawn, too. CHAOS_PROGRAMS
# says how many, from CHAOS_FROM on; no new one after CHAOS_SECONDS (0: all of them).
# time-limit: 300

load ../integration/helpers
setup() { begin; }
teardown() { end; }

: "${CHAOS_PROGRAMS:=12}"
: "${CHAOS_FROM:=1}"
: "${CHAOS_SECONDS:=0}"

# Of $TARGETS/chaos, $TARGETS/plugin.so and $TARGETS/meddle.so.
@test "programs that are drawn at random, and captured at any moment" {
	"$root/test/torture/chaos" --programs "$CHAOS_PROGRAMS" --from "$CHAOS_FROM" --seconds "$CHAOS_SECONDS" \
		>chaos.said 2>chaos.err || fail "$(<chaos.said)$(<chaos.err)"
	# Not merely refused and given up.
	tail -n 1 chaos.said | json_says '.bad == 0 and .tally.compared > 0' || fail "$(<chaos.said)"
	echo "# figures:   $(tail -n 1 chaos.said)" >&3
}
