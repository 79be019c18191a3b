# What the tests of a collector that stands still share: the program test/targets/stall.c. For tests that also load
# helpers.
# shellcheck shell=bash
# shellcheck disable=SC2154

# done_since FIGURE N: since the mark; leaves `answer`.
done_since() {
	tell stall measure '{' && json_says ".$1 >= $2" <<<"$answer"
}

# operate FIGURE N: from a mark on, so many operations of all threads, of each if FIGURE is `fewest`, or so many
# `seconds`.
operate() {
	tell stall mark marked || return 1
	wait_until 120 done_since "$1" "$2"
}

# of FIGURE ANSWER
of() {
	jq ".$1" <<<"$2"
}
