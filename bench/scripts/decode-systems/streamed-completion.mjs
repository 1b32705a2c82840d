// A completion as events, to tell the time of the prompt from that of the tokens behind it.
import { request } from 'node:http';

/**
 * Asks with the ids of a prompt. Resolves with the ids of the answer and with how many milliseconds after the request
 * its first and its last event with tokens came; `first` counts the tokens of the first one.
 */
export function streamedCompletion({ port }, agent, { tokens }, prompt) {
  const body = JSON.stringify({ prompt, max_tokens: tokens, stream: true, return_token_ids: true });
  return new Promise((resolve, reject) => {
    const headers = { 'content-type': 'application/json', 'content-length': Buffer.byteLength(body) };
    const call = request({
      agent,
      port,
      host: '127.0.0.1',
      path: '/v1/completions',
      method: 'POST',
      headers,
    });
    const answer = { ids: [], first: 0, firstMs: 0, lastMs: 0 };
    const begin = performance.now();
    call.once('error', reject).once('response', (response) => {
      let text = '';
      response.setEncoding('utf8').on('data', (piece) => {
        const ms = performance.now() - begin;
        text += piece;
        const events = text.split('\n\n');
        text = events.pop();
        for (const event of events) takeEvent(answer, event, ms);
      });
      response.once('error', reject).once('end', () => {
        if (response.statusCode === 200 && answer.ended) resolve(answer);
        else reject(new Error(`${response.statusCode} ${answer.error ?? text} and no end of the stream`));
      });
    });
    call.end(body);
  });
}

/** Adds what an event of `/v1/completions` says to `answer`. */
export function takeEvent(answer, event, ms) {
  const data = event.replace(/^data: /, '');
  if (data === '[DONE]') {
    answer.ended = true;
    return;
  }
  const { choices, error } = JSON.parse(data);
  if (error) answer.error = JSON.stringify(error);
  const ids = choices?.[0]?.token_ids ?? [];
  if (ids.length === 0) return;
  if (answer.ids.length === 0) {
    answer.first = ids.length;
    answer.firstMs = ms;
  }
  answer.ids.push(...ids);
  answer.lastMs = ms;
}
