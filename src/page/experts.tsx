/** Every expert of the model as a square on a canvas, one row a layer: where it is, and what just moved. */
import { useSignal } from '@preact/signals';
import { useEffect, useRef } from 'preact/hooks';
import { onScheme } from './colour-scheme.js';
import { drawSquares, type Look, MOVED_MS, type Place, placeAt } from './expert-squares.js';
import { count } from './numbers.js';
import {
  adminRefused,
  change,
  copyOf,
  type Expert,
  expertsStamp,
  type Layer,
  layers,
  type Recording,
  recording,
} from './server.js';
import { type Token, Tokens, TokenTable } from './token-experts.js';

/** The recorded moments are 50 or 200 ms apart. */
const SLOW_MS = 800;

export function Experts() {
  expertsStamp.value;
  const heat = useSignal(false);
  const moment = useSignal<number | undefined>(undefined);
  const token = useSignal<Token | undefined>(undefined);
  const replayed = useRef<Layer[]>([]);
  const { value: recorded } = recording;
  // A recording that begins again ends the replay of the last one.
  const before = recorded?.before;
  useEffect(() => {
    moment.value = undefined;
  }, [before]);
  if (adminRefused.value !== undefined || layers.value.length === 0) return null;
  const goTo = (at: number | undefined) => {
    if (at !== undefined && recorded !== undefined) {
      const all = copyOf(recorded.before);
      for (const [index, changes] of recorded.moments.slice(0, at + 1).entries())
        change(all, changes, index < at);
      replayed.current = all;
    }
    moment.value = at;
  };
  const shown = moment.value === undefined ? layers.value : replayed.current;
  const all = shown.flatMap(({ experts }) => experts);
  const resident = all.filter(({ state }) => state === 'resident').length;
  return (
    <section class="view-Experts" aria-label="Experts">
      <h2>
        Experts{' '}
        <span id="experts-count" class="quiet">
          {resident} of {all.length} in memory
        </span>
        <button
          type="button"
          id="heat"
          class="tab"
          aria-pressed={heat.value}
          onClick={() => (heat.value = !heat.value)}
        >
          Heat by use
        </button>
      </h2>
      <Canvas
        look={{ layers: shown, heat: heat.value, token: token.value }}
        stamp={`${expertsStamp.value} ${moment.value}`}
      />
      {token.value !== undefined ? (
        <Legend
          of={[
            ['moved', 'took the token'],
            ['named', 'predicted'],
          ]}
        />
      ) : heat.value ? (
        <p class="legend" id="heat-legend">
          never used <i class="heat" /> {count(Math.max(...all.map(({ uses }) => uses)))} times
        </p>
      ) : (
        <Legend
          of={[
            ['resident', 'in memory'],
            ['moved', 'just loaded'],
            ['used', 'just used'],
            ['absent', 'on disk'],
          ]}
        />
      )}
      <Tokens shown={token.value} onShow={(next) => (token.value = next)} />
      {recorded !== undefined && recorded.moments.length > 0 && (
        <Replay recorded={recorded} moment={moment.value} onMoment={goTo} />
      )}
      <details>
        <summary>As a table</summary>
        {token.value === undefined ? <ExpertsTable shown={shown} /> : <TokenTable token={token.value} />}
      </details>
    </section>
  );
}

function ExpertsTable({ shown }: { shown: readonly Layer[] }) {
  return (
    <table id="experts-table">
      <thead>
        <tr>
          <th scope="col">Layer</th>
          <th scope="col">In memory</th>
          <th scope="col">Most used</th>
        </tr>
      </thead>
      <tbody>
        {shown.map(({ name, experts }) => (
          <tr key={name}>
            <th scope="row">{name}</th>
            <td>
              {experts.filter(({ state }) => state === 'resident').length} of {experts.length}
            </td>
            <td>{mostUsed(experts)}</td>
          </tr>
        ))}
      </tbody>
    </table>
  );
}

function Legend({ of }: { of: readonly (readonly [name: string, text: string])[] }) {
  return (
    <ul class="legend">
      {of.map(([name, text]) => (
        <li key={name}>
          <i class={`square ${name}`} /> {text}
        </li>
      ))}
    </ul>
  );
}

interface ReplayProps {
  recorded: Recording;
  /** Undefined: the present is shown. */
  moment: number | undefined;
  onMoment: (at: number | undefined) => void;
}

