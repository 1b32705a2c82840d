/** Trains a predictor directory from traces: networks, token table, training log and card. */
import { existsSync } from 'node:fs';
import { cp, mkdir, readFile, rename, rm } from 'node:fs/promises';
import { join } from 'node:path';
import { writeWholeFile } from '../../files/whole-file.js';
import { loadAddon } from '../../native/addon.js';
import type { NativeAddon, PredictorShape } from '../../native/addon-types.js';
import { NETWORK_NAMES } from '../../protocol/predictor-messages.js';
import type { StackName } from '../hash-function.js';
import { learnAndMeasure, type TableEvents } from './learned-tables.js';
import {
  defaultFunction,
  MANIFEST,
  type NetworkEntry,
  networksOf,
  type PredictorManifest,
  readPredictorManifest,
} from './manifest.js';
import type { Evaluation, NetworkState } from './network-state.js';
import { type TrainingEvents, trainNetwork } from './network-training.js';
import { ownOptions } from './options.js';
import { OutputDirectory, saving } from './output-directory.js';
import { predictorCard, type TrainingMinutes } from './predictor-card.js';
import { openSetup, sequencesOf, type TrainingSetup, type TrainRequest } from './setup.js';
import { sampleTokens } from './split.js';

/** The measurements of a kind's training, one per line. */
const LOG = 'training.jsonl';
/** Tokens of an evaluation during training. The final measurement uses everything held out. */
const MEASURED_TOKENS = 50_000;
/** The encoder's share of --max-minutes if both networks are trained. Decoders have fewer tokens. */
const ENCODER_SHARE = 0.8;

type PredictorEvents = TrainingEvents & TableEvents;

interface TrainResult {
  manifest: PredictorManifest;
  /** Whether the same run had ended before, so that nothing was left to do. */
  endedBefore: boolean;
  networks: { network: StackName; state: NetworkState }[];
}

/** Shape of the network of a stack. */
export function shapeOf(
  { train, embedding, network, options }: TrainingSetup,
  stack: number,
): PredictorShape {
  const causal = train.corpus.stacks[stack] === 'decoder';
  return {
    dIn: embedding.dModel,
    hidden: options.hidden,
    layers: train.corpus.layers(stack).length,
    experts: train.corpus.traces[0]!.meta.experts,
    causal,
    summary: stack > 0,
    ...(network === 'lstm'
      ? {
          lstmLayers: options.layers,
          attentionWeights: options.attentionWeights,
          bidirectional: options.bidirectional && !causal,
        }
      : { blocks: options.blocks, bidirectional: false }),
  };
}

/** Trains the network of a stack and keeps its state in `directory`. */
export async function runNetwork(
  addon: NativeAddon,
  setup: TrainingSetup,
  request: TrainRequest,
  stack: number,
  directory: string,
  events: TrainingEvents,
): Promise<NetworkState> {
  const { threads } = request;
  const { options } = setup;
  const heldOut = sequencesOf(setup.heldOut, stack, 'measure on');
  const share = setup.stacks.length === 1 ? 1 : stack === 0 ? ENCODER_SHARE : 1 - ENCODER_SHARE;
  const job = {
    stack,
    name: setup.train.corpus.stacks[stack]!,
    shape: shapeOf(setup, stack),
    train: sequencesOf(setup.train, stack, 'learn from'),
    heldOut: {
      corpus: heldOut.corpus,
      sequences: sampleTokens(
        heldOut.sequences,
        (sequence) => heldOut.corpus.length(sequence, stack),
        MEASURED_TOKENS,
        options.seed,
      ),
    },
    options,
    top: setup.top,
    topK: setup.topK,
    threads,
    maxSeconds: options.maxMinutes * 60 * share,
    embedding: setup.embedding,
    directory,
  };
  return trainNetwork(addon, job, events);
}

/**
 * Trains into `out`, or resumes an earlier run of the same request. A predictor of the same traces in `out` gets this
 * kind of network beside its own. sida-predictor.json is written last: a directory without it is not a predictor.
 */
