#!/usr/bin/env bats
# limpet diff: captures and windows whose differences are known.
# time-limit: 300

load helpers
setup() { begin; }
teardown() { end; }

# leaks NAME N M: a capture of storm in which storm_leak allocates N blocks of 100 bytes... and then,
# after the time that is left in `middle`, M more.
leaks() {
	local name=$1
	printf 'leak %d\nquit\n' "$2" >commands
	within 60 "$LIMPET" run -q -o "$name" -- "$TARGETS/storm" --threads 1 <commands >said 2>run.err ||
		fail "limpet run"
}

compare() {
	within 60 "$LIMPET" diff --json "$@" >diff.json 2>diff.err || fail "limpet diff $*: $(cat diff.err)"
}

says() {
	json_says "$@" <diff.json || fail "the diff does not say: $*: $(head -c 600 diff.json)"
}

@test "two captures of one program: what grew, by function and not by address" {
	leaks old.limpet 100
	leaks new.limpet 300
	compare --sort live old.limpet new.limpet
	says '.scale == 1 and ([.sites[] | select(.stack[0] == "storm_leak")] | length == 1 and .[0].state == "grew" and
		.[0].old.live_allocations == 100 and .[0].new.live_allocations == 300 and
		.[0].change == .[0].new.live_bytes - .[0].old.live_bytes and .[0].change > 0)'
	says '.change == ([.sites[].change] | add) and .sites[0].stack[0] == "storm_leak"'
	# The other way round.
	compare --sort live new.limpet old.limpet
	says '.sites[0].state == "shrank" and .sites[0].change < 0'
	# The same with itself.
	compare --sort allocations old.limpet old.limpet
	says '.change == 0 and all(.sites[]; .state == "same" and .change == 0)'
	run --separate-stderr "$LIMPET" diff old.limpet old.limpet
	[[ $status == 0 && $output == *"No stack has changed"* ]]
}

@test "what appeared and what vanished" {
	leaks old.limpet 0
	leaks new.limpet 50
	compare --sort live old.limpet new.limpet
	says '[.sites[] | select(.stack[0] == "storm_leak")][0] | .state == "appeared" and .old.allocations == 0'
	compare --sort live new.limpet old.limpet
	says '[.sites[] | select(.stack[0] == "storm_leak")][0] | .state == "vanished" and .new_value == 0'
	run --separate-stderr "$LIMPET" diff --sort live old.limpet new.limpet
	[[ $output == *" new "*storm_leak* ]]
	run --separate-stderr "$LIMPET" diff --sort live --by-function new.limpet old.limpet
	[[ $output == *" gone "*storm_leak* ]]
}

@test "two windows of one capture, scaled by their length" {
	local length half
	start storm "$TARGETS/storm" --threads 1
	attach "$pid"
	tell storm "leak 100" leaked
	wait_until 30 beyond 0.2
	stop "$pid"
	finish storm
	length=$(within 60 "$LIMPET" report "$trace" --json -n 0 | jq .capture.duration_seconds)
	half=$(jq -n "$length / 2 | . * 1000 | floor")
	compare --sort live "$trace@-${half}ms" "$trace@${half}ms-"
	says '.scale == 1 and .old.from_seconds == 0 and .new.from_seconds == .old.to_seconds'
	# All of it was allocated in one half, and lives in the other.
	says '[.sites[] | select(.stack[0] == "storm_leak")][0] | .new.live_allocations == 100'
	compare --sort allocations "$trace@-${half}ms" "$trace"
	says '.new.to_seconds as $length | (.scale - $length / ($half / 1000) | fabs) < 0.01' --argjson half "$half"
	says '[.sites[] | select(.stack[0] == "storm_leak")][0] | .old_scaled > .old.allocations or .old.allocations == 0'
	within 60 "$LIMPET" diff --sort allocations "$trace@-${half}ms" "$trace" >diff.text
	grep -qE "^scaled    the old one's figures by 2(\.0[0-9])?, as if it had lasted [0-9a-z.]+ and not [0-9a-z.]+$" diff.text || fail "$(grep ^scaled diff.text)"
}

