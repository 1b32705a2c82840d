// The page in a browser, with and without a key. It needs Chromium.
import { existsSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { type Browser, chromium, type Page } from 'playwright-core';
import { afterAll, afterEach, beforeAll, describe, expect, it } from 'vitest';
import { hashKey, newApiKey } from '../../../src/access/api-key.js';
import { keyLine } from '../../../src/access/key-file.js';
import type { Scope } from '../../../src/access/scopes.js';
import { SidaError } from '../../../src/errors.js';
import { CHROMIUM } from '../../support/install-tools.js';
import { PageDriver } from '../../support/page-driver.js';
import { SPLIT } from '../../unit/queue/scripted-engine.js';
import { TestServer } from '../../unit/server/test-server.js';

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
  let driver: PageDriver;
  beforeAll(async () => {
    browser = await chromium.launch({ executablePath: CHROMIUM, args: ['--no-sandbox'] });
  });
  afterEach(async () => {
    await page.close();
    await server.close();
    // A key travels in a header only.
    const { requested, broken } = driver;
    for (const url of requested) for (const name of names) expect(url).not.toContain(keys[name]);
    expect(broken).toEqual([]);
  });
  afterAll(async () => {
    await browser.close();
    rmSync(dirname(file), { recursive: true });
  });

  async function open(
    flags: Parameters<typeof TestServer.start>[0],
    controls = true,
    models?: Parameters<typeof TestServer.start>[1],
  ): Promise<void> {
    server = await TestServer.start(flags, models);
    for (const [i, engine] of server.engines.entries())
      engine.onControl = ({ kind }) => {
        if (!controls) throw new SidaError({ code: 'cannot_run', message: 'The workers hold the budget' });
        if (kind !== 'experts') return { kind: 'usage', usage: engine.model!.usage, split: SPLIT };
        const experts = [0, 1, 2].slice(i).map((index) => ({
          index,
          state: index === 0 ? ('resident' as const) : ('absent' as const),
          pinned: false,
          uses: index,
        }));
        return { kind, layers: [{ layer: 'encoder.1', experts }] };
      };
    driver = await PageDriver.open(browser, server.running.url);
    page = driver.page;
  }

  const text = (id: string) => driver.text(id);
  const shows = (id: string, what: string | RegExp) => driver.shows(id, what);
  const hidden = (id: string) => driver.hidden(id);
  const use = (key: string) => driver.use(key);
  const picture = (name: string) => driver.picture(name);

  it('needs no key where the server has none', async () => {
    await open({});
    await shows('ready', /^ready$/);
    await shows('budget-text', /smallest workable/);
    await shows('budget-split', 'KV pages: 30 B in use, 20 B cached, 50 B free. Experts: 350 B of 400 B.');
    await shows('experts-count', '1 of 3');
    await hidden('access');
    await picture('no-key-needed');
  });

  it('asks for a key, and shows what can be shown without one', async () => {
    await open({ apiKeys: file });
    await shows('access-text', 'This server asks for an API key.');
    await shows('ready', /^ready$/);
    for (const id of ['chat-text', 'try-text', 'budget-text', 'experts-text'])
      await shows(id, 'Needs a key.');
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
    await shows('chat-text', 'This key may not use the model.');
    await hidden('chat');
  });

  it('says where the workers hold the budget', async () => {
    await open({}, false);
    await shows('budget-text', 'The workers hold the budget');
    await shows('experts-text', 'The workers hold the budget');
    await shows('ready', /^ready$/);
    await shows('model', server.engine.model!.name);
    await picture('no-worker');
  });

  it('shows the model that is chosen of several', async () => {
    await open({}, true, ['first', 'second']);
    await shows('experts-count', '1 of 3');
    await page.selectOption('#models', 'second');
    await shows('experts-count', '0 of 2');
    await page.fill('#fields input', 'a fine film');
    await page.click('#try button');
    await shows('answer', 'negative 0.750');
    expect(server.engines.map(({ started }) => started.length)).toEqual([0, 1]);
    await picture('several-models');
  });

  it('shows a model with tasks first, and keeps the one that the visitor chooses', async () => {
    await open({}, true, ['talker', 'classifier']);
    const [talker, classifier] = server.engines;
    talker!.model = { ...talker!.model!, tasks: {} };
    classifier!.model = { ...classifier!.model!, chat: null };
    await page.reload();
    await expect.poll(() => page.inputValue('#models')).toBe('classifier');
    await shows('task', 'sst2');
    expect(await page.inputValue('#chat-model')).toBe('talker');
    await shows('experts-count', '0 of 2');
    await picture('tasks-first');
    await page.selectOption('#models', 'talker');
    await shows('try-text', 'This model declares no tasks. Choose one that does above: classifier.');
    await shows('experts-count', '1 of 3');
  });

  it.each([
    ['goes to a model with tasks that opens later', undefined, 'classifier'],
    ['stays with the model that the visitor chose', 'other', 'other'],
  ])('%s', async (_, chosen, expected) => {
    await open({}, true, ['talker', 'other', 'classifier']);
    const [talker, other, classifier] = server.engines;
    for (const engine of [talker!, other!]) engine.model = { ...engine.model!, tasks: {} };
    const opened = classifier!.model!;
    classifier!.model = undefined;
    classifier!.enter('loading');
    await page.reload();
    await shows('try-text', /^This model declares no tasks\.$/);
    expect(await page.inputValue('#models')).toBe('talker');
    if (chosen !== undefined) await page.selectOption('#models', chosen);
    classifier!.model = opened;
    classifier!.enter('ready');
    await expect.poll(() => page.locator('#models option').count(), { timeout: 10_000 }).toBe(3);
    await shows('ready', /^ready$/);
    expect(await page.inputValue('#models')).toBe(expected);
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
