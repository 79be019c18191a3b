// A store on LevelDB (classic-level). Batches that validation rejects are neither written nor closed.
const path = require('path');
const { createRequire } = require('module');

const work = process.argv[2];
const { ClassicLevel } = createRequire(path.join(work, 'x.js'))('classic-level');

const db = new ClassicLevel(path.join(work, 'db'), { valueEncoding: 'utf8' });
let number = 0;
let rejected = 0;

async function saveOrder(id) {
  const batch = db.batch();
  for (let line = 0; line < 4; line++)
    batch.put(`order-${id}-${line}`, 'v'.repeat(4000));
  if (id % 2 === 1) {
    rejected++; // and the batch stays open
    return;
  }
  batch.clear();
  batch.put(`order-${id % 50}`, 'done');
  await batch.write();
}

function tick() {
  for (let i = 0; i < 2; i++)
    saveOrder(number++);
}

function report() {
  return `${number} orders, ${rejected} rejected, ${JSON.stringify(process.memoryUsage())}`;
}

db.open().then(() => {
  console.log('ready');
  setInterval(tick, 20);
  setInterval(() => console.error(report()), 2000);
});
