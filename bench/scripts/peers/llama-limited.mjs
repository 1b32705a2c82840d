// How fast is decoding beside llama.cpp and ik_llama.cpp, from the same GGUF, with all of it in memory and within
// limits that the kernel enforces? Each runs in a memory cgroup of its own, whose limit bounds page cache too, and
// begins with a cold one. The peers map the file, so the disk's read-ahead decides how much they read for a page: the
// result names it. sida reads a pack past the page cache, through `sida serve` and its streams.
import { existsSync, readFileSync, realpathSync, statSync, writeFileSync } from 'node:fs';
import { loadavg } from 'node:os';
import { basename } from 'node:path';
import { loadAddon } from '../../../dist/native/addon.js';
import { parseBytes } from '../../../dist/text/bytes.js';
import { LineProcess } from '../../dist/support/line-process.js';
import { MemoryCgroup } from '../../dist/support/memory-cgroup.js';
import { SCRIPTS } from '../../dist/support/paths.js';
import { scriptProvenance } from '../../dist/support/provenance.js';
import { optionsOf, words, writeResult } from '../../dist/support/script.js';
import { ServeProcess } from '../../dist/support/serve-process.js';
import { StepProgress } from '../../dist/support/step-progress.js';
import { ikLlamaBuild, ikLlamaFlags, runIkLlama } from './ik-llama.mjs';
import { drawPrompt, NO_REPACK, requireLlama, runLlama } from './llama.mjs';

const HELP = `node bench/scripts/peers/llama-limited.mjs [options]
  --file FILES  a list of GGUF files, what all read; several files, such as one of each type, have a row each;
                         make_gguf.py makes files of published shapes
  --pack DIR             the same as a pack of sida; default: the file, read in place
  --limits none,50%,35%,20%  of the file's bytes; none: no limit
  --overhead 300MB       of a limit, what sida's processes take beside its budget
  --serve FLAGS          more flags of sida serve, such as --serve='--activations int8'
  --no-repack            within limits llama.cpp leaves weights in the mapped file: of Q4_0 it would make copies, which
                         no limit below them lets live
  --ik-llama DIR         the build folder of ik_llama.cpp, a second peer, with --prefetch-experts
  --prompt 128 --steps 32 --threads 2 --rounds 1
  --save NAME            the result is bench/results/NAME.json; default: only printed
Needs root for the limits, and sh bench/scripts/peers/make-peer.sh for llama.cpp. Where no memory cgroup is to be had,
limits are skipped, and ik_llama.cpp where it does not run.
Read-ahead of 128 KiB, which is Linux's default: put the file on a loop device with
  losetup -f --show --direct-io=on IMAGE; echo 128 > /sys/block/loopN/queue/read_ahead_kb`;

const values = optionsOf(HELP);
if (values.file === undefined) throw new Error('--file MODEL.gguf is required');
requireLlama({ noRepack: values['no-repack'] });
const { serve = '', prompt: promptTokens, steps, threads, rounds } = values;
const files = values.file.split(',').map((file) => ({
  file,
  pack: values.pack ?? file,
  fileBytes: statSync(file).size,
  vocabSize: loadAddon().inspectCheckpoint(file).shape.vocabSize,
}));
const overhead = parseBytes(values.overhead);
if (overhead === undefined) throw new Error(`--overhead is a size such as 300MB, found ${values.overhead}`);

/** Undefined where it is not asked for or does not run. */
let ikLlama;
let ikFailed = false;
const ikFlags = ikLlamaFlags({ promptTokens, steps, threads });
if (values['ik-llama'] !== undefined) {
  try {
    ikLlama = { ...ikLlamaBuild(values['ik-llama']), flags: ikFlags };
  } catch (error) {
    console.error(`SKIPPED: ik_llama.cpp does not run: ${error.message}`);
  }
}

/** Of the disk that holds the files, in KiB; null where it does not say. */
function readAheadKib() {
  const { dev } = statSync(realpathSync(files[0].file));
  const [major, minor] = [dev >> 8, dev & 255];
  const of = (path) => (existsSync(path) ? Number(readFileSync(path, 'utf8')) : null);
  const disk = `/sys/dev/block/${major}:${minor}`;
  return of(`${disk}/queue/read_ahead_kb`) ?? of(`${disk}/../queue/read_ahead_kb`);
}

/** Null when the limit killed it, as one below what llama.cpp repacks of a file does. */
async function decodeWithLlama(file, prompt, through) {
  try {
    const given = { file, prompt, steps, threads };
    const { tokens: _, ...figures } = await runLlama(given, through);
    return figures;
  } catch (error) {
    if (through.length === 0 || !error.message.includes('ended with SIGKILL')) throw error;
    console.error('llama.cpp was killed by the limit');
    return null;
  }
}

