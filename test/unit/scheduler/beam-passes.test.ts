import { afterEach, describe, expect, it } from 'vitest';
import type { ItemWork, SearchWork } from '../../../src/protocol/item-work.js';
import { BeamSearch, candidatesPerBeam } from '../../../src/scheduler/beam-search.js';
import { bench, closeBench } from './loop-bench.js';
import { SHAPE } from './scripted-native-engine.js';

afterEach(closeBench);

const VOCAB = SHAPE.vocabSize;

/** Logits that depend on the prompt and on the last tokens, so that beams differ and cross. */
function fillRow(row: Float32Array, context: readonly number[], tokens: readonly number[]): void {
  let state =
    context.reduce((sum, token) => sum * 31 + token, 7) + (tokens.at(-1) ?? 0) * 131 + tokens.length * 17;
  for (let id = 0; id < VOCAB; id++) {
    state = (Math.imul(state, 1664525) + 1013904223) >>> 0;
    row[id] = ((state >>> 8) / 2 ** 24) * 5;
  }
}

function search(beams: number, more: Partial<SearchWork> = {}): SearchWork {
  return {
    kind: 'search',
    beams,
    lengthPenalty: 1,
    earlyStopping: false,
    maxTokens: 6,
    best: beams,
    ...more,
  };
}

/** What a search finds that asks for the rows of whole texts, one by one. */
function alone(
  prompt: readonly number[],
  work: SearchWork,
): { texts: readonly (readonly number[])[]; fed: number } {
  const beamSearch = new BeamSearch({ ...work, endTokens: SHAPE.tokens.end });
  const named = candidatesPerBeam(work.beams, SHAPE.tokens.end);
  let running: number[][] = [[0]];
  let fed = 0;
  for (let first = true; running.length > 0; first = false) {
    fed += running.length;
    const ranked = running.map((tokens) => {
      const row = new Float32Array(VOCAB);
      fillRow(row, prompt, tokens);
      const sum = Math.log(row.reduce((total, logit) => total + Math.exp(logit), 0));
      const all = [...row].map((logit, id) => ({ id, logprob: logit - sum }));
      return all.sort((a, b) => b.logprob - a.logprob || a.id - b.id).slice(0, named);
    });
    const forced =
      first && work.forcedFirst !== undefined ? [[{ id: work.forcedFirst, logprob: 0 }]] : ranked;
    running = beamSearch.step(forced).map(({ from, token }) => [...running[from]!, token]);
  }
  return { texts: beamSearch.hypotheses.slice(0, work.best).map(({ tokens }) => tokens), fed };
}

function beamBench(pages?: number) {
  const made = bench(pages);
  made.engine.editRow = fillRow;
  const textsOf = (item: number, count: number) =>
    Array.from({ length: count }, (_, choice) => made.tokensOf(item, choice));
  return { ...made, textsOf };
}

const generate = (maxTokens: number): ItemWork => {
  return { kind: 'generate', maxTokens, logprobs: null, choices: [null] };
};

