// Clients of /v1/completions in a process of their own, each with one stream after another. Fed line by line by
// streams.mjs:
//   in   {"port", "model", "prompts": [text or [id]], "clients", "maxTokens"}
//   out  {"wallMs", "cpuMs", "streams": [{"firstMs", "betweenMs": [], "tokens": []}]}, in the order of the prompts
import { Agent, request } from 'node:http';
import { createInterface } from 'node:readline';

function stream(agent, port, body) {
  const sent = JSON.stringify(body);
  return new Promise((resolve, reject) => {
    const result = { firstMs: undefined, betweenMs: [], tokens: [] };
    const begin = performance.now();
    let last = begin;
    let rest = '';
    const take = (line) => {
      if (!line.startsWith('data: {')) return;
      const { choices, error } = JSON.parse(line.slice(6));
      if (error !== undefined) reject(new Error(error.message));
      const ids = choices?.[0]?.token_ids ?? [];
      if (ids.length === 0) return;
      const now = performance.now();
      if (result.firstMs === undefined) result.firstMs = now - begin;
      else result.betweenMs.push(now - last);
      last = now;
      result.tokens.push(...ids);
    };
    const headers = { 'content-type': 'application/json', 'content-length': Buffer.byteLength(sent) };
    const call = request({
      agent,
      port,
      host: '127.0.0.1',
      path: '/v1/completions',
      method: 'POST',
      headers,
    });
    call.once('error', reject);
    call.once('response', (response) => {
      response.setEncoding('utf8');
      response.once('error', reject);
      response.on('data', (piece) => {
        const lines = (rest + piece).split('\n');
        rest = lines.pop();
        lines.forEach(take);
      });
      response.once('end', () => {
        if (response.statusCode === 200) resolve(result);
        else reject(new Error(`${response.statusCode} ${rest}`));
      });
    });
    call.end(sent);
  });
}

async function run({ port, model, prompts, clients, maxTokens }) {
  const agent = new Agent({ keepAlive: true, maxSockets: clients });
  const streams = [];
  let next = 0;
  const client = async () => {
    while (next < prompts.length) {
      const at = next++;
      const body = { model, prompt: prompts[at], max_tokens: maxTokens, temperature: 0, stream: true };
      streams[at] = await stream(agent, port, { ...body, return_token_ids: true });
    }
  };
  const cpu = process.cpuUsage();
  const begin = performance.now();
  await Promise.all(Array.from({ length: clients }, client));
  const wallMs = performance.now() - begin;
  const { user, system } = process.cpuUsage(cpu);
  agent.destroy();
  return { wallMs, cpuMs: (user + system) / 1000, streams };
}

for await (const line of createInterface({ input: process.stdin })) {
  process.stdout.write(`${JSON.stringify(await run(JSON.parse(line)))}\n`);
}
