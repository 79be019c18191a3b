#!/usr/bin/env bats
# How much longer than asked a call takes that time ends, when limpet comes and goes meanwhile: no more than it
# was stopped for, beside what a wake-up may be late for other reasons (timer slack, a hypervisor). That it is not
# begun anew with all of its time is tested in test/integration/blocked.bats, without a clock.
#
# Judged by the median of LATE_TRIES calls of each kind, in the thread that is hijacked and in one beside it,
# which is not even stopped. What a thread waits for a processor is no part of it.
# time-limit: 900
# needs-machine: how late calls end

load ../integration/helpers
setup() { begin; }
teardown() { end; }

: "${LATE_TRIES:=9}"
: "${TORTURE:=$root/build/torture}"
slack_us=100000

# late_us KIND NAME: of one call of 250 ms, in which limpet comes and goes once; sets `late`, or nothing: the call
# was ended by the stop, as it is by any, and has its own idea of the time.
late_us() {
	local kind=$1 name=$2 key=$1.$2.$try options=() stopped interruptions over
	late=
	[[ $name != beside ]] || options=(--bystander)
	start "$key" "$TARGETS/sleeper" --ms 250 "${options[@]}" "$kind" || return 1
	if [[ $ready != timed ]]; then
		[[ $pid == none ]] || finish "$key"
		return
	fi
	within 60 "$TORTURE/stops" limpet "$pid" 1 >stops.say 2>stops.err || fail "$key: $(<stops.err)" || return 1
	read -r _ stopped <stops.say
	[[ $name != beside ]] || stopped=0
	tell "$key" release good || return 1
	read -r _ interruptions over <<<"$answer"
	finish "$key" || return 1
	((interruptions)) || late=$((over > stopped ? over - stopped : 0))
}

@test "calls with a time limit end no later than they were stopped for" {
	local kind name try late sorted measured=0
	for kind in $("$TARGETS/sleeper" --list); do
		for name in hijacked beside; do
			sorted=()
			for ((try = 0; try < LATE_TRIES; try++)); do
				late_us "$kind" "$name"
				[[ $ready == timed && -n $late ]] || break
				sorted+=("$late")
			done
			[[ $ready == timed ]] || break
			# All of them are ended by stops, or none.
			((${#sorted[@]})) || continue
			same "$kind, $name: calls that time ended" "${#sorted[@]}" "$LATE_TRIES"
			mapfile -t sorted < <(printf '%s\n' "${sorted[@]}" | sort -n)
			late=${sorted[LATE_TRIES / 2]}
			echo "# figures: $kind, $name: $late us late (median of $LATE_TRIES; most ${sorted[-1]})" >&3
			((late <= slack_us)) || fail "$kind, $name: $late us later than it should" || return 1
			measured=$((measured + 1))
		done
	done
	((measured >= 25)) || fail "only $measured were measured"
}
