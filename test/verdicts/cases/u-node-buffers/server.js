// An upload server that keeps every body by its id, for a retry that never comes.
const crypto = require('crypto');

const uploads = new Map();
let number = 0;

function receiveUpload(id) {
  const body = Buffer.alloc(50000, id % 256);
  uploads.set(id, body);
  return crypto.createHash('sha256').update(body).digest('hex');
}

function tick() {
  receiveUpload(number++);
}

function report() {
  return `${uploads.size} uploads, ${JSON.stringify(process.memoryUsage())}`;
}

console.log('ready');
setInterval(tick, 20);
setInterval(() => console.error(report()), 2000);
