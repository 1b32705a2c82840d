/** Who changed the budget, and when. */
import { size } from './numbers.js';
import { type BudgetChange, budgetChanges } from './server.js';

const BY: Record<BudgetChange['by'], string> = {
  page: 'this page',
  api: 'the API',
  target: 'the latency target',
  pressure: 'memory pressure',
};

/** What holds the budget, where that is not an operator. */
export function heldBy(): string {
  const by = budgetChanges.value.at(-1)?.by;
  return by === 'target' || by === 'pressure' ? ` (held by ${BY[by]})` : '';
}

export function BudgetLog() {
  const { value: changes } = budgetChanges;
  if (changes.length === 0) return null;
  return (
    <details id="budget-log">
      <summary>Changes of the budget</summary>
      <ol>
        {[...changes].reverse().map(({ time_ms: time, from_bytes: from, to_bytes: to, by, key }) => (
          <li key={time}>
            <time dateTime={new Date(time).toISOString()}>{new Date(time).toLocaleTimeString()}</time>{' '}
            {size(from)} → {size(to)}, by {BY[by]}
            {key !== null && ` with the key ${key}`}
          </li>
        ))}
      </ol>
    </details>
  );
}
