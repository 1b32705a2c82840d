import { mkdirSync } from 'node:fs';
import { join } from 'node:path';
import { AxeBuilder } from '@axe-core/playwright';
import type { Browser, CDPSession, Page } from 'playwright-core';
import { expect } from 'vitest';
import { REPO } from './sida-process.js';

const PICTURES = join(REPO, 'build/page');

/** The server's page in a browser. Pictures go to build/page. */
export class PageDriver {
  readonly page: Page;
  readonly requested: string[] = [];
  /** Exceptions, and what the content security policy has stopped. */
  readonly broken: string[] = [];
  #network: CDPSession | undefined;

  private constructor(page: Page) {
    this.page = page;
    page.on('request', (request) => this.requested.push(request.url()));
    page.on('pageerror', (error) => this.broken.push(error.message));
    page.on('console', (message) => {
      if (/content security policy/i.test(message.text())) this.broken.push(message.text());
    });
  }

  static async open(browser: Browser, url: string, size?: { width: number; height: number }) {
    const page = await (await browser.newContext(size && { viewport: size })).newPage();
    page.setDefaultTimeout(10_000);
    const driver = new PageDriver(page);
    await driver.page.goto(url);
    return driver;
  }

  text(id: string): Promise<string> {
    return this.page.locator(`#${id}`).innerText();
  }

  async shows(id: string, what: string | RegExp): Promise<void> {
    await expect.poll(() => this.text(id)).toMatch(what);
  }

  async use(key: string): Promise<void> {
    await this.page.fill('#key', key);
    await this.page.click('#access button[type=submit]');
  }

  /** So that an answer comes over a time. Undefined: as fast as it can. */
  async slow(bytesPerSecond: number | undefined): Promise<void> {
    this.#network ??= await this.page.context().newCDPSession(this.page);
    const downloadThroughput = bytesPerSecond ?? -1;
    const conditions = { offline: false, latency: 0, downloadThroughput, uploadThroughput: -1 };
    await this.#network.send('Network.emulateNetworkConditions', conditions);
  }

  /** The accessibility rules that the page violates, in light and in dark, and where. */
  async violations(): Promise<string[][]> {
    const found: string[][] = [];
    for (const colorScheme of ['light', 'dark'] as const) {
      await this.page.emulateMedia({ colorScheme });
      // Without frames of other origins the results need no page of their own.
      const axe = new AxeBuilder({ page: this.page }).setLegacyMode();
      // Only colours change.
      if (colorScheme === 'dark') axe.withTags('cat.color');
      const { violations } = await axe.analyze();
      found.push(...violations.map(({ id, nodes }) => [colorScheme, id, ...nodes.map(({ html }) => html)]));
    }
    await this.page.emulateMedia({ colorScheme: null });
    return found;
  }

  async picture(name: string): Promise<void> {
    mkdirSync(PICTURES, { recursive: true });
    await this.page.screenshot({ path: join(PICTURES, `${name}.png`), fullPage: true });
  }
}
