/** What the page knows of the server: readiness, models, memory and experts, as they change. */
import { computed, effect, signal, untracked } from '@preact/signals';
import type { z } from 'zod';
import type { BudgetAnswer, ExpertsEvent } from '../server/schemas/admin.js';
import type { ModelsAnswer, ReadyAnswer } from '../server/schemas/service.js';
import { ask, events, Refused, reasonOf, storeKey } from './api.js';
import { type Measured, neededExperts } from './numbers.js';

type Listed = z.infer<typeof ModelsAnswer>['data'][number];
/** A model that has been opened, so that all is known of it. */
export type Model = Extract<Listed, { family: string }>;
export const isOpened = (listed: Listed): listed is Model => 'family' in listed;
export const chats = (listed: Listed) => isOpened(listed) && listed.chat;
export const translates = (listed: Listed) => isOpened(listed) && listed.languages.length > 0;
export const hasTasks = (listed: Listed) => isOpened(listed) && Object.keys(listed.tasks).length > 0;
export type Memory = z.infer<typeof BudgetAnswer>['device'];
export type Peer = NonNullable<z.infer<typeof BudgetAnswer>['peers']>[number];
type Event = z.infer<typeof ExpertsEvent>;
export type Totals = Event['totals'];
export type RequestInFlight = Event['requests'][number];
export type BudgetChange = NonNullable<Event['budget_changes']>[number];
export type ExpertState = Event['experts'][number][2];

export interface Expert {
  state: ExpertState;
  uses: number;
  /** When its state or its uses last changed, in milliseconds of `performance.now()`. */
  movedAt: number;
  usedAt: number;
}

/** Figures of a moment, for the charts. */
export interface Sample {
  /** Seconds of the clock. */
  time: number;
  tokens: number;
  bytes: number;
  hits: number;
  running: number;
}

export interface Status {
  text: string;
  /** Why it is not ready. */
  reason: string;
  kind: 'ok' | 'wait' | 'bad';
}

/** Idle servers are asked for so seldom; changes of experts and memory come as events. */
const READY_MS = 5000;
const STARTING_MS = 1000;
const AGAIN_MS = 2000;
const IDLE_MS = 1000;
/** The longest time between looks of the server. */
const BURST_SECONDS = 0.2;
const MOST_SAMPLES = 300;

export const status = signal<Status>({ text: 'connecting', reason: '', kind: 'wait' });
export const models = signal<Listed[]>([]);
export const chosenId = signal('');
export const model = computed(() => models.value.find(({ id }) => id === chosenId.value));
const ready = signal<z.infer<typeof ReadyAnswer> | undefined>(undefined);
/** Idle models are loaded when they are asked for. */
export const isLoaded = computed(() => {
  const own = ready.value?.models?.find(({ id }) => id === chosenId.value) ?? ready.value;
  return own?.phase !== 'idle';
});

/** Why the models may not be seen; empty if they may. */
export const refused = signal<Refusal | undefined>(undefined);
/** Why memory and experts may not be seen. */
export const adminRefused = signal<Refusal | undefined>(undefined);
export interface Refusal {
  status: number;
  message: string;
}

export const memory = signal<Memory | undefined>(undefined);
export const diskRate = signal(0);
export const peers = signal<Peer[]>([]);
export const totals = signal<Totals | undefined>(undefined);
export interface Layer {
  name: string;
  experts: Expert[];
}
export const layers = signal<Layer[]>([]);
export const requests = signal<RequestInFlight[]>([]);
export const budgetChanges = signal<BudgetChange[]>([]);
/** What experts did from when the last requests began to when they ended, for a replay. */
export interface Recording {
  before: Layer[];
  moments: Event['experts'][];
}
export const recording = signal<Recording | undefined>(undefined);
const MOST_MOMENTS = 200;
/** Grows with every event of the experts. */
export const expertsStamp = signal(0);
export const samples = signal<Sample[]>([]);
/** The time of a token in the last answer, and the model that gave it. */
export const measured = signal<(Measured & { model: string }) | undefined>(undefined);

/** A path of the chosen model. */
export const ofModel = (path: string) =>
  models.value.length < 2 ? path : `${path}?model=${encodeURIComponent(chosenId.value)}`;

export function choose(id: string): void {
  chosenId.value = id;
}

/** Grows with every key. */
export const keys = signal(0);

/** Starts the page anew with a key. An empty key signs out. */
export function useKey(key: string): void {
  storeKey(key);
  refused.value = adminRefused.value = undefined;
  models.value = [];
  chosenId.value = '';
  keys.value += 1;
  void look();
}

