/** All messages between the API process and the engine process. */

import type { ModelIdentity } from '../checkpoint/identity.js';
import type { ModelSampling } from '../checkpoint/model-sampling.js';
import type { Tasks } from '../checkpoint/tasks.js';
import type { BudgetShare } from '../config/budget.js';
import type { RoutingMode } from '../config/engine-options.js';
import type { ErrorBody } from '../errors.js';
import type {
  Activations,
  DeviceUsage,
  Isa,
  KvType,
  MemoryPlan,
  ModelShape,
  PackFormats,
  ResidencyState,
} from '../native/addon-types.js';
import type { TraceAbout } from '../profile/chrome-trace.js';
import type { ChatFormat } from '../text/chat/answer-format.js';
import { type AnswerPart, appendParts } from '../text/chat/answer-parts.js';
import type { BuilderFigures } from './builder-stats.js';
import type { Counters } from './counters.js';
import type { ExpertCost } from './expert-cost.js';
import type { GrammarFigures } from './grammar-messages.js';
import type { PredictorInfo } from './predictor-messages.js';
import type { Quote } from './quote.js';
import type { TokenizerFigures } from './tokenizer-messages.js';

/** The served model; sent once it is open. */
export interface ModelInfo {
  name: string;
  /** Hash of everything in the pack. */
  fingerprint: string;
  /** What the fingerprint covers, in parts. */
  identity: ModelIdentity;
  shape: ModelShape;
  formats: PackFormats;
  activations: Activations;
  /** Most tokens of a sequence: a prompt and its answer, or what a decoder writes. */
  contextTokens: number;
  /** Tokens of all sequences together in the KV cache. */
  kvTokens: number;
  kv: KvType;
  /** Longest text of one input in bytes. */
  maxInputBytes: number;
  /** Bytes that the machine had free when the engine started. */
  freeBytes: number;
  tasks: Tasks;
  /** Two sentences of its card; null without one. */
  description: string | null;
  hasTokenizer: boolean;
  /** Language codes of the tokenizer. */
  languages: string[];
  /** Null if the model has no chat template, or no tokenizer. */
  chat: ChatFormat | null;
  /** What requests that do not say get; null: the likeliest token. */
  sampling: ModelSampling | null;
  plan: MemoryPlan;
  usage: DeviceUsage;
  predictor: PredictorInfo;
  /** What routes tokens in requests that do not say. */
  routing: RoutingMode;
}

/** Routing that a request asks for. Null selects the server's default. */
export interface RoutingWish {
  mode: RoutingMode | null;
  /** Experts per token if tables route. */
  k: number | null;
}

/** How tokens are sampled. */
export interface SamplingWish {
  /** Above 0. */
  temperature: number;
  topP: number;
  /** 0 means all. */
  topK: number;
  minP: number;
  /** Seed of the first choice of each prompt. `choiceSeed` derives those of the others. */
  seed: number;
}

/** A job of one task. `src/tasks` defines the additional fields of each kind. */
export interface JobRequest {
  kind: string;
  /** Whether the answer reports its cost in experts. */
  explain?: boolean;
  /** Whether the answer reports the experts of each generated token. */
  tokenExperts?: boolean;
  /** Whether the answer carries the quote that was made before it ran. */
  quoted?: boolean;
  /** Refused before it runs if its quote is longer. */
  maxSeconds?: number;
  routing?: RoutingWish;
  /** Whether deltas are sent as they arise. */
  stream?: boolean;
  /** Names the key that sent it: keys take turns in the engine, and may not share a prefix cache. */
  owner?: string;
}

/** The extra parts that a request asked its answer to show. Each task defines its own fields. */
export type AnswerForm = Record<string, unknown>;

export interface TokenLogprobs {
  id: number;
  token: string;
  /** Length in characters of the choice's text that was final before this token. */
  offset: number;
  /** Null for the first token of an echoed prompt, which follows nothing. */
  logprob: number | null;
  top: { id: number; token: string; logprob: number }[];
}

