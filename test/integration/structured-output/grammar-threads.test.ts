// The threads that compile grammars and follow generations: their limits, and what becomes of a thread that dies.
import { afterEach, describe, expect, it } from 'vitest';
import type { SidaError } from '../../../src/errors.js';
import type { Grammar } from '../../../src/structured-output/grammar.js';
import { byteTokenizer } from '../../support/byte-tokenizer.js';
import { allowedOf, bytesOf, END, type GrammarRun, grammarRun } from '../../support/grammar-run.js';

const json = (schema: object): Grammar & { kind: 'json' } => ({
  kind: 'json',
  schema: JSON.stringify(schema),
  closed: true,
});
const YES_OR_NO = json({ enum: ['yes', 'no'] });
/** Takes minutes to compile. */
const HUGE = json({
  type: 'object',
  properties: Object.fromEntries(
    [...Array(150).keys()].map((at) => [
      `p${at}`,
      { type: 'string', pattern: '^[^]*$', minLength: at, maxLength: 1000 - at },
    ]),
  ),
});

let run: GrammarRun;
afterEach(() => run.threads.close());

/** Takes the tokens of a text, each of which must be allowed. */
function write(matcher: Awaited<ReturnType<GrammarRun['open']>>, text: string): void {
  for (const id of bytesOf(text)) {
    expect(allowedOf(matcher)).toContain(id);
    matcher.take(id);
  }
}

