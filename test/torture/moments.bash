# Moments of a capture: so many calls of limpet's, which test/targets/meddle.c counts. For tests that also load helpers.
# shellcheck shell=bash
# shellcheck disable=SC2034,SC2154

# meddled ARGUMENT...: limpet, whose calls are counted into $work/made, and which is meddled with as MEDDLE_AT or
# MEDDLE_KILL say.
meddled() {
	within 60 env LD_PRELOAD="$TARGETS/meddle.so" MEDDLE_COUNT="$work/made" "$LIMPET" "$@"
}

# measure_span PID: sets `ptraces` and `calls`, what a whole capture of nothing calls.
measure_span() {
	meddled attach -q --no-seal "${patiently[@]}" -d 2ms -o "$work/measure.limpet" "$1" >/dev/null || return 1
	read -r ptraces calls <"$work/made"
	((ptraces > 20 && calls > ptraces)) || fail "of a capture $ptraces of $calls calls were seen" || return 1
	rm -f "$work/measure.limpet" "$work/made"
}

# moment_of I N: sets `at` to the Ith of N moments, all over the capture and a little beyond; every second one is
# among the calls of ptrace, which are few.
moment_of() {
	local span=$((calls * 6 / 5)) what=
	if (($1 % 2)); then
		span=$((ptraces * 6 / 5))
		what=p
	fi
	at=$what$((1 + (span * ($1 - 1) + RANDOM * span / 32768) / $2))
}
