/** `sida doctor`: checks what this machine has and lacks, and says what to do about each finding. */
import { once } from 'node:events';
import { totalmem } from 'node:os';
import { setTimeout as delay } from 'node:timers/promises';
import { Command } from 'commander';
import { resolveOptions } from '../config/resolve.js';
import { measureDiskRate } from '../machine/disk-rate.js';
import { freeMemory } from '../machine/free-memory.js';
import { loadAddon } from '../native/addon.js';
import type { CudaState, NativeAddon } from '../native/addon-types.js';
import { redisAddress } from '../queue/redis/redis-address.js';
import { producerClient } from '../queue/redis/redis-client.js';
import { RedisRefused, redisSettings } from '../queue/redis/redis-settings.js';
import { formatBytes } from '../text/bytes.js';
import { printJson, printLines } from '../text/print.js';
import { causeOf } from '../text/system-error.js';
import { type Check, checkModel } from './doctor-model.js';
import { EXIT } from './exit.js';
import { addFlags, givenFlags } from './flags.js';
import { PLAN_OPTIONS } from './plan.js';

const SLOW_DISK = 200e6;
const LINK_SECONDS = 0.2;
const LITTLE_MEMORY = 1 << 30;
const REDIS_MS = 3_000;

export function doctorCommand(): Command {
  const command = new Command('doctor')
    .argument('[model]', 'Hugging Face checkpoint, GGUF file or packed model')
    .option('--json', 'print JSON')
    .addHelpText(
      'after',
      '\nExamples:\n  sida doctor\n  sida doctor models/olmoe-mini\n  sida doctor --json --pack-dir /mnt/fast/packs\n  sida doctor --redis redis://10.0.0.5:6379',
    )
    .action(async (model: string | undefined, values: Record<string, unknown>) => {
      const sources = { flags: givenFlags(values), env: process.env };
      const { packDir, redis } = resolveOptions(['packDir', 'redis'], sources);
      const { checks, diskRate, gpu } = await checkMachine(packDir, redis);
      if (model !== undefined) checks.push(...(await checkModel(model, sources, diskRate)));
      if (values.json === true) printJson({ checks, ...(gpu && { gpu }) });
      else printLines(...describe(checks));
      if (checks.some(({ result }) => result === 'fail')) process.exitCode = EXIT.failure;
    });
  const shown = ['packDir', 'redis', 'memoryBudget', 'device'] as const;
  return addFlags(command, ['packDir', 'redis', ...PLAN_OPTIONS], { shown });
}

function describe(checks: Check[]): string[] {
  const width = Math.max(...checks.map(({ name }) => name.length));
  // A finding may have several lines. Indent the later ones to the column of the first.
  const below = ' '.repeat('warn'.length + 2 + width + 2);
  return checks.flatMap(({ name, result, found, hint }) => {
    const text = hint === undefined ? found : `${found}\n→ ${hint}`;
    const [first, ...others] = text.split('\n');
    return [`${result.padEnd(4)}  ${name.padEnd(width)}  ${first}`, ...others.map((line) => below + line)];
  });
}

/** `diskRate` in bytes per second; undefined where it cannot be measured. */
async function checkMachine(
  packDir: string,
  redis?: string,
): Promise<{ checks: Check[]; diskRate?: number; gpu: CudaState['device'] }> {
  const { addon, check } = checkAddon();
  const cuda = addon?.cuda(LINK_SECONDS);
  const disk = addon && (await checkDisk(packDir));
  const checks = [
    checkNode(),
    check,
    ...(addon && cuda ? [checkCpu(addon), ...checkCuda(cuda)] : []),
    checkMemory(),
    ...(disk === undefined ? [] : [disk.check]),
    await checkRedis(redis),
  ];
  return { checks, gpu: cuda?.device, ...(disk?.rate !== undefined && { diskRate: disk.rate }) };
}

function checkNode(): Check {
  const [major, minor] = process.versions.node.split('.').map(Number) as [number, number];
  const enough = major > 20 || (major === 20 && minor >= 19);
  const check = {
    name: 'Node',
    result: enough ? ('ok' as const) : ('fail' as const),
    found: process.version,
  };
  return enough ? check : { ...check, hint: 'Install Node 20.19 or newer' };
}

function checkAddon(): { addon: NativeAddon | undefined; check: Check } {
  try {
    const addon = loadAddon();
    return { addon, check: { name: 'native addon', result: 'ok', found: `version ${addon.version}` } };
  } catch (error) {
    const check: Check = {
      name: 'native addon',
      result: 'fail',
      found: (error as Error).message,
      hint: 'npm run build:native',
    };
    return { addon: undefined, check };
  }
}