const refusalOf = (error: unknown): Refusal => ({
  status: error instanceof Refused ? error.status : 0,
  message: reasonOf(error),
});

let timer: ReturnType<typeof setTimeout> | undefined;

/** Asks for readiness, and for the models until all are known. */
export async function look(): Promise<void> {
  clearTimeout(timer);
  let next = STARTING_MS;
  if (document.visibilityState === 'visible') {
    try {
      const now = await ask<z.infer<typeof ReadyAnswer>>('/health/ready', {}, [503]);
      const moved = phasesOf(now) !== phasesOf(ready.value);
      ready.value = now;
      status.value = statusOf(now);
      const settled = now.status !== 'not_ready';
      if (refused.value === undefined && (models.value.length === 0 || !settled || restarted || moved))
        await listModels();
      restarted = !settled;
      if (settled) next = READY_MS;
    } catch (error) {
      status.value = {
        text: error instanceof Refused ? error.message : 'unreachable',
        reason: '',
        kind: 'bad',
      };
      restarted = true;
    }
  }
  timer = setTimeout(look, next);
}
let restarted = false;
const visible = signal(document.visibilityState === 'visible');
document.addEventListener('visibilitychange', () => {
  visible.value = document.visibilityState === 'visible';
  void look();
});

const phasesOf = (answer: z.infer<typeof ReadyAnswer> | undefined) =>
  [answer, ...(answer?.models ?? [])].map((own) => own?.phase).join();

function statusOf({ status: state, phase, reason, progress }: z.infer<typeof ReadyAnswer>): Status {
  const share =
    progress && progress.total > 0 ? ` ${Math.floor((100 * progress.done) / progress.total)} %` : '';
  const kind = state === 'ready' ? 'ok' : phase === 'failed' ? 'bad' : 'wait';
  return { text: (state === 'degraded' ? 'degraded' : phase) + share, reason: reason ?? '', kind };
}

export async function listModels(): Promise<void> {
  try {
    const { data } = await ask<z.infer<typeof ModelsAnswer>>('/v1/models');
    // A server that starts again lists models as they open: the chosen one may be the last.
    const gone = chosenId.value !== '' && data.every(({ id }) => id !== chosenId.value);
    if (gone && ready.value?.status === 'not_ready') return;
    // Models that chat stand first.
    models.value = [...data].sort((a, b) => Number(chats(b)) - Number(chats(a)));
    if (model.value === undefined) chosenId.value = models.value[0]?.id ?? '';
  } catch (error) {
    if (error instanceof Refused && error.status !== 503) {
      refused.value = refusalOf(error);
      // A key may have the scope of either alone.
      if (error.status !== 403) adminRefused.value = refused.value;
    } else if (!(error instanceof Refused)) throw error;
  }
}

/** What the figures on the page are of. They stay while the page is hidden. */
let followed = '';

function forget(): void {
  memory.value = recording.value = totals.value = undefined;
  peers.value = [];
  layers.value = [];
  samples.value = [];
  requests.value = [];
  budgetChanges.value = [];
  clearTimeout(idle);
}

/**
 * Follows the experts of the chosen model, and begins again when the stream ends. Hidden pages have no stream, because
 * browsers open six connections to a server, for all tabs together.
 */
effect(() => {
  const next = `${keys.value} ${chosenId.value}`;
  const seen = isLoaded.value && (chosenId.value !== '' || refused.value?.status === 403);
  const shown = visible.value;
  return untracked(() => {
    if (followed !== next || !seen) forget();
    followed = next;
    if (!seen || !shown) return;
    const stop = new AbortController();
    void follow(stop.signal);
    return () => stop.abort();
  });
});

async function follow(signal: AbortSignal): Promise<void> {
  while (!signal.aborted) {
    let pause = AGAIN_MS;
    try {
      const budget = await ask<z.infer<typeof BudgetAnswer>>(ofModel('/admin/budget'), { signal });
      diskRate.value = budget.disk_bytes_per_second;
      memory.value = budget.device;
      for await (const data of events(ofModel('/admin/experts/events'), { signal }))
        take(JSON.parse(data) as Event);
    } catch (error) {
      if (signal.aborted) return;
      if (error instanceof Refused && [401, 403, 422].includes(error.status)) {
        adminRefused.value ??= refusalOf(error);
        return;
      }
      // The server may be gone: the page says so before its next look.
      if (!(error instanceof Refused)) void look();
      if (error instanceof Refused && error.status === 503) {
        forget();
        pause = READY_MS;
      }
    }
    await new Promise((resolve) => setTimeout(resolve, pause));
  }
}

