// The API process is killed with jobs queued and streams of events open; the next one answers for them.
import { expect } from 'vitest';
import { raw } from '../support/http-client.js';
import { MINI, ServerProcess } from '../support/server-process.js';
import { Cluster } from './cluster.js';
import { fault } from './fault.js';
import { essence } from './golden.js';
import { KeptJobs, keep } from './kept.js';

fault('F11', 'kill -9 of the API process, jobs queued and events open', async (report) => {
  const cluster = await Cluster.start({ workers: 1 });
  const { subject, golden, redis, workers } = cluster;
  const args = ['--model', MINI, '--redis', redis.url, '--no-worker', '--log-level', 'warn'];
  const killed = await ServerProcess.start(args);
  const port = Number(new URL(killed.url).port);
  let next: ServerProcess | undefined;
  try {
    await workers[0]!.stop();
    const accepted = await Promise.all(golden.map((question, i) => keep(port, question, `f11-${i}`)));
    expect(accepted.map(({ status }) => status)).toEqual(golden.map(() => 202));
    const ids = accepted.map(({ json }) => json.id as string);
    const told = new Set<string>();
    const streams = ids.slice(0, 20).map((id) =>
      raw(port, `GET /v1/jobs/${id}/events HTTP/1.1\r\nhost: localhost\r\n\r\n`, 30_000, (text) => {
        if (text.includes('"status":"queued"')) told.add(id);
      }),
    );
    await killed.until(() => told.size === streams.length);
    await killed.kill();
    const broken = await Promise.all(streams);
    for (const text of broken) {
      expect(text).toContain('"status":"queued"');
      expect(text).not.toContain('"status":"completed"');
    }
    next = await ServerProcess.launch(args);
    await cluster.replace(0);
    await next.ready(30_000);
    const nextPort = Number(new URL(next.url).port);
    const again = await Promise.all(golden.map((question, i) => keep(nextPort, question, `f11-${i}`)));
    expect(again.map(({ json }) => json.id)).toEqual(ids);
    const records = await new KeptJobs(nextPort, ids).ended();
    expect(records.map(({ answer }) => essence(answer))).toEqual(golden.map(({ right }) => right));
    expect(records.map(({ attempts }) => attempts)).toEqual(golden.map(() => 1));
    expect(await new KeptJobs(subject.port, ids).ended()).toEqual(records);
    report.note(
      `${ids.length} jobs accepted, each run once, their answers told by the next server and another one`,
    );
    report.note(`${streams.length} streams of events broken`);
    await cluster.recovered(report);
  } finally {
    await Promise.all([killed.stop(), next?.stop()]);
    await cluster.end();
  }
});
