/** What inputs need of a model, by their length, from the true routing: figures 2, 4 and 8 of the SiDA paper. */
import { readMeta } from '../trace/trace-file.js';
import { expertNeeds } from './hot-experts.js';
import type { DataFacts, LengthNeeds } from './result.js';

/** Upper ends of the length classes, in tokens. */
const CLASSES = [8, 16, 24, 32, 48, 64, 96, 128, 192, 256, 384, 512, 1024];

export async function dataFacts(trace: string, source: string): Promise<DataFacts> {
  const { layers, experts } = await readMeta(trace);
  const encoderLayers = layers.filter((layer) => layer.startsWith('encoder.')).length;
  const rows: { tokens: number; needed: number; neededOfEncoder: number }[] = [];
  for await (const { tokens, visits } of expertNeeds(trace)) {
    const counts = visits.map(({ size }) => size);
    rows.push({
      tokens,
      needed: sum(counts) / (layers.length * experts),
      neededOfEncoder: sum(counts.slice(0, encoderLayers)) / (encoderLayers * experts),
    });
  }
  const lengths = CLASSES.flatMap((most, i): LengthNeeds[] => {
    const least = (CLASSES[i - 1] ?? 0) + 1;
    const own = rows.filter(({ tokens }) => tokens >= least && tokens <= most);
    if (own.length === 0) return [];
    const mean = (key: keyof (typeof own)[number]) => sum(own.map((row) => row[key])) / own.length;
    return [
      {
        least,
        most,
        inputs: own.length,
        tokens: mean('tokens'),
        needed: mean('needed'),
        neededOfEncoder: mean('neededOfEncoder'),
      },
    ];
  });
  return {
    source,
    inputs: rows.length,
    tokens: sum(rows.map(({ tokens }) => tokens)),
    lengths,
    needed: sum(rows.map(({ needed }) => needed)) / Math.max(1, rows.length),
  };
}

function sum(values: readonly number[]): number {
  return values.reduce((total, value) => total + value, 0);
}
