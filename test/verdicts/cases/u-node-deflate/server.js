// A chat server with a compressor for each connection. Connections that close leave theirs in the map.
const zlib = require('zlib');

const compressors = new Map();
let number = 0;

function openConnection(id) {
  const deflate = zlib.createDeflateRaw({ windowBits: 15, memLevel: 8 });
  deflate.on('data', () => {});
  deflate.write(`hello ${id}`);
  compressors.set(id, deflate);
}

function closeConnection(id) {
  // forgets compressors.get(id).close()
  return Buffer.alloc(1000, id).toString('base64');
}

function tick() {
  if (number % 2 === 0)
    openConnection(number);
  else
    closeConnection(number - 1);
  number++;
}

function report() {
  return `${compressors.size} compressors, rss ${process.memoryUsage().rss}`;
}

console.log('ready');
setInterval(tick, 20);
setInterval(() => console.error(report()), 2000);
