// `sida train` on real traces of the bundled model: its output, and its continuation after every kind of end.
import { type ChildProcess, execFileSync, spawn, spawnSync } from 'node:child_process';
import { cpSync, existsSync, mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { loadAddon } from '../../../src/native/addon.js';
import { openPredictor } from '../../../src/predictor/predictor-directory.js';
import { MINI, REPO, sst2 } from '../../support/server-process.js';

const root = mkdtempSync(join(tmpdir(), 'sida-train-'));
afterAll(() => rmSync(root, { recursive: true, force: true }));
const MAIN = join(REPO, 'dist/cli/main.js');
const at = (name: string) => join(root, name);
const sida = (...args: string[]) => spawnSync(process.execPath, [MAIN, ...args], { encoding: 'utf8' });

function traceArgs(name: string, from: number, to: number, more: string[] = []): string[] {
  const data = at(`${name}.jsonl`);
  writeFileSync(
    data,
    sst2()
      .slice(from, to)
      .map((row) => JSON.stringify(row))
      .join('\n'),
  );
  const template = ['--template', 'sst2 sentence: {text}'];
  return ['trace', MINI, '--data', data, ...template, '--out', at(name), '--pack-dir', at('packs'), ...more];
}

const SMALL = ['--hidden', '16', '--batch', '16', '--lr', '5e-3', '--warmup', '0', '--threads', '1'];
const trainArgs = (out: string, more: string[] = []) => [
  'train',
  at('a'),
  '--held-out',
  at('b'),
  '--out',
  at(out),
  ...SMALL,
  '--epochs',
  '3',
  '--evaluate-every',
  '5',
  '--patience',
  '0',
  ...more,
];

beforeAll(() => {
  for (const args of [traceArgs('a', 0, 240), traceArgs('b', 240, 300)]) {
    const { status, stderr } = sida(...args);
    expect(status, stderr).toBe(0);
  }
  const whole = sida(...trainArgs('whole'));
  expect(whole.status, whole.stderr).toBe(0);
  expect(whole.stderr).toMatch(/^encoder step 5 \(epoch 0\.33\); loss \d.*held out .*the best so far/m);
});

/** The evaluations of a run without their times, which differ between runs. */
function measurements(out: string, network = 'lstm'): Record<string, unknown>[] {
  const lines = readFileSync(join(at(out), network, 'training.jsonl'), 'utf8')
    .trim()
    .split('\n');
  return lines.map((line) => ({ ...JSON.parse(line), seconds: 0 }));
}

const manifestOf = (out: string) => JSON.parse(readFileSync(join(at(out), 'sida-predictor.json'), 'utf8'));

/** Expects the weights' hashes, the evaluations and the held-out hits of an uninterrupted run. */
function expectSameAsWhole(out: string): void {
  for (const stack of ['encoder', 'decoder']) {
    const weights = (name: string) => readFileSync(join(at(name), 'lstm', stack, 'predictor.json'), 'utf8');
    expect(weights(out)).toBe(weights('whole'));
  }
  expect(measurements(out)).toEqual(measurements('whole'));
  expect(manifestOf(out)).toEqual(manifestOf('whole'));
}

function start(args: string[]): { child: ChildProcess; exit: Promise<number | NodeJS.Signals | null> } {
  const child = spawn(process.execPath, [MAIN, ...args], { stdio: 'ignore' });
  const exit = new Promise<number | NodeJS.Signals | null>((done) =>
    child.once('exit', (code, signal) => done(code ?? signal)),
  );
  return { child, exit };
}

async function savedBy(out: string, stack: string, exit: Promise<unknown>): Promise<void> {
  let ended = false;
  exit.then(() => {
    ended = true;
  });
  while (!existsSync(join(at(out), 'unfinished', stack, 'state.json')) && !ended) await delay(2);
  expect(ended).toBe(false);
}

describe('a trained predictor', () => {
  it('has all its files, a manifest and a card, and can be opened', async () => {
    expect(readdirSync(at('whole')).sort()).toEqual([
      'README.md',
      'lstm',
      'sida-predictor.json',
      'token.safetensors',
    ]);
    expect(readdirSync(join(at('whole'), 'lstm')).sort()).toEqual(['decoder', 'encoder', 'training.jsonl']);
    const manifest = manifestOf('whole');
    expect(manifest).toMatchObject({
      format: 'sida-predictor',
      version: 2,
      layers: ['encoder.1', 'encoder.3', 'decoder.1', 'decoder.3'],
      experts: 64,
      vocab: 8000,
      default: 'lstm',
      networks: { lstm: { options: { hidden: 16, top: 30, lambda: 0.005, lr: 0.005 } } },
    });
    expect(Object.keys(manifest.networks)).toEqual(['lstm']);
    const { encoder, decoder } = manifest.networks.lstm.sharpness;
    for (const { alpha, chance } of [encoder, decoder]) {
      expect([alpha.length, chance.length]).toEqual([2, 2]);
    }
    expect(Object.keys(manifest.heldOut)).toEqual(['lstm', 'token']);
    for (const layers of Object.values(manifest.heldOut)) expect(layers).toHaveLength(4);
    const { shape } = loadAddon().inspectCheckpoint(MINI);
    const opened = await openPredictor(at('whole'), {
      model: shape,
      weights: manifest.model.weights,
      addon: loadAddon(),
      embedding: () => new (loadAddon().TokenEmbedding)({ checkpoint: MINI }),
    });
    expect([opened.function.name, opened.warnings]).toEqual(['lstm', []]);
    opened.function.close();
    const card = readFileSync(join(at('whole'), 'README.md'), 'utf8');
    expect(card).toMatch(/\| encoder\.1 \| [\d.]+ % \/ [\d.]+ % \| /);
    expect(card).toContain('sida train TRACE… --out P --network lstm --held-out HELD_OUT_TRACE… --hidden 16');
  });

  it('has learnt: its loss fell, and the best weights were kept', () => {
    const encoder = measurements('whole').filter(({ network }) => network === 'encoder') as unknown as {
      step: number;
      best: boolean;
      heldOut: { loss: number; hits: number[]; layers: { hits: number[] }[] };
    }[];
    expect(encoder.map(({ step }) => step)).toEqual([5, 10, 15, 20, 25, 30, 35, 40, 45]);
    expect(encoder.at(-1)!.heldOut.loss).toBeLessThan(0.9 * encoder[0]!.heldOut.loss);
    const best = encoder.findLast((evaluation) => evaluation.best)!;
    const kept = manifestOf('whole').heldOut.lstm.map(({ hits }: { hits: number[] }) => hits[0]);
    best.heldOut.layers.forEach(({ hits }, i) => {
      expect(kept[i]).toBeCloseTo(hits[0]!, 2);
    });
  });

  it('does not change when its command is started again', () => {
    const before = readFileSync(join(at('whole'), 'sida-predictor.json'));
    const again = sida(...trainArgs('whole', ['--json']));
    expect(again.status, again.stderr).toBe(0);
    expect(JSON.parse(again.stdout)).toMatchObject({ endedBefore: true, directory: at('whole') });
    expect(readFileSync(join(at('whole'), 'sida-predictor.json')).equals(before)).toBe(true);
  });
});

describe('a run that was ended', () => {
  it.each(['encoder', 'decoder'])(
    'by SIGKILL in the %s continues to the same result with another number of threads',
    async (stack) => {
      const out = `killed-${stack}`;
      const { child, exit } = start(trainArgs(out));
      await savedBy(out, stack, exit);
      child.kill('SIGKILL');
      expect(await exit).toBe('SIGKILL');
      expect(existsSync(join(at(out), 'sida-predictor.json'))).toBe(false);
      const again = sida(...trainArgs(out, ['--threads', '2']));
      expect(again.status, again.stderr).toBe(0);
      expectSameAsWhole(out);
    },
  );

  it('by SIGTERM exits with 1 and continues when started again', async () => {
    const { child, exit } = start(trainArgs('stopped'));
    await savedBy('stopped', 'encoder', exit);
    child.kill('SIGTERM');
    expect(await exit).toBe(1);
    expect(sida(...trainArgs('stopped')).status).toBe(0);
    expectSameAsWhole('stopped');
  });

  it('by SIGTERM while it learns the tables ends at once and continues when started again', async () => {
    const published = join(at('tables'), 'lstm', 'decoder', 'predictor.json');
    const endedInTables = async () => {
      rmSync(at('tables'), { recursive: true, force: true });
      const { child, exit } = start(trainArgs('tables'));
      while (!existsSync(published) && child.exitCode === null) await delay(2);
      child.kill('SIGTERM');
      return exit;
    };
    // Learning the tables takes a few tenths of a second. On a busy machine the run may end before the signal.
    let end = await endedInTables();
    for (let tries = 1; end === 0 && tries < 10; tries++) end = await endedInTables();
    expect([1, 'SIGTERM']).toContain(end);
    expect(existsSync(join(at('tables'), 'sida-predictor.json'))).toBe(false);
    expect(sida(...trainArgs('tables')).status).toBe(0);
    expectSameAsWhole('tables');
  });

  it('by a full disk says how much is needed and continues when started again', () => {
    // Files may have at most 20 KiB, which is too little for the weights.
    const script = `ulimit -f 40; exec "$0" "$@"`;
    const full = spawnSync('sh', ['-c', script, process.execPath, MAIN, ...trainArgs('full')], {
      encoding: 'utf8',
    });
    expect(full.status).toBe(1);
    expect(full.stderr).toMatch(
      /Cannot save to .*full.*KiB are needed, .* are free.*start the same command again/,
    );
    const again = sida(...trainArgs('full'));
    expect(again.status, again.stderr).toBe(0);
    expectSameAsWhole('full');
  });
});

describe('sida train refuses', () => {
  it.each([
    ['a directory that is no trace', () => ['train', root, '--out', at('x')], 1, /no trace/],
    [
      "another run's predictor",
      () => trainArgs('whole', ['--seed', '2']),
      1,
      /another run: seed is 1 there and 2 here/,
    ],
    [
      'a trace that holds fewer experts than it needs',
      () => ['train', at('top4'), '--out', at('x'), '--top', '30'],
      1,
      /need the best 30 experts of each token, .*top4 holds 4 of 64: take --top 4, or trace again with --top 30/,
    ],
    [
      'a trace without the embedding',
      () => ['train', at('bare'), '--out', at('x')],
      1,
      /bare has no embedding\.safetensors/,
    ],
    [
      'a trace to train on and hold out at once',
      () => ['train', at('a'), '--held-out', at('a'), '--out', at('x')],
      1,
      /at once/,
    ],
    [
      'an option of the other network',
      () => trainArgs('x', ['--blocks', '2']),
      2,
      /--blocks is an option of --network attention, not of lstm/,
    ],
    [
      'a network of other traces beside the one there',
      () => ['train', at('b'), '--out', at('whole'), '--network', 'attention'],
      1,
      /whole holds a predictor of other traces: traces is .* there and .* here/,
    ],
    ['a wrong number', () => trainArgs('x', ['--lr', 'fast']), 2, /"--lr" option to be a number/],
    ['an unknown stack', () => trainArgs('x', ['--only', 'both']), 2, /encoder, decoder/],
    ['a grid without a search', () => trainArgs('x', ['--grid', 'hidden=8']), 2, /--grid needs --search/],
  ])('%s', (_, args, code, message) => {
    if (!existsSync(at('top4'))) {
      execFileSync(process.execPath, [MAIN, ...traceArgs('top4', 0, 3, ['--top', '4'])], { stdio: 'ignore' });
      cpSync(at('a'), at('bare'), { recursive: true });
      rmSync(join(at('bare'), 'embedding.safetensors'));
    }
    const run = sida(...args());
    expect([run.status, run.stdout]).toEqual([code, '']);
    expect(run.stderr).toMatch(message);
    expect(existsSync(at('x'))).toBe(false);
  });
});

it('trains a single stack, and stops early when its patience ends', () => {
  const run = sida(
    ...trainArgs('alone', [
      '--only',
      'decoder',
      '--epochs',
      '500',
      '--patience',
      '2',
      '--lr',
      '0.05',
      '--schedule',
      'constant',
      '--until',
      '0',
      '--json',
    ]),
  );
  expect(run.status, run.stderr).toBe(0);
  const { heldOut } = JSON.parse(run.stdout);
  expect(heldOut.lstm.map(({ layer }: { layer: string }) => layer)).toEqual(['decoder.1', 'decoder.3']);
  expect(existsSync(join(at('alone'), 'lstm', 'encoder'))).toBe(false);
  const all = measurements('alone');
  expect(all.slice(-2).map(({ best }) => best)).toEqual([false, false]);
  expect(all.at(-3)).toMatchObject({ best: true });
  expect(readFileSync(join(at('alone'), 'README.md'), 'utf8')).toContain(
    'no better for as long as the patience',
  );
});

describe('a network of the other kind', () => {
  const both = (more: string[] = []) =>
    trainArgs('both', ['--network', 'attention', '--lambda', '1', ...more]);

  it('joins the predictor of the same traces, also after a kill, and a user chooses between them', async () => {
    cpSync(at('whole'), at('both'), { recursive: true });
    const { child, exit } = start(both());
    await savedBy('both', 'encoder', exit);
    child.kill('SIGKILL');
    expect(await exit).toBe('SIGKILL');
    // The predictor that was there serves meanwhile.
    expect(manifestOf('both')).toEqual(manifestOf('whole'));
    const again = sida(...both());
    expect(again.status, again.stderr).toBe(0);
    expect(existsSync(join(at('both'), 'unfinished'))).toBe(false);

    const before = manifestOf('whole');
    const manifest = manifestOf('both');
    expect(manifest.networks.lstm).toEqual(before.networks.lstm);
    expect(manifest).toMatchObject({
      default: 'lstm',
      networks: {
        attention: { options: { hidden: 16, blocks: 2, lambda: 1 }, run: { network: 'attention' } },
      },
    });
    expect(Object.keys(manifest.heldOut)).toEqual(['lstm', 'attention', 'token']);
    expect(manifest.heldOut).toMatchObject(before.heldOut);
    expect(measurements('both', 'lstm')).toEqual(measurements('whole'));
    expect(measurements('both', 'attention')[0]).toMatchObject({ network: 'encoder', step: 5 });
    const card = readFileSync(join(at('both'), 'README.md'), 'utf8');
    expect(card).toMatch(/^\| layer \| lstm \| attention \| token \|$/m);
    for (const kind of ['lstm', 'attention'] as const) {
      const { shape } = loadAddon().inspectCheckpoint(MINI);
      const opened = await openPredictor(at('both'), {
        model: shape,
        weights: manifest.model.weights,
        addon: loadAddon(),
        embedding: () => new (loadAddon().TokenEmbedding)({ checkpoint: MINI }),
        kind,
      });
      expect([opened.function.name, opened.warnings]).toEqual([kind, []]);
      opened.function.close();
    }
  });

  it.each([
    ['auto', ['lstm', 'attention', 'token']],
    ['attention', ['attention', 'lstm', 'token']],
  ])('stands beside the others in an evaluation with --hash-function %s', (kind, names) => {
    const data = ['--data', at('b.jsonl'), '--task', 'sst2', '--limit', '2', '--budgets', '50%'];
    const chosen = ['--predictor', at('both'), '--hash-function', kind, '--pack-dir', at('packs')];
    const { status, stdout, stderr } = sida('eval', MINI, ...chosen, ...data, '--json');
    expect(status, stderr).toBe(0);
    const [source] = JSON.parse(stdout).sources;
    for (const { functions } of source.layers) expect(Object.keys(functions)).toEqual(names);
  });

  it('does not change when its command is started again', () => {
    const again = sida(...both(['--json']));
    expect(JSON.parse(again.stdout)).toMatchObject({ endedBefore: true });
  });
});

describe('the rule that ends a training', () => {
  // Steps of 0 learn nothing, so every third epoch is a plateau.
  const still = (out: string) =>
    trainArgs(out, ['--only', 'decoder', '--epochs', '500', '--lr', '1e-9', '--until', '50']);

  it('lowers the rate twice, then ends; the card tells so', () => {
    const run = sida(...still('still'));
    expect(run.status, run.stderr).toBe(0);
    const fell = measurements('still').filter(({ plateau }) => plateau);
    expect(fell.map(({ epoch }) => epoch)).toEqual([4, 7, 10]);
    const rates = fell.map(({ learningRate }) => learningRate as number);
    [1e-9, 1e-10, 1e-11].forEach((rate, i) => {
      expect(rates[i]! / rate).toBeCloseTo(1);
    });
    const { training } = manifestOf('still').networks.lstm;
    expect(training).toMatchObject([{ stack: 'decoder', epochs: 10, ending: 'plateau' }]);
    expect(readFileSync(join(at('still'), 'README.md'), 'utf8')).toContain(
      'the held-out loss improved no more',
    );
  });

  it('gives the same result after a kill in the middle', async () => {
    const { child, exit } = start(still('still-killed'));
    const state = join(at('still-killed'), 'unfinished', 'decoder', 'state.json');
    const falls = () =>
      existsSync(state) ? readFileSync(state, 'utf8').split('"plateau":true').length - 1 : 0;
    while (falls() === 0 && child.exitCode === null) await delay(2);
    child.kill('SIGKILL');
    await exit;
    expect(sida(...still('still-killed')).status).toBe(0);
    expect(measurements('still-killed')).toEqual(measurements('still'));
    expect(manifestOf('still-killed')).toEqual(manifestOf('still'));
  });
});

it.each([
  [
    'the cross-entropy alone',
    ['--distillation', 'none', '--lambda', '1'],
    { distillation: 'none', lambda: 1 },
  ],
  ['one layer and softmax', ['--layers', '1', '--attention-weights', 'softmax'], { layers: 1 }],
  ['the plain distillation of few experts', ['--lambda', '0', '--top', '4'], { lambda: 0, top: 4 }],
])('trains %s', (name, flags, options) => {
  const run = sida(...trainArgs(name, ['--only', 'decoder', '--epochs', '1', '--json', ...flags]));
  expect(run.status, run.stderr).toBe(0);
  expect(JSON.parse(run.stdout).networks.lstm.options).toMatchObject(options);
  const config = JSON.parse(readFileSync(join(at(name), 'lstm/decoder/predictor.json'), 'utf8'));
  expect(config).toMatchObject(
    'layers' in options
      ? { kind: 'lstm', lstm_layers: 1, attention_weights: 'softmax' }
      : { kind: 'lstm', lstm_layers: 2, attention_weights: 'sparsemax' },
  );
});

it('searches a grid and reports the hits and the cost of each candidate', () => {
  const args = ['--search', '--grid', 'hidden=8,32', '--epochs', '1', '--max-minutes', '0'];
  const run = sida(...trainArgs('search', [...args, '--json']));
  expect(run.status, run.stderr).toBe(0);
  const { candidates } = JSON.parse(run.stdout);
  expect(candidates).toHaveLength(2);
  for (const candidate of candidates) {
    expect(candidate).toMatchObject({ steps: 15 });
    expect(candidate.microsecondsPerToken).toBeGreaterThan(0);
  }
  expect(candidates[1].bytes).toBeGreaterThan(candidates[0].bytes);
  const table = sida(...trainArgs('search', args));
  expect(table.stdout).toMatch(/^options +top-1 +top-3 +loss +µs\/token/);
  expect(table.stdout).toMatch(/^hidden=32 +[\d.]+ %/m);
});
