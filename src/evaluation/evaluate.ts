/** Measures hash functions on the inputs of one source: hits, and fidelity of predicted mode. */
import { clockMs } from '../clock.js';
import { hitNames } from '../forecast/hit-ranks.js';
import type { Engine } from '../native/addon-types.js';
import {
  type HashFunction,
  type RoutingShape,
  routingShape,
  type StackName,
} from '../predictor/hash-function.js';
import { HitCounts, type LayerHits } from '../predictor/hit-counts.js';
import type { HashTable } from '../protocol/hash-table.js';
import { LabelCounts, type LabelFidelity, type Perplexity, PerplexityCounts } from './fidelity.js';
import { type EvaluationInput, passesOf } from './input-passes.js';
import { type ExactRun, type RunPart, runExact, runRouted } from './model-runner.js';
import { ExpertNames, renamed, routingBy, routingToNothing } from './routings.js';
import { fillTable } from './tables.js';

export interface MeasuredFunction {
  name: string;
  function: HashFunction;
}

interface EvaluationOptions {
  engine: Engine;
  /** The tables of the first function route. For the other functions only hits are counted. */
  functions: readonly [MeasuredFunction, ...MeasuredFunction[]];
  /** Numbers of experts per token in predicted mode, each at most the engine's `maxRoutingK`. */
  ks: readonly number[];
  /** Called after each input. */
  onProgress: (done: number, total: number) => void;
}

export interface EvaluationSource {
  inputs: readonly (EvaluationInput & { label?: number })[];
  /** What the inputs are scored on. Absent for continuations. */
  scored?: { kind: 'labels'; labels: readonly string[] } | { kind: 'targets' };
}

export interface LayerReport {
  /** Name such as `encoder.1`. */
  layer: string;
  tokens: number;
  /** Mean top-k weight (α) of the router's first choice. */
  alpha: number;
  /** Hits by the name of the hash function. */
  functions: Record<string, LayerHits>;
}

export interface SourceReport {
  inputs: number;
  /** Number of tokens by stack. */
  tokens: Partial<Record<StackName, number>>;
  /** Names of the first and the last hit rate of the layers. */
  hitNames: [first: string, last: string];
  layers: LayerReport[];
  /** Median time of the tables of an input, in milliseconds, by the name of the hash function. */
  tableMs: Record<string, number>;
  labels: LabelFidelity | null;
  perplexity: Perplexity | null;
}

export function evaluate(source: EvaluationSource, options: EvaluationOptions): SourceReport {
  const totals = new Totals(source, options);
  for (const [i, input] of source.inputs.entries()) {
    totals.add(input);
    options.onProgress(i + 1, source.inputs.length);
  }
  return totals.result();
}

class Totals {
  readonly #options: EvaluationOptions;
  readonly #shape: RoutingShape;
  /** Of the control with random tables. */
  readonly #names: ExpertNames;
  readonly #hits: HitCounts[];
  /** (functions, inputs). */
  readonly #tableMs: number[][];
  /** Tokens of each stack; (stacks). */
  readonly #tokens: number[];
  readonly #labels: LabelCounts | undefined;
  readonly #perplexity: PerplexityCounts | undefined;
  #inputs = 0;

  constructor({ scored }: EvaluationSource, options: EvaluationOptions) {
    this.#options = options;
    const { engine, functions, ks } = options;
    this.#shape = routingShape(engine.shape);
    this.#names = new ExpertNames(this.#shape);
    this.#hits = functions.map(() => new HitCounts(this.#shape));
    this.#tableMs = functions.map(() => []);
    this.#tokens = this.#shape.stacks.map(() => 0);
    if (scored?.kind === 'labels') this.#labels = new LabelCounts(scored.labels, ks);
    if (scored?.kind === 'targets') this.#perplexity = new PerplexityCounts(ks);
  }

  add(input: EvaluationInput & { label?: number }): void {
    const { engine, functions } = this.#options;
    const exact = runExact(engine, input);
    const tables = functions.map(({ function: hash }, f) => {
      const begin = clockMs();
      const own = exact.parts.map((part) => fillTable(hash, this.#shape, part.stack, part.input));
      this.#tableMs[f]!.push(clockMs() - begin);
      return own;
    });
    exact.parts.forEach(({ stack, input: { tokens }, routing }, p) => {
      this.#tokens[stack]! += tokens.length;
      tables.forEach((own, f) => {
        this.#hits[f]!.add(stack, own[p]!, routing, tokens.length);
      });
    });
    this.#compare(input, exact, tables[0]!);
    this.#inputs += 1;
  }

  #compare(
    input: EvaluationInput & { label?: number },
    { scores, parts }: ExactRun,
    tables: readonly (HashTable | null)[],
  ): void {
    if (scores === null) return;
    const { engine, ks } = this.#options;
    const nothing = parts.map((part) =>
      routingToNothing(this.#shape.stacks[part.stack]!.layers, part.input.tokens.length),
    );
    const zeros = runRouted(engine, input, nothing);
    const predicted = ks.map((k) => this.#predicted(input, parts, tables, k));
    if (input.label !== undefined) this.#labels?.add(input.label, { exact: scores, zeros, predicted });
    const targets = passesOf(input, engine.shape.stacks.length > 1).flatMap((pass) => pass.targets);
    this.#perplexity?.add(targets.length, {
      exact: scores[0]!,
      zeros: zeros[0]!,
      predicted: predicted.map(({ own, random }) => ({ own: own?.[0] ?? null, random: random?.[0] ?? null })),
    });
  }

  /** Scores with the tables, and with the control. Null if the tables do not cover the input. */
  #predicted(
    input: EvaluationInput,
    parts: readonly RunPart[],
    tables: readonly (HashTable | null)[],
    k: number,
  ): { own: number[] | null; random: number[] | null } {
    const told = tables.filter((table) => table !== null);
    if (told.length < tables.length) return { own: null, random: null };
    const { engine } = this.#options;
    const routings = told.map((table) => routingBy(table, k));
    const random = routings.map((routing, p) => renamed(routing, parts[p]!.stack, this.#names));
    return { own: runRouted(engine, input, routings), random: runRouted(engine, input, random) };
  }

  result(): SourceReport {
    const { engine, functions } = this.#options;
    const { stacks, topK } = this.#shape;
    const hits = this.#hits.map((counts) => counts.result());
    const layers = engine.shape.moeLayers.map((layer, i) => {
      const own = functions.map(({ name }, f) => {
        const { tokens: _, alpha: __, ...shares } = hits[f]![i]!;
        return [name, shares];
      });
      const { tokens, alpha } = hits[0]![i]!;
      return { layer, tokens, alpha, functions: Object.fromEntries(own) };
    });
    return {
      inputs: this.#inputs,
      tokens: Object.fromEntries(stacks.map(({ name }, s) => [name, this.#tokens[s]!])),
      hitNames: hitNames(topK),
      layers,
      tableMs: Object.fromEntries(functions.map(({ name }, f) => [name, middle(this.#tableMs[f]!)])),
      labels: this.#labels?.result() ?? null,
      perplexity: this.#perplexity?.result() ?? null,
    };
  }
}

function middle(values: readonly number[]): number {
  return values.toSorted((a, b) => a - b)[values.length >> 1] ?? 0;
}
