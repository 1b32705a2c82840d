// Bodies of wrong types and foreign keys, on every route of the dialects.

import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import fc from 'fast-check';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { hashKey, newApiKey } from '../../../../src/access/api-key.js';
import { keyLine } from '../../../../src/access/key-file.js';
import { DIALECTS } from '../../../../src/server/dialects/index.js';
import { bearer } from '../../../support/access-cases.js';
import { MODEL } from '../../queue/scripted-engine.js';
import { type Answer, TestServer } from '../test-server.js';

type Json = null | boolean | number | string | Json[] | { [name: string]: Json };
type Path = (string | number)[];

const tool = { type: 'function', function: { name: 'f', description: 'd', parameters: { type: 'object' } } };
const sampling = { temperature: 1, top_p: 0.9, top_k: 5 };
const generated = {
  model: 'switch-mini',
  stream: false,
  format: { type: 'object' },
  think: true,
  keep_alive: '5m',
  logprobs: true,
  top_logprobs: 1,
  truncate: true,
  shift: true,
  options: {
    ...sampling,
    min_p: 0.1,
    seed: 1,
    num_predict: 5,
    stop: ['x'],
    repeat_penalty: 1.1,
    presence_penalty: 0.1,
    frequency_penalty: 0.1,
    num_ctx: 512,
    num_keep: 1,
    num_gpu: 1,
    numa: false,
    mirostat: 0,
    mirostat_tau: 5,
    tfs_z: 1,
    penalize_newline: true,
  },
};
const messages: Json = [
  { role: 'user', content: [{ type: 'text', text: 'a', cache_control: { type: 'ephemeral' } }] },
  {
    role: 'assistant',
    content: [
      { type: 'thinking', thinking: 'b', signature: 'c' },
      { type: 'tool_use', id: 'd', name: 'f', input: { e: 1 } },
    ],
  },
  {
    role: 'user',
    content: [
      { type: 'tool_result', tool_use_id: 'd', content: [{ type: 'text', text: 'g' }], is_error: true },
    ],
  },
];
const counted = {
  model: 'switch-mini',
  messages,
  system: [{ type: 'text', text: 'a' }],
  tools: [{ name: 'f', description: 'd', input_schema: { type: 'object' }, strict: true }],
  tool_choice: { type: 'any', disable_parallel_tool_use: true },
  thinking: { type: 'enabled', budget_tokens: 1024, display: 'omitted' },
  output_config: { effort: 'low' },
  metadata: { user_id: 'a' },
};

/** A body with every field that has an effect, by path. */
const BODIES: Record<string, Json> = {
  '/v1/messages': { ...counted, max_tokens: 5, stop_sequences: ['x'], ...sampling, stream: true },
  '/v1/messages/count_tokens': counted,
  '/api/chat': {
    ...generated,
    messages: [
      { role: 'user', content: 'a', images: [] },
      {
        role: 'assistant',
        content: '',
        thinking: 'b',
        tool_calls: [{ function: { name: 'f', arguments: { a: 1 } } }],
      },
      { role: 'tool', content: 'c', tool_name: 'f', tool_call_id: 'd' },
    ],
    tools: [tool],
  },
  '/api/generate': { ...generated, prompt: 'a', system: 'b', raw: false },
  '/api/embed': { model: 'switch-mini', input: ['a', 'b'], options: {}, keep_alive: 5 },
  '/api/embeddings': { model: 'switch-mini', prompt: 'a', options: {}, keep_alive: 5 },
  '/api/show': { model: 'switch-mini', verbose: true },
  // No hub is asked for such a name.
  '/api/pull': { model: 'a', stream: false },
};

/** Values that may have several types, or any. */
const LOOSE =
  /content$|system$|\.cache_control|signature$|\.input\b|input_schema\.|arguments\.|parameters\.|format|think$|keep_alive$|options\.stop$|^input$|verbose$/;

let server: TestServer;
beforeAll(async () => {
  server = await TestServer.start();
});
afterAll(() => server.close());

const ROUTES = DIALECTS.flatMap(({ routes, prefix }) =>
  routes
    .filter(({ body }) => body !== undefined)
    .map(({ path }): [path: string, prefix: string] => [path, prefix]),
);

/** The paths of all values in a value, its own first. */
function pathsOf(value: Json, path: Path = []): Path[] {
  const within = typeof value === 'object' && value !== null ? Object.entries(value) : [];
  return [path, ...within.flatMap(([name, inner]) => pathsOf(inner, [...path, name]))];
}

function replaced(value: Json, [name, ...rest]: Path, by: Json): Json {
  if (name === undefined) return by;
  const copy = structuredClone(value) as Record<string | number, Json>;
  copy[name] = replaced(copy[name]!, rest, by);
  return copy as Json;
}

function typeOf(value: Json): string {
  return Array.isArray(value) ? 'list' : value === null ? 'null' : typeof value;
}

