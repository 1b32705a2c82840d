/** Turns jobs into requests for a server that speaks OpenAI's API, such as vLLM, SGLang, llama.cpp or sida itself. */
import { SidaError } from '../errors.js';
import type { JobRequest } from '../protocol/engine-messages.js';
import type { TaskJob } from '../tasks/registry.js';
import type { ChatWork } from '../tasks/shared/chat-work.js';
import type { StoredStructure } from '../tasks/shared/structure.js';
import type { Conversation } from '../text/chat/chat-encoder.js';
import { CONTINUED } from '../text/chat/template-files.js';
import { USUAL_CONTEXT } from './upstream-model.js';

export interface UpstreamRequest {
  path: '/v1/chat/completions' | '/v1/completions';
  body: Record<string, unknown>;
  /** Choices of each prompt. */
  choices: number;
  /** Of each prompt: the text that its choices begin with. */
  prefixes: string[];
  /** Of a conversation: how content is read that the other server has not split itself. */
  answer?: Pick<ChatWork, 'answer' | 'tools'>;
}

type ChatJob = Extract<TaskJob, { kind: 'chat' | 'respond' }>;
type CompleteJob = Extract<TaskJob, { kind: 'complete' }>;

/** Throws cannot_run for what needs the model itself, not only its texts. */
export function upstreamRequest(request: JobRequest, model: string): UpstreamRequest {
  const job = request as TaskJob;
  const common = { model, stream: true, stream_options: { include_usage: true } };
  if (job.kind === 'chat' || job.kind === 'respond') {
    refuse(job, 'showTokenIds' in job && job.showTokenIds === true);
    return {
      path: '/v1/chat/completions',
      body: { ...common, ...chatBody(job) },
      choices: job.choices ?? 1,
      prefixes: [''],
      answer: job,
    };
  }
  if (job.kind === 'complete') {
    refuse(job, job.showTokenIds === true);
    const prompts = completePrompts(job);
    const body = { ...common, ...completeBody(job, prompts) };
    // Not every server can begin its answer with the prompt.
    const prefixes = prompts.map((prompt) => (job.echo === true ? prompt : ''));
    return { path: '/v1/completions', body, choices: job.choices ?? 1, prefixes };
  }
  throw cannot(`answer jobs of the kind "${job.kind}"`);
}

function refuse(job: ChatJob | CompleteJob, tokenIds: boolean): void {
  if (job.logprobs !== null) throw cannot('give log-probabilities', 'logprobs');
  if (tokenIds) throw cannot('give token ids', 'return_token_ids');
  if (job.explain || job.tokenExperts) throw cannot('tell which experts an answer needed', 'include');
  if (job.routing?.mode === 'predicted') throw cannot('route tokens by hash tables', 'routing');
}

function chatBody(job: ChatJob): Record<string, unknown> {
  const conversation = JSON.parse(job.conversation) as Conversation;
  const { messages, tools, reasoning_effort: effort, ...rest } = conversation;
  const { add_generation_prompt: _, [CONTINUED]: continued, ...variables } = rest;
  return {
    messages,
    ...(tools !== undefined && { tools: callable(tools, job.structure) }),
    ...(effort !== undefined && { reasoning_effort: effort }),
    // vLLM and SGLang begin another message where a request does not say so; sida and llama.cpp need not be told.
    ...(continued === true && { add_generation_prompt: false, continue_final_message: true }),
    ...(Object.keys(variables).length > 0 && { chat_template_kwargs: variables }),
    ...(job.maxTokens !== null && { max_tokens: job.maxTokens }),
    ...samplingFields(job),
    ...structureFields(job.structure),
  };
}

function completePrompts({ prompts, search, forcedFirst, maxTokens }: CompleteJob): string[] {
  if (maxTokens === 0) throw cannot('answer without a token', 'max_tokens');
  if (search !== undefined) throw cannot('search by beams', 'num_beams');
  if (forcedFirst !== undefined) throw cannot('force a first token', 'forced_bos_token_id');
  return prompts.map((prompt) => {
    if (typeof prompt === 'string') return prompt;
    throw cannot('take prompts of token ids', 'prompt');
  });
}

function completeBody(job: CompleteJob, prompts: string[]): Record<string, unknown> {
  if (job.structure !== undefined) throw cannot('hold a completion to a schema', 'response_format');
  return {
    prompt: prompts.length === 1 ? prompts[0] : prompts,
    max_tokens: job.maxTokens,
    ...(job.showSpecialTokens === true && { skip_special_tokens: false }),
    ...samplingFields(job),
  };
}

function samplingFields({
  sampling,
  adjustments,
  stop,
  choices = 1,
}: Pick<ChatWork, 'sampling' | 'adjustments' | 'stop' | 'choices'>): Record<string, unknown> {
  return {
    temperature: sampling?.temperature ?? 0,
    ...(sampling !== undefined && { top_p: sampling.topP, seed: sampling.seed }),
    // Not every server knows these two.
    ...(sampling !== undefined && sampling.topK > 0 && { top_k: sampling.topK }),
    ...(sampling !== undefined && sampling.minP > 0 && { min_p: sampling.minP }),
    ...(adjustments !== undefined && {
      presence_penalty: adjustments.presence,
      frequency_penalty: adjustments.frequency,
      ...(adjustments.repetition !== 1 && repetitionFields(adjustments.repetition)),
      ...(adjustments.biases.length > 0 && { logit_bias: Object.fromEntries(adjustments.biases) }),
    }),
    ...(stop.length > 0 && { stop }),
    ...(choices > 1 && { n: choices }),
  };
}

/** Of vLLM, SGLang and sida, and of llama.cpp, which would penalize 64 tokens only. Others do not use them. */
function repetitionFields(penalty: number): Record<string, unknown> {
  return { repetition_penalty: penalty, repeat_penalty: penalty, repeat_last_n: USUAL_CONTEXT };
}

function structureFields({ content, calls }: StoredStructure = {}): Record<string, unknown> {
  const format = content && {
    type: 'json_schema',
    json_schema: { name: 'answer', schema: JSON.parse(content.schema), strict: content.closed },
  };
  // Without a schema of the content, one of the tools must be called.
  const forced = calls !== undefined && content === undefined;
  return { ...(format && { response_format: format }), ...(forced && { tool_choice: 'required' }) };
}

/** The tools of which one must be called. A choice by name would mean nothing to llama.cpp. */
function callable(tools: unknown[], { content, calls }: StoredStructure = {}): unknown[] {
  if (calls === undefined || content !== undefined) return tools;
  const names = new Set(calls.map(({ name }) => name));
  return (tools as { function: { name: string } }[]).filter((tool) => names.has(tool.function.name));
}

function cannot(what: string, param?: string): SidaError {
  const message = `This model runs in an engine of another program (--upstream), which cannot ${what}`;
  return new SidaError({ code: 'cannot_run', message, ...(param !== undefined && { param }) });
}
