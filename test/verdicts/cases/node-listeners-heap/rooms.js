// Rooms of a chat. Each message adds a listener with a closure of its own, and none is removed.
const { EventEmitter } = require('events');

const rooms = Array.from({ length: 100 }, () => new EventEmitter().setMaxListeners(0));
let messages = 0;

function subscribe(room, message) {
	const recipients = Array.from({ length: 20 }, (_, i) => ({ id: i, seen: false, of: message }));
	room.on('acknowledged', (id) => {
		if (id === message.id)
			recipients.forEach((recipient) => { recipient.seen = true; });
	});
}

function onMessage(number) {
	const message = { id: number, text: `message ${number} `.concat('!'.repeat(number % 20)), at: Date.now() };
	const frame = Buffer.allocUnsafeSlow(20000).fill(number % 256); // garbage soon
	subscribe(rooms[number % rooms.length], message);
	return frame.length;
}

setInterval(() => {
	for (let i = 0; i < 10; i++)
		onMessage(messages++);
	if (messages === 2000)
		console.log('ready');
}, 5);

process.on('SIGTERM', () => {
	const { heapUsed, arrayBuffers } = process.memoryUsage();
	console.error(`${messages} listeners, heapUsed ${heapUsed}, arrayBuffers ${arrayBuffers}`);
	process.exit(0);
});
