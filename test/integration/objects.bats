#!/usr/bin/env bats
# limpet explain --objects: what it counts in the heaps of node, against what the program knows, and V8's own snapshot.
# NODES="node /opt/node-18/bin/node" counts in several releases.
# time-limit: 300

load helpers
setup() {
	begin
	command -v "${NODES:-node}" >/dev/null || [[ ${NODES:-} == *" "* ]] || skip "node is not installed"
}
teardown() { end; }

# Of the target, into $work/objects.json.
objects() {
	within 120 "$LIMPET" explain "$pid" --objects --json "$@" >"$work/explain.json" 2>"$work/explain.err" ||
		fail "limpet explain: $(<"$work/explain.err")"
	jq .objects "$work/explain.json" >"$work/objects.json"
}

# says FILTER [OPTION...]: jq's answer about it is true.
says() { says_in "$work/objects.json" "$@"; }

# of KIND NAME: the row's place in a filter.
of() {
	printf '([.rows[] | select(.kind == "%s" and .name == "%s")] | first)' "$1" "$2"
}

# What the program has is held by a property of the global object, so that nothing of it is collected.
write_program() {
	cat >objects.js <<-'end'
		const v8 = require("v8");
		class Session {
			constructor(id) { this.id = id; this.text = `session ${id}`; }
			remember(what) { return () => what + this.id; }
		}
		function Peer(id) { this.id = id; this.scores = [id, id + 1]; }
		const kept = globalThis.kept = { sessions: [], peers: [], closures: [], maps: [], buffers: [], more: [] };
		for (let i = 0; i < 3000; i++) kept.sessions.push(new Session(i));
		for (let i = 0; i < 700; i++) kept.peers.push(new Peer(i));
		for (let i = 0; i < 1200; i++) kept.closures.push(kept.sessions[i].remember("it"));
		for (let i = 0; i < 500; i++) kept.maps.push(new Map([[i, { value: i }]]), new Set([i]));
		for (let i = 0; i < 20; i++) kept.buffers.push(new Uint8Array(123456));
		for (let i = 0; i < 5; i++) kept.more.push({ ["secret" + i]: "a secret of nobody's business" + i });

		function count(done) {
			const text = [], totals = {}, names = {};
			v8.getHeapSnapshot().on("data", (piece) => text.push(piece)).on("end", () => {
				const { snapshot, nodes, strings } = JSON.parse(text.join(""));
				const fields = snapshot.meta.node_fields, types = snapshot.meta.node_types[0];
				for (let i = 0; i < nodes.length; i += fields.length) {
					const node = Object.fromEntries(fields.map((field, k) => [field, nodes[i + k]]));
					const type = types[node.type], name = `${type} ${strings[node.name]}`;
					for (const [table, key] of [[totals, type], [names, name]]) {
						table[key] ??= { count: 0, bytes: 0 };
						table[key].count++;
						table[key].bytes += node.self_size;
					}
				}
				done({ totals, names: Object.fromEntries(Object.entries(names).filter(([name]) =>
					/^(object|closure) (Session|Peer|Map|Set|native_bind|system .*)$/.test(name))) });
			});
		}
		const commands = {
			rest() { global.gc(); global.gc(); console.log("rested"); },
			count() { count((counted) => console.log(`counted ${JSON.stringify(counted)}`)); },
			grow() { setInterval(() => { for (let i = 0; i < 10; i++) kept.sessions.push(new Session(i)); }, 5); console.log("growing"); },
			work() { const { Worker } = require("worker_threads"); let left = 2;
				for (let i = 0; i < 2; i++) new Worker("class Job { constructor() { this.a = 1; } } globalThis.jobs = []; for (let i = 0; i < 400; i++) jobs.push(new Job()); const { parentPort } = require('worker_threads'); parentPort.on('message', () => 0); parentPort.postMessage('up');", { eval: true }).on("message", () => --left || console.log("working")); },
		};
		console.log(`ready ${process.pid}`);
		require("readline").createInterface({ input: process.stdin }).on("line", (line) => (commands[line] || (() => process.exit(0)))());
	end
}

