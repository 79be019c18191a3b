// Filters pictures in WebAssembly. Each picture is put at the end of its memory, which only grows.
const memory = new WebAssembly.Memory({ initial: 64, maximum: 8192 });
// (module (import "env" "memory" (memory 64)) (func (export "invert") (param $at i32) (param $end i32)
//   (loop $next (i32.store8 (local.get $at) (i32.xor (i32.load8_u (local.get $at)) (i32.const 255)))
//     (br_if $next (i32.lt_u (local.tee $at (i32.add (local.get $at) (i32.const 1))) (local.get $end))))))
const code = Buffer.from('0061736d01000000' + '01060160027f7f00' + '020f0103656e76066d656d6f7279020040' + '03020100' +
	'070a0106696e766572740000' + '0a21011f00' + '0340' + '200020002d000041ff01733a0000' + '200041016a22002001490d000b0b', 'hex');
const { invert } = new WebAssembly.Instance(new WebAssembly.Module(code), { env: { memory } }).exports;

let used = 64 * 65536;
let pictures = 0;

function filterPicture(number) {
	const size = 500 * 400;
	if (used + size > memory.buffer.byteLength)
		memory.grow(16);
	new Uint8Array(memory.buffer, used, size).fill(number % 256);
	invert(used, used + size);
	used += size; // and never starts over
	pictures++;
}

setInterval(() => {
	filterPicture(pictures);
	if (pictures === 20)
		console.log('ready');
}, 100);

process.on('SIGTERM', () => {
	console.error(`${pictures} pictures, ${memory.buffer.byteLength} bytes of WebAssembly memory`);
	process.exit(0);
});
