// Every list in the schemas of requests: it has a maximum, and the first fault ends its check.
import { describe, expect, it } from 'vitest';
import { z } from 'zod';
import { ROUTES } from '../../../src/server/routes/index.js';
import { ITEMS } from '../../../src/tasks/respond/input-items.js';
import { ToolList as ResponseTools } from '../../../src/tasks/respond/schema.js';
import { ToolList as ChatTools } from '../../../src/tasks/shared/conversation-schema.js';
import { checkAgainst } from '../../../src/text/schema-faults.js';

/** Those that a check within a schema uses, where a walk does not find them. */
const WITHIN = { chatTools: ChatTools, responseTools: ResponseTools, ...ITEMS };

const SCHEMAS: [name: string, schema: z.ZodType][] = [
  ...ROUTES.flatMap(({ path, body }): [string, z.ZodType][] => (body === undefined ? [] : [[path, body]])),
  ...Object.entries(WITHIN),
];

/** All schemas that stand in the definition of one. */
function partsOf(schema: z.ZodType, seen = new Set<unknown>()): z.ZodType[] {
  const found: z.ZodType[] = [];
  const walk = (value: unknown): void => {
    if (typeof value !== 'object' || value === null || seen.has(value)) return;
    seen.add(value);
    if (value instanceof z.ZodType) {
      found.push(value);
      walk(value._zod.def);
    } else if (Array.isArray(value)) value.forEach(walk);
    else Object.values(value).forEach(walk);
  };
  walk(schema);
  return found;
}

const listsOf = (schema: z.ZodType) => partsOf(schema).filter((part) => part instanceof z.ZodArray);
const LISTS = SCHEMAS.flatMap(([name, schema]) =>
  listsOf(schema).map((list, at): [string, z.ZodArray] => [`${name}, list ${at}`, list]),
);

/** Undefined without a maximum. */
function mostOf({ _zod }: z.ZodArray): number | undefined {
  const limits = (_zod.def.checks ?? []).map((check) => (check._zod.def as { maximum?: number }).maximum);
  return limits.find((limit) => limit !== undefined);
}

it('finds the lists of chats', () => {
  const chat = SCHEMAS.filter(([name]) => name === '/v1/chat/completions');
  // messages, their parts and calls, include, stop, modalities
  expect(chat.flatMap(([, schema]) => listsOf(schema)).length).toBeGreaterThanOrEqual(6);
  expect(LISTS.length).toBeGreaterThanOrEqual(15);
});

describe.each(LISTS)('%s', (_, list) => {
  const maximum = mostOf(list);

  it('has a maximum', () => expect(maximum ?? Number.POSITIVE_INFINITY).toBeLessThanOrEqual(4096));

  it('is refused by its length before its entries are looked at', () => {
    const { issues } = list.safeParse(Array.from({ length: 400_000 }, () => null)).error!;
    expect(issues.map(({ code }) => code)).toEqual(['too_big']);
  });

  it('has one wrong entry told', () => {
    const { issues } = list.safeParse(Array.from({ length: maximum ?? 0 }, () => Symbol())).error!;
    expect(issues.filter(({ path }) => path.length > 0).map(({ path }) => path[0])).toEqual([0]);
  });
});

it('one fault is told of lists in lists', () => {
  const { body } = ROUTES.find(({ path }) => path === '/v1/chat/completions')!;
  const message = { role: 'assistant', tool_calls: Array.from({ length: 1_000 }, () => 0) };
  const request = { messages: Array.from({ length: 4_000 }, () => message), unknown: 0 };
  const checked = checkAgainst(body!, request);
  expect('fault' in checked && checked.fault.path).toEqual(['messages', 0, 'tool_calls', 0]);
});
