// Requests of other projects' tests and of bug reports, sent to real servers.
import { cpSync, mkdirSync, mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { afterAll, beforeAll, expect } from 'vitest';
import { exactJson, parseExactly } from '../../../src/text/exact-json.js';
import { CASES, casesOf, testCases } from '../../support/cases.js';
import { makeChatModel, SLOW } from '../../support/chat-model.js';
import { type Answer, ServerProcess } from '../../support/server-process.js';
import { REPO, SidaProcess } from '../../support/sida-process.js';

interface Request {
  id: string;
  path: string;
  body: Record<string, unknown>;
  right: string;
}

const reports = fileURLToPath(new URL('reports/', CASES));
// biome-ignore lint/suspicious/noExplicitAny: the reports have many shapes
const report = (name: string): any => parseExactly(readFileSync(join(reports, name), 'utf8'));

const SYSTEM_REFUSED = `{% for m in messages %}{% if m.role == 'system' %}{{ raise_exception('no system') }}{% endif %}
{{ m.role }}: {{ m.content }}{% endfor %}`;
/** As the published template of gpt-oss, which joins the description to a text. */
const DESCRIBED = `{% for t in tools %}{{ '// ' + t.function.description + '\\n' }}{% endfor %}
{% for m in messages %}{{ m.content }}{% endfor %}{# <tool_call> </tool_call> #}`;

const refusing = makeChatModel(SYSTEM_REFUSED);
const described = makeChatModel(DESCRIBED);
const plain = makeChatModel();
/** As Hugging Face's cache names it. */
const cache = mkdtempSync(join(tmpdir(), 'sida-cache-'));
const snapshot = join(cache, 'hub/models--org--name/snapshots/0123abcd');
const servers: ServerProcess[] = [];
let server: ServerProcess;

async function start(...args: string[]): Promise<ServerProcess> {
  const started = await ServerProcess.start(args, 120_000);
  servers.push(started);
  return started;
}

beforeAll(async () => {
  mkdirSync(join(snapshot, '..'), { recursive: true });
  cpSync(join(reports, 'tiny-bytes'), snapshot, { recursive: true });
  server = await start('--model', join(REPO, 'models/olmoe-mini'), '--model', join(reports, 'tiny-bytes'));
}, 150_000);
afterAll(async () => {
  for (const each of servers) await each.stop();
  for (const { remove } of [refusing, described, plain]) remove();
  rmSync(cache, { recursive: true, force: true });
});

const PROMPT = 'I believe';

/** What must hold of each case, which says it in words. */
const RIGHT: Record<string, (request: Request) => Promise<void>> = {
  'completion echo': async (request) => {
    expect((await accepted(request)).choices[0].text).toMatch(new RegExp(`^${PROMPT}.`, 's'));
  },
  'completion scores a prompt': async (request) => {
    const [{ text, logprobs }] = (await accepted(request)).choices;
    expect([text, logprobs.tokens.join('')]).toEqual([PROMPT, PROMPT]);
    const [first, ...others] = logprobs.token_logprobs;
    expect(first).toBe(null);
    expect(others.every((each: unknown) => typeof each === 'number')).toBe(true);
  },
  'completion best_of below n': refused,
  'chat with a function message (deprecated)': async (request) => void (await accepted(request)),
  'tool message whose call nobody made': refused,
  'log-probabilities leave the end token out': async (request) => {
    const [{ message, logprobs, finish_reason }] = (await accepted(request)).choices;
    expect(finish_reason).toBe('stop');
    expect(logprobs.content.map(({ token }: { token: string }) => token).join('')).toBe(message.content);
  },
  'a system message where the template has none': async ({ path, body }) => {
    const other = await start('--model', refusing.model);
    const answer = await other.post(path, { ...body, max_tokens: 2 });
    expect(answer.status).toBe(200);
    expect(answer.body.warnings[0]).toMatch(/system/);
  },
  'usage in every chunk': async ({ path, body }) => {
    const text = await (await fetch(server.url + path, init(body))).text();
    const chunks = text.split('\n').filter((line) => line.startsWith('data: {'));
    expect(chunks.length).toBeGreaterThan(4);
    for (const chunk of chunks) expect(JSON.parse(chunk.slice(6)).usage.prompt_tokens).toBeGreaterThan(0);
  },
};

const init = (body: object | string) => ({
  method: 'POST',
  headers: { 'content-type': 'application/json' },
  body: typeof body === 'string' ? body : JSON.stringify(body),
});

async function sent(path: string, body: object | string): Promise<Answer['body']> {
  const answer = await fetch(server.url + path, init(body));
  const text = await answer.text();
  expect(answer.status, text).toBe(200);
  return JSON.parse(text);
}

const accepted = ({ path, body }: Request) => sent(path, body);

async function refused({ path, body }: Request): Promise<void> {
  expect((await server.post(path, body)).status).toBe(400);
}

testCases('server', casesOf<Request>('peers/server.jsonl'), (each) =>
  RIGHT[each.id.replace(/^server: /, '')]!(each),
);

const chat = (body: object) => sent('/v1/chat/completions', { model: 'tiny-bytes', ...body });

const REPORTS: Record<string, () => Promise<unknown>> = {
  'deadline-of-flowing-stream': async () => {
    const slow = await start('--model', plain.model, ...SLOW, '--deadline', '1s');
    const body = { messages: [{ role: 'user', content: 'long' }], max_tokens: 200, logit_bias: { 2: -100 } };
    const started = performance.now();
    const stream = await fetch(`${slow.url}/v1/chat/completions`, init({ ...body, stream: true }));
    const text = await stream.text();
    expect(performance.now() - started).toBeGreaterThan(1_500);
    expect(text).toMatch(/"finish_reason":"length"[\s\S]*\[DONE\]/);
    const late = await fetch(`${slow.url}/v1/chat/completions`, init(body));
    expect([late.status, late.headers.get('x-should-retry')]).toEqual([504, 'false']);
  },
  'hugging-face-cache-name': async () => {
    const cached = await start('--model', snapshot);
    expect(report('hugging-face-cache-name.json').right['GET /v1/models data.0.id']).toContain(
      (await cached.get('/v1/models')).body.data[0].id,
    );
  },
  'index-total-size': async () => {
    const plan = new SidaProcess(['plan', join(reports, 'index-total-size')]);
    expect(await plan.exit, plan.output).toBe(0);
  },
  'logprobs-partial-characters': async () => {
    const { choices } = await chat(report('logprobs-partial-characters.json').request);
    expect(choices[0].logprobs.content[0].bytes).toEqual([240]);
  },
  'qwen2moe-without-expert-widths': async () => {
    const { request, right } = report('qwen2moe-without-expert-widths.expected.json');
    const gguf = await start('--model', join(reports, 'qwen2moe-without-expert-widths.gguf'));
    const { body } = await gguf.post('/v1/completions', request);
    expect(body.choices[0].token_ids).toEqual(right.token_ids);
  },
  'sampling-ranges': async () => {
    const ask = async (request: object) => {
      const body = exactJson(request).replace(/"max_tokens": ?2/, '"model":"tiny-bytes","max_tokens":16');
      return (await sent('/v1/completions', body)).choices[0].text as string;
    };
    const texts: string[] = [];
    for (const { request } of report('sampling-ranges.json').requests) texts.push(await ask(request));
    texts.push(await ask({ prompt: 'hi', temperature: 1, seed: 2 ** 53, max_tokens: 2 }));
    expect(new Set(texts).size).toBe(4);
    expect(texts[0]).toBe(await ask({ prompt: 'hi', temperature: 0, max_tokens: 2 }));
  },
  'structured-control-byte': async () => {
    const { request, right } = report('structured-control-byte.json');
    const { choices } = await chat(request);
    expect(choices[0].finish_reason).toBe('stop');
    expect(right.content).toContain(choices[0].message.content);
  },
  'tool-without-description': async () => {
    const { request, right } = report('tool-without-description.json');
    const other = await start('--model', described.model);
    expect((await other.post('/v1/chat/completions', request)).status).toBe(right.status);
  },
};

testCases(
  'bug reports: server',
  Object.keys(REPORTS).map((id) => ({ id })),
  ({ id }) => REPORTS[id]!(),
);