export interface JobTiming {
  tokenizeMs: number;
  queueMs: number;
  /** Of `inferenceMs`, the time until the first token; absent if none was generated. */
  promptMs?: number;
  inferenceMs: number;
}

/** The result of a job. `src/tasks` defines the additional fields of each kind. */
export interface JobResult {
  kind: string;
  promptTokens: number;
  /** Of these, tokens whose KV pages the prefix cache had; absent if there are none. */
  cachedTokens?: number;
  completionTokens: number;
  experts: ExpertCost;
  /** Present if the request asked for it. */
  quote?: Quote;
  timing: JobTiming;
}

/**
 * The addition of one or more new tokens to a generated text. A delta has more than one token if the stream's reader
 * fell behind. What these tokens made final may be empty. It is a text, or the parts of a conversation's answer.
 */
export interface CompletionDelta {
  /** Choices are numbered prompt by prompt. */
  index: number;
  text: string;
  parts?: AnswerPart[];
  tokenIds: number[];
  logprobs: TokenLogprobs[] | null;
  finishReason: 'stop' | 'length' | null;
  /** Tokens of the prompts; only in the first delta of a stream. */
  promptTokens?: number;
}

/** Copies the delta, so that further deltas can be appended to the copy. */
export function openDelta(delta: CompletionDelta): CompletionDelta {
  const { tokenIds, logprobs, parts } = delta;
  return {
    ...delta,
    ...(parts && { parts: parts.map((part) => ({ ...part })) }),
    tokenIds: [...tokenIds],
    logprobs: logprobs && [...logprobs],
  };
}

/** Appends the next delta of the same choice. */
export function appendDelta(
  to: CompletionDelta,
  { text, parts, tokenIds, logprobs, finishReason }: CompletionDelta,
): void {
  to.text += text;
  if (to.parts !== undefined) appendParts(to.parts, parts ?? []);
  to.tokenIds.push(...tokenIds);
  to.logprobs?.push(...(logprobs ?? []));
  to.finishReason = finishReason;
}

/** What the prefix cache keeps. */
export interface CachedPages {
  /** KV pages that no running input uses. */
  pages: number;
  /** Recurrent states. */
  states: number;
}

/**
 * How the device is shared at a moment. All figures are bytes. The KV cache takes `used + cached + free`, and experts
 * may take `slots`.
 */
export interface MemorySplit {
  /** What the driver of a GPU takes. */
  driver: number;
  /** Weights outside of experts, routers among them. */
  dense: number;
  workspace: number;
  kv: {
    /** Pages of running sequences. */
    used: number;
    /** Pages that only the prefix cache keeps. */
    cached: number;
    free: number;
  };
  experts: {
    slots: number;
    /** Experts on the device. */
    resident: number;
    /** Slots for all experts of the model. */
    all: number;
    /** Experts that one token needs. */
    token: number;
  };
}

/** Control requests that the inference thread answers. */
export type ModelRequest =
  | { kind: 'usage' }
  | { kind: 'experts' }
  /** `set` switches prediction on, or off: for so many seconds, or until it is switched on. */
  | { kind: 'predictor'; set?: { enabled: boolean; seconds?: number | undefined } }
  /** Answered once the new budget is in effect. */
  | { kind: 'set-budget'; device: string; shared?: BudgetShare };

/** Control requests that the main thread answers. */
export type MainRequest =
  /** What the job would cost. Nothing runs. */
  { kind: 'quote'; job: JobRequest } | ProfileRequest;

export type ProfileRequest =
  /** Fails with cannot_run while another recording runs. */
  | { kind: 'start-profile' }
  /** Answered once the file is written. If `file` is null, the recording is discarded. */
  | { kind: 'stop-profile'; file: string | null };

export type ControlRequest = ModelRequest | MainRequest;

