// An HTTP client with a cache of responses whose key holds the time, so that it only grows. Its server is beside it.
const http = require('http');

const cache = new Map();
let requests = 0;

const server = http.createServer((request, response) => {
	response.end(Buffer.alloc(12000 + (requests % 10) * 400, 'r'));
});

function cacheResponse(key, chunks) {
	cache.set(key, Buffer.concat(chunks));
}

function fetchPage(port, path, done) {
	http.get({ host: '127.0.0.1', port, path, agent: false }, (response) => {
		const chunks = [];
		response.on('data', (chunk) => chunks.push(chunk));
		response.on('end', () => {
			cacheResponse(`${path}@${Date.now()}/${requests}`, chunks);
			done();
		});
	});
}

server.listen(0, '127.0.0.1', () => {
	const { port } = server.address();
	setInterval(() => {
		fetchPage(port, `/page/${requests % 50}`, () => {
			requests++;
			if (requests === 100)
				console.log('ready');
		});
	}, 20);
});

process.on('SIGTERM', () => {
	let bytes = 0;
	for (const page of cache.values())
		bytes += page.length;
	console.error(`${cache.size} responses of ${bytes} bytes in the cache; arrayBuffers ${process.memoryUsage().arrayBuffers}`);
	process.exit(0);
});