describe('the grammar threads', () => {
  it('allow the tokens that go on, and the end token at the end alone', async () => {
    run = await grammarRun();
    const matcher = await run.open(YES_OR_NO);
    expect(allowedOf(matcher)).toEqual(bytesOf('"'));
    write(matcher, '"');
    expect(allowedOf(matcher).sort()).toEqual(bytesOf('yn').sort());
    write(matcher, 'no"');
    expect(allowedOf(matcher)).toEqual([END]);
  });

  it('follow generations of one grammar apart from each other', async () => {
    run = await grammarRun();
    const [one, other] = [await run.open(YES_OR_NO, 1), await run.open(YES_OR_NO, 2)];
    write(one, '"y');
    write(other, '"n');
    expect([allowedOf(one), allowedOf(other)]).toEqual([bytesOf('e'), bytesOf('o')]);
    run.matchers.endItem(1);
    expect(run.matchers.count).toBe(1);
    expect(allowedOf(other)).toEqual(bytesOf('o'));
    run.matchers.endJob(2);
    expect(run.matchers.count).toBe(0);
  });

  it('refuse a grammar that takes too long, at once when it is asked again, and go on', async () => {
    run = await grammarRun({ compileMs: 2_000, memoryBytes: 3 * 2 ** 30 });
    const first = (await run.prepare(HUGE)) as SidaError;
    expect([first.code, first.status]).toEqual(['too_slow', 503]);
    expect(first.message).toMatch(/took longer than 2000 ms of processor time/);
    const threads = run.connected.length;
    const again = (await run.prepare(HUGE, 'tools')) as SidaError;
    expect([first.param, again.message, again.param]).toEqual(['response_format', first.message, 'tools']);
    expect(run.connected).toHaveLength(threads);
    expect(allowedOf(await run.open(json({ const: 1 })))).toEqual(bytesOf('1'));
  });

  it('refuse a grammar that needs too much memory', async () => {
    run = await grammarRun({ memoryBytes: 17 << 20, compileMs: 60_000 });
    const many = json({ enum: Array.from({ length: 100_000 }, (_, at) => `${at}`) });
    const { message } = (await run.prepare(many)) as SidaError;
    expect(message).toMatch(/more than 17825792 bytes of memory/);
  });

  it('refuse a grammar whose text needs too much of the heap, and go on', async () => {
    run = await grammarRun({ heapMb: 48, threads: 1 });
    const large = (await run.prepare(json({ const: '"'.repeat(8 << 20) }))) as SidaError;
    expect(large.message).toMatch(/reaching memory limit/);
    expect(run.connected).toEqual([0, 0]);
    expect(allowedOf(await run.open(YES_OR_NO))).toEqual(bytesOf('"'));
  });

  it('replace a thread that died: its matchers go on where they were', async () => {
    run = await grammarRun({ threads: 1 });
    const matcher = await run.open(YES_OR_NO);
    write(matcher, '"ye');
    run.threads.stuck({ thread: 0, incarnation: 0 });
    expect(run.connected).toEqual([0, 0]);
    write(matcher, 's"');
    expect(allowedOf(matcher)).toEqual([END]);
    // The report of another matcher, which waited for the thread that was replaced.
    run.threads.stuck({ thread: 0, incarnation: 0 });
    expect(run.connected).toEqual([0, 0]);
  });

  it('compile beside generations, in a second thread', async () => {
    run = await grammarRun({ compileMs: 2_000, memoryBytes: 3 * 2 ** 30 });
    const found = await run.prepare(YES_OR_NO);
    const work = { text: JSON.stringify(YES_OR_NO), thread: 0, param: 'response_format' };
    const matcher = run.matchers.open(work, { item: 0, job: 0 });
    write(matcher, '"');
    await run.prepare(HUGE);
    expect(run.connected).toEqual([0, 1, 1]);
    write(matcher, 'no"');
    if ('release' in found) found.release();
  });

  it('hold nothing for whoever no longer waits', async () => {
    run = await grammarRun({ threads: 1, memoryBytes: 24 << 20 });
    const request = { grammar: JSON.stringify(json({ const: 1 })), owner: '', param: 'tools' };
    run.threads.prepare(request, () => expect.unreachable())();
    const found = await run.prepare(YES_OR_NO);
    expect(run.threads.figures.bytes).toBeGreaterThan(12 << 20);
    if ('release' in found) found.release();
    expect(run.threads.figures).toEqual({ threads: 1, bytes: 0 });
  });

  it('refuse more than 32 of one key that wait for a thread, and take those of others', async () => {
    run = await grammarRun({ threads: 1 });
    const ask = (at: number, owner = 'one') => run.prepare(json({ const: at }), 'tools', owner);
    // The first is compiled meanwhile.
    const waiting = Array.from({ length: 33 }, (_, at) => ask(at));
    const more = (await ask(33)) as SidaError;
    expect([more.code, more.message]).toEqual(['queue_full', expect.stringContaining('32 other structures')]);
    const others = ask(34, 'other');
    for (const found of await Promise.all([...waiting, others])) expect(found).toHaveProperty('thread', 0);
    expect(await ask(33)).toHaveProperty('thread', 0);
  });

  it('answer a key while another has many dear grammars', async () => {
    run = await grammarRun({ compileMs: 60_000, memoryBytes: 3 * 2 ** 30 });
    const ended: number[] = [];
    for (const at of [1, 2, 3]) {
      const dear = { ...HUGE, schema: HUGE.schema.replaceAll('p1', `q${at}`) };
      void run.prepare(dear, 'tools', 'one').then(() => ended.push(at));
    }
    expect(await run.prepare(YES_OR_NO, 'tools', 'other')).toHaveProperty('thread');
    expect(ended).toEqual([]);
  });

  it('answer a key while two others have many dear grammars', async () => {
    run = await grammarRun({ compileMs: 1_000, memoryBytes: 3 * 2 ** 30 });
    let ended = 0;
    for (const at of [1, 2, 3, 4]) {
      for (const owner of ['one', 'two']) {
        const dear = { ...HUGE, schema: HUGE.schema.replaceAll('p1', `${owner}${at}`) };
        void run.prepare(dear, 'tools', owner).then(() => {
          ended += 1;
        });
      }
    }
    expect(await run.prepare(YES_OR_NO, 'tools', 'third')).toHaveProperty('thread');
    // Those that were compiled already when it came.
    expect(ended).toBeLessThanOrEqual(2);
  });

  it('compile a grammar once that many wait for', async () => {
    run = await grammarRun();
    const found = await Promise.all(['a', 'b', ''].map((owner) => run.prepare(YES_OR_NO, 'tools', owner)));
    expect(found.map((each) => 'thread' in each && each.thread)).toEqual([0, 0, 0]);
    expect(run.connected).toEqual([0]);
  });

  it('refuse what the tokenizer has no tokens for', async () => {
    const { model, ...rest } = byteTokenizer(END) as { model: { vocab: Record<string, number> } };
    const vocab = Object.fromEntries(Object.entries(model.vocab).filter(([piece]) => piece !== '{'));
    run = await grammarRun({ tokenizer: { ...rest, model: { ...model, vocab } } });
    const { message } = (await run.prepare(json({ type: 'object' }))) as SidaError;
    expect(message).toMatch(/no token of the model begins such an answer/);
  });

  it('keep their memory after 500 grammars and generations', async () => {
    run = await grammarRun();
    const round = async (at: number) => {
      // A bounded text takes 20 times as long to compile.
      const value = at % 10 === 0 ? { type: 'string', maxLength: 4 } : { enum: ['ab', 'c'] };
      const schema = { type: 'object', properties: { [`p${at}`]: value }, required: [`p${at}`] };
      const matcher = await run.open(json(schema), at);
      write(matcher, `{"p${at}": "ab"}`);
      run.matchers.endItem(at);
    };
    for (let at = 0; at < 100; at += 1) await round(at);
    const { bytes } = run.threads.figures;
    expect(bytes).toBeGreaterThan(0);
    for (let at = 100; at < 500; at += 1) await round(at);
    expect(run.threads.figures).toEqual({ threads: 1, bytes });
  });
});
