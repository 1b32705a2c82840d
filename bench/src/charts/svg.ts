/** Charts as SVG text, without a browser. */
import type { TopLevelSpec } from 'vega-lite';

/** White ground, and text that stays legible at half size. */
const LOOKS = {
  background: 'white',
  font: 'Helvetica, Arial, sans-serif',
  axis: { labelFontSize: 12, titleFontSize: 13, titleFontWeight: 'normal', gridColor: '#e6e6e6' },
  legend: { labelFontSize: 12, titleFontSize: 13, labelLimit: 300 },
  title: { fontSize: 15, anchor: 'start' },
  // Okabe & Ito: told apart by colour-blind readers too.
  range: { category: ['#0072b2', '#d55e00', '#009e73', '#cc79a7', '#e69f00', '#56b4e9'] },
} as const;

/** Draws a Vega-Lite specification; its own `config` wins over the common looks. */
export async function renderSvg(spec: TopLevelSpec): Promise<string> {
  // Loading them takes a moment that commands without a chart need not spend.
  const [{ compile }, { parse, View }] = await Promise.all([import('vega-lite'), import('vega')]);
  const compiled = compile({ ...spec, config: { ...LOOKS, ...spec.config } } as TopLevelSpec).spec;
  const view = new View(parse(compiled), { renderer: 'none' });
  try {
    return await view.toSVG();
  } finally {
    view.finalize();
  }
}
