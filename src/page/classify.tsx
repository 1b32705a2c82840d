/** Tries the tasks that a model declares. */
import { useSignal } from '@preact/signals';
import { ask } from './api.js';
import { useAsked } from './asked.js';
import type { ExpertCost } from './conversations.js';
import { CostText } from './cost.js';
import { fieldsOf } from './samples.js';
import { adminRefused, type Model } from './server.js';

interface Answer {
  data: { label: string; scores: Record<string, number> }[];
  experts?: ExpertCost;
}

const MOST_SCORES = 6;

export function Classify({ model }: { model: Model }) {
  const names = Object.keys(model.tasks);
  const task = useSignal(names[0]!);
  const { answer, failed, busy, send } = useAsked<Answer>();
  const { template } = model.tasks[task.value]!;
  const fields = fieldsOf(template);
  const submit = (event: SubmitEvent) => {
    event.preventDefault();
    const input = Object.fromEntries(new FormData(event.currentTarget as HTMLFormElement));
    const include = adminRefused.value === undefined ? { include: ['experts'] } : {};
    const body = { model: model.id, task: task.value, input, ...include };
    void send(() => ask<Answer>('/v1/classify', { method: 'POST', body }));
  };
  return (
    <div class="scroll">
      <h2>Classify</h2>
      <form id="classify" onSubmit={(event) => submit(event as unknown as SubmitEvent)}>
        <label>
          Task{' '}
          <select
            id="task"
            value={task.value}
            onChange={({ currentTarget }) => (task.value = currentTarget.value)}
          >
            {names.map((name) => (
              <option key={name}>{name}</option>
            ))}
          </select>
        </label>
        {fields.map((name) => (
          <label key={name}>
            {name} <input name={name} required autocomplete="off" />
          </label>
        ))}
        <button type="submit" disabled={busy.value}>
          Classify
        </button>
      </form>
      <div id="scores" aria-live="polite">
        {failed.value !== '' && <p class="error">{failed.value}</p>}
        {answer.value !== undefined && <Scores answer={answer.value} />}
      </div>
    </div>
  );
}

function Scores({ answer: { data, experts } }: { answer: Answer }) {
  const { label, scores } = data[0]!;
  const ordered = Object.entries(scores).sort((a, b) => b[1] - a[1]);
  const others = ordered.slice(MOST_SCORES);
  return (
    <>
      {ordered.slice(0, MOST_SCORES).map(([name, score]) => (
        <div class="score" key={name}>
          <span class={name === label ? 'best' : ''}>
            {name} {score.toFixed(3)}
          </span>
          <meter value={score} aria-label={name} />
        </div>
      ))}
      {others.length > 0 && (
        <p class="quiet">
          and {others.length} others: {others.reduce((sum, [, score]) => sum + score, 0).toFixed(3)}
        </p>
      )}
      {experts !== undefined && (
        <p class="quiet">
          <CostText experts={experts} />
        </p>
      )}
    </>
  );
}
