/** Generates requests from a seed that are malformed in any part of HTTP or of this server's bodies. */
import { ROUTES } from '../../src/server/routes/index.js';

export type Random = () => number;

/** Mulberry32, which gives the same requests for the same seed. */
export function randomFrom(seed: number): Random {
  let state = seed >>> 0;
  return () => {
    state = (state + 0x6d2b79f5) >>> 0;
    let mixed = Math.imul(state ^ (state >>> 15), state | 1);
    mixed ^= mixed + Math.imul(mixed ^ (mixed >>> 7), mixed | 61);
    return ((mixed ^ (mixed >>> 14)) >>> 0) / 2 ** 32;
  };
}

const METHODS = ['GET', 'HEAD', 'POST', 'PUT', 'DELETE', 'PATCH', 'OPTIONS', 'TRACE', 'PROPFIND', 'LINK'];
const ODD_METHODS = ['get', 'GETX', '', 'CONNECT', 'P\0ST', 'ПОСТ', 'A'.repeat(300), 'PRI'];
const PATHS = ROUTES.map(({ path }) => path.replace(':id', 'switch-mini'));
const VERSIONS = [
  'HTTP/1.1',
  'HTTP/1.1',
  'HTTP/1.1',
  'HTTP/1.1',
  'HTTP/1.0',
  'HTTP/9.9',
  'http/1.1',
  'HTTP/1',
  '',
];
const HOSTS = [
  'localhost',
  'localhost',
  'localhost',
  '127.0.0.1:80',
  'evil.example',
  '',
  'a b',
  '[::1',
  'localhost.',
];
const TYPES = [
  'application/json',
  'application/json',
  'application/json',
  'text/plain',
  '',
  'application/json;charset=x',
];
/** Values that no field accepts, as JSON. */
// biome-ignore format: one list
const VALUES = [
  'null', 'true', '-1', '0', '1.5', '1e999', '-0', '9007199254740993', 'NaN', '""', '"\\ud800"', '"\\u0000"',
  '[]', '[[[]]]', '{}', '{"__proto__":1}', '{"text":5}', '[null]',
  '[{"role":"assistant","tool_calls":[0]}]', '[{"role":"user","content":[{}]}]', '[{"type":"reasoning","content":[0]}]',
  `[${'0,'.repeat(20_000)}0]`, '{"type":"json_schema","json_schema":{"name":"a","schema":{"$ref":"#"}}}',
  '"sst3"', `"${'x'.repeat(5_000)}"`, "'a'", 'undefined',
];
// biome-ignore format: one list
const FIELDS = [
  'model', 'task', 'template', 'labels', 'input', 'prompt', 'max_tokens', 'temperature', 'stop', 'logprobs', 'stream',
  'stream_options', 'routing', 'routing_k', 'include', 'device', 'seconds', '__proto__', 'constructor', '', 'n', 'x',
  'messages', 'tools', 'tool_choice', 'response_format', 'modalities', 'instructions', 'text',
];
// biome-ignore format: one list
const HEADERS = [
  'content-length: 5', 'content-length: -1', 'content-length: 1e3', 'content-length: 99999999', 'transfer-encoding: chunked',
  'transfer-encoding: gzip', 'content-encoding: gzip', 'expect: 100-continue', 'expect: 5', 'authorization: Bearer x',
  'authorization: ', 'origin: http://evil.example', 'origin: null', 'connection: keep-alive, close', 'connection: upgrade',
  'upgrade: h2c', 'x-request-id: <script>', 'x-request-id: a b', 'accept: */*, \u00ff', 'cookie: a=b', 'range: bytes=0-',
  'x-forwarded-host: evil.example', 'host: other', 'te: trailers', 'x y: z', ': z', 'x: a\rb', `x: ${'y'.repeat(9_000)}`,
];

export function malformedRequest(random: Random): Buffer {
  const pick = <T>(list: readonly T[]): T => list[Math.floor(random() * list.length)]!;
  const chance = (share: number) => random() < share;

  const method = chance(0.1) ? pick(ODD_METHODS) : chance(0.5) ? pick(['POST', 'PUT']) : pick(METHODS);
  const body = method === 'GET' && chance(0.7) ? '' : malformedBody(random);
  const lines = [`${method} ${target(random)} ${pick(VERSIONS)}`];
  if (!chance(0.05)) lines.push(`host: ${pick(HOSTS)}`);
  if (!chance(0.1)) lines.push(`content-type: ${pick(TYPES)}`);
  if (!chance(0.1)) lines.push(`content-length: ${Buffer.byteLength(body)}`);
  for (let i = 0; i < 3; i += 1) if (chance(0.2)) lines.push(pick(HEADERS));
  const bytes = Buffer.from(`${lines.join('\r\n')}\r\n\r\n${body}`);
  return chance(0.4) ? mutated(bytes, random) : bytes;
}

function target(random: Random): string {
  const path = PATHS[Math.floor(random() * PATHS.length)]!;
  // biome-ignore format: one list
  const ways = [
    path, path, path, path, path, `/${path}`, `${path}/`, path.toUpperCase(), `${path}?a=b&a[b]=c`, `${path}%00`, `${path}%`,
    `${path}/..%2f..`, `${path}/../x`, `http://evil.example${path}`, '*', '', ' ', `${path}#x`, `/v1/models/${'%41'.repeat(200)}`,
    '/v1/models/%ff', '/v1/models/%c0%ae', '/v1/models/..', '/\u00e9', `/${'a/'.repeat(500)}`,
  ];
  return ways[Math.floor(random() * ways.length)]!;
}

/** An object of fields with invalid values. Sometimes it is truncated, deeply nested, or not an object. */
function malformedBody(random: Random): string {
  const pick = <T>(list: readonly T[]): T => list[Math.floor(random() * list.length)]!;
  const fields = Array.from(
    { length: 1 + Math.floor(random() * 5) },
    () => `${JSON.stringify(pick(FIELDS))}:${pick(VALUES)}`,
  );
  // An unknown field makes a body invalid whose other fields happen to be valid.
  const object = `{${[...fields, '"unknown":0'].join()}}`;
  const way = random();
  if (way < 0.1) return object.slice(0, Math.floor(random() * object.length));
  if (way < 0.15) return '['.repeat(1 + Math.floor(random() * 5_000));
  if (way < 0.2) return pick(VALUES);
  if (way < 0.25) return `${object}${object}`;
  return object;
}

/** Applies one to eight mutations: a byte is changed, inserted or removed, or a few bytes are repeated. */
function mutated(bytes: Buffer, random: Random): Buffer {
  let result = bytes;
  for (let i = Math.floor(random() * 8); i >= 0; i -= 1) {
    const at = Math.floor(random() * result.length);
    const byte = Buffer.from([Math.floor(random() * 256)]);
    const way = random();
    if (way < 0.4) result = Buffer.concat([result.subarray(0, at), byte, result.subarray(at + 1)]);
    else if (way < 0.6) result = Buffer.concat([result.subarray(0, at), byte, result.subarray(at)]);
    else if (way < 0.8) result = Buffer.concat([result.subarray(0, at), result.subarray(at + 1)]);
    else result = Buffer.concat([result.subarray(0, at + 20), result.subarray(at)]);
  }
  return result;
}
