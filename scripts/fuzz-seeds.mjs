// The inputs that the fuzzers begin with, cut from the repository's own files: libFuzzer works best with small ones.
import { mkdirSync, readdirSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';

const MINI = 'models/switch-mini';
/** A config of each family with all fields that its reader knows, and a GGUF file of those that have such files. */
const FAMILIES = 'native/fuzz/seeds';
const TINY = 'test/fixtures/switch-tiny-untied';

/** A safetensors file's header and data. */
function parts(path) {
  const bytes = readFileSync(path);
  const end = 8 + Number(bytes.readBigUInt64LE());
  return { header: JSON.parse(bytes.subarray(8, end).toString()), data: bytes.subarray(end) };
}

function safetensors(header, data) {
  const json = Buffer.from(JSON.stringify(header));
  const length = Buffer.alloc(8);
  length.writeBigUInt64LE(BigInt(json.length));
  return Buffer.concat([length, json, ...data]);
}

/** The `count` smallest tensors of a file, as a file of their own. */
function smallest(path, count) {
  const { header, data } = parts(path);
  const size = ([
    ,
    {
      data_offsets: [begin, end],
    },
  ]) => end - begin;
  const tensors = Object.entries(header).filter(([name]) => name !== '__metadata__');
  let at = 0;
  const kept = tensors.sort((a, b) => size(a) - size(b)).slice(0, count);
  const contents = kept.map(([, { data_offsets }]) => data.subarray(...data_offsets));
  const entries = kept.map(([name, tensor], i) => {
    const begin = at;
    at += contents[i].length;
    return [name, { ...tensor, data_offsets: [begin, at] }];
  });
  return safetensors({ __metadata__: { format: 'pt' }, ...Object.fromEntries(entries) }, contents);
}

/** Weights of the bundled model after each first byte that the reader knows: its choice of element types. */
function weights() {
  const { data } = parts(`${MINI}/model.safetensors`);
  return [0, 1, 2, 3, 7, 11, 0x22, 0x23, 0x10, 0x40, 0x48, 0x41, 0xc1].map((choice, i) =>
    Buffer.concat([Buffer.of(choice), data.subarray(i * 4096, i * 4096 + 256)]),
  );
}

/** An index of the index fuzzer's two shards: the first holds x and y, the second z. */
function index() {
  const shards = { x: 'a.safetensors', y: 'a.safetensors', z: 'b.safetensors' };
  return Buffer.from(JSON.stringify({ metadata: { total_size: 24 }, weight_map: shards }));
}

function seedFiles(suffix) {
  const names = readdirSync(FAMILIES).filter((name) => name.endsWith(suffix));
  return names.map((name) => readFileSync(`${FAMILIES}/${name}`));
}

/** A fuzzer each; the list of native/fuzz/readers.h. */
export const READERS = [
  'safetensors',
  'pytorch',
  'gguf',
  'index',
  'config',
  'manifest',
  'weights',
  'predictor',
];

/** A network's config of the kind that switch-mini lacks. */
function lstmNetwork() {
  return Buffer.from(
    JSON.stringify({
      ...{
        version: 2,
        kind: 'lstm',
        d_in: 8,
        hidden: 4,
        layers: 1,
        experts: 2,
        causal: true,
        positions: false,
      },
      ...{ summary: false, lstm_layers: 2, bidirectional: false, attention_weights: 'sparsemax' },
      weights_sha256: '0'.repeat(64),
    }),
  );
}

/** Writes the seeds of each reader into a folder of its own under `folder`. */
export function writeSeeds(folder) {
  const seeds = {
    safetensors: [
      smallest(`${MINI}/model.safetensors`, 2),
      smallest(`${TINY}/cases.safetensors`, 3),
      smallest(`${MINI}/predictor/token.safetensors`, 1),
    ],
    pytorch: [readFileSync('test/fixtures/pytorch/state_dict.bin')],
    gguf: seedFiles('.gguf'),
    index: [index()],
    config: seedFiles('.json'),
    // A valid manifest depends on the fuzzer's model; the archive holds one.
    manifest: [Buffer.from('{"format":"sida-pack","version":2}')],
    weights: weights(),
    predictor: [
      ...['encoder', 'decoder'].map((side) =>
        readFileSync(`${MINI}/predictor/attention/${side}/predictor.json`),
      ),
      lstmNetwork(),
    ],
  };
  for (const reader of READERS) {
    const files = seeds[reader];
    mkdirSync(join(folder, reader), { recursive: true });
    for (const [i, bytes] of files.entries()) writeFileSync(join(folder, reader, `seed-${i}`), bytes);
  }
}
