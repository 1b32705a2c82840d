// Files from outside that TypeScript reads, damaged at random: each is taken, or refused with a typed error of one
// line.
// `npm run test:fuzz` does so for longer. What C++ reads is fuzzed in native/fuzz.
import { mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import fc from 'fast-check';
import { afterAll, describe, expect, it } from 'vitest';
import { parseKeyFile } from '../../src/access/key-file.js';
import { readManifest } from '../../src/checkpoint/manifest.js';
import { readTasks } from '../../src/checkpoint/tasks.js';
import { SidaError } from '../../src/errors.js';
import { readPredictorManifest } from '../../src/predictor/training/manifest.js';
import { Tokenizer } from '../../src/text/tokenizer.js';
import { readMeta } from '../../src/trace/trace-file.js';

const RUNS = Number(process.env.SIDA_FUZZ_RUNS ?? 300);
const MINI = join(import.meta.dirname, '../../models/switch-mini');
const LIMITS = { vocabSize: 40, maxInputBytes: 1 << 10 };
const root = mkdtempSync(join(tmpdir(), 'sida-damaged-'));
afterAll(() => rmSync(root, { recursive: true, force: true }));

type Json = null | boolean | number | string | Json[] | { [key: string]: Json };

const bundled = (name: string) => JSON.parse(readFileSync(join(MINI, name), 'utf8')) as Json;

/** The bundled tokenizer with its first pieces. */
function smallTokenizer(): Json {
  const tokenizer = bundled('tokenizer.json') as { added_tokens: { id: number }[]; model: { vocab: Json[] } };
  tokenizer.added_tokens = tokenizer.added_tokens.filter(({ id }) => id < LIMITS.vocabSize);
  tokenizer.model.vocab = tokenizer.model.vocab.slice(0, LIMITS.vocabSize);
  return tokenizer as unknown as Json;
}

const hash = 'a'.repeat(64);
const manifest: Json = {
  format: 'sida-pack',
  version: 3,
  source: { name: 'm', weights: hash },
  experts: { dtype: 'int4', group: 32, file: 'experts.sida' },
  dense: { dtype: 'int8' },
  files: ['dense.sida', 'config.json', 'experts.sida'].map((name) => ({
    name,
    bytes: 4096,
    sha256: hash,
  })),
};
const trace: Json = {
  format: 'sida-trace',
  version: 1,
  model: { name: 'm', weights: hash, tokenizer: hash, experts: 'bf16', dense: 'bf16' },
  layers: ['encoder.1', 'decoder.1'],
  experts: 8,
  top: 3,
  data: 'd.jsonl',
  template: '{text}',
  maxNewTokens: 2,
  complete: true,
};
const keys = `# who\nci infer sha256:${'0f'.repeat(16)}:${hash}\ngrafana metrics sha256:${'1e'.repeat(16)}:${hash}\n`;

/** Writes `text` as the file and reads its directory. */
const inDirectory =
  (file: string, read: (directory: string) => Promise<unknown>) =>
  async (bytes: Uint8Array): Promise<unknown> => {
    const path = join(root, file);
    mkdirSync(dirname(path), { recursive: true });
    writeFileSync(path, bytes);
    return read(dirname(path));
  };

/** A tokenizer that was taken gives ids of the model, for any text. */
async function tokenize(bytes: Uint8Array): Promise<void> {
  const tokenizer = new Tokenizer(Buffer.from(bytes), LIMITS);
  for (const text of ['', 'the film, the film', '\ud800 \u0301 ÄÖ 你好']) {
    for (const id of tokenizer.encode(text)) {
      expect(Number.isInteger(id) && id >= 0 && id < LIMITS.vocabSize, `id ${String(id)}`).toBe(true);
    }
  }
}

interface Reader {
  what: string;
  sound: Json | string;
  read: (bytes: Uint8Array) => Promise<unknown>;
}

const READERS: Reader[] = [
  {
    what: "a pack's manifest",
    sound: manifest,
    read: inDirectory('pack/manifest.json', readManifest),
  },
  {
    what: 'sida.json',
    sound: bundled('sida.json'),
    read: inDirectory('model/sida.json', async (directory) => readTasks(directory)),
  },
  {
    what: "a predictor's manifest",
    sound: bundled('predictor/sida-predictor.json'),
    read: inDirectory('predictor/sida-predictor.json', readPredictorManifest),
  },
  { what: "a trace's settings", sound: trace, read: inDirectory('trace/trace.json', readMeta) },
  { what: 'tokenizer.json', sound: smallTokenizer(), read: tokenize },
];

const ODD: Json[] = [
  ...[null, true, 0, -1, 0.5, 41, 2 ** 32, 2 ** 53, 1e308, '', 'x', '../x', '\u0000', '\ud800'],
  ...[[], {}, [[]], [null], { a: 1 }, 'x'.repeat(10_000)],
];

/** Where values stand in a text: paths of keys. */
function paths(value: Json, most = 400): string[][] {
  const found: string[][] = [];
  const visit = (at: Json, path: string[]) => {
    if (found.length >= most) return;
    found.push(path);
    if (at !== null && typeof at === 'object') {
      for (const [key, inner] of Object.entries(at)) visit(inner, [...path, key]);
    }
  };
  visit(value, []);
  return found;
}

function replaced(value: Json, [key, ...rest]: string[], by: Json): Json {
  if (key === undefined) return by;
  if (value === null || typeof value !== 'object') return value;
  const copy = (Array.isArray(value) ? [...value] : { ...value }) as { [key: string]: Json };
  copy[key] = replaced(copy[key] ?? null, rest, by);
  return copy as Json;
}

const oddValues = (sound: Json) =>
  fc
    .array(fc.tuple(fc.constantFrom(...paths(sound)), fc.constantFrom(...ODD)), {
      minLength: 1,
      maxLength: 3,
    })
    .map((changes) => changes.reduce((text, [path, by]) => replaced(text, path, by), sound))
    .map((value) => Buffer.from(JSON.stringify(value)));

const brokenBytes = (text: string) => {
  const whole = Buffer.from(text);
  const place = fc.nat(whole.length - 1);
  return fc
    .array(fc.tuple(place, fc.nat(40), fc.uint8Array({ maxLength: 8 })), { minLength: 1, maxLength: 4 })
    .map((edits) =>
      edits.reduce<Buffer>(
        (bytes, [at, cut, by]) => Buffer.concat([bytes.subarray(0, at), by, bytes.subarray(at + cut)]),
        whole,
      ),
    );
};

async function takenOrRefused(read: Reader['read'], bytes: Uint8Array): Promise<void> {
  try {
    await read(bytes);
  } catch (error) {
    if (!(error instanceof SidaError)) throw error;
    expect(['pack_invalid', 'checkpoint_invalid', 'invalid_request', 'cannot_run']).toContain(error.code);
    expect(error.message).not.toMatch(/\n/);
    expect(error.message.length).toBeLessThan(2_000);
  }
}

describe.each(READERS)('$what', ({ sound, read }) => {
  const text = typeof sound === 'string' ? sound : JSON.stringify(sound);

  it('is read as it is', async () => {
    await read(Buffer.from(text));
  });

  it('with odd values is taken or refused in one line', async () => {
    const property = fc.asyncProperty(oddValues(sound), (bytes) => takenOrRefused(read, bytes));
    await fc.assert(property, { numRuns: RUNS });
  });

  it('with broken bytes is taken or refused in one line', async () => {
    const property = fc.asyncProperty(brokenBytes(text), (bytes) => takenOrRefused(read, bytes));
    await fc.assert(property, { numRuns: RUNS });
  });
});

describe('a file of keys', () => {
  it('with broken bytes is taken or refused in one line', () => {
    const property = fc.property(brokenBytes(keys), (bytes) => {
      try {
        parseKeyFile(bytes.toString());
      } catch (error) {
        expect((error as Error).message).toMatch(/^(line \d+: |it has )[^\n]{1,500}$/);
      }
    });
    fc.assert(property, { numRuns: RUNS });
  });
});
