// A job runner that waits for answers that never come: each promise is kept with all that its function holds.
const pending = new Map();
let number = 0;

function waitForAnswer(id) {
  return new Promise((resolve) => pending.set(id, resolve));
}

async function runJob(id) {
  const input = new Array(400).fill(0).map((_, i) => `${id}-${i}`);
  const answer = await waitForAnswer(id);
  return input.length + answer;
}

function tick() {
  for (let i = 0; i < 4; i++)
    runJob(number++);
}

function report() {
  return `${pending.size} pending, ${JSON.stringify(process.memoryUsage())}`;
}

console.log('ready');
setInterval(tick, 20);
setInterval(() => console.error(report()), 2000);
