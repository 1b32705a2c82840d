import { existsSync, mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, describe, expect, it } from 'vitest';
import { loadState } from '../../../../src/predictor/training/network-state.js';
import { OutputDirectory, type RunIdentity } from '../../../../src/predictor/training/output-directory.js';

const root = mkdtempSync(join(tmpdir(), 'sida-output-'));
afterAll(() => rmSync(root, { recursive: true, force: true }));

const DATA = { model: 'beef', traces: [{ data: 'a', records: 9 }], heldOut: 1 };
/** A run of the lstm network. */
const run = (settings: Record<string, unknown> = {}): RunIdentity => ({
  network: 'lstm',
  data: DATA,
  ...settings,
});

describe('the directory of a run', () => {
  it('keeps its state for the same run, and refuses it to another one', async () => {
    const path = join(root, 'a');
    const output = await OutputDirectory.claim(path, run({ lr: 1, seed: 1 }));
    const state = await output.stateOf('encoder');
    const fresh = loadState(state, run({ lr: 1, seed: 1 }));
    expect(fresh).toMatchObject({ step: 0, last: null });
    writeFileSync(join(state, 'state.json'), JSON.stringify({ ...fresh, step: 7 }));
    output.release();
    const again = await OutputDirectory.claim(path, run({ lr: 1, seed: 1 }));
    expect(again.finished).toBe(false);
    expect(loadState(state, run({ lr: 1, seed: 1 })).step).toBe(7);
    expect(() => loadState(state, run({ lr: 2, seed: 1 }))).toThrow(
      /state of another run: lr is 1 there and 2 here; /,
    );
    again.release();
    await again.removeState();
    expect(existsSync(state)).toBe(false);
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
    output.release();
    // A lock file whose holder was killed. Its process id may belong to another process by now.
    writeFileSync(join(path, 'unfinished', 'lock'), String(process.ppid));
    (await OutputDirectory.claim(path, run())).release();
  });
});

describe('the directory of a finished predictor', () => {
  const attention: RunIdentity = { network: 'attention', data: DATA, hidden: 128 };

  function finished(name: string): string {
    const path = join(root, name);
    mkdirSync(path);
    const manifest = {
      ...{ format: 'sida-predictor', version: 2, model: { name: 'm', weights: 'beef' }, layers: [] },
      ...{ experts: 4, vocab: 9, trainedOn: [], default: 'lstm', heldOut: {} },
      networks: { lstm: { options: {}, training: [], run: run({ hidden: 256 }) } },
    };
    writeFileSync(join(path, 'sida-predictor.json'), JSON.stringify(manifest));
    return path;
  }

  it('is complete for the same run, and refused to another run of the same kind', async () => {
    const path = finished('same');
    expect((await OutputDirectory.claim(path, run({ hidden: 256 }))).finished).toBe(true);
    await expect(OutputDirectory.claim(path, run({ hidden: 128 }))).rejects.toThrow(
      /holds a predictor of another run: hidden is 256 there and 128 here; /,
    );
  });

  it('takes a network of the other kind of the same traces, with lock and state', async () => {
    const path = finished('both');
    const output = await OutputDirectory.claim(path, attention);
    expect(output.finished).toBe(false);
    await expect(OutputDirectory.claim(path, attention)).rejects.toThrow(`Process ${process.pid} trains`);
    output.release();
  });

  it('refuses a network of other traces', async () => {
    const other = { ...attention, data: { ...DATA, heldOut: 2 } };
    await expect(OutputDirectory.claim(finished('other'), other)).rejects.toThrow(
      /holds a predictor of another run: .*data is .*"heldOut":1.* there and .*"heldOut":2.* here/,
    );
  });
});
