import { isEncoderDecoder } from '../../model/model-shape.js';
import type { ModelInfo } from '../../protocol/engine-messages.js';
import { requireModel, type ServerContext } from '../context.js';
import { ModelAnswer, ModelPath, ModelsAnswer } from '../schemas/service.js';
import type { Route } from './route.js';

export const listModels: Route = {
  method: 'get',
  path: '/v1/models',
  scope: 'infer',
  summary: 'The served model; an empty list until it is open',
  answers: { 200: { description: 'Models', schema: ModelsAnswer } },
  handle(context, _req, res) {
    const { model } = context.engine;
    res.json({ object: 'list', data: model === undefined ? [] : [describe(context, model)] });
  },
};

export const getModel: Route = {
  method: 'get',
  path: '/v1/models/:id',
  scope: 'infer',
  summary: 'One model by its name',
  params: ModelPath,
  answers: { 200: { description: 'The model', schema: ModelAnswer } },
  handle(context, req, res) {
    res.json(describe(context, requireModel(context, String(req.params.id))));
  },
};

function describe({ startedAt }: ServerContext, model: ModelInfo): typeof ModelAnswer._output {
  return {
    id: model.name,
    object: 'model',
    created: startedAt,
    owned_by: 'sida',
    fingerprint: model.fingerprint,
    identity: {
      weights: model.identity.weights,
      tokenizer: model.identity.tokenizer,
      tasks: model.identity.tasks,
      chat_template: model.identity.chatTemplate,
      generation_config: model.identity.generation,
    },
    tasks: model.tasks,
    has_tokenizer: model.hasTokenizer,
    expert_dtype: model.formats.experts.dtype,
    expert_group: model.formats.experts.group ?? null,
    dense_dtype: model.formats.dense.dtype,
    family: model.shape.family,
    kind: isEncoderDecoder(model.shape) ? 'encoder-decoder' : 'decoder-only',
    context_tokens: model.shape.contextTokens,
    experts_per_layer: model.shape.experts,
    experts_per_token: model.shape.topK,
    moe_layers: model.shape.moeLayers,
  };
}
