/** The tokens of the last answer, each of which shows its experts when it is pointed at. */
import { signal } from '@preact/signals';
import { useEffect, useRef } from 'preact/hooks';
import type { z } from 'zod';
import type { TokenExperts } from '../tasks/shared/token-experts.js';
import type { bodyOf } from './answering.js';
import { ask } from './api.js';
import { useAsked } from './asked.js';
import { count } from './numbers.js';
import { chosenId } from './server.js';

export type Token = z.infer<typeof TokenExperts>[number];

/** As many as the server tells of. */
const MOST_TOKENS = 64;

/** The request of the last whole answer. */
export const lastAsked = signal<ReturnType<typeof bodyOf> | undefined>(undefined);

interface TokensProps {
  shown: Token | undefined;
  onShow: (token: Token | undefined) => void;
}

export function Tokens({ shown, onShow }: TokensProps) {
  const { value: request } = lastAsked;
  if (request === undefined || request.model !== chosenId.value) return null;
  return <TokensOf key={request.seed} request={request} shown={shown} onShow={onShow} />;
}

function TokensOf({ request, shown, onShow }: TokensProps & { request: ReturnType<typeof bodyOf> }) {
  const { answer, failed, busy, send } = useAsked<{ token_experts: Token[] }>();
  const list = useRef<HTMLDivElement>(null);
  useEffect(() => () => onShow(undefined), []);
  const find = () => {
    if (busy.value) return;
    void send(() => {
      // The same request gives the same tokens.
      const max_tokens = Math.min(MOST_TOKENS, request.max_tokens ?? MOST_TOKENS);
      const body = { ...request, max_tokens, include: ['token_experts'] };
      return ask('/v1/chat/completions', { method: 'POST', body });
    });
  };
  const tokens = answer.value?.token_experts;
  // The button that was pressed is gone.
  useEffect(() => (list.current?.firstElementChild as HTMLElement | null | undefined)?.focus(), [tokens]);
  if (tokens === undefined)
    return (
      <p class="tools">
        <button type="button" id="find-tokens" aria-disabled={busy.value} onClick={find}>
          Experts of each token of the answer
        </button>{' '}
        {failed.value !== '' && (
          <span class="error" role="alert">
            {failed.value}
          </span>
        )}
      </p>
    );
  const step = (event: KeyboardEvent) => {
    const by = { ArrowLeft: -1, ArrowRight: 1 }[event.key];
    if (by === undefined) return;
    event.preventDefault();
    const buttons = [...list.current!.children] as HTMLElement[];
    buttons[buttons.indexOf(document.activeElement as HTMLElement) + by]?.focus();
  };
  const reached = shown === undefined ? 0 : tokens.indexOf(shown);
  return (
    <>
      <div id="tokens" ref={list} role="toolbar" aria-label="Tokens of the answer" onKeyDown={step}>
        {tokens.map((token, at) => (
          <button
            type="button"
            key={at}
            aria-pressed={token === shown}
            tabIndex={at === reached ? 0 : -1}
            onFocus={() => onShow(token)}
            onPointerEnter={() => onShow(token)}
          >
            {token.token}
          </button>
        ))}
      </div>
      <p id="token-text" class="quiet" aria-live="polite">
        {shown === undefined ? hintOf(tokens) : textOf(shown)}{' '}
        {shown !== undefined && (
          <button type="button" class="plain" onClick={() => onShow(undefined)}>
            All experts
          </button>
        )}
      </p>
    </>
  );
}

function hintOf({ length }: readonly Token[]): string {
  const cut = length === MOST_TOKENS ? ` These are the first ${MOST_TOKENS} tokens of the answer.` : '';
  return `Point at a token to see its experts.${cut}`;
}

export const rightOf = ({ chosen, predicted }: Token['layers'][number]) =>
  predicted?.filter((expert) => chosen.includes(expert)) ?? [];

function textOf({ token, layers }: Token): string {
  const sum = (each: (layer: Token['layers'][number]) => number) =>
    layers.reduce((all, layer) => all + each(layer), 0);
  const chosen = `“${token.trim()}” took ${count(sum((layer) => layer.chosen.length))} experts of ${layers.length} layers`;
  if (layers.every(({ predicted }) => predicted === null)) return `${chosen}; nothing was predicted.`;
  return `${chosen}; the predictor named ${count(sum((layer) => rightOf(layer).length))} of them.`;
}

export function TokenTable({ token }: { token: Token }) {
  return (
    <table id="token-table">
      <thead>
        <tr>
          <th scope="col">Layer</th>
          <th scope="col">Experts of “{token.token.trim()}”</th>
          <th scope="col">Predicted</th>
        </tr>
      </thead>
      <tbody>
        {token.layers.map((layer) => (
          <tr key={layer.layer}>
            <th scope="row">{layer.layer}</th>
            <td>{layer.chosen.join(', ')}</td>
            <td>
              {layer.predicted === null
                ? 'nothing'
                : `${layer.predicted.join(', ')}: ${rightOf(layer).length} right`}
            </td>
          </tr>
        ))}
      </tbody>
    </table>
  );
}
