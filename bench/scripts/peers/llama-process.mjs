// llama.cpp in a process of its own: greedy tokens after a prompt of token ids. Started by llama.mjs.
import { createRequire } from 'node:module';
import { resolve } from 'node:path';
import { pathToFileURL } from 'node:url';

const { file, prompt, steps, threads, peer } = JSON.parse(process.argv[2]);
const require = createRequire(`${resolve(peer)}/`);
const { getLlama } = await import(pathToFileURL(require.resolve('node-llama-cpp')).href);
const llama = await getLlama({ gpu: false, build: 'never', maxThreads: threads, logLevel: 'error' });
const model = await llama.loadModel({ modelPath: file, gpuLayers: 0, ignoreMemorySafetyChecks: true });
const context = await model.createContext({
  contextSize: prompt.length + steps + 8,
  batchSize: prompt.length,
  threads: { ideal: threads, min: threads },
  sequences: 1,
  ignoreMemorySafetyChecks: true,
});
const tokens = [];
const started = performance.now();
let first;
for await (const token of context.getSequence().evaluate(prompt, { temperature: 0 })) {
  first ??= performance.now();
  tokens.push(token);
  if (tokens.length === steps) break;
}
const decodeMs = performance.now() - first;
console.log(
  JSON.stringify({
    tokens,
    prefillTokensPerSecond: (1000 * prompt.length) / (first - started),
    decodeTokensPerSecond: tokens.length > 1 ? (1000 * (tokens.length - 1)) / decodeMs : null,
    llama: llama.llamaCppRelease?.release,
    systemInfo: llama.systemInfo,
  }),
);
process.exit(0);
