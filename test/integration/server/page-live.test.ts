// The page in a browser, in front of the bundled models: memory as a slider. It needs Chromium.
import { existsSync } from 'node:fs';
import { type Browser, chromium, type Page } from 'playwright-core';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { ExpertPeerProcess } from '../../support/expert-peer-process.js';
import { CHROMIUM } from '../../support/install-tools.js';
import { PageDriver } from '../../support/page-driver.js';
import { ServerProcess } from '../../support/server-process.js';
import { TIMED } from '../../support/timed.js';

const hasChromium = existsSync(CHROMIUM);
if (!hasChromium) console.warn(`SKIPPED: the page and its slider, chromium is not at ${CHROMIUM}`);

const ARGS = [
  ...['--model', 'models/olmoe-mini', '--model', 'models/switch-words'],
  ...['--memory-budget', 'olmoe-mini=50%', '--memory-budget', 'switch-words=100%'],
];
const QUESTION = 'What is a mammal?';

describe.skipIf(!hasChromium)('the page in front of the bundled models', () => {
  let browser: Browser;
  let server: ServerProcess;
  let driver: PageDriver;
  let page: Page;
  /** Another page, which nobody uses, since a time and a number of its requests. */
  let idle: PageDriver;
  let idleMs: number;
  let idleRequests: number;
  beforeAll(async () => {
    server = await ServerProcess.start(ARGS);
    browser = await chromium.launch({ executablePath: CHROMIUM, args: ['--no-sandbox'] });
    driver = await PageDriver.open(browser, server.url, { width: 1280, height: 860 });
    page = driver.page;
  });
  afterAll(async () => {
    await browser.close();
    await server.stop();
    expect(driver.broken).toEqual([]);
  });

  const answered = () => page.waitForSelector('#ask-again');
  /** Of the engine, in bytes. */
  const device = async () => (await server.get('/admin/budget?model=olmoe-mini')).body.device;

  it('answers, and says what that cost', async () => {
    await driver.shows('experts-count', /in memory$/);
    await driver.shows('description', /^A toy that knows .*nonsense/);
    // An answer that comes within a moment has no speed.
    await driver.pace(true);
    await page.click(`text=${QUESTION}`);
    await answered();
    const about = await page.innerText('#chat-log .about');
    expect(about).toMatch(/^\d+ tokens, \d+ a second, the first after \d.*; prompt \d+; within [\d.]+ MiB\./);
    expect(about).toMatch(/\d+ experts needed: .*MiB loaded\.$/);
    expect(await driver.text('experts-count')).toMatch(/^\d+ of 192 in memory$/);
    await driver.picture('chat');
  });

  it('replays what the experts did in the answer, by itself only where motion is wanted', async () => {
    await page.emulateMedia({ reducedMotion: 'reduce' });
    await page.click('#replay button');
    await driver.shows('replay-text', /^Moment 1 of \d+: \d+ in use or loaded, \d+ evicted$/);
    const moments = Number(/of (\d+):/.exec(await driver.text('replay-text'))![1]);
    for (let at = 2; at <= moments; at += 1) {
      await page.click('text=Next moment');
      await driver.shows('replay-text', new RegExp(`^Moment ${at} of ${moments}:`));
    }
    await page.emulateMedia({ reducedMotion: 'no-preference' });
    await page.click('text=Now');
    await page.click('#replay button');
    await page.focus('#replay input');
    await page.keyboard.press('End');
    const [, at, of] = /Moment (\d+) of (\d+)/.exec(await driver.text('replay-text'))!;
    expect(at).toBe(of);
    // After its last moment the experts are where they are now.
    const replayed = await driver.text('experts-count');
    await page.click('text=Now');
    expect(await driver.text('experts-count')).toBe(replayed);
  });

  it('shows the experts of a token, and which of them were predicted', async () => {
    const colours = () => page.evaluate("document.getElementById('experts').toDataURL()");
    await page.click('#find-tokens');
    await page.waitForSelector('#tokens');
    const tokens = page.locator('#tokens button');
    const said = await page.innerText('#chat-log .markdown');
    expect((await tokens.allInnerTexts()).join('')).toContain(said.slice(0, 20));
    const before = await colours();
    await tokens.nth(2).hover();
    expect(await page.evaluate('document.activeElement.parentElement.id')).toBe('tokens');
    const about =
      /^“.+” took 24 experts of 6 layers; (the predictor named \d+ of them|nothing was predicted)\./;
    await driver.shows('token-text', about);
    await expect.poll(colours).not.toBe(before);
    // By the keyboard, and in words.
    await tokens.first().focus();
    await page.keyboard.press('ArrowRight');
    await expect.poll(() => tokens.nth(1).getAttribute('aria-pressed')).toBe('true');
    await page.click('text=As a table');
    const rows = await page.locator('#token-table tbody tr').allInnerTexts();
    expect(rows).toHaveLength(6);
    for (const row of rows)
      expect(row).toMatch(/^decoder\.\d\s+\d+(, \d+){3}\s+(nothing|\d+(, \d+){3}: \d right)$/);
    expect(await driver.violations()).toEqual([]);
    await driver.picture('tokens');
    await page.click('#token-text button');
    await driver.shows('token-text', 'Point at a token to see its experts.');
    await page.waitForSelector('#experts-table');
    await page.click('text=As a table');
  });

  it('draws in the colours that the system changes to', async () => {
    const drawn = (of: string) => page.evaluate(`document.querySelector('${of}').toDataURL()`);
    for (const canvas of ['#experts', '.charts canvas']) {
      await page.emulateMedia({ colorScheme: 'light' });
      const light = await drawn(canvas);
      await page.emulateMedia({ colorScheme: 'dark' });
      await expect.poll(() => drawn(canvas)).not.toBe(light);
      await page.emulateMedia({ colorScheme: 'light' });
      await expect.poll(() => drawn(canvas)).toBe(light);
    }
    await page.emulateMedia({ colorScheme: null });
  });

  it('names experts to the keyboard, and shows heat by use', async () => {
    await page.focus('#experts');
    for (const key of ['ArrowDown', 'ArrowRight']) await page.keyboard.press(key);
    await driver.shows('expert', /, expert 1: (in memory|on disk), used in \d+ passes$/);
    const colours = () => page.evaluate("document.getElementById('experts').toDataURL()");
    const before = await colours();
    await page.click('#heat');
    await driver.shows('heat-legend', /^never used\s+\d+ times$/);
    await expect.poll(colours).not.toBe(before);
    await page.click('#heat');
  });

  it('tells the price of a budget while the slider moves', async () => {
    const before = (await device()).budget_bytes;
    await page.evaluate(`{
      const slider = document.getElementById('budget');
      slider.value = slider.min;
      slider.dispatchEvent(new Event('input', { bubbles: true }));
    }`);
    await driver.shows(
      'price',
      /^Room for 1 % of the experts, .* MiB less: about \d+\.\d × the time of a token\.$/,
    );
    // Nothing has changed yet.
    expect((await device()).budget_bytes).toBe(before);
  });

  it('gives the same answer within the largest budget, and within the smallest', async () => {
    const said = await page.innerText('#chat-log .markdown');
    for (const key of ['End', 'Home', 'End']) {
      await page.focus('#budget');
      await page.keyboard.press(key);
      const { smallest_bytes: smallest } = await device();
      if (key === 'Home') await expect.poll(async () => (await device()).budget_bytes).toBe(smallest);
      else
        await expect
          .poll(async () => (await device()).experts.slot_bytes)
          .toBe((await device()).experts.all_bytes);
      await page.click('#ask-again');
      await driver.shows(
        'compared',
        /^The same answer, character by character\. \d+ and \d+ tokens a second\.$/,
      );
      expect(await page.locator('#comparison .markdown').allInnerTexts()).toEqual([said, said]);
      await driver.picture(key === 'Home' ? 'slider-smallest' : 'slider-largest');
    }
    await driver.pace(false);
    await driver.shows('experts-count', /^\d+ of 192 in memory$/);
    await page.click('#give-back');
    await expect
      .poll(async () => {
        const { experts } = await device();
        return experts.all_bytes - experts.slot_bytes;
      })
      .toBeGreaterThan(3.8 * 2 ** 20);
  });

  it('compares the model with and without prediction, and leaves it switched on', async () => {
    const enabled = async () => (await server.get('/admin/predictor?model=olmoe-mini')).body.enabled;
    await page.click('#compare');
    await page.waitForSelector('#stop-comparing');
    await expect.poll(enabled).toBe(false);
    await page.click('#stop-comparing');
    await driver.shows('prediction-text', 'Stopped.');
    await expect.poll(enabled).toBe(true);
    await page.click('#compare');
    await driver.shows(
      'prediction',
      /^The answers are the same\.\s+3 samples, medians of 3 rounds\s+With\s+Without\s+Time\s+\d+\.\d+ s\s+\d+\.\d+ s\s+Prefetched/,
    );
    // Nothing names experts ahead without it.
    expect(
      await page.locator('#prediction tr', { hasText: 'Prefetched' }).locator('td').last().innerText(),
    ).toBe('0');
    expect(await enabled()).toBe(true);
  });

  it('paints within a second', TIMED, async () => {
    const paints: number[] = [];
    idle = await PageDriver.open(browser, server.url);
    // Other tests run at the same time, so that one of several loads counts.
    for (let load = 0; load < 3; load += 1) {
      await idle.page.reload();
      await idle.shows('experts-count', /in memory$/);
      const painted = "performance.getEntriesByName('first-contentful-paint')[0].startTime";
      paints.push((await idle.page.evaluate(painted)) as number);
    }
    expect(Math.min(...paints)).toBeLessThan(1000);
    idleRequests = idle.requested.length;
    idleMs = performance.now();
  });

  it('has no violation of accessibility rules, whatever is open', async () => {
    await page.evaluate('for (const part of document.querySelectorAll("details")) part.open = true');
    await page.waitForSelector('#prediction table');
    expect(await driver.violations()).toEqual([]);
    await page.setViewportSize({ width: 360, height: 700 });
    for (const view of ['Memory', 'Experts', 'Ask']) {
      await page.click(`nav >> text=${view}`);
      expect(await driver.violations()).toEqual([]);
      await driver.picture(`phone-${view}`);
    }
    await page.setViewportSize({ width: 1280, height: 860 });
    await page.goto(`${server.url}/docs`);
    await page.waitForSelector('main section');
    expect(await driver.violations()).toEqual([]);
    await page.goto(server.url);
    await page.waitForSelector('#experts');
  });

  it('classifies with the other model', async () => {
    await page.selectOption('#model', 'switch-words');
    await page.fill('#classify input', 'oak');
    await page.click('#classify button');
    await driver.shows('scores', /^plant 0\.\d{3}/);
    expect(await driver.violations()).toEqual([]);
  });

  it('compares texts by their embeddings', async () => {
    await page.click('#panes >> text=Embed');
    await page.fill('#embed textarea', 'a violin\na violin\na river');
    await page.click('#embed button');
    await driver.shows('likeness', /^a violin 1\.000/);
    const [same, other] = (await driver.text('likeness')).match(/\d\.\d{3}/g)!.map(Number);
    expect(other).toBeLessThan(same!);
    expect(await driver.violations()).toEqual([]);
  });

  it('asks for little while it has nothing to do, which is not logged', async () => {
    const restMs = 15_000 - (performance.now() - idleMs);
    if (restMs > 0) await page.waitForTimeout(restMs);
    const windows = Math.ceil((performance.now() - idleMs) / 5000);
    expect(idle.requested.length - idleRequests).toBeLessThanOrEqual(windows);
    expect(idle.requested.length).toBeGreaterThan(idleRequests);
    const logged = server.output.split('\n').filter((line) => line.includes('"msg":"request"'));
    expect(logged.filter((line) => line.includes('"POST"')).length).toBeGreaterThan(3);
    expect(logged.filter((line) => /"GET".*"status":200/.test(line))).toEqual([]);
    await idle.page.context().close();
    expect(idle.broken).toEqual([]);
  });

  it('waits for a server that died, and goes on when it is back', async () => {
    await page.selectOption('#model', 'olmoe-mini');
    await page.selectOption('#conversation', { label: QUESTION });
    const said = await page.innerText('#chat-log');
    await page.fill('#chat-input', 'a draft');
    const { port } = server;
    await server.stop();
    // Sooner than by its looks at an idle server.
    await expect.poll(() => driver.text('status')).toBe('unreachable');
    expect(await page.evaluate("getComputedStyle(document.querySelector('aside')).opacity")).toBe('0.6');
    expect(await page.innerText('#chat-log')).toBe(said);
    server = await ServerProcess.launch(ARGS, [], port);
    await server.ready(60_000);
    await driver.shows('status', /^ready$/);
    await driver.shows('experts-count', /^\d+ of 192 in memory$/);
    expect(await page.innerText('#chat-log')).toBe(said);
    expect(await page.inputValue('#chat-input')).toBe('a draft');
    await page.press('#chat-input', 'Enter');
    await answered();
  });
});

