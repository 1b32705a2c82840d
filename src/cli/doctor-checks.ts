/** The checks of `sida doctor`. None of them throws: what goes wrong is what they report. */
import { randomBytes } from 'node:crypto';
import { mkdir, open, rm } from 'node:fs/promises';
import { connect } from 'node:net';
import { freemem, totalmem } from 'node:os';
import { join } from 'node:path';
import { formatBytes } from '../config/bytes.js';
import { loadAddon } from '../native/addon.js';
import type { NativeAddon } from '../native/addon-types.js';

export interface Check {
  name: string;
  result: 'ok' | 'warn' | 'fail';
  found: string;
  /** What to do; absent when there is nothing to do. */
  hint?: string;
}

const DISK_TEST_BYTES = 64 << 20;
const SLOW_DISK = 200e6;
const LITTLE_MEMORY = 1 << 30;

export async function checkMachine(packDir: string): Promise<Check[]> {
  const { addon, check } = checkAddon();
  return [
    checkNode(),
    check,
    ...(addon === undefined ? [] : [checkCpu(addon), checkCuda(addon)]),
    checkMemory(),
    ...(addon === undefined ? [] : [await checkDisk(addon, packDir)]),
    await checkRedis(),
  ];
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

function checkCuda(addon: NativeAddon): Check {
  const { compiled, devices, message } = addon.cuda();
  const found = `${compiled ? `${devices} devices` : 'not built in'}${message === '' ? '' : `: ${message}`}`;
  return { name: 'CUDA', result: 'ok', found: `${found} (not needed for --device cpu)` };
}

function checkMemory(): Check {
  // Newer Nodes know the limit of the container; the machine's free memory is the next best.
  const available = process.availableMemory?.() ?? freemem();
  const check: Check = {
    name: 'memory',
    result: 'ok',
    found: `${formatBytes(available)} available of ${formatBytes(totalmem())}`,
  };
  if (available >= LITTLE_MEMORY) return check;
  return { ...check, result: 'warn', hint: 'Choose --memory-budget well below what is available' };
}

async function checkDisk(addon: NativeAddon, packDir: string): Promise<Check> {
  const name = 'disk';
  const path = join(packDir, `.doctor-${process.pid}-${randomBytes(4).toString('hex')}`);
  try {
    await mkdir(packDir, { recursive: true });
    const file = await open(path, 'wx');
    try {
      // Random bytes, since file systems that compress would read zeros from nowhere.
      const piece = randomBytes(4 << 20);
      for (let written = 0; written < DISK_TEST_BYTES; written += piece.length) await file.write(piece);
      await file.sync();
    } finally {
      await file.close();
    }
    const rate = addon.measureDiskRead(path, DISK_TEST_BYTES);
    const found = `${(rate / 1e6).toFixed(0)} MB/s reading from ${packDir}`;
    if (rate >= SLOW_DISK) return { name, result: 'ok', found };
    return {
      name,
      result: 'warn',
      found,
      hint: 'Experts are read from here: put --pack-dir on a faster disk',
    };
  } catch (error) {
    return {
      name,
      result: 'fail',
      found: (error as Error).message,
      hint: `Make ${packDir} writable on a local disk, or choose another --pack-dir`,
    };
  } finally {
    await rm(path, { force: true }).catch(() => undefined);
  }
}

async function checkRedis(): Promise<Check> {
  const reply = await pingRedis('127.0.0.1', 6379, 500);
  const found =
    reply === undefined ? 'nothing answers at 127.0.0.1:6379; not needed' : `${reply}; not needed`;
  return { name: 'Redis', result: 'ok', found };
}

function pingRedis(host: string, port: number, timeoutMs: number): Promise<string | undefined> {
  return new Promise((resolve) => {
    const socket = connect({ host, port });
    const finish = (reply: string | undefined) => {
      socket.destroy();
      resolve(reply);
    };
    socket.setTimeout(timeoutMs, () => finish(undefined));
    socket.once('error', () => finish(undefined));
    socket.once('connect', () => socket.write('PING\r\n'));
    socket.once('data', (data) => {
      const line = data.toString('latin1').split('\r\n')[0]!;
      finish(line === '+PONG' || line.startsWith('-NOAUTH') ? `answers at ${host}:${port}` : undefined);
    });
  });
}
