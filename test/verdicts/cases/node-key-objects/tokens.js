// Verifies tokens of many tenants. The key of each token is parsed anew and kept, though no token comes twice.
const crypto = require('crypto');

const { publicKey, privateKey } = crypto.generateKeyPairSync('rsa', { modulusLength: 2048 });
const pem = publicKey.export({ type: 'spki', format: 'pem' });
const keys = new Map();
const signature = crypto.sign('sha256', Buffer.from('token'), privateKey);
let tokens = 0;
let valid = 0;

function keyOfTenant(token) {
	let key = keys.get(token);
	if (!key) {
		key = crypto.createPublicKey(pem);
		keys.set(token, key);
	}
	return key;
}

function verifyToken(number) {
	const key = keyOfTenant(`tenant ${number % 20}, token ${number}`);
	return crypto.verify('sha256', Buffer.from('token'), key, signature);
}

setInterval(() => {
	for (let i = 0; i < 3; i++)
		valid += verifyToken(tokens++);
	if (tokens === 300)
		console.log('ready');
}, 10);

process.on('SIGTERM', () => {
	console.error(`${keys.size} keys kept, ${valid} of ${tokens} tokens valid`);
	process.exit(0);
});
