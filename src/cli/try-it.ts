/** Builds a curl command that works with the served model. */
import { embedsOnly, isEncoderDecoder } from '../native/model-shape.js';
import type { ModelInfo } from '../protocol/engine-messages.js';
import { shellQuote } from '../text/shell-quote.js';
import { Template } from '../text/template.js';
import { visibleJson } from '../text/visible.js';

/** `key` is what stands for the key that the server asks for. `name` chooses the model where there are several. */
export function exampleCurl(model: ModelInfo, url: string, key: string | undefined, name?: string): string {
  const { path, body: request } = exampleRequest(model);
  const authorization = key === undefined ? '' : ` -H "authorization: Bearer ${key}"`;
  const body = name === undefined ? request : { model: name, ...request };
  return `curl ${shellQuote(reachable(url) + path)}${authorization} -H 'content-type: application/json' -d '${quotable(body)}'`;
}

/** An address that stands for all addresses of the machine is none to connect to. */
function reachable(url: string): string {
  return url.replace('//0.0.0.0:', '//127.0.0.1:').replace('//[::]:', '//[::1]:');
}

/** JSON that means nothing else between single quotes. `!` recalls earlier commands there in some shells. */
function quotable(body: object): string {
  return visibleJson(JSON.stringify(body)).replaceAll("'", '\\u0027').replaceAll('!', '\\u0021');
}

function exampleRequest({ tasks, hasTokenizer, chat, shape }: ModelInfo): { path: string; body: object } {
  if (embedsOnly(shape))
    return { path: '/v1/embeddings', body: { input: hasTokenizer ? 'a violin' : [100, 101] } };
  const [task] = Object.entries(tasks);
  if (!hasTokenizer)
    return { path: '/v1/completions', body: { prompt: [100, 101, 1], return_token_ids: true } };
  if (task === undefined && chat !== null) {
    return {
      path: '/v1/chat/completions',
      body: { messages: [{ role: 'user', content: 'What kind of thing is a violin?' }] },
    };
  }
  if (task === undefined) {
    const prompt = isEncoderDecoder(shape) ? 'A fine <extra_id_0>.' : 'The name of';
    return { path: '/v1/completions', body: { prompt } };
  }
  const [name, { template }] = task;
  const { fields } = new Template(template);
  const input =
    fields.length === 1 ? 'violin' : Object.fromEntries(fields.map((field) => [field, `a ${field}`]));
  return { path: '/v1/classify', body: { task: name, input } };
}