export async function trainPredictor(
  request: TrainRequest,
  out: string,
  events: PredictorEvents = {},
): Promise<TrainResult> {
  const addon = loadAddon();
  const setup = await openSetup(addon, request);
  try {
    const output = await OutputDirectory.claim(out, setup.identity);
    if (output.finished) {
      return { manifest: await readPredictorManifest(out), endedBefore: true, networks: [] };
    }
    try {
      const folder = join(out, setup.network);
      await mkdir(folder, { recursive: true });
      const networks: TrainResult['networks'] = [];
      for (const stack of setup.stacks) {
        const earlier = networks.flatMap(({ state }) => state.evaluations);
        const network = setup.train.corpus.stacks[stack]!;
        const state = await runNetwork(addon, setup, request, stack, await output.stateOf(network), {
          ...events,
          onEvaluation: async (evaluation, all) => {
            await writeLog(folder, [...earlier, ...all]);
            await events.onEvaluation?.(evaluation, all);
          },
        });
        networks.push({ network, state });
      }
      const manifest = await publish(addon, setup, request, output, networks, events);
      return { manifest, endedBefore: false, networks };
    } finally {
      await output.release();
    }
  } finally {
    setup.close();
  }
}

function writeLog(folder: string, evaluations: readonly Evaluation[]): Promise<void> {
  const text = evaluations.map((evaluation) => `${JSON.stringify(evaluation)}\n`).join('');
  return saving(folder, text.length, () => writeWholeFile(join(folder, LOG), text));
}

/** The minutes of each training, by the last measurement in its log. The manifest has none: they differ every time. */
async function trainingMinutes(out: string, manifest: PredictorManifest): Promise<TrainingMinutes> {
  const minutes: TrainingMinutes = {};
  for (const kind of networksOf(manifest)) {
    const log = await readFile(join(out, kind, LOG), 'utf8');
    const evaluations = log
      .trimEnd()
      .split('\n')
      .map((line) => JSON.parse(line) as Evaluation);
    minutes[kind] = Object.fromEntries(evaluations.map(({ network, seconds }) => [network, seconds / 60]));
  }
  return minutes;
}

function trainingOf(networks: TrainResult['networks']): NetworkEntry['training'] {
  return networks.map(({ network, state: { step, evaluations, ending } }) => ({
    stack: network,
    steps: step,
    epochs: evaluations.at(-1)!.epoch,
    bestStep: evaluations.findLast(({ best }) => best)!.step,
    ending: ending!,
  }));
}

async function publish(
  addon: NativeAddon,
  setup: TrainingSetup,
  request: TrainRequest,
  output: OutputDirectory,
  networks: TrainResult['networks'],
  events: PredictorEvents,
): Promise<PredictorManifest> {
  const out = output.path;
  const folder = join(out, setup.network);
  const evaluations = networks.flatMap(({ state }) => state.evaluations);
  await writeLog(folder, evaluations);
  for (const { network, state } of networks) {
    const best = join(await output.stateOf(network), state.best!);
    const copy = join(folder, `${network}.tmp`);
    await rm(copy, { recursive: true, force: true });
    await saving(out, 1 << 20, () => cp(best, copy, { recursive: true }));
    await rm(join(folder, network), { recursive: true, force: true });
    await rename(copy, join(folder, network));
  }
  const { heldOut, sharpness } = await saving(out, 16 << 20, () =>
    learnAndMeasure(addon, setup, out, request, events),
  );
  const { meta } = setup.train.corpus.traces[0]!;
  const before = existsSync(join(out, MANIFEST)) ? await readPredictorManifest(out) : undefined;
  const own: NetworkEntry = {
    sharpness,
    options: ownOptions(setup.network, setup.options),
    training: trainingOf(networks),
    run: setup.identity,
  };
  const all = { ...before?.networks, [setup.network]: own };
  const measured = { ...before?.heldOut, ...heldOut };
  const manifest: PredictorManifest = {
    format: 'sida-predictor',
    version: 2,
    model: meta.model,
    layers: meta.layers,
    experts: meta.experts,
    topK: meta.topK,
    vocab: setup.embedding.vocab,
    trainedOn: setup.train.corpus.traces.map(
      ({ meta: { data, template, maxNewTokens, joins }, records, lengths }) => ({
        data,
        template,
        maxNewTokens,
        ...(joins && { joins }),
        sequences: records,
        tokens: lengths.reduce((sum, own) => sum + own.reduce((total, n) => total + n, 0), 0),
      }),
    ),
    default: defaultFunction({ networks: all }),
    networks: all,
    heldOut: Object.fromEntries(
      [...NETWORK_NAMES, 'token'].flatMap((name) => (measured[name] ? [[name, measured[name]]] : [])),
    ),
  };
  const card = predictorCard(manifest, await trainingMinutes(out, manifest));
  const json = `${JSON.stringify(manifest, null, 1)}\n`;
  await saving(out, card.length + json.length, async () => {
    await writeWholeFile(join(out, 'README.md'), card);
    await writeWholeFile(join(out, MANIFEST), json);
  });
  await output.removeState();
  return manifest;
}
