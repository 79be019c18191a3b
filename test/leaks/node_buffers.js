'use strict';
// Listeners that keep Buffers, which nobody removes. Nothing is lost.
const { EventEmitter } = require('events');

const connections = new EventEmitter();
connections.setMaxListeners(0);

function addListener(number) {
	const body = Buffer.alloc(65536 + 8, number);
	connections.on('close', () => body.length);
}

for (let number = 0; number < 200; number++)
	addListener(number);
console.log(`READY ${process.pid}`);
setInterval(() => connections.listenerCount('close'), 3600e3);
