// What tables say of a request that is quoted.
import { expect, it } from 'vitest';
import { QuoteTables } from '../../../src/engine/quote-tables.js';
import {
  createHashTable,
  openHashTable,
  TABLE_FAILED,
  TABLE_READY,
} from '../../../src/protocol/hash-table.js';
import { SHAPE } from '../scheduler/scripted-native-engine.js';

const experts = (...states: ('absent' | 'resident')[]) =>
  states.map((state, index) => ({ index, state, pinned: false, uses: 0 }));
const LAYERS = [
  { layer: 'encoder.1', experts: experts('resident', 'absent', 'absent', 'resident') },
  { layer: 'decoder.1', experts: experts('absent', 'absent', 'absent', 'absent') },
];
const INPUTS = [{ tokens: Int32Array.of(3, 4), work: { kind: 'embed' as const } }];

function tables(end: (buffer: SharedArrayBuffer) => void) {
  const own: QuoteTables = new QuoteTables({
    shape: SHAPE,
    blockBytes: [100, 1_000],
    build: ({ requests }) => {
      expect(requests.map(({ tokens }) => [...tokens])).toEqual([[3, 4]]);
      const shape = { batchId: 0, layers: 1, tokens: 2, k: 4, expertsPerLayer: 4 };
      const { buffer, need } = createHashTable(shape);
      need.set([1, 0.5, 0.25, 0]);
      setTimeout(() => end(buffer), 5);
      return [buffer, null];
    },
    ask: () => own.replied({ layers: LAYERS }),
  });
  return own;
}

it('counts what a table names, and the bytes of what is absent', async () => {
  const own = tables((buffer) => openHashTable(buffer).settle(TABLE_READY));
  expect(await own.needOf(INPUTS)).toEqual({ needed: 1.75, bytes: 75 });
});

it('tells nothing of a table that failed or does not come', async () => {
  expect(await tables((buffer) => openHashTable(buffer).settle(TABLE_FAILED)).needOf(INPUTS)).toBeUndefined();
  expect(await tables(() => undefined).needOf(INPUTS)).toBeUndefined();
});
