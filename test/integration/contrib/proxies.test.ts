// The proxies of contrib/ in front of a server, with TLS: nginx and Caddy as Debian has them.
import { type ChildProcess, execFileSync, spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import type { IncomingMessage } from 'node:http';
import { request } from 'node:https';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { text } from 'node:stream/consumers';
import { setTimeout as delay } from 'node:timers/promises';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { freePort } from '../../support/free-port.js';
import { hasTool } from '../../support/install-tools.js';
import { REPO, ServerProcess } from '../../support/server-process.js';

const HOST = 'llm.example';
const folder = mkdtempSync(join(tmpdir(), 'sida-proxy-'));
const [certificate, key] = [join(folder, 'cert.pem'), join(folder, 'key.pem')];

interface Proxy {
  name: 'nginx' | 'caddy';
  file: string;
  /** The file with the places of this machine in it. */
  adapt(config: string, port: number, sida: number): string;
  args(config: string): string[];
}

const PROXIES: Proxy[] = [
  {
    name: 'nginx',
    file: 'contrib/nginx/sida.conf',
    adapt(config, port, sida) {
      const server = config
        .replace('listen 443', `listen 127.0.0.1:${port}`)
        .replace('/etc/ssl/llm.example.pem', certificate)
        .replace('/etc/ssl/llm.example.key', key)
        .replace('127.0.0.1:8080', `127.0.0.1:${sida}`);
      const temporary = ['client_body', 'proxy', 'fastcgi', 'uwsgi', 'scgi']
        .map((kind) => `${kind}_temp_path ${folder}/${kind};`)
        .join(' ');
      const main = `daemon off; pid ${folder}/nginx.pid; error_log stderr; events {}`;
      return `${main} http { access_log off; ${temporary}\n${server} }`;
    },
    args: (config) => ['-p', folder, '-c', config],
  },
  {
    name: 'caddy',
    file: 'contrib/caddy/Caddyfile',
    adapt(config, port, sida) {
      const global = '{\n\tadmin off\n\tauto_https disable_redirects\n}\n';
      const site = config
        .replace('llm.example {', `${HOST}:${port} {\n\tbind 127.0.0.1\n\ttls ${certificate} ${key}`)
        .replace('127.0.0.1:8080', `127.0.0.1:${sida}`);
      return global + site;
    },
    args: (config) => ['run', '--adapter', 'caddyfile', '--config', config],
  },
];

const installed = ({ name }: Proxy) => hasTool(name) && hasTool('openssl');

let server: ServerProcess | undefined;
beforeAll(async () => {
  if (!PROXIES.some(installed)) return;
  const subject = ['-subj', `/CN=${HOST}`, '-addext', `subjectAltName=DNS:${HOST}`];
  execFileSync(
    'openssl',
    [
      ...['req', '-x509', '-newkey', 'rsa:2048', '-nodes', '-days', '2'],
      ...['-keyout', key, '-out', certificate, ...subject],
    ],
    { stdio: 'ignore' },
  );
  const model = ['--model', join(REPO, 'models/olmoe-mini')];
  server = await ServerProcess.start([...model, '--allowed-hosts', HOST]);
});
afterAll(async () => {
  await server?.stop();
  rmSync(folder, { recursive: true });
});

describe.each(PROXIES)('$name', (proxy) => {
  it.skipIf(!installed(proxy))('passes answers on, and each token of a stream at once', async () => {
    const port = await freePort();
    const config = join(folder, proxy.name);
    const written = readFileSync(join(REPO, proxy.file), 'utf8');
    writeFileSync(config, proxy.adapt(written, port, server!.port));
    const env = { ...process.env, HOME: folder, XDG_DATA_HOME: folder, XDG_CONFIG_HOME: folder };
    const child = spawn(proxy.name, proxy.args(config), { env, stdio: ['ignore', 'pipe', 'pipe'] });
    let output = '';
    for (const stream of [child.stdout, child.stderr]) stream.on('data', (piece) => (output += piece));
    try {
      await listening(port, child, () => output);
      const ready = await ask(port, 'GET', '/health/ready');
      expect([ready.statusCode, await text(ready)]).toEqual([200, expect.stringContaining('ready')]);

      const messages = [{ role: 'user', content: 'What kind of thing is a violin?' }];
      const large = await ask(port, 'POST', '/v1/chat/completions', {
        messages: [{ role: 'user', content: 'x'.repeat(2 ** 21) }],
      });
      expect(large.statusCode).toBe(413);
      expect(JSON.parse(await text(large)).error.code).toBe('request_too_large');

      const stream = await ask(port, 'POST', '/v1/chat/completions', { messages, stream: true });
      expect(stream.headers['content-type']).toContain('text/event-stream');
      const pieces: string[] = [];
      for await (const piece of stream) pieces.push(String(piece));
      expect(pieces.join('')).toMatch(/\[DONE\]\s*$/);
      // A proxy that collects a stream gives it in one piece.
      expect(pieces.length).toBeGreaterThan(3);
    } finally {
      child.kill('SIGTERM');
      if (child.exitCode === null) await once(child, 'exit');
    }
  });
});

function ask(port: number, method: string, path: string, body?: unknown): Promise<IncomingMessage> {
  const headers = { host: HOST, ...(body !== undefined && { 'content-type': 'application/json' }) };
  const about = { host: '127.0.0.1', port, servername: HOST, ca: readFileSync(certificate) };
  return new Promise((resolve, reject) => {
    const sent = request({ ...about, method, path, headers, agent: false }, resolve);
    sent.on('error', reject);
    sent.end(body === undefined ? undefined : JSON.stringify(body));
  });
}

async function listening(port: number, child: ChildProcess, output: () => string): Promise<void> {
  for (let tries = 0; tries < 250 && child.exitCode === null; tries++) {
    const answer = await ask(port, 'GET', '/health/live').catch(() => undefined);
    if (answer !== undefined) return void answer.resume();
    await delay(40);
  }
  throw new Error(`the proxy does not listen:\n${output()}`);
}
