// A keeper on a machine that runs short of memory. The machine's memory is scripted, because a test must not use it up.
import pino from 'pino';
import { expect, it, vi } from 'vitest';
import { resolveServeOptions } from '../../../src/config/resolve.js';
import { BudgetKeeper } from '../../../src/server/budget/budget-keeper.js';
import { MODEL, ScriptedEngine } from '../queue/scripted-engine.js';

const MIB = 1024 ** 2;
let freeBytes = 100 * MIB;
vi.mock('../../../src/machine/free-memory.js', () => ({ memoryNow: () => ({ freeBytes, stalled: 0 }) }));

it('still wants the cap when memory is free again and a larger budget is refused', async () => {
  const options = resolveServeOptions({ flags: { model: 'm', memoryPressure: 'yield' }, env: {} });
  const keeper = BudgetKeeper.of(options, 1)!;
  const engine = new ScriptedEngine();
  engine.model = {
    ...MODEL,
    plan: { ...MODEL.plan, smallest: 100 * MIB, resident: 1000 * MIB },
    usage: { ...MODEL.usage, budgetBytes: 1000 * MIB },
  };
  const stop = new AbortController();
  let held = 1000 * MIB;
  let refused = 0;
  const change = async (bytes: number) => {
    freeBytes = 4000 * MIB;
    if (bytes > held) {
      refused += 1;
      throw new Error('other models hold it');
    }
    held = bytes;
    return bytes;
  };
  const kept = keeper.keep(engine, change, pino({ level: 'silent' }), stop.signal);
  await vi.waitFor(() => expect(refused).toBe(1), { timeout: 30_000, interval: 100 });
  expect(held).toBe(588 * MIB);
  expect(keeper.kept).toMatchObject({ by: 'pressure', capBytes: 1000 * MIB });
  // The next look comes after the pause that follows a refusal.
  await new Promise((resolve) => setTimeout(resolve, 11_500));
  expect(keeper.kept.by).toBe('pressure');
  expect(refused).toBe(1);
  stop.abort();
  await kept;
}, 60_000);
