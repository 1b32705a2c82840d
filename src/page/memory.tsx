/** The device budget as a bar, and a slider over it with its price. */
import { useSignal } from '@preact/signals';
import { useEffect, useRef } from 'preact/hooks';
import { reasonOf } from './api.js';
import { BudgetLog, heldBy } from './budget-log.js';
import { budgetStep, size, slowerTimes } from './numbers.js';
import { Peers } from './peers.js';
import {
  adminRefused,
  chosenId,
  diskRate,
  isLoaded,
  measured,
  memory,
  peers,
  setBudget,
  totals,
  type Memory as Used,
} from './server.js';

export function Memory() {
  const refusal = adminRefused.value;
  if (refusal !== undefined)
    return (
      <section class="view-Memory" aria-label="Memory">
        <h2>Memory</h2>
        <p id="memory-text" class="quiet">
          {refusal.status === 401
            ? 'Sign in to see memory and experts.'
            : refusal.status === 403
              ? 'This key may not see memory and experts.'
              : refusal.message}
        </p>
      </section>
    );
  return (
    <section class="view-Memory" aria-label="Memory">
      <h2>Memory</h2>
      {memory.value === undefined ? (
        <p id="memory-text" class="quiet">
          {isLoaded.value ? 'unknown' : 'The model is not loaded.'}
        </p>
      ) : (
        <Budget key={chosenId.value} used={memory.value} />
      )}
    </section>
  );
}

/** Steps of the slider between the smallest budget and that for all experts. */
const TICKS = 200;

const fixedOf = ({ driver_bytes, dense_bytes, workspace_bytes, kv }: Used) =>
  driver_bytes + dense_bytes + workspace_bytes + kv.used_bytes + kv.cached_bytes + kv.free_bytes;

function Budget({ used }: { used: Used }) {
  const wanted = useSignal<number | undefined>(undefined);
  const busy = useSignal(false);
  /** One change at a time: of those that wait, only the newest is made. */
  const changes = useRef({ newest: 0, last: Promise.resolve() }).current;
  useEffect(
    () => () => {
      changes.newest += 1;
    },
    [changes],
  );
  const failed = useSignal('');
  const { budget_bytes: budget, smallest_bytes: smallest, experts } = used;
  const fixed = fixedOf(used);
  const most = Math.max(fixed + experts.all_bytes, smallest);
  const shown = wanted.value ?? budget;
  const useful = Math.min(shown, most);
  const apply = (asked: number) => {
    const bytes = Math.round(Math.min(most, Math.max(smallest, asked)));
    changes.newest += 1;
    const own = changes.newest;
    wanted.value = bytes;
    busy.value = true;
    const change = async () => {
      if (own !== changes.newest) return;
      failed.value = '';
      try {
        await setBudget(String(bytes));
      } catch (error) {
        failed.value = reasonOf(error);
      }
      if (own !== changes.newest) return;
      wanted.value = undefined;
      busy.value = false;
    };
    changes.last = changes.last.then(change);
  };
  const step = budgetStep(experts.all_bytes);
  const bytesAt = (tick: number) => smallest + ((most - smallest) * tick) / TICKS;
  return (
    <>
      <Bar used={used} most={most} />
      <label for="budget" id="budget-text">
        Budget <strong>{size(shown)}</strong>
        {heldBy()}, from {size(smallest)} to {size(most)} for all experts
      </label>
      <input
        id="budget"
        type="range"
        min={0}
        max={TICKS}
        value={most > smallest ? Math.round((TICKS * (useful - smallest)) / (most - smallest)) : 0}
        aria-valuetext={size(shown)}
        onInput={({ currentTarget }) => {
          wanted.value = bytesAt(currentTarget.valueAsNumber);
        }}
        onChange={({ currentTarget }) => apply(bytesAt(currentTarget.valueAsNumber))}
      />
      <p id="price" class="quiet" aria-live="polite">
        {busy.value ? 'Changing the budget …' : priceText(used, fixed, shown)}
      </p>
      <p class="tools">
        <button
          type="button"
          id="give-back"
          disabled={shown <= smallest}
          onClick={() => apply(useful - step)}
        >
          {shown <= smallest
            ? 'Nothing left to give back'
            : `Give ${size(Math.min(step, useful - smallest) + shown - useful)} back`}
        </button>
        <button type="button" id="take-all" disabled={shown >= most} onClick={() => apply(most)}>
          Take what all experts need
        </button>
      </p>
      {totals.value && <Peers peers={peers.value} found={totals.value} />}
      <BudgetLog />
      {failed.value !== '' && (
        <p class="error" role="alert">
          {failed.value}
        </p>
      )}
    </>
  );
}

