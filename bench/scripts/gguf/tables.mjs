// The table of docs/benchmarks/llama-cpp.md that compares speeds within limits on memory.
import { basename } from 'node:path';
import { wrapped } from '../../../dist/text/wrapped.js';
import { median } from '../../dist/support/statistics.js';
import { hasResult, result, source, table } from '../table-format.mjs';

/** Results of llama-limited.mjs. */
export const LLAMA_LIMITED = [
  'llama-limited',
  'llama-limited-int8',
  'llama-limited-amx',
  'llama-limited-int8-amx',
  'llama-limited-q4_0',
  'llama-limited-q4_0-amx',
  'llama-limited-qwen3-30b',
  'llama-limited-qwen3-30b-amx',
];

const gib = (bytes) => `${(bytes / 2 ** 30).toFixed(2)} GiB`;
const rate = (value) => value.toFixed(value < 10 ? 2 : 1);

/** The least and the most of the rounds. */
function span(ratios) {
  const [least, most] = [Math.min(...ratios), Math.max(...ratios)].map((ratio) => ratio.toFixed(2));
  return least === most ? `${least}×` : `${least} to ${most}×`;
}

/** Prompt and decoding of one system in rounds with the same memory, and how far sida is ahead of it. */
function cells(rows, name) {
  if (rows.every((row) => row[name] === undefined)) return ['not measured', '', '', ''];
  const found = rows.filter((row) => row[name]);
  if (found.length === 0) return ['killed by the limit', '', '', ''];
  return ['prefillTokensPerSecond', 'decodeTokensPerSecond'].flatMap((figure) => [
    rate(median(found.map((row) => row[name][figure]))),
    name === 'sida' ? '' : span(found.map((row) => row.sida[figure] / row[name][figure])),
  ]);
}

/** Rounds with the same memory, in the order of the run. */
function groups(rows) {
  const shares = [...new Set(rows.map(({ share }) => share))];
  return shares.map((share) => rows.filter((row) => row.share === share));
}

/** Of one result: every system within every limit. */
export function limitedTable(r) {
  const systems = { sida: '`sida`', peer: 'llama.cpp', ikLlama: 'ik_llama.cpp' };
  const rows = groups(r.rows).flatMap((rounds) =>
    Object.entries(systems).map(([name, title], at) => {
      const [{ share, limitBytes }] = rounds;
      const memory = share === null ? 'all' : `${gib(limitBytes)} (${Math.round(100 * share)} %)`;
      return [at === 0 ? memory : '', title, ...cells(rounds, name)];
    }),
  );
  const head = ['memory', 'system', 'prompt', '`sida` over it', 'decoding', '`sida` over it'];
  const llama = r.rows.find(({ peer }) => peer)?.peer.llama;
  const ik = r.ikLlama;
  const loads = r.rows.flatMap(({ load }) => load ?? []).map((load) => load.toFixed(1));
  const [least, most] = [Math.min(...loads), Math.max(...loads)];
  const about = [
    `${basename(r.file)}, ${gib(r.fileBytes)}; ${r.threads} threads; ${r.promptTokens} + ${r.steps} tokens; `,
    `${r.rounds} ${r.rounds === 1 ? 'round' : 'rounds'}; read-ahead ${r.readAheadKib ?? 'unknown'} KiB; `,
    loads.length === 0
      ? ''
      : `load average ${least === most ? least : `${least} to ${most}`}, its own included; `,
    `\`sida\` with ${r.serve === '' ? 'its defaults' : `\`${r.serve}\``}, llama.cpp ${llama ?? 'of an unknown version'}`,
    r.noRepack ? ', which leaves weights in the mapped file within limits' : '',
    ik === undefined ? '.' : `, ik_llama.cpp ${ik.commit} (${ik.compiler}) with \`${ik.flags}\`.`,
  ].join('');
  return `${table(head, rows)}\n\n${wrapped(about, 118).join('\n')}  \n${source(r)}`;
}

/** One for each kind of processor and of activations that was measured. */
export const llamaTables = {
  'llama-limited': () =>
    LLAMA_LIMITED.filter(hasResult)
      .map((name) => limitedTable(result(name)))
      .join('\n\n'),
};
