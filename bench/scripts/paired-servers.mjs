// Servers of one model that answer the same requests in turn. Each block of requests goes to all of them, in an order
// that turns round, so that a drift of the machine favours none.
import { readFileSync } from 'node:fs';
import { Agent, request } from 'node:http';
import { intervalOf } from '../../dist/evaluation/paired-difference.js';
import { ServeProcess } from '../dist/support/serve-process.js';
import { StepProgress } from '../dist/support/step-progress.js';

/** The texts of a file of lines of JSON. */
export function textsOf(file) {
  return readFileSync(file, 'utf8')
    .trim()
    .split('\n')
    .map((line) => JSON.parse(line).text);
}

/** The path and the bodies of requests: classification by `task`, or without one completions of `tokens` tokens. */
export function requestsOf({ task, tokens }) {
  return task === undefined
    ? { path: '/v1/completions', bodyOf: (text) => ({ prompt: text, max_tokens: tokens }) }
    : { path: '/v1/classify', bodyOf: (text) => ({ task, input: text }) };
}

/** Asks for the answer as a whole, which only has to be a success. */
function askWhole({ port }, agent, { path, bodyOf }, text) {
  const body = JSON.stringify(bodyOf(text));
  return new Promise((resolve, reject) => {
    const headers = { 'content-type': 'application/json', 'content-length': Buffer.byteLength(body) };
    const call = request({ agent, port, host: '127.0.0.1', path, method: 'POST', headers });
    call.once('error', reject).once('response', (response) => {
      let answer = '';
      response.setEncoding('utf8').on('data', (piece) => {
        answer += piece;
      });
      response.once('error', reject).once('end', () => {
        if (response.statusCode === 200) resolve();
        else reject(new Error(`${response.statusCode} ${answer}`));
      });
    });
    call.end(body);
  });
}

/** An idle connection is given up before its server closes it, and no answer takes as long. */
const SERVER_KEEPS_MS = 4_000;

/**
 * Starts a server for each of `flags` and asks all of them `warmUp + blocks` blocks of `size` requests, `clients` at a
 * time. Returns the milliseconds of the measured blocks and what `ask` gave for every text, both by server, and what
 * `after` says of each server at the end; `before` is called with each once it is warm.
 */
export async function pairedBlocks(options) {
  const { label, flags, texts, requests, blocks, warmUp, size, clients = 1 } = options;
  const { before, after, ask = askWhole } = options;
  const agent = new Agent({ keepAlive: true, maxSockets: clients, timeout: SERVER_KEEPS_MS });
  const servers = [];
  try {
    for (const args of flags) servers.push(await ServeProcess.start(args));
    const progress = new StepProgress(label, warmUp + blocks);
    const times = servers.map(() => []);
    const answers = servers.map(() => []);
    const warm = [];
    for (let block = 0; block < warmUp + blocks; block += 1) {
      if (block === warmUp) for (const server of servers) warm.push(await before?.(server));
      const asked = Array.from({ length: size }, (_, i) => texts[(block * size + i) % texts.length]);
      // Each server is as often before each other as behind it.
      const turned = servers.map((_, i) => (i + block) % servers.length);
      for (const at of Math.floor(block / servers.length) % 2 === 0 ? turned : turned.reverse()) {
        const begin = performance.now();
        answers[at].push(
          ...(await eachOf(asked, clients, (text) => ask(servers[at], agent, requests, text))),
        );
        if (block >= warmUp) times[at].push(performance.now() - begin);
      }
      progress.step();
    }
    const said = [];
    for (const [i, server] of servers.entries()) said.push(await after?.(server, warm[i]));
    return { times, answers, said };
  } finally {
    agent.destroy();
    await Promise.all(servers.map((server) => server.stop()));
  }
}

/** What `work` gives for each of `items`, in their order; at most `clients` run at a time. */
async function eachOf(items, clients, work) {
  const found = [];
  let next = 0;
  const client = async () => {
    for (let at = next++; at < items.length; at = next++) found[at] = await work(items[at]);
  };
  await Promise.all(Array.from({ length: clients }, client));
  return found;
}

/** The logarithm of each time of `own` over that of `other`. */
function logRatios(own, other) {
  return own.map((ms, i) => Math.log(ms / other[i]));
}

/** The time of `own` over that of `other`, less 1, by pairs of blocks. */
export function slower(own, other) {
  return lessOne(logRatios(own, other));
}

/**
 * The same by starts, each a pair of lists of blocks: two processes of one kind differ by more than their blocks do,
 * and keep the difference until they end.
 */
export function slowerByStarts(starts) {
  const means = starts.map(([own, other]) => {
    const ratios = logRatios(own, other);
    return ratios.reduce((sum, each) => sum + each, 0) / ratios.length;
  });
  return lessOne(means);
}

function lessOne(logs) {
  const { mean, low, high } = intervalOf(logs);
  return Object.fromEntries(Object.entries({ mean, low, high }).map(([key, log]) => [key, Math.expm1(log)]));
}

export function percentOf({ mean, low, high }) {
  const percent = (share) => `${(100 * share).toFixed(1)} %`;
  return `${percent(mean)} (${percent(low)} to ${percent(high)})`;
}
