#!/usr/bin/env bats
# How long and how often a target stands still: that limpet says the truth about it, and that what it does
# meanwhile stays little. Nothing here is a time: limpet's clock is one that moves by the calls that it makes. The
# times themselves, and what a target sees of them, are measured by `make torture` (stop_limits.bats).
# time-limit: 300

load ../integration/helpers
load stops
setup() { begin; }
teardown() { end; }

: "${ROUNDS:=5}"
stop_kinds='"attach", "detach"'
stop_figures='"\(.trips) trips, \(.resumes) resumes, \(.stops) stops, \(.calls) calls"'

# stated_truly: what limpet states is to the nanosecond the time from one INTERRUPT of a thread to its DETACH, and
# no thread was away for longer.
stated_truly() {
	expect '[.attach, .detach] | all(.wrong == 0 and .stops > 0 and .away[0] > 0 and .stated[0] >= .away[0])'
}

@test "stop times: limpet states all of a stop, from before its first call to behind its last" {
	stop_times one -c "$TARGETS/gaps" --spin 1
	stated_truly
}

# bats test_tags=release
@test "stop times: threads that are only looked at count, too" {
	stop_times bystanders -c "$TARGETS/gaps-copies" --spin 1 --sleep 60
	expect '.detach.stops >= 60'
	stated_truly
}

# What there is to do is bounded, however long it takes.
@test "stop times: few trips, and little done meanwhile" {
	stop_times working -c "$TARGETS/gaps" --spin 1 --allocate 1 --serve 2 --sleep 4
	stated_truly
	expect '.idle | .trips == 1 and .resumes == 1 and .read_bytes == 0'
	# Who is stopped and found in the wrong place costs some calls each time, and who is late two looks at its
	# processor; so does each sleep until it stops, of which a slow machine has more.
	expect '.attach | .trips <= 3 and .resumes <= 8 and .calls <= 150 + 18 * .stops'
	expect '.attach | .read_bytes <= 2000000 and .written_bytes <= 240000'
}

# in_milliseconds TIME
in_milliseconds() {
	case $1 in
	*\ ms) echo "${1% *}" ;;
	*\ s) jq -n "${1% *} * 1000" ;;
	*) fail "no such time: $1" ;;
	esac
}

# same_times ATTACH DETACH: what stands in the text is what stands in the JSON.
same_times() {
	expect '.capture | [.attach_stop_microseconds, .detach_stop_microseconds] as $is |
		[range(2)] | all(. as $i | $is[$i] / 1000 - $says[$i] | fabs <= 0.006 * $says[$i])' \
		--argjson says "[$(in_milliseconds "$1"), $(in_milliseconds "$2")]"
}

# Each DETACH takes seven milliseconds more by limpet's clock: neither stop can have been shorter.
@test "stop times: the report has them" {
	# shellcheck disable=SC2016
	printf '#!/bin/sh\nexec env LD_PRELOAD=%s MEDDLE_LONGER=7000000 %s "$@"\n' "$TARGETS/meddle.so" "$LIMPET" >slower
	chmod 755 slower
	start gaps "$TARGETS/gaps" --spin 1
	LIMPET=$work/slower attach "$pid" --no-seal -q
	stop "$pid"
	report
	expect '.capture | .attach_stop_microseconds >= 7000 and .detach_stop_microseconds >= 7000'
	within 30 "$LIMPET" report "$trace" >report.text
	[[ $(<report.text) =~ stopped\ +([0-9.]+\ [a-zµ]*s)\ at\ attach,\ ([0-9.]+\ [a-zµ]*s)\ at\ detach ]] ||
		fail "$(grep ^stopped report.text)"
	echo "# figures: the report says ${BASH_REMATCH[1]} and ${BASH_REMATCH[2]}" >&3
	same_times "${BASH_REMATCH[1]}" "${BASH_REMATCH[2]}"
	finish gaps
}
