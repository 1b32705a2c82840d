// The experts of each generated token, in front of the bundled models.
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { ServerProcess } from '../../support/server-process.js';

const QUESTION = { role: 'user', content: 'What kind of thing is a violin?' };

describe('the experts of a token', () => {
  let server: ServerProcess;
  beforeAll(async () => {
    server = await ServerProcess.start([
      ...[
        '--model',
        'models/olmoe-mini',
        '--model',
        'models/switch-words',
        '--memory-budget',
        'olmoe-mini=50%',
      ],
      ...['--memory-budget', 'switch-words=100%'],
    ]);
  });
  afterAll(() => server.stop());

  const ask = async (path: string, body: object) => {
    const answer = await server.post(path, { include: ['token_experts'], ...body });
    expect(answer.status, JSON.stringify(answer.body)).toBe(200);
    return answer.body;
  };
  const chosen = ({ layers }: { layers: { chosen: number[] }[] }) => layers.map((layer) => layer.chosen);

  it('are those of the pass that chose it', async () => {
    const body = await ask('/v1/chat/completions', {
      messages: [QUESTION],
      max_tokens: 12,
      return_token_ids: true,
    });
    const [choice] = body.choices;
    const tokens = body.token_experts;
    expect(tokens.map(({ id }: { id: number }) => id)).toEqual(choice.token_ids);
    expect(tokens.map(({ token }: { token: string }) => token).join('')).toContain(choice.message.content);
    for (const { layers } of tokens) {
      expect(layers.map(({ layer }: { layer: string }) => layer)).toEqual(
        [0, 1, 2, 3, 4, 5].map((at) => `decoder.${at}`),
      );
      for (const { chosen, predicted } of layers) {
        expect(new Set(chosen).size).toBe(4);
        if (predicted !== null) expect(new Set(predicted).size).toBe(4);
      }
    }
    expect(JSON.stringify(tokens)).toMatch(/"predicted":\[/);
  });

  it('do not depend on how the tokens before it ran, nor on others in the pass', async () => {
    const prompt = [2, 500, 600, 700];
    const whole = await ask('/v1/completions', {
      model: 'olmoe-mini',
      prompt,
      max_tokens: 6,
      temperature: 0,
    });
    const ids = whole.token_experts.map(({ id }: { id: number }) => id);
    // Each token comes in a step there, and here at the end of a prompt.
    const alone = await Promise.all(
      ids.map(async (_: number, at: number) => {
        const longer = [...prompt, ...ids.slice(0, at)];
        const body = { model: 'olmoe-mini', prompt: longer, max_tokens: 1, temperature: 0 };
        return (await ask('/v1/completions', body)).token_experts[0];
      }),
    );
    expect(alone.map(({ id }) => id)).toEqual(ids);
    expect(alone.map(chosen)).toEqual(whole.token_experts.map(chosen));
  });

  it('stand in the last chunk of a stream, and belong to the decoder of a model with two stacks', async () => {
    const body = {
      model: 'switch-words',
      prompt: 'category of: river',
      max_tokens: 4,
      n: 2,
      temperature: 1,
      seed: 1,
    };
    const whole = await ask('/v1/completions', body);
    expect(new Set(whole.token_experts.map(({ index }: { index: number }) => index))).toEqual(
      new Set([0, 1]),
    );
    for (const { layers } of whole.token_experts) expect(layers[0].layer).toMatch(/^decoder/);
    const response = await fetch(`${server.url}/v1/completions`, {
      method: 'POST',
      headers: { 'content-type': 'application/json' },
      body: JSON.stringify({ ...body, include: ['token_experts'], stream: true }),
    });
    const chunks = (await response.text())
      .split('\n')
      .filter((line) => line.startsWith('data: {'))
      .map((line) => JSON.parse(line.slice(6)));
    expect(chunks.filter((chunk) => chunk.token_experts !== undefined)).toEqual([chunks.at(-1)]);
    expect(chunks.at(-1).token_experts.map(chosen)).toEqual(whole.token_experts.map(chosen));
  });

  it('are told of at most 64 tokens', async () => {
    const refused = async (path: string, body: object) => {
      const answer = await server.post(path, { model: 'olmoe-mini', include: ['token_experts'], ...body });
      return [answer.status, answer.body.error.param, answer.body.error.message];
    };
    const says = (found: string) =>
      `"include" of "token_experts" is for at most 64 tokens of all choices; "max_tokens" asks for ${found}`;
    const chat = { messages: [QUESTION] };
    expect(await refused('/v1/chat/completions', chat)).toEqual([400, 'max_tokens', says('no limit')]);
    expect(await refused('/v1/chat/completions', { ...chat, max_tokens: 33, n: 2 })).toEqual([
      ...[400, 'max_tokens', says('66')],
    ]);
    expect(await refused('/v1/completions', { prompt: ['a', 'b'], max_tokens: 40 })).toEqual([
      ...[400, 'max_tokens', says('80')],
    ]);
    const beams = { model: 'switch-words', prompt: 'a', num_beams: 2, max_tokens: 4 };
    expect((await refused('/v1/completions', beams)).slice(0, 2)).toEqual([400, 'include']);
  });
});