@test "scaled figures of times that differ by more than three times are a guess, and the text says what to do" {
	local shop=$root/test/html/shop.trace words='short a time says little of a longer one, and a single burst in it counts several times: take times of about one length, or'
	"$LIMPET" diff --sort allocations "$shop@0s-1s" "$shop" | tr -s '\n ' ' ' >diff.text
	grep -qF "$words --no-scale." diff.text || fail "$(<diff.text)" || return 1
	"$LIMPET" diff --sort allocations "$shop" "$shop@0s-1s" | tr -s '\n ' ' ' | grep -qF "$words"
	local other
	for other in "$shop@0s-6s" "--no-scale $shop@0s-1s" "--sort live $shop@0s-1s"; do
		# shellcheck disable=SC2086 # an option and a name
		"$LIMPET" diff --sort allocations $other "$shop" >diff.text
		(($(grep -c 'So short' diff.text) == 0)) || fail "$(<diff.text)" || return 1
	done
}

@test "two programs that have no stack in common are said to be so" {
	local html=$root/test/html words='No stack is in both: these may be different programs'
	"$LIMPET" diff "$html/shop.trace" "$html/spike.trace" | tr -s '\n ' ' ' | grep -qF "$words"
	"$LIMPET" diff "$html/shop.trace" "$html/shop.trace@0s-6s" >diff.text
	(($(grep -c 'No stack is in both' diff.text) == 0)) || fail "$(<diff.text)"
}

@test "--no-scale compares figures over time as they are, and says how long each side is" {
	local traces=$root/test/traces
	local both=("$traces/version-3/addresses.trace" "$traces/version-1/rust.trace")
	compare --sort allocations "${both[@]}"
	says '.scale < 0.99 or .scale > 1.01'
	compare --sort allocations --no-scale "${both[@]}"
	says '.scale == 1 and all(.sites[]; .old_scaled == .old.allocations and .change == .new.allocations - .old.allocations)'
	"$LIMPET" diff --sort allocations --no-scale "${both[@]}" >diff.text
	grep -qE "^unscaled  figures as they are: the old one's of [0-9a-z.]+, the new one's of [0-9a-z.]+$" diff.text || fail "$(<diff.text)"
	(($(grep -c '^scaled' diff.text) == 0)) || fail "$(<diff.text)"
	# Figures of one moment are never scaled.
	"$LIMPET" diff --sort live --no-scale "${both[@]}" >diff.text
	(($(grep -c 'scaled' diff.text) == 0)) || fail "$(<diff.text)"
}

beyond() {
	"$LIMPET" status "$pid" --json | json_says --argjson s "$1" '.captures[0].elapsed_seconds >= $s'
}

@test "the heads of long names are wrapped, not cut" {
	command -v script >/dev/null || skip "script(1) is not installed"
	local name=a-service-with-a-rather-long-name.4711.limpet
	cp "$root/test/traces/version-1/storm.trace" $name
	TERM=dumb script -qec "stty cols 80; '$LIMPET' diff --no-pager $name@-1ms $name@1ms-" /dev/null </dev/null | tr -d '\r' >said
	(($(sed '/^$/q' said | tr -s '\n ' '  ' | grep -oE ' live, [0-9.]+( [kM])? allocations?\b' | wc -l) == 2)) || fail "$(<said)"
	(($(awk 'length > 80' said | wc -l) == 0)) || fail "$(<said)"
}

@test "what cannot be compared is said" {
	local good=$root/test/traces/version-1/storm.trace
	refused 2 "two traces are needed" "$LIMPET" diff "$good"
	refused 2 "invalid window" "$LIMPET" diff "$good@5s-1s" "$good"
	refused 2 "beyond the end" "$LIMPET" diff "$good" "$good@10h-"
	refused 1 "cannot" "$LIMPET" diff "$good" nothing.limpet
	# Limits and filters.
	compare -n 2 "$root/test/traces/version-1/killed.trace" "$good"
	says '(.sites | length) == 2'
	compare --include '^storm_leak$' "$root/test/traces/version-1/killed.trace" "$good"
	says 'all(.sites[]; .stack[0] == "storm_leak")'
}
