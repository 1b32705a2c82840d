/** What the page of the browser test does. It runs in the browser. */
import OpenAI from 'openai';

export interface Asked {
  baseURL: string;
  apiKey: string;
  model: string;
}

export type Found =
  | {
      models: string[];
      text: string;
      parts: string[];
      embedding: number;
      requestId: string | null | undefined;
    }
  | { error: { name: string; status?: number; code?: string | null } };

declare global {
  var ask: (asked: Asked) => Promise<Found>;
}

globalThis.ask = async ({ baseURL, apiKey, model }) => {
  const client = new OpenAI({ baseURL, apiKey, dangerouslyAllowBrowser: true, maxRetries: 0 });
  const request = {
    model,
    messages: [{ role: 'user' as const, content: 'Hello!' }],
    max_completion_tokens: 16,
  };
  try {
    const { data: models } = await client.models.list();
    const whole = await client.chat.completions.create(request);
    const parts: string[] = [];
    for await (const { choices } of await client.chat.completions.create({ ...request, stream: true })) {
      if (choices[0]?.delta.content) parts.push(choices[0].delta.content);
    }
    const { data } = await client.embeddings.create({ model, input: 'Hello' });
    return {
      models: models.map(({ id }) => id),
      text: whole.choices[0]!.message.content!,
      parts,
      embedding: data[0]!.embedding.length,
      requestId: whole._request_id,
    };
  } catch (error) {
    const { status, code } = error as InstanceType<typeof OpenAI.APIError>;
    return {
      error: { name: (error as Error).constructor.name, ...(status && { status }), ...(code && { code }) },
    };
  }
};
