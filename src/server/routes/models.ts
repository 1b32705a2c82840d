import { isEncoderDecoder } from '../../model/model-shape.js';
import { type ModelContext, requireModel, selectModel } from '../context.js';
import { ModelAnswer, ModelPath, ModelsAnswer } from '../schemas/service.js';
import type { Route } from './route.js';

export const listModels: Route = {
  method: 'get',
  path: '/v1/models',
  scope: 'infer',
  summary: 'The served models; each is listed once it is open',
  answers: { 200: { description: 'Models', schema: ModelsAnswer } },
  handle(context, _req, res) {
    const open = context.models.filter(({ engine }) => engine.model !== undefined);
    res.json({ object: 'list', data: open.map(describe) });
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
    res.json(describe(selectModel(context, String(req.params.id))));
  },
};

function describe(served: ModelContext): typeof ModelAnswer._output {
  const { startedAt, engine } = served;
  const model = requireModel(served);
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
    chat: model.chat !== null,
    expert_dtype: model.formats.experts.dtype,
    expert_group: model.formats.experts.group ?? null,
    dense_dtype: model.formats.dense.dtype,
    activations: model.activations,
    family: model.shape.family,
    kind: isEncoderDecoder(model.shape) ? 'encoder-decoder' : 'decoder-only',
    context_tokens: model.shape.contextTokens,
    experts_per_layer: model.shape.experts,
    experts_per_token: model.shape.topK,
    moe_layers: model.shape.moeLayers,
    predictor: model.predictor.name,
    routing: model.routing,
    state: engine.state.phase,
  };
}
