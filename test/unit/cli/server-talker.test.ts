// Streams of a server that break off, end by an error, or are ended by the user.
import { createServer, type Server, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';
import { afterEach, expect, it } from 'vitest';
import { runCommand } from '../../../src/cli/talk/chat-commands.js';
import { Conversation } from '../../../src/cli/talk/conversation.js';
import { ServerTalker } from '../../../src/cli/talk/server-talker.js';

let server: Server;
afterEach(() => {
  server.closeAllConnections();
  server.close();
});

const chunk = (content: string) =>
  `data: ${JSON.stringify({ choices: [{ index: 0, delta: { content }, finish_reason: null }] })}\n\n`;

async function talkerOf(onChat: (res: ServerResponse) => void): Promise<ServerTalker> {
  server = createServer((req, res) => {
    if (req.url === '/v1/models')
      res.end(JSON.stringify({ data: [{ id: 'm', context_tokens: 100, sampling: { temperature: 0.6 } }] }));
    else {
      res.writeHead(200, { 'content-type': 'text/event-stream' });
      onChat(res);
    }
  });
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  return ServerTalker.open(`http://127.0.0.1:${(server.address() as AddressInfo).port}/v1/`, undefined);
}

async function answerOf(
  talker: ServerTalker,
  signal?: AbortSignal,
  onText: (text: string) => void = () => {},
) {
  let text = '';
  const listener = {
    ...(signal && { signal }),
    onReasoning() {},
    onText(part: string) {
      text += part;
      onText(part);
    },
  };
  const ended = await talker.answer([{ role: 'user', content: 'x' }], {}, listener).catch((error) => error);
  return { text, ended };
}

it('passes on text that comes in any pieces, and the usage', async () => {
  const usage = { prompt_tokens: 7, completion_tokens: 2, prompt_tokens_details: { cached_tokens: 3 } };
  const talker = await talkerOf(async (res) => {
    const all = Buffer.from(
      `${chunk('a é')}: silent\n\n${chunk('b')}data: ${JSON.stringify({ choices: [], usage })}\n\ndata: [DONE]\n\n`,
    );
    for (let at = 0; at < all.length; at += 7) {
      res.write(all.subarray(at, at + 7));
      await new Promise(setImmediate);
    }
    res.end();
  });
  expect([talker.model, talker.contextTokens]).toEqual(['m', 100]);
  const conversation = new Conversation(talker, undefined, { top_p: 0.5 });
  expect(runCommand(conversation, '/set')).toEqual(
    expect.arrayContaining(["temperature default (0.6 by the model's advice)", 'top_p 0.5', 'top_k default']),
  );
  expect(await answerOf(talker)).toEqual({
    text: 'a éb',
    ended: { promptTokens: 7, cachedTokens: 3, completionTokens: 2 },
  });
});

it('tells an error within the stream', async () => {
  const error = { code: 'deadline_exceeded', message: 'too late' };
  const talker = await talkerOf((res) => res.end(`${chunk('a')}data: ${JSON.stringify({ error })}\n\n`));
  expect(await answerOf(talker)).toMatchObject({ text: 'a', ended: error });
});

it.each(['ends', 'breaks'])('tells that a stream broke off: the connection %s', async (how) => {
  const talker = await talkerOf((res) => {
    res.write(chunk('a'), () => (how === 'ends' ? res.end() : setTimeout(() => res.destroy(), 50)));
  });
  expect(await answerOf(talker)).toMatchObject({ text: 'a', ended: { code: 'io_error' } });
});

it('ends the answer, and the request, when it is aborted', async () => {
  let closed: (value: true) => void;
  const gone = new Promise<true>((resolve) => {
    closed = resolve;
  });
  const talker = await talkerOf((res) => {
    res.on('close', () => closed(true));
    res.write(chunk('a'));
  });
  const abort = new AbortController();
  const { text, ended } = await answerOf(talker, abort.signal, () => abort.abort());
  expect([text, ended.code]).toEqual(['a', 'cancelled']);
  expect(await gone).toBe(true);
});
