/** Requests that no server should accept, with this server's responses. */

const deep = (levels: number) =>
  `{"task":"sst2","input":${'['.repeat(levels - 1)}"a"${']'.repeat(levels - 1)}}`;

/** A list of nearly as many zeros as a body may have. */
const zeros = (count = 250_000) => `[${'0,'.repeat(count - 1)}0]`;
const message = (fields: string) => `{"messages":[{"role":"assistant",${fields}}]}`;
const called = (args: string) =>
  message(`"tool_calls":[{"function":{"name":"f","arguments":${JSON.stringify(args)}}}]`);
const manyMessages = `{"messages":[${Array.from(
  { length: 4_000 },
  () => `{"role":"assistant","tool_calls":${zeros(100)}}`,
).join()}]}`;
const CHAT = '/v1/chat/completions';
const RESPONSES = '/v1/responses';

/** Malformed bodies, with the status and the error code of their responses. */
export const MALFORMED_BODIES: [
  what: string,
  body: string | Buffer,
  status: number,
  code: string,
  /** Default: /v1/classify. */
  path?: string,
][] = [
  ['nothing', '', 400, 'invalid_json'],
  ['half of an object', '{"task":', 400, 'invalid_json'],
  ['NaN', '{"input":NaN}', 400, 'invalid_json'],
  ['1e999', '{"task":"sst2","input":1e999}', 400, 'invalid_json'],
  ['lone surrogate', '{"task":"sst2","input":"\\ud800"}', 400, 'invalid_json'],
  ['lone surrogate in a key', '{"\\udc00":1}', 400, 'invalid_json'],
  ['invalid UTF-8', Buffer.from([0x22, 0xff, 0x22]), 400, 'invalid_json'],
  ['overlong UTF-8', Buffer.from([0x22, 0xc0, 0xaf, 0x22]), 400, 'invalid_json'],
  ['33 levels', deep(33), 400, 'invalid_json'],
  ['a million levels', '['.repeat(1_000_000), 400, 'invalid_json'],
  ['__proto__', '{"task":"sst2","input":"a","__proto__":{"polluted":1}}', 400, 'invalid_json'],
  ['__proto__ of an input', '{"task":"sst2","input":{"text":"a","__proto__":"b"}}', 400, 'invalid_json'],
  ['a key twice', '{"task":"sst2","input":"a","input":"b"}', 400, 'invalid_json'],
  ['a key in two spellings', '{"task":"sst2","input":"a","\\u0069nput":"b"}', 400, 'invalid_json'],
  ['a key twice in an input', '{"task":"sst2","input":[{"text":"a","text":"a"}]}', 400, 'invalid_json'],
  ['a list', '[]', 400, 'invalid_request'],
  ['null', 'null', 400, 'invalid_request'],
  ['32 levels', deep(32), 400, 'invalid_request'],
  ['constructor', '{"task":"sst2","input":"a","constructor":1}', 400, 'invalid_request'],
  [
    '100,000 keys',
    `{${Array.from({ length: 80_000 }, (_, i) => `"k${i}":0`).join()}}`,
    400,
    'invalid_request',
  ],
  ['over 1 MiB', JSON.stringify({ task: 'sst2', input: 'a'.repeat(1 << 20) }), 413, 'request_too_large'],
  [
    'an input over the limit',
    JSON.stringify({ task: 'sst2', input: 'a'.repeat(65_537) }),
    413,
    'request_too_large',
  ],
  ['half a million entries', zeros(500_000), 400, 'invalid_request'],
  ['250,000 calls', message(`"tool_calls":${zeros()}`), 400, 'invalid_request', CHAT],
  ['250,000 parts', message(`"content":${zeros()}`), 400, 'invalid_request', CHAT],
  ['4,000 times 100 calls', manyMessages, 400, 'invalid_request', CHAT],
  ['250,000 tools', `{"messages":[],"tools":${zeros()}}`, 400, 'invalid_request', CHAT],
  ['250,000 modalities', `{"messages":[],"modalities":${zeros()}}`, 400, 'invalid_request', CHAT],
  [
    '250,000 parts of an item',
    `{"input":[{"type":"function_call_output","output":${zeros()}}]}`,
    400,
    'invalid_request',
    RESPONSES,
  ],
  [
    '250,000 texts of reasoning',
    `{"input":[{"type":"reasoning","content":${zeros()}}]}`,
    400,
    'invalid_request',
    RESPONSES,
  ],
  ['deep arguments', called('{"a":'.repeat(120_000)), 400, 'invalid_request', CHAT],
  [
    'whole deep arguments',
    called(`{"a":1,"a":${'{"a":'.repeat(90_000)}0${'}'.repeat(90_001)}`),
    400,
    'invalid_request',
    CHAT,
  ],
  [
    'deep arguments of an item',
    JSON.stringify({ input: [{ type: 'function_call', name: 'f', arguments: '{"a":'.repeat(120_000) }] }),
    400,
    'invalid_request',
    RESPONSES,
  ],
];

/** A request without a body. Its connection closes after the response. */
export const head = (line: string, ...headers: string[]) =>
  `${[line, 'host: localhost', 'connection: close', ...headers].join('\r\n')}\r\n\r\n`;

/** Malformed HTTP, with the status of the response. */
export const MALFORMED_HTTP: [what: string, bytes: string, status: number][] = [
  ['no HTTP at all', 'hello\r\n\r\n', 400],
  ['bad version', head('GET / HTTP/9.9'), 400],
  [
    'content-length beside transfer-encoding',
    head('POST /v1/classify HTTP/1.1', 'content-length: 5', 'transfer-encoding: chunked'),
    400,
  ],
  ['two lengths', head('POST /v1/classify HTTP/1.1', 'content-length: 5', 'content-length: 6'), 400],
  ['negative length', head('POST /v1/classify HTTP/1.1', 'content-length: -1'), 400],
  ['17 KiB of headers', head('GET /health/live HTTP/1.1', `x-filler: ${'a'.repeat(17_000)}`), 431],
  ['absolute target', head('GET http://localhost/health/live HTTP/1.1'), 400],
  ['an empty host', 'GET /health/live HTTP/1.1\r\nhost:\r\nconnection: close\r\n\r\n', 403],
  ['no host', 'GET /health/live HTTP/1.1\r\nconnection: close\r\n\r\n', 400],
  ['other expectation', head('GET /health/live HTTP/1.1', 'expect: miracles'), 417],
];
