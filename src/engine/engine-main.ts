/**
 * Entry of the engine process: opens the model, starts the tokenizer, the hash-building and the inference thread, and
 * connects them with the API process. This main thread makes batches and passes messages on. It does no long work.
 */

import { type ModelSampling, parseModelSampling } from '../checkpoint/model-sampling.js';
import {
  checkSamePack,
  type PreparedPack,
  type PrepareOptions,
  preparePack,
  reopenPack,
} from '../checkpoint/prepare-pack.js';
import { budgetWarning, checkBudget } from '../config/budget.js';
import type { EngineConfig, SizedConfig } from '../config/engine-config.js';
import { SidaError } from '../errors.js';
import { modelPlanner } from '../inference/model-planner.js';
import { type Sizes, sizesOf } from '../inference/sizes.js';
import { loadAddon } from '../native/addon.js';
import type { ModelShape } from '../native/addon-types.js';
import { hasEncoder, mostEncoderTokens } from '../native/model-shape.js';
import { predictorFingerprint } from '../predictor/predictor-fingerprint.js';
import { startRecording, stopRecording } from '../profile/recording.js';
import { recordThread } from '../profile/thread-events.js';
import type {
  ControlReply,
  ControlRequest,
  FromEngine,
  MainRequest,
  ModelInfo,
  OpeningPhase,
  ToEngine,
} from '../protocol/engine-messages.js';
import { tableK } from '../protocol/hash-table.js';
import type { FromInference, ToInference } from '../protocol/inference-messages.js';
import type { FromHashBuilder, PredictorInfo } from '../protocol/predictor-messages.js';
import { stackCosts } from '../quote/pass-rates.js';
import { Quoter } from '../quote/quoter.js';
import { Batcher, BatchFeed } from '../scheduler/batch.js';
import { GrammarThreads } from '../structured-output/grammar-threads.js';
import { inputBytesOf } from '../tasks/shared/text-limits.js';
import { controlsOf } from '../text/chat/answer-format.js';
import type { TokenTexts } from '../text/detokenizer.js';
import { warnLines } from '../text/print.js';
import { MOST_INPUT_BYTES } from '../text/text-bytes.js';
import type { TokenizerLimits } from '../text/tokenizer.js';
import { startThreads } from './engine-threads.js';
import type { InferenceLink } from './inference-link.js';
import { type EngineLimits, JobRunner } from './job-runner.js';
import { PeerLog, peerIdentityOf } from './peer-log.js';
import { predictorChoice } from './predictor-choice.js';
import { TokenizerLink } from './tokenizer-link.js';

const config = JSON.parse(process.argv[2]!) as EngineConfig;

function send(message: FromEngine): void {
  if (process.connected) process.send!(message);
}

function progress(phase: OpeningPhase, done: number, total: number): void {
  send({ type: 'progress', phase, done, total });
}

/** A dead thread leaves requests without an answer, so the process ends and its parent replaces it. */
function threadFailed(error: Error, name: string): void {
  warnLines(...`The ${name} thread failed: ${error.stack ?? error.message}`.split('\n'));
  process.exit(1);
}

