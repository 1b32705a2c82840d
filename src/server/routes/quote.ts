/** What a request would cost. Nothing runs. */
import { z } from 'zod';
import { SidaError } from '../../errors.js';
import { Quote } from '../../tasks/shared/schema.js';
import { parseBody, withoutIgnored } from '../request-checks.js';
import { bodyRoute, type Route } from '../route.js';

const QuoteRequest = z
  .strictObject({
    path: z.string().meta({
      description: 'The route that the request is for, of any interface',
      example: '/v1/chat/completions',
    }),
    body: z.record(z.string(), z.unknown()).meta({
      description: 'The request',
      example: { messages: [{ role: 'user', content: 'What kind of thing is a violin?' }], max_tokens: 16 },
    }),
  })
  .meta({ id: 'QuoteRequest' });

const QuoteAnswer = Quote.extend({ object: z.literal('quote'), model: z.string() }).meta({
  id: 'QuoteAnswer',
});

/** `table` is called for each request, because the table contains this route itself. */
export function quoteRoute(table: () => readonly Route[]): Route {
  return bodyRoute({
    method: 'post',
    path: '/v1/quote',
    scope: 'infer',
    summary: 'What a request would cost in experts, bytes and seconds; nothing runs',
    body: QuoteRequest,
    answers: { 200: { description: 'The quote', schema: QuoteAnswer } },
    async handle(context, req, res, { path, body }) {
      const quoted = table().filter(({ quotes }) => quotes);
      const route = quoted.find((each) => each.path === path);
      if (route === undefined) {
        const paths = quoted.map((each) => each.path).join(', ');
        const message = `Expected "path" to be one of ${paths}, but got ${JSON.stringify(path.slice(0, 100))}`;
        throw new SidaError({ code: 'invalid_request', message, param: 'path' });
      }
      const { ignores } = route;
      const schema = route.body as z.ZodObject;
      const strict = context.options.strict === 'on';
      const used = ignores === undefined ? body : withoutIgnored(body, schema, { ignores, strict }).used;
      res.locals.quote = true;
      await route.handle(context, req, res, parseBody(schema, used));
    },
  });
}
