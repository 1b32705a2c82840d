// What a keeper asks an engine for, and what an operator's change does to it.
import pino from 'pino';
import { expect, it, vi } from 'vitest';
import { resolveServeOptions } from '../../../src/config/resolve.js';
import { BudgetKeeper } from '../../../src/server/budget/budget-keeper.js';
import { MODEL, ScriptedEngine } from '../queue/scripted-engine.js';

const optionsOf = (flags: Record<string, string>) =>
  resolveServeOptions({ flags: { model: 'm', ...flags }, env: {} });

it('exists with a target or with --memory-pressure yield', () => {
  expect(BudgetKeeper.of(optionsOf({}), 1)).toBeUndefined();
  for (const flags of [{ latencyP95: '1s' }, { tokensPerSecond: '20' }, { memoryPressure: 'yield' }])
    expect(BudgetKeeper.of(optionsOf(flags as Record<string, string>), 1)).toBeDefined();
  expect(() => optionsOf({ memoryPressure: 'yield', device: 'cuda' })).toThrow('--memory-pressure');
  const elsewhere = { latencyP95: '1s', worker: 'none', redis: 'redis://127.0.0.1:6379' };
  expect(() => optionsOf(elsewhere)).toThrow('--latency-p95');
  expect(() => optionsOf({ ...elsewhere, worker: 'embedded' })).toThrow('--latency-p95');
  expect(() => optionsOf({ maxQuote: '5s', worker: 'none', redis: elsewhere.redis })).toThrow('--max-quote');
});

it('shrinks the budget while the target holds, stays below the cap, and says why a target is missed', async () => {
  const keeper = BudgetKeeper.of(optionsOf({ latencyP95: '100ms' }), 1)!;
  const engine = new ScriptedEngine();
  engine.model = {
    ...MODEL,
    plan: { ...MODEL.plan, smallest: 1000, resident: 9000 },
    usage: { ...MODEL.usage, budgetBytes: 8000 },
  };
  const asked: number[] = [];
  const lines: string[] = [];
  const logger = pino({}, { write: (line: string) => lines.push(line) });
  const stop = new AbortController();
  const change = async (bytes: number) => {
    asked.push(bytes);
    return bytes;
  };
  let ms = 10;
  const answers = setInterval(() => {
    for (let i = 0; i < 20; i += 1) keeper.window.add('answer', ms, performance.now());
  }, 100);
  const kept = keeper.keep(engine, change, logger, stop.signal);
  await vi.waitFor(() => expect(asked.length).toBeGreaterThan(1), 10_000);
  expect(asked[1]).toBeLessThan(asked[0]!);
  expect(keeper.kept).toMatchObject({ capBytes: 8000, by: 'target', unmet: null });
  ms = 90;
  await keeper.alone(async () => keeper.setCap(3000));
  asked.length = 0;
  ms = 150;
  await vi.waitFor(() => expect(keeper.kept.unmet).toBe('the cap is 2.93 KiB'), 10_000);
  expect(Math.max(3000, ...asked)).toBe(3000);
  expect(lines.filter((line) => line.includes('cannot be met'))).toHaveLength(1);
  stop.abort();
  clearInterval(answers);
  await kept;
}, 30_000);

it('keeps what it holds when a larger budget is refused, and does not say that it was tried', async () => {
  const keeper = BudgetKeeper.of(optionsOf({ latencyP95: '100ms' }), 2)!;
  const engine = new ScriptedEngine();
  engine.model = {
    ...MODEL,
    plan: { ...MODEL.plan, smallest: 1000, resident: 9000 },
    usage: { ...MODEL.usage, budgetBytes: 8000 },
  };
  const stop = new AbortController();
  const logger = pino({ level: 'silent' });
  let held = 8000;
  const asked: number[] = [];
  const refused: number[] = [];
  const change = async (bytes: number) => {
    asked.push(bytes);
    if (bytes > held) {
      refused.push(bytes);
      throw new Error('other models hold it');
    }
    held = bytes;
    return bytes;
  };
  let ms = 10;
  const answers = setInterval(() => {
    for (let i = 0; i < 20; i += 1) keeper.window.add('answer', ms, performance.now());
  }, 100);
  const kept = keeper.keep(engine, change, logger, stop.signal);
  await vi.waitFor(() => expect(asked.length).toBeGreaterThan(1), 10_000);
  ms = 500;
  await vi.waitFor(() => expect(keeper.kept.unmet).toBe('a larger budget was refused'), 30_000);
  expect(refused).toHaveLength(1);
  stop.abort();
  clearInterval(answers);
  await kept;
}, 60_000);
