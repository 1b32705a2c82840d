/** Who changed the budget, and when. */
import { size } from './numbers.js';
import { budgetChanges } from './server.js';

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
            {size(from)} → {size(to)}, by {by === 'page' ? 'this page' : 'the API'}
            {key !== null && ` with the key ${key}`}
          </li>
        ))}
      </ol>
    </details>
  );
}