/** Null when the limit killed it; undefined where it does not run. */
async function decodeWithIkLlama(file, prompt, through) {
  if (ikLlama === undefined || ikFailed) return undefined;
  // Without a limit its warm-up maps the file's pages; within one, as llama.cpp's, it would only read them in vain.
  const flags = through.length === 0 ? ikFlags : `${ikFlags} --no-warmup`;
  try {
    const figures = await runIkLlama({ build: values['ik-llama'], file, prompt, steps, flags }, through);
    if (figures === null) console.error('ik_llama.cpp was killed by the limit');
    return figures;
  } catch (error) {
    console.error(`SKIPPED: ik_llama.cpp does not run: ${error.message}`);
    ikFailed = true;
    return undefined;
  }
}

/** Without a limit all experts are in memory before the measured request, as the file is in the page cache. */
async function decodeWithSida({ pack, vocabSize }, prompt, through, budget) {
  // Room for this request, as llama.cpp's context has.
  const room = words`--max-batch-tokens ${promptTokens} --kv-tokens ${promptTokens + steps}`;
  const flags = words`--model ${pack} --memory-budget ${budget} --threads ${threads} --prefix-cache off --deadline 10min`;
  const server = await ServeProcess.start([...flags, ...room, ...serve.split(' ').filter(Boolean)], {
    through,
  });
  try {
    if (through.length === 0) await complete(server, drawPrompt(1, promptTokens, vocabSize));
    const { firstMs, betweenMs, tokens } = await complete(server, prompt);
    const decodeMs = betweenMs.reduce((sum, ms) => sum + ms, 0);
    return {
      budget,
      prefillTokensPerSecond: (1000 * prompt.length) / firstMs,
      decodeTokensPerSecond: tokens.length > 1 ? (1000 * (tokens.length - 1)) / decodeMs : null,
    };
  } finally {
    await server.stop();
  }
}

/** The tokens of a streamed completion, and the times to the first and between the others. */
async function complete({ port }, prompt) {
  const client = new LineProcess('the client', 'node', [`${SCRIPTS}rest/clients.mjs`]);
  try {
    const body = { prompt, max_tokens: steps, stream: true, return_token_ids: true };
    const { answers } = await client.ask({ port, path: '/v1/completions', clients: 1, bodies: [body] });
    return answers[0];
  } finally {
    await client.close();
  }
}

const shares = values.limits.split(',').map((text) => (text === 'none' ? null : Number.parseFloat(text) / 100));
const progress = new StepProgress('limits', files.length * shares.length * rounds);
const rows = [];

/** One round of all systems, each within its own limit. */
async function measure(given, share, round) {
  const { file, fileBytes, vocabSize } = given;
  const limitBytes = share === null ? null : Math.round(share * fileBytes);
  const prompt = drawPrompt(12_345 + round, promptTokens, vocabSize);
  const within = async (work) => {
    if (limitBytes === null) return work([]);
    // Dirty pages stay, so files must have been written before.
    writeFileSync('/proc/sys/vm/drop_caches', '3');
    const group = new MemoryCgroup(limitBytes);
    try {
      const figures = await work(group.through);
      return figures && { ...figures, peakBytes: group.peakBytes };
    } finally {
      await group.remove();
    }
  };
  try {
    const preload = values['no-repack'] && limitBytes !== null ? NO_REPACK : [];
    const peer = await within((through) => decodeWithLlama(file, prompt, [...through, ...preload]));
    const ik = await within((through) => decodeWithIkLlama(file, prompt, through));
    const budget = limitBytes === null ? '100%' : String(limitBytes - overhead);
    const own = await within((through) => decodeWithSida(given, prompt, through, budget));
    // Of the last minute, this run's own threads included: more than those is other work on the machine.
    const [load] = loadavg();
    const of = files.length > 1 ? { file: basename(file), fileBytes } : {};
    rows.push({ ...of, share, limitBytes, load, sida: own, peer, ...(ik !== undefined && { ikLlama: ik }) });
    const speeds = [own, peer, ik].map((one) => one?.decodeTokensPerSecond?.toFixed(2) ?? 'none');
    const memory = share === null ? 'no limit' : `${100 * share} %`;
    progress.step(`${basename(file)}, ${memory}: ${speeds.join(', ')} tokens/s`);
  } catch (error) {
    if (error.code !== 'cannot_run' || !/no memory cgroup/.test(error.message)) throw error;
    console.error(`SKIPPED: ${error.message}`);
    progress.step();
  }
}

for (const given of files) {
  for (const share of shares) {
    for (let round = 0; round < rounds; round += 1) await measure(given, share, round);
  }
}
const result = {
  question: 'How fast is decoding beside llama.cpp and ik_llama.cpp, within a limit on memory?',
  ...scriptProvenance(),
  file: files.map(({ file }) => basename(file)).join(', '),
  fileBytes: files.reduce((sum, each) => sum + each.fileBytes, 0),
  ...{ readAheadKib: readAheadKib(), serve, threads },
  overheadBytes: overhead,
  ...(values['no-repack'] && { noRepack: true }),
  ...(ikLlama !== undefined && { ikLlama }),
  ...{ promptTokens, steps, rounds, rows },
};
if (values.save === undefined) console.log(JSON.stringify(result, null, 1));
else writeResult(values.save, result);
