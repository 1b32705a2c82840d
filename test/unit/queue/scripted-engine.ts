/** An engine handle whose runs end by hand in the test or by a script. */

import type {
  EngineHandle,
  EnginePhase,
  EngineState,
  RunOptions,
} from '../../../src/engine/engine-handle.js';
import { type ErrorBody, type ErrorCode, SidaError } from '../../../src/errors.js';
import type {
  ControlReply,
  ControlRequest,
  EngineCounters,
  MemorySplit,
  ModelInfo,
} from '../../../src/protocol/engine-messages.js';
import type { ExpertCost } from '../../../src/protocol/expert-cost.js';
import type { Quote } from '../../../src/protocol/quote.js';
import type { AnswerSettings } from '../../../src/queue/redis/queue-name.js';
import { textOf } from '../../../src/tasks/embed/job.js';
import type { TaskJob, TaskResult } from '../../../src/tasks/registry.js';

const GIB = 2 ** 30;

export const SETTINGS: AnswerSettings = {
  activations: 'f32',
  kv: 'f32',
  device: 'cpu',
  routing: 'exact',
  routingK: undefined,
};

export const MODEL: ModelInfo = {
  name: 'switch-mini',
  fingerprint: 'f'.repeat(64),
  identity: {
    weights: 'e'.repeat(64),
    tokenizer: 'd'.repeat(64),
    tasks: 'c'.repeat(64),
    chatTemplate: null,
    generation: null,
  },
  shape: {
    family: 'switch_transformers',
    vocabSize: 8000,
    width: 128,
    heads: 8,
    kvHeads: 8,
    headDim: 16,
    stacks: [
      { name: 'encoder', layers: 4, moeLayers: [1], causal: false, crosses: false },
      { name: 'decoder', layers: 4, moeLayers: [1], causal: true, crosses: true },
    ],
    experts: 4,
    firstExperts: [0, 4, 8],
    topK: 1,
    normalized: false,
    sigmoid: false,
    expertWidth: 256,
    expertCapacity: 64,
    moeLayers: ['encoder.1', 'decoder.1'],
    tiedHead: true,
    contextTokens: null,
    tokens: { start: 0, end: [1], pad: 0 },
  },
  formats: { experts: { dtype: 'int4', group: 64 }, dense: { dtype: 'f32' } },
  activations: 'f32',
  contextTokens: 3072,
  kvTokens: 3072,
  kv: 'f32',
  maxInputBytes: 65_536,
  freeBytes: GIB,
  tasks: {
    sst2: { template: 'sst2 sentence: {text}', labels: ['negative', 'positive'] },
    mrpc: { template: 'mrpc sentence1: {text1} sentence2: {text2}', labels: ['no', 'yes'] },
  },
  hasTokenizer: true,
  description: null,
  languages: [],
  sampling: null,
  chat: {
    answer: { kind: 'tags', reasoning: true, toolCalls: true },
    developerRole: false,
    reasoningField: 'reasoning_content',
    systemMessages: 'anywhere',
  },
  plan: {
    driver: 0,
    dense: 1000,
    routers: 10,
    kvCache: 100,
    workspace: 100,
    hostWorkspace: 0,
    slot: 50,
    block: 50,
    blockBytes: [50, 50],
    layerExperts: [4, 4],
    experts: 8,
    fixed: 1210,
    smallest: 1260,
    resident: 1610,
    expertBytes: 400,
    tokenDense: 100,
    tokenDemand: 100,
    recencyFloor: 1310,
    contextTokens: null,
  },
  usage: {
    budgetBytes: GIB,
    usedBytes: 1000,
    peakBytes: 2000,
    smallestBytes: 500,
    slots: 8,
    kvPages: 10,
    kvPagesFree: 10,
    kvPageBytes: 10,
    kvWindows: [],
    host: { budgetBytes: 0, usedBytes: 0, experts: 0 },
    disk: { direct: false, depth: 1, chunkBytes: 1, bytesPerSecond: 0 },
    peers: [],
  },
  predictor: { name: null, fingerprint: null, warnings: [] },
  routing: 'exact',
};

export const SPLIT: MemorySplit = {
  driver: 70,
  dense: 300,
  workspace: 200,
  kv: { used: 30, cached: 20, free: 50 },
  experts: { slots: 400, resident: 350, all: 800, token: 200 },
};

export const COST: ExpertCost = {
  needed: 5,
  resident: 3,
  prefetched: 0,
  late: 0,
  on_demand: 2,
  peer: 0,
  cpu: 0,
  loaded: 2,
  bytes: 100,
  stall_ms: 0.5,
  predicted: 0,
  hits_top1: 0,
  hits_top3: 0,
};

export const QUOTE: Quote = {
  promptTokens: 9,
  maxTokens: 40,
  experts: { p50: 100, p90: 150.4 },
  bytes: { p50: 4_096.2, p90: 8_192 },
  firstSeconds: { p50: 0.25, p90: 0.5 },
  seconds: { p50: 8, p90: 20 },
  queueSeconds: 1,
  aloneSeconds: 1,
  jobsAhead: 2,
  measured: 30,
};

