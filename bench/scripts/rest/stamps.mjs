// Loaded into every process and thread of `sida serve` before its own code (NODE_OPTIONS=--import), it notes when a
// request passes the places where it changes hands. It wraps methods of the build, so that the product carries no
// instrument. SIDA_STAMPS names the folder for the notes: lines of JSON, each a list of [place, clockMs].
import { ChildProcess } from 'node:child_process';
import { subscribe } from 'node:diagnostics_channel';
import { appendFileSync } from 'node:fs';
import { OutgoingMessage } from 'node:http';
import { join } from 'node:path';
import { parentPort, threadId, workerData } from 'node:worker_threads';

const dist = (path) => import(new URL(`../../../dist/${path}`, import.meta.url).href);
const { clockMs } = await dist('clock.js');

/** Written together, once in many requests: a write for each stamp would take as long as what it measures. */
const TOGETHER = 400;
const file = join(process.env.SIDA_STAMPS, `${process.pid}-${threadId}.jsonl`);
let stamps = [];

function stamp(place) {
  stamps.push([place, clockMs()]);
  if (stamps.length < TOGETHER) return;
  appendFileSync(file, `${JSON.stringify(stamps)}\n`);
  stamps = [];
}

/** `before` and `after` name the places; both may be functions of the arguments and the result. */
function wrap(object, method, before, after) {
  const plain = object[method];
  const note = (place, ...values) => {
    const name = typeof place === 'function' ? place(...values) : place;
    if (name) stamp(name);
  };
  object[method] = function wrapped(...args) {
    note(before, args);
    const result = plain.apply(this, args);
    note(after, args, result);
    return result;
  };
}

async function api() {
  const { EngineProcess } = await dist('engine/engine-process.js');
  subscribe('http.server.request.start', ({ request }) => {
    if (request.method === 'POST') stamp('api: headers parsed');
  });
  wrap(EngineProcess.prototype, 'run', 'api: job ready', 'api: job sent');
  wrap(ChildProcess.prototype, 'emit', ([event, message]) => {
    return event === 'message' && message.type === 'result' && 'api: result received';
  });
  // After `end` there is no stamp: the client may read the answer before it, and send the next request.
  wrap(OutgoingMessage.prototype, 'end', 'api: answer ready');
}

async function engineMain() {
  const { JobRunner } = await dist('engine/job-runner.js');
  const { TokenizerLink } = await dist('engine/tokenizer-link.js');
  const { BatchFeed } = await dist('batching/batch-feed.js');
  const { HashBuilderLink } = await dist('engine/hash-builder-link.js');
  const encode = TokenizerLink.prototype.encode;
  TokenizerLink.prototype.encode = function wrapped(texts, done) {
    const cancel = encode.call(this, texts, (found) => {
      stamp('main: ids received');
      done(found);
    });
    stamp('main: text sent');
    return cancel;
  };
  wrap(JobRunner.prototype, 'start', 'main: job received');
  wrap(BatchFeed.prototype, 'add', 'main: inputs ready');
  wrap(HashBuilderLink.prototype, 'build', 'main: batch made', 'main: batch sent');
  const isDone = ([{ type }]) => type === 'done';
  wrap(
    JobRunner.prototype,
    'onInference',
    (args) => isDone(args) && 'main: scores received',
    (args) => isDone(args) && 'main: result sent',
  );
}

async function tokenizer() {
  const { Tokenizer } = await dist('text/tokenizer.js');
  wrap(Tokenizer.prototype, 'encode', 'tokenizer: text received', 'tokenizer: text encoded');
  wrap(parentPort, 'postMessage', undefined, ([{ type }]) => type === 'encoded' && 'tokenizer: ids sent');
}

async function hashBuilding() {
  const { BuilderLoop } = await dist('predictor/builder-loop.js');
  const { QueueProducer } = await dist('protocol/hash-table-queue.js');
  // The turn that finds a batch is the one after the wake-up, so its beginning is the last before the batch.
  wrap(BuilderLoop.prototype, 'turn', 'hash building: awake');
  wrap(QueueProducer.prototype, 'put', undefined, 'hash building: batch queued');
}

async function inference() {
  const { QueueConsumer } = await dist('protocol/hash-table-queue.js');
  const { NativePasses } = await dist('inference/native-passes.js');
  const { PassPlanner } = await dist('inference/pass-planner.js');
  wrap(QueueConsumer.prototype, 'tryTake', undefined, (_, entry) => entry && 'inference: batch taken');
  wrap(NativePasses.prototype, 'run', 'inference: pass begins', 'inference: pass ends');
  const isDone = ([{ type }]) => type === 'done';
  wrap(
    parentPort,
    'postMessage',
    (args) => isDone(args) && 'inference: scores ready',
    (args) => isDone(args) && 'inference: scores sent',
  );
  // The planner is asked right before and right after the native call, whose own methods cannot be wrapped.
  wrap(PassPlanner.prototype, 'plan', undefined, 'inference: native call begins');
  wrap(PassPlanner.prototype, 'judge', 'inference: native call ends');
}

if (workerData === null) await (process.argv[1]?.endsWith('engine-host.js') ? engineMain() : api());
else if (workerData?.json && workerData?.running) await tokenizer();
else if (workerData?.backlog) await inference();
else if (workerData?.work) await hashBuilding();
