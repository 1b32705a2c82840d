/** Opens the hash functions of a directory that `sida train` made. */

import { join, resolve } from 'node:path';
import { pathToFileURL } from 'node:url';
import { SidaError } from '../errors.js';
import { holdsDirectory } from '../files/model-file.js';
import type {
  DeviceName,
  ModelShape,
  NativeAddon,
  Predictor,
  TokenEmbedding,
} from '../native/addon-types.js';
import type { HashFunctionName, NetworkName } from '../protocol/predictor-messages.js';
import { NetworkFunction } from './functions/network.js';
import { TokenTable } from './functions/token-table.js';
import { expertsOfStack, type HashFunction, type RoutingShape, routingShape } from './hash-function.js';
import {
  MANIFEST,
  type NetworkEntry,
  networksOf,
  type PredictorManifest,
  readPredictorManifest,
} from './training/manifest.js';

export const TOKEN_TABLE = 'token.safetensors';

export interface PredictorDirectoryOptions {
  /** The model that will be served. */
  model: Pick<
    ModelShape,
    'stacks' | 'moeLayers' | 'experts' | 'firstExperts' | 'topK' | 'normalized' | 'vocabSize' | 'width'
  >;
  /** Identity of its weights. */
  weights: string;
  /** Default: the one that the manifest names. */
  kind?: HashFunctionName;
  addon: Pick<NativeAddon, 'Predictor'>;
  /** Called only for networks, and closed once they are open. */
  embedding: () => TokenEmbedding;
  /** Stacks whose networks are opened. Default: all. */
  stacks?: readonly number[];
  /** Threads of the networks. Default: 1, which runs them on the calling thread. */
  threads?: number;
  /** What runs the networks. Default: the CPU. */
  device?: DeviceName;
}

export interface OpenedPredictor {
  function: HashFunction;
  warnings: string[];
}

/**
 * A module whose `open` makes the hash function in place of openTrained(). Experiments use it to serve with tables that
 * nobody has trained. It is no option: a user never needs it.
 */
const MODULE = process.env.SIDA_HASH_FUNCTION_MODULE;

export async function openPredictor(
  directory: string,
  options: PredictorDirectoryOptions,
): Promise<OpenedPredictor> {
  if (MODULE === undefined) return openTrained(directory, options);
  const { open } = (await import(pathToFileURL(resolve(MODULE)).href)) as { open: typeof openTrained };
  return open(directory, options);
}

/**
 * Opens the predictor in `directory`. Throws cannot_run if the directory does not hold one, and checkpoint_invalid if
 * files are missing, damaged, of another kind or made for a model of other sizes. Other weights only give a warning:
 * their element types do not count, and neither do the tokenizer and the tasks.
 */
export async function openTrained(
  directory: string,
  options: PredictorDirectoryOptions,
): Promise<OpenedPredictor> {
  const shape = routingShape(options.model);
  const manifest = await readPredictorManifest(directory);
  checkSizes(join(directory, MANIFEST), manifest, options.model);
  const warnings: string[] = [];
  const { name, weights } = manifest.model;
  if (weights !== options.weights) {
    warnings.push(
      `${directory} was made for other weights: it names ${name} with weights ${weights}, this model has ${options.weights}; its predictions may be poorer`,
    );
  }
  const kind = options.kind ?? manifest.default;
  if (kind === 'token') {
    return { function: TokenTable.read(join(directory, TOKEN_TABLE), shape), warnings };
  }
  const entry = manifest.networks[kind];
  if (entry === undefined) {
    const held = [...networksOf(manifest), 'token'].join(' and ');
    throw invalid(
      `${directory} has no ${kind} network: it holds ${held}; \`sida train --network ${kind}\` adds one`,
    );
  }
  const device = kind === 'lstm' ? (options.device ?? 'cpu') : 'cpu';
  if (options.device === 'cuda' && device === 'cpu') {
    warnings.push(`${directory}: the CPU runs its ${kind} network; a GPU runs lstm`);
  }
  const opened = openNetworks(directory, kind, entry, shape, { ...options, device });
  for (const { name: stack, layers } of shape.stacks) {
    if (layers > 0 && !holdsDirectory(join(directory, kind), stack)) {
      warnings.push(`${directory} has no ${kind} network of the ${stack}: its experts are not predicted`);
    }
  }
  return { function: opened, warnings };
}

function invalid(message: string): SidaError {
  return new SidaError({ code: 'checkpoint_invalid', message });
}

function checkSizes(path: string, found: PredictorManifest, model: PredictorDirectoryOptions['model']): void {
  if (found.layers.join() !== model.moeLayers.join()) {
    throw invalid(
      `${path}: made for ${found.layers.length} MoE layers (${found.layers.join(', ')}), the model has ${model.moeLayers.length} (${model.moeLayers.join(', ')})`,
    );
  }
  if (found.experts !== model.experts) {
    throw invalid(`${path}: made for ${found.experts} experts a layer, the model has ${model.experts}`);
  }
  if (found.topK !== model.topK) {
    throw invalid(`${path}: made for ${found.topK} experts a token, the model chooses ${model.topK}`);
  }
  if (found.vocab !== model.vocabSize) {
    throw invalid(`${path}: made for a vocabulary of ${found.vocab}, the model has ${model.vocabSize}`);
  }
}

function openNetworks(
  directory: string,
  kind: NetworkName,
  { sharpness }: NetworkEntry,
  shape: RoutingShape,
  options: PredictorDirectoryOptions,
): NetworkFunction {
  const { addon, embedding, threads = 1, device = 'cpu', model, stacks = [...shape.stacks.keys()] } = options;
  const networks: (Predictor | null)[] = shape.stacks.map(() => null);
  const opened = new NetworkFunction(kind, shape, networks);
  const own = holdsDirectory(directory, kind) ? join(directory, kind) : null;
  if (own === null || !shape.stacks.some(({ name }) => holdsDirectory(own, name))) {
    const wanted = shape.stacks.map(({ name }) => name).join(' or ');
    throw invalid(`${join(directory, kind)} has no network of ${wanted}`);
  }
  const shared = embedding();
  try {
    for (const stack of stacks) {
      const { name, layers, causal, crosses } = shape.stacks[stack]!;
      if (!holdsDirectory(own, name)) continue;
      const path = join(own, name);
      const fitted = sharpness?.[name];
      const network = new addon.Predictor({
        directory: path,
        embedding: shared,
        threads,
        device,
        choices: shape.topK,
        layerExperts: Uint16Array.from(expertsOfStack(shape, stack)),
        ...(fitted && {
          alphaSharpness: Float32Array.from(fitted.alpha),
          chanceSharpness: Float32Array.from(fitted.chance),
        }),
      });
      networks[stack] = network;
      if (network.shape.kind !== kind) {
        throw invalid(`${path}: a network of kind ${network.shape.kind} in the folder of ${kind}`);
      }
      const expected = { layers, experts: shape.experts, dIn: model.width, causal, summary: crosses };
      for (const [field, wanted] of Object.entries(expected) as [keyof typeof expected, number | boolean][]) {
        if (network.shape[field] === wanted) continue;
        throw invalid(`${path}: ${field} is ${network.shape[field]}, the model's ${name} has ${wanted}`);
      }
    }
  } catch (error) {
    opened.close();
    throw SidaError.from(error);
  } finally {
    // The garbage collector would free it late: threads that serve never leave their loop for it.
    shared.close();
  }
  return opened;
}
