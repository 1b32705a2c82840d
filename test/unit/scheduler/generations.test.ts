// Forecasts of generations while prediction rests and when it goes on.
import { expect, it } from 'vitest';
import { NO_PARENT } from '../../../src/native/addon-types.js';
import type { StepTables } from '../../../src/predictor/step-tables.js';
import { Generation } from '../../../src/scheduler/generation.js';
import { Generations } from '../../../src/scheduler/generations.js';
import type { Request } from '../../../src/scheduler/request.js';
import { DECODER_ONLY, SHAPE } from './scripted-native-engine.js';

const PROMPT = Int32Array.of(4, 5);

/** Generations whose step tables write down what they are told. */
function setup(shape = DECODER_ONLY) {
  const planner = { needsForecast: true, takeSaved: () => undefined };
  const told: string[] = [];
  const stepTables = {
    paused: false,
    begin: (sequence: number, context: Int32Array, required: boolean, fed: Int32Array = new Int32Array()) => {
      const after = fed.length > 0 ? ` after ${[...fed]}` : '';
      told.push(`begin ${sequence} ${[...context]}${after}${required ? ' required' : ''}`);
    },
    step: (sequences: readonly number[], tokens: readonly number[]) => {
      told.push(`step ${sequences} ${tokens}`);
      return null;
    },
    end: (sequence: number) => told.push(`end ${sequence}`),
  };
  const generations = new Generations({
    engine: { shape } as never,
    planner,
    stepTables: stepTables as unknown as StepTables,
    requests: {} as never,
    outcomes: { tokens: () => {} } as never,
  });
  const running = (sequence: number, routingK = 0) => {
    const request = { item: sequence, job: sequence, tokens: PROMPT, routingK, prompt: sequence };
    const work = { kind: 'generate', maxTokens: 9, logprobs: null, choices: [null] } as never;
    const generation = new Generation({
      request: request as unknown as Request,
      sequence,
      parent: NO_PARENT,
      choice: 0,
      work,
      matcher: undefined,
      ...(shape.stacks.length === 1
        ? { length: PROMPT.length - 1, nextToken: PROMPT.at(-1)! }
        : { length: 0, nextToken: shape.tokens.start! }),
      prompt: PROMPT,
    });
    generations.begin(generation, PROMPT);
    return generation;
  };
  const take = (generation: Generation, id: number) => generation.take({ id, logprob: 0, top: [] } as never);
  return { planner, stepTables, told, generations, running, take };
}

it('begins forecasts again, with all tokens that the sequence was fed, when prediction goes on', () => {
  const { planner, told, generations, running, take } = setup();
  const first = running(1);
  take(first, 7);
  generations.stepTable([first]);
  planner.needsForecast = false;
  const second = running(2);
  take(second, 9);
  take(first, 8);
  generations.stepTable([first, second]);
  take(first, 3);
  take(second, 6);
  planner.needsForecast = true;
  generations.stepTable([first, second]);
  generations.stepTable([first, second]);
  expect(told).toEqual([
    'begin 1 4,5',
    'step 1 7',
    'end 1',
    'end 2',
    // The last token of each is fed with the next step.
    'begin 1 4,5,7,8',
    'begin 2 4,5,9',
    'step 1,2 3,6',
    'step 1,2 3,6',
  ]);
});

it('begins forecasts again after a pause of building tables', () => {
  const { stepTables, told, generations, running, take } = setup();
  const generation = running(1);
  take(generation, 7);
  stepTables.paused = true;
  generations.stepTable([generation]);
  take(generation, 8);
  stepTables.paused = false;
  generations.stepTable([generation]);
  expect(told).toEqual(['begin 1 4,5', 'step 1 7', 'begin 1 4,5,7', 'step 1 8']);
});

it('leaves sequences alone that tables route', () => {
  const { planner, told, generations, running, take } = setup();
  planner.needsForecast = false;
  const routed = running(1, 2);
  const other = running(2);
  take(routed, 7);
  take(other, 8);
  generations.stepTable([routed]);
  generations.stepTable([other]);
  planner.needsForecast = true;
  generations.stepTable([other]);
  generations.stepTable([routed]);
  expect(told).toEqual(['begin 1 4,5 required', 'step 1 7', 'end 2', 'begin 2 4,5', 'step 2 8', 'step 1 7']);
});

it('begins them again in the middle of a completion of an encoder-decoder model', () => {
  const { planner, told, generations, running, take } = setup(SHAPE);
  const generation = running(1);
  planner.needsForecast = false;
  take(generation, 7);
  generations.stepTable([generation]);
  take(generation, 8);
  planner.needsForecast = true;
  generations.stepTable([generation]);
  expect(told).toEqual(['begin 1 4,5', 'end 1', 'begin 1 4,5 after 0,7', 'step 1 8']);
});

it('begins none again after a pass without generations', () => {
  const { told, generations, running } = setup();
  generations.stepTable([]);
  const generation = running(1);
  generations.stepTable([generation]);
  expect(told).toEqual(['begin 1 4,5', 'step 1 5']);
});
