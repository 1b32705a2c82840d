// ik_llama.cpp as a peer: its server in a process of its own, whose threads read experts ahead of their use.
import { spawn, spawnSync } from 'node:child_process';
import { join } from 'node:path';
import { setTimeout as pause } from 'node:timers/promises';
import { freePort } from '../../dist/support/serve-process.js';

const READY_MS = 300_000;
const LAST_WORDS = 2000;

const running = new Set();
process.once('exit', () => {
  for (const child of running) child.kill('SIGKILL');
});

const serverOf = (build) => join(build, 'bin/llama-server');

/** Commit and compiler of a build. Throws where it does not run. */
export function ikLlamaBuild(build) {
  const { error, status, signal, stderr } = spawnSync(serverOf(build), ['--version'], { encoding: 'utf8' });
  if (error !== undefined) throw error;
  const [, commit] = /^version: .*\((\w+)\)/m.exec(stderr) ?? [];
  if (status !== 0 || commit === undefined)
    throw new Error(`llama-server --version ended with ${status ?? signal}: ${stderr.slice(-LAST_WORDS)}`);
  return { commit, compiler: /^built with (.*)$/m.exec(stderr)?.[1] };
}

/** Room for one request, as llama.cpp's context has; it maps the file, which is its default. */
export function ikLlamaFlags({ promptTokens, steps, threads }) {
  const [room, prompt] = [promptTokens + steps + 8, promptTokens].map(String);
  return [
    '--prefetch-experts',
    '-t',
    threads,
    '-np',
    '1',
    '--cache-ram',
    '0',
    '-c',
    room,
    '-b',
    prompt,
    '-ub',
    prompt,
  ];
}

/** Null when the limit on memory that `through` sets killed it. */
export async function runIkLlama({ build, file, prompt, steps, flags }, through = []) {
  const port = await freePort();
  const serve = [serverOf(build), '-m', file, '--host', '127.0.0.1', '--port', String(port), ...flags];
  const [command, ...args] = [...through, ...serve];
  const child = spawn(command, args, { stdio: ['ignore', 'pipe', 'pipe'] });
  running.add(child);
  let words = '';
  for (const stream of [child.stdout, child.stderr])
    stream.on('data', (chunk) => {
      words = (words + chunk).slice(-LAST_WORDS);
    });
  const ended = new Promise((resolve) => {
    child.once('exit', resolve);
    child.once('error', resolve);
  });
  const over = new AbortController();
  const early = ended.then(() => {
    throw new Error(`llama-server ended with ${child.exitCode ?? child.signalCode}: ${words}`);
  });
  try {
    return await Promise.race([complete(`http://127.0.0.1:${port}`, prompt, steps, over.signal), early]);
  } catch (error) {
    // Its sockets close before Node hears of its end.
    await Promise.race([ended, pause(1000)]);
    if (through.length > 0 && child.signalCode === 'SIGKILL') return null;
    throw error;
  } finally {
    over.abort();
    child.kill('SIGKILL');
    await ended;
    running.delete(child);
  }
}

async function complete(url, prompt, steps, signal) {
  await ready(url, signal);
  const answer = await fetch(`${url}/completion`, {
    method: 'POST',
    signal,
    headers: { 'content-type': 'application/json' },
    // As a stream, so that fetch need not wait for the whole answer; its timings are in the last event.
    body: JSON.stringify({
      ...{ prompt, n_predict: steps, stream: true },
      ...{ temperature: 0, ignore_eos: true, cache_prompt: false },
    }),
  });
  const text = await answer.text();
  const last = text.split('\n').findLast((line) => line.includes('"timings"'));
  if (!answer.ok || last === undefined) throw new Error(`/completion: ${answer.status} ${text.slice(-500)}`);
  const { timings } = JSON.parse(last.slice('data: '.length));
  if (timings.prompt_n !== prompt.length || timings.predicted_n !== steps)
    throw new Error(`llama-server computed ${timings.prompt_n} and ${timings.predicted_n} tokens`);
  return {
    prefillTokensPerSecond: (1000 * timings.prompt_n) / timings.prompt_ms,
    // The first token is the prompt's.
    decodeTokensPerSecond: steps > 1 ? (1000 * (steps - 1)) / timings.predicted_ms : null,
  };
}

async function ready(url, signal) {
  const begin = performance.now();
  while (!signal.aborted && performance.now() - begin < READY_MS) {
    const answer = await fetch(`${url}/health`).catch(() => undefined);
    await answer?.arrayBuffer();
    if (answer?.status === 200) return;
    await pause(100);
  }
  throw new Error(`llama-server was not ready after ${READY_MS / 1000} s`);
}
