// Bodies that cost more than they look, or mean something else to another reader.
import { connect } from 'node:net';
import { brotliCompressSync, deflateSync, gzipSync } from 'node:zlib';
import { afterAll, beforeAll, expect } from 'vitest';
import { MALFORMED_BODIES } from '../support/malformed.js';
import { fault } from './fault.js';
import { Subject } from './subject.js';

const MIB = 1024 ** 2;

let subject: Subject;
beforeAll(async () => {
  subject = await Subject.start();
});
afterAll(() => subject.stop());

const post = (body: string | Buffer, headers: Record<string, string> = {}, path = '/v1/classify') =>
  subject.ask(path, { method: 'POST', body, headers });

/** Streams up to a GiB in chunks; how much the server took, and what it said. */
function endless(): Promise<{ sent: number; answer: string }> {
  const piece = Buffer.from(`10000\r\n${' '.repeat(65_536)}\r\n`);
  return new Promise((resolve) => {
    let [sent, answer] = [0, ''];
    const socket = connect({ host: '127.0.0.1', port: subject.port }, () => {
      socket.write(
        'POST /v1/classify HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\ntransfer-encoding: chunked\r\n\r\n',
      );
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

fault('F23', 'hostile bodies', async (report) => {
  const risen = await subject.watchMemory();

  const { sent, answer } = await endless();
  expect(answer).toMatch(/^HTTP\/1\.1 413 /);
  report.note(`stream of 1 GiB ended with 413 after ${Math.round(sent / MIB)} MiB`);
  expect(sent).toBeLessThan(1024 * MIB);

  const zeros = Buffer.alloc(64 * MIB, 0x20);
  for (const [encoding, bomb] of [
    ['gzip', gzipSync(zeros)],
    ['deflate', deflateSync(zeros)],
    ['br', brotliCompressSync(zeros.subarray(0, 8 * MIB))],
  ] as const) {
    const { status } = await post(bomb, { 'content-type': 'application/json', 'content-encoding': encoding });
    expect([encoding, status]).toEqual([encoding, 415]);
  }
  report.note('3 compressed bombs: 415');

  for (const [what, body, status, code, path] of MALFORMED_BODIES) {
    const { status: found, json } = await post(body, { 'content-type': 'application/json' }, path);
    expect([what, found, json?.error.code]).toEqual([what, status, code]);
  }
  report.note(`${MALFORMED_BODIES.length} malformed bodies: 400 or 413`);

  for (const body of [
    `{${Array.from({ length: 1_000_000 }, (_, i) => `"k${i}":0`).join()}}`,
    `[${'"\\u0061",'.repeat(100_000)}0]`,
    `{"task":"sst2","input":"a","routing_k":1${'0'.repeat(500_000)}}`,
    `{"task":"sst2","input":${'[1e308,'.repeat(10)}0${']'.repeat(10)}}`,
    '{"task":"sst2","input":{"text":"a","constructor":{"prototype":{"polluted":1}}}}',
  ]) {
    const { status, text } = await post(body);
    expect([400, 413]).toContain(status);
    expect(text.length).toBeLessThan(2_000);
  }

  report.atMost('memory at its peak grown by', risen() / MIB, 64, 'MiB');
  expect(
    (await subject.metrics())('sida_http_requests_total{route="/v1/classify",method="POST",status="415"}'),
  ).toBe(3);
  await subject.recovered(report);
});
