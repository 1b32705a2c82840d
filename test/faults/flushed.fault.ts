// Redis loses all of its jobs (FLUSHALL): clients that wait learn of it, and the queue goes on.
import { setTimeout as delay } from 'node:timers/promises';
import { expect } from 'vitest';
import { eventually } from '../support/eventually.js';
import { clusterFault } from './cluster.js';
import { keepAll } from './kept.js';
import { aTimer } from './quiet.js';

const WAITING = 8;

clusterFault('FLUSHALL with jobs that wait', { workers: 1 }, async (cluster, report) => {
  const { subject, redis, golden, workers } = cluster;
  await workers[0]!.stop();
  const questions = golden.slice(0, WAITING);
  const kept = await keepAll(subject.port, questions);
  const asked = questions.map(({ path, body }) => subject.ask(path, { method: 'POST', body }));
  const waiting = async () => (await subject.metrics())('sida_queue_waiting_jobs');
  await eventually(async () => (await waiting()) === 2 * WAITING, 'the jobs');
  await redis.use((client) => client.flushall());
  const flushed = performance.now();
  for (const { status, json } of await Promise.all(asked))
    expect([status, json.error.code]).toEqual([503, 'not_ready']);
  const seconds = (performance.now() - flushed) / 1000;
  for (const id of kept.ids) expect((await subject.ask(`/v1/jobs/${id}`)).status).toBe(404);
  report.note(`${WAITING} clients that waited got 503, ${WAITING} kept jobs are unknown`);
  report.withinTime('told after', seconds, 5, 's', await aTimer(8));
  // The server looks at the queue twice a second.
  await delay(2_000);
  expect(await waiting()).toBe(0);
  await cluster.replace(0);
  await subject.server.ready(30_000);
  await (await keepAll(subject.port, questions)).rightly(questions);
});
