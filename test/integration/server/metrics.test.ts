// What the metrics of generations count, on a real server: each test compares them before and after known requests.
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { VERSION } from '../../../src/version.js';
import { type Metric, metricsOf, REPO, ServerProcess } from '../../support/server-process.js';

const FIXTURE = join(REPO, 'test/fixtures/olmoe-tiny');
const PAGE_TOKENS = 16;

let server: ServerProcess;
beforeAll(async () => {
  server = await ServerProcess.start([
    ...['--model', FIXTURE, '--memory-budget', '100%', '--max-batch-tokens', '64', '--kv-tokens', '1024'],
  ]);
});
afterAll(() => server.stop());

const tokens = (seed: number, length: number): number[] =>
  Array.from({ length }, (_, i) => 3 + ((seed * 31 + i * i * 7 + i) % 100));

/** The metrics once the engine has reported that it rests. It reports 100 ms after its last step. */
async function atRest(of: ServerProcess = server): Promise<Metric> {
  await new Promise((resolve) => setTimeout(resolve, 500));
  let metric = await metricsOf(of);
  await of.until(async () => {
    metric = await metricsOf(of);
    return metric('sida_active_sequences') + metric('sida_waiting_sequences') === 0;
  });
  return metric;
}

/** How much each metric has grown while `run` ran. */
async function growth(run: () => Promise<unknown>): Promise<Metric> {
  const before = await atRest();
  await run();
  const after = await atRest();
  return (name) => after(name) - (name.includes('{') ? valueOr0(before, name) : before(name));
}

/** A histogram has no values for a label before its first. */
function valueOr0(metric: Metric, name: string): number {
  try {
    return metric(name);
  } catch {
    return 0;
  }
}

const complete = (more: object) => server.post('/v1/completions', more);
const FIRST = 'sida_time_to_first_token_seconds';
const BETWEEN = 'sida_time_between_tokens_seconds';
const KIND = '{kind="complete"}';

describe('streams', () => {
  it('count one time to the first token, and a time between tokens for every further one', async () => {
    const begun = performance.now();
    const grown = await growth(() => complete({ prompt: tokens(1, 20), max_tokens: 24, stream: true }));
    const seconds = (performance.now() - begun) / 1000;
    expect(grown(`${FIRST}_count${KIND}`)).toBe(1);
    expect(grown(`${BETWEEN}_count${KIND}`)).toBe(23);
    const sums = [grown(`${FIRST}_sum${KIND}`), grown(`${BETWEEN}_sum${KIND}`)];
    for (const sum of sums) expect(sum).toBeGreaterThan(0);
    expect(sums[0]! + sums[1]!).toBeLessThan(seconds);
    expect(grown('sida_prompt_tokens_total')).toBe(20);
    expect(grown('sida_generated_tokens_total')).toBe(24);
  });

  it('count the tokens of each choice', async () => {
    const request = { prompt: tokens(2, 5), max_tokens: 6, n: 3, temperature: 1, seed: 1, stream: true };
    const grown = await growth(() => complete(request));
    const generated = grown('sida_generated_tokens_total');
    expect(generated).toBeGreaterThan(6);
    expect(grown(`${FIRST}_count${KIND}`)).toBe(1);
    expect(grown(`${BETWEEN}_count${KIND}`)).toBe(generated - 3);
  });

  it('leave out answers that come as a whole', async () => {
    const grown = await growth(() => complete({ prompt: tokens(3, 7), max_tokens: 4 }));
    expect(grown(`${FIRST}_count${KIND}`)).toBe(0);
    expect(grown(`${BETWEEN}_count${KIND}`)).toBe(0);
    expect([grown('sida_prompt_tokens_total'), grown('sida_generated_tokens_total')]).toEqual([7, 4]);
  });
});

