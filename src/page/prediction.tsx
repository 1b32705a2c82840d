/** Compares a model with and without prediction on samples. */
import { useSignal } from '@preact/signals';
import { useEffect, useRef } from 'preact/hooks';
import type { z } from 'zod';
import type { PredictorAnswer } from '../server/schemas/admin.js';
import { ask, reasonOf } from './api.js';
import type { ExpertCost } from './conversations.js';
import { count, median, seconds, size } from './numbers.js';
import { type Sample, samplesOf } from './samples.js';
import { adminRefused, layers, type Model, model } from './server.js';

type State = z.infer<typeof PredictorAnswer>;

const ROUNDS = 3;
/** Prediction that a page has switched off is on again after this time, should the page be gone. */
const OFF_SECONDS = 120;
const RENEWED_MS = 30_000;

const ROWS = [
  { name: 'Time', of: ({ seconds }: Run) => seconds, text: seconds },
  { name: 'Prefetched', of: ({ cost }: Run) => cost.prefetched, text: count },
  { name: 'Late', of: ({ cost }: Run) => cost.late, text: count },
  { name: 'On demand', of: ({ cost }: Run) => cost.on_demand, text: count },
  { name: 'Loaded', of: ({ cost }: Run) => cost.bytes_moved, text: size },
] as const;

/** All samples, one after the other. */
interface Run {
  seconds: number;
  cost: Pick<ExpertCost, 'prefetched' | 'late' | 'on_demand' | 'bytes_moved'>;
  answers: string;
}

interface Runs {
  with: Run[];
  without: Run[];
}

export function Prediction() {
  const { value: chosen } = model;
  if (adminRefused.value !== undefined || layers.value.length === 0) return null;
  if (chosen === undefined || !('family' in chosen) || chosen.predictor === null) return null;
  const samples = samplesOf(chosen);
  return samples.length === 0 ? null : <Compare key={chosen.id} of={chosen} samples={samples} />;
}

function Compare({ of, samples }: { of: Model; samples: readonly Sample[] }) {
  const says = useSignal('');
  const failed = useSignal('');
  const off = useSignal(false);
  const running = useSignal(false);
  const runs = useSignal<Runs | undefined>(undefined);
  const abort = useRef(new AbortController());
  useEffect(() => {
    const leave = () => abort.current.abort();
    addEventListener('pagehide', leave);
    return () => {
      removeEventListener('pagehide', leave);
      leave();
    };
  }, []);

  const path = `/admin/predictor?model=${encodeURIComponent(of.id)}`;
  const put = (body: object, own = {}) => ask<State>(path, { method: 'PUT', body, ...own });

  const run = async (enabled: boolean, signal: AbortSignal): Promise<Run> => {
    const all: Run = {
      seconds: 0,
      cost: { prefetched: 0, late: 0, on_demand: 0, bytes_moved: 0 },
      answers: '',
    };
    const set = () => put(enabled ? { enabled } : { enabled, seconds: OFF_SECONDS }, { signal });
    await set();
    // A sample may take longer than prediction stays off by itself.
    const renewing = setInterval(() => void set().catch(() => undefined), RENEWED_MS);
    try {
      for (const { path, body } of samples) {
        const begin = performance.now();
        const answer = await ask<{ choices?: unknown; data?: unknown; experts: ExpertCost }>(path, {
          method: 'POST',
          body: { ...body, include: ['experts'] },
          signal,
        });
        all.seconds += (performance.now() - begin) / 1000;
        for (const name of Object.keys(all.cost) as (keyof Run['cost'])[])
          all.cost[name] += answer.experts[name];
        all.answers += JSON.stringify(answer.choices ?? answer.data);
      }
    } finally {
      clearInterval(renewing);
    }
    return all;
  };

  const compare = async () => {
    abort.current = new AbortController();
    const { signal } = abort.current;
    const found: Runs = { with: [], without: [] };
    running.value = true;
    try {
      // The first round warms caches up, and is not counted.
      for (let round = 0; round <= ROUNDS; round += 1)
        for (const way of round % 2 === 0 ? (['with', 'without'] as const) : (['without', 'with'] as const)) {
          says.value = round === 0 ? 'Warming up …' : `Round ${round} of ${ROUNDS}, ${way} prediction …`;
          const ran = await run(way === 'with', signal);
          if (round > 0) found[way].push(ran);
        }
      runs.value = found;
      says.value = '';
    } finally {
      running.value = false;
      // It is on again by itself later, should this fail.
      await put({ enabled: true }, { keepalive: true }).catch(() => undefined);
    }
  };

  const orSay = async (act: () => Promise<void>) => {
    failed.value = says.value = '';
    try {
      await act();
    } catch (error) {
      if (abort.current.signal.aborted) says.value = 'Stopped.';
      else {
        says.value = '';
        failed.value = reasonOf(error);
      }
    }
  };
  const start = () =>
    orSay(async () => {
      const { enabled, state } = await ask<State>(path);
      off.value = !enabled;
      if (!enabled) says.value = 'Prediction is switched off.';
      else if (state === 'not_needed')
        says.value =
          'Every expert is in memory, so that there is nothing to predict. Give memory back first.';
      else await compare();
    });
  const switchOn = () =>
    orSay(async () => {
      off.value = !(await put({ enabled: true })).enabled;
    });

  return (
    <section class="view-Memory" aria-label="Prediction">
      <h2>Prediction</h2>
      <p class="tools">
        {running.value ? (
          <button type="button" id="stop-comparing" onClick={() => abort.current.abort()}>
            Stop
          </button>
        ) : off.value ? (
          <button type="button" id="switch-on" onClick={() => void switchOn()}>
            Switch it on
          </button>
        ) : (
          <button type="button" id="compare" onClick={() => void start()}>
            Compare with and without prediction
          </button>
        )}
      </p>
      <p id="prediction-text" class="quiet" aria-live="polite">
        {says.value}
      </p>
      {failed.value !== '' && (
        <p class="error" role="alert">
          {failed.value}
        </p>
      )}
      {runs.value !== undefined && <Result runs={runs.value} samples={samples.length} />}
    </section>
  );
}

function Result({ runs, samples }: { runs: Runs; samples: number }) {
  const all = [...runs.with, ...runs.without];
  const same = all.every(({ answers }) => answers === all[0]!.answers);
  return (
    <div id="prediction">
      <p class={same ? 'same' : 'error'}>{same ? 'The answers are the same.' : 'The answers differ.'}</p>
      <table>
        <caption class="quiet">
          {samples} samples, medians of {ROUNDS} rounds
        </caption>
        <thead>
          <tr>
            <td />
            <th scope="col">With</th>
            <th scope="col">Without</th>
          </tr>
        </thead>
        <tbody>
          {ROWS.map(({ name, of, text }) => (
            <tr key={name}>
              <th scope="row">{name}</th>
              <td>{text(median(runs.with.map(of)))}</td>
              <td>{text(median(runs.without.map(of)))}</td>
            </tr>
          ))}
        </tbody>
      </table>
    </div>
  );
}
