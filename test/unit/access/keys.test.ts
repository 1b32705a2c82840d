// API keys, the file of their hashes, and the ring that compares them.
import { chmodSync, mkdtempSync, renameSync, rmSync, symlinkSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, describe, expect, it } from 'vitest';
import { hashKey, isKey, newApiKey } from '../../../src/access/api-key.js';
import { keyLine, MOST_KEYS, parseKeyFile } from '../../../src/access/key-file.js';
import { KeyRing } from '../../../src/access/key-ring.js';
import type { Scope } from '../../../src/access/scopes.js';
import { UsageError } from '../../../src/config/resolve.js';
import { mountOf } from '../../../src/files/private-file.js';

const folder = mkdtempSync(join(tmpdir(), 'sida-keys-'));
afterAll(() => rmSync(folder, { recursive: true }));

function line(name: string, key = newApiKey(), scopes: Scope[] = ['infer']): string {
  return keyLine({ name, scopes, hash: hashKey(key) });
}

describe('a key', () => {
  it('is 256 random bits with a prefix', () => {
    const keys = new Set(Array.from({ length: 100 }, newApiKey));
    expect(keys.size).toBe(100);
    for (const key of keys) expect(key).toMatch(/^sida_[A-Za-z0-9_-]{43}$/);
  });

  it('is stored as a hash with a salt of its own', () => {
    const [one, other] = [hashKey('k'), hashKey('k')];
    expect(one.digest.equals(other.digest)).toBe(false);
    expect([isKey('k', one), isKey('k', other), isKey('K', one), isKey('', one)]).toEqual([
      true,
      true,
      false,
      false,
    ]);
  });
});

describe('the file', () => {
  it('has one line for each key, comments and blank lines', () => {
    const text = `# who\n\n${line('ci')}\r\n  ${line('ops.1', newApiKey(), ['admin', 'metrics'])}  \n`;
    expect(parseKeyFile(text).map(({ name, scopes }) => [name, scopes])).toEqual([
      ['ci', ['infer']],
      ['ops.1', ['admin', 'metrics']],
    ]);
  });

  const hash = `sha256:${'ab'.repeat(16)}:${'cd'.repeat(32)}`;
  it.each([
    ['an empty file', '', /no keys/],
    ['comments only', '# a\n', /no keys/],
    ['a plaintext key', 'ci infer sida_abc', /line 1: expected sha256:/],
    ['no scopes', `ci ${hash}`, /line 1: expected a name, scopes and a hash/],
    ['four words', `ci infer ${hash} x`, /line 1: expected a name, scopes and a hash/],
    [
      'an unknown scope',
      `# x\nci infer,root ${hash}`,
      /line 2: expected scopes out of infer, admin, metrics/,
    ],
    ['a name twice', `ci infer ${hash}\nci admin ${hash}`, /line 2: the name "ci" is there twice/],
    ['a name with a path', `../ci infer ${hash}`, /line 1: expected a name of/],
    ['a reserved name', `anyone infer ${hash}`, /line 1: the name "anyone" has a meaning/],
    ['a short salt', `ci infer sha256:abab:${'cd'.repeat(32)}`, /line 1: expected sha256:/],
    ['a short digest', `ci infer sha256:${'ab'.repeat(16)}:cdcd`, /line 1: expected sha256:/],
    [
      'too many keys',
      Array.from({ length: MOST_KEYS + 1 }, (_, i) => `k${i} infer ${hash}`).join('\n'),
      /257 keys; the most is 256/,
    ],
  ])('is refused: %s', (_, text, message) => {
    expect(() => parseKeyFile(text)).toThrow(message);
  });
});

/** Resolves when the ring notices that its file has changed. */
async function noticedBy(ring: KeyRing): Promise<void> {
  let unwatch = () => {};
  await new Promise<void>((resolve) => {
    unwatch = ring.watch(resolve);
  });
  unwatch();
}

