/** Returns the tokens of texts. Its jobs never run the model. */
import { z } from 'zod';
import { SidaError } from '../../errors.js';
import type { ModelInfo } from '../../protocol/engine-messages.js';
import type { TextToEncode } from '../../protocol/tokenizer-messages.js';
import { checkAnswerBytes } from '../../text/text-bytes.js';
import { type ModelLimits, requireTexts } from '../shared/prepared-input.js';
import { checkText, inputName, type RequestLimits, requireTokenizer } from '../shared/request-checks.js';
import { count, resultFields, texts } from '../shared/stored.js';
import { heldBytes, inputTokens, reservedTokens } from '../shared/token-estimates.js';
import type { AnswerAbout, OwnResult, PreparedJob, Task } from '../task.js';
import { TokenizeAnswer, TokenizeRequest } from './schema.js';

const storedJob = z.object({
  kind: z.literal('tokenize'),
  inputs: texts,
  /** A `Conversation` in JSON in place of inputs. Its tokens are counted, and not told. */
  conversation: z.string().exactOptional(),
  addSpecialTokens: z.boolean(),
});

const storedResult = z.object({
  kind: z.literal('tokenize'),
  data: z.array(z.object({ ids: z.array(count), tokens: z.array(z.string()) })),
  ...resultFields,
});

/** Empty, because the answer always has the same form. */
const storedForm = z.object({});

export type TokenizeJob = z.infer<typeof storedJob>;
type TokenizeResult = z.infer<typeof storedResult>;
type TokenizeBody = z.infer<typeof TokenizeRequest>;

function textsOf({ inputs, conversation }: TokenizeJob): string[] {
  return conversation === undefined ? inputs : [conversation];
}

export const tokenize: Task<TokenizeBody, TokenizeJob, TokenizeResult, z.infer<typeof storedForm>> = {
  kind: 'tokenize',
  route: {
    path: '/v1/tokenize',
    summary: 'Token ids and tokens of each input',
    answer: 'One entry for each input',
  },
  schemas: { request: TokenizeRequest, answer: TokenizeAnswer },
  stored: { job: storedJob, result: storedResult, form: storedForm },
  prepare: prepareTokenize,
  form: () => ({}),
  answers: (about) => ({ whole: (result) => tokenizeAnswer(about, result) }),
  tokens: {
    input: (job) => inputTokens(textsOf(job)),
    bytes: (job) => heldBytes(textsOf(job)),
    cost: (job) => ({ known: 0, estimated: reservedTokens(textsOf(job)) }),
    texts: textsOf,
    used: (_job, { promptTokens, completionTokens }) => promptTokens + completionTokens,
  },
  engine: { runs: 'tokenizer', texts: tokenizeTexts, result: tokenizeResult },
};

function prepareTokenize(
  request: TokenizeBody,
  model: ModelInfo,
  limits: RequestLimits,
): PreparedJob<TokenizeJob> {
  requireTokenizer(model, 'model');
  const list = Array.isArray(request.input);
  const inputs = Array.isArray(request.input) ? request.input : [request.input];
  inputs.forEach((input, index) => {
    checkText(input, limits, inputName('input', index, list));
  });
  return { job: { kind: 'tokenize', inputs, addSpecialTokens: request.add_special_tokens } };
}

/**
 * Most tokens of one answer. Each has a number and a text, about fifteen bytes that several processes pass on: more
 * would hold their main threads, and with them all other clients, for longer than requests of any other kind do.
 */
const MOST_TOKENS = 65_536;

function tokenizeTexts(
  { inputs, conversation, addSpecialTokens }: TokenizeJob,
  limits: ModelLimits,
): TextToEncode[] {
  requireTexts(limits, 'input');
  if (conversation !== undefined) return [{ text: conversation, special: false, chat: true }];
  return inputs.map((text) => ({ text, special: addSpecialTokens }));
}

function tokenizeResult(
  { conversation }: TokenizeJob,
  limits: ModelLimits,
  found: readonly Int32Array[],
): OwnResult<TokenizeResult> & { promptTokens: number } {
  const texts = requireTexts(limits, 'input');
  const promptTokens = found.reduce((sum, ids) => sum + ids.length, 0);
  if (conversation !== undefined) return { data: [], promptTokens, completionTokens: 0 };
  checkAnswer(promptTokens);
  const data = found.map((ids) => ({ ids: [...ids], tokens: Array.from(ids, (id) => texts.idToToken(id)) }));
  checkAnswerBytes(data.reduce((sum, { tokens }) => sum + Buffer.byteLength(tokens.join('')), 0));
  return { data, promptTokens, completionTokens: 0 };
}

function checkAnswer(tokens: number): void {
  if (tokens <= MOST_TOKENS) return;
  throw new SidaError({
    code: 'cannot_run',
    message: `The inputs have ${tokens} tokens together; the limit of one answer is ${MOST_TOKENS}`,
    param: 'input',
    details: { tokens, limit: MOST_TOKENS },
  });
}

function tokenizeAnswer(
  { model }: AnswerAbout<z.infer<typeof storedForm>>,
  { data, promptTokens }: TokenizeResult,
): typeof TokenizeAnswer._output {
  return {
    object: 'tokenization',
    model,
    data: data.map(({ ids, tokens }, index) => ({ index, ids, tokens })),
    usage: { prompt_tokens: promptTokens },
  };
}
