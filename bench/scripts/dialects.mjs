// What does a dialect add to a lone chat? `sida serve` on loopback with olmoe-mini resident; the same chat of one
// token in turn over OpenAI's, Anthropic's and Ollama's interface, by one client.
import { join } from 'node:path';
import { MODELS_DIRECTORY } from '../dist/support/paths.js';
import { scriptOptions } from '../dist/support/script.js';
import { ServeProcess } from '../dist/support/serve-process.js';
import { median } from '../dist/support/statistics.js';

const HELP = `node bench/scripts/dialects.mjs [options]
  --requests 1000        of each dialect
Prints the p50 of a request, of what it takes beyond the engine's own time, and how much more than OpenAI's that is.`;

const { requests } = scriptOptions(HELP, { requests: '1000' });
const chat = {
  model: 'olmoe-mini',
  messages: [{ role: 'user', content: 'What kind of thing is a violin?' }],
};
const DIALECTS = {
  OpenAI: ['/v1/chat/completions', { ...chat, max_tokens: 1 }],
  Anthropic: ['/v1/messages', { ...chat, max_tokens: 1 }],
  Ollama: ['/api/chat', { ...chat, stream: false, options: { num_predict: 1 } }],
};
const WARMUP = 50;

const server = await ServeProcess.start([join(MODELS_DIRECTORY, 'olmoe-mini'), '--memory-budget', '100%']);
const times = Object.fromEntries(Object.keys(DIALECTS).map((name) => [name, { all: [], beyond: [] }]));
for (let at = -WARMUP; at < Number(requests); at += 1) {
  for (const [name, [path, body]] of Object.entries(DIALECTS)) {
    const started = performance.now();
    const answer = await fetch(server.url + path, {
      method: 'POST',
      headers: { 'content-type': 'application/json' },
      body: JSON.stringify(body),
    });
    await answer.text();
    const ms = performance.now() - started;
    if (answer.status !== 200) throw new Error(`${path} answered ${answer.status}`);
    if (at < 0) continue;
    times[name].all.push(ms);
    times[name].beyond.push(ms - Number(answer.headers.get('x-inference-time')));
  }
}
await server.stop();

const first = median(times.OpenAI.beyond);
console.log('dialect    p50, ms  beyond the engine  more than OpenAI');
for (const [name, { all, beyond }] of Object.entries(times)) {
  const figures = [median(all), median(beyond), median(beyond) - first].map((ms) => ms.toFixed(3));
  console.log(`${name.padEnd(9)}  ${figures[0].padEnd(7)}  ${figures[1].padEnd(17)}  ${figures[2]}`);
}
