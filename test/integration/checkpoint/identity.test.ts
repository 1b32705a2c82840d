// Identity of a model: what is packed again, what is not, and what a pack answers for.
import { createHash } from 'node:crypto';
import {
  closeSync,
  cpSync,
  mkdtempSync,
  openSync,
  readdirSync,
  readFileSync,
  renameSync,
  rmSync,
  statSync,
  utimesSync,
  writeFileSync,
} from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeEach, describe, expect, it } from 'vitest';
import { convertCheckpoint } from '../../../src/checkpoint/converter.js';
import { FileHashes } from '../../../src/checkpoint/file-hashes.js';
import { verifyPack } from '../../../src/checkpoint/manifest.js';
import { type PreparedPack, preparePack, reopenPack } from '../../../src/checkpoint/prepare-pack.js';
import { loadAddon } from '../../../src/native/addon.js';
import { addTask, copyModel, swapWeights } from '../../support/changed-model.js';
import { MINI } from '../../support/server-process.js';

const root = mkdtempSync(join(tmpdir(), 'sida-identity-'));
afterAll(() => rmSync(root, { recursive: true, force: true }));

let at: string;
let model: string;
let count = 0;
beforeEach(() => {
  at = join(root, String(count++));
  model = copyModel(at);
});

interface Prepared extends PreparedPack {
  /** Experts that were packed. */
  packed: number;
}

async function prepare(directory = model, formats: object = {}): Promise<Prepared> {
  let packed = 0;
  const prepared = await preparePack({
    model: directory,
    packDir: join(at, 'packs'),
    experts: 'auto',
    ...formats,
    onProgress: ({ phase, done }) => {
      if (phase === 'convert') packed = done;
    },
  });
  return { ...prepared, packed };
}

const expertsOf = ({ pack }: PreparedPack) => statSync(join(pack, 'experts.sida')).ino;
const text = (name: string) => readFileSync(join(model, name), 'utf8');

describe('texts beside the weights', () => {
  it.each([
    ['tokenizer', 'tokenizer.json', (json: string) => json.replace('▁film', '▁filn')],
    ['generation', 'generation_config.json', () => '{"eos_token_id": 7}'],
    ['chatTemplate', 'chat_template.jinja', () => '{{ messages }}'],
    ['chatTemplate', 'tokenizer_config.json', () => '{"chat_template": "{{ messages }}"}'],
  ] as const)('change the %s part: %s', async (part, name, change) => {
    const first = await prepare();
    expect(first.packed).toBe(256);
    const before = expertsOf(first);
    writeFileSync(join(model, name), change(name === 'tokenizer.json' ? text(name) : ''));
    const second = await prepare();
    expect(second.packed).toBe(0);
    expect(expertsOf(second)).toBe(before);
    expect(second.fingerprint).not.toBe(first.fingerprint);
    expect({ ...second.identity, [part]: null }).toEqual({ ...first.identity, [part]: null });
    expect(second.identity[part]).not.toBe(first.identity[part]);
    // The pack that a running server has opened is as it was.
    await verifyPack(first.pack);
    expect(readFileSync(join(second.pack, name), 'utf8')).toBe(text(name));
    if (part !== 'generation') return;
    expect(loadAddon().planMemory({ pack: second.pack }, LIMITS)).toEqual(
      loadAddon().planMemory({ pack: first.pack }, LIMITS),
    );
  });

  it('are those of the pack, whatever becomes of the checkpoint', async () => {
    const { tokenizer, tasks } = await prepare();
    expect(tokenizer!.equals(readFileSync(join(MINI, 'tokenizer.json')))).toBe(true);
    expect(Object.keys(tasks)).toEqual(['sst2', 'mrpc', 'multirc']);
    addTask(model);
    const changed = await prepare();
    expect(Object.keys(changed.tasks)).toEqual(['sst2', 'mrpc', 'multirc', 'mood']);
  });

  it('go back to an earlier pack when they go back', async () => {
    const first = await prepare();
    const tasks = text('sida.json');
    addTask(model);
    expect((await prepare()).pack).not.toBe(first.pack);
    writeFileSync(join(model, 'sida.json'), tasks);
    expect((await prepare()).pack).toBe(first.pack);
  });

  it('of a model without any are none', async () => {
    for (const name of ['tokenizer.json', 'sida.json']) rmSync(join(model, name));
    expect(await prepare()).toMatchObject({
      tokenizer: undefined,
      tasks: {},
      identity: { tokenizer: null, tasks: null },
    });
  });

  it('that are damaged are refused before the weights are packed', async () => {
    writeFileSync(join(model, 'sida.json'), '{"tasks": 3}');
    await expect(prepare()).rejects.toMatchObject({
      code: 'checkpoint_invalid',
      message: expect.stringContaining(join(model, 'sida.json')),
    });
    expect(readdirSync(join(at)).sort()).toEqual(['switch-mini']);
  });
});

