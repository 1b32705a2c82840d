/** Workers publish the models that they serve to servers that have no engine of their own. */
import type { Redis } from 'ioredis';
import { differingParts } from '../../checkpoint/identity.js';
import { formatName } from '../../checkpoint/weight-format.js';
import type { ModelInfo } from '../../protocol/engine-messages.js';
import { type AnswerSettings, KEY_PREFIX, PROTOCOL } from './queue-name.js';
import { redisTime } from './redis-client.js';

export interface PublishedModel {
  queueName: string;
  /** Time of the last publication, in Unix milliseconds of Redis's clock. */
  seenMs: number;
  model: ModelInfo;
  settings: AnswerSettings;
}

const MODELS = `${KEY_PREFIX}:models:v${PROTOCOL}`;
/** Scores are times of Redis's clock. */
const workersOf = (queueName: string) => `${KEY_PREFIX}:workers:${queueName}`;
/** A worker that has been silent for this long is not counted. */
export const GONE_MS = 15_000;
/** A model that no worker has served for this long is removed. */
const FORGET_MS = 7 * 86_400_000;

export async function publishModel(client: Redis, entry: PublishedModel): Promise<void> {
  await client.hset(MODELS, entry.queueName, JSON.stringify(entry));
  for (const { queueName, seenMs } of await publishedModels(client)) {
    if (entry.seenMs - seenMs > FORGET_MS) await client.hdel(MODELS, queueName);
  }
}

/** Announces that the worker serves the model. Forgets workers that ended without saying so. */
export async function announce(
  client: Redis,
  worker: string,
  entry: Omit<PublishedModel, 'seenMs'>,
): Promise<void> {
  const seenMs = await redisTime(client);
  const workers = workersOf(entry.queueName);
  await client.zadd(workers, seenMs, worker);
  await client.zremrangebyscore(workers, 0, seenMs - GONE_MS);
  await publishModel(client, { ...entry, seenMs });
}

/** Announces that the worker does not serve the queue now. */
export async function retire(client: Redis, worker: string, queueName: string): Promise<void> {
  await client.zrem(workersOf(queueName), worker);
}

/** Number of workers that serve the queue. */
export async function countWorkers(client: Redis, queueName: string): Promise<number> {
  return client.zcount(workersOf(queueName), (await redisTime(client)) - GONE_MS, '+inf');
}

/** All published models, the most recently published first. */
export async function publishedModels(client: Redis): Promise<PublishedModel[]> {
  const all = Object.values(await client.hgetall(MODELS)).map((text) => JSON.parse(text) as PublishedModel);
  return all.sort((a, b) => b.seenMs - a.seenMs);
}

/** What differs between published models, in the words of operators, such as `tokenizer` and `--activations`. */
export function differencesOf([first, ...others]: readonly PublishedModel[]): string[] {
  const one = choicesOf(first!);
  const names = Object.keys(one) as (keyof typeof one)[];
  const found = others.flatMap((other) => [
    ...differingParts(first!.model.identity, other.model.identity),
    ...names.filter((name) => one[name] !== choicesOf(other)[name]),
  ]);
  // Both were packed from the same files, but not to the same bytes.
  return found.length > 0 ? [...new Set(found)] : ['packed files'];
}

function choicesOf({ model, settings }: PublishedModel) {
  const { activations, kv, device, routing, routingK = null } = settings;
  const { formats, predictor } = model;
  return {
    '--experts': formatName(formats.experts),
    '--dense': formatName(formats.dense),
    '--activations': activations,
    '--kv': kv,
    '--device': device,
    '--routing': routing,
    '--routing-k': routingK,
    '--predictor': routing === 'predicted' ? `${predictor.name} ${predictor.fingerprint}` : null,
  };
}
