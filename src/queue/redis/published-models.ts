/** Workers publish the models that they serve to servers that have no engine of their own. */
import type { Redis } from 'ioredis';
import { z } from 'zod';
import { ACTIVATIONS } from '../../native/engine-types.js';
import type { ModelInfo } from '../../protocol/engine-messages.js';
import { storedChatFormat } from '../../tasks/shared/stored.js';
import { type AnswerSettings, KEY_PREFIX, PROTOCOL } from './queue-name.js';

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

const part = z.string().nullable();

// The schema checks only the fields that servers use; other fields pass through.
const published = z.object({
  queueName: z.string().max(100),
  seenMs: z.number(),
  model: z.looseObject({
    name: z.string(),
    fingerprint: z.string(),
    identity: z.object({
      weights: z.string(),
      tokenizer: part,
      tasks: part,
      chatTemplate: part,
      generation: part,
    }),
    shape: z.looseObject({
      vocabSize: z.int().min(1),
      experts: z.int().min(0),
      moeLayers: z.array(z.string()),
    }),
    formats: z.object({
      experts: z.looseObject({ dtype: z.string() }),
      dense: z.looseObject({ dtype: z.string() }),
    }),
    tasks: z.record(z.string(), z.object({ template: z.string(), labels: z.array(z.string()).min(2) })),
    hasTokenizer: z.boolean(),
    contextTokens: z.int().min(1),
    kvTokens: z.int().min(1),
    maxInputBytes: z.int().min(1),
    sampling: z.record(z.string(), z.number()).nullable(),
    chat: storedChatFormat.nullable(),
    predictor: z.looseObject({ name: z.string().nullable(), fingerprint: z.string().nullable() }),
  }),
  settings: z.object({
    activations: z.enum(ACTIVATIONS),
    kv: z.string(),
    device: z.string(),
    routing: z.string(),
    routingK: z.number().nullish(),
  }),
});

export async function publishModel(client: Redis, entry: PublishedModel): Promise<void> {
  await client.hset(MODELS, entry.queueName, JSON.stringify(entry));
  for (const { queueName, seenMs } of await publishedModels(client)) {
    if (entry.seenMs - seenMs > FORGET_MS) await client.hdel(MODELS, queueName);
  }
}

/** Announces that the worker serves the queue, or no longer does. `nowMs` is the time of Redis's clock. */
export async function announceWorker(
  client: Redis,
  queueName: string,
  worker: string,
  nowMs: number | undefined,
): Promise<void> {
  if (nowMs === undefined) await client.zrem(workersOf(queueName), worker);
  else await client.zadd(workersOf(queueName), nowMs, worker);
}

/** Number of workers that serve the queue. Clears the list of workers that ended without saying so. */
export async function countWorkers(client: Redis, queueName: string): Promise<number> {
  const [time, listed] = await Promise.all([
    client.time(),
    client.zrange(workersOf(queueName), 0, '-1', 'WITHSCORES'),
  ]);
  const oldest = Number(time[0]) * 1000 - GONE_MS;
  const seen = listed.filter((_, i) => i % 2 === 1).map(Number);
  if (seen.some((ms) => ms < oldest - GONE_MS))
    await client.zremrangebyscore(workersOf(queueName), 0, oldest - GONE_MS);
  return seen.filter((ms) => ms >= oldest).length;
}

/** All published models, the most recently published first. Invalid values are skipped. */
export async function publishedModels(client: Redis): Promise<PublishedModel[]> {
  const all = Object.values(await client.hgetall(MODELS)).map(parse);
  return all.filter((entry) => entry !== undefined).sort((a, b) => b.seenMs - a.seenMs);
}

function parse(text: string): PublishedModel | undefined {
  try {
    const parsed = published.safeParse(JSON.parse(text));
    if (!parsed.success) return undefined;
    const entry = parsed.data as unknown as PublishedModel;
    const { activations, routing } = entry.settings;
    return { ...entry, model: { ...entry.model, activations, routing } };
  } catch {
    return undefined;
  }
}
