#!/usr/bin/env bats
# Marks: set from another terminal, kept in the trace, and what reports make of them.
# time-limit: 200

load helpers
setup() { begin; }
teardown() { end; }

# mark NAME: sets `said`.
mark() {
	within 60 "$LIMPET" mark "$pid" "$1" >mark.say 2>mark.err || fail "limpet mark: $(<mark.err)" || return 1
	read -r said <mark.say
	[[ $said =~ ^"mark '$1' at "[0-9.]+(s|ms|us)$ ]] || fail "limpet mark said '$said'"
}

# in_the_trace NAME...: in this order, by a reader that shares no code with limpet.
in_the_trace() {
	"$root/scripts/limpet-trace-read" "$trace" >theirs.json 2>theirs.err || fail "$(<theirs.err)" || return 1
	same "marks" "$(jq -c '[.marks[].name]' theirs.json)" "$(jq -nc '$ARGS.positional' --args "$@")"
}

@test "set from another terminal, and in the trace at once" {
	start generations "$TARGETS/generations"
	attach "$pid"
	mark "after load"
	in_the_trace "after load"
	mark "größe, 2"
	in_the_trace "after load" "größe, 2"
	same "JSON" "$("$LIMPET" mark --json "$pid" last | jq -c '[.pid, .name, (.time_s > 0)]')" "[$pid,\"last\",true]"
	refused 1 "has a mark 'after load' already" "$LIMPET" mark "$pid" "after load"
	# As a collector that is killed leaves it.
	kill -KILL "$limpet_job"
	wait_until 20 ended "$limpet_job"
	in_the_trace "after load" "größe, 2" last
	refused 1 "process $pid is not being captured" "$LIMPET" mark "$pid" late
	finish generations
	refused 1 "there is no process $pid" "$LIMPET" mark "$pid" late
}

@test "in captures of commands and of touched pages, compact and bounded ones" {
	local options
	start generations "$TARGETS/generations"
	for options in --compact "--max-size 8MiB"; do
		# shellcheck disable=SC2086
		attach "$pid" $options || return 1
		tell generations "make 10" made || return 1
		mark one || return 1
		tell generations "make 10" made || return 1
		mark two || return 1
		stop "$pid" || return 1
		in_the_trace one two || return 1
		good_capture || return 1
		expect '.totals.allocations == 20' || return 1
	done
	finish generations
	start second "$LIMPET" run -q -o "$work/run.limpet" -- "$TARGETS/generations"
	trace=$work/run.limpet
	mark one
	tell second quit "" || true
	result second 0
	in_the_trace one
}
