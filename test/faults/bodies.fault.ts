// Bodies that cost more than they look, or mean something else to another reader.
import { connect } from 'node:net';
import { brotliCompressSync, deflateSync, gzipSync } from 'node:zlib';
import { expect } from 'vitest';
import { MALFORMED_BODIES } from '../support/malformed.js';
import { MIB, serverFault } from './subject.js';

/** Streams up to a GiB in chunks; how much the server took, and what it said. */
function endless(port: number): Promise<{ sent: number; answer: string }> {
  const piece = Buffer.from(`10000\r\n${' '.repeat(65_536)}\r\n`);
  const head = ['POST /v1/classify HTTP/1.1', 'host: localhost', 'content-type: application/json'];
  return new Promise((resolve) => {
    let [sent, answer] = [0, ''];
    const socket = connect({ host: '127.0.0.1', port }, () => {
      socket.write([...head, 'transfer-encoding: chunked', '\r\n'].join('\r\n'));
      const more = () => {
        while (!socket.destroyed && sent < 1024 * MIB) {
          sent += 65_536;
          if (!socket.write(piece)) return void socket.once('drain', more);
        }
      };
      more();
    });
    socket.on('data', (data) => {
      answer += data.toString('latin1');
    });
    socket.on('error', () => undefined).on('close', () => resolve({ sent, answer }));
  });
}

const many = <T>(count: number, of: (at: number) => T) => Array.from({ length: count }, (_, at) => of(at));
const TWICE = many(4_000, (i) => `"${'\\u006b'.repeat(30)}${i}${'x'.repeat(200)}":0`);
// biome-ignore format: one list
const LARGE = [
  `{${many(1_000_000, (i) => `"k${i}":0`).join()}}`,
  `[${'"\\u0061",'.repeat(100_000)}0]`,
  `{"task":"sst2","input":"a","routing_k":1${'0'.repeat(500_000)}}`,
  `{"task":"sst2","input":${'[1e308,'.repeat(10)}0${']'.repeat(10)}}`,
  '{"task":"sst2","input":{"text":"a","constructor":{"prototype":{"polluted":1}}}}',
  ...many(50, (i) => `{${[...TWICE, TWICE[i]].join()}}`),
];

const names = many(64, (i) => `f${i}`);
/** Small apart and enormous together. */
// biome-ignore format: a table
const TEMPLATES: [what: string, template: string, input: unknown][] = [
  ['one field 21,845 times', '{a}'.repeat(21_845), { a: 'x'.repeat(60_000) }],
  ['one field twice too large', '{a}{a}', { a: 'x'.repeat(40_000) }],
  ['wide letters', '{a}'.repeat(10_000), { a: '﷽'.repeat(20_000) }],
  ['a long template for 32 short inputs', `${'x'.repeat(60_000)}{a}`, many(32, () => 'y')],
  [
    '64 fields, each many times',
    names.map((name) => `{${name}}`.repeat(150)).join(''),
    Object.fromEntries(names.map((name) => [name, 'z'.repeat(10_000)])),
  ],
];

serverFault('hostile bodies', {}, async (subject, report) => {
  const post = (body: unknown, headers = {}, path = '/v1/classify') =>
    subject.ask(path, { method: 'POST', body, headers: { 'content-type': 'application/json', ...headers } });
  // A heap that has never read a megabyte grows at any.
  await post(LARGE[1]);
  await subject.settle();
  const risen = await subject.watchMemory();

  const { sent, answer } = await endless(subject.port);
  expect(answer).toMatch(/^HTTP\/1\.1 413 /);
  report.note(`stream of 1 GiB ended with 413 after ${Math.round(sent / MIB)} MiB`);
  expect(sent).toBeLessThan(1024 * MIB);

  const zeros = Buffer.alloc(64 * MIB, 0x20);
  const br = brotliCompressSync(zeros.subarray(0, 8 * MIB));
  const bombs = { gzip: gzipSync(zeros), deflate: deflateSync(zeros), br };
  for (const [encoding, bomb] of Object.entries(bombs)) {
    expect([encoding, (await post(bomb, { 'content-encoding': encoding })).status]).toEqual([encoding, 415]);
  }
  for (const [what, body, status, code, path] of MALFORMED_BODIES) {
    await subject.collect();
    const { status: found, json } = await post(body, {}, path);
    expect([what, found, json?.error.code]).toEqual([what, status, code]);
  }
  report.note(`3 compressed bombs: 415; ${MALFORMED_BODIES.length} malformed bodies: 400 or 413`);
  for (const body of LARGE) {
    await subject.collect();
    const { status, text } = await post(body);
    expect([400, 413]).toContain(status);
    expect(text.length).toBeLessThan(2_000);
  }
  for (const [what, template, input] of TEMPLATES) {
    await subject.collect();
    const body = { template, labels: ['a', 'b'], input };
    for (const { status, json } of await Promise.all(many(4, () => post(body)))) {
      expect([status, json.error?.code], what).toEqual([413, 'request_too_large']);
      const { bytes, limit } = json.error.details;
      expect(bytes, what).toBeGreaterThan(limit);
    }
  }
  report.note(`${LARGE.length} large ones refused; ${TEMPLATES.length} kinds of templates: 413`);
  report.atMost('memory at its peak grown by', risen() / MIB, 40, 'MiB');
  const unsupported = 'sida_http_requests_total{route="/v1/classify",method="POST",status="415"}';
  expect((await subject.metrics())(unsupported)).toBe(3);
});
