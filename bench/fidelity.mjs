// How often is the predictor right, and what does predicted mode keep, task by task? `sida eval` on SST-2, MRPC and
// MultiRC, beside the tables of the SiDA-MoE paper; perplexity on running text.
//   node bench/fidelity.mjs --data DIR [--predictor DIR] [--limit 2000] [--tasks sst2,mrpc,multirc] [--text FILE] [--threads 2]
// DIR holds sst2/validation.jsonl, mrpc/test.jsonl, multirc/validation.jsonl and multirc/validation.passages.jsonl.
import { spawnSync } from 'node:child_process';
import { writeFileSync } from 'node:fs';
import { basename, join } from 'node:path';
import { parseArgs } from 'node:util';
import { commandText, machine } from './predictor-systems.mjs';

const { values } = parseArgs({
  options: {
    data: { type: 'string' },
    predictor: { type: 'string', default: 'models/switch-mini/predictor' },
    limit: { type: 'string', default: '2000' },
    tasks: { type: 'string', default: 'sst2,mrpc,multirc' },
    text: { type: 'string' },
    threads: { type: 'string', default: '2' },
  },
});
if (values.data === undefined) throw new Error('--data DIR is required');
const at = (...parts) => join(values.data, ...parts);
const DATA = {
  sst2: ['--data', at('sst2', 'validation.jsonl')],
  mrpc: ['--data', at('mrpc', 'test.jsonl')],
  multirc: [
    ...['--data', at('multirc', 'validation.jsonl')],
    ...['--join', `passage=${at('multirc', 'validation.passages.jsonl')}`],
  ],
};

function evaluate(name, args) {
  console.error(name);
  const common = [
    '--model',
    'models/switch-mini',
    '--predictor',
    values.predictor,
    '--threads',
    values.threads,
  ];
  const flags = [...common, ...args, '--limit', values.limit, '--routing-k', '1,3', '--json'];
  const child = spawnSync('node', ['dist/cli/main.js', 'eval', ...flags], {
    encoding: 'utf8',
    stdio: ['ignore', 'pipe', 'inherit'],
    maxBuffer: 1 << 26,
  });
  if (child.status !== 0) throw new Error(`sida eval ended with ${child.status ?? child.signal}`);
  const { sources, expertBytes } = JSON.parse(child.stdout);
  return [name, { ...sources[0], file: basename(sources[0].file), expertBytes }];
}

const result = {
  question: 'How often is the predictor right, and what does predicted mode keep?',
  command: commandText('fidelity.mjs'),
  ...machine(),
  threads: Number(values.threads),
  tasks: Object.fromEntries(
    values.tasks.split(',').map((task) => evaluate(task, [...DATA[task], '--task', task])),
  ),
  ...(values.text !== undefined && {
    text: evaluate(basename(values.text), ['--text', values.text])[1],
  }),
};
writeFileSync('bench/results/fidelity.json', `${JSON.stringify(result, null, 1)}\n`);
console.error('bench/results/fidelity.json');