describe('a beam search', () => {
  it.each([
    search(2),
    search(4, { best: 2 }),
    search(4, { earlyStopping: true }),
    search(3, { earlyStopping: 'never', lengthPenalty: 2 }),
    search(3, { forcedFirst: 9 }),
    search(5, { maxTokens: 1 }),
  ])('finds the texts that its rows alone lead to: %o', (work) => {
    for (const prompt of [[2], [3, 4, 5], [9, 9]]) {
      const { send, settle, textsOf, of, clean } = beamBench();
      send({ item: 1, job: 1, work, tokens: prompt });
      settle();
      const { texts, fed } = alone(prompt, work);
      expect(textsOf(1, work.best)).toEqual(texts);
      expect(of('done')).toMatchObject([{ item: 1, beamTokens: fed }]);
      clean();
    }
  });

  it('shares its passes, also where the beams of a search fall into two of them, and finds the same', () => {
    const { engine, send, settle, textsOf, tokensOf, clean } = beamBench(256);
    const works = [
      search(8),
      search(7, { maxTokens: 9 }),
      search(8, { earlyStopping: true }),
      search(8),
      search(6),
    ];
    send(...works.map((work, i) => ({ item: i, job: i, work, tokens: [i + 2, 5] })), {
      item: 9,
      job: 9,
      work: generate(5),
      tokens: [4],
    });
    settle();
    for (const [i, work] of works.entries()) {
      expect(textsOf(i, work.best)).toEqual(alone([i + 2, 5], work).texts);
    }
    const steps = engine.calls.filter(({ stack }) => stack === 1).map(({ sequences }) => sequences.length);
    expect(Math.max(...steps)).toBe(32);
    const { send: sendAlone, settle: settleAlone, tokensOf: tokensAlone } = beamBench();
    sendAlone({ item: 9, job: 9, work: generate(5), tokens: [4] });
    settleAlone();
    expect(tokensOf(9)).toEqual(tokensAlone(9));
    clean();
  });

  it('reserves pages for all its beams, and leaves the passes as soon as it has ended', () => {
    // A page of the prompt and two of each beam: the second search must wait for the first.
    const { engine, loop, send, settle, of, textsOf, clean } = beamBench(16);
    const works = [search(4, { maxTokens: 5 }), search(4, { maxTokens: 8 })];
    send(...works.map((work, i) => ({ item: i, job: i, work, tokens: [i + 2] })));
    loop.turn();
    expect(engine.calls[0]!.sequences).toHaveLength(1);
    settle();
    expect(engine.peakPages).toBeLessThanOrEqual(16);
    expect(of('done').map(({ item }) => item)).toEqual([0, 1]);
    expect(textsOf(1, 4)).toEqual(alone([3], works[1]!).texts);
    clean();
  });

  it('frees its sequences when its job is cancelled, at any step', () => {
    for (let turns = 0; turns < 6; turns++) {
      const { loop, send, settle, control, textsOf, of, clean } = beamBench();
      send(
        { item: 1, job: 1, work: search(4, { maxTokens: 9 }), tokens: [2] },
        { item: 2, job: 2, work: search(3), tokens: [5] },
      );
      for (let turn = 0; turn < turns; turn++) loop.turn();
      control.push({ type: 'cancel', job: 1, lastBatch: 0 });
      settle();
      expect(of('done').map(({ item }) => item)).toEqual([2]);
      expect(textsOf(2, 3)).toEqual(alone([5], search(3)).texts);
      clean();
    }
  });

  it('fails its own job alone when a logit is not finite', () => {
    const { engine, send, settle, of, textsOf, clean, control } = beamBench();
    engine.editRow = (row, context, tokens) => {
      fillRow(row, context, tokens);
      if (context[0] === 2 && tokens.length === 3) row[5] = Number.NaN;
    };
    send(
      { item: 1, job: 1, work: search(4), tokens: [2] },
      { item: 2, job: 2, work: search(3), tokens: [5] },
    );
    settle();
    expect(of('job-error')).toMatchObject([{ job: 1, error: { code: 'nonfinite_output' } }]);
    expect(textsOf(2, 3)).toEqual(alone([5], search(3)).texts);
    control.push({ type: 'cancel', job: 1, lastBatch: 0 });
    settle();
    clean();
  });

  it('ends with the forced first token if that is the end token', () => {
    const { send, settle, textsOf, clean } = beamBench();
    send({ item: 1, job: 1, work: search(3, { forcedFirst: 1, best: 2 }), tokens: [2] });
    settle();
    expect(textsOf(1, 2)).toEqual([[1], []]);
    clean();
  });
});

it('makes a generation begin with the token that is forced to be first', () => {
  const { send, settle, of, tokensOf, clean } = bench();
  const work: ItemWork = { kind: 'generate', maxTokens: 3, logprobs: 2, choices: [null], forcedFirst: 9 };
  send({ item: 1, job: 1, work, tokens: [2] });
  settle();
  expect(tokensOf(1)).toEqual([9, 4, 5]);
  expect(of('tokens')[0]!.tokens[0]).toMatchObject({
    logprobs: { logprob: 0, top: [{ id: 9, logprob: 0 }] },
  });
  clean();
});
