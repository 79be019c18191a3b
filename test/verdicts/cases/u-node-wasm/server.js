// A parser in WebAssembly whose memory grows with each document and cannot shrink.
const bytes = new Uint8Array([
  0, 0x61, 0x73, 0x6d, 1, 0, 0, 0, // header
  1, 6, 1, 0x60, 1, 0x7f, 1, 0x7f, // type: (i32) -> i32
  3, 2, 1, 0, // one function
  5, 3, 1, 0, 1, // one memory of a page
  7, 17, 2, 6, 0x6d, 0x65, 0x6d, 0x6f, 0x72, 0x79, 2, 0, 4, 0x67, 0x72, 0x6f, 0x77, 0, 0, // exports memory, grow
  10, 8, 1, 6, 0, 0x20, 0, 0x40, 0, 0x0b, // memory.grow(argument)
]);

const { memory, grow } = new WebAssembly.Instance(new WebAssembly.Module(bytes)).exports;
let documents = 0;

function parseDocument() {
  const at = grow(2) * 65536;
  new Uint8Array(memory.buffer, at, 131072).fill(documents + 1);
  documents++;
}

function tick() {
  parseDocument();
}

function report() {
  return `${documents} documents, ${memory.buffer.byteLength} bytes of WebAssembly memory`;
}

console.log('ready');
setInterval(tick, 20);
setInterval(() => console.error(report()), 2000);
