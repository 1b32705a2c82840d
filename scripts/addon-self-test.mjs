// Loads an addon and computes with it, in a process of its own, since a wrong instruction ends the process:
//   node scripts/addon-self-test.mjs ADDON VERSION
// Ends with 0 if the addon has that version and a step of a small predictor's training gives a finite loss.
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import { tmpdir } from 'node:os';
import { join } from 'node:path';

const VOCAB = 8;
const WIDTH = 32;
const [path, version] = process.argv.slice(2);
const addon = createRequire(import.meta.url)(path);
if (addon.version !== version) throw new Error(`version ${addon.version}, expected ${version}`);

/** An embedding in the safetensors format: the header's length, the header, the numbers. */
function writeEmbedding(file) {
  const data = Buffer.from(Float32Array.from({ length: VOCAB * WIDTH }, (_, i) => Math.sin(i)).buffer);
  const header = JSON.stringify({
    'embedding.weight': { dtype: 'F32', shape: [VOCAB, WIDTH], data_offsets: [0, data.length] },
  });
  const length = Buffer.alloc(8);
  length.writeBigUInt64LE(BigInt(header.length));
  writeFileSync(file, Buffer.concat([length, Buffer.from(header), data]));
}

const folder = mkdtempSync(join(tmpdir(), 'sida-self-test-'));
try {
  const file = join(folder, 'embedding.safetensors');
  writeEmbedding(file);
  const trainer = new addon.PredictorTrainer({
    embedding: new addon.TokenEmbedding({ file }),
    shape: { dIn: 32, hidden: 32, layers: 1, experts: 4, causal: false, bidirectional: true, summary: false },
    seed: 1,
    settings: {
      ...{ beta1: 0.9, beta2: 0.999, epsilon: 1e-8, weightDecay: 0, clipNorm: 0, threads: 1 },
      ...{ top: 2, lambda: 0.005, k: 1, distillation: 'kl' },
    },
  });
  const batch = {
    ...{ tokens: Int32Array.of(1, 2, 3), offsets: Int32Array.of(0, 3), top: 2 },
    experts: Uint16Array.of(0, 1, 1, 2, 2, 3),
    logits: Float32Array.of(2, 1, 2, 1, 2, 1),
  };
  const { loss } = trainer.step(batch, 1e-3);
  if (!(loss > 0 && loss < 10)) throw new Error(`the loss of a first step is ${loss}`);
} finally {
  rmSync(folder, { recursive: true, force: true });
}