function inShape({ status, json, text }: Answer, prefix: string): void {
  expect(status, text).toBeLessThan(500);
  if (status === 200) return;
  const error = expect.stringMatching(/./);
  if (prefix === '/api/') expect(json).toEqual({ error });
  else
    expect(json).toMatchObject({
      type: 'error',
      error: { type: expect.stringMatching(/_error$|^request_too_large$/), message: error },
      request_id: error,
    });
}

const OTHERS: Json[] = ['x', 7, true, ['x'], { x: 1 }];

describe.each(ROUTES)('%s', (path, prefix) => {
  const body = BODIES[path]!;

  it('has a body in this test that it takes', async () => {
    const { status, text } = await server.post(path, body);
    expect(status, text).toBe(path === '/api/pull' ? 400 : 200);
  });

  it('refuses each value of a wrong type', async () => {
    for (const at of pathsOf(body)) {
      const own = typeOf(at.reduce((value: Json, name) => (value as never)[name], body));
      for (const other of OTHERS.filter((value) => typeOf(value) !== own)) {
        const answer = await server.post(path, replaced(body, at, other));
        inShape(answer, prefix);
        if (!LOOSE.test(at.join('.'))) expect([at, other, answer.status]).toEqual([at, other, 400]);
      }
    }
  });

  it('never fails at a body, whatever stands in it', async () => {
    const places = pathsOf(body);
    const property = fc.asyncProperty(
      fc.array(fc.tuple(fc.constantFrom(...places), fc.jsonValue({ maxDepth: 3 })), {
        minLength: 1,
        maxLength: 3,
      }),
      async (changes) => {
        const wrong = changes.reduce((value: Json, [at, by]) => {
          const there = at.slice(0, -1).reduce((inner: unknown, name) => (inner as never)?.[name], value);
          return typeof there === 'object' && there !== null ? replaced(value, at, by as Json) : value;
        }, body);
        // A key may stand in an object only by itself.
        if (JSON.stringify(wrong).includes('"__proto__"')) return;
        inShape(await server.post(path, wrong), prefix);
      },
    );
    await fc.assert(property, { numRuns: 60 });
  });

  it.each<[string, unknown, Record<string, string>, number]>([
    ['no JSON', '{', {}, 400],
    ['a key twice', '{"model":"a","model":"b"}', {}, 400],
    ['another type', '{}', { 'content-type': 'text/plain' }, 415],
    ['more bytes than a body may have', JSON.stringify('x'.repeat(1024 ** 2)), {}, 413],
  ])('refuses %s in its shape', async (_, wrong, headers, status) => {
    const answer = await server.post(path, wrong, headers);
    expect(answer.status).toBe(status);
    inShape(answer, prefix);
  });
});

it.each([
  ['/v1/messages', { max_tokens: 5, messages: [{ role: 'user', content: 'a'.repeat(70_000) }] }],
  ['/v1/messages/count_tokens', { messages: [{ role: 'user', content: 'a'.repeat(70_000) }] }],
  ['/api/chat', { messages: [{ role: 'user', content: 'a'.repeat(70_000) }] }],
  ['/api/generate', { prompt: 'a'.repeat(70_000) }],
  ['/api/generate', { prompt: 'a'.repeat(70_000), raw: true }],
  ['/api/embed', { input: 'a'.repeat(70_000) }],
])('%s holds the limit of a text', async (path, body) => {
  expect(MODEL.maxInputBytes).toBeLessThan(70_000);
  const { status, text } = await server.post(path, body);
  expect([status, text]).toEqual([413, expect.stringContaining('65536')]);
});

it('each key has its own prefix cache and only admins pull', async () => {
  const keys = { one: newApiKey(), two: newApiKey() };
  const file = join(mkdtempSync(join(tmpdir(), 'sida-dialects-')), 'keys');
  const lines = Object.entries(keys).map(([name, key]) =>
    keyLine({ name, scopes: ['infer'], hash: hashKey(key) }),
  );
  writeFileSync(file, lines.join('\n'), { mode: 0o600 });
  const keyed = await TestServer.start({ apiKeys: file });
  try {
    for (const [path, prefix] of ROUTES) {
      if (path === '/api/show') continue;
      const owners = new Set<string | undefined>();
      keyed.engine.script = (run) => {
        owners.add((run.request as { owner?: string }).owner);
        run.finish();
      };
      const answers = [
        await keyed.post(path, BODIES[path], bearer(keys.one)),
        await keyed.post(path, BODIES[path], { 'x-api-key': keys.two }),
        await keyed.post(path, BODIES[path]),
      ];
      const pulls = path === '/api/pull';
      expect(answers.map(({ status }) => status)).toEqual(pulls ? [403, 403, 401] : [200, 200, 401]);
      for (const answer of answers) inShape(answer, prefix);
      expect([path, owners.size, owners.has(undefined)]).toEqual([path, pulls ? 0 : 2, false]);
    }
  } finally {
    await keyed.close();
    rmSync(dirname(file), { recursive: true });
  }
});
