// The page in a browser, with and without a key. It needs Chromium.
import { existsSync, mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { type Browser, chromium, type Page } from 'playwright-core';
import { afterAll, afterEach, beforeAll, describe, expect, it } from 'vitest';
import { hashKey, newApiKey } from '../../../src/access/api-key.js';
import { keyLine } from '../../../src/access/key-file.js';
import type { Scope } from '../../../src/access/scopes.js';
import { SidaError } from '../../../src/errors.js';
import { CHROMIUM } from '../../support/install-tools.js';
import { REPO } from '../../support/server-process.js';
import { TestServer } from '../../unit/server/test-server.js';

const PICTURES = join(REPO, 'build/page');

const keys = { full: newApiKey(), infer: newApiKey(), metrics: newApiKey() };
const scopes: Record<keyof typeof keys, Scope[]> = {
  full: ['infer', 'admin', 'metrics'],
  infer: ['infer'],
  metrics: ['metrics'],
};
const file = join(mkdtempSync(join(tmpdir(), 'sida-page-')), 'keys');
const names = Object.keys(keys) as (keyof typeof keys)[];
writeFileSync(
  file,
  names.map((name) => keyLine({ name, scopes: scopes[name], hash: hashKey(keys[name]) })).join('\n'),
  { mode: 0o600 },
);

const hasChromium = existsSync(CHROMIUM);
if (!hasChromium) console.warn(`SKIPPED: the page in a browser, chromium is not at ${CHROMIUM}`);

describe.skipIf(!hasChromium)('the page', () => {
  let browser: Browser;
  let server: TestServer;
  let page: Page;
  let requested: string[];
  let broken: string[];
  beforeAll(async () => {
    mkdirSync(PICTURES, { recursive: true });
    browser = await chromium.launch({ executablePath: CHROMIUM, args: ['--no-sandbox'] });
  });
  afterEach(async () => {
    await page.close();
    await server.close();
    // A key travels in a header only.
    for (const url of requested) for (const name of names) expect(url).not.toContain(keys[name]);
    expect(broken).toEqual([]);
  });
  afterAll(async () => {
    await browser.close();
    rmSync(dirname(file), { recursive: true });
  });

  async function open(flags: Parameters<typeof TestServer.start>[0], controls = true): Promise<void> {
    server = await TestServer.start(flags);
    server.engine.onControl = ({ kind }) => {
      if (!controls) throw new SidaError({ code: 'cannot_run', message: 'The workers hold the budget' });
      if (kind !== 'experts') return { kind: 'usage', usage: server.engine.model!.usage };
      const experts = [0, 1, 2].map((index) => ({
        index,
        state: index === 0 ? ('resident' as const) : ('absent' as const),
        pinned: false,
        uses: index,
      }));
      return { kind, layers: [{ layer: 'encoder.1', experts }] };
    };
    [requested, broken] = [[], []];
    page = await browser.newPage();
    page.on('request', (request) => requested.push(request.url()));
    page.on('pageerror', (error) => broken.push(error.message));
    page.on('console', (message) => {
      if (/content security policy/i.test(message.text())) broken.push(message.text());
    });
    await page.goto(server.running.url);
  }

  const text = (id: string) => page.locator(`#${id}`).innerText();
  const shows = (id: string, what: string | RegExp) =>
    expect.poll(() => text(id), { timeout: 10_000 }).toMatch(what);
  const hidden = (id: string) => expect.poll(() => page.locator(`#${id}`).isHidden()).toBe(true);
  const use = async (key: string) => {
    await page.fill('#key', key);
    await page.click('#access-form button[type=submit]');
  };
  const picture = (name: string) => page.screenshot({ path: join(PICTURES, `${name}.png`), fullPage: true });

  it('needs no key where the server has none', async () => {
    await open({});
    await shows('ready', /^ready$/);
    await shows('budget-text', /smallest workable/);
    await shows('experts-count', '1 of 3');
    await hidden('access');
    await picture('no-key-needed');
  });

  it('asks for a key, and shows what can be shown without one', async () => {
    await open({ apiKeys: file });
    await shows('access-text', 'This server asks for an API key.');
    await shows('ready', /^ready$/);
    for (const id of ['try-text', 'budget-text', 'experts-text']) await shows(id, 'Needs a key.');
    await picture('no-key');
  });

  it('says that a key is wrong, and takes another', async () => {
    await open({ apiKeys: file });
    await shows('access-text', 'This server asks');
    await use('schlüssel “1”');
    await shows('access-text', 'This is no API key');
    await use('wrong');
    await shows('access-text', 'The server does not know this key.');
    await picture('wrong-key');
    await use(keys.full);
    await shows('budget-text', /smallest workable/);
    await shows('experts-count', '1 of 3');
    await shows('model', server.engine.model!.name);
    await shows('access-text', 'A key is in use');
    await picture('full-key');
    await page.reload();
    await shows('budget-text', /smallest workable/);
    await page.click('#forget');
    await shows('access-text', 'This server asks');
    expect(await page.evaluate('sessionStorage.length')).toBe(0);
  });

  it('lets an infer key classify, and says what it may not see', async () => {
    await open({ apiKeys: file });
    await shows('access-text', 'This server asks');
    await use(keys.infer);
    await shows('budget-text', 'This key may not see the budget.');
    await shows('experts-text', 'This key may not see the experts.');
    await shows('ready', /^ready$/);
    await page.fill('#fields input', 'a fine film');
    await page.click('#try button');
    await expect.poll(() => text('answer')).toMatch(/\d\.\d{3}/);
    await picture('infer-key');
  });

  it('says that a key without the scope may not use the model', async () => {
    await open({ apiKeys: file });
    await shows('access-text', 'This server asks');
    await use(keys.metrics);
    await shows('try-text', 'This key may not use the model.');
  });

  it('says where the workers hold the budget', async () => {
    await open({}, false);
    await shows('budget-text', 'The workers hold the budget');
    await shows('experts-text', 'The workers hold the budget');
    await shows('ready', /^ready$/);
    await shows('model', server.engine.model!.name);
    await picture('no-worker');
  });

  it('says unreachable only when nothing answers', async () => {
    await open({});
    await shows('ready', /^ready$/);
    await page.context().setOffline(true);
    await shows('ready', /^unreachable$/);
    await page.context().setOffline(false);
    await shows('ready', /^ready$/);
  });
});
