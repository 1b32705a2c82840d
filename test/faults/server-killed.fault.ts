// The API process is killed with jobs queued and streams of events open; the next one answers for them.
import { expect } from 'vitest';
import { raw } from '../support/http-client.js';
import { MINI, ServerProcess } from '../support/server-process.js';
import { clusterFault } from './cluster.js';
import { KeptJobs, keep, keepAll } from './kept.js';

const KEY = 'a-job';

clusterFault(
  'kill -9 of the API process, jobs queued and events open',
  { workers: 1 },
  async (cluster, report) => {
    const { subject, golden, redis, workers } = cluster;
    const args = ['--model', MINI, '--redis', redis.url, '--no-worker', '--log-level', 'warn'];
    const killed = await ServerProcess.start(args);
    let next: ServerProcess | undefined;
    try {
      await workers[0]!.stop();
      const { ids } = await keepAll(killed.port, golden, KEY);
      const told = new Set<string>();
      const streams = ids.slice(0, 20).map((id) =>
        raw(killed.port, `GET /v1/jobs/${id}/events HTTP/1.1\r\nhost: localhost\r\n\r\n`, 30_000, (text) => {
          if (text.includes('"status":"queued"')) told.add(id);
        }),
      );
      await killed.until(() => told.size === streams.length);
      await killed.kill();
      for (const text of await Promise.all(streams)) {
        expect(text).toContain('"status":"queued"');
        expect(text).not.toContain('"status":"completed"');
      }
      next = await ServerProcess.launch(args);
      await cluster.replace(0);
      await next.ready(30_000);
      const again = golden.map((question, i) => keep(next!.port, question, `${KEY}-${i}`));
      expect((await Promise.all(again)).map(({ json }) => json.id)).toEqual(ids);
      const records = await new KeptJobs(next.port, ids).rightly(golden);
      expect(records.map(({ attempts }) => attempts)).toEqual(golden.map(() => 1));
      expect(await new KeptJobs(subject.port, ids).ended()).toEqual(records);
      report.note(`${ids.length} jobs, each run once, their answers told by the next server and another one`);
      report.note(`${streams.length} streams of events broken`);
    } finally {
      await Promise.all([killed.stop(), next?.stop()]);
    }
  },
);
