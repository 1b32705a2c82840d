// Rules of eviction on a decoder, in the prompt and in the generation.
import { mib, result, source, table } from '../table-format.mjs';

const percent = (share) => `${(100 * share).toFixed(1)} %`;

function eviction(name) {
  const r = result(name);
  const generated = r.steps;
  const rows = r.rows.flatMap(({ budget, slots, fewestBytes, rules }) =>
    rules.map(({ rule, prefill, decode }) => [
      `${budget} (${slots} of ${r.experts})`,
      rule,
      ((1000 * r.prompt) / prefill.ms).toFixed(1),
      percent(prefill.bytes / (prefill.needed * r.slotBytes)),
      (prefill.bytes / fewestBytes.prefill).toFixed(2),
      ((1000 * generated) / decode.ms).toFixed(2),
      percent(decode.hits / decode.needed),
      mib(decode.bytes / generated),
      ((prefill.bytes + decode.bytes) / (fewestBytes.prefill + fewestBytes.decode)).toFixed(2),
      percent(decode.stallShare),
    ]),
  );
  const head = [
    'experts in memory',
    'rule',
    'prompt, tokens/s',
    'of the needed experts, loaded',
    'prompt’s bytes / Belady',
    'generation, tokens/s',
    'hits',
    'a token moves',
    'all bytes / Belady',
    'of the generation, waits for experts',
  ];
  const { prefill, decode } = r.resident;
  const [prompt, generation] = [(1000 * r.prompt) / prefill.ms, (1000 * generated) / decode.ms];
  const about = [
    `${r.pack}, ${r.text}: ${r.prompt} tokens in chunks of ${r.chunk}, then ${r.steps} one by one;`,
    `experts of ${mib(r.slotBytes)} on disk, ${r.threads} threads, medians of ${r.rounds} rounds.`,
    `With every expert in memory ${prompt.toFixed(1)} and ${generation.toFixed(2)} tokens/s.`,
    'All logits are the same, bit for bit.',
  ].join(' ');
  return `${table(head, rows)}\n\n${about}\n\n${source(r)}`;
}

export const evictionTables = { eviction: () => eviction('eviction') };