function checkCpu(addon: NativeAddon): Check {
  const { isa, avx2, fma, avx512, vnni, cores } = addon.cpuFeatures();
  const features = Object.entries({ avx2, fma, avx512, vnni })
    .filter(([, present]) => present)
    .map(([name]) => name);
  const check: Check = {
    name: 'CPU',
    result: 'ok',
    found: `kernels for ${isa}; ${features.join(', ') || 'no vector features'}; ${cores} cores`,
  };
  if (isa !== 'scalar') return check;
  return { ...check, result: 'warn', hint: 'Without AVX2 and FMA answers are the same, and slow' };
}

function checkCuda({ compiled, emulated, device, message }: CudaState): Check[] {
  if (device === undefined) {
    const found = `${compiled ? 'built in, no device' : 'not built in'}: ${message} (only --device cuda needs it)`;
    return [{ name: 'CUDA', result: '–', found }];
  }
  const {
    name,
    capability,
    driver,
    totalBytes,
    freeBytes,
    contextBytes,
    contextMeasured,
    copyRate = 0,
  } = device;
  const found = `${name}, compute capability ${capability}, driver ${driver || 'unknown'}`;
  const gpu: Check = emulated
    ? {
        name: 'CUDA',
        result: 'warn',
        found: `emulated: ${found}`,
        hint: "The addon emulates the GPU on the CPU: answers are a GPU's, the speed is not",
      }
    : { name: 'CUDA', result: 'ok', found };
  const memory: Check = {
    name: 'GPU memory',
    result: 'ok',
    found: `${formatBytes(freeBytes)} of ${formatBytes(totalBytes)} free; the context of a process takes ${formatBytes(contextBytes)}`,
  };
  const link: Check =
    copyRate > 0
      ? {
          name: 'GPU link',
          result: 'ok',
          found: `${(copyRate / 1e9).toPrecision(3)} GB/s from page-locked memory`,
        }
      : { name: 'GPU link', result: 'warn', found: `not measured: ${message}` };
  if (contextMeasured) return [gpu, memory, link];
  const hint = `That is the usual size. libnvidia-ml.so.1 tells the real one; it comes with the driver (in a container: NVIDIA_DRIVER_CAPABILITIES=compute,utility)`;
  return [gpu, { ...memory, result: 'warn', hint }, link];
}

function checkMemory(): Check {
  const available = freeMemory('cpu');
  const check: Check = {
    name: 'memory',
    result: 'ok',
    found: `${formatBytes(available)} available of ${formatBytes(totalmem())}`,
  };
  if (available >= LITTLE_MEMORY) return check;
  return { ...check, result: 'warn', hint: 'Choose --memory-budget well below what is available' };
}

async function checkDisk(packDir: string): Promise<{ check: Check; rate?: number }> {
  const name = 'disk';
  try {
    const rate = await measureDiskRate(packDir);
    const found = `${(rate / 1e6).toFixed(0)} MB/s reading from ${packDir}`;
    if (rate >= SLOW_DISK) return { check: { name, result: 'ok', found }, rate };
    const hint = 'Experts are read from here: put --pack-dir on a faster disk';
    return { check: { name, result: 'warn', found, hint }, rate };
  } catch (error) {
    const hint = `Make ${packDir} writable on a local disk, or choose another --pack-dir`;
    return { check: { name, result: 'fail', found: causeOf(error), hint } };
  }
}

/** `url` is undefined when no Redis is configured. The check is then skipped. */
export async function checkRedis(url: string | undefined): Promise<Check> {
  const name = 'Redis';
  if (url === undefined) {
    return { name, result: '–', found: 'not used; --redis checks one that machines share' };
  }
  const address = redisAddress(url);
  let reason = 'nothing answers';
  const client = producerClient(url).on('error', ({ message }) => {
    reason = message;
  });
  try {
    const answers = await Promise.race([
      once(client, 'ready').then(() => true),
      delay(REDIS_MS).then(() => false),
    ]);
    if (!answers) throw new Error(`${address}: ${reason}`);
    const { version, faults } = await redisSettings(client, address);
    if (faults.length === 0) {
      const found = `${version} at ${address}; appendonly, noeviction`;
      return { name, result: 'ok', found };
    }
    const found = `${version} at ${address}; ${faults.map((fault) => fault.found).join('; ')}`;
    return { name, result: 'warn', found, hint: faults.map(({ hint }) => hint).join('\n') };
  } catch (error) {
    if (error instanceof RedisRefused) {
      return { name, result: 'fail', found: error.message, hint: 'Name another node with --redis' };
    }
    const hint = 'Start Redis there, or name another with --redis; put its password into the URL';
    return { name, result: 'fail', found: (error as Error).message, hint };
  } finally {
    client.disconnect();
  }
}
