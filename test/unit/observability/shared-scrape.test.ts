import { expect, it } from 'vitest';
import { sharedScrape } from '../../../src/observability/shared-scrape.js';

it('is made once for those who ask meanwhile, and anew afterwards', async () => {
  let made = 0;
  const scrape = sharedScrape(async () => {
    made += 1;
    await new Promise((resolve) => setTimeout(resolve, 10));
    return `text ${made}`;
  });
  expect(await Promise.all([scrape(), scrape(), scrape()])).toEqual(['text 1', 'text 1', 'text 1']);
  expect(await scrape()).toBe('text 2');
});

it('fails for all who ask meanwhile, and is made anew afterwards', async () => {
  let made = 0;
  const scrape = sharedScrape(() => {
    made += 1;
    return made === 1 ? Promise.reject(new Error('no')) : Promise.resolve('text');
  });
  expect((await Promise.allSettled([scrape(), scrape()])).map(({ status }) => status)).toEqual([
    'rejected',
    'rejected',
  ]);
  expect(await scrape()).toBe('text');
});