describe('the ring', () => {
  const [infer, admin] = [newApiKey(), newApiKey()];
  const file = join(folder, 'keys');
  writeFileSync(file, `${line('ci', infer)}\n${line('ops', admin, ['admin', 'metrics'])}\n`, { mode: 0o600 });

  it('finds the owner of a key, and no owner for other texts', () => {
    const ring = new KeyRing({ apiKey: 'one for all', apiKeys: file });
    expect(ring.size).toBe(3);
    expect(ring.find(infer)).toMatchObject({ owner: 'ci', scopes: new Set(['infer']) });
    expect(ring.find(admin)).toMatchObject({ owner: 'ops', scopes: new Set(['admin', 'metrics']) });
    expect(ring.find('one for all')).toMatchObject({
      owner: 'default',
      scopes: new Set(['infer', 'admin', 'metrics']),
    });
    const others = ['', infer.slice(0, -1), `${infer}x`, infer.toLowerCase(), 'ci', 'x'.repeat(16_000)];
    for (const other of others) expect(ring.find(other)).toBeUndefined();
  });

  it('reloads a changed file, and keeps its keys when the file is broken', () => {
    const changing = join(folder, 'changing');
    const [before, after] = [newApiKey(), newApiKey()];
    writeFileSync(changing, line('ci', before), { mode: 0o600 });
    const ring = new KeyRing({ apiKeys: changing });
    writeFileSync(changing, line('ci', after), { mode: 0o600 });
    ring.reload();
    expect([ring.find(before)?.owner, ring.find(after)?.owner]).toEqual([undefined, 'ci']);
    for (const broken of ['', 'ci infer', '\0']) {
      writeFileSync(changing, broken, { mode: 0o600 });
      expect(() => ring.reload()).toThrow(UsageError);
      expect(ring.find(after)?.owner).toBe('ci');
    }
    rmSync(changing);
    expect(() => ring.reload()).toThrow(/Cannot use the file of keys/);
    expect(ring.find(after)?.owner).toBe('ci');
  });

  it('notices a replaced file', async () => {
    const watched = join(folder, 'watched');
    writeFileSync(watched, line('ci'), { mode: 0o600 });
    const ring = new KeyRing({ apiKeys: watched });
    const noticed = noticedBy(ring);
    writeFileSync(`${watched}.new`, `${line('ci')}\n${line('cd')}`, { mode: 0o600 });
    renameSync(`${watched}.new`, watched);
    await noticed;
    ring.reload();
    expect(ring.size).toBe(2);
  });

  it('outlives a path that cannot be looked at', async () => {
    const path = join(folder, 'looping');
    writeFileSync(path, line('ci'), { mode: 0o600 });
    const ring = new KeyRing({ apiKeys: path });
    const noticed = noticedBy(ring);
    rmSync(path);
    symlinkSync('looping', path);
    await noticed;
    expect(() => ring.reload()).toThrow(/Cannot use the file of keys/);
    expect(ring.size).toBe(1);
    expect(() => new KeyRing({ apiKeys: path })).toThrow(UsageError);
  });

  it('does not start with a file that it cannot use', () => {
    expect(() => new KeyRing({ apiKeys: join(folder, 'none') })).toThrow(UsageError);
  });
});

describe('the rights of the file', () => {
  it.each([0o644, 0o640, 0o660, 0o602])('are refused when they are %o, with what mends them', (mode) => {
    const open = join(folder, `open to 'others'`);
    writeFileSync(open, line('ci'));
    chmodSync(open, mode);
    expect(() => new KeyRing({ apiKeys: open })).toThrow(
      `found mode 0${mode.toString(8)}; run: chmod 600 '${folder}/open to '\\''others'\\'''`,
    );
    chmodSync(open, 0o400);
    expect(new KeyRing({ apiKeys: open }).size).toBe(1);
  });

  it('are judged by the mount of a file, the last one that covers it', () => {
    const mounts = [
      '22 1 8:1 / / rw,relatime - ext4 /dev/sda1 rw',
      '30 22 0:25 / /run rw,nosuid - tmpfs tmpfs rw',
      '31 30 0:26 / /run/my\\040secrets ro,relatime - tmpfs tmpfs ro',
      '32 22 0:27 / /runner ro - tmpfs tmpfs ro',
    ].join('\n');
    expect(mountOf('/run/my secrets/keys', mounts)?.options).toBe('ro,relatime');
    expect(mountOf('/run/keys', mounts)?.options).toBe('rw,nosuid');
    expect(mountOf('/etc/keys', mounts)?.point).toBe('/');
  });
});
