// A price feed. Each request adds a listener to the feed, and its closure holds the request.
const { EventEmitter } = require('events');

const feed = new EventEmitter();
feed.setMaxListeners(0);
let number = 0;
let delivered = 0;

function handleRequest(id) {
  const request = { id, path: `/prices/${id}`, rows: Array.from({ length: 150 }, (_, row) => ({ row, price: row * 1.5 + id })) };
  feed.on('price', () => { delivered += request.rows.length; });
  return JSON.stringify(request.rows.slice(0, 5));
}

function tick() {
  for (let i = 0; i < 5; i++)
    handleRequest(number++);
  if (number % 500 === 0)
    feed.emit('price');
}

function report() {
  return `${feed.listenerCount('price')} listeners, ${JSON.stringify(process.memoryUsage())}`;
}

console.log('ready');
setInterval(tick, 20);
setInterval(() => console.error(report()), 2000);
