// How far are quotes off? Each answer carries the quote that was made before it ran: answers of known length, quiet and
// beside other clients, over budgets. Seconds are those of queue and engine, without HTTP.
import { readFileSync } from 'node:fs';
import { basename } from 'node:path';
import { scriptProvenance } from '../dist/support/provenance.js';
import { merged, optionsOf, writeResult } from '../dist/support/script.js';
import { ServeProcess } from '../dist/support/serve-process.js';
import { quantile } from '../dist/support/statistics.js';

const HELP = `node bench/scripts/quotes.mjs [options]
  --model DIR            what is served
  --memory-budget 10%,25%,50%,75%
  --clients 0,3          clients beside the one that is measured
  --texts models/switch-words/words/known-held-out.jsonl  lines of JSON with a "text", which prompts are joined from
  --ids N                for a model without a tokenizer: prompts of ids below N in place of texts
  --name NAME            of the model in the result
  --warm-up 40 --requests 60
  --tokens 4,8,16,32     answers' lengths, in turn
  --words 4,12,32,64     words of prompts, in turn
  --end 0,1,4            ids of end tokens, which are forbidden, so that answers have these lengths
  --serve FLAGS          more flags of the server
  --quick (--warm-up 8 --requests 8)  the result goes to build/`;

const options = optionsOf(HELP);
const { quick, model, 'warm-up': warmUp, requests, serve = '' } = options;
if (model === undefined) throw new Error('expected --model DIR');
const numbers = (list) => String(list).split(',').map(Number);
const [tokens, lengths] = [numbers(options.tokens), numbers(options.words)];
const words = readFileSync(options.texts, 'utf8')
  .trim()
  .split('\n')
  .flatMap((line) => JSON.parse(line).text.split(' '));

/** No two prompts are alike. Lengths of prompts and of answers do not go together. */
function bodyOf(at) {
  const count = lengths[Math.floor(at / tokens.length) % lengths.length];
  const pick = (i, of) => (at * 131 + i * 17 + i * i) % of;
  const ids = options.ids && Array.from({ length: count }, (_, i) => 5 + 7 * pick(i, Number(options.ids) / 8));
  const text = Array.from({ length: count }, (_, i) => words[pick(i, words.length)]).join(' ');
  return {
    prompt: ids ?? text,
    max_tokens: tokens[at % tokens.length],
    logit_bias: Object.fromEntries(numbers(options.end).map((id) => [id, -100])),
    include: ['experts', 'quote'],
  };
}

let next = 0;
async function answer(server) {
  const [path, body] = ['/v1/completions', bodyOf(next++)];
  const headers = { 'content-type': 'application/json' };
  const response = await fetch(server.url + path, { method: 'POST', headers, body: JSON.stringify(body) });
  const { experts, quote } = await response.json();
  const ms = ['x-queue-time', 'x-inference-time'].map((name) => Number(response.headers.get(name)));
  return { seconds: (ms[0] + ms[1]) / 1000, bytes: experts.bytes_moved, quote };
}

/** Answers of one client while others ask without a pause. */
async function measure(server, others) {
  let asking = true;
  const ask = async () => {
    while (asking) await answer(server);
  };
  const busy = Array.from({ length: others }, ask);
  for (let i = 0; i < warmUp; i += 1) await answer(server);
  const answers = [];
  for (let i = 0; i < requests; i += 1) answers.push(await answer(server));
  asking = false;
  await Promise.all(busy);
  return answers;
}

const off = (actual, quoted) => Math.abs(actual - quoted) / Math.max(actual, quoted, 1e-9);
const rounded = (value) => Number(value.toPrecision(4));
/** Models that were measured before stay. */
function keep() {
  const measured = { model: options.name ?? basename(model), ...scriptProvenance(), rows };
  const models = merged('quotes', 'models', [measured], ({ model: name }) => name, quick);
  writeResult('quotes', { question: 'How far are quotes off?', models }, quick);
}

const rows = [];
for (const budget of options['memory-budget'].split(',')) {
  const flags = ['--prefix-cache', 'off', ...serve.split(' ').filter(Boolean)];
  const server = await ServeProcess.start(['--model', model, '--memory-budget', budget, ...flags]);
  try {
    for (const others of numbers(options.clients)) {
      const answers = await measure(server, others);
      const ratios = (actual, quoted) => answers.map((each) => rounded(actual(each) / Math.max(1e-9, quoted(each))));
      const sum = (of) => answers.reduce((total, each) => total + of(each), 0);
      const row = {
        ...{ budget, others, answers: answers.length },
        secondsTogether: rounded(sum(({ seconds }) => seconds) / sum(({ quote }) => quote.seconds.p50)),
        bytesTogether: rounded(
          sum(({ bytes }) => bytes) /
            Math.max(
              1,
              sum(({ quote }) => quote.bytes_moved.p50),
            ),
        ),
        medianSeconds: rounded(
          quantile(
            answers.map(({ seconds }) => seconds),
            0.5,
          ),
        ),
        medianBytes: quantile(
          answers.map(({ bytes }) => bytes),
          0.5,
        ),
        bytesOff: rounded(
          quantile(
            answers.map(({ bytes, quote }) => off(bytes, quote.bytes_moved.p50)),
            0.9,
          ),
        ),
        secondsOff: rounded(
          quantile(
            answers.map(({ seconds, quote }) => off(seconds, quote.seconds.p50)),
            0.9,
          ),
        ),
        within: answers.filter(({ seconds, quote }) => seconds <= quote.seconds.p90).length / answers.length,
        bytesWithin: answers.filter(({ bytes, quote }) => bytes <= quote.bytes_moved.p90).length / answers.length,
        secondsRatios: ratios(
          ({ seconds }) => seconds,
          ({ quote }) => quote.seconds.p50,
        ),
        bytesRatios: ratios(
          ({ bytes }) => bytes,
          ({ quote }) => quote.bytes_moved.p50,
        ),
      };
      rows.push(row);
      console.log(JSON.stringify({ ...row, secondsRatios: undefined, bytesRatios: undefined }));
    }
    keep();
  } finally {
    await server.stop();
  }
}
