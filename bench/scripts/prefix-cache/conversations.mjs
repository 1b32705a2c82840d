// How much of the prompts of conversations does the prefix cache save? Each turn of a chat sends all that was said
// before. The same conversations with the cache and without it must have the same texts.
import { basename } from 'node:path';
import { parseArgs } from 'node:util';
import { scriptProvenance } from '../../dist/support/provenance.js';
import { writeResult } from '../../dist/support/script-result.js';
import { ServeProcess } from '../../dist/support/serve-process.js';
import { quantile } from '../../dist/support/statistics.js';

const HELP = `node bench/scripts/prefix-cache/conversations.mjs [options]
  --model models/olmoe-mini   a model with a chat template
  --conversations 8      at the same time
  --turns 6
  --max-tokens 48        of an answer
  --budget 50%
  --kv-tokens 16384
  --quick                two turns; the result goes to build/
The result is bench/results/prefix-cache.json.`;

const { values } = parseArgs({
  options: {
    help: { type: 'boolean', default: false },
    quick: { type: 'boolean', default: false },
    model: { type: 'string', default: 'models/olmoe-mini' },
    conversations: { type: 'string', default: '8' },
    turns: { type: 'string' },
    'max-tokens': { type: 'string', default: '48' },
    budget: { type: 'string', default: '50%' },
    'kv-tokens': { type: 'string', default: '16384' },
  },
});
if (values.help) {
  console.log(HELP);
  process.exit(0);
}
const { quick, model, budget } = values;
const conversations = Number(values.conversations);
const turns = Number(values.turns ?? (quick ? 2 : 6));
const maxTokens = Number(values['max-tokens']);

const THINGS = [
  'theory',
  'oak',
  'river',
  'violin',
  'salmon',
  'justice',
  'bridge',
  'winter',
  'engine',
  'letter',
];
const question = (who, turn) => `What kind of thing is a ${THINGS[(who + 3 * turn) % THINGS.length]}?`;

/** One conversation: the text of each turn, and what its prompt cost. */
async function converse(server, who) {
  const messages = [];
  const said = [];
  for (let turn = 0; turn < turns; turn += 1) {
    messages.push({ role: 'user', content: question(who, turn) });
    const sampling = who % 2 === 0 ? { temperature: 0 } : { temperature: 0.8, seed: who };
    const begin = performance.now();
    const { choices, usage } = await server.post('/v1/chat/completions', {
      messages,
      max_tokens: maxTokens,
      ...sampling,
    });
    const text = choices[0].message.content ?? '';
    messages.push({ role: 'assistant', content: text });
    said.push({
      turn,
      text,
      promptTokens: usage.prompt_tokens,
      cachedTokens: usage.prompt_tokens_details.cached_tokens,
      ms: performance.now() - begin,
    });
  }
  return said;
}

async function run(mode) {
  const flags = ['--model', model, '--memory-budget', budget, '--kv-tokens', values['kv-tokens']];
  const server = await ServeProcess.start([...flags, '--prefix-cache', mode]);
  try {
    const said = await Promise.all(Array.from({ length: conversations }, (_, who) => converse(server, who)));
    const metrics = await server.metrics();
    return { said, passTokens: metrics.get('sida_tokens_total') };
  } finally {
    await server.stop();
  }
}

function figures({ said, passTokens }) {
  const later = said.flat().filter(({ turn }) => turn > 0);
  const sum = (name) => later.reduce((total, each) => total + each[name], 0);
  return {
    laterPromptTokens: sum('promptTokens'),
    laterComputedTokens: sum('promptTokens') - sum('cachedTokens'),
    tokensOfAllPasses: passTokens,
    laterTurnMs: Math.round(
      quantile(
        later.map(({ ms }) => ms),
        0.5,
      ),
    ),
  };
}

const [off, on] = [await run('off'), await run('per-key')];
const texts = ({ said }) => JSON.stringify(said.map((turn) => turn.map(({ text }) => text)));
const [without, cached] = [figures(off), figures(on)];
const result = {
  question: 'How much of the prompts of conversations does the prefix cache save?',
  ...scriptProvenance(),
  model: basename(model),
  budget,
  conversations,
  turns,
  maxTokens,
  sameTexts: texts(off) === texts(on),
  savedShareOfLaterTurns: 1 - cached.laterComputedTokens / cached.laterPromptTokens,
  off: without,
  on: cached,
};
writeResult('prefix-cache', result, quick);
console.log(JSON.stringify(result, null, 1));
if (!result.sameTexts) throw new Error('The texts differ with the cache and without it. This is a bug.');
