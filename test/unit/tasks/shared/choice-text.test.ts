import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { ChoiceText, type ChoiceTextOptions, plainTexts } from '../../../../src/tasks/shared/choice-text.js';
import { StopStrings } from '../../../../src/text/stop-strings.js';
import { mini as tokenizer } from '../task-fixture.js';

describe('stop strings', () => {
  function run(stops: string[], pieces: string[]): { text: string; stop: string | undefined } {
    const scanner = new StopStrings(stops);
    let text = '';
    for (const piece of pieces) {
      const step = scanner.push(piece);
      text += step.text;
      if (step.stop !== undefined) return { text, stop: step.stop };
    }
    return { text: text + scanner.finish(), stop: undefined };
  }

  it('releases text that only looked like the beginning of a stop string', () => {
    expect(run(['END'], ['one E', 'N', 'E', 'ND'])).toEqual({ text: 'one EN', stop: 'END' });
    expect(run(['END'], ['one EN'])).toEqual({ text: 'one EN', stop: undefined });
  });

  it('holds back no text that cannot become a stop string', () => {
    const scanner = new StopStrings(['\n\n']);
    expect(scanner.push('a line\n')).toEqual({ text: 'a line', stop: undefined });
    expect(scanner.push('next')).toEqual({ text: '\nnext', stop: undefined });
  });

  it('agrees with a search of the whole text, however it is split, for stop strings of one length', () => {
    const letters = fc.string({ unit: fc.constantFrom('a', 'b'), maxLength: 30 });
    const stops = fc.array(fc.string({ unit: fc.constantFrom('a', 'b'), minLength: 3, maxLength: 3 }), {
      maxLength: 3,
    });
    fc.assert(
      fc.property(letters, stops, fc.array(fc.integer({ min: 1, max: 5 })), (text, stopList, cuts) => {
        const pieces: string[] = [];
        let rest = text;
        for (const cut of cuts) {
          pieces.push(rest.slice(0, cut));
          rest = rest.slice(cut);
        }
        const found = stopList.map((stop) => text.indexOf(stop)).filter((at) => at >= 0);
        const end = found.length === 0 ? text.length : Math.min(...found);
        expect(run(stopList, [...pieces, rest])).toEqual({
          text: text.slice(0, end),
          stop: stopList.find((stop) => found.length > 0 && text.indexOf(stop) === end),
        });
      }),
    );
  });
});

describe('completion', () => {
  const standard: ChoiceTextOptions = {
    index: 0,
    maxTokens: 8,
    stop: [],
    endTokens: [1, 2],
    ...plainTexts(tokenizer, false),
    logprobs: false,
  };
  const showing = { ...standard, ...plainTexts(tokenizer, true) };
  const ids = tokenizer.encodePlain('the acting is fine');

  it('ends at the end token and keeps it', () => {
    const completion = new ChoiceText(standard);
    const deltas = [...ids, 1].map((id) => completion.push({ item: 0, choice: 0, id }));
    expect(completion.choice).toMatchObject({
      text: 'the acting is fine',
      tokenIds: [...ids, 1],
      finishReason: 'stop',
    });
    expect(deltas.map((delta) => delta!.text).join('')).toBe('the acting is fine');
    expect(deltas.map((delta) => delta!.finishReason)).toEqual([...ids.map(() => null), 'stop']);
  });

  it('ends with length at its last token', () => {
    const completion = new ChoiceText({ ...standard, maxTokens: 2 });
    expect(completion.push({ item: 0, choice: 0, id: ids[0]! })?.finishReason).toBeNull();
    expect(completion.push({ item: 0, choice: 0, id: ids[1]! })?.finishReason).toBe('length');
    expect(completion.choice).toMatchObject({ tokenIds: ids.slice(0, 2), finishReason: 'length' });
  });

  it('drops tokens that arrive after a stop string was found', () => {
    const completion = new ChoiceText({ ...standard, stop: ['ing is'] });
    const deltas = ids.map((id) => completion.push({ item: 0, choice: 0, id }));
    expect(completion.choice).toMatchObject({ text: 'the act', finishReason: 'stop', stop: 'ing is' });
    expect(deltas.at(-1)).toBeUndefined();
    expect(deltas.findLast((delta) => delta !== undefined)!.finishReason).toBe('stop');
  });

  it('releases held-back text when the tokens end', () => {
    const completion = new ChoiceText({ ...standard, maxTokens: ids.length, stop: ['fine wine'] });
    for (const id of ids) completion.push({ item: 0, choice: 0, id });
    expect(completion.choice).toMatchObject({ text: 'the acting is fine', finishReason: 'length' });
  });

  it('shows special tokens on request, in the text, the deltas, stop strings and text offsets', () => {
    const shown = new ChoiceText({ ...showing, logprobs: true });
    const [the, acting] = ids;
    const tokens = [the!, 0, acting!, 1];
    const deltas = tokens.map((id) =>
      shown.push({ item: 0, choice: 0, id, logprobs: { logprob: -1, top: [] } }),
    );
    expect(shown.choice.text).toBe(tokenizer.decode(tokens, false));
    expect(shown.choice.text).toMatch(/^the<pad> ?acting<\/s>$/);
    expect(deltas.map((delta) => delta!.text).join('')).toBe(shown.choice.text);
    const offsets = shown.choice.logprobs!.map(({ offset }) => offset);
    expect(offsets).toEqual([0, 'the'.length, 'the<pad>'.length, shown.choice.text.length - '</s>'.length]);

    const stopped = new ChoiceText({ ...showing, stop: ['<pad>'] });
    for (const id of tokens) stopped.push({ item: 0, choice: 0, id });
    expect(stopped.choice).toMatchObject({ text: 'the', finishReason: 'stop' });
  });

  it('has the deltas of the whole text for any tokens, with and without special ones', () => {
    const id = fc.oneof(fc.nat({ max: 110 }), fc.nat({ max: 7999 }));
    fc.assert(
      fc.property(fc.array(id, { minLength: 1, maxLength: 30 }), fc.boolean(), (tokens, show) => {
        const options = { ...(show ? showing : standard), endTokens: [], maxTokens: tokens.length };
        const choice = new ChoiceText(options);
        const deltas = tokens.map((each) => choice.push({ item: 0, choice: 0, id: each })!.text);
        expect(deltas.join('')).toBe(tokenizer.decode(tokens, !show));
      }),
    );
  });

  it('begins with its prefix, which comes with the first token', () => {
    const choice = new ChoiceText({ ...standard, prefix: '<think>' });
    const deltas = [...ids, 1].map((id) => choice.push({ item: 0, choice: 0, id })!.text);
    expect(choice.choice.text).toBe('<think>the acting is fine');
    expect(deltas.join('')).toBe(choice.choice.text);
  });

  it('includes token texts in its log-probabilities, with or without a tokenizer', () => {
    const token = {
      item: 0,
      choice: 0,
      id: 1500,
      logprobs: { logprob: -0.5, top: [{ id: 3402, logprob: -1 }] },
    };
    const named = new ChoiceText({ ...standard, logprobs: true });
    named.push(token);
    expect(named.choice.logprobs).toEqual([
      {
        id: 1500,
        token: ' positive',
        offset: 0,
        logprob: -0.5,
        top: [{ id: 3402, token: ' negative', logprob: -1 }],
      },
    ]);
    const bare = new ChoiceText({ ...standard, ...plainTexts(undefined, false), logprobs: true });
    bare.push(token);
    expect(bare.choice).toMatchObject({ text: '', tokenIds: [1500], logprobs: [{ token: '<1500>' }] });
  });
});
