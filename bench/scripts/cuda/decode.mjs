// Decoding on a GPU: a shape of a model that people run, random weights, within several budgets, the others of its
// experts in page-locked host memory; and Hugging Face transformers with the same checkpoint within the same bytes.
import { spawn } from 'node:child_process';
import { copyFileSync, existsSync, mkdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { parseArgs } from 'node:util';
import { SCRIPTS, SIDA } from '../../dist/support/paths.js';
import { scriptProvenance } from '../../dist/support/provenance.js';
import { resultFile, writeResult } from '../../dist/support/script-result.js';
import { median } from '../../dist/support/statistics.js';
import { peerPython } from '../../dist/systems/peer-driver.js';

const SHAPES = `${SCRIPTS}larger-than-memory/shapes`;
const HELP = `node bench/scripts/cuda/decode.mjs [options]
  --shape NAME           of bench/scripts/larger-than-memory/shapes (olmoe-7b)
  --experts bf16         of the pack; the peer computes in bf16
  --budgets LIST         20%,35%,50%,100%; the last is the reference for bits
  --look-ahead-layers L  0,2
  --prompt 512           tokens, in passes of --chunk 512
  --steps 160            decoded tokens, of which the first --warm are left out of medians
  --warm 64
  --peer-budgets LIST    35%,100%: the bytes that ours took within them; empty: no peer
  --work DIR             checkpoint and pack, 30 GB for olmoe-7b (build/cuda-decode)
  --text FILE            what is fed
  --tokenizer FILE       of a vocabulary that is not larger (that of olmoe-mini)
  --device cuda          cpu tries the script where there is no GPU
  --make                 checkpoint and pack alone
  --save NAME            of the result, cuda-decode-SHAPE by default
Needs a Python with torch, transformers and accelerate (SIDA_PEERS_PYTHON names it), which also draws the weights.`;

const { values } = parseArgs({
  options: {
    help: { type: 'boolean', default: false },
    shape: { type: 'string', default: 'olmoe-7b' },
    experts: { type: 'string', default: 'bf16' },
    budgets: { type: 'string', default: '20%,35%,50%,100%' },
    'look-ahead-layers': { type: 'string', default: '0,2' },
    prompt: { type: 'string', default: '512' },
    chunk: { type: 'string', default: '512' },
    steps: { type: 'string', default: '160' },
    warm: { type: 'string', default: '64' },
    'peer-budgets': { type: 'string', default: '35%,100%' },
    work: { type: 'string', default: 'build/cuda-decode' },
    text: { type: 'string', default: '../shared/data/wikitext2/test.txt' },
    tokenizer: { type: 'string', default: 'models/olmoe-mini/tokenizer.json' },
    device: { type: 'string', default: 'cuda' },
    make: { type: 'boolean', default: false },
    save: { type: 'string' },
  },
});
if (values.help) {
  console.log(HELP);
  process.exit(0);
}
const { device, shape, work } = values;
const checkpoint = join(work, shape);
const pack = join(work, `${shape}-${values.experts}.pack`);
const peerBudgets = values['peer-budgets'].split(',').filter(Boolean);
const unknown = peerBudgets.filter((budget) => !values.budgets.split(',').includes(budget));
if (unknown.length > 0)
  throw new Error(`--peer-budgets ${unknown} are not among --budgets ${values.budgets}`);
const save = values.save ?? `cuda-decode-${shape}`;

function run(command, args, input) {
  return new Promise((resolve, reject) => {
    const child = spawn(command, args, {
      stdio: ['pipe', input === undefined ? 'inherit' : 'pipe', 'inherit'],
    });
    let said = '';
    child.stdout?.setEncoding('utf8').on('data', (text) => (said += text));
    child.stdin.end(input === undefined ? undefined : JSON.stringify(input));
    child.on('error', reject);
    child.on('close', (code) =>
      code === 0 ? resolve(said) : reject(new Error(`${command} ended with ${code}`)),
    );
  });
}

const peer = async (task) =>
  JSON.parse(await run(peerPython(), [`${SCRIPTS}transformers/transformers_decode.py`], task));

async function make() {
  const config = JSON.parse(readFileSync(`${SHAPES}/${shape}.json`, 'utf8'));
  mkdirSync(work, { recursive: true });
  if (!existsSync(join(checkpoint, 'config.json'))) await peer({ make: checkpoint, config, device, seed: 1 });
  // So that the pack can be served.
  copyFileSync(values.tokenizer, join(checkpoint, 'tokenizer.json'));
  if (!existsSync(pack))
    await run(process.execPath, [SIDA, 'convert', checkpoint, '--out', pack, '--experts', values.experts]);
}

await make();
if (values.make) process.exit(0);
const passed = ['budgets', 'look-ahead-layers', 'prompt', 'chunk', 'steps', 'warm', 'text', 'device'];
await run(process.execPath, [
  `${SCRIPTS}larger-than-memory/teacher-forced.mjs`,
  ...[
    '--pack',
    pack,
    '--host-budget',
    '100%',
    '--tokenizer',
    join(checkpoint, 'tokenizer.json'),
    '--save',
    save,
    '--warm-prompt',
  ],
  ...passed.flatMap((name) => [`--${name}`, values[name]]),
]);
const ours = JSON.parse(readFileSync(resultFile(save), 'utf8'));
const { ids: _, ...rest } = ours;
const about = { ...rest, ...scriptProvenance(), shape, experts: values.experts };
const peers = [];
writeResult(save, { ...about, peers });
for (const budget of peerBudgets) {
  const { peakBytes } = ours.results.find((result) => result.budget === budget);
  const limit = budget === '100%' ? {} : { budgetBytes: peakBytes };
  const ids = {
    prompt: ours.ids.slice(0, Number(values.prompt)),
    fed: ours.ids.slice(Number(values.prompt)),
  };
  const { ms, ...answer } = await peer({ checkpoint, device, ...ids, ...limit });
  const decodeTokensPerSecond = 1000 / median(ms.slice(Number(values.warm)));
  peers.push({
    budget,
    decodeTokensPerSecond,
    prefillTokensPerSecond: (ids.prompt.length / answer.prefillMs) * 1000,
    ...answer,
  });
  writeResult(save, { ...about, peers });
  console.log(`transformers, ${budget}: decode ${decodeTokensPerSecond.toFixed(2)} tokens/s`, answer);
}
