/** Measures hash functions on the inputs of one source: hits, what predicted mode keeps, bytes that policies move. */
import type { Engine } from '../native/addon-types.js';
import { type HashFunction, type RoutingShape, routingShape, SIDES } from '../predictor/hash-function.js';
import { LabelCounts, type LabelFidelity, type Perplexity, PerplexityCounts } from './fidelity.js';
import { HitCounts, type LayerHits } from './hit-counts.js';
import { type EvaluationInput, type ExactRun, runExact, runPredicted } from './model-runner.js';
import { type BudgetMoves, movedBytes, type SlotBudget } from './moved-bytes.js';
import type { ReplayBatch } from './replay.js';
import { batchOf, fillTable, type Tables } from './tables.js';

export interface MeasuredFunction {
  name: string;
  function: HashFunction;
}

export interface EvaluationOptions {
  engine: Engine;
  /** The first is the one whose tables route and plan; the others' hits stand beside it. */
  functions: readonly [MeasuredFunction, ...MeasuredFunction[]];
  /** Experts a token in predicted mode, each at most the engine's `maxRoutingK`. */
  ks: readonly number[];
  budgets: readonly SlotBudget[];
  lookaheads: readonly number[];
  /** Awaited now and then; may throw to end the evaluation. */
  onProgress: (phase: 'evaluate' | 'replay', done: number, total: number) => Promise<void>;
}

export interface EvaluationSource {
  inputs: readonly (EvaluationInput & { label?: number })[];
  /** What the plans of the inputs score; nothing for continuations. */
  scored?: { kind: 'labels'; labels: readonly string[] } | { kind: 'targets' };
}

export interface LayerReport {
  /** `encoder.1`, … */
  layer: string;
  tokens: number;
  /** Mean probability that the router gives its choice. */
  alpha: number;
  /** By name of the hash function. */
  functions: Record<string, LayerHits>;
}

export interface SourceReport {
  inputs: number;
  encoderTokens: number;
  decoderTokens: number;
  layers: LayerReport[];
  labels: LabelFidelity | null;
  perplexity: Perplexity | null;
  moved: BudgetMoves[];
}

export async function evaluate(source: EvaluationSource, options: EvaluationOptions): Promise<SourceReport> {
  const { engine, budgets, lookaheads, onProgress } = options;
  const totals = new Totals(source, options);
  for (const [i, input] of source.inputs.entries()) {
    totals.add(input);
    await onProgress('evaluate', i + 1, source.inputs.length);
  }
  const { experts, slot } = engine.plan;
  const moved = await movedBytes(totals.batches, {
    experts,
    expertBytes: slot,
    budgets,
    lookaheads,
    onReplay: (done, total) => onProgress('replay', done, total),
  });
  return { ...totals.result(), moved };
}

class Totals {
  readonly batches: ReplayBatch[] = [];
  readonly #options: EvaluationOptions;
  readonly #shape: RoutingShape;
  readonly #hits: HitCounts[];
  readonly #alpha: Float64Array;
  readonly #tokens = { encoder: 0, decoder: 0 };
  readonly #labels: LabelCounts | undefined;
  readonly #perplexity: PerplexityCounts | undefined;

  constructor({ scored }: EvaluationSource, options: EvaluationOptions) {
    this.#options = options;
    const { engine, functions, ks } = options;
    this.#shape = routingShape(engine.shape);
    this.#hits = functions.map(() => new HitCounts(this.#shape));
    this.#alpha = new Float64Array(engine.shape.moeLayers.length);
    if (scored?.kind === 'labels') this.#labels = new LabelCounts(scored.labels, ks);
    if (scored?.kind === 'targets') this.#perplexity = new PerplexityCounts(ks);
  }

  add(input: EvaluationInput & { label?: number }): void {
    const { engine, functions } = this.#options;
    const exact = runExact(engine, input);
    const tables = functions.map(({ function: hash }): Tables => {
      const { encoder, decoder } = exact.inputs;
      return {
        encoder: fillTable(hash, this.#shape, 'encoder', encoder),
        decoder: fillTable(hash, this.#shape, 'decoder', decoder),
      };
    });
    this.#count(exact, tables);
    this.#compare(input, exact, tables[0]!);
    this.batches.push(batchOf(exact, tables[0]!, this.#shape.encoderLayers));
  }

  #count({ inputs, routing }: ExactRun, tables: readonly Tables[]): void {
    let layer = 0;
    for (const side of SIDES) {
      const tokens = inputs[side].tokens.length;
      this.#tokens[side] += tokens;
      tables.forEach((own, i) => {
        this.#hits[i]!.add(side, own[side], routing[side], tokens);
      });
      const { alpha } = routing[side];
      for (let begin = 0; begin < alpha.length; begin += tokens, layer++) {
        for (let t = 0; t < tokens; t++) this.#alpha[layer]! += alpha[begin + t]!;
      }
    }
  }

  #compare(
    { tokens, work, label }: EvaluationInput & { label?: number },
    { scores }: ExactRun,
    { encoder, decoder }: Tables,
  ): void {
    if (work.kind === 'continue' || scores === null) return;
    const { engine, ks } = this.#options;
    const predicted = ks.map((k) => {
      if (encoder === null || decoder === null) return null;
      return runPredicted(engine, tokens, work.plan, { encoder, decoder }, k);
    });
    if (label !== undefined) this.#labels?.add(label, scores, predicted);
    const rows = work.plan.inputs.reduce((sum, input) => sum + input.rows.length, 0);
    this.#perplexity?.add(
      rows,
      scores[0]!,
      predicted.map((own) => own?.[0] ?? null),
    );
  }

  result(): Omit<SourceReport, 'moved'> {
    const { engine, functions } = this.#options;
    const { encoder, decoder } = this.#tokens;
    const hits = this.#hits.map((counts) => counts.result());
    const layers = engine.shape.moeLayers.map((layer, i) => {
      const tokens = i < this.#shape.encoderLayers ? encoder : decoder;
      const own = Object.fromEntries(functions.map(({ name }, f) => [name, hits[f]![i]!]));
      return { layer, tokens, alpha: this.#alpha[i]! / tokens, functions: own };
    });
    return {
      inputs: this.batches.length,
      encoderTokens: encoder,
      decoderTokens: decoder,
      layers,
      labels: this.#labels?.result() ?? null,
      perplexity: this.#perplexity?.result() ?? null,
    };
  }
}
