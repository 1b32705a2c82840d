// How far are quotes off? Each answer carries the quote that was made before it ran: answers of known length, quiet and
// beside other clients, over budgets. Seconds are those of queue and engine, without HTTP.
// Two controls quote each answer in hindsight. The mean of the other answers to the same request knows the text, so its
// error is noise and the state of the server. The mean of the answers to other texts of the same lengths knows all
// that a quote can know without the experts that a text needs.
import { readFileSync } from 'node:fs';
import { basename } from 'node:path';
import { scriptProvenance } from '../dist/support/provenance.js';
import { merged, optionsOf, writeResult } from '../dist/support/script.js';
import { ServeProcess } from '../dist/support/serve-process.js';
import { mean, quantile } from '../dist/support/statistics.js';

const HELP = `node bench/scripts/quotes.mjs [options]
  --model DIR            what is served
  --memory-budget 10%,25%,50%,75%
  --clients 0,3          clients beside the one that is measured
  --texts models/switch-words/words/known-held-out.jsonl  lines of JSON with a "text", which prompts are joined from
  --ids N                for a model without a tokenizer: prompts of ids below N in place of texts
  --name NAME            of the model in the result
  --warm-up 40 --texts-each 3 --repeats 3  texts of each pair of lengths, and answers to each text
  --tokens 4,32          answers' lengths
  --words 4,16,64        words of prompts
  --end 0,1,4            ids of end tokens, which are forbidden, so that answers have these lengths
  --serve FLAGS          more flags of the server
  --quick (--warm-up 8 --texts-each 2 --repeats 2)  the result goes to build/`;

const options = optionsOf(HELP);
const { quick, model, 'warm-up': warmUp, 'texts-each': textsEach, repeats, serve = '' } = options;
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

const pairs = lengths.length * tokens.length;
const asked = textsEach * pairs;
/** A shuffle that is the same in each run. */
const shuffled = (list, seed) => {
  const keys = list.map((at) => (((at + 1) * 7919 + seed * 104729) ** 2 % 65537) / 65537);
  return list
    .map((at, i) => [keys[i], at])
    .sort(([a], [b]) => a - b)
    .map(([, at]) => at);
};
const measured = Array.from({ length: repeats }, (_, round) => shuffled([...Array(asked).keys()], round)).flat();
let next = asked;

async function answer(server, at = next++) {
  const [path, body] = ['/v1/completions', bodyOf(at)];
  const headers = { 'content-type': 'application/json' };
  const response = await fetch(server.url + path, { method: 'POST', headers, body: JSON.stringify(body) });
  const { experts, quote } = await response.json();
  const ms = ['x-queue-time', 'x-inference-time'].map((name) => Number(response.headers.get(name)));
  return { at, seconds: (ms[0] + ms[1]) / 1000, bytes: experts.bytes_moved, quote };
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
  for (const at of measured) answers.push(await answer(server, at));
  asking = false;
  await Promise.all(busy);
  return answers;
}

const rounded = (value) => Number(value.toPrecision(4));
const off = (actual, quoted) => Math.abs(actual - quoted) / Math.max(actual, quoted, 1e-9);

/** Deciles of the errors of quotes and controls, of `seconds` or `bytes`, whose quoted quantiles are `quoted`. */
function compared(answers, name, quoted) {
  const values = answers.map((each) => each[name]);
  const told = answers.map(({ quote }) => quote[quoted]);
  const deciles = (quotes) => {
    const errors = values.map((value, i) => off(value, quotes[i]));
    return Array.from({ length: 10 }, (_, i) => rounded(quantile(errors, (i + 1) / 10)));
  };
  const meanOf = (alike) =>
    answers.map((own) => mean(answers.filter((other) => alike(own, other)).map((each) => each[name])));
  return {
    median: rounded(quantile(values, 0.5)),
    quote: deciles(told.map(({ p50 }) => p50)),
    sameLengths: deciles(meanOf((own, other) => other.at !== own.at && (other.at - own.at) % pairs === 0)),
    sameRequest: deciles(meanOf((own, other) => other !== own && other.at === own.at)),
    within: rounded(mean(values.map((value, i) => (value <= told[i].p90 ? 1 : 0)))),
  };
}

/** Models that were measured before stay. */
function keep() {
  const own = { model: options.name ?? basename(model), ...scriptProvenance(), tokens, words: lengths, rows };
  const models = merged('quotes', 'models', [own], ({ model: name }) => name, quick);
  writeResult('quotes', { question: 'How far are quotes off?', models }, quick);
}

const rows = [];
for (const budget of options['memory-budget'].split(',')) {
  const flags = ['--prefix-cache', 'off', ...serve.split(' ').filter(Boolean)];
  const server = await ServeProcess.start(['--model', model, '--memory-budget', budget, ...flags]);
  try {
    for (const others of numbers(options.clients)) {
      const answers = await measure(server, others);
      const [seconds, bytes] = [compared(answers, 'seconds', 'seconds'), compared(answers, 'bytes', 'bytes_moved')];
      rows.push({ budget, others, answers: answers.length, seconds, bytes });
      for (const [name, { median, within, ...errors }] of Object.entries({ seconds, bytes })) {
        const nine = Object.entries(errors).map(([kind, deciles]) => `${kind} ${deciles[8]}`);
        console.log(`${budget}, ${others} others, ${name}: median ${median}, ${nine.join(', ')}, within ${within}`);
      }
    }
    keep();
  } finally {
    await server.stop();
  }
}
