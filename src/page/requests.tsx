/** Requests whose clients wait for an answer, each with a button that cancels it. */
import { useSignal } from '@preact/signals';
import { reasonOf } from './api.js';
import { count, seconds } from './numbers.js';
import { adminRefused, cancelRequest, layers, type RequestInFlight, requests } from './server.js';

export function Requests() {
  const failed = useSignal('');
  if (adminRefused.value !== undefined || layers.value.length === 0) return null;
  const cancel = async (id: string) => {
    failed.value = '';
    try {
      await cancelRequest(id);
    } catch (error) {
      failed.value = reasonOf(error);
    }
  };
  return (
    <section class="view-Memory" aria-label="Requests in flight">
      <h2>
        Requests in flight <span class="quiet">{count(requests.value.length)}</span>
      </h2>
      {requests.value.length > 0 && (
        <ul id="requests">
          {requests.value.map((request) => (
            <li key={request.id}>
              <span title={request.id}>{textOf(request)}</span>
              <button
                type="button"
                aria-label={`Cancel ${request.kind} ${request.id}`}
                onClick={() => void cancel(request.id)}
              >
                Cancel
              </button>
            </li>
          ))}
        </ul>
      )}
      {failed.value !== '' && (
        <p class="error" role="alert">
          {failed.value}
        </p>
      )}
    </section>
  );
}

function textOf({ kind, key, started_ms, most_tokens, tokens }: RequestInFlight): string {
  const age = seconds(Math.max(0, Date.now() - started_ms) / 1000);
  const made = tokens === null ? '' : `${count(tokens)} generated, `;
  return `${kind}${key === null ? '' : ` of ${key}`}: ${made}at most ${count(most_tokens)} tokens; since ${age}`;
}
