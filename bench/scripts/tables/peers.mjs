// Tables of transformers and llama.cpp compared with sida, and README's chart.
import { readdirSync } from 'node:fs';
import { lineChart } from '../../dist/report/charts.js';
import { median } from '../../dist/support/statistics.js';
import { each, fixed, mib, percent, plain, result, source, text, times, withAmx } from './format.mjs';

function encoderPeers(r) {
  const rows = r.comparisons.flatMap(({ dtype, activations = 'f32', peerDtype, lengths, classes, commit }) =>
    classes.map(({ least, most, oursMs, peerMs, ratio, ratioQuartiles, expertsNeeded }) => [
      ...[`${dtype} × ${activations}`, peerDtype, `${lengths}, ${least}–${most}`, oursMs.toFixed(1), peerMs.toFixed(1)],
      ...[`${times(ratio)} (${ratioQuartiles.map(fixed(2)).join('–')})`, expertsNeeded, commit],
    ]),
  );
  const [{ peer, command, commit }] = r.comparisons;
  const about = `${r.shape}, random weights, ${r.threads} threads, batch 1; torch ${peer.torch}, transformers ${peer.transformers}.`;
  const head = 'weights × activations | transformers | tokens | ours, ms | transformers, ms | ratio (quartiles)';
  return text({ ...r, command, commit }, `${head} | experts needed | commit`, rows, about);
}

const rate = (value) => value.toFixed(value < 10 ? 2 : 1);

/** Prompt and decoding of one system in rounds with the same memory, and how far sida is ahead of it. */
function limitedCells(rounds, name) {
  if (rounds.every((row) => row[name] === undefined)) return ['not measured', '', '', ''];
  const found = rounds.filter((row) => row[name]);
  if (found.length === 0) return ['killed by the limit', '', '', ''];
  return ['prefillTokensPerSecond', 'decodeTokensPerSecond'].flatMap((figure) => {
    const ratios = found.map((row) => row.sida[figure] / row[name][figure]);
    const span = `${Math.min(...ratios).toFixed(2)} to ${Math.max(...ratios).toFixed(2)}×`;
    return [rate(median(found.map((row) => row[name][figure]))), name === 'sida' ? '' : span];
  });
}

function llamaLimited(r) {
  const shares = [...new Set(r.rows.map(({ share }) => share))];
  const systems = { sida: '`sida`', peer: 'llama.cpp', ikLlama: 'ik_llama.cpp' };
  const rows = shares.flatMap((share) => {
    const rounds = r.rows.filter((row) => row.share === share);
    const memory = share === null ? 'all' : `${mib(rounds[0].limitBytes)} (${percent(share, 0)})`;
    return Object.entries(systems).map(([name, title]) => [memory, title, ...limitedCells(rounds, name)]);
  });
  const about =
    `${r.file}, ${mib(r.fileBytes)}; ${r.threads} threads; ${r.promptTokens} + ${r.steps} tokens; ${r.rounds} rounds; ` +
    `read-ahead ${r.readAheadKib} KiB; \`sida\` with ${r.serve === '' ? 'its defaults' : `\`${r.serve}\``}.`;
  return text(
    r,
    'memory | system | prompt, tokens/s | `sida` over it | decoding, tokens/s | `sida` over it',
    rows,
    about,
  );
}

/** A file a row, all of it in memory. */
function llamaTypes(r) {
  const rows = [...new Set(r.rows.map(({ file }) => file))].map((file) => {
    const rounds = r.rows.filter((row) => row.file === file);
    const [own, peer] = ['sida', 'peer'].map((name) => limitedCells(rounds, name));
    const name = file.replace('.gguf', '');
    return [name, mib(rounds[0].fileBytes), own[0], ...peer.slice(0, 2), own[2], ...peer.slice(2)];
  });
  const about =
    `The OLMoE-7B shape with 4 layers, each file by llama.cpp's own quantizer from the one in Q8_0; ` +
    `${r.threads} threads; ${r.promptTokens} + ${r.steps} tokens; ${r.rounds} rounds; \`sida\` with \`${r.serve}\`.`;
  const figures = (what) => `${what}, tokens/s | llama.cpp | ratio`;
  return text(r, `file | size | ${figures('prompt')} | ${figures('decoding')}`, rows, about);
}

/** README's chart. */
export function memoryChart() {
  const { rows, fileBytes } = result('llama-limited-qwen3-30b');
  const shares = [...new Set(rows.map(({ share }) => share))].sort((a, b) => (a ?? 1) - (b ?? 1));
  const points = (name, series) =>
    shares.map((share) => {
      const rounds = rows.filter((row) => row.share === share).map((row) => row[name].decodeTokensPerSecond);
      return { x: ((share ?? 1) * fileBytes) / 2 ** 30, y: median(rounds), series };
    });
  return lineChart({
    title: 'Decoding within a memory limit',
    subtitle: 'Qwen3-30B-A3B shape, Q4_0, 16 GiB; 2 cores with AVX-512; medians of three rounds',
    rows: [...points('sida', 'sida'), ...points('peer', 'llama.cpp')],
    x: 'memory, GiB',
    y: 'tokens a second',
    domain: [0, 17],
  });
}

function llamaTokens() {
  const names = readdirSync('bench/results').filter((name) => name.startsWith('llama-peer-'));
  const all = names.map((name) => result(name.replace('.json', '')));
  const rows = all.map(({ file, types, steps, equalUntilFirstDifference, agreeing, differences: [first] }) => [
    ...[file, types.experts, steps, equalUntilFirstDifference, agreeing],
    first ? percent(first.margin / first.spread, 2) : '–',
  ]);
  const head = 'file | experts | tokens | equal before the first difference | agreeing | margin there, of the spread';
  return [plain(head, rows), ...all.map(source)].join('\n\n');
}

const SHAPES = ['qwen3-30b', 'qwen3-30b-f32', 'qwen3-30b-amx', 'glm-4.7-flash', 'qwen3.6-35b'];
const LLAMA = ['int8', 'int8-amx', 'q4_0-amx', ...SHAPES].map((name) => `llama-limited-${name}`);

export const peerTables = {
  'encoder-peers': () => each(withAmx('encoder-peers'), encoderPeers),
  'llama-limited': () => each(LLAMA, llamaLimited),
  'llama-types': () => each(['llama-types-amx'], llamaTypes),
  'llama-tokens': llamaTokens,
};
