// llama.cpp as a peer: the prompts that both get, and a run of it in a process of its own.
import { existsSync } from 'node:fs';
import { join, resolve } from 'node:path';
import { run } from '../../dist/support/processes.js';

const PEER = 'build/llama-peer';

/** Begins the command of a llama.cpp that leaves weights as the file has them. */
export const NO_REPACK = ['env', `LD_PRELOAD=${resolve(PEER, 'no-repack.so')}`];

export function requireLlama({ noRepack = false } = {}) {
  const needed = ['node_modules/node-llama-cpp', ...(noRepack ? ['no-repack.so'] : [])];
  const missing = needed.find((name) => !existsSync(join(PEER, name)));
  if (missing === undefined) return;
  throw new Error(`no ${missing} in ${PEER}: sh bench/scripts/peers/make-peer.sh`);
}

/** `count` token ids that the seed draws, without the first 300: bytes and special tokens. */
export function drawPrompt(seed, count, vocab) {
  let state = seed;
  const random = () => {
    state = (state * 1103515245 + 12345) % 2147483648;
    return state / 2147483648;
  };
  return Array.from({ length: count }, () => 300 + Math.floor(random() * (vocab - 300)));
}

/** What llama-process.mjs prints. `through` is the beginning of its command, such as that of a memory cgroup. */
export async function runLlama({ file, prompt, steps, threads }, through = []) {
  const given = JSON.stringify({ file, prompt, steps, threads, peer: PEER });
  const [command, ...args] = [...through, process.execPath, 'bench/scripts/peers/llama-process.mjs', given];
  return JSON.parse((await run(command, args)).trim().split('\n').at(-1));
}
