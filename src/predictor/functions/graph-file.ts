/** The hash graph on disk: graph.safetensors. */
import {
  readSafetensors,
  type SafetensorsFile,
  tensorOf,
  writeSafetensors,
} from '../../checkpoint/safetensors.js';
import { SidaError } from '../../errors.js';
import { layersOf, type RoutingShape, SIDES, type Side } from '../hash-function.js';
import { type GraphSide, HashGraph, REFINED, type RefinerSettings } from './graph.js';

const FORMAT = { format: 'sida-hash-graph', version: '1' };
const MAX_EXPONENT = 4;
/** Of the sum of a distribution's float32 values. */
const TOLERANCE = 1e-3;

export function writeGraph(path: string, graph: HashGraph): void {
  const tensors: Parameters<typeof writeSafetensors>[1] = {};
  const { experts } = graph.shape;
  for (const side of SIDES) {
    const layers = layersOf(graph.shape, side);
    const { frequencies, transitions, alpha } = graph.sides[side];
    tensors[`${side}.frequencies`] = { shape: [layers, experts], data: frequencies };
    tensors[`${side}.transitions`] = {
      shape: [Math.max(0, layers - 1), experts, experts],
      data: transitions,
    };
    tensors[`${side}.alpha`] = { shape: [layers, experts], data: alpha };
    for (const [name, settings] of graph.refiners) {
      const { exponents } = settings[side];
      tensors[`${name}.${side}.exponents`] = { shape: [layers, layers], data: exponents };
    }
  }
  writeSafetensors(path, tensors, FORMAT);
}

/** Throws checkpoint_invalid where the file is damaged or made for another model's sizes. */
export function readGraph(path: string, shape: RoutingShape): HashGraph {
  const file = readSafetensors(path);
  if (file.metadata.format !== FORMAT.format || file.metadata.version !== FORMAT.version) {
    throw invalid(
      path,
      `expected ${FORMAT.format} version ${FORMAT.version}, found ${file.metadata.format} version ${file.metadata.version}`,
    );
  }
  const reader = new GraphReader(path, file, shape);
  const graph = new HashGraph(shape, { encoder: reader.side('encoder'), decoder: reader.side('decoder') });
  for (const name of REFINED) {
    if (!file.tensors.has(`${name}.encoder.exponents`)) continue;
    graph.refiners.set(name, {
      encoder: reader.settings(`${name}.encoder`, 'encoder'),
      decoder: reader.settings(`${name}.decoder`, 'decoder'),
    });
  }
  return graph;
}

class GraphReader {
  readonly #path: string;
  readonly #file: SafetensorsFile;
  readonly #shape: RoutingShape;

  constructor(path: string, file: SafetensorsFile, shape: RoutingShape) {
    this.#path = path;
    this.#file = file;
    this.#shape = shape;
  }

  side(side: Side): GraphSide {
    const { experts } = this.#shape;
    const layers = layersOf(this.#shape, side);
    const frequencies = this.#read(`${side}.frequencies`, [layers, experts], 1);
    const transitions = this.#read(`${side}.transitions`, [Math.max(0, layers - 1), experts, experts], 1);
    this.#checkSums(`${side}.frequencies`, frequencies);
    this.#checkSums(`${side}.transitions`, transitions);
    const zero = frequencies.indexOf(0);
    if (zero >= 0) throw invalid(this.#path, `${side}.frequencies[${zero}] is 0, expected more`);
    return {
      frequencies,
      transitions,
      alpha: this.#read(`${side}.alpha`, [layers, experts], 1),
    };
  }

  settings(prefix: string, side: Side): RefinerSettings {
    const layers = layersOf(this.#shape, side);
    return { exponents: this.#read(`${prefix}.exponents`, [layers, layers], MAX_EXPONENT) };
  }

  #read(name: string, shape: number[], limit: number): Float32Array<ArrayBuffer> {
    const values = tensorOf(this.#path, this.#file, name, 'F32', shape);
    const bad = values.findIndex((value) => !(value >= 0 && value <= limit));
    if (bad >= 0) throw invalid(this.#path, `${name}[${bad}] is ${values[bad]}, expected 0 to ${limit}`);
    return values;
  }

  #checkSums(name: string, values: Float32Array): void {
    const { experts } = this.#shape;
    for (let from = 0; from < values.length; from += experts) {
      const sum = values.subarray(from, from + experts).reduce((total, value) => total + value, 0);
      if (Math.abs(sum - 1) <= TOLERANCE) continue;
      throw invalid(this.#path, `${name}: row ${from / experts} sums to ${sum}, expected 1`);
    }
  }
}

function invalid(path: string, what: string): SidaError {
  return new SidaError({ code: 'checkpoint_invalid', message: `${path}: ${what}` });
}
