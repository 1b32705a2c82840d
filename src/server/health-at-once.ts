/**
 * Answers about health while many connections are open, without the middleware that every other request passes. A
 * crowd that asks for them costs little, and an orchestrator that asks does not end the server for want of an answer.
 */
import type { IncomingMessage, ServerResponse } from 'node:http';
import type { ServerContext } from './context.js';
import { hostFault } from './middleware/origin-guard.js';
import { newRequestId } from './middleware/request-id.js';
import { LIVE, live, ready, readyAnswer } from './routes/health.js';

/** Answers a request for liveness or readiness; returns false, and does nothing, for any other one. */
export function healthAtOnce(context: ServerContext) {
  const faultOf = hostFault(context.options);
  const answers: Record<string, () => { status: number; body: object; headers?: object }> = {
    [live.path]: () => ({ status: 200, body: LIVE }),
    [ready.path]: () => readyAnswer(context),
  };
  return (req: IncomingMessage, res: ServerResponse): boolean => {
    const { url } = req;
    const begun = performance.now();
    // While it drains, answers end their connections, and the middleware sees to that. Requests with an origin, and
    // those with a refused host, go there too.
    const answer = req.method === 'GET' && !context.draining ? answers[url!] : undefined;
    if (answer === undefined || req.headers.origin !== undefined || faultOf(req) !== undefined) return false;
    const { status, body, headers } = answer();
    const text = JSON.stringify(body);
    res.writeHead(status, {
      ...headers,
      'content-type': 'application/json; charset=utf-8',
      'content-length': Buffer.byteLength(text),
      'cache-control': 'no-store',
      'x-content-type-options': 'nosniff',
      'x-request-id': newRequestId(),
    });
    res.end(text);
    const seconds = (performance.now() - begun) / 1000;
    context.metrics.observeRequest({ route: url!, method: 'GET', status, seconds });
    return true;
  };
}