/** The last answer in slow motion, by itself or moment by moment. */
function Replay({ recorded, moment, onMoment }: ReplayProps) {
  const plays = useSignal(false);
  const still = isStill();
  const last = recorded.moments.length - 1;
  useEffect(() => {
    if (!plays.value || moment === undefined) return;
    if (moment >= last) {
      plays.value = false;
      return;
    }
    const next = setTimeout(() => onMoment(moment + 1), SLOW_MS);
    return () => clearTimeout(next);
  });
  const changes = recorded.moments[moment ?? 0]!;
  const came = changes.filter(([, , state]) => state === 'resident').length;
  return (
    <div id="replay" class="tools">
      <button
        type="button"
        onClick={() => {
          const next = moment === undefined || moment === last ? 0 : moment + 1;
          if (still) return onMoment(next);
          plays.value = !plays.value;
          if (plays.value && next === 0) onMoment(0);
        }}
      >
        {moment === undefined || !(still || plays.value)
          ? 'Replay the last answer slowly'
          : still
            ? 'Next moment'
            : 'Pause'}
      </button>
      {moment !== undefined && (
        <>
          <input
            type="range"
            min={0}
            max={last}
            value={moment}
            aria-label="Moment of the answer"
            onInput={({ currentTarget }) => {
              plays.value = false;
              onMoment(currentTarget.valueAsNumber);
            }}
          />
          <button type="button" onClick={() => onMoment(undefined)}>
            Now
          </button>
          <span id="replay-text" class="quiet">
            Moment {moment + 1} of {last + 1}: {came} in use or loaded, {changes.length - came} evicted
          </span>
        </>
      )}
    </div>
  );
}

/** Whether motion is not wanted. */
const isStill = () => matchMedia('(prefers-reduced-motion: reduce)').matches;

function mostUsed(experts: readonly Expert[]): string {
  return experts
    .map(({ uses }, index) => ({ uses, index }))
    .filter(({ uses }) => uses > 0)
    .sort((a, b) => b.uses - a.uses)
    .slice(0, 3)
    .map(({ uses, index }) => `${index} (${uses})`)
    .join(', ');
}

const STEPS: Record<string, [number, number]> = {
  ArrowLeft: [0, -1],
  ArrowRight: [0, 1],
  ArrowUp: [-1, 0],
  ArrowDown: [1, 0],
};

/** `stamp` changes with what is to be drawn. */
function Canvas({ look, stamp }: { look: Omit<Look, 'pointed'>; stamp: string }) {
  const canvas = useRef<HTMLCanvasElement>(null);
  const painter = useRef(new Painter()).current;
  const pointed = useSignal<Place | undefined>(undefined);
  const { value: place } = pointed;
  painter.look = { ...look, pointed: place };
  useEffect(() => painter.paint(canvas.current), [stamp, look.heat, look.token, place, painter]);
  useEffect(() => {
    const resized = new ResizeObserver(() => painter.paint(canvas.current));
    if (canvas.current !== null) resized.observe(canvas.current.parentElement!);
    const restyled = onScheme(() => painter.paint(canvas.current));
    return () => {
      resized.disconnect();
      restyled();
      painter.stop();
    };
  }, [painter]);
  const step = (event: KeyboardEvent) => {
    const by = STEPS[event.key];
    if (by === undefined) return;
    event.preventDefault();
    const { layer, index } = pointed.peek() ?? { layer: 0, index: -by[1] };
    const next = Math.min(look.layers.length - 1, Math.max(0, layer + by[0]));
    const most = look.layers[next]!.experts.length - 1;
    pointed.value = { layer: next, index: Math.min(most, Math.max(0, index + by[1])) };
  };
  const layer = place && look.layers[place.layer];
  const expert = place && layer?.experts[place.index];
  return (
    <>
      <canvas
        id="experts"
        ref={canvas}
        role="img"
        aria-label="Where each expert is; arrow keys name one, and the table below has all in words"
        tabIndex={0}
        onKeyDown={step}
        onPointerMove={(event) => (pointed.value = placeAt(event, look.layers))}
        onPointerLeave={() => (pointed.value = undefined)}
        onBlur={() => (pointed.value = undefined)}
      />
      <p id="expert" class="quiet" aria-live="polite">
        {expert === undefined
          ? 'Point at an expert to see its name.'
          : `${layer!.name}, expert ${place!.index}: ${expert.state === 'resident' ? 'in memory' : expert.state === 'absent' ? 'on disk' : 'loading'}, used in ${count(expert.uses)} passes`}
      </p>
    </>
  );
}

/** Draws until all that moved has faded. */
class Painter {
  look: Look = { layers: [], heat: false, pointed: undefined, token: undefined };
  #frame = 0;
  #cleared: ReturnType<typeof setTimeout> | undefined;

  stop(): void {
    cancelAnimationFrame(this.#frame);
    clearTimeout(this.#cleared);
  }

  /** Null once the model has been left. */
  paint(canvas: HTMLCanvasElement | null): void {
    this.stop();
    if (canvas === null) return;
    const still = isStill();
    const until = performance.now() + MOVED_MS;
    if (still) this.#cleared = setTimeout(() => drawSquares(canvas, this.look, still), MOVED_MS);
    const next = () => {
      drawSquares(canvas, this.look, still);
      if (!still && performance.now() < until) this.#frame = requestAnimationFrame(next);
    };
    next();
  }
}
