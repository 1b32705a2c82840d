import { mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, describe, expect, it } from 'vitest';
import { OutputDirectory, saving } from '../../../../src/predictor/training/output-directory.js';

const root = mkdtempSync(join(tmpdir(), 'sida-output-'));
afterAll(() => rmSync(root, { recursive: true, force: true }));

async function withSave(path: string, identity: Record<string, unknown>): Promise<string> {
  const output = await OutputDirectory.claim(path, identity);
  const state = await output.stateOf('encoder');
  writeFileSync(join(state, 'state.json'), '{}');
  await output.release();
  return state;
}

describe('the directory of a run', () => {
  it('can be claimed again by the same run', async () => {
    const path = join(root, 'a');
    const state = await withSave(path, { lr: 1 });
    const again = await OutputDirectory.claim(path, { lr: 1 });
    expect(again.finished).toBe(false);
    expect(readFileSync(join(state, 'state.json'), 'utf8')).toBe('{}');
  });

  it('is refused to another run, with the differing settings, and stays unchanged', async () => {
    const path = join(root, 'b');
    const state = await withSave(path, { lr: 1, seed: 1 });
    await expect(OutputDirectory.claim(path, { lr: 2, seed: 1 })).rejects.toThrow(
      /state of another run: lr is 1 there and 2 here; /,
    );
    expect(readFileSync(join(state, 'state.json'), 'utf8')).toBe('{}');
  });

  it('is free for another run if nothing was saved', async () => {
    const path = join(root, 'c');
    await (await OutputDirectory.claim(path, { lr: 1 })).release();
    await (await OutputDirectory.claim(path, { lr: 2 })).release();
    await expect(OutputDirectory.claim(path, { lr: 2 })).resolves.toBeDefined();
  });

  it('is refused if it holds unrelated files', async () => {
    const path = join(root, 'd');
    mkdirSync(path);
    writeFileSync(join(path, 'thesis.txt'), '');
    await expect(OutputDirectory.claim(path, {})).rejects.toThrow('thesis.txt');
  });

  it('is refused while another run holds it, and taken over from one that died', async () => {
    const path = join(root, 'e');
    const output = await OutputDirectory.claim(path, {});
    await expect(OutputDirectory.claim(path, {})).rejects.toThrow(`Process ${process.pid} trains`);
    await output.release();
    // A lock file whose holder was killed. Its process id may belong to another process by now.
    writeFileSync(join(path, 'unfinished', 'lock'), String(process.ppid));
    await (await OutputDirectory.claim(path, {})).release();
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