describe('weights', () => {
  it('are not packed again when they are touched, copied or moved', async () => {
    const first = await prepare();
    utimesSync(join(model, 'model.safetensors'), new Date(), new Date());
    expect(await prepare()).toMatchObject({ pack: first.pack, packed: 0 });
    const copy = join(at, 'copies', 'switch-mini');
    cpSync(model, copy, { recursive: true, preserveTimestamps: true });
    expect(await prepare(copy)).toMatchObject({ pack: first.pack, packed: 0 });
    const moved = join(at, 'renamed');
    renameSync(model, moved);
    expect(await prepare(moved)).toMatchObject({ pack: first.pack, packed: 0, name: 'renamed' });
  });

  it('of equal size and modification time are told apart', async () => {
    const first = await prepare();
    const path = join(model, 'model.safetensors');
    const before = createHash('sha256').update(readFileSync(path)).digest('hex');
    swapWeights(model);
    // As after a write through a memory map, which may leave even the change time as it was: the old hash seems known.
    const hashes = FileHashes.open(join(at, 'packs'));
    const fd = openSync(path, 'r');
    hashes.record(fd, before);
    expect(hashes.known(fd)).toBe(before);
    closeSync(fd);
    await hashes.save();
    const second = await prepare();
    expect(second.packed).toBe(256);
    expect(second.identity).toEqual({ ...first.identity, weights: second.identity.weights });
    expect(second.identity.weights).not.toBe(first.identity.weights);
  });

  it('are the same in every element type and in shards of any name', async () => {
    const first = await prepare();
    const int8 = await prepare(model, { experts: 'int8' });
    expect(int8.identity).toEqual(first.identity);
    expect(int8.fingerprint).not.toBe(first.fingerprint);
    expect(int8.packed).toBe(256);
  });

  it('that are damaged in the cache are packed again, also for other texts', async () => {
    const first = await prepare();
    const path = join(first.pack, 'experts.sida');
    const bytes = readFileSync(path);
    bytes[12_345]! ^= 1;
    writeFileSync(path, bytes);
    addTask(model);
    const second = await prepare();
    expect(second.packed).toBe(256);
    await verifyPack(second.pack);
  });

  it('continue a conversion that was interrupted with other texts', async () => {
    const whole = await prepare();
    const partial = `${whole.pack}.partial`;
    renameSync(whole.pack, partial);
    const manifest = JSON.parse(readFileSync(join(partial, 'manifest.json'), 'utf8'));
    rmSync(join(partial, 'manifest.json'));
    const { experts, dense, source, version } = manifest;
    const journal = { version, weights: source.weights, experts, dense, done: 200 };
    writeFileSync(join(partial, 'journal.json'), JSON.stringify(journal));
    addTask(model);
    const inode = statSync(join(partial, 'experts.sida')).ino;
    expect(expertsOf(await prepare())).toBe(inode);
    expect(readdirSync(join(at, 'packs')).filter((name) => name.endsWith('.partial'))).toEqual([]);
  });
});

describe('two processes', () => {
  it('with different tokenizers beside the same weights get packs of their own', async () => {
    const other = join(at, 'other', 'switch-mini');
    cpSync(model, other, { recursive: true });
    writeFileSync(join(other, 'tokenizer.json'), text('tokenizer.json').replace('▁film', '▁filn'));
    const [a, b, c] = await Promise.all([prepare(), prepare(other), prepare()]);
    expect([a.pack, a.packed + b.packed + c.packed]).toEqual([c.pack, 256]);
    expect(b.pack).not.toBe(a.pack);
    expect(expertsOf(b)).toBe(expertsOf(a));
    expect(b.tokenizer!.equals(a.tokenizer!)).toBe(false);
  });
});

describe('the card', () => {
  const card = (words: string) => writeFileSync(join(model, 'README.md'), `# tiny\n\n${words}\n`);

  it('describes the model and its packs, and changes neither', async () => {
    card('It knows nouns.');
    const first = await prepare();
    expect(first.description).toBe('It knows nouns.');
    const out = join(at, 'out');
    await convertCheckpoint({ model, out, experts: 'auto', dense: 'auto' });
    card('It knows words.');
    const second = await prepare();
    expect(second).toMatchObject({
      description: 'It knows words.',
      packed: 0,
      fingerprint: first.fingerprint,
    });
    expect(await prepare(out)).toMatchObject({
      description: 'It knows nouns.',
      fingerprint: first.fingerprint,
    });
    addTask(model);
    expect((await prepare((await prepare()).pack)).description).toBe('It knows words.');
    rmSync(join(model, 'README.md'));
    expect((await prepare()).description).toBeUndefined();
  });

  it('is left out where it cannot be read', async () => {
    writeFileSync(join(model, 'README.md'), Buffer.alloc(5 * 1024 ** 2, 'a. '));
    expect((await prepare()).description).toBeUndefined();
  });
});