it('the prefix cache counts the tokens that it was asked for and those that it had', async () => {
  const prompt = tokens(4, 40);
  const [asked, had] = ['sida_prefix_cache_queried_tokens_total', 'sida_prefix_cache_hit_tokens_total'];
  const first = await growth(() => complete({ prompt, max_tokens: 2 }));
  expect([first(asked), first(had)]).toEqual([40, 0]);
  const again = await growth(() => complete({ prompt, max_tokens: 2 }));
  expect([again(asked), again(had)]).toEqual([40, 39]);
  // Embeddings need the states of all tokens.
  const embedded = await growth(() => server.post('/v1/embeddings', { input: [prompt] }));
  expect([embedded('sida_prompt_tokens_total'), embedded(asked)]).toEqual([40, 0]);
});

it('gauges follow what runs, waits and is kept', async () => {
  const crowded = await ServerProcess.start([
    ...['--model', FIXTURE, '--memory-budget', '100%', '--max-batch-tokens', '64', '--kv-tokens', '256'],
  ]);
  try {
    const pages = 256 / PAGE_TOKENS;
    const request = (seed: number) => ({
      prompt: tokens(seed, 40),
      max_tokens: 200,
      temperature: 2,
      seed,
      stream: true,
    });
    const seen: { active: number; waiting: number; used: number }[] = [];
    const answers = Promise.all([1, 2, 3, 4].map((seed) => crowded.post('/v1/completions', request(seed))));
    let ended = false;
    void answers.finally(() => {
      ended = true;
    });
    while (!ended) {
      const metric = await metricsOf(crowded);
      const [used, cached, free] = ['used', 'cached', 'free'].map((part) => metric(`sida_kv_pages_${part}`));
      if (metric('sida_kv_pages') > 0) expect(used! + cached! + free!).toBe(pages);
      seen.push({
        active: metric('sida_active_sequences'),
        waiting: metric('sida_waiting_sequences'),
        used: used!,
      });
      await new Promise((resolve) => setTimeout(resolve, 10));
    }
    for (const { status } of await answers) expect(status).toBe(200);
    // There is no room for all four, so that at some time one waits while others run.
    expect(seen.some(({ active, waiting, used }) => active > 0 && waiting > 0 && used > 0)).toBe(true);
    for (const { active, waiting } of seen) expect(active + waiting).toBeLessThanOrEqual(4);
    const rests = await atRest(crowded);
    expect(rests('sida_preemptions_total')).toBeGreaterThan(0);
    expect(rests('sida_kv_pages_used')).toBe(0);
    expect(rests('sida_kv_pages_cached')).toBeGreaterThan(0);
  } finally {
    await crowded.stop();
  }
});

it('GET /admin/budget says how KV pages and experts share the device', async () => {
  await complete({ prompt: tokens(6, 40), max_tokens: 30 });
  const metric = await atRest();
  const { device } = (await server.get('/admin/budget')).body;
  const { kv, experts } = device;
  const bytes = kv.used_bytes + kv.cached_bytes + kv.free_bytes;
  const page = bytes / metric('sida_kv_pages');
  for (const part of ['used', 'cached', 'free'])
    expect(kv[`${part}_bytes`], part).toBe(page * metric(`sida_kv_pages_${part}`));
  expect(kv.cached_bytes).toBeGreaterThan(0);
  const { layers } = (await server.get('/admin/experts')).body;
  const resident = layers.flatMap((layer: { experts: { state: string }[] }) =>
    layer.experts.filter(({ state }) => state === 'resident'),
  ).length;
  const slot = experts.slot_bytes / metric('sida_device_slots');
  expect(resident).toBeGreaterThan(0);
  expect(experts.resident_bytes % resident).toBe(0);
  expect(experts.resident_bytes / resident).toBeLessThanOrEqual(slot);
  expect(bytes + experts.slot_bytes).toBeLessThan(device.used_bytes);
});

it('sida_build_info names the versions, the device and the kernels', async () => {
  const { body } = await server.get('/metrics');
  const line = body.split('\n').find((each: string) => each.startsWith('sida_build_info{'));
  expect(line).toMatch(
    new RegExp(
      `^sida_build_info\\{version="${VERSION}",node="${process.versions.node}",isa="(scalar|avx\\w+)",device="cpu"\\} 1$`,
    ),
  );
});
