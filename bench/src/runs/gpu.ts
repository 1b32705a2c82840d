/** The GPU that measurements run on, and what fits it. */
import { execFileSync } from 'node:child_process';
import { SidaError } from '../../../dist/errors.js';
import type { CudaState } from '../../../dist/native/addon-types.js';
import { run } from '../support/processes.js';
import { visibleGpu } from '../systems/gpu-memory.js';

export interface Gpu {
  name: string;
  capability: string;
  totalBytes: number;
  /** The CPU emulates it: its speed means nothing. */
  emulated: boolean;
  /** Version of the driver; empty if nvidia-smi does not say. */
  driver: string;
}

const ADDON = new URL('../../../dist/native/addon.js', import.meta.url).href;

/** What a call of the addon returns, in a process of its own, so that no context stays on the GPU. */
export async function askAddon<T>(call: string): Promise<T> {
  const code = `import { loadAddon } from ${JSON.stringify(ADDON)}; console.log(JSON.stringify(loadAddon().${call}));`;
  return JSON.parse(await run(process.execPath, ['--input-type=module', '--eval', code])) as T;
}

/** Throws device_unavailable with the reason if there is none. */
export async function readGpu(): Promise<Gpu> {
  const { compiled, device, emulated, message } = await askAddon<CudaState>('cuda()');
  if (device === undefined) {
    throw new SidaError({
      code: 'device_unavailable',
      message: compiled
        ? `there is no GPU: ${message}`
        : `the addon was built without CUDA (${message}): rm -r build/addon && npm run build:native where nvcc is, on PATH or named by CUDACXX`,
    });
  }
  const { name, capability, totalBytes } = device;
  return { name, capability, totalBytes, emulated, driver: emulated ? '' : driverVersion() };
}

function driverVersion(): string {
  const args = ['--query-gpu=driver_version', '--format=csv,noheader', `--id=${visibleGpu()}`];
  try {
    return execFileSync('nvidia-smi', args, { encoding: 'utf8', stdio: ['ignore', 'pipe', 'ignore'] }).trim();
  } catch {
    return '';
  }
}

/** Identifies GPU and driver: results of another are measured again. */
export function gpuIdentity({ name, driver, emulated }: Gpu): string {
  return [emulated && !name.includes('emulated') ? `emulated ${name}` : name, driver].filter(Boolean).join(', driver ');
}