export interface ExpertState {
  index: number;
  state: ResidencyState;
  pinned: boolean;
  uses: number;
}

export type ControlReply =
  | { kind: 'usage'; usage: DeviceUsage; split: MemorySplit }
  | { kind: 'experts'; layers: { layer: string; experts: ExpertState[] }[] }
  /** `needed` is false while every expert has a slot. `routeAhead`: see the option. */
  | { kind: 'predictor'; enabled: boolean; needed: boolean; routeAhead: number }
  | { kind: 'set-budget'; usage: DeviceUsage; split: MemorySplit }
  | { kind: 'quote'; quote: Quote }
  | { kind: 'start-profile' }
  | { kind: 'stop-profile'; written: TraceAbout | null };

/** Counters since the engine process started. Sent about every 100 ms while busy, else about once a second. */
export interface EngineCounters extends Counters {
  /** Routings that tables predicted, and those among the tables' first entries: see `recallWidths`. */
  routingsPredicted: number;
  routingHitsNarrow: number;
  routingHitsWide: number;
  /** Weight of the tables' forecast in planning: 1 trusts the tables, 0 ignores them, and below 0 inverts them. */
  tableWeight: number;
  tables: BuilderFigures;
  /** Batches between the hash-building thread and the inference thread. */
  tablesQueued: number;
  /** Prompts that run, and generations with each of their choices and beams. */
  activeSequences: number;
  /** Inputs that these sequences belong to. */
  inputsHeld: number;
  /** Inputs in the engine process that have not started, or that gave their KV pages to older ones. */
  waitingInputs: number;
  /** Answers with a quote, and those that took no longer than the quoted 90 %. */
  quotes: { answers: number; within: number };
  /** KV pages that the prefix cache keeps and no running input uses. */
  kvPagesCached: number;
  rssBytes: number;
  usage: DeviceUsage;
}

/** What the inference thread knows of them. */
export type InferenceFigures = Omit<EngineCounters, 'waitingInputs' | 'quotes'>;

/** When a job came to the queue, and when it fails without an answer, by the clock of `clockMs`. */
export interface JobTimes {
  arrivedMs: number;
  deadlineMs: number;
}

export type ToEngine =
  | { type: 'job'; id: string; request: JobRequest; times?: JobTimes }
  | { type: 'cancel'; id: string }
  /** Reports that `deltas` more deltas of a stream were taken. As many more may be sent. */
  | { type: 'taken'; id: string; deltas: number }
  | { type: 'control'; id: number; request: ControlRequest }
  /** Drops unfinished work, closes the model and exits with code 0. */
  | { type: 'close' };

/** What an engine does before it is ready: packs the experts, hashes files, loads the model. */
export const OPENING_PHASES = ['convert', 'hash', 'load'] as const;
export type OpeningPhase = (typeof OPENING_PHASES)[number];

export type FromEngine =
  /** Progress of long work before the engine is ready: conversion, loading. */
  | { type: 'progress'; phase: OpeningPhase; done: number; total: number }
  | { type: 'ready'; model: ModelInfo; pack: string; isa: Isa }
  /** The model cannot be served; the process exits after this. */
  | { type: 'failed'; error: ErrorBody }
  /** The deltas of one decode step for all jobs. One message per delta would delay the reading of cancel messages. */
  | { type: 'deltas'; deltas: { id: string; delta: CompletionDelta }[] }
  | { type: 'result'; id: string; result: JobResult }
  | { type: 'error'; id: string; error: ErrorBody }
  | { type: 'control-reply'; id: number; reply: ControlReply }
  | { type: 'control-error'; id: number; error: ErrorBody }
  | { type: 'counters'; counters: EngineCounters }
  /** Sent every second by the main thread, which does no long work. Without a tokenizer there are no figures. */
  | { type: 'alive'; tokenizer: TokenizerFigures | null; grammars: GrammarFigures | null };
