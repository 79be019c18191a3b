# What the tests of a target's stops share. For tests that also load helpers.
# shellcheck shell=bash
# shellcheck disable=SC2154

: "${TORTURE:=$root/build/torture}"

# stop_times NAME [OPTION...] PROGRAM ARGUMENT...: what stoptimes says of ROUNDS captures, in $work/report.json. Of
# each of $stop_kinds, $stop_figures are shown; both are filters.
stop_times() {
	local name=$1
	shift
	within 250 "$TORTURE/stoptimes" -j -n "$ROUNDS" "$@" >"$work/report.json" 2>stoptimes.err || return 1
	jq -r --arg name "$name" ". as \$all | ($stop_kinds) as \$kind | .[\$kind] |
		\"# figures: \\(\$name) \\(\$kind): \" + $stop_figures" "$work/report.json" >&3
}
