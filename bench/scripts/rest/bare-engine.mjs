// The native engine alone: no HTTP, no queue, no other process. Fed line by line:
//   in   {"batch", "requests"}: SST-2 sentences are scored, so many a batch
//   out  {"wallMs", "cpuMs", "batchMs": []}
//   in   {"prompts": [[id]], "lengths": [n], "clients"}: so many tokens are generated after each prompt
//   out  {"wallMs", "cpuMs", "tokens": [[id]]}
import { createInterface } from 'node:readline';
import { sst2Texts } from '../../dist/support/sst2.js';
import { groupsOf } from '../../dist/systems/batches.js';
import { openServedEngine } from '../../dist/systems/open-engine.js';
import { scoreGroup, scoringInputs } from '../../dist/systems/scoring.js';

const { config, pack } = JSON.parse(process.argv[2]);
const engine = openServedEngine(config, pack);

function score({ batch, requests }) {
  const texts = sst2Texts().map((text) => `sst2 sentence: ${text}`);
  const { inputs, plan } = scoringInputs(pack, engine.shape, texts, ['negative', 'positive']);
  const sentences = Array.from({ length: requests }, (_, i) => inputs[i % inputs.length]);
  return timed(() => {
    const batchMs = groupsOf(sentences, batch).map((group) => {
      const started = performance.now();
      scoreGroup(engine, (own) => engine.runBatch(own, null), group, plan);
      return performance.now() - started;
    });
    return { batchMs };
  });
}

/** One pass: the prompts of new sequences and the last token of the others, and a token after each. */
function step(live) {
  const fed = live.map(({ prompt, said }) => (said.length === 0 ? prompt : said.slice(-1)));
  const offsets = Int32Array.from([0, ...fed].map((_, i) => fed.slice(0, i).flat().length));
  const sequences = Int32Array.from(live.map(({ id }) => id));
  const picks = { rows: offsets.slice(1).map((end) => end - 1) };
  const tokens = Int32Array.from(fed.flat());
  const { picked } = engine.runBatch({ stack: 0, sequences, offsets, tokens, picks }, null);
  live.forEach(({ said }, i) => void said.push(picked[i]));
}

function generate({ prompts, lengths, clients }) {
  const all = prompts.map((prompt, i) => ({ id: i + 1, prompt, length: lengths[i], said: [] }));
  const waiting = [...all];
  return timed(() => {
    for (let live = waiting.splice(0, clients); live.length > 0; ) {
      step(live);
      const ended = live.filter(({ said, length }) => said.length >= length);
      if (ended.length > 0) engine.releaseSequences(Int32Array.from(ended.map(({ id }) => id)));
      live = [...live.filter((each) => !ended.includes(each)), ...waiting.splice(0, ended.length)];
    }
    return { tokens: all.map(({ said }) => said) };
  });
}

function timed(work) {
  const cpu = process.cpuUsage();
  const begin = performance.now();
  const result = work();
  const wallMs = performance.now() - begin;
  const { user, system } = process.cpuUsage(cpu);
  return { wallMs, cpuMs: (user + system) / 1000, ...result };
}

for await (const line of createInterface({ input: process.stdin })) {
  const work = JSON.parse(line);
  process.stdout.write(`${JSON.stringify(work.prompts ? generate(work) : score(work))}\n`);
}
