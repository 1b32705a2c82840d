// Another program takes memory of the server's cgroup. The server gives memory back, and later takes it again.
import { type ChildProcess, execFileSync, spawn } from 'node:child_process';
import { accessSync, constants, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';
import { expect } from 'vitest';
import { MemoryCgroup } from '../../bench/src/support/memory-cgroup.js';
import { ServeProcess } from '../../bench/src/support/serve-process.js';
import { REPO } from '../support/server-process.js';
import { fault } from './fault.js';

const MIB = 2 ** 20;
const LIMIT = 1600 * MIB;
const OTHER = 640;
const SHAPE = {
  ...JSON.parse(readFileSync(join(REPO, 'bench/scripts/shapes/olmoe-7b.json'), 'utf8')),
  ...{
    vocab_size: 2048,
    eos_token_id: 2047,
    hidden_size: 1024,
    intermediate_size: 512,
    num_hidden_layers: 6,
  },
};
const REQUEST = { prompt: [11, 7, 5, 3], max_tokens: 12, temperature: 0, logprobs: 1 };

interface Budget {
  mib: number;
  by: string | null;
}

async function budgetOf(server: ServeProcess): Promise<Budget> {
  const answer = await fetch(`${server.url}/admin/budget`);
  const { device, kept } = (await answer.json()) as { device: { budget_bytes: number }; kept: Budget };
  return { mib: Math.round(device.budget_bytes / MIB), by: kept.by };
}

async function answerOf(server: ServeProcess): Promise<string> {
  return JSON.stringify((await server.post<{ choices: unknown }>('/v1/completions', REQUEST)).choices);
}

/** Asks every second until the budget is as wanted, for `seconds` at most. Every answer has the bits of `golden`. */
async function watch(
  server: ServeProcess,
  golden: string,
  seconds: number,
  until?: (now: Budget) => boolean,
) {
  let now = await budgetOf(server);
  for (let second = 0; second < seconds && !until?.(now); second += 1) {
    expect(await answerOf(server)).toBe(golden);
    await delay(1000);
    now = await budgetOf(server);
  }
  expect(until?.(now) ?? true, JSON.stringify(now)).toBe(true);
  return now;
}

fault('another program takes the memory', async (report) => {
  try {
    accessSync('/sys/fs/cgroup/memory', constants.W_OK);
  } catch {
    report.note('not run: no memory cgroup can be made here');
    return;
  }
  const folder = mkdtempSync(join(tmpdir(), 'sida-pressure-'));
  const [config, pack] = [join(folder, 'config.json'), join(folder, 'pack')];
  const group = new MemoryCgroup(LIMIT);
  const [server, other]: [ServeProcess[], ChildProcess[]] = [[], []];
  try {
    writeFileSync(config, JSON.stringify(SHAPE));
    const make = [
      'bench/scripts/make-random-pack.mjs',
      '--config',
      config,
      '--out',
      pack,
      '--experts',
      'int8',
    ];
    execFileSync(process.execPath, make, { cwd: REPO, stdio: 'ignore' });
    const flags = '--context 512 --memory-budget 100% --memory-pressure yield --log-level warn'.split(' ');
    const own = await ServeProcess.start(['--model', pack, ...flags], { through: group.through });
    server.push(own);
    const golden = await answerOf(own);
    const { mib: most } = await watch(own, golden, 1);
    // It takes 32 MiB every tenth of a second, and holds them.
    const takes = `const all = []; setInterval(() => all.length < ${OTHER / 32} && all.push(Buffer.alloc(2 ** 25, 1)), 100)`;
    const [command, ...args] = [...group.through, process.execPath, '-e', takes];
    const taker = spawn(command!, args, { stdio: 'inherit' });
    other.push(taker);
    await watch(own, golden, 30, ({ mib, by }) => by === 'pressure' && mib < 0.75 * most);
    const { mib: held } = await watch(own, golden, 15);
    expect(taker.exitCode ?? taker.signalCode, 'the other program was killed').toBe(null);
    taker.kill();
    await watch(own, golden, 120, ({ mib, by }) => mib === most && by === null);
    report.note(`budget ${most} MiB, ${held} MiB beside the other, equal answers`);
    report.atMost('budget beside the other, of that before,', held / most, 0.75, '×');
  } finally {
    for (const child of other) child.kill();
    await Promise.all(server.map((each) => each.stop()));
    await group.remove();
    rmSync(folder, { recursive: true });
  }
});
