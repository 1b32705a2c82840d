// A dashboard of the queues in Redis: https://github.com/felixmosh/bull-board. It shows requests and answers, so it
// needs a key, and belongs on a private address.
//   npm install bullmq ioredis express @bull-board/api @bull-board/express
//   SIDA_REDIS=redis://10.0.0.5:6379 SIDA_ADMIN_KEY=… node server.mjs
// Then open http://127.0.0.1:3000 with any user name and the key as password. The dashboard is read-only.
import { createHash, timingSafeEqual } from 'node:crypto';
import { createBullBoard } from '@bull-board/api';
import { BullMQAdapter } from '@bull-board/api/bullMQAdapter';
import { ExpressAdapter } from '@bull-board/express';
import { Queue } from 'bullmq';
import express from 'express';
import { Redis } from 'ioredis';

const { SIDA_REDIS, SIDA_ADMIN_KEY, HOST = '127.0.0.1', PORT = '3000' } = process.env;
if (!SIDA_REDIS || !SIDA_ADMIN_KEY) throw new Error('Set SIDA_REDIS and SIDA_ADMIN_KEY');

/** The first part of sida's keys. */
const prefix = '{sida}';
const connection = new Redis(SIDA_REDIS, { maxRetriesPerRequest: null });

/** Names of the queues: one for each model and its settings. */
async function queueNames() {
  const names = new Set();
  for await (const keys of connection.scanStream({ match: `${prefix}:v*:meta` })) {
    for (const key of keys) names.add(key.split(':')[1]);
  }
  return [...names];
}

const queues = (await queueNames()).map(
  (name) => new BullMQAdapter(new Queue(name, { connection, prefix, skipMetasUpdate: true }), { readOnlyMode: true }),
);
const serverAdapter = new ExpressAdapter();
createBullBoard({ queues, serverAdapter });

const hash = (text) => createHash('sha256').update(text).digest();
const expected = hash(SIDA_ADMIN_KEY);

express()
  .use((req, res, next) => {
    const [scheme, value = ''] = (req.headers.authorization ?? '').split(' ');
    const password = Buffer.from(value, 'base64').toString().split(':').slice(1).join(':');
    if (scheme === 'Basic' && timingSafeEqual(hash(password), expected)) next();
    else res.status(401).set('www-authenticate', 'Basic realm="sida"').end();
  })
  .use(serverAdapter.getRouter())
  .listen(Number(PORT), HOST, () => console.log(`http://${HOST}:${PORT}: ${queues.length} queues`));
