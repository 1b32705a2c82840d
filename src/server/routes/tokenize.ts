import { requireModel } from '../context.js';
import { checkText, inputName, requireTokenizer } from '../inputs.js';
import { runJob } from '../jobs.js';
import { TokenizeAnswer, TokenizeRequest } from '../schemas/tokenize.js';
import { bodyRoute } from './route.js';

export const tokenize = bodyRoute({
  method: 'post',
  path: '/v1/tokenize',
  scope: 'infer',
  summary: 'Token ids and tokens of each input',
  body: TokenizeRequest,
  answers: { 200: { description: 'One entry for each input', schema: TokenizeAnswer } },
  async handle(context, _req, res, request) {
    const model = requireModel(context, request.model);
    requireTokenizer(model, 'model');
    const list = Array.isArray(request.input);
    const inputs = Array.isArray(request.input) ? request.input : [request.input];
    inputs.forEach((input, index) => {
      checkText(input, context.options, inputName('input', index, list));
    });
    const result = await runJob<'tokenize'>(context, res, {
      kind: 'tokenize',
      inputs,
      addSpecialTokens: request.add_special_tokens,
    });
    res.json({
      object: 'tokenization',
      model: model.name,
      data: result.data.map(({ ids, tokens }, index) => ({ index, ids, tokens })),
      usage: { prompt_tokens: result.promptTokens },
    } satisfies typeof TokenizeAnswer._output);
  },
});
