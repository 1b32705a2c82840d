// Shared by the tests of the addon: packs, engines, batches and the errors that calls throw.
import { mkdirSync, mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll } from 'vitest';
import { convertCheckpoint } from '../../src/checkpoint/converter.js';
import { loadAddon } from '../../src/native/addon.js';
import type { BatchLimits, Engine, EngineOptions, NativeBatch } from '../../src/native/addon-types.js';

export const REPO = join(import.meta.dirname, '../..');
export const MINI = join(REPO, 'models/switch-mini');
export const addon = loadAddon();

export const root = mkdtempSync(join(tmpdir(), 'sida-native-'));
afterAll(() => rmSync(root, { recursive: true, force: true }));

let directories = 0;
/** A new directory, which is removed after the tests of the file. */
export function fresh(): string {
  directories += 1;
  const path = join(root, String(directories));
  mkdirSync(path);
  return path;
}

/** The pack of a model in its own types. */
export async function packOf(model: string): Promise<string> {
  const { pack } = await convertCheckpoint({
    model,
    out: join(fresh(), 'pack'),
    experts: 'auto',
    dense: 'auto',
  });
  return pack;
}

export const NO_TIERS = { hostBudgetBytes: 0, linkBandwidth: 0, linkLatency: 0 };

/** An engine with this share of the memory between its smallest and its resident budget. */
export function openEngine(
  pack: string,
  limits: BatchLimits,
  share = 1,
  more: Partial<EngineOptions> = {},
): Engine {
  const { smallest, resident } = addon.planMemory({ pack }, limits);
  const budgetBytes = smallest + Math.floor(share * (resident - smallest));
  return new addon.Engine({ pack, budgetBytes, ...NO_TIERS, ...limits, ...more });
}

/** A pass of one sequence of the first stack. */
export const passOf = (
  tokens: Iterable<number>,
  sequence = 1,
  more: Partial<NativeBatch> = {},
): NativeBatch => {
  const ids = Int32Array.from(tokens);
  return {
    ...{ stack: 0, sequences: Int32Array.of(sequence) },
    ...{ offsets: Int32Array.of(0, ids.length), tokens: ids, ...more },
  };
};

/** The error that `body` throws. */
export function thrown(body: () => unknown): {
  code?: string;
  message: string;
  details?: Record<string, number>;
} {
  try {
    body();
  } catch (error) {
    return error as Error;
  }
  throw new Error('nothing was thrown');
}