async function open(): Promise<void> {
  // A budget that is too small shows before files are read for minutes.
  if (config.served === undefined) {
    const { formats, plan: planOf } = await modelPlanner(config.model, config);
    const { budgetBytes, plan } = sizesOf(planOf, config, formats);
    checkBudget(budgetBytes, plan);
  }
  const options: PrepareOptions = {
    model: config.model,
    packDir: config.packDir,
    experts: config.experts,
    dense: config.dense,
    checkTensors: config.checkTensors === 'all',
    onProgress: ({ phase, done, total }) => progress(phase, done, total),
    onLine: (line: string) => warnLines(line),
  };
  const prepared = await (config.served ? reopenPack(config.served, options) : preparePack(options));
  recordThread(loadAddon().profile, 'main');
  progress('load', 0, 1);
  const choice = predictorChoice(config);
  const routes = config.routing === 'predicted' && choice !== null;
  const tablesFingerprint = routes ? await predictorFingerprint(choice, config.predictorDevice) : null;
  const { pack, fingerprint, identity, tasks } = prepared;
  const name = config.alias ?? prepared.name;
  const sampling = samplingOf(prepared);
  const sizes = sizesOf((limits) => loadAddon().planMemory({ pack }, limits), config, prepared.formats);
  const warning = budgetWarning(sizes.budgetBytes, sizes.freeBytes);
  if (config.served === undefined && warning !== undefined) warnLines(warning);
  const { inference, hashBuilder, choosing, queue, handOn, opened } = await startThreads({
    config: sizedBy(config, sizes),
    pack,
    weights: identity.weights,
    peerIdentity: peerIdentityOf(fingerprint, sizes.activations),
    predictor: choice,
    onError: threadFailed,
  });
  // The threads opened the pack by its name, after it was verified.
  await checkSamePack(prepared);
  const { shape, formats, plan, usage, kvPageTokens } = opened;
  progress('load', 1, 1);
  const peers = new PeerLog(usage.peers);

  const { maxBatchTokens, batchWaitMs: waitMs, prefixCache } = config;
  const [chosen, tokenizer] = await Promise.all([
    choosing,
    openTokenizer(prepared, { vocabSize: shape.vocabSize, maxInputBytes: MOST_INPUT_BYTES }),
  ]);
  const predictor = { ...chosen, fingerprint: tablesFingerprint };

  if (config.routing === 'predicted' && predictor.name === null) throw noPredictor(predictor);
  if (config.served !== undefined && config.served.predictor !== tablesFingerprint) throw otherPredictor();
  const consequence = predictor.name === null ? 'Experts are fetched on demand' : 'The predictor works on';
  for (const warning of predictor.warnings) warnLines(`${warning}. ${consequence}.`);
  const inputTokens = hasEncoder(shape) ? mostEncoderTokens(shape, maxBatchTokens) : sizes.contextTokens;
  const limits: EngineLimits = {
    shape,
    maxBatchTokens,
    contextTokens: hasEncoder(shape) ? sizes.kvTokens : sizes.contextTokens,
    kvPages: usage.kvPages,
    kvPageTokens,
    kvWindows: usage.kvWindows,
    maxInputBytes:
      config.maxInputBytes === 'auto'
        ? inputBytesOf(inputTokens, longestToken(tokenizer?.texts, shape))
        : config.maxInputBytes,
    texts: tokenizer?.texts,
    chat: tokenizer?.chat,
    routing: { mode: config.routing, k: mostRoutingK(config, shape), predictor: predictor.name !== null },
  };
  const batches = new BatchFeed({
    batcher: new Batcher({ maxBatchTokens, waitMs }),
    queue,
    handOn,
  });
  void batches.follow();
  const toInference = (message: ToInference) => inference.post(message);
  const grammars = tokenizer && grammarThreads(tokenizer, shape, inference);
  const quoter = new Quoter({
    stacks: stackCosts(shape, plan),
    maxBatchTokens,
    experts: plan.experts,
    bytesPerSecond: Math.min(usage.disk.bytesPerSecond, config.linkBandwidth || Number.POSITIVE_INFINITY),
  });
  const jobs = new JobRunner({
    limits,
    prefixCache,
    encoder: tokenizer,
    grammars,
    batches,
    quoter,
    toInference,
    send,
  });
  hashBuilder?.listen(onHashBuilder);
  inference.listen((message) => {
    if (message.type === 'grammar-stuck') grammars?.stuck(message);
    else onInference(message, { jobs, quoter, peers });
  });
  process.on('message', (message: ToEngine) => onParent(message, { jobs, inference, model: name }));
  const hasTokenizer = tokenizer !== undefined;
  const model: ModelInfo = {
    name,
    fingerprint,
    identity,
    shape,
    formats,
    tasks,
    description: prepared.description ?? null,
    hasTokenizer,
    languages: [...(tokenizer?.texts.languages.keys() ?? [])],
    chat: tokenizer?.chat?.format ?? null,
    sampling,
    plan,
    usage,
    predictor,
    activations: sizes.activations,
    contextTokens: limits.contextTokens,
    kvTokens: sizes.kvTokens,
    kv: config.kv,
    maxInputBytes: limits.maxInputBytes,
    freeBytes: sizes.freeBytes,
    routing: config.routing,
  };
  send({ type: 'ready', model, pack, isa: loadAddon().cpuFeatures().isa });
  const alive = () =>
    send({ type: 'alive', tokenizer: tokenizer?.figures ?? null, grammars: grammars?.figures ?? null });
  setInterval(alive, 1000);
}

/** Bytes of the longest token of the vocabulary, as its file writes it. */
function longestToken(texts: TokenTexts | undefined, { vocabSize }: ModelShape): number {
  let most = 0;
  for (let id = 0; texts !== undefined && id < vocabSize; id++)
    most = Math.max(most, Buffer.byteLength(texts.idToToken(id)));
  return most;
}

function sizedBy(own: EngineConfig, { budgetBytes, kvTokens, activations }: Sizes): SizedConfig {
  const { context: _, ...rest } = own;
  return { ...rest, memoryBudget: String(budgetBytes), kvTokens, activations };
}

function samplingOf({ generation, name }: PreparedPack): ModelSampling | null {
  if (config.sampling === 'greedy') return null;
  return parseModelSampling(generation, `generation_config.json of ${name}`) ?? null;
}

