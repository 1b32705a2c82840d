// Ten thousand requests made of a grammar of HTTP and of the routes' bodies, then broken byte by byte.
import { connect } from 'node:net';
import { expect } from 'vitest';
import { malformedRequest, randomFrom } from '../support/malformed-requests.js';
import { parseAnswers } from '../support/raw-answers.js';
import { REPO } from '../support/server-process.js';
import { serverFault } from './subject.js';

const REQUESTS = 10_000;
const AT_ONCE = 48;
const SEED = Number(process.env.SIDA_FAULT_SEED ?? 20_261_121);

/** Sends and takes what comes. A request that waits for more of itself is ended, which makes the server answer. */
function send(port: number, bytes: Buffer): Promise<string> {
  return new Promise((resolve) => {
    let text = '';
    const toHead = bytes.includes('HEAD ');
    const socket = connect({ host: '127.0.0.1', port, allowHalfOpen: true }, () => socket.write(bytes));
    const timers = [setTimeout(() => socket.end(), 100), setTimeout(() => socket.destroy(), 10_000)];
    socket.on('data', (data) => {
      text += data.toString('latin1');
      // Whole answers need no waiting; what is left of a connection is of no interest.
      if (parseAnswers(text, toHead).whole) socket.destroy();
    });
    socket
      .on('end', () => socket.end())
      .on('error', () => undefined)
      .on('close', () => {
        for (const timer of timers) clearTimeout(timer);
        resolve(text);
      });
  });
}

/** Declared ways to fail: the request is good and the server has no room or time for it. */
const DECLARED = new Set(['not_ready', 'shutting_down', 'deadline_exceeded']);
const DIALECTS = /\/api\/|\/v1\/messages/;
const LEAK = /\bat .{1,200}:\d+:\d+|node_modules|\/dist\/|\.[cm]?[jt]s:\d/;

serverFault('10,000 malformed requests', {}, async ({ port, server }, report) => {
  const random = randomFrom(SEED);
  const counts = new Map<string, number>();
  const count = (what: string) => counts.set(what, (counts.get(what) ?? 0) + 1);
  let sent = 0;
  const client = async () => {
    while (sent < REQUESTS) {
      const number = sent;
      sent += 1;
      const bytes = malformedRequest(random);
      const { answers } = parseAnswers(await send(port, bytes), bytes.includes('HEAD '));
      const shown = `request ${number} of seed ${SEED}: ${JSON.stringify(bytes.toString('latin1').slice(0, 2_000))}`;
      if (answers.length === 0) count('ended');
      for (const { status, headers, body } of answers) {
        count(`${Math.floor(status / 100)}xx`);
        expect(headers, shown).toMatch(/^x-request-id: \S+$/im);
        if (status < 400 || body === '') continue;
        const { error } = JSON.parse(Buffer.from(body, 'latin1').toString('utf8'));
        if (DIALECTS.test(bytes.toString('latin1'))) {
          // Ollama's errors are texts, and Anthropic's have no codes.
          expect(error.message ?? error, shown).toEqual(expect.any(String));
          if (status >= 500) expect([503, 504, 529], shown).toContain(status);
        } else {
          expect(error, shown).toMatchObject({ message: expect.any(String), code: expect.any(String) });
          if (status >= 500) expect(DECLARED, `${error.code}, ${shown}`).toContain(error.code);
        }
        expect(body, shown).not.toMatch(LEAK);
        expect(body, shown).not.toContain(REPO);
      }
    }
  };
  await Promise.all(Array.from({ length: AT_ONCE }, client));
  const kinds = [...counts].sort().map(([what, number]) => `${number} ${what}`);
  report.note(`seed ${SEED}, 0 crashes: ${kinds.join(' ')}`);
  expect(counts.get('4xx')).toBeGreaterThan(REQUESTS / 2);
  expect(server.output).not.toContain('engine restarts');
});
