// Raw HTTP that tries to make the server lose its place: no handler sees it, and the connection ends.
import { once } from 'node:events';
import { connect } from 'node:net';
import { setTimeout as delay } from 'node:timers/promises';
import { afterAll, beforeAll, expect } from 'vitest';
import { head, MALFORMED_HTTP } from '../support/malformed.js';
import { fault } from './fault.js';
import { Heartbeat } from './heartbeat.js';
import { aTimer } from './quiet.js';
import { Subject } from './subject.js';

let subject: Subject;
beforeAll(async () => {
  subject = await Subject.start();
});
afterAll(() => subject.stop());

const BODY = '{"task":"sst2","input":"a"}';
const post = (...headers: string[]) =>
  head('POST /v1/classify HTTP/1.1', 'content-type: application/json', ...headers);
const chunk = (size: string, data = '') => `${size}\r\n${data}\r\n`;

const SMUGGLED = 'GET /admin/budget HTTP/1.1\r\nhost: localhost\r\n\r\n';
const REQUESTS: [what: string, bytes: string | Buffer][] = [
  ...MALFORMED_HTTP.map(([what, bytes]): [string, string] => [what, bytes]),
  [
    'chunked beside a length',
    post('transfer-encoding: chunked', 'content-length: 4') + chunk('0') + SMUGGLED,
  ],
  ['a length beside chunked, other case', post('Content-Length: 4', 'Transfer-Encoding: CHUNKED') + SMUGGLED],
  ['an unknown transfer encoding', post('transfer-encoding: xchunked') + SMUGGLED],
  ['chunked that is not last', post('transfer-encoding: chunked, identity') + SMUGGLED],
  ['the same length twice', post(`content-length: ${BODY.length}`, `content-length: ${BODY.length}`) + BODY],
  ['a length with a sign', post('content-length: +5') + BODY],
  ['a length in hexadecimal', post('content-length: 0x1b') + BODY],
  ['a length of 2^64 and 27', post(`content-length: ${2n ** 64n + 27n}`) + BODY],
  ['a length with a comma', post('content-length: 27, 27') + BODY],
  ['a chunk size with a sign', post('transfer-encoding: chunked') + chunk('-1', 'a')],
  ['a chunk size of 2^64', post('transfer-encoding: chunked') + chunk('10000000000000000', 'a')],
  ['a chunk that is too short', post('transfer-encoding: chunked') + chunk('2', 'abc')],
  [
    '65,536 chunks of a byte',
    post('transfer-encoding: chunked') + chunk('1', ' ').repeat(65_536) + chunk('0'),
  ],
  ['2 MiB in chunks', post('transfer-encoding: chunked') + chunk('10000', ' '.repeat(65_536)).repeat(32)],
  ['a length over the limit', post(`content-length: ${2 ** 31}`)],
  ['a folded header', head('GET /v1/models HTTP/1.1', 'x-a: b\r\n c: d')],
  ['a blank before the colon', head('GET /v1/models HTTP/1.1', 'x-a : b')],
  ['a header without name', head('GET /v1/models HTTP/1.1', ': b')],
  ['a NUL in a header', head('GET /v1/models HTTP/1.1', 'x-a: b\0c')],
  ['a bare line feed', 'GET /v1/models HTTP/1.1\nhost: localhost\n\n'],
  ['two hosts', head('GET /v1/models HTTP/1.1', 'host: evil.example')],
  ['1,000 headers of 20 bytes', head('GET /v1/models HTTP/1.1', ...Array(1_000).fill('x-a: 12345678901234'))],
  ['a target of 17 KB', head(`GET /${'a'.repeat(17_000)} HTTP/1.1`)],
  ['HTTP/0.9', 'GET /v1/models\r\n'],
  ['HTTP/2 preface', 'PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n'],
  ['TLS', Buffer.from('16030100a5010000a10303', 'hex')],
  ['no host in HTTP/1.0', 'GET /v1/models HTTP/1.0\r\n\r\n'],
  ['a foreign absolute target', head('GET http://evil.example/v1/models HTTP/1.1')],
  ['a target of a star', head('OPTIONS * HTTP/1.1')],
  ['a NUL in the target', head('GET /v1/models/%00 HTTP/1.1')],
  ['a way out of the root', head('GET /v1/models/..%2f..%2fetc%2fpasswd HTTP/1.1')],
  ['a way out, twice encoded', head('GET /v1/models/%252e%252e%252f HTTP/1.1')],
  ['a way out in backslashes', head('GET /v1/models/..\\..\\etc HTTP/1.1')],
  ['TRACE', head('TRACE /v1/models HTTP/1.1')],
  ['CONNECT', 'CONNECT localhost:22 HTTP/1.1\r\nhost: localhost:22\r\n\r\n'],
  ['upgrade', head('GET /v1/classify HTTP/1.1', 'connection: upgrade', 'upgrade: websocket')],
];

fault('raw HTTP', async (report) => {
  const accepted = async () => (await subject.metrics())('sida_queue_accepted_total');
  const before = await accepted();
  let [refused, ended] = [0, 0];
  for (const [what, bytes] of REQUESTS) {
    const answer = await subject.raw(bytes, 15_000);
    if (answer === '') ended += 1;
    else {
      expect(answer, what).toMatch(/^HTTP\/1\.1 4\d\d /);
      expect(answer, what).toMatch(/x-request-id: /i);
      refused += 1;
    }
    // What stood behind the request must not be taken for another one.
    expect(answer, what).not.toContain('budget_bytes');
  }
  expect(await accepted()).toBe(before);
  report.note(`${REQUESTS.length} requests: ${refused} refused, ${ended} ended, 0 handled`);

  const one = 'GET /health/live HTTP/1.1\r\nhost: localhost\r\n\r\n';
  const answers = (await subject.raw(one.repeat(1_000), 30_000)).match(/HTTP\/1\.1 200 OK/g) ?? [];
  expect(answers).toEqual([]);
  report.note('1,000 pipelined: closed, none answered');
  expect(
    (await subject.metrics())('sida_http_connection_errors_total{reason="invalid_request"}'),
  ).toBeGreaterThan(10);
  await subject.recovered(report);
});

fault('pipelined requests whose clients leave', async (report) => {
  const metric = async (name: string) => (await subject.metrics())(name);
  const accepted = await metric('sida_queue_accepted_total');
  const body = JSON.stringify({ task: 'sst2', input: 'a fine film' });
  const work = `${post(`content-length: ${body.length}`).replace('connection: close\r\n', '')}${body}`;
  const probes = new Heartbeat(subject.port);
  const timer = await aTimer(3, 'ms');
  for (const [size, repeated] of [
    [100, 300],
    [1_000, 2],
  ] as const) {
    const sockets = Array.from({ length: size }, () => connect({ host: '127.0.0.1', port: subject.port }));
    for (const [i, socket] of sockets.entries()) {
      socket.on('error', () => undefined).write(work.repeat(repeated));
      setTimeout(() => socket.destroy(), i % 50);
    }
    await Promise.all(sockets.map((socket) => once(socket, 'close')));
  }
  await delay(1_000);
  await probes.stop();
  report.note('1,100 connections with 32,000 requests');
  expect(await metric('sida_queue_accepted_total')).toBe(accepted);
  report.withinTime('probes answered within', probes.longestMs, 1_200, 'ms', timer);
  await subject.recovered(report);
});
