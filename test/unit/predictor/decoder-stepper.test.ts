import { afterAll, expect, it } from 'vitest';
import { openStepper, PrefixStepper } from '../../../src/predictor/decoder-stepper.js';
import { ReplayFunction } from '../../../src/predictor/functions/replay.js';
import { recordsOf, removeFiles, SHAPE, sourceOf } from './routing-fixture.js';

afterAll(removeFiles);

const LAYERS = SHAPE.decoderLayers;
const records = recordsOf(20);
const replay = await ReplayFunction.load(sourceOf(records));

function step(stepper: PrefixStepper, sequences: number[], tokens: number[]): number[] | null {
  const entries = LAYERS * tokens.length;
  const experts = new Uint16Array(entries);
  const arrays = [experts, new Float32Array(entries), new Float32Array(entries)] as const;
  const said = stepper.step(Int32Array.from(sequences), Int32Array.from(tokens), 1, ...arrays);
  return said ? [...experts] : null;
}

it('steps through recorded routing, sequences in any order and in company, until one is not recorded', () => {
  const stepper = new PrefixStepper(replay, LAYERS);
  const [a, b] = [records[3]!, records[8]!];
  stepper.begin(30, a.encoder.tokens);
  stepper.begin(80, b.encoder.tokens);
  const length = Math.min(a.decoder.tokens.length, b.decoder.tokens.length);
  expect(length).toBeGreaterThan(1);
  const truth = ({ decoder, top }: typeof a, layer: number, t: number) =>
    decoder.experts[(layer * decoder.tokens.length + t) * top]!;
  for (let t = 0; t < length; t++) {
    const said = step(stepper, [80, 30], [b.decoder.tokens[t]!, a.decoder.tokens[t]!]);
    const expected = Array.from({ length: LAYERS }, (_, layer) => [truth(b, layer, t), truth(a, layer, t)]);
    expect(said).toEqual(expected.flat());
  }
  stepper.end(80);
  stepper.end(81);
  stepper.begin(31, a.encoder.tokens);
  expect(step(stepper, [31], [a.decoder.tokens[0]!])).toHaveLength(LAYERS);
  expect(step(stepper, [31], [a.decoder.tokens[1]! + 1])).toBeNull();
});

it("is a function's own stepper, one over prefixes, or nobody without a decoder", () => {
  expect(openStepper(replay, LAYERS)).toBeInstanceOf(PrefixStepper);
  expect(openStepper(replay, 0)).toBeNull();
  expect(
    openStepper({ name: 'lstm', fill: () => false, stepper: () => null, close: () => {} }, 2),
  ).toBeNull();
});
