// Every route of the table without its key, by every way past it.
import { afterAll, beforeAll, expect } from 'vitest';
import { ROUTES } from '../../src/server/routes/index.js';
import {
  bearer,
  FOREIGN_HOSTS,
  PUBLIC,
  pathTricks,
  requestTo,
  statusWithoutKey,
  withId,
  wrongKeys,
} from '../support/access-cases.js';
import { fault } from './fault.js';
import { Subject } from './subject.js';

const KEY = 'correct horse battery staple';

let subject: Subject;
beforeAll(async () => {
  subject = await Subject.startWith({ headers: bearer(KEY) }, '--api-key', KEY);
});
afterAll(() => subject.stop());

fault('F25', 'every route without its key', async (report) => {
  const total = async (name: string) => (await subject.metrics())(name);
  const accepted = await total('sida_queue_accepted_total');
  let requests = 0;
  const expectStatus = async (status: number, path: string, route: (typeof ROUTES)[number], headers = {}) => {
    const answer = await subject.askBare(path, requestTo(route, headers));
    expect([path, headers, answer.status], answer.text).toEqual([path, headers, status]);
    expect(answer.text).not.toContain(KEY);
    requests += 1;
  };
  for (const route of ROUTES) {
    const path = withId(route.path);
    for (const [, headers] of wrongKeys(KEY)) {
      await expectStatus(PUBLIC.includes(path) ? 200 : 401, path, route, headers);
    }
    for (const [, trick] of pathTricks(KEY)) {
      await expectStatus(statusWithoutKey(trick(path)), trick(path), route);
    }
    for (const host of FOREIGN_HOSTS) await expectStatus(403, path, route, { host, ...bearer(KEY) });
  }
  report.note(
    `${requests} requests to ${ROUTES.length} routes: all refused but those to ${PUBLIC.join(', ')}`,
  );
  expect(await total('sida_queue_accepted_total')).toBe(accepted);
  const refused = 'sida_http_requests_total{route="unmatched",method="POST",status="401"}';
  expect(await total(refused)).toBeGreaterThan(100);
  expect(subject.server.output).not.toContain(KEY);
  await subject.recovered(report);
});
