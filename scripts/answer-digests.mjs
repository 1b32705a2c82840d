// The net under every rebuild of the engine: answers must never change by a bit. Serves each Switch model within
// several memory budgets, sends a fixed set of requests, and prints one SHA-256 of the answers for each (model, budget,
// what).
//
//   npm run build:bench && node scripts/answer-digests.mjs --compare test/data/answer-digests.json
//
//   --out F.json      saves the digests
//   --compare F.json  exits with 1 and names each digest that differs from those saved
//   --only TEXT       serves only models whose name contains TEXT
//
// A digest is over the JSON of `data` (classify) or `choices` (completions), floats with all their digits, in the order
// of the requests. An answer does not depend on what shares its batch, on the budget, or on the instruction set, so
// requests go out several at once. A fixture that is too large for the repository is that of ../shared/oracle; where it
// is absent, that is said and its digests are left out.
import { execFileSync } from 'node:child_process';
import { createHash } from 'node:crypto';
import { existsSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { parseArgs } from 'node:util';
import { ServeProcess } from '../bench/dist/support/serve-process.js';

const CLIENTS = 4;
const CLASSIFY_INPUTS = 32;
const FIXTURES = ['switch-tiny', 'switch-tiny-capacity4', 'switch-tiny-step1', 'switch-tiny-untied'];

const mini = { name: 'switch-mini', dir: 'models/switch-mini', budgets: ['100%'], ask: askMini };
const MODELS = [
  { ...mini, budgets: ['100%', '20%', 'smallest'] },
  { ...mini, name: 'switch-mini bf16c', budgets: ['100%', '20%', 'smallest'], flags: ['--experts', 'bf16c'] },
  { ...mini, name: 'switch-mini int8', flags: ['--experts', 'int8', '--dense', 'int8'] },
  {
    ...mini,
    name: 'switch-mini int4 with int8 activations',
    flags: ['--experts', 'int4', '--activations', 'int8'],
  },
  {
    ...mini,
    name: 'switch-mini bf16 activations',
    budgets: ['100%', 'smallest'],
    flags: ['--experts', 'bf16', '--dense', 'bf16', '--activations', 'bf16'],
  },
  { ...mini, name: 'switch-mini predicted', flags: ['--routing', 'predicted', '--routing-k', '3'] },
  ...FIXTURES.map((name) => ({
    name,
    dir: [`test/fixtures/${name}`, `../shared/oracle/fixtures/${name}`].find(
      (dir, i) => i > 0 || existsSync(dir),
    ),
    budgets: ['100%', 'smallest'],
    ask: askFixture,
  })),
];

const { values: args } = parseArgs({
  options: { out: { type: 'string' }, compare: { type: 'string' }, only: { type: 'string', default: '' } },
});

async function post(port, path, body) {
  const response = await fetch(`http://127.0.0.1:${port}${path}`, {
    method: 'POST',
    headers: { 'content-type': 'application/json' },
    body: JSON.stringify(body),
  });
  const answer = await response.json();
  if (response.status !== 200) throw new Error(`${path}: ${response.status} ${JSON.stringify(answer)}`);
  return answer;
}

/** Answers in the order of the bodies, however they overtook each other. */
async function postAll(port, path, bodies) {
  const answers = [];
  let next = 0;
  const client = async () => {
    while (next < bodies.length) {
      const index = next++;
      answers[index] = await post(port, path, bodies[index]);
    }
  };
  await Promise.all(Array.from({ length: CLIENTS }, client));
  return answers;
}

const digest = (answers) => createHash('sha256').update(JSON.stringify(answers)).digest('hex');

async function completions(port, prompts) {
  const bodies = prompts.map((prompt) => ({ prompt, logprobs: 5, max_tokens: 16, return_token_ids: true }));
  return digest((await postAll(port, '/v1/completions', bodies)).map(({ choices }) => choices));
}

function sentences() {
  const lines = readFileSync('test/data/sst2-validation.jsonl', 'utf8').trim().split('\n');
  return lines.map((line) => JSON.parse(line).text);
}

async function askMini(port) {
  const texts = sentences();
  const bodies = [];
  for (let at = 0; at < texts.length; at += CLASSIFY_INPUTS) {
    bodies.push({ task: 'sst2', input: texts.slice(at, at + CLASSIFY_INPUTS) });
  }
  const classified = await postAll(port, '/v1/classify', bodies);
  const inputs = texts.filter((_, index) => index % 13 === 0).map((input) => ({ input }));
  const prompts = (await postAll(port, '/v1/tokenize', inputs)).map(({ data }) => data[0].ids);
  return {
    classify: digest(classified.flatMap(({ data }) => data)),
    completions: await completions(port, prompts),
  };
}

async function askFixture(port, { dir }) {
  return { completions: await completions(port, casesOf(dir)) };
}

/** The inputs of every case of the oracle, as lists of token ids. */
function casesOf(dir) {
  const file = readFileSync(join(dir, 'cases.safetensors'));
  const headerBytes = Number(file.readBigUInt64LE(0));
  const header = JSON.parse(file.toString('utf8', 8, 8 + headerBytes));
  const cases = JSON.parse(readFileSync(join(dir, 'cases.json'), 'utf8'));
  return cases.flatMap(({ case: name, lengths }) => {
    const { shape, data_offsets: offsets } = header[`${name}.input_ids`];
    const idAt = (row, at) =>
      Number(file.readBigInt64LE(8 + headerBytes + offsets[0] + 8 * (row * shape[1] + at)));
    return lengths.map((length, row) => Array.from({ length }, (_, at) => idAt(row, at)));
  });
}

/** `--memory-budget` of a budget's name: `smallest` is the smallest workable one of `sida plan`, in bytes. */
function budgetFlag(budget, { dir, flags }) {
  if (budget !== 'smallest') return budget;
  const planned = execFileSync('node', ['bundle/cli/main.js', 'plan', dir, '--json', ...flags], {
    encoding: 'utf8',
  });
  return String(JSON.parse(planned).plan.smallest);
}

async function digestsOf({ flags: own = [], ...model }, packs) {
  const digests = {};
  const flags = ['--activations', 'f32', '--kv', 'f32', ...own];
  for (const budget of model.budgets) {
    const budgetFlags = ['--memory-budget', budgetFlag(budget, { ...model, flags })];
    const serve = await ServeProcess.start([
      '--model',
      model.dir,
      ...budgetFlags,
      '--pack-dir',
      packs,
      ...flags,
    ]);
    try {
      for (const [what, hash] of Object.entries(await model.ask(serve.port, model))) {
        const name = `${model.name}, ${budget}, ${what}`;
        digests[name] = hash;
        console.log(`${hash}  ${name}`);
      }
    } finally {
      await serve.stop();
    }
  }
  return digests;
}

/** Names of the digests that are not as saved. A model that was not run has none. */
function differences(digests, file) {
  const saved = JSON.parse(readFileSync(file, 'utf8'));
  const modelOf = (name) => name.split(', ')[0];
  const ran = new Set(Object.keys(digests).map(modelOf));
  const names = Object.keys({ ...saved, ...digests }).filter((name) => ran.has(modelOf(name)));
  return names.filter((name) => digests[name] !== saved[name]);
}

const digests = {};
const packs = mkdtempSync(join(tmpdir(), 'sida-packs-'));
try {
  for (const model of MODELS.filter(({ name }) => name.includes(args.only))) {
    if (existsSync(model.dir)) Object.assign(digests, await digestsOf(model, packs));
    else console.error(`SKIPPED: ${model.name} needs ${model.dir}`);
  }
} finally {
  rmSync(packs, { recursive: true, force: true });
}
if (args.out !== undefined) writeFileSync(args.out, `${JSON.stringify(digests, null, 2)}\n`);
if (args.compare !== undefined) {
  const differing = differences(digests, args.compare);
  for (const name of differing) console.error(`DIFFERS from ${args.compare}: ${name}`);
  if (differing.length > 0) process.exitCode = 1;
  else console.log(`All ${Object.keys(digests).length} digests are those of ${args.compare}.`);
}
