// The official client in a web page of another origin, with the key of a user. It needs Chromium.
import { existsSync } from 'node:fs';
import { createServer, type Server } from 'node:http';
import type { AddressInfo } from 'node:net';
import { join } from 'node:path';
import { type Browser, chromium, type Page } from 'playwright-core';
import { build, type Rolldown } from 'vite';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { makeChatModel } from '../../support/chat-model.js';
import { CHROMIUM } from '../../support/install-tools.js';
import { ServerProcess } from '../../support/server-process.js';
import type { Asked, Found } from './browser-page.js';

const KEY = 'sk-of-the-browser-test-0123456789abcdef';

const hasChromium = existsSync(CHROMIUM);
if (!hasChromium) console.warn(`SKIPPED: the client in a browser, chromium is not at ${CHROMIUM}`);

describe.skipIf(!hasChromium)('a page of another origin', () => {
  const { model: directory, remove } = makeChatModel();
  let browser: Browser;
  let server: ServerProcess;
  let sites: { allowed: Server; foreign: Server };

  beforeAll(async () => {
    const page = await pageOf(join(import.meta.dirname, 'browser-page.ts'));
    sites = { allowed: await serve(page), foreign: await serve(page) };
    server = await ServerProcess.start([
      ...['--model', directory, '--memory-budget', '50%', '--api-key', KEY],
      ...['--allowed-origins', originOf(sites.allowed)],
    ]);
    browser = await chromium.launch({ executablePath: CHROMIUM, args: ['--no-sandbox'] });
  });
  afterAll(async () => {
    await browser.close();
    await server.stop();
    for (const site of Object.values(sites)) site.close();
    remove();
  });

  async function use(site: Server, asked: Partial<Asked> = {}): Promise<Found> {
    const page: Page = await browser.newPage();
    try {
      await page.goto(originOf(site));
      const all = { baseURL: `${server.url}/v1`, apiKey: KEY, model: 'chat-tiny', ...asked };
      return await page.evaluate((value) => globalThis.ask(value), all);
    } finally {
      await page.close();
    }
  }

  it('lists models, chats and streams the same text', async () => {
    const found = await use(sites.allowed);
    if ('error' in found) throw new Error(JSON.stringify(found.error));
    expect(found.models).toEqual(['chat-tiny']);
    expect(found.text.length).toBeGreaterThan(0);
    expect(found.parts.length).toBeGreaterThan(1);
    expect(found.parts.join('')).toBe(found.text);
    expect(found.embedding).toBe(64);
    expect(found.requestId).toMatch(/./);
  });

  it('sees the errors of the server', async () => {
    expect(await use(sites.allowed, { model: 'gpt-5' })).toEqual({
      error: { name: 'NotFoundError', status: 404, code: 'model_not_found' },
    });
    expect(await use(sites.allowed, { apiKey: 'sk-wrong' })).toEqual({
      error: { name: 'AuthenticationError', status: 401, code: 'unauthorized' },
    });
  });

  it('is refused when its origin is not allowed', async () => {
    expect(await use(sites.foreign)).toEqual({ error: { name: 'APIConnectionError' } });
    const headers = { origin: originOf(sites.foreign), 'access-control-request-method': 'POST' };
    const preflight = await fetch(`${server.url}/v1/chat/completions`, { method: 'OPTIONS', headers });
    expect(preflight.status).toBe(403);
    expect(preflight.headers.get('access-control-allow-origin')).toBeNull();
  });

  it('may send the headers that it asks for', async () => {
    const asked = 'authorization,content-type,x-stainless-lang,x-of-its-own';
    const preflight = await fetch(`${server.url}/v1/chat/completions`, {
      method: 'OPTIONS',
      headers: {
        origin: originOf(sites.allowed),
        'access-control-request-method': 'POST',
        'access-control-request-headers': asked,
      },
    });
    expect(preflight.status).toBe(204);
    expect(preflight.headers.get('access-control-allow-origin')).toBe(originOf(sites.allowed));
    expect(preflight.headers.get('access-control-allow-headers')).toBe(asked);
  });
});

/** A page with the script, bundled as an application bundles it. */
async function pageOf(entry: string): Promise<string> {
  const built = await build({
    configFile: false,
    logLevel: 'warn',
    build: { write: false, minify: false, lib: { entry, formats: ['es'], fileName: 'page' } },
  });
  const [{ output }] = built as [Rolldown.RolldownOutput];
  const script = output[0].code.replaceAll('</script', '<\\/script');
  return `<!doctype html><title>page</title><script type="module">${script}</script>`;
}

async function serve(page: string): Promise<Server> {
  const site = createServer((_req, res) => res.setHeader('content-type', 'text/html').end(page));
  await new Promise<void>((resolve) => site.listen(0, '127.0.0.1', resolve));
  return site;
}

function originOf(site: Server): string {
  return `http://127.0.0.1:${(site.address() as AddressInfo).port}`;
}
