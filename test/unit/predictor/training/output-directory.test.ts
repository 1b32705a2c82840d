import { existsSync, mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, describe, expect, it } from 'vitest';
import {
  OutputDirectory,
  type RunIdentity,
  saving,
} from '../../../../src/predictor/training/output-directory.js';

const root = mkdtempSync(join(tmpdir(), 'sida-output-'));
afterAll(() => rmSync(root, { recursive: true, force: true }));

/** A run of the lstm network. */
const run = (settings: Record<string, unknown> = {}) => ({ network: 'lstm' as const, ...settings });

async function withSave(path: string, identity: RunIdentity): Promise<string> {
  const output = await OutputDirectory.claim(path, identity);
  const state = await output.stateOf('encoder');
  writeFileSync(join(state, 'state.json'), '{}');
  await output.release();
  return state;
}

describe('the directory of a run', () => {
  it('can be claimed again by the same run', async () => {
    const path = join(root, 'a');
    const state = await withSave(path, run({ lr: 1 }));
    const again = await OutputDirectory.claim(path, run({ lr: 1 }));
    expect(again.finished).toBe(false);
    expect(readFileSync(join(state, 'state.json'), 'utf8')).toBe('{}');
  });

  it('is refused to another run, with the differing settings, and stays unchanged', async () => {
    const path = join(root, 'b');
    const state = await withSave(path, run({ lr: 1, seed: 1 }));
    await expect(OutputDirectory.claim(path, run({ lr: 2, seed: 1 }))).rejects.toThrow(
      /state of another run: lr is 1 there and 2 here; /,
    );
    expect(readFileSync(join(state, 'state.json'), 'utf8')).toBe('{}');
  });

  it('is free for another run if nothing was saved', async () => {
    const path = join(root, 'c');
    await (await OutputDirectory.claim(path, run({ lr: 1 }))).release();
    await (await OutputDirectory.claim(path, run({ lr: 2 }))).release();
    await expect(OutputDirectory.claim(path, run({ lr: 2 }))).resolves.toBeDefined();
  });

  it('is refused if it holds unrelated files', async () => {
    const path = join(root, 'd');
    mkdirSync(path);
    writeFileSync(join(path, 'thesis.txt'), '');
    await expect(OutputDirectory.claim(path, run())).rejects.toThrow('thesis.txt');
  });

  it('is refused while another run holds it, and taken over from one that died', async () => {
    const path = join(root, 'e');
    const output = await OutputDirectory.claim(path, run());
    await expect(OutputDirectory.claim(path, run())).rejects.toThrow(`Process ${process.pid} trains`);
    await output.release();
    // A lock file whose holder was killed. Its process id may belong to another process by now.
    writeFileSync(join(path, 'unfinished', 'lock'), String(process.ppid));
    await (await OutputDirectory.claim(path, run())).release();
  });
});

describe('the directory of a finished predictor', () => {
  const shared = { model: 'beef', traces: [{ data: 'a', records: 9 }], 'held-out': { share: 0.02, seed: 1 } };
  const attention = { network: 'attention' as const, ...shared, hidden: 128 };

  function finished(name: string, own: RunIdentity = run({ ...shared, hidden: 256 })): string {
    const path = join(root, name);
    mkdirSync(path);
    const manifest = {
      ...{ format: 'sida-predictor', version: 2, model: { name: 'm', weights: 'beef' }, layers: [] },
      ...{ experts: 4, vocab: 9, trainedOn: [], default: 'lstm', heldOut: {} },
      networks: { lstm: { options: {}, training: [], run: own } },
    };
    writeFileSync(join(path, 'sida-predictor.json'), JSON.stringify(manifest));
    return path;
  }

  it('is complete for the same run, and refused to another run of the same kind', async () => {
    const path = finished('same');
    expect((await OutputDirectory.claim(path, run({ ...shared, hidden: 256 }))).finished).toBe(true);
    await expect(OutputDirectory.claim(path, run({ ...shared, hidden: 128 }))).rejects.toThrow(
      /holds the lstm network of another run: hidden is 256 there and 128 here; /,
    );
  });

  it('takes a network of the other kind of the same traces, with lock and state', async () => {
    const path = finished('both');
    const output = await OutputDirectory.claim(path, attention);
    expect(output.finished).toBe(false);
    await expect(OutputDirectory.claim(path, attention)).rejects.toThrow(`Process ${process.pid} trains`);
    writeFileSync(join(await output.stateOf('encoder'), 'state.json'), '{}');
    await output.release();
    const other = { ...attention, hidden: 64 };
    await expect(OutputDirectory.claim(path, other)).rejects.toThrow(/state of another run: hidden is 128/);
    await (await OutputDirectory.claim(path, attention)).release();
  });

  it.each([
    ['traces', { traces: [{ data: 'b', records: 9 }] }],
    ['held-out', { 'held-out': { share: 0.1, seed: 1 } }],
    ['model', { model: 'cafe' }],
  ])('refuses a network of other %s', async (what, change) => {
    const path = finished(`other-${what}`);
    await expect(OutputDirectory.claim(path, { ...attention, ...change })).rejects.toThrow(
      new RegExp(`holds a predictor of other traces: ${what} is .* there and .* here`),
    );
  });

  it('forgets the state of a run that ended just before it removed its state', async () => {
    const own = run({ ...shared, hidden: 256 });
    const path = finished('left');
    const state = join(path, 'unfinished', 'encoder');
    mkdirSync(state, { recursive: true });
    writeFileSync(join(path, 'unfinished', 'run.json'), JSON.stringify(own));
    writeFileSync(join(state, 'state.json'), '{}');
    const output = await OutputDirectory.claim(path, attention);
    expect(existsSync(state)).toBe(false);
    await output.release();
  });
});

describe('a save that the disk refuses', () => {
  it('is reported with the bytes needed and free; other errors pass through', async () => {
    const full = () => Promise.reject(Object.assign(new Error('ENOSPC: no space left'), { code: 'ENOSPC' }));
    await expect(saving(root, 3 << 20, full)).rejects.toThrow(
      /Cannot save to .*no space left.*3\.00 MiB are needed, .* are free.*start the same command again/,
    );
    await expect(saving(root, 1, () => Promise.reject(new TypeError('x')))).rejects.toThrow(TypeError);
  });
});