function priceText(used: Used, fixed: number, shown: number): string {
  const { budget_bytes: budget, experts } = used;
  const change = shown - budget;
  const held = Math.min(1, Math.max(0, (shown - fixed) / experts.all_bytes));
  const share = `Room for ${Math.round(100 * held)} % of the experts`;
  if (Math.abs(change) < 2 ** 10) return `${share}. Answers are the same within any budget.`;
  const amount = `${size(Math.abs(change))} ${change < 0 ? 'less' : 'more'}`;
  const costs = {
    budget,
    fixed,
    experts: experts.all_bytes,
    token: experts.token_bytes,
    disk: diskRate.value,
  };
  if (diskRate.value === 0) return `${share}, ${amount}. The disk was not measured, so the price is unknown.`;
  const own = measured.value?.model === chosenId.value ? measured.value : undefined;
  const times = slowerTimes(costs, shown, own);
  if (times === undefined) return `${share}, ${amount}. Ask something to see what a token costs.`;
  if (change < 0) return `${share}, ${amount}: about ${times.toFixed(1)} × the time of a token.`;
  return `${share}, ${amount}: about ${(1 / times).toFixed(1)} × as fast.`;
}

const PARTS = [
  ['driver', 'GPU driver', ({ driver_bytes }: Used) => driver_bytes],
  ['dense', 'dense weights', ({ dense_bytes }: Used) => dense_bytes],
  ['kv', 'KV cache, in use', ({ kv }: Used) => kv.used_bytes],
  ['kv-cached', 'KV cache, prefixes', ({ kv }: Used) => kv.cached_bytes],
  ['kv-free', 'KV cache, free', ({ kv }: Used) => kv.free_bytes],
  ['workspace', 'workspace', ({ workspace_bytes }: Used) => workspace_bytes],
  ['experts', 'experts', ({ experts }: Used) => experts.resident_bytes],
  [
    'free',
    'room for experts',
    ({ experts }: Used) => Math.max(0, experts.slot_bytes - experts.resident_bytes),
  ],
] as const;

function Bar({ used, most }: { used: Used; most: number }) {
  const unneeded = { name: 'unneeded', text: 'not needed', bytes: Math.max(0, used.budget_bytes - most) };
  const parts = [...PARTS.map(([name, text, bytes]) => ({ name, text, bytes: bytes(used) })), unneeded];
  const all = Math.max(
    used.budget_bytes,
    parts.reduce((sum, { bytes }) => sum + bytes, 0),
  );
  let left = 0;
  return (
    <>
      <svg id="memory-bar" viewBox="0 0 1000 40" preserveAspectRatio="none" aria-hidden="true">
        {parts.map(({ name, bytes }) => {
          const x = left;
          left += (1000 * bytes) / all;
          return <rect key={name} class={`part-${name}`} x={x} y="0" width={left - x} height="40" />;
        })}
      </svg>
      <ul id="memory-parts" class="legend">
        {parts
          .filter(({ bytes }) => bytes > 0)
          .map(({ name, text, bytes }) => (
            <li key={name}>
              <i class={`part-${name}`} />
              {text} {size(bytes)}
            </li>
          ))}
      </ul>
    </>
  );
}
