import { afterAll, expect, it } from 'vitest';
import { openStepper, PrefixStepper } from '../../../src/predictor/decoder-stepper.js';
import { ReplayFunction } from '../../../src/predictor/functions/replay.js';
import { DECODER, ENCODER, recordsOf, removeFiles, SHAPE, sourceOf } from './routing-fixture.js';

afterAll(removeFiles);

const NONE = new Int32Array();
const LAYERS = SHAPE.stacks[DECODER]!.layers;
const records = recordsOf(20);
const replay = await ReplayFunction.load(sourceOf(records));

function step(stepper: PrefixStepper, sequences: number[], tokens: number[]): number[] | null {
  const entries = LAYERS * tokens.length;
  const experts = new Uint16Array(entries);
  const arrays = [experts, new Float32Array(entries), new Float32Array(entries)] as const;
  const said = stepper.step(Int32Array.from(sequences), Int32Array.from(tokens), 1, ...arrays);
  return said ? [...experts] : null;
}

it('steps several sequences through recorded routing in any order, until one was not recorded', () => {
  const stepper = new PrefixStepper(replay, SHAPE);
  const [a, b] = [records[3]!, records[8]!];
  stepper.begin(30, a.stacks[ENCODER]!.tokens, NONE);
  stepper.begin(80, b.stacks[ENCODER]!.tokens, NONE);
  const length = Math.min(a.stacks[DECODER]!.tokens.length, b.stacks[DECODER]!.tokens.length);
  expect(length).toBeGreaterThan(1);
  const truth = ({ stacks, top }: typeof a, layer: number, t: number) =>
    stacks[DECODER]!.experts[(layer * stacks[DECODER]!.tokens.length + t) * top]!;
  for (let t = 0; t < length; t++) {
    const said = step(stepper, [80, 30], [b.stacks[DECODER]!.tokens[t]!, a.stacks[DECODER]!.tokens[t]!]);
    const expected = Array.from({ length: LAYERS }, (_, layer) => [truth(b, layer, t), truth(a, layer, t)]);
    expect(said).toEqual(expected.flat());
  }
  stepper.end(80);
  stepper.end(81);
  stepper.begin(32, a.stacks[ENCODER]!.tokens, a.stacks[DECODER]!.tokens.slice(0, 1));
  expect(step(stepper, [32], [a.stacks[DECODER]!.tokens[1]!])).toEqual(
    Array.from({ length: LAYERS }, (_, layer) => truth(a, layer, 1)),
  );
  stepper.begin(31, a.stacks[ENCODER]!.tokens, NONE);
  expect(step(stepper, [31], [a.stacks[DECODER]!.tokens[0]!])).toHaveLength(LAYERS);
  expect(step(stepper, [31], [a.stacks[DECODER]!.tokens[1]! + 1])).toBeNull();
});

it("opens the function's own stepper, a prefix stepper, or none for a decoder without MoE layers", () => {
  expect(openStepper(replay, SHAPE)).toBeInstanceOf(PrefixStepper);
  const dense = { ...SHAPE, stacks: [SHAPE.stacks[ENCODER]!, { ...SHAPE.stacks[DECODER]!, layers: 0 }] };
  expect(openStepper(replay, dense)).toBeNull();
  expect(
    openStepper({ name: 'lstm', fill: () => false, stepper: () => null, close: () => {} }, SHAPE),
  ).toBeNull();
});
