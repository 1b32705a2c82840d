import type { Route } from './route.js';

export const metrics: Route = {
  method: 'get',
  path: '/metrics',
  scope: 'metrics',
  summary: 'Metrics in the text format of Prometheus',
  answers: { 200: { description: 'Metrics', contentType: 'text/plain' } },
  async handle({ metrics }, _req, res) {
    const text = await metrics.text();
    res.setHeader('content-type', metrics.registry.contentType);
    res.end(text);
  },
};
