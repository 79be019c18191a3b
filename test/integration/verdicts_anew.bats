#!/usr/bin/env bats
# The programs with a known truth, captured anew: test/verdicts/README.md. Some 40 minutes.
# time-limit: 7200

load helpers
setup() { begin; }
teardown() { end; }

# Whether the packages of a case are installed.
has_needs() {
	local package
	while read -r package; do
		dpkg-query -W -f '${Status}\n' "$package" 2>/dev/null | grep -qx 'install ok installed' || return 1
	done < <(jq -r '.needs[] | select(. != "npm" and . != "nodejs")' "$1/case.json")
}

# bats test_tags=release
@test "captured anew, each program's verdict names the culprit, and says nothing untrue" {
	local case cases=()
	for case in "$root"/test/verdicts/cases/*/; do
		has_needs "$case" && cases+=("$(basename "$case")")
	done
	((${#cases[@]} >= 30)) || skip "the packages of ${#cases[@]} programs only are installed"
	LIMPET=$LIMPET VERDICT_TRACES=$work within 7000 "$root/test/verdicts/capture" "${cases[@]}" >captured.say 2>&1 ||
		fail "$(grep '^FAIL' captured.say)"
	LIMPET=$LIMPET "$root/test/verdicts/judge" "$work" >judged.say || fail "$(grep -A3 '^FAIL' judged.say)"
	grep -q "^${#cases[@]} right, 0 wrong$" judged.say
}