# A heap that rests: the program's own classes to the object, all else nearly as in V8's own snapshot. That has more: what keeps
# itself alive only as long as it is looked at, and, of strings outside of the heap, their characters.
# counts_as_snapshot NODE NAME
counts_as_snapshot() {
	start "$2" "$1" --expose-gc objects.js
	tell "$2" rest rested
	objects
	says '.known and .whole and .isolates == 1 and .uncounted_bytes == 0'
	says '([.rows[].count] | add) == .count and ([.rows[].bytes] | add) == .bytes'
	says "$(of instances Session)"' | .count == 3000 and (.script | endswith("/objects.js")) and .line == 3'
	says "$(of instances Peer)"' | .count == 700 and .line == 6'
	says 'any(.rows[]; .kind == "closures" and .count == 1200 and .line == 4)'
	says "$(of instances ArrayBuffer)"'.outside_bytes >= 2469120'
	says '.outside_bytes | . >= 2469120 and . < 8000000'
	run -1 grep -q -e "secret" "$work/explain.json"
	tell "$2" count counted
	answer=${answer#counted }
	says '$counted.names["object Session"].bytes == $session.bytes' --argjson counted "$answer" \
		--argjson session "$(jq "$(of instances Session)" "$work/objects.json")"
	says '([.rows[] | select(.kind == "closures").count] | add) /
		($counted.totals.closure.count - ($counted.names["closure native_bind"].count // 0)) | . > 0.98 and . < 1.02' --argjson counted "$answer"
	says '([.rows[] | select(.kind == "closures").bytes] | add) /
		($counted.totals.closure.bytes - ($counted.names["closure native_bind"].bytes // 0)) | . > 0.98 and . < 1.02' --argjson counted "$answer"
	says '([.rows[] | select(.kind == "instances" or .name == "prototypes").bytes] | add) /
		($counted.totals.object.bytes + $counted.totals.regexp.bytes + ($counted.names["closure native_bind"].bytes // 0)
			- ([$counted.names | to_entries[] | select(.key | startswith("object system")).value.bytes] | add // 0)) |
		. > 0.98 and . < 1.02' --argjson counted "$answer"
	says '([.rows[] | select(.kind == "strings").count] | add) / ([$counted.totals["string", "concatenated string", "sliced string"].count] | add) |
		. > 0.98 and . < 1.02' --argjson counted "$answer"
	finish "$2"
}

@test "the objects of node, as its heap snapshot counts them" {
	local node number=0
	write_program
	for node in ${NODES:-node}; do
		counts_as_snapshot "$node" "node.$((++number))"
	done
}

@test "objects that grow, and those of workers" {
	local node number=0 name
	write_program
	for node in ${NODES:-node}; do
		name=node.$((++number))
		start "$name" "$node" --expose-gc objects.js
		tell "$name" work working
		tell "$name" rest rested
		objects
		says '.isolates == 3'
		says "$(of instances Job)"'.count == 800'
		tell "$name" grow growing
		objects --interval 1s
		says '.interval_seconds == 1'
		says "$(of instances Session)"' | .count >= .count_before + 10 and .count_before >= 3000'
		run --separate-stderr "$LIMPET" explain "$pid" --objects --interval 10ms
		[[ $status == 0 && $output == *"In the heaps of V8 "*"What grew in 10ms:"* ]]
		finish "$name"
	done
}

# As many kinds of objects as there are.
write_kinds() {
	cat >kinds.js <<-'end'
		const vm = require("vm"), zlib = require("zlib"), crypto = require("crypto"), { MessageChannel } = require("worker_threads");
		const kept = globalThis.kept = [];
		for (let r = 0; r < 300; r++) {
			class Peer {
				#secret = r; static #count = 1; get x() { return this.#secret; } static { this.count = Peer.#count; } ["c" + r % 7]() {}
				*walk() { yield r; yield* [1, 2]; } async wait() { await null; return r; } async *both() { yield r; }
			}
			const peer = new Peer(), walk = peer.walk(), both = peer.both();
			walk.next(); both.next();
			const many = {};
			for (let i = 0; i < 60; i++) many[`k${r}_${i}`] = i;
			for (let i = 0; i < 30; i++) delete many[`k${r}_${i}`];
			const sparse = [];
			sparse[100000 + r] = 1; sparse[5] = 2.5;
			kept.push(peer, walk, both, peer.wait(), many, sparse, [1.5, 2.5, r], [, 1, , 2], new Array(50).fill(r), [..."abc" + r]);
			kept.push(/a(b+)c(?<n>d)/gi, "xabbcd".match(/a(b+)c(?<n>d)/), new RegExp("z" + r, "y").exec("z" + r));
			kept.push(BigInt(r) ** 200n, new BigInt64Array(4), Symbol("s" + r), Symbol.for("f" + r));
			kept.push(new WeakMap([[peer, 1]]), new WeakSet([peer]), new WeakRef(peer), new Proxy(peer, { get: () => 1 }), Object.freeze({ a: r, b: { c: r } }));
			kept.push(new Date(), new Error("e" + r), new Intl.NumberFormat("de"), (function (a) { a = 2; return [arguments, () => a]; })(1));
			kept.push((function () { return arguments; })(1, 2, 3), (function (a) { "use strict"; return arguments; })(1));
			kept.push(new Map([[r, peer], ["a", 1]]), new Set([1, 2, peer]), new Map().entries(), [1, 2][Symbol.iterator](), "abc"[Symbol.iterator]());
			kept.push(new SharedArrayBuffer(64), new DataView(new ArrayBuffer(8)), new Float32Array(100), new Uint8ClampedArray(3));
			kept.push("a".repeat(20) + r, ("long, of which a part is taken " + r + " ".repeat(40)).slice(3, 50), "ü€" + r + "漢字".repeat(r % 9));
			kept.push(JSON.parse(`{"a${r}":[1,2,3.5,{"b":null}],"long":"${"x".repeat(r)}"}`));
			kept.push(eval(`(function dyn${r}(a = 1, { b, c } = {}, ...rest) { let z = a; { let y = z; kept.push(() => y); } return () => z + rest.length; })`)(1, {}, 2));
			try { null.x; } catch (error) { kept.push(error, error.stack); }
			kept.push(new Function("o", "with (o) { return () => a; }")({ a: r }));
			kept.push(Object.create({ r }), Object.create(null, { h: { value: 1, enumerable: true }, g: { get() { return 1; } } }), Promise.all([1, Promise.resolve(2)]));
			kept.push(structuredClone({ a: new Map([[1, 2]]), b: new Date() }), Buffer.from("abc" + r), new URL("http://x/" + r), new AbortController());
		}
		for (let i = 0; i < 5; i++) {
			const context = vm.createContext({ i });
			vm.runInContext("globalThis.list = []; for (let j = 0; j < 100; j++) list.push({ j }); class Inner {} inner = new Inner();", context);
			kept.push(context);
		}
		kept.push(new vm.Script("1 + 1"), zlib.createGzip(), crypto.createHash("sha256"), new MessageChannel());
		kept.push(new WebAssembly.Instance(new WebAssembly.Module(new Uint8Array([0, 97, 115, 109, 1, 0, 0, 0, 1, 7, 1, 96, 2, 127, 127, 1, 127, 3, 2,
			1, 0, 7, 7, 1, 3, 97, 100, 100, 0, 0, 10, 9, 1, 7, 0, 32, 0, 32, 1, 106, 11]))));
		function hot(a) { let sum = 0; for (let i = 0; i < 100; i++) sum += a.x * i; return sum; }
		for (let i = 0; i < 60000; i++) hot(i < 20000 ? { x: i } : i % 2 ? { y: 1, x: 1.5 } : { z: 1, x: "q" });
		for (const name of ["assert", "cluster", "dns", "inspector", "tls"]) require(name);
		setTimeout(() => console.log(`ready ${process.pid}`), 500);
		process.stdin.on("data", () => process.exit(0));
	end
}

# bats test_tags=release
@test "objects of all kinds" {
	local node number=0 name
	write_kinds
	for node in ${NODES:-node}; do
		name=node.$((++number))
		start "$name" "$node" kinds.js
		objects
		says '.known and .bytes > 8000000 and .uncounted_bytes < 0.001 * .bytes'
		says "$(of instances Peer)"'.count >= 300'
		finish "$name"
	done
}

@test "what is no heap of V8" {
	start plain "$TARGETS/plain"
	objects
	[[ $(<"$work/objects.json") == null ]]
	run --separate-stderr "$LIMPET" explain "$pid" --objects
	[[ $status == 0 && $output == *"There is no heap of V8 to count."* ]]
	run -2 --separate-stderr "$LIMPET" explain "$pid" --interval 1s
	[[ $stderr == *"--interval is for --objects"* ]]
	run -2 --separate-stderr "$LIMPET" explain "$pid" --objects --interval soon
	[[ $stderr == *"--interval needs a time"* ]]
	finish plain
}
