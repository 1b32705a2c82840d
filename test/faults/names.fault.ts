// Names of models, jobs and tasks that lead out of where models are. No file is opened for them.
import { execFileSync } from 'node:child_process';
import { mkdirSync, mkdtempSync, readFileSync, rmSync, symlinkSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { basename, join } from 'node:path';
import { expect } from 'vitest';
import { MINI, REPO } from '../support/server-process.js';
import { fault } from './fault.js';
import { buildPreload, preloaded } from './shim.js';
import { Subject } from './subject.js';

const SERVED = basename(MINI);

// biome-ignore format: one list
const NAMES = [
  '.', '..', '../', '../../etc/passwd', '/etc/passwd', '/dev/zero', '//etc/passwd', 'outside', 'outside/passwd', 'zero', 'fifo',
  'file:///etc/passwd', 'http://localhost/', '%2e%2e%2fetc%2fpasswd', '~root', '$(id)', '`id`', '*', 'a\nb', '',
  `./${SERVED}`, `${SERVED}/`, `${SERVED}/.`, `${SERVED}/config.json`, `${SERVED}\0`, `${SERVED}\0.json`, `\0${SERVED}`,
  'CON', 'NUL', 'aux.txt', 'COM1', 'C:\\Windows\\win.ini', '\\\\?\\C:\\', '..\\..\\etc', `${SERVED}.`, `${SERVED} `, `${SERVED}::$DATA`,
  SERVED.toUpperCase(), SERVED.replace('-', '\u2011'), SERVED.replace('s', '\u0455'), SERVED.replace('s', '\uff53'),
  `${SERVED}\u200b`, `\u202e${SERVED}`, '\u2025/etc/passwd', '..\uff0f..\uff0fetc\uff0fpasswd', 'a'.repeat(4_096), '__proto__', 'constructor',
];

/** Paths of routes with a slash at the end, which is ignored. */
const SLASHED = new Set(['/v1/models/', `/v1/models/${SERVED}/`]);

/** Every way to give a name. */
function waysOf(name: string): [path: string, method: string, body?: object][] {
  const encoded = encodeURIComponent(name);
  return [
    [`/v1/models/${encoded}`, 'GET'],
    [`/v1/models/${encodeURI(name)}`, 'GET'],
    [`/v1/jobs/${encoded}`, 'GET'],
    [`/v1/jobs/${encoded}`, 'DELETE'],
    [`/v1/jobs/${encoded}/events`, 'GET'],
    ['/v1/classify', 'POST', { model: name, task: 'sst2', input: 'a' }],
    ['/v1/classify', 'POST', { task: name, input: 'a' }],
    ['/v1/completions', 'POST', { model: name, prompt: 'a' }],
    ['/v1/tokenize', 'POST', { model: name, input: 'a' }],
    ['/v1/jobs', 'POST', { type: 'completion', model: name, prompt: 'a' }],
  ];
}

fault('names that lead elsewhere', async (report) => {
  /** Beside the served model lies what a name could be taken for: a folder outside, a pipe, an endless file. */
  const folder = mkdtempSync(join(tmpdir(), 'sida-names-'));
  const [models, log, library] = ['models', 'opened', 'open-log.so'].map((name) => join(folder, name));
  mkdirSync(models!);
  symlinkSync(MINI, join(models!, SERVED));
  symlinkSync('/etc', join(models!, 'outside'));
  symlinkSync('/dev/zero', join(models!, 'zero'));
  execFileSync('mkfifo', [join(models!, 'fifo')]);
  buildPreload('open-log.c', library!);
  const model = join(models!, SERVED);
  const subject = await preloaded(library!, { SIDA_OPEN_LOG: log! }, () => Subject.startWith({ model }));
  const opened = () => readFileSync(log!, 'utf8').split('\n').slice(0, -1);
  try {
    const before = opened();
    expect(before.some((path) => path.endsWith(`${SERVED}/config.json`))).toBe(true);
    let requests = 0;
    for (const [path, method, body] of NAMES.flatMap(waysOf)) {
      const { status, text } = await subject.ask(path, { method, body });
      const shown = `${method} ${path} ${JSON.stringify(body)}: ${text}`;
      // Some make the path of another route, or of this one with a slash at its end.
      expect(SLASHED.has(path) && method === 'GET' ? [200] : [400, 404, 405], shown).toContain(status);
      expect(text, shown).not.toContain(folder);
      expect(text, shown).not.toContain(REPO);
      requests += 1;
    }
    // What Node reads about its own process.
    const since = opened().slice(before.length);
    expect(since.filter((path) => !path.startsWith('/proc/'))).toEqual([]);
    report.note(`${requests} requests with ${NAMES.length} names: 400 or 404, and none opened a file`);
    const unknown = 'sida_http_requests_total{route="/v1/models/:id",method="GET",status="404"}';
    expect((await subject.metrics())(unknown)).toBeGreaterThan(NAMES.length);
    await subject.recovered(report);
  } finally {
    await subject.stop();
    rmSync(folder, { recursive: true });
  }
});
