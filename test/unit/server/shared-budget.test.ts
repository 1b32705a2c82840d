import { expect, it } from 'vitest';
import type { ControlReply } from '../../../src/protocol/engine-messages.js';
import { SharedBudget } from '../../../src/server/shared-budget.js';
import { MODEL, SPLIT } from '../queue/scripted-engine.js';

const request = { kind: 'set-budget' as const, device: 'x' };
const reply = (budgetBytes: number): ControlReply => ({
  kind: 'set-budget',
  usage: { ...MODEL.usage, budgetBytes },
  split: SPLIT,
});

it('a change waits for the one before, and counts what that left', async () => {
  const budget = new SharedBudget(
    100,
    new Map([
      ['a', 40],
      ['b', 60],
    ]),
  );
  const events: unknown[] = [];
  let end = (_: ControlReply): void => undefined;
  const first = budget.change('a', request, ({ shared }) => {
    events.push(['a', shared]);
    return new Promise((resolve) => {
      end = resolve;
    });
  });
  const second = budget.change('b', request, async ({ shared }) => {
    events.push(['b', shared]);
    throw new Error('refused');
  });
  const third = budget.change('a', request, async ({ shared }) => {
    events.push(['a', shared]);
    return reply(30);
  });
  await Promise.resolve();
  expect(events).toEqual([['a', { total: 100, others: 60 }]]);
  end(reply(20));
  await first;
  await expect(second).rejects.toThrow('refused');
  await third;
  expect(events.slice(1)).toEqual([
    ['b', { total: 100, others: 20 }],
    ['a', { total: 100, others: 60 }],
  ]);
});
