import {
  cpSync,
  mkdtempSync,
  readdirSync,
  renameSync,
  rmSync,
  symlinkSync,
  truncateSync,
  writeFileSync,
} from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import type { DeviceName } from '../../../src/native/addon-types.js';
import { predictorFingerprint } from '../../../src/predictor/predictor-fingerprint.js';

const BUNDLED = join(import.meta.dirname, '../../../models/switch-mini/predictor');
let root: string;
let directory: string;
beforeEach(() => {
  root = mkdtempSync(join(tmpdir(), 'sida-fingerprint-'));
  directory = join(root, 'predictor');
  cpSync(BUNDLED, directory, { recursive: true });
});
afterEach(() => rmSync(root, { recursive: true, force: true }));

const fingerprint = (device: DeviceName = 'cpu') => predictorFingerprint({ directory }, device);
const folder = (stack: string) => join(directory, 'attention', stack);
const tensors = (stack: string) =>
  join(folder(stack), readdirSync(folder(stack)).find((name) => name.endsWith('.safetensors'))!);

describe('the fingerprint of a predictor', () => {
  it('changes with each file that it reads, and with no other', async () => {
    const before = await fingerprint();
    writeFileSync(join(directory, 'notes'), 'x');
    // Hashing this file would take minutes.
    writeFileSync(join(folder('encoder'), 'extra'), '');
    truncateSync(join(folder('encoder'), 'extra'), 2 ** 42);
    expect(await fingerprint()).toBe(before);
    expect(await fingerprint('cuda')).not.toBe(before);
    truncateSync(tensors('decoder'), 1000);
    const cut = await fingerprint();
    expect(cut).not.toBe(before);
    rmSync(join(directory, 'token.safetensors'));
    expect(await fingerprint()).not.toBe(cut);
  });

  it('tells the networks of the stacks apart', async () => {
    const before = await fingerprint();
    renameSync(folder('encoder'), join(root, 'encoder'));
    renameSync(folder('decoder'), folder('encoder'));
    const moved = await fingerprint();
    expect(moved).not.toBe(before);
    renameSync(folder('encoder'), folder('decoder'));
    expect(await fingerprint()).not.toBe(moved);
  });

  it('of a network that is too large is refused before it is read', async () => {
    truncateSync(tensors('encoder'), 2 ** 42);
    await expect(fingerprint()).rejects.toMatchObject({
      code: 'checkpoint_invalid',
      message: expect.stringMatching(/encoder\/predictor-.*: too large: expected at most 4\.00 GiB/),
    });
  });

  it('follows no link of a network out of the predictor', async () => {
    const elsewhere = join(root, 'elsewhere');
    renameSync(folder('encoder'), elsewhere);
    symlinkSync(elsewhere, folder('encoder'));
    await expect(fingerprint()).rejects.toMatchObject({
      code: 'checkpoint_invalid',
      message: `${folder('encoder')}: expected a directory that is no link`,
    });
  });
});