describe('a replacement engine', () => {
  const options = () => ({ model, packDir: join(at, 'packs'), experts: 'auto' as const });

  it('opens what its predecessor served, though the checkpoint has changed', async () => {
    const served = await prepare();
    addTask(model);
    swapWeights(model);
    const again = await reopenPack(served, options());
    expect(again).toMatchObject({ pack: served.pack, fingerprint: served.fingerprint, name: served.name });
    expect(Object.keys(again.tasks)).toEqual(['sst2', 'mrpc', 'multirc']);
  });

  it('makes a pack that was removed again, and refuses to serve another in its place', async () => {
    const served = await prepare();
    rmSync(served.pack, { recursive: true });
    expect((await reopenPack(served, options())).fingerprint).toBe(served.fingerprint);
    rmSync(served.pack, { recursive: true });
    addTask(model);
    await expect(reopenPack(served, options())).rejects.toMatchObject({
      code: 'cannot_run',
      message: expect.stringMatching(/changed while it was served: expected fingerprint [0-9a-f]{64}, found/),
    });
  });
});

describe('a large file of a pack', () => {
  it('is read when it may have changed, and not otherwise', async () => {
    const { pack } = await prepare();
    const path = join(pack, 'experts.sida');
    const packed = statSync(path);
    const hashes = FileHashes.open(join(at, 'packs'));
    const verify = async (): Promise<number> => {
      let read = 0;
      // Larger than the configs only, so that the weights count as large.
      const maxBytes = 1 << 20;
      await verifyPack(pack, { maxBytes, hashes, onProgress: ({ done }) => (read = done) });
      return read;
    };
    expect(await verify()).toBe(0);
    utimesSync(path, new Date(), new Date());
    expect(await verify()).toBe(packed.size);
    const bytes = readFileSync(path);
    bytes[5_000_000]! ^= 1;
    writeFileSync(path, bytes);
    utimesSync(path, packed.atime, packed.mtime);
    await expect(verify()).rejects.toThrow(/experts\.sida: sha256: expected [0-9a-f]{64}, found/);
  });
});

describe('a pack that is named', () => {
  const convert = () =>
    convertCheckpoint({ model, out: join(at, 'pack'), experts: 'auto', dense: 'auto' }).then(
      ({ pack }) => pack,
    );

  it.each(['sida.json'])(
    'is refused by the name of %s, with both hashes, when it was edited',
    async (name) => {
      const pack = await convert();
      const bytes = readFileSync(join(pack, name));
      bytes[bytes.length - 2]! ^= 1;
      writeFileSync(join(pack, name), bytes);
      await expect(prepare(pack)).rejects.toMatchObject({
        code: 'pack_invalid',
        message: expect.stringMatching(
          new RegExp(`^${join(pack, name)}: sha256: expected [0-9a-f]{64}, found [0-9a-f]{64};`),
        ),
      });
    },
  );

  it('is refused when it holds a config that its manifest does not name', async () => {
    const pack = await convert();
    writeFileSync(join(pack, 'generation_config.json'), '{"eos_token_id": 7}');
    await expect(prepare(pack)).rejects.toMatchObject({
      code: 'pack_invalid',
      message: expect.stringContaining(`${join(pack, 'generation_config.json')}: expected no such file`),
    });
  });

  it('gets the checkpoint’s texts when it is converted again, and keeps its weights', async () => {
    const pack = await convert();
    const before = await prepare(pack);
    const inode = expertsOf(before);
    addTask(model);
    expect(await convert()).toBe(pack);
    const after = await prepare(pack);
    expect(expertsOf(after)).toBe(inode);
    expect(Object.keys(after.tasks)).toContain('mood');
    expect(after.identity).toEqual({ ...before.identity, tasks: after.identity.tasks });
    expect(readdirSync(at).filter((name) => name.startsWith('pack'))).toEqual(['pack']);
  });

  it('survives an exchange of its texts that was interrupted', async () => {
    const pack = await convert();
    renameSync(pack, `${pack}.replaced`);
    expect(await convert()).toBe(pack);
    await verifyPack(pack);
    expect(readdirSync(at).filter((name) => name.startsWith('pack.'))).toEqual([]);
  });
});

const LIMITS = {
  maxBatchTokens: 512,
  kvTokens: 1024,
  threads: 1,
  activations: 'f32',
  kv: 'f32',
  kvWindows: 1,
  kvStates: 4,
  device: 'cpu',
} as const;

it('directories of packs are closed to others', async () => {
  const { pack } = await prepare();
  expect([pack, join(at, 'packs')].map((path) => statSync(path).mode & 0o777)).toEqual([0o700, 0o700]);
});
