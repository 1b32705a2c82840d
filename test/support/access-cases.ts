/** Attempts to get past the key, the Host check and the Origin check. None may work on any route. */
import type { Route } from '../../src/server/route.js';
import type { Asked } from './http-client.js';

export const PUBLIC = [
  '/health',
  '/health/live',
  '/health/ready',
  '/openapi.json',
  '/',
  '/docs',
  '/assets/page.js',
  '/assets/docs.js',
  '/assets/style.js',
  '/assets/style.css',
];

/** Of a request to the route. A stream of events need not end, so that only its headers are asked for. */
export const methodOf = ({ method, path }: Pick<Route, 'method' | 'path'>) =>
  path.endsWith('/events') ? 'HEAD' : method.toUpperCase();

export const bearer = (key: string) => ({ authorization: `Bearer ${key}` });
export const withId = (path: string) => path.replace(':id', 'switch-mini');

/** Valid bodies, so that a request that gets through reaches the engine. */
const BODIES: Record<string, object> = {
  '/v1/classify': { task: 'sst2', input: 'a' },
  '/v1/chat/completions': { messages: [{ role: 'user', content: 'a' }] },
  '/v1/completions': { prompt: 'a' },
  '/v1/responses': { input: 'a' },
  '/v1/embeddings': { input: 'a' },
  '/v1/messages': { max_tokens: 5, messages: [{ role: 'user', content: 'a' }] },
  '/v1/messages/count_tokens': { messages: [{ role: 'user', content: 'a' }] },
  '/api/chat': { messages: [{ role: 'user', content: 'a' }] },
  '/api/generate': { prompt: 'a' },
  '/api/embed': { input: 'a' },
  '/api/embeddings': { prompt: 'a' },
  '/api/show': {},
  // No hub is asked for such a name.
  '/api/pull': { model: 'a' },
  '/v1/detokenize': { ids: [5] },
  '/v1/translate': { input: 'a', source: 'eng_Latn', target: 'deu_Latn' },
  '/v1/tokenize': { input: 'a' },
  '/v1/jobs': { type: 'completion', prompt: [5] },
  '/v1/quote': { path: '/v1/completions', body: { prompt: 'a' } },
  '/admin/budget': { device: '1GiB' },
  '/admin/predictor': { enabled: true },
  '/admin/profile': { seconds: 0.01 },
};

/** A valid request to `route` with `headers`. */
export function requestTo({ method, path, body }: Route, headers: Record<string, string> = {}): Asked {
  return { method: method.toUpperCase(), headers, ...(body !== undefined && { body: BODIES[path] }) };
}

/** Headers that do not carry `key` correctly. */
export function wrongKeys(key: string): [what: string, headers: Record<string, string>][] {
  return [
    ['no key', {}],
    ['a wrong key', bearer('wrong')],
    ['the beginning of the key', bearer(key.slice(0, -1))],
    ['more than the key', bearer(`${key}x`)],
    ['a part of the key', bearer(key.slice(1))],
    ['the key in other case', bearer(key.toUpperCase())],
    ['an empty key', { authorization: 'Bearer ' }],
    ['the key twice', bearer(`${key}, Bearer ${key}`)],
    ['no scheme', { authorization: key }],
    ['another scheme', { authorization: `Basic ${key}` }],
    ['two blanks', { authorization: `Bearer  ${key}` }],
    ['the key in another header', { 'x-goog-api-key': key }],
    ['no scheme beside the key in its own header', { authorization: key, 'x-api-key': key }],
    ['the beginning of the key in its own header', { 'x-api-key': key.slice(0, -1) }],
    ['the key in a cookie', { cookie: `authorization=Bearer ${key}` }],
    ['the key for a proxy', { 'proxy-authorization': `Bearer ${key}` }],
  ];
}

/** Other spellings of a path. Some contain the key. */
export function pathTricks(key: string): [what: string, trick: (path: string) => string][] {
  return [
    ['the key in the query', (path) => `${path}?api_key=${encodeURIComponent(key)}`],
    ['the header in the query', (path) => `${path}?authorization=Bearer%20${encodeURIComponent(key)}`],
    ['a second slash', (path) => `/${path}`],
    ['two slashes behind it', (path) => `${path}//`],
    ['capitals', (path) => path.toUpperCase()],
    ['a way round', (path) => `/v1/..${path}`],
    ['a way out of a public route', (path) => `/health/live/../..${path}`],
    ['an encoded way out', (path) => `/health/live/..%2f..${path}`],
    ['a public route in the query', (path) => `${path}?/health/live`],
    ['a public route as parameter', (path) => `${path};/health/live`],
    [
      'an encoded letter',
      (path) => path.replace(/[a-z]/, (letter) => `%${letter.charCodeAt(0).toString(16)}`),
    ],
    ['a NUL', (path) => `${path}%00`],
    ['a backslash', (path) => path.replaceAll('/', '\\')],
  ];
}

/** Status of the response to a request for `path` without a key. */
export function statusWithoutKey(path: string): number {
  if (PUBLIC.includes(path.replace(/\?.*/, ''))) return 200;
  // A target that does not begin with a slash is not a path.
  return path.startsWith('/') ? 401 : 400;
}

/** Host headers that a server on loopback must refuse. */
export const FOREIGN_HOSTS = [
  'evil.example',
  'localhost.',
  'localhost.evil.example',
  '127.0.0.1.',
  '127.0.0.1.evil.example',
  '[::2]',
  '128.0.0.1',
  'a b',
  'localhost:80:80',
  'localhost:99999999',
  '@localhost',
];

/** Origins that differ from http://localhost:8080. */
export const FOREIGN_ORIGINS = [
  'http://evil.example',
  'null',
  'http://localhost:3000',
  'http://localhost',
  'file://',
  '',
];

/** The CORS preflight that a browser sends before a page of another origin may use `route`. */
export function preflight({ method }: Route): Asked {
  return {
    method: 'OPTIONS',
    headers: { origin: 'http://evil.example', 'access-control-request-method': method.toUpperCase() },
  };
}
