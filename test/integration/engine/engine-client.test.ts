import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { cpSync, existsSync, mkdirSync, mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath, pathToFileURL } from 'node:url';
import { afterAll, afterEach, beforeAll, describe, expect, it } from 'vitest';
import type { EngineConfig } from '../../../src/config/engine-config.js';
import type { EngineClient } from '../../../src/engine/engine-client.js';
import type { CompletionDelta, JobResult } from '../../../src/protocol/engine-messages.js';
import type { TaskJob, TaskResult } from '../../../src/tasks/registry.js';
import { DIST } from '../../support/sida-process.js';
import { alive, otherTokenizer } from './process-fixture.js';

const root = fileURLToPath(new URL('../../..', import.meta.url));
const addon = process.env.SIDA_ADDON ?? `${root}build/addon/Release/sida.node`;
const hasAddon = existsSync(addon);
if (!hasAddon) console.warn(`SKIPPED: the engine process, ${addon} is not built`);

const LABELS = ['negative', 'positive'];
const SENTENCES = ['a fine film', 'dreadful and boring', 'it is what it is', 'charming , but far too long'];
const classify = (inputs = SENTENCES): TaskJob => {
  return { kind: 'classify', inputs: inputs.map((text) => `sst2 sentence: ${text}`), labels: LABELS };
};
const complete = (prompts: (string | number[])[], maxTokens: number): TaskJob => {
  return { kind: 'complete', prompts, maxTokens, stop: [], logprobs: null, stream: true };
};

/** Returns the part of a result that must not depend on the run: everything but costs and times. */
function answer(given: JobResult): unknown {
  const result = given as TaskResult;
  if (result.kind === 'classify') return result.data;
  return result.kind === 'complete' ? result.choices : undefined;
}

