// ik_llama.cpp as a peer: its server in a process of its own, whose threads read experts ahead of their use.
import { spawn, spawnSync } from 'node:child_process';
import { once } from 'node:events';
import { join } from 'node:path';
import { setTimeout as pause } from 'node:timers/promises';
import { words } from '../../dist/support/script.js';
import { freePort } from '../../dist/support/serve-process.js';

const serverOf = (build) => join(build, 'bin/llama-server');

/** Commit and compiler of a build. Throws where it does not run. */
export function ikLlamaBuild(build) {
  const { error, stderr } = spawnSync(serverOf(build), ['--version'], { encoding: 'utf8' });
  if (error !== undefined) throw error;
  const [, commit] = /^version: .*\((\w+)\)/m.exec(stderr) ?? [];
  if (commit === undefined) throw new Error(`llama-server --version: ${stderr}`);
  return { commit, compiler: /^built with (.*)$/m.exec(stderr)?.[1] };
}

/** Room for one request, as llama.cpp's context has; it maps the file, which is its default. */
export function ikLlamaFlags({ promptTokens, steps, threads }) {
  const [room, prompt] = [promptTokens + steps + 8, promptTokens];
  return `--prefetch-experts -t ${threads} -np 1 --cache-ram 0 -c ${room} -b ${prompt} -ub ${prompt}`;
}

/** Null when the limit on memory that `through` sets killed it. */
export async function runIkLlama({ build, file, prompt, steps, flags }, through = []) {
  const port = await freePort();
  const serve = words`${serverOf(build)} -m ${file} --host 127.0.0.1 --port ${port}`;
  const [command, ...args] = [...through, ...serve, ...flags.split(' ')];
  const child = spawn(command, args, { stdio: 'ignore' });
  const kill = () => child.kill('SIGKILL');
  process.once('exit', kill);
  const ended = once(child, 'exit');
  try {
    return await Promise.race([
      complete(`http://127.0.0.1:${port}`, prompt, steps),
      ended.then(([code, signal]) => {
        if (through.length > 0 && signal === 'SIGKILL') return null;
        throw new Error(`llama-server ended with ${code ?? signal}`);
      }),
    ]);
  } finally {
    kill();
    await ended;
    process.off('exit', kill);
  }
}

async function complete(url, prompt, steps) {
  while ((await fetch(`${url}/health`).catch(() => undefined))?.status !== 200) await pause(100);
  const usual = { temperature: 0, ignore_eos: true, cache_prompt: false };
  const answer = await fetch(`${url}/completion`, {
    method: 'POST',
    headers: { 'content-type': 'application/json' },
    // As a stream, so that fetch need not wait for the whole answer; its timings are in the last event.
    body: JSON.stringify({ prompt, n_predict: steps, stream: true, ...usual }),
  }).catch(() => new Promise(() => {})); // The process's end says why.
  const text = await answer.text();
  const last = text.split('\n').findLast((line) => line.includes('"timings"'));
  if (last === undefined) throw new Error(`/completion: ${answer.status} ${text.slice(-500)}`);
  const { timings } = JSON.parse(last.slice('data: '.length));
  return {
    prefillTokensPerSecond: (1000 * timings.prompt_n) / timings.prompt_ms,
    // The first token is the prompt's.
    decodeTokensPerSecond: steps > 1 ? (1000 * (steps - 1)) / timings.predicted_ms : null,
  };
}
