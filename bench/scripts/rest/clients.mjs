// Clients in a process of their own, each with a connection that stays open and one request at a time. By lines:
//   in   {"port", "clients", "path", "bodies": [], "requests"}: `requests` in all, the bodies again and again
//   out  {"wallMs", "cpuMs", "answers": [{"ms", "inferenceMs", "queueMs", "firstMs", "betweenMs": [], "tokens": []}]}
// Of an answer that streams: the time to its first token and between the others, and the ids of the tokens.
import { Agent, request } from 'node:http';
import { createInterface } from 'node:readline';

function ask(agent, { port, path }, body) {
  const sent = JSON.stringify(body);
  const headers = { 'content-type': 'application/json', 'content-length': Buffer.byteLength(sent) };
  return new Promise((resolve, reject) => {
    const begin = performance.now();
    const answer = { firstMs: undefined, betweenMs: [], tokens: [] };
    let [last, rest] = [begin, ''];
    const take = (line) => {
      if (!line.startsWith('data: {')) return;
      const { choices, error } = JSON.parse(line.slice(6));
      if (error !== undefined) reject(new Error(error.message));
      const ids = choices?.[0]?.token_ids ?? [];
      if (ids.length === 0) return;
      const now = performance.now();
      if (answer.firstMs === undefined) answer.firstMs = now - begin;
      else answer.betweenMs.push(now - last);
      last = now;
      answer.tokens.push(...ids);
    };
    const call = request({ agent, port, host: '127.0.0.1', path, method: 'POST', headers });
    call.once('error', reject).once('response', (response) => {
      response.setEncoding('utf8').once('error', reject);
      response.on('data', (piece) => {
        const lines = (rest + piece).split('\n');
        rest = lines.pop();
        if (body.stream) lines.forEach(take);
      });
      response.once('end', () => {
        if (response.statusCode !== 200) return reject(new Error(`${response.statusCode} ${rest}`));
        const [inferenceMs, queueMs] = ['x-inference-time', 'x-queue-time'].map((name) =>
          Number(response.headers[name]),
        );
        resolve({ ms: performance.now() - begin, inferenceMs, queueMs, ...answer });
      });
    });
    call.end(sent);
  });
}

async function run({ clients, bodies, requests = bodies.length, ...where }) {
  const agent = new Agent({ keepAlive: true, maxSockets: clients });
  const answers = [];
  let next = 0;
  const client = async () => {
    for (let at = next++; at < requests; at = next++) answers[at] = await ask(agent, where, bodies[at % bodies.length]);
  };
  const cpu = process.cpuUsage();
  const begin = performance.now();
  await Promise.all(Array.from({ length: clients }, client));
  const wallMs = performance.now() - begin;
  const { user, system } = process.cpuUsage(cpu);
  agent.destroy();
  return { wallMs, cpuMs: (user + system) / 1000, answers };
}

for await (const line of createInterface({ input: process.stdin })) {
  process.stdout.write(`${JSON.stringify(await run(JSON.parse(line)))}\n`);
}
