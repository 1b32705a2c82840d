// The native engine alone on the prompts that stream-client.mjs sends: token ids in, token ids out, no HTTP, no queue,
// no other process. Fed line by line by streams.mjs:
//   in   {"prompts": [[id]], "lengths": [n], "clients"}: each prompt has its number of tokens to generate
//   out  {"wallMs", "cpuMs", "tokens": [[id]]}
import { createInterface } from 'node:readline';
import { openServedEngine } from '../../dist/systems/open-engine.js';

const { config, pack } = JSON.parse(process.argv[2]);
const engine = openServedEngine(config, pack);

/** One pass: the prompts of new sequences and the last token of the others, and a token after each. */
function step(live) {
  const fed = live.map(({ prompt, said }) => (said.length === 0 ? prompt : said.slice(-1)));
  const offsets = Int32Array.from([0, ...fed].map((_, i) => fed.slice(0, i).flat().length));
  const { picked } = engine.runBatch(
    {
      stack: 0,
      sequences: Int32Array.from(live.map(({ id }) => id)),
      offsets,
      tokens: Int32Array.from(fed.flat()),
      picks: { rows: offsets.slice(1).map((end) => end - 1) },
    },
    null,
  );
  live.forEach(({ said }, i) => void said.push(picked[i]));
}

function run({ prompts, lengths, clients }) {
  const waiting = prompts.map((prompt, i) => ({ id: i + 1, prompt, length: lengths[i], said: [] }));
  const all = [...waiting];
  let live = [];
  const cpu = process.cpuUsage();
  const begin = performance.now();
  while (waiting.length > 0 || live.length > 0) {
    while (live.length < clients && waiting.length > 0) live.push(waiting.shift());
    step(live);
    const ended = live.filter(({ said, length }) => said.length >= length);
    if (ended.length > 0) engine.releaseSequences(Int32Array.from(ended.map(({ id }) => id)));
    live = live.filter((each) => !ended.includes(each));
  }
  const wallMs = performance.now() - begin;
  const { user, system } = process.cpuUsage(cpu);
  return { wallMs, cpuMs: (user + system) / 1000, tokens: all.map(({ said }) => said) };
}

for await (const line of createInterface({ input: process.stdin })) {
  process.stdout.write(`${JSON.stringify(run(JSON.parse(line)))}\n`);
}
