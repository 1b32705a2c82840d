/** Every expert of the model as a square on a canvas, one row a layer: where it is, and what just moved. */
import { useEffect, useRef } from 'preact/hooks';
import { adminRefused, type Expert, expertsStamp, layers } from './server.js';

/** Milliseconds in which a load flashes and an eviction fades. */
const MOVED_MS = 1200;
const USED_MS = 600;
const LABEL = 78;
const GAP = 1;
const MOST_SQUARE = 12;
const LEAST_SQUARE = 2;

export function Experts() {
  expertsStamp.value;
  if (adminRefused.value !== undefined || layers.value.length === 0) return null;
  const all = layers.value.flatMap(({ experts }) => experts);
  const resident = all.filter(({ state }) => state === 'resident').length;
  return (
    <section class="view-Experts" aria-label="Experts">
      <h2>
        Experts{' '}
        <span id="experts-count" class="quiet">
          {resident} of {all.length} in memory
        </span>
      </h2>
      <Canvas />
      <ul class="legend">
        <li>
          <i class="square resident" /> in memory
        </li>
        <li>
          <i class="square moved" /> just loaded
        </li>
        <li>
          <i class="square used" /> just used
        </li>
        <li>
          <i class="square absent" /> on disk
        </li>
      </ul>
      <details>
        <summary>As a table</summary>
        <table id="experts-table">
          <thead>
            <tr>
              <th scope="col">Layer</th>
              <th scope="col">In memory</th>
              <th scope="col">Most used</th>
            </tr>
          </thead>
          <tbody>
            {layers.value.map(({ name, experts }) => (
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
      </details>
    </section>
  );
}

function mostUsed(experts: readonly Expert[]): string {
  return experts
    .map(({ uses }, index) => ({ uses, index }))
    .filter(({ uses }) => uses > 0)
    .sort((a, b) => b.uses - a.uses)
    .slice(0, 3)
    .map(({ uses, index }) => `${index} (${uses})`)
    .join(', ');
}

function Canvas() {
  const canvas = useRef<HTMLCanvasElement>(null);
  const { value: stamp } = expertsStamp;
  const painter = useRef(new Painter()).current;
  // An event of the experts draws anew.
  useEffect(() => painter.paint(canvas.current), [stamp, painter]);
  useEffect(() => {
    const resized = new ResizeObserver(() => painter.paint(canvas.current));
    if (canvas.current !== null) resized.observe(canvas.current.parentElement!);
    return () => {
      resized.disconnect();
      painter.stop();
    };
  }, [painter]);
  return (
    <canvas
      id="experts"
      ref={canvas}
      role="img"
      aria-label="Where each expert is; the table below has it in words"
    />
  );
}

/** Draws until all that moved has faded. */
class Painter {
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
    const still = matchMedia('(prefers-reduced-motion: reduce)').matches;
    const until = performance.now() + MOVED_MS;
    if (still) this.#cleared = setTimeout(() => draw(canvas, still), MOVED_MS);
    const next = () => {
      draw(canvas, still);
      if (!still && performance.now() < until) this.#frame = requestAnimationFrame(next);
    };
    next();
  }
}

function draw(canvas: HTMLCanvasElement, still: boolean): void {
  const width = canvas.parentElement!.clientWidth;
  const most = Math.max(...layers.value.map(({ experts }) => experts.length));
  const square = Math.max(LEAST_SQUARE, Math.min(MOST_SQUARE, Math.floor((width - LABEL) / most) - GAP));
  const columns = Math.max(1, Math.min(most, Math.floor((width - LABEL) / (square + GAP))));
  const lines = Math.ceil(most / columns);
  const row = Math.max(lines * (square + GAP), 8);
  const height = layers.value.length * (row + 2);
  const scale = devicePixelRatio;
  canvas.width = width * scale;
  canvas.height = height * scale;
  canvas.style.height = `${height}px`;
  const context = canvas.getContext('2d')!;
  context.scale(scale, scale);
  const style = getComputedStyle(canvas);
  const colour = (name: string) => style.getPropertyValue(`--${name}`);
  const [text, resident, absent, moved, used] = ['quiet', 'resident', 'absent', 'moved', 'used'].map(colour);
  context.font = '10px system-ui, sans-serif';
  context.textBaseline = 'top';
  const now = performance.now();
  for (const [at, { name, experts }] of layers.value.entries()) {
    const top = at * (row + 2);
    context.fillStyle = text!;
    if (row >= 8 && (row >= 10 || at % 2 === 0)) context.fillText(name, 0, top, LABEL - 6);
    for (const [index, { state, movedAt, usedAt }] of experts.entries()) {
      const x = LABEL + (index % columns) * (square + GAP);
      const y = top + Math.floor(index / columns) * (square + GAP);
      const here = state !== 'absent';
      context.fillStyle = here ? resident! : absent!;
      context.fillRect(x, y, square, square);
      const age = now - movedAt;
      if (age < MOVED_MS) {
        context.globalAlpha = still ? 1 : 1 - age / MOVED_MS;
        context.fillStyle = here ? moved! : resident!;
        context.fillRect(x, y, square, square);
        context.globalAlpha = 1;
      }
      // A mark of another shape, for those who do not tell the colours apart.
      if (now - usedAt < USED_MS) {
        context.strokeStyle = used!;
        context.lineWidth = Math.min(2, square / 3);
        context.strokeRect(x + 0.5, y + 0.5, square - 1, square - 1);
      }
    }
  }
}