function take({ layers: names, experts, memory: used, ...event }: Event): void {
  const first = names !== undefined;
  if (first) layers.value = names.map((name) => ({ name, experts: [] }));
  else record(experts, event.requests.length > 0, event.totals.passes > (totals.value?.passes ?? 0));
  requests.value = event.requests;
  if (event.budget_changes !== undefined) budgetChanges.value = event.budget_changes;
  change(layers.value, experts, first);
  memory.value = used;
  peers.value = event.peers ?? [];
  sample(event.totals, first);
  expertsStamp.value += 1;
}

/** Changes experts as an event says. What was so before it was looked at did not just move. */
export function change(all: Layer[], experts: Event['experts'], first = false): void {
  const now = performance.now();
  for (const [layer, index, state, uses] of experts) {
    const own = all[layer]!.experts;
    const known = own[index];
    own[index] = {
      state,
      uses,
      movedAt:
        first || known === undefined || known.state !== state ? (first ? -Infinity : now) : known.movedAt,
      usedAt: first ? -Infinity : known === undefined || known.uses < uses ? now : known.usedAt,
    };
  }
}

export const copyOf = (all: readonly Layer[]): Layer[] =>
  all.map(({ name, experts }) => ({
    name,
    experts: experts.map((expert) => ({ ...expert, movedAt: -Infinity, usedAt: -Infinity })),
  }));

/** The engine's counters may come a second late. A change of experts before that belongs to the last answer. */
const LATE_MS = 1_500;
let records = false;
let recordedAt = -Infinity;
/**
 * Called before an event changes the experts. The event after the last request has its last changes, and an answer may
 * begin and end between two events.
 */
function record(experts: Event['experts'], runs: boolean, ran: boolean): void {
  const now = performance.now();
  const late = !runs && now - recordedAt < LATE_MS;
  if (!records && !late && (runs || (ran && experts.length > 0)))
    recording.value = { before: copyOf(layers.value), moments: [] };
  const so = recording.value;
  if ((runs || ran || records) && so !== undefined && experts.length > 0 && so.moments.length < MOST_MOMENTS)
    recording.value = { ...so, moments: [...so.moments, experts] };
  if (runs || records) recordedAt = now;
  records = runs;
}

/** Cancels a request. The stream of experts tells that it is gone. Rejects with Refused. */
export const cancelRequest = (id: string) =>
  ask(`/admin/requests/${encodeURIComponent(id)}`, { method: 'DELETE' });

/** When totals last came. */
let lastTime = 0;
let idle: ReturnType<typeof setTimeout> | undefined;

function sample(now: Totals, first: boolean): void {
  const time = Date.now() / 1000;
  const before = first || totals.value === undefined ? undefined : { totals: totals.value, time: lastTime };
  totals.value = now;
  lastTime = time;
  // Nothing comes from an idle server.
  clearTimeout(idle);
  const running = now.active_sequences + now.waiting_inputs;
  idle = setTimeout(() => {
    if (samples.value.length > 0)
      draw({ time: Date.now() / 1000, tokens: 0, bytes: 0, hits: Number.NaN, running });
  }, IDLE_MS);
  if (before === undefined) return;
  // After a pause, what an event tells has just happened.
  const paused = time - before.time > IDLE_MS / 1000;
  const span = paused ? BURST_SECONDS : Math.max(0.05, time - before.time);
  if (paused) draw({ time: time - span, tokens: 0, bytes: 0, hits: Number.NaN, running: 0 });
  const grown = (name: keyof Totals) => Math.max(0, now[name] - before.totals[name]);
  const needed = neededExperts(now) - neededExperts(before.totals);
  draw({
    time,
    tokens: grown('generated_tokens') / span,
    bytes: grown('moved_bytes') / span,
    hits: needed > 0 ? (100 * (grown('resident') + grown('prefetched'))) / needed : Number.NaN,
    running,
  });
}

function draw(next: Sample): void {
  samples.value = [...samples.value.slice(1 - MOST_SAMPLES), next];
}

/** Changes the budget of the chosen model. Rejects with Refused. */
export async function setBudget(device: string): Promise<void> {
  const before = followed;
  const answer = await ask<z.infer<typeof BudgetAnswer>>(ofModel('/admin/budget'), {
    method: 'PUT',
    body: { device },
  });
  // Another model may have been chosen meanwhile.
  if (followed === before) memory.value = answer.device;
}
