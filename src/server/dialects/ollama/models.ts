/** Names and descriptions of models in Ollama's words. */
import { embedsOnly } from '../../../native/model-shape.js';
import type { ModelInfo } from '../../../protocol/engine-messages.js';
import { type ModelContext, type ServerContext, selectModel } from '../../context.js';
import type { RunningAnswer, ShowAnswer, TagsAnswer } from './schema.js';

const LATEST = ':latest';
/** Clients read it as never. */
const FAR = '9999-12-31T23:59:59Z';

/** As `selectModel`. Ollama's clients add `:latest` to a name without a tag. */
export function modelOf(context: ServerContext, asked: string | null | undefined): ModelContext {
  return selectModel(context, servedName(context, asked));
}

/** The name by which the server knows the model. */
export function servedName(
  { models }: ServerContext,
  asked: string | null | undefined,
): string | null | undefined {
  if (asked == null || !asked.endsWith(LATEST)) return asked;
  return models.some((served) => nameOf(served) === asked) ? asked : asked.slice(0, -LATEST.length);
}

function nameOf({ name, engine }: ModelContext): string | undefined {
  return engine.model?.name ?? name;
}

export function listed(models: readonly ModelContext[]): typeof TagsAnswer._output {
  const found = models.filter((served) => served.engine.model !== undefined || served.name !== undefined);
  return {
    models: found.map((served) => ({
      ...about(served),
      modified_at: startOf(served),
      size: weightBytes(served.engine.model),
    })),
  };
}

/** `seesOthers`: whether the answer may show what other keys have used of a model, and when. */
export function running(
  { models, loaded }: ServerContext,
  seesOthers: boolean,
): typeof RunningAnswer._output {
  const open = models.filter(({ engine }) => engine.state.phase === 'ready' && engine.model !== undefined);
  return {
    models: open.map((served) => {
      const { engine } = served;
      const model = engine.model!;
      const { usedBytes, host } = (seesOthers && engine.counters?.usage) || model.usage;
      return {
        ...about(served),
        size: usedBytes + host.usedBytes,
        size_vram: engine.computes?.device === 'cuda' ? usedBytes : 0,
        context_length: model.contextTokens,
        ...(seesOthers && { expires_at: timeIn(loaded?.leftMs(served) ?? Number.POSITIVE_INFINITY) }),
      };
    }),
  };
}

export function shown(served: ModelContext): typeof ShowAnswer._output {
  const { model } = served.engine;
  return {
    parameters: parametersOf(model),
    details: detailsOf(model),
    model_info: model === undefined ? {} : infoOf(model),
    capabilities: capabilitiesOf(model),
    modified_at: startOf(served),
  };
}

function about(served: ModelContext) {
  const { model } = served.engine;
  const name = nameOf(served)!;
  const tagged = name.includes(':') ? name : name + LATEST;
  return { name: tagged, model: tagged, digest: model?.fingerprint ?? '', details: detailsOf(model) };
}

function detailsOf(model: ModelInfo | undefined) {
  const family = model?.shape.family ?? '';
  return {
    parent_model: '',
    format: '',
    family,
    families: family === '' ? [] : [family],
    parameter_size: '',
    quantization_level: model?.formats.experts.dtype ?? '',
  };
}

function weightBytes(model: ModelInfo | undefined): number {
  if (model === undefined) return 0;
  const { dense, routers, expertBytes } = model.plan;
  return dense + routers + expertBytes;
}

/** The model's sampling, a parameter a line. */
function parametersOf(model: ModelInfo | undefined): string {
  if (model?.sampling == null) return '';
  const { temperature, topP, topK, minP, repetitionPenalty } = model.sampling;
  const named = { temperature, top_p: topP, top_k: topK, min_p: minP, repeat_penalty: repetitionPenalty };
  return Object.entries(named)
    .map(([name, value]) => `${name} ${value}`)
    .join('\n');
}

function infoOf({ shape, contextTokens }: ModelInfo): Record<string, string | number> {
  const { family } = shape;
  return {
    'general.architecture': family,
    [`${family}.context_length`]: contextTokens,
    [`${family}.embedding_length`]: shape.width,
    [`${family}.block_count`]: shape.stacks.reduce((sum, { layers }) => sum + layers, 0),
    [`${family}.attention.head_count`]: shape.heads,
    [`${family}.attention.head_count_kv`]: shape.kvHeads,
    [`${family}.expert_count`]: shape.experts,
    [`${family}.expert_used_count`]: shape.topK,
    [`${family}.vocab_size`]: shape.vocabSize,
  };
}

function capabilitiesOf(model: ModelInfo | undefined): (typeof ShowAnswer._output)['capabilities'] {
  if (model !== undefined && embedsOnly(model.shape)) return ['embedding'];
  const answer = model?.chat?.answer;
  const channels = answer?.kind === 'channels';
  return [
    'completion',
    ...(channels || answer?.toolCalls ? (['tools'] as const) : []),
    ...(channels || answer?.reasoning ? (['thinking'] as const) : []),
  ];
}

function startOf({ startedAt }: ModelContext): string {
  return new Date(startedAt * 1_000).toISOString();
}

function timeIn(ms: number): string {
  const time = Date.now() + ms;
  return time < Date.parse(FAR) ? new Date(time).toISOString() : FAR;
}