describe.skipIf(!hasAddon)('engine process', () => {
  let scratch: string;
  let Handle: typeof EngineClient;
  let engine: EngineClient | undefined;
  let golden: unknown;

  const config = (more: Partial<EngineConfig> = {}): EngineConfig => ({
    model: `${root}models/switch-mini`,
    alias: undefined,
    packDir: join(scratch, 'packs'),
    checkTensors: 'none',
    sampling: 'greedy',
    experts: 'auto',
    dense: 'auto',
    activations: 'f32',
    kv: 'f32',
    kvWindows: 1,
    kvStates: 4,
    prefixCache: 'per-key',
    device: 'cpu',
    expertPeers: undefined,
    peerKey: undefined,
    memoryBudget: '100%',
    hostBudget: '0',
    cpuExperts: 'auto',
    threads: 1,
    policy: 'lru',
    predictor: 'none',
    hashFunction: 'auto',
    routing: 'exact',
    routingK: 1,
    queuedBatches: 4,
    routeAhead: 1,
    cudaGraphs: 'auto',
    predictorDevice: 'cpu',
    maxBatchTokens: 512,
    context: 'auto',
    kvTokens: 768,
    batchWaitMs: 1,
    maxInputBytes: 65_536,
    linkBandwidth: 0,
    linkLatencyMs: 0,
    readDepth: 0,
    ...more,
  });

  function settled(handle: EngineClient, phases: string[]): Promise<string> {
    return new Promise((resolve) => {
      const look = () => {
        if (!phases.includes(handle.state.phase)) return;
        off();
        resolve(handle.state.phase);
      };
      const off = handle.onState(look);
      look();
    });
  }

  async function ready(more: Partial<EngineConfig> = {}): Promise<EngineClient> {
    engine = new Handle(config(more));
    engine.start();
    expect(await settled(engine, ['ready', 'failed']), engine.state.detail).toBe('ready');
    return engine;
  }

  let jobs = 0;
  function run(
    request: TaskJob,
    signal = new AbortController().signal,
    onDelta?: (d: CompletionDelta) => void,
  ) {
    return engine!.run(`job-${jobs++}`, request, { signal, ...(onDelta && { onDelta }) });
  }

  beforeAll(async () => {
    process.env.SIDA_ADDON = addon;
    scratch = mkdtempSync(join(tmpdir(), 'sida-engine-'));
    mkdirSync(join(scratch, 'packs'));
    const module = pathToFileURL(join(DIST, 'engine', 'engine-client.js')).href;
    ({ EngineClient: Handle } = (await import(/* @vite-ignore */ module)) as {
      EngineClient: typeof EngineClient;
    });
    await ready();
    golden = answer(await run(classify()));
    await engine?.close(0);
  }, 120_000);

  afterEach(() => engine?.close(0));
  afterAll(() => {
    if (scratch) rmSync(scratch, { recursive: true, force: true });
  });

  it('reports the model it serves', async () => {
    const { model } = await ready();
    expect(model).toMatchObject({
      name: 'switch-mini',
      hasTokenizer: true,
      formats: { experts: { dtype: 'bf16' } },
    });
    expect(Object.keys(model!.tasks)).toContain('sst2');
    expect(golden).toMatchObject([{ label: 'positive' }, { label: 'negative' }, {}, {}]);
  }, 60_000);

  it.skipIf(process.platform !== 'linux')(
    'has none of the secrets of its parent',
    async () => {
      const secrets = {
        SIDA_API_KEY: 'a-secret of clients',
        SIDA_REDIS: 'redis://:a-secret@127.0.0.1:1',
        AWS_SECRET_ACCESS_KEY: 'a-secret',
        HF_TOKEN: 'a-secret',
        PGPASSWORD: 'a-secret',
      };
      Object.assign(process.env, secrets);
      try {
        const { pid } = await ready();
        const environment = readFileSync(`/proc/${pid}/environ`, 'utf8');
        expect(environment).toContain('SIDA_ADDON=');
        expect(environment).not.toContain('a-secret');
        for (const name of Object.keys(secrets)) expect(environment).not.toContain(name);
      } finally {
        for (const name of Object.keys(secrets)) delete process.env[name];
      }
    },
    60_000,
  );

  it('gives the same bits with few slots, in company and alone', async () => {
    await ready({ memoryBudget: '10%', policy: 'fifo', queuedBatches: 1 });
    const company = [classify(SENTENCES.toReversed()), complete(['the film is', 'a'], 20)].map((request) =>
      run(request),
    );
    const result = await run(classify());
    expect(answer(result)).toEqual(golden);
    expect(result.experts.needed).toBe(result.experts.resident + result.experts.loaded);
    expect(result.experts.loaded).toBeGreaterThan(0);
    expect(result.experts.bytes).toBe(result.experts.loaded * engine!.model!.plan.slot);
    await Promise.all(company);
    const alone = await Promise.all(SENTENCES.map((text) => run(classify([text]))));
    expect(alone.map((each) => (answer(each) as unknown[])[0])).toEqual(golden);
  }, 60_000);

  it('frees the cache of a cancelled job and answers the others', async () => {
    await ready();
    const abort = new AbortController();
    const cancelled = run(complete([[5, 6, 7]], 700), abort.signal, () => abort.abort());
    await expect(cancelled).rejects.toMatchObject({ code: 'cancelled' });
    expect(answer(await run(classify()))).toEqual(golden);
    const reply = await engine!.control({ kind: 'usage' });
    if (reply.kind !== 'usage') throw new Error();
    expect(reply.usage.kvPagesFree).toBe(reply.usage.kvPages);
  }, 60_000);

  it('is replaced after a kill: running jobs are rejected, answers and the budget stay the same', async () => {
    await ready();
    const { plan } = engine!.model!;
    const lower = await engine!.control({ kind: 'set-budget', device: '25%' });
    const running = run(complete([[5, 6, 7]], 700));
    process.kill(engine!.pid!, 'SIGKILL');
    await expect(running).rejects.toMatchObject({ code: 'engine_crashed' });
    await expect(run(classify())).rejects.toMatchObject({ code: 'not_ready' });
    await settled(engine!, ['ready']);
    expect(engine!.restarts).toBe(1);
    expect(answer(await run(classify()))).toEqual(golden);
    const reply = await engine!.control({ kind: 'usage' });
    if (reply.kind !== 'usage' || lower.kind !== 'set-budget') throw new Error();
    expect(reply.usage.budgetBytes).toBe(lower.usage.budgetBytes);
    expect(reply.usage.peakBytes).toBeLessThanOrEqual(plan.fixed + plan.expertBytes / 4);
  }, 60_000);

  it('ends when its parent is killed', async () => {
    const module = JSON.stringify(pathToFileURL(join(DIST, 'engine', 'engine-client.js')).href);
    const code = `const { EngineClient } = await import(${module});
      const engine = new EngineClient(${JSON.stringify(config())});
      engine.onState(({ phase }) => phase === 'ready' && console.log(engine.pid));
      engine.start();`;
    const parent = spawn(process.execPath, ['--input-type=module', '-e', code], {
      stdio: ['ignore', 'pipe', 2],
    });
    const pid = Number((await once(parent.stdout!, 'data'))[0]);
    expect(alive(pid)).toBe(true);
    parent.kill('SIGKILL');
    await expect.poll(() => alive(pid)).toBe(false);
  }, 60_000);

  it('sends counters and drains before it closes', async () => {
    await ready();
    await run(classify());
    await expect.poll(() => engine!.counters?.batches).toBeGreaterThan(0);
    expect(engine!.counters).toMatchObject({ activeSequences: 0, tablesQueued: 0 });
    const last = run(classify());
    const closed = engine!.close(10_000);
    await expect(run(classify())).rejects.toMatchObject({ code: 'shutting_down' });
    expect(answer(await last)).toEqual(golden);
    await closed;
    expect(engine!.state.phase).toBe('closed');
    expect(engine!.pid).toBeUndefined();
  }, 60_000);

  it.each<[string, (directory: string) => void, Partial<EngineConfig>, string]>([
    ['no model', () => rmSync(join(scratch, 'broken'), { recursive: true }), {}, 'checkpoint_invalid'],
    ['a tokenizer of another model', otherTokenizer, {}, 'checkpoint_invalid'],
    ['a budget below the smallest', () => {}, { memoryBudget: '1MiB' }, 'budget_too_small'],
  ])(
    'fails for good with %s',
    async (_, spoil, more, code) => {
      const model = join(scratch, 'broken');
      cpSync(`${root}models/switch-mini`, model, { recursive: true });
      spoil(model);
      engine = new Handle(config({ model, ...more }));
      engine.start();
      expect(await settled(engine, ['ready', 'failed'])).toBe('failed');
      expect(engine.state.error?.code, engine.state.detail).toBe(code);
      await new Promise((resolve) => setTimeout(resolve, 300));
      expect([engine.restarts, engine.state.phase]).toEqual([0, 'failed']);
    },
    60_000,
  );
});