async function openTokenizer(
  { tokenizer: json, chatTemplates }: Pick<PreparedPack, 'tokenizer' | 'chatTemplates'>,
  limits: TokenizerLimits,
): Promise<TokenizerLink | undefined> {
  const onFailure = (error: Error) => threadFailed(error, 'tokenizer');
  return json && TokenizerLink.open(json, limits, onFailure, chatTemplates);
}

/** Threads start with the first request that needs one. */
function grammarThreads(
  { json, chat }: TokenizerLink,
  { vocabSize, tokens }: ModelShape,
  inference: InferenceLink,
): GrammarThreads {
  const controls = controlsOf(chat?.shown ?? new Map());
  return new GrammarThreads({
    data: { json, vocabSize, endTokens: tokens.end, controls },
    connect: (life, port) => inference.post({ type: 'grammar-thread', ...life, port }, [port]),
  });
}

/** Most experts that tables may route a token to. Throws cannot_run if tables list fewer. */
function mostRoutingK({ routingK }: EngineConfig, shape: ModelShape): number {
  const named = tableK(shape);
  if (routingK === undefined || routingK <= named) return routingK ?? shape.topK;
  const message = `--routing-k ${routingK} is more than the ${named} experts that this model's hash tables name for a token`;
  throw new SidaError({ code: 'cannot_run', message });
}

function otherPredictor(): SidaError {
  const message = `The predictor of ${config.model} changed while it was served; start again to serve with it`;
  return new SidaError({ code: 'cannot_run', message });
}

function noPredictor({ warnings }: PredictorInfo): SidaError {
  const why = warnings.length > 0 ? `: ${warnings.join('; ')}` : ' (see --predictor)';
  return new SidaError({ code: 'cannot_run', message: `--routing predicted needs a predictor${why}` });
}

function onHashBuilder(message: FromHashBuilder): void {
  if (message.type === 'warning') warnLines(message.message);
}

function onInference(
  message: FromInference,
  { jobs, quoter, peers }: { jobs: JobRunner; quoter: Quoter; peers: PeerLog },
): void {
  switch (message.type) {
    case 'control-reply':
    case 'control-error':
      send(message);
      return;
    case 'counters': {
      const { counters, rates } = message;
      quoter.rates = rates;
      peers.show(counters.usage.peers);
      // A job that was cancelled may still hold inputs until the inference thread has read so.
      const waitingInputs = Math.max(0, jobs.inputs - counters.inputsHeld);
      send({ type: 'counters', counters: { ...counters, waitingInputs, quotes: quoter.counts } });
      return;
    }
    case 'closed':
      process.exit(0);
      break;
    default:
      jobs.onInference(message);
  }
}

interface Rooms {
  jobs: JobRunner;
  inference: InferenceLink;
  model: string;
}

function onParent(message: ToEngine, { jobs, inference, model }: Rooms): void {
  switch (message.type) {
    case 'job':
      jobs.start(message.id, message.request, message.times);
      return;
    case 'cancel':
      jobs.cancel(message.id);
      return;
    case 'taken':
      jobs.taken(message.id, message.deltas);
      return;
    case 'control': {
      const { id, request } = message;
      if (isForMain(request)) control(id, request, { jobs, model });
      else inference.post({ type: 'control', id, request });
      return;
    }
    default:
      inference.post(message);
  }
}

function isForMain(request: ControlRequest): request is MainRequest {
  return request.kind === 'quote' || request.kind === 'start-profile' || request.kind === 'stop-profile';
}

function control(id: number, request: MainRequest, about: Pick<Rooms, 'jobs' | 'model'>): void {
  answerControl(request, about).then(
    (reply) => send({ type: 'control-reply', id, reply }),
    (error: unknown) => send({ type: 'control-error', id, error: SidaError.from(error).toBody() }),
  );
}

async function answerControl(
  request: MainRequest,
  { jobs, model }: Pick<Rooms, 'jobs' | 'model'>,
): Promise<ControlReply> {
  if (request.kind === 'quote') return { kind: 'quote', quote: await jobs.quote(request.job) };
  if (request.kind === 'start-profile') {
    startRecording();
    return { kind: 'start-profile' };
  }
  return { kind: 'stop-profile', written: await stopRecording(request.file, model) };
}

// Without its parent, the engine process has no receiver for answers.
process.on('disconnect', () => process.exit(0));
// A terminal signals the whole process group. Only the parent decides when the engine ends.
process.on('SIGINT', () => {});
process.on('SIGTERM', () => {});

open().catch((error: unknown) => {
  const failed: FromEngine = { type: 'failed', error: SidaError.from(error).toBody() };
  if (!process.connected) process.exit(1);
  process.send!(failed, () => process.exit(1));
});