describe.skipIf(!hasChromium)('the page of a server with an expert peer', () => {
  it('tells what the peer has computed, that it is gone, and that it is back', async () => {
    let peer = await ExpertPeerProcess.start('models/olmoe-mini', '2/2');
    const { address, port } = peer;
    const server = await ServerProcess.start(['--model', 'models/olmoe-mini', '--expert-peers', address]);
    const browser = await chromium.launch({ executablePath: CHROMIUM, args: ['--no-sandbox'] });
    try {
      const driver = await PageDriver.open(browser, server.url, { width: 1280, height: 860 });
      await driver.shows('peers', `${address}: connected, holds 96 experts, computed 0;`);
      await driver.page.click(`text=${QUESTION}`);
      await driver.page.waitForSelector('#ask-again');
      await driver.shows('peers-text', /^Expert peers computed \d+\.\d % of [\d,]+ experts needed\.$/);
      expect(await driver.violations()).toEqual([]);
      await driver.picture('peers');
      await peer.stop();
      await driver.shows('peers', `${address}: Connection refused. Its experts are loaded here.`);
      await driver.picture('peers-gone');
      peer = await ExpertPeerProcess.start('models/olmoe-mini', '2/2', port);
      await driver.shows('peers', `${address}: connected, holds 96 experts`);
      expect(driver.broken).toEqual([]);
    } finally {
      await browser.close();
      await server.stop();
      await peer.stop();
    }
  });
});
