import { existsSync, mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { pathToFileURL } from 'node:url';
import type { EngineConfig } from '../../src/config/engine-config.js';
import type { EngineClient } from '../../src/engine/engine-client.js';
import { MINI, REPO } from './server-process.js';

/** Imports a module that `npm run build:ts` compiled. Processes and threads start only from compiled files. */
export async function compiled<T>(path: string): Promise<T> {
  const file = join(REPO, 'dist', path);
  if (!existsSync(file)) throw new Error(`${file} is missing: run npm run build:ts`);
  return (await import(/* @vite-ignore */ pathToFileURL(file).href)) as T;
}

/** Starts an engine process with the bundled model. Resolves when it is ready. */
export async function startEngine(more: Partial<EngineConfig> = {}): Promise<EngineClient> {
  const packDir = mkdtempSync(join(tmpdir(), 'sida-packs-'));
  const module = await compiled<{ EngineClient: typeof EngineClient }>('engine/engine-client.js');
  const engine = new module.EngineClient({
    model: MINI,
    alias: undefined,
    packDir,
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
    memoryBudget: '50%',
    expertPeers: undefined,
    peerKey: undefined,
    hostBudget: '0',
    cpuExperts: 'auto',
    threads: 1,
    policy: 'farthest-next-use',
    predictor: 'auto',
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
  engine.start();
  await new Promise<void>((resolve, reject) => {
    const off = engine.onState(({ phase, detail }) => {
      if (phase === 'ready') resolve();
      else if (phase === 'failed') reject(new Error(detail));
      else return;
      off();
    });
  });
  engine.onState(({ phase }) => {
    if (phase === 'closed') rmSync(packDir, { recursive: true, force: true });
  });
  return engine;
}
