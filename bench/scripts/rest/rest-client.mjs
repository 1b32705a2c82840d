// Clients of /v1/classify in a process of their own, each with a connection that stays open and one request at a time.
// Fed line by line by rest-overhead.mjs:
//   in   {"port", "clients", "requests"}
//   out  {"wallMs", "cpuMs", "latencyMs": [], "inferenceMs": [], "queueMs": []}, a number for each request
import { readFileSync } from 'node:fs';
import { Agent, request } from 'node:http';
import { createInterface } from 'node:readline';

const texts = readFileSync('test/data/sst2-validation.jsonl', 'utf8')
  .trim()
  .split('\n')
  .map((line) => JSON.parse(line).text);

function classify(agent, port, text) {
  const body = JSON.stringify({ task: 'sst2', input: text });
  return new Promise((resolve, reject) => {
    const headers = { 'content-type': 'application/json', 'content-length': Buffer.byteLength(body) };
    const call = request({ agent, port, host: '127.0.0.1', path: '/v1/classify', method: 'POST', headers });
    call.once('error', reject);
    call.once('response', (response) => {
      let answer = '';
      response.setEncoding('utf8');
      response.on('data', (piece) => {
        answer += piece;
      });
      response.once('error', reject);
      response.once('end', () => {
        if (response.statusCode !== 200) reject(new Error(`${response.statusCode} ${answer}`));
        else resolve(response.headers);
      });
    });
    call.end(body);
  });
}

async function run({ port, clients, requests }) {
  const agent = new Agent({ keepAlive: true, maxSockets: clients });
  const result = { latencyMs: [], inferenceMs: [], queueMs: [] };
  let next = 0;
  const client = async () => {
    while (next < requests) {
      const text = texts[next++ % texts.length];
      const begin = performance.now();
      const headers = await classify(agent, port, text);
      result.latencyMs.push(performance.now() - begin);
      result.inferenceMs.push(Number(headers['x-inference-time']));
      result.queueMs.push(Number(headers['x-queue-time']));
    }
  };
  const cpu = process.cpuUsage();
  const begin = performance.now();
  await Promise.all(Array.from({ length: clients }, client));
  const wallMs = performance.now() - begin;
  const { user, system } = process.cpuUsage(cpu);
  agent.destroy();
  return { wallMs, cpuMs: (user + system) / 1000, ...result };
}

for await (const line of createInterface({ input: process.stdin })) {
  process.stdout.write(`${JSON.stringify(await run(JSON.parse(line)))}\n`);
}
