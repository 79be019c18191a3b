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

says() { says_in diff.json "$@"; }

@test "two captures of one program: what grew, by function and not by address" {
	leaks old.limpet 100
	leaks new.limpet 300
	compare --sort live old.limpet new.limpet
	says '(.per_second | not) and ([.sites[] | select(.stack[0] == "storm_leak")] | length == 1 and .[0].state == "grew" and
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
	run --separate-stderr "$LIMPET" diff --sort live new.limpet old.limpet
	[[ $output == *" gone "*storm_leak* ]]
}

@test "two windows of one capture; of different lengths, by the second" {
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
	says '(.per_second | not) and .old.from_seconds == 0 and .new.from_seconds == .old.to_seconds'
	# All of it was allocated in one half, and lives in the other.
	says '[.sites[] | select(.stack[0] == "storm_leak")][0] | .new.live_allocations == 100'
	compare --sort allocations "$trace@-${half}ms" "$trace"
	says '.per_second and (.new.to_seconds as $length | all(.sites[]; (.new_value - .new.allocations / $length | fabs) <= 0.5))'
	says '.old.to_seconds as $length | all(.sites[]; (.old_value - .old.allocations / $length | fabs) <= 0.5)'
	within 60 "$LIMPET" diff --sort allocations "$trace@-${half}ms" "$trace" >diff.text
	grep -qE '^allocations: [+-]?[0-9.]+( [kM])?/s, from [0-9.]+( [kM])?/s to [0-9.]+( [kM])?/s$' <(tr '[:upper:]' '[:lower:]' <diff.text) || fail "$(<diff.text)"
}

@test "figures of one moment are never rates, nor those of times of one length" {
	local shop=$root/test/html/shop.trace
	compare --sort live "$shop@0s-1s" "$shop"
	says '.per_second | not'
	compare --sort allocations "$shop@0s-1s" "$shop@1s-2s"
	says '(.per_second | not) and all(.sites[]; .old_value == .old.allocations and .new_value == .new.allocations)'
}

# Of programs whose verdicts are known.
@test "the first line says what grows, where, by how much a minute, and what was before" {
	local kept=$root/test/verdicts/traces said
	first() {
		compare "$kept/$1" "$kept/$2"
		jq -r .verdict diff.json
		[[ $(jq -r .verdict diff.json) == "$(within 60 "$LIMPET" diff "$kept/$1" "$kept/$2" | sed '/^$/q' | tr -s '\n' ' ' | sed 's/ *$//')" ]]
	}
	said=$(first idle-resident.limpet xstrdup-attributes.limpet)
	[[ $said == "Memory grows by 2"?.?" MiB a minute under session_set_attribute (proxy.c:55); before, it did not grow." ]] || fail "$said"
	said=$(first xstrdup-attributes.limpet idle-resident.limpet)
	[[ $said == "Memory grows no more; before, it grew by 2"?.?" MiB a minute under session_set_attribute (proxy.c:55)." ]] || fail "$said"
	said=$(first xstrdup-attributes.limpet retry-queue-starts.limpet)
	[[ $said == "Memory grows by 2"?.?" MiB a minute under queue_retry (relay.c:39); before, by 2"?.?" MiB a minute under session_set_attribute (proxy.c:55)." ]] || fail "$said"
	# Its two halves grow alike, and not by less.
	said=$(first xstrdup-attributes.limpet@0s-6s xstrdup-attributes.limpet@6s-12s)
	[[ $said == "Memory grows by 2"?.?" MiB a minute under session_set_attribute (proxy.c:55), as before (2"?.?" MiB a minute)." ]] || fail "$said"
	says '.sort == "live" and .change > 1000000 and .sites[0].state == "grew"'
	said=$(first stacks-at-rest.limpet arenas-after-batch.limpet)
	[[ $said == "Memory grows in neither: 150.8 MiB resident, and 62.2 MiB before; what differs most is glibc's heap (+148."*" MiB)." ]] || fail "$said"
	compare "$kept/xstrdup-attributes.limpet" "$kept/retry-queue-starts.limpet"
	says '.per_second and .sort == "growth" and ([.resident.parts[].bytes] | add) == .resident.bytes and
		([.resident.parts[].before_bytes] | add) == .resident.before_bytes'
}

@test "two programs that have no stack in common are said to be so" {
	local html=$root/test/html words='No stack is in both: these may be different programs'
	"$LIMPET" diff "$html/shop.trace" "$html/spike.trace" | tr -s '\n ' ' ' | grep -qF "$words"
	"$LIMPET" diff "$html/shop.trace" "$html/shop.trace@0s-6s" >diff.text
	(($(grep -c 'No stack is in both' diff.text) == 0)) || fail "$(<diff.text)"
}

beyond() {
	"$LIMPET" status "$pid" --json | json_says --argjson s "$1" '.captures[0].elapsed_seconds >= $s'
}

@test "the heads of long names are wrapped, not cut" {
	command -v script >/dev/null || skip "script(1) is not installed"
	local name=a-service-with-a-rather-long-name.4711.limpet
	cp "$root/test/traces/storm.trace" $name
	TERM=dumb PAGER=cat script -qec "stty cols 80; '$LIMPET' diff $name@-1ms $name@1ms-" /dev/null </dev/null | tr -d '\r' >said
	(($(sed '1,/^$/d' said | sed '/^$/q' | tr -s '\n ' '  ' | grep -oE ' live, [0-9.]+( [kM])? allocations?\b' | wc -l) == 2)) || fail "$(<said)"
	(($(awk 'length > 80' said | wc -l) == 0)) || fail "$(<said)"
}

@test "what cannot be compared is said" {
	local good=$root/test/traces/storm.trace
	refused 2 "two traces are needed" "$LIMPET" diff "$good"
	refused 2 "invalid window" "$LIMPET" diff "$good@5s-1s" "$good"
	refused 2 "beyond the end" "$LIMPET" diff "$good" "$good@10h-"
	refused 1 "cannot" "$LIMPET" diff "$good" nothing.limpet
	# Limits and filters.
	compare -n 2 "$root/test/traces/lost.trace" "$good"
	says '(.sites | length) == 2'
	compare --include '^storm_leak$' "$root/test/traces/lost.trace" "$good"
	says 'all(.sites[]; .stack[0] == "storm_leak")'
}
