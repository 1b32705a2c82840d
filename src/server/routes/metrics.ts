import type { Route } from './route.js';

export const metrics: Route = {
  method: 'get',
  path: '/metrics',
  scope: 'metrics',
  summary: 'Metrics in the text format of Prometheus',
  answers: { 200: { description: 'Metrics', contentType: 'text/plain' } },
  async handle({ metrics: { registry } }, _req, res) {
    const text = await registry.metrics();
    res.setHeader('content-type', registry.contentType);
    res.end(text);
  },
};
