// A server of pushes that compresses for each of its clients. Streams of clients that left are never closed.
const { EventEmitter } = require('events');
const zlib = require('zlib');

const streams = new Map();
const hub = new EventEmitter();
let clients = 0;
let closed = 0;

function openStream(client) {
	const stream = zlib.createDeflateRaw({ windowBits: 13, memLevel: 6 });
	stream.on('data', () => {});
	streams.set(client, stream);
	return stream;
}

hub.on('join', (client) => {
	openStream(client).write(JSON.stringify({ client, hello: 'x'.repeat(200) }));
});

hub.on('leave', (client) => {
	if (client % 4 === 0)
		return; // who times out stays in the map
	streams.get(client).close();
	streams.delete(client);
	closed++;
});

setInterval(() => {
	hub.emit('join', clients);
	if (clients >= 10)
		hub.emit('leave', clients - 10);
	clients++;
	if (clients === 100)
		console.log('ready');
}, 10);

process.on('SIGTERM', () => {
	console.error(`${streams.size} streams open, ${closed} closed; external ${process.memoryUsage().external}`);
	process.exit(0);
});
