/** Draws the squares of experts, and finds the one under the pointer. */
import type { Layer } from './server.js';
import type { Token } from './token-experts.js';

/** Milliseconds in which a load flashes and an eviction fades. */
export const MOVED_MS = 1200;
const USED_MS = 600;
const LABEL = 78;
const GAP = 1;
const BETWEEN_LAYERS = 2;
const MOST_SQUARE = 12;
const LEAST_SQUARE = 2;

export interface Place {
  layer: number;
  index: number;
}

export interface Look {
  layers: readonly Layer[];
  /** Colours tell how often an expert was used, and not where it is. */
  heat: boolean;
  pointed: Place | undefined;
  /** Colours tell which experts it took, and which were predicted, and nothing else. */
  token: Token | undefined;
}

function gridOf(canvas: HTMLCanvasElement, layers: readonly Layer[]) {
  const width = canvas.parentElement!.clientWidth;
  const most = Math.max(...layers.map(({ experts }) => experts.length));
  const square = Math.max(LEAST_SQUARE, Math.min(MOST_SQUARE, Math.floor((width - LABEL) / most) - GAP));
  const columns = Math.max(1, Math.min(most, Math.floor((width - LABEL) / (square + GAP))));
  const row = Math.max(Math.ceil(most / columns) * (square + GAP), 8);
  return { width, square, columns, row };
}

export function placeAt(
  { offsetX, offsetY, currentTarget }: MouseEvent,
  layers: readonly Layer[],
): Place | undefined {
  const { square, columns, row } = gridOf(currentTarget as HTMLCanvasElement, layers);
  const layer = Math.floor(offsetY / (row + BETWEEN_LAYERS));
  const column = Math.floor((offsetX - LABEL) / (square + GAP));
  const line = Math.floor((offsetY - layer * (row + BETWEEN_LAYERS)) / (square + GAP));
  const index = line * columns + column;
  const here = column >= 0 && column < columns && layers[layer]?.experts[index] !== undefined;
  return here ? { layer, index } : undefined;
}

/** `still`: without animation. */
export function drawSquares(
  canvas: HTMLCanvasElement,
  { layers, heat, pointed, token }: Look,
  still: boolean,
): void {
  const { width, square, columns, row } = gridOf(canvas, layers);
  const height = layers.length * (row + BETWEEN_LAYERS);
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
  const hottest = Math.log1p(
    Math.max(1, ...layers.flatMap(({ experts }) => experts.map(({ uses }) => uses))),
  );
  for (const [at, { name, experts }] of layers.entries()) {
    const top = at * (row + BETWEEN_LAYERS);
    const own = token?.layers.find(({ layer }) => layer === name);
    context.fillStyle = text!;
    if (row >= 8 && (row >= 10 || at % 2 === 0)) context.fillText(name, 0, top, LABEL - 6);
    for (const [index, { state, uses, movedAt, usedAt }] of experts.entries()) {
      const x = LABEL + (index % columns) * (square + GAP);
      const y = top + Math.floor(index / columns) * (square + GAP);
      const fill = (name: string, alpha = 1) => {
        context.globalAlpha = alpha;
        context.fillStyle = name;
        context.fillRect(x, y, square, square);
        context.globalAlpha = 1;
      };
      const frame = () => {
        context.strokeStyle = used!;
        context.lineWidth = Math.min(2, square / 3);
        context.strokeRect(x + 0.5, y + 0.5, square - 1, square - 1);
      };
      const here = state !== 'absent';
      const age = now - movedAt;
      if (token !== undefined) {
        const chosen = own?.chosen.includes(index) ?? false;
        fill(chosen ? moved! : absent!);
        if (own?.predicted?.includes(index)) frame();
      } else if (heat) {
        fill(absent!);
        fill(moved!, Math.log1p(uses) / hottest);
      } else {
        fill(here ? resident! : absent!);
        if (age < MOVED_MS) fill(here ? moved! : resident!, still ? 1 : 1 - age / MOVED_MS);
      }
      // A mark of another shape, for those who do not tell the colours apart.
      if (
        (!heat && token === undefined && now - usedAt < USED_MS) ||
        (pointed?.layer === at && pointed.index === index)
      )
        frame();
    }
  }
}
