// Takes the pictures of docs/pictures: the page in front of the bundled models. It needs Chromium.
//   node scripts/pictures.mjs [folder]
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { statSync } from 'node:fs';
import { join } from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';
import { fileURLToPath } from 'node:url';
import { chromium } from 'playwright-core';

const REPO = fileURLToPath(new URL('..', import.meta.url));
const TO = process.argv[2] ?? join(REPO, 'docs/pictures');
const PORT = 8377;
const URL_OF_PAGE = `http://127.0.0.1:${PORT}`;
const MOST_BYTES = 150_000;
const DESKTOP = { width: 1200, height: 780 };
const PHONE = { width: 390, height: 844 };

const server = spawn(
  process.execPath,
  [
    ...['bundle/cli/main.js', 'serve', 'models/olmoe-mini', 'models/switch-words'],
    ...['--port', String(PORT), '--memory-budget', 'olmoe-mini=70%', '--memory-budget', 'switch-words=50%'],
  ],
  { cwd: REPO, stdio: 'ignore' },
);
const browser = await chromium.launch({
  executablePath: process.env.CHROMIUM ?? '/usr/bin/chromium',
  args: ['--no-sandbox'],
});
try {
  await ready();
  const page = await browser.newPage({ viewport: DESKTOP });
  page.setDefaultTimeout(20_000);
  const picture = async (name) => {
    const path = join(TO, `${name}.png`);
    await page.screenshot({ path });
    const { size } = statSync(path);
    console.log(`${path}: ${size} bytes`);
    if (size > MOST_BYTES) throw new Error(`${name}.png has ${size} bytes, more than ${MOST_BYTES}`);
  };
  const looks = async (name, colorScheme, size = DESKTOP) => {
    await page.emulateMedia({ colorScheme });
    await page.setViewportSize(size);
    await delay(400);
    await picture(name);
  };
  await page.goto(URL_OF_PAGE);
  await page.waitForSelector('.welcome');
  await page.waitForSelector('#experts');
  await looks('page-first', 'light');
  await page.click('text=What kind of thing is a violin?');
  await page.waitForSelector('#ask-again');
  await delay(1500);
  await looks('slider-before', 'light');
  await page.evaluate(() => {
    const slider = document.getElementById('budget');
    slider.value = slider.min;
    slider.dispatchEvent(new Event('input', { bubbles: true }));
  });
  await looks('slider-while', 'light');
  await page.evaluate(() =>
    document.getElementById('budget').dispatchEvent(new Event('change', { bubbles: true })),
  );
  await page.waitForFunction(() => document.getElementById('give-back').disabled);
  await page.click('#ask-again');
  await page.waitForSelector('#compared');
  await delay(1500);
  await looks('page', 'light');
  await looks('page-dark', 'dark');
  await looks('page-phone', 'light', PHONE);
  await page.click('nav >> text=Experts');
  await page.click('#find-tokens');
  await page.waitForSelector('#tokens');
  await page.locator('#tokens button').nth(3).focus();
  await looks('page-phone-tokens', 'light', PHONE);
  await page.click('nav >> text=Memory');
  await looks('page-phone-memory', 'dark', PHONE);
} finally {
  await browser.close();
  server.kill('SIGTERM');
  await once(server, 'exit');
}

async function ready() {
  for (let tries = 0; tries < 600; tries++) {
    if (server.exitCode !== null) throw new Error(`the server ended with ${server.exitCode}`);
    const answer = await fetch(`${URL_OF_PAGE}/health/ready`).catch(() => undefined);
    if (answer?.ok) return;
    await delay(100);
  }
  throw new Error('the server did not become ready');
}
