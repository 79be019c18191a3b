# What the tests of lost events share: a target that keeps its own count in a file that outlives it. For tests that
# also load helpers.
# shellcheck shell=bash
# shellcheck disable=SC2034,SC2154

# tally [NAME]: what the target has begun and what it has done.
tally() {
	"$TARGETS/tally" --read "$work/counts" >"${1:-tally.json}"
}

# For jq: whether a report's totals are at least what was done, and at most what was begun, if that is known.
lies_between='def lies_between($done; $begun): .totals as $trace |
	all("allocations", "allocated_bytes", "frees", "freed_bytes";
	    $done[.] <= $trace[.] and ($begun == null or $trace[.] <= $begun[.]));'

# has_all REPORT: what was done when then.json was written is in the trace.
has_all() {
	json_says --slurpfile past then.json "$lies_between"' lies_between($past[0].done; null)' <"$1"
}
