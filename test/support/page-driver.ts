import { mkdirSync } from 'node:fs';
import { join } from 'node:path';
import { AxeBuilder } from '@axe-core/playwright';
import type { Browser, Page } from 'playwright-core';
import { expect } from 'vitest';
import { REPO } from './sida-process.js';

const PICTURES = join(REPO, 'build/page');

/** The server's page in a browser. Pictures go to build/page. */
export class PageDriver {
  readonly page: Page;
  readonly requested: string[] = [];
  /** Exceptions, and what the content security policy has stopped. */
  readonly broken: string[] = [];

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
    page.setDefaultTimeout(30_000);
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

  /** Answers arrive in many small pieces from now on, however fast the server is; or again as they come. */
  async pace(paced: boolean): Promise<void> {
    await this.page.evaluate(`{
      window.fetchUnpaced ??= window.fetch;
      const pieces = () => new TransformStream({
        async transform(bytes, controller) {
          for (let at = 0; at < bytes.length; at += 100) {
            await new Promise((resolve) => setTimeout(resolve, 2));
            controller.enqueue(bytes.subarray(at, at + 100));
          }
        },
      });
      window.fetch = !${paced} ? window.fetchUnpaced : async (...request) => {
        const response = await window.fetchUnpaced(...request);
        return new Response(response.body?.pipeThrough(pieces()), response);
      };
    }`);
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
