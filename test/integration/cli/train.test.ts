// `sida train` on real traces of the bundled model: its output, and its continuation after every kind of end.
import { type ChildProcess, spawn, spawnSync } from 'node:child_process';
import { cpSync, existsSync, mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { loadAddon } from '../../../src/native/addon.js';
import { openPredictor } from '../../../src/predictor/predictor-directory.js';
import { MINI, REPO, sst2 } from '../../support/server-process.js';
import { sidaSync } from '../../support/sida-process.js';

const root = mkdtempSync(join(tmpdir(), 'sida-train-'));
afterAll(() => rmSync(root, { recursive: true, force: true }));
const MAIN = join(REPO, 'bundle/cli/main.js');
const at = (name: string) => join(root, name);

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

const SMALL = ['--hidden', '16', '--batch', '16', '--lr', '2e-2', '--threads', '1'];
const trainArgs = (out: string, more: string[] = []) => [
  'train',
  at('a'),
  '--held-out',
  at('b'),
  '--out',
  at(out),
  ...SMALL,
  '--epochs',
  '6',
  ...more,
];

beforeAll(() => {
  for (const args of [traceArgs('a', 0, 240), traceArgs('b', 240, 300)]) {
    const { status, stderr } = sidaSync(...args);
    expect(status, stderr).toBe(0);
  }
  const whole = sidaSync(...trainArgs('whole'));
  expect(whole.status, whole.stderr).toBe(0);
  expect(whole.stderr).toMatch(/^encoder step 15 \(epoch 1\.00\); loss \d.*held out .*the best so far/m);
});

/** The rows of a run's curve without their times, which differ between runs. */
function measurements(out: string, network = 'lstm'): Record<string, string>[] {
  const [head, ...rows] = readFileSync(join(at(out), network, 'training.csv'), 'utf8')
    .trim()
    .split('\n')
    .map((line) => line.split(','));
  return rows.map((row) => ({ ...Object.fromEntries(row.map((cell, i) => [head![i]!, cell])), seconds: '' }));
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
  it('has all its files and a manifest, and can be opened', async () => {
    expect(readdirSync(at('whole')).sort()).toEqual(['lstm', 'sida-predictor.json', 'token.safetensors']);
    expect(readdirSync(join(at('whole'), 'lstm')).sort()).toEqual(['decoder', 'encoder', 'training.csv']);
    const manifest = manifestOf('whole');
    expect(manifest).toMatchObject({
      format: 'sida-predictor',
      version: 2,
      layers: ['encoder.1', 'encoder.3', 'decoder.1', 'decoder.3'],
      experts: 64,
      vocab: 8000,
      default: 'lstm',
      networks: { lstm: { options: { hidden: 16, top: 30, lambda: 0.005, lr: 0.02, lstmLayers: 2 } } },
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
  });

  it('has learnt: its loss fell, and the best weights were kept', () => {
    const encoder = measurements('whole').filter(({ stack }) => stack === 'encoder');
    expect(encoder.map(({ step }) => step)).toEqual(['15', '30', '45', '60', '75', '90']);
    const losses = encoder.map(({ held_out_loss }) => Number(held_out_loss));
    expect(losses.at(-1)).toBeLessThan(0.9 * losses[0]!);
    const { heldOut, networks } = manifestOf('whole');
    const best = encoder.find(({ step }) => Number(step) === networks.lstm.training[0].bestStep)!;
    const kept = heldOut.lstm.slice(0, 2).map(({ hits }: { hits: number[] }) => hits[0]);
    expect((kept[0] + kept[1]) / 2).toBeCloseTo(Number(best.held_out_hits_1), 2);
  });

  it('does not change when its command is started again', () => {
    const before = readFileSync(join(at('whole'), 'sida-predictor.json'));
    const again = sidaSync(...trainArgs('whole', ['--json']));
    expect(again.status, again.stderr).toBe(0);
    expect(JSON.parse(again.stdout)).toMatchObject({ endedBefore: true, directory: at('whole') });
    expect(readFileSync(join(at('whole'), 'sida-predictor.json')).equals(before)).toBe(true);
  });
});

describe('a run that was ended', () => {
  it.each(['decoder'])(
    'by SIGKILL in the %s continues to the same result with another number of threads',
    async (stack) => {
      const out = `killed-${stack}`;
      const { child, exit } = start(trainArgs(out));
      await savedBy(out, stack, exit);
      child.kill('SIGKILL');
      expect(await exit).toBe('SIGKILL');
      expect(existsSync(join(at(out), 'sida-predictor.json'))).toBe(false);
      const again = sidaSync(...trainArgs(out, ['--threads', '2']));
      expect(again.status, again.stderr).toBe(0);
      expectSameAsWhole(out);
    },
  );

  it('by SIGTERM exits with 1 and continues when started again', async () => {
    const { child, exit } = start(trainArgs('stopped'));
    await savedBy('stopped', 'encoder', exit);
    child.kill('SIGTERM');
    expect(await exit).toBe(1);
    expect(sidaSync(...trainArgs('stopped')).status).toBe(0);
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
    expect(sidaSync(...trainArgs('tables')).status).toBe(0);
    expectSameAsWhole('tables');
  });

  it('by a full disk continues when started again', () => {
    // Files may have at most 20 KiB, which is too little for the weights.
    const script = `ulimit -f 40; exec "$0" "$@"`;
    const full = spawnSync('sh', ['-c', script, process.execPath, MAIN, ...trainArgs('full')], {
      encoding: 'utf8',
    });
    expect(full.status).toBe(1);
    expect(full.stderr).toMatch(/^sida: .*(file too large|EFBIG)/im);
    const again = sidaSync(...trainArgs('full'));
    expect(again.status, again.stderr).toBe(0);
    expectSameAsWhole('full');
  });
});

describe('sida train refuses', () => {
  it.each([
    ['a directory that is no trace', () => ['train', root, '--out', at('x')], 1, /no trace/],
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
  ])('%s', (_, args, code, message) => {
    if (!existsSync(at('bare'))) {
      cpSync(at('a'), at('bare'), { recursive: true });
      rmSync(join(at('bare'), 'embedding.safetensors'));
    }
    const run = sidaSync(...args());
    expect([run.status, run.stdout]).toEqual([code, '']);
    expect(run.stderr).toMatch(message);
    expect(existsSync(at('x'))).toBe(false);
  });
});

describe('a network of the other kind', () => {
  const both = (more: string[] = []) => trainArgs('both', ['--network', 'attention', ...more]);

  it('joins the predictor of the same traces, also after a kill, and a user chooses between them', async () => {
    cpSync(at('whole'), at('both'), { recursive: true });
    const { child, exit } = start(both());
    await savedBy('both', 'encoder', exit);
    child.kill('SIGKILL');
    expect(await exit).toBe('SIGKILL');
    // The predictor that was there serves meanwhile.
    expect(manifestOf('both')).toEqual(manifestOf('whole'));
    const again = sidaSync(...both());
    expect(again.status, again.stderr).toBe(0);
    expect(existsSync(join(at('both'), 'unfinished'))).toBe(false);

    const before = manifestOf('whole');
    const manifest = manifestOf('both');
    expect(manifest.networks.lstm).toEqual(before.networks.lstm);
    expect(manifest).toMatchObject({
      default: 'lstm',
      networks: {
        attention: { options: { hidden: 16, blocks: 2, lambda: 0.3 }, run: { network: 'attention' } },
      },
    });
    expect(Object.keys(manifest.heldOut)).toEqual(['lstm', 'attention', 'token']);
    expect(manifest.heldOut).toMatchObject(before.heldOut);
    expect(measurements('both', 'lstm')).toEqual(measurements('whole'));
    expect(measurements('both', 'attention')[0]).toMatchObject({ stack: 'encoder', step: '15' });
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

  it.each([['attention', ['attention', 'lstm', 'token']]])(
    'stands beside the others in an evaluation with --hash-function %s',
    (kind, names) => {
      const data = ['--data', at('b.jsonl'), '--task', 'sst2', '--limit', '2'];
      const chosen = ['--predictor', at('both'), '--hash-function', kind, '--pack-dir', at('packs')];
      const { status, stdout, stderr } = sidaSync('eval', MINI, ...chosen, ...data, '--json');
      expect(status, stderr).toBe(0);
      const [source] = JSON.parse(stdout).sources;
      for (const { functions } of source.layers) expect(Object.keys(functions)).toEqual(names);
    },
  );
});

it('learns from traces that hold fewer experts than the distillation covers', () => {
  const traced = sidaSync(...traceArgs('top4', 0, 60, ['--top', '4']));
  expect(traced.status, traced.stderr).toBe(0);
  const run = sidaSync('train', at('top4'), '--out', at('few'), ...SMALL, '--epochs', '1', '--json');
  expect(run.status, run.stderr).toBe(0);
  expect(JSON.parse(run.stdout).networks.lstm.options).toMatchObject({ top: 4 });
});
