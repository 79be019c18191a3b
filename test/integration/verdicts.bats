#!/usr/bin/env bats
# The verdicts of kept traces, whose programs have a known truth: test/verdicts/README.md.
# time-limit: 120

load helpers
setup() { begin; }
teardown() { end; }

@test "the verdict names the culprit, says nothing untrue, and is short" {
	LIMPET=$LIMPET "$root/test/verdicts/judge" "$root/test/verdicts/traces" >judged.say || {
		grep -A3 '^FAIL' judged.say
		return 1
	}
	grep -q '^[0-9]* right, 0 wrong$' judged.say
}