const TOTALS = {
  promptTokens: 9,
  completionTokens: 0,
  experts: COST,
  timing: { tokenizeMs: 0.1, queueMs: 1, inferenceMs: 2 },
};

export interface ScriptedRun {
  id: string;
  request: TaskJob;
  options: RunOptions;
  finish(result?: TaskResult): void;
  fail(code: ErrorCode, more?: Partial<ErrorBody>): void;
}

export class ScriptedEngine implements EngineHandle {
  state: EngineState = { phase: 'ready', detail: 'ready' };
  model: ModelInfo | undefined = MODEL;
  computes: EngineHandle['computes'] = { device: 'cpu', isa: 'scalar' };
  counters: EngineCounters | undefined = undefined;
  tokenizer = undefined;
  grammars = undefined;
  restarts = 0;
  /** Runs that have not ended, in the order of their start. */
  runs: ScriptedRun[] = [];
  started: string[] = [];
  mostAtOnce = 0;
  controls: ControlRequest[] = [];
  /** Called at the start of each run, to end it. When undefined, the test ends the run itself. */
  script: ((run: ScriptedRun) => void) | undefined;
  onControl: (request: ControlRequest) => ControlReply = () => {
    throw new SidaError({ code: 'not_ready', message: 'no reply was scripted' });
  };
  readonly #listeners = new Set<(state: EngineState) => void>();

  start(): void {
    this.enter('ready');
  }

  run(id: string, request: TaskJob, options: RunOptions): Promise<TaskResult> {
    return new Promise((resolve, reject) => {
      const end = (settle: () => void) => {
        this.runs = this.runs.filter((other) => other !== run);
        settle();
      };
      const run: ScriptedRun = {
        id,
        request,
        options,
        finish: (result = answerTo(request)) => end(() => resolve(result)),
        fail: (code, more) =>
          end(() => reject(new SidaError({ code, message: `scripted ${code}`, ...more }))),
      };
      options.signal.addEventListener('abort', () => run.fail('cancelled'), { once: true });
      this.runs.push(run);
      this.started.push(id);
      this.mostAtOnce = Math.max(this.mostAtOnce, this.runs.length);
      this.script?.(run);
    });
  }

  /** Crashes the engine. Every run ends with `engine_crashed`; the phase is `restarting` until `enter('ready')`. */
  crash(): void {
    this.restarts += 1;
    this.state = { phase: 'restarting', detail: 'exited on signal SIGKILL' };
    for (const run of [...this.runs]) run.fail('engine_crashed');
    this.enter('restarting');
  }

  enter(phase: EnginePhase): void {
    this.state = { phase, detail: phase };
    for (const listener of this.#listeners) listener(this.state);
  }

  async control(request: ControlRequest): Promise<ControlReply> {
    this.controls.push(request);
    return this.onControl(request);
  }

  onState(listener: (state: EngineState) => void): () => void {
    this.#listeners.add(listener);
    return () => this.#listeners.delete(listener);
  }

  async close(): Promise<void> {
    this.enter('closed');
  }
}

export function answerTo(request: TaskJob): TaskResult {
  switch (request.kind) {
    case 'classify': {
      const [label, ...rest] = request.labels as [string, ...string[]];
      const scores = Object.fromEntries([[label, 0.75], ...rest.map((other) => [other, 0.25 / rest.length])]);
      return { ...TOTALS, kind: 'classify', data: request.inputs.map(() => ({ label, scores })) };
    }
    case 'translate':
      return {
        ...TOTALS,
        kind: 'translate',
        data: request.inputs.map(() => ({ text: 'gut', tokenIds: [7], finishReason: 'stop' })),
      };
    case 'complete': {
      const logprobs =
        request.logprobs === null
          ? null
          : [
              {
                id: 7,
                token: ' good',
                offset: 0,
                logprob: -0.5,
                top: [{ id: 7, token: ' good', logprob: -0.5 }],
              },
            ];
      return {
        ...TOTALS,
        completionTokens: request.prompts.length,
        kind: 'complete',
        choices: request.prompts.map((_, index) => ({
          index,
          text: 'good',
          tokenIds: [7],
          finishReason: 'length',
          logprobs,
        })),
      };
    }
    case 'chat':
    case 'respond':
      return {
        ...TOTALS,
        kind: request.kind,
        completionTokens: 1,
        choices: Array.from({ length: request.choices ?? 1 }, (_, index) => ({
          index,
          parts: [{ kind: 'content', text: 'good' }],
          tokenIds: [7],
          finishReason: 'stop',
          logprobs: null,
        })),
      };
    case 'embed':
      return { ...TOTALS, kind: 'embed', embeddings: request.inputs.map(() => textOf([0.5, -1])) };
    case 'detokenize':
      return { ...TOTALS, kind: 'detokenize', texts: request.ids.map((ids) => ids.join(' ')) };
    case 'tokenize':
      return {
        ...TOTALS,
        kind: 'tokenize',
        data: request.inputs.map((text) => ({ ids: [5, 1], tokens: [text, '</s>'] })),
      };
  }
}
