// Requests of the bundled model's three tasks, from labelled lines. Those of SST-2 are in the repository; MRPC and MultiRC
// are read from SIDA_DATA (default ../shared/data); without them SST-2 is all there is, and the bench says so.
import { existsSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { randomOf } from '../dist/predictor/training/random.js';

const DATA = process.env.SIDA_DATA ?? '../shared/data';
const lines = (path) =>
  readFileSync(path, 'utf8')
    .trim()
    .split('\n')
    .map((line) => JSON.parse(line));

function shuffled(values, seed) {
  const random = randomOf(seed);
  const result = [...values];
  for (let i = result.length - 1; i > 0; i--) {
    const j = Math.floor(random() * (i + 1));
    [result[i], result[j]] = [result[j], result[i]];
  }
  return result;
}

function sst2() {
  return lines('test/data/sst2-validation.jsonl').map(({ text }) => ({
    text: `sst2 sentence: ${text}`,
    labels: ['negative', 'positive'],
  }));
}

function mrpc() {
  return lines(join(DATA, 'mrpc/test.jsonl')).map(({ text1, text2 }) => ({
    text: `mrpc sentence1: ${text1} sentence2: ${text2}`,
    labels: ['not equivalent', 'equivalent'],
  }));
}

function multirc() {
  const passages = new Map(
    lines(join(DATA, 'multirc/validation.passages.jsonl')).map(({ passage, text }) => [passage, text]),
  );
  return lines(join(DATA, 'multirc/validation.jsonl')).map(({ passage, question, answer }) => ({
    text: `multirc question: ${question} answer: ${answer} paragraph: ${passages.get(passage)}`,
    labels: ['false', 'true'],
  }));
}

/** What draws `count` requests of a workload: as many of each of its tasks, mixed, with fixed seeds. */
export function workloads(count) {
  const there = ['mrpc/test.jsonl', 'multirc/validation.jsonl', 'multirc/validation.passages.jsonl'].filter(
    (file) => existsSync(join(DATA, file)),
  );
  const mixed = (...tasks) =>
    shuffled(
      tasks.flatMap((task, i) => shuffled(task, i + 1).slice(0, Math.ceil(count / tasks.length))),
      7,
    ).slice(0, count);
  if (there.length === 3) {
    return {
      'SST-2, MRPC': () => mixed(sst2(), mrpc()),
      'SST-2, MRPC, MultiRC': () => mixed(sst2(), mrpc(), multirc()),
    };
  }
  console.error(
    `SKIPPED: mixed tasks. ${DATA} holds ${there.join(', ') || 'none of their files'}; see SIDA_DATA.`,
  );
  return { 'SST-2': () => mixed(sst2()) };
}
