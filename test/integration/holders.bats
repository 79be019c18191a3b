#!/usr/bin/env bats
# limpet holders: who holds blocks of a program that knows it (test/targets/held).
# time-limit: 300

load helpers
setup() { begin; }
teardown() { end; }

# holders ARGUMENT...: of the target, into holders.json.
holders() {
	within 60 "$LIMPET" holders "$pid" "$@" --json >holders.json 2>holders.err || fail "limpet holders: $(<holders.err)"
}

# who NAME: holds this block.
who() {
	tell held "where $1" 0x || return 1
	holders "$answer"
}

# says FILTER [OPTION...]: jq's answer about it is true.
says() { says_in holders.json "$@"; }

# chains EXPECTED: each as "variable offset:type-or-bytes...", one a line.
chains() {
	same "chains" "$(jq -r '.chains[] | [.root.symbol // .root.kind, (.links[] | "\(.offset):\(.type // .bytes)")] |
		join(" ")' <holders.json)" "$1"
}

# All blocks' figures are usable bytes: a multiple of 16, plus 8.
# bats test_tags=check
@test "a variable, an object, an array and an object of it, with file, line and what they retain" {
	start held "$TARGETS/held"
	who second
	chains "registry 0:held::Registry 16:808 8:held::Session"
	says '.format == "limpet-holders" and .target.type == "held::Session" and .target.address == $at' --arg at "$answer"
	says '.chains[0].root | .kind == "data" and (.file | endswith("held.cc")) and .line > 0 and (.module | endswith("/held"))'
	says '.blocks == {"count": 1, "bytes": 56} and .retained == {"blocks": 2, "bytes": 256}'
	# The first session is held by the table as well: 99 sessions and their buffers, the registry and its array.
	says '.chains[0].root.retained == {"blocks": 200, "bytes": (99 * 256 + 24 + 808)}'
	who registry
	chains "registry 0:held::Registry"
	says '.retained == {"blocks": 200, "bytes": (99 * 256 + 24 + 808)}'
	who buffer
	chains "registry 0:held::Registry 16:808 8:held::Session 8:200"
	says '.retained == {"blocks": 1, "bytes": 200}'
	finish held
}

@test "a list whose head is another block all the time is held by its variable" {
	start lost "$TARGETS/lost"
	tell lost more "done"
	tell lost grow 0x
	holders "$answer"
	says '.chains[0].root.symbol == "sessions"'
	finish lost
}

@test "several holders, the shortest chain first, and one for all words of an array" {
	start held "$TARGETS/held"
	who first
	chains "table 24:held::Session
registry 0:held::Registry 16:808 0:held::Session"
	says '.retained == {"blocks": 2, "bytes": 256}'
	says '.chains[0].root.retained == {"blocks": 1, "bytes": 408}'
	who both
	chains "table 40:408"
	finish held
}

@test "a list is one line of the text" {
	local i offsets="list"
	start held "$TARGETS/held"
	who last
	for ((i = 0; i < 50; i++)); do offsets+=" 0:88"; done
	chains "$offsets"
	says '.chains[0].root.retained == {"blocks": 50, "bytes": (50 * 88)}'
	within 60 "$LIMPET" holders "$pid" "$answer" >holders.txt
	grep -qE '^    \+0x0 +a block of 88 B, 49 times  0x' holders.txt || fail "$(<holders.txt)"
	grep -qxF 'Freeing it would free at most 88 B in 1 block.' holders.txt
	finish held
}

@test "statics of functions, interior pointers, stacks and thread-local data; and nothing" {
	start held "$TARGETS/held"
	who static
	chains "counter()::kept 0:328"
	says '.chains[0].root.line > 0'
	who inside
	chains "inside 0:1000"
	says '.chains[0].links[0].into == 504'
	who main
	chains "stack null:712"
	says '.chains[0].root | .thread == $pid and .symbol == null and .retained == null' --argjson pid "$pid"
	who thread
	chains "stack null:824"
	says '.chains[0].root.thread | . != null and . != $pid' --argjson pid "$pid"
	who local
	chains "thread null:904"
	who lost
	chains ""
	says '.retained.blocks == 1'
	finish held
}

@test "all objects of a class" {
	start held "$TARGETS/held"
	holders --type held::Session
	chains "table 24:held::Session
registry 0:held::Registry 16:808 0:held::Session"
	says '.blocks == {"count": 100, "bytes": 5600} and .retained == {"blocks": 200, "bytes": 25600}'
	says '.target == {"address": null, "type": "held::Session"}'
	finish held
}

# refuses MESSAGE ARGUMENT...
refuses() {
	run -1 within 60 "$LIMPET" holders "$pid" "${@:2}"
	[[ $output == *"$1"* ]] || fail "$output"
}

@test "what is no block, or no class, is said in plain words; no thread is stopped" {
	start held "$TARGETS/held"
	tell held "where table" 0x
	refuses "is in no block of the heap: data of held" "$answer"
	refuses "nothing is mapped at 0x10" 0x10
	tell held "where main" 0x
	# The head of a chunk is malloc's own.
	refuses "is in the heap, but in no block in use" "$(printf '0x%x' $((answer - 8)))"
	refuses "did you mean 'held::Session'?" --type held::Sesion
	refuses "there are objects of held::Session, held::Registry" --type absent
	LIMPET_DEBUG=1 who second
	! grep PTRACE holders.err || fail "it was stopped"
	finish held
}

@test "command lines that make no sense" {
	run -2 "$LIMPET" holders
	[[ $output == *"missing PID"* ]]
	run -2 "$LIMPET" holders 1
	[[ $output == *"missing ADDRESS, or --type CLASS"* ]]
	run -2 "$LIMPET" holders 1 12x
	[[ $output == *"not an address"* ]]
	run -2 "$LIMPET" holders --type T 1 0x10
	[[ $output == *"either an address or --type"* ]]
}
