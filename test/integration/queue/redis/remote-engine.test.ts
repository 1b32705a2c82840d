// Which of the published models a server without an engine serves.
import { afterAll, beforeAll, expect, it } from 'vitest';
import { publishModel } from '../../../../src/queue/redis/published-models.js';
import { producerClient } from '../../../../src/queue/redis/redis-client.js';
import { RemoteEngine } from '../../../../src/queue/redis/remote-engine.js';
import { eventually } from '../../../support/eventually.js';
import { describeWithRedis, RedisServer } from '../../../support/redis.js';
import { MODEL, SETTINGS } from '../../../unit/queue/scripted-engine.js';

const HOUR_MS = 3_600_000;

describeWithRedis('a server without an engine', () => {
  let redis: RedisServer;
  let client: ReturnType<typeof producerClient>;
  beforeAll(async () => {
    redis = await RedisServer.start();
    client = producerClient(redis.url);
    await eventually(() => client.status === 'ready', 'the connection to Redis');
  });
  afterAll(async () => {
    client?.disconnect();
    await redis?.end();
  });

  const publish = (queueName: string, ageMs: number) =>
    publishModel(client, { queueName, seenMs: Date.now() - ageMs, model: MODEL, settings: SETTINGS });

  it.each([
    ['acme/tiny', { model: 'acme/tiny', alias: undefined }],
    ['tiny', { model: 'acme/tiny', alias: undefined }],
    ['mine', { model: 'acme/tiny', alias: 'mine' }],
  ])('finds workers of a model of a hub that call it %s', async (name, options) => {
    const engine = new RemoteEngine(redis.url, options);
    try {
      engine.start();
      await publishModel(client, {
        queueName: `{${name}}`,
        seenMs: Date.now(),
        model: { ...MODEL, name, fingerprint: name },
        settings: SETTINGS,
      });
      await eventually(() => engine.queueName === `{${name}}`, 'its workers');
    } finally {
      await engine.close();
      await client.flushall();
    }
  });

  it('leaves what was served last for what workers serve, and then keeps it', async () => {
    const engine = new RemoteEngine(redis.url, { model: MODEL.name, alias: undefined });
    const stays = () => new Promise((resolve) => setTimeout(resolve, 2_500));
    try {
      engine.start();
      await publish('{before}', HOUR_MS);
      await eventually(() => engine.queueName === '{before}', 'the queue of workers that have ended');
      expect(engine.state.phase).toBe('ready');
      await publish('{now}', 0);
      await eventually(() => engine.queueName === '{now}', 'the queue of the workers that serve');
      await publish('{now}', HOUR_MS);
      await publish('{later}', 0);
      await stays();
      expect(engine.queueName).toBe('{now}');
    } finally {
      await engine.close();
    }
  });
});
