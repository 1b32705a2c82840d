// Pages of other sites that make a browser speak to a local server: foreign Hosts and Origins on every route.
import { afterAll, beforeAll, expect } from 'vitest';
import { ROUTES } from '../../src/server/routes/index.js';
import { FOREIGN_HOSTS, FOREIGN_ORIGINS, preflight, requestTo, withId } from '../support/access-cases.js';
import type { Asked } from '../support/http-client.js';
import { fault } from './fault.js';
import { Subject } from './subject.js';

let subject: Subject;
beforeAll(async () => {
  subject = await Subject.start();
});
afterAll(() => subject.stop());

fault('F26', 'foreign Host and Origin', async (report) => {
  const accepted = (await subject.metrics())('sida_queue_accepted_total');
  let requests = 0;
  for (const route of ROUTES) {
    const refused = async (asked: Asked) => {
      const answer = await subject.ask(withId(route.path), asked);
      expect([route.path, asked.headers, answer.status]).toEqual([route.path, asked.headers, 403]);
      expect(Object.keys(answer.headers).filter((name) => name.startsWith('access-control'))).toEqual([]);
      requests += 1;
    };
    for (const host of FOREIGN_HOSTS) await refused(requestTo(route, { host }));
    for (const origin of FOREIGN_ORIGINS) await refused(requestTo(route, { host: 'localhost:8080', origin }));
    await refused(preflight(route));
    // The name that rebinding gives a page's own origin.
    await refused(requestTo(route, { host: 'evil.example', origin: 'http://evil.example' }));
  }
  report.note(
    `${requests} requests to ${ROUTES.length} routes: all 403, none with Access-Control-Allow-Origin`,
  );
  const metric = await subject.metrics();
  expect(metric('sida_queue_accepted_total')).toBe(accepted);
  expect(
    metric('sida_http_requests_total{route="unmatched",method="OPTIONS",status="403"}'),
  ).toBeGreaterThanOrEqual(ROUTES.length);
  await subject.recovered(report);
});
