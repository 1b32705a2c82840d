// Entry of a process that attacks a server: each attacker sends one dear request after the other with a pause, or holds
// connections. It is a process of its own, so that what the attackers compute does not delay the clients that measure.
import { Agent, request } from 'node:http';
import { connect } from 'node:net';
import { setTimeout as delay } from 'node:timers/promises';

const json = (value) => JSON.stringify(value);
/** Letters that no bundled tokenizer knows. */
const letter = (time) => String.fromCodePoint(0x0400 + 2 * (time % 400));
const many = (count, text) => Array.from({ length: count }, () => text);

/** As many of `text` as a body of 1 MiB has room for beside `rest` bytes. */
const fill = (text, bytes) => text.repeat(Math.floor(bytes / Buffer.byteLength(text)));

const named = (count, of) => Object.fromEntries(many(count, '').map((_, i) => [`p${i}`, of(i)]));
const format = (schema) => ({ type: 'json_schema', json_schema: { name: 'a', schema } });
const privateAt = (_, i) => String.fromCharCode(0xe000 + i);

/** A body differs from time to time, so that no cache serves it. */
const ATTACKS = [
  {
    what: 'tokenize unknown letters',
    path: '/v1/tokenize',
    body: (time) => json({ input: many(32, letter(time).repeat(16_300)) }),
  },
  {
    what: 'classify unknown letters',
    path: '/v1/classify',
    body: (time) => json({ task: 'sst2', input: many(32, letter(time).repeat(16_000)) }),
  },
  {
    what: 'complete unknown letters',
    path: '/v1/completions',
    body: (time) => json({ prompt: letter(time).repeat(30_000), max_tokens: 1 }),
  },
  {
    what: '64 labels of 1,000 tokens',
    path: '/v1/classify',
    body: (time) =>
      json({
        template: '{text}',
        input: 'a',
        labels: many(64, '').map((_, i) => `${time}${i}${' a'.repeat(1_000)}`),
      }),
  },
  {
    what: '40 labels of 500 tokens for 32 inputs',
    path: '/v1/classify',
    body: (time) =>
      json({
        template: '{text}',
        input: many(32, `a${time}`),
        labels: many(40, '').map((_, i) => `${i}${' b'.repeat(500)}`),
      }),
  },
  {
    what: 'a template that multiplies its field',
    path: '/v1/classify',
    body: () => json({ template: fill('{a}', 65_500), labels: ['x', 'y'], input: { a: 'z'.repeat(60_000) } }),
  },
  {
    what: 'a template that multiplies many fields',
    path: '/v1/classify',
    body: () =>
      json({
        template: fill('{a}{b}', 30_000),
        labels: ['x', 'y'],
        input: many(8, '').map(() => ({ a: fill('é', 50_000), b: fill('ж', 50_000) })),
      }),
  },
  {
    what: 'duplicate keys',
    path: '/v1/classify',
    body: (time) => `{"task":"sst2","input":"a","task":"sst2","input":"${time}","\\u0069nput":"b"}`,
  },
  {
    what: 'wrong keys of many names',
    path: '/v1/classify',
    body: (time) =>
      json({
        task: 'sst2',
        input: 'a',
        ...Object.fromEntries(many(3_000, 'k').map((k, i) => [`${k}${time}${i}`, 0])),
      }),
  },
  {
    what: 'a schema of many alternatives',
    path: '/v1/completions',
    body: (time) =>
      json({
        prompt: `a${time}`,
        response_format: format({
          type: 'object',
          properties: named(29, () => ({ oneOf: many(64, '').map((_, i) => ({ $ref: `#/$defs/p${i}` })) })),
          $defs: named(64, (i) => ({ enum: many(220, '').map((_, value) => i * 220 + value) })),
        }),
      }),
  },
  {
    what: 'a pattern of many dots',
    path: '/v1/completions',
    body: (time) =>
      json({ prompt: `a${time}`, response_format: format({ type: 'string', pattern: fill('.', 110_000) }) }),
  },
  {
    what: 'a chat of many private characters',
    path: '/v1/chat/completions',
    body: (time) =>
      json({
        messages: [...many(15, fill(`a${time}`, 60_000)), many(6_399, '').map(privateAt).join('')].map(
          (content) => ({ role: 'user', content }),
        ),
      }),
  },
];

const ADDRESS = '127.0.0.2';
const agent = new Agent({ localAddress: ADDRESS });
const sockets = new Set();
/** Answers by attack and status; 408 stands for a connection, too, that was closed without an answer. */
const answers = {};
let closed = 0;
let going = true;

/** The status of the answer, whose body is not kept. */
function status(port, path, headers, body) {
  return new Promise((resolve) => {
    const asked = {
      port,
      path,
      agent,
      method: 'POST',
      headers: { ...headers, 'content-type': 'application/json' },
    };
    const sent = request(asked, (answer) => {
      answer
        .resume()
        .on('end', () => resolve(answer.statusCode))
        .on('error', () => resolve(408));
    });
    // A large body may meet the end of its connection before its refusal is read.
    sent.on('error', () => resolve(408)).end(body);
  });
}

async function pause(ms) {
  const end = performance.now() + ms;
  while (going && performance.now() < end) await delay(Math.min(100, ms));
}

async function send({ what, path, body, name = () => what }, { port, headers, pauseMs }) {
  for (let time = 0; going; time += 1) {
    const as = `${name(time)}: ${await status(port, path, headers, body(time))}`;
    answers[as] = (answers[as] ?? 0) + 1;
    await pause(pauseMs * (0.5 + Math.random()));
  }
}

/** Keeps one connection for as long as the server lets it, then opens the next. */
async function hold(port, first, drip, everyMs) {
  while (going) {
    const socket = connect({ host: '127.0.0.1', port, localAddress: ADDRESS });
    sockets.add(socket);
    const timer = setInterval(() => socket.writable && socket.write(drip), everyMs);
    await new Promise((resolve) => {
      socket
        .on('error', () => undefined)
        .on('close', () => resolve())
        .on('data', () => undefined);
      socket.on('connect', () => socket.write(first === '' ? drip : first));
    });
    clearInterval(timer);
    sockets.delete(socket);
    if (going) closed += 1;
    await pause(500);
  }
}

async function work(options) {
  const { port, headers, pingers, slowBodies, lists } = options;
  const ping = 'GET /health/live HTTP/1.1\r\nhost: localhost\r\n\r\n';
  const length = 'content-type: application/json\r\ncontent-length: 100000';
  const head = Object.entries(headers)
    .map(([name, value]) => `${name}: ${value}\r\n`)
    .join('');
  const slow = `POST /v1/classify HTTP/1.1\r\nhost: localhost\r\n${head}${length}\r\n\r\n{`;
  const given = lists?.map(({ what, path, bodies }) => ({
    what,
    path,
    name: (time) => `${what}, ${bodies[time % bodies.length].name}`,
    body: (time) => bodies[time % bodies.length].body,
  }));
  await Promise.all([
    ...(given ?? ATTACKS).map((attack) => send(attack, options)),
    ...Array.from({ length: pingers }, () => hold(port, '', ping, 2_000)),
    ...Array.from({ length: slowBodies }, () => hold(port, slow, ' ', 1_000)),
  ]);
}

let working = Promise.resolve();
process.on('message', async (message) => {
  if (message !== 'stop') {
    working = work(message);
    process.send('attacking');
    return;
  }
  going = false;
  for (const socket of sockets) socket.destroy();
  await working;
  process.send({ answers, closed }, () => process.exit(0));
});
process.on('disconnect', () => process.exit(0));
